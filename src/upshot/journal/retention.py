"""Retention: which stored outputs are let go, by age and by size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..contract.number import check_amount
from ..contract.value import Value
from ..errors import Misuse

__all__ = ["Kept", "Pruned", "check_limits", "choose_old"]


class Kept(NamedTuple):
    """What has to be known of a stored output.

    Attributes:
        id: Its id.
        size_bytes: Its size.
        stored_at: When it was stored, unix seconds; None counts as before all others.
    """

    id: str
    size_bytes: int
    stored_at: float | None


class Pruned(Value, frozen=True, kw_only=True):
    """What was let go.

    Attributes:
        count: How many outputs.
        size_bytes: Their size in all.
    """

    count: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, gone: Sequence[Kept]) -> Pruned:
        """What these come to."""
        return cls(count=len(gone), size_bytes=sum(one.size_bytes for one in gone))


def check_limits(max_age_s: float | None, max_bytes: float | None) -> None:
    """Refuse limits that cannot be kept.

    Raises:
        Misuse: One is below 0, or neither is given.
    """
    if max_age_s is None and max_bytes is None:
        raise Misuse("prune needs a limit: give max_age_s, max_bytes, or both")
    check_amount("max_age_s", max_age_s, none="any age")
    check_amount("max_bytes", max_bytes, unit="bytes", none="no limit")


def choose_old(
    kept: Iterable[Kept], *, max_age_s: float | None, max_bytes: float | None, now: float
) -> list[Kept]:
    """Which to let go, the oldest first.

    Args:
        kept: All that may be let go.
        max_age_s: Older ones go; None lets no one go for its age.
        max_bytes: Of the others the oldest go until all are no larger than this together;
            None is no limit.
        now: Unix seconds.
    """
    by_age = sorted(kept, key=lambda one: (one.stored_at is not None, one.stored_at or 0.0))
    left = sum(one.size_bytes for one in by_age)
    gone: list[Kept] = []
    for one in by_age:
        is_old = max_age_s is not None and (one.stored_at or 0.0) < now - max_age_s
        if not is_old and (max_bytes is None or left <= max_bytes):
            break
        gone.append(one)
        left -= one.size_bytes
    return gone
