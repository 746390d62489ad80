"""Checks and draws machine files; prints the schema."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar, cast

from rich.text import Text

from upshot.cli.loading import (
    AGENT_FILES,
    Target,
    check_path,
    import_file,
    is_machine,
    load_agent,
    shown,
)
from upshot.cli.terminal import MISUSE, Terminal, count
from upshot.contract.agent import Agent
from upshot.contract.base.checks import kind_of
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.schema import contract_schema, contract_typescript, execution_result_schema
from upshot.engines.graph.graph import Graph
from upshot.engines.graph.graph_engine import GraphEngine
from upshot.engines.machine.document import MAX_BYTES, MachineFault, Mark, plain, read_yaml
from upshot.engines.machine.loader import check_machine, load_machine
from upshot.engines.machine.machine import Machine
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.engines.machine.machine_schema import machine_schema
from upshot.errors import Misuse

# Nothing can mend these here: the command line runs a machine without hooks.
_SURE = ("dead_end", "no_final")
_GUTTER = 7
_LEAST_WIDTH = 20


def check_file(
    text: str, terminal: Terminal, *, tools: Sequence[str] = (), as_json: bool = False
) -> int:
    """Check the file that *text* names, and print what is wrong with it."""
    target = Target(text)
    check_path(target.file)
    try:
        faults, about = _findings(target, [Path(file).absolute() for file in tools])
    except Misuse as error:
        if not as_json:
            raise
        mark, wanted = Mark(shown(target.file)), "a machine, or an agent that can be loaded"
        faults, about = [MachineFault(mark, str(error), wanted, kind="file")], ""
    if not as_json:
        for fault in faults:
            _show(fault, terminal)
    _conclude(terminal, shown(target.file), faults, about, as_json=as_json)
    return MISUSE if _fatal(faults) else 0


def _findings(target: Target, files: Sequence[Path]) -> tuple[list[MachineFault], str]:
    """What is wrong with the file, and what it is if that is nothing."""
    path = target.file
    if path.suffix not in AGENT_FILES or not is_machine(path):
        with redirect_stdout(sys.stderr):
            agent = load_agent(target, files)
        return [], f"the agent {agent.id!r} can be loaded"
    faults = [_sharpened(fault) for fault in check_machine(path)]
    if files and not _fatal(faults):
        faults += _missing(target, files)
    return faults, "" if _fatal(faults) else _about(load_machine(path))


def _sharpened(fault: MachineFault) -> MachineFault:
    mark = fault.mark
    named = mark._replace(file=shown(Path(mark.file))) if mark.file else mark
    severity = "fault" if fault.kind in _SURE else fault.severity
    return fault._replace(mark=named, severity=severity)


def _fatal(faults: Sequence[MachineFault]) -> bool:
    return any(fault.severity == "fault" for fault in faults)


def _missing(target: Target, files: Sequence[Path]) -> list[MachineFault]:
    try:
        with redirect_stdout(sys.stderr):
            load_agent(target, files)
    except Misuse as error:
        mark = Mark(shown(target.file))
        wanted = f"all of it in {', '.join(shown(file) for file in files)}"
        return [MachineFault(mark, str(error), wanted, kind="missing")]
    return []


def _about(machine: Machine) -> str:
    kinds: dict[str, set[str]] = {"agent": set(), "function": set()}
    for _, task in machine.tasks():
        kinds.get(task.kind, set()).add(task.name)
    parts = [count(len(machine.states), "state")]
    parts += [count(len(names), kind) for kind, names in kinds.items() if names]
    return f"sound: {', '.join(parts)}"


def _conclude(
    terminal: Terminal, file: str, faults: Sequence[MachineFault], about: str, *, as_json: bool
) -> None:
    if as_json:
        terminal.put_json(json.dumps(_to_json(file, faults), ensure_ascii=False, indent=2))
        return
    fatal = sum(fault.severity == "fault" for fault in faults)
    parts = [count(fatal, "fault")] if fatal else []
    if len(faults) > fatal:
        parts.append(count(len(faults) - fatal, "warning"))
    told = [about] if about else []
    if parts:
        told.append(", ".join(parts))
    terminal.say(Text(f"{file}: {'; '.join(told)}", style="red" if fatal else "green"))


def _to_json(file: str, faults: Sequence[MachineFault]) -> dict[str, Json]:
    listed: list[Json] = [
        {
            "severity": fault.severity,
            "kind": fault.kind,
            "file": fault.mark.file,
            "line": fault.mark.line or None,
            "column": fault.mark.column or None,
            "path": fault.mark.path,
            "found": fault.found,
            "expected": fault.expected,
        }
        for fault in faults
    ]
    return {"file": file, "ok": not _fatal(faults), "faults": listed}


def _show(fault: MachineFault, terminal: Terminal) -> None:
    """A fault with the line that it stands in."""
    width = terminal.out.width
    style = "bold red" if fault.severity == "fault" else "bold yellow"
    head = Text.assemble((str(fault.mark), "bold"), " ", (fault.severity, style))
    terminal.say(head)
    for line in _wrapped(f"found    {fault.found}", width):
        terminal.say(Text(line))
    for line in _excerpt(fault.mark, width):
        terminal.say(Text(line, style="dim"))
    for line in _wrapped(f"expected {fault.expected}", width):
        terminal.say(Text(line))
    terminal.say("")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, max(width, _LEAST_WIDTH), initial_indent="  ", subsequent_indent=" " * 11
    )


def _excerpt(mark: Mark, width: int) -> list[str]:
    """The line at *mark* with a pointer below it, cut to the width."""
    if not mark.line:
        return []
    try:
        with Path(mark.file).open("rb") as file:
            # A file that is larger has been refused for that.
            lines = file.read(MAX_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    if mark.line > len(lines):
        return []
    room = max(width - _GUTTER - 2, _LEAST_WIDTH)
    # One character for one, so that the pointer stays right; a terminal must not obey a file.
    line = "".join(one if one.isprintable() else " " for one in lines[mark.line - 1])
    at = mark.column - 1
    start = max(0, at - room // 2) if len(line) > room else 0
    return [
        f"{mark.line:>{_GUTTER - 1}} | {line[start : start + room]}",
        f"{'':{_GUTTER}}| {' ' * (at - start)}^",
    ]


T = TypeVar("T")


def draw_file(text: str) -> str:
    """The machine or graph that *text* names, as Mermaid text."""
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
            raise Misuse(f"{target.name!r} in {path} must be a graph or a machine, got {kind}")
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


FORMS: dict[str, Callable[[], JsonObject | str]] = {
    "json_schema": contract_schema,
    "typescript": contract_typescript,
    "execution_result": execution_result_schema,
    "machine": machine_schema,
}


def schema_text(form: str) -> str:
    """The contract in *form*, one of ``FORMS``, as the text of a file."""
    made = FORMS[form]()
    if isinstance(made, str):
        return made
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
