"""Faults: which request they happen to, and how often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.errors import Misuse
from upshot.sim import CutFault, Latency, Limits, Reply, ResetFault, Scenario, StatusFault
from upshot.sim.faults import FaultBox, to_fault


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: StatusFault(status=200), "status must be 400 to 599, got 200"),
        (lambda: ResetFault(times=0), "times must be a whole number of at least 1"),
        (
            lambda: Limits(tokens_per_minute=0),
            "tokens_per_minute must be a whole number of at least 1",
        ),
        (lambda: Reply(chunk_chars=0), "chunk_chars must be a whole number of at least 1"),
        (
            lambda: Latency(first_byte_ms=-1),
            "first_byte_ms must be a whole number of at least 0, got -1",
        ),
        (Scenario, "a scenario needs `replies`"),
    ],
)
def test_what_cannot_be_played_is_misuse_where_it_is_made(make, told):
    with pytest.raises(Misuse, match=told):
        make()


class Seconds(float):
    """A float of another library."""


def test_numbers_of_a_status_fault_are_put_down_plainly():
    fault = StatusFault(status=429, headers={"x-n": 5}, retry_after_s=Seconds(1.5))
    assert (fault.headers, type(fault.retry_after_s)) == ({"x-n": "5"}, float)
    with pytest.raises(Misuse, match="headers"):
        StatusFault(status=429, headers={"x-n": None})


def test_a_fault_happens_once_unless_it_says_otherwise():
    fault = ResetFault()
    box = FaultBox([fault])
    assert [box.pick(0), box.pick(0)] == [fault, None]


def test_a_fault_without_times_left_makes_room_for_the_next():
    first, second = ResetFault(times=2), CutFault(times=None)
    box = FaultBox([first, second])
    assert [box.pick(0) for _ in range(4)] == [first, first, second, second]


@pytest.mark.parametrize(("at", "hit"), [(None, [0, 1, 2]), (1, [1]), ((0, 2), [0, 2])])
def test_a_fault_chooses_replies_by_their_index(at, hit):
    box = FaultBox([ResetFault(at=at, times=None)])
    assert [reply for reply in range(3) if box.pick(reply)] == hit


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=20))
def test_a_fault_never_happens_more_often_than_it_may(times, replies):
    box = FaultBox([ResetFault(at=1, times=times)])
    assert sum(box.pick(reply) is not None for reply in replies) == min(times, replies.count(1))


def test_a_fault_is_read_from_a_mapping():
    given_fault = {
        "kind": "status",
        "status": 429,
        "retry_after_s": 1.5,
        "at": [0, 3],
        "times": None,
    }
    assert to_fault(given_fault) == StatusFault(
        status=429, retry_after_s=1.5, at=(0, 3), times=None
    )


@pytest.mark.parametrize(
    ("given_fault", "told"),
    [
        ({"kind": "explode"}, "explode"),
        ({"status": 500}, "kind"),
        ({"kind": "status", "status": 200}, "status must be 400 to 599"),
        ({"kind": "cut", "after": 3}, "unknown field `after`"),
        ({"kind": "reset", "times": 0}, "times must be a whole number of at least 1"),
        ("reset", "expected `object`"),
    ],
)
def test_a_mapping_that_is_no_fault_is_misuse(given_fault, told):
    with pytest.raises(Misuse) as raised:
        to_fault(given_fault)
    assert told.lower() in str(raised.value).lower()
