"""Verification: a tool's own hook finds out whether a call took effect."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import cast

import msgspec

from ..contract import Effect, ErrorCode, ToolFailure, ToolOutcome, ToolTimeout
from ..contract.article import kind_of
from .body import is_async
from .case import Case
from .conclusion import CANCELLED, INTERRUPTED
from .context import CancelToken
from .desk import Desk
from .doubt import UnknownEffect, VerifyHook
from .executor import Ending, Raised, Returned, run_async, run_thread
from .sentence import named

__all__ = ["VERIFY_TIMEOUT_S", "is_doubtful", "verify_effect"]

VERIFY_TIMEOUT_S = 5.0
# For a call that was cancelled, or whose turn is over.
_LEAST_TIMEOUT_S = 0.25
_CUT = (
    CANCELLED,
    INTERRUPTED,
    ErrorCode("memory_limit"),
    ErrorCode("cpu_limit"),
    ErrorCode("worker_failed"),
)


def is_doubtful(case: Case) -> bool:
    """Whether the call has an outcome of unknown effect that a hook may know more about."""
    outcome, tool = case.outcome, case.tool
    if outcome is None or tool is None or tool.verify is None:
        return False
    return outcome.effect is Effect.UNKNOWN


async def verify_effect(desk: Desk, case: Case, outcome: ToolOutcome) -> ToolOutcome:
    """Ask the tool's hook about an outcome of unknown effect.

    Returns:
        The outcome with what is known now: what took effect is not to be repeated, what did
        not may be. Others come back as they are.
    """
    tool = case.tool
    if tool is None or tool.verify is None or outcome.effect is not Effect.UNKNOWN:
        return outcome
    if not isinstance(outcome, ToolTimeout | ToolFailure):
        return outcome
    asked = UnknownEffect(
        case.call_id,
        tool.name,
        case.arguments or {},
        desk.run_id,
        case.idempotency_key,
        outcome,
    )
    left = case.turn.remaining_s()
    timeout_s = VERIFY_TIMEOUT_S if left is None else min(VERIFY_TIMEOUT_S, left)
    if outcome.code == CANCELLED or timeout_s < _LEAST_TIMEOUT_S:
        timeout_s = _LEAST_TIMEOUT_S
    ending = await _ask(tool.verify, asked, desk, timeout_s=timeout_s)
    match ending:
        case Returned(value=True | "applied"):
            return msgspec.structs.replace(outcome, effect=Effect.APPLIED, retryable=False)
        case Returned(value=False | "none"):
            again = isinstance(outcome, ToolTimeout) or _is_cut(outcome) or outcome.retryable
            if isinstance(outcome, ToolTimeout) and tool.retry_on_timeout is False:
                again = False
            return msgspec.structs.replace(outcome, effect=Effect.NONE, retryable=again)
        case Returned(value=None | "unknown"):
            return outcome
        case _:
            desk.warn("verify_failed", f"verify of {tool.name} {_told(ending)}")
            return outcome


async def _ask(hook: VerifyHook, asked: UnknownEffect, desk: Desk, *, timeout_s: float) -> Ending:
    token = CancelToken()

    async def ask() -> object:
        answer = hook(asked)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer

    if is_async(hook):
        return await run_async(ask, timeout_s=timeout_s, token=token, grace_s=0.1)
    ending = await run_thread(
        lambda: hook(asked),
        timeout_s=timeout_s,
        token=token,
        workers=desk.workers,
        late=lambda: None,
    )
    if isinstance(ending, Returned) and inspect.isawaitable(ending.value):
        waiting = cast("Awaitable[object]", ending.value)
        return await run_async(lambda: waiting, timeout_s=timeout_s, token=token, grace_s=0.1)
    return ending


# What was cut off is final only because nobody knew what it had done; a tool's own word stays.
def _is_cut(outcome: ToolFailure) -> bool:
    return outcome.code in (
        "cancelled",
        "interrupted",
        "memory_limit",
        "cpu_limit",
        "worker_failed",
    )


def _told(ending: Ending) -> str:
    match ending:
        case Raised(error=error):
            return f"failed: {named(error)}"
        case Returned(value=value):
            return f"answered with {kind_of(value)}; applied, none or None is due"
        case _:
            return "took too long"
