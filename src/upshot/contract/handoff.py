"""Hand-offs: passing a request on to another agent."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from ..errors import Misuse
from .identity import RunInfo
from .keyword import ArgumentsMeta
from .stamp import RunEvent

__all__ = [
    "HANDOFF_FINALIZE_REASON",
    "HANDOFF_STATE_KEY",
    "Handoff",
    "HandoffEvent",
    "HandoffFilter",
    "HandoffHook",
    "handoff_tool_name",
]

HANDOFF_STATE_KEY = "handoff"
HANDOFF_FINALIZE_REASON = "handoff:"

HandoffFilter: TypeAlias = Callable[[RunInfo, object], Awaitable[bool] | bool]
HandoffHook: TypeAlias = Callable[[RunInfo, "HandoffEvent"], Awaitable[None] | None]


class HandoffEvent(RunEvent, frozen=True, kw_only=True, tag="handoff"):
    """The model handed the request over.

    Attributes:
        to_agent_id: To whom.
        tool_name: The tool by which it said so.
        call_id: The call by which it said so.
        reason: Why, in the model's words.
        note: What the receiver shall know, in the model's words.
    """

    to_agent_id: str = ""
    tool_name: str = ""
    call_id: str = ""
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Handoff(metaclass=ArgumentsMeta):
    """An agent that a request may be handed to.

    Attributes:
        to_agent_id: Its id; "" where it is not known, for a host that looks at the note.
        description: When to hand over, for the model.
        tool_name: The tool's name; None makes one of the id.
        filter: Called with the run's identity and its board; False hides the hand-off.
            Sync or async.
        on_invoke: Called with the identity and the event, sync or async, before the
            hand-off holds; an exception makes it a failed call and no hand-off.
        history: Whether the receiver gets the messages so far.

    Raises:
        Misuse: The id is blank, or a field is of another type.
    """

    to_agent_id: str
    description: str = ""
    tool_name: str | None = None
    filter: HandoffFilter | None = None
    on_invoke: HandoffHook | None = None
    history: bool = True

    def __post_init__(self) -> None:
        given = cast("dict[str, object]", vars(self))
        agent_id = given["to_agent_id"]
        # An empty one names nobody, and its tool says so: transfer_to_unknown.
        if not isinstance(agent_id, str) or (agent_id and not agent_id.strip()):
            raise Misuse(f"a hand-off goes to an agent's id, not {_shown(agent_id)}")
        for name in ("description", "tool_name"):
            if not isinstance(given[name], str | None):
                raise Misuse(f"{name} of the hand-off to {agent_id!r} is no text")
        for name in ("filter", "on_invoke"):
            if given[name] is not None and not callable(given[name]):
                raise Misuse(f"{name} of the hand-off to {agent_id!r} is no function")


def _shown(given: object) -> str:
    """What was given in place of an id, and what to give."""
    id = getattr(given, "id", None)
    if isinstance(id, str):
        return f"the {type(given).__name__} itself: Handoff({id!r})"
    return f"{given if given is None else repr(given)[:60]}: Handoff('support')"


def handoff_tool_name(agent_id: str) -> str:
    """The name of the tool that hands over to *agent_id*.

    Lower case, every character outside [a-z0-9_] becomes ``_``; an empty id
    gives ``transfer_to_unknown``.
    """
    return "transfer_to_" + (re.sub(r"[^a-z0-9_]", "_", agent_id.lower()) or "unknown")
