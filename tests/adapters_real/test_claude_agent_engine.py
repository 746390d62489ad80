"""The program of the Claude Agent SDK as the engine of a run, on the simulator."""

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.adapters_real.plays import KEY, QUIET, is_here
from upshot import (
    Agent,
    Budget,
    Handoff,
    ScriptedModel,
    ScriptEngine,
    open_journal,
    run,
    start,
    tool,
)
from upshot.adapters import as_engine
from upshot.contract import ToolDenied, ToolExecutionResult, ToolFailure, ToolTimeout
from upshot.sim import (
    CutFault,
    HangFault,
    Reply,
    Scenario,
    ScriptedCall,
    Simulator,
    StatusFault,
    Tokens,
)
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


def programs_in(folder):
    """The processes that work in a folder, such as the program there."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.add(process.name)
    return found


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


@pytest.mark.parametrize("fault", [StatusFault(status=404, times=1), CutFault(times=1)])
async def test_a_reply_that_is_not_streamed_is_read_too(desk, added, fault):
    """If a stream is refused or breaks off, the program asks again without one."""
    asked = calls(1, 3)
    first = Reply(text="I add.", tool_calls=asked.tool_calls, usage=COUNTS)
    async with desk(first, says("done"), faults=[fault]) as agent:
        result = await run(agent, "Add", budget=Budget(deadline_s=100))
        streamed = [bool(request.body.get("stream")) for request in desk.requests()]
    assert (result.status, result.content, sorted(added)) == ("completed", "done", [1, 3])
    assert streamed == [True, False, True]
    assert result.messages[0].text == "I add."
    assert (result.usage.api_calls, result.usage.output_tokens) == (2, 100)


async def test_an_answer_that_is_not_streamed_is_the_answer(desk):
    async with desk(says("done"), faults=[CutFault(times=1)]) as agent:
        result = await run(agent, "Add", budget=Budget(deadline_s=100))
    assert (result.status, result.content, result.usage.api_calls) == ("completed", "done", 1)


async def test_a_reply_of_the_fallback_model_is_counted_as_its_own(desk):
    fault = StatusFault(status=500, times=1)
    async with (
        desk(says("hi"), faults=[fault], fallback_model="claude-haiku-4-5") as agent,
        start(agent, "Add") as live,
    ):
        replies = [event async for event in live if event.kind == "model_replied"]
        result = await live.result()
        asked = [request.body["model"] for request in desk.requests()]
    assert asked == ["claude-sonnet-4-5", "claude-haiku-4-5"]
    [reply] = replies
    assert reply.response.provider_data["model"] == "claude-haiku-4-5"
    # 100 tokens at 1 dollar a million, and 50 at 5.
    assert (result.content, str(result.cost.total)) == ("hi", "0.000350")


@pytest.mark.parametrize("after_events", [0, 3], ids=["silent", "half a reply"])
async def test_a_deadline_ends_the_run_and_the_program(desk, tmp_path, after_events):
    fault = HangFault(after_events=after_events)
    async with desk(says("never"), faults=[fault]) as agent:
        result = await run(agent, "Add", budget=Budget(deadline_s=4))
        asked = len(desk.requests())
    # On a slow machine the program may not have asked yet.
    assert (result.status, result.error.code, asked <= 1) == ("failed", "timeout", True)
    assert not programs_in(tmp_path)


async def test_a_deadline_ends_a_call_of_the_run(desk, tmp_path, added):
    @tool(effect="write")
    async def put(x: int) -> str:
        added.append(x)
        await asyncio.Event().wait()
        return "never"

    async with desk(calls(5, name="mcp__upshot__put"), says("no"), ours=[put]) as agent:
        result = await run(agent, "Put", budget=Budget(deadline_s=8))
        asked = len(desk.requests())
    assert (result.status, result.error.code, added, asked) == ("failed", "timeout", [5], 1)
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolTimeout)
    assert not programs_in(tmp_path)


async def test_it_works_inside_another_run(desk, added):
    async with desk(calls(1), says("three")) as agent, open_journal("memory:") as journal:

        async def script(current, host, board):
            return (await current.child(agent, "Add")).content

        outer = Agent("outer", engine=ScriptEngine(script))
        result = await run(outer, "Add", journal=journal)
        [inner] = await journal.runs(parent_run_id=result.run_id)
    assert (result.output, added, inner.status) == ("three", [1], "completed")
    assert (result.usage.api_calls, result.usage.input_tokens) == (2, 200)


async def test_the_deadline_of_the_run_around_it_holds(desk, tmp_path):
    async with (
        desk(says("never"), faults=[HangFault()]) as agent,
        open_journal("memory:") as journal,
    ):

        async def script(current, host, board):
            return (await current.child(agent, "Add")).content

        outer = Agent("outer", engine=ScriptEngine(script))
        result = await run(outer, "Add", journal=journal, budget=Budget(deadline_s=4))
        [inner] = await journal.runs(parent_run_id=result.run_id)
    assert (result.error.code, inner.status) == ("timeout", "failed")
    assert not programs_in(tmp_path)


async def test_an_agent_among_its_tools_is_a_child_run(desk):
    counts = Agent("counts", model=ScriptedModel(["five"]))
    call = ScriptedCall(name="mcp__upshot__counts", arguments={"request": "Count"})
    replies = Reply(tool_calls=(call,), usage=COUNTS), says("It is five.")
    async with desk(*replies, ours=[counts]) as agent, open_journal("memory:") as journal:
        result = await run(agent, "How many?", journal=journal)
        [inner] = await journal.runs(parent_run_id=result.run_id)
        read = str(desk.requests()[-1].body["messages"][-1])
    assert (result.content, inner.agent_id, inner.status) == ("It is five.", "counts", "completed")
    assert "five" in read


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
