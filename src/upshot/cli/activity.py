"""What a run does, for people, read from its events."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, assert_never

from upshot.cli.terminal import clean, count, duration, size
from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.enums import FinishReason
from upshot.contract.base.structs import Json, RunEvent
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    AttemptEnded,
    AttemptStarted,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RunInterrupted,
    RunResumed,
    RunSettled,
    RunStarted,
    StepSettled,
    StepStarted,
    ToolProgress,
    ToolSettled,
    ToolStarted,
    Warned,
)
from upshot.contract.message import File
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    TextDelta,
)
from upshot.contract.pending import AnyAnswer, Deny, Edit, Pending, PendingApproval
from upshot.contract.result import AgentResult
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolTimeout,
)
from upshot.contract.usage import Cost, Usage
from upshot.runs.budget import RunBudget
from upshot.state.child_runs import bare_id, child_of, step_of

__all__ = [
    "Ended",
    "Kind",
    "RUNNING",
    "Step",
    "Activity",
    "Tone",
    "ending_of_error",
    "ending_of_reply",
    "ending_of_tool",
    "step_title",
]

Kind: TypeAlias = Literal["model", "tool", "step", "mark"]
Tone: TypeAlias = Literal["good", "odd", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a step.

    Attributes:
        word: In a word or two.
        tone: How it is to be taken.
        detail: More of it, "" if there is nothing to say.
    """

    word: str = ""
    tone: Tone = "plain"
    detail: str = ""


@dataclass(slots=True)
class Step:
    """One model call, one try of it, one tool call, one engine step, or a mark.

    Attributes:
        kind: What it is.
        name: Of the model or the tool; the key of a step.
        start_s: Seconds of work from the start of the run.
        end_s: The same of its end; None while it runs. Where its process died in it, the last
            that is known of that process.
        wait_s: Seconds that were waited after it for the next try.
        ended: What came of it, None while it runs or where its process died in it.
        number: The turn of a model call, 0 for anything else.
        again: Whether it is a further try of a model call.
        lost: Whether its process died in it.
        note: What it last said of itself while running.
        title: What a step is called for people, "" for its key.
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

    @property
    def running(self) -> bool:
        """Whether it has no end yet."""
        return self.end_s is None

    @property
    def took_s(self) -> float | None:
        """How long it took, None where that is not known."""
        if self.end_s is None or self.lost:
            return None
        return max(0.0, self.end_s - self.start_s)


def ending_of_tool(outcome: ToolOutcome) -> Ended:
    """The words for what came of a tool call."""
    match outcome:
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
    """The words for what came of a model call."""
    if response.error is not None:
        return ending_of_error(response.error)
    if response.tool_calls:
        return Ended(count(len(response.tool_calls), "call"), "good")
    if response.finish_reason in (None, FinishReason.STOP):
        return Ended("answer", "good")
    return Ended(f"ended: {response.finish_reason}", "odd")


def ending_of_error(error: AgentError) -> Ended:
    """The words for an error; a status stands before its code."""
    status = "" if error.status_code is None else f"{error.status_code} "
    return Ended(f"{status}{error.code}", "bad", error.message)


# "machine-1/", with the attempt.
_ENGINE = re.compile(r"(?:graph|machine)-\d+/")
# What an engine notes for itself: where it began, with which machine, how a wait is called.
_NOTE = re.compile(r"(?:graph|machine)-\d+/(?:start|machine|question-.*)|.*:enter|wait:.+#\d+")
# "draft#2~3": the second visit, its third try.
_PLACE = re.compile(r"(?P<name>.+?)(?:#(?P<visit>\d+))?(?:~(?P<tries>\d+))?")


def step_title(key: str) -> str:
    """The name of a step.

    Args:
        key: By which the log knows it.

    Returns:
        The state or node of an engine, with its visit and try where that is not the first; the id
        of a run inside; any other key as it is. "" for what an engine only notes for itself.
    """
    child = child_of(key)
    if child is not None:
        return "reported usage" if re.fullmatch(r"reported-\d+-\d+", child) else child
    if _NOTE.fullmatch(key):
        return ""
    engine = _ENGINE.match(key)
    if engine is None:
        return key
    return "/".join(_place(part) for part in key[engine.end() :].split("/"))


def _place(part: str) -> str:
    found = _PLACE.fullmatch(part)
    if found is None:
        return part
    visit, tries = found["visit"] or "1", found["tries"] or "1"
    again = f" {visit}" if visit != "1" else ""
    return f"{found['name']}{again}{f', try {tries}' if tries != '1' else ''}"


RUNNING = "running"


class Activity:
    """What is known of a run from its events so far; any prefix of them will do.

    Time is work time: the hours between two sessions, in which no process had the run,
    are left out of every figure.

    Attributes:
        run_id: The run, "" before its first event.
        started: Its first event, None before that.
        model: The last model that was asked.
        steps: What was done, in order of its start; without what an engine notes for itself.
        ended: The same in order of their end; only the steps that have one.
        records: Settled tool calls, in order of settling.
        artifacts: What was stored.
        warnings: What was told.
        pending: What people were asked for and the run has not gone on from.
        answered: What was answered of that since the last session, in a few words, by the run
            that asks ("" is this one) and the id that it has there. Answers for runs inside
            stand in their logs alone.
        numbers: The number of all that people were ever asked for, from 1 in the order in which
            they were asked, by the run that asks ("" is this one) and the id that it has there.
        result: What the last session ended with, None while it runs or where it was cut off.
        whole_until: The last event before the end of the last attempt, from which a run that was
            stopped can go on as another; 0 where it has not ended.
        sessions: How often a process took the run up.
        text: Visible characters received in the model call that is under way.
    """

    def __init__(self) -> None:
        self.run_id: str = ""
        self.started: RunStarted | None = None
        self.model: str = ""
        self.steps: list[Step] = []
        self.ended: list[Step] = []
        self.records: list[ToolRecord] = []
        self.artifacts: list[File] = []
        self.warnings: list[RunWarning] = []
        self.pending: tuple[Pending, ...] = ()
        self.answered: dict[tuple[str, str], str] = {}
        self.numbers: dict[tuple[str, str], int] = {}
        self.result: AgentResult[Json] | None = None
        self.whole_until: int = 0
        self.sessions: int = 0
        self.text: int = 0
        self._ledger = RunBudget(Budget(), clock=SYSTEM_CLOCK)
        self._origin: datetime | None = None
        self._last: datetime | None = None
        self._away = timedelta()
        self._open: dict[str, Step] = {}
        self._names: dict[str, str] = {}
        self._asked_for: dict[str, Pending] = {}
        self._answers: dict[str, Step] = {}
        self._apply: dict[type[Any], Callable[[Any, float], None]] = {
            RunStarted: self._run_started,
            RunResumed: self._run_resumed,
            AttemptStarted: self._attempt_started,
            AttemptEnded: self._attempt_ended,
            ModelStarted: self._model_started,
            TextDelta: self._text_delta,
            ModelRetried: self._model_retried,
            ModelReplied: self._model_replied,
            ToolStarted: self._tool_started,
            ToolProgress: self._tool_progress,
            ToolSettled: self._tool_settled,
            ArtifactStored: self._artifact_stored,
            StepStarted: self._step_started,
            StepSettled: self._step_settled,
            ApprovalRequested: self._asked,
            QuestionAsked: self._asked,
            ApprovalAnswered: self._approval_answered,
            QuestionAnswered: self._question_answered,
            RunInterrupted: self._interrupted,
            HandoffEvent: self._handoff,
            Warned: self._warned,
            RunSettled: self._run_settled,
        }

    @property
    def status(self) -> str:
        """The result's status, ``running`` without one."""
        return RUNNING if self.result is None else str(self.result.status)

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls so far; of the children too once there is a result."""
        return self._ledger.usage if self.result is None else self.result.usage

    @property
    def cost(self) -> Cost | None:
        """Money for them, None where none had a price."""
        return self._ledger.cost if self.result is None else self.result.cost

    @property
    def length_s(self) -> float:
        """Seconds of work from the first event to the last."""
        return 0.0 if self._last is None else self.offset_s(self._last)

    @property
    def running(self) -> list[Step]:
        """The steps under way."""
        return [step for step in self.steps if step.running]

    def offset_s(self, time: datetime) -> float:
        """Seconds of work from the start of the run to *time*."""
        if self._origin is None:
            return 0.0
        return max(0.0, (time - self._origin - self._away).total_seconds())

    def add(self, event: Event) -> None:
        """Take the next event; a kind that says nothing here is passed over."""
        if not isinstance(event, RunEvent):
            return
        self.run_id = event.run_id
        time = event.time or self._last
        # What is logged of a run that has settled, such as an answer that is kept, is no work.
        if time is not None and (self.result is None or isinstance(event, RunResumed)):
            self._origin = self._origin or time
            if isinstance(event, RunResumed) and self._last is not None:
                self._away += time - self._last
            self._last = time
        apply = self._apply.get(type(event))
        if apply is not None:
            apply(event, self.length_s)

    def name_run(self, run_id: str, name: str) -> None:
        """Have the step that a run inside is called *name*, also where it comes later."""
        self._names[run_id] = name
        for step in self.steps:
            if step.name == step_of(run_id):
                step.title = name

    # -- the run

    def _run_started(self, event: RunStarted, _: float) -> None:
        self.started = event
        self.sessions = 1

    def _run_resumed(self, event: RunResumed, at_s: float) -> None:
        self.sessions += 1
        self.whole_until = 0
        for step in self._open.values():
            step.lost = True
            _close(step, at_s)
        self._open.clear()
        self.result = None
        self.pending = ()
        self.answered = {}
        lost = count(len(event.interrupted_calls), "call") if event.interrupted_calls else ""
        self._mark("resumed", at_s, f"{lost} had no outcome" if lost else "")

    def _attempt_started(self, event: AttemptStarted, at_s: float) -> None:
        if event.attempt > 1:
            self._mark(f"attempt {event.attempt}", at_s, event.feedback)

    def _attempt_ended(self, event: AttemptEnded, _: float) -> None:
        self.whole_until = event.seq - 1

    def _interrupted(self, event: RunInterrupted, at_s: float) -> None:
        cause = event.interrupt.cause or "no cause given"
        self._mark("interrupted", at_s, event.interrupt.detail or str(cause))

    def _handoff(self, event: HandoffEvent, at_s: float) -> None:
        self._mark("handed over", at_s, f"to {event.to_agent_id}")

    def _asked(self, event: ApprovalRequested | QuestionAsked, at_s: float) -> None:
        self.pending = (*self.pending, event.pending)
        self._asked_for[bare_id(event.pending)] = event.pending
        self._answers.pop(bare_id(event.pending), None)
        self._number(event.pending)
        asked = event.pending
        self._mark("asked", at_s, getattr(asked, "tool_name", "") or getattr(asked, "question", ""))

    def _approval_answered(self, event: ApprovalAnswered, at_s: float) -> None:
        said = _said(event.answer)
        asked = self._asked_for.get(event.call_id)
        tool = asked.tool_name if isinstance(asked, PendingApproval) else event.call_id
        self._answer(event.call_id, said, at_s, f"{tool} {said}")

    def _question_answered(self, event: QuestionAnswered, at_s: float) -> None:
        said = clean(str(event.value), 60)
        self._answer(event.id, said, at_s, said)

    def _answer(self, id: str, said: str, at_s: float, detail: str) -> None:
        # One that was kept for later is logged when it is given, and again when it is taken.
        if id in self._answers:
            # Until it is taken another may be given in its place.
            self._answers[id].ended = Ended("", "odd", detail)
        elif id in self._asked_for:
            self._answers[id] = self._mark("answered", at_s, detail)
        if self.result is not None:
            self.answered["", id] = said

    def _number(self, pending: Pending) -> None:
        self.numbers.setdefault((pending.run_id, bare_id(pending)), len(self.numbers) + 1)

    def _warned(self, event: Warned, _: float) -> None:
        self.warnings.append(event.warning)

    def _artifact_stored(self, event: ArtifactStored, _: float) -> None:
        self.artifacts.append(event.artifact)

    def _run_settled(self, event: RunSettled, at_s: float) -> None:
        self.result = event.result
        self.pending = event.result.pending
        for pending in self.pending:
            # Those of runs inside are told here only.
            self._number(pending)
        self.warnings = list(event.result.warnings)
        for key in list(self._open):
            self._end(key, at_s, Ended("cut off", "odd"))

    # -- model calls

    def _model_started(self, event: ModelStarted, at_s: float) -> None:
        self.model = event.model
        self.text = 0
        self._begin("model", Step("model", event.model, at_s, number=event.turn))

    def _text_delta(self, event: TextDelta, _: float) -> None:
        self.text += len(event.text)

    def _model_retried(self, event: ModelRetried, at_s: float) -> None:
        self._ledger.add(event.response)
        ended = Ended("failed", "bad") if event.error is None else ending_of_error(event.error)
        detail = f"next try in {duration(event.wait_s)}"
        step = self._end("model", at_s, Ended(ended.word, ended.tone, detail))
        if step is not None:
            step.wait_s = event.wait_s
        # The next try begins when the wait is over; nothing is logged then.
        again = Step("model", event.model, at_s + event.wait_s, number=event.turn, again=True)
        self._begin("model", again)

    def _model_replied(self, event: ModelReplied, at_s: float) -> None:
        self._ledger.add(event.response)
        self.text = 0
        self._end("model", at_s, ending_of_reply(event.response))

    # -- tools and engine steps

    def _tool_started(self, event: ToolStarted, at_s: float) -> None:
        self._begin(f"tool {event.call.id}", Step("tool", event.call.name, at_s))

    def _tool_progress(self, event: ToolProgress, _: float) -> None:
        step = self._open.get(f"tool {event.call_id}")
        if step is not None:
            step.note = event.text

    def _tool_settled(self, event: ToolSettled, at_s: float) -> None:
        record = event.record
        self.records.append(record)
        key, ended = f"tool {record.call_id}", ending_of_tool(record.outcome)
        if key not in self._open:
            self._begin(key, Step("tool", record.tool_name, at_s))
        # Its own clock is finer than the moment at which the batch was logged.
        began_s = self._open[key].start_s
        self._end(key, began_s + record.run_ms / 1000 if record.run_ms else at_s, ended)

    def _step_started(self, event: StepStarted, at_s: float) -> None:
        title = self._names.get(child_of(event.key) or "") or step_title(event.key)
        if title:
            self._begin(f"step {event.key}", Step("step", event.key, at_s, title=title))

    def _step_settled(self, event: StepSettled, at_s: float) -> None:
        ended = Ended("done", "good") if event.error is None else ending_of_error(event.error)
        self._end(f"step {event.key}", at_s, ended)

    # -- rows

    def _begin(self, key: str, step: Step) -> None:
        self._open[key] = step
        self._place(step)

    def _end(self, key: str, at_s: float, ended: Ended) -> Step | None:
        step = self._open.pop(key, None)
        if step is not None:
            step.ended = ended
            _close(step, at_s)
            self.ended.append(step)
        return step

    def _mark(self, name: str, at_s: float, detail: str) -> Step:
        step = Step("mark", name, at_s, end_s=at_s, ended=Ended("", "odd", detail))
        self._place(step)
        self.ended.append(step)
        return step

    def _place(self, step: Step) -> None:
        if not self.steps or self.steps[-1].start_s <= step.start_s:
            self.steps.append(step)
        else:
            # A further try was put down before its time had come.
            insort(self.steps, step, key=lambda other: other.start_s)


def _said(answer: AnyAnswer) -> str:
    """What became of a call by an answer, and by whom where that is known."""
    word = "denied" if isinstance(answer, Deny) else "edited" if isinstance(answer, Edit) else ""
    return f"{word or 'approved'}{f' by {clean(answer.by, 40)}' if answer.by else ''}"


def _close(step: Step, at_s: float) -> None:
    """Give *step* its end; one whose time had not come began there too."""
    step.start_s = min(step.start_s, at_s)
    step.end_s = at_s
