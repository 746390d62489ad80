"""ToolError: how a tool says that it could not do its work."""

from __future__ import annotations

import math
from typing import Literal

from ..contract import Effect
from ..errors import Misuse

__all__ = ["ToolError", "seconds"]

_DONE = (Effect.NONE, Effect.APPLIED, Effect.UNKNOWN)


class ToolError(Exception):
    """Raised by a tool to fail with a message that the model reads.

    Any other exception fails the call too; this one also says what to do about it.

    Attributes:
        message: What went wrong, in one line.
        code: A word for it, None for none.
        retryable: Whether the same call may be made again. False blocks the tool for
            the turn.
        retry_after_s: Seconds to wait before that, None where it does not matter.
        effect: What it did outside all the same, where the tool knows: none, applied or
            unknown. None concludes it: unknown for a tool that may write.

    Raises:
        Misuse: An argument is not of its kind. In a tool that fails the call all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
        effect: Effect | Literal["none", "applied", "unknown"] | None = None,
    ) -> None:
        message = str(message)
        super().__init__(message)
        if code is not None and not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # tools may be untyped
            raise Misuse(f"ToolError(code={code!r}): give a word, such as 'not_found', or None")
        if not isinstance(retryable, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # the same
            raise Misuse(f"ToolError(retryable={retryable!r}): give True or False")
        if retry_after_s is not None and seconds(retry_after_s) is None:
            raise Misuse(f"ToolError(retry_after_s={retry_after_s!r}): give seconds, or None")
        if effect is not None and effect not in _DONE:
            raise Misuse(f"ToolError(effect={effect!r}): give none, applied or unknown")
        self.message = message
        self.code: str | None = code or None
        self.retryable = retryable
        self.retry_after_s: float | None = seconds(retry_after_s)
        self.effect: Effect | None = None if effect is None else Effect(effect)

    def __repr__(self) -> str:
        said = [repr(self.message)]
        if self.code is not None:
            said.append(f"code={self.code!r}")
        if not self.retryable:
            said.append("retryable=False")
        if self.retry_after_s is not None:
            said.append(f"retry_after_s={self.retry_after_s:g}")
        if self.effect is not None:
            said.append(f"effect={self.effect!r}")
        return f"ToolError({', '.join(said)})"


def seconds(value: object) -> float | None:
    """*value* as seconds, None where it is no finite number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
