"""Runs of other libraries' agents whose process is killed, and that go on in another one."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.adapters_real.plays import as_final_answer, is_here
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator

DESK = Path(__file__).with_name("killed_desk.py")
REPLIES = (
    Reply(tool_calls=(ScriptedCall(name="refund", arguments={"x": 7}),)),
    Reply(text="done"),
)


async def work(library, simulator, folder, where):
    """Run the desk, or go on with it: its exit status, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(DESK), library, simulator.base_url),
        *(str(folder / "runs.db"), str(folder / "wrote"), where),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    # CrewAI prints too.
    lines = said.decode().strip().splitlines()
    return process.returncode, lines[-1] if lines else ""


def written(folder):
    file = folder / "wrote"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(
    ("library", "where", "wrote", "comes"),
    [
        ("pydantic_ai", "before", [], "completed done ToolFailure"),
        ("pydantic_ai", "after", ["7"], "completed done ToolFailure"),
        ("pydantic_ai", "end", ["7"], "completed done ToolExecutionResult"),
        ("openai_agents", "before", [], "completed done ToolFailure"),
        ("openai_agents", "after", ["7"], "completed done ToolFailure"),
        ("openai_agents", "end", ["7"], "completed done ToolExecutionResult"),
        ("adk", "before", [], "completed done ToolFailure"),
        ("adk", "after", ["7"], "completed done ToolFailure"),
        ("adk", "end", ["7"], "completed done ToolExecutionResult"),
        ("strands", "before", [], "completed done ToolFailure"),
        ("strands", "after", ["7"], "completed done ToolFailure"),
        ("strands", "end", ["7"], "completed done ToolExecutionResult"),
        ("agno", "before", [], "completed done ToolFailure"),
        ("agno", "after", ["7"], "completed done ToolFailure"),
        ("agno", "end", ["7"], "completed done ToolExecutionResult"),
        ("agent_framework", "before", [], "completed done ToolFailure"),
        ("agent_framework", "after", ["7"], "completed done ToolFailure"),
        ("agent_framework", "end", ["7"], "completed done ToolExecutionResult"),
        ("crewai", "before", [], "completed done ToolFailure"),
        ("crewai", "after", ["7"], "completed done ToolFailure"),
        ("crewai", "end", ["7"], "completed done ToolExecutionResult"),
        ("smolagents", "before", [], "completed done ToolFailure"),
        ("smolagents", "after", ["7"], "completed done ToolFailure"),
        ("smolagents", "end", ["7"], "completed done ToolExecutionResult"),
        # Its program cannot be continued.
        ("claude_agent_sdk", "before", [], "interrupted failed None ToolFailure"),
        ("claude_agent_sdk", "after", ["7"], "interrupted failed None ToolFailure"),
        ("claude_agent_sdk", "end", ["7"], "completed done ToolExecutionResult"),
        ("langgraph_tools", "before", [], "completed done ToolFailure"),
        ("langgraph_tools", "after", ["7"], "completed done ToolFailure"),
        ("langgraph_tools", "end", ["7"], "completed done ToolExecutionResult"),
        ("langgraph", "before", [], "interrupted failed None ToolFailure"),
        ("langgraph", "after", ["7"], "interrupted failed None ToolFailure"),
        ("langgraph", "end", ["7"], "completed done ToolExecutionResult"),
    ],
)
async def test_a_tool_that_writes_is_never_called_twice(tmp_path, library, where, wrote, comes):
    if not is_here(library.removesuffix("_tools")):
        pytest.skip(f"{library} is not installed")
    replies = [as_final_answer(one) if library == "smolagents" else one for one in REPLIES]
    if library == "claude_agent_sdk":
        asked = ScriptedCall(name="mcp__own__refund", arguments={"x": 7})
        replies = [Reply(tool_calls=(asked,)), Reply(text="done")]
    async with Simulator(Scenario(replies=replies)) as simulator:
        status, _ = await work(library, simulator, tmp_path, where)
        assert (status, written(tmp_path)) == (-signal.SIGKILL, wrote)
        status, said = await work(library, simulator, tmp_path, "nowhere")
        assert (status, said) == (0, comes)
        assert written(tmp_path) == wrote
        # The first reply came from the log; the last one may not have been on disk.
        asked = [len(request.body["messages"]) for request in simulator.requests]
        assert asked[0] not in asked[1:]


@pytest.mark.skipif(not is_here("langgraph"), reason="langgraph is not installed")
async def test_a_call_that_ended_is_handed_back_though_the_graph_has_not_saved_it(tmp_path):
    asked = [ScriptedCall(name="refund", arguments={"x": x}) for x in (7, 8)]
    replies = (Reply(tool_calls=tuple(asked)), Reply(text="done"))
    async with Simulator(Scenario(replies=replies)) as simulator:
        status, _ = await work("one_node_tools", simulator, tmp_path, "second")
        assert (status, written(tmp_path)) == (-signal.SIGKILL, ["7"])
        _, said = await work("one_node_tools", simulator, tmp_path, "nowhere")
    assert (said, written(tmp_path)) == (
        "completed done ToolExecutionResult ToolFailure",
        ["7"],
    )
