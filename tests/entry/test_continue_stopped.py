"""A run that was interrupted or canceled goes on under its id when that is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import Ordered, kinds, log_of
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    ErrorCode,
    Graph,
    GraphEngine,
    Handoff,
    LiveRun,
    MachineEngine,
    Misuse,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    TextDelta,
    ToolCall,
    ToolError,
    load_machine,
    reopen,
    replay,
    resume,
    run_with_handoffs,
    start,
    tool,
)
from upshot.contract.message import CUT
from upshot.entry.resume import read_past
from upshot.journal import MemoryJournal
from upshot.state.stored_events import result_of

GO = Request("Write to ann and bob.", run_id="r1")
STOPS: dict[Status, Callable[[LiveRun[Any]], None]] = {
    Status.INTERRUPTED: lambda live: live.interrupt(),
    Status.CANCELED: lambda live: live.cancel(),
}
BOTH = pytest.mark.parametrize("how", [*STOPS])


class Office:
    """Writes letters to some, one after another; those to *halts* fail when the run is stopped."""

    def __init__(self, *halts: str) -> None:
        self.sent: list[str] = []
        self.halting = asyncio.Event()
        self.stop = asyncio.Event()
        left = set(halts or ("bob",))

        @tool(effect="write")
        async def mail(to: str) -> str:
            if to in left:
                left.remove(to)
                self.halting.set()
                await self.stop.wait()
                raise ToolError("The run is over.", code="cancelled")
            self.sent.append(to)
            return f"sent to {to}"

        self.mail = mail

    def clerk(self, id: str = "clerk", last: Any = "Done.") -> Agent[Any]:
        names = enumerate(("ann", "bob", "cara"))
        calls = [ToolCall(str(n), "mail", {"to": to}) for n, to in names]
        model = ScriptedModel([*calls, last], per_conversation=True)
        return Agent(id, model=model, tools=[self.mail])

    async def end(self, live: LiveRun[Any], how: Status) -> AgentResult[Any]:
        """Stop a run while it writes a letter."""
        async with asyncio.timeout(30):
            await self.halting.wait()
        self.halting.clear()
        STOPS[how](live)
        self.stop.set()
        async with asyncio.timeout(30):
            result = await live.result()
        self.stop.clear()
        assert result.status is how
        return result


async def stopped(agent: Agent[Any], office: Office, how: Status, journal: Any) -> Any:
    async with start(agent, GO, journal=journal) as live:
        return await office.end(live, how)


def alone(inner: Agent[Any]) -> Agent[Any]:
    return inner


def in_graph(inner: Agent[Any]) -> Agent[Any]:
    return Agent("outer", engine=GraphEngine(Graph({"work": inner}, start="work")))


def in_machine(inner: Agent[Any]) -> Agent[Any]:
    machine = """
spec: upshot.machine/1
states:
  work: {type: initial, agent: clerk, input: "'Go.'", transitions: [{to: done}]}
  done: {type: final, output: {said: context.said}}
context: {said: 1}
"""
    return Agent("outer", engine=MachineEngine(load_machine(machine), agents={"clerk": inner}))


def in_script(inner: Agent[Any]) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(inner, "Go.")).unwrap()

    return Agent("outer", engine=ScriptEngine(work))


@BOTH
@pytest.mark.parametrize("around", [alone, in_graph, in_machine, in_script])
async def test_a_run_that_was_stopped_goes_on_where_it_stood(
    how: Status, around: Callable[[Agent[Any]], Agent[Any]]
) -> None:
    office, journal = Office(), Ordered()
    agent = around(office.clerk())
    before = await stopped(agent, office, how, journal)
    assert (await resume("r1", agent, journal=journal)).status is how
    result = await resume("r1", agent, journal=journal, continue_stopped=True)
    assert (result.status, office.sent) == (Status.COMPLETED, ["ann", "cara"])
    assert (len(result.attempt_log), result.committed) == (1, True)
    assert result.usage.api_calls > before.usage.api_calls
    again = result_of(await read_past("r1", journal))
    assert again is not None
    assert (again.status, again.messages, again.usage, again.attempt_log) == (
        result.status,
        result.messages,
        result.usage,
        result.attempt_log,
    )
    assert (await replay("r1", agent, journal=journal)).same


@BOTH
async def test_the_model_reads_what_came_of_the_call_that_was_cut(how: Status) -> None:
    office, journal = Office(), Ordered()

    agent = office.clerk(last=lambda messages: messages[4].text)
    await stopped(agent, office, how, journal)
    result = await resume("r1", agent, journal=journal, continue_stopped=True)
    assert '"status":"error"' in (result.content or "")


async def test_a_run_that_goes_on_may_be_cut_anywhere() -> None:
    office, journal = Office(), Ordered()
    agent = office.clerk()
    await stopped(agent, office, Status.INTERRUPTED, journal)
    first = len(journal.order)
    whole = await resume("r1", agent, journal=journal, continue_stopped=True)
    assert len(journal.order) > first + 5
    for length in range(first + 1, len(journal.order)):
        result = await resume("r1", office.clerk(), journal=journal.cut(length))
        assert (result.status, result.content, len(result.attempt_log)) == (
            whole.status,
            whole.content,
            1,
        )


@BOTH
async def test_a_run_may_be_stopped_and_go_on_twice(how: Status) -> None:
    office, journal = Office("ann", "cara"), Ordered()
    agent = office.clerk()
    await stopped(agent, office, how, journal)
    async with reopen("r1", agent, journal=journal, continue_stopped=True) as live:
        await office.end(live, how)
    result = await resume("r1", agent, journal=journal, continue_stopped=True)
    assert (result.content, office.sent, len(result.attempt_log)) == ("Done.", ["bob"], 1)
    assert kinds(await log_of(journal, "r1")).count("run_settled") == 3


class Halting:
    """Shows the beginning of a reply and waits; the next time it says the rest."""

    name = "halting"

    def __init__(self) -> None:
        self.shown = asyncio.Event()
        self.asked: list[ModelRequest] = []

    async def call(self, request: ModelRequest) -> ModelResponse:
        self.asked.append(request)
        return ModelResponse(content="the end.")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.asked.append(request)
        if len(self.asked) == 1:
            yield TextDelta(text="This is ")
            self.shown.set()
            await asyncio.get_running_loop().create_future()
        yield ModelResponse(content="the end.")


@BOTH
async def test_a_reply_that_was_cut_is_not_taken_for_the_answer(how: Status) -> None:
    model, journal = Halting(), Ordered()
    agent: Agent[Any] = Agent("a", model=model)
    async with start(agent, GO, journal=journal) as live:
        async for event in live:
            if isinstance(event, TextDelta):
                STOPS[how](live)
        assert (await live.result()).messages[-1].metadata == {CUT: True}
    result = await resume("r1", agent, journal=journal, continue_stopped=True)
    assert [one.text for one in model.asked[-1].messages[1:]] == [
        "This is ",
        "Your reply was cut off there. Go on.",
    ]
    assert (result.content, result.success) == ("the end.", True)


@BOTH
async def test_a_try_that_was_only_waited_for_is_not_counted_when_the_run_goes_on(
    how: Status,
) -> None:
    busy = AgentError(ErrorCode.SERVER_ERROR, "Busy.", retryable=True)
    model, journal = ScriptedModel([busy, "Done."]), MemoryJournal()
    agent: Agent[Any] = Agent("a", model=model)
    async with start(agent, GO, journal=journal) as live:
        async for event in live:
            if isinstance(event, ModelRetried):
                STOPS[how](live)
        assert (await live.result()).usage.api_calls == 1
    result = await resume("r1", agent, journal=journal, continue_stopped=True)
    assert (result.content, result.usage.api_calls) == ("Done.", 2)


async def test_other_ends_are_final(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["One.", "Two."]))
    async with start(agent, GO, journal=path) as live:
        await live.result()
    result = await resume("r1", agent, journal=path, continue_stopped=True)
    assert result.content == "One."
    with pytest.raises(Misuse, match=r"has ended: its result is in the journal$"):
        async with reopen("r1", agent, journal=path, continue_stopped=True):
            pass


async def test_a_stopped_run_that_is_reopened_says_how_it_goes_on() -> None:
    office, journal = Office(), Ordered()
    await stopped(office.clerk(), office, Status.CANCELED, journal)
    with pytest.raises(Misuse, match=r"has ended: .*; continue it with continue_stopped=True$"):
        async with reopen("r1", office.clerk(), journal=journal):
            pass


async def test_a_request_that_was_handed_over_goes_on_after_its_stop() -> None:
    office, journal = Office(), Ordered()
    hand = ToolCall("h", "transfer_to_clerk", {})
    desk: Agent[Any] = Agent(
        "desk", model=ScriptedModel([hand], per_conversation=True), handoffs=[Handoff("clerk")]
    )
    agents = [desk, office.clerk()]
    task = asyncio.ensure_future(run_with_handoffs(agents, GO, journal=journal))
    await office.halting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result: AgentResult[Any] = await resume("r1", agents, journal=journal, continue_stopped=True)
    assert (result.content, office.sent) == ("Done.", ["ann", "cara"])
