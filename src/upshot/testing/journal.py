"""JournalContract: what every journal must do."""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ..contract import (
    AgentResult,
    AgentSpec,
    BoardChanged,
    Event,
    Journal,
    Message,
    Request,
    RunSettled,
    RunStarted,
    Status,
    StepSettled,
    TextDelta,
    ToolCall,
    ToolStarted,
)
from ..errors import JournalError, Misuse, UpshotError

__all__ = ["JournalContract"]

_START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_Play = Callable[[Any, Journal], Coroutine[Any, Any, None]]


def _with_journal(play: _Play) -> Callable[[Any], None]:
    """Make a plain test of *play*: it is given a new journal, which is closed afterwards."""

    def test(self: JournalContract) -> None:
        async def run() -> None:
            async with _made(self) as journal:
                await play(self, journal)

        asyncio.run(run())

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


class JournalContract:
    """A suite for pytest: inherit, and give a ``make`` that returns a new, empty journal.

    ::

        class TestMyJournal(JournalContract):
            async def make(self):
                return await MyJournal.open(...)
    """

    def make(self) -> Journal | Awaitable[Journal]:
        """A new, open journal without any run; it may be a coroutine."""
        raise NotImplementedError("a subclass makes the journal")

    @_with_journal
    async def test_events_come_back_equal_and_in_order(self, journal: Journal) -> None:
        """What was appended is what is read."""
        told = _tell(journal, "run-1", 5)
        await journal.durable("run-1", 5)
        assert await _read(journal, "run-1") == told

    @_with_journal
    async def test_events_are_read_before_anybody_asked_for_safety(self, journal: Journal) -> None:
        """Reading sees what is still queued."""
        told = _tell(journal, "run-1", 3)
        assert await _read(journal, "run-1") == told

    @_with_journal
    async def test_reading_begins_after_the_seq_that_is_named(self, journal: Journal) -> None:
        """``after`` leaves out what is known."""
        told = _tell(journal, "run-1", 5)
        assert await _read(journal, "run-1", after=3) == told[3:]
        assert await _read(journal, "run-1", after=5) == []

    @_with_journal
    async def test_a_long_run_is_read_whole(self, journal: Journal) -> None:
        """Reading in pieces shows no seam."""
        _tell(journal, "run-1", 500)
        assert [event.seq for event in await _read(journal, "run-1")] == list(range(1, 501))

    @_with_journal
    async def test_a_run_that_is_not_there_has_no_events(self, journal: Journal) -> None:
        """Reading an unknown run is no error."""
        assert await _read(journal, "run-unknown") == []

    @_with_journal
    async def test_runs_do_not_mix(self, journal: Journal) -> None:
        """Each run has its own log."""
        first, second = _tell(journal, "run-1", 3), _tell(journal, "run-2", 4)
        assert await _read(journal, "run-1") == first
        assert await _read(journal, "run-2") == second

    @_with_journal
    async def test_a_gap_is_refused(self, journal: Journal) -> None:
        """The next seq is one more than the last."""
        _tell(journal, "run-1", 2)
        with _raises(JournalError):
            journal.append(_step("run-1", 4))

    @_with_journal
    async def test_a_repeated_seq_is_refused(self, journal: Journal) -> None:
        """No event replaces another."""
        told = _tell(journal, "run-1", 2)
        with _raises(JournalError):
            journal.append(_step("run-1", 2))
        assert await _read(journal, "run-1") == told

    @_with_journal
    async def test_a_delta_is_refused(self, journal: Journal) -> None:
        """Deltas are for watchers."""
        with _raises(Misuse):
            journal.append(TextDelta(run_id="run-1", seq=1, part=1, text="x"))

    @_with_journal
    async def test_claims_count_up(self, journal: Journal) -> None:
        """Every claim gives a higher epoch."""
        first, second = await journal.claim("run-1"), await journal.claim("run-1")
        assert second > first

    @_with_journal
    async def test_an_old_epoch_can_no_longer_append(self, journal: Journal) -> None:
        """Who lost a run cannot write to it."""
        old = await journal.claim("run-1")
        journal.append(_started("run-1"), epoch=old)
        new = await journal.claim("run-1")
        with _raises(JournalError):
            journal.append(_step("run-1", 2), epoch=old)
        journal.append(_step("run-1", 2), epoch=new)
        await journal.durable("run-1", 2)

    @_with_journal
    async def test_many_may_wait_for_one_event(self, journal: Journal) -> None:
        """Barriers do not disturb one another."""
        _tell(journal, "run-1", 3)
        await asyncio.gather(*(journal.durable("run-1", seq) for seq in (1, 3, 2, 3)))

    @_with_journal
    async def test_an_event_that_nobody_appended_is_never_safe(self, journal: Journal) -> None:
        """Waiting for it is an error and no endless wait."""
        _tell(journal, "run-1", 2)
        with _raises(JournalError):
            await journal.durable("run-1", 3)

    @_with_journal
    async def test_the_list_of_runs_says_what_each_is(self, journal: Journal) -> None:
        """A summary is kept with the events."""
        _tell(journal, "run-1", 3)
        (run,) = await journal.runs()
        assert (run.run_id, run.agent_id, run.events) == ("run-1", "agent", 3)
        assert (run.status, run.ended, run.request) == ("running", False, "a question")
        assert (run.started_at, run.updated_at) == (_START, _START + timedelta(seconds=2))

    @_with_journal
    async def test_the_list_of_runs_follows_their_status(self, journal: Journal) -> None:
        """A settled run has the status of its result."""
        _tell(journal, "run-1", 2)
        _tell(journal, "run-2", 2)
        journal.append(_settled("run-2", 3))
        await journal.durable("run-2", 3)
        assert [run.run_id for run in await journal.runs("completed")] == ["run-2"]
        assert [run.run_id for run in await journal.runs("running")] == ["run-1"]

    @_with_journal
    async def test_the_list_of_runs_has_the_newest_first(self, journal: Journal) -> None:
        """Newest by the time they started, whatever was appended first."""
        for run_id, day in (("run-2", 2), ("run-3", 3), ("run-1", 1)):
            journal.append(_started(run_id, _START + timedelta(days=day)))
        assert [run.run_id for run in await journal.runs()] == ["run-3", "run-2", "run-1"]

    @_with_journal
    async def test_a_run_that_was_only_claimed_is_not_listed(self, journal: Journal) -> None:
        """A run begins with its first event."""
        await journal.claim("run-1")
        assert list(await journal.runs()) == []

    @_with_journal
    async def test_what_was_exported_is_imported_equal(self, journal: Journal) -> None:
        """Out and in is identity."""
        told = _tell(journal, "run-1", 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.jsonl")
            assert await journal.export("run-1", path) == 4
            async with _made(self) as other:
                assert await other.import_(path) == "run-1"
                assert await _read(other, "run-1") == told
                assert list(await other.runs()) == list(await journal.runs())

    @_with_journal
    async def test_an_import_never_changes_a_run(self, journal: Journal) -> None:
        """A run id that is there already is refused."""
        told = _tell(journal, "run-1", 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.jsonl")
            await journal.export("run-1", path)
            with _raises(JournalError):
                await journal.import_(path)
        assert await _read(journal, "run-1") == told

    @_with_journal
    async def test_an_export_of_nothing_is_misuse(self, journal: Journal) -> None:
        """No file is made for a run that is not there."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.jsonl")
            with _raises(Misuse):
                await journal.export("run-unknown", path)
            assert os.listdir(folder) == []

    @_with_journal
    async def test_a_damaged_import_takes_nothing(self, journal: Journal) -> None:
        """All or nothing, and the line is named."""
        _tell(journal, "run-1", 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.jsonl")
            await journal.export("run-1", path)
            with open(path, "rb") as file:
                lines = file.readlines()
            lines[3] = lines[3][:-10] + b"\n"
            with open(path, "wb") as file:
                file.writelines(lines)
            async with _made(self) as other:
                with _raises(JournalError, "line 4"):
                    await other.import_(path)
                assert await _read(other, "run-1") == []

    @_with_journal
    async def test_a_closed_journal_takes_nothing(self, journal: Journal) -> None:
        """After the close every append is an error, and closing again is none."""
        await journal.aclose()
        with _raises(JournalError):
            journal.append(_started("run-1"))
        await journal.aclose()


@asynccontextmanager
async def _made(suite: JournalContract) -> AsyncGenerator[Journal]:
    made = suite.make()
    journal = await made if inspect.isawaitable(made) else made
    try:
        yield journal
    finally:
        await journal.aclose()


class _raises:
    """A block that must raise; pytest is not needed to import this."""

    def __init__(self, expected: type[UpshotError], words: str = "") -> None:
        self._expected = expected
        self._words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        assert error is not None, f"{self._expected.__name__} was not raised"
        if not isinstance(error, self._expected):
            return False
        assert self._words in str(error), str(error)
        return True


def _tell(journal: Journal, run_id: str, count: int) -> list[Event]:
    told = [_started(run_id), *(_step(run_id, seq) for seq in range(2, count + 1))]
    for event in told:
        journal.append(event)
    return told


def _started(run_id: str, time: datetime = _START) -> Event:
    return RunStarted(
        run_id=run_id, seq=1, time=time, agent=AgentSpec(id="agent"), request=Request("a question")
    )


def _step(run_id: str, seq: int) -> Event:
    stamp: dict[str, Any] = {
        "run_id": run_id,
        "seq": seq,
        "attempt": 1,
        "time": _START + timedelta(seconds=seq - 1),
    }
    match seq % 3:
        case 0:
            return StepSettled(**stamp, key=f"step {seq}", value={"text": "ä\n\x00", "n": [1.5]})
        case 1:
            return BoardChanged(**stamp, messages=(Message("assistant", "text"),))
        case _:
            return ToolStarted(**stamp, call=ToolCall(f"call-{seq}", "tool", {"a": None}))


def _settled(run_id: str, seq: int) -> Event:
    result = AgentResult[Any](run_id=run_id, status=Status.COMPLETED, output="done")
    return RunSettled(run_id=run_id, seq=seq, time=_START, result=result)


async def _read(journal: Journal, run_id: str, after: int = 0) -> list[Any]:
    return [event async for event in journal.events(run_id, after)]
