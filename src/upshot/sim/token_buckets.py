"""Rate limits as providers enforce them: one token bucket for each resource.

A bucket holds as much as its limit, starts full and fills evenly, so the values of the headers
(limit, remaining, seconds until full) really decide the next request.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from upshot.contract.base.checks import check_whole

MINUTE_S = 60.0

Resource = Literal["requests", "tokens"]


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the simulated provider accepts.

    Attributes:
        requests_per_minute: Size of the request bucket, at least 1; None: no limit, no header.
        tokens_per_minute: Size of the token bucket (prompt and reply together), at least 1; None as
            above.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_whole(name, getattr(self, name), least=1, none="no limit")


class BucketReading(Struct, frozen=True):
    """The state of a bucket at one moment."""

    resource: Resource
    limit: int
    remaining: int
    reset_s: float


class OverLimit(Struct, frozen=True):
    """Why a request was refused."""

    reading: BucketReading
    needed: int
    retry_after_s: float | None


class TokenBucket:
    """A bucket that holds *limit* units and fills at *limit* a minute.

    Every method has the time as *now*, in seconds of one clock that does not run backwards (a
    step back counts as no time at all).
    """

    def __init__(self, limit: int, *, now: float) -> None:
        self.limit = limit
        self._level = float(limit)
        self._at = now

    def level(self, now: float) -> float:
        """Fill the bucket up to *now* and return its level, 0 to ``limit``."""
        # Filled only on demand: an idle bucket costs nothing, and no timer has to be stopped.
        elapsed_s = now - self._at
        if elapsed_s > 0:
            self._level = min(float(self.limit), self._level + elapsed_s * self.limit / MINUTE_S)
            self._at = now
        return self._level

    def wait_s(self, units: int, now: float) -> float | None:
        """Return seconds until *units* are available: 0 for now, None for never."""
        if units > self.limit:
            return None
        short = units - self.level(now)
        # A caller that waited exactly as long as asked may be a rounding error short: that is not
        # worth a 429.
        return 0.0 if short < 1e-6 else short * MINUTE_S / self.limit

    def take(self, units: int, now: float) -> None:
        """Remove *units*; an amount that :meth:`wait_s` would refuse empties the bucket."""
        self._level = max(0.0, self.level(now) - units)

    def reset_s(self, now: float) -> float:
        """Return seconds until the bucket is full."""
        return (self.limit - self.level(now)) * MINUTE_S / self.limit


class LimitGauge:
    """The buckets of one simulated account."""

    def __init__(self, limits: Limits, *, now: float) -> None:
        sizes: dict[Resource, int | None] = {
            "requests": limits.requests_per_minute,
            "tokens": limits.tokens_per_minute,
        }
        self._buckets: dict[Resource, TokenBucket] = {
            name: TokenBucket(size, now=now) for name, size in sizes.items() if size is not None
        }

    def admit(self, *, tokens: int, now: float) -> OverLimit | None:
        """Remove one request of *tokens* from all buckets, or from none."""
        # All are checked before any is changed: a refused request must use nothing, as at
        # providers.
        needed: dict[Resource, int] = {"requests": 1, "tokens": tokens}
        refusals = [
            OverLimit(self._read(resource, now), needed[resource], wait_s)
            for resource, bucket in self._buckets.items()
            if (wait_s := bucket.wait_s(needed[resource], now)) != 0
        ]
        # The longest wait: after a shorter one the client would only hit the other limit.
        if refusals:
            return max(refusals, key=_wait_order)
        for resource, bucket in self._buckets.items():
            bucket.take(needed[resource], now)
        return None

    def readings(self, now: float) -> list[BucketReading]:
        """Return the state of every bucket at *now*, for the headers."""
        return [self._read(resource, now) for resource in self._buckets]

    def _read(self, resource: Resource, now: float) -> BucketReading:
        bucket = self._buckets[resource]
        remaining = math.floor(bucket.level(now))
        return BucketReading(resource, bucket.limit, remaining, bucket.reset_s(now))


def _wait_order(refusal: OverLimit) -> float:
    return math.inf if refusal.retry_after_s is None else refusal.retry_after_s
