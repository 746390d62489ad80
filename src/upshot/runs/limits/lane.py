"""What is known of one provider's limits on one key and model, and who may send when.

Pure: the moments come from outside. All processes change the same lane, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from upshot.contract.base.enums import Resource
from upshot.contract.usage import RateLimitState, Usage

MINUTE_S = 60.0
# A process that was killed counts as in flight for so long.
SHARE_S = 60.0
# So long may it keep what it was given ahead of its requests.
SLICE_S = 2.0
_SLICE = 16
_MOST_AHEAD = 32
# Without a word of the provider's a 429 closes the lane for so long.
_CLOSED_S = 1.0
# A window is not one of a minute if it fills at less than this share of that rate.
_SLOW = 0.5
# How much of what requests differ by is kept back, and of a window at most.
_MARGIN, _MOST_MARGIN = 4.0, 0.05
# From so many units on what is missing tells how fast a window fills.
_TELLING = 10


class Need(msgspec.Struct, frozen=True):
    """What one request takes: itself, and tokens.

    Attributes:
        input: Tokens that go in.
        output: Tokens that come out.
    """

    input: int = 0
    output: int = 0

    def of(self, resource: str) -> int:
        """How much of a resource it takes; 0 of one that is not known."""
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
        ahead_s: How long before its time a place may be taken for it.
        is_guess: Whether nobody has counted what it takes.
    """

    need: Need
    ahead_s: float
    is_guess: bool = False


class Back(msgspec.Struct, frozen=True):
    """What became of requests that were let go.

    Attributes:
        need: What was reserved for each.
        count: How many.
        used: What it used; None if that is not known, so that all of it counts.
        is_sent: Whether it was sent.
        limits: What the reply says of the windows, None for nothing.
        age_s: Since when, at most, that holds.
        is_refused: Whether it was refused by a limit.
        retry_after_s: How long it asks to wait, None for no word of it.
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
    """What those who want get.

    Attributes:
        needs: What each of the first ones was given.
        delays_s: In how many seconds each of them may be sent.
        waits_s: How long each of the others has to wait at least, None if that is not known.
        ahead: How many more requests like the last one may be sent at once.
    """

    needs: tuple[Need, ...] = ()
    delays_s: tuple[float, ...] = ()
    waits_s: tuple[float | None, ...] = ()
    ahead: int = 0


class Window(msgspec.Struct):
    """A limit, as a bucket that fills evenly.

    Attributes:
        resource: What it counts.
        limit: The most that it holds.
        per_s: How fast it fills.
        level: What it holds that nobody was given; below 0 if it was given ahead.
        at_us: When that was so.
    """

    resource: str
    limit: float
    per_s: float
    level: float
    at_us: int

    def fill(self, now_us: int) -> None:
        """Bring the level to this moment."""
        if now_us > self.at_us:
            level = self.level + (now_us - self.at_us) * self.per_s / 1e6
            self.level, self.at_us = min(self.limit, level), now_us

    def wait_s(self, units: float) -> float:
        """Seconds until so much is there; what is more than all of it waits for all."""
        missing = min(units, self.limit) - self.level
        return missing / self.per_s if missing > 1e-6 else 0.0


class Share(msgspec.Struct):
    """What one process was given and has not told the end of.

    Attributes:
        requests: How many requests.
        input: Their tokens that go in.
        output: Their tokens that come out.
        until_us: After which it is taken for dead.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    until_us: int = 0

    def add(self, need: Need, count: int) -> None:
        """Count *count* requests more, or less."""
        self.requests = max(0, self.requests + count)
        self.input = max(0, self.input + count * need.input)
        self.output = max(0, self.output + count * need.output)


class Lane(msgspec.Struct):
    """One key and model.

    Attributes:
        windows: The limits that are known, by name.
        shares: What is under way, by process.
        closed_until_us: Before that nothing is sent.
        width: How many may be under way while no limit is known.
        last: What the last request used.
        spread: By how many tokens requests differ from what was reserved for them.
    """

    windows: dict[str, Window] = {}
    shares: dict[str, Share] = {}
    closed_until_us: int = 0
    width: int = 1
    last: Need | None = None
    spread: float = 0.0

    def limit(self, per_minute: Mapping[str, int], now_us: int) -> None:
        """Keep limits that the caller knows; what a reply says of them is believed more."""
        for resource, limit in per_minute.items():
            if resource not in self.windows:
                window = Window(resource, limit, limit / MINUTE_S, limit, now_us)
                self.windows[resource] = window

    def update(
        self, now_us: int, process: str, backs: Iterable[Back], wants: Sequence[Want]
    ) -> Answer:
        """Take what came back, then give what there is.

        Args:
            now_us: This moment, in microseconds.
            process: Whose requests they are.
            backs: What became of earlier ones.
            wants: Those that wait, in their order.
        """
        for window in self.windows.values():
            window.fill(now_us)
        for name in [name for name, one in self.shares.items() if one.until_us <= now_us]:
            del self.shares[name]
        share = self.shares.setdefault(process, Share())
        share.until_us = now_us + round(SHARE_S * 1e6)
        for back in backs:
            self._take_back(back, share, now_us)
        if self.last is not None:
            wants = [Want(self.last, one.ahead_s) if one.is_guess else one for one in wants]
        delays = self._give(wants, share, now_us)
        given, left = wants[: len(delays)], wants[len(delays) :]
        ahead = 0 if left or not wants else self._give_ahead(wants[-1].need, share)
        if not share.requests:
            del self.shares[process]
        waits = tuple(self._waits_s(left, now_us))
        return Answer(tuple(one.need for one in given), tuple(delays), waits, ahead)

    def _take_back(self, back: Back, share: Share, now_us: int) -> None:
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
            self._learn(back.limits, back.age_s, now_us)
        if back.is_refused:
            wait_s = _CLOSED_S if back.retry_after_s is None else back.retry_after_s
            self.closed_until_us = max(self.closed_until_us, now_us + round(wait_s * 1e6))
            self.width = max(1, self.width // 2)
        elif back.is_sent:
            # One more for each that came back: after a round there are twice as many.
            self.width = min(self.width + 1, 1 << 20)

    def _learn(self, said: RateLimitState, age_s: float, now_us: int) -> None:
        """Correct the windows by what a reply says of them."""
        for one in said.windows:
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
            # What was given and has not arrived yet is in it, so it may be less than this.
            window.level = min(window.level, left + age_s * window.per_s)

    def _under_way(self, resource: str) -> int:
        return sum(
            one.requests
            if resource == Resource.REQUESTS
            else Need(one.input, one.output).of(resource)
            for one in self.shares.values()
        )

    def _give(self, wants: Sequence[Want], share: Share, now_us: int) -> list[float]:
        """In how many seconds each may be sent, until there is one that has to wait."""
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
            self._take(want.need, 1, share)
            delays.append(delay_s)
        return delays

    def _give_ahead(self, need: Need, share: Share) -> int:
        """Give a slice for requests to come, where there is plenty."""
        windows = [one for one in self.windows.values() if need.of(one.resource)]
        if not windows or any(one.level < one.limit / 2 for one in windows):
            return 0
        ahead = min(int(one.level / _SLICE / need.of(one.resource)) for one in windows)
        ahead = min(ahead, _MOST_AHEAD)
        self._take(need, ahead, share)
        return ahead

    def _take(self, need: Need, count: int, share: Share) -> None:
        share.add(need, count)
        for window in self.windows.values():
            # What is more than all of it passes when it is full, and is the provider's to refuse.
            window.level -= count * min(need.of(window.resource), window.limit)

    def _delay_s(self, need: Need) -> float:
        waits = (
            window.wait_s(units + self._margin(window))
            for window in self.windows.values()
            if (units := need.of(window.resource))
        )
        return max(waits, default=0.0)

    def _margin(self, window: Window) -> float:
        """How much is left in a window of tokens, since requests may be larger than they were."""
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
    """What a reply used; None if it does not say."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None if usage.total_tokens is None else Need(usage.total_tokens)
    return Need(usage.input_tokens or 0, usage.output_tokens or 0)
