"""The digest of a graph: what decides what it does, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from upshot import Agent, Board, Graph, Node, Parallel, Question, ScriptedModel, ToolTask


def one(board: Board) -> None:
    board.set("x", 1)


def two(board: Board) -> None:
    board.set("x", 2)


def made(value: int) -> Callable[[Board], None]:
    def work(board: Board, more: int = value) -> None:
        board.set("x", more)

    return work


def wrapped(inner: Callable[[Board], None]) -> Callable[[Board], None]:
    def work(board: Board) -> None:
        inner(board)

    return work


def add(board: Board, number: int) -> None:
    board.set("x", number)


class Worker:
    def __call__(self, board: Board) -> None:
        board.set("x", 3)


def base(work: object = one, condition: Any = bool, **more: Any) -> Graph:
    return Graph({"a": work, "b": one}, [("a", "b", condition)], ends=["a"], **more)


def agent(**more: Any) -> Agent[Any]:
    return Agent("w", model=ScriptedModel(["x"]), **more)


OTHERS = {
    "function": base(two),
    "lambda": base(lambda board: None),
    "another lambda": base(lambda board: board.set("x", 1)),
    "default": base(made(1)),
    "another default": base(made(2)),
    "wrapped": base(wrapped(one)),
    "another wrapped": base(wrapped(two)),
    "partial": base(partial(add, number=1)),
    "another partial": base(partial(add, number=2)),
    "object": base(Worker()),
    "condition": base(condition=lambda board: True),
    "another condition": base(condition=lambda board: False),
    "tries": base(Node(one, attempts=2)),
    "merge": base(merges={"x": "add"}),
    "limit": base(max_steps=9),
    "tool": base(ToolTask("t", {"n": 1})),
    "arguments": base(ToolTask("t", {"n": 2})),
    "question": base(Question("Go?")),
    "choices": base(Question("Go?", ("yes",))),
    "agent": base(agent()),
    "instructions": base(agent(instructions="Write.")),
    "branches": base(Parallel({"p": one})),
    "other branches": base(Parallel({"p": two})),
    "graph": base(Graph({"i": one})),
    "other graph": base(Graph({"i": two})),
}


def test_graphs_that_do_something_else_have_other_digests() -> None:
    digests = {name: graph.digest for name, graph in {"base": base(), **OTHERS}.items()}
    by_digest: dict[str, list[str]] = {}
    for name, digest in digests.items():
        by_digest.setdefault(digest, []).append(name)
    assert [names for names in by_digest.values() if len(names) > 1] == []


@pytest.mark.parametrize(
    "make",
    [lambda: base(made(1)), lambda: base(wrapped(two)), lambda: base(agent()),
     lambda: base(Worker()), lambda: base(Graph({"i": Parallel({"p": agent(instructions=str)})}))],
    ids=["default", "wrapped", "agent", "object", "nested"],
)  # fmt: skip
def test_the_same_graph_made_anew_has_the_same_digest(make: Callable[[], Graph]) -> None:
    assert make().digest == make().digest


def test_what_a_function_counts_while_it_runs_is_no_change() -> None:
    seen: list[int] = []

    def counting(board: Board) -> None:
        seen.append(1)

    before = base(counting).digest
    seen.append(1)
    assert base(counting).digest == before


def test_a_function_that_calls_itself_has_a_digest() -> None:
    def again(board: Board) -> None:
        if board.get("x") is None:
            again(board)

    assert base(again).digest


def test_the_digest_is_the_same_in_every_process() -> None:
    program = (
        "from upshot import Graph\n"
        "def a(board): return board.get('x') in {'one', 'two', 'three', 'four'}\n"
        "print(Graph({'a': a}).digest)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
