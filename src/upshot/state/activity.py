"""What a run did, as rows and words for the user, read from its events."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, assert_never

from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.enums import Effect, ErrorCode, FinishReason
from upshot.contract.base.structs import Json, RunEvent
from upshot.contract.base.words import clean, count, duration, moment, size
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    AttemptStarted,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RunInterrupted,
    RunReleased,
    RunResumed,
    RunSettled,
    RunStarted,
    StepSettled,
    StepStarted,
    Tainted,
    ToolProgress,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    TextDelta,
    counted,
    sum_of,
)
from upshot.contract.pending import (
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    Pending,
    PendingApproval,
    PendingExternal,
)
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    EffectRef,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolTimeout,
)
from upshot.contract.usage import Cost, Usage
from upshot.state.child_runs import Spent, bare_id, child_of, step_of
from upshot.state.run_effects import awaited_by
from upshot.state.run_state import RunState

Kind: TypeAlias = Literal["model", "tool", "step", "mark"]
Tone: TypeAlias = Literal["good", "odd", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a step ended."""

    word: str = ""
    tone: Tone = "plain"
    detail: str = ""


@dataclass(slots=True)
class Step:
    """One model call, one try of it, one tool call, one engine step, or a mark.

    Attributes:
        seq: The event that started it.
        end_seq: The event that ended it, 0 while it is under way.
        changed: The revision of the activity in which it last changed.
        declared: The effect that the tool declares.
        response: The reply of a model call that has one.
        record: The record of a tool call that has ended.
        inside: What the child run of an engine step used, once it has ended.
    """

    kind: Kind
    name: str
    start_s: float
    end_s: float | None = None
    wait_s: float = 0.0
    ended: Ended | None = None
    number: int = 0
    again: bool = False
    lost: bool = False
    note: str = ""
    title: str = ""
    seq: int = 0
    end_seq: int = 0
    changed: int = 0
    declared: Effect = Effect.NONE
    response: ModelResponse | None = None
    record: ToolRecord | None = None
    inside: Spent | None = None

    @property
    def running(self) -> bool:
        """Whether it has no end yet."""
        return self.end_s is None

    @property
    def took_s(self) -> float | None:
        """How long it took; None if unknown."""
        if self.end_s is None or self.lost:
            return None
        return max(0.0, self.end_s - self.start_s)


def label_of(step: Step) -> str:
    """Return the name of a step for users: ``model 2``, ``model 2 again``, a tool, a state."""
    if step.kind == "model":
        return f"model {step.number}{' again' if step.again else ''}"
    return clean(step.title or step.name, 60)


def ending_of(step: Step) -> Ended:
    """Return how a step ended, if known."""
    if step.ended is not None:
        return step.ended
    return Ended("no outcome", "odd", "its process ended") if step.lost else Ended("under way")


_ANSWERS: dict[type, str] = {Approve: "approved", Deny: "denied", Edit: "edited"}


def words_of_answer(answer: AnyAnswer) -> str:
    """Return what was answered, and by whom if known."""
    by = f" by {clean(answer.by, 40)}" if answer.by else ""
    return f"{_ANSWERS.get(type(answer), 'answered')}{by}"


def ending_of_tool(outcome: ToolOutcome) -> Ended:
    """Return the words for the outcome of a tool call."""
    match outcome:
        case (
            ToolExecutionResult(repeats=EffectRef() as made)
            | ToolArtifactReference(repeats=EffectRef() as made)
        ):
            return Ended("made before", "plain", f"by call {made.call_id} of {made.run_id}")
        case ToolExecutionResult(was_coerced=coerced):
            return Ended("result", "good", "arguments coerced" if coerced else "")
        case ToolArtifactReference(size_bytes=stored):
            return Ended("artifact", "good", size(stored))
        case ToolTimeout(timeout_s=allowed_s, stopped=stopped):
            left = "" if stopped else ", still at work"
            return Ended("timeout", "bad", f"over {duration(allowed_s)}{left}")
        case ToolFailure(error=error):
            return Ended("failure", "bad", error)
        case ToolDenied(reason=reason, details=details):
            return Ended(f"denied: {reason}", "odd", details)
        case _:
            assert_never(outcome)


def ending_of_reply(response: ModelResponse) -> Ended:
    """Return the words for the outcome of a model call."""
    if response.error is not None:
        return ending_of_error(response.error)
    if response.tool_calls:
        return Ended(count(len(response.tool_calls), "call"), "good")
    if response.finish_reason in (None, FinishReason.STOP):
        return Ended("answer", "good")
    return Ended(f"ended: {response.finish_reason}", "odd")


def ending_of_error(error: AgentError) -> Ended:
    """Return the words for an error, its HTTP status first, or for a run that waits."""
    if error.code is ErrorCode.INPUT_REQUIRED:
        return Ended("waits", "plain", error.message)
    status = "" if error.status_code is None else f"{error.status_code} "
    return Ended(f"{status}{error.code}", "bad", error.message)


# "machine-1/": the engine and the attempt.
_ENGINE = re.compile(r"(?:graph|machine)-\d+/")
# Steps that engines log for themselves: where they started, which machine, the name of a wait.
_NOTE = re.compile(
    r"(?:graph|machine)-\d+/(?:start|machine|question-.*|.*~failed-\d+)|.*:enter|wait:.+#\d+"
)
# "draft#2~3": the second visit, third try.
_PLACE = re.compile(r"(?P<name>.+?)(?:#(?P<visit>\d+))?(?:~(?P<tries>\d+))?")


def step_title(key: str) -> str:
    """Return the name of a step."""
    child = child_of(key)
    if child is not None:
        return "reported usage" if re.fullmatch(r"reported-\d+-\d+", child) else child
    if _NOTE.fullmatch(key):
        return ""
    engine = _ENGINE.match(key)
    if engine is None:
        return key
    return "/".join(_place_name(part) for part in key[engine.end() :].split("/"))


def _place_name(part: str) -> str:
    found = _PLACE.fullmatch(part)
    if found is None:
        return part
    visit, tries = found["visit"] or "1", found["tries"] or "1"
    again = f" {visit}" if visit != "1" else ""
    return f"{found['name']}{again}{f', try {tries}' if tries != '1' else ''}"


RUNNING = "running"
PARKED = "parked"
CUT_OFF = Ended("cut off", "odd")


QuestionKey: TypeAlias = tuple[str, str, str]


def key_of(pending: Pending) -> QuestionKey:
    """Return the key of a question: the asking run ("" for the one shown), the id there, and
    the digest of a call, because call ids may be reused."""
    digest = pending.digest if isinstance(pending, PendingApproval) else ""
    return pending.run_id, bare_id(pending), digest


class Activity:
    """What a run did, as rows for the user, made from its events or any prefix of them.

    It stores rows, texts and the reply under way; the rest comes from the run's state. Times are
    working time: the time between two sessions, when no process worked on the run, is left out of
    every number.
    """

    def __init__(self) -> None:
        self.state: RunState = RunState()
        self.run_id: str = ""
        # In order of their start, without steps that engines log for themselves; then by end.
        self.steps: list[Step] = []
        self.ended: list[Step] = []
        # In the order they were logged; and the number of events, deltas included.
        self.logged: list[Step] = []
        self.revision: int = 0
        # The number of each question, from 1 in the order they were asked.
        self.numbers: dict[QuestionKey, int] = {}
        # The result of the last session, None while one is running or if it was cut off.
        self.result: AgentResult[Json] | None = None
        self.sessions: int = 0
        # Visible characters received in the model call under way.
        self.text: int = 0
        self._last: datetime | None = None
        self._seq = 0
        self._open: dict[str, Step] = {}
        self._names: dict[str, str] = {}
        self._asked: dict[str, Pending] = {}
        self._answers: dict[str, Step] = {}

    @property
    def started(self) -> RunStarted | None:
        """Its first event, None before that."""
        return self.state.started

    @property
    def status(self) -> str:
        """The result's status, ``running`` without a result."""
        return RUNNING if self.result is None else str(self.result.status)

    @property
    def spent(self) -> tuple[Usage, Cost | None]:
        """Tokens and cost of its model calls; includes its child runs when there is a result."""
        if self.result is not None:
            return self.result.usage, self.result.cost
        return sum_of(map(counted, self.state.responses))

    @property
    def warnings(self) -> Sequence[RunWarning]:
        """The warnings of the run."""
        return self.state.warnings if self.result is None else self.result.warnings

    @property
    def pending(self) -> tuple[Pending, ...]:
        """What it waits for."""
        if self.result is not None:
            return self.result.pending
        return tuple(one for id, one in self._asked.items() if not self._is_answered(id))

    @property
    def answered(self) -> dict[QuestionKey, str]:
        """The answers to pending items in a few words. Answers for child runs are in their logs.

        The keys are those of ``numbers``.
        """
        if self.result is None:
            return {}
        own = [one for one in self.result.pending if not one.run_id]
        return {key_of(one): self._answer_words(one.id) for one in own if self._is_answered(one.id)}

    @property
    def length_s(self) -> float:
        """Seconds of work from the first event to the last."""
        return self.state.time.spent_s

    @property
    def waited_s(self) -> float | None:
        """Seconds from the first event to the last in which no process worked on it."""
        started = None if self.started is None else self.started.time
        if started is None or self._last is None:
            return None
        return max(0.0, (self._last - started).total_seconds() - self.length_s)

    @property
    def running(self) -> list[Step]:
        """The steps under way."""
        return [step for step in self.steps if step.running]

    def offset_s(self, time: datetime) -> float:
        """Return the seconds of work from the start to *time*, which is after the last event."""
        since = timedelta() if self._last is None else time - self._last
        return max(0.0, self.length_s + since.total_seconds())

    def add(self, event: Event, state: RunState | None = None) -> None:
        """Process the next event; kinds that have no row here are ignored."""
        if not isinstance(event, RunEvent):
            return
        self.revision += 1
        self._seq = event.seq
        if state is None:
            self.state.add(event)
        else:
            self.state = state
        self.run_id = event.run_id
        self._last = event.time or self._last
        apply = _APPLY.get(type(event))
        if apply is not None:
            apply(self, event, self.length_s)

    def name_run(self, run_id: str, name: str) -> None:
        """Set the title of a child run's step, also if it starts later."""
        self._names[run_id] = name
        for step in self.steps:
            if step.name == step_of(run_id):
                step.title, step.changed = name, self.revision

    def _is_answered(self, id: str) -> bool:
        return id in self.state.answers or id in self.state.answered

    def _answer_words(self, id: str) -> str:
        """Return the answer to the question *id*, and by whom if known."""
        answer = self.state.answers.get(id)
        if answer is None:
            return clean(str(self.state.answers_given[id]), 60)
        return words_of_answer(answer)

    # -- the run

    def _run_started(self, event: RunStarted, _: float) -> None:
        self.sessions = 1

    def _run_resumed(self, event: RunResumed, at_s: float) -> None:
        self.sessions += 1
        for step in self._open.values():
            step.lost = True
            self._close(step, at_s)
        self._open.clear()
        self._asked.clear()
        self.result = None
        lost = count(len(event.interrupted_calls), "call") if event.interrupted_calls else ""
        self._mark("resumed", at_s, f"{lost} had no outcome" if lost else "")

    def _run_released(self, event: RunReleased, at_s: float) -> None:
        until = f" at {moment(event.at)}" if event.reason == "due" else ""
        self._mark("released", at_s, event.reason + until)
        for key in list(self._open):
            self._end(key, at_s, CUT_OFF)

    def _attempt_started(self, event: AttemptStarted, at_s: float) -> None:
        if event.attempt > 1:
            self._mark(f"attempt {event.attempt}", at_s, event.feedback)

    def _interrupted(self, event: RunInterrupted, at_s: float) -> None:
        cause = event.interrupt.cause or "no cause given"
        self._mark("interrupted", at_s, event.interrupt.detail or str(cause))

    def _tainted(self, event: Tainted, at_s: float) -> None:
        self._mark("untrusted", at_s, str(event.origin))

    def _handoff(self, event: HandoffEvent, at_s: float) -> None:
        self._mark("handed over", at_s, f"to {event.to_agent_id}")

    def _asked_user(self, event: ApprovalRequested | QuestionAsked, at_s: float) -> None:
        asked = event.pending
        self._asked[bare_id(asked)] = asked
        self._answers.pop(bare_id(asked), None)
        self._number(asked)
        match asked:
            case PendingApproval(tool_name=tool_name):
                self._mark("asked", at_s, tool_name)
            case PendingExternal(id=id, description=description):
                self._mark("waits", at_s, description or id)
            case _:
                self._mark("asked", at_s, asked.question)

    def _answered(self, event: ApprovalAnswered | QuestionAnswered, at_s: float) -> None:
        id = event.call_id if isinstance(event, ApprovalAnswered) else event.id
        call = self.state.asked.get(id)
        if not self._is_answered(id):
            if call is not None and call.missing and isinstance(event, ApprovalAnswered):
                given = f"{len(call.approved_by)} of {call.approvals}"
                detail = f"{call.tool_name} {words_of_answer(event.answer)}, {given}"
                self._mark("answered", at_s, detail)
            return
        detail = (
            f"{call.tool_name} {self._answer_words(id)}"
            if call is not None
            else self._answer_words(id)
        )
        if id in self._answers:
            # Until the run uses an answer, another answer may replace it.
            self._answers[id].ended = Ended("", "odd", detail)
            self._answers[id].changed = self.revision
        elif id in self._asked or call is not None:
            self._answers[id] = self._mark("answered", at_s, detail)

    def _number(self, pending: Pending) -> None:
        self.numbers.setdefault(key_of(pending), len(self.numbers) + 1)

    def _run_settled(self, event: RunSettled, at_s: float) -> None:
        self.result = event.result
        for pending in event.result.pending:
            # Questions of child runs are logged there, so they have no number yet.
            self._number(pending)
        for start in self.state.begun.values():
            if awaited := awaited_by(self.state, self.run_id, start):
                self._end(f"tool {start.call.id}", at_s, Ended("waits", "plain", f"for {awaited}"))
        for key in list(self._open):
            self._end(key, at_s, CUT_OFF)

    # -- model calls

    def _model_started(self, event: ModelStarted, at_s: float) -> None:
        self.text = 0
        self._begin(f"model {event.turn}", Step("model", event.model, at_s, number=event.turn))

    def _text_delta(self, event: TextDelta, _: float) -> None:
        self.text += len(event.text)

    def _model_retried(self, event: ModelRetried, at_s: float) -> None:
        self.text = 0
        ended = Ended("failed", "bad") if event.error is None else ending_of_error(event.error)
        detail = f"next try in {duration(event.wait_s)}"
        if event.next_model:
            detail = f"{event.next_model} is called next"
        step = self._end(f"model {event.turn}", at_s, Ended(ended.word, ended.tone, detail))
        if step is not None:
            step.wait_s = event.wait_s
        # The next try starts when the wait is over; nothing is logged at that time.
        again = Step("model", event.model, at_s + event.wait_s, number=event.turn, again=True)
        self._begin(f"model {event.turn}", again)

    def _model_replied(self, event: ModelReplied, at_s: float) -> None:
        self.text = 0
        step = self._end(f"model {event.turn}", at_s, ending_of_reply(event.response))
        if step is not None:
            step.response = event.response

    # -- tools and engine steps

    def _tool_started(self, event: ToolStarted, at_s: float) -> None:
        step = Step("tool", event.call.name, at_s, declared=event.effect)
        self._begin(f"tool {event.call.id}", step)

    def _tool_progress(self, event: ToolProgress, _: float) -> None:
        step = self._open.get(f"tool {event.call_id}")
        if step is not None:
            step.note = event.text
            step.changed = self.revision

    def _tool_settled(self, event: ToolSettled, at_s: float) -> None:
        record = event.record
        key, ended = f"tool {record.call_id}", ending_of_tool(record.outcome)
        if key not in self._open:
            self._begin(key, Step("tool", record.tool_name, at_s))
        # The record's own clock is finer than the time at which the batch was logged.
        began_s = self._open[key].start_s
        step = self._end(key, began_s + record.run_ms / 1000 if record.run_ms else at_s, ended)
        if step is not None:
            step.record = record

    def _step_started(self, event: StepStarted, at_s: float) -> None:
        title = self._names.get(child_of(event.key) or "") or step_title(event.key)
        if title:
            self._begin(f"step {event.key}", Step("step", event.key, at_s, title=title))

    def _step_settled(self, event: StepSettled, at_s: float) -> None:
        ended = Ended("done", "good") if event.error is None else ending_of_error(event.error)
        spent = self.state.children.get(child_of(event.key) or "")
        if spent is not None and spent.pending:
            ended = Ended("waits")
        step = self._end(f"step {event.key}", at_s, ended)
        if step is not None and spent is not None and spent.is_final:
            step.inside = spent

    # -- rows

    def _begin(self, key: str, step: Step) -> None:
        self._open[key] = step
        self._log(step)
        # Sorted, because a retry is added before its start.
        insort(self.steps, step, key=lambda other: other.start_s)

    def _end(self, key: str, at_s: float, ended: Ended) -> Step | None:
        step = self._open.pop(key, None)
        if step is not None:
            step.ended = ended
            self._close(step, at_s)
            self.ended.append(step)
        return step

    def _log(self, step: Step) -> None:
        step.seq, step.changed = self._seq, self.revision
        self.logged.append(step)

    def _close(self, step: Step, at_s: float) -> None:
        """Set the end of *step*. A retry that had not started yet gets the same start."""
        step.start_s = min(step.start_s, at_s)
        step.end_s = at_s
        step.end_seq, step.changed, step.note = self._seq, self.revision, ""

    def _mark(self, name: str, at_s: float, detail: str) -> Step:
        step = Step("mark", name, at_s, end_s=at_s, ended=Ended("", "odd", detail))
        self._log(step)
        insort(self.steps, step, key=lambda other: other.start_s)
        self.ended.append(step)
        return step


# The private methods are used in this module only.
_APPLY: dict[type[Any], Callable[[Activity, Any, float], None]] = {
    RunStarted: Activity._run_started,  # pyright: ignore[reportPrivateUsage]
    RunResumed: Activity._run_resumed,  # pyright: ignore[reportPrivateUsage]
    AttemptStarted: Activity._attempt_started,  # pyright: ignore[reportPrivateUsage]
    ModelStarted: Activity._model_started,  # pyright: ignore[reportPrivateUsage]
    TextDelta: Activity._text_delta,  # pyright: ignore[reportPrivateUsage]
    ModelRetried: Activity._model_retried,  # pyright: ignore[reportPrivateUsage]
    ModelReplied: Activity._model_replied,  # pyright: ignore[reportPrivateUsage]
    ToolStarted: Activity._tool_started,  # pyright: ignore[reportPrivateUsage]
    ToolProgress: Activity._tool_progress,  # pyright: ignore[reportPrivateUsage]
    ToolSettled: Activity._tool_settled,  # pyright: ignore[reportPrivateUsage]
    StepStarted: Activity._step_started,  # pyright: ignore[reportPrivateUsage]
    StepSettled: Activity._step_settled,  # pyright: ignore[reportPrivateUsage]
    ApprovalRequested: Activity._asked_user,  # pyright: ignore[reportPrivateUsage]
    Tainted: Activity._tainted,  # pyright: ignore[reportPrivateUsage]
    QuestionAsked: Activity._asked_user,  # pyright: ignore[reportPrivateUsage]
    ApprovalAnswered: Activity._answered,  # pyright: ignore[reportPrivateUsage]
    QuestionAnswered: Activity._answered,  # pyright: ignore[reportPrivateUsage]
    RunInterrupted: Activity._interrupted,  # pyright: ignore[reportPrivateUsage]
    HandoffEvent: Activity._handoff,  # pyright: ignore[reportPrivateUsage]
    RunReleased: Activity._run_released,  # pyright: ignore[reportPrivateUsage]
    RunSettled: Activity._run_settled,  # pyright: ignore[reportPrivateUsage]
}
