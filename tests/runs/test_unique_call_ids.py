"""Providers that use ids of calls again: each call of a run has an id of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    LoopEngine,
    Message,
    ModelResponse,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolCallDelta,
    ToolStarted,
    decode,
    encode,
    resume,
    run,
    start,
    tool,
)
from upshot.contract.events import Event
from upshot.state.call_ids import StreamedIds, with_unique_ids

WIPED: list[str] = []


@tool(effect="write", approval=True)
async def wipe(what: str) -> str:
    """Wipe."""
    WIPED.append(what)
    return f"wiped {what}"


@tool(effect="write")
async def put(what: str) -> str:
    """Put."""
    WIPED.append(what)
    return f"put {what}"


@pytest.fixture(autouse=True)
def nothing_is_wiped() -> None:
    WIPED.clear()


def call(name: str, what: str, id: str = "c") -> ToolCall:
    return ToolCall(id, name, {"what": what})


async def loop(run: Any, host: Any, board: Any) -> None:
    await LoopEngine().execute(run, host, board)


ENGINES = pytest.mark.parametrize("engine", [None, ScriptEngine(loop)], ids=["loop", "script"])


def make(*replies: Any, engine: Any = None) -> Agent[Any]:
    given: Any = [*replies, measured("Done.")]
    return Agent("a", model=ScriptedModel(given), tools=[wipe, put], engine=engine)


@ENGINES
@pytest.mark.parametrize("first", ["a", "b"])
async def test_an_approval_is_about_one_of_two_calls_with_one_id(first: str, engine: Any) -> None:
    agent, journal = (
        make(measured(None, call("wipe", "a"), call("wipe", "b")), engine=engine),
        Ordered(),
    )
    result = await run(agent, Request("?", run_id="r"), journal=journal)
    pending: Any = result.pending
    asked = {one.arguments["what"]: one for one in pending}
    result = await resume("r", agent, journal=journal, answers=[asked[first].approve()])
    assert (WIPED, result.warnings) == ([first], ())
    other = ({"a", "b"} - {first}).pop()
    result = await resume("r", agent, journal=journal, answers=[asked[other].deny("no")])
    kinds = {"a": "tool_denied", "b": "tool_denied", first: "tool_execution_result"}
    assert [one.kind for one in result.tool_outcomes] == [kinds["a"], kinds["b"]]
    assert (WIPED, result.warnings) == ([first], ())


@ENGINES
async def test_ids_are_unique_across_turns_and_are_sent_back_so(engine: Any) -> None:
    sent: list[Message] = []

    def answer(messages: Sequence[Message]) -> Any:
        sent[:] = messages
        replies = [call("put", "a"), call("put", "b"), "Done."]
        return replies[sum(one.role == "assistant" for one in messages) - 1]

    told = [Message("user", "Hi"), Message("assistant", (call("put", "x"),))]
    told.append(Message("tool", "put x", tool_call_id="c", name="put"))
    agent = Agent("a", model=ScriptedModel(answer), tools=[put], engine=engine)
    result = await run(agent, "?", history=told)
    calls = [one for message in sent for one in message.tool_calls]
    assert [one.tool_call_id for one in sent if one.tool_call_id] == [one.id for one in calls]
    assert len({one.id for one in calls}) == 3
    assert [one.given_id or one.id for one in calls] == ["c", "c", "c"]
    assert [one.call_id for one in result.tool_outcomes] == [one.id for one in calls[1:]]


async def test_the_next_turn_of_a_conversation_uses_other_ids() -> None:
    journal, ids = Ordered(), list[str]()
    for _ in range(3):
        agent = make(measured(None, call("put", "a"), call("put", "b")))
        result = await run(agent, Request("?", context_id="talk"), journal=journal)
        ids += [one.call_id for one in result.tool_outcomes]
    assert len({*ids}) == 6


async def test_a_resumed_run_gives_the_ids_that_it_would_have_given() -> None:
    replies = [measured(None, call("put", one), call("put", one + "!")) for one in "ab"]
    journal = Ordered()
    whole = await run(make(*replies), Request("?", run_id="r"), journal=journal)
    for length, event in enumerate(journal.order, 1):
        if event.kind not in ("model_replied", "tool_settled"):
            continue
        cut = journal.cut(length)
        again = await resume("r", make(*replies), journal=cut)
        assert [one.call_id for one in again.tool_outcomes] == [
            one.call_id for one in whole.tool_outcomes
        ]


async def test_pieces_of_a_call_have_the_id_of_the_call() -> None:
    replies = [measured(None, call("put", one), call("put", one + "!")) for one in "ab"]
    shown, started = list[str](), list[str]()
    async with start(make(*replies), "?") as live:
        async for event in live:
            if isinstance(event, ToolCallDelta) and event.call_id not in shown:
                shown.append(event.call_id)
            elif isinstance(event, ToolStarted):
                started.append(event.call.id)
    assert (shown, len({*shown})) == (started, 4)


@pytest.mark.parametrize("kind", ["run_settled", "approval_requested", "tool_started"])
async def test_an_older_log_with_one_id_for_two_calls_has_neither_made(kind: str) -> None:
    """Which of the two an answer or a start was about is not known."""
    name = "put" if kind == "tool_started" else "wipe"
    reply, journal = measured(None, call(name, "a"), call(name, "b")), Ordered()
    result = await run(make(reply), Request("?", run_id="r"), journal=journal)
    pending: Any = result.pending[:1]
    answers = [one.approve() for one in pending] if kind == "run_settled" else []
    older = _older(journal, kind)
    WIPED.clear()
    result = await resume("r", make(reply), journal=older, answers=answers)
    assert (WIPED, result.status) == ([], "completed")
    assert len(result.tool_outcomes) == 2
    effects = {str(one.effect) for one in result.tool_outcomes}
    assert effects == {"unknown" if kind == "tool_started" else "none"}


def _older(journal: Ordered, kind: str) -> Ordered:
    """What an earlier version would have written, up to the first event of *kind*."""
    older = Ordered()
    for event in journal.order:
        text = encode(event).decode().replace(',"given_id":"c"', "").replace('"c_2"', '"c"')
        older.append(cast("Event", decode(text, Event)))
        if event.kind == kind:
            break
    return older


def test_a_call_without_an_id_gets_one() -> None:
    reply = ModelResponse(tool_calls=[call("put", "a", ""), call("put", "b", "")])
    ids = [one.id for one in with_unique_ids(reply, set()).tool_calls]
    assert all(ids)
    assert len({*ids}) == 2


def test_a_reply_whose_ids_are_new_stays_as_it_is() -> None:
    reply = ModelResponse(tool_calls=[call("put", "a", "c"), call("put", "b", "d")])
    assert with_unique_ids(reply, set()) is reply


def test_an_id_that_looks_like_a_made_one_is_not_given_twice() -> None:
    ids = {"c", "c_4", "d"}
    reply = ModelResponse(tool_calls=[call("put", "a"), call("put", "b")])
    reply = with_unique_ids(reply, ids)
    own = [one.id for one in reply.tool_calls]
    streamed = StreamedIds(ids)
    pieces = [ToolCallDelta(index=at, call_id="c") for at in (0, 1, 0)]
    assert [streamed.make_unique(one).call_id for one in pieces] == [*own, own[0]]
    assert len({"c", "c_4", "d", *own}) == 5
