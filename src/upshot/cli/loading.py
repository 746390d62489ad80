"""Loading: from ``FILE.py:agent``, or an agent file, to the agent."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

from ..contract import Agent, AgentSpec
from ..contract.article import kind_of
from ..errors import Misuse
from ..tools import Tool
from .agent_file import AGENT_FILES, read_agent_file
from .machine_file import is_machine, machine_agent

__all__ = ["AnyAgent", "Target", "check_path", "import_file", "load_agent", "load_tools", "shown"]

AnyAgent: TypeAlias = Agent[Any] | AgentSpec


class Target:
    """Which agent of which file: ``FILE.py:agent``, ``FILE.py``, ``FILE.json``.

    Attributes:
        file: The file, absolute.
        name: The agent's name in it, "" where none was given.
    """

    def __init__(self, text: str) -> None:
        file, colon, name = text.rpartition(":")
        # A file that is there wins over a name after a colon.
        whole = not colon or Path(text).is_file() or "/" in name
        self.file: Path = Path(text if whole else file).absolute()
        self.name: str = "" if whole else name


def load_agent(target: Target, beside: Sequence[Path] = ()) -> AnyAgent:
    """Read the agent that *target* names; a machine is an agent with an engine.

    Args:
        target: Which of which file.
        beside: Python files with the functions, agents and tools that a machine names.

    Raises:
        Misuse: There is no such file or no such agent, or the file itself fails; the
            message says where.
    """
    path = target.file
    check_path(path)
    if path.suffix in AGENT_FILES:
        if target.name:
            raise Misuse(f"{shown(path)} holds one agent: leave out {':' + target.name!r}")
        if is_machine(path):
            return machine_agent(path, [import_file(file) for file in beside])
        return read_agent_file(path)
    if path.suffix != ".py":
        known = ", ".join((".py", *AGENT_FILES))
        raise Misuse(f"{shown(path)} is no agent's file: give one that ends in {known}")
    return _choose(import_file(path), target)


def load_tools(files: Sequence[Path]) -> list[Tool]:
    """Every tool that the Python *files* define by a name of their own.

    Raises:
        Misuse: There is no such file, it fails, or it has no tools.
    """
    tools: list[Tool] = []
    for path in files:
        found = [value for value in vars(import_file(path)).values() if isinstance(value, Tool)]
        if not found:
            raise Misuse(f"{shown(path)} has no tools: mark functions with @upshot.tool")
        tools += found
    return tools


def shown(path: Path) -> str:
    """A path as a person would write it from the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def check_path(path: Path) -> None:
    """Check that *path* is a file.

    Raises:
        Misuse: It is none; the message names the nearest.
    """
    if path.is_file():
        return
    if path.is_dir():
        raise Misuse(f"{shown(path)} is a folder: give a file in it, such as agent.py:agent")
    folder = path.parent
    beside = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    near = get_close_matches(path.name, beside, 1)
    raise Misuse(f"there is no file {shown(path)}" + (f": did you mean {near[0]}?" if near else ""))


def _choose(module: ModuleType, target: Target) -> AnyAgent:
    agents = _agents(module)
    path, there = shown(target.file), ", ".join(sorted(agents))
    if target.name:
        if target.name in agents:
            return agents[target.name]
        what: object = vars(module).get(target.name)
        problem = (
            f"{path} has no agent {target.name!r}"
            if what is None
            else f"{target.name!r} in {path} is no agent but {kind_of(what)}"
        )
        are = "are" if len(agents) > 1 else "is"
        raise Misuse(f"{problem}: there {are} {there or 'none'}")
    if not agents:
        raise Misuse(f"{path} has no agent: define one, agent = upshot.Agent(...)")
    if len({id(agent) for agent in agents.values()}) > 1:
        raise Misuse(f"{path} has several agents, {there}: say which, {path}:{min(agents)}")
    return next(iter(agents.values()))


def _agents(module: ModuleType) -> dict[str, AnyAgent]:
    named = cast("dict[str, object]", vars(module))
    return {
        name: cast("AnyAgent", value)
        for name, value in named.items()
        if isinstance(value, Agent | AgentSpec)
    }


def import_file(path: Path) -> ModuleType:
    """Run a user's file as a module; its neighbours can be imported as if it were started alone.

    Raises:
        Misuse: There is no such file, or it fails.
    """
    check_path(path)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # A module of another file must not be replaced by one that happens to have its name.
    name = path.stem if path.stem not in sys.modules else f"_upshot_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misuse(f"{shown(path)} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = shown(Path(error.filename or path))
        raise Misuse(f"{where}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        # The edge to a user's file: whatever it raises is told in one sentence.
        raise Misuse(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _place(path: Path, error: BaseException) -> str:
    """The file and the last line of it that *error* came through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{shown(path)}, line {lines[-1]}" if lines else shown(path)
