"""The result that a user gets is what the log of its run folds to, however a session ends."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.runs.kit import measured
from tests.searching import examples
from upshot import (
    Aborted,
    Agent,
    AgentError,
    AgentResult,
    Answer,
    Approve,
    Budget,
    Deny,
    Failed,
    FinalizeDecision,
    Graph,
    GraphEngine,
    LoopEngine,
    MachineEngine,
    ModelResponse,
    PendingApproval,
    Policy,
    Reasoning,
    Request,
    RunSettled,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    encode,
    load_machine,
    resume,
    start,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.state.run_state import RunState
from upshot.state.stored_events import result_of, states


@tool(effect="read")
async def look(x: int = 0) -> dict[str, int]:
    """Look."""
    return {"seen": x}


@tool(effect="read", trust="untrusted")
async def fetch() -> str:
    """Fetch."""
    return "words"


@tool(effect="write", approval=True)
async def pay(cents: int = 1) -> str:
    """Pay."""
    return "paid"


@tool(effect="write")
async def fail() -> str:
    """Fail."""
    raise ValueError("odd hush")


@tool(effect="read")
async def interrupt() -> str:
    """Ask that the run stop."""
    SESSION.stop("interrupt")
    return "asked"


@tool(effect="read")
async def cancel() -> str:
    """Cancel the run."""
    if SESSION.stop("cancel"):
        await asyncio.Event().wait()
    return "went on"


class Session:
    """The live run of the first session; a later one has none that a tool could reach."""

    def __init__(self) -> None:
        self.live: Any = None

    def stop(self, how: str) -> bool:
        if self.live is None:
            return False
        if how == "cancel":
            self.live.cancel()
        else:
            self.live.interrupt("custom", "asked")
        return True


SESSION = Session()
TOOLS: list[Any] = [look, fetch, pay, fail, interrupt, cancel]
NAMES = [one.name for one in TOOLS] + ["nothing"]
ARGUMENTS: list[Any] = [{}, {"x": 1}, {"cents": 5}, "no json"]
ERRORS = ["rate_limit", "server_error", "authentication", "context_length"]


def failing(code: str) -> ModelResponse:
    return ModelResponse(error=AgentError(code, "it says no hush", retryable=False))


calls = st.builds(
    ToolCall,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(NAMES),
    st.sampled_from(ARGUMENTS),
)
replies = st.one_of(
    st.lists(calls, min_size=1, max_size=3, unique_by=lambda one: one.id).map(
        lambda made: measured("So.", *made)
    ),
    st.sampled_from(["Done.", "hush"]).map(measured),
    st.sampled_from(ERRORS).map(failing),
    st.sampled_from(
        [
            measured(None),
            measured("Half of", finish_reason="length"),
            measured(None, refusal="I will not.", finish_reason="content_filter"),
            measured("Found.", provider_data={"server_tools": ["web_search"], "provider": "p"}),
            ModelResponse(parts=(Reasoning(text="hm"),), finish_reason="stop"),
        ]
    ),
)


class Then:
    """An engine that gives up, or fails, once *engine* is done."""

    def __init__(self, engine: Any, verdict: str) -> None:
        self._engine, self._verdict = engine, verdict

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        made = await self._engine.execute(run, host, board)
        match self._verdict:
            case "abort":
                raise Aborted("It cannot go on.", "dead_end")
            case "fail":
                raise Failed("conflict", "no hush")
            case "raise":
                raise ValueError("odd hush")
            case _:
                return made


class Decide:
    """Refuses, discards or takes the result of an attempt."""

    def __init__(self, verdict: str) -> None:
        self.left = [verdict]

    async def before_finalize(self, *_: Any) -> Any:
        match self.left.pop() if self.left else "":
            case "revise":
                return FinalizeDecision.revise("Say more.")
            case "discard":
                return FinalizeDecision.discard("No.")
            case _:
                return None


def with_model(said: list[ModelResponse]) -> ScriptedModel:
    # The script never ends: what is asked for beyond it is answered.
    return ScriptedModel([*said, *[measured("Enough.")] * 30])


def in_a_loop(said: list[ModelResponse]) -> Agent[Any]:
    return Agent("a", model=with_model(said), tools=TOOLS)


def in_a_script(said: list[ModelResponse]) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> dict[str, Any]:
        first = await host.once("one", "write", lambda: {"v": 1})
        child = await run.child(Agent("b", model=with_model(said[1:]), tools=TOOLS), "?", key="c")
        await run.tools.dispatch([ToolCall("d", "look", {"x": 5})])
        await LoopEngine().execute(run, host, board)
        return {"first": first, "child": child.content}

    model = with_model(said[:1])
    return Agent("a", engine=ScriptEngine(work), model=model, tools=TOOLS)


async def begin(board: Any) -> None:
    board.set("k", 1)


def in_a_graph(said: list[ModelResponse]) -> Agent[Any]:
    nodes = {
        "begin": begin,
        "ask": Agent("b", model=with_model(said), tools=TOOLS),
        "beside": Agent("c", model=with_model(said[1:]), tools=TOOLS),
        "end": begin,
    }
    edges = [("begin", "ask"), ("begin", "beside"), ("ask", "end"), ("beside", "end")]
    return Agent("a", engine=GraphEngine(Graph(nodes=nodes, edges=edges, start="begin")))


MACHINE = """
spec: upshot.machine/1
name: m
context: {n: 1}
states:
  begin: {type: initial, function: f, output_to_context: {n: "output"}, transitions: [{to: ask}]}
  ask: {agent: b, input: {text: "'hi'"}, transitions: [{to: hold}]}
  hold: {wait: hook, transitions: [{to: last}]}
  last: {type: final, output: {n: "context.n"}}
"""


def in_a_machine(said: list[ModelResponse]) -> Agent[Any]:
    agents = {"b": Agent("b", model=with_model(said), tools=TOOLS)}
    engine = MachineEngine(load_machine(MACHINE), agents=agents, functions={"f": lambda: 2})
    return Agent("a", engine=engine)


ENGINES: dict[str, Callable[[list[ModelResponse]], Agent[Any]]] = {
    "loop": in_a_loop,
    "script": in_a_script,
    "graph": in_a_graph,
    "machine": in_a_machine,
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"budget": Budget(max_turns=2)},
    {"budget": Budget(max_tool_calls=1)},
    {"budget": Budget(max_tokens=20)},
    {"policy": Policy()},
    {"secrets": ["hush"]},
]
MADE: Counter[str] = Counter()


# What the log says of a result in its end itself: whatever else it holds was said before.
LITERALLY = {
    *("kind", "schema_version", "status", "error", "usage", "cost", "committed", "duration_ms"),
    *("attempt_log", "finish_reason", "pending"),
}


async def fold(journal: MemoryJournal) -> AgentResult[Any] | None:
    last = RunState()
    async for _, state in states(journal.events("r")):
        last = state
    return result_of(last)


def form_of(result: AgentResult[Any] | None) -> Any:
    # The log has a mark in the place of each secret, of which the user sees stars.
    form = msgspec.json.decode(re.sub(rb"<secret [0-9a-f.]+>", b"***", encode(result)))
    form.pop("local", None)
    return form


async def check(result: AgentResult[Any], journal: MemoryJournal) -> None:
    assert form_of(await fold(journal)) == form_of(result)
    settled = [event async for event in journal.events("r")][-1]
    assert isinstance(settled, RunSettled)
    assert set(msgspec.to_builtins(settled.result)) <= LITERALLY
    MADE[result.status] += 1


def answers_to(result: AgentResult[Any], yes: bool) -> list[Any]:
    return [
        (Approve if yes else Deny)(one.id)
        if isinstance(one, PendingApproval)
        else Answer(one.id, "yes")
        for one in result.pending
    ]


async def live_through(
    make: Callable[[list[ModelResponse]], Agent[Any]],
    said: list[ModelResponse],
    verdict: str,
    options: dict[str, Any],
    yeses: list[bool],
) -> None:
    journal = MemoryJournal()
    options = {**options, "journal": journal, "deciders": [Decide(verdict)] if verdict else []}

    def agent() -> Agent[Any]:
        made = make(said)
        return made.but(engine=Then(made.engine or LoopEngine(), verdict))

    async with start(agent(), Request("?", run_id="r"), **options) as live:
        SESSION.live = live
        result = await live.result()
    SESSION.live = None
    await check(result, journal)
    for yes in yeses:
        if result.status is not Status.INPUT_REQUIRED:
            break
        answers = answers_to(result, yes)
        result = await resume("r", agent(), answers=answers, **options)
        await check(result, journal)


VERDICTS = ["", "", "revise", "discard", "abort", "fail", "raise"]


def calling(name: str) -> list[ModelResponse]:
    return [measured(None, ToolCall("a", name))] * 2


@pytest.mark.parametrize("name", ENGINES)
def test_a_result_is_what_its_log_folds_to(name: str) -> None:
    MADE.clear()

    @examples(150)
    @example(calling("cancel"), "", {}, [True])
    @example(calling("interrupt"), "", {}, [True])
    @example(calling("pay"), "", {}, [True])
    @example(calling("look"), "abort", {}, [True])
    @given(
        st.lists(replies, max_size=5),
        st.sampled_from(VERDICTS),
        st.sampled_from(OPTIONS),
        st.lists(st.booleans(), max_size=4),
    )
    def search(
        said: list[ModelResponse], verdict: str, options: dict[str, Any], yeses: list[bool]
    ) -> None:
        asyncio.run(live_through(ENGINES[name], said, verdict, options, yeses))

    search()
    assert set(MADE) == set(Status), MADE
