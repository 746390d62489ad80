"""Which gates are asked about a call, and who denies it."""

from typing import Any

import pytest

from upshot.contract import Budget, Policy, ToolCall, ToolDenied
from upshot.tools import CallState, Circuit, Denial, Rate, Tool, Toolbox, tool
from upshot.tools.gates.pipeline import Rewind


@tool(effect="read")
async def look(a: int = 1) -> int:
    return a


async def trace_of(used: Tool, **options: Any) -> list[str]:
    found = await Toolbox([used], **options).check(ToolCall("1", used.name))
    return [verdict.gate for verdict in found.trace]


@pytest.mark.parametrize(
    ("gate", "changes", "options"),
    [
        ("rate", {"rate": Rate(1)}, {}),
        ("rate", {"circuit": Circuit()}, {}),
        ("replay", {"idempotent": True}, {}),
        ("blocked_key", {"block_scope": "key"}, {}),
        ("conditions", {"deny": True}, {}),
        ("conditions", {"approval": bool}, {}),
        ("taint", {"effect": "write"}, {"policy": Policy(taint=True)}),
        ("taint", {"network": True}, {"policy": Policy()}),
        ("policy", {"network": True}, {"policy": Policy(network=False)}),
    ],
)
async def test_a_gate_is_asked_only_about_tools_that_it_can_concern(
    gate: str, changes: dict[str, Any], options: dict[str, Any]
):
    assert gate not in await trace_of(look, **options)
    assert gate in await trace_of(look.but(**changes), **options)


async def test_repetitions_that_make_sense_are_not_looked_at():
    assert "progress" in await trace_of(look)
    polling = await trace_of(look.but(repeatable=True, idempotent=True))
    assert not {"progress", "replay"} & set(polling)


async def test_a_rewind_to_a_gate_that_is_left_out_goes_to_the_next_one():
    class Again:
        name = "again"

        def check(self, call: CallState) -> Rewind | None:
            asked = [verdict.gate for verdict in call.trace]
            return None if asked.count("arguments") == 2 else Rewind("rate")

    assert (await trace_of(look, gates=[Again()])).count("arguments") == 2


async def test_a_call_over_a_limit_that_others_of_its_reply_used_is_denied_by_its_gate():
    box = Toolbox([look], budget=Budget(max_tool_calls=1))
    outcomes = await box.dispatch([ToolCall(str(n), "look", {"a": n}) for n in (1, 2)])
    assert [isinstance(one, ToolDenied) for one in outcomes] == [False, True]
    assert [record.gate for record in box.records] == ["", "budget"]


async def test_limits_hold_whatever_gates_are_chosen():
    def few(standard: tuple[Any, ...]) -> list[Any]:
        return [gate for gate in standard if gate.name in ("known_tool", "arguments")]

    box = Toolbox([look], gates=few, budget=Budget(max_tool_calls=0))
    (over,) = await box.dispatch([ToolCall("1", "look")])
    assert isinstance(over, ToolDenied)
    assert over.reason == "budget"
    box = Toolbox([look], gates=few)
    box.cancel()
    (cancelled,) = await box.dispatch([ToolCall("1", "look")])
    assert isinstance(cancelled, ToolDenied)
    assert (cancelled.reason, box.records[0].gate) == ("cancelled", "cancelled")


async def test_a_run_is_asked_at_the_start_of_a_body():
    box = Toolbox([look], at_start=lambda call: Denial("busy", f"no {call.tool_name} now"))
    (outcome,) = await box.dispatch([ToolCall("1", "look")])
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.details) == ("busy", "no look now")
    assert box.records[0].gate == "start"
