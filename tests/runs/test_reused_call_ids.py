"""Call ids that are used again: each call keeps its own outcome, question and place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    AgentResult,
    Approve,
    Graph,
    GraphEngine,
    LoopEngine,
    Parked,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    replay,
    resume,
    run,
    tool,
)
from upshot.engines import Node, Parallel

DONE, UNKNOWN = "tool_execution_result", "tool_failure"
DID: Counter[int] = Counter()
Make = Callable[[], Agent[Any]]


@tool(effect="write")
async def put(x: int) -> str:
    """Put."""
    DID[x] += 1
    # What comes later is done sooner.
    for _ in range(9 // x):
        await asyncio.sleep(0)
    return f"put {x}"


@tool(effect="write", approval=True)
async def pay(x: int) -> str:
    """Pay."""
    DID[x] += 1
    return f"paid {x}"


@tool(effect="read")
async def look(x: int) -> str:
    """Look."""
    return f"seen {x}"


def call(name: str, x: int) -> ToolCall:
    return ToolCall("c", name, {"x": x})


def scripted(script: Any, *replies: Any) -> Make:
    model = ScriptedModel
    tools = [put, pay, look]
    return lambda: Agent("a", engine=ScriptEngine(script), model=model(replies), tools=tools)


async def loop(run: Any, host: Any, board: Any) -> None:
    await LoopEngine().execute(run, host, board)


async def whole(make: Make) -> tuple[AgentResult[Any], Ordered]:
    journal = Ordered()
    result = await run(make(), Request("?", run_id="r"), journal=journal)
    return result, journal


def after(journal: Ordered, kind: str, number: int = 1) -> Ordered:
    """What *journal* held when its process died after the event of that kind and number."""
    places = [at for at, event in enumerate(journal.order, 1) if event.kind == kind]
    DID.clear()
    return journal.cut(places[number - 1])


async def approved(make: Make, result: AgentResult[Any], journal: Ordered) -> AgentResult[Any]:
    asked: tuple[Any, ...] = result.pending
    answers = [Approve(one.id, digest=one.digest) for one in asked]
    return await resume("r", make(), journal=journal, answers=answers)


async def test_an_answer_is_not_about_later_calls_of_the_same_id() -> None:
    replies = [measured(None, call(*one)) for one in (("pay", 5), ("pay", 6), ("put", 1))]
    make = scripted(loop, *replies, measured("Done."))
    DID.clear()
    result, journal = await whole(make)
    asked: list[Any] = []
    while result.status is Status.INPUT_REQUIRED and len(asked) < 5:
        asked += [one.arguments for one in result.pending]
        result = await approved(make, result, journal)
    assert (asked, result.status) == ([{"x": 5}, {"x": 6}], Status.COMPLETED)
    assert (DID, result.warnings) == ({5: 1, 6: 1, 1: 1}, ())


async def test_a_question_stays_though_a_call_of_its_id_settles_beside_it() -> None:
    def node(name: str, x: int) -> Node:
        async def work(board: Any, run: Any) -> Any:
            outcomes = await run.tools.dispatch([call(name, x)])
            if not outcomes:
                raise Parked(*run.tools.pending)
            return outcomes[0].kind

        return Node(work, output=name)

    graph = Graph({"n": Parallel({"a": node("pay", 5), "b": node("put", 6)})})

    def make() -> Agent[Any]:
        return Agent("a", engine=GraphEngine(graph), tools=[put, pay])

    DID.clear()
    result, journal = await whole(make)
    result = await approved(make, result, journal)
    assert (result.status, DID) == (Status.COMPLETED, {5: 1, 6: 1})


async def beside(run: Any, host: Any, board: Any) -> list[str]:
    made = await asyncio.gather(*[run.tools.dispatch([call("put", x)]) for x in (1, 9)])
    return [outcomes[0].kind for outcomes in made]


async def test_the_outcome_of_a_call_is_not_that_of_another_under_way_with_its_id() -> None:
    make = scripted(beside)
    _, journal = await whole(make)
    cut = after(journal, "tool_settled")
    result = await resume("r", make(), journal=cut)
    assert (result.output, DID) == ([UNKNOWN, DONE], {})
    assert [warning.code for warning in result.warnings] == ["effect_unknown"]


async def test_a_call_that_was_taken_for_another_is_not_made_either() -> None:
    is_slow = True

    async def script(run: Any, host: Any, board: Any) -> None:
        async def first() -> None:
            for _ in range(50 if is_slow else 0):
                await asyncio.sleep(0)
            await run.tools.dispatch([call("put", 1)])

        await asyncio.gather(first(), run.tools.dispatch([call("put", 9)]))

    make = scripted(script)
    _, journal = await whole(make)
    cut, is_slow = after(journal, "tool_settled"), False
    result = await resume("r", make(), journal=cut)
    assert DID == {}
    assert [warning.code for warning in result.warnings] == ["replay_diverged"]


async def test_a_call_that_ran_again_had_begun_once() -> None:
    async def script(run: Any, host: Any, board: Any) -> list[Any]:
        return [(await run.tools.dispatch([call("look", x)]))[0].output for x in (1, 2)]

    make = scripted(script)
    _, journal = await whole(make)
    journal = after(journal, "tool_started")
    await resume("r", make(), journal=journal)
    result = await resume("r", make(), journal=after(journal, "tool_settled"))
    assert result.output == [{"result": "seen 1"}, {"result": "seen 2"}]
    assert result.warnings == ()


async def test_the_second_call_with_an_id_runs_though_the_first_one_settled() -> None:
    make = scripted(loop, measured(None, call("put", 1), call("put", 2)), measured("Done."))
    _, journal = await whole(make)
    cut = after(journal, "tool_settled")
    result = await resume("r", make(), journal=cut)
    assert (DID, result.warnings) == ({2: 1}, ())


@pytest.mark.parametrize("kind", ["tool_started", "tool_settled"])
async def test_a_call_that_is_left_open_gets_no_outcome_of_an_earlier_one(kind: str) -> None:
    async def script(run: Any, host: Any, board: Any) -> None:
        await loop(run, host, board)
        board.append((await run.call_model("And?")).to_message())
        raise RuntimeError("broken")

    replies = [measured(None, call("put", 1)), measured("One."), measured(None, call("put", 2))]
    make = scripted(script, *replies)
    _, journal = await whole(make)
    result = await resume("r", make(), journal=after(journal, kind))
    last = result.tool_records[-1]
    assert (last.arguments_given, last.outcome.kind) == ({"x": 2}, "tool_denied")
    assert "cancelled" in result.messages[-1].text


@pytest.mark.parametrize("engine", [LoopEngine(), ScriptEngine(loop)], ids=["loop", "script"])
async def test_a_call_that_waits_is_not_answered_by_the_denial_of_another_of_its_id(
    engine: Any,
) -> None:
    asked = measured(None, call("pay", 5), call("look", 6))

    def make() -> Agent[Any]:
        model = ScriptedModel(lambda said: "Done." if said[-1].role == "tool" else asked)
        return Agent("a", engine=engine, model=model, tools=[put, pay, look])

    DID.clear()
    result, journal = await whole(make)
    result = await approved(make, result, journal)
    assert DID == {5: 1}
    assert [message.role for message in result.messages].count("tool") == 2


@pytest.mark.parametrize("in_step", [False, True])
async def test_calls_side_by_side_replay_alike(in_step: bool) -> None:
    async def script(run: Any, host: Any, board: Any) -> None:
        async def second() -> str:
            (outcome,) = await run.tools.dispatch([ToolCall("d", "put", {"x": 9})])
            return outcome.kind

        await asyncio.gather(
            run.tools.dispatch([ToolCall("c", "put", {"x": 1})]),
            host.once("k", "write", second, idempotent=True) if in_step else second(),
        )

    make = scripted(script)
    _, journal = await whole(make)
    told = await replay("r", make(), journal=journal)
    assert told.difference is None
