"""What only agents of the Agent Development Kit have, as the engine of a run."""

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.models.lite_llm import LiteLlm
from google.adk.tools import FunctionTool
from google.genai import types
from pydantic import BaseModel

from tests.adapters_real.plays import QUIET
from upshot import Agent, Answer, open_journal, resume, run, tool
from upshot.adapters import as_engine
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


class Sum(BaseModel):
    sum: int


def model_of(simulator, name="gpt-5"):
    options = {"num_retries": 0, "max_retries": 0, "api_key": "no-key"}
    return LiteLlm(model=f"openai/{name}", api_base=simulator.base_url, **options)


def calls(name, **arguments):
    return Reply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


async def test_agents_inside_it_are_of_the_run_too():
    async with Simulator(Scenario(replies=("one", "two"))) as simulator:
        parts = [LlmAgent(name=name, model=model_of(simulator)) for name in ("a", "b")]
        both = SequentialAgent(name="both", sub_agents=parts)
        result = await run(Agent("desk", engine=as_engine(both)), "Go")
    assert (result.status, result.usage.api_calls) == ("completed", 2)
    assert parts[0].parent_agent is both


async def test_an_agent_that_it_transfers_to_is_of_the_run_too():
    reply = calls("transfer_to_agent", agent_name="billing")
    # It reads what the other agent did as a text of the user's: the replies are told by the model.
    scenario = Scenario(replies=(reply,), models={"gpt-5-mini": ("Paid.",)})
    async with Simulator(scenario) as simulator:
        model = model_of(simulator, "gpt-5-mini")
        billing = LlmAgent(name="billing", model=model, description="Bills.")
        desk = LlmAgent(name="desk", model=model_of(simulator), sub_agents=[billing])
        result = await run(Agent("desk", engine=as_engine(desk)), "Pay")
    assert (result.content, result.usage.api_calls) == ("Paid.", 2)


async def test_a_structured_answer_is_the_output():
    async with Simulator(Scenario(replies=('{"sum": 3}',))) as simulator:
        native = LlmAgent(name="theirs", model=model_of(simulator), output_schema=Sum)
        result = await run(Agent("desk", engine=as_engine(native)), "Add")
    assert result.output == {"sum": 3}


@pytest.mark.parametrize(("answer", "made"), [("approve", [7]), ("deny", [])])
async def test_a_confirmation_of_its_own_is_a_question(answer, made):
    paid = []

    def pay(x: int) -> str:
        """Pay."""
        paid.append(x)
        return "paid"

    async with (
        Simulator(Scenario(replies=(calls("pay", x=7), "done"))) as simulator,
        open_journal("memory:") as journal,
    ):
        own = FunctionTool(pay, require_confirmation=True)
        agent = Agent(
            "desk", engine=as_engine(LlmAgent(name="t", model=model_of(simulator), tools=[own]))
        )
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (parked.status, paid) == ("input_required", [])
        answers = [Answer(pending.id, answer)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, paid) == ("done", made)


class Nameless(BaseLlm):
    """A model whose calls have no ids, as those of Gemini."""

    model: str = "nameless"

    async def generate_content_async(self, llm_request, stream=False):
        answered = any(
            part.function_response for one in llm_request.contents for part in one.parts or ()
        )
        call = types.FunctionCall(name="put", args={"x": 7})
        part = types.Part(text="done") if answered else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def test_a_call_without_an_id_is_known_when_the_run_is_resumed():
    from upshot import Approve

    made = []

    @tool(effect="write", approval=True)
    async def put(x: int) -> str:
        made.append(x)
        return "put"

    agent = Agent("desk", engine=as_engine(LlmAgent(name="t", model=Nameless())), tools=[put])
    async with open_journal("memory:") as journal:
        parked = await run(agent, "Put", journal=journal)
        answers = [Approve(parked.pending[0].call_id)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, made) == ("done", [7])
