"""Builds the AgentResult."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from msgspec.structs import force_setattr

from upshot.contract.base.enums import ErrorCode, FinishReason, Origin, Status
from upshot.contract.base.structs import Local
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.message import MAIN_CHANNEL, Artifact, Part, Text
from upshot.contract.model_calls import RequestConfig
from upshot.contract.result import OUTPUT_VAR, AgentResult, AttemptLine
from upshot.native.returned import result_of_exception
from upshot.runs.ending import Ending
from upshot.runs.engine_api.exceptions import Signal
from upshot.runs.run_context import RunContext
from upshot.state.board import Board
from upshot.state.stored_events import channel_artifacts


def refused_modes(
    artifacts: Iterable[Artifact], config: RequestConfig | None
) -> Iterator[RunWarning]:
    """Warn of each artifact with a part of a media type that the caller does not accept.

    Args:
        artifacts: Of the result.
        config: What the caller can take; None takes all. ``image/*`` takes all images.
    """
    accepted = () if config is None else config.accepted_output_modes
    if not accepted:
        return
    patterns = [mode.partition(";")[0].strip().lower() for mode in accepted]
    for artifact in artifacts:
        modes = dict.fromkeys(_mode_of(part) for part in artifact.parts)
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
    """Warn of those that were asked for and are not there, and of those nobody can take."""
    plan = context.plan
    if plan.artifacts and result.status is _COMPLETED:
        for warning in missing_channels(context.state.board, plan.artifacts):
            context.recorder.warn(warning)
    if (config := plan.request.config) is not None:
        for warning in refused_modes(result.artifacts, config):
            context.recorder.warn(warning)


def missing_channels(board: Board, channels: Iterable[str]) -> Iterator[RunWarning]:
    """Warn of each of *channels* that gives no artifact though one was asked for."""
    there = board.channels()
    for channel in channels:
        if channel == MAIN_CHANNEL:
            why = "its messages are result.messages"
        elif channel not in there:
            why = f"nothing was said on it; there are {', '.join(there) or 'no channels'}"
        else:
            continue
        message = f"the channel {channel!r} gives no artifact: {why}"
        yield RunWarning(code="no_artifact", message=message, origin=Origin.ENGINE)


def _mode_of(part: Part) -> str:
    """The media type of *part*, "" where it is unknown."""
    if isinstance(part, Text):
        return "text/plain"
    return str(getattr(part, "media_type", "")).partition(";")[0].strip().lower()


# Looked up once, for a class of Python 3.11 is slow to give a member of its own.
_COMPLETED = Status.COMPLETED
# Called without its parameter, which would cost as much again as making it.
_RESULT: type[AgentResult[Any]] = AgentResult


def build_result(context: RunContext, ending: Ending) -> AgentResult[Any]:
    """The result of a run as it stands.

    Args:
        context: Of the run.
        ending: How its engine ended.

    Returns:
        The result, without its secrets; what comes at a run's end, such as ``committed``, is
        still missing.
    """
    plan, state, info = context.plan, context.state, context.info
    board = state.board
    usage, cost = context.budget.total
    content = board.answer()
    output, ending = _output(context, ending, content)
    duration_ms, ended_at = context.duration_ms(), state.started_at
    if duration_ms and ended_at is not None:
        ended_at += timedelta(milliseconds=duration_ms)
    # Of more than 15 keywords Python makes a mapping first, which costs more than the result.
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
    _add_done(result, context, ending)
    if ending.exception is not None:
        _add_failure(result, ending.exception)
    if ending.status is Status.CANCELED:
        force_setattr(result, "finish_reason", FinishReason.ABORTED)
    return result if context.redaction is None else context.redaction.show_result(result)


def _add_done(result: AgentResult[Any], context: RunContext, ending: Ending) -> None:
    """Add to a new result what was done beside the answer, where anything was."""
    state = context.state
    if state.records:
        records = tuple(state.records)
        force_setattr(result, "tool_records", records)
        force_setattr(result, "tool_outcomes", tuple(one.outcome for one in records))
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


def _add_failure(result: AgentResult[Any], exception: BaseException) -> None:
    """Add what the failure that ended the run told of a model call."""
    told = exception.result if isinstance(exception, Signal) else result_of_exception(exception)
    if told is None:
        return
    for name in ("finish_reason", "rate_limit", "provider_data"):
        if (value := getattr(told, name)) not in (None, {}):
            force_setattr(result, name, value)


def attempt_line(
    context: RunContext, result: AgentResult[Any], *, reason: str = "", feedback: str = ""
) -> AttemptLine:
    """The attempt that ended with *result* in short; its figures are its own alone."""
    usage, cost = context.budget.since_mark()
    return AttemptLine(
        attempt=result.attempts,
        status=result.status,
        error=result.error,
        usage=usage,
        cost=cost,
        content=result.content,
        revise_reason=reason,
        feedback=feedback,
    )


def _output(context: RunContext, ending: Ending, content: str | None) -> tuple[Any, Ending]:
    """The typed answer, and the ending, which fails where there is none."""
    output, board = context.plan.output, context.state.board
    is_set = board.has(OUTPUT_VAR)
    value = board.copy_of(OUTPUT_VAR) if is_set else None
    handed_over = context.state.handoff is not None
    if ending.status is not _COMPLETED or (handed_over and not is_set):
        # An agent that hands over gives no answer of its own type.
        return (value if is_set else content if output.is_text else None), ending
    try:
        if not is_set:
            value = output.parse(content or "") if not output.is_text else content
        return value if output.schema is None else output.build(value), ending
    except ValueError as error:
        failed = AgentError(ErrorCode.INVALID_OUTPUT, str(error), origin=Origin.ENGINE)
        return value, Ending(status=Status.FAILED, error=failed, exception=error)
