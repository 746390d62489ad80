"""Recording: a log that replaces the outside world in a replay."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

import msgspec

from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.base.secrets import MARKS_OPTION, MASK, Secrets
from upshot.contract.base.structs import Json
from upshot.contract.events import (
    ArtifactStored,
    AttemptStarted,
    BoardChanged,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RunStarted,
    StepSettled,
    StepStarted,
    ToolSettled,
    ToolStarted,
    UsageReported,
)
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelReplied, ModelResponse, ModelRetried, ModelStarted
from upshot.contract.pending import Pending, PendingEffect
from upshot.contract.result import AttemptLine
from upshot.contract.run_control import Compacted
from upshot.contract.tool_calls import (
    Settlement,
    ToolCall,
    ToolFailure,
    ToolRecord,
    ToolTimeout,
    once_known,
)
from upshot.runs.budget import RunBudget
from upshot.runs.engine_api.exceptions import Aborted, Failed
from upshot.runs.engine_api.steps import Steps
from upshot.runs.recorder import Recorder
from upshot.runs.redaction import lift_secrets
from upshot.runs.resumption import read_arguments
from upshot.state.child_runs import Spent, child_of
from upshot.state.run_state import SUMMARY, RunState
from upshot.tools.call_resumption import KnownCall, KnownOutcomes


class _Attempt:
    """The recorded outcomes of one attempt.

    Args:
        state: The state when the attempt starts. Later requests and replies are added to it.
    """

    def __init__(self, state: RunState) -> None:
        self.seed: list[BoardChanged | Compacted] = []
        self.models: dict[int, ModelStarted] = state.models
        self.replies: dict[int, ModelResponse] = state.replies
        self.open: dict[str, list[ToolStarted | ArtifactStored]] = {}
        self.calls: dict[tuple[str, str], deque[KnownCall]] = {}
        self.compacted: deque[Compacted] = deque()

    def replied(self) -> dict[str, deque[tuple[int, ModelResponse]]]:
        """Return the replies in the order of their requests, with the seq of each request.

        The key is the ``host.once`` whose body made the call, "" for none.
        """
        found: dict[str, deque[tuple[int, ModelResponse]]] = {}
        # Replies to parallel calls may have come in another order.
        for turn, asked in self.models.items():
            if turn in self.replies:
                replies = found.setdefault(asked.step, deque())
                replies.append((asked.seq, self.replies[turn]))
        return found

    def done_in(self, step: str) -> set[int]:
        """Return the seqs of the model and tool calls in the body of a step."""
        asked = {asked.seq for asked in self.models.values() if asked.step == step}
        known = (one for calls in self.calls.values() for one in calls)
        made = [one for one in known if one.record is not None and one.record.step == step]
        return asked.union(event.seq for one in made for event in one.events)


class _Steps(Steps):
    """The steps of a record.

    Args:
        state: The state folded from the record.
        leave_out: Called with the key of each engine step whose result is returned as a whole.
        skip: Called with the key of each step whose body does not run again.
        end: Called with the key of each step without an outcome; raises how the attempt ended.
    """

    def __init__(
        self,
        state: RunState,
        *,
        leave_out: Callable[[str], None],
        skip: Callable[[str], None],
        end: Callable[[str], None],
    ) -> None:
        super().__init__(state)
        self._leave_out = leave_out
        self._skip = skip
        self._end = end

    def recall(self, settled: StepSettled) -> Json:
        self._skip(settled.key)
        return super().recall(settled)

    def hand_back(self, settled: StepSettled) -> Json:
        self._leave_out(settled.key)
        return super().hand_back(settled)

    async def do(
        self,
        key: str,
        effect: Effect,
        body: Callable[[], Awaitable[Any] | Any],
        recorder: Recorder,
        *,
        idempotent: bool,
        who: str = "",
    ) -> Json:
        self._end(key)
        return await super().do(key, effect, body, recorder, idempotent=idempotent, who=who)


class Recording:
    """Returns what was recorded, each item once and in order.

    Args:
        events: The log of the run.
        secrets: The secrets whose marks are in the log, in the order that the run had them.

    Attributes:
        past: The fold of the same events.
        steps: Keyed steps and answers.
        children: The ids of child runs, in the order in which they started.
        waiting: The calls reached so far that wait for an answer.
        beyond: What was requested that the record does not have, "" if nothing was.
        budget: The budget of the replay; set by the session.
    """

    budget: RunBudget

    def __init__(self, events: Iterable[Event], secrets: Sequence[str] = ()) -> None:
        self.past: RunState = RunState()
        self._hidden = Secrets(secrets)
        self._marks: re.Pattern[bytes] | None = None
        self.steps: Steps = _Steps(
            self.past, leave_out=self._leave_out, skip=self._skip, end=self._end_in
        )
        self.steps.on_miss = self.miss
        self.children: deque[str] = deque()
        self.beyond: str = ""
        self.waiting: tuple[Pending, ...] = ()
        self._asked: dict[str, PendingEffect] = {}
        self._attempts: dict[int, _Attempt] = {}
        self._replies: dict[str, deque[tuple[int, ModelResponse]]] = {}
        # The first and last event of each step, and the events that the replay skips.
        self._spans: dict[str, tuple[int, int | None]] = {}
        self._left_out: set[int] = set()
        # Usage that a replay does not cause again, by the event that reports it.
        self._used: dict[int, Spent | ModelResponse | ModelReplied] = {}
        # Failed tries of a model call, by the event that starts the call.
        self._retried: dict[int, list[ModelResponse]] = {}
        self._settled: dict[str, int] = {}
        self._line: AttemptLine | None = None
        self._current = _Attempt(self.past)
        read = lift_secrets(secrets, hides_others=False)
        for event in map(read, events):
            self.past.add(event)
            self._add(event)
        if self.past.started is not None:
            self._marks = _marks_of(self.past.started)

    # -- returning recorded outcomes

    def begin(self, attempt: int) -> list[BoardChanged | Compacted]:
        """Switch to *attempt*; returns what its board was seeded with."""
        self._current = self._attempts.get(attempt) or _Attempt(RunState())
        self._line = next((one for one in self.past.lines if one.attempt == attempt), None)
        self._replies = self._current.replied()
        return self._current.seed

    def reply(self, model: str, step: str) -> ModelResponse:
        """Return the reply to the next model call in the body of a ``host.once``, "" for none.

        Raises:
            Failed: The record has none.
        """
        replies = self._replies.setdefault(step, deque())
        while replies and self.is_left_out(replies[0][0]):
            replies.popleft()
        if not replies:
            self.miss(f"a reply of {model}")
        seq, response = replies.popleft()
        self._count_until(seq)
        self._count_retries(seq)
        return response

    def call(self, call: ToolCall) -> KnownCall | None:
        """Return the outcome of *call*; None if it waits for an answer.

        Raises:
            Failed: The record does not have it, or has it with other arguments.
        """
        # Providers reuse ids, so several calls may have the same one: return them in order.
        found = self._current.calls.get((call.id, call.name))
        arguments = self._mask_arguments(call.arguments)
        record = found[0].record if found else None
        if (
            found
            and record is not None
            and self._mask_arguments(record.arguments_given) == arguments
        ):
            self._count_until(found[0].events[-1].seq)
            known = found.popleft()
            asked = [one for one in self.past.waits.values() if _is_about(one, record)]
            if known.outcome is None:
                self.waiting = (*self.waiting, *asked)
            return known
        if call.id not in self.past.asked:
            self.miss(f"a call {call.id!r} of {call.name} with {arguments}")
        self.waiting = (*self.waiting, self.past.asked[call.id])
        return None

    def known_outcomes(self) -> KnownOutcomes:
        """Return the outcomes that a Toolbox returns in place of making calls."""
        return KnownOutcomes(self.call, pending=lambda: self.waiting)

    def summary(self) -> Message | str | None:
        """Return the next recorded summary of older messages, or a text if there is none."""
        asked = [at for at, one in self._used.items() if getattr(one, "purpose", "") == SUMMARY]
        self._count_until(min(asked, default=0))
        found = self._current.compacted
        return found.popleft().summary if found else "the record does not have it"

    def child(self, run_id: str) -> str:
        """Return the id of a child run: *run_id* if the record has it, else the next one.

        Raises:
            Failed: The record has none.
        """
        if run_id in self.children:
            self.children.remove(run_id)
        elif self.children:
            run_id = self.children.popleft()
        else:
            self.miss("a run inside")
        self._count_until(self._settled.get(run_id, 0))
        return run_id

    def miss(self, what: str) -> NoReturn:
        """Record that *what* was requested and is not in the record.

        Raises:
            Failed: Always.
        """
        self.beyond = self.beyond or self._hidden.mask_text(what)
        raise Failed(ErrorCode.NOT_AVAILABLE, f"the record does not have {what}")

    # -- comparing

    def is_left_out(self, seq: int) -> bool:
        """Whether event *seq* belongs to a step whose outcome was returned as a whole."""
        return seq in self._left_out

    def show(self, value: Json) -> Json:
        """Return *value* with the marks for secrets replaced by what users see."""
        if self._marks is None:
            return value
        shown = self._marks.sub(MASK.encode(), msgspec.json.encode(value))
        return cast("Json", msgspec.json.decode(shown))

    def _mask_arguments(self, arguments: Json | Mapping[str, Json]) -> Json:
        return self.show(self._hidden.mask(read_arguments(arguments)))

    def _leave_out(self, key: str) -> None:
        """Skip the events of a step; tool calls and child runs are still found by their ids."""
        span = self._spans.get(key)
        if span is None:
            return
        start, end = span
        # A step without an end is where the attempt ended: all later events belong to it.
        self._pass_over(range(start + 1, end or self.past.seq + 1))
        self._count_until(end or self.past.seq)

    def _skip(self, key: str) -> None:
        """Skip the calls that were made in the body of a step."""
        self._pass_over(self._current.done_in(key))
        self._count_until(self._spans.get(key, (0, None))[1] or 0)

    def _pass_over(self, seqs: Iterable[int]) -> None:
        """Mark the events *seqs* as skipped, and count the model calls among them."""
        self._left_out.update(seqs)
        for replies in self._replies.values():
            for asked in [one for one in replies if self.is_left_out(one[0])]:
                replies.remove(asked)
                self.budget.turns += 1
                self._count_retries(asked[0])
                self.budget.add(asked[1])

    def _count_retries(self, asked: int) -> None:
        """Count the failed tries of the model call that event *asked* starts."""
        for response in self._retried.pop(asked, ()):
            self.budget.add(response)

    def _count_until(self, seq: int) -> None:
        """Count recorded usage up to event *seq* that a replay does not cause again.

        This way the budget refuses the same call as in the run.
        """
        for at in [one for one in self._used if one <= seq]:
            match self._used.pop(at):
                case Spent() as spent:
                    self.budget.add_spent(spent)
                case ModelResponse() as response:
                    self.budget.add(response)
                case ModelReplied() as replied:
                    self.budget.turns += 1
                    self.budget.add(replied.response)

    def _end_in(self, key: str) -> None:
        """Fail as the attempt did if it ended within this step, which then has no outcome.

        Raises:
            Failed: The attempt failed.
            Aborted: The attempt was aborted.
        """
        if key not in self._spans:
            return
        # The record ends within this step.
        self._leave_out(key)
        line = self._line
        if line is None or line.error is None:
            return
        ending: Failed | Aborted | None = None
        if line.status is Status.FAILED:
            ending = Failed(line.error)
        elif line.status is Status.ABORTED:
            ending = Aborted(line.error.message, line.error.code)
        if ending is not None:
            # The session puts the last text of a child run in this step on the board at the end.
            ending.last_text = line.content or ""
            raise ending

    # -- reading

    def _add(self, event: Event) -> None:
        now = self._current
        match event:
            case AttemptStarted():
                self._current = self._attempts[event.attempt] = _Attempt(self.past)
            case BoardChanged(seeded=True):
                now.seed.append(event)
            case Compacted() if not now.seed:
                now.seed.append(event)
            case Compacted():
                now.compacted.append(event)
            case ToolStarted() | ArtifactStored():
                now.open.setdefault(event.call_id, []).append(event)
            case ToolSettled():
                self._settle(now, event)
            case QuestionAsked(pending=PendingEffect() as asked):
                self._ask_about(now, asked, event, None)
            case QuestionAnswered(settled=Settlement() as settled):
                if (asked := self._asked.get(event.id)) is not None:
                    self._ask_about(now, asked, event, settled)
            case _:
                self._add_step(event)

    def _settle(self, now: _Attempt, event: ToolSettled) -> None:
        record = event.record
        events = [*now.open.pop(record.call_id, []), event]
        key = record.call_id, record.tool_name
        now.calls.setdefault(key, deque()).append(KnownCall(record.outcome, record, events))

    def _ask_about(
        self,
        now: _Attempt,
        asked: PendingEffect,
        event: QuestionAsked | QuestionAnswered,
        settled: Settlement | None,
    ) -> None:
        """Update a call to what became known of its effect; unknown means that it still waits."""
        self._asked[asked.id] = asked
        calls = now.calls.get((asked.call_id, asked.tool_name)) or deque()
        if not calls or (record := calls[-1].record) is None:
            return
        outcome, events = None, [*calls[-1].events, event]
        if settled is not None and isinstance(record.outcome, ToolTimeout | ToolFailure):
            again = record.retries_timeouts
            outcome = once_known(record.outcome, settled, retries_timeouts=again)
            record = msgspec.structs.replace(record, effect=outcome.effect, outcome=outcome)
        calls[-1] = KnownCall(outcome, record, events)

    def _add_step(self, event: Event) -> None:
        match event:
            case StepStarted() if (child := child_of(event.key)) is not None:
                if child not in self.children:
                    self.children.append(child)
            case StepStarted():
                # A step started again in a later session includes what its first try did.
                start, _ = self._spans.get(event.key, (event.seq, None))
                self._spans[event.key] = start, None
            case StepSettled() if (child := child_of(event.key)) is not None:
                # Each settlement of a child run has the usage of all its sessions.
                self._used.pop(self._settled.get(child, 0), None)
                if (spent := self.past.children[child]) is not None:
                    self._settled[child], self._used[event.seq] = event.seq, spent
            case StepSettled():
                start, _ = self._spans.get(event.key, (event.seq, None))
                self._spans[event.key] = start, event.seq
            case ModelRetried() if event.turn in self.past.models:
                asked = self.past.models[event.turn].seq
                self._retried.setdefault(asked, []).append(event.response)
            case UsageReported(number=0) | ModelRetried():
                # The retried call is none of the engine's, such as a summary.
                self._used[event.seq] = event.response
            case ModelReplied() if event.purpose:
                self._used[event.seq] = event
            case _:
                pass


def _is_about(pending: Pending, record: ToolRecord) -> bool:
    return isinstance(pending, PendingEffect) and pending.call_id == record.call_id


def _marks_of(started: RunStarted) -> re.Pattern[bytes] | None:
    """Return a pattern that finds the marks of a log in JSON, None if it has none."""
    name = started.options.get(MARKS_OPTION)
    if not isinstance(name, str):
        return None
    return re.compile(rb"<secret %s\.\d+\.\d+>" % re.escape(name).encode())
