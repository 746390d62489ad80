"""Rate limits: windows and what they mean together."""

from typing import Any

import pytest

from upshot.contract import RateLimitState, RateLimitWindow, Resource


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
