"""What the objects of a program look like when they are printed: one line each, no addresses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    Budget,
    Graph,
    GraphEngine,
    LoopEngine,
    MachineEngine,
    ScriptedModel,
    ScriptEngine,
    Toolbox,
    ToolCall,
    ToolError,
    ToolSet,
    load_machine,
    open_journal,
    run,
    tool,
)
from upshot.journal import MemoryArtifactStore
from upshot.sim import Simulator
from upshot.tools import InMemoryArtifacts

STATES = {"a": {"type": "initial", "transitions": [{"to": "b"}]}, "b": {"type": "final"}}


@tool(effect="read", timeout_s=3)
async def look(key: str) -> str:
    """Look a key up."""
    return key


@tool
async def put(key: str) -> str:
    return key


@dataclass
class Order:
    id: str


def advice(run: Any) -> str:
    return "Be kind."


async def script(run: Any, host: Any, board: Any) -> None: ...


def work(board: Any) -> None: ...


MODEL = ScriptedModel(["Hello."])
GRAPH = Graph({"one": work, "two": work}, [("one", "two")])
MACHINE = load_machine({"spec": "upshot.machine/1", "states": STATES})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (look, "Tool(name='look', effect=Effect.READ, timeout_s=3)"),
        (put, "Tool(name='put')"),
        (ToolSet([look, put]), "ToolSet(['look', 'put'])"),
        (Toolbox([look, put]), "Toolbox(['look', 'put'])"),
        (InMemoryArtifacts(), "InMemoryArtifacts(0 stored)"),
        (MemoryArtifactStore(), "MemoryArtifactStore(0 stored)"),
        (ToolError("Gone."), "ToolError('Gone.')"),
        (
            ToolError("Gone.", code="x", retryable=False, retry_after_s=2, effect="none"),
            "ToolError('Gone.', code='x', retryable=False, retry_after_s=2, effect=Effect.NONE)",
        ),
        (LoopEngine(), "LoopEngine()"),
        (LoopEngine(MODEL), "LoopEngine(ScriptedModel('scripted:script', 0 of 1 played))"),
        (ScriptEngine(script), "ScriptEngine(script)"),
        (GraphEngine(GRAPH), "GraphEngine(Graph(['one', 'two'], start='one'))"),
        (MachineEngine(MACHINE), "MachineEngine(Machine('machine', states=['a', 'b']))"),
        (Simulator(["x"]), "Simulator(not running)"),
        (Agent("a"), "Agent(id='a')"),
        (
            Agent("a", instructions=advice, output_type=Order, tools=[put]),
            "Agent(id='a', instructions=advice, tools=(Tool(name='put'),), output_type=Order)",
        ),
        (
            Agent("a", model="openai:gpt-5", tools=[put], budget=Budget(max_turns=2), retry=None),
            "Agent(id='a', model='openai:gpt-5', tools=(Tool(name='put'),), "
            "budget=Budget(max_turns=2), retry=None)",
        ),
    ],
    ids=lambda one: one[:40] if isinstance(one, str) else "",
)
def test_it_looks_like_what_makes_it(value: object, shown: str) -> None:
    assert repr(value) == shown


def test_an_agent_with_long_instructions_stays_one_line() -> None:
    shown = repr(Agent("a", instructions="Be kind.\n" * 100, tools=[look] * 20))
    assert len(shown) < 400 and "\n" not in shown


async def test_a_journal_says_what_it_is_of(tmp_path: Path) -> None:
    async with open_journal("memory:") as journal:
        await run(Agent("a", model=ScriptedModel(["Hello."])), "Hi", journal=journal)
        assert repr(journal) == "MemoryJournal(1 run)"
    assert repr(journal) == "MemoryJournal(closed)"
    path = str(tmp_path / "runs.db")
    async with open_journal(path) as journal:
        assert repr(journal) == f"SqliteJournal({path!r})"
        assert repr(journal.artifacts) == f"SqlArtifactStore(SqliteJournal({path!r}))"
    assert repr(journal) == f"SqliteJournal({path!r}, closed)"


async def test_a_simulator_says_where_it_listens() -> None:
    async with Simulator(["x"]) as simulator:
        assert repr(simulator) == f"Simulator({simulator.base_url!r})"


async def test_a_toolbox_that_has_stored_an_output_shows_the_tool_that_reads_it() -> None:
    @tool(effect="read")
    async def log() -> str:
        return "line\n" * 20_000

    box = Toolbox([log])
    await box.dispatch([ToolCall("c", "log")])
    assert repr(box) == "Toolbox(['log', 'read_artifact'])"
