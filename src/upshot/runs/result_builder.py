"""Builds the AgentResult."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from upshot.contract.agent_spec import HANDOFF_STATE_KEY
from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import JsonObject, Local
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.message import Artifact, Part, Text
from upshot.contract.model_calls import RequestConfig
from upshot.contract.result import OUTPUT_VAR, AgentResult, AttemptLine
from upshot.runs.ending import Ending
from upshot.runs.run_context import RunContext
from upshot.runs.services.run_services import Box
from upshot.state.board import Board

__all__ = ["Report", "harvest", "refused_modes"]


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


def _mode_of(part: Part) -> str:
    """The media type of *part*, "" where it is unknown."""
    if isinstance(part, Text):
        return "text/plain"
    return str(getattr(part, "media_type", "")).partition(";")[0].strip().lower()


# Looked up once, for a class of Python 3.11 is slow to give a member of its own.
_COMPLETED = Status.COMPLETED
# Called without its parameter, which would cost as much again as making it.
_RESULT: type[AgentResult[Any]] = AgentResult


class Report:
    """What a result is built from; the lifecycle fills it as the run goes on.

    Args:
        ground: What the run stands on.
        box: Its tools, whose calls are told.

    Attributes:
        started_at: When the run began, in its first session; None before that.
        lines: One line for every attempt that ended.
        state: The deciders' facts.
    """

    def __init__(self, ground: RunContext, box: Box) -> None:
        plan, past = ground.plan, ground.past
        first: datetime | None = None
        if past is not None and past.started is not None:
            first = past.started.time
        elif plan.resume_from is not None:
            first = plan.resume_from.original_started_at
        self.started_at: datetime | None = first
        # How long ago the run began when this session did.
        self._earlier_ms = 0 if first is None else _passed_ms(plan.clock.now() - first)
        self.lines: list[AttemptLine] = []
        self.state: JsonObject = {}
        self._ground = ground
        self._box = box
        self._monotonic = plan.clock.monotonic
        self._began = self._monotonic()

    def result(self, ending: Ending, board: Board) -> AgentResult[Any]:
        """The result as it is now.

        Args:
            ending: How the engine ended.
            board: Its board.
        """
        ground, ledger = self._ground, self._ground.ledger
        usage, cost = ledger.total
        content = board.answer()
        output, ending = self._output(ending, board, content)
        monotonic, ended_at = self._monotonic, self.started_at
        passed_ms = round((monotonic() - self._began) * 1000)
        duration_ms = max(0, self._earlier_ms + passed_ms)
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
            attempts=ground.recorder.attempt or 1,
            attempt_log=tuple(self.lines),
            run_id=ground.info.run_id,
            agent_id=ground.info.agent_id,
            started_at=self.started_at,
            ended_at=ended_at,
            duration_ms=duration_ms,
            local=Local.of(
                {"raw": ending.exception, "last_board": board, "seeded": board.seeded()}
            ),
        )
        self._add_asked(result)
        self._add_done(result, ending, board)
        return result

    def _add_asked(self, result: AgentResult[Any]) -> None:
        """Add to a new result what its request, or who asked, said."""
        plan, info = self._ground.plan, self._ground.info
        if info.task_id or info.context_id or plan.parent_run_id:
            force_setattr(result, "task_id", info.task_id)
            force_setattr(result, "context_id", info.context_id)
            force_setattr(result, "parent_run_id", plan.parent_run_id)
        if plan.request.metadata:
            force_setattr(result, "metadata", dict(plan.request.metadata))

    def _add_done(self, result: AgentResult[Any], ending: Ending, board: Board) -> None:
        """Add to a new result what was done beside the answer, where anything was."""
        ledger, recorder, box = self._ground.ledger, self._ground.recorder, self._box
        if records := tuple(box.records):
            force_setattr(result, "tool_records", records)
            force_setattr(result, "tool_outcomes", tuple(one.outcome for one in records))
        if box.stored or self._ground.plan.artifacts:
            found = harvest(board, self._ground.plan.artifacts)
            force_setattr(result, "artifacts", (*found, *box.stored))
        if ledger.last is not None:
            force_setattr(result, "finish_reason", ledger.last.finish_reason)
            force_setattr(result, "provider_data", ledger.last.provider_data)
        if ledger.last_limited is not None:
            force_setattr(result, "rate_limit", ledger.last_limited.rate_limit)
        if self.state:
            force_setattr(result, "state", dict(self.state))
        if recorder.handoff is not None:
            force_setattr(result, "handoff", recorder.handoff)
        if recorder.warnings:
            force_setattr(result, "warnings", tuple(recorder.warnings))
        if ending.pending:
            force_setattr(result, "pending", ending.pending)
        if ending.interrupt is not None:
            force_setattr(result, "cause", ending.interrupt.cause)
            force_setattr(result, "detail", ending.interrupt.detail)

    def with_spent(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """*result* with what was used until now."""
        usage, cost = self._ground.ledger.total
        if usage == result.usage and cost == result.cost:
            return result
        return msgspec.structs.replace(result, usage=usage, cost=cost)

    def show_handoff(self) -> None:
        """Put the hand-off that was taken into the state, or take an earlier one away."""
        if self.state:
            self.state.pop(HANDOFF_STATE_KEY, None)
        if (handoff := self._ground.recorder.handoff) is not None:
            self.state[HANDOFF_STATE_KEY] = to_free_json(handoff)[0]

    def line(self, result: AgentResult[Any], *, reason: str = "", feedback: str = "") -> None:
        """Note the attempt that ended with *result*; its figures are its own alone."""
        usage, cost = self._ground.ledger.since_mark()
        self.lines.append(
            AttemptLine(
                attempt=result.attempts,
                status=result.status,
                error=result.error,
                usage=usage,
                cost=cost,
                content=result.content,
                revise_reason=reason,
                feedback=feedback,
            )
        )

    def _output(self, ending: Ending, board: Board, content: str | None) -> tuple[Any, Ending]:
        """The typed answer, and the ending, which fails where there is none."""
        output, is_set = self._ground.plan.output, board.has(OUTPUT_VAR)
        value = board.copy_of(OUTPUT_VAR) if is_set else None
        handed_over = self._ground.recorder.handoff is not None
        if ending.status is not _COMPLETED or (handed_over and not is_set):
            # Who hands over has no answer of its own type.
            return (value if is_set else content if output.is_text else None), ending
        try:
            if not is_set:
                value = output.parse(content or "") if not output.is_text else content
            return value if output.schema is None else output.build(value), ending
        except ValueError as error:
            failed = AgentError(ErrorCode.INVALID_OUTPUT, str(error), origin=Origin.ENGINE)
            return value, Ending(status=Status.FAILED, error=failed, exception=error)


def _passed_ms(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


def harvest(board: Board, channels: Iterable[str]) -> list[Artifact]:
    """The messages of *channels* as artifacts, one a channel that has any."""
    found: list[Artifact] = []
    for channel in channels:
        parts: tuple[Part, ...] = tuple(
            part for message in board.messages(channel) for part in message.parts
        )
        if parts:
            found.append(Artifact(channel, parts))
    return found
