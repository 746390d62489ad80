"""What LangChain and LangGraph themselves make of the simulator's replies."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import messages_to_dict
from langchain_core.tools import ToolException, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.types import interrupt
from pydantic import BaseModel

from upshot.adapters import from_langchain, from_langgraph
from upshot.contract import ToolDenied, ToolExecutionResult, ToolFailure
from upshot.sim import HangFault, Reply, Scenario, ScriptedCall, Simulator, StatusFault, Tokens


class Sum(BaseModel):
    sum: int


def add(x: int, y: int) -> int:
    """Add two numbers."""
    if x < 0:
        raise ValueError("x must not be negative")
    return x + y


COUNTS = Tokens(input_tokens=100, output_tokens=50, cache_read_tokens=40, reasoning_tokens=20)


def calls(*xs, name="add"):
    asked = [ScriptedCall(name=name, arguments={"x": x, "y": 2}) for x in xs]
    return Reply(tool_calls=tuple(asked), usage=COUNTS)


def says(text, **fields):
    return Reply(text=text, usage=COUNTS, **fields)


def openai(simulator, **options):
    return ChatOpenAI(
        model="gpt-5", base_url=simulator.base_url, api_key="no-key", max_retries=0, **options
    )


async def ran(*replies, tools=(add,), **options):
    """The state of an agent that asked the simulator for *replies*."""
    async with Simulator(Scenario(replies=replies)) as simulator:
        agent = create_agent(openai(simulator), list(tools), **options)
        return await agent.ainvoke({"messages": [("user", "Add")]})


async def test_a_text_is_read():
    native = await ran(says("three"))
    result = from_langgraph(native)
    assert (result.status, result.content, result.finish_reason) == ("completed", "three", "stop")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 50)
    assert (result.usage.cache_read_tokens, result.usage.reasoning_tokens) == (40, 20)
    assert (result.provider_data["provider"], result.provider_data["model"]) == ("openai", "gpt-5")
    unknown = set(result.metadata["unknown"])
    assert {"cost", "rate_limit", "started_at", "provider_data.request_id"} <= unknown
    assert {"usage.input_tokens", "finish_reason"}.isdisjoint(unknown)


async def test_two_calls_in_one_reply_are_read():
    result = from_langgraph(await ran(calls(1, 3), says("three and five")))
    assert [outcome.output for outcome in result.tool_outcomes] == [{"result": 3}, {"result": 5}]
    assert (result.usage.input_tokens, result.usage.api_calls) == (200, 2)


async def test_a_reply_that_was_cut_off_says_so():
    result = from_langgraph(await ran(says("thr", finish_reason="length")))
    assert (result.status, result.content, result.finish_reason) == ("completed", "thr", "length")


async def test_an_empty_reply_is_no_content():
    result = from_langgraph(await ran(says("")))
    assert (result.content, result.output, result.usage.output_tokens) == (None, None, 50)


@pytest.mark.parametrize(
    ("status", "code", "wait_s"), [(429, "rate_limit", 7), (500, "server_error", None)]
)
async def test_a_refused_call_is_classified(status, code, wait_s):
    fault = StatusFault(status=status, retry_after_s=wait_s)
    async with Simulator(Scenario(replies=("no",), faults=(fault,))) as simulator:
        with pytest.raises(Exception) as caught:
            await create_agent(openai(simulator), [add]).ainvoke({"messages": [("user", "Add")]})
    result = from_langgraph(caught.value)
    assert (result.error.code, result.error.status_code) == (code, status)
    assert (result.error.retryable, result.error.retry_after_s) == (True, wait_s)
    assert result.provider_data["request_id"].startswith("req_")


async def test_what_a_tool_raises_is_an_internal_failure():
    with pytest.raises(ValueError, match="negative") as caught:
        await ran(calls(-1), says("no"))
    assert from_langgraph(caught.value).error.code == "internal"


async def test_a_call_that_cannot_be_made_is_denied():
    broken = ScriptedCall(name="add", arguments={"x": "many"})
    reply = Reply(tool_calls=(broken, ScriptedCall(name="nope")))
    validation, unknown = from_langgraph(await ran(reply, says("no"))).tool_outcomes
    assert isinstance(validation, ToolDenied)
    assert isinstance(unknown, ToolDenied)
    assert (validation.reason, unknown.reason) == ("validation", "unknown_tool")


async def test_a_cancelled_run_is_canceled():
    async with Simulator(Scenario(replies=("no",), faults=(HangFault(),))) as simulator:
        agent = create_agent(openai(simulator), [add])
        task = asyncio.create_task(agent.ainvoke({"messages": [("user", "Add")]}))
        while not simulator.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    assert from_langgraph(caught.value).status == "canceled"


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_a_streamed_reply_has_usage_only_if_that_was_asked_for(is_asked_for):
    async with Simulator(Scenario(replies=(says("three"),))) as simulator:
        whole = None
        async for chunk in openai(simulator, stream_usage=is_asked_for).astream("Add"):
            whole = chunk if whole is None else whole + chunk
    result = from_langchain(whole)
    assert (result.content, result.finish_reason) == ("three", "stop")
    assert result.usage.input_tokens == (100 if is_asked_for else None)
    assert ("usage" in result.metadata["unknown"]) is not is_asked_for


async def test_headers_are_read_where_the_model_keeps_them():
    async with Simulator(Scenario(replies=(says("three"),))) as simulator:
        native = await openai(simulator, include_response_headers=True).ainvoke("Add")
    assert from_langchain(native).provider_data["request_id"].startswith("req_")


async def test_stored_messages_are_read_alike():
    native = await ran(calls(1), says("three"))
    kept = from_langchain(messages_to_dict(native["messages"]))
    whole = from_langgraph(native)
    assert (kept.messages, kept.usage) == (whole.messages, whole.usage)
    assert kept.tool_outcomes == whole.tool_outcomes


async def test_a_structured_answer_is_the_output():
    reply = Reply(tool_calls=(ScriptedCall(name="Sum", arguments={"sum": 3}),))
    result = from_langgraph(await ran(reply, response_format=ToolStrategy(Sum)))
    assert (result.output, result.tool_outcomes) == ({"sum": 3}, ())


async def test_the_middleware_for_approvals_parks_the_run():
    async with Simulator(Scenario(replies=(calls(1), says("three")))) as simulator:
        agent = create_agent(
            openai(simulator),
            [add],
            middleware=[HumanInTheLoopMiddleware(interrupt_on={"add": True})],
            checkpointer=InMemorySaver(),
        )
        config = {"configurable": {"thread_id": "t7"}}
        native = await agent.ainvoke({"messages": [("user", "Add")]}, config)
        snapshot = await agent.aget_state(config)
    [pending] = from_langgraph(native).pending
    assert (pending.tool_name, pending.arguments) == ("add", {"x": 1, "y": 2})
    result = from_langgraph(snapshot)
    assert (result.pending, result.context_id) == ((pending,), "t7")


async def test_an_interrupt_of_a_tool_is_a_question():
    def ask(x: int, y: int) -> str:
        """Ask."""
        return interrupt("How many?")

    async with Simulator(Scenario(replies=(calls(1, name="ask"),))) as simulator:
        agent = create_agent(openai(simulator), [ask], checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "t7"}}
        native = await agent.ainvoke({"messages": [("user", "Add")]}, config)
    assert from_langgraph(native).pending[0].question == "How many?"


async def test_the_limits_of_a_graph_have_codes():
    async with Simulator(Scenario(replies=(calls(1),), when_spent="last")) as simulator:
        agent = create_agent(openai(simulator), [add])
        with pytest.raises(GraphRecursionError) as caught:
            await agent.ainvoke({"messages": [("user", "Add")]}, {"recursion_limit": 4})
        limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")
        agent = create_agent(openai(simulator), [add], middleware=[limit])
        with pytest.raises(Exception, match="limit") as spent:
            await agent.ainvoke({"messages": [("user", "Add")]})
    assert from_langgraph(caught.value).error.code == "max_turns"
    assert from_langgraph(spent.value).error.code == "budget_exceeded"


async def test_claude_is_read_with_its_cache_in_the_input():
    async with Simulator(Scenario(replies=(says("three", reasoning="hm"),))) as simulator:
        model = ChatAnthropic(
            model="claude-sonnet-4-5",
            base_url=simulator.base_url.removesuffix("/v1"),
            api_key="no-key",
            max_retries=0,
        )
        result = from_langchain(await model.ainvoke("Add"))
    assert (result.content, result.finish_reason) == ("three", "stop")
    assert (result.usage.input_tokens, result.usage.cache_read_tokens) == (100, 40)
    assert result.messages[0].parts[0].text == "hm"


@tool
def careful(x: int, y: int) -> int:
    """Add two numbers."""
    if x < 0:
        raise ToolException("x must not be negative")
    return x + y


@pytest.mark.parametrize(("x", "kind"), [(1, ToolExecutionResult), (-1, ToolFailure)])
async def test_a_tool_that_handles_what_it_raises_fails_as_a_value(x, kind):
    told = careful.model_copy(update={"handle_tool_error": True})
    native = await ran(calls(x, name="careful"), says("no"), tools=[told])
    assert isinstance(from_langgraph(native).tool_outcomes[0], kind)
