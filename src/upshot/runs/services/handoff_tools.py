"""The tools by which a model hands its request over to another agent."""

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
from upshot.runs.services.handoffs import handoff_event, is_offered, tool_name_of
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
# Handoffs of one reply run one after another, in call order; the first that succeeds counts.
_RESOURCE = "upshot:handoff"


def handoff_tools(
    handoffs: Iterable[Handoff | Agent[Any] | str], request: Request | None = None
) -> tuple[Tool, ...]:
    """Return the tools for handing over, for engines that do not use ``run.tools``.

    When one is called inside a run, the run takes that handoff. The first that succeeds counts;
    later ones fail with the code ``superseded``.

    Args:
        handoffs: As on an Agent.
        request: If given, leaves out handoffs whose filter hides them for this request.

    Raises:
        Misuse: An item is not a handoff, two have the same tool name, or a filter that must be
            called is async.
    """
    found = handoffs_of(Agent[Any]("handoffs", handoffs=tuple(handoffs)))
    if request is not None:
        info, board = _run_before_start(request)
        link = current_run.get()
        given = None if link is None else link.context.dependencies
        found = tuple(one for one in found if is_offered(one, info, board, _ignore, given))
    return tuple(map(_tool_of, found))


class _Transfer:
    """The body of a handoff tool."""

    def __init__(self, handoff: Handoff) -> None:
        self._handoff = handoff

    async def hand_over(self, context: ToolContext[object], arguments: JsonObject) -> JsonObject:
        """Call the caller's hook. Then the outcome of the tool call makes the run hand over."""
        # Looked up by context variable, so that it works in any toolbox. Hooks cannot hand over.
        run, handoff = current_run.get(), self._handoff
        around = None if run is None or run.is_hooks else run.context.handoffs
        info = RunInfo(run_id=context.run_id) if around is None else around.info
        event = handoff_event(handoff, context.tool_name, context.call_id, arguments)
        if around is not None:
            around.check_open()
        if handoff.on_invoke is not None:
            await call(handoff.on_invoke, info, replace(event, run_id=info.run_id))
        if around is not None and context.run_id != info.run_id:
            # A toolbox made by the engine does not report outcomes to the run, so do it here.
            around.check_open()
            around.accept(handoff_event(handoff, context.tool_name, context.call_id, arguments))
        return {"handed_over_to": handoff.to_agent_id}


class _HandoffKey:
    """A handoff as a cache key: equal only with the same hook object, which may have no hash."""

    __slots__ = ("_parts", "handoff")

    def __init__(self, handoff: Handoff) -> None:
        self.handoff = handoff
        hook = None if handoff.on_invoke is None else id(handoff.on_invoke)
        self._parts = (handoff.to_agent_id, handoff.description, handoff.tool_name, hook)

    def __hash__(self) -> int:
        return hash(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HandoffKey) and self._parts == other._parts


def _tool_of(handoff: Handoff) -> Tool:
    return _make_tool(_HandoffKey(handoff))


# Cached, because making a tool compiles its argument check.
@functools.lru_cache(maxsize=256)
def _make_tool(same: _HandoffKey) -> Tool:
    handoff = same.handoff
    # Without a hook it touches nothing outside, so it may run again after a crash. A second call
    # in a turn must be denied as superseded, not as a repetition.
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
    """Ignore the failure, because there is no run yet to warn."""


def _run_before_start(request: Request) -> tuple[RunInfo, Board]:
    """Return identity and board of a run of *request* that has not started."""
    board = Board()
    board.append(request.to_message())
    for name, value in request.inputs.items():
        board.set(name, value)
    info = RunInfo(run_id=request.run_id, task_id=request.task_id, context_id=request.context_id)
    return info, board
