"""The token bucket: never more than the limit allows, and honest about what is left."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.sim import Limits
from upshot.sim.token_buckets import LimitGauge, TokenBucket

steps = st.lists(st.tuples(st.floats(0, 200, allow_nan=False), st.integers(0, 500)), max_size=40)


def test_a_bucket_starts_full_and_fills_evenly():
    bucket = TokenBucket(60, now=0)
    bucket.take(60, 0)
    assert bucket.level(0) == 0
    assert bucket.level(30) == 30
    assert bucket.level(3600) == 60


def test_a_bucket_says_how_long_to_wait_and_when_it_is_full():
    bucket = TokenBucket(60, now=0)
    bucket.take(50, 0)
    assert bucket.wait_s(20, 0) == 10
    assert bucket.wait_s(10, 0) == 0
    assert bucket.reset_s(0) == 50


def test_more_than_the_limit_can_never_be_taken():
    assert TokenBucket(60, now=0).wait_s(61, 0) is None


def test_a_clock_that_runs_back_fills_nothing():
    bucket = TokenBucket(60, now=100)
    bucket.take(60, 100)
    assert bucket.level(40) == 0
    assert bucket.level(101) == 1


@given(st.integers(1, 300), steps)
def test_no_sequence_takes_more_than_the_limit_and_what_flowed_in(limit, sequence):
    bucket, now, taken = TokenBucket(limit, now=0), 0.0, 0
    for elapsed_s, units in sequence:
        now += elapsed_s
        if bucket.wait_s(units, now) == 0:
            bucket.take(units, now)
            taken += units
        assert 0 <= bucket.level(now) <= limit
        assert taken <= limit + limit * now / 60 + 1e-3


@given(st.integers(1, 300), steps)
def test_whoever_waits_as_long_as_told_gets_through(limit, sequence):
    bucket, now = TokenBucket(limit, now=0), 0.0
    for elapsed_s, units in sequence:
        now += elapsed_s
        wait_s = bucket.wait_s(units, now)
        if wait_s is None:
            assert units > limit
            continue
        now += wait_s
        assert bucket.wait_s(units, now) == 0
        bucket.take(units, now)


def test_a_gauge_takes_from_all_buckets_or_from_none():
    gauge = LimitGauge(Limits(requests_per_minute=2, tokens_per_minute=100), now=0)
    assert gauge.admit(tokens=90, now=0) is None
    refused = gauge.admit(tokens=90, now=0)
    assert refused is not None
    assert (refused.reading.resource, refused.retry_after_s) == ("tokens", 48)
    assert [reading.remaining for reading in gauge.readings(0)] == [1, 10]


def test_a_request_larger_than_the_limit_is_never_let_through():
    gauge = LimitGauge(Limits(requests_per_minute=1, tokens_per_minute=10), now=0)
    refused = gauge.admit(tokens=11, now=0)
    assert refused is not None
    assert refused.retry_after_s is None


def test_no_limits_are_no_readings():
    gauge = LimitGauge(Limits(), now=0)
    assert gauge.admit(tokens=10**9, now=0) is None
    assert gauge.readings(0) == []


@pytest.mark.parametrize("field", ["requests_per_minute", "tokens_per_minute"])
def test_a_limit_below_one_is_refused(field):
    with pytest.raises(msgspec.ValidationError, match="at least 1"):
        msgspec.convert({field: 0}, Limits)
