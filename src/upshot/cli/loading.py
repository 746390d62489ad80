"""Loads agents from Python, agent and machine files."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.checks import did_you_mean, kind_of
from upshot.engines.machine.document import BrokenMachine
from upshot.engines.machine.loader import load_machine
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.errors import Misuse, need_of_extra
from upshot.tools.definition.tool import Tool

AGENT_FILES = (".json", ".yaml", ".yml")

_YAML = (".yaml", ".yml")
_FOUND: dict[type, str] = {type(None): "nothing", list: "a list", str: "a text"}


def read_agent_file(path: Path) -> AgentSpec:
    """Read an agent from a file of the form of ``AgentSpec``."""
    data = _parse_yaml(path) if path.suffix in _YAML else _parse_json(path)
    if not isinstance(data, dict):
        raise Misuse(
            f"{path.name}, line 1: {_FOUND.get(type(data), 'one value')} where an agent, which has "
            "an id, or a machine, which has states, was expected"
        )
    fields = cast("dict[str, object]", data)
    if "nodes" in fields and "id" not in fields:
        raise Misuse(
            f"{path.name} is a graph, whose functions are in Python: Graph.from_data(...) there; "
            "`upshot graph` draws it"
        )
    known = (*AgentSpec.__struct_fields__, "kind")
    for name in fields:
        if name not in known:
            hint = did_you_mean(str(name), known, f"there are {', '.join(known)}")
            raise Misuse(f"{path.name}: an agent has no field {name!r}: {hint}")
    if not fields.get("id"):
        raise Misuse(f"{path.name}: the agent needs an id")
    try:
        return msgspec.convert({"kind": "agent_spec", **fields}, AgentSpec)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$").removeprefix(".")
        raise Misuse(
            f"{path.name}: {field or 'the agent'}: {what[:1].lower()}{what[1:]}"
        ) from error


def _parse_json(path: Path) -> object:
    try:
        return json.loads(_read(path))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Misuse(f"{path.name}, {place}: this is no JSON: {error.msg}") from error


def _parse_yaml(path: Path) -> object:
    try:
        # Not an import statement: it is an extra without type stubs.
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        needed = need_of_extra("reading YAML", "machine")
        raise Misuse(f"{path.name}: {needed}; or write it as JSON") from error
    try:
        return cast("object", yaml.safe_load(_read(path)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # YAML counts lines from 0, messages from 1.
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Misuse(f"{path.name}{place}: this is no YAML: {problem}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Misuse(f"{path.name} is no text in UTF-8: {error.reason}") from error
    except OSError as error:
        raise Misuse(f"{path.name} cannot be read: {error.strerror}") from error


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
    """An agent whose engine is the machine at *path*."""
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


AnyAgent: TypeAlias = Agent[Any] | AgentSpec


class Target:
    """Which agent of which file: ``FILE.py:agent``, ``FILE.py``, ``FILE.json``."""

    def __init__(self, text: str) -> None:
        file, colon, name = text.rpartition(":")
        # A file that is there wins over a name after a colon.
        whole = not colon or Path(text).is_file() or "/" in name
        self.file: Path = Path(text if whole else file).absolute()
        self.name: str = "" if whole else name


def load_agent(target: Target, beside: Sequence[Path] = ()) -> AnyAgent:
    """Read the agent that *target* names; a machine is an agent with an engine."""
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
    """Every tool that the Python *files* define by a name of their own."""
    tools: list[Tool] = []
    for path in files:
        found = [value for value in vars(import_file(path)).values() if isinstance(value, Tool)]
        if not found:
            raise Misuse(f"{shown(path)} has no tools: mark functions with @upshot.tool")
        tools += found
    return tools


def shown(path: Path) -> str:
    """A path as the user would write it from the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def check_path(path: Path) -> None:
    """Check that *path* is a file."""
    if path.is_file():
        return
    if path.is_dir():
        raise Misuse(f"{shown(path)} is a folder: give a file in it, such as agent.py:agent")
    folder = path.parent
    beside = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    hint = did_you_mean(path.name, beside)
    raise Misuse(f"there is no file {shown(path)}{hint and ': ' + hint}")


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
    """Run a user's file as a module; its neighbours can be imported as if it were started alone."""
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
        # The boundary to a user's file: whatever it raises is reported in one sentence.
        raise Misuse(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _place(path: Path, error: BaseException) -> str:
    """The file and the last line of it that *error* came through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{shown(path)}, line {lines[-1]}" if lines else shown(path)
