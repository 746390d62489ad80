"""Retry on a clock that takes no time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import AgentError, ErrorCode, ModelResponse, RateLimitState, Retry
from upshot.models import ScriptedModel, call_with_retry
from upshot.testing.doubles import FakeClock

BUSY = AgentError(ErrorCode.SERVER_ERROR, "busy", retryable=True)
PATIENT = Retry()
WRONG = AgentError(ErrorCode.INVALID_REQUEST, "wrong")


def limited(retry_after_s: float | None) -> AgentError:
    return AgentError(
        ErrorCode.RATE_LIMIT, "slow down", retryable=True, retry_after_s=retry_after_s
    )


async def play(script, retry=PATIENT, *, deadline=None, draw=0.0, on_retry=None):
    model, clock = ScriptedModel(script), FakeClock()
    response, tries = await call_with_retry(
        lambda: model.call("hi"),
        retry,
        clock=clock,
        deadline_monotonic=deadline,
        draw=lambda: draw,
        on_retry=on_retry,
    )
    return response, tries, clock.sleeps


async def test_a_good_reply_is_asked_for_once():
    response, tries, sleeps = await play(["ok", "more"])
    assert (response.content, tries, sleeps) == ("ok", 1, [])


async def test_a_retryable_error_is_tried_again_with_doubling_waits():
    response, tries, sleeps = await play([BUSY, BUSY, BUSY, "ok"])
    assert (response.content, tries, sleeps) == ("ok", 4, [0.5, 1, 2])


@pytest.mark.parametrize("retry", [Retry(), None], ids=["final error", "no retry"])
async def test_is_not_tried_again(retry):
    response, tries, _ = await play([WRONG if retry else BUSY, "ok"], retry)
    assert (response.success, tries) == (False, 1)


async def test_gives_up_after_max_tries_with_the_last_error():
    last = AgentError(ErrorCode.SERVER_ERROR, "last", retryable=True)
    response, tries, sleeps = await play([BUSY, last, "never"], Retry(max_tries=2))
    assert (response.error, tries, len(sleeps)) == (last, 2, 1)


async def test_retry_after_is_a_floor():
    assert (await play([limited(7.5), "ok"]))[2] == [7.5]


async def test_retry_after_of_the_windows_counts_where_the_error_tells_none():
    reply = ModelResponse(error=BUSY, rate_limit=RateLimitState(retry_after=9))
    assert (await play([reply, "ok"]))[2] == [9]


async def test_a_short_retry_after_does_not_shorten_the_wait():
    assert (await play([limited(0.1), "ok"]))[2] == [0.5]


async def test_jitter_lengthens_by_up_to_half_of_the_backoff():
    assert (await play([limited(7.5), "ok"], draw=0.999))[2] == [pytest.approx(7.75, abs=0.01)]


async def test_a_wait_over_the_longest_is_not_begun():
    response, tries, sleeps = await play([limited(61), "ok"])
    assert (response.error, tries, sleeps) == (limited(61), 1, [])


async def test_an_error_that_is_given_up_says_how_long_the_windows_ask_to_wait():
    reply = ModelResponse(error=BUSY, rate_limit=RateLimitState(retry_after=90))
    response, _, _ = await play([reply])
    assert response.error is not None
    assert response.error.retry_after_s == 90


async def test_a_wait_that_reaches_the_deadline_is_not_begun():
    response, tries, sleeps = await play([limited(5), limited(5), "ok"], deadline=9)
    assert (response.error, tries, sleeps) == (limited(5), 2, [5])


async def test_each_failed_try_is_told_before_its_wait():
    told = []

    async def on_retry(tries, wait_s, response):
        told.append((tries, wait_s, response.error))

    await play([BUSY, limited(3), "ok"], on_retry=on_retry)
    assert told == [(1, 0.5, BUSY), (2, 3, limited(3))]


async def test_a_plain_function_can_be_told_too():
    told = []
    await play([BUSY, "ok"], on_retry=lambda *facts: told.append(facts[0]))
    assert told == [1]


@given(
    waits=st.lists(st.none() | st.floats(0, 1e9), max_size=6),
    retry=st.builds(
        Retry,
        max_tries=st.integers(1, 200),
        max_wait_s=st.floats(0, 1e6),
        base_s=st.floats(0, 1e6),
    ),
    draw=st.floats(0, 0.999),
    deadline=st.none() | st.floats(0, 1e6),
)
async def test_no_wait_is_under_its_floor_over_the_limit_or_past_the_deadline(
    waits, retry, draw, deadline
):
    script = [*map(limited, waits), "ok"]
    _, tries, sleeps = await play(script, retry, deadline=deadline, draw=draw)
    assert tries == len(sleeps) + 1 <= retry.max_tries
    assert all(wait >= (floor or 0) for wait, floor in zip(sleeps, waits, strict=False))
    assert all(wait <= retry.max_wait_s for wait in sleeps)
    assert deadline is None or sum(sleeps) <= deadline
