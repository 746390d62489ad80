"""Which bodies run together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.tools.execution.locks import Claim, Locks


def claim(writes: bool, *resources: str, anything: bool = False) -> Claim:
    return Claim(writes, None if anything else frozenset(resources))


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (claim(False, "a"), claim(False, "a"), True),
        (claim(False, anything=True), claim(False, anything=True), True),
        (claim(True, "a"), claim(True, "b"), True),
        (claim(True, "a"), claim(True, "a", "b"), False),
        (claim(True, "a"), claim(False, "a"), False),
        (claim(True, "a"), claim(False, "b"), True),
        (claim(True, "a"), claim(False, anything=True), False),
        (claim(True, anything=True), claim(False, "a"), False),
        (claim(True, anything=True), claim(True, "a"), False),
        (claim(True), claim(True, anything=True), False),
    ],
)
def test_bodies_run_together_unless_one_writes_what_the_other_touches(
    one: Claim, other: Claim, together: bool
):
    assert one.conflicts(other) is not together
    assert other.conflicts(one) is not together


async def test_the_next_in_line_runs_when_the_way_is_free():
    locks = Locks()
    first, second, third = claim(True, "a"), claim(False, "a"), claim(True, "a")
    assert locks.enter(first)
    assert not locks.enter(second)
    assert not locks.enter(third)
    locks.leave(first)
    assert second.free is not None
    assert second.free.done()
    assert third.free is not None
    assert not third.free.done()
    locks.leave(second)
    assert third.free.done()


async def test_one_that_gives_up_waiting_lets_others_pass():
    locks = Locks()
    reader, writer, late = claim(False, "a"), claim(True, "a"), claim(False, "a")
    locks.enter(reader)
    locks.enter(writer)
    assert not locks.enter(late)
    locks.leave(writer)
    assert late.free is not None
    assert late.free.done()


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.none() | st.frozensets(st.sampled_from("abc"), max_size=2),
        ),
        max_size=8,
    ),
    st.randoms(),
)
async def test_no_order_of_ends_leaves_anybody_waiting_or_breaks_a_rule(
    placed_answers: list[tuple[bool, frozenset[str] | None]], random: Any
):
    locks = Locks()
    waiting = [Claim(*wish) for wish in placed_answers]
    for one in waiting:
        locks.enter(one)
    while waiting:
        running = [one for one in waiting if one.free is None or one.free.done()]
        assert running
        assert not any(a.conflicts(b) for a in running for b in running if a is not b)
        ended = random.choice(running)
        waiting.remove(ended)
        locks.leave(ended)


@pytest.mark.parametrize(
    "kinds",
    [
        [claim(True, anything=True)],
        [claim(False, anything=True), claim(True, "a")],
        [claim(True, "a"), claim(False, "a", "b"), claim(False, anything=True)],
    ],
    ids=["writes of anything", "reads of anything and writes", "mixed"],
)
async def test_a_line_of_a_thousand_compares_no_claim_with_all_others(kinds: list[Claim]):
    locks = Locks()
    line = [Claim(kind.writes, kind.resources) for kind in kinds * (1_000 // len(kinds))]
    for one in line:
        locks.enter(one)
    assert sum(len(one.ahead or ()) for one in line) < 4 * len(line)


async def test_what_waited_behind_one_that_gives_up_still_waits_for_what_runs():
    locks = Locks()
    running, waiting, last = claim(True, "a"), claim(True, "a", "b"), claim(True, "a")
    locks.enter(running)
    locks.enter(waiting)
    assert not locks.enter(last)
    locks.leave(waiting)
    assert last.free is not None
    assert not last.free.done()
    locks.leave(running)
    assert last.free.done()
