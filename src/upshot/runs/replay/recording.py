"""A log in place of the outside world, for a replay."""

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
from upshot.contract.model_calls import ModelResponse, ModelStarted
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
from upshot.state.run_state import RunState
from upshot.tools.call_resumption import KnownCall, KnownOutcomes


class _Attempt:
    """What one attempt was given from outside.

    Args:
        state: Of the run at its beginning; what models were asked and replied is gathered there.
    """

    def __init__(self, state: RunState) -> None:
        self.seed: list[BoardChanged | Compacted] = []
        self.models: dict[int, ModelStarted] = state.models
        self.replies: dict[int, ModelResponse] = state.replies
        self.open: dict[str, list[ToolStarted | ArtifactStored]] = {}
        self.calls: dict[tuple[str, str], deque[KnownCall]] = {}
        self.compacted: deque[Compacted] = deque()

    def replied(self) -> dict[str, deque[tuple[int, ModelResponse]]]:
        """The replies in the order in which they were asked for, with the events that asked.

        By the ``host.once`` in whose body, "" for none.
        """
        found: dict[str, deque[tuple[int, ModelResponse]]] = {}
        # Calls that were made side by side may have been answered in another order than asked.
        for turn, asked in self.models.items():
            if turn in self.replies:
                replies = found.setdefault(asked.step, deque())
                replies.append((asked.seq, self.replies[turn]))
        return found

    def done_in(self, step: str) -> set[int]:
        """The model and tool calls in the body of a step, by the numbers of their events."""
        asked = {asked.seq for asked in self.models.values() if asked.step == step}
        known = (one for calls in self.calls.values() for one in calls)
        made = [one for one in known if one.record is not None and one.record.step == step]
        return asked.union(event.seq for one in made for event in one.events)


class _Steps(Steps):
    """Steps of a record.

    Args:
        state: What the record says of them.
        leave_out: Told of each step of an engine's that is handed back whole, by its key.
        skip: Told of each step whose body is not run again, by its key.
        end: Told of each step that has no outcome; raises what the attempt ended with in it.
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
    """Hands out what was recorded, each thing once and in its order.

    Args:
        events: The log of the run.
        secrets: Texts for which marks stand in the log, in the order in which the run had them.

    Attributes:
        past: The fold of the same events.
        steps: Keyed steps and answers.
        children: Ids of the runs inside it, in the order in which they began.
        waiting: Calls that wait for somebody's word, as far as they were made.
        beyond: What was asked for that the record does not have, "" while nothing was.
        budget: Of the run that is replayed, which is set with it.
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
        # Between which events each step was under way, and those that are not done again.
        self._spans: dict[str, tuple[int, int | None]] = {}
        self._left_out: set[int] = set()
        # What was used that nothing in a replay uses again, by the event that says so.
        self._used: dict[int, Spent | ModelResponse] = {}
        self._settled: dict[str, int] = {}
        self._line: AttemptLine | None = None
        self._now = _Attempt(self.past)
        read = lift_secrets(secrets, hides_others=False)
        for event in map(read, events):
            self.past.add(event)
            self._add(event)
        if self.past.started is not None:
            self._marks = _marks_of(self.past.started)

    # -- handing out

    def begin(self, attempt: int) -> list[BoardChanged | Compacted]:
        """Turn to *attempt*; returns what its board was started with."""
        self._now = self._attempts.get(attempt) or _Attempt(RunState())
        self._line = next((one for one in self.past.lines if one.attempt == attempt), None)
        self._replies = self._now.replied()
        return self._now.seed

    def reply(self, model: str, step: str) -> ModelResponse:
        """The reply to the next model call in the body of a ``host.once``, "" for none.

        Raises:
            Failed: There is none.
        """
        replies = self._replies.setdefault(step, deque())
        while replies and self.is_left_out(replies[0][0]):
            replies.popleft()
        if not replies:
            self.miss(f"a reply of {model}")
        seq, response = replies.popleft()
        self._count_until(seq)
        return response

    def call(self, call: ToolCall) -> KnownCall | None:
        """What came of *call*; None where it waits for somebody's word.

        Raises:
            Failed: It was not made, or with other arguments.
        """
        # Providers use ids again, so several calls may have one: they are handed out in their
        # order.
        found = self._now.calls.get((call.id, call.name))
        said = self._shown(call.arguments)
        record = found[0].record if found else None
        if found and record is not None and self._shown(record.arguments_given) == said:
            self._count_until(found[0].events[-1].seq)
            known = found.popleft()
            asked = [one for one in self.past.waits.values() if _is_about(one, record)]
            if known.outcome is None:
                self.waiting = (*self.waiting, *asked)
            return known
        if call.id not in self.past.asked:
            self.miss(f"a call {call.id!r} of {call.name} with {said}")
        self.waiting = (*self.waiting, self.past.asked[call.id])
        return None

    def known_outcomes(self) -> KnownOutcomes:
        """What a Toolbox hands back in place of making calls."""
        return KnownOutcomes(self.call, pending=lambda: self.waiting)

    def summary(self) -> Message | str | None:
        """What older messages were replaced by the next time, or that they were not."""
        found = self._now.compacted
        return found.popleft().summary if found else "the record does not have it"

    def child(self, run_id: str) -> str:
        """The run that was started inside: the one of that id, else the next one.

        Raises:
            Failed: There is none.
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
        """Note that *what* was asked for and is not in the record.

        Raises:
            Failed: Always.
        """
        self.beyond = self.beyond or self._hidden.mask_text(what)
        raise Failed(ErrorCode.NOT_AVAILABLE, f"the record does not have {what}")

    # -- comparing

    def is_left_out(self, seq: int) -> bool:
        """Whether the event *seq* is of a step whose outcome was handed out as a whole."""
        return seq in self._left_out

    def show(self, value: Json) -> Json:
        """*value* with what people see in the place of the marks that stand for secrets."""
        if self._marks is None:
            return value
        shown = self._marks.sub(MASK.encode(), msgspec.json.encode(value))
        return cast("Json", msgspec.json.decode(shown))

    def _shown(self, arguments: Json | Mapping[str, Json]) -> Json:
        return self.show(self._hidden.mask(read_arguments(arguments)))

    def _leave_out(self, key: str) -> None:
        """Pass over what was done in a step; calls of tools and runs are found by their ids."""
        span = self._spans.get(key)
        if span is None:
            return
        start, end = span
        # A step without an end is the one in which the attempt ended: all that follows is of it.
        self._pass_over(range(start + 1, end or self.past.seq + 1))
        self._count_until(end or self.past.seq)

    def _skip(self, key: str) -> None:
        """Pass over what was done in the body of a step."""
        self._pass_over(self._now.done_in(key))
        self._count_until(self._spans.get(key, (0, None))[1] or 0)

    def _pass_over(self, seqs: Iterable[int]) -> None:
        """Leave the events *seqs* out, and count the model calls among them."""
        self._left_out.update(seqs)
        for replies in self._replies.values():
            for asked in [one for one in replies if self.is_left_out(one[0])]:
                replies.remove(asked)
                self.budget.turns += 1
                self.budget.add(asked[1])

    def _count_until(self, seq: int) -> None:
        """Count what was used until the event *seq* and nothing in a replay uses again.

        The budget then refuses a call where it refused it in the run.
        """
        for at in [one for one in self._used if one <= seq]:
            match self._used.pop(at):
                case Spent() as spent:
                    self.budget.add_spent(spent)
                case ModelResponse() as response:
                    self.budget.add(response)

    def _end_in(self, key: str) -> None:
        """Fail as the attempt did where it ended within a step, which then has no outcome.

        Raises:
            Failed: It failed.
            Aborted: It was aborted.
        """
        if key not in self._spans:
            return
        # The record goes no further than its beginning.
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
            # What a run inside of the step said last is put on the board by the end of the run.
            ending.said = line.content or ""
            raise ending

    # -- reading

    def _add(self, event: Event) -> None:
        now = self._now
        match event:
            case AttemptStarted():
                self._now = self._attempts[event.attempt] = _Attempt(self.past)
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
        """Hand a call out with what became known of it; as one that waits while nothing did."""
        self._asked[asked.id] = asked
        calls = now.calls.get((asked.call_id, asked.tool_name)) or deque()
        if not calls or (record := calls[-1].record) is None:
            return
        outcome, events = None, [*calls[-1].events, event]
        if settled is not None and isinstance(record.outcome, ToolTimeout | ToolFailure):
            outcome = once_known(record.outcome, settled)
            record = msgspec.structs.replace(record, effect=outcome.effect, outcome=outcome)
        calls[-1] = KnownCall(outcome, record, events)

    def _add_step(self, event: Event) -> None:
        match event:
            case StepStarted() if (child := child_of(event.key)) is not None:
                if child not in self.children:
                    self.children.append(child)
            case StepStarted():
                # Where it is begun again in a later session, what its first try did is of it as
                # well.
                start, _ = self._spans.get(event.key, (event.seq, None))
                self._spans[event.key] = start, None
            case StepSettled() if (child := child_of(event.key)) is not None:
                # Each settlement of a child run says what all of its sessions used.
                self._used.pop(self._settled.get(child, 0), None)
                if (spent := self.past.children[child]) is not None:
                    self._settled[child], self._used[event.seq] = event.seq, spent
            case StepSettled():
                start, _ = self._spans.get(event.key, (event.seq, None))
                self._spans[event.key] = start, event.seq
            case UsageReported(number=0):
                self._used[event.seq] = event.response
            case _:
                pass


def _is_about(pending: Pending, record: ToolRecord) -> bool:
    return isinstance(pending, PendingEffect) and pending.call_id == record.call_id


def _marks_of(started: RunStarted) -> re.Pattern[bytes] | None:
    """What finds the marks of a log in JSON, None where it has none."""
    name = started.options.get(MARKS_OPTION)
    if not isinstance(name, str):
        return None
    return re.compile(rb"<secret %s\.\d+\.\d+>" % re.escape(name).encode())
