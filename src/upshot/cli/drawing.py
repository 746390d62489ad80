"""Drawing a machine or a graph from its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from ..contract import Agent
from ..contract.article import kind_of
from ..engines import (
    Graph,
    GraphEngine,
    Machine,
    MachineEngine,
    MachineFault,
    load_machine,
)
from ..engines.machine_document import read_yaml
from ..engines.machine_table import plain
from ..errors import Misuse
from .agent_file import AGENT_FILES
from .loading import Target, check_path, import_file, shown
from .machine_file import is_machine

__all__ = ["draw_file"]

T = TypeVar("T")


def draw_file(text: str) -> str:
    """The machine or graph that *text* names, as Mermaid text.

    Raises:
        Misuse: There is none.
    """
    target = Target(text)
    path = target.file
    check_path(path)
    if path.suffix == ".py":
        return _choose(target).to_mermaid()
    if path.suffix not in AGENT_FILES:
        raise Misuse(f"{shown(path)}: give a file that ends in .py, {', '.join(AGENT_FILES)}")
    if is_machine(path):
        return load_machine(path).to_mermaid()
    graph = Graph.from_data(_read(path), functions=_Anything(_function), agents=_Anything(Agent))
    return graph.to_mermaid()


def _choose(target: Target) -> Graph | Machine:
    named = cast("dict[str, object]", vars(import_file(target.file)))
    path = shown(target.file)
    if target.name:
        if target.name not in named:
            raise Misuse(f"{path} has no {target.name!r}")
        found = _subject(named[target.name])
        if found is None:
            kind = kind_of(named[target.name])
            raise Misuse(f"{target.name!r} in {path} is no graph or machine but {kind}")
        return found
    subjects = {name: one for name, value in named.items() if (one := _subject(value)) is not None}
    if len({id(one) for one in subjects.values()}) != 1:
        there = ", ".join(sorted(subjects)) or "none"
        are = "are" if len(subjects) > 1 else "is"
        raise Misuse(f"{path}: say which graph or machine, {path}:NAME; there {are} {there}")
    return next(iter(subjects.values()))


def _subject(value: object) -> Graph | Machine | None:
    """The graph or machine that *value* is or is driven by."""
    match value:
        case Graph() | Machine():
            return value
        case GraphEngine():
            return value.graph
        case MachineEngine():
            return value.machine
        case Agent(engine=engine) if engine is not None:
            return _subject(engine)
        case _:
            return None


def _read(path: Path) -> Mapping[str, Any]:
    faults: list[MachineFault] = []
    # JSON is YAML too, and this reader is not to be blown up.
    text = path.read_bytes().decode("utf-8-sig", "replace")
    piece = read_yaml(text, faults, file=shown(path))
    if faults:
        raise Misuse(str(faults[0]))
    made = None if piece is None else plain(piece)
    if not isinstance(made, dict) or "nodes" not in made:
        raise Misuse(f"{shown(path)} is neither a machine, which has states, nor a graph: nodes")
    return made


class _Anything(Mapping[str, T]):
    """Whatever is asked for is there: a drawing needs names only."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> T:
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        # Never empty, whatever it is asked.
        return 1


def _function(name: str) -> Callable[..., Any]:
    def stands_for(*given: object) -> None: ...

    stands_for.__name__ = str(name)
    return stands_for
