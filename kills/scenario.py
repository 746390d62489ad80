"""Runs that can be reproduced from a number: their agents, and the effects of their tools."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from upshot import (
    Agent,
    Graph,
    GraphEngine,
    LoopEngine,
    MachineEngine,
    Message,
    Parked,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    load_machine,
    tool,
)

EFFECTS = "UPSHOT_KILLS_EFFECTS"
"""The environment variable with the folder that has a file of effects for each run."""

ENGINES = ("loop", "script", "graph", "machine")
LARGE = 40_000


class Done(NamedTuple):
    """One effect on the world.

    Attributes:
        at_s: When, in seconds since 1970.
        tag: Which effect: the id of the tool call, or a name for a step.
    """

    at_s: float
    tag: str


def _file(run: str) -> str:
    return os.path.join(os.environ[EFFECTS], run)


def do(run: str, tag: str) -> None:
    """Record an effect: one line, written by one system call."""
    file = os.open(_file(run), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{time.time()!r} {tag}\n".encode())
    os.close(file)


def effects(run: str) -> list[Done]:
    """Return the effects of a run so far, in order."""
    if not os.path.exists(_file(run)):
        return []
    with open(_file(run)) as file:
        fields = [line.split() for line in file]
    return [Done(float(at), tag) for at, tag in fields]


@tool(effect="read")
async def look(run: str, tag: str) -> str:
    """Read."""
    do(run, tag)
    return f"seen {tag}"


@tool(effect="read")
def fetch(run: str, tag: str) -> str:
    """Read something too large for a message, in a thread."""
    do(run, tag)
    return f"{tag} " * LARGE


@tool(effect="write")
def change(run: str, tag: str) -> str:
    """Write, in a thread."""
    do(run, tag)
    return f"changed {tag}"


@tool(effect="write", idempotent=True)
async def put(run: str, tag: str) -> str:
    """Write what may be written again."""
    do(run, tag)
    return f"put {tag}"


@tool(effect="destructive")
async def pay(run: str, tag: str) -> str:
    """Write what a person has to allow."""
    do(run, tag)
    return f"paid {tag}"


@tool(effect="write", isolation="process")
def apart(run: str, tag: str) -> str:
    """Write, in a process of its own."""
    do(run, tag)
    return f"done {tag}"


TOOLS: dict[str, Any] = {one.name: one for one in (look, fetch, change, put, pay, apart)}
READS = ("look", "fetch")
REPEATABLE = (*READS, "put")
"""Tools whose calls may be repeated if a process died in them."""

_MACHINE = """
spec: upshot.machine/1
states:
  first: {type: initial, agent: first, input: "'Go.'", transitions: [{to: second}]}
  second: {agent: second, input: "'Go on.'", transitions: [{to: done}]}
  done: {type: final}
"""


class Scenario:
    """The run of number *seed*: always the same agents with the same calls."""

    def __init__(self, seed: int) -> None:
        self.run_id = f"run-{seed}"
        rng = random.Random(seed)
        self.engine = rng.choice(ENGINES)
        self._rng = rng
        self._count = 0
        # Models are called repeatedly, so their replies are chosen once.
        self._turns = [self._calls() for _ in range(4)]

    def _calls(self) -> list[list[ToolCall]]:
        turns: list[list[ToolCall]] = []
        for _ in range(self._rng.randint(1, 3)):
            names = self._rng.choices(
                [*TOOLS], weights=(6, 1, 6, 4, 2, 1), k=self._rng.randint(1, 3)
            )
            turns.append([self._call(name) for name in names])
        return turns

    def _call(self, name: str) -> ToolCall:
        self._count += 1
        tag = f"{name}{self._count}"
        return ToolCall(tag, name, {"run": self.run_id, "tag": tag})

    def agent(self) -> Agent[Any]:
        """Make the agent of the run."""
        return getattr(self, f"_{self.engine}")()

    def _inner(self, id: str, turns: Sequence[list[ToolCall]]) -> Agent[Any]:
        return Agent(id, model=_model(id, turns), tools=tools())

    def _loop(self) -> Agent[Any]:
        return self._inner("loop", [*self._turns[0], *self._turns[1]])

    def _script(self) -> Agent[Any]:
        first, second, third, _ = self._turns
        run_id = self.run_id

        async def script(run: Any, host: Any, board: Any) -> str:
            await host.once("step-write", "write", lambda: do(run_id, "step-write"))
            child = await run.child(self._inner("child", first), "Go.", key="child")
            if child.pending:
                raise Parked(*child.pending)
            await run.tools.dispatch(third[0])
            await LoopEngine().execute(run, host, board)
            return str(child.content)

        model, engine = _model("script", second), ScriptEngine(script)
        return Agent("script", engine=engine, model=model, tools=tools())

    def _graph(self) -> Agent[Any]:
        first, second, third, _ = self._turns

        async def call(board: Any, run: Any) -> None:
            await run.tools.dispatch(third[0])

        nodes = {
            "call": call,
            "left": self._inner("left", first),
            "right": self._inner("right", second),
        }
        edges = [("call", "left"), ("call", "right")]
        graph = Graph(nodes=nodes, edges=edges, start="call")
        return Agent("graph", engine=GraphEngine(graph), tools=tools())

    def _machine(self) -> Agent[Any]:
        agents = {
            "first": self._inner("first", self._turns[0]),
            "second": self._inner("second", self._turns[1]),
        }
        return Agent("machine", engine=MachineEngine(load_machine(_MACHINE), agents=agents))


def tools() -> list[Any]:
    """Return all tools; the isolated one gets the folder of the effects in its environment."""
    told = {EFFECTS: os.environ[EFFECTS]}
    return [one.but(env=told) if one.isolation else one for one in TOOLS.values()]


def _model(id: str, turns: Sequence[list[ToolCall]]) -> ScriptedModel:
    """Return a model that finds its turn from the conversation, like a real one."""

    def reply(messages: Sequence[Message]) -> str | list[ToolCall]:
        said = sum(message.role == "assistant" for message in messages)
        return turns[said] if said < len(turns) else f"{id} is done."

    return ScriptedModel(reply)
