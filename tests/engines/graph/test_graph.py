"""The graph engine: nodes, edges, forks and joins."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.graph_kit import (
    AGENT,
    nothing,
    says,
    sets,
    spoken,
    variables_of,
    walk,
)
from upshot import (
    Agent,
    AgentError,
    Board,
    Budget,
    Failed,
    Graph,
    GraphEngine,
    Interrupt,
    Interrupted,
    Message,
    Misuse,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    run,
    tool,
)
from upshot.engines import AgentTask, ForEach, Node, Parallel, Question, ToolTask
from upshot.testing import FakeClock

FORK = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def counts(name: str = "n") -> Any:
    def work(board: Any) -> None:
        board.set(name, (board.get(name) or 0) + 1)

    return work


async def test_nodes_run_in_the_order_of_the_edges() -> None:
    result = await walk(
        Graph({"a": says("1"), "b": says("2"), "c": says("3")}, [("a", "b"), ("b", "c")], "a")
    )
    assert (result.status, spoken(result), result.content) == ("completed", ["1", "2", "3"], "3")


async def test_nodes_may_be_async() -> None:
    async def say(board: Board) -> None:
        await asyncio.sleep(0)
        board.append(Message("assistant", "hi"))

    assert (await walk(Graph(nodes={"a": say}, edges=[], start="a"))).content == "hi"


async def test_a_node_may_return_the_variables_that_it_sets() -> None:
    assert await variables_of(Graph({"a": lambda board: {"x": 1}})) == {"x": 1}


async def test_a_node_may_return_its_board_or_one_of_its_own() -> None:
    def own(board: Board) -> Board:
        other = Board()
        other.set("y", 2)
        return other

    graph = Graph({"a": lambda board: board, "b": own}, [("a", "b")])
    assert await variables_of(graph) == {"y": 2}


async def test_what_a_node_returns_can_be_kept_in_a_variable() -> None:
    graph = Graph({"a": Node(lambda board: "text", output="x")})
    assert await variables_of(graph) == {"x": "text"}


async def test_a_value_that_no_variable_takes_is_told() -> None:
    result = await walk(Graph({"a": lambda board: "text"}))
    assert result.error is not None
    assert "node 'a' returned str" in result.error.message


async def test_a_condition_chooses_the_way() -> None:
    edges = [("a", "b", lambda b: b.get("x") == 1), ("a", "c", lambda b: b.get("x") == 2)]
    result = await walk(Graph({"a": sets(x=2), "b": says("b"), "c": says("c")}, edges, "a"))
    assert spoken(result) == ["c"]


async def test_a_condition_may_be_async_and_changes_nothing() -> None:
    async def holds(board: Board) -> bool:
        board.set("x", 9)
        return True

    assert await variables_of(Graph({"a": nothing, "b": nothing}, [("a", "b", holds)])) == {}


async def test_a_node_without_a_way_on_is_a_dead_end() -> None:
    graph = Graph({"a": nothing, "b": nothing}, [("a", "b", lambda board: False)], "a")
    result = await walk(graph)
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "dead_end")
    assert result.error.details == {"node": "a"}


async def test_a_graph_may_end_where_it_is_said() -> None:
    graph = Graph({"a": nothing, "b": nothing}, [("a", "b", lambda b: False)], ends=["a"])
    assert (await walk(graph)).success


# -- forks and joins


async def test_a_join_runs_once_when_all_branches_are_there() -> None:
    graph = Graph({"a": nothing, "b": sets(b=1), "c": sets(c=1), "d": counts()}, FORK, "a")
    assert await variables_of(graph) == {"b": 1, "c": 1, "n": 1}


async def test_a_join_waits_for_the_longer_branch() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "x"), ("x", "y"), ("y", "d"), ("c", "d")]
    nodes = {"a": nothing, "b": nothing, "x": nothing, "y": says("y"), "c": says("c")}
    graph = Graph({**nodes, "d": says("d")}, edges, "a")
    # In the order of the nodes, though "c" was there first.
    assert spoken(await walk(graph)) == ["y", "c", "d"]


async def test_branches_run_at_the_same_time() -> None:
    met = asyncio.Barrier(2)

    async def meet(board: Board) -> None:
        async with asyncio.timeout(60), met:
            pass

    assert (await walk(Graph({"a": nothing, "b": meet, "c": meet, "d": nothing}, FORK))).success


async def test_a_branch_does_not_see_what_the_other_does() -> None:
    def look(board: Board) -> None:
        items: Any = board.get("items")
        items.append("b")
        board.set("seen", list(items))

    def look_too(board: Board) -> None:
        board.set("seen too", board.get("items"))

    nodes = {"a": sets(items=[]), "b": look, "c": look_too, "d": nothing}
    found = await variables_of(Graph(nodes, FORK))
    assert found == {"items": ["b"], "seen": ["b"], "seen too": []}


@pytest.mark.parametrize("slow", ["b", "c"])
async def test_messages_stand_in_the_order_of_the_nodes_whoever_is_faster(slow: str) -> None:
    def speaker(name: str) -> Any:
        async def say(board: Board) -> None:
            for _ in range(5 if name == slow else 0):
                await asyncio.sleep(0)
            board.append(Message("assistant", name))

        return say

    graph = Graph({"a": nothing, "b": speaker("b"), "c": speaker("c"), "d": nothing}, FORK)
    assert spoken(await walk(graph)) == ["b", "c"]


async def test_two_branches_that_set_one_variable_are_a_conflict() -> None:
    graph = Graph({"a": nothing, "b": sets(x=1), "c": sets(x=1), "d": nothing}, FORK)
    result = await walk(graph)
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "conflict")
    assert result.error.details == {"key": "x", "nodes": ["b", "c"]}
    assert "'x'" in result.error.message


async def test_branches_that_end_apart_are_merged_too() -> None:
    nodes = {"a": nothing, "b": sets(x=1), "c": sets(x=2)}
    result = await walk(Graph(nodes, [("a", "b"), ("a", "c")]))
    assert result.error is not None
    assert result.error.code == "conflict"


async def test_a_later_change_of_one_branch_is_no_conflict() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "d"), ("c", "d")]
    nodes = {"a": sets(x=0), "b": sets(x=1), "b2": sets(x=2), "c": nothing, "d": nothing}
    assert await variables_of(Graph(nodes, edges)) == {"x": 2}


async def test_a_shortcut_to_the_join_is_no_conflict() -> None:
    edges = [("a", "b"), ("a", "d"), ("b", "d")]
    nodes = {"a": sets(x=1), "b": sets(x=2), "d": nothing}
    assert await variables_of(Graph(nodes, edges)) == {"x": 2}


@pytest.mark.parametrize(
    ("merge", "start", "left", "right", "merged"),
    [
        ("add", 5, 6, 7, 8),
        ("add", ["a"], ["a", "b"], ["a", "c"], ["a", "b", "c"]),
        ("update", {"a": 1}, {"b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ("first", 0, 1, 2, 1),
        ("last", 0, 1, 2, 2),
        (max, 0, 4, 3, 4),
    ],
)
async def test_a_named_merge_settles_a_conflict(
    merge: Any, start: Any, left: Any, right: Any, merged: Any
) -> None:
    nodes = {"a": sets(x=start), "b": sets(x=left), "c": sets(x=right), "d": nothing}
    assert await variables_of(Graph(nodes, FORK, merges={"x": merge})) == {"x": merged}


@pytest.mark.parametrize(
    ("left", "right", "merged"), [(6, 7, 13), (["a"], ["b"], ["a", "b"])], ids=["numbers", "lists"]
)
async def test_what_was_not_there_before_is_added_up_from_nothing(
    left: Any, right: Any, merged: Any
) -> None:
    nodes = {"a": nothing, "b": sets(x=left), "c": sets(x=right), "d": nothing}
    assert await variables_of(Graph(nodes, FORK, merges={"x": "add"})) == {"x": merged}


@pytest.mark.parametrize("merge", ["add", "update"])
async def test_a_merge_that_does_not_fit_the_values_fails_the_run(merge: str) -> None:
    nodes = {"a": nothing, "b": sets(x="left"), "c": sets(x="right"), "d": nothing}
    result = await walk(Graph(nodes, FORK, merges={"x": merge}))
    assert result.error is not None
    assert f"the merge {merge!r} is for" in result.error.message


# -- cycles


async def test_a_cycle_runs_until_its_condition_fails() -> None:
    edges = [("a", "a", lambda b: b.get("n") < 5), ("a", "b", lambda b: b.get("n") >= 5)]
    assert await variables_of(Graph({"a": counts(), "b": nothing}, edges)) == {"n": 5}


async def test_a_fork_inside_a_cycle_joins_in_each_round() -> None:
    edges = [*FORK, ("d", "a", lambda b: b.get("d") < 3), ("d", "e", lambda b: b.get("d") >= 3)]
    nodes = {name: counts(name) for name in "abcd"} | {"e": nothing}
    assert await variables_of(Graph(nodes, edges)) == dict.fromkeys("abcd", 3)


@pytest.mark.parametrize("options", [{"max_steps": 7}, {}])
async def test_a_cycle_without_an_end_stops_at_the_step_limit(options: dict[str, int]) -> None:
    done: list[int] = []
    graph = Graph({"a": lambda board: done.append(1)}, [("a", "a")], **options)
    result = await walk(graph, budget=Budget(max_turns=7))
    assert result.error is not None
    assert (result.status, result.error.code, len(done)) == ("failed", "max_turns", 7)
    assert result.error.details == {"dimension": "steps", "limit": 7, "used": 7}


async def test_a_graph_without_cycles_never_reaches_the_limit() -> None:
    names = [f"n{number}" for number in range(9)]
    graph = Graph(dict.fromkeys(names, nothing), pairwise(names))
    assert (await walk(graph, budget=Budget(max_turns=2))).success


# -- what nodes can be


async def test_an_agent_answers_with_a_message() -> None:
    writer: Agent[Any] = Agent("writer", model=ScriptedModel(["A poem."]))
    result = await walk(Graph({"write": writer, "end": says("Done.")}, [("write", "end")]))
    assert spoken(result) == ["A poem.", "Done."]
    assert result.usage.api_calls == 1


async def test_a_model_that_the_call_names_wins_over_those_of_the_agents() -> None:
    own, given = ScriptedModel(["mine"]), ScriptedModel(["given"])
    result = await walk(Graph({"a": Agent("a", model=own)}, []), model=given)
    assert spoken(result) == ["given"]


async def test_an_agent_without_a_model_works_with_that_of_the_runs_agent() -> None:
    graph = Graph({"a": Agent("a"), "b": Agent("b", model=ScriptedModel(["own"]))}, [("a", "b")])
    agent = Agent("desk", model=ScriptedModel(["lent"]), engine=GraphEngine(graph))
    assert spoken(await run(agent, "?")) == ["lent", "own"]


async def test_an_agent_is_asked_what_the_node_says() -> None:
    model = ScriptedModel([lambda messages: f"heard {messages[-1].text}"])
    task = AgentTask(Agent("a", model=model), lambda board: f"x is {board.get('x')}")
    graph = Graph({"set": sets(x=1), "ask": Node(task, output="y")}, [("set", "ask")])
    assert await variables_of(graph) == {"x": 1, "y": "heard x is 1"}


async def test_an_agent_gets_what_the_run_depends_on() -> None:
    seen: list[Any] = []

    async def look(run: Any, host: Any, board: Any) -> None:
        seen.append(run.dependencies)

    agent = Agent[Any]("a", engine=ScriptEngine(look))
    await walk(Graph({"a": agent}), dependencies="mine")
    assert seen == ["mine"]


async def test_an_agent_that_fails_fails_the_run_with_its_code() -> None:
    result = await walk(Graph({"a": Agent("a", model=ScriptedModel([]))}))
    assert result.status == "failed"
    assert result.error is not None
    assert "script" in result.error.message


async def test_a_tool_goes_through_the_gates_and_its_output_is_a_variable() -> None:
    @tool(effect="read")
    async def look(n: int) -> int:
        return n * 2

    graph = Graph(
        {
            "look": ToolTask("look", {"n": 2}),
            "again": Node(ToolTask("look", lambda b: {"n": b.get("look")}), output="y"),
        },
        [("look", "again")],
    )
    agent: Agent[Any] = Agent("a", tools=[look])
    assert await variables_of(graph, agent=agent) == {"look": 4, "y": 8}
    result = await walk(graph, agent=agent)
    assert [outcome.kind for outcome in result.tool_outcomes] == ["tool_execution_result"] * 2


async def test_a_tool_node_that_takes_too_long_fails_as_a_timeout() -> None:
    @tool(effect="read", timeout_s=0.01)
    async def hang() -> None:
        await asyncio.Event().wait()

    agent: Agent[Any] = Agent("a", tools=[hang])
    result = await walk(Graph({"h": Node(ToolTask("hang"))}), agent=agent)
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("timeout", True)
    assert "longer than 0.01 s" in result.error.message


async def test_a_large_output_of_a_tool_node_is_named_and_not_held() -> None:
    @tool(effect="read")
    async def tell() -> str:
        return "x" * 20_000

    agent: Agent[Any] = Agent("a", tools=[tell])
    told = (await variables_of(Graph({"t": ToolTask("tell")}), agent=agent))["t"]
    assert told["artifact_id"]
    assert told["size_bytes"] == 20_000
    assert told["summary"]


async def test_a_tool_that_is_refused_fails_the_run() -> None:
    result = await walk(Graph({"look": ToolTask("look")}))
    assert result.error is not None
    assert (result.error.code, result.error.origin) == ("policy_denied", "tool")


async def test_a_graph_can_be_a_node() -> None:
    inner = Graph({"x": says("in"), "y": counts("inner")}, [("x", "y")])
    graph = Graph({"a": says("before"), "g": inner, "b": says("after")}, [("a", "g"), ("g", "b")])
    assert spoken(await walk(graph)) == ["before", "in", "after"]
    assert await variables_of(graph) == {"inner": 1}


async def test_parallel_branches_are_merged_in_their_order() -> None:
    graph = Graph({"p": Parallel({"b": says("b"), "a": says("a"), "c": sets(c=1)})})
    assert spoken(await walk(graph)) == ["b", "a"]
    assert await variables_of(graph) == {"c": 1}


async def test_parallel_branches_conflict_as_others_do() -> None:
    result = await walk(Graph({"p": Parallel({"b": sets(x=1), "a": sets(x=2)})}))
    assert result.error is not None
    assert result.error.details["key"] == "x"


async def test_the_same_is_done_for_each_item() -> None:
    async def double(board: Board) -> Any:
        item: Any = board.get("number")
        for _ in range(5 - item):
            await asyncio.sleep(0)
        board.append(Message("assistant", str(item)))
        return item * 2

    graph = Graph({"set": sets(numbers=[1, 2, 3]), "each": ForEach("numbers", double, "number")})
    graph = Graph(graph.nodes, [("set", "each")])
    assert spoken(await walk(graph)) == ["1", "2", "3"]
    assert (await variables_of(graph))["each"] == [2, 4, 6]


async def test_no_item_is_no_work() -> None:
    assert await variables_of(Graph({"each": ForEach(lambda b: [], nothing)})) == {"each": []}


@pytest.mark.parametrize("at_once", [1, 2])
async def test_for_each_keeps_to_its_limit(at_once: int) -> None:
    busy, most = 0, 0

    async def work(board: Board) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1

    each = ForEach(lambda b: [*range(9)], work, at_once=at_once)
    assert (await walk(Graph({"e": each}))).success
    assert most == at_once


async def test_for_each_of_what_is_no_list_fails_the_run() -> None:
    graph = Graph({"a": sets(x="abc"), "e": ForEach("x", nothing)}, [("a", "e")])
    result = await walk(graph)
    assert result.error is not None
    assert "ForEach needs a list, got str: 'x'" in result.error.message


async def test_a_node_can_have_the_run() -> None:
    graph = Graph({"a": lambda board, run: {"id": run.id}})
    assert await variables_of(graph) == {"id": "run-1"}


async def test_inputs_are_variables_from_the_start() -> None:
    request = Request("Go.", inputs={"x": 1})
    graph = Graph({"a": lambda b: b.append(Message("assistant", str(b.get("x"))))})
    assert (await run(AGENT, request, engine=GraphEngine(graph))).content == "1"


# -- failures


class Busy(Exception):
    retry_after_s = 7.0


def failing(*errors: Exception) -> Any:
    left = list(errors)

    def work(board: Board) -> None:
        board.append(Message("assistant", "try"))
        if left:
            raise left.pop(0)

    return work


async def test_a_node_is_tried_again_on_a_fresh_copy_after_a_growing_wait() -> None:
    clock = FakeClock()
    work = failing(ValueError("1"), Busy(), ValueError("3"))
    result = await walk(Graph({"a": Node(work, attempts=4, backoff_s=2)}), clock=clock)
    assert (result.status, spoken(result)) == ("completed", ["try"])
    floors = [2, 7, 8]
    assert all(at <= wait <= at * 1.5 for at, wait in zip(floors, clock.sleeps, strict=True))


async def test_the_waits_of_nodes_differ() -> None:
    clock = FakeClock()
    nodes: dict[str, Any] = {name: Node(failing(Busy()), attempts=2) for name in "abc"}
    assert (await walk(Graph({"p": Parallel(nodes)}), clock=clock)).success
    assert len(set(clock.sleeps)) == 3


async def test_an_agent_in_a_node_that_is_tried_again_does_not_try_itself() -> None:
    clock = FakeClock()
    busy = AgentError("rate_limit", "busy", retryable=True)
    agent = Agent("w", model=ScriptedModel([busy, busy, "Done."]))
    result = await walk(Graph({"a": Node(agent, attempts=2)}), clock=clock)
    assert result.error is not None
    assert (result.error.code, len(clock.sleeps), result.usage.api_calls) == ("rate_limit", 1, 2)


async def test_a_node_that_always_fails_fails_the_run() -> None:
    work = failing(*[ValueError("no")] * 9)
    result = await walk(Graph({"a": Node(work, attempts=2)}), clock=FakeClock())
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("internal", "ValueError")


@pytest.mark.parametrize(("retryable", "tries"), [(True, 3), (False, 1)])
async def test_an_error_that_no_try_mends_is_not_tried_again(retryable: bool, tries: int) -> None:
    clock, error = FakeClock(), Failed("rate_limit", "busy", retryable=retryable)
    result = await walk(Graph({"a": Node(failing(*[error] * 9), attempts=3)}), clock=clock)
    assert result.error is not None
    assert (result.error.code, len(clock.sleeps)) == ("rate_limit", tries - 1)


async def test_a_wait_past_the_deadline_is_not_begun() -> None:
    clock = FakeClock()
    node = Node(failing(Busy()), attempts=3)
    result = await walk(Graph({"a": node}), clock=clock, budget=Budget(deadline_s=5))
    assert (result.status, clock.sleeps) == ("failed", [])


async def test_a_failure_ends_the_other_branches() -> None:
    ended: list[str] = []

    async def hang(board: Board) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hang")

    async def fail(board: Board) -> None:
        await asyncio.sleep(0)
        raise Failed("not_found", "gone")

    result = await walk(Graph({"a": nothing, "b": hang, "c": fail, "d": nothing}, FORK))
    assert result.error is not None
    assert (result.error.code, ended) == ("not_found", ["hang"])


async def test_what_nodes_did_before_a_failure_stays_in_the_result() -> None:
    graph = Graph({"a": says("a"), "b": failing(ValueError())}, [("a", "b")])
    assert spoken(await walk(graph)) == ["a"]


async def test_a_wish_to_stop_is_followed_between_nodes() -> None:
    class Host:
        wish: Interrupt | None = None

        def interrupts(self) -> Interrupt | None:
            return self.wish

    def wish(board: Board) -> None:
        host.wish = Interrupt("user_input", "enough")
        board.append(Message("assistant", "a"))

    host = Host()
    result = await walk(Graph({"a": wish, "b": says("b")}, [("a", "b")]), host=host)
    assert (result.status, spoken(result)) == (Status.INTERRUPTED, ["a"])
    assert result.error is not None
    assert "enough" in result.error.message


async def test_a_node_may_end_the_run_as_interrupted() -> None:
    def stop(board: Board) -> None:
        raise Interrupted("custom")

    assert (await walk(Graph({"a": Node(stop, attempts=3)}))).status == "interrupted"


# -- misuse


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Graph({}), "no node ''"),
        (lambda: Graph({"a": nothing}, [], "b"), "'b' to start"),
        (lambda: Graph({"a": nothing}, [("a", "b")]), "no node 'b'"),
        (lambda: Graph({"a": nothing}, ["ab"]), "not an edge"),
        (lambda: Graph({"a": nothing}, [("a", "a", "x")]), "is a str"),
        (lambda: Graph({"a": 3}), "node 'a' is int"),
        (lambda: Graph({"a": nothing}, ends=["z"]), "no node 'z'"),
        (lambda: Graph({"a": nothing}, merges={"x": "plus"}), "'plus'"),
        (lambda: Graph({"a": nothing}, max_steps=0), "max_steps"),
        (lambda: Node(nothing, attempts=0), "attempts"),
        (lambda: Node(Question("Well?"), attempts=2), "cannot have retries"),
        (lambda: Parallel({}), "at least one"),
        (lambda: ForEach("x", nothing, at_once=0), "at_once"),
    ],
)
def test_a_graph_that_cannot_be_is_misuse(make: Any, word: str) -> None:
    with pytest.raises(Misuse, match=word):
        make()


def test_a_graph_engine_walks_nothing_but_a_graph() -> None:
    no_graph: Any = {}
    with pytest.raises(Misuse, match="walks a Graph, not dict"):
        GraphEngine(no_graph)


def test_a_misspelt_argument_of_a_graph_is_told_with_the_nearest() -> None:
    fields: dict[str, Any] = {"edgs": ()}
    with pytest.raises(Misuse, match="Graph has no field 'edgs': did you mean 'edges'"):
        Graph({"a": nothing}, **fields)


async def _at_last(values: list[Any]) -> Any:
    return values[-1]


def test_a_merge_that_would_have_to_be_waited_for_is_refused() -> None:
    with pytest.raises(Misuse, match="the merge of 'x' is async"):
        Graph({"a": nothing}, merges={"x": _at_last})


async def test_a_merge_that_does_not_fit_is_told_with_its_variable() -> None:
    nodes: dict[str, Any] = {"l": lambda board: {"x": 1}, "r": lambda board: {"x": "one"}}
    result = await walk(Graph({"both": Parallel(nodes)}, merges={"x": "add"}))
    assert result.error is not None
    assert "variable 'x': the merge 'add' is for numbers and lists" in result.error.message


async def test_nodes_that_wait_for_nothing_leave_others_their_turn() -> None:
    turns: list[int] = []

    def begin(board: Board) -> None:
        asyncio.get_running_loop().call_soon(turns.append, 1)

    edges: Any = [("a", "b"), ("b", "b", lambda board: not turns)]
    graph = Graph({"a": begin, "b": lambda board: None}, edges, max_steps=500, ends=["b"])
    assert (await walk(graph)).success


def test_an_agent_that_names_a_tool_is_refused_for_nobody_looks_it_up() -> None:
    agent = Agent[Any]("w", tools=["look"])
    with pytest.raises(Misuse, match="the agent 'w' of the graph names the tool 'look'"):
        Graph({"all": Parallel({"a": agent})})


ITEMS = sets(items=[1, 2, 3])


def over(work: Any, **options: Any) -> Graph:
    return Graph({"a": ITEMS, "e": ForEach("items", work)}, [("a", "e")], **options)


def doubled(board: Board) -> int:
    return board.get("item") * 2


async def test_what_a_graph_gives_for_an_item_is_its_value() -> None:
    last = {"z": lambda board: {"output": board.get("y") + 1}}
    work = Graph({"x": Node(doubled, output="y"), **last}, [("x", "z")])
    assert (await variables_of(over(work))) == {"items": [1, 2, 3], "e": [3, 5, 7]}


async def test_a_graph_without_output_gives_what_its_nodes_returned() -> None:
    work = Graph({"x": Node(doubled, output="y")})
    assert (await variables_of(over(work)))["e"] == [{"y": 2}, {"y": 4}, {"y": 6}]


async def test_a_graph_without_output_does_not_give_that_of_the_graph_round_it() -> None:
    graph = over(Graph({"x": nothing}))
    outer = Graph({"o": sets(output="old"), "g": graph}, [("o", "g")])
    assert (await variables_of(outer))["e"] == [None, None, None]


async def test_the_variable_that_an_items_node_names_stays_with_the_item() -> None:
    assert await variables_of(over(Node(doubled, output="y"))) == {
        "items": [1, 2, 3],
        "e": [2, 4, 6],
    }


async def test_a_named_merge_takes_the_variables_of_items_out() -> None:
    found = await variables_of(over(Node(doubled, output="y"), merges={"y": "add"}))
    assert (found["y"], found["e"]) == (12, [2, 4, 6])


async def test_what_functions_of_items_set_themselves_still_meets() -> None:
    result = await walk(over(lambda board: board.set("total", board.get("item"))))
    assert result.error is not None
    assert (result.error.code, result.error.details["key"]) == ("conflict", "total")


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ({"a": lambda: None}, [], "the function of node 'a' is called with (board)"),
        ({"a": lambda x, y, z: None}, [], "the function of node 'a' is called with (board, run)"),
        (
            {"a": lambda board: None, "b": lambda board: None},
            [("a", "b", lambda: True)],
            "the condition from 'a' to 'b' is called with (board)",
        ),
    ],
)
def test_a_function_that_takes_other_arguments_is_misuse_at_once(
    nodes: Any, edges: Any, said: str
) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        Graph(nodes, edges)


def adding(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that gives what the graph does not know of."""

    @functools.wraps(function)
    def inner(board: Board) -> Any:
        return function(board, "a database", "a user")

    return inner


def dropping(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that takes the run, which what it wraps does not."""

    @functools.wraps(function)
    def inner(board: Board, run: Any) -> Any:
        return function(run.id)

    return inner


def passing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that hands on whatever it is given."""

    @functools.wraps(function)
    def inner(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return inner


@pytest.mark.parametrize(
    "function",
    [
        adding(lambda board, database, user: board.set("x", user)),
        dropping(lambda word: {"x": word}),
        passing(lambda board, run: board.set("x", run.id)),
        passing(lambda board: board.set("x", 1)),
    ],
    ids=["adds", "drops", "passes both", "passes one"],
)
async def test_a_decorator_is_judged_by_what_it_takes_itself(function: Any) -> None:
    edges: Any = [("a", "b", adding(lambda board, database, user: True))]
    assert (await variables_of(Graph({"a": function, "b": nothing}, edges)))["x"]


async def test_a_graph_that_can_be_called_is_still_a_graph() -> None:
    class Callable_(Graph):
        def __call__(self) -> None: ...

    result = await walk(Graph({"a": Callable_({"x": sets(y=1)})}))
    assert result.error is None


async def test_a_condition_that_raises_is_named() -> None:
    graph = Graph(
        {"a": lambda board: None, "b": lambda board: None}, [("a", "b", lambda board: 1 / 0)]
    )
    result = await run(Agent("g"), "x", engine=GraphEngine(graph))
    assert result.error is not None
    assert result.error.details["raised_by"] == "the condition from 'a' to 'b'"


# -- which nodes may begin


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[str]]:
    names = [f"n{number}" for number in range(draw(st.integers(2, 7)))]
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names))
    edges = draw(st.lists(pairs, max_size=14))
    arrived = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
    return Graph(dict.fromkeys(names, nothing), edges), arrived


def ahead_of(graph: Graph) -> dict[str, set[str]]:
    """What can be reached from each node, edges that close a cycle left out: by recursion."""
    open_edges: list[tuple[str, str]] = []
    done: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        for edge in graph.edges_of(name):
            if edge.target not in (*above, name):
                open_edges.append((name, edge.target))
                if edge.target not in done:
                    visit(edge.target, (*above, name))
        done.append(name)

    for name in (graph.start, *graph.nodes):
        if name not in done:
            visit(name, ())
    ahead: dict[str, set[str]] = {name: set() for name in graph.nodes}
    for _ in graph.nodes:
        for source, target in open_edges:
            ahead[source] |= {target, *ahead[target]}
    return ahead


@given(graphs())
def test_those_begin_that_no_other_can_still_reach(given: tuple[Graph, list[str]]) -> None:
    graph, arrived = given
    ahead = ahead_of(graph)
    blocked = {name for other in arrived for name in ahead[other] if other != name}
    expected = [name for name in graph.nodes if name in arrived and name not in blocked]
    assert graph.ready(arrived) == (expected if len(arrived) > 1 else arrived)


async def test_a_wide_fork_of_which_one_fails_ends_with_that_failure() -> None:
    names = [f"n{number}" for number in range(50)]

    async def wait(board: Board) -> None:
        await asyncio.Event().wait()

    def boom(board: Board) -> None:
        raise RuntimeError("a bug")

    nodes = {"a": nothing, **dict.fromkeys(names, wait), "n7": boom, "z": nothing}
    edges = [pair for name in names for pair in (("a", name), (name, "z"))]
    result = await walk(Graph(nodes, edges))
    assert result.error is not None
    assert result.error.type == "RuntimeError"
