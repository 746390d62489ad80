"""replay: the agent once more against its record, and where it first does otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.runs.kit import ADD, Ordered, add, measured
from upshot import (
    Agent,
    Answer,
    Approve,
    Budget,
    FinalizeDecision,
    HandoffEvent,
    Message,
    Misuse,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    open_journal,
    replay,
    resume,
    run,
    start,
    tool,
)
from upshot.models import ScriptedModel as Model

TOUCHED: list[str] = []


@tool(effect="destructive")
async def remove(what: str) -> str:
    """Remove something."""
    TOUCHED.append(what)
    return "gone"


class Twice:
    """Has the first attempt done again."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        return FinalizeDecision.revise("Shorter.", "long") if result.attempts == 1 else None


class Never(Model):
    """A model that must not be asked."""

    def __init__(self) -> None:
        super().__init__(["never"])

    async def call(self, request: Any) -> Any:
        TOUCHED.append("model")
        raise AssertionError

    stream = None  # type: ignore[assignment]


def adding(*replies: Any, **changes: Any) -> Agent[Any]:
    model = ScriptedModel(list(replies) or [measured("Let me see.", ADD), "3."])
    return Agent("adding", model=model, tools=[add, remove]).but(**changes)


async def inner(run: Any, host: Any, board: Any) -> Any:
    return (await run.call_model(ModelRequest(board.messages()))).content


async def script(run: Any, host: Any, board: Any) -> Any:
    step = await host.once("step", "write", lambda: TOUCHED.append("step") or 7)
    child = Agent("inner", engine=ScriptEngine(inner), model=run.model)
    said = [(await run.child(child, "?", key=key)).output for key in ("k", None)]
    name = await host.ask_user("Who?", key="who")
    call = ToolCall("c", "remove", {"what": name})
    (outcome,) = await run.tools.dispatch([call])
    reply = await run.call_model(ModelRequest(board.messages()))
    board.append(reply.to_message())
    return [step, said, name, outcome.output]


class Host:
    def ask_user(self, question: str) -> str:
        return "Ada"


def scripted() -> Agent[Any]:
    replies = ["One.", "Two.", "Three."]
    return Agent("s", engine=ScriptEngine(script), model=ScriptedModel(replies), tools=[remove])


@tool(effect="read")
async def tell() -> str:
    """Tell a lot."""
    return "x" * 20_000


def telling() -> Agent[Any]:
    def answer(messages: Sequence[Message]) -> ToolCall | str:
        told = [message.text for message in messages if message.role == "tool"]
        if not told:
            return ToolCall("1", "tell")
        id = json.loads(told[0])["artifact_reference"]
        return ToolCall("2", "read_artifact", {"id": id}) if len(told) == 1 else "Read."

    return Agent("telling", model=ScriptedModel(answer), tools=[tell])


OVER = ToolCall("h", "transfer_to_other", {"reason": "hers", "note": "be kind"})

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "loop": (adding, {}),
    "revised": (
        lambda: adding(measured("Let me see.", ADD), "3.", "4.", deciders=[Twice()]),
        {"max_attempts": 2},
    ),
    "failed": (lambda: adding(ADD), {}),
    "refused": (lambda: adding(ToolCall("1", "add", {"a": "x"}), "Sorry."), {}),
    "stored": (telling, {}),
    "arguments as text": (lambda: adding(ToolCall("1", "add", '{"a": 1, "b": 2}'), "3."), {}),
    "handed over": (lambda: adding(OVER, handoffs=["other"]), {}),
    "turns": (lambda: adding(ADD, ADD, "x"), {"budget": Budget(max_turns=1)}),
    "history": (lambda: adding("Hi."), {"history": [measured("Before.").to_message()]}),
    "script": (scripted, {"approve": lambda _: True, "host": Host()}),
    "prepared": (adding, {"prepare": lambda info, request: _board("other")}),
}


def _board(text: str) -> Any:
    from upshot import Board, Message

    board = Board()
    board.append(Message("user", text))
    return board


async def recorded(name: str) -> tuple[Any, Ordered]:
    make, options = CASES[name]
    journal = Ordered()
    result = await run(make(), Request("?", run_id="r"), journal=journal, **options)
    TOUCHED.clear()
    return result, journal


@pytest.mark.parametrize("name", CASES)
async def test_a_run_that_is_replayed_does_the_same_and_touches_nothing(name: str) -> None:
    result, journal = await recorded(name)
    make, options = CASES[name]
    length = len(journal.order)
    agent = make().but(model=Never())
    given = {"budget": options["budget"]} if "budget" in options else {}
    told = await replay("r", agent, journal=journal, **given)
    assert told.difference is None
    assert (told.same, told.run_id) == (True, "r")
    assert told.compared > 2
    assert (told.result.status, told.result.output) == (result.status, result.output)
    assert told.result.messages == result.messages
    assert len(told.result.tool_outcomes) == len(result.tool_outcomes)
    assert TOUCHED == []
    assert len(journal.order) == length


@pytest.mark.parametrize("name", ["loop", "revised"])
async def test_a_run_that_was_cut_off_is_replayed_as_far_as_it_goes(name: str) -> None:
    result, journal = await recorded(name)
    make, _ = CASES[name]
    for length in range(2, len(journal.order)):
        before = journal.cut(length)
        assert (await replay("r", make(), journal=before)).difference is None, length
        after = await resume("r", make(), journal=before)
        assert after.output == result.output
        assert (await replay("r", make(), journal=before)).difference is None, length


async def test_a_run_that_was_stopped_is_replayed_to_where_it_was() -> None:
    class Hanging(Model):
        async def call(self, request: Any) -> Any:
            if len(request.messages) > 1:
                await asyncio.Event().wait()
            return await super().call(request)

    journal = Ordered()
    agent = adding(model=Hanging([measured("Let me see.", ADD)]))
    async with start(agent, Request("?", run_id="r"), journal=journal) as live:
        async for event in live:
            if event.kind == "tool_settled":
                live.cancel()
        assert (await live.result()).status is Status.CANCELED
    told = await replay("r", agent.but(model=Never()), journal=journal)
    assert told.difference is None
    changed = await replay("r", agent.but(model=Never(), tools=[remove]), journal=journal)
    assert changed.difference is not None


async def test_a_parked_run_is_replayed_to_where_it_waits() -> None:
    journal, calls = Ordered(), [ADD, ToolCall("r", "remove", {"what": "x"})]
    parked = await run(adding(calls, "Done."), Request("?", run_id="r"), journal=journal)
    told = await replay("r", adding(), journal=journal)
    assert told.difference is None
    assert told.result.status is Status.INPUT_REQUIRED
    assert [one.id for one in told.result.pending] == [one.id for one in parked.pending]
    await resume("r", adding(calls, "Done."), journal=journal, answers=[Approve("r")])
    TOUCHED.clear()
    told = await replay("r", adding(), journal=journal)
    assert (told.difference, told.result.content, TOUCHED) == (None, "Done.", [])


async def test_answers_come_from_the_record() -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Who?")

    agent, journal = Agent("a", engine=ScriptEngine(ask)), Ordered()
    parked = await run(agent, Request("?", run_id="r"), journal=journal)
    answers = [Answer(parked.pending[0].id, "Ada")]
    await resume("r", agent, journal=journal, answers=answers)
    told = await replay("r", agent, journal=journal)
    assert (told.difference, told.result.output) == (None, "Ada")


DIFFERENT: dict[str, tuple[Any, str, str]] = {
    "another question": (
        lambda run, host, board: run.call_model(ModelRequest((*board.messages(),) * 2)),
        "model_started",
        "",
    ),
    "no question": (lambda run, host, board: "3.", "model_started", ""),
    "another tool": (
        lambda run, host, board: run.tools.dispatch([ToolCall("c", "remove", {"what": "x"})]),
        "model_started",
        "a call 'c' of remove with {'what': 'x'}",
    ),
    "another step": (
        lambda run, host, board: host.once("new", "write", lambda: TOUCHED.append("new")),
        "model_started",
        "a step 'new'",
    ),
    "a run inside": (
        lambda run_, host, board: run_.child(Agent("a", model=Never()), "?"),
        "model_started",
        "a run inside",
    ),
    "a run inside by hand": (
        lambda run_, host, board: run(Agent("a", model=Never()), "?"),
        "model_started",
        "a run inside",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
async def test_the_first_difference_is_told(name: str) -> None:
    work, kind, asked = DIFFERENT[name]
    _, journal = await recorded("loop")
    told = await replay("r", adding(engine=ScriptEngine(work)), journal=journal)
    assert told.difference is not None
    assert (told.difference.kind, told.difference.asked) == (kind, asked)
    assert journal.order[told.difference.seq - 1].kind == kind
    assert not told.same
    assert TOUCHED == []


async def test_a_call_with_other_arguments_is_told() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        reply = await run.call_model(ModelRequest(board.messages(), tools=run.schemas))
        board.append(reply.to_message())
        await run.tools.dispatch([ToolCall("call-1", "add", {"a": 1, "b": 3})])

    _, journal = await recorded("loop")
    told = await replay("r", adding(engine=ScriptEngine(work)), journal=journal)
    assert told.difference is not None
    said = {"kind": "tool_settled", "call_id": "call-1", "tool_name": "add"}
    assert told.difference.recorded == said
    assert told.difference.asked == "a call 'call-1' of add with {'a': 1, 'b': 3}"


async def test_both_sides_of_a_difference_have_one_form() -> None:
    _, journal = await recorded("loop")
    other = ScriptedModel(["3."], name="scripted:other")
    told = (await replay("r", adding(model=other), journal=journal)).difference
    assert told is not None
    assert isinstance(told.recorded, dict)
    assert isinstance(told.replayed, dict)
    assert told.kind == told.recorded["kind"] == told.replayed["kind"] == "model_started"
    assert told.recorded.keys() == told.replayed.keys()


def calling(arguments: Any, reason: str = "") -> Agent[Any]:
    """Calls a tool from a script, and hands over."""

    async def work(run: Any, host: Any, board: Any) -> Any:
        (outcome,) = await run.tools.dispatch([ToolCall("c", "add", arguments)])
        host.publish(HandoffEvent(to_agent_id="other", reason=reason))
        return outcome.output

    return Agent("calling", engine=ScriptEngine(work), tools=[add])


async def test_arguments_are_the_same_as_text_and_as_a_mapping() -> None:
    journal = Ordered()
    done = await run(calling('{"a": 1, "b": 2}'), "?", journal=journal)
    assert (await replay(done.run_id, calling({"b": 2, "a": 1}), journal=journal)).same


async def test_another_reason_to_hand_over_is_told() -> None:
    journal = Ordered()
    done = await run(calling({"a": 1, "b": 2}, "hers"), "?", journal=journal)
    told = await replay(done.run_id, calling({"a": 1, "b": 2}, "his"), journal=journal)
    assert told.difference is not None
    assert told.difference.kind == "handoff"


async def test_another_decision_is_told() -> None:
    _, journal = await recorded("loop")
    told = await replay("r", adding(deciders=[Twice()]), journal=journal)
    assert told.difference is not None
    assert told.difference.replayed is not None
    assert told.difference.replayed["kind"] == "decided"  # type: ignore[index, call-overload]


async def test_a_replay_inside_a_run_is_misuse() -> None:
    journal = Ordered()
    await run(adding(), Request("?", run_id="r"), journal=journal)

    async def look(run: Any, host: Any, board: Any) -> None:
        await replay("r", adding(), journal=journal)

    result = await run(Agent("a", engine=ScriptEngine(look)), "?")
    assert result.error is not None
    assert (result.error.type, "inside a run" in result.error.message) == ("Misuse", True)


async def test_a_run_of_an_engine_that_takes_no_replies_is_misuse() -> None:
    class Alone:
        can_replay = False

        async def execute(self, run: Any, host: Any, board: Any) -> str:
            return "done"

    agent = Agent("a", engine=Alone())
    async with open_journal("memory:") as journal:
        result = await run(agent, "?", journal=journal)
        with pytest.raises(Misuse, match="a run of Alone cannot be replayed"):
            await replay(result.run_id, agent, journal=journal)


async def test_a_run_that_is_not_there_is_misuse() -> None:
    with pytest.raises(Misuse, match="no run"):
        await replay("r", adding(), journal=Ordered())


@tool(name="add", effect="read")
async def other_add(a: int, b: int, c: int = 0) -> int:
    """Add three numbers."""
    return a + b + c


@pytest.mark.parametrize(
    ("changes", "seq", "kind", "recorded"),
    [
        ({"instructions": "Be kind."}, 1, "run_started", {"instructions": "Be brief."}),
        ({"tools": [remove]}, None, "tool_settled", {"tool_name": "add"}),
        ({"tools": [remove, add]}, 1, "run_started", {"tools": ["add", "remove"]}),
        ({"handoffs": ["other"]}, 1, "run_started", {"handoffs": []}),
        ({"tools": [other_add, remove]}, None, "tool_settled", {"tool_name": "add"}),
        ({"name": "Another"}, None, "", None),
    ],
    ids=["instructions", "fewer tools", "order", "handoffs", "tool", "name"],
)
async def test_a_changed_agent_is_a_difference(
    changes: dict[str, Any], seq: int | None, kind: str, recorded: dict[str, Any] | None
) -> None:
    journal = Ordered()
    agent = adding(instructions="Be brief.")
    done = await run(agent, "1 and 2?", journal=journal)
    again = await replay(done.run_id, agent.but(**changes), journal=journal)
    if again.difference is None:
        assert recorded is None
        return
    told = again.difference
    assert told.kind == kind
    assert seq in (None, told.seq)
    said = told.recorded
    assert isinstance(said, dict)
    assert recorded == {name: said.get(name) for name in recorded or {}}


async def test_a_tool_of_the_call_that_is_not_given_again_is_a_difference() -> None:
    journal = Ordered()
    agent = adding(tools=None)
    done = await run(agent, "1 and 2?", journal=journal, tools=[add])
    assert (await replay(done.run_id, agent, journal=journal, tools=[add])).same
    told = (await replay(done.run_id, agent, journal=journal)).difference
    assert told is not None
    assert (told.kind, told.replayed) == ("tool_settled", None)


async def test_outcomes_that_came_before_one_that_waited_for_people_are_no_difference() -> None:
    calls = [ToolCall("1", "remove", {"what": "it"}), ToolCall("2", "add", {"a": 1, "b": 2})]
    agent = adding(calls, "3.")
    journal = Ordered()
    await run(agent, Request("?", run_id="r"), journal=journal)
    done = await resume("r", agent, journal=journal, answers=[Approve("1")])
    assert [m.tool_call_id for m in done.messages if m.role == "tool"] == ["2", "1"]
    assert (await replay("r", adding(calls, "3."), journal=journal)).difference is None


async def test_outcomes_that_came_so_and_are_others_now_are_told() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a - b

    calls = [ToolCall("1", "remove", {"what": "it"}), ToolCall("2", "add", {"a": 1, "b": 2})]
    journal = Ordered()
    await run(adding(calls, "3."), Request("?", run_id="r"), journal=journal)
    await resume("r", adding(calls, "3."), journal=journal, answers=[Approve("1")])
    changed = adding(calls, "3.").but(tools=[add, remove])
    assert (await replay("r", changed, journal=journal)).difference is not None


PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "the model": ("model", {"model": ScriptedModel(["3."], name="scripted:other")}),
    "instructions": ("instructions", {"instructions": lambda run: "Be kind."}),
    "a tool's words": ("tools", {"tools": [other_add, remove]}),
    "settings": ("settings", {"settings": ModelSettings(temperature=0.5)}),
    "the form of the answer": ("settings", {"output_type": dict[str, int]}),
}


@pytest.mark.parametrize("name", PARTS)
async def test_the_first_part_of_a_request_that_differs_is_named(name: str) -> None:
    part, changes = PARTS[name]
    journal = Ordered()
    agent = adding(instructions=lambda run: "Be brief.")
    done = await run(agent, "1 and 2?", journal=journal)
    told = (await replay(done.run_id, agent.but(**changes), journal=journal)).difference
    assert told is not None
    assert told.part == part


async def test_the_first_message_that_differs_is_named() -> None:
    class Worded:
        """Puts a message of its own before the last one of the second request."""

        def __init__(self, word: str) -> None:
            self.word = word

        def before_model(self, info: Any, request: Any) -> Any:
            first, *rest = request.messages
            if not rest:
                return None
            return replace(
                request, messages=(first, rest[0], Message("user", self.word), *rest[1:])
            )

    journal = Ordered()
    agent = adding(deciders=[Worded("Be quick.")])
    done = await run(agent, "1 and 2?", journal=journal)
    assert (await replay(done.run_id, agent, journal=journal)).same
    changed = agent.but(deciders=[Worded("Be slow.")])
    told = (await replay(done.run_id, changed, journal=journal)).difference
    assert told is not None
    assert (told.kind, told.part) == ("model_started", "messages")
    assert told.recorded["messages"]["index"] == 2  # type: ignore[index, call-overload]
    fewer = (await replay(done.run_id, agent.but(deciders=[]), journal=journal)).difference
    assert fewer is not None
    assert fewer.replayed["messages"] == {  # type: ignore[index, call-overload]
        "index": 2,
        "role": "tool",
        "text": '{"result":3}',
    }


async def test_secrets_in_a_request_are_no_difference_whoever_replays() -> None:
    journal = Ordered()
    agent = adding(instructions="Say hush-hush.")
    done = await run(agent, "hush-hush?", journal=journal, secrets=["hush-hush"])
    assert (await replay(done.run_id, agent, journal=journal, secrets=["hush-hush"])).same
    masked = await replay(done.run_id, agent, journal=journal)
    assert masked.difference is None or masked.difference.part == "instructions"


async def test_a_resumed_run_offers_to_read_what_was_stored_before() -> None:
    offers: list[list[str]] = []

    class Offered(Model):
        async def call(self, request: Any) -> Any:
            offers.append([tool.name for tool in request.tools])
            return await super().call(request)

    def agent() -> Agent[Any]:
        replies: list[Any] = [
            ToolCall("1", "tell"),
            ToolCall("2", "remove", {"what": "x"}),
            "Read.",
        ]
        return Agent("a", model=Offered(replies), tools=[tell, remove])

    journal = Ordered()
    await run(agent(), Request("?", run_id="r"), journal=journal)
    await resume("r", agent(), journal=journal, answers=[Approve("2")])
    assert offers == [["tell", "remove"], *[["tell", "remove", "read_artifact"]] * 2]


async def test_calls_of_a_reply_that_a_filter_cut_replay_alike() -> None:
    def filtered() -> Agent[Any]:
        calls = [ToolCall(id, "add", {"a": 1, "b": 2}) for id in "xy"]
        cut = ModelResponse(content="Hm", tool_calls=calls, finish_reason="content_filter")
        return adding(cut)

    journal = Ordered()
    result = await run(filtered(), Request("?", run_id="r"), journal=journal)
    assert [one.kind for one in result.tool_outcomes] == ["tool_denied", "tool_denied"]
    told = await replay("r", filtered(), journal=journal)
    assert told.difference is None
