"""Known: what is the same in every run of one agent, checked and made once."""

from __future__ import annotations

import os
from types import FunctionType
from typing import Any

import msgspec
from msgspec.structs import replace

from ..contract import Agent, AgentSpec, Decider, Handoff, Journal, Observer, Request, handoffs_of
from ..contract.value import Local
from ..runs import OutputType, Plan, RunOptions, handoff_tools
from ..tools import Tool, resolve_tools
from .arguments import check_hooks, to_request

__all__ = [
    "HOOKS",
    "Known",
    "is_plain",
    "known_of",
    "new_run_id",
    "usual_plan",
    "without_call",
]

# What may be called of an observer and of a decider.
HOOKS = {
    name: [method for method in vars(role) if not method.startswith("_")]
    for name, role in (("observers", Observer), ("deciders", Decider))
}
# What a call may give and still be planned like the first such one of its agent.
_PLAIN = frozenset({"journal"})
_KEY = "_known"
_NOTHING = Request("")


class Known(msgspec.Struct, eq=False):
    """What a run need not find out again, for an agent is frozen.

    Attributes:
        output: What its answer shall be.
        handoffs: Those that it may make.
        tools: Its own with those of its hand-offs; None where they depend on the call.
        spec: It in names only; None where its tools may change.
        is_fixed: Whether a call without options is planned alike each time.
        usual: The plan of such a call, without what is of the call; None before the first.
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
    kept: Local | None = vars(agent).get(_KEY)
    known = None if kept is None else kept.values[_KEY]
    if not isinstance(known, Known):
        known = _find_out(agent)
        # On the agent itself: a table beside it would keep alive what refers to its agent.
        vars(agent)[_KEY] = Local(**{_KEY: known})
    return known


def usual_plan(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    journal: Journal | None,
) -> Plan | None:
    """The plan of a text asked without options, where *agent* was asked like that before.

    It is for a call that stands in no run. It differs from that one in these fields alone.

    Returns:
        None where all has to be looked at: see ``plan_run``.
    """
    if type(request) is not str or not isinstance(agent, Agent) or not is_plain(options):
        return None
    usual = known_of(agent).usual
    return usual and replace(
        usual,
        request=to_request(request),
        run_id=new_run_id(),
        journal=journal,
        artifact_store=getattr(journal, "artifacts", None),
        warnings=(),
    )


def without_call(plan: Plan) -> Plan:
    """*plan* without what is of its call alone, which its agent would keep alive."""
    logged = plan.logged_options()
    return replace(
        plan, request=_NOTHING, journal=None, artifact_store=None, warnings=(), logged=logged
    )


def is_plain(options: RunOptions) -> bool:
    """Whether the call says nothing of how it is to be made."""
    return options.keys() <= _PLAIN


def new_run_id() -> str:
    """An id that no other run has."""
    return f"run-{os.urandom(8).hex()}"


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
