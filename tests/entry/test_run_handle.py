"""A handle watches and answers a run that anybody works on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.places import Place
from tests.processes import start_python
from upshot import (
    Agent,
    Event,
    Misuse,
    Outdated,
    PendingApproval,
    Request,
    RunHandle,
    ScriptedModel,
    ScriptEngine,
    Status,
    Taken,
    ToolCall,
    attach,
    resume,
    run,
    start,
    tool,
)


def payer(paid: list[str]) -> Agent[Any]:
    @tool(effect="destructive", approval=True)
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    model = ScriptedModel([[ToolCall("p", "pay", {"to": "ann"})], "Done."])
    return Agent("till", model=model, tools=[pay])


async def log_of(journal: Any, run_id: str = "r") -> list[Event]:
    return [event async for event in journal.events(run_id)]


async def seen_by(handle: RunHandle, **how: Any) -> list[int]:
    return [event.seq async for event in handle.events(**how)]


async def test_watchers_see_a_run_over_its_parks_to_its_end(journal: Any) -> None:
    paid: list[str] = []
    parked = await run(payer(paid), Request("Pay.", run_id="r"), journal=journal)
    before = len(await log_of(journal))
    async with attach("r", journal=journal) as handle:
        watchers = [asyncio.ensure_future(seen_by(handle, after=n)) for n in (0, 2, before)]
        assert await seen_by(handle, until="parked") == [*range(1, before + 1)]
        (item,) = parked.pending
        assert isinstance(item, PendingApproval)
        assert (await handle.result()).pending == parked.pending  # type: ignore[union-attr]
        assert await handle.answer(item.approve(by="ann")) == (
            Taken(answer=item.approve(by="ann")),
        )
        (late,) = await handle.answer(item.deny(by="bob"))
        assert isinstance(late, Outdated)
        # It was answered, so that somebody goes on with it.
        assert await handle.result(timeout_s=0) is None
        watchers.append(asyncio.ensure_future(seen_by(handle, after=before, until="parked")))
        assert not any(one.done() for one in watchers)
        await resume("r", payer(paid), journal=journal)
        last = len(await log_of(journal))
        whole = [*range(1, last + 1)]
        assert await asyncio.gather(*watchers) == [whole, whole[2:], *[whole[before:]] * 2]
        # What it went through does not stop who comes later.
        assert await seen_by(handle, until="parked") == whole
        result = await handle.result()
        assert result is not None and (result.content, paid) == ("Done.", ["ann"])


async def test_a_result_is_waited_for_as_long_as_is_said(journal: Any) -> None:
    working, go_on = asyncio.Event(), asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> str:
        working.set()
        await go_on.wait()
        return "Done."

    agent: Agent[Any] = Agent("worker", engine=ScriptEngine(work))
    async with start(agent, Request("?", run_id="r"), journal=journal) as live:
        await working.wait()
        async with attach("r", journal=journal) as handle:
            assert await handle.result(timeout_s=0) is None
            assert await handle.result(timeout_s=0.01) is None
            waiting = asyncio.ensure_future(handle.result())
            go_on.set()
            result = await waiting
            assert result is not None
            assert (result.status, result.output) == (Status.COMPLETED, "Done.")
            assert await handle.result(timeout_s=0) == result
        await live.result()


async def test_what_is_wrong_is_told_at_once(journal: Any) -> None:
    with pytest.raises(Misuse, match="the journal has no run 'nobody'"):
        async with attach("nobody", journal=journal):
            pass
    await run(payer([]), Request("Pay.", run_id="r"), journal=journal)
    async with attach("r", journal=journal) as handle:
        for wrong in ({"after": -1}, {"until": "later"}):
            with pytest.raises(Misuse, match="must be"):
                await seen_by(handle, **wrong)
        with pytest.raises(Misuse, match="timeout_s must be"):
            await handle.result(timeout_s=-1)


async def test_what_is_watched_has_no_secrets(journal: Any) -> None:
    async def tell(run: Any, host: Any, board: Any) -> str:
        return "hunter2-hunter2!"

    agent: Agent[Any] = Agent("teller", engine=ScriptEngine(tell))
    more: Any = {"journal": journal, "secrets": ["hunter2-hunter2"]}
    await run(agent, Request("?", run_id="r"), **more)
    async with attach("r", journal=journal) as handle:
        result = await handle.result()
        shown = [event async for event in handle.events()]
    assert result is not None and result.output == "***!"
    assert any("***" in repr(one) for one in shown)
    assert "hunter2" not in repr([result, *shown])


async def test_who_stops_watching_leaves_nothing_behind(journal: Any) -> None:
    await run(payer([]), Request("Pay.", run_id="r"), journal=journal)
    async with attach("r", journal=journal) as handle, aclosing(handle.events()) as events:
        async for event in events:
            assert event.seq == 1
            break
    assert len(asyncio.all_tasks()) == 1


PROGRAM = """
import sys
from upshot import Agent, Request, ScriptedModel, ToolCall, run_sync, tool

journal = sys.argv[1]

@tool(effect="write")
def store(n: int):
    print(n, flush=True)
    sys.stdin.readline()
    return "stored"

calls = [[ToolCall(f"c{n}", "store", {"n": n})] for n in range(3)]
agent = Agent("a", model=ScriptedModel([*calls, "Done."]), tools=[store])
run_sync(agent, Request("Go.", run_id="r"), journal=journal)
"""


async def test_a_run_of_another_process_is_watched_while_it_works(
    place: Place, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process: Any = start_python(program, place.where, stdin=PIPE, stdout=PIPE, text=True)
    with process:
        process.stdout.readline()
        async with attach("r", journal=place.where) as handle:
            assert await handle.result(timeout_s=0) is None
            seen: list[int] = []
            async for event in handle.events():
                seen.append(event.seq)
                if event.kind == "tool_started":
                    # It goes on only when this one has seen how far it is.
                    process.stdin.write("on\n")
                    process.stdin.flush()
            result = await handle.result()
            assert result is not None and result.content == "Done."
            assert seen == [*range(1, len(seen) + 1)]
