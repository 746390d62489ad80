"""How often a tool may be called, and when it is left alone."""

from typing import Any

import pytest

from upshot.contract import DeniedReason, ToolCall, ToolDenied
from upshot.errors import Misuse
from upshot.testing import FakeClock
from upshot.tools import Circuit, Denial, Rate, Toolbox, ToolError, tool


@tool(effect="read", rate=Rate(2, per_s=10))
async def poll() -> int:
    return 1


@tool(effect="read", circuit=Circuit(failures=2, open_s=30))
async def shaky(fails: bool = True) -> int:
    if fails:
        raise ToolError("down")
    return 1


async def ends(box: Toolbox, name: str, *arguments: dict[str, Any]) -> list[str]:
    """What came of calls, one after the other."""
    found: list[str] = []
    for one in arguments:
        outcome = (await box.dispatch([ToolCall(f"c{len(box.records)}", name, one)]))[0]
        found.append(outcome.reason if isinstance(outcome, ToolDenied) else outcome.kind)
    return found


async def test_a_tool_is_called_no_more_often_than_its_rate_and_again_as_time_goes_by():
    clock = FakeClock()
    box = Toolbox([poll], clock=clock)
    assert await ends(box, "poll", {}, {}, {}) == [
        "tool_execution_result",
        "tool_execution_result",
        "rate_limited",
    ]
    await clock.sleep(5)
    assert await ends(box, "poll", {}, {}) == ["tool_execution_result", "rate_limited"]


async def test_the_calls_of_one_reply_count_one_by_one_and_over_turns():
    box = Toolbox([poll], clock=FakeClock())
    outcomes = await box.dispatch([ToolCall(id, "poll") for id in "123"])
    assert [isinstance(outcome, ToolDenied) for outcome in outcomes] == [False, False, True]
    assert outcomes[2].details.endswith("call it again in 5 s at the earliest")  # type: ignore[union-attr]
    box.new_turn()
    assert await ends(box, "poll", {}) == ["rate_limited"]


async def test_a_denied_call_costs_nothing_of_the_rate():
    box = Toolbox([poll.but(approval=True)], approve=lambda call: False, clock=FakeClock())
    assert await ends(box, "poll", {}, {}, {}) == ["write_denied"] * 3


async def test_a_call_that_is_refused_at_its_start_costs_nothing_of_the_rate():
    denials: list[Denial | None] = [Denial(DeniedReason.POLICY, "not now"), None, None]
    once = poll.but(rate=Rate(1))
    box = Toolbox([once], clock=FakeClock(), at_start=lambda case: denials.pop(0))
    assert await ends(box, "poll", {}, {}, {}) == [
        "policy",
        "tool_execution_result",
        "rate_limited",
    ]


async def test_a_try_that_is_refused_at_its_start_is_left_to_the_next_call():
    clock = FakeClock()
    denials: list[Denial | None] = [None, None, Denial(DeniedReason.POLICY, "not now"), None]
    box = Toolbox([shaky], clock=clock, at_start=lambda case: denials.pop(0))
    await ends(box, "shaky", {}, {})
    await clock.sleep(30)
    tried = await ends(box, "shaky", {}, {"fails": False})
    assert tried == ["policy", "tool_execution_result"]


async def test_after_failures_in_a_row_the_tool_is_left_alone_then_tried_once():
    clock = FakeClock()
    box = Toolbox([shaky], clock=clock)
    assert await ends(box, "shaky", {}, {}, {}) == ["tool_failure", "tool_failure", "circuit_open"]
    await clock.sleep(30)
    calls = [ToolCall("x", "shaky"), ToolCall("y", "shaky")]
    outcomes = await box.dispatch(calls)
    assert [outcome.kind for outcome in outcomes] == ["tool_failure", "tool_denied"]
    assert await ends(box, "shaky", {}) == ["circuit_open"]


async def test_a_success_closes_the_circuit_and_starts_the_count_anew():
    clock = FakeClock()
    box = Toolbox([shaky], clock=clock)
    await ends(box, "shaky", {}, {})
    await clock.sleep(30)
    good: dict[str, Any] = {"fails": False}
    assert await ends(box, "shaky", good, {}, good) == [
        "tool_execution_result",
        "tool_failure",
        "tool_execution_result",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rate(0),
        lambda: Rate(1, per_s=0),
        lambda: Circuit(failures=0),
        lambda: Circuit(open_s=-1),
    ],
)
def test_limits_that_no_call_could_keep_are_misuse(make: Any):
    with pytest.raises(Misuse):
        make()


class Running(FakeClock):
    """A clock that goes on between two looks at it, as a real one does."""

    def monotonic(self) -> float:
        self.advance(1e-6)
        return super().monotonic()


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_as_many_calls_as_the_rate_says_run_from_the_start(calls: int):
    limited = poll.but(rate=Rate(calls, per_s=60), repeatable=True)
    box = Toolbox([limited], clock=Running())
    found = await ends(box, "poll", *[{}] * (calls + 1))
    assert found == ["tool_execution_result"] * calls + ["rate_limited"]
