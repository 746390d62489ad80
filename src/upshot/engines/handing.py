"""Handing: what graphs and machines make of a hand-off that an agent inside of them made.

It is shown where the next step is chosen. Where the agent was the last to do anything, it is the
hand-off of the whole run, as if its own model had made it.
"""

from __future__ import annotations

from typing import Any

from ..contract import HandoffEvent, Json, JsonObject, Origin, RunWarning, Warned
from ..runs import Run, RunHost

__all__ = ["form_of", "hand_over", "read_handoff", "warn_of_unread"]

_FIELDS = ("to_agent_id", "tool_name", "call_id", "reason", "note")


def form_of(event: HandoffEvent) -> JsonObject:
    """The hand-off as JSON, for the log."""
    return {name: getattr(event, name) for name in _FIELDS}


def read_handoff(form: Json) -> HandoffEvent | None:
    """The hand-off that the log tells of, None where it tells of none."""
    if not isinstance(form, dict):
        return None
    told: dict[str, Any] = {name: str(form.get(name, "")) for name in _FIELDS}
    return HandoffEvent(**told)


async def hand_over(run: Run, host: RunHost, event: HandoffEvent | None) -> None:
    """Make *event* the hand-off of the run, unless it has made one."""
    if event is not None and run.handoff is None:
        await host.publish(event)


async def warn_of_unread(host: RunHost, place: str, to_agent_id: str, how: str) -> None:
    """Warn that a hand-off was made and nothing looked at it.

    Args:
        host: Of the run.
        place: Who made it, such as "the state 'ask'".
        to_agent_id: To whom.
        how: How it could be looked at.
    """
    message = f"{place} handed over to {to_agent_id!r}, and nothing asked whether it did: {how}"
    warning = RunWarning(code="handoff_not_followed", message=message, origin=Origin.ENGINE)
    await host.publish(Warned(warning=warning))
