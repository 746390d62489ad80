"""Spec: the agent behind what a door was given, be it one in names only."""

from __future__ import annotations

from typing import Any, cast

from ..contract import Agent, AgentSpec, Engine
from ..engines import LoopEngine
from ..errors import Misuse

__all__ = ["agent_of_spec", "to_agent"]


def to_agent(agent: object, engine: Engine | None = None) -> Agent[Any]:
    """The agent that a door was given.

    Args:
        agent: An Agent, or a spec of one.
        engine: Of the call, which stands for the one that a spec names.

    Raises:
        Misuse: It is neither, or the spec names an engine that has to be given.
    """
    if isinstance(agent, Agent):
        return cast("Agent[Any]", agent)
    if isinstance(agent, AgentSpec):
        return agent_of_spec(agent, engine)
    raise Misuse(
        f"a run needs an Agent first, not {type(agent).__name__}: run(Agent('id', ...), ...)"
    )


def agent_of_spec(spec: AgentSpec, engine: Engine | None = None) -> Agent[Any]:
    """The agent that *spec* describes; the names in it are resolved at the run.

    Raises:
        Misuse: It names an engine that is not the loop, and none is given; or what it was written
            without changes what a run does.
    """
    missing = [name for name in spec.omitted if name != "observers"]
    if missing:
        raise Misuse(
            f"agent {spec.id!r} was written without its {' and '.join(missing)}, which have no "
            "JSON form: run the Agent itself, or set the spec's omitted to () to do without"
        )
    if engine is None and spec.engine not in ("", LoopEngine.__name__):
        raise Misuse(f"agent {spec.id!r} names the engine {spec.engine!r}: give run(..., engine=)")
    return Agent[Any](
        spec.id,
        model=spec.model or None,
        name=spec.name or None,
        instructions=spec.instructions,
        tools=spec.tools,
        output_type=spec.output_schema,
        handoffs=spec.handoffs,
        card=spec.card,
        budget=spec.budget,
        settings=spec.settings,
        retry=spec.retry,
    )
