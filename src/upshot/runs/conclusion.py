"""Conclusion: what is still heard of a run when its end is decided, and what was lost of it."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from ..contract import AgentResult, Origin, RunWarning
from ..errors import JournalError
from .equipment import Equipment

__all__ = ["hear_host", "with_loss"]


async def hear_host(parts: Equipment) -> None:
    """Let the user's host finish, so that what it raised of the run is in the result.

    Args:
        parts: Of the run.
    """
    scope = parts.scope
    # The time that is left to a stopped run is its observers'.
    if scope.is_stopped():
        return
    try:
        await parts.host.hear_out(scope.wait)
    except asyncio.CancelledError:
        # A closing loop's; observers hear of the end all the same.
        scope.end("caller")


def with_loss(
    parts: Equipment, result: AgentResult[Any], error: BaseException, *, committed: bool
) -> AgentResult[Any]:
    """*result* of a run whose end could not be logged or told, which it warns of.

    Args:
        parts: Of the run.
        result: What came of it.
        error: Why not.
        committed: Whether it was committed before.
    """
    origin = Origin.JOURNAL if isinstance(error, JournalError) else Origin.HOST
    lost = RunWarning(code="journal_failed", message=str(error), origin=origin)
    parts.recorder.warn(lost)
    # A recorder that has told of the end takes no warning any more.
    warnings = tuple(dict.fromkeys((*parts.recorder.warnings, lost)))
    lines = tuple(parts.report.lines)
    return replace(result, committed=committed, attempt_log=lines, warnings=warnings)
