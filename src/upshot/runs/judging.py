"""Judging: what becomes of an attempt when deciders have said what they want."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from ..contract import AgentResult, RunWarning
from .attempt import ending_of
from .disposition import note_verdict, wants_revision, with_verdict
from .ending import Ending
from .equipment import Equipment
from .hooks import Verdict
from .phase import DECIDED, REVISED, Cue, cue_of_verdict
from .signals import Interrupted

__all__ = ["Judged", "judge"]


class Judged(NamedTuple):
    """What became of an attempt.

    Attributes:
        result: Of it, after the verdict.
        cue: Whether it is done again.
        stopped: How the run was stopped before what deciders wanted revised was done again; None
            where it was not.
    """

    result: AgentResult[Any]
    cue: Cue
    stopped: Ending | None = None


def judge(parts: Equipment, result: AgentResult[Any], verdict: Verdict, *, is_last: bool) -> Judged:
    """Do what deciders want.

    Args:
        parts: Of the run; its state gets what they said.
        result: Of the attempt.
        verdict: What they want.
        is_last: Whether no other attempt may follow.
    """
    state = parts.report.state
    note_verdict(state, verdict, result, is_last=is_last)
    stopped = ending_of(parts, TimeoutError()) if parts.scope.stop else None
    _warn_of_replaced(parts, result, verdict)
    result = with_verdict(result, verdict, state, stopped=stopped)
    cue = cue_of_verdict(wants_revision=wants_revision(verdict, result), is_last=is_last)
    if cue is REVISED and (parts.scope.stop or parts.host.interrupt is not None):
        return _unrevised(parts, result)
    return Judged(result, cue)


def _warn_of_replaced(parts: Equipment, result: AgentResult[Any], verdict: Verdict) -> None:
    """Tell of the error of *result*, where that of a decider that raised takes its place."""
    error = result.error
    if error is not None and verdict.error is not None and not verdict.was_cut:
        warning = RunWarning(code=error.code, message=error.message, origin=error.origin)
        parts.recorder.warn(warning)


def _unrevised(parts: Equipment, result: AgentResult[Any]) -> Judged:
    """No further attempt, since the run was stopped before this one was accepted."""
    wish = parts.host.interrupt
    why = Interrupted() if wish is None else Interrupted(wish.cause, wish.detail)
    ending = ending_of(parts, TimeoutError() if parts.scope.stop else why)
    facts: dict[str, Any] = {"status": ending.status, "error": ending.error}
    if ending.interrupt is not None:
        facts |= {"cause": ending.interrupt.cause, "detail": ending.interrupt.detail}
    return Judged(replace(result, **facts), DECIDED, ending)
