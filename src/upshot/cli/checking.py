"""Checking a machine's file: all that is wrong with it, shown where it stands."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from rich.text import Text

from ..contract import Json
from ..engines import Machine, MachineFault, Mark, check_machine, load_machine
from ..engines.machine_document import MAX_BYTES
from ..errors import Misuse
from .agent_file import AGENT_FILES
from .exit_code import MISUSE
from .figures import count
from .loading import Target, check_path, load_agent, shown
from .machine_file import is_machine
from .terminal import Terminal

__all__ = ["check_file"]

# Nothing can mend these here: the command line runs a machine without hooks.
_SURE = ("dead_end", "no_final")
_GUTTER = 7
_LEAST_WIDTH = 20


def check_file(
    text: str, terminal: Terminal, *, tools: Sequence[str] = (), as_json: bool = False
) -> int:
    """Check the file that *text* names, and print what is wrong with it.

    Args:
        text: A machine's file; or an agent, which is loaded.
        terminal: Where to print.
        tools: Python files with what it names.
        as_json: Print JSON and nothing else, also where the file cannot be read as what it is.

    Returns:
        0 where nothing is wrong but warnings, else 2.

    Raises:
        Misuse: There is no such file; or it cannot be read, or an agent not be loaded, and this is
            not to be told as JSON.
    """
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
