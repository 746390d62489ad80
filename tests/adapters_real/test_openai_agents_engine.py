"""What only agents of the OpenAI Agents SDK have, as the engine of a run."""

import pytest
from agents import Agent as NativeAgent
from agents import OpenAIChatCompletionsModel, function_tool
from openai import AsyncOpenAI
from pydantic import BaseModel

from upshot import Agent, Answer, open_journal, resume, run
from upshot.adapters import as_engine
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator


class Sum(BaseModel):
    sum: int


def model_of(simulator):
    client = AsyncOpenAI(base_url=simulator.base_url, api_key="no-key", max_retries=0)
    return OpenAIChatCompletionsModel(model="gpt-5", openai_client=client)


def calls(name, **arguments):
    return Reply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


async def test_the_agents_that_it_hands_off_to_are_of_the_run_too():
    async with Simulator(Scenario(replies=(calls("transfer_to_billing"), "Paid."))) as simulator:
        model = model_of(simulator)
        billing = NativeAgent(name="billing", model=model)
        desk = NativeAgent(name="desk", model=model, handoffs=[billing])
        # They may hand off in a circle.
        billing.handoffs.append(desk)
        result = await run(Agent("desk", engine=as_engine(desk)), "Pay")
    assert (result.content, result.usage.api_calls) == ("Paid.", 2)
    assert billing.model is model


async def test_what_an_agent_used_that_is_a_tool_is_counted():
    async with Simulator(Scenario(replies=("inner",))) as inside:
        helper = NativeAgent(name="helper", model=model_of(inside))
        ask = helper.as_tool("ask", "Ask the helper.")
        async with Simulator(Scenario(replies=(calls("ask", input="Help"), "done"))) as simulator:
            native = NativeAgent(name="theirs", model=model_of(simulator), tools=[ask])
            result = await run(Agent("desk", engine=as_engine(native)), "Add")
    assert (result.content, result.usage.api_calls) == ("done", 3)


async def test_a_structured_answer_is_the_output():
    async with Simulator(Scenario(replies=('{"sum": 3}',))) as simulator:
        native = NativeAgent(name="theirs", model=model_of(simulator), output_type=Sum)
        result = await run(Agent("desk", engine=as_engine(native)), "Add")
    assert result.output == {"sum": 3}


@pytest.mark.parametrize(("answer", "made"), [("approve", [7]), ("deny", [])])
async def test_an_approval_of_its_own_is_a_question(answer, made):
    paid = []

    @function_tool(needs_approval=True)
    def pay(x: int) -> str:
        """Pay."""
        paid.append(x)
        return "paid"

    async with (
        Simulator(Scenario(replies=(calls("pay", x=7), "done"))) as simulator,
        open_journal("memory:") as journal,
    ):
        native = NativeAgent(name="theirs", model=model_of(simulator), tools=[pay])
        agent = Agent("desk", engine=as_engine(native))
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (parked.status, paid) == ("input_required", [])
        answers = [Answer(pending.id, answer)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, paid) == ("done", made)


async def test_dependencies_are_its_context_and_instructions_are_added():
    async with Simulator(Scenario(replies=("Hi",))) as simulator:

        def who(context, agent):
            return f"You talk to {context.context}."

        native = NativeAgent(name="theirs", model=model_of(simulator), instructions=who)
        agent = Agent("desk", engine=as_engine(native), instructions="Be brief.")
        await run(agent, "Hello", dependencies="Ann")
        system = simulator.requests[0].body["messages"][0]["content"]
    assert system == "You talk to Ann.\n\nBe brief."
