"""Report: the result of a run, built from its board, its account and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ..contract import (
    OUTPUT_VAR,
    AgentError,
    AgentResult,
    Artifact,
    AttemptLine,
    ErrorCode,
    InterruptCause,
    JsonObject,
    Local,
    Origin,
    Part,
    RunInfo,
    RunWarning,
    Status,
    ToolRecord,
)
from .board import Board
from .ending import Ending
from .ledger import Ledger
from .plan import Plan
from .recorder import Recorder

__all__ = ["Report", "harvest"]

# Called without its parameter, which would cost as much again as making it.
_RESULT: type[AgentResult[Any]] = AgentResult


class Report(msgspec.Struct, kw_only=True):
    """What a result is built from; the lifecycle fills it as the run goes on.

    Attributes:
        started_at: When the run began, in its first sitting.
        earlier_ms: How long ago that was when this sitting began.
        began: Monotonic moment at which this sitting began.
        lines: One line for every attempt that ended.
        state: The deciders' facts.
    """

    plan: Plan
    info: RunInfo
    ledger: Ledger
    recorder: Recorder
    started_at: datetime
    earlier_ms: int
    began: float
    lines: list[AttemptLine] = []
    state: JsonObject = {}

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        info: RunInfo,
        ledger: Ledger,
        recorder: Recorder,
        first_started_at: datetime | None,
    ) -> Report:
        """The report of a sitting that begins now.

        Args:
            plan: What is done in it.
            info: Whose run it is.
            ledger: Its account.
            recorder: Its log.
            first_started_at: When its first sitting began; None where this is the first.
        """
        now = plan.clock.now()
        if first_started_at is None and plan.resume_from is not None:
            first_started_at = plan.resume_from.original_started_at
        earlier_s = 0.0 if first_started_at is None else (now - first_started_at).total_seconds()
        return cls(
            plan=plan,
            info=info,
            ledger=ledger,
            recorder=recorder,
            started_at=first_started_at or now,
            earlier_ms=round(earlier_s * 1000),
            began=plan.clock.monotonic(),
        )

    def result(
        self,
        ending: Ending,
        board: Board,
        *,
        attempt: int,
        records: Iterable[ToolRecord],
        stored: Iterable[Artifact],
        warnings: Iterable[RunWarning],
    ) -> AgentResult[Any]:
        """The result as it is now.

        Args:
            ending: How the engine ended.
            board: Its board.
            attempt: Which attempt it was.
            records: Every settled tool call, in order.
            stored: Large outputs that were stored.
            warnings: All so far.
        """
        content = board.answer()
        output, ending = self._output(ending, board, content)
        passed_ms = round((self.plan.clock.monotonic() - self.began) * 1000)
        duration_ms = max(0, self.earlier_ms + passed_ms)
        kept = tuple(records)
        last, limited = self.ledger.last, self.ledger.last_limited
        interrupt = ending.interrupt
        local = Local(raw=ending.exception, last_board=board, seeded=board.seeded())
        return _RESULT(
            status=ending.status,
            output=output,
            content=content,
            messages=board.produced(),
            tool_outcomes=tuple(record.outcome for record in kept) if kept else (),
            tool_records=kept,
            artifacts=self._artifacts(board, stored),
            pending=ending.pending,
            usage=self.ledger.usage,
            cost=self.ledger.cost,
            finish_reason=None if last is None else last.finish_reason,
            error=ending.error,
            rate_limit=None if limited is None else limited.rate_limit,
            provider_data={} if last is None else last.provider_data,
            cause=InterruptCause.NONE if interrupt is None else interrupt.cause,
            detail="" if interrupt is None else interrupt.detail,
            attempts=attempt,
            state=dict(self.state),
            handoff=self.recorder.handoff,
            attempt_log=tuple(self.lines),
            warnings=tuple(warnings),
            run_id=self.info.run_id,
            task_id=self.info.task_id,
            context_id=self.info.context_id,
            parent_run_id=self.plan.parent_run_id,
            agent_id=self.info.agent_id,
            started_at=self.started_at,
            ended_at=self.started_at + timedelta(milliseconds=duration_ms),
            duration_ms=duration_ms,
            metadata=dict(self.plan.request.metadata),
            local=local,
        )

    def with_spent(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """*result* with what was used until now."""
        usage, cost = self.ledger.usage, self.ledger.cost
        if usage == result.usage and cost == result.cost:
            return result
        return msgspec.structs.replace(result, usage=usage, cost=cost)

    def line(self, result: AgentResult[Any], *, reason: str = "", feedback: str = "") -> None:
        """Note the attempt that ended with *result*; its figures are its own alone."""
        usage, cost = self.ledger.since_mark()
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

    def _artifacts(self, board: Board, stored: Iterable[Artifact]) -> tuple[Artifact, ...]:
        channels = self.plan.artifacts
        return (*harvest(board, channels), *stored) if channels else tuple(stored)

    def _output(self, ending: Ending, board: Board, content: str | None) -> tuple[Any, Ending]:
        """The typed answer, and the ending, which fails where there is none."""
        value, output = board.copy_of(OUTPUT_VAR), self.plan.output
        is_set = board.has(OUTPUT_VAR)
        handed_over = self.recorder.handoff is not None
        if ending.status is not Status.COMPLETED or (handed_over and not is_set):
            # Who hands over has no answer of its own type.
            return (value if is_set else content if output.is_text else None), ending
        try:
            if not is_set:
                value = output.parse(content or "") if not output.is_text else content
            return output.build(value), ending
        except ValueError as error:
            failed = AgentError(ErrorCode.INVALID_OUTPUT, str(error), origin=Origin.ENGINE)
            return value, Ending(status=Status.FAILED, error=failed, exception=error)


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
