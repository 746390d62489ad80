"""Cancelling from outside: the run is finalised first, whatever it was at."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.leaping import Leaping, run_leaping
from tests.processes import start_python
from tests.runs.kit import Do, Witness, kinds, log_of
from upshot import (
    Agent,
    AgentError,
    Budget,
    LiveRun,
    Message,
    ModelResponse,
    Status,
    TextDelta,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    run,
    start,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.testing.doubles import FakeClock


@tool(effect="read")
async def quick() -> str:
    return "quick"


@tool(effect="write")
async def slow() -> None:
    await asyncio.sleep(60)


@tool(effect="read")
async def nap() -> None:
    await asyncio.sleep(60)


def both(*tools: Any) -> Agent:
    calls = [ToolCall(f"c-{one.name}", one.name) for one in tools]
    return Agent("a", model=ScriptedModel([calls, "Never."]), tools=tools)


def hanging() -> Agent:
    return Agent("a", engine=Do(lambda *_: asyncio.sleep(60)))


async def ended_by_timeout(agent: Agent, **options: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await run(agent, "?", **options)


def is_valid(messages: tuple[Message, ...]) -> bool:
    """Whether every call has its tool message."""
    asked = [call.id for message in messages for call in message.tool_calls]
    return sorted(asked) == sorted(
        str(message.tool_call_id) for message in messages if message.role == "tool"
    )


@pytest.mark.parametrize("agent", [hanging(), both(quick, slow, nap)], ids=["engine", "tools"])
async def test_a_callers_timeout_finalises_and_is_raised_again(agent: Agent) -> None:
    witness, journal = Witness(), MemoryJournal()
    await ended_by_timeout(agent, observers=[witness], journal=journal)
    (result,) = witness.facts("on_run_end")[0]
    assert (result.status, result.error.code, result.committed) == ("canceled", "canceled", False)
    assert is_valid(result.messages)
    log = await log_of(journal, result.run_id)
    assert kinds(log)[-1] == "run_settled"
    assert kinds(log).count("tool_settled") == len(result.tool_outcomes)


async def test_a_cancelled_task_finalises_and_is_cancelled() -> None:
    witness = Witness()
    task = asyncio.ensure_future(run(hanging(), "?", observers=[witness]))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert witness.names()[-1] == "on_run_end"


async def test_further_cancels_do_not_cut_the_end_short() -> None:
    done: list[str] = []

    class Slow:
        async def on_run_end(self, info: Any, result: Any) -> None:
            await asyncio.sleep(0.03)
            done.append(result.status)

    task = asyncio.ensure_future(run(hanging(), "?", observers=[Slow()]))
    for _ in range(4):
        await asyncio.sleep(0.005)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["canceled"]


async def test_the_result_stays_on_the_handle_after_a_callers_cancel() -> None:
    kept: list[LiveRun] = []

    async def watch() -> None:
        async with start(hanging(), "?") as live:
            kept.append(live)
            await live.result()

    task = asyncio.ensure_future(watch())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await kept[0].result()).status is Status.CANCELED


async def test_a_task_group_that_fails_finalises_the_runs_in_it() -> None:
    witness = Witness()

    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise KeyError("x")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(run(hanging(), "?", observers=[witness]))
            group.create_task(fail())
    assert witness.facts("on_run_end")[0][0].status is Status.CANCELED


async def test_an_interrupt_in_the_middle_of_tools_leaves_valid_messages() -> None:
    agent = both(quick, slow, nap)
    async with start(agent, "?") as live:
        async for event in live:
            if event.kind == "tool_settled":
                live.interrupt("user_input", "stop")
        result = await live.result()
    assert (result.status, result.cause) == ("interrupted", "user_input")
    assert is_valid(result.messages)
    assert len(result.tool_outcomes) == 3
    assert result.tool_outcomes[0].kind == "tool_execution_result"


async def test_calls_that_had_not_started_are_denied_as_cancelled() -> None:
    agent = both(slow, slow.but(name="slow_too"))
    async with start(agent, "?", write_grace_s=0.05) as live:
        async for event in live:
            if event.kind == "tool_started":
                live.interrupt()
        result = await live.result()
    started, waiting = result.tool_outcomes
    assert (started.kind, started.code, started.effect) == ("tool_failure", "cancelled", "unknown")
    assert (waiting.kind, waiting.reason, waiting.effect) == ("tool_denied", "cancelled", "none")


async def test_calls_of_an_engine_that_had_made_none_before_a_stop_are_denied_too() -> None:
    began, wished, ran = asyncio.Event(), asyncio.Event(), list[int]()

    @tool(effect="read")
    async def look() -> None:
        ran.append(1)

    async def work(run: Any, host: Any, board: Any) -> Any:
        began.set()
        await wished.wait()
        (outcome,) = await run.tools.dispatch([ToolCall("1", "look", {})])
        return outcome.reason

    async with start(Agent("a", engine=Do(work), tools=[look]), "?") as live:
        await began.wait()
        live.interrupt()
        wished.set()
        result = await live.result()
    assert (result.output, ran) == ("cancelled", [])


async def test_a_body_that_runs_may_end_within_the_grace_and_nothing_new_starts() -> None:
    release = asyncio.Event()

    @tool(effect="write")
    async def first() -> str:
        await release.wait()
        return "kept"

    @tool(effect="write")
    async def second() -> str:
        return "never"

    async with start(both(first, second), "Go.") as live:
        async for event in live:
            if event.kind == "tool_started":
                live.interrupt("user_input")
                release.set()
    result = await live.result()
    ran, denied = result.tool_outcomes
    assert result.status is Status.INTERRUPTED
    assert isinstance(ran, ToolExecutionResult)
    assert isinstance(denied, ToolDenied)
    assert denied.reason == "cancelled"
    assert [message.role for message in result.messages] == ["assistant", "tool", "tool"]


@pytest.mark.parametrize(
    "when", ["model_started", "model_replied", "tool_started", "board_changed"]
)
@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_a_stop_at_any_point_leaves_valid_messages(when: str, how: str) -> None:
    async with start(both(quick, nap), "?") as live:
        async for event in live:
            if event.kind == when:
                getattr(live, how)()
        result = await live.result()
    assert result.status == {"cancel": "canceled", "interrupt": "interrupted"}[how]
    assert is_valid(result.messages)


async def test_a_model_call_that_was_cut_off_counts_as_unmeasured() -> None:
    async def never(messages: Any) -> str:
        await asyncio.sleep(60)
        return "never"

    async with start(Agent("a", model=ScriptedModel([never])), "?") as live:
        async for event in live:
            if event.kind == "model_started":
                await asyncio.sleep(0.005)
                live.cancel()
        usage = (await live.result()).usage
    assert (usage.api_calls, usage.unmeasured_calls) == (1, 1)


async def test_a_cancel_between_two_tries_counts_only_the_try_that_was_made() -> None:
    class Waiting(FakeClock):
        async def sleep(self, delay_s: float) -> None:
            await asyncio.sleep(60)

    busy = AgentError("rate_limit", "busy", retryable=True)
    agent = Agent("a", model=ScriptedModel([busy, "Never."]))
    async with start(agent, "?", clock=Waiting()) as live:
        async for event in live:
            if event.kind == "model_retried":
                await asyncio.sleep(0)
                live.cancel()
        assert (await live.result()).usage.api_calls == 1


PROGRAM = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from upshot import Agent, ScriptedModel, ToolCall, run_sync, tool

class Tell:
    def on_run_end(self, info, result):
        print("ended", result.status, flush=True)

@tool(effect="read")
async def wait():
    print("waiting", flush=True)
    await asyncio.sleep(60)

def tell_presses():
    taken = signal.getsignal(signal.SIGINT)

    def on_interrupt(*facts):
        # What comes in the middle of a print cannot print itself.
        os.write(1, b"pressed\\n")
        taken(*facts)

    signal.signal(signal.SIGINT, on_interrupt)
    print("waiting", flush=True)

@tool(effect="read")
async def block():
    tell_presses()
    while True:
        time.sleep(0.01)

@tool(effect="read", timeout_s=0.05)
def hang():
    threading.Event().wait()

@tool(effect="write")
async def pay():
    tell_presses()
    while not Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)
    print("paid", flush=True)

name = sys.argv[1]
tools = [wait, block, hang, pay]
agent = Agent("a", model=ScriptedModel([ToolCall("c", name), "Done."]), tools=tools)
try:
    print(run_sync(agent, "?", observers=[Tell()], write_grace_s=60).content, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def program(tmp_path: Path, name: str) -> subprocess.Popen[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return start_python(path, name, tmp_path / "paid", stdout=PIPE, text=True)


def test_ctrl_c_finalises_the_run_and_is_raised(tmp_path: Path) -> None:
    with program(tmp_path, "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["ended interrupted", "interrupted"]
    assert process.returncode == 0


def test_ctrl_c_gives_a_write_in_hand_its_grace(tmp_path: Path) -> None:
    with program(tmp_path, "pay") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "pressed\n"
        (tmp_path / "paid").touch()
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["paid", "ended interrupted", "interrupted"]
    assert process.returncode == 0


@pytest.mark.parametrize("does", ["pay", "block"])
def test_a_second_ctrl_c_cuts_off_a_write_and_what_holds_up_the_loop(
    tmp_path: Path, does: str
) -> None:
    with program(tmp_path, does) as process:
        assert process.stdout is not None
        for line in ("waiting\n", "pressed\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["pressed", "ended canceled", "interrupted"]
    assert process.returncode == 0


def test_a_tool_that_hangs_in_its_thread_does_not_keep_the_interpreter(tmp_path: Path) -> None:
    with program(tmp_path, "hang") as process:
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["ended completed", "Done."]
    assert process.returncode == 0


async def test_one_tool_call_is_ended_and_the_run_goes_on():
    running = asyncio.Event()

    @tool(effect="read")
    async def wait() -> None:
        running.set()
        await asyncio.Event().wait()

    model = ScriptedModel([ToolCall("c-1", "wait"), "Well then."])
    async with start(Agent("a", model=model, tools=[wait]), "?") as live:
        await running.wait()
        assert live.cancel_call("c-1")
        assert not live.cancel_call("c-2")
        result = await live.result()
    assert (result.status, result.content) == (Status.COMPLETED, "Well then.")
    assert [outcome.code for outcome in result.tool_outcomes] == ["cancelled"]


def test_a_thread_that_is_left_behind_is_told_in_the_result():
    gate, journal = threading.Event(), MemoryJournal()

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Leaping)

        @tool(effect="read", timeout_s=30)
        def hang() -> None:
            loop.leap(60)
            gate.wait(60)

        agent = Agent("a", model=ScriptedModel([ToolCall("c-1", "hang"), "Done."]), tools=[hang])
        try:
            result = await run(agent, "?", journal=journal)
        finally:
            gate.set()
        return result, (await log_of(journal, result.run_id))[-1]

    result, logged = run_leaping(main())
    codes = [warning.code for warning in result.warnings]
    assert codes == ["abandoned_tool", "leftover_calls"]
    assert logged.result.warnings == result.warnings


@pytest.mark.parametrize("watched_", [True, False], ids=["streamed", "whole"])
async def test_no_failed_call_is_tried_again_after_an_interrupt(*, watched_: bool) -> None:
    lives: list[LiveRun[Any]] = []

    class Clock(FakeClock):
        async def sleep(self, delay_s: float) -> None:
            lives[0].interrupt("user_cancel", "enough")
            await super().sleep(delay_s)

    busy = AgentError("rate_limit", "busy", retryable=True)
    model = ScriptedModel([busy, "Late."])
    if not watched_:
        model.stream = None  # type: ignore[assignment, method-assign]
    async with start(Agent("a", model=model), "?", clock=Clock()) as live:
        lives.append(live)
        result = await live.result()
    assert (result.status, result.detail) == (Status.INTERRUPTED, "enough")
    assert result.usage.api_calls == 1


class Slow(ScriptedModel):
    """A model that says the beginning of its reply and then nothing more."""

    def __init__(self) -> None:
        super().__init__([])

    async def stream(self, request: Any) -> Any:
        yield TextDelta(text="Once ")
        yield TextDelta(text="upon")
        await asyncio.sleep(60)


class Telling(ScriptedModel):
    """A model whose replies come piece by piece, and that knows how they were left."""

    def __init__(self, *pieces: TextDelta | ModelResponse) -> None:
        super().__init__([])
        self.pieces = pieces
        self.left = ""
        self.may_continue = asyncio.Event()

    async def stream(self, request: Any) -> Any:
        self.left = "in the middle"
        try:
            for piece in self.pieces:
                yield piece
                await self.may_continue.wait()
            self.left = "at the end"
        finally:
            self.left += ", and closed"


ONCE = (TextDelta(text="Once "), TextDelta(text="upon "), TextDelta(text="a time"))


async def test_a_wish_to_stop_ends_a_reply_between_two_of_its_pieces() -> None:
    model = Telling(*ONCE, ModelResponse(content="Once upon a time"))
    async with start(Agent("a", model=model), "?") as live:
        async for event in live:
            if isinstance(event, TextDelta) and event.text == "Once ":
                live.interrupt("user_input", "enough")
                model.may_continue.set()
        result = await live.result()
    assert (result.status, result.cause, result.detail) == ("interrupted", "user_input", "enough")
    assert [message.text for message in result.messages] == ["Once "]
    assert (model.left, result.committed) == ("in the middle, and closed", False)
    assert result.usage.unmeasured_calls == 1


async def test_a_reply_that_is_asked_for_in_spite_of_a_wish_to_stop_comes_whole() -> None:
    model = Telling(*ONCE, ModelResponse(content="Once upon a time"))

    async def work(run: Any, host: Any, board: Any) -> Any:
        live.interrupt("user_input")
        model.may_continue.set()
        return (await run.call_model("A last word, please.")).content

    async with start(Agent("a", model=model, engine=Do(work)), "?") as live:
        result = await live.result()
    assert (result.status, result.output) == (Status.COMPLETED, "Once upon a time")
    assert model.left == "at the end, and closed"


@pytest.mark.parametrize("stop", ["cancel", "interrupt", "deadline", "caller"])
async def test_the_text_that_was_shown_stays_in_the_result(stop: str) -> None:
    budget = Budget(deadline_s=0.05 if stop == "deadline" else None)
    journal, lives = MemoryJournal(), list[LiveRun[Any]]()

    async def watch() -> None:
        async with start(Agent("a", model=Slow()), "?", budget=budget, journal=journal) as live:
            lives.append(live)
            async for text in live.text():
                if text == "upon" and stop in ("cancel", "interrupt"):
                    getattr(live, stop)()
                elif text == "upon" and stop == "caller":
                    task.cancel()

    task = asyncio.ensure_future(watch())
    await asyncio.wait({task})
    result = await lives[0].result()
    assert not result.success
    assert not result.committed
    assert (result.content, result.messages[-1].text) == ("Once upon", "Once upon")
    assert result.usage.unmeasured_calls == 1
    log = await log_of(journal, result.run_id)
    changes = [event for event in log if event.kind == "board_changed"]
    assert changes[-1].messages == result.messages  # type: ignore[union-attr]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("how", ["thread", "signal"])
async def test_a_tool_call_is_ended_from_another_thread_and_in_a_handler_of_a_signal(
    how: str, *, alone: bool
) -> None:
    # In this mode a loop refuses whoever touches it from another thread.
    asyncio.get_running_loop().set_debug(True)
    running, found = asyncio.Event(), list[bool]()
    ids = ["c-1"] if alone else ["c-1", "c-2"]

    @tool(effect="read")
    async def wait() -> None:
        running.set()
        await asyncio.Event().wait()

    model = ScriptedModel([[ToolCall(id, "wait") for id in ids], "Well then."])
    async with start(Agent("a", model=model, tools=[wait]), "?") as live, asyncio.timeout(60):

        def end(*_: Any) -> None:
            found.extend(live.cancel_call(id) for id in (*ids, "c-3"))

        await running.wait()
        if how == "thread":
            await asyncio.to_thread(end)
        else:
            before = signal.signal(signal.SIGUSR1, end)
            main = threading.main_thread().ident or 0
            # Later than this the loop waits, and nothing else wakes it.
            timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1))
            timer.start()
            try:
                await live.result()
            finally:
                timer.join()
                signal.signal(signal.SIGUSR1, before)
        result = await live.result()
    assert (result.content, found) == ("Well then.", [*(True for _ in ids), False])
    assert [outcome.code for outcome in result.tool_outcomes] == ["cancelled"] * len(ids)
    assert not live.cancel_call("c-1")


async def test_a_canceled_run_has_finished_as_aborted() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        live.cancel()
        await asyncio.sleep(1)

    async with start(Agent("a", engine=Do(work)), "?") as live:
        result = await live.finish()
    assert (result.status, result.finish_reason) == ("canceled", "aborted")
