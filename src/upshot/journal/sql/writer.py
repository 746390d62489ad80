"""The threads of a journal: the writer's, which commits what is queued, and the reader's."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from upshot.contract.base.enums import EFFECTS, Status
from upshot.contract.effects import EffectEntry
from upshot.errors import JournalError
from upshot.journal.event_codec import Entry, epoch_error, gap_error, logger, to_micros
from upshot.journal.pieces import Keep, Pieces, PieceStore
from upshot.journal.run_counts import Tallies, encode_calls
from upshot.journal.run_list import money_of, to_lines
from upshot.journal.sql.connection import WriteConnection
from upshot.journal.sql.count_rows import note_changed_counts, write_counts
from upshot.journal.sql.effect_rows import Refusal, note_effects
from upshot.journal.sql.inbox import keep_asks
from upshot.journal.sql.own_lease import OwnLease
from upshot.journal.sql.submissions import hand_over
from upshot.journal.watching import Changes, Listener, of_run
from upshot.journal.work_listeners import work_listeners
from upshot.state.summary import SummaryChange

_LISTED = "UPDATE runs SET last_seq = ? WHERE run_no = ?"
# One statement for each kind of change: unchanged columns cost time too.
_BEGUN = """UPDATE runs SET status = ?, agent_id = ?, request = ?, parent_run_id = ?,
    context_id = ?, started_at = coalesce(?, started_at), turn = ?, is_chained = is_chained OR ?,
    is_inside = is_inside OR ?, owner = ?, tenant = ? WHERE run_no = ?"""
_WENT_ON = """UPDATE runs SET status = ?, due_at = coalesce(?, due_at),
    due_reason = coalesce(?, due_reason) WHERE run_no = ?"""
# The holder that settles a run stops working on it.
_ENDED = f"""UPDATE runs SET status = ?, spent = ?,
    revision = CASE WHEN ? AND turn <> '' AND revision = 0 AND NOT (? AND is_chained) THEN (
        SELECT max(one.revision) + 1 FROM runs AS one
        WHERE one.context_id <> '' AND one.context_id = runs.context_id) ELSE revision END,
    answer = ?, took = ?, tools = ?, calls = ?, holder = NULL, due_reason = coalesce(?, due_reason),
    due_at = CASE WHEN ? = '{Status.INPUT_REQUIRED}' THEN coalesce(due_at, ?) END
    WHERE run_no = ?"""
# A separate statement, so that a run without cost or effect does not touch these indexes.
_DONE = """UPDATE runs SET tokens = coalesce(?, tokens), cost = coalesce(?, cost),
    currency = coalesce(?, currency), effect = coalesce(?, effect), error_code = ?
    WHERE run_no = ?"""
_HOLDER = "SELECT holder FROM runs WHERE run_no = ?"
_FORK = "INSERT INTO forks (origin_run_id, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING"

_encoder = msgspec.json.Encoder()


@dataclass(slots=True, eq=False)
class Job:
    """Work on the database other than an append."""

    work: Callable[[WriteConnection], Any]
    done: Callable[[Any, Exception | None], None]


Item: TypeAlias = Entry | Job


@dataclass(slots=True, eq=False)
class Committed:
    """The outcome of one transaction.

    Attributes:
        written: The last seq written, by run.
        failed: Why nothing was written, by run.
        settled: Each job with its result or what it raised.
        topics: Topics that jobs and effects changed.
        refused: The claims of effects that were refused.
        watched: The written runs that any process watches.
        shown: The written runs for which any process wants the pieces of replies.
    """

    written: dict[str, int] = field(default_factory=dict[str, int])
    failed: dict[str, JournalError] = field(default_factory=dict[str, JournalError])
    settled: list[tuple[Job, Any, Exception | None]] = field(
        default_factory=list[tuple[Job, Any, Exception | None]]
    )
    topics: set[str] = field(default_factory=set[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])
    watched: set[str] = field(default_factory=set[str])
    shown: AbstractSet[str] = frozenset()


class Batch(ABC):
    """What is written in one transaction.

    Attributes:
        passing: The exceptions that abort the whole transaction because a retry may succeed.
        committed: The outcome, once it is committed.
    """

    passing: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self, connection: WriteConnection) -> None:
        self._writing = connection
        self._groups: dict[str, list[Entry]] = {}
        # With the numbers of their runs.
        self._effects: list[tuple[int, Entry]] = []
        self.committed: Committed = Committed()

    def fill(self, items: Iterable[Item]) -> None:
        """Write all *items* in order; a job sees everything queued before it."""
        # An earlier attempt may have been given up.
        self._writing.counts = Tallies()
        for item in items:
            if isinstance(item, Entry):
                self._groups.setdefault(item.run_id, []).append(item)
            else:
                self._flush()
                self._run_job(item)
        self._flush()
        write_counts(self._writing)
        self.committed.topics, self._writing.topics = self._writing.topics, set()

    @abstractmethod
    def append(self, groups: dict[str, list[Entry]]) -> None:
        """Write the entries of some runs, and report the outcome of each with ``note``."""

    def note(self, run_id: str, entries: Sequence[Entry], error: JournalError | None) -> None:
        """Record that the entries of a run were written, or why not."""
        if error is None:
            self.committed.written[run_id] = entries[-1].seq
        else:
            self.committed.failed.setdefault(run_id, error)

    def _flush(self) -> None:
        groups, self._groups = self._groups, {}
        if groups:
            self.append(groups)
        if self._effects:
            effects, self._effects = self._effects, []
            self.committed.refused += note_effects(self._writing, effects)

    def note_entries(self, run_no: int, entries: Sequence[Entry]) -> None:
        """Write what new entries of a run change beside its log."""
        note_entries(self._writing, run_no, entries)
        self._effects += [(run_no, entry) for entry in entries if entry.effect is not None]

    def _run_job(self, job: Job) -> None:
        # One savepoint each: a failed job's changes must not be committed with the others.
        self._writing.execute("SAVEPOINT job")
        counts, self._writing.counts = self._writing.counts, Tallies()
        try:
            result, failure = job.work(self._writing), None
            counts.add_all(self._writing.counts)
        except self.passing:
            raise
        # The promise kept: an error in one job fails its caller and not the other runs.
        except Exception as error:
            result, failure = None, error
            try:
                self._writing.execute("ROLLBACK TO SAVEPOINT job")
            except Exception:
                # The database has rolled the whole transaction back, as it does on a full disk.
                raise error from None
        self._writing.counts = counts
        self._writing.execute("RELEASE SAVEPOINT job")
        self.committed.settled.append((job, result, failure))


class Committer(Protocol):
    """Writes to one database; it belongs to the writer's thread.

    Attributes:
        rest_s: After how many seconds without work ``rest`` is called; None is never.
    """

    @property
    def rest_s(self) -> float | None: ...

    def commit(self, items: Sequence[Item]) -> Committed:
        """Write *items* in order, and wait until they are safe.

        A run whose entries do not continue its log, or whose epoch is old, is left unchanged and
        listed in ``failed``; the others are written.

        Raises:
            Exception: Nothing at all was written, and nothing will be.
        """
        ...

    def announce(self, committed: Committed) -> None:
        """Notify other processes of what they watch in a commit; never raises."""
        ...

    def do_periodic_work(self) -> None:
        """Do periodic work."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


def misplaced(entries: Sequence[Entry]) -> JournalError | None:
    """Return the error if entries of one run are not consecutive, None if they are."""
    first = entries[0]
    for place, entry in enumerate(entries, first.seq):
        if entry.seq != place:
            return gap_error(entry.run_id, entry.seq, place - 1)
        if entry.epoch != first.epoch:
            return epoch_error(entry.run_id, *sorted((entry.epoch, first.epoch)))
    return None


def misfit(first: Entry, epoch: int, last_seq: int) -> JournalError | None:
    """Return the error if *first* does not continue a run that ends there, None if it does."""
    if epoch != first.epoch:
        return epoch_error(first.run_id, first.epoch, epoch, last_seq)
    if first.seq != last_seq + 1:
        return gap_error(first.run_id, first.seq, last_seq)
    return None


def note_entries(connection: WriteConnection, run_no: int, entries: Sequence[Entry]) -> None:
    """Update the list of runs after new entries of a run."""
    changed = [entry for entry in entries if entry.change is not None]
    if changed or entries[0].seq == 1:
        note_changes(connection, run_no, changed, entries[-1].seq)


def note_changes(
    connection: WriteConnection, run_no: int, changed: Sequence[Entry], last_seq: int
) -> None:
    """Update the list of runs after events, and the end of the log."""
    if changed:
        note_changed_counts(connection, run_no, changed)
        last = changed[-1]
        change = last.change
        hands_on = change is not None and change.handed_over and change.status == Status.COMPLETED
        # Read the holder before the end clears it: the next run of the chain gets the same one.
        holder = connection.execute(_HOLDER, (run_no,)).fetchone() if hands_on else None
        for entry in changed:
            connection.execute(*_row_change(run_no, entry))
        if done := [row for entry in changed if (row := _totals_of(run_no, entry.change))]:
            connection.executemany(_DONE, done)
        if holder is not None and holder[0] is not None:
            hand_over(connection, run_no, last.run_id, holder[0])
        forked = [
            (origin, entry.run_id)
            for entry in changed
            for origin in (entry.change.forked_from if entry.change else ())
        ]
        if forked:
            connection.executemany(_FORK, forked)
        asks = [
            entry.change.asks for entry in changed if entry.change and entry.change.asks is not None
        ]
        if asks:
            keep_asks(connection, run_no, asks[-1])
    connection.execute(_LISTED, (last_seq, run_no))


def _row_change(run_no: int, entry: Entry) -> tuple[str, tuple[object, ...]]:
    """Return the statement that applies an event to a row of runs, and its values."""
    change = entry.change
    assert change is not None
    if change.agent_id is not None:
        started_at, kind = to_micros(change.started_at), (change.turn, change.is_chained)
        whose = (change.is_inside, change.owner, change.tenant)
        return _BEGUN, (*change[:5], started_at, *kind, *whose, run_no)
    if change.usage is None:
        return _WENT_ON, (change.status, to_micros(change.due_at), change.due_reason, run_no)
    spent = _encoder.encode((change.usage, change.cost)).decode()
    counts = (change.committed, change.handed_over)
    names, calls = to_lines(change.tools or ()), encode_calls(change.calls or ())
    listed = (change.answer, change.took_s, names, calls)
    due = (change.due_reason, change.status, to_micros(change.due_at))
    return _ENDED, (change.status, spent, *counts, *listed, *due, run_no)


def _totals_of(run_no: int, change: SummaryChange | None) -> tuple[object, ...] | None:
    """Return what a session cost and did, None if that changes nothing."""
    if change is None or change.error_code is None:
        return None
    if change.usage is None or change.effect is None:
        # A run that resumes is not failed any longer.
        return (None, None, None, None, change.error_code, run_no)
    tokens, effect = change.usage.total_tokens or 0, EFFECTS.index(change.effect)
    is_priced = change.cost is not None and change.cost.total is not None
    currency = change.cost.currency if change.cost is not None and is_priced else ""
    done = (tokens, money_of(change.cost), currency, effect, change.error_code)
    return (*done, run_no) if any(done) else None


T = TypeVar("T")
TellHeld: TypeAlias = Callable[[frozenset[str]], None]
"""Called in the writer's thread with the runs this process holds when its lease is renewed."""
_Call: TypeAlias = tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]


class Worker:
    """One thread, started by the first call.

    The loop's own executor is not used, because closing the loop would wait for its threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def call(self, function: Callable[[], T]) -> T:
        """Run *function* in the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((function, resolve(future)))
        return await future

    def stop(self) -> None:
        """End the thread after the calls that were made."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, done = call
            try:
                result, failure = function(), None
            # The promise kept: whatever the function raises is raised to its caller.
            except Exception as error:
                result, failure = None, error
            done(result, failure)
            # Drop all references to the last call while waiting for the next.
            del call, function, done, result, failure


def resolve(future: asyncio.Future[T]) -> Callable[[Any, Exception | None], None]:
    """Return a function that sets a result or an exception on *future* from any thread."""
    loop = future.get_loop()

    def settle(result: T, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def done(result: Any, error: Exception | None) -> None:
        # If the loop is closed, there is no caller left.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    return done


# The longest time, or amount queued, before entries without a waiting caller are written.
_LINGER_S = 0.05
_QUEUE_BYTES = 1_000_000


class Writer:
    """A queue of jobs, and the thread that writes them.

    All methods belong to the event loop; only the thread uses the database.

    Args:
        place: The journal's file or server, for messages.
        listen: Makes the listener to commits of other processes, which passes on their pieces.
        open_store: Opens the store that keeps pieces for other processes.

    Attributes:
        pieces: The pieces of replies under way.
        changes: The waiters for commits.
        written: Seq of the last event that is safe, by run.
        failed: Why a run's events cannot be written since, by run.
        refused: The entries that blocked claims of effects, by run and call.
        broken: Why nothing can be written since, None while all is well.
        asleep: Whether the thread is idle and checks the queue only when woken.
        lease: This process's lease on the runs that it holds.
        on_renewed: Called in the event loop with those runs when the lease was renewed.
    """

    def __init__(
        self,
        place: str,
        listen: Callable[[Keep], Listener] | None = None,
        open_store: Callable[[], PieceStore] | None = None,
    ) -> None:
        self.changes: Changes = Changes(listen and (lambda: listen(self.pieces.keep)))
        self.pieces: Pieces = Pieces(self.changes, open_store)
        self.written: dict[str, int] = {}
        self.failed: dict[str, JournalError] = {}
        self.refused: dict[tuple[str, str], EffectEntry] = {}
        self.broken: JournalError | None = None
        self._place = place
        # A future in the queue is a caller that waits for everything queued before it.
        self._items: deque[Item | asyncio.Future[None]] = deque()
        self._queued_bytes = 0
        # Each item is a reason to check the queue; their number does not matter.
        self._calls: SimpleQueue[None] = SimpleQueue()
        self.asleep: bool = False
        self._hurried = self._stopping = False
        # Acquired to empty the queue, so that what is queued together is written together.
        self._emptying = threading.Lock()
        self.lease: OwnLease = OwnLease()
        self.on_renewed: TellHeld | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def open(self, connect: Callable[[], Committer]) -> None:
        """Open the database by *connect*, in the thread, and start to write.

        Raises:
            Misuse: The place cannot be a journal.
            JournalError: The database cannot be used.
        """
        opened: asyncio.Future[None] = self._loop.create_future()
        work = (connect, resolve(opened))
        # A daemon, so that a program that forgot to close its journal can still exit. By then,
        # everything that a caller waited for is on disk.
        threading.Thread(target=self._run, args=work, name="upshot-journal", daemon=True).start()
        try:
            await opened
        except asyncio.CancelledError:
            self._stop()
            raise

    def put(self, entry: Entry) -> None:
        """Queue an event; returns at once."""
        self._items.append(entry)
        self._note_queued(len(entry.body))

    async def flush(self) -> None:
        """Wait until everything queued before is written, or has failed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._items.append(future)
        self._flush_soon()
        await future

    def begin(self, work: Callable[[WriteConnection], T]) -> asyncio.Future[T]:
        """Queue *work* in order; returns at once.

        Returns:
            An awaitable for the result of *work*, once that is committed. It raises JournalError if
            the database cannot be written, and what *work* raised, which is then rolled back.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._items.append(Job(work, resolve(future)))
        self._flush_soon()
        return future

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Write everything that is queued within the block in one transaction."""
        with self._emptying:
            yield

    def post(self, work: Callable[[WriteConnection], None], size_bytes: int) -> None:
        """Queue *work*, which keeps *size_bytes* in memory; returns at once."""
        self._items.append(Job(work, _log_failure))
        self._note_queued(size_bytes)

    def report_held(self, held: frozenset[str]) -> None:
        """Report to the event loop which runs are held; called in the thread."""
        if self.on_renewed is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.on_renewed, held)

    async def aclose(self) -> None:
        """Write what is queued, close the database and end the thread."""
        self._stop()
        # Shielded, since the future is shared: a cancelled caller must not end it for the others.
        await asyncio.shield(self._ended)

    def _stop(self) -> None:
        self._stopping = True
        self._flush_soon()

    def _note_queued(self, size_bytes: int) -> None:
        self._queued_bytes += size_bytes
        # So much is written at once, even without a waiting caller, because it takes up memory.
        if self._queued_bytes > _QUEUE_BYTES:
            self._flush_soon()
        # Waking it for each event would cost more than writing it; while awake, it checks by
        # itself.
        elif self.asleep:
            self.asleep = False
            self._calls.put(None)

    def _flush_soon(self) -> None:
        self._queued_bytes = 0
        if not self._hurried:
            self._hurried = True
            self._calls.put(None)

    def _run(
        self, connect: Callable[[], Committer], opened: Callable[[None, Exception | None], None]
    ) -> None:
        try:
            committer = connect()
        # The promise kept: the caller that opens a journal gets the reason for a failure.
        except Exception as error:
            opened(None, error)
            return
        opened(None, None)
        with contextlib.closing(committer):
            while not (self._stopping and not self._items):
                self._wait(committer)
                self._write_queue(committer)
        resolve(self._ended)(None, None)

    def _wait(self, committer: Committer) -> None:
        """Wait until a caller waits, or the queue has not been empty for a while.

        While jobs keep coming, no caller has to wake the thread.
        """
        while not self._hurried:
            try:
                self._calls.get(timeout=_LINGER_S)
            except Empty:
                if self._items:
                    return
                self._sleep(committer)

    def _sleep(self, committer: Committer) -> None:
        self.asleep = True
        # Checked only after that is set: a caller that queues from here on wakes the thread.
        if not self._items and not self._hurried:
            try:
                self._calls.get(timeout=committer.rest_s)
            except Empty:
                committer.do_periodic_work()
        self.asleep = False

    def _write_queue(self, committer: Committer) -> None:
        # Cleared before the queue is emptied: anything queued from here on sets it again.
        self._hurried = False
        items: list[Item] = []
        waiters: list[asyncio.Future[None]] = []
        with self._emptying:
            while self._items:
                item = self._items.popleft()
                if isinstance(item, asyncio.Future):
                    waiters.append(item)
                else:
                    items.append(item)
        committed = self._write(committer, items) if items else None
        if waiters:
            # If the loop is closed, there is no caller left.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_resolve_waiters, waiters)
        if committed is not None:
            # After the waiters were woken, so that it does not delay them.
            if self.changes.watches:
                self.changes.notify({*committed.topics, *map(of_run, committed.written)})
            committer.announce(committed)
            # A busy thread never sleeps.
            if committer.rest_s == 0:
                committer.do_periodic_work()

    def _write(self, committer: Committer, items: list[Item]) -> Committed | None:
        if self.broken is not None:
            _fail_jobs(items, self.broken)
            return None
        began = monotonic()
        try:
            committed = committer.commit(items)
        # The promise kept: whatever stops the writing is raised in all callers that wait for it.
        except Exception as error:
            if not isinstance(error, JournalError):
                error = JournalError(f"the journal {self._place} cannot be written: {error}")
            # Permanently: what was queued is lost, so anything later would follow a gap.
            self.broken = error
            logger.error("%s", error)
            _fail_jobs(items, self.broken)
            return None
        for listener in work_listeners():
            listener.committed(monotonic() - began)
        # The first failure is the cause; later ones follow from it.
        for run_id, failure in committed.failed.items():
            self.failed.setdefault(run_id, failure)
        # Before the waiters are woken, since they read it.
        self.written.update(committed.written)
        for run_id, call_id, entry in committed.refused:
            self.refused[run_id, call_id] = entry
        if committed.shown or self.pieces.wanted:
            self.pieces.note_commit(committed.written.keys(), committed.shown)
        for job, result, error in committed.settled:
            job.done(result, error)
        return committed


def _fail_jobs(items: list[Item], error: JournalError) -> None:
    for item in items:
        if isinstance(item, Job):
            item.done(None, error)


def _resolve_waiters(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _log_failure(result: None, error: Exception | None) -> None:
    """Log the failure of posted work, since no caller waits for it."""
    if error is not None:
        logger.error("a journal could not store something: %s", error)
