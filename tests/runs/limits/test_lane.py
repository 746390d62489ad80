"""What is given to whom: against a provider with token buckets, in a time of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract.usage import RateLimitState, RateLimitWindow, Usage
from upshot.runs.limits.lane import Back, Lane, Need, Want, need_of
from upshot.sim.token_buckets import LimitGauge, Limits

NEED = Need(900, 100)
NOW = Want(NEED, 2.0)
BATCH = Want(NEED, 0.25)


def said(**left: tuple[int, int]) -> RateLimitState:
    """What a reply says of each window: its limit, and what is left."""
    windows = (
        RateLimitWindow(name=name, resource=name, limit=limit, remaining=left)
        for name, (limit, left) in left.items()
    )
    return RateLimitState(windows=tuple(windows))


def both(limit: int, left: int) -> RateLimitState:
    return said(requests=(limit, left), tokens=(limit * 10, left))


def known(requests: int = 60, left: int = 60) -> Lane:
    """A lane whose window of requests is known."""
    lane = Lane()
    lane.update(0, "p", [Back(NEED, used=NEED, limits=said(requests=(requests, left)))], [])
    return lane


def test_before_a_window_is_known_one_goes_first() -> None:
    answer = Lane().update(0, "p", [], [NOW] * 5)
    assert (answer.delays_s, answer.waits_s) == ((0.0,), (None,) * 4)


def test_without_windows_the_number_under_way_doubles() -> None:
    lane, rounds = Lane(), list[int]()
    back: list[Back] = []
    for _ in range(5):
        rounds.append(len(lane.update(0, "p", back, [NOW] * 100).delays_s))
        back = [Back(NEED, used=NEED)] * rounds[-1]
    assert rounds == [1, 2, 4, 8, 16]


def test_those_under_way_in_other_processes_count() -> None:
    lane = Lane()
    lane.update(0, "p", [], [NOW])
    assert lane.update(0, "q", [], [NOW]).delays_s == ()


def test_what_a_dead_process_had_counts_no_more_after_a_minute() -> None:
    lane = Lane()
    lane.update(0, "p", [], [NOW])
    assert lane.update(61_000_000, "q", [], [NOW]).delays_s == (0.0,)


def test_limits_that_are_told_hold_before_any_reply() -> None:
    lane = Lane()
    lane.limit({"requests": 2, "tokens": 1_000_000}, 0)
    assert len(lane.update(0, "p", [], [BATCH] * 5).delays_s) == 2


def test_a_request_takes_its_place_ahead_of_its_time() -> None:
    lane = known(left=0)
    assert lane.update(0, "p", [], [NOW] * 5).delays_s == pytest.approx((1.0, 2.0))


def test_who_may_wait_takes_no_place_ahead_of_the_urgent() -> None:
    lane = known(left=0)
    lane.update(0, "p", [], [NOW])
    assert lane.update(900_000, "q", [], [BATCH]).delays_s == ()
    assert lane.update(900_000, "p", [], [NOW]).delays_s == pytest.approx((1.1,))


def test_those_that_wait_hear_for_how_long() -> None:
    answer = known(left=0).update(0, "p", [], [BATCH] * 3)
    assert answer.waits_s == pytest.approx((1.0, 2.0, 3.0))


def test_after_a_refusal_nothing_is_sent_until_it_says() -> None:
    lane = known()
    refused = Back(NEED, used=Need(), is_sent=False, is_refused=True, retry_after_s=3.0)
    lane.update(0, "p", [], [NOW])
    assert lane.update(0, "p", [refused], [NOW]).waits_s == (3.0,)
    assert lane.update(3_000_000, "p", [], [NOW]).delays_s == (0.0,)


def test_what_was_not_used_comes_back() -> None:
    lane = Lane()
    lane.limit({"tokens": 1000}, 0)
    assert lane.update(0, "p", [], [NOW]).delays_s == (0.0,)
    used = Back(NEED, used=Need(90, 10))
    assert lane.update(0, "p", [used], [Want(Need(700, 100), 0.0)]).delays_s == (0.0,)


def test_what_was_not_sent_comes_back_whole() -> None:
    lane = known(left=1)
    lane.update(0, "p", [], [BATCH])
    unsent = Back(NEED, used=Need(), is_sent=False)
    assert lane.update(0, "p", [unsent], [BATCH]).delays_s == (0.0,)


def test_a_reply_that_tells_of_less_is_believed() -> None:
    lane = known()
    lane.update(0, "p", [], [NOW])
    less = Back(NEED, used=NEED, limits=said(requests=(60, 0)))
    assert lane.update(0, "p", [less], [BATCH]).delays_s == ()


def test_a_request_that_is_larger_than_the_window_is_let_go_when_it_is_full() -> None:
    lane = Lane()
    lane.limit({"tokens": 500}, 0)
    assert lane.update(0, "p", [], [NOW]).delays_s == (0.0,)


def test_where_there_is_plenty_some_is_given_ahead() -> None:
    answer = known(1000, 1000).update(0, "p", [], [NOW])
    assert answer.ahead == 32


def test_nothing_is_given_ahead_where_half_is_gone() -> None:
    assert known(1000, 400).update(0, "p", [], [NOW]).ahead == 0


def test_a_window_of_a_day_fills_slower_than_one_of_a_minute() -> None:
    lane, day = (
        Lane(),
        RateLimitWindow(
            name="requests", resource="requests", limit=1000, remaining=0, resets_in=86_400
        ),
    )
    lane.update(0, "p", [Back(NEED, limits=RateLimitState(windows=(day,)))], [])
    assert lane.update(0, "p", [], [NOW]).waits_s == pytest.approx((86.4,))


def test_of_windows_that_count_something_else_nothing_is_held_back() -> None:
    lane = Lane()
    lane.update(0, "p", [Back(NEED, limits=said(images=(5, 0), requests=(60, 60)))], [])
    assert lane.update(0, "p", [], [NOW]).delays_s == (0.0,)


def test_a_first_request_takes_what_the_last_one_of_the_lane_used() -> None:
    lane = Lane()
    lane.update(0, "p", [Back(Need(1, 1), used=NEED, limits=said(tokens=(2200, 2200)))], [])
    guess = Want(Need(1, 1), 0.0, is_guess=True)
    assert len(lane.update(0, "p", [], [guess] * 3).needs) == 2


@pytest.mark.parametrize(
    ("usage", "need"),
    [
        (Usage(), None),
        (Usage(total_tokens=7), Need(7)),
        (Usage(input_tokens=3, output_tokens=4), Need(3, 4)),
    ],
    ids=["nothing", "the sum", "both"],
)
def test_what_was_used_is_what_the_reply_says(usage: Usage, need: Need | None) -> None:
    assert need_of(usage) == need


class World:
    """Processes that share a lane, and a provider that keeps its limits by token buckets."""

    def __init__(self, jobs: int, processes: int, limits: Limits, sizes: Callable[[int], Need]):
        self.lane, self.refused, self.ended_us = Lane(), 0, 0
        self._gauge, self._sizes = LimitGauge(limits, now=0.0), sizes
        self._waiting = {f"p{one}": jobs // processes for one in range(processes)}
        self._left = jobs // processes * processes
        self._number, self._looks = count(), set[str]()
        self._soon: list[tuple[int, int, Callable[[int], None]]] = []

    def run(self) -> None:
        for process in self._waiting:
            self._at(0, self._looking(process, []))
        while self._left:
            now_us, _, act = heappop(self._soon)
            self.ended_us = now_us
            act(now_us)

    def _at(self, when_us: int, act: Callable[[int], None]) -> None:
        heappush(self._soon, (when_us, next(self._number), act))

    def _looking(self, process: str, backs: list[Back]) -> Callable[[int], None]:
        def look(now_us: int) -> None:
            wants = [Want(Need(700, 200), 2.0, is_guess=True)] * self._waiting[process]
            answer = self.lane.update(now_us, process, backs, wants)
            self._waiting[process] -= len(answer.needs)
            ahead = min(answer.ahead, self._waiting[process])
            self._waiting[process] -= ahead
            needs = [*answer.needs, *answer.needs[-1:] * ahead]
            for need, delay_s in zip(needs, [*answer.delays_s, *[0.0] * ahead], strict=True):
                self._at(now_us + round(delay_s * 1e6) + 1000, self._arriving(process, need))
            if answer.ahead > ahead:
                rest = Back(needs[-1], answer.ahead - ahead, used=Need(), is_sent=False)
                self._at(now_us + 2_000_000, self._looking(process, [rest]))
            if self._waiting[process] and process not in self._looks:
                wait_s = answer.waits_s[0] if answer.waits_s else 0.0
                later_us = 250_000 if wait_s is None else max(10_000, round((wait_s - 2) * 1e6))
                self._looks.add(process)
                self._at(now_us + later_us, self._looking_again(process))

        return look

    def _looking_again(self, process: str) -> Callable[[int], None]:
        def look(now_us: int) -> None:
            self._looks.discard(process)
            self._looking(process, [])(now_us)

        return look

    def _arriving(self, process: str, need: Need) -> Callable[[int], None]:
        def arrive(now_us: int) -> None:
            used = self._sizes(next(self._number))
            refused = self._gauge.admit(tokens=used.input + used.output, now=now_us / 1e6)
            windows = tuple(
                RateLimitWindow(
                    name=one.resource,
                    resource=one.resource,
                    limit=one.limit,
                    remaining=one.remaining,
                    resets_in=int(one.reset_s) + 1,
                )
                for one in self._gauge.readings(now_us / 1e6)
            )
            state = RateLimitState(windows=windows)
            if refused is not None:
                self.refused += 1
                self._waiting[process] += 1
                back = Back(
                    need,
                    used=Need(),
                    is_sent=False,
                    limits=state,
                    is_refused=True,
                    retry_after_s=refused.retry_after_s,
                )
            else:
                self._left -= 1
                back = Back(need, used=used, limits=state, age_s=0.05)
            self._at(now_us + 50_000, self._looking(process, [back]))

        return arrive


@pytest.mark.parametrize(
    ("limits", "ideal_s"),
    [
        (Limits(requests_per_minute=100), 120.0),
        (Limits(tokens_per_minute=100_000), 102.0),
        (Limits(requests_per_minute=150, tokens_per_minute=100_000), 102.0),
    ],
    ids=["requests", "tokens", "both"],
)
def test_eight_processes_send_as_fast_as_the_provider_takes_it(
    limits: Limits, ideal_s: float
) -> None:
    world = World(304, 8, limits, lambda _: Need(800, 100))
    world.run()
    assert world.refused <= 0.02 * 304
    assert world.ended_us <= 1.05 * ideal_s * 1e6 + 2e6


def test_where_sizes_differ_few_are_refused() -> None:
    world = World(304, 8, Limits(tokens_per_minute=100_000), lambda n: Need(500 + n * 37 % 700, 50))
    world.run()
    assert world.refused <= 0.02 * 304


needs = st.builds(Need, st.integers(0, 10_000), st.integers(0, 10_000))
backs = st.builds(
    Back,
    needs,
    count=st.integers(1, 3),
    used=st.none() | needs,
    is_sent=st.booleans(),
    is_refused=st.booleans(),
    retry_after_s=st.none() | st.floats(0, 100),
    limits=st.none()
    | st.builds(
        both,
        st.integers(0, 500),
        st.integers(0, 600),
    ),
)
steps = st.tuples(
    st.integers(0, 5_000_000),
    st.sampled_from("pqr"),
    st.lists(backs, max_size=3),
    st.lists(st.builds(Want, needs, st.sampled_from([2.0, 0.25]), st.booleans()), max_size=5),
)


@given(st.lists(steps, max_size=15))
def test_whatever_happens_a_lane_can_be_kept_and_never_holds_more_than_its_limits(
    given_steps: list[Any],
) -> None:
    lane, now_us = Lane(), 0
    for after_us, process, told, wants in given_steps:
        now_us += after_us
        answer = lane.update(now_us, process, told, wants)
        assert len(answer.delays_s) == len(answer.needs) <= len(wants)
        assert len(answer.waits_s) == len(wants) - len(answer.needs)
        assert all(
            delay_s <= want.ahead_s for delay_s, want in zip(answer.delays_s, wants, strict=False)
        )
        assert all(window.level <= window.limit for window in lane.windows.values())
        lane = msgspec.json.decode(msgspec.json.encode(lane), type=Lane)


@given(st.lists(st.tuples(st.integers(0, 3_000_000), st.sampled_from("pqr")), max_size=40))
def test_no_more_is_given_than_the_window_holds_and_fills(looks: list[tuple[int, str]]) -> None:
    lane, now_us, sent = known(60, 60), 0, list[float]()
    for after_us, process in looks:
        now_us += after_us
        answer = lane.update(now_us, process, [], [NOW])
        sent += [now_us / 1e6 + delay_s for delay_s in answer.delays_s]
        sent += [now_us / 1e6] * answer.ahead
    for at_s in sent:
        assert sum(one <= at_s for one in sent) <= 60 + at_s + 1e-6
