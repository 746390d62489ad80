"""The gate of the caller's own hook, and what that may answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...contract import DeniedReason, Effect, Json, JsonObject
from ..case import Case
from ..gate import Denial, Rewind
from ..sentence import named
from ..stop import is_stop

__all__ = ["Allow", "Ask", "EditArguments", "HookGate", "PreToolHook", "ApprovalRequest", "Refuse"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that is put before a hook or a person, who may stop it.

    Attributes:
        call_id: The model's id of the call.
        tool_name: The tool.
        arguments: What it would be called with, valid and with defaults.
        effect: What the tool says it may do.
        digest: SHA-256 over the tool, its version and the arguments.
        reason: Why somebody is asked, "" if by rule.
    """

    call_id: str
    tool_name: str
    arguments: JsonObject
    effect: Effect
    digest: str
    reason: str = ""

    @staticmethod
    def of(case: Case) -> ApprovalRequest:
        """What is put before them of *case*."""
        arguments = case.arguments or {}
        return ApprovalRequest(
            case.call_id, case.tool_name, arguments, case.effect, case.digest, case.asks
        )


@dataclass(frozen=True, slots=True)
class Allow:
    """A hook's answer: go on."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """A hook's answer: do not run it.

    Attributes:
        reason: What the model is told.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A hook's answer: people have to be asked.

    Attributes:
        reason: What they are told.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class EditArguments:
    """A hook's answer: run it with other arguments, which are validated like the first.

    Attributes:
        arguments: All arguments, not only the changed ones.
    """

    arguments: Mapping[str, Json]


_Answer: TypeAlias = Allow | Refuse | Ask | EditArguments | None
PreToolHook: TypeAlias = Callable[[ApprovalRequest], _Answer | Awaitable[_Answer]]


class HookGate:
    """Asks the caller's hook; one that raises denies."""

    name = "pre_hook"

    def __init__(self, hook: PreToolHook) -> None:
        self._hook = hook

    def check(self, case: Case) -> Denial | Rewind | Awaitable[Denial | Rewind | None] | None:
        """Ask the hook, unless it has just changed the arguments."""
        # Asked once: a hook that always edits would send the call round for ever.
        if case.edited:
            return None
        try:
            answer = self._hook(ApprovalRequest.of(case))
        except BaseException as error:  # a hook that raises denies the call, even a cancel
            if is_stop(error):
                raise
            return self._failed(error)
        if inspect.isawaitable(answer):
            return self._wait(case, answer)
        return self._judge(case, answer)

    async def _wait(self, case: Case, answer: Awaitable[_Answer]) -> Denial | Rewind | None:
        try:
            return self._judge(case, await answer)
        except BaseException as error:  # a hook that raises denies the call, even a cancel
            if is_stop(error):
                raise
            return self._failed(error)

    def _judge(self, case: Case, answer: object) -> Denial | Rewind | None:
        match answer:
            case None | Allow():
                return None
            case Refuse(reason=reason):
                return Denial(DeniedReason.PRE_HOOK, reason or "refused by a hook")
            case Ask(reason=reason):
                case.asks = reason or "a hook asks for approval"
                return None
            case EditArguments(arguments=arguments):
                case.source, case.edited = dict(arguments), True
                return Rewind("arguments")
            case other:
                kind = type(other).__name__
                return Denial(
                    DeniedReason.PRE_HOOK,
                    f"on_pre_tool_use returned {kind}; Allow, Refuse, Ask or EditArguments is due",
                )

    def _failed(self, error: BaseException) -> Denial:
        return Denial(DeniedReason.PRE_HOOK, f"on_pre_tool_use failed: {named(error)}")
