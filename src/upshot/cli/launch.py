"""From a command line or a log to an agent and its model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, chdir, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from upshot.cli.activity import Activity
from upshot.cli.loading import AnyAgent, Target, load_agent, load_tools
from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.structs import JsonObject
from upshot.contract.protocols import Model
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.errors import Misuse
from upshot.models.registry import missing_key, resolve
from upshot.runs.plan import ResumeOptions
from upshot.sim.simulator import Simulator


class Launch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command line said of a run's agent; never a key."""

    file: str
    agent: str = ""
    model: str = ""
    base_url: str = ""
    tools: tuple[str, ...] = ()
    folder: str = ""

    def to_json(self) -> JsonObject:
        """These facts as JSON, for the option ``launch`` of a run."""
        return msgspec.to_builtins(self)

    @classmethod
    def of(cls, options: JsonObject) -> Self | None:
        """Read them from the options of a ``run_started``; None where there are none."""
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
    """Open the model that a run shall ask.

    ``sim:FILE`` starts the provider simulator with that scenario in this process; it is
    asked over HTTP like any other server.
    """
    own = agent.model
    if not name and own and not isinstance(own, str):
        if base_url:
            raise Misuse(f"agent {agent.id!r} brings a model of its own: --base-url needs --model")
        yield _checked(own)
        return
    name = name or (own if isinstance(own, str) else "")
    if name.startswith(_SIM):
        if base_url:
            raise Misuse("sim: starts a server of its own: leave out --base-url")
        async with Simulator(name.removeprefix(_SIM), keep_requests=0) as simulator:
            yield resolve(_SIM_MODEL, base_url=simulator.base_url, api_key="simulated")
    elif name:
        yield _checked(resolve(name, base_url=base_url or None))
    elif agent.engine:
        _check_machine(agent.engine)
        yield None
    else:
        raise Misuse(
            f"agent {agent.id!r} names no model: give --model, such as --model openai:gpt-5"
        )


def named_model(name: str, agent: Agent[Any] | AgentSpec, *, base_url: str = "") -> Model | None:
    """The model that a run would ask, without opening it: no key is needed, nothing is served."""
    own = agent.model
    name = name or (own if isinstance(own, str) else "")
    if name.startswith(_SIM):
        return resolve(_SIM_MODEL, api_key="simulated")
    return resolve(name, base_url=base_url or None) if name else None


def absolute_model(name: str) -> str:
    """*name* with the file in it, if it names one, made absolute."""
    for prefix in (_SIM, "scripted:"):
        file = name.removeprefix(prefix)
        if file != name and file and not file.startswith(("[", '"')):
            return prefix + str(Path(file).absolute())
    return name


def _check_machine(engine: object) -> None:
    """Check that each agent of a machine has a model that can be asked."""
    if not isinstance(engine, MachineEngine):
        return
    for agent in engine.agents:
        if agent.model is None:
            raise Misuse(
                f"agent {agent.id!r} of the machine names no model: give --model, such as "
                "--model openai:gpt-5"
            )
        if isinstance(agent.model, str):
            _checked(resolve(agent.model))


def _checked(model: Model) -> Model:
    variable = missing_key(model)
    if variable is not None:
        raise Misuse(f"there is no key for {model.name}: set {variable}")
    return model


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a command line says of the agent; "" is what was not said."""

    target: str = ""
    model: str = ""
    base_url: str = ""
    tools: Sequence[str] = ()


class Launching:
    """The agent of a run that goes on; its files are read once, at the first use."""

    def __init__(self, activity: Activity, asked: Asked) -> None:
        self._activity = activity
        self._asked = asked

    @cached_property
    def launch(self) -> Launch:
        """How the run was started, with what the command line says otherwise."""
        return old_launch(self._activity, self._asked)

    @cached_property
    def loaded(self) -> tuple[AnyAgent, ResumeOptions]:
        """The agent, and the options that go with it."""
        with self.folder():
            return load_launch(self.launch)

    @property
    def lost_folder(self) -> str:
        """The folder where the run was started, "" where it is there or was not kept."""
        folder = self.launch.folder
        return "" if not folder or Path(folder).is_dir() else folder

    @contextmanager
    def folder(self) -> Generator[None]:
        """Be where the run was started: relative paths of its tools count from there."""
        folder = self.launch.folder
        with chdir(folder if folder and not self.lost_folder else "."):
            yield


def new_launch(asked: Asked) -> Launch:
    """What a run's log keeps of a command line."""
    target = Target(asked.target)
    return Launch(
        file=str(target.file),
        agent=target.name,
        model=absolute_model(asked.model),
        base_url=asked.base_url,
        tools=_absolute(asked.tools),
        folder=str(Path.cwd()),
    )


def old_launch(activity: Activity, asked: Asked) -> Launch:
    """How the run was started, with what the command line says otherwise."""
    old = None if activity.started is None else Launch.of(activity.started.options)
    new = new_launch(asked) if asked.target else None
    base = old or new
    if base is None:
        raise Misuse(
            f"run {activity.run_id} was not started by this command: say which agent it has, after "
            f"its id, such as {activity.run_id} FILE.py:agent"
        )
    changes: dict[str, Any] = {}
    if new is not None:
        changes |= {"file": new.file, "agent": new.agent}
    if asked.model:
        # The old server need not know the new model.
        changes |= {"model": absolute_model(asked.model), "base_url": ""}
    if asked.base_url:
        changes["base_url"] = asked.base_url
    if asked.tools:
        changes["tools"] = _absolute(asked.tools)
    return replace(base, **changes)


def _absolute(files: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(Path(file).absolute()) for file in files)


def load_launch(launch: Launch) -> tuple[AnyAgent, ResumeOptions]:
    """The agent that *launch* names, and the options that go with it."""
    target = Target(launch.file if not launch.agent else f"{launch.file}:{launch.agent}")
    files = [Path(file) for file in launch.tools]
    agent = load_agent(target, files)
    options: ResumeOptions = {"launch": launch.to_json()}
    if isinstance(agent, AgentSpec) and agent.tools and not launch.tools:
        raise Misuse(f"agent {agent.id!r} names tools: say which file has them, --tools FILE.py")
    if files and not isinstance(agent.engine, MachineEngine):
        options["tools"] = load_tools(files)
    return agent, options
