"""DiscardOnInterruptCauses: a decider that ships."""

from __future__ import annotations

from ..contract import AnyResult, Decider, FinalizeDecision, Interrupt, Request, RunInfo, Status
from ..errors import Misuse

__all__ = ["DiscardOnInterruptCauses"]


class DiscardOnInterruptCauses(Decider):
    """Discards a run that was interrupted for one of some causes, whatever else wants to keep it.

    Args:
        reason: Kept as ``state["finalize_reason"]``.
        causes: Such as "user_cancel" or a word of your own; none is every cause.

    Raises:
        Misuse: A cause is no text, such as a list of them.
    """

    def __init__(self, reason: str, *causes: str) -> None:
        for cause in causes:
            if not isinstance(cause, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise Misuse(
                    f"a cause of an interrupt is a word, not {cause!r:.60}: "
                    "DiscardOnInterruptCauses(reason, 'user_cancel', 'deadline')"
                )
        self._reason = reason
        self._causes = frozenset(str(Interrupt(cause).cause) for cause in causes)

    def before_finalize(
        self, info: RunInfo, request: Request, result: AnyResult
    ) -> FinalizeDecision | None:
        """Discard where the cause is one of those; no word otherwise."""
        if result.status is not Status.INTERRUPTED:
            return None
        if self._causes and str(result.cause) not in self._causes:
            return None
        return FinalizeDecision.discard(self._reason)
