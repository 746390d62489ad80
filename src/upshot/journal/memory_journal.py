"""MemoryJournal: a log that lives as long as the process."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from os import PathLike, fspath

from upshot.contract.codec import encode
from upshot.contract.events import Event, RunSettled
from upshot.contract.protocols import RunSummary
from upshot.errors import JournalError
from upshot.journal.artifact_store import MemoryArtifactStore, StoredArtifact
from upshot.journal.event_codec import (
    DURABLE,
    NOTED,
    RUNNING,
    Damage,
    Entry,
    Exported,
    Note,
    checked_id,
    decode_event,
    epoch_error,
    from_unix,
    gap_error,
    noted,
    read_lines,
    stamp_of,
    write_lines,
)
from upshot.journal.lease_holder import LeaseHolder

__all__ = ["MemoryJournal"]


_NO_ENDS: dict[int, int] = {}


class _Log:
    """One run."""

    __slots__ = ("ends", "epoch", "events", "loop")

    # Shared by all that have been claimed once, which are nearly all.
    ends: dict[int, int]
    # Where it was begun, None once somebody has claimed or released it.
    loop: asyncio.AbstractEventLoop | None

    def __init__(self) -> None:
        self.epoch = 0
        self.events: list[Event] = []
        self.ends = _NO_ENDS
        self.loop = None

    def summary(self, run_id: str) -> RunSummary:
        times = (getattr(event, "time", None) for event in reversed(self.events))
        first = next(self._notes(self.events), None) or Note(RUNNING)
        last = next(self._notes(reversed(self.events)), first)
        return RunSummary(
            run_id=run_id,
            agent_id=first.agent_id or "",
            status=last.status,
            started_at=from_unix(first.started_at),
            updated_at=next((time for time in times if time is not None), None),
            events=len(self.events),
            request=first.request or "",
            parent_run_id=first.parent_run_id or "",
        )

    def has(self, seq: int, epoch: int) -> bool:
        """Whether who has appended under *epoch* may have appended *seq*."""
        return epoch == self.epoch or seq <= self.ends.get(epoch, 0)

    def refusal(self, run_id: str, seq: int, epoch: int | None) -> JournalError:
        """Why the event *seq* cannot be taken."""
        last_seq = len(self.events)
        if epoch is not None and epoch != self.epoch:
            return epoch_error(run_id, epoch, self.epoch, last_seq)
        return gap_error(run_id, seq, last_seq)

    def _notes(self, events: Iterable[Event]) -> Iterator[Note]:
        return filter(None, (noted(event) for event in events if type(event) in NOTED))


class MemoryJournal:
    """Keeps runs in memory; plays the role Journal.

    It keeps the events themselves and not their JSON, so that they cost nothing; who
    changes a dict within an event after it was appended changes the log. Runs leave out
    of their results what lives in the process only, as in any other log.

    Attributes:
        artifacts: The store of large outputs.
    """

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
        """Take the run: returns the new epoch; appends with an older one fail from now on.

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
        """Whether a run that ``begin`` took is worked on: not settled, released or taken since."""
        log = self._logs.get(run_id)
        if log is None or log.loop is None or not log.loop.is_running():
            return False
        return not log.events or type(log.events[-1]) is not RunSettled

    def release(self, run_id: str, epoch: int) -> None:
        """Note that a run is not worked on any more; returns at once.

        Args:
            run_id: The run.
            epoch: Under which it was taken; where somebody has taken it since, nothing is done.
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
            Misuse: It is a delta, or of no run.
        """
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
        """Take the first event of a run that nobody has claimed, or one of an unknown kind."""
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
            epoch: Under which whoever waits has appended it; None is whoever did.

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
        """The processes that took runs; none is noted, for nobody else has this journal."""
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

    async def runs(self, status: str | None = None) -> Sequence[RunSummary]:
        """The runs, newest first; only those of *status* where one is given."""
        latest_first = reversed(self._open().items())
        found = [log.summary(run_id) for run_id, log in latest_first if log.events]
        found.sort(
            key=lambda run: run.started_at.timestamp() if run.started_at else 0, reverse=True
        )
        return [run for run in found if status is None or run.status == status]

    async def export(self, run_id: str, path: str | PathLike[str]) -> int:
        """Write a run with its artifacts as JSON lines; returns how many events.

        Raises:
            Misuse: There is no such run, or *path* cannot be written.
        """
        log = self._open().get(run_id, _Log())
        bodies = [encode(event) for event in log.events]
        artifacts = self.artifacts.of_run(run_id)
        run = Exported(run_id, len(bodies), bodies, len(artifacts), artifacts)
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
            if isinstance(line, Entry):
                run_id = line.run_id
                log.events.append(decode_event(line.body))
            else:
                artifacts.append(line)
        # Looked at only now, for others may have come while the file was read.
        known = self._open().get(run_id)
        if known is not None and known.events:
            raise JournalError(f"run {run_id} is in the journal already", run_id=run_id)
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
