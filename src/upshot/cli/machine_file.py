"""Machine files: a machine, with the functions, agents and tools of Python files, as an agent."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ..contract import Agent
from ..engines import BrokenMachine, MachineEngine, load_machine
from ..errors import Misuse
from ..tools import Tool

__all__ = ["is_machine", "machine_agent"]

# Whether a text is a machine is seen in its first part; a larger one is refused when it is read.
_LOOKED_AT = 200_000
_YAML_KEY = re.compile(r"""^["']?(?:states["']?\s*:|spec["']?\s*:\s*["']?upshot\.machine/)""", re.M)


def is_machine(path: Path) -> bool:
    """Whether the file at *path*, in YAML or JSON, holds a machine."""
    with path.open("rb") as file:
        text = file.read(_LOOKED_AT).decode("utf-8", "replace")
    if path.suffix != ".json":
        return _YAML_KEY.search(text) is not None
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and "states" in data


def machine_agent(path: Path, modules: Sequence[ModuleType]) -> Agent[Any]:
    """An agent whose engine is the machine at *path*.

    Args:
        path: Its file.
        modules: Where the functions, agents and tools are that it names: agents by their id or
            by their name in the module.

    Raises:
        BrokenMachine: It has faults.
        Misuse: Something that it names is nowhere.
    """
    machine = load_machine(path)
    wanted = {(task.kind, task.name) for _, task in machine.tasks()}
    functions: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    tools: list[Tool] = []
    for name, value in _values(modules):
        if isinstance(value, Tool):
            tools.append(value)
        for known in (name, getattr(value, "id", "")):
            if ("agent", known) in wanted and not inspect.isclass(value):
                agents.setdefault(str(known), value)
        if ("function", name) in wanted and not isinstance(value, Tool):
            functions.setdefault(name, value)
    try:
        engine = MachineEngine(machine, agents=agents, functions=functions, tools=tools)
    except BrokenMachine:
        raise
    except Misuse as error:
        hint = "" if modules else "; a Python file that has it can be named: --tools FILE.py"
        raise Misuse(f"{error}{hint}") from error
    return Agent[Any](machine.name, engine=engine)


def _values(modules: Sequence[ModuleType]) -> list[tuple[str, object]]:
    return [
        (name, value)
        for module in modules
        for name, value in cast("dict[str, object]", vars(module)).items()
        if not name.startswith("_")
    ]
