"""Disposition: what deciders' verdict does to an attempt, as pure functions of both."""

from __future__ import annotations

from typing import Any

import msgspec

from ..contract import HANDOFF_FINALIZE_REASON, AgentResult, JsonObject, Status
from .ending import Ending
from .hooks import Verdict

__all__ = ["is_committed", "note_verdict", "reason_against", "wants_revision", "with_verdict"]

# Deciders' word and status that are committed; nothing else is.
_COMMITS = {
    ("accept", Status.COMPLETED),
    ("revise", Status.COMPLETED),
    ("keep_partial", Status.COMPLETED),
    ("keep_partial", Status.INTERRUPTED),
}


def is_committed(verdict: Verdict, status: Status) -> bool:
    """Whether a run that ended with *status* counts for the conversation."""
    return verdict.error is None and (verdict.word, status) in _COMMITS


def reason_against(verdict: Verdict, status: Status) -> str:
    """Why a run that ended with *status* is not committed, "" where it is."""
    if is_committed(verdict, status):
        return ""
    return (verdict.word == "discard" and verdict.why) or str(status)


def wants_revision(verdict: Verdict, result: AgentResult[Any]) -> bool:
    """Whether the attempt is to be done again; only a completed one can be.

    Args:
        verdict: What deciders want.
        result: Of the attempt.
    """
    wanted = verdict.word == "revise" and verdict.error is None
    return wanted and result.status is Status.COMPLETED


def note_verdict(
    state: JsonObject, verdict: Verdict, result: AgentResult[Any], *, is_last: bool
) -> None:
    """Put what deciders said into *state*; the reason is that of the last attempt."""
    state.pop("finalize_reason", None)
    reason = verdict.reason
    if result.handoff is not None and result.success and not (reason and _rejects(verdict)):
        reason = f"{HANDOFF_FINALIZE_REASON}{result.handoff.to_agent_id}"
    if reason:
        state["finalize_reason"] = reason
    state.update(verdict.state)
    if verdict.word == "revise" and result.success and is_last:
        state["revise_exhausted"] = True


def with_verdict(
    result: AgentResult[Any], verdict: Verdict, state: JsonObject, *, stopped: Ending | None
) -> AgentResult[Any]:
    """*result* after the verdict: a decider that raised fails it, the answer is kept.

    Args:
        result: Of the attempt.
        verdict: What deciders want.
        state: Their facts.
        stopped: How the run was stopped while a decider was waited for, None if it was not.
    """
    status, error = Status.FAILED, verdict.error
    if verdict.was_cut and stopped is not None:
        # Who stopped the run did so, and not the decider that was in the way.
        if not result.success:
            error = None
        else:
            status, error = stopped.status, stopped.error or error
    if error is not None:
        result = msgspec.structs.replace(result, status=status, error=error)
    return msgspec.structs.replace(result, state=dict(state)) if state != result.state else result


def _rejects(verdict: Verdict) -> bool:
    return verdict.word in ("discard", "revise")
