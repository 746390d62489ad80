"""Hint: what was probably meant by something that cannot be what it was given for."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isroutine
from typing import cast

from .article import kind_of

__all__ = ["engine_hint"]

_MACHINE = "MachineEngine({}, agents={{...}}, functions={{...}})"
_LOADED = "load_machine({})"
# The engines are above this module: what they drive is known by its name.
_DRIVEN = {"Graph": "GraphEngine(graph)", "Machine": _MACHINE.format("machine")}
_BY_NAME = {
    "graph": "GraphEngine(Graph(nodes=..., edges=..., start=...))",
    "loop": "LoopEngine()",
    "machine": _MACHINE.format(_LOADED.format("path")),
    "script": "ScriptEngine(function)",
}
_MADE_OF = {
    **_DRIVEN,
    "GraphEngine": _DRIVEN["Graph"],
    "LoopEngine": _BY_NAME["loop"],
    "MachineEngine": _DRIVEN["Machine"],
    "ScriptEngine": _BY_NAME["script"],
}
_FILES = (".json", ".yaml", ".yml")


def engine_hint(value: object) -> str:
    """What *value*, which is no engine, is, and what to give in its place.

    Args:
        value: What was given as an engine.

    Returns:
        The end of a sentence, such as "a Graph: give GraphEngine(graph)".
    """
    if isinstance(value, type):
        name = value.__name__
        return f"the class {name}: make one: {_MADE_OF.get(name, f'{name}(...)')}"
    if isinstance(value, str):
        return f"the text {value!r:.60}: give {_for_text(value)}"
    found, driven = kind_of(value), _DRIVEN.get(type(value).__name__)
    if driven is not None:
        return f"{found}: give {driven}"
    if isroutine(value):
        return "a function: give ScriptEngine(function)"
    if callable(getattr(value, "call", None)):
        return f"{found}, which is a model: give it as model="
    data = cast("Mapping[object, object]", value if isinstance(value, Mapping) else {})
    wanted = "an Engine, which has execute(run, host, board)"
    if "states" in data:
        wanted = _MACHINE.format(_LOADED.format("data"))
    elif "nodes" in data:
        wanted = "GraphEngine(Graph.from_data(data, functions={...}))"
    return f"{found}: give {wanted}"


def _for_text(text: str) -> str:
    word = text.strip().lower()
    if word.endswith(_FILES):
        return _MACHINE.format(_LOADED.format(repr(text)))
    return _BY_NAME.get(word.removesuffix("engine"), "an Engine, such as LoopEngine()")
