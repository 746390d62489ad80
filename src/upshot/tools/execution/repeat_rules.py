"""What a call may have done, and whether it may be made again: the only place that decides it.

A body that writes and did not come to its end has an unknown effect. To run it again is safe only
where twice is as good as once (``idempotent``). All other answers follow from that: whether an
outcome tells the model that it may try again, whether a failed body is retried at once, whether
a call that a crash interrupted runs again, and what a ``verify`` hook may change.
"""

from __future__ import annotations

from typing import TypeGuard

import msgspec

from upshot.contract.base.enums import Effect, ErrorCode
from upshot.contract.tool_calls import ToolFailure, ToolOutcome, ToolTimeout, outcome_is_retryable
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool

CANCELLED = ErrorCode("cancelled")
INTERRUPTED = ErrorCode.INTERRUPTED
DOUBT = "; whether it took effect is unknown"
"""Stands in the error of a call until a ``verify`` hook has said more."""
# What was cut off is final only because nobody knew what it had done; a tool's own word stays.
_CUT_OFF = (
    CANCELLED,
    INTERRUPTED,
    ErrorCode("memory_limit"),
    ErrorCode("cpu_limit"),
    ErrorCode("worker_failed"),
)


def effect_after(tool: Tool, *, done: bool) -> Effect:
    """What a body that ran did outside; *done* says whether it came to its end."""
    if not tool.may_write:
        return Effect.NONE
    return Effect.APPLIED if done else Effect.UNKNOWN


def may_repeat(tool: Tool, effect: Effect) -> bool:
    """Whether a call that did not come to its end may be made again after *effect*."""
    return effect is not Effect.UNKNOWN or tool.idempotent


def may_repeat_timeout(tool: Tool, effect: Effect) -> bool:
    """The same after a timeout, about which the tool may have its own word."""
    return may_repeat(tool, effect) if tool.retry_on_timeout is None else tool.retry_on_timeout


def may_repeat_interrupted(tool: Tool) -> bool:
    """Whether a call that had started when its process ended may run again."""
    return may_repeat(tool, effect_after(tool, done=False))


def may_retry(call: CallState, outcome: ToolOutcome) -> bool:
    """Whether the body is run again at once, as its tool wants (``retries``)."""
    tool = call.known_tool
    if call.attempts > tool.retries or call.turn.cancelled:
        return False
    return may_repeat(tool, outcome.effect) and outcome_is_retryable(outcome)


def is_unknown(outcome: ToolOutcome | None) -> TypeGuard[ToolTimeout | ToolFailure]:
    """Whether a call did not come to its end and what it did is unknown."""
    return isinstance(outcome, ToolTimeout | ToolFailure) and outcome.effect is Effect.UNKNOWN


def is_in_doubt(call: CallState) -> bool:
    """Whether the call has an outcome of unknown effect that a ``verify`` hook may settle."""
    return call.tool is not None and call.tool.verify is not None and is_unknown(call.outcome)


def verified(tool: Tool, outcome: ToolTimeout | ToolFailure, *, applied: bool) -> ToolOutcome:
    """An outcome of unknown effect, once it is known whether it was *applied*."""
    if isinstance(outcome, ToolFailure):
        found = "has taken effect: do not make it again" if applied else "has not taken effect"
        said = f"{outcome.error.replace(DOUBT, '').rstrip('.')}. It was checked: the call {found}."
        outcome = msgspec.structs.replace(outcome, error=said)
    if applied:
        return msgspec.structs.replace(outcome, effect=Effect.APPLIED, retryable=False)
    if isinstance(outcome, ToolTimeout):
        again = tool.retry_on_timeout is not False
    else:
        again = outcome.retryable or outcome.code in _CUT_OFF
    return msgspec.structs.replace(outcome, effect=Effect.NONE, retryable=again)
