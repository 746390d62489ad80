"""What becomes of a run, by how its engine ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.runs.kit import Do, raising, say
from upshot import (
    Aborted,
    Agent,
    AgentError,
    Board,
    BoardChanged,
    Budget,
    Failed,
    Interrupt,
    InterruptCause,
    Interrupted,
    Misuse,
    Parked,
    Status,
    run,
    start,
)
from upshot.contract import PendingQuestion
from upshot.journal import MemoryJournal
from upshot.runs.ending import classify
from upshot.runs.engine_api.exceptions import signal_of


class LookAlike(Exception):
    """Named and shaped like ours, and not ours."""

    def __init__(self) -> None:
        super().__init__("pretending")
        self.interrupt = None


LookAlike.__name__ = "Interrupted"

RAISED = [
    (Interrupted("custom", "why"), "interrupted", "interrupted", "host"),
    (Aborted("no way on"), "aborted", "internal", "engine"),
    (Aborted("no way on", code="conflict"), "aborted", "conflict", "engine"),
    (Failed("not_found", "no such order"), "failed", "not_found", "engine"),
    (Failed(AgentError("rate_limit", "busy")), "failed", "rate_limit", "model"),
    (Parked(PendingQuestion(id="q", question="Who?")), "input_required", "input_required", "host"),
    (ValueError("odd"), "failed", "internal", "engine"),
    (Misuse("wrong"), "failed", "internal", "engine"),
    (asyncio.CancelledError(), "failed", "internal", "engine"),
    (TimeoutError(), "failed", "timeout", "model"),
    (LookAlike(), "failed", "internal", "engine"),
    (BaseExceptionGroup("many", [KeyError("k")]), "failed", "internal", "engine"),
    (
        ExceptionGroup("many", [ExceptionGroup("in one", [Failed("not_found", "no such order")])]),
        "failed",
        "not_found",
        "engine",
    ),
]


async def test_the_failure_of_a_run_inside_that_stopped_by_itself_is_one() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        inner = await run.child(Agent("inner", engine=raising(Interrupted("custom"))), "?")
        raise Failed(inner.error)

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "interrupted")


@pytest.mark.parametrize(
    ("error", "status", "code", "origin"), RAISED, ids=[repr(row[0])[:40] for row in RAISED]
)
async def test_what_an_engine_raises_becomes_a_status(
    error: BaseException, status: str, code: str, origin: str
) -> None:
    result = await run(Agent("a", engine=raising(error)), "?")
    assert result.error is not None
    assert (result.status, result.error.code, result.error.origin) == (status, code, origin)
    assert not result.committed
    assert "\n" not in result.error.message
    assert result.error.message


async def test_another_exception_keeps_its_message_and_class() -> None:
    result = await run(Agent("a", engine=raising(ValueError("odd\nthing"))), "?")
    assert result.error is not None
    bare = replace(result.error, details={})
    assert bare == AgentError("internal", "odd thing", type="ValueError", origin="engine")


async def test_an_interrupt_tells_cause_and_detail() -> None:
    result = await run(Agent("a", engine=raising(Interrupted("host_shutdown", "at 5"))), "?")
    assert (result.cause, result.detail) == ("host_shutdown", "at 5")


async def test_details_of_a_failure_are_kept() -> None:
    failed = Failed("conflict", "taken", retryable=True, details={"seat": 4})
    result = await run(Agent("a", engine=raising(failed)), "?")
    assert result.error is not None
    assert (result.error.retryable, result.error.details) == (True, {"seat": 4})


async def test_what_was_appended_before_a_raise_is_in_the_result() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(say("So far."))
        raise ValueError

    result = await run(Agent("a", engine=Do(work)), "?")
    assert (result.status, result.content) == (Status.FAILED, "So far.")


def the_board(run: Any, host: Any, board: Any) -> Any:
    board.append(say("Here."))
    return board


def another_board(run: Any, host: Any, board: Any) -> Any:
    other = Board.restore(board.snapshot())
    other.append(say("Here."))
    return other


def a_board_of_its_own(run: Any, host: Any, board: Any) -> Any:
    other = Board()
    other.append(say("Here."))
    return other


def nothing(run: Any, host: Any, board: Any) -> None:
    board.append(say("Here."))


@pytest.mark.parametrize("work", [the_board, another_board, a_board_of_its_own, nothing])
async def test_the_board_that_is_returned_is_the_answer(work: Callable[..., Any]) -> None:
    result = await run(Agent("a", engine=Do(work)), "?")
    assert (result.content, result.output) == ("Here.", "Here.")
    assert [message.text for message in result.messages] == ["Here."]


@pytest.mark.parametrize("value", ["text", 7, 0, False, [1, {"a": None}], {"status": "failed"}, ""])
async def test_any_other_value_becomes_the_output(value: Any) -> None:
    result = await run(Agent("a", engine=Do(lambda run, host, board: value)), "?")
    assert (result.status, result.output, result.content) == (Status.COMPLETED, value, None)


@pytest.mark.parametrize("value", [object(), {1j: 2}])
async def test_a_value_that_is_no_json_fails_the_run(value: Any) -> None:
    result = await run(Agent("a", engine=Do(lambda run, host, board: value)), "?")
    assert result.error is not None
    assert (result.status, result.error.type) == (Status.FAILED, "UnserializableError")


async def test_a_board_that_breaks_fails_the_run() -> None:
    class Broken:
        messages = None

        def snapshot(self) -> None:
            raise RuntimeError("torn")

    result = await run(Agent("a", engine=Do(lambda run, host, board: Broken())), "?")
    assert result.error is not None
    assert result.error.message == "torn"


async def test_the_runs_deadline_is_a_timeout_and_no_cancel() -> None:
    agent = Agent("a", engine=Do(lambda run, host, board: asyncio.sleep(5)))
    result = await run(agent, "?", budget=Budget(deadline_s=0.1))
    assert result.error is not None
    assert (result.status, result.error.code, result.error.origin) == ("failed", "timeout", "limit")


async def test_a_deadline_inside_the_engine_is_its_own_affair() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
        except TimeoutError:
            return "in time"
        return "late"

    assert (await run(Agent("a", engine=Do(work)), "?")).output == "in time"


async def test_our_own_cancel_is_canceled() -> None:
    agent = Agent("a", engine=Do(lambda run, host, board: asyncio.sleep(5)))
    async with start(agent, "?") as live:
        await asyncio.sleep(0)
        live.cancel()
        result = await live.result()
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.CANCELED, "canceled")


async def test_an_engine_that_refuses_its_cancel_and_answers_has_completed() -> None:
    at_work = asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> str:
        at_work.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "anyway"
        return "never"

    async with start(Agent("a", engine=Do(work)), "?") as live:
        await at_work.wait()
        live.cancel()
        assert (await live.result()).output == "anyway"


async def test_parked_tells_what_is_waited_for() -> None:
    pending = PendingQuestion(id="q", question="Who?")
    result = await run(Agent("a", engine=raising(Parked(pending))), "?")
    assert result.pending == (pending,)
    assert result.attempt_log[0].status == "input_required"


def tidy(also: BaseException | None = None) -> Do:
    """An engine that cleans up when it is cancelled, and returns or raises something else."""

    async def work(run: Any, host: Any, board: Any) -> str:
        board.set("done", 1)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if also is not None:
                raise also from None
        return "half"

    return Do(work)


AFTERWARDS = [None, ValueError("late"), Failed("conflict", "late"), Aborted("late"), Parked()]


@pytest.mark.parametrize("also", AFTERWARDS, ids=repr)
async def test_a_cancel_that_an_engine_cleans_up_after_is_canceled(also: Any) -> None:
    async with start(Agent("a", engine=tidy(also)), "?") as live:
        async for event in live:
            if isinstance(event, BoardChanged) and event.variables:
                live.cancel()
        result = await live.result()
    assert (result.status, result.committed) == ("canceled", False)
    assert result.last_board is not None
    assert result.last_board.get("done") == 1
    assert result.output == ("half" if also is None else None)


@pytest.mark.parametrize("also", AFTERWARDS, ids=repr)
async def test_a_deadline_that_an_engine_cleans_up_after_is_a_timeout(also: Any) -> None:
    result = await run(Agent("a", engine=tidy(also)), "?", budget=Budget(deadline_s=0.01))
    assert result.error is not None
    assert (result.status, result.error.code, result.committed) == ("failed", "timeout", False)


@pytest.mark.parametrize("also", AFTERWARDS, ids=repr)
def test_a_cut_interrupt_that_an_engine_cleans_up_after_is_interrupted(also: Any) -> None:
    wish = Interrupt(InterruptCause("custom"), "enough")
    limit = AgentError("timeout", "late")
    ending = classify(also, stop="interrupt", was_cut=True, interrupt=wish, limit=limit)
    assert (ending.status, ending.interrupt) == ("interrupted", wish)


async def test_an_engine_that_heeds_a_wish_and_has_its_answer_is_completed() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        while not await host.interrupts():
            await asyncio.sleep(0)
        return "whole"

    async with start(Agent("a", engine=Do(work)), "?") as live:
        await asyncio.sleep(0)
        live.interrupt()
        result = await live.result()
    assert (result.status, result.output) == ("completed", "whole")


GROUPS = [
    ([Interrupted("custom", "why")], "interrupted", "interrupted"),
    ([Failed("not_found", "no"), Parked()], "failed", "not_found"),
    ([Parked(), Aborted("no")], "aborted", "internal"),
    ([ExceptionGroup("inner", [Failed("conflict", "no")])], "failed", "conflict"),
    ([Parked(), KeyError("k")], "failed", "internal"),
]


@pytest.mark.parametrize(("errors", "status", "code"), GROUPS)
async def test_a_group_of_signals_is_what_they_say(
    errors: list[Exception], status: str, code: str
) -> None:
    result = await run(Agent("a", engine=raising(ExceptionGroup("many", errors))), "?")
    assert result.error is not None
    assert (result.status, result.error.code) == (status, code)


async def ask_in_a_group(run: Any, host: Any, board: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(host.ask_user("One?", key="one"))
        group.create_task(host.ask_user("Two?", key="two"))


async def ask_gathered(run: Any, host: Any, board: Any) -> None:
    await asyncio.gather(host.ask_user("One?", key="one"), host.ask_user("Two?", key="two"))


@pytest.mark.parametrize("work", [ask_in_a_group, ask_gathered])
async def test_all_that_is_asked_at_once_is_waited_for(work: Any) -> None:
    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.status == "input_required"
    assert [one.id for one in result.pending] == ["one", "two"]
    assert result.error is not None
    assert "question one, question two" in result.error.message


async def test_what_was_answered_is_not_waited_for() -> None:
    class Host:
        async def ask_user(self, question: str) -> str:
            if question == "Two?":
                raise Parked
            return "yes"

    result = await run(Agent("a", engine=Do(ask_gathered)), "?", host=Host())
    assert [one.id for one in result.pending] == ["two"]


async def test_a_host_that_parks_leaves_its_question_open() -> None:
    class Host:
        def ask_user(self, question: str) -> str:
            raise Parked

    async def work(run: Any, host: Any, board: Any) -> str:
        return str(await host.ask_user("Go?", key="q"))

    result = await run(Agent("a", engine=Do(work)), "?", host=Host(), journal=MemoryJournal())
    assert [(one.id, one.kind) for one in result.pending] == [("q", "pending_question")]
    assert result.warnings == ()


def test_groups_in_groups_say_what_their_signals_say() -> None:
    inner = ExceptionGroup("inner", [Parked(PendingQuestion(id="q", question="Who?"))])
    said = signal_of(ExceptionGroup("outer", [inner, Failed("not_found", "no such order")]))
    assert isinstance(said, Failed)
    assert isinstance(signal_of(ExceptionGroup("outer", [inner])), Parked)
    assert signal_of(ExceptionGroup("outer", [inner, KeyError("k")])) is None
