"""Who works for a machine: agents of all kinds, functions, tools; and how they are stopped."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engines.machine_kit import (
    AGENT,
    COUNTING,
    add,
    asking,
    costly,
    engine_of,
    go,
    talker,
    whole,
)
from upshot import (
    Aborted,
    Agent,
    AgentError,
    AgentResult,
    Failed,
    Interrupted,
    MachineEngine,
    Misuse,
    Parked,
    PendingQuestion,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolContext,
    load_machine,
    run,
    start,
    tool,
)

# ---- agents of all kinds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agents": [Agent("talker")]}, "agents is list: give a mapping by name"),
        ({"functions": len}, "functions is builtin_function_or_method: give a mapping by name"),
        ({"agents": {"talker": 3}}, "agents['talker'] is int: give an Agent"),
    ],
    ids=["agents", "functions", "agent"],
)
def test_who_is_not_given_by_name_is_misuse(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        asking(**given)


async def test_an_executor_gets_input_and_context_and_may_return_anything() -> None:
    seen: list[Any] = []

    class Foreign:
        async def execute(self, input: Any, context: Any) -> Any:
            seen.append((input, context))
            context["n"] = 99
            return {"content": "done"}

    engine = asking("input: {x: 1}\ntransitions: [{to: done}]", agents={"talker": Foreign()})
    result = await go(engine, inputs={"n": 1})
    assert seen[0][0] == {"x": 1}
    assert result.output == "done"
    assert result.last_board.get("n") == 1  # type: ignore[attr-defined]


async def test_an_executor_need_not_be_async() -> None:
    class Foreign:
        def execute(self, input: Any, context: Any) -> Any:
            return {"content": "done"}

    assert (await go(asking(agents={"talker": Foreign()}))).output == "done"


async def test_an_executor_that_returns_an_error_has_failed() -> None:
    class Foreign:
        async def execute(self, input: Any, context: Any = None) -> Any:
            return AgentError("model_unavailable", "away")

    result = await go(asking("on_error: other", agents={"talker": Foreign()}))
    assert result.output == {"code": "model_unavailable", "message": "away"}


async def test_a_run_inside_of_an_executor_is_counted_once() -> None:
    class Nested:
        async def execute(self, input: Any, context: Any) -> AgentResult[Any]:
            return await run(talker(costly("x")), "Go.")

    result = await go(asking(agents={"talker": Nested()}))
    assert result.usage.total_tokens == 15


async def test_an_engine_can_be_an_agent() -> None:
    inner = engine_of(
        "a: {type: initial, transitions: [{to: b}]}\nb: {type: final, output: {x: 1}}"
    )
    assert (await go(asking(agents={"talker": inner}))).output == {"x": 1}


async def test_agents_that_the_machine_describes_take_the_model_of_the_run() -> None:
    text = whole("a: {type: initial, agent: w, transitions: [{to: b}]}\nb: {type: final}",
                 agents="{w: {model: 'openai:gpt-5', instructions: Be brief.}}")  # fmt: skip
    heard: list[Any] = []

    def reply(messages: Any) -> str:
        heard.extend(messages)
        return "mine"

    result = await go(MachineEngine(load_machine(text)), model=ScriptedModel([reply]))
    assert result.content == "mine"


async def test_a_machine_with_a_model_of_its_own_lends_it_to_agents_without_one() -> None:
    agent: Agent[Any] = Agent(
        "m",
        model=ScriptedModel(["lent"]),
        engine=asking("transitions: [{to: done}]", agents={"talker": Agent("bare")}),
    )
    assert (await run(agent, Request("Go."))).content == "lent"


async def test_a_given_agent_keeps_its_model_beside_that_of_the_machine() -> None:
    agent: Agent[Any] = Agent(
        "m",
        model=ScriptedModel(["lent"]),
        engine=asking("transitions: [{to: done}]", agents={"talker": talker("own")}),
    )
    assert (await run(agent, Request("Go."))).content == "own"


def test_all_that_is_missing_is_named_before_the_start() -> None:
    text = (
        "a: {type: initial, agent: writter, transitions: [{to: b}]}\nb: {type: final, function: g}"
    )
    with pytest.raises(Misuse) as caught:
        engine_of(text, agents={"writer": talker()}, functions={})
    assert "no agent 'writter'" in str(caught.value)
    assert "did you mean 'writer'?" in str(caught.value)
    assert "no function 'g'" in str(caught.value)


class TakesOne:
    async def execute(self, input: Any) -> Any:
        return input


@pytest.mark.parametrize(
    "given",
    [{"agents": {"talker": 5}}, {"agents": {"talker": TakesOne()}},
     {"agents": {"talker": talker()}, "functions": {"f": 5}},
     {"agents": {"talker": talker()}, "hooks": object()}],
    ids=["agent", "execute", "function", "hooks"],
)  # fmt: skip
def test_what_is_of_no_use_is_misuse(given: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        asking(**given)


def test_only_a_machine_can_be_driven() -> None:
    with pytest.raises(Misuse, match="load_machine"):
        MachineEngine({"states": {}})  # type: ignore[arg-type]


async def test_tools_of_agents_get_what_the_run_depends_on() -> None:
    seen: list[Any] = []

    @tool(effect="read")
    def look(context: ToolContext[Any]) -> str:
        """Look."""
        seen.append(context.dependencies)
        return "seen"

    model = ScriptedModel([ToolCall("c1", "look", {}), "Done."])
    agent: Agent[Any] = Agent("talker", model=model, tools=[look])
    await go(asking(agents={"talker": agent}), dependencies="mine")
    assert seen == ["mine"]


async def test_agents_that_the_machine_describes_find_their_tools_by_name() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    text = whole("a: {type: initial, agent: w, transitions: [{to: b}]}\nb: {type: final}",
                 agents="{w: {tools: [look]}}")  # fmt: skip
    model = ScriptedModel([ToolCall("c1", "look", {}), "Done."])
    result = await go(MachineEngine(load_machine(text), tools=[look]), model=model)
    assert result.content == "Done."


# ---- stopping


async def test_a_wish_to_stop_is_followed_between_states() -> None:
    async with start(AGENT, "Go.", engine=engine_of(COUNTING, functions={"add": add})) as live:
        live.interrupt("custom", "enough")
        result = await live.result()
    assert (result.status, result.detail) == (Status.INTERRUPTED, "enough")


async def test_a_cancel_ends_a_state_that_hangs() -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    engine = engine_of("a: {type: initial, function: f, transitions: [{to: b}]}\nb: {type: final}",
                       functions={"f": hang})  # fmt: skip
    async with start(AGENT, "Go.", engine=engine) as live:
        await begun.wait()
        live.cancel()
        result = await live.result()
    assert result.status is Status.CANCELED


async def test_one_engine_drives_many_runs_at_the_same_time() -> None:
    engine = engine_of(COUNTING, functions={"add": add})
    results = await asyncio.gather(
        *(run(AGENT, Request("Go.", inputs={"n": n % 3}), engine=engine) for n in range(200))
    )
    assert [result.output for result in results] == [{"n": 3}] * 200


async def test_an_agent_without_a_model_is_misuse_before_the_start() -> None:
    engine = asking(agents={"talker": Agent("talker")})
    with pytest.raises(Misuse, match="no model for 'talker'"):
        await go(engine)
    result = await go(engine, model=ScriptedModel(["hi"]))
    assert result.success


async def test_a_sub_machines_agent_without_a_model_is_misuse_too() -> None:
    inner = "{spec: upshot.machine/1, states: {i: {type: initial, agent: w, transitions: "
    inner += "[{to: e}]}, e: {type: final}}}"
    states = f"a: {{type: initial, machine: {inner}, transitions: [{{to: z}}]}}\nz: {{type: final}}"
    engine = engine_of(states, agents={"w": Agent("writer")})
    with pytest.raises(Misuse, match="no model for 'writer'"):
        await go(engine)


# ---- an agent that was given up, or followed a wish to stop

_SUB = "{p: {type: initial, agent: w, transitions: [{to: q}]}, q: {type: final}}"
_ENDS = {
    "plain": "agent: w",
    "foreach": "foreach: '[1, 2]'\n  agent: w",
    "parallel": "parallel: {x: {agent: w}, y: {agent: fine}}",
    "sub-machine": f"machine: {{states: {_SUB}}}",
}
every_place = pytest.mark.parametrize("work", _ENDS.values(), ids=_ENDS)


def ending_in(error: Exception) -> Agent[Any]:
    def work(*_: Any) -> None:
        raise error

    return Agent("w", engine=ScriptEngine(work))


def machine_of(work: str, error: Exception, more: str = "") -> MachineEngine:
    states = f"""a:
  type: initial
  {work}
  transitions: [{{to: z}}]
  {more}
z: {{type: final, output: {{fine: 'true'}}}}
rescue: {{type: final, output: {{status: result.status}}}}
"""
    return engine_of(states, agents={"w": ending_in(error), "fine": talker("fine")})


@every_place
async def test_an_aborted_agent_that_nothing_leads_on_from_aborts_the_run(work: str) -> None:
    result = await go(machine_of(work, Aborted("sold out", code="zz")))
    assert result.error is not None
    assert (result.status, result.error.code, result.error.message) == ("aborted", "zz", "sold out")


@every_place
async def test_an_interrupted_agent_that_nothing_leads_on_from_interrupts(work: str) -> None:
    result = await go(machine_of(work, Interrupted("custom", "enough")))
    assert (result.status, result.cause, result.detail) == ("interrupted", "custom", "enough")


@pytest.mark.parametrize("place", ["function", "executor", "hook"])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Aborted("sold out"), "aborted"),
        (Interrupted("custom", "enough"), "interrupted"),
        (Parked(PendingQuestion(id="q", question="Well?")), "input_required"),
    ],
    ids=["aborted", "interrupted", "parked"],
)
async def test_code_of_a_machine_may_end_or_park_its_run(
    place: str, error: Exception, status: str
) -> None:
    def end(*_: Any, **__: Any) -> None:
        raise error

    work = "agent: w" if place == "executor" else "function: f"
    first = f"a: {{type: initial, {work}, on_error: z, transitions: [{{to: z}}]}}"
    engine = engine_of(
        f"{first}\nz: {{type: final}}",
        agents={"w": SimpleNamespace(execute=lambda input, context: end())},
        functions={"f": end if place == "function" else dict},
        hooks=SimpleNamespace(on_state_enter=end) if place == "hook" else None,
    )
    assert (await go(engine)).status == status


async def test_a_function_may_return_a_whole_result() -> None:
    states = """
        a: {type: initial, function: f, on_error: z, transitions: [{to: z}]}
        z: {type: final, output: {code: result.error.code}}
    """
    failed = AgentResult[Any](status=Status.FAILED, error=AgentError("rate_limit", "busy"))
    result = await go(engine_of(states, functions={"f": lambda: failed}))
    assert result.output == {"code": "rate_limit"}


async def test_the_input_of_a_function_has_to_name_its_arguments() -> None:
    states = """
        a: {type: initial, function: f, input: "[1, input.message]", transitions: [{to: z}]}
        z: {type: final}
    """
    result = await go(engine_of(states, functions={"f": max}))
    assert result.error is not None
    assert result.error.code == "invalid_request"
    assert "the input of the function 'f' is not a mapping" in result.error.message


async def test_an_input_that_is_a_list_is_shown_to_the_agent_as_json() -> None:
    seen: list[str] = []

    def reply(messages: Any) -> str:
        seen.append(messages[-1].text)
        return "Seen."

    agent = Agent[Any]("talker", model=ScriptedModel([reply]))
    engine = asking('input: "[1, context.n]"\ntransitions: [{to: done}]', agents={"talker": agent})
    await go(engine, inputs={"n": 2})
    assert json.loads(seen[0]) == [1, 2]


@every_place
@pytest.mark.parametrize(
    "error", [Aborted("m", code="zz"), Interrupted("custom", "d")], ids=["aborted", "interrupted"]
)
async def test_a_state_may_lead_on_from_an_agent_that_was_stopped(
    work: str, error: Exception
) -> None:
    result = await go(machine_of(work, error, "on_error: rescue"))
    assert result.success, result.error
    status = "aborted" if isinstance(error, Aborted) else "interrupted"
    assert result.output == {"status": status}


async def test_a_transition_may_look_for_an_agent_that_was_aborted() -> None:
    engine = engine_of(
        """
        a:
          type: initial
          agent: w
          transitions: [{when: 'result.status == "aborted"', to: rescue}, {to: z}]
        z: {type: final}
        rescue: {type: final, output: {code: result.error.code}}
        """,
        agents={"w": ending_in(Aborted("m", code="zz"))},
    )
    assert (await go(engine)).output == {"code": "zz"}


@every_place
async def test_a_failure_with_the_code_interrupted_is_a_failure(work: str) -> None:
    result = await go(machine_of(work, Failed("interrupted", "unknown")))
    assert (result.status, result.cause) == ("failed", "")


def test_tools_that_are_nowhere_are_named_before_the_start() -> None:
    machine = load_machine("""
spec: upshot.machine/1
agents: {w: {tools: [look, add, peek]}}
states:
  a: {type: initial, agent: w, transitions: [{to: e}]}
  e: {type: final}
""")
    with pytest.raises(Misuse) as caught:
        MachineEngine(machine, tools=[tool(effect="read")(add)])
    assert "machine:5:29: the agent 'w' names the tool 'look'" in str(caught.value)
    assert "'peek'" in str(caught.value)
    assert "the tool 'add'" not in str(caught.value)
