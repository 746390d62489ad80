"""What only agents of smolagents have, as the engine of a run."""

import pytest

from tests.adapters_real.plays import KEY, MODEL, is_here
from upshot import Agent, Approve, open_journal, resume, run, tool
from upshot.adapters import as_engine
from upshot.errors import Misuse
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator, StatusFault

pytestmark = pytest.mark.skipif(not is_here("smolagents"), reason="smolagents is not installed")


@pytest.fixture
async def journal():
    async with open_journal("memory:") as journal:
        yield journal


def native(simulator, *tools, kind="ToolCallingAgent", **options):
    import smolagents
    from smolagents.monitoring import LogLevel

    model = smolagents.OpenAIServerModel(
        MODEL, api_base=simulator.base_url, api_key=KEY, client_kwargs={"max_retries": 0}
    )
    agent = getattr(smolagents, kind)
    return agent([*tools], model, verbosity_level=LogLevel.OFF, max_steps=3, **options)


def calls(name, **arguments):
    return Reply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


def put_tool(made):
    from smolagents import Tool

    class Put(Tool):
        name, description, output_type = "put", "Put.", "string"
        inputs = {"x": {"type": "integer", "description": "What."}}

        def forward(self, x):
            made.append(x)
            return f"put {x}"

    return Put()


async def test_an_answer_that_is_no_text_is_the_output_after_a_crash_too(journal):
    @tool(effect="write", approval=True)
    async def refund(x: int) -> str:
        return "refunded"

    answer = calls("final_answer", answer={"sum": 3})
    async with Simulator(Scenario(replies=(calls("refund", x=7), answer))) as simulator:
        agent = Agent("desk", engine=as_engine(native(simulator)), tools=[refund])
        parked = await run(agent, "Refund", journal=journal)
        answers = [Approve(parked.pending[0].call_id)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
        again = await resume(parked.run_id, agent, journal=journal)
    assert result.output == again.output == {"sum": 3}
    assert [outcome.tool_name for outcome in result.tool_outcomes] == ["refund"]


async def test_the_calls_of_code_are_calls_of_the_run(journal):
    made = []
    code = "<code>\nfirst = put(1)\nfinal_answer(put(x=2) + first)\n</code>"
    async with Simulator(Scenario(replies=(code,))) as simulator:
        agent = Agent("desk", engine=as_engine(native(simulator, put_tool(made), kind="CodeAgent")))
        result = await run(agent, "Put", journal=journal)
    assert (made, result.content) == ([1, 2], "put 2put 1")
    assert [outcome.output for outcome in result.tool_outcomes] == [
        {"result": "put 1"},
        {"result": "put 2"},
    ]


async def test_its_own_retries_of_a_rate_limit_are_the_runs():
    fault = StatusFault(status=429, retry_after_s=7, times=None)
    async with Simulator(Scenario(replies=("no",), faults=(fault,))) as simulator:
        result = await run(Agent("desk", engine=as_engine(native(simulator))), "Hi", retry=None)
        asked = len(simulator.requests)
    assert (result.error.code, result.usage.api_calls, asked) == ("rate_limit", 1, 1)


async def test_the_agent_itself_is_not_changed():
    made = []
    replies = calls("put", x=1), calls("final_answer", answer="done")
    async with Simulator(Scenario(replies=replies)) as simulator:
        theirs = native(simulator, put_tool(made), instructions="Be kind.")
        agent = Agent("desk", engine=as_engine(theirs), instructions="Be brief.")
        await run(agent, "Put")
        system = str(simulator.requests[0].body["messages"][0])
    assert "Be kind." in system and "Be brief." in system
    assert (theirs.memory.steps, theirs.instructions) == ([], "Be kind.")
    assert theirs.tools["put"](x=5) == "put 5" and made == [1, 5]


async def test_an_agent_with_other_agents_is_refused():
    async with Simulator(Scenario(replies=("no",))) as simulator:
        inner = native(simulator, name="helper", description="Helps.")
        with pytest.raises(Misuse, match="managed_agents"):
            as_engine(native(simulator, managed_agents=[inner]))
