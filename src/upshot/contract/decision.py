"""FinalizeDecision: what a decider wants done with a finished attempt."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .free_json import clean_fields
from .value import JsonObject, Value, written

__all__ = ["FinalizeDecision", "Verdict"]

Verdict: TypeAlias = Literal["accept", "discard", "keep_partial", "revise"]


class FinalizeDecision(Value, frozen=True, kw_only=True):
    """One decider's word; made by its four constructors.

    Attributes:
        verdict: What shall be done. Any discard wins, then any revise.
        reason: Why; the first one given is kept as ``state["finalize_reason"]``, and that of the
            word that holds in ``Committed.reason`` and ``AttemptLine.revise_reason``.
        feedback: What the next attempt is told, for revise.
        state: Facts that are merged into the result's ``state``.
    """

    verdict: Verdict = written("accept")
    reason: str = ""
    feedback: str = ""
    state: JsonObject = {}

    def __post_init__(self) -> None:
        clean_fields(self, "reason", "feedback")

    @staticmethod
    def accept(reason: str = "", *, state: JsonObject | None = None) -> FinalizeDecision:
        """Take the attempt as it is.

        Args:
            reason: Why, for the log; "" for no reason.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="accept", reason=reason, state=state or {})

    @staticmethod
    def discard(reason: str, *, state: JsonObject | None = None) -> FinalizeDecision:
        """Do not commit it, whatever came of it.

        Args:
            reason: Why, which is told as the reason of ``Committed``.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="discard", reason=reason, state=state or {})

    @staticmethod
    def keep_partial(reason: str, *, state: JsonObject | None = None) -> FinalizeDecision:
        """Commit what an interrupted attempt has got so far.

        Args:
            reason: Why, for the log.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="keep_partial", reason=reason, state=state or {})

    @staticmethod
    def revise(
        feedback: str, reason: str = "", *, state: JsonObject | None = None
    ) -> FinalizeDecision:
        """Have it done again with *feedback*, if attempts are left.

        Args:
            feedback: What the next attempt is told to do better.
            reason: Why, for the log; "" is the feedback.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(
            verdict="revise", reason=reason or feedback, feedback=feedback, state=state or {}
        )
