"""Suggestions: the nearest name, and the engine that drives what was given in place of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import (
    Agent,
    Graph,
    LoopEngine,
    Misuse,
    ScriptedModel,
    load_machine,
    run_sync,
)
from upshot.contract.base.checks import did_you_mean, format_value, nearest

GRAPH = Graph(nodes={"a": lambda board: None}, edges=[], start="a")
STATES = {"a": {"type": "initial", "transitions": [{"to": "b"}]}, "b": {"type": "final"}}
MACHINE = load_machine({"spec": "upshot.machine/1", "states": STATES})


async def script(run: Any, host: Any, board: Any) -> None: ...


DOORS: list[Callable[[Any], object]] = [
    lambda engine: Agent("a", engine=engine),
    lambda engine: run_sync(Agent("a"), "Go.", engine=engine),
]


@pytest.mark.parametrize("door", DOORS, ids=["agent", "run"])
@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (GRAPH, "got Graph: give GraphEngine(graph)"),
        (MACHINE, "got Machine: give MachineEngine(machine)"),
        ("order.yml", "got str: give LoopEngine(), GraphEngine(graph), MachineEngine(load_machine"),
        (LoopEngine, "got the class LoopEngine (give an object of it)"),
        (Graph, "got the class Graph (give an object of it): give GraphEngine(graph)"),
        (script, "got function: give ScriptEngine(function)"),
        (
            {"states": STATES},
            "give GraphEngine(Graph.from_data(data)) or MachineEngine(",
        ),
        (ScriptedModel([]), "got ScriptedModel: a model is given as model="),
        (5, "must be an Engine, which has execute(run, host, board), got 5"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_engine_is_told_with_the_engine_that_it_needs(
    door: Callable[[Any], object], engine: Any, said: str
) -> None:
    with pytest.raises(Misuse) as caught:
        door(engine)
    assert str(caught.value).startswith("engine ")
    assert " must be an Engine" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("word", "near"),
    [("modle", ["model"]), ("MODEL", ["model"]), ("bugdet", ["budget"]), ("zzz", []), ("", [])],
)
def test_the_nearest_name_is_found_whatever_its_case(word: str, near: list[str]) -> None:
    assert nearest(word, ["budget", "model"]) == near


def test_the_question_names_the_nearest_or_says_what_else() -> None:
    assert did_you_mean("modle", ["model"], "there is model") == "did you mean 'model'?"
    assert did_you_mean("zzz", ["model"], "there is model") == "there is model"


@given(st.text(), st.lists(st.text()))
def test_any_words_are_compared(word: str, known: list[str]) -> None:
    assert set(nearest(word, known)) <= set(known)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (5, "5"),
        (True, "True"),
        (None, "None"),
        ("sk-secret", "str"),
        ([], "list"),
        (10**9999, "a number of too many digits"),
        (Graph, "the class Graph (give an object of it)"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_a_wrong_value_is_shown_by_its_type_and_a_text_never(value: Any, told: str) -> None:
    assert format_value(value) == told
