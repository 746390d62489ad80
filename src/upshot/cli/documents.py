"""Checks and draws machine files; prints the schema; writes a new desk."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar, cast

from rich.text import Text

from upshot.cli.loading import (
    AGENT_FILES,
    AnyAgent,
    Target,
    check_path,
    choose,
    is_machine,
    load_agent,
    relative_path,
)
from upshot.cli.terminal import MISUSE, Terminal
from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.base.words import count
from upshot.contract.schema import contract_schema, contract_typescript, execution_result_schema
from upshot.engines.graph.graph import Graph
from upshot.engines.graph.graph_engine import GraphEngine
from upshot.engines.machine.document import MAX_BYTES, MachineFault, Mark, plain, read_yaml
from upshot.engines.machine.loader import check_machine, load_machine
from upshot.engines.machine.machine import Machine
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.engines.machine.machine_schema import machine_schema
from upshot.errors import Misuse
from upshot.tools.catalog import resolve_tools

# Only warnings elsewhere; here they are faults, as the command line runs machines without hooks.
_SURE = ("dead_end", "no_final")
_WORD_FOR_WORD = "except for what the user said word for word"
_GUTTER = 7
_LEAST_WIDTH = 20


def check_file(terminal: Terminal, *, target: str, tools: Sequence[str]) -> int:
    """Check the file that *target* names, and print what is wrong with it."""
    named = Target(target)
    check_path(named.file)
    file = relative_path(named.file)
    try:
        faults, about = _findings(named, [Path(one).absolute() for one in tools])
    except Misuse as error:
        if not terminal.as_json:
            raise
        wanted = "a machine, or an agent that can be loaded"
        faults, about = [MachineFault(Mark(file), str(error), wanted, kind="file")], ""
    if terminal.as_json:
        document = _to_json(file, faults)
        terminal.put_json(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        for fault in faults:
            _show(fault, terminal)
        _print_summary(terminal, file, faults, about)
    return MISUSE if _fatal(faults) else 0


def _findings(target: Target, files: Sequence[Path]) -> tuple[list[MachineFault], str]:
    """Return what is wrong with the file, and a description of it if nothing is."""
    path = target.file
    if path.suffix not in AGENT_FILES or not is_machine(path):
        with redirect_stdout(sys.stderr):
            agent = load_agent(target, files)
        return _undeclared_arguments(agent, path), f"the agent {agent.id!r} can be loaded"
    faults = [_to_cli_fault(fault) for fault in check_machine(path)]
    if files and not _fatal(faults):
        faults += _missing_faults(target, files)
    return faults, "" if _fatal(faults) else _about(load_machine(path))


def _undeclared_arguments(agent: AnyAgent, path: Path) -> list[MachineFault]:
    """Return a warning for each undeclared argument, with its cost under ``taint="values"``."""
    items = () if isinstance(agent, AgentSpec) else agent.tools or ()
    faults: list[MachineFault] = []
    for tool in resolve_tools(one for one in items if not isinstance(one, str)):
        declared = {name.partition(".")[0] for name in tool.arguments or ()}
        fields = cast("dict[str, JsonObject]", tool.parameters.get("properties", {}))
        for name in fields if tool.may_write or tool.network else ():
            if name not in declared:
                found = f"{tool.name}: the argument {name!r} is not declared"
                wanted = f'arguments={{"{name}": ...}}; with Policy(taint="values") it costs '
                wanted += _cost(fields[name])
                mark = Mark(relative_path(path))
                faults.append(MachineFault(mark, found, wanted, "warning", "undeclared_argument"))
    return faults


def _cost(schema: JsonObject) -> str:
    """Describe the questions that an argument of this *schema* costs."""
    is_flag = schema.get("type") == "boolean"
    reason = "users do not write true or false" if is_flag else _WORD_FOR_WORD
    given = "each call that gives it" if "default" in schema else "each call"
    return f"a question at {given} after untrusted words, {reason}"


def _to_cli_fault(fault: MachineFault) -> MachineFault:
    mark = fault.mark
    named = mark._replace(file=relative_path(Path(mark.file))) if mark.file else mark
    severity = "fault" if fault.kind in _SURE else fault.severity
    return fault._replace(mark=named, severity=severity)


def _fatal(faults: Sequence[MachineFault]) -> bool:
    return any(fault.severity == "fault" for fault in faults)


def _missing_faults(target: Target, files: Sequence[Path]) -> list[MachineFault]:
    try:
        with redirect_stdout(sys.stderr):
            load_agent(target, files)
    except Misuse as error:
        mark = Mark(relative_path(target.file))
        wanted = f"all of it in {', '.join(relative_path(file) for file in files)}"
        return [MachineFault(mark, str(error), wanted, kind="missing")]
    return []


def _about(machine: Machine) -> str:
    kinds: dict[str, set[str]] = {"agent": set(), "function": set()}
    for _, task in machine.tasks():
        kinds.get(task.kind, set()).add(task.name)
    parts = [count(len(machine.states), "state")]
    parts += [count(len(names), kind) for kind, names in kinds.items() if names]
    return f"sound: {', '.join(parts)}"


def _print_summary(
    terminal: Terminal, file: str, faults: Sequence[MachineFault], about: str
) -> None:
    numbers = Counter(fault.severity for fault in faults)
    found = ", ".join(count(numbers[word], word) for word in ("fault", "warning") if numbers[word])
    style = "red" if numbers["fault"] else "green"
    terminal.say(Text(f"{file}: {'; '.join(filter(None, (about, found)))}", style))


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
    """Print a fault with its line of the file."""
    width = terminal.out.width
    style = "bold red" if fault.severity == "fault" else "bold yellow"
    terminal.say(
        Text.assemble((str(fault.mark), "bold"), " ", (fault.severity, style)),
        *map(Text, _wrapped(f"found    {fault.found}", width)),
        *(Text(line, "dim") for line in _excerpt(fault.mark, width)),
        *map(Text, _wrapped(f"expected {fault.expected}", width)),
        "",
    )


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, max(width, _LEAST_WIDTH), initial_indent="  ", subsequent_indent=" " * 11
    )


def _excerpt(mark: Mark, width: int) -> list[str]:
    """Return the line at *mark* with a pointer below it, cut to the width."""
    if not mark.line:
        return []
    try:
        with Path(mark.file).open("rb") as file:
            # A larger file has been refused for its size.
            lines = file.read(MAX_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    if mark.line > len(lines):
        return []
    room = max(width - _GUTTER - 2, _LEAST_WIDTH)
    # Replace one character by one, so that the pointer stays right; control codes must not pass.
    line = "".join(one if one.isprintable() else " " for one in lines[mark.line - 1])
    at = mark.column - 1
    start = max(0, at - room // 2) if len(line) > room else 0
    return [
        f"{mark.line:>{_GUTTER - 1}} | {line[start : start + room]}",
        f"{'':{_GUTTER}}| {' ' * (at - start)}^",
    ]


T = TypeVar("T")


def draw_file(terminal: Terminal, *, target: str) -> int:
    """Print the machine or graph that *target* names, as Mermaid text."""
    text = _drawn(Target(target))
    terminal.answer_text({"file": target, "mermaid": text}, text)
    return 0


def _drawn(target: Target) -> str:
    path = target.file
    check_path(path)
    if path.suffix == ".py":
        return choose(target, "graph or machine", _subject).to_mermaid()
    if path.suffix not in AGENT_FILES:
        raise Misuse(
            f"{relative_path(path)}: give a file that ends in .py, {', '.join(AGENT_FILES)}"
        )
    if is_machine(path):
        return load_machine(path).to_mermaid()
    graph = Graph.from_data(_read(path), functions=_Anything(_function), agents=_Anything(Agent))
    return graph.to_mermaid()


def _subject(value: object) -> Graph | Machine | None:
    """Return the graph or machine that *value* is or runs."""
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
    # JSON is YAML too, and this reader limits what aliases can expand to.
    text = path.read_bytes().decode("utf-8-sig", "replace")
    piece = read_yaml(text, faults, file=relative_path(path))
    if faults:
        raise Misuse(str(faults[0]))
    made = None if piece is None else plain(piece)
    if not isinstance(made, dict) or "nodes" not in made:
        raise Misuse(
            f"{relative_path(path)} is neither a machine, which has states, nor a graph: nodes"
        )
    return made


class _Anything(Mapping[str, T]):
    """A mapping that has every name: a drawing needs names only."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> T:
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        # It must not count as empty.
        return 1


def _function(name: str) -> Callable[..., Any]:
    def stands_for(*given: object) -> None: ...

    stands_for.__name__ = str(name)
    return stands_for


def _report_schema() -> JsonObject:
    # The lab takes longer to load than a command to start.
    from upshot.lab.report import report_schema

    return report_schema()


FORMS: dict[str, Callable[[], JsonObject | str]] = {
    "json_schema": contract_schema,
    "typescript": contract_typescript,
    "execution_result": execution_result_schema,
    "machine": machine_schema,
    "lab_report": _report_schema,
}


def print_schema(terminal: Terminal, *, form: str) -> int:
    """Print the contract in *form*, one of ``FORMS``."""
    made = FORMS[form]()
    if isinstance(made, str):
        terminal.answer_text({form: made}, made)
    else:
        terminal.put_json(json.dumps(made, indent=2, ensure_ascii=False))
    return 0


_DESK = Path(__file__).parent / "_desk"
# A name that starts with a dot may be left out of a distribution.
_NAMES = {"gitignore": ".gitignore"}


async def make_desk(terminal: Terminal, *, folder: str) -> int:
    """Write a small App with tests into a new folder, and print what to do next.

    Raises:
        Misuse: The folder has files, or it cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise Misuse(f"{folder} is not empty: name a new folder")
        for file in sorted(one for one in _DESK.iterdir() if one.is_file()):
            name = _NAMES.get(file.name, file.name)
            (place / name).write_bytes(file.read_bytes())
            terminal.put(f"{place / name}\n")
    except OSError as error:
        raise Misuse(f"{folder} cannot be written: {error.strerror}; name another") from error
    terminal.report("Next:")
    terminal.hint(f"cd {shlex.quote(folder)}", "upshot run desk.py:support 'Where is order 7?'")
    return 0
