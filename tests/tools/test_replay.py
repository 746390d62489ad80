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
from upshot.tools.replay import ReplayControl

ANY = None
A = frozenset({"a"})
B = frozenset({"b"})
DONE = ToolExecutionResult("1", "t", effect=Effect.NONE)


def settle(
    control: ReplayControl,
    outcome: ToolOutcome,
    *,
    key: str | None = "k",
    resources: frozenset[str] | None = A,
    may_write: bool = False,
) -> None:
    control.record(outcome, key=key, resources=resources, may_write=may_write)


@pytest.mark.parametrize("done", [DONE, ToolArtifactReference("1", "t", effect=Effect.NONE)])
def test_a_repetition_after_a_success_names_the_first_call(done: ToolOutcome):
    control = ReplayControl()
    assert control.enter("k", A) is None
    settle(control, done)
    assert control.enter("k", A) == "1"


@pytest.mark.parametrize("outcome", [ToolFailure("1", "t"), ToolTimeout("1", "t")])
def test_after_anything_else_it_may_run_again(outcome: ToolOutcome):
    control = ReplayControl()
    control.enter("k", A)
    settle(control, outcome)
    assert control.enter("k", A) is None


async def test_a_twin_waits_until_the_first_has_ended():
    control = ReplayControl()
    control.enter("k", A)
    waiting = control.enter("k", A)
    assert isinstance(waiting, asyncio.Future)
    assert control.enter("k", A) is waiting
    settle(control, DONE)
    assert waiting.done()
    assert control.enter("k", A) == "1"


async def test_a_twin_may_run_when_the_first_is_taken_back():
    control = ReplayControl()
    control.enter("k", A)
    waiting = control.enter("k", A)
    control.leave("k")
    assert isinstance(waiting, asyncio.Future)
    assert waiting.done()
    assert control.enter("k", A) is None


@pytest.mark.parametrize(
    ("touched", "forgotten"), [(A, True), (B, False), (ANY, True)], ids=["same", "other", "any"]
)
@pytest.mark.parametrize("effect", [Effect.APPLIED, Effect.UNKNOWN])
def test_a_write_forgets_what_shares_a_resource(
    touched: frozenset[str] | None, forgotten: bool, effect: Effect
):
    control = ReplayControl()
    control.restore("k", "1", A)
    write = ToolExecutionResult("2", "w", effect=effect)
    settle(control, write, key=None, resources=touched, may_write=True)
    assert (control.enter("k", A) is None) is forgotten


def test_a_write_without_effect_forgets_nothing():
    control = ReplayControl()
    control.restore("k", "1", A)
    settle(control, ToolTimeout("2", "w", effect=Effect.NONE), key=None, may_write=True)
    assert control.enter("k", A) == "1"


def test_a_read_that_a_write_overtook_is_not_remembered():
    control = ReplayControl()
    control.enter("read", A)
    settle(control, ToolExecutionResult("2", "w"), key=None, may_write=True)
    settle(control, DONE, key="read")
    assert control.enter("read", A) is None


def test_an_idempotent_write_is_remembered_itself():
    control = ReplayControl()
    control.enter("w", A)
    settle(control, ToolExecutionResult("1", "w"), key="w", may_write=True)
    assert control.enter("w", A) == "1"


def test_clear_forgets_successes_and_keeps_flights():
    control = ReplayControl()
    control.restore("old", "1", A)
    control.enter("k", A)
    control.clear()
    assert control.enter("old", A) is None
    assert not isinstance(control.leave("k"), str)
