"""A result names what was done anywhere in its run, however the agents in it are nested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.searching import examples
from upshot import (
    Agent,
    AgentResult,
    Event,
    Graph,
    GraphEngine,
    Handoff,
    JournalError,
    MachineEngine,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    load_machine,
    resume,
    run,
    run_with_handoffs,
    states,
    tool,
)
from upshot.journal import MemoryJournal

WORST = ("none", "applied", "unknown")
MACHINE = """
spec: upshot.machine/1
states:
  work: {type: initial, agent: inner, input: "'Go.'", transitions: [{to: done}]}
  done: {type: final}
"""


class Way(NamedTuple):
    """How an agent works: by itself, or by running another one.

    Attributes:
        name: "loop" for an agent by itself.
        calls: What the tools do that the agent itself calls.
        inner: The agent that it runs, None for a loop.
    """

    name: str
    calls: tuple[str, ...] = ()
    inner: Way | None = None


class Book:
    """What was done outside, as the tools themselves noted it, by call id."""

    def __init__(self) -> None:
        self.done: dict[str, str] = {}

    @property
    def worst(self) -> str:
        return max(self.done.values(), key=WORST.index, default="none")


def tools_of(book: Book) -> list[Any]:
    @tool(effect="read")
    async def none(call: str) -> str:
        book.done[call] = "none"
        return "seen"

    @tool(effect="write")
    async def applied(call: str) -> str:
        book.done[call] = "applied"
        return "paid"

    @tool(effect="write", timeout_s=0.001)
    async def unknown(call: str) -> str:
        book.done[call] = "unknown"
        await asyncio.Event().wait()
        return "never"

    return [none, applied, unknown]


def build(way: Way, book: Book, names: Callable[[], str]) -> Agent[Any]:
    """The agent of *way*; each has another id, and so has each call."""
    name = names()
    calls = [
        ToolCall(f"{name}{n}", what, {"call": f"{name}{n}"}) for n, what in enumerate(way.calls)
    ]
    tools = tools_of(book)
    if way.inner is None:
        return Agent(
            name, model=ScriptedModel([calls, "Done."] if calls else ["Done."]), tools=tools
        )
    inner = build(way.inner, book, names)
    if way.name == "tool":

        @tool(effect="read")
        async def ask() -> str:
            return (await run(inner, "Go.")).content or ""

        model = ScriptedModel([[*calls, ToolCall(f"{name}ask", "ask")], "Done."])
        return Agent(name, model=model, tools=[*tools, ask])
    if way.name == "handoff":
        steps = [calls] if calls else []
        over = ToolCall(f"{name}over", f"transfer_to_{inner.id}", {"reason": "?"})
        first = Agent(
            f"{name}first",
            model=ScriptedModel([*steps, [over]]),
            tools=tools,
            handoffs=[Handoff(inner.id, "Works on.")],
        )

        async def hand_over(run_: Any, host: Any, board: Any) -> Any:
            return (await run_with_handoffs([first, inner], "Go.")).content

        return Agent(name, engine=ScriptEngine(hand_over))

    async def by_child(run_: Any, host: Any, board: Any) -> Any:
        return (await run_.child(inner, "Go.", key="k")).content

    async def by_run(run_: Any, host: Any, board: Any) -> Any:
        return (await run(inner, "Go.")).content

    engines: dict[str, Callable[[], Any]] = {
        "child": lambda: ScriptEngine(by_child),
        "run": lambda: ScriptEngine(by_run),
        "graph": lambda: GraphEngine(Graph({"work": inner}, start="work")),
        "machine": lambda: MachineEngine(load_machine(MACHINE), agents={"inner": inner}),
    }
    return Agent(name, engine=engines[way.name]())


def made(way: Way, book: Book) -> Agent[Any]:
    numbers = count()
    return build(way, book, lambda: f"a{next(numbers)}_")


AROUND = ("graph", "machine", "child", "run", "handoff", "tool")
CALLS = st.lists(st.sampled_from(WORST), max_size=2).map(tuple)
LOOPS = st.builds(Way, st.just("loop"), CALLS, st.none())


def around(inner: st.SearchStrategy[Way]) -> st.SearchStrategy[Way]:
    return st.builds(Way, st.sampled_from(AROUND), CALLS, inner)


WAYS = LOOPS | around(LOOPS | around(LOOPS | around(LOOPS)))


async def in_logs(journal: MemoryJournal) -> dict[str, str]:
    """The effects of all calls in all runs of *journal*, by call id; one that began is unknown."""
    found: dict[str, str] = {}
    for summary in await journal.runs(limit=1_000):
        async for _, state in states(journal.events(summary.run_id)):
            found |= {start.call.id: "unknown" for start in state.begun.values()}
            found |= {one.call_id: str(one.effect) for one in state.records}
    return found


def named_in(result: AgentResult[Any]) -> dict[str, str]:
    return {one.call_id: str(one.state) for one in result.effects}


@given(WAYS)
@examples(60, deadline=None)
def test_the_effects_of_a_result_are_those_in_the_logs_and_the_worst_of_the_book(way: Way) -> None:
    async def go() -> None:
        book, journal = Book(), MemoryJournal()
        result = await run(made(way, book), "Go.", journal=journal)
        assert result.success
        assert result.effect == book.worst
        logged = await in_logs(journal)
        assert named_in(result) == {id: one for id, one in logged.items() if one != "none"}
        (summary,) = await journal.runs(run_id=result.run_id)
        assert summary.effect == result.effect
        codes = [one.code for one in result.warnings]
        assert codes.count("effect_unknown") == (result.effect == "unknown")
        alone = await run(made(way, Book()), "Go.")
        assert [(one.call_id, one.state) for one in alone.effects] == [*named_in(result).items()]
        assert alone.tools_used == result.tools_used

    asyncio.run(go())


class Dying(MemoryJournal):
    """Takes so many events, and then none, as if the process were killed; ``left`` None: all."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left: int | None = left

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        if self.left == 0:
            raise JournalError("killed")
        super().append(event, epoch=epoch)
        if self.left:
            self.left -= 1


@given(WAYS, st.integers(1, 60))
@examples(60, deadline=None)
def test_what_was_done_before_a_kill_is_in_the_result_of_who_goes_on(way: Way, left: int) -> None:
    async def go() -> None:
        book, journal = Book(), Dying(left)
        await run(made(way, book), Request("Go.", run_id="r"), journal=journal)
        journal.left = None
        before = dict(book.done)
        result = await resume("r", made(way, book), journal=journal)
        wrote = {id for id, one in {**before, **book.done}.items() if one != "none"}
        assert wrote <= named_in(result).keys()
        assert WORST.index(result.effect) >= WORST.index(book.worst)
        logged = await in_logs(journal)
        worst = max(logged.values(), key=WORST.index, default="none")
        assert result.effect == worst
        again = await resume("r", made(way, Book()), journal=journal)
        assert again.effects == result.effects
        assert again.child_runs == result.child_runs

    asyncio.run(go())


UNKNOWN = Way("loop", ("unknown",))


@pytest.mark.parametrize("name", AROUND)
async def test_the_run_and_the_way_to_it_are_named(name: str) -> None:
    result = await run(made(Way(name, (), UNKNOWN), Book()), "Go.")
    (effect,) = [one for one in result.effects if one.tool == "unknown"]
    assert effect.path[0] == result.run_id
    assert effect.run_id != result.run_id
    assert "unknown" in result.tools_used
    assert effect.run_id in {one.run_id for one in result.child_runs if one.effect == "unknown"}
    (warning,) = [one for one in result.warnings if one.code == "effect_unknown"]
    assert f"{effect.call_id} of run {effect.run_id}" in warning.message


async def test_a_tool_that_runs_an_agent_has_at_least_the_effect_of_that() -> None:
    for what in ("applied", "unknown"):
        result = await run(made(Way("tool", (), Way("loop", (what,))), Book()), "Go.")
        (outcome,) = result.tool_outcomes
        assert outcome.effect == what


async def test_the_last_result_of_a_hand_off_names_what_the_first_agent_did() -> None:
    book = Book()
    call = ToolCall("c", "unknown", {"call": "c"})
    over = ToolCall("over", "transfer_to_second", {"reason": "?"})
    first = Agent(
        "first",
        model=ScriptedModel([call, over]),
        tools=tools_of(book),
        handoffs=[Handoff("second", "Works on.")],
    )
    second = Agent("second", model=ScriptedModel(["Done."]))
    journal = MemoryJournal()
    result = await run_with_handoffs([first, second], "Go.", journal=journal)
    (effect,) = result.effects
    assert (effect.tool, effect.state, effect.path) == ("unknown", "unknown", ())
    assert effect.run_id != result.run_id
    assert [one.run_id for one in result.child_runs] == [effect.run_id]
    assert [one.code for one in result.warnings] == ["effect_unknown"]
    assert result.tools_used == ("unknown", "transfer_to_second")
    again = await resume(result.run_id, [first, second], journal=journal)
    assert (again.effects, again.warnings) == (result.effects, result.warnings)


async def test_a_run_without_calls_has_no_effect() -> None:
    result = await run(Agent("a", model=ScriptedModel(["Hello."])), "Hi")
    assert (result.effect, result.effects, result.child_runs) == ("none", (), ())
