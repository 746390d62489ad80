"""What an agent said that ended the run around it is in the result, whatever engine it was in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runs.kit import say
from upshot import (
    Aborted,
    Agent,
    AgentResult,
    Engine,
    Graph,
    GraphEngine,
    MachineEngine,
    Parallel,
    ScriptedModel,
    ScriptEngine,
    load_machine,
    run,
)

STATES = {"a": {"type": "initial", "agent": "w", "transitions": [{"to": "b"}]}}
LAST = {"b": {"type": "final", "output": {"said": "output.content"}}}


def machine(agent: Agent[Any], states: dict[str, Any]) -> Engine:
    loaded = load_machine({"spec": "upshot.machine/1", "states": {**states, **LAST}})
    return MachineEngine(loaded, agents={"w": agent})


def returning(agent: Agent[Any]) -> Engine:
    return ScriptEngine(lambda run, host, board: run.child(agent, "?"))


def unwrapping(agent: Agent[Any]) -> Engine:
    async def script(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(agent, "?")).unwrap()

    return ScriptEngine(script)


def nested(agent: Agent[Any]) -> Engine:
    inner = {"spec": "upshot.machine/1", "states": {**STATES, **LAST}}
    return machine(
        agent, {"a": {"type": "initial", "machine": inner, "transitions": [{"to": "b"}]}}
    )


def each(agent: Agent[Any]) -> Engine:
    looping = {**STATES["a"], "foreach": "[1]", "as": "n"}
    return machine(agent, {"a": looping})


ENGINES: dict[str, Callable[[Agent[Any]], Engine]] = {
    "script": returning,
    "unwrapped": unwrapping,
    "graph": lambda agent: GraphEngine(Graph({"a": agent})),
    "parallel": lambda agent: GraphEngine(Graph({"p": Parallel({"a": agent})})),
    "machine": lambda agent: machine(agent, STATES),
    "sub-machine": nested,
    "foreach": each,
}


async def around(name: str, agent: Agent[Any]) -> AgentResult[Any]:
    return await run(Agent("outer", engine=ENGINES[name](agent)), "?")


@pytest.mark.parametrize("name", ENGINES)
async def test_an_answer_of_another_form_is_kept_as_it_was(name: str) -> None:
    worker = Agent[Any]("w", model=ScriptedModel(["one", "two"]), output_type=int)
    result = await around(name, worker)
    assert result.error is not None
    assert result.error.code == "invalid_output"
    assert (result.content, [one.text for one in result.messages]) == ("two", ["two"])


@pytest.mark.parametrize("name", ENGINES)
async def test_what_an_agent_said_that_was_aborted_is_kept(name: str) -> None:
    async def give_up(run: Any, host: Any, board: Any) -> None:
        board.append(say("As far as I got."))
        raise Aborted("enough")

    result = await around(name, Agent[Any]("w", engine=ScriptEngine(give_up)))
    assert (result.status, result.content) == ("aborted", "As far as I got.")
