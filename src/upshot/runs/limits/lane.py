"""What is known of a provider's limits for one key and model, and which request may go when.

Pure: the time is passed in. All processes change the same lane, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from upshot.contract.base.enums import Resource
from upshot.contract.usage import RateLimitState, Usage

MINUTE_S = 60.0
# Seconds that the requests of a killed process count as in flight.
SHARE_S = 60.0
# Seconds that a process may keep requests granted in advance.
SLICE_S = 2.0
_SLICE = 16
_MOST_AHEAD = 32
# Seconds that a 429 without a Retry-After closes the lane.
_CLOSED_S = 1.0
# A window that fills at less than this share of limit/minute is not a window of a minute.
_SLOW = 0.5
# The tokens to withhold, as a multiple of the spread of requests, and at most of a window.
_MARGIN, _MOST_MARGIN = 4.0, 0.05
# If at least this much of a window is missing, its reset time tells how fast it fills.
_TELLING = 10


class Need(msgspec.Struct, frozen=True):
    """What one request takes: one request, and tokens.

    Attributes:
        input: Input tokens.
        output: Output tokens.
    """

    input: int = 0
    output: int = 0

    def of(self, resource: str) -> int:
        """Return how much of a resource it takes, 0 if the resource is unknown."""
        match resource:
            case Resource.REQUESTS:
                return 1
            case Resource.TOKENS:
                return self.input + self.output
            case Resource.INPUT_TOKENS:
                return self.input
            case Resource.OUTPUT_TOKENS:
                return self.output
            case _:
                return 0


class Want(msgspec.Struct, frozen=True):
    """A request that waits for its turn.

    Attributes:
        need: What it takes.
        ahead_s: How many seconds ahead of time it may be granted its place.
        is_guess: Whether *need* is only an estimate.
    """

    need: Need
    ahead_s: float
    is_guess: bool = False


class Back(msgspec.Struct, frozen=True):
    """The outcome of granted requests.

    Attributes:
        need: What was reserved for each.
        count: The number of requests.
        used: What was used; None if unknown, so that all of it counts.
        is_sent: Whether it was sent.
        limits: The windows that the reply reports, None for none.
        age_s: The maximum age of *limits*, in seconds.
        is_refused: Whether a rate limit refused it.
        retry_after_s: How long the provider asks to wait, None if it does not say.
    """

    need: Need
    count: int = 1
    used: Need | None = None
    is_sent: bool = True
    limits: RateLimitState | None = None
    age_s: float = 0.0
    is_refused: bool = False
    retry_after_s: float | None = None


class Answer(msgspec.Struct, frozen=True):
    """What the waiting requests are granted.

    Attributes:
        needs: What was reserved for each of the first ones.
        delays_s: In how many seconds each of them may be sent.
        waits_s: The minimum wait of each of the others, None if unknown.
        ahead: How many more requests like the last one may be sent at once.
    """

    needs: tuple[Need, ...] = ()
    delays_s: tuple[float, ...] = ()
    waits_s: tuple[float | None, ...] = ()
    ahead: int = 0


class Window(msgspec.Struct):
    """A limit, as a bucket that fills evenly.

    Attributes:
        resource: What it limits.
        limit: Its capacity.
        per_s: How fast it fills.
        level: What is left to grant; below 0 if more was granted in advance.
        at_us: When *level* was computed.
    """

    resource: str
    limit: float
    per_s: float
    level: float
    at_us: int

    def fill(self, now_us: int) -> None:
        """Update the level to *now_us*."""
        if now_us > self.at_us:
            level = self.level + (now_us - self.at_us) * self.per_s / 1e6
            self.level, self.at_us = min(self.limit, level), now_us

    def wait_s(self, units: float) -> float:
        """Return seconds until *units* are available; more than the capacity waits until full."""
        missing = min(units, self.limit) - self.level
        return missing / self.per_s if missing > 1e-6 else 0.0


class Share(msgspec.Struct):
    """What one process was granted and has not reported back.

    Attributes:
        requests: The number of requests.
        input: Their input tokens.
        output: Their output tokens.
        until_us: When the process is considered dead.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    until_us: int = 0

    def add(self, need: Need, count: int) -> None:
        """Add *count* requests, or remove them if it is negative."""
        self.requests = max(0, self.requests + count)
        self.input = max(0, self.input + count * need.input)
        self.output = max(0, self.output + count * need.output)


class Lane(msgspec.Struct):
    """The limits of one key and model.

    Attributes:
        windows: The known limits, by name.
        shares: What is under way, by process.
        closed_until_us: Nothing is sent before this time.
        width: How many requests may be under way while no limit is known.
        last: What the last request used.
        spread: The difference in tokens between what requests use and what is reserved.
    """

    windows: dict[str, Window] = {}
    shares: dict[str, Share] = {}
    closed_until_us: int = 0
    width: int = 1
    last: Need | None = None
    spread: float = 0.0

    def limit(self, per_minute: Mapping[str, int], now_us: int) -> None:
        """Add limits that the caller set. Limits reported by a reply override them."""
        for resource, limit in per_minute.items():
            if resource not in self.windows:
                window = Window(resource, limit, limit / MINUTE_S, limit, now_us)
                self.windows[resource] = window

    def update(
        self, now_us: int, process: str, backs: Iterable[Back], wants: Sequence[Want]
    ) -> Answer:
        """Process returned requests, then grant what is available.

        Args:
            now_us: The current time, in microseconds.
            process: The process that makes the change.
            backs: The outcomes of earlier requests.
            wants: The waiting requests, in order.
        """
        for window in self.windows.values():
            window.fill(now_us)
        for name in [name for name, one in self.shares.items() if one.until_us <= now_us]:
            del self.shares[name]
        share = self.shares.setdefault(process, Share())
        share.until_us = now_us + round(SHARE_S * 1e6)
        for back in backs:
            self._process_return(back, share, now_us)
        if self.last is not None:
            wants = [Want(self.last, one.ahead_s) if one.is_guess else one for one in wants]
        delays = self._grant(wants, share, now_us)
        given, left = wants[: len(delays)], wants[len(delays) :]
        ahead = 0 if left or not wants else self._grant_ahead(wants[-1].need, share)
        if not share.requests:
            del self.shares[process]
        waits = tuple(self._waits_s(left, now_us))
        return Answer(tuple(one.need for one in given), tuple(delays), waits, ahead)

    def _process_return(self, back: Back, share: Share, now_us: int) -> None:
        share.add(back.need, -back.count)
        used = back.used
        for window in self.windows.values():
            reserved = back.need.of(window.resource)
            if not back.is_sent:
                window.level += back.count * reserved
            elif used is not None and window.resource != Resource.REQUESTS:
                window.level += back.count * (reserved - used.of(window.resource))
            window.level = min(window.level, window.limit)
        if used is not None and used.input + used.output:
            missed = abs(used.of(Resource.TOKENS) - back.need.of(Resource.TOKENS))
            self.last, self.spread = used, max(0.9 * self.spread, missed)
        if back.limits is not None:
            self._update_windows(back.limits, back.age_s, now_us)
        if back.is_refused:
            wait_s = _CLOSED_S if back.retry_after_s is None else back.retry_after_s
            self.closed_until_us = max(self.closed_until_us, now_us + round(wait_s * 1e6))
            self.width = max(1, self.width // 2)
        elif back.is_sent:
            # One more for each reply: the width doubles with each round.
            self.width = min(self.width + 1, 1 << 20)

    def _update_windows(self, reported: RateLimitState, age_s: float, now_us: int) -> None:
        """Correct the windows by what a reply reports."""
        for one in reported.windows:
            if not one.limit or Need(1, 1).of(one.resource) == 0:
                continue
            window, left = self.windows.get(one.name), one.remaining
            if window is None or window.limit != one.limit:
                level = one.limit if left is None else left
                level = min(level, one.limit) - self._under_way(one.resource)
                window = Window(one.resource, one.limit, one.limit / MINUTE_S, level, now_us)
                self.windows[one.name] = window
            if left is None:
                continue
            missing = one.limit - left
            if missing >= _TELLING and one.resets_in is not None:
                rate = missing / max(one.resets_in, 1)
                window.per_s = rate if rate < _SLOW * one.limit / MINUTE_S else window.per_s
            # The provider has not seen requests granted since, so the level may be lower than this.
            window.level = min(window.level, left + age_s * window.per_s)

    def _under_way(self, resource: str) -> int:
        return sum(
            one.requests
            if resource == Resource.REQUESTS
            else Need(one.input, one.output).of(resource)
            for one in self.shares.values()
        )

    def _grant(self, wants: Sequence[Want], share: Share, now_us: int) -> list[float]:
        """Grant requests until one has to wait; returns in how many seconds each may be sent."""
        delays: list[float] = []
        if now_us < self.closed_until_us:
            return delays
        for want in wants:
            if self.windows:
                delay_s = self._delay_s(want.need)
                if delay_s > want.ahead_s:
                    break
            elif self._under_way(Resource.REQUESTS) >= self.width:
                break
            else:
                delay_s = 0.0
            self._deduct(want.need, 1, share)
            delays.append(delay_s)
        return delays

    def _grant_ahead(self, need: Need, share: Share) -> int:
        """Grant some future requests if there is plenty left."""
        windows = [one for one in self.windows.values() if need.of(one.resource)]
        if not windows or any(one.level < one.limit / 2 for one in windows):
            return 0
        ahead = min(int(one.level / _SLICE / need.of(one.resource)) for one in windows)
        ahead = min(ahead, _MOST_AHEAD)
        self._deduct(need, ahead, share)
        return ahead

    def _deduct(self, need: Need, count: int, share: Share) -> None:
        share.add(need, count)
        for window in self.windows.values():
            # A request above the capacity passes when the window is full.
            window.level -= count * min(need.of(window.resource), window.limit)

    def _delay_s(self, need: Need) -> float:
        waits = (
            window.wait_s(units + self._margin(window))
            for window in self.windows.values()
            if (units := need.of(window.resource))
        )
        return max(waits, default=0.0)

    def _margin(self, window: Window) -> float:
        """Return the tokens to leave in a window, since requests may exceed their estimate."""
        if window.resource == Resource.REQUESTS:
            return 0.0
        return min(_MARGIN * self.spread, _MOST_MARGIN * window.limit)

    def _waits_s(self, wants: Iterable[Want], now_us: int) -> Iterable[float | None]:
        closed_s = max(0.0, (self.closed_until_us - now_us) / 1e6)
        total: dict[str, float] = {}
        for want in wants:
            waits = [closed_s]
            for name, window in self.windows.items():
                total[name] = total.get(name, 0.0) + min(
                    want.need.of(window.resource), window.limit
                )
                missing = total[name] + self._margin(window) - window.level
                waits.append(missing / window.per_s if missing > 1e-6 else 0.0)
            wait_s = max(waits)
            yield wait_s if self.windows or wait_s else None


def need_of(usage: Usage) -> Need | None:
    """Return what a reply used; None if it does not say."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None if usage.total_tokens is None else Need(usage.total_tokens)
    return Need(usage.input_tokens or 0, usage.output_tokens or 0)
