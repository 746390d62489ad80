"""Exceptions: what a caller of upshot did wrong, and failures turned into exceptions on request.

A failure of a model, tool or provider, a person's refusal, or a reached limit is a value and
never one of these::

    UpshotError
    +-- Misuse          the caller's mistake (also a ValueError)
    +-- RunFailed       raised by ``result.unwrap()``; carries the result
    +-- JournalError    the log cannot be read, written or owned
    +-- EffectError     a function of a ``Ledger`` was not called
        +-- EffectUnknown   an earlier call may have made the effect
        +-- InProgress      another call is making it
        +-- Conflict        it was made with other arguments
        +-- AlreadyDone     it was made, and there is no output to return
"""

from __future__ import annotations

from typing import Protocol, Self


class UpshotError(Exception):
    """The root of every exception that upshot raises."""


class Misuse(UpshotError, ValueError):
    """The caller asked for something impossible; the message says what to do."""


class JournalError(UpshotError):
    """The log cannot be opened, written, read or owned.

    Attributes:
        run_id: The run that it concerns, "" for the whole log.
        seq: The last event known to be intact, None if unknown.
        taken_over: Whether another session has claimed the run and continues it.
    """

    def __init__(
        self, message: str, *, run_id: str = "", seq: int | None = None, taken_over: bool = False
    ) -> None:
        super().__init__(message)
        self.taken_over = taken_over
        self.run_id = run_id
        self.seq = seq


class _Ref(Protocol):
    """The part of ``EffectRef`` that this module needs."""

    @property
    def effect_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def call_id(self) -> str: ...


class EffectError(UpshotError):
    """A ``Ledger`` did not call a function, because of the state of its effect.

    Attributes:
        effect_id: The id of the effect in the ledger, "" if unknown.
        run_id: The run, or the log, whose call made the effect, or may have made it.
        call_id: The id of that call.
    """

    def __init__(self, message: str, ref: _Ref | None = None) -> None:
        super().__init__(message)
        self.effect_id: str = "" if ref is None else ref.effect_id
        self.run_id: str = "" if ref is None else ref.run_id
        self.call_id: str = "" if ref is None else ref.call_id


class EffectUnknown(EffectError):
    """An earlier call may have made the effect; it is not repeated until that is settled."""


class InProgress(EffectError):
    """Another call is making the effect, and did not end in time; try again later."""


class Conflict(EffectError):
    """The effect was made, or may have been, with other arguments."""


class AlreadyDone(EffectError):
    """The effect was made before.

    Attributes:
        output: What the first call returned, None if that was not kept.
    """

    def __init__(self, message: str, ref: _Ref | None = None, *, output: object = None) -> None:
        super().__init__(message, ref)
        self.output = output


def need_of_extra(what: str, extra: str) -> str:
    """Return a message that says which extra *what* needs, and how to install it."""
    return (
        f"{what} needs an extra: pip install 'upshot-agents[{extra}]', "
        f"or in a clone pip install -e '.[{extra}]'"
    )


class _Failure(Protocol):
    """The part of a result that this module needs, so that it imports nothing."""

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> object: ...


class RunFailed(UpshotError):
    """A result without an answer was unwrapped.

    Attributes:
        result: The whole result, an ``AgentResult`` or a ``ModelResponse``.
    """

    def __init__(self, result: _Failure) -> None:
        error = result.error
        code = getattr(error, "code", "internal")
        # Some errors have the same code as the status.
        why = result.status if code == result.status else f"{result.status}: {code}"
        super().__init__(f"{why}: {getattr(error, 'message', '')}")
        self.result = result

    def __reduce__(self) -> tuple[type[Self], tuple[_Failure]]:
        # An exception is rebuilt from its arguments; its args have only the message.
        return type(self), (self.result,)
