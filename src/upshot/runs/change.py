"""Change: what is not as it was when a run began that now goes on."""

from __future__ import annotations

from collections.abc import Iterator

from ..contract import Origin, RunWarning
from .past import Past
from .plan import ENGINE_OPTION, Plan

__all__ = ["changes_since"]


def changes_since(past: Past, plan: Plan) -> Iterator[RunWarning]:
    """Warn of an agent that was changed since the last sitting, of another engine, and of tools."""
    now = plan.spec
    changed = [
        name for name in now.__struct_fields__ if getattr(now, name) != getattr(past.agent, name)
    ]
    # Logs of earlier versions name the engine only where it was the agent's.
    was, engine = past.options.get(ENGINE_OPTION), type(plan.engine).__name__
    if was is not None and was != engine:
        yield _warning(f"the engine {was} drove the run until now, and {engine} goes on with it")
        changed = [name for name in changed if name != "engine"]
    if changed:
        yield _warning(f"agent {now.id!r} was changed since the run began: {', '.join(changed)}")
    versions = {tool.name: tool.version for tool in plan.tools}
    called = {record.tool_name: record.tool_version for record in past.records}
    called |= {start.call.name: start.tool_version for start in past.unsettled.values()}
    for name, version in called.items():
        if version and versions.get(name, version) != version:
            yield _warning(f"tool {name!r} was changed since the run called it")


def _warning(message: str) -> RunWarning:
    return RunWarning(code="agent_changed", message=message, origin=Origin.CALLER)
