"""What only agents of Strands have, as the engine of a run."""

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from strands import Agent as NativeAgent
from strands import ToolContext
from strands import tool as strands_tool
from strands.models.openai import OpenAIModel

from upshot import Agent, Answer, Misuse, open_journal, resume, run
from upshot.adapters import as_engine
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator


class Sum(BaseModel):
    sum: int


def maker(simulator, *tools, **options):
    def make():
        client = AsyncOpenAI(base_url=simulator.base_url, api_key="no-key", max_retries=0)
        model = OpenAIModel(client=client, model_id="gpt-5")
        return NativeAgent(model=model, tools=[*tools], callback_handler=None, **options)

    return make


def calls(name, **arguments):
    return Reply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


def test_an_agent_that_keeps_its_conversation_is_refused():
    with pytest.raises(Misuse, match="a function without parameters"):
        as_engine(NativeAgent(model=OpenAIModel(client=object(), model_id="gpt-5")))


async def test_a_structured_answer_is_the_output():
    async with Simulator(Scenario(replies=(calls("Sum", sum=3), "done"))) as simulator:
        engine = as_engine(maker(simulator, structured_output_model=Sum))
        result = await run(Agent("desk", engine=engine), "Add")
    assert result.output == {"sum": 3}


async def test_an_interrupt_of_its_own_is_a_question():
    paid = []

    @strands_tool(context=True)
    def pay(x: int, tool_context: ToolContext) -> str:
        """Pay.

        Args:
            x: How much.
        """
        answer = tool_context.interrupt("pay", reason={"x": x})
        if answer == "yes":
            paid.append(x)
        return f"paid: {answer}"

    async with (
        Simulator(Scenario(replies=(calls("pay", x=7), "done"))) as simulator,
        open_journal("memory:") as journal,
    ):
        agent = Agent("desk", engine=as_engine(maker(simulator, pay)))
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (parked.status, paid, pending.question) == ("input_required", [], 'pay: {"x":7}')
        answers = [Answer(pending.id, "yes")]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, paid) == ("done", [7])


async def test_dependencies_are_in_its_state_and_instructions_are_added():
    seen = []

    @strands_tool(context=True)
    def who(tool_context: ToolContext) -> str:
        """Say who it is."""
        seen.append(tool_context.invocation_state["dependencies"])
        return "Ann"

    async with Simulator(Scenario(replies=(calls("who"), "Hi Ann"))) as simulator:
        engine = as_engine(maker(simulator, who, system_prompt="Be kind."))
        agent = Agent("desk", engine=engine, instructions="Be brief.")
        result = await run(agent, "Hello", dependencies="Ann")
        system = simulator.requests[0].body["messages"][0]["content"]
    assert (result.content, seen) == ("Hi Ann", ["Ann"])
    assert "Be kind." in str(system) and "Be brief." in str(system)
