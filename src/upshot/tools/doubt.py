"""Doubt: a call of which nobody knows whether it took effect, and who may know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..contract import Effect, JsonObject

if TYPE_CHECKING:
    # Only annotations name them: defining a tool stays cheap.
    from ..contract import ToolFailure, ToolTimeout

__all__ = ["UnknownEffect", "VerifyAnswer", "VerifyHook"]


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """A call that may have taken effect or not.

    Attributes:
        call_id: The model's id of the call.
        tool_name: The tool.
        arguments: What it was called with, valid and with defaults.
        run_id: The run that it belongs to.
        idempotency_key: What its body was given to hand to a service.
        outcome: A timeout, or a failure such as ``interrupted``.
    """

    call_id: str
    tool_name: str
    arguments: JsonObject
    run_id: str
    idempotency_key: str
    outcome: ToolTimeout | ToolFailure


VerifyAnswer: TypeAlias = Effect | str | bool | None
VerifyHook: TypeAlias = Callable[[UnknownEffect], VerifyAnswer | Awaitable[VerifyAnswer]]
"""Says whether the call took effect: "applied" or True, "none" or False, None if unknown.

Plain ones run in a thread, and all have five seconds, or what the turn has left. One that
raises, takes longer or answers anything else leaves the effect unknown, with a warning.
"""
