"""The gate on the network."""

import pytest

from upshot.contract import ToolCall, ToolDenied
from upshot.tools import Toolbox, tool


@tool(effect="read", network=True)
async def fetch() -> str:
    return "page"


@pytest.mark.parametrize("web_mode", [True, False])
async def test_a_tool_that_needs_the_network_runs_in_web_mode_only(web_mode: bool):
    outcome = (await Toolbox([fetch], web_mode=web_mode).dispatch([ToolCall("1", "fetch")]))[0]
    assert isinstance(outcome, ToolDenied) is not web_mode
    assert web_mode or outcome.reason == "policy"  # type: ignore[union-attr]
