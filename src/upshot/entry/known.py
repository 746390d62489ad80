"""Known: what is the same in every run of one agent, checked and made once."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import msgspec

from ..contract import Agent, AgentSpec, Decider, Handoff, Observer, handoffs_of
from ..contract.value import Local
from ..runs import OutputType, Plan, handoff_tools
from ..tools import Tool, resolve_tools
from .arguments import check_hooks

__all__ = ["HOOKS", "Known", "known_of"]

# What may be called of an observer and of a decider.
HOOKS = {
    name: [method for method in vars(role) if not method.startswith("_")]
    for name, role in (("observers", Observer), ("deciders", Decider))
}
_KEY = "_known"


class Known(msgspec.Struct, eq=False):
    """What a run need not find out again, for an agent is frozen.

    Attributes:
        output: What its answer shall be.
        handoffs: Those that it may make.
        tools: Its own with those of its hand-offs; None where they depend on the call.
        spec: It in names only; None where its tools may change.
        is_fixed: Whether a call without options is planned alike each time.
        usual: The plan of such a call, None before the first.
    """

    output: OutputType
    handoffs: tuple[Handoff, ...]
    tools: tuple[Tool, ...] | None
    spec: AgentSpec | None
    is_fixed: bool
    usual: Plan | None = None


def known_of(agent: Agent[Any]) -> Known:
    """What is known of *agent*; found out at its first run.

    Raises:
        Misuse: A hook of it is none, its output type has no schema, or a tool is none.
    """
    kept = vars(agent).get(_KEY)
    known = kept.get(_KEY) if isinstance(kept, Local) else None
    if not isinstance(known, Known):
        known = _find_out(agent)
        # On the agent itself: a table beside it would keep alive what refers to its agent.
        vars(agent)[_KEY] = Local(**{_KEY: known})
    return known


def _find_out(agent: Agent[Any]) -> Known:
    for name, methods in HOOKS.items():
        check_hooks(name, getattr(agent, name), methods)
    own = agent.tools
    # A name is found among the call's tools, and a set may give others the next time.
    is_fixed = own is not None and all(isinstance(item, Tool | FunctionType) for item in own)
    tools = None
    if own is not None and is_fixed:
        tools = resolve_tools((*own, *handoff_tools(agent.handoffs)) if agent.handoffs else own)
    is_fixed = is_fixed or own is None
    # A model by name is looked up anew, for its key may have changed since.
    models = (agent.model, getattr(agent.engine, "model", None))
    return Known(
        output=OutputType.of(agent.output_type),
        handoffs=handoffs_of(agent),
        tools=tools,
        spec=agent.spec() if is_fixed else None,
        is_fixed=is_fixed and not any(isinstance(model, str) for model in models),
    )
