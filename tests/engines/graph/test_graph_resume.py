"""Graphs that are cut off anywhere, parked or killed: finished nodes are not run again."""

from __future__ import annotations

import asyncio
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.graph_kit import (
    board_of,
    cut_and_resumed,
    logged,
    nothing,
    says,
    sets,
    spoken,
    walk,
)
from tests.processes import run_to_its_kill
from tests.runs.kit import log_of
from tests.searching import examples
from upshot import (
    Agent,
    AgentResult,
    Answer,
    Approve,
    Board,
    BoardSnapshot,
    Checkpoint,
    Event,
    Graph,
    GraphEngine,
    Message,
    Misuse,
    ScriptedModel,
    Status,
    resume,
    run,
    tool,
)
from upshot.engines import AgentTask, ForEach, Node, Parallel, Question, ToolTask
from upshot.journal import MemoryJournal
from upshot.state.stored_events import states


class Maze:
    """A random graph, and how often its nodes were run."""

    def __init__(self, size: int, edges: list[tuple[int, int, int]], delays: list[int]) -> None:
        self.size = size
        self.edges = edges
        self.delays = delays
        self.done: Counter[str] = Counter()

    def graph(self) -> Graph:
        nodes: dict[str, Any] = {f"n{place}": self._node(place) for place in range(self.size)}
        nodes["n1"] = Parallel({"x": nodes["n1"], "y": self._plain("y", 1)})
        nodes["n2"] = Node(ForEach(lambda board: [1, 2], nodes["n2"]), output="values")
        edges = [
            (f"n{source}", f"n{target}", self._condition(source, most))
            for source, target, most in self.edges
        ]
        # One node is left out, so that some mazes end in a conflict.
        merges = dict.fromkeys(("all", "n0", "n1", "n2", "n3", "n5", "y"), "add")
        return Graph(nodes, edges, "n0", ends=nodes, merges=merges, max_steps=15)

    def _node(self, place: int) -> Any:
        return self._plain(f"n{place}", self.delays[place % len(self.delays)])

    def _plain(self, name: str, delay: int) -> Any:
        async def work(board: Board) -> None:
            for _ in range(delay):
                await asyncio.sleep(0)
            seen: Any = board.get(name) or 0
            board.set(name, seen + 1)
            every: Any = board.get("all") or []
            board.set("all", [*every, name])
            board.append(Message("assistant", f"{name} {seen}"))
            self.done[name] += 1

        return work

    def _condition(self, source: int, most: int) -> Any:
        def holds(board: Board) -> bool:
            passed: Any = board.get(f"n{source}") or 0
            return passed <= most

        return holds


def mazes() -> st.SearchStrategy[tuple[int, list[tuple[int, int, int]], list[int]]]:
    place = st.integers(0, 5)
    edge = st.tuples(place, place, st.integers(0, 2))
    chain = [(n, n + 1, 2) for n in range(5)]
    edges = st.lists(edge, max_size=6).map(lambda more: [*chain, *more])
    return st.tuples(st.just(6), edges, st.lists(st.integers(0, 3), min_size=1, max_size=6))


def finished(events: list[Event]) -> set[str]:
    return {event.key for event in events if event.kind == "step_settled"}  # type: ignore[union-attr]


def same(result: Any, whole: Any) -> None:
    assert (result.status, spoken(result)) == (whole.status, spoken(whole))
    assert (result.error and result.error.message) == (whole.error and whole.error.message)


@examples(60)
@given(maze=mazes(), data=st.data())
async def test_a_graph_that_is_cut_anywhere_goes_on_and_repeats_nothing(
    maze: Any, data: st.DataObject
) -> None:
    first = Maze(*maze)
    whole, log = await logged(first.graph())
    cut = data.draw(st.integers(1, len(log) - 1))
    second = Maze(*maze)
    result, after = await cut_and_resumed(second.graph(), log[:cut])
    same(result, whole)
    assert board_of(after) == board_of(log)
    settled = Counter(e.key for e in after if e.kind == "step_settled")  # type: ignore[union-attr]
    assert set(settled.values()) == {1}
    begun = [e.key for e in after[cut:] if e.kind == "step_started"]  # type: ignore[union-attr]
    assert not finished(log[:cut]) & set(begun)


@examples(60)
@given(maze=mazes(), delays=st.lists(st.integers(0, 4), min_size=1, max_size=6))
async def test_what_comes_of_a_graph_does_not_depend_on_who_is_faster(
    maze: Any, delays: list[int]
) -> None:
    whole, log = await logged(Maze(*maze).graph())
    other, other_log = await logged(Maze(maze[0], maze[1], delays).graph())
    same(other, whole)
    assert board_of(other_log) == board_of(log)


@examples(30)
@given(maze=mazes(), data=st.data())
async def test_a_graph_may_be_cut_off_many_times(maze: Any, data: st.DataObject) -> None:
    whole, log = await logged(Maze(*maze).graph())
    for _ in range(3):
        cut = data.draw(st.integers(1, len(log) - 1))
        result, log = await cut_and_resumed(Maze(*maze).graph(), log[:cut])
        same(result, whole)


FORK = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


async def test_with_several_in_flight_only_what_was_not_finished_runs_again() -> None:
    done: list[str] = []

    def graph() -> Graph:
        def does(name: str, turns: int) -> Any:
            async def work(board: Board) -> None:
                for _ in range(turns):
                    await asyncio.sleep(0)
                done.append(name)

            return work

        nodes = {"a": does("a", 0), "b": does("b", 9), "c": does("c", 1), "d": does("d", 0)}
        return Graph(nodes, FORK)

    _, log = await logged(graph())
    keys = [getattr(event, "key", "") if event.kind == "step_settled" else "" for event in log]
    cut = keys.index("graph-1/c#1") + 1
    assert "graph-1/b#1" not in keys[:cut]
    done.clear()
    result, _ = await cut_and_resumed(graph(), log[:cut])
    assert (result.status, done) == ("completed", ["b", "d"])


async def test_the_way_that_was_taken_is_taken_again() -> None:
    ways = iter([True, False])

    def graph() -> Graph:
        way = next(ways)
        edges = [("a", "b", lambda b: way), ("a", "c", lambda b: not way)]
        return Graph({"a": nothing, "b": says("b"), "c": says("c")}, edges)

    _, log = await logged(graph())
    settled = [event.seq for event in log if event.kind == "step_settled"]
    result, _ = await cut_and_resumed(graph(), log[: settled[1]])
    assert spoken(result) == ["b"]


async def test_a_node_that_may_not_run_twice_fails_when_nobody_knows_what_it_did() -> None:
    graph = Graph({"a": Node(nothing, idempotent=False)})
    _, log = await logged(graph)
    started = [event.seq for event in log if event.kind == "step_started"]
    result, _ = await cut_and_resumed(graph, log[: started[1]])
    assert result.error is not None
    assert result.error.code == "interrupted"


# -- people


def asking(*rest: Any) -> Graph:
    ask = Question(lambda board: f"May I, {board.get('who')}?", ("yes", "no"))
    nodes = {
        "who": sets(who="Ada"),
        "may": ask,
        "go": lambda board: board.append(Message("assistant", f"They said {board.get('may')}.")),
    }
    return Graph(nodes, [("who", "may"), ("may", "go", lambda b: b.get("may") == "yes")])


async def test_a_question_parks_the_run_until_it_is_answered() -> None:
    journal = MemoryJournal()
    parked = await walk(asking(), journal=journal)
    (pending,) = parked.pending
    assert (parked.status, pending.question) == (Status.INPUT_REQUIRED, "May I, Ada?")  # type: ignore[union-attr]
    options: Any = {"journal": journal, "engine": GraphEngine(asking())}
    result = await resume("run-1", Agent("walker"), answers=[Answer(pending.id, "yes")], **options)
    assert (result.status, result.content) == ("completed", "They said yes.")


async def test_a_host_that_can_ask_is_asked() -> None:
    class Host:
        async def ask_user(self, question: str) -> str:
            return "yes"

    assert (await walk(asking(), host=Host())).content == "They said yes."


async def test_what_stands_beside_a_question_is_finished_before_the_run_parks() -> None:
    done: list[str] = []

    async def work(board: Board) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        done.append("work")

    def graph() -> Graph:
        return Graph({"p": Parallel({"q": Question("One?"), "w": work, "r": Question("Two?")})})

    journal = MemoryJournal()
    parked = await walk(graph(), journal=journal)
    assert [pending.question for pending in parked.pending] == ["One?", "Two?"]  # type: ignore[union-attr]
    answers = [Answer(pending.id, number) for number, pending in enumerate(parked.pending)]
    options: Any = {"journal": journal, "engine": GraphEngine(graph())}
    result = await resume("run-1", Agent("walker"), answers=answers, **options)
    log = [event async for event, _ in states(journal.events("run-1"))]
    assert (result.status, done) == ("completed", ["work"])
    assert board_of(log).variables() == {"q": 0, "r": 1}


async def test_each_question_gets_its_own_answer_whoever_comes_first_later() -> None:
    def late(turns: int) -> Any:
        async def work(board: Board) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        return work

    def graph(first: int, second: int) -> Graph:
        def branch(turns: int, text: str) -> Graph:
            return Graph({"wait": late(turns), text: Question(text)}, [("wait", text)])

        return Graph({"p": Parallel({"one": branch(first, "x"), "two": branch(second, "y")})})

    journal = MemoryJournal()
    parked = await walk(graph(9, 0), journal=journal)
    questions = {pending.question: pending.id for pending in parked.pending}  # type: ignore[union-attr]
    assert list(questions) == ["x", "y"]
    answers = [Answer(id, text) for text, id in questions.items()]
    options: Any = {"journal": journal, "engine": GraphEngine(graph(0, 9))}
    result = await resume("run-1", Agent("walker"), answers=answers, **options)
    log = [event async for event, _ in states(journal.events("run-1"))]
    assert result.success
    assert board_of(log).variables() == {"x": "x", "y": "y"}


async def test_a_tool_that_needs_a_yes_parks_the_run() -> None:
    sent: list[str] = []

    @tool(effect="write", approval=True)
    async def send(text: str) -> str:
        sent.append(text)
        return "sent"

    agent: Agent[Any] = Agent("a", tools=[send])
    graph = Graph({"a": says("a"), "send": ToolTask("send", {"text": "hi"})}, [("a", "send")])
    journal = MemoryJournal()
    parked = await walk(graph, agent=agent, journal=journal)
    assert (parked.status, sent) == (Status.INPUT_REQUIRED, [])
    yes = Approve(parked.pending[0].id)
    options: Any = {"journal": journal, "engine": GraphEngine(graph)}
    result = await resume("run-1", agent, answers=[yes], **options)
    assert (result.status, sent, spoken(result)) == ("completed", ["hi"], ["a"])


async def test_a_tool_call_that_is_settled_is_not_made_again() -> None:
    made: list[int] = []

    @tool(effect="write")
    async def send() -> str:
        made.append(1)
        return "sent"

    agent: Agent[Any] = Agent("a", tools=[send])
    graph = Graph({"a": says("a"), "send": ToolTask("send")}, [("a", "send")])
    _, log = await logged(graph, agent=agent)
    cut = next(event.seq for event in log if event.kind == "tool_settled")
    result, after = await cut_and_resumed(graph, log[:cut], agent=agent)
    assert (result.status, made, board_of(after).get("send")) == ("completed", [1], "sent")


# -- checkpoints


async def test_a_checkpoint_enters_the_graph_at_its_node() -> None:
    graph = Graph({"a": says("a"), "b": lambda b: {"y": b.get("x")}}, [("a", "b")])
    point = Checkpoint("run-9", "b", BoardSnapshot(variables={"x": 1}))
    result = await run(Agent("w"), "Go.", engine=GraphEngine(graph), resume_from=point)
    assert (result.status, spoken(result)) == ("completed", [])


async def test_a_checkpoint_at_no_node_is_misuse() -> None:
    with pytest.raises(Misuse):
        graph = Graph({"a": nothing})
        await run(Agent("w"), "?", engine=GraphEngine(graph), resume_from=Checkpoint("r", "z"))


async def test_an_agent_that_was_cut_off_goes_on_where_its_own_log_stands() -> None:
    asked: list[int] = []

    def reply(messages: Any) -> str:
        asked.append(len(messages))
        return "hi"

    graph = Graph({"a": AgentTask(Agent("talker", model=ScriptedModel([reply])), "Go.")})
    journal = MemoryJournal()
    first = await walk(graph, journal=journal)
    log = await log_of(journal, "run-1")
    begun = next(n for n, e in enumerate(log) if getattr(e, "key", "").startswith("child:"))
    inner = next(run.run_id for run in await journal.runs() if run.run_id != "run-1")
    copy = MemoryJournal()
    kept = {"run-1": log[: begun + 1], inner: await log_of(journal, inner)}
    for run_id, events in kept.items():
        epoch = await copy.claim(run_id)
        for event in events:
            copy.append(event, epoch=epoch)
    result = await resume("run-1", Agent("w"), journal=copy, engine=GraphEngine(graph))
    assert (result.content, result.usage) == (first.content, first.usage)
    assert len(asked) == 1


# -- a process that is really killed

PROGRAM = '''
import asyncio, os, signal, sqlite3, sys
from upshot import Agent, Graph, GraphEngine, Message, Request, run_sync

def settled_on_disk():
    """How many of the other two branches the journal file shows as finished."""
    query = "SELECT count(*) FROM events WHERE kind = 'step_settled' AND (" \\
        "instr(CAST(body AS TEXT), '/b#1') OR instr(CAST(body AS TEXT), '/d#1'))"
    with sqlite3.connect(sys.argv[1]) as file:
        return file.execute(query).fetchone()[0]

def make(effects, deadly):
    """A fork of three; the process dies in the slowest, when the others are finished."""

    def does(name, turns=0):
        async def work(board):
            for _ in range(turns):
                await asyncio.sleep(0.005)
            with open(effects, "a") as file:
                file.write(name + "\\n")
            if name == deadly:
                while settled_on_disk() < 2:
                    await asyncio.sleep(0.005)
                os.kill(os.getpid(), signal.SIGKILL)
            board.append(Message("assistant", name))

        return work

    nodes = {"a": does("a"), "b": does("b"), "c": does("c", 2), "d": does("d"), "e": does("e")}
    edges = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("c", "e"), ("d", "e")]
    return GraphEngine(Graph(nodes, edges))

if __name__ == "__main__":
    journal, effects = sys.argv[1:]
    run_sync(Agent("w"), Request("Go.", run_id="run-1"), engine=make(effects, "c"), journal=journal)
'''


async def test_a_killed_graph_goes_on_after_its_finished_nodes(tmp_path: Path) -> None:
    program, journal, effects = (tmp_path / name for name in ("program.py", "runs.db", "effects"))
    program.write_text(PROGRAM)
    run_to_its_kill(program, journal, effects)
    engine = runpy.run_path(str(program))["make"](effects, "")
    result = await resume("run-1", Agent("w"), journal=journal, engine=engine)
    assert (result.status, spoken(result)) == ("completed", ["a", "b", "c", "d", "e"])
    assert Counter(effects.read_text().split()) == {"a": 1, "b": 1, "c": 2, "d": 1, "e": 1}


def quiz(first: str = "a", question: str = "q", **more: Any) -> Graph:
    """A node, then a question."""
    return Graph({first: sets(x=1), question: Question("Go on?"), **more}, [(first, question)])


async def parked_then(graph: Graph) -> AgentResult[Any]:
    """What comes of a run that was parked at the question, and goes on with *graph*."""
    result, log = await logged(quiz())
    again, _ = await cut_and_resumed(graph, log, answers=[Answer(result.pending[0].id, "yes")])
    return again


@pytest.mark.parametrize(
    ("graph", "gone"),
    [
        (quiz("a2", "q2"), "a"),
        (quiz("a2", "q"), "a"),
        (quiz("a", "q2"), "q"),
        (Graph({"a": sets(x=1)}), "q"),
    ],
    ids=["all renamed", "the first renamed", "the question renamed", "the question removed"],
)
async def test_a_graph_without_the_nodes_of_its_log_is_a_dead_end(graph: Graph, gone: str) -> None:
    result = await parked_then(graph)
    assert result.error is not None
    assert (result.error.code, result.error.details) == ("dead_end", {"node": gone})
    assert [warning.code for warning in result.warnings] == ["graph_changed"]


async def test_a_graph_that_has_grown_goes_on_and_is_told() -> None:
    result = await parked_then(quiz(more=nothing))
    assert result.success
    assert [warning.code for warning in result.warnings] == ["graph_changed"]


async def test_a_graph_that_begins_elsewhere_now_goes_on_where_it_began() -> None:
    graph = Graph({"new": nothing, "a": nothing, "q": Question("Go on?")}, [("new", "a")], "new")
    result = await parked_then(graph)
    assert result.success
    assert [warning.code for warning in result.warnings] == ["graph_changed"]


async def test_the_same_graph_is_no_change() -> None:
    assert (await parked_then(quiz())).warnings == ()


async def test_a_question_inside_that_is_gone_is_a_dead_end_and_not_waited_for() -> None:
    result, log = await logged(Graph({"p": Parallel({"x": Question("X?"), "z": nothing})}))
    answers = [Answer(result.pending[0].id, "yes")]
    other = Graph({"p": Parallel({"y": Question("Y?"), "z": nothing})})
    again, _ = await cut_and_resumed(other, log, answers=answers)
    assert again.error is not None
    assert (again.error.code, again.error.details) == ("dead_end", {"node": "graph-1/p#1/x"})


async def test_a_question_more_in_a_graph_that_has_grown_comes_after_those_before() -> None:
    result, log = await logged(quiz())
    answers = [Answer(result.pending[0].id, "yes")]
    nodes = {"a": nothing, "q": Question("Go on?"), "r": Question("More?")}
    again, _ = await cut_and_resumed(Graph(nodes, [("a", "q"), ("q", "r")]), log, answers=answers)
    assert [pending.question for pending in again.pending] == ["More?"]  # type: ignore[union-attr]
