"""Rate-limit headers of every family."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire import build_rate_limit_state, build_rate_limit_windows

NOW = 1_700_000_000.0

OPENAI = {
    "x-ratelimit-limit-requests": "5000",
    "x-ratelimit-remaining-requests": "4999",
    "x-ratelimit-reset-requests": "12ms",
    "x-ratelimit-limit-tokens": "160000",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "6m30s",
}


def window(headers, name):
    return build_rate_limit_state(headers, now=NOW).window(name)


def test_openai_names_what_it_counts():
    requests, tokens = build_rate_limit_windows(OPENAI, now=NOW)
    assert (requests.name, requests.limit, requests.remaining, requests.resets_in) == (
        "requests", 5000, 4999, 1,
    )  # fmt: skip
    assert (tokens.resource, tokens.resets_in, tokens.reset_at) == ("tokens", 390, NOW + 390)


def test_anthropic_names_the_moment():
    headers = {
        "Anthropic-RateLimit-Input-Tokens-Limit": "10000",
        "anthropic-ratelimit-input-tokens-remaining": "9000",
        "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:14:20.5Z",
    }
    found = window(headers, "input_tokens")
    assert (found.resource, found.limit, found.remaining) == ("input_tokens", 10000, 9000)
    assert (found.resets_in, found.reset_at) == (61, NOW + 60.5)


# Synthetic, after Cerebras' documentation: no recorded reply has these headers.
def test_a_cerebras_bucket_without_reset_is_estimated():
    headers = {
        "x-ratelimit-limit-requests-day": "1000",
        "x-ratelimit-remaining-requests-day": "0",
        "x-ratelimit-reset-requests-day": "33011.382867",
        "x-ratelimit-limit-tokens-minute": "60000",
        "x-ratelimit-remaining-tokens-minute": "60000",
    }
    day = window(headers, "requests_per_day")
    minute = window(headers, "tokens_per_minute")
    assert (day.resets_in, day.estimated) == (33012, False)
    assert (minute.resets_in, minute.reset_at, minute.estimated) == (60, NOW + 60, True)


@pytest.mark.parametrize(
    ("header", "name", "resource", "wait"),
    [
        ("x-ratelimit-limit-req-minute", "requests_per_minute", "requests", 60),
        ("x-ratelimit-limit-req-10-second", "requests_per_10_second", "requests", 10),
        ("x-ratelimit-limit-tokens-month", "tokens_per_month", "tokens", None),
        ("x-ratelimit-limit-project-tokens", "project_tokens", "project_tokens", None),
        ("x-ratelimit-limit-input-images", "input_images", "input_images", None),
        ("x-ratelimit-limit", "requests", "requests", None),
        ("ratelimit-limit", "requests", "requests", None),
        ("x-rate-limit-limit", "requests", "requests", None),
        ("acme-ratelimit-jobs-limit", "jobs", "jobs", None),
    ],
)
def test_windows_are_named_after_their_header(header, name, resource, wait):
    (found,) = build_rate_limit_windows({header: "7"}, now=NOW)
    assert (found.name, found.resource, found.limit, found.resets_in) == (name, resource, 7, wait)


@pytest.mark.parametrize(
    "reset",
    ["60", "1m", str(int(NOW) + 60), str((int(NOW) + 60) * 1000), "2023-11-14T22:14:20Z"],
    ids=["seconds", "duration", "epoch", "epoch-ms", "rfc3339"],
)
def test_both_reset_forms_are_filled(reset):
    (found,) = build_rate_limit_windows(
        {"x-ratelimit-limit": "7", "x-ratelimit-reset": reset}, now=NOW
    )
    assert (found.resets_in, found.reset_at) == (60, NOW + 60)


def test_a_junk_reset_leaves_its_window_without_one():
    (found,) = build_rate_limit_windows({"x-ratelimit-limit": "7", "x-ratelimit-reset": "XXX"})
    assert (found.resets_in, found.reset_at) == (None, None)


def test_one_masked_half_still_makes_a_window():
    (found,) = build_rate_limit_windows({"x-ratelimit-limit": "XXX", "x-ratelimit-remaining": "3"})
    assert (found.limit, found.remaining) == (None, 3)


@pytest.mark.parametrize("value", ["XXX", "1,000", "-1", "", "9" * 400])
def test_masked_and_absurd_values_make_no_window(value):
    assert build_rate_limit_windows({"x-ratelimit-limit": value}) == ()


@pytest.mark.parametrize(
    "name", ["x-ratelimit", "x-ratelimit-tokens-query-cost", "x-ratelimit-key", "content-length"]
)
def test_other_headers_make_no_window(name):
    assert build_rate_limit_windows({name: "7"}) == ()


def test_windows_of_two_families_stand_side_by_side():
    headers = {
        "x-ratelimit-limit-requests": "1",
        "anthropic-ratelimit-requests-limit": "2",
        "x-ratelimit-limit-requests-day": "3",
    }
    assert [found.limit for found in build_rate_limit_windows(headers)] == [1, 2, 3]


def test_plain_and_proxied_copies_make_one_window():
    copies = {f"llm_provider-{name}": value for name, value in OPENAI.items()}
    assert build_rate_limit_windows({**copies, **OPENAI}, now=NOW) == build_rate_limit_windows(
        OPENAI, now=NOW
    )


def test_an_exhausted_window_limits_and_tells_how_long():
    state = build_rate_limit_state(OPENAI, now=NOW)
    assert (state.limited, state.retry_after) == (True, 390)


@pytest.mark.parametrize(
    ("headers", "argument", "wait"),
    [
        ({"retry-after": "1.2"}, None, 2),
        ({"retry-after": "10"}, 5, 5),
        ({"retry-after": "10"}, float("nan"), 10),
        ({"retry-after": "10"}, -1, 10),
        ({"retry-after": "junk", **OPENAI}, None, 390),
        ({}, None, None),
    ],
    ids=["header", "argument", "nan", "negative", "junk", "nothing"],
)
def test_retry_after_is_the_first_that_is_known(headers, argument, wait):
    assert build_rate_limit_state(headers, argument, now=NOW).retry_after == wait


names = st.builds(
    "{}{}-{}-{}".format,
    st.sampled_from(["x-", "anthropic-", "", "llm_provider-x-", "X-"]),
    st.sampled_from(["ratelimit", "RateLimit", "rate-limit"]),
    st.sampled_from(["limit", "remaining", "reset", "requests", "input-tokens"]),
    st.sampled_from(["limit", "remaining", "reset", "tokens-minute", "req-10-second", "-", ""]),
)
texts = (
    st.text()
    | st.integers(-5, 10**30).map(str)
    | st.sampled_from(
        ["0s", "6m30s", "nan", "inf", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"]
    )
)


@given(st.dictionaries(names, texts), st.floats(0, 1e10))
def test_reading_never_raises_and_both_resets_agree(headers, now):
    for found in build_rate_limit_state(headers, now=now).windows:
        assert (found.resets_in is None) == (found.reset_at is None)
        assert found.resets_in is None or found.resets_in >= 0
        assert found.limit is not None or found.remaining is not None
