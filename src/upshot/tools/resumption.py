"""Resumption: what a log says of the earlier calls of a turn, taken in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..contract import (
    Effect,
    JsonObject,
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolStarted,
    outcome_blocks_tool,
)
from .case import Case
from .conclusion import INTERRUPTED, effect_after
from .definition import Tool
from .desk import Desk
from .gates.approval import ANY_ARGUMENTS
from .ladder import is_step
from .replay import Flight

__all__ = ["give_up", "restore_records", "take_up"]


def restore_records(desk: Desk, records: Iterable[ToolRecord]) -> None:
    """Have *desk* know what earlier calls of its turn came to.

    Their successes deny repetitions, their final failures block, and they count.
    """
    climbed: set[Hashable] = set()
    for record in records:
        desk.turn.consent.learn_record(record)
        if record.trust:
            desk.distrust(record.outcome)
        desk.turn.denials += isinstance(record.outcome, ToolDenied)
        if record.started_at is not None:
            desk.turn.claim(record.tool_name)
        tool = desk.catalog.known(record.tool_name)
        if tool is None:
            continue
        case = desk.open(ToolCall(record.call_id, tool.name), record.turn)
        case.tool, case.arguments = tool, record.arguments_validated or {}
        if not isinstance(record.outcome, ToolDenied):
            _restore_outcome(desk, case, record.outcome)
        if record.arguments_validated is not None and is_step(
            record.outcome, (record.turn, case.digest), climbed, reads=not tool.may_write
        ):
            desk.turn.ladder.climb(record.outcome, key=case.digest, repeatable=tool.repeatable)


def take_up(desk: Desk, case: Case, started: ToolStarted) -> None:
    """Go on with a call that had started when its process ended.

    It runs again where that is safe; else it is a failure, its effect unknown.
    """
    tool = desk.catalog.known(case.tool_name)
    if tool is None or not _may_repeat(tool):
        give_up(desk, case, started)
        return
    case.idempotency_key = started.idempotency_key
    case.granted, case.mended = ANY_ARGUMENTS, started.arguments


def give_up(desk: Desk, case: Case, started: ToolStarted) -> None:
    """Say of a call that had started when its process ended that it did not come to its end."""
    tool = desk.catalog.known(case.tool_name)
    case.idempotency_key = started.idempotency_key
    case.tool, case.arguments, case.started_at = tool, started.arguments, started.time
    effect = Effect.UNKNOWN if tool is None else effect_after(tool, done=False)
    doubt = "; whether it took effect is unknown" if effect is Effect.UNKNOWN else ""
    case.outcome = ToolFailure(
        case.call_id,
        case.tool_name,
        error=f"The process ended while this call ran{doubt}.",
        retryable=tool is not None and _may_repeat(tool),
        effect=effect,
        code=INTERRUPTED,
    )


def _may_repeat(tool: Tool) -> bool:
    return not tool.may_write or tool.idempotent


def _restore_outcome(desk: Desk, case: Case, outcome: ToolOutcome) -> None:
    turn, tool = desk.turn, case.known_tool
    if outcome_blocks_tool(outcome):
        turn.block(tool, case.digest)
    desk.key_of(case)
    resources = _resources_then(tool, case.arguments or {})
    held = tool.idempotent and not tool.repeatable
    found = turn.replay.enter(case.digest, resources) if held else None
    flight = found if isinstance(found, Flight) else None
    turn.replay.record(outcome, held=flight, resources=resources, may_write=tool.may_write)


def _resources_then(tool: Tool, arguments: JsonObject) -> frozenset[str] | None:
    try:
        return tool.resources_of(arguments)
    except Exception:  # a log may hold masked arguments, and a resume must not fail on them
        return None
