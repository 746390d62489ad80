"""Headers, wherever a client library put them."""

from types import SimpleNamespace

import pytest

from upshot.native.objects import find_headers, find_rate_limit

LEFT = {"X-RateLimit-Remaining-Requests": "7"}


@pytest.mark.parametrize(
    "native",
    [
        SimpleNamespace(headers=LEFT),
        SimpleNamespace(response=SimpleNamespace(headers=LEFT)),
        SimpleNamespace(response={"headers": LEFT}),
        SimpleNamespace(_response_headers=LEFT),
        SimpleNamespace(litellm_response_headers=list(LEFT.items())),
        SimpleNamespace(_hidden_params={"additional_headers": LEFT}),
        {"_hidden_params": {"additional_headers": {"llm_provider-" + next(iter(LEFT)): "7"}}},
    ],
    ids=["own", "response", "mapping", "litellm", "litellm error", "hidden", "prefixed"],
)
def test_headers_are_found(native):
    assert find_headers(native) == {"x-ratelimit-remaining-requests": "7"}


def test_headers_of_several_places_are_joined_and_the_plain_ones_win():
    native = SimpleNamespace(
        headers={"a": "1"}, _hidden_params={"additional_headers": {"a": "2", "b": "3"}}
    )
    assert find_headers(native) == {"a": "1", "b": "3"}


def test_limits_that_litellm_copies_to_other_names_are_told_once():
    rewritten = {
        "llm_provider-anthropic-ratelimit-requests-limit": "50",
        "llm_provider-anthropic-ratelimit-requests-remaining": "49",
        "x-ratelimit-limit-requests": "50",
        "x-ratelimit-remaining-requests": "49",
    }
    state = find_rate_limit(
        find_headers(SimpleNamespace(_hidden_params={"additional_headers": rewritten}))
    )
    assert state is not None
    assert [(window.limit, window.remaining) for window in state.windows] == [(50, 49)]


def test_the_cause_of_an_exception_is_looked_at():
    cause = RuntimeError("429")
    cause.headers = {"retry-after": "3"}
    error = ValueError("wrapped")
    error.__cause__ = cause
    assert find_headers(error) == {"retry-after": "3"}


def test_secrets_stay_out():
    assert find_headers(SimpleNamespace(headers={"Set-Cookie": "a", "b": "1"})) == {"b": "1"}


@pytest.mark.parametrize("headers", [None, 3, "text", SimpleNamespace(items=lambda: 3), [1, 2]])
def test_what_is_no_headers_gives_none(headers):
    assert find_headers(SimpleNamespace(headers=headers)) == {}


def test_no_limit_known_is_no_state():
    assert find_rate_limit({"x": "1"}) is None


def test_a_refused_request_is_limited_although_no_window_says_so():
    state = find_rate_limit({}, limited=True, retry_after_s=2.5)
    assert (state.limited, state.retry_after, state.windows) == (True, 3, ())
