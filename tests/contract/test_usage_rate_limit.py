"""Rate limits: windows and what they mean together."""

from typing import Any

import pytest

from upshot.contract import RateLimitState, RateLimitWindow, Resource
from upshot.contract.usage import complete_rate_limit


@pytest.mark.parametrize(
    ("remaining", "exhausted"), [(None, False), (1, False), (0, True), (-3, True)]
)
def test_a_window_is_exhausted_when_nothing_is_left(remaining: int | None, exhausted: bool) -> None:
    assert RateLimitWindow(remaining=remaining).exhausted is exhausted


def test_a_window_is_found_by_its_name() -> None:
    minute, day = RateLimitWindow(name="tokens_per_minute"), RateLimitWindow(name="tokens_per_day")
    windows: Any = [minute, day]
    state = RateLimitState(windows=windows)
    assert state.windows == (minute, day)
    assert state.window("tokens_per_day") is day
    assert state.window("requests") is None


def test_a_resource_of_a_providers_own_is_kept() -> None:
    resource: Any = "input_images"
    window = RateLimitWindow(resource=resource)
    assert isinstance(window.resource, Resource)
    assert window.resource == "input_images"
    assert RateLimitWindow().resource is Resource.REQUESTS


def test_whether_a_reply_was_limited_is_always_written() -> None:
    assert RateLimitState().limited is False


def windows_of(*given: Any) -> tuple[RateLimitWindow, ...]:
    return complete_rate_limit(RateLimitState(windows=given), now=100.0).windows


def test_both_forms_of_a_reset_are_known_where_one_is() -> None:
    wait, moment = windows_of(RateLimitWindow(resets_in=5), RateLimitWindow(reset_at=100.2))
    assert (wait.resets_in, wait.reset_at) == (5, 105.0)
    assert (moment.resets_in, moment.reset_at) == (1, 100.2)


@pytest.mark.parametrize("wait", [-3, 10**300])
def test_an_absurd_wait_makes_no_moment(wait: int) -> None:
    assert windows_of(RateLimitWindow(resets_in=wait))[0].reset_at is None


def test_an_absurd_moment_makes_no_wait() -> None:
    later, past = windows_of(RateLimitWindow(reset_at=1e300), RateLimitWindow(reset_at=-1e300))
    assert (later.resets_in, past.resets_in) == (None, 0)


def test_the_wait_is_the_longest_of_what_is_exhausted() -> None:
    state = RateLimitState(
        windows=(
            RateLimitWindow(remaining=0, resets_in=5),
            RateLimitWindow(remaining=0, resets_in=9),
            RateLimitWindow(remaining=1, resets_in=60),
        )
    )
    made = complete_rate_limit(state)
    assert (made.limited, made.retry_after) == (True, 9)


def test_a_wait_that_is_told_stays() -> None:
    windows = (RateLimitWindow(remaining=0, resets_in=9),)
    state = RateLimitState(limited=True, retry_after=2, windows=windows)
    assert complete_rate_limit(state).retry_after == 2
