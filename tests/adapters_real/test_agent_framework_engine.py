"""What only agents of Microsoft Agent Framework have, as the engine of a run."""

import pytest

from tests.adapters_real.plays import KEY, MODEL, is_here
from upshot import Agent, Answer, open_journal, resume, run
from upshot.adapters import as_engine
from upshot.errors import Misuse
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator

pytestmark = pytest.mark.skipif(
    not is_here("agent_framework"), reason="agent_framework is not installed"
)


def native(simulator, *tools, **options):
    from agent_framework import Agent as NativeAgent
    from agent_framework.openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=simulator.base_url, api_key=KEY, max_retries=0)
    model = OpenAIChatCompletionClient(model=MODEL, async_client=client)
    return NativeAgent(client=model, tools=[*tools], **options)


def calls(*names):
    asked = [ScriptedCall(name=name, arguments={"x": 7}) for name in names]
    return Reply(tool_calls=tuple(asked))


async def test_a_structured_answer_is_the_output():
    from pydantic import BaseModel

    class Sum(BaseModel):
        sum: int

    async with Simulator(Scenario(replies=('{"sum": 3}',))) as simulator:
        engine = as_engine(native(simulator, default_options={"response_format": Sum}))
        result = await run(Agent("desk", engine=engine), "Add")
    assert result.output == {"sum": 3}


@pytest.mark.parametrize(("answer", "made"), [("approve", [7]), ("deny", [])])
async def test_an_approval_of_its_own_is_a_question(answer, made):
    from agent_framework import tool

    paid, read = [], []

    @tool(approval_mode="always_require")
    async def pay(x: int) -> str:
        """Pay."""
        paid.append(x)
        return "paid"

    @tool
    async def look(x: int) -> str:
        """Look."""
        read.append(x)
        return "seen"

    async with (
        Simulator(Scenario(replies=(calls("pay", "look"), "done"))) as simulator,
        open_journal("memory:") as journal,
    ):
        agent = Agent("desk", engine=as_engine(native(simulator, pay, look)))
        parked = await run(agent, "Pay", journal=journal)
        [pending] = parked.pending
        assert (parked.status, paid) == ("input_required", [])
        answers = [Answer(pending.id, answer)]
        result = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (result.content, paid, read) == ("done", made, [7])


async def test_instructions_are_added():
    async with Simulator(Scenario(replies=("Hi",))) as simulator:
        engine = as_engine(native(simulator, instructions="Be kind."))
        await run(Agent("desk", engine=engine, instructions="Be brief."), "Hello")
        system = str(simulator.requests[0].body["messages"][0]["content"])
    assert "Be kind." in system and "Be brief." in system


async def test_dependencies_reach_its_tools():
    from agent_framework import FunctionInvocationContext, tool

    seen = []

    @tool
    async def look(x: int, ctx: FunctionInvocationContext) -> str:
        """Look."""
        seen.append(ctx.kwargs["dependencies"])
        return "seen"

    async with Simulator(Scenario(replies=(calls("look"), "done"))) as simulator:
        engine = as_engine(native(simulator, look))
        await run(Agent("desk", engine=engine), "Look", dependencies={"user": "ann"})
    assert seen == [{"user": "ann"}]


async def test_the_agent_itself_is_not_changed():
    async with Simulator(Scenario(replies=("Hi",))) as simulator:
        theirs = native(simulator)
        await run(Agent("desk", engine=as_engine(theirs)), "Hello")
        again = await theirs.run("Hello")
        sent = [len(one.body["messages"]) for one in simulator.requests]
    assert (again.text, theirs.context_providers, sent) == ("Hi", [], [1, 1])


def test_an_agent_whose_client_has_no_middleware_is_refused():
    from agent_framework import Agent as NativeAgent

    class Client:
        additional_properties = {}

    with pytest.raises(Misuse, match="FunctionInvocationLayer"):
        as_engine(NativeAgent(client=Client()))
