"""The name of an experiment: it changes with the agents and all that they refer to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentTask,
    Fallback,
    Graph,
    GraphEngine,
    Handoff,
    MachineEngine,
    ModelSettings,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolTask,
    lab,
    load_machine,
    tool,
)
from upshot.lab.agent_digest import digest_of

SAYS = ScriptedModel(["hi"])


@tool(effect="write")
def pay(order: int) -> str:
    """Pay."""
    return "paid"


class Home:
    """A model of the user's."""

    name = "home:m"

    def __init__(self, warmth: float) -> None:
        self.warmth = warmth

    async def call(self, request: Any) -> Any:
        raise NotImplementedError

    stream = call


class Strict:
    """A decider with data."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    async def before_finalize(self, info: Any, result: Any) -> None:
        return None


@dataclass
class One:
    x: int


@dataclass
class Other:
    x: int
    y: int


def says(text: str) -> Callable[[Any], str]:
    return lambda run: text


async def script(run: Any, host: Any, board: Any) -> str:
    return "a"


async def other_script(run: Any, host: Any, board: Any) -> str:
    return "b"


def sub(text: str = "a", **more: Any) -> Agent[Any]:
    return Agent("sub", model=SAYS, instructions=text, **more)


def of(**more: Any) -> Agent[Any]:
    return Agent("desk", **{"model": SAYS, **more})


def graph(text: str = "a", order: int = 1, start: str = "l") -> Agent[Any]:
    nodes = {"l": AgentTask(sub(text)), "p": ToolTask("pay", {"order": order})}
    return of(engine=GraphEngine(Graph(nodes, [("l", "p")], start=start)), tools=[pay])


def machine(said: str = "go", **given: Any) -> Agent[Any]:
    given = given or {"a": sub()}
    first = {"type": "initial", "agent": "a", "input": f"'{said}'"}
    states = {"s": {**first, "transitions": [{"to": "end"}]}, "end": {"type": "final"}}
    data = {"name": "m", "states": states}
    return of(engine=MachineEngine(load_machine(data), agents=given))


def scripted(*replies: Any) -> Agent[Any]:
    return of(model=ScriptedModel([*replies]))


PAIRS: dict[str, tuple[Agent[Any], ...]] = {
    "instructions": (of(), of(instructions="a"), of(instructions=says("a"))),
    "what instructions close over": (of(instructions=says("a")), of(instructions=says("b"))),
    "settings": (of(), of(settings=ModelSettings(temperature=0.3))),
    "output": (of(output_type=One), of(output_type=Other)),
    "replies": (scripted("hi"), scripted("ho"), scripted(ToolCall("c", "pay", {"order": 1}))),
    "a model's data": (of(model=Home(0.1)), of(model=Home(0.2))),
    "fallbacks": (of(model=Fallback(SAYS, Home(1))), of(model=Fallback(SAYS, Home(2)))),
    "a decider's data": (of(deciders=[Strict(["a"])]), of(deciders=[Strict(["b"])])),
    "a tool": (
        of(tools=[pay]),
        of(tools=[pay.but(effect="destructive")]),
        of(tools=[pay.but(about="Pays.")]),
        of(tools=[pay.but(approval=True)]),
        of(tools=[pay.but(once="order")]),
        of(tools=[pay.but(deny=True)]),
        of(tools=[pay.but(deny=lambda given: given["order"] > 1)]),
        of(tools=[pay.but(deny=lambda given: given["order"] > 2)]),
        of(tools=[pay.but(timeout_s=3)]),
    ),
    "an agent as a tool": (
        of(tools=[sub("a")]),
        of(tools=[sub("b")]),
        of(tools=[sub("b", tools=[pay])]),
        of(tools=[sub("b", tools=[pay.but(effect="destructive")])]),
        of(tools=[sub("b").as_tool(description="b")]),
        of(tools=[sub("b").but(model=Home(1))]),
        of(tools=[sub("b", tools=[Agent("inner", model=SAYS, instructions="x")])]),
        of(tools=[sub("b", tools=[Agent("inner", model=SAYS, instructions="y")])]),
    ),
    "a handoff": (
        of(handoffs=[sub("a")]),
        of(handoffs=[sub("b")]),
        of(handoffs=[Handoff("sub", "a")]),
        of(handoffs=[Handoff("sub", "b")]),
    ),
    "a graph": (graph(), graph("b"), graph(order=2), graph(start="p")),
    "a machine": (machine(), machine("stop"), machine(a=sub("b"))),
    "a script": (of(engine=ScriptEngine(script)), of(engine=ScriptEngine(other_script))),
}


@pytest.mark.parametrize("what", PAIRS)
def test_a_changed_agent_has_another_digest(what: str) -> None:
    digests = [digest_of(one) for one in PAIRS[what]]
    assert len({*digests}) == len(digests), [*pairwise(digests)]
    assert [digest_of(one) for one in PAIRS[what]] == digests


async def test_a_changed_inner_agent_is_run_and_not_read(tmp_path: Path) -> None:
    def boss(text: str) -> Agent[Any]:
        def reply(messages: Any) -> Any:
            done = [one.text for one in messages if one.tool_call_id]
            return done[0] if done else ToolCall("c", "sub", {"request": "x"})

        inner = sub().but(model=ScriptedModel(lambda messages: text))
        return of(model=ScriptedModel(reply), tools=[inner])

    dataset = lab.Dataset("d", (lab.Case(id="1", request=Request("q")),))
    for text in ("one", "two"):
        report = await lab.run(dataset, boss(text), journal=tmp_path / "lab.db")
        assert (report.of("today")[0].answer, report.runs_read) == (text, 0)
    report = await lab.run(dataset, boss("two"), journal=tmp_path / "lab.db")
    assert report.runs_read == 1


async def test_options_that_are_data_change_the_name() -> None:
    dataset = lab.Dataset("d", (lab.Case(id="1", request=Request("q")),))
    simulated: Any = {"unseen": "simulated"}
    options: list[dict[str, Any]] = [
        {},
        {"secrets": ["hush-hush"]},
        {"dependencies": 5},
        {"approvals": lambda asked: True},
        {"approvals": lambda asked: False},
        {**simulated, "simulator": sub("a")},
        {**simulated, "simulator": sub("a", tools=[pay])},
        {**simulated, "simulator": sub("a", tools=[pay.but(effect="destructive")])},
    ]
    names = [(await lab.run(dataset, of(), journal="memory:", **one)).name for one in options]
    assert len({*names}) == len(names)


@pytest.mark.slow
def test_the_digest_is_the_same_in_every_process() -> None:
    code = (
        "from tests.lab.test_names import PAIRS; from upshot.lab.agent_digest import digest_of; "
        "print([digest_of(*agents) for agents in PAIRS.values()])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] == f"{[digest_of(*agents) for agents in PAIRS.values()]}\n"
