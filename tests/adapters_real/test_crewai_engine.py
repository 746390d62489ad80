"""What only agents of CrewAI have, as the engine of a run."""

import pytest

from tests.adapters_real.plays import KEY, MODEL, is_here
from upshot import Agent, run, tool
from upshot.adapters import as_engine
from upshot.contract import ToolExecutionResult
from upshot.errors import Misuse
from upshot.sim import Reply, Scenario, ScriptedCall, Simulator, StatusFault

pytestmark = pytest.mark.skipif(not is_here("crewai"), reason="crewai is not installed")


def native(simulator, *tools, **options):
    from crewai import LLM
    from crewai import Agent as NativeAgent

    model = LLM(model=f"openai/{MODEL}", base_url=simulator.base_url, api_key=KEY, max_retries=0)
    fields = {"role": "clerk", "goal": "Add.", "backstory": "A clerk.", **options}
    return NativeAgent(llm=model, tools=[*tools], **fields)


def calls(name, **arguments):
    return Reply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


async def test_its_own_retries_of_a_rate_limit_are_the_runs():
    fault = StatusFault(status=429, retry_after_s=7, times=None)
    async with Simulator(Scenario(replies=("no",), faults=(fault,))) as simulator:
        engine = as_engine(native(simulator))
        result = await run(Agent("desk", engine=engine), "Hello", retry=None)
        asked = len(simulator.requests)
    assert (result.error.code, result.usage.api_calls, asked) == ("rate_limit", 1, 1)


async def test_what_a_tool_returned_is_not_cached_by_the_library():
    from crewai.tools import tool as crewai_tool

    made = []

    @crewai_tool("Look Up")
    def look(x: int) -> str:
        """Look."""
        made.append(x)
        return "seen"

    replies = calls("look_up", x=1), calls("look_up", x=1), "done"
    async with Simulator(Scenario(replies=replies)) as simulator:
        engine = as_engine(native(simulator, look, cache=True), reads={"look_up"})
        result = await run(Agent("desk", engine=engine), "Look")
    assert (result.content, made, len(result.tool_outcomes)) == ("done", [1, 1], 2)


async def test_a_tool_of_the_run_has_its_own_name_though_the_library_writes_another():
    @tool
    async def lookUp(x: int) -> str:
        return f"seen {x}"

    async with Simulator(Scenario(replies=(calls("look_up", x=1), "done"))) as simulator:
        engine = as_engine(native(simulator))
        result = await run(Agent("desk", engine=engine, tools=[lookUp]), "Look")
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert (outcome.tool_name, result.content) == ("lookUp", "done")


async def test_instructions_are_added_and_the_agent_is_not_changed():
    async with Simulator(Scenario(replies=("Hi",))) as simulator:
        theirs = native(simulator)
        engine = as_engine(theirs)
        await run(Agent("desk", engine=engine, instructions="Be brief."), "Hello")
        system = str(simulator.requests[0].body["messages"][0]["content"])
    assert "A clerk." in system and "Be brief." in system
    assert theirs.backstory == "A clerk." and "call" not in vars(theirs.llm)


def test_a_crew_is_run_in_a_script():
    from crewai import Crew

    with pytest.raises(Misuse, match="from_crewai"):
        as_engine(Crew.model_construct())
