"""MemoryJournal: a log that lives as long as the process."""

from __future__ import annotations

import asyncio
import time
from asyncio import get_running_loop
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from upshot.contract.base.enums import Status
from upshot.contract.conversation import Conversation, ConversationSummary
from upshot.contract.events import (
    REDACTED,
    Event,
    RunReleased,
    RunResumed,
    RunSettled,
    RunStarted,
    SeedReference,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Pending, PendingApproval
from upshot.contract.protocols import Note, RunSummary
from upshot.errors import JournalError
from upshot.journal.artifact_store import MemoryArtifactStore, StoredArtifact
from upshot.journal.audit import row_of, row_of_removal, with_count
from upshot.journal.event_codec import (
    DURABLE,
    Damage,
    check_readable,
    checked_id,
    epoch_error,
    stamp_of,
)
from upshot.journal.export_file import ExportedRun, read_lines, write_lines
from upshot.journal.facts import facts_of_run, forget_facts
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.memory_audit import MemoryAudit
from upshot.journal.memory_effects import MemoryEffects
from upshot.journal.memory_lists import Due, MemoryLists, started_at_s
from upshot.journal.memory_log import MemoryLog, exported_line
from upshot.journal.memory_notes import MemoryNotes
from upshot.journal.pieces import Pieces
from upshot.journal.run_list import (
    RemovedRuns,
    RunFamily,
    RunQuery,
    TurnClaim,
    TurnInTheWay,
    already_there,
    check_removal,
    choose_redaction,
    choose_removal,
    earlier_turn,
    open_error,
    unarchived,
)
from upshot.journal.shared import (
    DueRun,
    OtherUser,
    PlacedAnswer,
    Stop,
    Submission,
    Unsent,
    duplicate_id_error,
    handed_over,
    is_past_key,
    place_beside,
    redacted_submission,
    used_links_of,
    withdrawals_of,
)
from upshot.journal.watching import DUE, Changes, Watch, of_run, placed_answers_topic
from upshot.state.child_runs import CHAIN_OPTION, TURN_OPTION, Spent, bare_id
from upshot.state.redacted_events import redacted, with_seed_of
from upshot.state.run_state import RunState
from upshot.state.stored_events import with_seed
from upshot.state.summary import (
    NO_ASKS,
    asks_after,
    owner_of,
    summary_change,
)
from upshot.state.turns import (
    ConversationState,
    KeptTurns,
    Lift,
    committed_turns,
    folded,
    read_conversation,
    summarised,
    used_in_all_measured,
)

T = TypeVar("T")
_CALLS = frozenset[type]((ToolStarted, ToolSettled))
_NOTED = frozenset[type]((RunStarted, RunResumed, RunReleased, RunSettled)) | _CALLS


class MemoryJournal(MemoryLists, MemoryEffects, MemoryNotes, MemoryAudit):
    """Keeps runs in memory; implements Journal, EffectLedger and AuditLog.

    It keeps the event objects themselves, not their JSON, so they cost nothing; but a caller that
    changes a dict within an appended event changes the log. As in any other log, results omit
    what exists only in the process.

    Attributes:
        artifacts: The store of large outputs.
        is_safe_at_append: True: memory cannot become any safer later. False in a subclass that
            overrides ``claim`` or ``durable``, which then have to be called.
    """

    is_safe_at_append: bool = True

    def __init_subclass__(cls) -> None:
        if not {"claim", "durable"}.isdisjoint(vars(cls)):
            cls.is_safe_at_append = False

    def __init__(self) -> None:
        MemoryEffects.__init__(self)
        MemoryNotes.__init__(self)
        MemoryAudit.__init__(self)
        self.artifacts: MemoryArtifactStore = MemoryArtifactStore()
        self._logs: dict[str, MemoryLog] = {}
        self._committed = KeptTurns()
        self._submissions: dict[str, Submission] = {}
        self._submitted_at: dict[str, datetime] = {}
        # Submissions by key, including removed runs; then the time of removal.
        self._keys: dict[str, tuple[Submission, datetime | None]] = {}
        # The open questions of parked runs, by run.
        self._asks: dict[str, Mapping[str, Pending]] = {}
        self._due: dict[str, Due] = {}
        self._changes = Changes()
        self._watches = self._changes.watches
        self._pieces = Pieces(self._changes, None)
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
            run_id: The run; it does not need to have any events.
            cut: Has no effect here: memory is never damaged.
        """
        logs = self._open()
        log = logs.get(run_id)
        if log is None:
            log = logs[checked_id(run_id)] = MemoryLog()
        elif log.events:
            log.ends = {**log.ends, log.epoch: len(log.events)}
        log.epoch += 1
        log.loop = None
        self._abandoned.discard(run_id)
        self._due.pop(run_id, None)
        return log.epoch

    async def claim_turn(
        self, run_id: str, turn: TurnClaim, *, take_over: bool = False
    ) -> int | TurnInTheWay:
        """Claim a run and its turn of a conversation together.

        Args:
            run_id: The run.
            turn: The turn.
            take_over: Has no effect here: no other process has this journal.

        Returns:
            The epoch; or the other turn that has not ended, and then nothing was claimed.
        """
        for other_id, log in self._turns_of(turn.conversation).items():
            if other_id == run_id or log.turn.head == turn.head:
                continue
            status = log.turn_status
            if status and turn.is_blocked_by(status):
                return TurnInTheWay(other_id, status)
        epoch = await self.claim(run_id)
        log = self._logs[run_id]
        log.turn, log.loop = turn, get_running_loop()
        return epoch

    def begin(self, run_id: str) -> int:
        """Claim a new run that is worked on in the running event loop from now on.

        Args:
            run_id: The run, which has no events.

        Returns:
            The epoch; ``claim`` takes over from it as from any other.
        """
        logs = self._open()
        log = logs.get(run_id)
        if log is None:
            log = logs[checked_id(run_id)] = MemoryLog()
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
        """Record that the session stopped working on a run; returns at once.

        Args:
            run_id: The run.
            epoch: The epoch of its claim; if the run was claimed again since, nothing happens.
        """
        log = self._logs.get(run_id)
        if log is not None and log.epoch == epoch:
            log.loop = None
            self._abandoned.add(run_id)
            if run_id in self._submissions and not log.is_over:
                self._make_due(run_id, "released")

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Append a durable event; returns at once.

        Args:
            event: Its seq must be the next of its run.
            epoch: What ``claim`` returned; None is the latest.

        Raises:
            JournalError: The epoch is old, the seq is not the next, or the journal is closed.
            Misuse: It is a delta, has no run, or, without an epoch, could not be read back.
        """
        if epoch is None:
            # Not from a session, whose values were checked when they were made.
            check_readable(event)
        kind = type(event)
        log = self._logs.get(event.run_id) if kind in DURABLE else None
        if log is None:
            # The id is checked only once a run: the path below runs for every event.
            self._append_other(event, epoch)
            return
        events = log.events
        if event.seq != len(events) + 1 or (epoch != log.epoch and epoch is not None):
            raise log.refusal(event.run_id, event.seq, epoch)
        events.append(event)
        if kind in _NOTED:
            if kind in _CALLS:
                self._note_call(event)
            else:
                self._note_end(event, log)
        if self._watches:
            self._changes.notify([of_run(event.run_id)])

    def _note_end(self, event: Event, log: MemoryLog) -> None:
        """Record the start or the end of a session."""
        if self._asks or type(event) is RunSettled:
            self._keep_asks(event)
        self._note(event, log)

    def _keep_asks(self, event: Event) -> None:
        """Record the open questions of a run that has just parked or resumed."""
        if self._notifications:
            self._notifications = {
                key: one for key, one in self._notifications.items() if key[0] != event.run_id
            }
        if isinstance(event, RunSettled) and event.asks:
            # A question may have an answer that is not in the log yet.
            known = self._wishes.get(event.run_id, {})
            self._asks[event.run_id] = {
                item: one for item, one in event.asks.items() if item not in known
            }
        else:
            self._asks.pop(event.run_id, None)

    def _note(self, event: Event, log: MemoryLog) -> None:
        """Update the turn and the due runs after the first or last event of a session."""
        if self._due and not self._is_open(event.run_id, log):
            self._due.pop(event.run_id, None)
        if isinstance(event, RunReleased) and event.due_at is not None:
            self._due[event.run_id] = Due(event.due_at, event.reason)
        elif isinstance(event, RunStarted):
            log.is_chained = CHAIN_OPTION in event.options
            if TURN_OPTION in event.options and (change := summary_change(event)) is not None:
                log.turn = TurnClaim(change.context_id or "", change.turn or "")
        elif isinstance(event, RunSettled):
            result = event.result
            if event.due_at is not None and self._is_open(event.run_id, log):
                self._due.setdefault(event.run_id, Due(event.due_at, "expired"))
            hands_over = log.is_chained and result.handoff is not None
            if hands_over and log.epoch and result.status is Status.COMPLETED:
                self._hand_over(event.run_id, log)
            if log.turn.head and result.committed and not (log.revision or hands_over):
                turns = self._turns_of(log.turn.conversation)
                log.revision = 1 + max(one.revision for one in turns.values())

    def _hand_over(self, run_id: str, log: MemoryLog) -> None:
        """Submit the next run in a chain of handoffs, held by the same loop."""
        known = log.summary(run_id)
        asked = Request(known.request, context_id=known.context_id)
        new = handed_over(run_id, known.agent_id, asked, self._submissions.get(run_id))
        if new.run_id not in self._logs:
            following = self._logs[new.run_id] = MemoryLog()
            following.turn, following.is_chained = log.turn, True
            following.loop = get_running_loop()
            self._submissions[new.run_id] = new
            self._submitted_at[new.run_id] = datetime.now(UTC)

    def _runs_of(self, conversation: str) -> list[RunSummary]:
        """Return the runs of a conversation, oldest first."""
        found = [
            log.summary(run_id)
            for run_id, log in self._open().items()
            if conversation and log.events and log.is_of(conversation)
        ]
        found.sort(key=started_at_s)
        return found

    def _turns_of(self, conversation: str) -> dict[str, MemoryLog]:
        """Return the runs that are turns of a conversation, by id."""
        return {
            run_id: log
            for run_id, log in self._logs.items()
            if log.turn.head and log.turn.conversation == conversation
        }

    def _append_other(self, event: Event, epoch: int | None) -> None:
        """Append the first event of a run that is not claimed, or one of an unknown kind."""
        run_id, seq = stamp_of(event)
        log = self._open().get(run_id) or MemoryLog()
        if seq != len(log.events) + 1 or (epoch is not None and epoch != log.epoch):
            raise log.refusal(run_id, seq, epoch)
        self._logs[run_id] = log
        log.events.append(event)
        self._note(event, log)
        self._note_call(event)
        self._changes.notify([of_run(run_id)])

    def watch(self, *topics: str) -> Watch:
        """See ``SharedJournal.watch``."""
        self._open()
        return self._changes.watch(*topics)

    def is_watched(self, run_id: str) -> bool:
        """See ``SharedJournal.is_watched``."""
        return self._pieces.is_watched(run_id)

    def show(self, event: Event) -> None:
        """See ``SharedJournal.show``."""
        self._pieces.show(event)

    def pieces(self, run_id: str, seq: int, part: int) -> Sequence[Event]:
        """See ``SharedJournal.pieces``."""
        return self._pieces.after(run_id, seq, part)

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Wait until every event of the run up to *seq* is safe; here they always are.

        Args:
            run_id: The run.
            seq: The last of those events.
            epoch: The epoch with which the caller appended it; None means any epoch.

        Raises:
            JournalError: The run has no such event, another holder appended *seq*, or the
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
        # By index, since events may be appended while the caller has one.
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

    async def conversation(self, id: str) -> Conversation:
        """Return the state of a conversation; see ``SqliteJournal.conversation``."""
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

        See ``SqliteJournal.conversations``.
        """
        wanted = RunQuery(limit=limit, owner=owner, tenant=tenant)
        wanted.check()
        found: dict[str, list[RunSummary]] = {}
        for run in self._listed():
            if run.context_id and wanted.holds(run):
                found.setdefault(run.context_id, []).insert(0, run)
        listed = [summarised(id, runs) for id, runs in found.items()]
        return (listed if newest_first else listed[::-1])[:limit]

    async def read_turns(
        self, id: str, *, read: Callable[[], Lift] | None = None, without: str = ""
    ) -> ConversationState:
        """Read a conversation in order to start a turn; see ``SqliteJournal.read_turns``."""
        kept = self._committed if read is None else KeptTurns()

        def state_of(run_id: str) -> RunState:
            return folded(self._logs[run_id].events, None if read is None else read())

        return read_conversation(id, self._runs_of(id), state_of, kept.of(id), without=without)

    async def seed_messages(self, seed: SeedReference) -> Sequence[Message]:
        """Return the messages of a conversation that a log names, for ``states(..., seeds=)``."""
        turns = committed_turns(
            self._runs_of(seed.conversation),
            lambda run_id: folded(self._logs[run_id].events),
            self._committed.of(seed.conversation),
        )
        return turns.at(seed.revision)

    async def used_elsewhere(self, id: str, *, without: str, answers: bool = False) -> Spent:
        """Sum what the runs of a conversation used, except for *without* and its child runs."""
        runs, logs = self._runs_of(id), self._logs
        return used_in_all_measured(
            runs, lambda one: folded(logs[one].events), without=without, answers=answers
        )

    async def place_answer(
        self,
        answer: PlacedAnswer,
        *,
        seq: int = 0,
        asked: PendingApproval | None = None,
        shown: AnyAnswer | None = None,
    ) -> PlacedAnswer | None:
        """See ``SharedJournal.place_answer``."""
        log, kept = self._open().get(answer.run_id), self._wishes.setdefault(answer.run_id, {})
        placement = place_beside(answer, kept.values(), asked)
        standing = placement.standing
        if not placement.is_new:
            return standing
        if seq and (log is None or len(log.events) != seq):
            return None
        self._add_answer(answer, shown, self._asks.get(answer.run_id, {}).get(answer.item))
        kept[standing.row] = standing
        if answer.item in (asks := self._asks.get(answer.run_id, {})):
            after = {**asks, answer.item: placement.asked}
            self._asks[answer.run_id] = {item: one for item, one in after.items() if one}
        if seq and placement.asked is None:
            self._make_due(self._root_of(answer.run_id), "answered")
        self._changes.notify([placed_answers_topic(answer.run_id)])
        return standing

    def _pop_questions(self, effect_id: str) -> set[str]:
        """Remove the questions about an effect from the inbox; returns the runs that ask them."""
        asking = {run_id for run_id, asks in self._asks.items() if effect_id in asks}
        for run_id in asking:
            left = {item: one for item, one in self._asks[run_id].items() if item != effect_id}
            self._asks[run_id] = left
        return asking

    async def pop_unsent(
        self, agent_ids: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[Unsent]:
        """See ``SharedJournal.pop_unsent``."""
        self._open()
        now = time.monotonic()
        taken: list[Unsent] = []
        for item in await self.inbox():
            asking = item.pending.run_id or item.run_id
            for question, asked in self._asks[asking].items():
                at, tries = self._notifications.get((asking, question), (now, 0))
                is_it = bare_id(asked) == bare_id(item.pending) and at <= now
                if is_it and item.agent_id in agent_ids and len(taken) < limit:
                    self._notifications[asking, question] = now + for_s, tries + 1
                    taken.append(Unsent(item, asking, question, tries))
        return taken

    async def place_stop(self, stop: Stop) -> None:
        """See ``SharedJournal.place_stop``."""
        self._open()
        self._stops.setdefault(stop.run_id, {}).setdefault(stop.kind, stop)
        self._changes.notify([placed_answers_topic(stop.run_id)])
        self._make_due(self._root_of(stop.run_id), stop.kind)

    async def submit(self, new: Submission) -> Submission:
        """See ``SharedJournal.submit``."""
        logs = self._open()
        if new.key and (standing := self._find_by_key(new.key)) is not None:
            return standing
        if new.run_id in logs:
            raise duplicate_id_error(new.run_id)
        self._check_owner(new)
        if new.key:
            self._keys[new.key] = new, None
        logs[checked_id(new.run_id)] = MemoryLog()
        now = self._submitted_at[new.run_id] = datetime.now(UTC)
        self._submissions[new.run_id] = new
        self._due[new.run_id] = Due(new.at or now, "submitted")
        self._changes.notify([DUE])
        return new

    def _check_owner(self, new: Submission) -> None:
        """Raise OtherUser if the conversation belongs to another user."""
        conversation, owner = new.request.context_id, owner_of(new.options.get("attributes"))
        if conversation and any(owner):
            runs = [run for run in self._listed() if run.context_id == conversation]
            if runs and (runs[-1].owner, runs[-1].tenant) != owner:
                raise OtherUser(conversation)

    def _find_by_key(self, key: str) -> Submission | None:
        """Return the submission with a key; None if the key is unknown or expired."""
        found, ended_at = self._keys.get(key, (None, None))
        if found is None:
            return None
        log = self._logs.get(found.run_id)
        if log is not None and log.is_over and not self._is_open(found.run_id, log):
            ended_at = log.summary(found.run_id).updated_at
        return None if is_past_key(ended_at, datetime.now(UTC)) else found

    async def submission(self, run_id: str) -> Submission | None:
        """See ``SharedJournal.submission``."""
        self._open()
        return self._submissions.get(run_id)

    async def withdraw(self, run_id: str) -> None:
        """See ``SharedJournal.withdraw``."""
        log = self._open().get(run_id)
        if log is not None and not log.events and run_id in self._submissions:
            for known in (self._logs, self._submissions, self._submitted_at, self._due):
                known.pop(run_id, None)
            self._changes.notify([of_run(run_id)])

    async def due_runs(
        self,
        agent_ids: Collection[str] | None = None,
        *,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[DueRun]:
        """See ``SharedJournal.due_runs``."""
        logs, now = self._open(), datetime.now(UTC)
        found: list[DueRun] = []
        for one_id, due in self._due.items():
            if run_id not in (None, one_id):
                continue
            summary = self._summary(one_id, logs[one_id])
            is_wanted = agent_ids is None or summary.agent_id in agent_ids
            if is_wanted and due.at <= now and not self.is_begun(one_id):
                new = self._submissions.get(one_id)
                one = DueRun(
                    run_id=one_id,
                    agent_id=summary.agent_id,
                    conversation=summary.context_id,
                    reason=due.reason,
                    priority=0 if new is None else new.priority,
                    at=due.at,
                    has_begun=bool(logs[one_id].events),
                    epoch=logs[one_id].epoch,
                )
                found.append(one)
        found.sort(key=lambda one: (-one.priority, one.is_new, one.at))
        return found[:limit]

    async def reserve_due(self, run_ids: Sequence[str], *, for_s: float) -> Sequence[str]:
        """See ``SharedJournal.reserve_due``."""
        self._open()
        # No other process has these runs.
        return run_ids

    async def make_due(self, run_id: str, reason: str, *, delay_s: float = 0) -> None:
        """See ``SharedJournal.make_due``."""
        self._open()
        self._due.pop(run_id, None)
        self._make_due(run_id, reason, delay_s)

    def _make_due(self, run_id: str, reason: str, delay_s: float = 0) -> None:
        log = self._logs.get(run_id)
        if log is not None and self._is_open(run_id, log):
            at = datetime.now(UTC) + timedelta(seconds=delay_s)
            due = self._due.get(run_id)
            # On a release, the log's own time for the run to become due takes precedence.
            if due is None or (reason != "released" and at < due.at):
                self._due[run_id] = Due(at, reason)
            self._changes.notify([DUE])

    def _is_open(self, run_id: str, log: MemoryLog) -> bool:
        """Whether it was submitted or has started, has not ended, and is not a child run."""
        is_known = bool(log.events) or run_id in self._submissions
        return is_known and not self._summary(run_id, log).ended and not self._parent_of(run_id)

    def _parent_of(self, run_id: str) -> str:
        """Return the run that waits for a run, "" if there is none."""
        log = self._logs.get(run_id)
        parent_id = "" if log is None else log.summary(run_id).parent_run_id
        parent = self._logs.get(parent_id)
        return "" if parent is None or parent.summary(parent_id).ended else parent_id

    def _root_of(self, run_id: str) -> str:
        while parent_id := self._parent_of(run_id):
            run_id = parent_id
        return run_id

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
        """See ``SqliteJournal.remove_runs``."""
        logs = self._open()
        check_removal(run_ids, ended_before, conversation)
        if archived is not None:
            keep = {**unarchived(logs, archived, self._fingerprint), **keep}
        gone, kept = choose_removal(run_ids, ended_before, conversation, self._family(), keep)
        artifacts = [one for run_id in gone for one in self.artifacts.of_run(run_id)]
        if not dry_run:
            self._keep_effects(gone, effects=effects)
            for run_id in gone:
                del logs[run_id]
                self._abandoned.discard(run_id)
                self._wishes.pop(run_id, None)
                self._notes.pop(run_id, None)
                self._values.forget(*withdrawals_of(run_id))
                self._values.forget(*used_links_of(run_id))
                self._values.forget(*facts_of_run(run_id))
                self._asks.pop(run_id, None)
                self._stops.pop(run_id, None)
                self._due.pop(run_id, None)
                new = self._submissions.pop(run_id, None)
                if new is not None and new.key:
                    bare = replace(new, request=Request(""), options={}, marks={})
                    self._keys[new.key] = bare, datetime.now(UTC)
            self.artifacts.drop(one.id for one in artifacts)
            if archived is None:
                self._blank_rows(gone)
            if effects and ended_before is not None:
                self._drop_effects(ended_before)
            if gone or effects:
                is_archived = archived is not None
                row = row_of_removal(run_ids, ended_before, conversation, archived=is_archived)
                self._add_row(with_count(row, len(gone)))
        return RemovedRuns(
            run_ids=tuple(gone),
            artifacts=len(artifacts),
            size_bytes=sum(len(one.data) for one in artifacts),
            kept=kept,
        )

    async def fingerprint(self, run_id: str) -> object:
        """See ``SqlLists.fingerprint``."""
        self._open()
        return self._fingerprint(run_id)

    def _fingerprint(self, run_id: str) -> object:
        notes = self._notes.get(run_id, {}).values()
        outputs = len(self.artifacts.of_run(run_id))
        return tuple(self._logs[run_id].events), tuple(notes), outputs

    def _family(self) -> RunFamily:
        """Return how the runs depend on each other."""
        forks: dict[str, list[str]] = {}
        for run_id, log in self._logs.items():
            for origin in log.origins:
                forks.setdefault(origin, []).append(run_id)
        at_work = [run_id for run_id in self._logs if self.is_begun(run_id)]
        return RunFamily(self._listed(), forks=forks, at_work=at_work)

    async def redact(self, *, conversation: str, by: str = "") -> Sequence[str]:
        """See ``SharedJournal.redact``."""
        self._open()
        chosen = choose_redaction(conversation, self._family())
        for run_id, log in self._turns_of(conversation).items():
            if log.turn_status:
                raise open_error(conversation, run_id, log.turn_status)
        at, run_ids = datetime.now(UTC), [run.run_id for run in chosen]
        row = with_count(row_of("redact", user=by, subject=conversation), len(run_ids))
        for run_id in run_ids:
            self._redact(run_id, row.user, at)
        self._blank_rows(run_ids)
        self._add_row(row)
        self._committed.forget()
        for run_id in run_ids:
            events = self._logs[run_id].events
            events[:] = [await with_seed_of(event, self.seed_messages) for event in events]
            self._changes.notify([of_run(run_id)])
        return run_ids

    def _redact(self, run_id: str, by: str, at: datetime) -> None:
        """Remove the content from everything stored about a run."""
        events = self._logs[run_id].events
        events[:] = [redacted(event, by, at) for event in events]
        self._redact_effects(run_id)
        forget_facts(self._values, run_id)
        notes = self._notes.get(run_id, {})
        notes.update((key, replace(note, value=REDACTED)) for key, note in notes.items())
        for kept in (self._wishes, self._stops, self._asks):
            kept.pop(run_id, None)
        if (new := self._submissions.get(run_id)) is not None:
            bare = self._submissions[run_id] = redacted_submission(new)
            if new.key:
                self._keys[new.key] = bare, None
        self.artifacts.drop([one.id for one in self.artifacts.of_run(run_id)])

    async def export(self, run_id: str, path: str | PathLike[str]) -> int:
        """See ``SqliteJournal.export``."""
        log = self._open().get(run_id, MemoryLog())
        whole = [await with_seed(event, self.seed_messages) for event in log.events]
        lines = [*map(exported_line, whole)]
        artifacts = self.artifacts.of_run(run_id)
        notes = await self.notes(run_id)
        run = ExportedRun(run_id, len(lines), lines, len(artifacts), artifacts, notes)
        return await asyncio.to_thread(write_lines, fspath(path), run)

    async def import_(self, path: str | PathLike[str]) -> str:
        """See ``SqliteJournal.import_``."""
        self._open()
        lines = await asyncio.to_thread(lambda: list(read_lines(fspath(path))))
        log, run_id, asks = MemoryLog(), "", NO_ASKS
        for line in lines:
            if not isinstance(line, StoredArtifact | Note):
                run_id = line.entry.run_id
                log.events.append(line.event)
        # Checked only here: the run may have been created while the file was read.
        known = self._open().get(run_id)
        if known is not None and known.events:
            raise already_there(run_id)
        self._check_turn(run_id, log)
        log.epoch = 0 if known is None else known.epoch
        self._logs[run_id] = log
        for event in log.events:
            self._note(event, log)
            self._note_call(event)
            asks = asks_after(asks, event)
            # What the ledger already has stays.
            self._refused.pop((run_id, getattr(event, "call_id", "")), None)
        if asks:
            self._asks[run_id] = asks
        for line in lines:
            if isinstance(line, StoredArtifact):
                self.artifacts.keep(line)
            elif isinstance(line, Note):
                self._put_note(line)
        return run_id

    def _check_turn(self, run_id: str, log: MemoryLog) -> None:
        """Raise JournalError for a committed turn if the journal has a later one."""
        run = log.summary(run_id)
        ends = (event for event in log.events if isinstance(event, RunSettled))
        if run.turn and any(event.result.committed for event in ends):
            for later in self._runs_of(run.context_id):
                if later.revision and started_at_s(later) > started_at_s(run):
                    raise earlier_turn(run_id, run.context_id, later.run_id)

    async def aclose(self) -> None:
        """Drop everything; may be called again."""
        self._closed = True
        await self._changes.aclose()
        self._logs, self._wishes, self._stops, self._due = {}, {}, {}, {}
        self._submissions, self._keys, self._asks, self._notes = {}, {}, {}, {}

    def _open(self) -> dict[str, MemoryLog]:
        if self._closed:
            raise JournalError("the journal is closed")
        return self._logs
