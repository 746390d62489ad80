"""The one fold of the log of a run: its state after the last event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import field

from upshot.contract.agent_spec import AgentSpec, HandoffEvent
from upshot.contract.base.enums import Effect, ErrorCode, Role, Status
from upshot.contract.base.structs import Json, JsonObject, RunEvent
from upshot.contract.error import RunWarning
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    CheckpointSaved,
    Committed,
    Decided,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RunInterrupted,
    RunReleased,
    RunResumed,
    RunSettled,
    RunStarted,
    SeedReference,
    StepSettled,
    StepStarted,
    Tainted,
    ToolSettled,
    ToolStarted,
    ToolStateSaved,
    UsageReported,
    Warned,
)
from upshot.contract.message import Artifact, Message, Unknown
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    counted,
)
from upshot.contract.pending import (
    Answer,
    Approve,
    Deny,
    Edit,
    Pending,
    PendingApproval,
    PendingEffect,
    PendingExternal,
    PendingQuestion,
    TaintOrigin,
)
from upshot.contract.provenance import ToolDeclaration
from upshot.contract.result import AttemptLine
from upshot.contract.run_control import Compacted, Interrupt
from upshot.contract.tool_calls import (
    ID_GATE,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolRecord,
)
from upshot.contract.usage import RateLimitState
from upshot.errors import JournalError
from upshot.state.board import Board
from upshot.state.child_runs import (
    Spent,
    bare_id,
    child_of,
    forked_at,
    read_settled_usage,
    unique_pending,
)
from upshot.state.known_effects import is_typed
from upshot.state.signals import signal_item

CallAnswer: TypeAlias = Approve | Deny | Edit

# Module constant: in Python 3.11, looking a member up on its enum class is slow.
_ASSISTANT = Role.ASSISTANT
_id_of = attrgetter("id")

STOPPED = (Status.INTERRUPTED, Status.CANCELED)
"""The statuses of a run that was stopped from outside and can be continued."""
COMPACTION_FAILED = "compaction_failed"
"""The warning code for older messages that could not be replaced."""
SUMMARY = "summary"
"""The purpose of a model call that sums up older messages."""
DECLARED_OPTION = "declared"
"""The logged option with the tools' declarations, by tool version."""


def place_of(run_id: str, turn: int, call_id: str) -> str:
    """Return a name for a call that is unique in a tree of runs."""
    return f"{run_id} {turn} {call_id}"


class FailedTries(msgspec.Struct, frozen=True):
    """The tries of a model call that has no reply yet.

    Attributes:
        count: How many failed.
        model: The model that was called.
        was_empty: Whether one of them got an empty reply.
        next_at: When the next one is due.
    """

    count: int = 0
    model: str = ""
    was_empty: bool = False
    next_at: datetime | None = None


NO_TRIES = FailedTries()


class FailedCalls(dict[int, FailedTries]):
    """The failed tries of an attempt's model calls without a reply, by turn."""

    def of(self, turn: int, model: str) -> FailedTries:
        """Return the failed tries of a call of *model* in that turn."""
        found = self.get(turn, NO_TRIES)
        return found if found.model == model else NO_TRIES

    def note(self, event: ModelRetried) -> None:
        """Count a failed try."""
        error = event.response.error
        is_empty = error is not None and error.code is ErrorCode.EMPTY_REPLY
        self[event.turn] = FailedTries(
            event.tries,
            event.model,
            is_empty or self.of(event.turn, event.model).was_empty,
            event.time and event.time + timedelta(seconds=event.wait_s),
        )

    def waiting_at(self, time: datetime | None) -> int:
        """Return how many calls wait for a retry, so that no try is under way."""
        return sum(bool(time and one.next_at and time < one.next_at) for one in self.values())


class WorkTime(msgspec.Struct, eq=False):
    """How long a run was worked on.

    Attributes:
        spent_s: Seconds that the sessions took, including waits for which they released the run;
            other time between sessions is left out.
        due_at: When a released run must be resumed, None for any other run.
    """

    spent_s: float = 0.0
    due_at: datetime | None = None
    _last: datetime | None = None

    def spent_until(self, time: datetime) -> float:
        """Return ``spent_s`` of a run that is resumed at *time*."""
        if self.due_at is None or self._last is None:
            return self.spent_s
        return self.spent_s + max(0.0, (min(time, self.due_at) - self._last).total_seconds())

    def begin(self, time: datetime | None) -> None:
        """Count from *time* on, where a session of the run starts, in a log or live."""
        if time is not None:
            self.spent_s, self.due_at, self._last = self.spent_until(time), None, time

    def worked_until(self, time: datetime) -> float:
        """Return ``spent_s`` of a run whose session ends at *time*."""
        return self.spent_s + (max(0.0, (time - self._last).total_seconds()) if self._last else 0.0)

    def add(self, event: RunEvent, time: datetime, *, is_settled: bool) -> None:
        """Count the time up to *event*. *is_settled* says whether the run had settled before it."""
        if isinstance(event, RunResumed):
            self.begin(time)
        # Between two sessions, when an answer may be logged, no process works on the run. Clocks
        # may be set back, or belong to another machine.
        elif self._last is not None and not is_settled:
            self.spent_s = self.worked_until(time)
        if isinstance(event, RunReleased):
            self.due_at = event.at
        self._last = time


class LogIndex(msgspec.Struct, eq=False):
    """The places of things in the log, for events that refer to them.

    Attributes:
        started_tools: The last start of each tool, by name.
        settled_tools: The last settled call of each tool, by name.
        replies: The replies of the attempt, by the seq of their events.
        records: Its settled calls, by the seq of their events.
        settled_at: The seq at which a call of the last reply settled, by call id.
        texts: What the model reads of the outcomes of the last reply, by call id.
    """

    started_tools: dict[str, ToolStarted] = {}
    settled_tools: dict[str, ToolRecord] = {}
    replies: dict[int, ModelResponse] = {}
    records: dict[int, ToolRecord] = {}
    settled_at: dict[str, int] = {}
    texts: dict[str, str] = {}


class Before(NamedTuple):
    """What the earlier attempts of a run did; everything after it is of the attempt under way.

    Attributes:
        turns: The number of model calls with a reply.
        responses: The number of replies, including those of failed tries.
        records: The number of settled tool calls.
        reported: The number of reports of usage.
        lost_calls: The number of model calls without a reply, because the process died.
        children: The ids of child runs.
    """

    turns: int = 0
    responses: int = 0
    records: int = 0
    reported: int = 0
    lost_calls: int = 0
    children: frozenset[str] = frozenset()


class RunState(msgspec.Struct, eq=False):
    """The fold of a run's events, in order; reading a log is resuming.

    Attributes:
        started: The first event, None before it was read.
        agent: The agent of the last session.
        options: The logged options of the last session.
        seq: Of the last event.
        time: How long the run was worked on.
        attempt: The attempt under way, 0 before the first.
        feedback: What the decider that asked for it wants changed.
        board: Its board.
        is_seeded: Whether the board was seeded completely.
        before: What earlier attempts did.
        turns: Model calls with a reply.
        responses: Every reply, including those of failed tries.
        records: Settled tool calls.
        unsettled: Tool calls of the last reply that started and have no outcome, by id.
        begun: Tool calls of the attempt that started and have no outcome, in order, by id and
            idempotency key.
        saved: What the tools of such calls saved to continue them, by idempotency key.
        settled: Outcomes of the last reply's calls that are not on the board, by id.
        reply: A reply that is not on the board yet, or the error that ended the attempt.
        models: The last start of a model call in each turn of the attempt, in order.
        replies: The replies by turn.
        failed_calls: The failed tries of calls without a reply.
        seed: The changes that made the board of the first attempt.
        named_seed: The conversation messages that it starts with, and the reference to them in the
            log; None if they are logged themselves.
        reported: Usage that engines reported, including earlier attempts.
        lost_calls: Model calls without a reply, because the process died.
        stored: Large outputs that were stored.
        steps_started: Effects of keyed steps that started and have no logged end.
        steps_settled: The last settlement of each keyed step.
        answers_given: Answers to questions, by question id.
        times_answered: The number of answers, by question id.
        typed: The answers that came from a person, and not from another system.
        children: What child runs used, by run id; None if the log does not say.
        children_found: The same for child runs whose end is not in this log, read from their own
            logs. Set when the run is resumed; it comes from no event, so no result depends on it.
        ends_found: The ends of those child runs that have ended; a session logs them first.
        asked: Approvals that were requested for calls without an outcome, by call id.
        times_asked: The number of approvals requested for a call id, settled or not.
        asked_in: The step whose body made each of these calls, "" for none, by call id.
        waits: Questions without an answer and results that were not delivered, by id.
        waiting: Those of them that were asked in this attempt and session, by id.
        answers: The answers to ``asked``, by call id.
        forked_at: The seq of the last event that a fork copied, 0 for a run that is no fork.
            Approvals up to there do not count.
        copied_approvals: The keys of the approvals of calls that had settled by then.
        approved_in: The tool of each approval that was answered, and how many seconds that took.
        answered: Ids of questions that were answered since a session ended.
        declared: The tools' declarations in each session, by tool version.
        taint: The first untrusted content that reached the run, None for none.
        line: The line of the current attempt, None until the engine has ended.
        handoff: The first handoff of the attempt.
        interrupt: The last request to stop.
        point: The last checkpoint of the attempt, None for none.
        decisions: The deciders' decisions about the request, and about the attempt.
        committed: Whether the run was committed, None while undecided.
        lines: Attempts that ended.
        state: The deciders' facts.
        started_at: When the run started, None before that.
        reply_calls: The calls of the last reply.
        call_ids: The ids of all calls so far, including those in seeded messages.
        last_call: The engine's last reply, failed or not, or what a child run reported of its own
            last reply; None before the first.
        last_rate_limit: From the last reply that had one.
        is_live: Whether a session works on it. Then its board is the engine's, and changes before
            the event about it.
        warnings: All warnings.
        last_settled: The end of the last session, None if it was cut off; ``result_of`` builds its
            result.
        show: Masks secrets in results, None without any.
        turn: The turn of the last model call.
        summary: A summary from a model that is not used yet.
        model: The model of the last call.
        open_model: The last model call that started.
        sent: Digests of the messages in the last model request, in order.
        tries: How many of its tries have failed.
        index: Where things are in the log; None for a live run without a log.
    """

    started: RunStarted | None = None
    agent: AgentSpec = AgentSpec()
    options: dict[str, Json] = {}
    seq: int = 0
    time: WorkTime = field(default_factory=WorkTime)
    attempt: int = 0
    feedback: str = ""
    board: Board = field(default_factory=Board)
    is_seeded: bool = False
    before: Before = Before()
    turns: int = 0
    responses: list[ModelResponse] = []
    records: list[ToolRecord] = []
    unsettled: dict[str, ToolStarted] = {}
    begun: dict[tuple[str, str], ToolStarted] = {}
    saved: dict[str, Json] = {}
    settled: dict[str, ToolRecord] = {}
    reply: ModelResponse | None = None
    reported: list[UsageReported] = []
    lost_calls: int = 0
    models: dict[int, ModelStarted] = {}
    replies: dict[int, ModelResponse] = {}
    failed_calls: FailedCalls = field(default_factory=FailedCalls)
    seed: list[BoardChanged] = []
    named_seed: tuple[SeedReference, tuple[Message, ...]] | None = None
    stored: list[Artifact] = []
    steps_started: dict[str, Effect] = {}
    steps_settled: dict[str, StepSettled] = {}
    answers_given: dict[str, Json] = {}
    times_answered: dict[str, int] = {}
    typed: dict[str, Json] = {}
    children: dict[str, Spent | None] = {}
    children_found: dict[str, Spent] = {}
    ends_found: tuple[StepSettled, ...] = ()
    asked: dict[str, PendingApproval] = {}
    times_asked: dict[str, int] = {}
    asked_in: dict[str, str] = {}
    waits: dict[str, PendingQuestion | PendingExternal] = {}
    waiting: dict[str, PendingQuestion | PendingExternal] = {}
    answers: dict[str, CallAnswer] = {}
    forked_at: int = 0
    copied_approvals: set[str] = set()
    approved_in: list[tuple[str, float]] = []
    answered: frozenset[str] = frozenset()
    declared: dict[str, ToolDeclaration] = {}
    taint: TaintOrigin | None = None
    line: AttemptLine | None = None
    handoff: HandoffEvent | None = None
    interrupt: Interrupt | None = None
    point: CheckpointSaved | None = None
    decisions: list[Decided] = []
    committed: Committed | None = None
    lines: list[AttemptLine] = []
    state: dict[str, Json] = {}
    warnings: list[RunWarning] = []
    last_settled: RunSettled | None = None
    show: Callable[[Any], Any] | None = None
    turn: int = 0
    summary: ModelResponse | None = None
    model: str = ""
    open_model: ModelStarted | None = None
    sent: list[str] = []
    tries: int = 0
    index: LogIndex | None = None
    started_at: datetime | None = None
    reply_calls: tuple[ToolCall, ...] = ()
    call_ids: set[str] = set()
    last_call: ModelResponse | Spent | None = None
    last_rate_limit: RateLimitState | None = None
    is_live: bool = False
    _is_seeding: bool = False
    # Turns with a purpose, which are not the engine's.
    _aside: frozenset[int] = frozenset()
    # Where the records of the last reply's calls start, and the place of each call in it.
    _reply_at: int = 0
    _call_order: dict[str, int] = {}
    _pending: tuple[Pending, ...] = ()
    # The ``before`` of the attempt that ended last.
    _before: Before = Before()
    # Outputs whose call has not settled, by artifact id. Those of earlier sessions by call id,
    # because a call that runs again stores its output again.
    _loose_stored: dict[str, tuple[str, Artifact]] = {}
    _cut_stored: dict[str, list[Artifact]] = {}

    @property
    def ended(self) -> bool:
        """Whether nothing is left to resume."""
        settled = self.last_settled
        return settled is not None and settled.result.status is not Status.INPUT_REQUIRED

    @property
    def pending(self) -> tuple[Pending, ...]:
        """What the last session waited for."""
        return () if self.last_settled is None else self._pending

    def open_pending(self) -> tuple[Pending, ...]:
        """Return what the run waits for after its last event, including its child runs."""
        if self.last_settled is not None:
            return self._pending
        inside = (
            one
            for spent in self.children.values()
            if spent is not None and not spent.is_final
            for one in spent.pending
        )
        waits = (*self.asked.values(), *self.waiting.values(), *inside)
        return unique_pending(waits) if waits else ()

    def reopen(self) -> None:
        """Undo the end of a run that was interrupted or canceled; other runs are not changed.

        The attempt is under way again, with its usage.
        """
        if self.last_settled is None or self.last_settled.result.status not in STOPPED:
            return
        self.last_settled = self.committed = self.interrupt = None
        if self.line is not None:
            self.line = None
            self.lines.pop()
            self.before = self._before

    def is_copied(self, event: RunEvent) -> bool:
        """Whether *event* was copied from the run that this one is a fork of."""
        return 0 < event.seq <= self.forked_at

    def call_of(self, call_id: str) -> ToolCall | None:
        """Return the call of the last reply with that id, or None."""
        place = self._call_order.get(call_id)
        return None if place is None else self.reply_calls[place]

    def add(self, event: Event) -> None:
        """Fold the next event.

        Raises:
            JournalError: This version does not know its kind, so continuing is unsafe.
        """
        if isinstance(event, Unknown):
            raise JournalError(
                f"the log has an event of kind {event.kind!r}, which this version cannot resume "
                "from: update upshot"
            )
        # Without a log, events have neither seq nor time.
        if event.seq:
            self.seq = event.seq
        if event.time is not None:
            self.time.add(event, event.time, is_settled=self.last_settled is not None)
        if self._is_seeding and not _may_continue_seed(event):
            # An event after a seed shows that the seed is complete. A cut-off seed is repeated.
            self._is_seeding = False
            self.is_seeded = not isinstance(event, RunResumed)
        apply = FOLDS.get(type(event))
        if apply is not None:
            apply(self, event)

    def _run_started(self, event: RunStarted) -> None:
        self.started = event
        if not self.is_live or event.seq:
            self.index = LogIndex()
        if event.time is not None:
            self.started_at = event.time
            self.time.begin(event.time)
        self.agent = event.agent
        self.forked_at = forked_at(event.options)
        self._set_options(event.options)

    def _set_options(self, options: dict[str, Json]) -> None:
        self.options = options
        if DECLARED_OPTION in options:
            for version, declared in cast("JsonObject", options[DECLARED_OPTION]).items():
                self.declared[version] = msgspec.convert(declared, ToolDeclaration)

    def _run_resumed(self, event: RunResumed) -> None:
        self.time.begin(event.time)
        self.reopen()
        self.agent = event.agent or self.agent
        self._set_options(event.options or self.options)
        self.last_settled = None
        self.waiting = {}
        for call_id, artifact in self._loose_stored.values():
            self._cut_stored.setdefault(call_id, []).append(artifact)
        self._loose_stored = {}
        if self.line is None:
            # Deciders are asked again about an attempt that was not concluded.
            self.decisions = [one for one in self.decisions if one.stage]

    def _attempt_started(self, event: AttemptStarted) -> None:
        self.attempt = event.attempt
        self.feedback = event.feedback
        if self.is_live and not self.lines:
            # The first attempt of a new run: there is nothing to reset.
            return
        if not self.is_live:
            self.board = Board()
        self.is_seeded = False
        self.reply = self.line = self.handoff = self.point = None
        self.decisions = [one for one in self.decisions if one.stage]
        self.waiting = {}
        self.settled, self.unsettled, self.begun = {}, {}, {}
        self.models, self.replies, self.failed_calls = {}, {}, FailedCalls()
        self._aside = frozenset()
        self.turn = 0
        self.summary = None
        if (index := self.index) is not None:
            index.replies, index.records, index.settled_at = {}, {}, {}

    def _model_started(self, event: ModelStarted) -> None:
        # Undone by the reply.
        self.lost_calls += 1
        self.turn, self.model, self.open_model, self.tries = event.turn, event.model, event, 0
        if self.failed_calls:
            self.tries = self.failed_calls.of(event.turn, event.model).count
        if (request := event.request) is not None:
            self.sent[max(0, request.count - len(request.added)) :] = request.added
        if event.purpose:
            self._aside |= {event.turn}
        else:
            # A turn that was interrupted starts again, and keeps its place in the order.
            self.models[event.turn] = event

    def _model_retried(self, event: ModelRetried) -> None:
        if not event.next_model:
            self.tries = event.tries
            self.failed_calls.note(event)
        self._add_response(event.response, is_turn=event.turn not in self._aside)

    def _model_replied(self, event: ModelReplied) -> None:
        self.turns += 1
        self.lost_calls -= 1
        self.failed_calls.pop(event.turn, None)
        self._add_response(event.response, is_turn=not event.purpose)
        calls = event.response.tool_calls
        order: dict[str, int] = {}
        for place, call in enumerate(calls):
            order[call.id] = place
        self.call_ids.update(order)
        if self.taint is None and (tool := event.response.looked_up):
            self.taint = TaintOrigin(source=tool)
        if not event.purpose:
            self.reply = self.replies[event.turn] = event.response
            self._reply_at = len(self.records)
            self.reply_calls, self._call_order = calls, order
            if (index := self.index) is not None:
                index.settled_at, index.texts = {}, {}
                index.replies[event.seq] = event.response
        elif event.purpose == SUMMARY:
            self.summary = event.response

    def _add_response(self, response: ModelResponse, *, is_turn: bool) -> None:
        if self.index is not None:
            self.responses.append(response)
        if is_turn:
            self.last_call = response
        if response.rate_limit is not None:
            self.last_rate_limit = response.rate_limit

    def _tool_started(self, event: ToolStarted) -> None:
        call = event.call
        # A call that was cut off and runs again is still one call.
        self._remove_begun(call.id, event.idempotency_key)
        if self.is_copied(event) and _is_asked_about(self, call.id, call.name, event.step):
            # A fork that makes the call again asks a question of its own.
            del self.asked[call.id]
        self.unsettled[call.id] = event
        self.begun[call.id, event.idempotency_key] = event
        if self.index is not None:
            self.index.started_tools[call.name] = event

    def _tool_settled(self, event: ToolSettled) -> None:
        _insert(event.record, self.records, self._reply_at, self._call_order)
        if self.taint is None and event.record.is_untrusted:
            self.taint = TaintOrigin(source=event.record.tool_name, call_id=event.record.call_id)
        if self._loose_stored and isinstance(event.record.outcome, ToolArtifactReference):
            self._loose_stored.pop(event.record.outcome.artifact_id, None)
        record = self.settled[event.record.call_id] = event.record
        self._remove_begun(record.call_id, record.idempotency_key)
        if self.is_copied(event) and record.approval is not None:
            self.copied_approvals.add(record.approval.key)
        is_first = record.gate != ID_GATE
        if is_first and _is_asked_about(self, record.call_id, record.tool_name, record.step):
            del self.asked[record.call_id]
            self.answers.pop(record.call_id, None)
        if (index := self.index) is not None:
            index.settled_tools[record.tool_name] = record
            index.records[event.seq] = record
            index.settled_at[record.call_id] = event.seq

    def _remove_begun(self, call_id: str, key: str) -> None:
        """Remove a started call. Others may have the same id, but no other has its key."""
        last = self.unsettled.get(call_id)
        if last is not None and last.idempotency_key == key:
            del self.unsettled[call_id]
        self.begun.pop((call_id, key), None)

    def _artifact_stored(self, event: ArtifactStored) -> None:
        artifact = to_artifact(event)
        if cut := self._cut_stored.get(event.call_id):
            self.stored[self.stored.index(cut.pop(0))] = artifact
        else:
            self.stored.append(artifact)
        self._loose_stored[event.artifact.id] = event.call_id, artifact

    def _approval_requested(self, event: ApprovalRequested) -> None:
        # Requested again means that the question has changed, so an old answer is void.
        self.answers.pop(event.call_id, None)
        self.asked[event.call_id] = event.pending
        self.times_asked[event.call_id] = self.times_asked.get(event.call_id, 0) + 1
        self.asked_in[event.call_id] = event.step

    def _question_asked(self, event: QuestionAsked) -> None:
        id = bare_id(event.pending)
        # The order is that of the last request.
        self.waiting.pop(id, None)
        self.waits[id] = self.waiting[id] = event.pending

    def _question_answered(self, event: QuestionAnswered) -> None:
        self.answers_given[event.id] = event.value
        self.times_answered[event.id] = self.times_answered.get(event.id, 0) + 1
        if is_typed(self.waits.pop(event.id, None), event, self):
            self.typed[event.id] = event.value
        self.waiting.pop(event.id, None)
        self.answered |= {event.id}

    def _board_changed(self, event: BoardChanged) -> None:
        if not self.is_live:
            self.board.apply(event)
        is_reply = False
        for message in event.messages:
            if message.tool_call_id is not None:
                self.settled.pop(message.tool_call_id, None)
            if message.role is _ASSISTANT:
                is_reply = True
                self.call_ids.update(map(_id_of, message.tool_calls))
        if event.seeded:
            if self.attempt == 1:
                # A seed that was cut off is repeated as a whole, so drop its earlier pieces.
                self.seed = [*self.seed, event] if self._is_seeding else [event]
            self._is_seeding = True
            if not self.is_live:
                self.board.mark_seeded()
        elif is_reply:
            # Providers reuse call ids, so outcomes count for the latest reply only.
            self.settled, self.unsettled = {}, {}
            # Keep an error: it is no message, and the attempt ended with it.
            if self.reply is not None and self.reply.error is None:
                self.reply = None

    def _compacted(self, event: Compacted) -> None:
        self.board.compacted, self.summary = event, None
        # If the request was refused as too long, it will be made again.
        self.reply = None

    def _step_started(self, event: StepStarted) -> None:
        child = child_of(event.key)
        if child is None:
            self.steps_started[event.key] = event.effect
        else:
            self.children[child] = None
            self.children_found.pop(child, None)

    def _step_settled(self, event: StepSettled) -> None:
        child = child_of(event.key)
        if child is None:
            self.steps_started.pop(event.key, None)
            # A step that was put off to ask the user will run again.
            if event.error is None or event.error.code is not ErrorCode.INPUT_REQUIRED:
                self.steps_settled[event.key] = event
        else:
            spent = self.children[child] = read_settled_usage(event.value)
            self.children_found.pop(child, None)
            if spent is not None:
                self.taint = self.taint or spent.taint
                # What it reported of its last model call, if it made any.
                if spent.finish_reason is not None or spent.provider_data:
                    self.last_call = spent
                if spent.rate_limit is not None:
                    self.last_rate_limit = spent.rate_limit

    def _tainted(self, event: Tainted) -> None:
        self.taint = self.taint or event.origin

    def _usage_reported(self, event: UsageReported) -> None:
        self.reported.append(event)
        if not event.number:
            # It is about the call that started last, which then is not lost.
            self.lost_calls -= 1
            return
        self.last_call = event.response
        if event.response.rate_limit is not None:
            self.last_rate_limit = event.response.rate_limit

    def _run_interrupted(self, event: RunInterrupted) -> None:
        self.interrupt = event.interrupt

    def _handed_over(self, event: HandoffEvent) -> None:
        self.handoff = self.handoff or event

    def _decided(self, event: Decided) -> None:
        self.decisions.append(event)

    def _attempt_ended(self, event: AttemptEnded) -> None:
        if not self.is_live:
            # Only a session that has read the end from the log can undo it.
            self._before = self.before
        self.line = event.line
        self.lines.append(event.line)
        self.state = dict(event.state)
        self.before = Before(
            turns=self.turns,
            responses=len(self.responses),
            records=len(self.records),
            reported=len(self.reported),
            lost_calls=self.lost_calls,
            children=frozenset(self.children),
        )

    def _run_committed(self, event: Committed) -> None:
        self.committed = event

    def _warned(self, event: Warned) -> None:
        self.warnings.append(event.warning)
        if event.warning.code == COMPACTION_FAILED:
            self.summary = None

    def _run_released(self, event: RunReleased) -> None:
        # While a call waits for a retry nothing is under way, so it is not lost.
        self.lost_calls -= self.failed_calls.waiting_at(event.time)

    def _answered_calls(self) -> int:
        """Return the number of model calls with a logged reply, including child runs."""
        answered = (*self.responses, *(event.response for event in self.reported))
        inside = sum(spent.usage.api_calls for spent in self.children.values() if spent)
        return inside + sum(counted(response).usage.api_calls for response in answered)

    def _run_settled(self, event: RunSettled) -> None:
        if not self.is_live:
            # A live session does not read it, and its result refers back to the run.
            is_literal = event.result.pending or "pending" in event.literal
            self._pending = event.result.pending if is_literal else self.open_pending()
            self.last_settled = event
            if self.lost_calls:
                # The session knew whether a failed try was followed by another one.
                unanswered = event.result.usage.api_calls - self._answered_calls()
                self.lost_calls = min(self.lost_calls, max(0, unanswered))
        # What is still open is asked again, and its old answers do not count.
        self.answered = frozenset()


def _insert(
    record: ToolRecord, records: list[ToolRecord], since: int, order: dict[str, int]
) -> None:
    """Insert *record* in the order of its reply, whose records begin at *since*."""
    place, own = len(records), order.get(record.call_id)
    while own is not None and place > since and order.get(records[place - 1].call_id, -1) > own:
        place -= 1
    records.insert(place, record)


def _is_asked_about(state: RunState, call_id: str, tool_name: str, step: str) -> bool:
    """Whether the approval requested for this id is for this call of a tool in a step."""
    asked, asked_in = state.asked.get(call_id), state.asked_in.get(call_id, "")
    return asked is not None and (asked.tool_name, asked_in) == (tool_name, step)


def _approval_answered(state: RunState, event: ApprovalAnswered) -> None:
    asked, answer = state.asked.get(event.call_id), event.answer
    if asked is None or asked.digest != event.digest or isinstance(answer, Answer):
        return
    if state.is_copied(event) and not isinstance(answer, Deny):
        return
    if isinstance(answer, Approve) and asked.approvals > 1:
        asked = asked.with_approval(answer.by, answer.at or event.time)
        state.asked[event.call_id] = asked
        # A denial stands, whoever approves after it.
        if asked.missing or isinstance(state.answers.get(event.call_id), Deny):
            return
    if event.time and asked.asked_at and event.call_id not in state.answers:
        waited = max(0.0, (event.time - asked.asked_at).total_seconds())
        state.approved_in.append((asked.tool_name, waited))
    state.answers[event.call_id] = answer


def _checkpoint_saved(state: RunState, event: CheckpointSaved) -> None:
    state.point = event


def _tool_state_saved(state: RunState, event: ToolStateSaved) -> None:
    state.saved[event.idempotency_key] = event.state


# The private methods are used in this module only.
FOLDS: dict[type, Callable[[RunState, Any], None]] = {
    RunStarted: RunState._run_started,  # pyright: ignore[reportPrivateUsage]
    RunResumed: RunState._run_resumed,  # pyright: ignore[reportPrivateUsage]
    AttemptStarted: RunState._attempt_started,  # pyright: ignore[reportPrivateUsage]
    ModelStarted: RunState._model_started,  # pyright: ignore[reportPrivateUsage]
    ModelRetried: RunState._model_retried,  # pyright: ignore[reportPrivateUsage]
    ModelReplied: RunState._model_replied,  # pyright: ignore[reportPrivateUsage]
    ToolStarted: RunState._tool_started,  # pyright: ignore[reportPrivateUsage]
    ToolStateSaved: _tool_state_saved,
    ToolSettled: RunState._tool_settled,  # pyright: ignore[reportPrivateUsage]
    ArtifactStored: RunState._artifact_stored,  # pyright: ignore[reportPrivateUsage]
    ApprovalRequested: RunState._approval_requested,  # pyright: ignore[reportPrivateUsage]
    ApprovalAnswered: _approval_answered,
    QuestionAsked: RunState._question_asked,  # pyright: ignore[reportPrivateUsage]
    QuestionAnswered: RunState._question_answered,  # pyright: ignore[reportPrivateUsage]
    BoardChanged: RunState._board_changed,  # pyright: ignore[reportPrivateUsage]
    Compacted: RunState._compacted,  # pyright: ignore[reportPrivateUsage]
    StepStarted: RunState._step_started,  # pyright: ignore[reportPrivateUsage]
    StepSettled: RunState._step_settled,  # pyright: ignore[reportPrivateUsage]
    CheckpointSaved: _checkpoint_saved,
    Tainted: RunState._tainted,  # pyright: ignore[reportPrivateUsage]
    UsageReported: RunState._usage_reported,  # pyright: ignore[reportPrivateUsage]
    RunInterrupted: RunState._run_interrupted,  # pyright: ignore[reportPrivateUsage]
    HandoffEvent: RunState._handed_over,  # pyright: ignore[reportPrivateUsage]
    Decided: RunState._decided,  # pyright: ignore[reportPrivateUsage]
    AttemptEnded: RunState._attempt_ended,  # pyright: ignore[reportPrivateUsage]
    Warned: RunState._warned,  # pyright: ignore[reportPrivateUsage]
    Committed: RunState._run_committed,  # pyright: ignore[reportPrivateUsage]
    RunReleased: RunState._run_released,  # pyright: ignore[reportPrivateUsage]
    RunSettled: RunState._run_settled,  # pyright: ignore[reportPrivateUsage]
}


def _may_continue_seed(event: Event) -> bool:
    """Whether more of a seed may follow *event*; watchers are notified between its pieces."""
    if isinstance(event, BoardChanged):
        return event.seeded
    return isinstance(event, Warned | RunInterrupted)


def item_of(state: RunState, asked: Pending) -> str:
    """Return a name for a question of the run itself; a later one with the same id differs."""
    if isinstance(asked, PendingApproval):
        return asked.digest
    id = bare_id(asked)
    if isinstance(asked, PendingEffect):
        return id
    if isinstance(asked, PendingExternal) and asked.signal:
        return signal_item(id.partition("@")[0])
    return f"{id} {state.times_answered.get(id, 0)}"


def acts_in(state: RunState) -> dict[str, tuple[str, ...]]:
    """Return the writes of a run and its child runs: for each act, the places where it was made."""
    found: dict[str, tuple[str, ...]] = {}
    for record in state.records:
        if record.act and not isinstance(record.outcome, ToolDenied):
            place = place_of(record.run_id, record.turn, record.call_id)
            found[record.act] = (*found.get(record.act, ()), place)
    for spent in (*state.children.values(), *state.children_found.values()):
        for act, places in () if spent is None else spent.acts.items():
            found[act] = (*found.get(act, ()), *places)
    return found


def to_artifact(event: ArtifactStored) -> Artifact:
    """Return a stored large output as an artifact of the result."""
    return Artifact(event.artifact.name or event.call_id, (event.artifact,))
