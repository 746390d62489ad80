"""What a resumed run gets from its state: budget, warnings of changes, logged calls."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import ApprovalAnswered, QuestionAnswered, ToolStarted
from upshot.contract.message import any_untrusted
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import EARLIER, Answer, AnyAnswer, TaintOrigin
from upshot.contract.protocols import Engine
from upshot.contract.run_control import Checkpoint
from upshot.contract.settings import Budget, Policy
from upshot.contract.tool_calls import ID_GATE, ToolCall, ToolDenied
from upshot.runs.budget import RunBudget
from upshot.runs.plan import ENGINE_OPTION, POLICY_OPTION, Plan
from upshot.runs.recorder import Recorder
from upshot.state.child_runs import Spent, end_step
from upshot.state.run_effects import effects_in
from upshot.state.run_state import RunState, acts_in
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_resumption import EarlierCalls, KnownCall


def log_answers(answers: Iterable[AnyAnswer], recorder: Recorder) -> None:
    """Log the answers to a run's open questions."""
    for answer in answers:
        recorder.emit(answered(answer, recorder.state))


def answered(answer: AnyAnswer, past: RunState) -> QuestionAnswered | ApprovalAnswered:
    """Return the event for an answer to an open question."""
    if isinstance(answer, Answer):
        return QuestionAnswered(id=answer.id, value=answer.value)
    return ApprovalAnswered(answer=answer, digest=past.asked[answer.call_id].digest)


def restore(budget: RunBudget, past: RunState) -> None:
    """Restore a new budget from the log. Usage of earlier attempts is counted before the mark."""
    reported = [event.response for event in past.reported]
    for response in (
        *past.responses[: past.before.responses],
        *reported[: past.before.reported],
    ):
        budget.add(response)
    _add_children(budget, past, earlier=True)
    for _ in range(past.before.lost_calls):
        budget.add_unfinished()
    # Usage before the mark belongs to earlier attempts, and not to this attempt's line.
    budget.since_mark()
    for response in (
        *past.responses[past.before.responses :],
        *reported[past.before.reported :],
    ):
        budget.add(response)
    _add_children(budget, past, earlier=False)
    for _ in range(past.lost_calls - past.before.lost_calls):
        budget.add_unfinished()
    for record in past.records:
        if not isinstance(record.outcome, ToolDenied) and record.tool_name != READER_NAME:
            budget.count_tool(record.tool_name)
    budget.turns, budget.turns_before = past.turns, past.before.turns


def usage_so_far(past: RunState) -> Spent:
    """Return what all sessions of a run have used so far."""
    budget = RunBudget(Budget(), clock=SYSTEM_CLOCK)
    restore(budget, past)
    tools = dict(budget.tool_calls)
    run_id = "" if past.started is None else past.started.run_id
    taint = taint_in(past)
    taint = None if taint is None else taint.seen_from(run_id)
    is_parked = past.last_settled is not None and not past.ended
    spent = Spent(
        *budget.total,
        tools,
        past.ended,
        taint,
        acts=acts_in(past),
        effects=effects_in(past, run_id, is_over=not is_parked, found=past.children_found),
        unmeasured_answers=budget.unmeasured_answers,
    )
    if (last := past.last_call) is None:
        return spent
    return replace(
        spent,
        finish_reason=last.finish_reason,
        rate_limit=past.last_rate_limit,
        provider_data=last.provider_data,
    )


def settle_interrupted_runs(state: RunState, recorder: Recorder) -> None:
    """Log the usage of child runs that earlier sessions started and this one did not continue.

    Raises:
        JournalError: The journal refuses events.
    """
    for run_id, spent in tuple(state.children_found.items()):
        if state.children.get(run_id) is None:
            message = f"run {run_id} was interrupted, and its parent run has not resumed it"
            error = AgentError(ErrorCode.INTERRUPTED, message, origin=Origin.ENGINE)
            recorder.emit(end_step(run_id, spent, error))


def taint_in(past: RunState) -> TaintOrigin | None:
    """Return the first untrusted content of a run or its child runs, None for none."""
    if past.taint is not None:
        return past.taint
    for spent in past.children_found.values():
        if spent.taint is not None:
            return spent.taint
    # The process may have died before it logged the taint.
    return EARLIER if any_untrusted(past.board.seeded()) else None


def _add_children(budget: RunBudget, past: RunState, *, earlier: bool) -> None:
    for run_id, logged in past.children.items():
        spent = past.children_found.get(run_id, logged)
        if spent is not None and (run_id in past.before.children) is earlier:
            budget.add_spent(spent)


# Step key, call id and tool name.
_Place: TypeAlias = tuple[str, str, str]


class _LoggedCall(NamedTuple):
    """A call in the log: its arguments, what is known of it, and whether it may answer a call with
    other arguments.
    """

    arguments: Json
    known: KnownCall
    is_taken_for_others: bool = True


class LoggedCalls:
    """Model and tool calls of one attempt, as earlier sessions logged them, in order.

    A call is found by its place: the step whose body made it, "" for none. A settled step does not
    run again; any other step runs again from the top of its body.

    Args:
        past: The state folded from the log.
        show: Masks secrets, as they are masked in logged arguments.

    Attributes:
        diverged: How the run differs from the log, "" for not at all; the reader resets it.
        cut_off: The calls that had started and have no outcome, in order.
    """

    def __init__(self, past: RunState, show: Callable[[Json], Json]) -> None:
        # Copies, because new events are folded into the same state.
        self._questions = {
            (past.asked_in.get(id, ""), id, asked.tool_name): EarlierCalls(
                asked={id: asked},
                answers={id: past.answers[id]} if id in past.answers else {},
            )
            for id, asked in past.asked.items()
        }
        self.diverged: str = ""
        self._show = show
        self._turns: defaultdict[str, deque[tuple[int, str]]] = defaultdict(deque)
        for turn, asked in past.models.items():
            self._turns[asked.step].append((turn, asked.model))
        self._replies = past.replies.copy()
        # By step, call id and tool name, with the arguments of each call.
        self._calls: defaultdict[_Place, list[_LoggedCall]] = defaultdict(list)
        for record in past.records[past.before.records :]:
            known = KnownCall(record.outcome)
            place = record.step, record.call_id, record.tool_name
            arguments = self._masked_arguments(record.arguments_given)
            self._calls[place].append(_LoggedCall(arguments, known, record.gate != ID_GATE))
        for start in past.begun.values():
            known = KnownCall(earlier=EarlierCalls({start.call.id: start}))
            place = start.step, start.call.id, start.call.name
            self._calls[place].append(
                _LoggedCall(self._masked_arguments(start.call.arguments), known)
            )
        self.cut_off: tuple[ToolStarted, ...] = tuple(past.begun.values())
        # Logged calls that answered a call with other arguments.
        self._misused: defaultdict[_Place, list[_LoggedCall]] = defaultdict(list)

    def turn(self, model: str, step: str) -> int | None:
        """Return the turn in which an earlier session made the next model call; None if it is new.

        Args:
            model: The model that is called.
            step: The step whose body calls it, "" for none; each step has an order of calls.
        """
        turns = self._turns[step]
        if not turns:
            return None
        turn, asked = turns.popleft()
        if asked != model:
            # From here on the logged order does not say which call is which.
            turns.clear()
            self.diverged = (
                "called another model than before the run was resumed: it is called again"
            )
            return None
        return turn

    @property
    def replies(self) -> Sequence[ModelResponse]:
        """The replies, in order."""
        return tuple(self._replies.values())

    def reply(self, turn: int) -> ModelResponse | None:
        """Return the logged reply of *turn*; None if the log has none."""
        return self._replies.get(turn)

    def call(self, call: ToolCall, step: str) -> KnownCall:
        """Return what is known of *call*: the logged call of the same id and place, used once.

        If several match, it is the first with the same arguments, or otherwise the first one, since
        making the call might repeat it. Parallel calls may share an id, so this may be the wrong
        one; then the call that the logged one belonged to gets the same answer.
        """
        place = step, call.id, call.name
        found = self._find(place, self._masked_arguments(call.arguments))
        if found is not None and found.outcome is not None:
            return found
        # Removed, because a later call may have the same id, and its question was not asked yet.
        asked = self._questions.pop(place, EarlierCalls())
        if found is None:
            return KnownCall(earlier=asked)
        return KnownCall(earlier=asked._replace(started=found.earlier.started))

    def _find(self, place: _Place, arguments: Json) -> KnownCall | None:
        calls, mistaken = self._calls[place], self._misused[place]
        # Look for the same arguments in both lists first. Only without a match may another call
        # answer this one.
        for known in (calls, mistaken):
            for at, one in enumerate(known):
                if one.arguments == arguments:
                    return known.pop(at).known
        for at, one in enumerate(calls):
            if one.is_taken_for_others:
                self.diverged = (
                    f"made the call {place[1]!r} of {place[2]} with other arguments than before "
                    "the run was resumed: it is treated as the same call"
                )
                mistaken.append(calls.pop(at))
                return one.known
        return None

    def _masked_arguments(self, arguments: Json | Mapping[str, Json]) -> Json:
        return self._show(read_arguments(arguments))


def read_arguments(arguments: Json | Mapping[str, Json]) -> Json:
    """Return arguments as JSON, parsed if they are JSON text; any other text is returned as is."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str):
        return arguments
    try:
        return cast("Json", msgspec.json.decode(arguments or "{}"))
    except msgspec.DecodeError:
        return arguments


def changes_since(past: RunState, plan: Plan) -> Iterator[RunWarning]:
    """Yield warnings if agent, engine, policy or tools have changed since the last session."""
    now = plan.spec
    changed = [
        name for name in now.__struct_fields__ if getattr(now, name) != getattr(past.agent, name)
    ]
    # Logs of earlier versions name only an agent's engine.
    was, engine = past.options.get(ENGINE_OPTION), type(plan.engine).__name__
    if was is not None and was != engine:
        yield _warning(f"the engine was {was} until now, and is {engine} from here on")
        changed = [name for name in changed if name != "engine"]
    if changed:
        yield _warning(f"agent {now.id!r} has changed since the run started: {', '.join(changed)}")
    logged = past.options.get(POLICY_OPTION)
    if logged is not None and plan.policy is not None:
        before = msgspec.convert(logged, Policy)
        fields = before.__struct_fields__
        others = [one for one in fields if getattr(before, one) != getattr(plan.policy, one)]
        if others:
            message = f"the policy has changed since the run started: {', '.join(others)}"
            yield RunWarning(code="policy_changed", message=message, origin=Origin.CALLER)
    versions = {tool.name: tool.version for tool in plan.tools}
    called = {record.tool_name: record.tool_version for record in past.records}
    called |= {start.call.name: start.tool_version for start in past.unsettled.values()}
    for name, version in called.items():
        if version and versions.get(name, version) != version:
            yield _warning(f"tool {name!r} has changed since the run called it")


def _warning(message: str) -> RunWarning:
    return RunWarning(code="agent_changed", message=message, origin=Origin.CALLER)


def is_asked(engine: Engine) -> bool:
    """Whether to ask *engine* if it can resume; an engine that resumes by the log is not asked."""
    return not _resumes_by_log(engine) and callable(getattr(engine, "can_resume", None))


def reads_checkpoints(engine: Engine) -> bool:
    """Whether *engine* accepts any checkpoint and interprets it itself."""
    return bool(getattr(engine, "reads_checkpoints", False))


def is_under_way(past: RunState) -> bool:
    """Whether the engine was working on an attempt when the last session ended."""
    return past.is_seeded and past.line is None


def point_of(past: RunState) -> Checkpoint:
    """Return the run's last checkpoint, for an engine that is asked whether it can resume there.

    Args:
        past: The state of a run that has started.

    Returns:
        The board at the end of the log, with the last step name that the engine reported in
        this attempt, "" if it reported none.
    """
    started, named = past.started, past.point
    return Checkpoint(
        "" if started is None else started.run_id,
        "" if named is None else named.step,
        past.board.snapshot(),
        iteration=0 if named is None else named.iteration,
        payload=None if named is None else named.payload,
        attributes={} if started is None else started.attributes,
        timestamp=None if named is None else named.time,
        original_started_at=None if started is None else started.time,
    )


def starting_over(engine: Engine) -> RunWarning | None:
    """Return the warning for an *engine* that was called again and used nothing from the log.

    Returns:
        None if the engine has a way to resume.
    """
    if _resumes_by_log(engine) or is_asked(engine):
        return None
    message = (
        f"the engine {type(engine).__name__} cannot resume, so it was called again from the top, "
        "on the board as it was: give it can_resume(checkpoint), make it call "
        "run.hand_back(board) first, or set goes_on_by_log = True if it finds its place itself"
    )
    return RunWarning(code="engine_starts_over", message=message, origin=Origin.ENGINE)


def overlooking(engine: Engine) -> RunWarning | None:
    """Return the warning for an *engine* that was given a checkpoint and did not look at it.

    Returns:
        None if it had said before that it can resume from there.
    """
    if callable(getattr(engine, "can_resume", None)) or not reads_checkpoints(engine):
        return None
    message = (
        f"the engine {type(engine).__name__} got a checkpoint and started from the top, on the "
        "checkpoint's board: make it read run.resume_from"
    )
    return RunWarning(code="engine_starts_over", message=message, origin=Origin.ENGINE)


def _resumes_by_log(engine: Engine) -> bool:
    return bool(getattr(engine, "goes_on_by_log", False))
