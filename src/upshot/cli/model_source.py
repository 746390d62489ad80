"""Model sources: from what stands in ``--model`` to a model that can be asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ..contract import Agent, AgentSpec, Model
from ..engines import MachineEngine
from ..errors import Misuse
from ..models import missing_key, resolve
from ..sim import Simulator

__all__ = ["absolute_model", "named_model", "open_model"]

_SIM = "sim:"
_SIM_MODEL = "openai:simulated"


@asynccontextmanager
async def open_model(
    name: str, agent: Agent[Any] | AgentSpec, *, base_url: str = ""
) -> AsyncGenerator[Model | None]:
    """Open the model that a run shall ask.

    ``sim:FILE`` starts the provider simulator with that scenario in this process; it is
    asked over HTTP like any other server.

    Args:
        name: What was asked for, "" for the agent's own.
        agent: Whose model it is.
        base_url: Another server, "" for the provider's own.

    Yields:
        The model; None where the agent's engine sees to it.

    Raises:
        Misuse: There is no such model, scenario or key.
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
    """The model that a run would ask, where it is not asked: no key is needed, nothing is served.

    Args:
        name: What was asked for, "" for the agent's own.
        agent: Whose model it is.
        base_url: Another server, "" for the provider's own.

    Returns:
        It; None where the agent or its engine brings one that is no name.

    Raises:
        Misuse: There is no such model.
    """
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
