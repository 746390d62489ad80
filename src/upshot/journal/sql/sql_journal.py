"""SqlJournal: what the journals in an SQL database share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from os import PathLike, fspath
from os.path import exists
from shutil import disk_usage
from types import MappingProxyType
from typing import ClassVar, TypeAlias, TypeVar

import upshot.journal.sql.queries as stored
from upshot.contract.conversation import Conversation, ConversationSummary
from upshot.contract.events import Event, SeedReference
from upshot.contract.message import Message
from upshot.contract.protocols import Note
from upshot.errors import JournalError
from upshot.journal.audit import row_of, row_of_removal
from upshot.journal.event_codec import (
    Damage,
    Entry,
    damage_error,
    epoch_error,
    gap_error,
    logger,
    read_event,
    stamp_of,
    to_entry,
)
from upshot.journal.lease_holder import LeaseHolder, boot_s, held_error
from upshot.journal.run_list import RemovedRuns, RunQuery, TurnClaim, TurnInTheWay, check_removal
from upshot.journal.shared import SharedValues
from upshot.journal.sql.audit_rows import SqlAudit
from upshot.journal.sql.connection import Connection, WriteConnection, forks
from upshot.journal.sql.conversations import (
    committed_of,
    exported_lines,
    list_conversations,
    read_turns,
    store_blocks,
    used_elsewhere,
)
from upshot.journal.sql.effects import SqlEffects
from upshot.journal.sql.health import JournalHealth, read_facts
from upshot.journal.sql.leases import (
    Hold,
    Lease,
    Taking,
    claim_run,
    hold_run,
    read_holders,
    release_runs,
    wait_for_end,
)
from upshot.journal.sql.lists import SqlLists
from upshot.journal.sql.own_lease import OwnLease, claimed_epoch
from upshot.journal.sql.removal import redact_runs, remove_runs
from upshot.journal.sql.search_rows import SqlSearch
from upshot.journal.sql.sql_artifacts import SqlArtifactStore
from upshot.journal.sql.work import SqlWork
from upshot.journal.sql.writer import Writer
from upshot.journal.watching import Watch
from upshot.journal.work_listeners import work_listeners
from upshot.state.child_runs import Spent
from upshot.state.turns import ConversationState, KeptTurns, Lift

T = TypeVar("T")
Claimed: TypeAlias = Lease | LeaseHolder | TurnInTheWay
# How many events are in memory at once while a run is read.
_PAGE_EVENTS = 256


class SqlJournal(SqlLists, SqlWork, SqlEffects, SqlAudit, SqlSearch):
    """A log in an SQL database; implements Journal, EffectLedger and AuditLog.

    A subclass opens it; it belongs to the event loop it was opened in. Appends are queued and
    written by a separate thread: everything queued goes into one commit that waits for the disk.
    Events without a waiting caller are written a moment later. Other processes may have the same
    database open.

    Attributes:
        path: The place: a file, or the URL of a server, without a password.
        artifacts: The store of large outputs, in the same place.
        lease: This process's lease on the runs that it holds.
        on_lost: Callbacks by run, called when another process has claimed the run.
    """

    # What a driver raises when a statement fails.
    _errors: ClassVar[tuple[type[Exception], ...]]
    # A query for the version of the tables and the kind of standby; and a statement that changes
    # nothing but has to be written.
    _facts: ClassVar[str]
    _touch: ClassVar[str]

    def __init__(
        self, path: str, writer: Writer, reader: stored.Reader, *, read_only: bool = False
    ) -> None:
        self.path = path
        self._is_read_only = read_only
        self.artifacts: SqlArtifactStore = SqlArtifactStore(self)
        self._writer = writer
        self._reader = reader
        self._forks = forks()
        self._holds: dict[str, Hold] = {}
        # Pending reads, by run and the event after which they read.
        self._pages: dict[tuple[str, int], asyncio.Future[stored.EventPage]] = {}
        # Claims under way, at most one for each run, and the tasks of all claims.
        self._takings: dict[str, Taking] = {}
        self._claims: set[asyncio.Task[Claimed]] = set()
        self._losses: set[asyncio.Task[None]] = set()
        self._cuts: dict[str, Damage] = {}
        # Used only by the reader's thread.
        self._committed = KeptTurns()
        self._closed = False
        self.lease: OwnLease = writer.lease
        self.on_lost: dict[str, Callable[[], None]] = {}
        writer.on_renewed = self._find_lost

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}{', closed' if self._closed else ''})"

    @property
    def usable(self) -> bool:
        """Whether it is open and has written everything so far."""
        return not self._closed and self._writer.broken is None

    @property
    def trouble(self) -> JournalError | None:
        """Why a worker must stop using it: it can never be written again; None if it can be."""
        return self._writer.broken

    @property
    def _is_writing(self) -> bool:
        """Whether there is a thread that writes."""
        return self.usable and not self._is_read_only

    async def claim(self, run_id: str, *, cut: bool = False) -> int:
        """Claim the run: returns the new epoch; appends with an older one fail from now on.

        What was appended before it returns is in the log. A claim that fails changes nothing, and a
        cancelled claim that succeeds is released.
        Damage at the end of the log is cut off, logged as a warning and returned by ``damage``.
        It does not check whether another process works on the run: see ``claim_free``.

        Args:
            run_id: The run; it does not need to have any events.
            cut: Whether to drop sound events after a damaged one as well.

        Raises:
            JournalError: Sound events follow a damaged one, or the file cannot be used.
        """
        claim = await self._claim(run_id, cut=cut, take_over=True)
        assert isinstance(claim, Lease)
        return claim.epoch

    async def claim_free(self, run_id: str) -> int:
        """Claim the run like ``claim``, unless a living process on this machine works on it.

        A killed process is known to be gone at once. For a process on another machine that is not
        known, so the run is claimed, and that process's appends fail from now on.

        Raises:
            JournalError: Another process works on the run, sound events follow a damaged one, or
                the file cannot be used.
        """
        claim = await self._claim_from_living(run_id, take_over=False, turn=None)
        assert isinstance(claim, Lease)
        return claim.epoch

    async def claim_turn(
        self, run_id: str, turn: TurnClaim, *, take_over: bool = False
    ) -> int | TurnInTheWay:
        """Claim the run as ``claim_free`` does and, in the same transaction, its turn.

        Args:
            run_id: The run.
            turn: The turn.
            take_over: Whether to claim the run even if another living process works on it.

        Returns:
            The epoch; or the other turn that has not ended, and then nothing was claimed.

        Raises:
            JournalError: As for ``claim_free``.
        """
        claim = await self._claim_from_living(run_id, take_over=take_over, turn=turn)
        return claim.epoch if isinstance(claim, Lease) else claim

    async def _claim_from_living(
        self, run_id: str, *, take_over: bool, turn: TurnClaim | None
    ) -> Lease | TurnInTheWay:
        claim = await self._claim(run_id, cut=False, take_over=take_over, turn=turn)
        if isinstance(claim, LeaseHolder):
            # It may be just ending.
            await wait_for_end(claim)
            claim = await self._claim(run_id, cut=False, take_over=False, turn=turn)
        if isinstance(claim, LeaseHolder):
            raise held_error(run_id, claim)
        return claim

    async def holders(self) -> dict[str, LeaseHolder]:
        """Return the holders of the runs that were claimed and have not settled since, by run."""
        await self.flush()
        return await self.read(read_holders)

    def release(self, run_id: str, epoch: int) -> None:
        """Record that this process has stopped working on the run; returns at once.

        A run that has settled needs no release. All others are released when the journal is closed
        or its process ends.

        Args:
            run_id: The run.
            epoch: What the claim returned; if another holder has claimed it since, nothing happens.
        """
        hold = self._holds.get(run_id)
        if hold is None or not hold.taken or hold.settled or hold.epoch != epoch:
            return
        hold.taken = False
        if self.usable:
            self.post(lambda connection: release_runs(connection, [(run_id, epoch)]), 0)

    async def renew_lease(self, run_id: str) -> None:
        """Renew the lease before work is started in a run that this process holds.

        Raises:
            JournalError: Another process has claimed the run, or the database cannot be reached.
        """
        while boot_s() > self.lease.safe_until:
            held = await self.write(self.lease.renew)
            if run_id not in held:
                await self._give_up([run_id])
                break
        self._check(run_id)

    def _find_lost(self, held: frozenset[str]) -> None:
        """Find the runs that another process has claimed, since they are missing from *held*."""
        lost = [
            run_id
            for run_id, hold in self._holds.items()
            if hold.taken and not hold.settled and run_id not in held
        ]
        if lost and not self._closed:
            for listener in work_listeners():
                listener.lost(len(lost))
            task = asyncio.create_task(self._give_up(lost))
            self._losses.add(task)
            task.add_done_callback(self._losses.discard)
            # If the database cannot be read, the next append reports that in more detail.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _give_up(self, run_ids: Sequence[str]) -> None:
        """Give up the runs that another process has claimed."""
        for run_id in run_ids:
            hold = self._holds.get(run_id)
            epoch = await self.read(lambda connection: claimed_epoch(connection, run_id))  # noqa: B023  # awaited
            if hold is None or epoch == hold.epoch or self._holds.get(run_id) is not hold:
                continue
            error = epoch_error(run_id, hold.epoch, epoch, hold.last_seq)
            self._writer.failed.setdefault(run_id, error)
            if (lose := self.on_lost.get(run_id)) is not None:
                lose()

    async def _claim(
        self, run_id: str, *, cut: bool, take_over: bool, turn: TurnClaim | None = None
    ) -> Claimed:
        # In a separate task: what is queued is executed even if its caller stops waiting.
        task = asyncio.create_task(self._run_claim(run_id, cut=cut, take_over=take_over, turn=turn))
        self._claims.add(task)
        task.add_done_callback(self._claims.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The claim cannot be removed from the queue. If it succeeds, there is no caller to use
            # it.
            task.add_done_callback(partial(self._release_unused, run_id))
            raise

    async def _run_claim(
        self, run_id: str, *, cut: bool, take_over: bool, turn: TurnClaim | None
    ) -> Claimed:
        # A loop, because only the first of several waiters finds the place free.
        while (before := self._takings.get(run_id)) is not None:
            await before.ended.wait()
        taking = self._takings[run_id] = Taking()
        entries = taking.kept
        try:
            claim = await self.write(
                lambda connection: claim_run(
                    connection, run_id, self.lease, cut=cut, take_over=take_over, turn=turn
                )
            )
            if isinstance(claim, Lease):
                entries = taking.hand_over(claim)
                self._record_claim(run_id, claim, entries)
        finally:
            del self._takings[run_id]
            # Their epoch is known only now.
            for entry in entries:
                self._writer.put(entry)
            taking.ended.set()
        if isinstance(claim, Lease) and entries:
            # The previous holder may have settled the run.
            self.post(lambda connection: hold_run(connection, run_id, claim.epoch), 0)
        return claim

    def _record_claim(self, run_id: str, claim: Lease, entries: Sequence[Entry]) -> None:
        """Record a claimed run, to which *entries* will be written first."""
        self._writer.failed.pop(run_id, None)
        self._writer.written[run_id] = claim.last_seq
        last_seq = entries[-1].seq if entries else claim.last_seq
        hold, before = Hold(claim.epoch, last_seq, taken=True), self._holds.get(run_id)
        # No other holder had the run in between, so everything appended with earlier epochs is in
        # the log, which needs no check in the file.
        if before and (before.epoch + 1, before.last_seq) == (claim.epoch, last_seq):
            hold.ends = {**before.ends, before.epoch: last_seq}
        self._holds[run_id] = hold
        if claim.damage is not None:
            self._cuts[run_id] = claim.damage

    def _release_unused(self, run_id: str, task: asyncio.Task[Claimed]) -> None:
        """Release the run of a claim whose caller stopped waiting."""
        if not task.cancelled() and task.exception() is None:
            claim = task.result()
            if isinstance(claim, Lease):
                self.release(run_id, claim.epoch)

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Append a durable event; returns at once.

        Args:
            event: Its seq must be the next of its run.
            epoch: What ``claim`` returned; None is the latest claim made here, and 0 for a run
                that is not claimed yet.

        Raises:
            JournalError: The epoch is old, the seq is not the next, an earlier event of the run
                could not be written, or the journal is closed or broken. What only the file can
                show is raised at the next append and by ``durable``.
            Misuse: It is a delta, has no run, or is not JSON.
        """
        run_id, seq = stamp_of(event)
        self._check(run_id)
        hold = self._holds.get(run_id)
        if hold is None:
            # Only the file knows the last seq of a run that was not claimed here; the writer checks
            # it.
            hold = self._holds[run_id] = Hold(epoch or 0, max(seq - 1, 0))
        # Refused here, at the append that failed: the writer would find out only later.
        if epoch is not None and epoch != hold.epoch:
            raise epoch_error(run_id, epoch, hold.epoch, hold.last_seq)
        if seq != hold.last_seq + 1:
            raise gap_error(run_id, seq, hold.last_seq)
        entry = to_entry(event, run_id, seq, hold.epoch)
        taking = self._takings.get(run_id)
        if taking is None:
            self._writer.put(entry)
        else:
            taking.kept.append(entry)
        hold.last_seq = seq
        hold.settled = entry.change is not None and entry.change.is_end

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Wait until every event of the run up to *seq* is safe on disk.

        Args:
            run_id: The run.
            seq: The last of those events.
            epoch: The epoch with which the caller appended it; None means any epoch.

        Raises:
            JournalError: They could not be written, the run has no such event, or another holder
                appended *seq*.
        """
        writer = self._writer
        if writer.written.get(run_id, 0) < seq:
            self._check(run_id)
            taking = self._takings.get(run_id)
            if taking is not None:
                # The claim decides with which epoch these events are written, or that they are
                # refused.
                await taking.wait()
            # Checked again afterwards: the flush itself may find that nothing can be written.
            await writer.flush()
            self._check(run_id)
            if writer.written.get(run_id, 0) < seq:
                await self._require_event(run_id, seq)
        hold = self._holds.get(run_id)
        if epoch is not None and not (hold is not None and hold.has(seq, epoch)):
            await self._require_epoch(run_id, seq, epoch)
        self._forget_settled(run_id, seq)

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Iterate over the run's durable events with a seq above *after*, in order.

        A damaged log yields exactly the events before the damage. If no sound event follows, it
        ends there with a logged warning, and ``damage`` describes it.

        Raises:
            JournalError: Sound events follow a damaged one, or the file cannot be read.
        """
        # Readers see what is in the file, and the last appends may still be queued.
        await self._flush_run(run_id)
        last, more = max(after, 0), True
        while more:
            page = await self._page(run_id, last)
            last, more = page.last, page.more
            for entry in page.entries:
                yield read_event(entry)
            if page.fault:
                await self._report_damage(run_id)

    async def last_seq(self, run_id: str) -> int:
        """Return the seq of the run's last event, including queued ones; 0 if it has none."""
        hold = self._holds.get(run_id)
        if hold is not None:
            return hold.last_seq
        return await self.read(lambda connection: stored.last_seq(connection, run_id))

    async def damage(self, run_id: str) -> Damage | None:
        """Return the damage to the run's log, also if a claim made here has cut it off."""
        await self._flush_run(run_id)
        scan = await self.read(lambda connection: stored.scan_run(connection, run_id))
        return scan.damage or self._cuts.get(run_id)

    async def conversation(self, id: str) -> Conversation:
        """Return the state of a conversation; writes nothing.

        Args:
            id: The conversation; one that does not exist has no runs.

        Raises:
            JournalError: One of its logs is damaged, or the journal is closed.
        """
        return (await self.read_turns(id)).shown()

    async def conversations(
        self,
        *,
        limit: int | None = None,
        newest_first: bool = True,
        owner: str = "",
        tenant: str = "",
    ) -> Sequence[ConversationSummary]:
        """List the conversations, by the start of their last run.

        Args:
            limit: The maximum number to return, from 1; None returns all.
            newest_first: Whether the one with the newest run comes first, or last.
            owner: Only conversations of this user of *tenant*, or of no tenant: ``user`` of the
                attributes of their runs.
            tenant: Only conversations of this tenant.

        Raises:
            Misuse: *limit* is not a positive whole number.
        """
        wanted = RunQuery(limit=limit, owner=owner, tenant=tenant)
        wanted.check()
        await self.flush()
        return await self.read(
            lambda connection: list_conversations(connection, wanted, newest_first=newest_first)
        )

    async def read_turns(
        self, id: str, *, read: Callable[[], Lift] | None = None, without: str = ""
    ) -> ConversationState:
        """Read a conversation in order to start a turn.

        Args:
            id: The conversation.
            read: Makes, for each log, a function that gets its events first, as for ``states``.
            without: The first run of a turn that is about to start, "" for none.
        """
        await self.flush()
        found, blocks = await self.read(
            lambda connection: read_turns(connection, id, read, self._committed, without=without)
        )
        if blocks:
            await self.write(lambda connection: store_blocks(connection, id, blocks))
        return found

    async def seed_messages(self, seed: SeedReference) -> Sequence[Message]:
        """Return the messages of a conversation that a log names, for ``states(..., seeds=)``."""
        await self.flush()
        return await self.read(
            lambda connection: committed_of(connection, seed.conversation, self._committed).at(
                seed.revision
            )
        )

    async def used_elsewhere(self, id: str, *, without: str, answers: bool = False) -> Spent:
        """Sum what a conversation's runs used, but *without* and its child runs."""
        await self.flush()
        with_totals = partial(used_elsewhere, id=id, without=without, answers=answers)
        return await self.read(with_totals)

    def watch(self, *topics: str) -> Watch:
        """See ``SharedJournal.watch``."""
        if self._closed:
            raise JournalError(f"the journal {self.path} is closed")
        self._check_process()
        return self._writer.changes.watch(*topics)

    def is_watched(self, run_id: str) -> bool:
        """See ``SharedJournal.is_watched``."""
        return self._writer.pieces.is_watched(run_id)

    def show(self, event: Event) -> None:
        """See ``SharedJournal.show``."""
        self._writer.pieces.show(event)

    def pieces(self, run_id: str, seq: int, part: int) -> Sequence[Event]:
        """See ``SharedJournal.pieces``."""
        return self._writer.pieces.after(run_id, seq, part)

    async def keep_note(self, note: Note) -> None:
        """See ``SharedJournal.keep_note``."""
        self.check_text(note.name, note.by)
        await self.write(lambda connection: stored.keep_note(connection, note))

    async def redact(self, *, conversation: str, by: str = "") -> Sequence[str]:
        """See ``SharedJournal.redact``."""
        row = row_of("redact", user=by, subject=conversation)
        run_ids = await self.write(lambda connection: redact_runs(connection, conversation, row))
        await self.read(lambda connection: self._committed.forget())
        await self.erase_removed()
        await asyncio.to_thread(self.clear_room, run_ids)
        return run_ids

    def clear_room(self, run_ids: Sequence[str]) -> None:
        """Erase the remains of what was overwritten or streamed of these runs; blocks."""

    async def notes(self, run_id: str) -> Sequence[Note]:
        """See ``SharedJournal.notes``."""
        return await self.read(lambda connection: stored.read_notes(connection, run_id))

    async def value(self, name: str) -> str:
        """See ``SharedJournal.value``."""
        return await self.read(lambda connection: stored.read_value(connection, name))

    async def change_values(self, change: Callable[[SharedValues], T]) -> T:
        """See ``SharedJournal.change_values``."""
        return await self.write(lambda connection: change(stored.StoredValues(connection)))

    async def settle_claim(self, run_id: str) -> None:
        """See ``SharedJournal.settle_claim``."""
        while (taking := self._takings.get(run_id)) is not None:
            await taking.ended.wait()

    def together(self) -> AbstractContextManager[None]:
        """See ``SharedJournal.together``."""
        return self._writer.together()

    def begin_change(self, change: Callable[[SharedValues], T]) -> Awaitable[T]:
        """See ``SharedJournal.begin_change``."""
        self._check("")
        return self._writer.begin(lambda connection: change(stored.StoredValues(connection)))

    async def remove_runs(
        self,
        run_ids: Sequence[str] = (),
        *,
        ended_before: datetime | None = None,
        keep: Mapping[str, str] = MappingProxyType({}),
        conversation: str = "",
        effects: bool = False,
        archived: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> RemovedRuns:
        """Remove runs with everything they started, and their artifacts.

        The file does not shrink: new events reuse the space, and SQLite's ``VACUUM`` makes it
        smaller.

        Args:
            run_ids: These runs, whether they have ended or not.
            ended_before: All root runs that ended before this, timezone-aware. Runs that a fork or
                a later turn reads stay, and committed turns after one that stays; they are listed.
            keep: With *ended_before*: runs that stay with their tree, and the reason of each.
            conversation: All runs of this conversation, whether they have ended or not.
            effects: Whether to remove their effects as well. By default these stay with their
                outcomes, so that no call makes them again, until their keys expire.
            archived: With *ended_before*: only these runs go, each if it still has this
                ``fingerprint``. The audit then keeps their arguments.
            dry_run: Only report what would be removed.

        Raises:
            Misuse: Not exactly one of the first three is given; a run or conversation does not
                exist; a run is being worked on, or is still read by its parent, a fork or a later
                turn.
            JournalError: The journal is damaged or closed.
        """
        check_removal(run_ids, ended_before, conversation)
        row = row_of_removal(run_ids, ended_before, conversation, archived=archived is not None)
        removed = await self.write(
            lambda connection: remove_runs(
                connection,
                run_ids,
                ended_before,
                conversation,
                keep=keep,
                effects=effects,
                archived=archived,
                row=None if dry_run else row,
            )
        )
        if not dry_run:
            for run_id in removed.run_ids:
                self._holds.pop(run_id, None)
                self._writer.written.pop(run_id, None)
            await self.erase_removed()
        return removed

    async def health(self) -> JournalHealth:
        """Return the journal's present health; commits a transaction to find out.

        Raises:
            JournalError: It cannot be read.
        """
        facts = await self.read(lambda connection: read_facts(connection, self._facts))
        # A commit that waits for a standby cannot be abandoned, so none is tried.
        why_not = "commits wait for a standby that is not connected" * (facts.standby == "away")
        try:
            if not why_not:
                await self.write(lambda connection: connection.execute(self._touch))
        except JournalError as error:
            why_not = str(error)
        free = disk_usage(self.path).free if exists(self.path) else None
        return JournalHealth(
            place=self.path,
            is_writable=not why_not,
            why_not=why_not,
            disk_free_bytes=free,
            **facts._asdict(),
        )

    async def export(self, run_id: str, path: str | PathLike[str]) -> int:
        """Write a run with its artifacts as JSON lines; returns the number of events.

        Raises:
            Misuse: There is no such run, or *path* cannot be written.
            JournalError: The run is damaged.
        """
        await self.flush()
        return await self.read(
            lambda connection: stored.export_run(
                connection,
                run_id,
                fspath(path),
                exported_lines(connection, run_id, self._committed),
            )
        )

    async def import_(self, path: str | PathLike[str]) -> str:
        """Read a run from JSON lines; returns its id.

        Raises:
            Misuse: *path* cannot be read.
            JournalError: A line is damaged, or the journal already has the run; then nothing is
                imported.
        """
        run_id = await self.write(lambda connection: stored.import_run(connection, fspath(path)))
        # What was known about the run without events is now out of date.
        self._holds.pop(run_id, None)
        return run_id

    async def aclose(self) -> None:
        """Write what is queued and close the file; may be called again."""
        while under_way := self._claims | self._losses:
            # A cancelled claim is released when it ends.
            await asyncio.wait(under_way)
        if self._closed:
            return
        if self._forks != forks():
            # Its threads belong to the other process.
            self._closed = True
            return
        for run_id, hold in self._holds.items():
            self.release(run_id, hold.epoch)
        self._closed = True
        self._writer.pieces.close()
        await self._writer.changes.aclose()
        await self._reader.aclose()
        if not self._is_read_only:
            await self._writer.aclose()

    async def flush(self) -> None:
        """Wait until everything appended is written, as far as it can be."""
        for taking in tuple(self._takings.values()):
            if taking.kept:
                await taking.ended.wait()
        if self._is_writing:
            await self._writer.flush()

    def check_text(self, *texts: str) -> None:
        """Raise Misuse for texts that the database cannot store in a column."""

    async def write(self, work: Callable[[WriteConnection], T]) -> T:
        """Call *work* in a transaction, after everything queued.

        Raises:
            JournalError: The journal is closed, or its file cannot be written.
            Exception: What *work* raised; then it is rolled back.
        """
        self._check("")
        try:
            return await self._writer.begin(work)
        except self._errors as error:
            raise JournalError(f"the journal {self.path} cannot be used: {error}") from error

    def post(self, work: Callable[[WriteConnection], None], size_bytes: int) -> None:
        """Queue *work*, which keeps *size_bytes* in memory; returns at once.

        Raises:
            JournalError: The journal is closed, or its file cannot be written.
        """
        self._check("")
        self._writer.post(work, size_bytes)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Call *work* on what is committed.

        Raises:
            JournalError: The journal is closed, or its file is damaged.
            Exception: What *work* raised.
        """
        if self._closed:
            raise JournalError(f"the journal {self.path} is closed")
        self._check_process()
        return await self._reader.read(work)

    def _check_process(self) -> None:
        """Raise JournalError if this process was forked from the one that opened the journal."""
        # Locks and connections belong to the process: a child that used those of its parent could
        # corrupt what both write.
        if self._forks != forks():
            raise JournalError(
                f"the journal {self.path} was opened before this process was forked: "
                "start processes by spawn, or before opening it"
            )

    def _check(self, run_id: str) -> None:
        """Raise JournalError, a new one each time, if nothing can be written to the run."""
        writer = self._writer
        is_open = not (self._closed or self._is_read_only) and self._forks == forks()
        # Runs at every append, so the reason is looked up only on failure.
        if is_open and writer.broken is None and run_id not in writer.failed:
            return
        if self._closed:
            raise JournalError(f"the journal {self.path} is closed")
        self._check_process()
        if self._is_read_only:
            raise JournalError(f"the journal {self.path} cannot be written: it is read-only")
        failure = writer.broken or writer.failed.get(run_id)
        if failure is not None:
            raise type(failure)(
                str(failure), run_id=run_id, seq=failure.seq, taken_over=failure.taken_over
            ) from failure

    async def _flush_run(self, run_id: str) -> None:
        hold = self._holds.get(run_id)
        if hold is not None and self._writer.written.get(run_id, 0) < hold.last_seq:
            await self.flush()

    async def _page(self, run_id: str, after: int) -> stored.EventPage:
        place = run_id, after
        page = self._pages.get(place)
        if page is None:

            def look(connection: Connection) -> stored.EventPage:
                # Later callers may have been woken by a later commit, so they need a new read.
                self._pages.pop(place, None)
                return stored.read_page(connection, run_id, after, _PAGE_EVENTS)

            # A commit wakes all watchers of a run, and they can share one read.
            page = self._pages[place] = asyncio.ensure_future(self.read(look))
            page.add_done_callback(lambda done: self._pages.pop(place, None))
        return await asyncio.shield(page)

    async def _report_damage(self, run_id: str) -> None:
        scan = await self.read(lambda connection: stored.scan_run(connection, run_id))
        if scan.damage is None:
            return
        if not scan.damage.tail:
            raise damage_error(scan.damage)
        logger.warning("%s", scan.damage)

    async def _require_event(self, run_id: str, seq: int) -> None:
        last_seq = await self.read(lambda connection: stored.last_seq(connection, run_id))
        if last_seq < seq:
            raise JournalError(f"run {run_id} has no event {seq}", run_id=run_id, seq=last_seq)

    async def _require_epoch(self, run_id: str, seq: int, epoch: int) -> None:
        """Check in the file who appended an event, since other holders have claimed the run."""
        written = await self.read(lambda connection: stored.epoch_of(connection, run_id, seq))
        if seq and written != epoch:
            hold = self._holds.get(run_id)
            raise epoch_error(run_id, epoch, written if hold is None else hold.epoch)

    def _forget_settled(self, run_id: str, seq: int) -> None:
        """Forget a run whose session is over, so that memory does not grow over time."""
        hold = self._holds.get(run_id)
        if hold is not None and hold.settled and hold.last_seq <= seq:
            del self._holds[run_id]
            self._writer.written.pop(run_id, None)
