"""Change: what is not as it was when a run began that now goes on."""

from __future__ import annotations

from collections.abc import Iterator

from ..contract import Origin, RunWarning
from .past import Past
from .plan import Plan

__all__ = ["changes_since"]


def changes_since(past: Past, plan: Plan) -> Iterator[RunWarning]:
    """Warn of an agent that was changed since the last sitting, and of tools that were."""
    now = plan.spec
    changed = [
        name for name in now.__struct_fields__ if getattr(now, name) != getattr(past.agent, name)
    ]
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
