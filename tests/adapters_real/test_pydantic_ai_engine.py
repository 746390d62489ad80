"""An agent of Pydantic AI as the engine of a run, on the simulator."""

from contextlib import asynccontextmanager

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as NativeAgent
from pydantic_ai import ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

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
        if x == 0:
            raise ModelRetry("x must not be zero")
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


def native(simulator, *tools, **options):
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=simulator.base_url, api_key="no-key", max_retries=0)
    model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))
    return NativeAgent(model, tools=list(tools), **options)


@asynccontextmanager
async def desk(*replies, tools=(), ours=(), faults=(), reads=(), handoffs=(), **options):
    """A desk whose engine is an agent that asks the simulator."""
    async with Simulator(Scenario(replies=replies, faults=tuple(faults))) as simulator:
        engine = as_engine(native(simulator, *tools, **options), reads=reads)
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


async def test_equal_calls_of_one_reply_are_one_call_for_tools_of_both(add, added):
    @tool(effect="write")
    async def ours(x: int) -> str:
        added.append(x)
        return "done"

    replies = calls(1, 1), calls(1), calls(5, 5, name="ours"), calls(5, name="ours"), says("ok")
    async with desk(*replies, tools=[add], ours=[ours]) as agent:
        result = await run(agent, "Add")
    assert (result.content, added) == ("ok", [1, 1, 5, 5])
    repeats = [outcome.repeats is not None for outcome in result.tool_outcomes]
    assert repeats == [False, True, False, False, True, False]


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


async def test_an_empty_reply_is_asked_for_again_once():
    async with desk(says("")) as agent:
        result = await run(agent, "Add")
    assert (result.error.code, result.usage.api_calls) == ("empty_reply", 2)


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


async def test_a_refused_call_is_tried_again_as_the_run_says():
    fault = StatusFault(status=500, at=0)
    async with desk(says("three"), faults=[fault]) as agent:
        result = await run(agent, "Add", retry=Retry(max_tries=2, base_s=0.001))
    assert (result.content, result.usage.api_calls) == ("three", 2)


async def test_what_a_tool_raises_fails_the_run_and_is_recorded(add):
    async with desk(calls(-1), says("no"), tools=[add]) as agent:
        result = await run(agent, "Add")
    assert (result.error.code, result.error.type) == ("internal", "ValueError")
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert "negative" in outcome.error


async def test_a_call_that_the_tool_wants_made_again_is_a_failure_that_may_be_retried(add):
    async with desk(calls(0), calls(1), says("three"), tools=[add]) as agent:
        result = await run(agent, "Add")
    first, second = result.tool_outcomes
    assert isinstance(first, ToolFailure)
    assert (first.retryable, first.effect) == (True, "none")
    assert isinstance(second, ToolExecutionResult)
    assert result.content == "three"


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


async def test_a_structured_answer_is_the_output():
    reply = Reply(tool_calls=(ScriptedCall(name="final_result", arguments={"sum": 3}),))
    async with desk(reply, output_type=Sum) as agent:
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
    async with desk(says("three"), tools=[add], instructions="Brief.") as agent:
        await run(agent, "Add", deciders=[sees])
        changed = await run(agent, "Add", deciders=[Changes()])
    [request] = sees.requests
    assert (request.system, request.messages[-1].text) == ("Brief.", "Add")
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


async def test_a_deferred_call_of_its_own_is_a_question(added):
    from pydantic_ai import Tool

    def pay(x: int) -> str:
        """Pay."""
        added.append(x)
        return "paid"

    own = Tool(pay, requires_approval=True)
    async with (
        desk(calls(7, name="pay"), says("done"), tools=[own]) as agent,
        open_journal("memory:") as journal,
    ):
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (added, parked.effect) == ([], "none")
        answers = [Answer(pending.id, "approve")]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, added) == ("done", [7])


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


async def test_dependencies_are_the_agents_deps():
    async with Simulator(Scenario(replies=("Hi",))) as simulator:
        inner = native(simulator, deps_type=str)

        @inner.instructions
        def who(context):
            return f"You talk to {context.deps}."

        await run(Agent("desk", engine=as_engine(inner)), "Hello", dependencies="Ann")
        assert "You talk to Ann." in str(simulator.requests[0].body["messages"])


async def test_what_an_agent_that_it_asks_used_is_counted():
    async with Simulator(Scenario(replies=(says("inner"),))) as inside:
        helper = native(inside)

        async def ask(context, x: int) -> str:
            """Ask the helper."""
            return (await helper.run("Help", usage=context.usage)).output

        from pydantic_ai import RunContext, Tool

        ask.__annotations__["context"] = RunContext
        async with desk(calls(1, name="ask"), says("three"), tools=[Tool(ask)]) as agent:
            result = await run(agent, "Add")
    assert (result.usage.api_calls, result.usage.input_tokens) == (3, 300)


def test_what_is_no_agent_is_refused():
    with pytest.raises(Misuse, match="as_engine takes"):
        as_engine("agent")


async def test_a_run_is_replayed_without_a_call(add, added, journal):
    async with desk(calls(1), says("three"), tools=[add]) as agent:
        result = await run(agent, "Add", journal=journal)
        again = await replay(result.run_id, agent, journal=journal)
    assert (again.same, again.result.content, added) == (True, "three", [1])


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
