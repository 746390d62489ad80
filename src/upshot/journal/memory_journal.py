"""MemoryJournal: a log that lives as long as the process."""

from __future__ import annotations

import asyncio
import math
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from os import PathLike, fspath
from typing import Unpack

from upshot.contract.codec import encode
from upshot.contract.events import Event
from upshot.contract.protocols import RunFilters, RunSummary
from upshot.errors import JournalError, Misuse
from upshot.journal.artifact_store import MemoryArtifactStore, StoredArtifact
from upshot.journal.event_codec import (
    DURABLE,
    Damage,
    check_readable,
    checked_id,
    epoch_error,
    gap_error,
    parse_line,
    stamp_of,
)
from upshot.journal.export_file import ExportedRun, read_lines, write_lines
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.run_list import (
    RemovedRuns,
    RunQuery,
    already_there,
    check_removal,
    choose_removal,
    no_such_page,
)
from upshot.state.summary import RUNNING, SummaryChange, summary_change

_NO_ENDS: dict[int, int] = {}


class _Log:
    """One run."""

    __slots__ = ("ends", "epoch", "events", "loop")

    # Shared by all that have been claimed once, which are nearly all.
    ends: dict[int, int]
    # Where it was begun, None once it has been claimed or released.
    loop: asyncio.AbstractEventLoop | None

    def __init__(self) -> None:
        self.epoch = 0
        self.events: list[Event] = []
        self.ends = _NO_ENDS
        self.loop = None

    def summary(self, run_id: str) -> RunSummary:
        times = (getattr(event, "time", None) for event in reversed(self.events))
        first = next(self._changes(self.events), None) or SummaryChange(RUNNING)
        last = next(self._changes(reversed(self.events)), first)
        return RunSummary(
            run_id=run_id,
            agent_id=first.agent_id or "",
            status=last.status,
            started_at=first.started_at,
            updated_at=next((time for time in times if time is not None), None),
            events=len(self.events),
            request=first.request or "",
            parent_run_id=first.parent_run_id or "",
            context_id=first.context_id or "",
        )

    @property
    def origins(self) -> Iterable[str]:
        """The runs that this one is a fork of."""
        return (one for change in self._changes(self.events) for one in change.forked_from)

    @property
    def is_over(self) -> bool:
        """Whether the last session has ended."""
        change = summary_change(self.events[-1]) if self.events else None
        return change is not None and change.is_end

    def has(self, seq: int, epoch: int) -> bool:
        """Whether the holder of *epoch* may have appended *seq*."""
        return epoch == self.epoch or seq <= self.ends.get(epoch, 0)

    def refusal(self, run_id: str, seq: int, epoch: int | None) -> JournalError:
        """Why the event *seq* cannot be taken."""
        last_seq = len(self.events)
        if epoch is not None and epoch != self.epoch:
            return epoch_error(run_id, epoch, self.epoch, last_seq)
        return gap_error(run_id, seq, last_seq)

    def _changes(self, events: Iterable[Event]) -> Iterator[SummaryChange]:
        return filter(None, map(summary_change, events))


class MemoryJournal:
    """Keeps runs in memory; plays the role Journal.

    It keeps the events themselves and not their JSON, so that they cost nothing; a caller that
    changes a dict within an event after it was appended changes the log. Runs leave out
    of their results what lives in the process only, as in any other log.

    Attributes:
        artifacts: The store of large outputs.
        is_safe_at_append: True: what is in memory is as safe as it will ever be. False in a
            subclass with a ``claim`` or ``durable`` of its own, which has to be called.
    """

    is_safe_at_append: bool = True

    def __init_subclass__(cls) -> None:
        if not {"claim", "durable"}.isdisjoint(vars(cls)):
            cls.is_safe_at_append = False

    def __init__(self) -> None:
        self.artifacts: MemoryArtifactStore = MemoryArtifactStore()
        self._logs: dict[str, _Log] = {}
        self._closed = False

    def __repr__(self) -> str:
        runs = f"{len(self._logs)} run{'' if len(self._logs) == 1 else 's'}"
        return f"MemoryJournal({'closed' if self._closed else runs})"

    @property
    def usable(self) -> bool:
        """Whether it is open."""
        return not self._closed

    async def claim(self, run_id: str, *, cut: bool = False) -> int:
        """Claim the run: returns the new epoch; appends with an older one fail from now on.

        Args:
            run_id: The run; it need not have any event.
            cut: Without effect here: memory is not damaged.
        """
        logs = self._open()
        log = logs.get(run_id)
        if log is None:
            log = logs[checked_id(run_id)] = _Log()
        elif log.events:
            log.ends = {**log.ends, log.epoch: len(log.events)}
        log.epoch += 1
        log.loop = None
        return log.epoch

    def begin(self, run_id: str) -> int:
        """Take a run that is new, and is worked on from now on in the event loop that runs.

        Args:
            run_id: The run, which has no event.

        Returns:
            The epoch; ``claim`` takes over from it as from any other.
        """
        logs = self._open()
        log = logs.get(run_id)
        if log is None:
            log = logs[checked_id(run_id)] = _Log()
        log.epoch += 1
        log.loop = get_running_loop()
        return log.epoch

    def is_begun(self, run_id: str) -> bool:
        """Whether a run that ``begin`` claimed has not been settled, released or claimed since."""
        log = self._logs.get(run_id)
        if log is None or log.loop is None or not log.loop.is_running():
            return False
        return not log.is_over

    def release(self, run_id: str, epoch: int) -> None:
        """Note that a run is not worked on any more; returns at once.

        Args:
            run_id: The run.
            epoch: Under which it was taken; nothing is done if it was taken again since.
        """
        log = self._logs.get(run_id)
        if log is not None and log.epoch == epoch:
            log.loop = None

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Take a durable event; returns at once.

        Args:
            event: Its seq must be the next of its run.
            epoch: What ``claim`` gave; None takes the latest.

        Raises:
            JournalError: The epoch is old, the seq is not the next, or the journal is closed.
            Misuse: It is a delta, of no run, or, without an epoch, could not be read back.
        """
        if epoch is None:
            # Not of a session, whose values were checked when they were made.
            check_readable(event)
        log = self._logs.get(event.run_id) if type(event) in DURABLE else None
        if log is None:
            # An id is looked at once a run, for this is done for every event of every run.
            self._append_other(event, epoch)
            return
        events = log.events
        if event.seq != len(events) + 1 or (epoch != log.epoch and epoch is not None):
            raise log.refusal(event.run_id, event.seq, epoch)
        events.append(event)

    def _append_other(self, event: Event, epoch: int | None) -> None:
        """Take the first event of a run that is not claimed, or one of an unknown kind."""
        run_id, seq = stamp_of(event)
        log = self._open().get(run_id) or _Log()
        if seq != len(log.events) + 1 or (epoch is not None and epoch != log.epoch):
            raise log.refusal(run_id, seq, epoch)
        self._logs[run_id] = log
        log.events.append(event)

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Wait until every event of the run up to *seq* is safe; here they always are.

        Args:
            run_id: The run.
            seq: Of the last one.
            epoch: The epoch under which the caller appended it; None is any epoch.

        Raises:
            JournalError: The run has no such event, *seq* is that of another holder's, or the
                journal is closed.
        """
        log = self._open().get(run_id)
        last_seq = 0 if log is None else len(log.events)
        if log is not None and epoch is not None and not log.has(seq, epoch):
            raise epoch_error(run_id, epoch, log.epoch, last_seq)
        if seq > last_seq:
            raise JournalError(f"run {run_id} has no event {seq}", run_id=run_id, seq=last_seq)

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The run's durable events with a seq above *after*, in order."""
        log = self._open().get(run_id)
        place = max(after, 0)
        # By place, since events may be appended between two that are handed out.
        while log is not None and place < len(log.events):
            yield log.events[place]
            place += 1

    async def holders(self) -> dict[str, LeaseHolder]:
        """The processes that hold runs: always empty, since no other process has this journal."""
        self._open()
        return {}

    async def last_seq(self, run_id: str) -> int:
        """Seq of the run's last event, 0 if it has none."""
        log = self._open().get(run_id)
        return 0 if log is None else len(log.events)

    async def damage(self, run_id: str) -> Damage | None:
        """What is wrong with the run's log; here nothing ever is."""
        self._open()
        return None

    async def runs(
        self, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """The runs, newest first by the time they started; see ``Journal.runs``."""
        wanted = RunQuery(status, **filters)
        wanted.check()
        listed = self._listed()
        if wanted.before:
            ids = [run.run_id for run in listed]
            if wanted.before not in ids:
                raise no_such_page(wanted.before)
            listed = listed[ids.index(wanted.before) + 1 :]
        return [run for run in listed if wanted.holds(run)][: wanted.limit]

    def _listed(self) -> list[RunSummary]:
        latest_first = reversed(self._open().items())
        listed = [log.summary(run_id) for run_id, log in latest_first if log.events]
        listed.sort(
            key=lambda run: run.started_at.timestamp() if run.started_at else -math.inf,
            reverse=True,
        )
        return listed

    async def remove_runs(
        self,
        run_ids: Sequence[str] = (),
        *,
        ended_before: datetime | None = None,
        dry_run: bool = False,
    ) -> RemovedRuns:
        """Remove runs with all that they started, and their artifacts.

        Args:
            run_ids: These runs, whether they have ended or not.
            ended_before: All root runs that ended before this, timezone-aware; those that a fork
                still reads stay, and are named.
            dry_run: Only tell what would be removed.

        Raises:
            Misuse: Nothing is named, or both are; a run that is named is not there, is being
                worked on, or is still read by its parent or a fork.
        """
        logs = self._open()
        check_removal(run_ids, ended_before)
        forks: dict[str, list[str]] = {}
        for run_id, log in logs.items():
            for origin in log.origins:
                forks.setdefault(origin, []).append(run_id)
        at_work = [run_id for run_id in logs if self.is_begun(run_id)]
        gone, kept = choose_removal(
            run_ids, ended_before, self._listed(), forks=forks, at_work=at_work
        )
        artifacts = [one for run_id in gone for one in self.artifacts.of_run(run_id)]
        if not dry_run:
            for run_id in gone:
                del logs[run_id]
            self.artifacts.drop(one.id for one in artifacts)
        return RemovedRuns(
            run_ids=tuple(gone),
            artifacts=len(artifacts),
            size_bytes=sum(len(one.data) for one in artifacts),
            kept=kept,
        )

    async def export(self, run_id: str, path: str | PathLike[str]) -> int:
        """Write a run with its artifacts as JSON lines; returns how many events.

        Raises:
            Misuse: There is no such run, an event of it holds what could not be read back, or
                *path* cannot be written.
        """
        log = self._open().get(run_id, _Log())
        lines = [_line_of(event) for event in log.events]
        artifacts = self.artifacts.of_run(run_id)
        run = ExportedRun(run_id, len(lines), lines, len(artifacts), artifacts)
        return await asyncio.to_thread(write_lines, fspath(path), run)

    async def import_(self, path: str | PathLike[str]) -> str:
        """Read a run from JSON lines; returns its id.

        Raises:
            Misuse: *path* cannot be read.
            JournalError: A line is damaged, or the run is there already; nothing is taken.
        """
        self._open()
        lines = await asyncio.to_thread(lambda: list(read_lines(fspath(path))))
        log = _Log()
        artifacts: list[StoredArtifact] = []
        run_id = ""
        for line in lines:
            if isinstance(line, StoredArtifact):
                artifacts.append(line)
            else:
                run_id = line.entry.run_id
                log.events.append(line.event)
        # Checked only now: the run may have been created while the file was read.
        known = self._open().get(run_id)
        if known is not None and known.events:
            raise already_there(run_id)
        log.epoch = 0 if known is None else known.epoch
        self._logs[run_id] = log
        for artifact in artifacts:
            self.artifacts.keep(artifact)
        return run_id

    async def aclose(self) -> None:
        """Forget everything; may be called again."""
        self._closed = True
        self._logs = {}

    def _open(self) -> dict[str, _Log]:
        if self._closed:
            raise JournalError("the journal is closed")
        return self._logs


def _line_of(event: Event) -> bytes:
    """The event as JSON that is sure to be read back."""
    line = encode(event)
    try:
        parse_line(line)
    except Misuse as error:
        raise Misuse(f"this {event.kind} cannot be exported: {error}") from error
    return line
