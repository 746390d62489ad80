"""A graph of LangGraph as the engine of a run, on the simulator."""

from contextlib import asynccontextmanager

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import ToolException
from langchain_core.tools import tool as native_tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel

from upshot import (
    Agent,
    Answer,
    Approve,
    Budget,
    Deny,
    Handoff,
    Misuse,
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

COUNTS = Tokens(input_tokens=100, output_tokens=50, cache_read_tokens=40, reasoning_tokens=20)


class Sum(BaseModel):
    sum: int


def calls(*xs, name="add"):
    asked = [ScriptedCall(name=name, arguments={"x": x}) for x in xs]
    return Reply(tool_calls=tuple(asked), usage=COUNTS)


def says(text, **fields):
    return Reply(text=text, usage=COUNTS, **fields)


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

    def add(x: int) -> int:
        """Add two."""
        if x < 0:
            raise ValueError("x must not be negative")
        added.append(x)
        return x + 2

    return add


@pytest.fixture
def refund(added):
    """A tool of the run's."""

    @tool(effect="write", approval=True)
    async def refund(x: int) -> str:
        added.append(x)
        return "refunded"

    return refund


def plain(x: int) -> int:
    """Add two."""
    return x + 2


def model_of(simulator, **options):
    options = {"stream_usage": True, **options}
    return ChatOpenAI(
        model="gpt-5", base_url=simulator.base_url, api_key="no-key", max_retries=0, **options
    )


def native(simulator, *tools, **options):
    return create_agent(model_of(simulator), list(tools), **options)


@asynccontextmanager
async def desk(*replies, tools=(), ours=(), faults=(), reads=(), handoffs=(), **options):
    """A desk whose engine is an agent of LangChain that asks the simulator."""
    async with Simulator(Scenario(replies=replies, faults=tuple(faults))) as simulator:

        def make(given):
            return native(simulator, *tools, *given, **options)

        engine = as_engine(make if ours or handoffs else make(()), reads=reads)
        yield Agent("desk", engine=engine, tools=list(ours), handoffs=handoffs)


async def test_a_text_is_the_answer():
    async with desk(says("three")) as agent:
        result = await run(agent, "Add")
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert (result.finish_reason, result.usage.input_tokens) == ("stop", 100)
    assert (result.usage.output_tokens, result.usage.cache_read_tokens) == (50, 40)
    assert (result.usage.reasoning_tokens, result.usage.api_calls) == (20, 1)
    assert result.provider_data["model"] == "gpt-5"
    assert [message.text for message in result.messages] == ["three"]


async def test_what_the_library_does_not_tell_is_listed():
    async with desk(says("three")) as agent:
        result = await run(agent, "Add")
    [warning] = result.warnings
    assert warning.code == "not_told"
    assert (result.rate_limit, "request_id" in result.provider_data) == (None, False)
    assert {"rate_limit", "provider_data.request_id"} <= set(
        warning.message.partition(": ")[2].split(", ")
    )
    assert "usage.input_tokens" not in warning.message


async def test_a_budget_in_money_counts_by_prices_of_ones_own():
    prices = {"openai:*": Price(input_per_mtok=1000, output_per_mtok=1000)}
    async with Simulator(Scenario(replies=(calls(1), says("no")))) as simulator:
        engine = as_engine(native(simulator, plain), prices=prices)
        result = await run(Agent("desk", engine=engine), "Add", budget=Budget(max_cost_usd=0.05))
    assert (result.error.code, result.usage.api_calls) == ("budget_exceeded", 1)
    assert float(result.cost) == pytest.approx(0.15)


async def test_equal_calls_of_one_reply_are_one_call_for_tools_of_the_run(add, added):
    @tool(effect="write")
    async def ours(x: int) -> str:
        added.append(x)
        return "done"

    replies = calls(5, 5, name="ours"), calls(5, name="ours"), calls(1, 1), says("ok")
    async with desk(*replies, tools=[add], ours=[ours]) as agent:
        result = await run(agent, "Add")
    # A tool of the graph's own is made by the graph, which takes no other outcome.
    assert (result.content, added) == ("ok", [5, 5, 1, 1])
    repeats = [outcome.repeats is not None for outcome in result.tool_outcomes]
    assert repeats == [False, True, False, False, False]


async def test_two_calls_in_one_reply_are_made_and_recorded(add, added):
    async with desk(calls(1, 3), says("three and five"), tools=[add]) as agent:
        result = await run(agent, "Add")
    assert (result.content, sorted(added)) == ("three and five", [1, 3])
    assert [outcome.output for outcome in result.tool_outcomes] == [{"result": 3}, {"result": 5}]
    assert [message.role for message in result.messages] == [
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert (result.usage.api_calls, result.usage.input_tokens) == (2, 200)


async def test_a_reply_that_was_cut_off_says_so():
    async with desk(says("thr", finish_reason="length")) as agent:
        result = await run(agent, "Add")
    assert (result.content, result.finish_reason) == ("thr", "length")
    assert [warning.code for warning in result.warnings] == ["truncated", "not_told"]


async def test_an_empty_reply_is_no_answer():
    async with desk(says("")) as agent:
        result = await run(agent, "Add")
    assert (result.error.code, result.usage.api_calls) == ("empty_reply", 1)


@pytest.mark.parametrize(
    ("status", "code", "wait_s"), [(429, "rate_limit", 7), (500, "server_error", None)]
)
async def test_a_refused_call_is_classified(status, code, wait_s):
    fault = StatusFault(status=status, retry_after_s=wait_s)
    async with desk("no", faults=[fault]) as agent:
        result = await run(agent, "Add", retry=None)
    assert (result.error.code, result.error.status_code) == (code, status)
    assert (result.error.retryable, result.error.retry_after_s) == (True, wait_s)
    assert result.usage.api_calls == 1
    assert [warning.code for warning in result.warnings] == ["not_told"]


async def test_a_refused_call_is_not_tried_again_by_the_run():
    fault = StatusFault(status=500, at=0)
    async with desk(says("three"), faults=[fault]) as agent:
        result = await run(agent, "Add", retry=Retry(max_tries=2, base_s=0.001))
    assert (result.error.code, result.usage.api_calls) == ("server_error", 1)


async def test_what_a_tool_raises_fails_the_run_and_is_recorded(add):
    async with desk(calls(-1), says("no"), tools=[add]) as agent:
        result = await run(agent, "Add")
    assert (result.error.code, result.error.type) == ("internal", "ValueError")
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert "negative" in outcome.error


async def test_a_tool_that_handles_what_it_raises_fails_as_a_value():
    @native_tool
    def careful(x: int) -> int:
        """Add two."""
        raise ToolException("x must not be zero")

    careful.handle_tool_error = True
    async with desk(calls(0, name="careful"), says("no"), tools=[careful]) as agent:
        result = await run(agent, "Add")
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert (outcome.error, result.content) == ("x must not be zero", "no")


async def test_a_cancelled_run_is_canceled():
    async with desk("no", faults=[HangFault()]) as agent, start(agent, "Add") as live:
        async for event in live:
            if event.kind == "model_started":
                live.cancel()
        result = await live.result()
    assert result.status == "canceled"


async def test_a_reply_is_shown_as_it_comes(add):
    reply = says("three and some more words", chunk_chars=5, reasoning="hm")
    async with desk(calls(1), reply, tools=[add]) as agent, start(agent, "Add") as live:
        seen = [event async for event in live]
        result = await live.result()
    kinds = [event.kind for event in seen]
    assert "".join(event.text for event in seen if event.kind == "text_delta") == result.content
    assert kinds.count("text_delta") > 3
    assert {"tool_call_delta", "model_replied", "tool_started", "tool_settled"} <= set(kinds)
    assert result.usage.input_tokens == 200


async def test_a_streamed_reply_has_usage_only_if_the_model_asks_for_it():
    async with Simulator(Scenario(replies=(says("three"),))) as simulator:
        graph = create_agent(model_of(simulator, stream_usage=False), [])
        async with start(Agent("desk", engine=as_engine(graph)), "Add") as live:
            [_ async for _ in live]
            result = await live.result()
        unwatched = await run(Agent("desk", engine=as_engine(graph)), "Add")
    assert (result.usage.input_tokens, result.usage.unmeasured_calls) == (None, 1)
    assert "usage.input_tokens" in result.warnings[0].message
    assert unwatched.usage.input_tokens == 100


async def test_a_structured_answer_is_the_output():
    reply = Reply(tool_calls=(ScriptedCall(name="Sum", arguments={"sum": 3}),))
    async with desk(reply, response_format=ToolStrategy(Sum)) as agent:
        result = await run(agent, "Add")
    assert (result.output, result.tool_outcomes) == ({"sum": 3}, ())


@pytest.mark.parametrize(
    ("budget", "dimension"),
    [(Budget(max_turns=1), "turns"), (Budget(max_tokens=120), "tokens")],
)
async def test_a_spent_budget_ends_the_run(add, budget, dimension):
    async with desk(calls(1), calls(2), says("no"), tools=[add]) as agent:
        result = await run(agent, "Add", budget=budget)
    assert result.status == "failed"
    assert result.error.code in ("budget_exceeded", "max_turns")
    assert result.usage.api_calls == 1


async def test_the_limit_on_tool_calls_holds_for_the_agents_own_tools(add, added):
    async with desk(calls(1), calls(2), says("no"), tools=[add]) as agent:
        result = await run(agent, "Add", budget=Budget(max_tool_calls=1))
    assert added == [1]
    assert isinstance(result.tool_outcomes[1], ToolDenied)


async def test_a_deadline_ends_the_run():
    async with desk("no", faults=[HangFault()]) as agent:
        result = await run(agent, "Add", budget=Budget(deadline_s=0.3))
    assert result.error.code == "timeout"


async def test_a_request_to_stop_is_followed_before_the_next_call(add):
    async with desk(calls(1), says("no"), tools=[add]) as agent, start(agent, "Add") as live:
        async for event in live:
            if event.kind == "tool_started":
                live.interrupt("user_cancel")
        result = await live.result()
    assert (result.status, result.usage.api_calls) == ("interrupted", 1)


async def test_a_decider_sees_what_is_sent_and_cannot_change_it_unheard(add):
    class Sees:
        def __init__(self):
            self.requests = []

        def before_model(self, info, request):
            self.requests.append(request)

    class Changes:
        def before_model(self, info, request):
            return type(request)("Something else")

    sees = Sees()
    async with desk(says("three"), tools=[add], system_prompt="Brief.") as agent:
        await run(agent, "Add", deciders=[sees])
        changed = await run(agent, "Add", deciders=[Changes()])
    [request] = sees.requests
    assert [message.text for message in request.messages] == ["Brief.", "Add"]
    assert [spec.name for spec in request.tools] == ["add"]
    assert changed.error.code == "hook_failed"


async def test_a_revised_run_is_told_what_to_change():
    class Wants:
        async def before_finalize(self, info, request, result):
            from upshot import FinalizeDecision

            if result.content == "three":
                return FinalizeDecision.revise("In digits, please.", "words")
            return FinalizeDecision.accept()

    async with Simulator(Scenario(replies=("three", "3"), when_spent="last")) as simulator:
        agent = Agent("desk", engine=as_engine(native(simulator)))
        result = await run(agent, "Add", deciders=[Wants()], max_attempts=2)
        asked = simulator.requests[-1].body["messages"]
    assert "In digits, please." in str(asked)
    assert len(result.attempt_log) == 2


async def test_secrets_are_masked(add, journal):
    reply = says("The key is s3cret-key-1234.")
    async with desk(reply, tools=[add]) as agent:
        result = await run(agent, "Add", secrets=["s3cret-key-1234"], journal=journal)
        log = [str(event) async for event in journal.events(result.run_id)]
    assert not any("s3cret-key-1234" in line for line in log)


async def test_a_tool_of_the_run_passes_its_gates_and_parks_the_run(refund, add, added):
    replies = (
        Reply(
            tool_calls=(
                ScriptedCall(name="refund", arguments={"x": 7}),
                ScriptedCall(name="add", arguments={"x": 1}),
            )
        ),
        says("done"),
    )
    async with (
        desk(*replies, tools=[add], ours=[refund]) as agent,
        open_journal("memory:") as journal,
    ):
        parked = await run(agent, "Refund", journal=journal)
        assert parked.status == "input_required"
        [pending] = parked.pending
        assert (pending.tool_name, pending.arguments, added) == ("refund", {"x": 7}, [1])
        assert pending.call_id == parked.messages[0].tool_calls[0].id
        result = await resume(
            parked.run_id, agent, journal=journal, answers=[Approve(pending.call_id)]
        )
    assert (result.content, added) == ("done", [1, 7])
    assert (result.usage.api_calls, len(result.tool_records)) == (2, 2)
    assert [warning.code for warning in result.warnings] == ["not_told"]


def ask(call):
    return Ask()


async def test_the_policy_holds_for_the_agents_own_tools_too(add, added):
    async with (
        desk(calls(1), says("three"), tools=[add]) as agent,
        open_journal("memory:") as journal,
    ):
        guarded = {"journal": journal, "on_pre_tool_use": ask}
        parked = await run(agent, "Add", **guarded)
        [pending] = parked.pending
        assert added == []
        answers = [Approve(pending.call_id)]
        result = await resume(parked.run_id, agent, answers=answers, **guarded)
    assert (result.content, added) == ("three", [1])


async def test_an_interrupt_of_its_own_is_a_question(added, journal):
    def pay(x: int) -> str:
        """Pay."""
        said = interrupt(f"Pay {x}?")
        added.append(said)
        return said

    async with desk(calls(7, name="pay"), says("done"), tools=[pay]) as agent:
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (pending.question, added, parked.effect) == ("Pay 7?", [], "none")
        answers = [Answer(pending.id, "yes")]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, added) == ("done", ["yes"])


async def test_a_hand_off_ends_the_run():
    reply = Reply(tool_calls=(ScriptedCall(name="transfer_to_billing", arguments={}),))
    async with desk(reply, says("no"), handoffs=[Handoff("billing")]) as agent:
        result = await run(agent, "Pay")
    assert (result.status, result.handoff.to_agent_id) == ("completed", "billing")
    assert result.usage.api_calls == 1


async def test_earlier_turns_of_a_conversation_are_sent(add):
    replies = (says("Hello Ann."), says("Ann."))
    async with Simulator(Scenario(replies=replies)) as simulator:
        agent = Agent("desk", engine=as_engine(native(simulator, add, system_prompt="Brief.")))
        async with open_journal("memory:") as journal:
            await run(agent, "I am Ann.", journal=journal, conversation="c1")
            result = await run(agent, "Who am I?", journal=journal, conversation="c1")
        sent = [one["role"] for one in simulator.requests[-1].body["messages"]]
    assert result.content == "Ann."
    assert sent == ["system", "user", "assistant", "user"]


async def test_dependencies_are_the_context_of_the_graph():
    def hello(state, runtime: Runtime[str]):
        return {"greeting": f"Hello {runtime.context}"}

    graph = StateGraph(dict)
    graph.add_node("hello", hello)
    graph.add_edge(START, "hello")
    agent = Agent("desk", engine=as_engine(graph.compile()))
    result = await run(agent, "Hello", dependencies="Ann")
    assert result.output == {"greeting": "Hello Ann"}


async def test_an_agent_that_a_tool_asks_is_seen_too():
    async with Simulator(Scenario(replies=(says("inner"),))) as inside:
        helper = native(inside)

        async def ask(x: int) -> str:
            """Ask the helper."""
            return (await helper.ainvoke({"messages": [("user", "Help")]}))["messages"][-1].content

        async with desk(calls(1, name="ask"), says("three"), tools=[ask]) as agent:
            result = await run(agent, "Add")
    assert (result.usage.api_calls, result.usage.input_tokens) == (3, 300)


async def test_a_graph_of_plain_nodes_is_seen_and_limited():
    async with Simulator(Scenario(replies=(says("one"), says("two")))) as simulator:
        model = model_of(simulator)

        def think(state):
            return {"messages": [model.invoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("first", think)
        graph.add_node("second", think)
        graph.add_edge(START, "first")
        graph.add_edge("first", "second")
        graph.add_edge("second", END)
        agent = Agent("desk", engine=as_engine(graph.compile()))
        result = await run(agent, "Think")
        limited = await run(agent, "Think", budget=Budget(max_turns=1))
    assert [message.text for message in result.messages] == ["one", "two"]
    assert (result.content, result.usage.api_calls) == ("two", 2)
    assert (limited.error.code, limited.usage.api_calls) == ("max_turns", 1)


async def test_a_compiled_graph_cannot_be_given_tools(refund):
    async with Simulator(Scenario(replies=("no",))) as simulator:
        agent = Agent("desk", engine=as_engine(native(simulator)), tools=[refund])
        result = await run(agent, "Refund")
    assert result.error.code == "invalid_request"
    assert "as_engine(lambda tools:" in result.error.message


async def test_the_log_of_a_graph_has_no_secrets_in_its_checkpoints(add, journal):
    async with desk(calls(1), says("Hi s3cret-key-1234"), tools=[add]) as agent:
        result = await run(
            agent, "I am s3cret-key-1234", secrets=["s3cret-key-1234"], journal=journal
        )
        log = [str(event) async for event in journal.events(result.run_id)]
    assert any("langgraph-1-1" in line for line in log)
    assert not any("s3cret-key-1234" in line for line in log)


def test_what_is_no_agent_is_refused():
    with pytest.raises(Misuse, match="as_engine takes"):
        as_engine("agent")


async def test_a_run_cannot_be_replayed(journal):
    async with desk(says("three")) as agent:
        result = await run(agent, "Add", journal=journal)
        with pytest.raises(Misuse, match="cannot be replayed"):
            await replay(result.run_id, agent, journal=journal)


async def test_an_agent_inside_a_run_shares_its_log(add, journal):
    async with desk(calls(1), says("three"), tools=[add]) as agent:

        async def script(current, host, board):
            return (await current.child(agent, "Add")).content

        result = await run(Agent("outer", engine=ScriptEngine(script)), "Add", journal=journal)
    assert (result.output, result.usage.input_tokens) == ("three", 200)


async def test_approvals_are_answered_one_by_one(refund, added, journal):
    replies = (calls(1, 2, name="refund"), calls(3, name="refund"), says("done"))
    async with desk(*replies, ours=[refund]) as agent:
        result = await run(agent, "Refund", journal=journal)
        for answer in (Approve, Deny, Approve):
            answers = [answer(result.pending[0].call_id)]
            result = await resume(result.run_id, agent, journal=journal, answers=answers)
    assert (result.content, added, result.usage.api_calls) == ("done", [1, 3], 3)
    assert [type(outcome) for outcome in result.tool_outcomes] == [
        *(ToolExecutionResult, ToolDenied, ToolExecutionResult)
    ]


@pytest.fixture
def put(added):
    """A tool of the run's that nobody is asked about."""

    @tool(effect="write")
    async def put(x: int = 0) -> str:
        added.append(x)
        return "put"

    return put


async def ended(agent, *, is_watched):
    if not is_watched:
        return await run(agent, "Add")
    async with start(agent, "Add") as live:
        return await live.finish()


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("name", ["add", "put"])
async def test_no_call_of_a_reply_that_a_filter_cut_is_made(add, put, added, name, is_watched):
    cut = Reply(
        text="Here is h",
        tool_calls=(ScriptedCall(name=name, arguments={"x": 1}),),
        finish_reason="content_filter",
        usage=COUNTS,
    )
    async with desk(cut, says("done"), tools=[add], ours=[put]) as agent:
        result = await ended(agent, is_watched=is_watched)
    assert added == []
    assert (result.status, result.error.code) == ("failed", "content_filter")
    assert result.content == "Here is h"


@pytest.mark.parametrize("is_watched", [False, True])
async def test_a_call_that_was_cut_at_the_limit_is_not_made(put, added, is_watched):
    asked = [ScriptedCall(name="put", arguments=x) for x in ({"x": 1}, "")]
    cut = Reply(tool_calls=tuple(asked), finish_reason="length", usage=COUNTS)
    async with desk(cut, says("done"), ours=[put]) as agent:
        result = await ended(agent, is_watched=is_watched)
    assert (result.status, added) == ("completed", [1])


def checked_desk(simulator):
    """A desk whose graph asks before it makes the calls of a reply."""

    def make(tools):
        model = model_of(simulator).bind_tools(tools)

        def check(state):
            interrupt("Go on?")

        async def ask(state):
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", ask)
        graph.add_node("check", check)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "model")
        graph.add_conditional_edges(
            "model", lambda state: "check" if state["messages"][-1].tool_calls else END
        )
        graph.add_edge("check", "tools")
        graph.add_edge("tools", "model")
        return graph.compile()

    return as_engine(make)


async def test_a_cut_call_is_not_made_by_a_later_session_either(put, added, journal):
    asked = [ScriptedCall(name="put", arguments=x) for x in ({"x": 1}, "")]
    cut = Reply(tool_calls=tuple(asked), finish_reason="length", usage=COUNTS)
    async with Simulator(Scenario(replies=(cut, says("done")))) as simulator:
        agent = Agent("desk", engine=checked_desk(simulator), tools=[put])
        parked = await run(agent, "Add", journal=journal)
        assert (parked.status, added) == ("input_required", [])
        answers = [Answer(parked.pending[0].id, "yes")]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.status, added) == ("completed", [1])
    assert [type(one) for one in result.tool_outcomes] == [ToolExecutionResult, ToolDenied]
