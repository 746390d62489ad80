"""Loads agents from Python, agent and machine files."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, chdir, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Self, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.checks import did_you_mean, kind_of
from upshot.contract.base.structs import JsonObject
from upshot.contract.protocols import Model
from upshot.data_files import YAML_SUFFIXES, fit, read_data_file
from upshot.engines.machine.document import BrokenMachine
from upshot.engines.machine.loader import load_machine
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.models.registry import missing_key, resolve
from upshot.runs.plan import MadeBy, ResumeOptions
from upshot.sim.simulator import Simulator
from upshot.state.activity import Activity
from upshot.tools.definition.tool import Tool

T = TypeVar("T")

AGENT_FILES = (".json", *YAML_SUFFIXES)
_FOUND: dict[type, str] = {type(None): "nothing", list: "a list", str: "a text"}


def read_agent_file(path: Path) -> AgentSpec:
    """Read an agent from a file in the form of ``AgentSpec``."""
    data = read_data_file(path, path.name)
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
    return fit({"kind": "agent_spec", **fields}, AgentSpec, path.name)


# The first part shows whether a text is a machine; a larger file is refused when it is read.
_LOOKED_AT = 200_000
_YAML_KEY = re.compile(r"""^["']?(?:states["']?\s*:|spec["']?\s*:\s*["']?upshot\.machine/)""", re.M)


def is_machine(path: Path) -> bool:
    """Whether the file at *path*, in YAML or JSON, has a machine."""
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
    """Return an agent whose engine is the machine at *path*."""
    machine = load_machine(path)
    wanted = {(task.kind, task.name) for _, task in machine.tasks()}
    functions: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    tools: list[Tool] = []
    for name, value in _values(modules):
        if isinstance(value, Tool):
            tools.append(cast("Tool", value))
            continue
        for known in (name, getattr(value, "id", "")):
            if ("agent", known) in wanted and not inspect.isclass(value):
                agents.setdefault(str(known), value)
        if ("function", name) in wanted:
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
    """An agent in a file, by its text: ``FILE.py:agent``, ``FILE.py``, ``FILE.json``."""

    def __init__(self, text: str) -> None:
        file, colon, name = text.rpartition(":")
        # An existing file wins over a name after a colon.
        whole = not colon or Path(text).is_file() or "/" in name
        self.file: Path = Path(text if whole else file).absolute()
        self.name: str = "" if whole else name


def load_agent(target: Target, modules: Sequence[Path] = ()) -> AnyAgent:
    """Read the agent that *target* names; a machine is an agent with an engine."""
    path = target.file
    check_path(path)
    if path.suffix in AGENT_FILES:
        if target.name:
            raise Misuse(f"{relative_path(path)} holds one agent: leave out {':' + target.name!r}")
        if is_machine(path):
            return machine_agent(path, [import_file(file) for file in modules])
        return read_agent_file(path)
    if path.suffix != ".py":
        known = ", ".join((".py", *AGENT_FILES))
        raise Misuse(f"{relative_path(path)} is not an agent's file: give one that ends in {known}")
    read = instance_of(Agent, AgentSpec)
    return choose(target, "agent", read, hint=": define one, agent = upshot.Agent(...)")


def load_app(target: Target) -> tuple[App, Agent[Any] | None]:
    """Return the App that *target* names in its Python file, or one with the agent that it names.

    Without a name it is the file's ``app``, else its only App, else its only Agent.

    Returns:
        The App, and the agent if *target* names one.

    Raises:
        Misuse: The file has no App or agent, or more than one.
    """
    module = import_file(target.file)
    named = cast("dict[str, object]", vars(module)).get("app")
    if not target.name and isinstance(named, App):
        return named, None
    apps = [value for _, value in _values([module]) if isinstance(value, App)]
    noun = "App" if apps and not target.name else "App or agent"
    hint = ": define one, app = upshot.App(agents=[...])"
    read = instance_of(App) if noun == "App" else instance_of(App, Agent)
    found = choose(target, noun, read, hint=hint, module=module)
    return (found, None) if isinstance(found, App) else (App([found]), found)


def instance_of(*kinds: type) -> Callable[[object], Any]:
    """Return a function for ``choose`` that returns values of these types, and None for others."""
    return lambda value: value if isinstance(value, kinds) else None


def load_tools(files: Sequence[Path]) -> list[Tool]:
    """Return every tool that the Python *files* define."""
    tools: list[Tool] = []
    for path in files:
        values = vars(import_file(path)).values()
        found = [cast("Tool", value) for value in values if isinstance(value, Tool)]
        if not found:
            raise Misuse(f"{relative_path(path)} has no tools: mark functions with @upshot.tool")
        tools += found
    return tools


def relative_path(path: Path) -> str:
    """Return a path as the user would write it from the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def check_path(path: Path) -> None:
    """Check that *path* is a file."""
    if path.is_file():
        return
    if path.is_dir():
        raise Misuse(
            f"{relative_path(path)} is a folder: give a file in it, such as agent.py:agent"
        )
    folder = path.parent
    others = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    hint = did_you_mean(path.name, others)
    raise Misuse(f"there is no file {relative_path(path)}{hint and ': ' + hint}")


def choose(
    target: Target,
    noun: str,
    read: Callable[[object], T | None],
    *,
    hint: str = "",
    module: ModuleType | None = None,
) -> T:
    """Return the *noun* that *target* names in its Python file, or the only one there.

    Args:
        target: The file, and the name if there is one.
        noun: What messages call it.
        read: Returns it for a value of the file; None for any other value.
        hint: What to do if the file has none.
        module: The file's module if it was run before; None runs it.
    """
    values = cast("dict[str, object]", vars(module or import_file(target.file)))
    found = {
        name: one
        for name, value in values.items()
        if not name.startswith("__") and (one := read(value)) is not None
    }
    path, there = relative_path(target.file), ", ".join(sorted(found))
    if target.name in found:
        return found[target.name]
    if target.name:
        article = "an" if noun[0] in "aeiou" else "a"
        problem = (
            f"{target.name!r} in {path} is not {article} {noun}, but {kind_of(values[target.name])}"
            if target.name in values
            else f"{path} has no {noun} {target.name!r}"
        )
        are = "are" if len(found) > 1 else "is"
        raise Misuse(f"{problem}: there {are} {there or 'none'}")
    if not found:
        raise Misuse(f"{path} has no {noun}{hint}")
    if len({id(one) for one in found.values()}) > 1:
        raise Misuse(f"{path} has more than one {noun}, {there}: say which, {path}:{min(found)}")
    return next(iter(found.values()))


def import_file(path: Path) -> ModuleType:
    """Run a user's file as a module; it can import its neighbours as if it were the main script."""
    check_path(path)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # Do not replace a module of another file that has the same name.
    name = path.stem if path.stem not in sys.modules else f"_upshot_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misuse(f"{relative_path(path)} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = relative_path(Path(error.filename or path))
        raise Misuse(f"{where}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        # Boundary to a user's file: whatever it raises is reported in one sentence.
        raise Misuse(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _place(path: Path, error: BaseException) -> str:
    """Return the file and its last line in the traceback of *error*."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{relative_path(path)}, line {lines[-1]}" if lines else relative_path(path)


class Launch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command line said about a run's agent; never a key."""

    file: str
    agent: str = ""
    model: str = ""
    base_url: str = ""
    tools: tuple[str, ...] = ()
    mcp: str = ""
    dependencies: str = ""
    folder: str = ""
    write_grace_s: float | None = None

    def to_json(self) -> JsonObject:
        """Return these facts as JSON, for the option ``launch`` of a run."""
        return msgspec.to_builtins(self)

    @classmethod
    def of(cls, options: JsonObject) -> Self | None:
        """Read them from the options of a ``run_started``; None if there are none."""
        try:
            return msgspec.convert(options.get("launch"), cls)
        except msgspec.ValidationError:
            return None


_SIM = "sim:"
_SIM_MODEL = "openai:simulated"


@asynccontextmanager
async def open_model(
    name: str, agent: Agent[Any] | AgentSpec, *, base_url: str = ""
) -> AsyncGenerator[Model | None]:
    """Open the model of a run.

    ``sim:FILE`` starts the provider simulator with that scenario in this process; it is
    called over HTTP like any other server.
    """
    own = agent.model
    if not name and own and not isinstance(own, str):
        if base_url:
            raise Misuse(f"agent {agent.id!r} brings a model of its own: --base-url needs --model")
        yield _check_key(own)
        return
    name = name or (own if isinstance(own, str) else "")
    if name.startswith(_SIM):
        if base_url:
            raise Misuse("sim: starts a server of its own: leave out --base-url")
        async with Simulator(name.removeprefix(_SIM), keep_requests=0) as simulator:
            yield resolve(_SIM_MODEL, base_url=simulator.base_url, api_key="simulated")
    elif name:
        yield _check_key(resolve(name, base_url=base_url or None))
    elif agent.engine:
        _check_machine(agent.engine)
        yield None
    else:
        raise Misuse(
            f"agent {agent.id!r} names no model: give --model, such as --model openai:gpt-5"
        )


def named_model(name: str, agent: Agent[Any] | AgentSpec, *, base_url: str = "") -> Model | None:
    """Return the model of a run without opening it: no key is needed and no server starts."""
    own = agent.model
    name = name or (own if isinstance(own, str) else "")
    if name.startswith(_SIM):
        return resolve(_SIM_MODEL, api_key="simulated")
    return resolve(name, base_url=base_url or None) if name else None


def absolute_model(name: str) -> str:
    """Return *name* with an absolute path if it contains a file."""
    for prefix in (_SIM, "scripted:"):
        file = name.removeprefix(prefix)
        if file != name and file and not file.startswith(("[", '"')):
            return prefix + str(Path(file).absolute())
    return name


def _check_machine(engine: object) -> None:
    """Check that each agent of a machine has a model that can be called."""
    if not isinstance(engine, MachineEngine):
        return
    for agent in engine.agents:
        if agent.model is None:
            raise Misuse(
                f"agent {agent.id!r} of the machine names no model: give --model, such as "
                "--model openai:gpt-5"
            )
        if isinstance(agent.model, str):
            _check_key(resolve(agent.model))


def _check_key(model: Model) -> Model:
    variable = missing_key(model)
    if variable is not None:
        raise Misuse(f"there is no key for {model.name}: set {variable}")
    return model


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a command line says about the agent; "" for what it does not say."""

    target: str = ""
    model: str = ""
    base_url: str = ""
    tools: Sequence[str] = ()
    mcp: str = ""
    dependencies: str = ""
    write_grace_s: float | None = None


class Launching:
    """The agent of a run to resume; its files are read once, at first use."""

    def __init__(self, activity: Activity, asked: Asked) -> None:
        self._activity = activity
        self._asked = asked

    @property
    def is_known(self) -> bool:
        """Whether the command line or the log names the agent."""
        started = self._activity.started
        return bool(self._asked.target or (started and Launch.of(started.options)))

    @cached_property
    def launch(self) -> Launch:
        """How the run was started, with the changes of the command line."""
        asked, started, run_id = self._asked, self._activity.started, self._activity.run_id
        old, new = None if started is None else Launch.of(started.options), new_launch(asked)
        if not (old or asked.target):
            raise Misuse(
                f"run {run_id} was not started by this command: say which agent it has, after "
                f"its id, such as {run_id} FILE.py:agent"
            )
        changes: dict[str, Any] = {}
        if asked.target:
            changes |= {"file": new.file, "agent": new.agent}
        if asked.model:
            # The old server need not know the new model.
            changes["base_url"] = ""
        for name in ("model", "base_url", "tools", "mcp", "dependencies", "write_grace_s"):
            if (given := getattr(new, name)) not in ("", (), None):
                changes[name] = given
        return replace(old or new, **changes)

    @cached_property
    def loaded(self) -> tuple[AnyAgent, ResumeOptions]:
        """The agent, and the options that belong to it."""
        with self.folder():
            return load_launch(self.launch)

    @property
    def lost_folder(self) -> str:
        """The folder where the run was started, if it is gone; "" if it exists or is unknown."""
        folder = self.launch.folder
        return "" if not folder or Path(folder).is_dir() else folder

    @contextmanager
    def folder(self) -> Generator[None]:
        """Change to the folder where the run was started, for relative paths of its tools."""
        folder = self.launch.folder
        with chdir(folder if folder and not self.lost_folder else "."):
            yield


def new_launch(asked: Asked) -> Launch:
    """Return what a run's log stores of a command line."""
    target = Target(asked.target)
    return Launch(
        file=str(target.file),
        agent=target.name,
        model=absolute_model(asked.model),
        base_url=asked.base_url,
        tools=tuple(str(Path(file).absolute()) for file in asked.tools),
        mcp=asked.mcp and str(Path(asked.mcp).absolute()),
        dependencies=asked.dependencies and absolute_value(asked.dependencies),
        folder=str(Path.cwd()),
        write_grace_s=asked.write_grace_s,
    )


def load_launch(launch: Launch) -> tuple[AnyAgent, ResumeOptions]:
    """Return the agent that *launch* names, and the options that belong to it."""
    target = Target(launch.file if not launch.agent else f"{launch.file}:{launch.agent}")
    files = [Path(file) for file in launch.tools]
    agent = load_agent(target, files)
    options: ResumeOptions = {"launch": launch.to_json()}
    if isinstance(agent, AgentSpec) and agent.tools and not (launch.tools or launch.mcp):
        raise Misuse(f"agent {agent.id!r} names tools: say which file has them, --tools FILE.py")
    if files and not isinstance(agent.engine, MachineEngine):
        options["tools"] = load_tools(files)
    if launch.dependencies:
        options["dependencies"] = load_dependencies(Target(launch.dependencies))
    if launch.write_grace_s is not None:
        options["write_grace_s"] = launch.write_grace_s
    return agent, options


def absolute_value(text: str) -> str:
    """Return ``FILE.py:NAME`` with an absolute path."""
    target = Target(text)
    if not target.name:
        raise Misuse(f"{text} names no value: give FILE.py:NAME, such as {text}:open_db")
    return f"{target.file}:{target.name}"


def load_dependencies(target: Target) -> object:
    """Return the value that *target* names; a function or a class makes it once a session."""
    # Usually it is the agent's own file: run twice, it would define each of its classes twice.
    loaded = [
        one for one in sys.modules.values() if getattr(one, "__file__", "") == str(target.file)
    ]
    value = choose(target, "value", lambda one: one, module=loaded[-1] if loaded else None)
    makes = inspect.isroutine(value) or inspect.isclass(value)
    return MadeBy(cast("Any", value)) if makes else value
