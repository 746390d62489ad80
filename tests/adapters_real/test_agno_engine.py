"""What only agents of Agno have, as the engine of a run."""

import pytest
from agno.agent import Agent as NativeAgent
from agno.models.openai import OpenAIChat
from agno.tools import tool as agno_tool
from pydantic import BaseModel

from tests.adapters_real.plays import QUIET
from upshot import Agent, Answer, open_journal, resume, run
from upshot.adapters import as_engine
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


class Sum(BaseModel):
    sum: int


def native(simulator, *tools, **options):
    model = OpenAIChat(id="gpt-5", base_url=simulator.base_url, api_key="no-key", max_retries=0)
    return NativeAgent(model=model, tools=[*tools], telemetry=False, **options)


def calls(name, **arguments):
    return Reply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


async def test_a_structured_answer_is_the_output():
    async with Simulator(Scenario(replies=('{"sum": 3}',))) as simulator:
        engine = as_engine(native(simulator, output_schema=Sum))
        result = await run(Agent("desk", engine=engine), "Add")
    assert result.output == {"sum": 3}


@pytest.mark.parametrize(("answer", "made"), [("approve", [7]), ("deny", [])])
async def test_a_confirmation_of_its_own_is_a_question(answer, made):
    paid = []

    @agno_tool(requires_confirmation=True)
    async def pay(x: int) -> str:
        """Pay."""
        paid.append(x)
        return "paid"

    async with (
        Simulator(Scenario(replies=(calls("pay", x=7), "done"))) as simulator,
        open_journal("memory:") as journal,
    ):
        agent = Agent("desk", engine=as_engine(native(simulator, pay)))
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (parked.status, paid) == ("input_required", [])
        answers = [Answer(pending.id, answer)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, paid) == ("done", made)


async def test_instructions_are_added():
    async with Simulator(Scenario(replies=("Hi",))) as simulator:
        engine = as_engine(native(simulator, instructions="Be kind."))
        await run(Agent("desk", engine=engine, instructions="Be brief."), "Hello")
        system = str(simulator.requests[0].body["messages"][0]["content"])
    assert "Be kind." in system and "Be brief." in system
