"""Agents of several libraries as the engine of a run, on the simulator: one suite for all."""

import asyncio
import os
import threading
from contextlib import asynccontextmanager

import pytest

from tests.adapters_real.plays import KEY, MODEL, QUIET, as_final_answer, is_here
from upshot import (
    Agent,
    Approve,
    Budget,
    Deny,
    Handoff,
    ScriptEngine,
    open_journal,
    replay,
    resume,
    run,
    start,
    tool,
)
from upshot.adapters import as_engine
from upshot.contract import ToolDenied, ToolExecutionResult, ToolFailure
from upshot.contract.settings import Retry
from upshot.models import Price
from upshot.sim import HangFault, Reply, Scenario, ScriptedCall, Simulator, StatusFault, Tokens
from upshot.tools import Ask

os.environ.update(QUIET)
COUNTS = Tokens(input_tokens=100, output_tokens=50, cache_read_tokens=40, reasoning_tokens=20)


def openai_agents(base_url, tools, instructions=None):
    from agents import Agent as NativeAgent
    from agents import OpenAIChatCompletionsModel, function_tool
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
    own = [function_tool(one) for one in tools]
    return NativeAgent(name="theirs", model=model, tools=own, instructions=instructions)


def adk(base_url, tools, instructions=""):
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm

    model = LiteLlm(
        model=f"openai/{MODEL}", api_base=base_url, api_key=KEY, num_retries=0, max_retries=0
    )
    return LlmAgent(name="theirs", model=model, tools=list(tools), instruction=instructions)


def strands(base_url, tools, instructions=None):
    from openai import AsyncOpenAI
    from strands import Agent as NativeAgent
    from strands import tool as strands_tool
    from strands.models.openai import OpenAIModel

    client = AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    own = [strands_tool(one) for one in tools]

    def make():
        return NativeAgent(
            model=OpenAIModel(client=client, model_id=MODEL),
            tools=own,
            system_prompt=instructions,
            callback_handler=None,
        )

    return make


def agno(base_url, tools, instructions=None):
    from agno.agent import Agent as NativeAgent
    from agno.models.openai import OpenAIChat

    model = OpenAIChat(id=MODEL, base_url=base_url, api_key=KEY, max_retries=0)
    return NativeAgent(model=model, tools=list(tools), instructions=instructions, telemetry=False)


def agent_framework(base_url, tools, instructions=None):
    from agent_framework import Agent as NativeAgent
    from agent_framework.openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    model = OpenAIChatCompletionClient(model=MODEL, async_client=client)
    return NativeAgent(client=model, tools=list(tools), name="theirs", instructions=instructions)


def crewai(base_url, tools, instructions="A clerk."):
    from crewai import LLM
    from crewai import Agent as NativeAgent
    from crewai.tools import tool as crewai_tool

    model = LLM(model=f"openai/{MODEL}", base_url=base_url, api_key=KEY, max_retries=0)
    own = [crewai_tool(one.__name__)(one) for one in tools]
    return NativeAgent(role="clerk", goal="Add.", backstory=instructions, llm=model, tools=own)


def smolagents(base_url, tools, instructions=None):
    from smolagents import OpenAIServerModel, Tool, ToolCallingAgent
    from smolagents.monitoring import LogLevel

    def to_tool(function):
        names = {
            "name": function.__name__,
            "description": "A tool.",
            "inputs": {"x": {"type": "integer", "description": "To what."}},
            "output_type": "any",
            "forward": lambda self, x: asyncio.run(function(x)),
        }
        return type("Own", (Tool,), names)()

    model = OpenAIServerModel(
        model_id=MODEL, api_base=base_url, api_key=KEY, client_kwargs={"max_retries": 0}
    )
    return ToolCallingAgent(
        tools=[to_tool(one) for one in tools],
        model=model,
        verbosity_level=LogLevel.OFF,
        instructions=instructions,
        max_steps=4,
    )


NATIVES = (openai_agents, adk, strands, agno, agent_framework, crewai, smolagents)
BUILD = {one.__name__: one for one in NATIVES}
# Libraries that call models and tools in threads.
THREADS = ("crewai", "smolagents")
HERE = [name for name in BUILD if is_here(name)]


@pytest.fixture(params=HERE)
def library(request):
    return request.param


@pytest.fixture
async def journal():
    async with open_journal("memory:") as journal:
        yield journal


@pytest.fixture
def added():
    return []


@pytest.fixture
def add(added):
    """A tool of the agent's own."""

    async def add(x: int) -> int:
        """Add two.

        Args:
            x: To what.
        """
        if x < 0:
            raise ValueError("x must not be negative")
        added.append(x)
        return x + 2

    return add


@pytest.fixture
def put(added):
    """A tool of the run's that nobody is asked about."""

    @tool(effect="write")
    async def put(x: int = 0) -> str:
        added.append(x)
        return "put"

    return put


@pytest.fixture
def refund(added):
    """A tool of the run's that people are asked about."""

    @tool(effect="write", approval=True)
    async def refund(x: int) -> str:
        added.append(x)
        return "refunded"

    return refund


@pytest.fixture
def desk(library):
    @asynccontextmanager
    async def desk(*replies, tools=(), ours=(), faults=(), reads=(), handoffs=(), **options):
        """A desk whose engine is an agent that asks the simulator."""
        prices = options.pop("prices", None)
        if library == "smolagents":
            replies = [as_final_answer(reply) for reply in replies]
        scenario = Scenario(replies=replies, faults=tuple(faults), when_spent="last")
        async with Simulator(scenario) as simulator:
            native = BUILD[library](simulator.base_url, tools, **options)
            engine = as_engine(native, reads=reads, prices=prices)
            agent = Agent("desk", engine=engine, tools=list(ours), handoffs=handoffs)
            desk.requests = lambda: simulator.requests
            yield agent

    return desk


def calls(*xs, name="add"):
    asked = [ScriptedCall(name=name, arguments={"x": x}) for x in xs]
    return Reply(tool_calls=tuple(asked), usage=COUNTS)


def says(text, **fields):
    return Reply(text=text, usage=COUNTS, **fields)


async def test_a_text_is_the_answer(desk):
    async with desk(says("three")) as agent:
        result = await run(agent, "Add")
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 50)
    assert (result.usage.cache_read_tokens, result.usage.api_calls) == (40, 1)
    assert result.provider_data["model"] == MODEL
    assert [message.text for message in result.messages] == ["three"]


async def test_what_the_library_does_not_tell_is_listed(desk):
    async with desk(says("three")) as agent:
        result = await run(agent, "Add")
    [warning] = result.warnings
    assert warning.code == "not_told"
    told = set(warning.message.partition(": ")[2].split(", "))
    assert "rate_limit" in told and "usage.input_tokens" not in told


async def test_a_budget_in_money_counts_by_prices_of_ones_own(desk, add):
    prices = {"openai:*": Price(input_per_mtok=1000, output_per_mtok=1000)}
    async with desk(calls(1), says("no"), tools=[add], prices=prices) as agent:
        result = await run(agent, "Add", budget=Budget(max_cost_usd=0.05))
    assert (result.error.code, result.usage.api_calls) == ("budget_exceeded", 1)
    assert float(result.cost) == pytest.approx(0.15)


async def test_two_calls_in_one_reply_are_made_and_recorded(desk, add, added):
    async with desk(calls(1, 3), says("three and five"), tools=[add]) as agent:
        result = await run(agent, "Add")
    assert (result.content, sorted(added)) == ("three and five", [1, 3])
    # A tool of Strands gives a text.
    assert [int(outcome.output["result"]) for outcome in result.tool_outcomes] == [3, 5]
    assert [message.role for message in result.messages] == [
        *("assistant", "tool", "tool", "assistant")
    ]
    assert (result.usage.api_calls, result.usage.input_tokens) == (2, 200)


async def test_equal_calls_of_one_reply_are_one_call(desk, add, put, added):
    replies = calls(1, 1), calls(1), calls(5, 5, name="put"), says("ok")
    async with desk(*replies, tools=[add], ours=[put]) as agent:
        result = await run(agent, "Add")
    assert (result.content, added) == ("ok", [1, 1, 5])


async def test_an_empty_reply_is_no_answer(desk):
    async with desk(says("")) as agent:
        result = await run(agent, "Add")
    assert (result.status, result.error.code) == ("failed", "empty_reply")


@pytest.mark.parametrize("is_watched", [False, True], ids=["whole", "streamed"])
async def test_a_call_that_a_limit_cut_off_is_not_made(desk, put, added, is_watched):
    async def stamp(x: int = 0) -> str:
        """Stamp.

        Args:
            x: What.
        """
        added.append(x)
        return "stamped"

    # The arguments of the second are missing.
    asked = [ScriptedCall(name="put", arguments={"x": 1}), ScriptedCall(name="stamp", arguments="")]
    cut = Reply(tool_calls=tuple(asked), usage=COUNTS, finish_reason="length")
    async with (
        desk(cut, says("sorry"), tools=[stamp], ours=[put]) as agent,
        start(agent, "Add") as live,
    ):
        if is_watched:
            assert [event async for event in live]
        result = await live.result()
    assert 0 not in added
    assert result.error is not None or isinstance(
        result.tool_outcomes[-1], ToolDenied | ToolFailure
    )


@pytest.mark.parametrize(
    ("status", "code", "wait_s"), [(429, "rate_limit", 7), (500, "server_error", None)]
)
async def test_a_refused_call_is_classified(desk, status, code, wait_s):
    fault = StatusFault(status=status, retry_after_s=wait_s)
    async with desk(says("no"), faults=[fault]) as agent:
        result = await run(agent, "Add", retry=None)
    assert (result.error.code, result.error.status_code) == (code, status)
    assert (result.error.retryable, result.error.retry_after_s) == (True, wait_s)
    assert result.usage.api_calls == 1


async def test_a_refused_call_is_tried_again_as_the_run_says(desk):
    fault = StatusFault(status=500, at=0)
    async with desk(says("three"), faults=[fault]) as agent:
        result = await run(agent, "Add", retry=Retry(max_tries=2, base_s=0.001))
    assert (result.content, result.usage.api_calls) == ("three", 2)


async def test_what_a_tool_raises_is_recorded(desk, add, library):
    async with desk(calls(-1), says("It cannot be."), tools=[add]) as agent:
        result = await run(agent, "Add")
    outcome, *others = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert "negative" in outcome.error
    if library == "smolagents":
        # It drops a reply whose call failed, so the simulator asks for the call again.
        return
    assert others == []
    assert result.content == "It cannot be." or result.error.type == "ValueError"


async def test_a_cancelled_run_is_canceled(desk):
    async with desk(says("no"), faults=[HangFault()]) as agent, start(agent, "Add") as live:
        async for event in live:
            if event.kind == "model_started":
                live.cancel()
        result = await live.result()
    assert result.status == "canceled"


async def test_a_run_is_canceled_in_the_middle_of_a_tool(desk, added, library):
    begun, over = threading.Event(), threading.Event()

    async def slow(x: int) -> str:
        """Take long.

        Args:
            x: Anything.
        """
        begun.set()
        try:
            await asyncio.to_thread(over.wait)
        finally:
            added.append("ended")
        return "no"

    async with (
        desk(calls(1, name="slow"), says("no"), tools=[slow]) as agent,
        start(agent, "Add") as live,
    ):
        await asyncio.to_thread(begun.wait)
        live.cancel()
        result = await live.result()
        # A thread cannot be cancelled: what the tool does there goes on, and nobody waits for it.
        ended = [] if library in THREADS else ["ended"]
        assert (result.status, result.effect, added) == ("canceled", "unknown", ended)
        over.set()


async def test_its_events_are_those_of_any_run(desk, add, library):
    reply = says("three and some more words", chunk_chars=5)
    async with desk(calls(1), reply, tools=[add]) as agent, start(agent, "Add") as live:
        seen = [event async for event in live]
        result = await live.result()
    kinds = [event.kind for event in seen]
    assert {"model_started", "model_replied", "tool_started", "tool_settled"} <= set(kinds)
    if library == "smolagents":
        pytest.skip("its engine does not stream")
    shown = "".join(event.text for event in seen if event.kind == "text_delta")
    assert shown == result.content == "three and some more words"
    assert result.usage.input_tokens == 200


@pytest.mark.parametrize(
    "budget", [Budget(max_turns=1), Budget(max_tokens=120)], ids=["turns", "tokens"]
)
async def test_a_spent_budget_ends_the_run(desk, add, budget):
    async with desk(calls(1), calls(2), says("no"), tools=[add]) as agent:
        result = await run(agent, "Add", budget=budget)
    assert result.error.code in ("budget_exceeded", "max_turns")
    assert result.usage.api_calls == 1


async def test_the_limit_on_tool_calls_holds_for_its_own_tools(desk, add, added):
    async with desk(calls(1), calls(2), says("no"), tools=[add]) as agent:
        result = await run(agent, "Add", budget=Budget(max_tool_calls=1))
    assert added == [1]
    assert isinstance(result.tool_outcomes[1], ToolDenied)


async def test_a_deadline_ends_the_run(desk):
    async with desk(says("no"), faults=[HangFault()]) as agent:
        result = await run(agent, "Add", budget=Budget(deadline_s=0.3))
    assert result.error.code == "timeout"


async def test_a_request_to_stop_is_followed_before_the_next_call(desk, add):
    async with desk(calls(1), says("no"), tools=[add]) as agent, start(agent, "Add") as live:
        async for event in live:
            if event.kind == "tool_started":
                live.interrupt("user_cancel")
        result = await live.result()
    assert (result.status, result.usage.api_calls) == ("interrupted", 1)


async def test_a_decider_sees_what_is_sent_and_cannot_change_it_unheard(desk, add):
    class Sees:
        def __init__(self):
            self.requests = []

        def before_model(self, info, request):
            self.requests.append(request)

    class Changes:
        def before_model(self, info, request):
            return type(request)("Something else")

    sees = Sees()
    async with desk(says("three"), tools=[add], instructions="Brief.") as agent:
        await run(agent, "Add", deciders=[sees])
        changed = await run(agent, "Add", deciders=[Changes()])
    [request] = sees.requests
    assert "Brief." in (request.system or "")
    assert request.messages[-1].text.strip().endswith("Add")
    own = [spec.name for spec in request.tools if spec.name != "final_answer"]
    assert own == ["add"]
    assert changed.error.code == "hook_failed"


async def test_a_tool_of_the_run_passes_its_gates_and_parks_the_run(
    desk, refund, add, added, journal
):
    both = (
        ScriptedCall(name="refund", arguments={"x": 7}),
        ScriptedCall(name="add", arguments={"x": 1}),
    )
    replies = Reply(tool_calls=both, usage=COUNTS), says("done")
    async with desk(*replies, tools=[add], ours=[refund]) as agent:
        parked = await run(agent, "Refund", journal=journal)
        assert parked.status == "input_required"
        [pending] = parked.pending
        assert (pending.tool_name, pending.arguments, added) == ("refund", {"x": 7}, [1])
        answers = [Approve(pending.call_id)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, added) == ("done", [1, 7])
    assert (result.usage.api_calls, len(result.tool_records)) == (2, 2)


async def test_approvals_are_answered_one_by_one(desk, refund, added, journal):
    replies = (calls(1, 2, name="refund"), calls(3, name="refund"), says("done"))
    async with desk(*replies, ours=[refund]) as agent:
        result = await run(agent, "Refund", journal=journal)
        for answer in (Approve, Deny, Approve):
            answers = [answer(result.pending[0].call_id)]
            result = await resume(result.run_id, agent, journal=journal, answers=answers)
    assert (result.content, added, result.usage.api_calls) == ("done", [1, 3], 3)
    kinds = [type(outcome) for outcome in result.tool_outcomes]
    assert kinds == [ToolExecutionResult, ToolDenied, ToolExecutionResult]


async def test_the_policy_holds_for_its_own_tools_too(desk, add, added, journal):
    guarded = {"journal": journal, "on_pre_tool_use": lambda call: Ask()}
    async with desk(calls(1), says("three"), tools=[add]) as agent:
        parked = await run(agent, "Add", **guarded)
        [pending] = parked.pending
        assert added == []
        answers = [Approve(pending.call_id)]
        result = await resume(parked.run_id, agent, answers=answers, **guarded)
    assert (result.content, added) == ("three", [1])


async def test_a_hand_off_ends_the_run(desk):
    reply = Reply(tool_calls=(ScriptedCall(name="transfer_to_billing", arguments={}),))
    async with desk(reply, says("no"), handoffs=[Handoff("billing")]) as agent:
        result = await run(agent, "Pay")
    assert (result.status, result.handoff.to_agent_id) == ("completed", "billing")
    assert result.usage.api_calls == 1


async def test_earlier_turns_of_a_conversation_are_sent(desk, add, journal):
    async with desk(says("Hello Ann."), says("Ann."), tools=[add], instructions="Brief.") as agent:
        await run(agent, "I am Ann.", journal=journal, conversation="c1")
        result = await run(agent, "Who am I?", journal=journal, conversation="c1")
        sent = [one["role"] for one in desk.requests()[-1].body["messages"]]
    assert result.content == "Ann."
    assert sent[0] in ("system", "developer")
    assert sent[1:] == ["user", "assistant", "user"]


async def test_a_run_is_replayed_without_a_call(desk, add, added, journal):
    async with desk(calls(1), says("three"), tools=[add]) as agent:
        result = await run(agent, "Add", journal=journal)
        again = await replay(result.run_id, agent, journal=journal)
    assert (again.same, again.result.content, added) == (True, "three", [1])


async def test_an_agent_inside_a_run_shares_its_log(desk, add, journal):
    async with desk(calls(1), says("three"), tools=[add]) as agent:

        async def script(current, host, board):
            return (await current.child(agent, "Add")).content

        result = await run(Agent("outer", engine=ScriptEngine(script)), "Add", journal=journal)
    assert (result.output, result.usage.input_tokens) == ("three", 200)


async def test_one_agent_drives_many_runs_at_once(desk, add, added):
    async with desk(calls(1), says("three"), tools=[add]) as agent:
        results = await asyncio.gather(*(run(agent, "Add") for _ in range(8)))
    assert {result.content for result in results} == {"three"}
    assert added == [1] * 8


async def test_secrets_are_masked(desk, journal):
    async with desk(says("The key is s3cret-key-1234.")) as agent:
        result = await run(agent, "Add", secrets=["s3cret-key-1234"], journal=journal)
        log = [str(event) async for event in journal.events(result.run_id)]
    assert not any("s3cret-key-1234" in line for line in log)
