"""The tools by which a model hands its request over."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from upshot.contract.agent import Agent, handoffs_of
from upshot.contract.agent_spec import Handoff, RunInfo
from upshot.contract.base.structs import JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.tool_context import ToolContext
from upshot.runs.callbacks import call
from upshot.runs.run_context import current_run
from upshot.runs.services.handoffs import handoff_event, is_shown, tool_name_of
from upshot.state.board import Board
from upshot.tools.definition.tool import Tool

_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "description": "Why the request is handed over."},
        "note": {"type": "string", "description": "What the receiver has to know."},
    },
    "additionalProperties": False,
}
# Hand-offs of one reply run one after another, in call order: the first that succeeds counts.
_RESOURCE = "upshot:handoff"


def handoff_tools(
    handoffs: Iterable[Handoff | Agent[Any] | str], request: Request | None = None
) -> tuple[Tool, ...]:
    """Tools by which a model hands its request over, for engines that do not use ``run.tools``.

    Called inside a run, one of them makes the hand-off that run's; the first that succeeds
    counts, and later ones fail with the code ``superseded``.

    Args:
        handoffs: As on an Agent.
        request: Where given, those are left out whose filter hides them for it.

    Raises:
        Misuse: An item is no hand-off, two have one tool name, or a filter that is to be asked is
            async.
    """
    found = handoffs_of(Agent[Any]("handoffs", handoffs=tuple(handoffs)))
    if request is not None:
        info, board = _before(request)
        link = current_run.get()
        given = None if link is None else link.context.dependencies
        found = tuple(one for one in found if is_shown(one, info, board, _ignore, given))
    return tuple(map(_tool_of, found))


class _Transfer:
    """The body of a hand-off's tool."""

    def __init__(self, handoff: Handoff) -> None:
        self._handoff = handoff

    async def hand_over(self, context: ToolContext[object], said: JsonObject) -> JsonObject:
        """Ask the caller's hook; what the run makes of it follows from the outcome."""
        # Found by the context, so that tools of any making find it; hooks hand nothing over.
        run, handoff = current_run.get(), self._handoff
        around = None if run is None or run.is_hooks else run.context.handoffs
        info = RunInfo(run_id=context.run_id) if around is None else around.info
        event = handoff_event(handoff, context.tool_name, context.call_id, said)
        if around is not None:
            around.check_open()
        if handoff.on_invoke is not None:
            await call(handoff.on_invoke, info, replace(event, run_id=info.run_id))
        if around is not None and context.run_id != info.run_id:
            # A toolbox of the engine's own settled nothing in the run, so that is done here.
            around.check_open()
            around.take(handoff_event(handoff, context.tool_name, context.call_id, said))
        return {"handed_over_to": handoff.to_agent_id}


class _Same:
    """A hand-off as a key: hooks may have no hash, and one that equals another is not that."""

    __slots__ = ("_parts", "handoff")

    def __init__(self, handoff: Handoff) -> None:
        self.handoff = handoff
        hook = None if handoff.on_invoke is None else id(handoff.on_invoke)
        self._parts = (handoff.to_agent_id, handoff.description, handoff.tool_name, hook)

    def __hash__(self) -> int:
        return hash(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._parts == other._parts


def _tool_of(handoff: Handoff) -> Tool:
    return _made_of(_Same(handoff))


# Kept, for its argument check is compiled once a tool.
@functools.lru_cache(maxsize=256)
def _made_of(same: _Same) -> Tool:
    handoff = same.handoff
    # One without a hook touches nothing outside: cut off by the end of its process, it is made
    # again. A second one in a turn is told that it is superseded, and not that it was done already.
    is_bare = handoff.on_invoke is None
    made = Tool.from_schema(
        tool_name_of(handoff),
        handoff.description or f"Hand the request over to {handoff.to_agent_id}.",
        _PARAMETERS,
        _Transfer(handoff).hand_over,
        effect="write",
        idempotent=is_bare,
        repeatable=is_bare,
        resources=(_RESOURCE,),
        approval=False,
        error_key=None,
    )
    object.__setattr__(made, "reaches_outside", not is_bare)
    return made


def _ignore(handoff: Handoff, error: Exception) -> None:
    """There is no run yet that could be warned."""


def _before(request: Request) -> tuple[RunInfo, Board]:
    """Identity and board of a run of *request* that has not begun."""
    board = Board()
    board.append(request.to_message())
    for name, value in request.inputs.items():
        board.set(name, value)
    info = RunInfo(run_id=request.run_id, task_id=request.task_id, context_id=request.context_id)
    return info, board
