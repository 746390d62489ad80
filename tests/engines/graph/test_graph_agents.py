"""Agents as nodes of a graph: what they are asked, what they leave, and who has a model."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engines.graph_kit import AGENT, sets, spoken, variables_of, walk
from upshot import (
    Aborted,
    Agent,
    AgentError,
    ErrorCode,
    Graph,
    GraphEngine,
    Interrupted,
    Misuse,
    ModelResponse,
    Retry,
    ScriptedModel,
    ScriptEngine,
    run,
    start,
)
from upshot.engines import AgentTask, ForEach, Node, Parallel
from upshot.testing import FakeClock


class Point(msgspec.Struct):
    """A typed answer."""

    x: int


def says(*replies: Any, **fields: Any) -> Agent[Any]:
    return Agent("w", model=ScriptedModel(list(replies)), **fields)


def echo() -> Agent[Any]:
    """An agent that says what it was asked."""
    return Agent("w", model=ScriptedModel(lambda messages: messages[-1].text))


async def test_an_agent_in_a_node_is_tried_again() -> None:
    busy = AgentError(ErrorCode.SERVER_ERROR, "busy", retryable=True)
    agent = says(ModelResponse(error=busy), "done", retry=None)
    result = await walk(Graph({"a": Node(agent, attempts=2)}), clock=FakeClock())
    assert spoken(result) == ["done"]


async def test_an_agent_in_a_node_of_parallel_names_its_variable() -> None:
    graph = Graph({"a": Parallel({"x": Node(says("hi"), output="said")})})
    assert (await variables_of(graph))["said"] == "hi"


async def test_a_typed_answer_is_the_variable_of_its_node() -> None:
    graph = Graph({"a": says("5", output_type=int), "b": says('{"x": 1}', output_type=Point)},
                  [("a", "b")])  # fmt: skip
    assert await variables_of(graph) == {"a": 5, "b": {"x": 1}}


@pytest.mark.parametrize("inner", ["parallel", "graph"])
async def test_typed_answers_of_items_are_their_own(inner: str) -> None:
    typed = Agent[Any]("w", model=ScriptedModel(lambda messages: "5"), output_type=int)
    work = Parallel({"n": typed}) if inner == "parallel" else Graph({"n": typed})
    graph = Graph({"a": sets(items=[1, 2]), "b": ForEach("items", work)}, [("a", "b")])
    found = await variables_of(graph)
    assert "n" not in found
    assert found["b"] == [{"n": 5}, {"n": 5}]


async def test_a_typed_answer_goes_where_the_node_says() -> None:
    graph = Graph({"a": Node(says("5", output_type=int), output="count")})
    assert await variables_of(graph) == {"count": 5}


async def test_a_text_is_a_message_and_no_variable() -> None:
    assert await variables_of(Graph({"a": says("hi", output_type=str)})) == {}


async def test_an_agent_of_foreach_is_asked_about_its_item() -> None:
    graph = Graph({"a": sets(topics=["tea", {"n": 1}]), "b": ForEach("topics", echo())},
                  [("a", "b")])  # fmt: skip
    assert (await variables_of(graph))["b"] == ["Go.\n\ntea", 'Go.\n\n{"n":1}']


async def test_a_request_of_its_own_wins_over_the_item() -> None:
    task = AgentTask(echo(), lambda board: f"Only {board.get('item')}.")
    graph = Graph({"a": sets(topics=["tea"]), "b": ForEach("topics", task)}, [("a", "b")])
    assert (await variables_of(graph))["b"] == ["Only tea."]


async def test_the_item_reaches_the_first_agent_deeper_inside() -> None:
    inner = Graph({"one": says("one"), "two": echo()}, [("one", "two")])
    pair = Parallel({"x": inner, "y": echo()})
    graph = Graph({"a": sets(topics=["tea"]), "b": ForEach("topics", pair)}, [("a", "b")])
    assert spoken(await walk(graph)) == ["one", "one", "Go.\n\ntea"]


NESTED = {
    "node": lambda agent: Graph({"a": agent}),
    "parallel": lambda agent: Graph({"a": Parallel({"x": Node(agent, attempts=2)})}),
    "foreach": lambda agent: Graph({"a": ForEach("items", AgentTask(agent))}),
    "graph": lambda agent: Graph({"a": Graph({"b": agent})}),
    "agent": lambda agent: Graph({"a": Agent("in", engine=GraphEngine(Graph({"b": agent})))}),
}


@pytest.mark.parametrize("place", NESTED)
async def test_an_agent_without_a_model_is_misuse_before_the_start(place: str) -> None:
    engine = GraphEngine(NESTED[place](Agent[Any]("writer")))
    with pytest.raises(Misuse, match="no model for 'writer'"):
        await run(AGENT, "Go.", engine=engine)
    with pytest.raises(Misuse, match="no model for 'writer'"):
        async with start(AGENT, "Go.", engine=engine):
            pass


async def test_a_model_of_the_run_is_lent_to_all() -> None:
    engine = GraphEngine(Graph({"a": Agent[Any]("writer")}))
    result = await run(AGENT, "Go.", engine=engine, model=ScriptedModel(["hi"]))
    assert result.content == "hi"


# -- an agent that was given up, or followed a wish to stop


@pytest.mark.parametrize("retry", [None, Retry(max_tries=1)], ids=["off", "one"])
async def test_what_the_call_says_about_tries_holds_for_agents_in_nodes(
    retry: Retry | None,
) -> None:
    busy = ModelResponse(error=AgentError(ErrorCode.SERVER_ERROR, "busy", retryable=True))
    clock = FakeClock()
    result = await walk(Graph({"a": Graph({"b": says(busy, "hi")})}), retry=retry, clock=clock)
    assert (result.error and result.error.code, clock.sleeps) == (ErrorCode.SERVER_ERROR, [])


@pytest.mark.parametrize("place", ["node", "graph", "agent"])
async def test_tries_that_the_call_names_hold_also_where_its_agent_has_the_same(place: str) -> None:
    busy = ModelResponse(error=AgentError(ErrorCode.SERVER_ERROR, "busy", retryable=True))
    agent = says(busy, "hi", retry=None)
    engine, clock = GraphEngine(NESTED[place](agent)), FakeClock()
    result = await run(AGENT, "Go.", engine=engine, retry=Retry(), clock=clock)
    assert (result.success, len(clock.sleeps)) == (True, 1)


async def test_no_tries_of_the_call_hold_also_where_its_agent_has_none() -> None:
    busy = ModelResponse(error=AgentError(ErrorCode.SERVER_ERROR, "busy", retryable=True))
    outer = Agent[Any]("g", engine=GraphEngine(Graph({"a": says(busy, "hi")})), retry=None)
    result = await run(outer, "Go.", retry=None, clock=FakeClock())
    assert result.error is not None
    assert result.error.code == ErrorCode.SERVER_ERROR


async def test_an_agent_in_a_node_keeps_its_own_tries_where_the_call_says_nothing() -> None:
    busy = ModelResponse(error=AgentError(ErrorCode.SERVER_ERROR, "busy", retryable=True))
    result = await walk(Graph({"a": says(busy, "hi", retry=None)}))
    assert result.error is not None
    assert result.error.code == ErrorCode.SERVER_ERROR


def giving_up(asked: list[str] | None = None) -> Agent[Any]:
    def work(*_: Any) -> None:
        if asked is not None:
            asked.append("asked")
        raise Aborted("sold out", code="zz")

    return Agent("w", engine=ScriptEngine(work))


def stopping() -> Agent[Any]:
    def work(*_: Any) -> None:
        raise Interrupted("custom", "enough")

    return Agent("w", engine=ScriptEngine(work))


@pytest.mark.parametrize("around", [lambda w: w, lambda w: Graph({"w": w})], ids=["node", "graph"])
async def test_an_agent_that_is_aborted_aborts_the_run(around: Any) -> None:
    result = await walk(Graph({"a": around(giving_up()), "b": says("on")}, [("a", "b")]))
    assert result.error is not None
    assert (result.status, result.error.code, result.error.message) == ("aborted", "zz", "sold out")


async def test_an_agent_that_is_aborted_is_not_tried_again() -> None:
    asked: list[str] = []
    await walk(Graph({"a": Node(giving_up(asked), attempts=3)}), clock=FakeClock())
    assert asked == ["asked"]


@pytest.mark.parametrize(
    "around",
    [
        lambda w: w,
        lambda w: Parallel({"x": w, "y": says("hi")}),
        lambda w: ForEach(lambda _: [1], w),
    ],
    ids=["node", "parallel", "foreach"],
)
async def test_an_agent_that_followed_a_wish_to_stop_interrupts_the_run(around: Any) -> None:
    result = await walk(Graph({"a": around(stopping()), "b": says("on")}, [("a", "b")]))
    assert (result.status, result.cause, result.detail) == ("interrupted", "custom", "enough")
