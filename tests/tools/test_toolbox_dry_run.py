"""Would this call run, and if not, why? Asked without any trace of the asking."""

from typing import Any

import pytest

from upshot.contract import Budget, Event, ToolCall
from upshot.tools import Policy, Refuse, Toolbox, tool


@tool(effect="read", idempotent=True)
async def look(n: int = 1) -> int:
    return n


@tool(effect="destructive")
async def wipe(path: str = "/") -> str:
    return path


def no(request: Any) -> Refuse:
    return Refuse("no")


def never(request: Any) -> bool:
    raise AssertionError("nobody may be asked")


async def test_a_call_that_would_run_is_told_with_its_arguments_and_every_gate():
    found = await Toolbox([look]).check(ToolCall("1", "look", {"n": "5"}))
    assert found.would_run
    assert found.arguments == {"n": 5}
    assert [verdict.verdict for verdict in found.trace] == ["pass"] * len(found.trace)


@pytest.mark.parametrize(
    ("call", "options", "reason"),
    [
        (ToolCall("1", "nope"), {}, "unknown_tool"),
        (ToolCall("1", "look", {"n": "x"}), {}, "validation"),
        (ToolCall("1", "look"), {"policy": Policy(deny=["look"])}, "policy"),
        (ToolCall("1", "look"), {"budget": Budget(max_tool_calls=0)}, "budget"),
        (ToolCall("1", "look"), {"on_pre_tool_use": no}, "pre_hook"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_call_that_would_be_denied_says_why(call: ToolCall, options: Any, reason: str):
    found = await Toolbox([look], **options).check(call)
    assert found.outcome is not None
    assert found.outcome.reason == reason
    assert found.trace[-1].verdict == "deny"
    assert not found.would_run


async def test_who_approves_is_not_asked_but_what_they_would_be_asked_is_told():
    found = await Toolbox([wipe], approve=never).check(ToolCall("1", "wipe"))
    assert found.outcome is None
    assert found.pending is not None
    assert found.pending.arguments == {"path": "/"}
    assert not found.would_run


async def test_asking_leaves_no_trace():
    events: list[Event] = []
    box = Toolbox([look, wipe], emit=events.append, budget=Budget(max_tool_calls=1))
    for _ in range(4):
        await box.check(ToolCall("1", "look", {"n": "x"}))
        await box.check(ToolCall("1", "look"))
        await box.check(ToolCall("2", "wipe"))
    assert (events, box.records, box.pending, box.blocked_tool_names) == ([], [], (), frozenset())
    outcomes = await box.dispatch([ToolCall("1", "look")])
    assert outcomes[0].kind == "tool_execution_result"


async def test_a_repetition_is_told_and_does_not_hold_its_twin():
    box = Toolbox([look])
    await box.dispatch([ToolCall("1", "look")])
    found = await box.check(ToolCall("2", "look"))
    assert found.outcome is not None
    assert found.outcome.reason == "duplicate"


async def test_asking_does_not_begin_anew_what_is_counted_in_a_row():
    box = Toolbox([look])
    for number in range(3):
        await box.dispatch([ToolCall(f"bad-{number}", "look", {"n": "x"})])
        await box.check(ToolCall("asked", "look"))
    (outcome,) = await box.dispatch([ToolCall("good", "look")])
    assert getattr(outcome, "reason", "") == "blocked"
