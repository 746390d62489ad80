"""ToolError: how a tool says that it could not do its work."""

from __future__ import annotations

from ..contract import Effect

__all__ = ["ToolError"]


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
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
        effect: Effect | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.effect = effect
