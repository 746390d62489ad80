"""What others want of a run: rows beside its log, which only its holder may append to.

A wish is an answer that somebody gives who does not work on the run. The first one for a question
stands, whoever comes later is told of it. Whoever goes on with the run copies the wishes for its
open questions into the log; the answer that is logged there is the mark that a wish was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from upshot.contract.base.structs import Moment, Value
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import Journal
from upshot.errors import Misuse


class Wish(Value, frozen=True, kw_only=True):
    """An answer to a question of a run.

    Attributes:
        run_id: The run that asks.
        item: The question: the digest of a request for approval; the id of another one, and how
            often it had been answered before.
        answer: The answer; its secrets are masked.
        at: When it was given.
    """

    run_id: str
    item: str
    answer: AnyAnswer
    at: Moment


class WishKeeper(Protocol):
    """A journal that keeps wishes."""

    async def place_wish(self, wish: Wish, *, seq: int = 0) -> Wish | None:
        """Keep *wish*, unless there is one for the same question.

        Args:
            wish: What is wanted.
            seq: The last event of the run's log as the caller knows it; 0 of the run's holder.

        Returns:
            The wish that stands for the question. None if *seq* is given, and the run is being
            worked on or its log ends with another event; then nothing was kept.
        """
        ...

    async def wishes(self, run_id: str) -> Sequence[Wish]:
        """All that were kept for a run."""
        ...


def keeps_wishes(journal: Journal) -> WishKeeper | None:
    """*journal*, if it is one that keeps wishes."""
    return journal if hasattr(journal, "place_wish") else None  # pyright: ignore[reportReturnType]  # it has its method


def wish_keeper(journal: Journal) -> WishKeeper:
    """*journal*, which has to keep wishes.

    Raises:
        Misuse: It does not.
    """
    keeper = keeps_wishes(journal)
    if keeper is None:
        raise Misuse(
            f"{type(journal).__name__} keeps no answers, since it has no place_wish: go on with "
            "the run and give them there, resume(..., answers=...)"
        )
    return keeper
