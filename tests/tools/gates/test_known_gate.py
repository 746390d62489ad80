"""The gate on the tool's name."""

import pytest

from upshot.contract import ToolCall, ToolDenied, outcome_to_model_content
from upshot.tools import Toolbox, tool


@tool(effect="read")
async def order_status(order_id: str) -> str:
    return order_id


@pytest.mark.parametrize("name", ["order_stats", "zzz", "", "order status", "😀"])
async def test_an_unknown_tool_is_denied(name: str):
    outcome = (await Toolbox([order_status]).dispatch([ToolCall("1", name)]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "unknown_tool"
    assert "order_status" in outcome_to_model_content(outcome)


async def test_a_tool_that_is_not_offered_is_unknown_and_not_named():
    box = Toolbox([order_status], offered=set)
    outcome = (await box.dispatch([ToolCall("1", "order_status", {"order_id": "7"})]))[0]
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.hint) == ("unknown_tool", "Tools: none.")


async def test_the_record_of_an_unknown_tool_has_no_version_and_no_effect():
    box = Toolbox([])
    await box.dispatch([ToolCall("1", "x", "{")])
    record = box.records[0]
    assert (record.tool_version, record.declared_effect, record.gate) == ("", None, "known_tool")
    assert record.arguments_given == "{"
    assert record.arguments_validated is None
