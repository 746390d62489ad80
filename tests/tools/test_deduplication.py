"""Which repetitions are held back."""

import asyncio
from dataclasses import dataclass

import pytest

from upshot.contract import (
    Effect,
    ToolArtifactReference,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from upshot.tools.repetition import Deduplication

ANY = None
A = frozenset({"a"})
B = frozenset({"b"})
DONE = ToolExecutionResult("1", "t", effect=Effect.NONE)


@dataclass(eq=False)
class Call:
    """What deduplication needs of a call."""

    digest: str = "k"
    resources: frozenset[str] | None = A
    is_deduplicated: bool = False
    is_stale: bool = False
    is_overtaken: bool = False
    ended: asyncio.Future[None] | None = None


WRITE = Call("w")


def succeeded(digest: str = "k", call_id: str = "1") -> Deduplication:
    """Where a call of this digest has succeeded."""
    control, call = Deduplication(), Call(digest)
    control.enter(call)
    control.record(call, ToolExecutionResult(call_id, "t", effect=Effect.NONE), may_write=False)
    return control


@pytest.mark.parametrize("done", [DONE, ToolArtifactReference("1", "t", effect=Effect.NONE)])
def test_a_repetition_after_a_success_names_the_first_call(done: ToolOutcome):
    control, call = Deduplication(), Call()
    assert control.enter(call) is None
    control.record(call, done, may_write=False)
    assert control.enter(Call()) == control.done_by("k") == "1"


@pytest.mark.parametrize("outcome", [ToolFailure("1", "t"), ToolTimeout("1", "t")])
def test_after_anything_else_it_may_run_again(outcome: ToolOutcome):
    control, call = Deduplication(), Call()
    control.enter(call)
    control.record(call, outcome, may_write=False)
    assert control.enter(Call()) is None


async def test_an_equal_call_waits_until_the_first_has_ended():
    control, first = Deduplication(), Call()
    control.enter(first)
    waiting = control.enter(Call())
    assert isinstance(waiting, asyncio.Future)
    assert control.enter(Call()) is waiting
    control.record(first, DONE, may_write=False)
    assert waiting.done()
    assert control.enter(Call()) == "1"


async def test_an_equal_call_may_run_when_the_first_is_taken_back():
    control, first = Deduplication(), Call()
    control.enter(first)
    waiting = control.enter(Call())
    assert isinstance(waiting, asyncio.Future)
    control.leave(first)
    assert waiting.done()
    assert control.enter(Call()) is None


@pytest.mark.parametrize(
    ("touched", "forgotten"), [(A, True), (B, False), (ANY, True)], ids=["same", "other", "any"]
)
@pytest.mark.parametrize("effect", [Effect.APPLIED, Effect.UNKNOWN])
def test_a_write_forgets_what_shares_a_resource(
    touched: frozenset[str] | None, forgotten: bool, effect: Effect
):
    control = succeeded()
    write = ToolExecutionResult("2", "w", effect=effect)
    control.record(Call("w", touched), write, may_write=True)
    assert (control.enter(Call()) is None) is forgotten


def test_a_write_forgets_what_touches_several_resources_once():
    control, call = Deduplication(), Call("k", A | B)
    control.enter(call)
    control.record(call, DONE, may_write=False)
    control.expect_write(Call("w", A | B))
    assert control.enter(Call("k", A | B)) is None


def test_a_write_without_effect_forgets_nothing():
    control = succeeded()
    control.record(WRITE, ToolTimeout("2", "w", effect=Effect.NONE), may_write=True)
    assert control.enter(Call()) == "1"


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_read_that_a_write_overtook_is_not_remembered(has_begun: bool):
    control, read = Deduplication(), Call("read")
    control.enter(read)
    if has_begun:
        control.begin(read)
    control.record(WRITE, ToolExecutionResult("2", "w"), may_write=True)
    control.record(read, DONE, may_write=False)
    # One that had not begun has seen what was written.
    assert (control.enter(Call("read")) is None) is has_begun


def test_an_idempotent_write_is_remembered_itself():
    control, own = Deduplication(), Call("w")
    control.enter(own)
    control.expect_write(own)
    control.record(own, ToolExecutionResult("1", "w"), may_write=True)
    assert control.enter(Call("w")) == "1"


def test_what_comes_after_a_write_in_line_is_no_equal_of_what_came_before():
    control, before, after = Deduplication(), Call(), Call()
    control.enter(before)
    control.expect_write(WRITE)
    assert control.enter(after) is None
    control.record(before, DONE, may_write=False)
    control.record(after, ToolExecutionResult("3", "t", effect=Effect.NONE), may_write=False)
    assert control.enter(Call()) == "3"


@pytest.mark.parametrize("touched", [B, A, ANY], ids=["other", "same", "any"])
def test_a_write_in_line_forgets_what_succeeded_before_it(touched: frozenset[str] | None):
    control = succeeded()
    control.expect_write(Call("w", touched))
    assert (control.enter(Call()) is None) is (touched is not B)
