"""Gates on what is left: cancel, deadline, budget."""

from typing import Any

import pytest

from upshot.contract import Budget, RunInfo, ToolCall, ToolDenied, ToolOutcome
from upshot.testing import FakeClock
from upshot.tools import Toolbox, tool


@tool(effect="read")
async def look(a: int = 0) -> int:
    return a


@tool(effect="read", min_useful_s=5)
async def long_look(a: int = 0) -> int:
    return a


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(f"c{place}", name, {"a": place}) for place, name in enumerate(names)]


def reasons(outcomes: list[ToolOutcome]) -> list[str]:
    return [str(one.reason) if isinstance(one, ToolDenied) else "" for one in outcomes]


async def test_after_a_cancel_nothing_runs_until_the_next_turn():
    box = Toolbox([look])
    box.cancel()
    assert reasons(await box.dispatch(calls("look"))) == ["cancelled"]
    box.new_turn()
    assert reasons(await box.dispatch(calls("look"))) == [""]


async def test_after_the_deadline_nothing_runs_until_the_next_turn():
    clock = FakeClock()
    box = Toolbox([look], budget=Budget(deadline_s=10), clock=clock)
    assert reasons(await box.dispatch(calls("look"))) == [""]
    await clock.sleep(10)
    assert reasons(await box.dispatch(calls("look"))) == ["deadline"]
    box.new_turn()
    assert reasons(await box.dispatch(calls("look"))) == [""]


async def test_a_deadline_of_a_run_does_not_move_with_the_turn():
    clock = FakeClock()
    box = Toolbox([look], clock=clock, deadline=clock.monotonic() + 10, identity=RunInfo())
    await clock.sleep(11)
    box.new_turn()
    assert reasons(await box.dispatch(calls("look"))) == ["deadline"]


async def test_a_tool_is_not_started_with_less_time_than_it_can_use():
    clock = FakeClock()
    box = Toolbox([look, long_look], budget=Budget(deadline_s=10), clock=clock)
    await clock.sleep(6)
    outcomes = await box.dispatch(calls("look", "long_look"))
    assert reasons(outcomes) == ["", "deadline"]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budget(max_tool_calls=2), ["", "", "budget"]),
        (Budget(max_calls_per_tool=1), ["", "", "budget"]),
        (Budget(max_tool_calls=0), ["budget"] * 3),
        (Budget(), ["", "", ""]),
    ],
    ids=str,
)
async def test_a_batch_gets_what_the_budget_has_left_in_call_order(
    budget: Budget, expected: list[str]
):
    box = Toolbox([look, long_look], budget=budget)
    assert reasons(await box.dispatch(calls("look", "long_look", "look"))) == expected


async def test_only_calls_that_started_count():
    box = Toolbox([look], budget=Budget(max_tool_calls=1))
    bad = [ToolCall("x", "look", {"a": "x"}), ToolCall("y", "nope")]
    await box.dispatch(bad)
    assert reasons(await box.dispatch(calls("look", "look"))) == ["", "budget"]


@pytest.mark.parametrize(
    ("identity", "after"), [(None, ""), (RunInfo(run_id="r"), "budget")], ids=["bare", "run"]
)
async def test_a_new_turn_renews_the_budget_of_a_bare_toolbox_only(identity: Any, after: str):
    box = Toolbox([look], budget=Budget(max_tool_calls=1), identity=identity)
    await box.dispatch(calls("look"))
    box.new_turn()
    assert reasons(await box.dispatch(calls("look"))) == [after]


async def test_a_budget_denial_says_what_was_reached():
    box = Toolbox([look], budget=Budget(max_tool_calls=0))
    outcome = (await box.dispatch(calls("look")))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.details == "max_tool_calls: 0 of 0 are used"


async def test_denials_are_limited_over_turns_of_a_run_and_restored():
    box = Toolbox([look], budget=Budget(max_denials=2), identity=RunInfo())
    assert reasons(await box.dispatch(calls("nope", "look"))) == ["unknown_tool", ""]
    box.new_turn()
    assert reasons(await box.dispatch(calls("nope", "look"))) == ["unknown_tool", "budget"]
    again = Toolbox([look], budget=Budget(max_denials=2), identity=RunInfo())
    again.restore(box.records)
    assert reasons(await again.dispatch(calls("look"))) == ["budget"]


async def test_a_limit_that_others_count_denies():
    said = [""]
    box = Toolbox([look], spent=lambda: said[0])
    assert reasons(await box.dispatch(calls("look"))) == [""]
    said[0] = "the tokens are used up"
    box.new_turn()
    outcome = (await box.dispatch(calls("look")))[0]
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.details) == ("budget", "the tokens are used up")
