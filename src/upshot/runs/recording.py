"""Recording: a run's log as what an engine can be given instead of the world outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NoReturn, cast

import msgspec

from ..contract import (
    ApprovalRequested,
    ArtifactStored,
    AttemptStarted,
    BoardChanged,
    ErrorCode,
    Event,
    Json,
    ModelReplied,
    ModelResponse,
    ModelStarted,
    PendingApproval,
    QuestionAnswered,
    RunResumed,
    StepSettled,
    StepStarted,
    ToolCall,
    ToolRecord,
    ToolSettled,
    ToolStarted,
)
from .kin import child_of
from .past import Past
from .signals import Failed
from .steps import Steps

__all__ = ["CallRecord", "Recording"]


class CallRecord(msgspec.Struct):
    """A tool call that was recorded.

    Attributes:
        events: What was logged of it, in order.
        record: What came of it.
    """

    events: list[Event]
    record: ToolRecord


class _Attempt:
    """What one attempt was given from outside."""

    def __init__(self) -> None:
        self.seed: list[BoardChanged] = []
        self.models: dict[int, str] = {}
        self.replies: dict[int, ModelResponse] = {}
        self.open: dict[str, list[Event]] = {}
        self.calls: dict[tuple[str, str], deque[CallRecord]] = {}
        self.asked: dict[str, PendingApproval] = {}

    def replied(self) -> Iterable[ModelResponse]:
        """The replies in the order in which they were asked for."""
        return (self.replies[turn] for turn in self.models if turn in self.replies)


class Recording:
    """Hands out what was recorded, each thing once and in its order.

    Args:
        events: The log of the run.

    Attributes:
        past: The fold of the same events.
        steps: Keyed steps and answers.
        children: Ids of the runs inside it, in the order in which they began.
        waiting: Calls that wait for somebody's word, as far as they were made.
        beyond: What was asked for that the record does not have, "" while nothing was.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.past: Past = Past()
        self.steps: Steps = Steps()
        self.steps.on_miss = self.miss
        self.children: deque[str] = deque()
        self.beyond: str = ""
        self.waiting: tuple[PendingApproval, ...] = ()
        self._attempts: dict[int, _Attempt] = {}
        self._replies: deque[ModelResponse] = deque()
        self._now = _Attempt()
        for event in events:
            self.past.add(event)
            self._add(event)

    # -- handing out

    def begin(self, attempt: int) -> list[BoardChanged]:
        """Turn to *attempt*; returns what its board was started with."""
        self._now = self._attempts.get(attempt) or _Attempt()
        self._replies = deque(self._now.replied())
        return self._now.seed

    def reply(self, model: str) -> ModelResponse:
        """The reply to the next model call.

        Raises:
            Failed: There is none.
        """
        if not self._replies:
            self.miss(f"a reply of {model}")
        return self._replies.popleft()

    def call(self, call: ToolCall) -> CallRecord | None:
        """What came of *call*; None where it waits for somebody's word.

        Raises:
            Failed: It was not made, or with other arguments.
        """
        found = self._now.calls.get((call.id, call.name))
        if found and _said(found[0].record.arguments_given) == _said(call.arguments):
            return found.popleft()
        if call.id not in self._now.asked:
            self.miss(f"a call {call.id!r} of {call.name} with {_said(call.arguments)}")
        self.waiting = (*self.waiting, self._now.asked[call.id])
        return None

    def child(self, run_id: str) -> str:
        """The run that was started inside: the one of that id, else the next one.

        Raises:
            Failed: There is none.
        """
        if run_id in self.children:
            self.children.remove(run_id)
            return run_id
        if not self.children:
            self.miss("a run inside")
        return self.children.popleft()

    def miss(self, what: str) -> NoReturn:
        """Note that *what* was asked for and is not in the record.

        Raises:
            Failed: Always.
        """
        self.beyond = self.beyond or what
        raise Failed(ErrorCode.NOT_AVAILABLE, f"the record does not have {what}")

    # -- reading

    def _add(self, event: Event) -> None:
        now = self._now
        match event:
            case AttemptStarted():
                self._now = self._attempts[event.attempt] = _Attempt()
            case BoardChanged(seeded=True):
                now.seed.append(event)
            case ModelStarted(purpose=""):
                now.models.setdefault(event.turn, event.model)
            case ModelReplied(purpose=""):
                now.replies[event.turn] = event.response
            case ToolStarted() | ArtifactStored():
                now.open.setdefault(event.call_id, []).append(event)
            case ToolSettled():
                self._settle(now, event)
            case ApprovalRequested():
                now.asked[event.call_id] = event.pending
            case _:
                self._add_other(event)

    def _settle(self, now: _Attempt, event: ToolSettled) -> None:
        record = event.record
        now.asked.pop(record.call_id, None)
        events = [*now.open.pop(record.call_id, []), event]
        key = record.call_id, record.tool_name
        now.calls.setdefault(key, deque()).append(CallRecord(events, record))

    def _add_other(self, event: Event) -> None:
        match event:
            case QuestionAnswered():
                self.steps.answers[event.id] = event.value
            case RunResumed():
                answers = Past()
                answers.take_answers(event.answers)
                self.steps.answers.update(answers.steps.answers)
            case StepStarted() if (child := child_of(event.key)) is not None:
                if child not in self.children:
                    self.children.append(child)
            case StepSettled() if child_of(event.key) is None:
                self.steps.take(event)
            case _:
                pass


def _said(arguments: Json | Mapping[str, Json]) -> Json:
    """Arguments as JSON, however they were written; a text that is none as it is."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str):
        return arguments
    try:
        return cast("Json", msgspec.json.decode(arguments or "{}"))
    except msgspec.DecodeError:
        return arguments
