"""Which repetitions are held back."""

import asyncio

import pytest

from upshot.contract import (
    Effect,
    ToolArtifactReference,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from upshot.tools.repetition import Deduplication, Flight

ANY = None
A = frozenset({"a"})
B = frozenset({"b"})
DONE = ToolExecutionResult("1", "t", effect=Effect.NONE)


def settle(
    control: Deduplication,
    outcome: ToolOutcome,
    *,
    held: object = None,
    resources: frozenset[str] | None = A,
    may_write: bool = False,
) -> None:
    flight = held if isinstance(held, Flight) else None
    control.record(outcome, held=flight, resources=resources, may_write=may_write)


@pytest.mark.parametrize("done", [DONE, ToolArtifactReference("1", "t", effect=Effect.NONE)])
def test_a_repetition_after_a_success_names_the_first_call(done: ToolOutcome):
    control = Deduplication()
    settle(control, done, held=control.enter("k", A))
    assert control.enter("k", A) == "1"


@pytest.mark.parametrize("outcome", [ToolFailure("1", "t"), ToolTimeout("1", "t")])
def test_after_anything_else_it_may_run_again(outcome: ToolOutcome):
    control = Deduplication()
    settle(control, outcome, held=control.enter("k", A))
    assert isinstance(control.enter("k", A), Flight)


async def test_a_twin_waits_until_the_first_has_ended():
    control = Deduplication()
    first = control.enter("k", A)
    waiting = control.enter("k", A)
    assert isinstance(waiting, asyncio.Future)
    assert control.enter("k", A) is waiting
    settle(control, DONE, held=first)
    assert waiting.done()
    assert control.enter("k", A) == "1"


async def test_a_twin_may_run_when_the_first_is_taken_back():
    control = Deduplication()
    first = control.enter("k", A)
    waiting = control.enter("k", A)
    assert isinstance(first, Flight)
    control.leave(first)
    assert isinstance(waiting, asyncio.Future)
    assert waiting.done()
    assert isinstance(control.enter("k", A), Flight)


@pytest.mark.parametrize(
    ("touched", "forgotten"), [(A, True), (B, False), (ANY, True)], ids=["same", "other", "any"]
)
@pytest.mark.parametrize("effect", [Effect.APPLIED, Effect.UNKNOWN])
def test_a_write_forgets_what_shares_a_resource(
    touched: frozenset[str] | None, forgotten: bool, effect: Effect
):
    control = Deduplication()
    control.restore("k", "1", A)
    write = ToolExecutionResult("2", "w", effect=effect)
    settle(control, write, resources=touched, may_write=True)
    assert isinstance(control.enter("k", A), Flight) is forgotten


def test_a_write_without_effect_forgets_nothing():
    control = Deduplication()
    control.restore("k", "1", A)
    settle(control, ToolTimeout("2", "w", effect=Effect.NONE), may_write=True)
    assert control.enter("k", A) == "1"


def test_a_read_that_a_write_overtook_is_not_remembered():
    control = Deduplication()
    read = control.enter("read", A)
    assert isinstance(read, Flight)
    read.began = True
    settle(control, ToolExecutionResult("2", "w"), may_write=True)
    settle(control, DONE, held=read)
    assert isinstance(control.enter("read", A), Flight)


def test_an_idempotent_write_is_remembered_itself():
    control = Deduplication()
    own = control.enter("w", A)
    assert isinstance(own, Flight)
    control.expect_write(A, held=own)
    settle(control, ToolExecutionResult("1", "w"), held=own, may_write=True)
    assert control.enter("w", A) == "1"


def test_clear_forgets_successes_and_keeps_flights():
    control = Deduplication()
    control.restore("old", "1", A)
    flight = control.enter("k", A)
    control.clear()
    assert isinstance(control.enter("old", A), Flight)
    assert isinstance(flight, Flight)
    assert control.leave(flight)


def test_what_comes_after_a_write_in_line_is_no_twin_of_what_came_before():
    control = Deduplication()
    before = control.enter("k", A)
    control.expect_write(A, held=None)
    after = control.enter("k", A)
    assert isinstance(after, Flight)
    settle(control, DONE, held=before)
    settle(control, ToolExecutionResult("3", "t", effect=Effect.NONE), held=after)
    assert control.enter("k", A) == "3"


@pytest.mark.parametrize("touched", [B, A, ANY], ids=["other", "same", "any"])
def test_a_write_in_line_forgets_what_succeeded_before_it(touched: frozenset[str] | None):
    control = Deduplication()
    control.restore("k", "1", A)
    control.expect_write(touched, held=None)
    assert isinstance(control.enter("k", A), Flight) is (touched is not B)
