"""How often a run called each model and tool, and how long that took."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from upshot.contract.base.structs import Moment, Value, freeze
from upshot.contract.usage import RateLimitWindow

TOOK_BOUNDS_S: tuple[float, ...] = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50),
    *(100, 200, 500, 1000, 2000, 5000),
)
"""The upper bounds of the buckets that count durations; a last bucket has the longer ones."""
BUCKETS: int = len(TOOK_BOUNDS_S) + 1


class CallCount(Value, frozen=True, kw_only=True, gc=False):
    """The calls of one model or tool in a run, without those of its child runs.

    Attributes:
        type: "model" or "tool".
        name: The model that replied, as "provider:name", or the tool.
        calls: How many calls of it were started.
        failed: How many of them failed or timed out.
        timed_out: How many timed out.
        unknown: How many may have had an effect.
        denied: How many calls of a tool were denied before they started, without those that were
            cancelled because their run was stopped.
        repeated: How many asked for what an earlier call had done, and were answered from it.
        limited: How many calls of a model were refused by a rate limit.
        took: How many of the calls whose duration is known are in each bucket of
            ``TOOK_BOUNDS_S``, up to the last bucket that has any.
        slowest_ms: How long the slowest call of a tool took; 0 if none was measured.
        slowest: The id of that call.
        waits: How many approvals were answered, by how long that took, in the buckets of ``took``.
        windows: The rate-limit windows of the model's last reply that had any.
        at: When the session ended whose replies had the windows, or were refused.
    """

    type: str
    name: str
    calls: int = 0
    failed: int = 0
    timed_out: int = 0
    unknown: int = 0
    denied: int = 0
    repeated: int = 0
    limited: int = 0
    took: tuple[int, ...] = ()
    slowest_ms: int = 0
    slowest: str = ""
    waits: tuple[int, ...] = ()
    windows: tuple[RateLimitWindow, ...] = ()
    at: Moment | None = None

    def __post_init__(self) -> None:
        freeze(self, "took", "waits", "windows")


def bucket_of(seconds: float) -> int:
    """Return the bucket of ``TOOK_BOUNDS_S`` that a duration is counted in."""
    return bisect_left(TOOK_BOUNDS_S, seconds)


def quantile_s(took: Sequence[int], share: float) -> float | None:
    """Return the duration that *share* of the counted ones do not exceed, None if there are none.

    It is interpolated within a bucket, so it is as exact as the buckets are narrow; beyond the last
    bound it is that bound.

    Args:
        took: The number of durations in each bucket of ``TOOK_BOUNDS_S``; missing ones are 0.
        share: From 0 to 1, such as 0.95.
    """
    rank = share * sum(took)
    if not sum(took):
        return None
    passed = 0
    for bucket, count in enumerate(took):
        if count and passed + count >= rank:
            if bucket >= len(TOOK_BOUNDS_S):
                break
            low = TOOK_BOUNDS_S[bucket - 1] if bucket else 0.0
            return low + (TOOK_BOUNDS_S[bucket] - low) * max(0.0, rank - passed) / count
        passed += count
    return TOOK_BOUNDS_S[-1]
