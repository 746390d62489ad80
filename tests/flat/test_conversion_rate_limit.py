"""Rate limits as flat code reads them."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import RateLimitState, RateLimitWindow, Resource
from upshot.flat import (
    build_rate_limit_state,
    build_rate_limit_windows,
    extract_cerebras_rate_limits,
    extract_rate_limit_info,
)

NOW = 1_750_000_000.0
MINUTE = {
    "x-ratelimit-remaining-requests-minute": "0",
    "x-ratelimit-limit-requests-minute": "60",
}


def test_no_headers_no_windows():
    assert build_rate_limit_windows({}) == []
    assert build_rate_limit_state({}) == {"limited": False, "windows": []}


def test_a_window_is_a_dict_of_what_is_known():
    [window] = build_rate_limit_windows({"x-ratelimit-remaining-tokens": "10"})
    assert window == {"name": "tokens", "resource": "tokens", "remaining": 10}
    assert isinstance(window, dict)


def test_the_length_of_a_bucket_is_its_reset_where_no_other_is_told():
    [window] = build_rate_limit_windows(MINUTE, now=NOW)
    assert (window["name"], window["limit"]) == ("requests_per_minute", 60)
    assert (window["resets_in"], window["reset_at"]) == (60, NOW + 60)
    assert window["estimated"] is True


def test_durations_are_read_as_seconds():
    headers = {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6m30s"}
    assert build_rate_limit_windows(headers)[0]["resets_in"] == 390


def test_a_state_has_its_windows_as_dicts():
    state = build_rate_limit_state(MINUTE, now=NOW)
    assert state["limited"] is True
    assert state["windows"][0]["remaining"] == 0
    assert state["retry_after"] == 60


def test_the_callers_wait_wins():
    assert build_rate_limit_state({"retry-after": "60"}, 120)["retry_after"] == 120
    assert build_rate_limit_state({"retry-after": "60"})["retry_after"] == 60


def test_attributes_are_those_of_the_struct():
    state = build_rate_limit_state(MINUTE, now=NOW)
    assert state.limited is True
    assert state.windows[0].resource is Resource.REQUESTS
    assert build_rate_limit_windows({"x-ratelimit-limit-tokens": "5"})[0].remaining is None
    assert isinstance(state.value, RateLimitState)
    assert isinstance(build_rate_limit_windows(MINUTE)[0].value, RateLimitWindow)


def test_an_attribute_that_no_struct_has_is_an_error():
    with pytest.raises(AttributeError):
        _ = build_rate_limit_state({}).nothing


def test_a_view_is_json_and_can_be_copied():
    state = build_rate_limit_state(MINUTE, now=NOW)
    assert json.loads(json.dumps(state)) == state
    for other in (copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert other == state
        assert other.limited is True


def test_one_figure_for_requests_and_one_for_tokens():
    info = extract_rate_limit_info(
        {
            "anthropic-ratelimit-requests-remaining": "100",
            "anthropic-ratelimit-requests-limit": "1000",
            "anthropic-ratelimit-tokens-remaining": "5",
            "Retry-After": "9",
        }
    )
    assert (info.remaining_requests, info.limit_requests, info.remaining_tokens) == (100, 1000, 5)
    assert info.retry_after == 9
    assert info.raw_headers["anthropic-ratelimit-tokens-remaining"] == "5"


def test_a_reset_without_a_count_says_until_when_to_wait():
    info = extract_rate_limit_info({"x-ratelimit-reset-requests": "2s", "a": "1"}, now=NOW)
    assert info.reset_at == NOW + 2
    assert info.get_retry_delay(now=NOW) == 2


def test_buckets_are_read_from_the_raw_headers():
    info = extract_rate_limit_info({**MINUTE, "x-ratelimit-remaining-tokens-day": "9"})
    found = extract_cerebras_rate_limits(info.raw_headers)
    assert (found.remaining_requests_minute, found.remaining_tokens_day) == (0, 9)


@given(
    st.dictionaries(
        st.sampled_from(
            ["x-ratelimit-reset-requests", "x-ratelimit-remaining-tokens", "retry-after"]
        )
        | st.text(),
        st.sampled_from(["", "0", "6m", "-1", "1e999", "2024-01-01T00:00:00Z", "99" * 30])
        | st.text(),
    )
)
def test_no_headers_make_it_raise(headers):
    assert build_rate_limit_state(headers).value is not None
    extract_rate_limit_info(headers)
