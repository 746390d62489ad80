"""What agents inside graphs and machines are asked, above all when an attempt is made again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.graph_kit import walk
from tests.engines.machine_kit import engine_of, go
from upshot import (
    Agent,
    Board,
    Decider,
    FinalizeDecision,
    Graph,
    Message,
    ScriptedModel,
)
from upshot.engines import ForEach
from upshot.engines.common import asked_in


class Strict(Decider):
    """Has the first attempt done again."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision | None:
        if result.attempts > 1:
            return None
        return FinalizeDecision.revise("Shorter.", "long")


def writer() -> Agent[Any]:
    """An agent that says what it was asked."""
    return Agent("w", model=ScriptedModel(lambda messages: messages[-1].text))


async def again_in_graph(graph: Graph, **options: Any) -> Any:
    result = await walk(graph, deciders=[Strict()], max_attempts=2, **options)
    return result.content


async def test_an_agent_in_a_node_is_told_its_task_and_what_shall_change() -> None:
    assert await again_in_graph(Graph({"a": writer()})) == "Go.\n\nShorter."


async def test_an_agent_deeper_inside_is_told_both() -> None:
    assert await again_in_graph(Graph({"a": Graph({"b": writer()})})) == "Go.\n\nShorter."


async def test_an_agent_of_items_is_told_both_and_its_item() -> None:
    graph = Graph({"a": ForEach(lambda _: ["one"], writer())})
    assert await again_in_graph(graph) == "Go.\n\nShorter.\n\none"


async def test_the_second_agent_is_asked_what_the_first_one_said() -> None:
    critic = Agent[Any]("c", model=ScriptedModel(lambda messages: f"<{messages[-1].text}>"))
    graph = Graph({"a": writer(), "b": critic}, [("a", "b")])
    assert await again_in_graph(graph) == "<Go.\n\nShorter.>"


async def test_feedback_follows_what_a_seeder_asks() -> None:
    def prepare(info: Any, request: Any) -> Board:
        board = Board()
        board.append(Message("user", "Write."))
        return board

    assert await again_in_graph(Graph({"a": writer()}), prepare=prepare) == "Write.\n\nShorter."


@pytest.mark.parametrize("given", ["", "input: {message: input.message},"], ids=["plain", "input"])
async def test_an_agent_of_a_state_is_told_its_task_and_what_shall_change(given: str) -> None:
    engine = engine_of(
        f"""
        a: {{type: initial, agent: w, {given} transitions: [{{to: z}}]}}
        z: {{type: final}}
        """,
        agents={"w": writer()},
    )
    result = await go(engine, deciders=[Strict()], max_attempts=2)
    assert result.content == "Go.\n\nShorter."


@pytest.mark.parametrize(
    ("messages", "feedback", "asked"),
    [
        ([], "", "all"),
        ([], "more", "all"),
        ([Message("user", "task")], "", "task"),
        ([Message("user", "task")], "more", "task"),
        ([Message("user", "more")], "more", "all\n\nmore"),
        ([Message("user", "task"), Message("user", "more")], "more", "task\n\nmore"),
        ([Message("user", "task"), Message("assistant", "more")], "more", "more"),
    ],
)
def test_the_last_message_counts_and_feedback_follows_it(
    messages: list[Message], feedback: str, asked: str
) -> None:
    assert asked_in(messages, feedback, otherwise="all") == asked
