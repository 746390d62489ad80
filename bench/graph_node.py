"""The cost of a graph node: a chain of functions, no journal."""

from __future__ import annotations

from itertools import pairwise

import upshot
from bench.idle import idle, running
from bench.interleave import measure

__all__ = ["graph_node"]

NODES = 200
AIM_US = 50


def graph_node() -> None:
    """CPU of a node that sets a variable, in a chain and in a cycle."""
    names = [f"n{number}" for number in range(NODES)]
    chain = upshot.Graph(dict.fromkeys(names, _count), pairwise(names))
    edges = [("a", "a", _goes_on), ("a", "b", _is_over)]
    cycle = upshot.Graph({"a": _count, "b": _count}, edges, max_steps=NODES + 1)
    engines = {"chain": upshot.GraphEngine(chain), "cycle": upshot.GraphEngine(cycle)}
    figures = measure({name: running(engine) for name, engine in engines.items()} | {"none": idle})
    for name in engines:
        cost_us = (figures[name] - figures["none"]) / NODES * 1e6
        print(f"graph node in a {name}\n  {cost_us:.0f} us CPU a node (aim <= {AIM_US} us)")


async def _count(board: upshot.Board) -> None:
    done = board.get("n", 0)
    assert isinstance(done, int)
    board.set("n", done + 1)


def _goes_on(board: upshot.Board) -> bool:
    return board.get("n") != NODES - 1


def _is_over(board: upshot.Board) -> bool:
    return not _goes_on(board)
