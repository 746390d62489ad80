"""The program of the Claude Agent SDK as the engine of a run, on the simulator."""

import os
from contextlib import asynccontextmanager

import pytest

from tests.adapters_real.plays import KEY, QUIET, is_here
from upshot import Agent, Budget, Handoff, open_journal, run, start, tool
from upshot.adapters import as_engine
from upshot.contract import ToolDenied, ToolExecutionResult, ToolFailure
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator, StatusFault, Tokens
from upshot.tools import Ask

pytestmark = pytest.mark.skipif(
    not is_here("claude_agent_sdk"), reason="claude_agent_sdk is not installed"
)
COUNTS = Tokens(input_tokens=100, output_tokens=50)


@pytest.fixture
def added():
    return []


@pytest.fixture
def desk(tmp_path, added):
    """A desk whose engine is the program, with a tool "add" of its own."""

    @asynccontextmanager
    async def desk(*replies, faults=(), ours=(), handoffs=(), **options):
        from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server
        from claude_agent_sdk import tool as claude_tool

        @claude_tool("add", "Add two.", {"x": int})
        async def add(arguments):
            x = arguments["x"]
            if x < 0:
                raise ValueError("x must not be negative")
            added.append(x)
            return {"content": [{"type": "text", "text": str(x + 2)}]}

        scenario = Scenario(replies=replies, faults=tuple(faults), when_spent="last")
        async with Simulator(scenario) as simulator:
            env = {
                **QUIET,
                "ANTHROPIC_BASE_URL": simulator.base_url.removesuffix("/v1"),
                "ANTHROPIC_API_KEY": KEY,
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
                "TMPDIR": str(tmp_path),
            }
            given = {
                "model": "claude-sonnet-4-5",
                "cwd": tmp_path,
                "mcp_servers": {"own": create_sdk_mcp_server("own", tools=[add])},
                "tools": [],
                "allowed_tools": ["mcp__own__add"],
                "system_prompt": "Answer.",
                "setting_sources": [],
                "env": env,
                **options,
            }
            engine = as_engine(ClaudeAgentOptions(**given))
            desk.requests = lambda: simulator.requests
            yield Agent("desk", engine=engine, tools=list(ours), handoffs=handoffs)

    return desk


def calls(*xs, name="mcp__own__add"):
    asked = [ScriptedCall(name=name, arguments={"x": x}) for x in xs]
    return Reply(tool_calls=tuple(asked), usage=COUNTS)


def says(text, **fields):
    return Reply(text=text, usage=COUNTS, **fields)


async def test_calls_and_replies_are_those_of_the_run(desk, added):
    reply = says("three and five", chunk_chars=5)
    async with desk(calls(1, 3), reply) as agent, start(agent, "Add") as live:
        seen = [event async for event in live]
        result = await live.result()
    assert (result.status, result.content, sorted(added)) == ("completed", "three and five", [1, 3])
    assert [outcome.output for outcome in result.tool_outcomes] == [
        {"result": "3"},
        {"result": "5"},
    ]
    assert [message.role for message in result.messages] == [
        *("assistant", "tool", "tool", "assistant")
    ]
    assert (result.usage.api_calls, result.usage.output_tokens) == (2, 100)
    shown = "".join(event.text for event in seen if event.kind == "text_delta")
    assert shown == "three and five"


async def test_the_tools_of_the_run_are_offered_and_called(desk, added):
    @tool(effect="write")
    async def put(x: int) -> str:
        added.append(x)
        return "put"

    async with desk(calls(5, name="mcp__upshot__put"), says("done"), ours=[put]) as agent:
        result = await run(agent, "Put")
        read = str(desk.requests()[-1].body["messages"][-1])
    [outcome] = result.tool_outcomes
    assert (result.content, added, outcome.tool_name) == ("done", [5], "put")
    assert isinstance(outcome, ToolExecutionResult) and "put" in read


async def test_a_call_that_the_policy_denies_is_not_made(desk, added):
    async with desk(calls(1), calls(2), says("done")) as agent:
        result = await run(agent, "Add", budget=Budget(max_tool_calls=1))
    assert added == [1]
    assert isinstance(result.tool_outcomes[1], ToolDenied)


async def test_a_spent_budget_ends_the_run_before_the_next_request(desk, added):
    async with desk(calls(1), calls(2), says("no")) as agent:
        result = await run(agent, "Add", budget=Budget(max_turns=1))
        asked = len(desk.requests())
    assert result.error.code in ("budget_exceeded", "max_turns")
    assert (result.usage.api_calls, asked) == (1, 1)


async def test_what_a_tool_raises_is_recorded(desk):
    async with desk(calls(-1), says("It cannot be.")) as agent:
        result = await run(agent, "Add")
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolFailure) and "negative" in outcome.error
    assert result.content == "It cannot be."


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit"), (500, "server_error")])
async def test_a_refused_request_is_classified_and_not_sent_twice(desk, status, code):
    fault = StatusFault(status=status, times=None)
    async with desk(says("no"), faults=[fault]) as agent:
        result = await run(agent, "Add")
    assert (result.status, result.error.code) == ("failed", code)


async def test_a_call_that_needs_an_approval_fails_the_run_and_is_not_made(desk, added):
    async with desk(calls(1), says("no")) as agent:
        result = await run(agent, "Add", on_pre_tool_use=lambda call: Ask())
    assert (result.status, result.error.code, added) == ("failed", "not_available", [])


async def test_a_hand_off_ends_the_run(desk):
    reply = Reply(tool_calls=(ScriptedCall(name="mcp__upshot__transfer_to_billing", arguments={}),))
    async with desk(reply, says("no"), handoffs=[Handoff("billing")]) as agent:
        result = await run(agent, "Pay")
    assert (result.status, result.handoff.to_agent_id) == ("completed", "billing")


async def test_an_empty_reply_is_no_answer(desk):
    async with desk(says("")) as agent:
        result = await run(agent, "Add")
    assert (result.status, result.error.code) == ("failed", "empty_reply")


async def test_a_cancelled_run_is_canceled(desk, added):
    async with desk(calls(1), says("no")) as agent, start(agent, "Add") as live:
        async for event in live:
            if event.kind == "tool_started":
                live.cancel()
        result = await live.result()
    assert result.status == "canceled"


async def test_earlier_turns_of_a_conversation_are_sent(desk):
    async with desk(says("Hello Ann."), says("Ann.")) as agent, open_journal("memory:") as journal:
        await run(agent, "I am Ann.", journal=journal, conversation="c1")
        await run(agent, "Who am I?", journal=journal, conversation="c1")
        sent = str(desk.requests()[-1].body["messages"])
    assert "I am Ann." in sent and "Hello Ann." in sent and "Who am I?" in sent


os.environ.update(QUIET)
