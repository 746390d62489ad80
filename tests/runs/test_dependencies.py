"""Dependencies that a factory of the agent makes: once a session, and let go of with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.runs.kit import Ordered
from upshot import (
    Agent,
    Approve,
    Budget,
    Graph,
    GraphEngine,
    Handoff,
    Misuse,
    Node,
    Request,
    RunInfo,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolContext,
    replay,
    resume,
    run,
    run_with_handoffs,
    tool,
)
from upshot.runs.plan import MadeBy

SEEN: list[object] = []
LIFE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()
    LIFE.clear()


@tool(effect="read")
async def look(ctx: ToolContext[Any]) -> str:
    """Look."""
    SEEN.append(ctx.dependencies)
    LIFE.append("look")
    return "seen"


@tool(effect="write", approval=True)
async def pay(ctx: ToolContext[Any]) -> str:
    """Pay."""
    SEEN.append(ctx.dependencies)
    return "paid"


def agent(id: str = "a", *, call: str = "look", **fields: Any) -> Agent[Any]:
    model = ScriptedModel([ToolCall(f"c-{id}", call, {}), "Done."])
    return Agent(id, model=model, tools=[look, pay], **fields)


@asynccontextmanager
async def desk(info: RunInfo) -> AsyncGenerator[str]:
    LIFE.append("open")
    try:
        yield f"desk of {info.run_id}"
    finally:
        LIFE.append("closed")


def plain(info: RunInfo) -> str:
    LIFE.append("made")
    return f"desk of {info.run_id}"


def given(value: object) -> Callable[[RunInfo], object]:
    return lambda info: value


async def awaited(info: RunInfo) -> str:
    return plain(info)


@pytest.mark.parametrize("factory", [plain, awaited, desk], ids=["sync", "async", "managed"])
async def test_a_factory_makes_them_once_of_the_identity_of_the_run(
    factory: Callable[[RunInfo], Any],
) -> None:
    result = await run(agent(dependencies=factory), Request("?", run_id="r"), max_attempts=2)
    assert (result.content, SEEN) == ("Done.", ["desk of r"])
    assert (["open", "look", "closed"] if factory is desk else ["made", "look"]) == LIFE


async def test_what_the_call_gives_wins_and_the_factory_is_not_called() -> None:
    await run(agent(dependencies=plain), "?", dependencies="given")
    assert (SEEN, LIFE) == (["given"], ["look"])


async def test_a_resume_needs_none_by_hand() -> None:
    journal, paying = Ordered(), agent(call="pay", dependencies=desk)
    await run(paying, Request("?", run_id="r"), journal=journal)
    assert LIFE == ["open", "closed"]
    with pytest.raises(Misuse, match=r"or --dependencies FILE\.py:NAME"):
        await resume("r", agent(call="pay"), journal=journal, answers=[Approve("c-a")])
    done = await resume("r", paying, journal=journal, answers=[Approve("c-a")])
    assert (done.content, SEEN) == ("Done.", ["desk of r"])
    assert LIFE == ["open", "closed"] * 2
    assert (await replay("r", paying, journal=journal)).same
    assert LIFE == ["open", "closed"] * 2


async def test_tools_of_a_resumed_run_that_had_calls_before_get_what_was_made_anew() -> None:
    model = ScriptedModel([ToolCall("l", "look", {}), ToolCall("p", "pay", {}), "Done."])
    journal, number = Ordered(), iter(range(9))
    paying = Agent(
        "a", model=model, tools=[look, pay], dependencies=lambda info: (info.run_id, next(number))
    )
    await run(paying, Request("?", run_id="r"), journal=journal)
    await resume("r", paying, journal=journal, answers=[Approve("p")])
    assert SEEN == [("r", 0), ("r", 1)]


async def raising(info: RunInfo) -> str:
    raise ConnectionError("no desk today")


@asynccontextmanager
async def raising_inside(info: RunInfo) -> AsyncGenerator[str]:
    LIFE.append("open")
    raise ConnectionError("no desk today")
    yield ""


@pytest.mark.parametrize("factory", [raising, raising_inside])
async def test_a_factory_that_raises_fails_the_run_before_a_model_is_asked(
    factory: Callable[[RunInfo], Any],
) -> None:
    journal = Ordered()
    result = await run(agent(dependencies=factory), Request("?", run_id="r"), journal=journal)
    assert (result.status, result.error and result.error.message) == (
        Status.FAILED,
        "no desk today",
    )
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("server_error", True)
    assert result.error.details["raised_by"] == "dependencies"
    kinds = [event.kind for event in journal.order]
    assert "model_started" not in kinds
    assert (kinds[0], kinds[-1]) == ("run_started", "run_settled")
    assert (await resume("r", agent(dependencies=factory), journal=journal)).error == result.error


async def test_a_replay_makes_none_whoever_named_the_factory() -> None:
    async def script(run: Any, host: Any, board: Any) -> str:
        SEEN.append(run.dependencies)
        return "done"

    journal, by_call = Ordered(), MadeBy(plain)
    working = Agent[Any]("a", engine=ScriptEngine(script))
    asked: Any = {"journal": journal, "dependencies": by_call}
    await run(working, Request("?", run_id="r"), **asked)
    assert (await replay("r", working, **asked)).same
    assert (SEEN, LIFE) == (["desk of r", None], ["made"])


async def test_a_factory_that_returns_nothing_is_told() -> None:
    result = await run(agent(dependencies=given(None)), "?")
    assert result.error is not None
    assert result.error.message == (
        "dependencies returned None: return the object for context.dependencies"
    )


async def test_a_factory_has_no_longer_than_the_run() -> None:
    async def hangs(info: RunInfo) -> str:
        await asyncio.Event().wait()
        return ""

    result = await run(agent(dependencies=hangs), "?", budget=Budget(deadline_s=0.02))
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, "timeout")


async def test_what_raises_when_it_is_closed_is_a_warning() -> None:
    @asynccontextmanager
    async def broken(info: RunInfo) -> AsyncGenerator[int]:
        yield 1
        raise OSError("the desk is stuck")

    result = await run(agent(dependencies=broken), "?")
    assert (result.content, [one.code for one in result.warnings]) == (
        "Done.",
        ["dependencies_failed"],
    )
    assert result.warnings[0].message == (
        "what dependencies opened raised OSError: the desk is stuck"
    )


async def test_it_is_closed_however_the_run_ends() -> None:
    async def broken(run: Any, host: Any, board: Any) -> None:
        raise SystemExit

    await run(agent(dependencies=desk, engine=ScriptEngine(broken)), "?")
    assert LIFE == ["open", "closed"]


def inside(by: str, inner: Agent[Any], **fields: Any) -> Agent[Any]:
    async def script(run: Any, host: Any, board: Any) -> None:
        await run.child(inner, "?")

    engine = ScriptEngine(script) if by == "script" else GraphEngine(Graph({"n": Node(inner)}))
    return Agent("outer", engine=engine, **fields)


@pytest.mark.parametrize("by", ["script", "graph"])
async def test_agents_inside_use_their_own_factory_else_what_the_run_around_them_has(
    by: str,
) -> None:
    await run(inside(by, agent(), dependencies=given("outer")), "?")
    await run(inside(by, agent(dependencies=given("own")), dependencies=given("outer")), "?")
    await run(inside(by, agent(dependencies=given("own"))), "?", dependencies="given")
    by_call = MadeBy(given("made for the call"))
    await run(inside(by, agent(dependencies=given("own"))), "?", dependencies=by_call)
    assert SEEN == ["outer", "own", "given", "made for the call"]


async def test_an_own_factory_wins_over_what_was_only_lent_on_the_way() -> None:
    def middle() -> Agent[Any]:
        return inside("script", agent(dependencies=given("own")))

    await run(inside("graph", middle(), dependencies=given("outer")), "?")
    await run(inside("graph", middle()), "?", dependencies="given")
    assert SEEN == ["own", "given"]


async def test_receivers_of_a_hand_off_use_the_factory_of_their_own_agent() -> None:
    def sender() -> Agent[Any]:
        model = ScriptedModel([ToolCall("h", "transfer_to_b", {})])
        return Agent("s", model=model, handoffs=[Handoff("b")], dependencies=given("sender's"))

    def receiver() -> Agent[Any]:
        return agent("b", dependencies=given("receiver's"))

    await run_with_handoffs([sender(), receiver()], "?")
    await run_with_handoffs([sender(), receiver()], "?", dependencies="given")
    assert SEEN == ["receiver's", "given"]
