"""One attempt: seeding its board, running the engine on it, and building the result."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, cast

from msgspec.structs import force_setattr, replace

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.checks import has_own_output, kind_of
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin, Role, Status
from upshot.contract.base.json_values import is_plain, to_free_json
from upshot.contract.base.structs import Local
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import BoardChanged, QuestionAsked
from upshot.contract.message import (
    CUT,
    MAIN_CHANNEL,
    Artifact,
    Message,
    Part,
    Text,
    any_untrusted,
)
from upshot.contract.model_calls import ModelResponse, Request, RequestConfig
from upshot.contract.pending import EARLIER, PendingApproval
from upshot.contract.prompt import Prompt
from upshot.contract.protocols import Board as BoardRole
from upshot.contract.result import OUTPUT_VAR, AgentResult, warning_of_unknown
from upshot.contract.run_control import Compacted
from upshot.errors import JournalError, Misuse
from upshot.models.retry import FILTERED
from upshot.native.returned import result_of_exception
from upshot.runs.callbacks import Wait, blame, call, method
from upshot.runs.ending import COMPLETED, Ending, classify, read_raised, read_returned
from upshot.runs.engine_api.exceptions import Failed, Signal, signal_of
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.plan import Plan, Seeder
from upshot.runs.resumption import overlooking, settle_interrupted_runs, starting_over
from upshot.runs.run_context import ParentLink, RunContext, current_run
from upshot.runs.services.guardrails import begin_guardrails
from upshot.runs.services.run_tools import toolbox_of
from upshot.runs.services.unknown_effects import park_again
from upshot.state.board import Board
from upshot.state.child_runs import bare_id, settled_step
from upshot.state.run_effects import child_runs_in, effects_in
from upshot.state.run_state import acts_in
from upshot.state.stored_events import channel_artifacts, name_seed

_NO_JOURNAL = RunWarning(
    code="no_journal",
    message="the run waits for an answer, and no journal outlives it, so it cannot be resumed: "
    "give run(..., journal=PATH), or approve= to answer at once",
    origin=Origin.CALLER,
)


async def seed_board(
    plan: Plan, info: RunInfo, *, attempt: int, feedback: str, wait: Wait
) -> Board:
    """Make the board of an attempt from the checkpoint, the user's seeder, or history and request.

    Args:
        plan: The run.
        info: Its identity.
        attempt: The number of the attempt; a checkpoint is used only for the first.
        feedback: What the decider that asked for this attempt wants changed, "" for nothing.
        wait: Waits for an async seeder, within the limits of the run.

    Returns:
        The board, its content marked as seeded.

    Raises:
        ValueError: The seeder returned no board.
        Exception: Whatever the seeder raised.
    """
    checkpoint = plan.resume_from
    if checkpoint is not None and attempt == 1:
        return Board.restore(checkpoint.board)
    if plan.prepare is not None:
        board = await _call_seeder(plan.prepare, info, plan.request, wait=wait)
    elif plan.seed and not plan.history:
        # A resumed session has neither the history nor the handed-over messages.
        return board_of(plan.seed, feedback)
    else:
        board = Board()
        earlier = without_orphans(plan.history) if plan.history else ()
        board.extend((*earlier, plan.request.to_message()))
        for name, value in plan.request.inputs.items():
            board.set(name, value)
    board.extend(plan.handoff_messages)
    board = await _prepare(board, plan, info, wait)
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board


def _warnings_of_unused(plan: Plan, board: Board) -> Iterator[RunWarning]:
    """Yield a warning for input from the caller that the board does not contain."""
    code = message = ""
    if plan.resume_from is not None:
        if plan.request.text.strip() and plan.request.to_message() not in board.messages():
            code = "request_left_out"
            message = "the checkpoint does not contain this request, so the request is ignored"
    elif plan.prepare is None and plan.history:
        lost = len(plan.history) - len(without_orphans(plan.history))
        code = "orphaned_outcome" if lost else ""
        message = f"history contains outcomes without their calls: {lost} left out"
    if code:
        yield RunWarning(code=code, message=message, origin=Origin.CALLER)


def without_orphans(messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* without outcomes whose calls are missing, which providers refuse.

    Returns:
        The same object if nothing was removed.
    """
    waiting = Counter[str]()
    kept: list[Message] = []
    for message in messages:
        for asked in message.tool_calls:
            waiting[asked.id] += 1
        if message.role is Role.TOOL:
            # An outcome without a call id belongs to any open call.
            id = message.tool_call_id or next(iter(waiting.elements()), "")
            if not waiting[id]:
                continue
            waiting[id] -= 1
        kept.append(message)
    return messages if len(kept) == len(messages) else kept


async def _prepare(board: Board, plan: Plan, info: RunInfo, wait: Wait) -> Board:
    """Return the board after the agent's preparers."""
    for preparer in plan.preparers:
        name = f"the preparer {getattr(preparer, '__name__', type(preparer).__name__)}"
        try:
            made = await call(preparer, info, plan.request, board, wait=wait)
        except Exception as error:
            blame(error, name, info.run_id)
            raise
        board = board if made is None or made is board else _to_board(made, name)
    return board


async def _call_seeder(prepare: Seeder, info: RunInfo, request: Request, *, wait: Wait) -> Board:
    try:
        made = await call(prepare, info, request, wait=wait)
    except Exception as error:
        blame(error, "prepare", info.run_id)
        raise
    return _to_board(made, "prepare")


def _to_board(made: Any, by: str) -> Board:
    if isinstance(made, Board):
        # A copy: a seeder may return one board every time, and attempts must not share changes.
        return made.apart() if type(made) is Board else made
    if method(made, "snapshot") is None:
        what = "None" if made is None else f"a value of type {type(made).__name__}"
        raise ValueError(f"{by} returned {what}: return the Board that the run must start with")
    return Board.restore(made.snapshot())


def board_of(changes: Iterable[BoardChanged | Compacted], feedback: str = "") -> Board:
    """Return a board with the logged changes, then *feedback*, all marked as seeded."""
    board = Board()
    for change in changes:
        board.apply(change)
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board


async def seed(context: RunContext, attempt: int, feedback: str) -> None:
    """Make the board of an attempt, and log its content.

    Args:
        context: The run.
        attempt: The number of the attempt.
        feedback: What the decider that asked for it wants changed, "" for nothing.

    Raises:
        Exception: Whatever the user's seeder raised.
    """
    plan = context.plan
    if context.recording is None:
        board = await seed_board(
            plan,
            context.info,
            attempt=attempt,
            feedback=feedback,
            wait=context.supervisor.wait,
        )
    else:
        board = board_of(context.recording.begin(attempt))
    if attempt == 1 and (plan.history or plan.resume_from) and context.recording is None:
        for warning in _warnings_of_unused(plan, board):
            context.recorder.warn(warning)
    changes, taint = board.facts(), plan.taint
    for change in changes:
        if taint is None and any_untrusted(change.messages):
            taint = EARLIER
    # Before the messages, because the process may die between the two.
    if taint is not None:
        context.distrust(taint)
    if plan.named_seed is not None and context.state.named_seed is None:
        name_seed(context.state, *plan.named_seed)
    _log_seed(context, board, changes)
    if context.toolbox is not None:
        context.toolbox.new_turn()
    use_board(context, board)


def _log_seed(context: RunContext, board: Board, changes: Iterable[BoardChanged]) -> None:
    if context.plan.compacted is not None:
        compacted, known = context.plan.compacted
        # Only if the board starts with the messages that were compacted.
        if board.messages()[: compacted.end] == known[: compacted.end]:
            board.compacted = compacted
    if board.compacted is not None:
        # Before the seed, because a session may resume right after the seed.
        context.recorder.emit(replace(board.compacted, turn=0))
    for change in changes:
        context.recorder.emit(change)


def restore_board(context: RunContext, run: Run) -> None:
    """Continue with the board from the log."""
    state = context.state
    if context.plan.handoffs:
        for record in state.records[state.before.records :]:
            # The process may have died after the call settled and before the handoff was logged.
            context.handoffs.note(record)
    run.restore_progress()
    use_board(context, state.board)


def use_board(context: RunContext, board: Board) -> None:
    """Make *board* the engine's board, and log its changes from now on."""
    state = context.state
    state.board = board
    board.watch(context.change_board, context.recorder.warn_of_losses, state)


async def work_on(context: RunContext, run: Run, host: RunHost) -> None:
    """Run the engine on the board, and process what it returns.

    Raises:
        BaseException: Whatever the engine raised.
    """
    plan, recorder = context.plan, context.recorder
    park_again(context)
    current_run.set(context.link(child=run.child))
    if plan.agent.instructions is not None:
        run.instruct(await _instructions(context, run))
    if plan.handoffs:
        await context.handoffs.ask_filters()
    engine: Any = plan.engine
    if plan.deciders:
        await begin_guardrails(context)
    try:
        made = engine.execute(run, host, context.state.board)
        returned = await made if inspect.isawaitable(made) else made
    except Exception as error:
        blame(error, f"the engine {type(engine).__name__}", context.info.run_id)
        _warn_of_lost_details(context, error)
        raise
    finally:
        # Only now is it clear whether the engine asked for the logged values.
        warning = starting_over(engine) if run.is_at_top else None
        if plan.resume_from is not None and run.attempt == 1 and not run.has_looked_back:
            warning = overlooking(engine)
        if warning is not None and not recorder.is_lost:
            recorder.warn(warning)
    process_returned(context, returned)


def process_returned(context: RunContext, value: object) -> None:
    """Process what an engine returned: its board, None, or a value that becomes the output.

    Raises:
        Signal: It returned a result, a reply or an error with another status than completed.
    """
    board = context.state.board
    if value is None or value is board:
        return
    if is_plain(value):
        board.put(OUTPUT_VAR, cast("Any", value))
    elif hasattr(value, "snapshot") and hasattr(value, "messages"):
        other: BoardRole = value  # pyright: ignore[reportAssignmentType]  # by its methods
        board.adopt(other)
    elif (returned := read_returned(value)) is None:
        _set_output(context, value)
    else:
        if returned.content and returned.content != board.answer():
            board.append(Message(Role.ASSISTANT, returned.content))
        if has_own_output(returned.output, returned.content):
            _set_output(context, returned.output)
        if returned.ending is not None:
            raise returned.ending


def _set_output(context: RunContext, value: object) -> None:
    output, lossy = to_free_json(value)
    context.recorder.warn_of_losses("output", lossy)
    context.state.board.set(OUTPUT_VAR, output)


def conclude_board(context: RunContext, error: BaseException | None) -> BaseException | None:
    """Add the remaining messages to the board after the engine has ended, and log its changes.

    These are streamed parts of cut-off replies, and the last text of an agent that ended the run.

    Args:
        context: The run.
        error: What the engine raised, None if it returned.

    Returns:
        *error*; the ending unwrapped from it; a Misuse for board content that is not JSON; or a
        failure for an answer that a filter cut off.
    """
    board = context.state.board
    board.end_again()
    try:
        board.notice()
    except Misuse as misuse:
        return conclude_board(context, error or misuse)
    if context.cut:
        board.extend(Message(Role.ASSISTANT, text, metadata={CUT: True}) for text in context.cut)
    if error is None and (error := _overlooked_failure(context)) is None:
        return None
    returned = read_raised(error) or error
    if isinstance(returned, Signal) and returned.last_text and returned.last_text != board.answer():
        board.append(Message(Role.ASSISTANT, returned.last_text))
    return returned


def _overlooked_failure(context: RunContext) -> Failed | None:
    """Return the failure that an engine which returned has ignored, None for none."""
    guardrails = context.guardrails
    if guardrails is not None and guardrails.refused is not None:
        return Failed(guardrails.refused)
    return Failed(FILTERED) if _is_filtered(context) else None


def _is_filtered(context: RunContext) -> bool:
    """Whether the engine used a reply that a content filter cut off as its answer.

    This is a reply of the engine's own model that it reported, or one whose error it ignored.
    A child run's reply is judged by the child's own agent.
    """
    last, board = context.state.last_call, context.state.board
    if not isinstance(last, ModelResponse) or context.plan.agent.allow_filtered:
        return False
    if last.finish_reason is not _CONTENT_FILTER:
        return False
    answer = last.content
    return last.error is None or (
        answer is not None and answer in (board.answer(), board.get(OUTPUT_VAR))
    )


async def close_calls(context: RunContext, run: Run) -> None:
    """Put an outcome on the board for each call of the last reply that the engine left open.

    For an engine that was stopped or failed: these calls will never be made, and models reject
    messages with open calls.

    Raises:
        JournalError: The journal refuses events.
    """
    state, budget, recording = context.state, context.budget, context.recording
    if recording is not None and recording.beyond:
        # The replay differs from here on.
        return
    if context.recorder.is_lost or context.supervisor.abandoned:
        # An abandoned engine may still be making them.
        return
    own = {call.id for call in state.reply_calls}
    # Leave alone the calls of a foreign engine's own model.
    own = own.union(state.asked, state.settled, state.unsettled)
    calls = [call for call in state.board.open_calls() if call.id in own]
    if not calls:
        return
    known = {key: record.outcome for key, record in state.settled.items()}
    left = [call for call in calls if call.id not in known]
    tools = toolbox_of(context)
    turn = budget.turns - budget.turns_before
    called_off = await tools.call_off(left, state.unsettled, turn=turn)
    known |= {outcome.call_id: outcome for outcome in called_off}
    state.board.extend(
        Message(Role.TOOL, tools.content_of(known[call.id]), tool_call_id=call.id, name=call.name)
        for call in calls
    )


def settle_interrupted_calls(context: RunContext, run: Run) -> None:
    """Settle as interrupted the calls that an earlier session left under way, if the engine has
    not reached them again, such as those of a step that may not run again.

    Raises:
        JournalError: The journal refuses events.
    """
    if context.recorder.is_lost or context.recording is not None:
        return
    left = [
        start for start in run.cut_off if any(start is one for one in context.state.begun.values())
    ]
    if left:
        toolbox_of(context).give_up(left)


def settle_lost_calls(context: RunContext) -> None:
    """Settle as unknown the calls under way in a run whose log is lost.

    The session no longer writes to the log, so only the result and watchers get this.
    """
    begun = tuple(context.state.begun.values()) if context.recorder.is_lost else ()
    if begun:
        toolbox_of(context).give_up(begun)


def settle_earlier(context: RunContext, run: Run, ending: Ending) -> None:
    """Settle calls and child runs that earlier sessions started and the engine has not reached.

    Raises:
        JournalError: The journal refuses events.
    """
    if ending.status is not _PARKED:
        settle_interrupted_calls(context, run)
    if not context.recorder.is_lost:
        settle_interrupted_runs(context.state, context.recorder)


def report_to_parent(parent: ParentLink, context: RunContext, result: AgentResult[Any]) -> None:
    """Report how a session ended, and what was done in it, to the parent run.

    Called after the barrier: the parent's log must not be ahead of this run's log.
    """
    taint = context.state.taint
    taint = None if taint is None else taint.seen_from(context.info.run_id)
    budget, acts = context.budget, acts_in(context.state)
    step = settled_step(result, budget.tool_calls, taint, acts, budget.unmeasured_answers)
    parent.log(step)
    parent.note_effect(result.effect)


def facts_at_end(
    context: RunContext, result: AgentResult[Any], *, committed: bool
) -> dict[str, Any]:
    """Return result fields that have changed since it was built; warns of unknown effects."""
    state, effects, is_over = context.state, result.effects, result.status is not _PARKED
    facts: dict[str, Any] = {"committed": committed}
    if is_over:
        facts["attempt_log"] = tuple(state.lines)
    if state.children:
        # Hooks may have started child runs since the result was built.
        effects = effects_in(state, context.info.run_id, is_over=is_over)
        facts |= {"effects": effects, "child_runs": child_runs_in(state)}
    if effects and result.status is _COMPLETED:
        warning = warning_of_unknown(effects)
        if warning is not None and warning not in state.warnings:
            context.recorder.warn(warning)
    facts["warnings"] = tuple(state.warnings)
    return facts


def ending_of(context: RunContext, host: RunHost, error: BaseException | None) -> Ending:
    """Return how the engine's attempt ended, or how the run ends at this point.

    Args:
        context: The run.
        host: The run's host.
        error: What was raised, None if it returned.
    """
    supervisor = context.supervisor
    if error is None and not supervisor.was_cut:
        return COMPLETED
    if context.is_taken_over and not isinstance(error, JournalError):
        run_id = context.info.run_id
        error = JournalError(
            f"another session has claimed run {run_id}", run_id=run_id, taken_over=True
        )
    return classify(
        error,
        stop=supervisor.stop,
        was_cut=supervisor.was_cut,
        interrupt=context.interrupt,
        limit=host.overrun or context.budget.time_error(supervisor.stop),
        questions=host.questions,
    )


def log_waits(context: RunContext, ending: Ending) -> Ending:
    """Log the questions that the engine itself parks on; return all questions in log order.

    Args:
        context: The run, which is about to park.
        ending: What it waits for. Questions asked through its host are logged already.
    """
    state, plan = context.state, context.plan
    is_lost = plan.journal is None or plan.is_journal_lost
    if is_lost and context.parent is None and context.recording is None:
        context.recorder.warn(_NO_JOURNAL)
    own = {
        bare_id(one): one
        for one in ending.pending
        if not isinstance(one, PendingApproval) and one.run_id in ("", context.info.run_id)
    }
    if [*own.items()] != [item for item in state.waiting.items() if item[0] in own]:
        for one in own.values():
            context.recorder.emit(QuestionAsked(pending=one))
    logged = state.open_pending()
    if len(logged) == len(ending.pending) and all(one in logged for one in ending.pending):
        return replace(ending, pending=logged)
    return ending


def _warn_of_lost_details(context: RunContext, error: Exception) -> None:
    """Warn of details of a failure that JSON cannot represent."""
    # A function of its own: the frame must not keep the error alive, since the error refers to it.
    signal = signal_of(error)
    if isinstance(signal, Failed) and not context.recorder.is_lost:
        context.recorder.warn_of_losses("details", signal.lost)


async def _instructions(context: RunContext, run: Run) -> str | None:
    asked = context.plan.agent.instructions
    try:
        instructions = await call(asked, run) if callable(asked) else asked
        prompt = asked if isinstance(asked, Prompt) else instructions
        if isinstance(prompt, Prompt):
            context.prompt, instructions = prompt, prompt.text
        if not isinstance(instructions, str | None):
            given = kind_of(instructions)
            raise TypeError(f"the agent's instructions returned {given}, not a string")
    except Exception as error:
        blame(error, "the agent's instructions", context.info.run_id)
        raise
    return instructions


def refused_modes(
    artifacts: Iterable[Artifact], config: RequestConfig | None
) -> Iterator[RunWarning]:
    """Yield a warning for each artifact with a media type that the caller does not accept.

    Args:
        artifacts: The artifacts of the result.
        config: Says what the caller accepts; None accepts all. ``image/*`` accepts all images.
    """
    accepted = () if config is None else config.accepted_output_modes
    if not accepted:
        return
    patterns = [mode.partition(";")[0].strip().lower() for mode in accepted]
    for artifact in artifacts:
        modes = dict.fromkeys(_media_type_of(part) for part in artifact.parts)
        refused = [
            mode for mode in modes if mode and not any(fnmatchcase(mode, p) for p in patterns)
        ]
        if refused:
            yield RunWarning(
                code="output_mode",
                message=f"artifact {artifact.name!r} has parts of {', '.join(refused)}, "
                f"and the request accepts {', '.join(accepted)}",
                origin=Origin.ENGINE,
            )


def warn_of_artifacts(context: RunContext, result: AgentResult[Any]) -> None:
    """Warn of requested artifacts that are missing, and of media types the caller refuses."""
    plan = context.plan
    if plan.artifacts and result.status is _COMPLETED:
        for warning in missing_channels(context.state.board, plan.artifacts):
            context.recorder.warn(warning)
    if (config := plan.request.config) is not None:
        for warning in refused_modes(result.artifacts, config):
            context.recorder.warn(warning)


def missing_channels(board: Board, channels: Iterable[str]) -> Iterator[RunWarning]:
    """Yield a warning for each of *channels* that should give an artifact and does not."""
    there = board.channels()
    for channel in channels:
        if channel == MAIN_CHANNEL:
            why = "its messages are result.messages"
        elif channel not in there:
            why = f"it has no messages; there are {', '.join(there) or 'no channels'}"
        else:
            continue
        message = f"the channel {channel!r} gives no artifact: {why}"
        yield RunWarning(code="no_artifact", message=message, origin=Origin.ENGINE)


def _media_type_of(part: Part) -> str:
    """Return the media type of *part*, "" if unknown."""
    if isinstance(part, Text):
        return "text/plain"
    return str(getattr(part, "media_type", "")).partition(";")[0].strip().lower()


# Module constants: in Python 3.11, looking a member up on its enum class is slow.
_COMPLETED = Status.COMPLETED
_CANCELED = Status.CANCELED
_PARKED = Status.INPUT_REQUIRED
_CONTENT_FILTER = FinishReason.CONTENT_FILTER
# An alias, because subscripting the class costs as much as creating a result.
_RESULT: type[AgentResult[Any]] = AgentResult


def build_result(context: RunContext, ending: Ending) -> AgentResult[Any]:
    """Build the result of a run as it is now.

    Args:
        context: The run.
        ending: How its engine ended.

    Returns:
        The result, with its secrets masked. Fields that are known only at the end of the run, such
        as ``committed``, are not set yet.
    """
    plan, state, info, board = context.plan, context.state, context.info, context.state.board
    usage, cost = context.budget.total
    content = board.answer()
    output, ending = _output(context, ending, content)
    duration_ms, ended_at = context.duration_ms(), state.started_at
    if duration_ms and ended_at is not None:
        ended_at += timedelta(milliseconds=duration_ms)
    # With more than 15 keywords Python builds a dict first, which costs more than the result.
    result = _RESULT(
        status=ending.status,
        error=ending.error,
        output=output,
        content=content,
        messages=board.produced(),
        usage=usage,
        cost=cost,
        attempts=context.recorder.attempt or 1,
        attempt_log=tuple(state.lines),
        run_id=info.run_id,
        agent_id=info.agent_id,
        started_at=state.started_at,
        ended_at=ended_at,
        duration_ms=duration_ms,
        local=Local.of({"raw": ending.exception, "last_board": board}),
    )
    force_setattr(result, "seeded", board.seeded())
    if info.task_id or info.context_id or plan.parent_run_id:
        force_setattr(result, "task_id", info.task_id)
        force_setattr(result, "context_id", info.context_id)
        force_setattr(result, "parent_run_id", plan.parent_run_id)
    if plan.request.metadata:
        force_setattr(result, "metadata", dict(plan.request.metadata))
    if state.taint is not None:
        force_setattr(result, "taint", state.taint)
    _add_details(result, context, ending)
    if ending.exception is not None:
        _add_failure(result, ending.exception)
    if ending.status is _CANCELED:
        force_setattr(result, "finish_reason", FinishReason.ABORTED)
    return result if context.redaction is None else context.redaction.show_result(result)


def _add_details(result: AgentResult[Any], context: RunContext, ending: Ending) -> None:
    """Add artifacts, handoff, warnings and other optional fields to a new result."""
    _add_calls(result, context, ending)
    state = context.state
    if state.stored or context.plan.artifacts:
        found = channel_artifacts(state.board, context.plan.artifacts)
        force_setattr(result, "artifacts", (*found, *state.stored))
    if (last := state.last_call) is not None:
        force_setattr(result, "finish_reason", last.finish_reason)
        force_setattr(result, "provider_data", last.provider_data)
    if state.last_rate_limit is not None:
        force_setattr(result, "rate_limit", state.last_rate_limit)
    if context.facts:
        force_setattr(result, "state", dict(context.facts))
    if state.handoff is not None:
        force_setattr(result, "handoff", state.handoff)
    if state.warnings:
        force_setattr(result, "warnings", tuple(state.warnings))
    if ending.pending:
        force_setattr(result, "pending", ending.pending)
    if ending.interrupt is not None:
        force_setattr(result, "cause", ending.interrupt.cause)
        force_setattr(result, "detail", ending.interrupt.detail)


def _add_calls(result: AgentResult[Any], context: RunContext, ending: Ending) -> None:
    """Add the run's tool calls, effects and child runs to a new result."""
    state = context.state
    if state.records:
        records = tuple(state.records)
        force_setattr(result, "tool_records", records)
        force_setattr(result, "tool_outcomes", tuple([one.outcome for one in records]))
    is_over = ending.status is not _PARKED and not context.is_left
    if effects := effects_in(state, context.info.run_id, is_over=is_over):
        force_setattr(result, "effects", effects)
    if state.children:
        force_setattr(result, "child_runs", child_runs_in(state))


def _add_failure(result: AgentResult[Any], exception: BaseException) -> None:
    """Add what the exception that ended the run says about a model call."""
    failed = exception.result if isinstance(exception, Signal) else result_of_exception(exception)
    if failed is None:
        return
    for name in ("finish_reason", "rate_limit", "provider_data"):
        if (value := getattr(failed, name)) not in (None, {}):
            force_setattr(result, name, value)


def _output(context: RunContext, ending: Ending, content: str | None) -> tuple[Any, Ending]:
    """Return the typed output, and the ending, which is a failure if the output is invalid."""
    output, board = context.plan.output, context.state.board
    is_set = board.has(OUTPUT_VAR)
    value = board.copy_of(OUTPUT_VAR) if is_set else None
    handed_over = context.state.handoff is not None
    if ending.status is not _COMPLETED or (handed_over and not is_set):
        # An agent that hands over need not give an answer of its output type.
        return (value if is_set else content if output.is_text else None), ending
    try:
        if not is_set:
            value = output.parse(content or "") if not output.is_text else content
        return value if output.schema is None else output.build(value), ending
    except ValueError as error:
        failed = AgentError(ErrorCode.INVALID_OUTPUT, str(error), origin=Origin.ENGINE)
        return value, Ending(status=Status.FAILED, error=failed, exception=error)
