"""Hand-offs: the tools by which a model passes its request on, and what came of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable
from typing import Any

from msgspec.structs import replace

from upshot.contract.agent import Agent, handoffs_of
from upshot.contract.agent_spec import Handoff, HandoffEvent, RunInfo, handoff_tool_name
from upshot.contract.base.enums import DeniedReason, Origin
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.model_calls import Request
from upshot.contract.tool_calls import ToolExecutionResult, ToolRecord
from upshot.errors import Misuse
from upshot.runs.callbacks import answer_at_once, call, is_async, raised
from upshot.runs.run_context import RunContext
from upshot.runs.task_supervisor import current_run
from upshot.state.board import Board
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_context import ToolContext, ToolError
from upshot.tools.gates.pipeline import Denial

__all__ = ["Handoffs", "handoff_tools"]

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


class Handoffs:
    """The hand-offs of one run: which are on offer, and which one was taken.

    Args:
        ground: What the run stands on; its log keeps the one that was taken.
        board: What filters are shown.

    Attributes:
        info: The run.
        board: Replaced with that of every attempt.
    """

    def __init__(self, ground: RunContext, board: Board) -> None:
        handoffs = ground.plan.handoffs
        self.info: RunInfo = ground.info
        self.board = board
        self._by_tool = {_name_of(handoff): handoff for handoff in handoffs} if handoffs else {}
        self._recorder = ground.recorder
        # Their filters raised, which is told once.
        self._broken: list[Handoff] = []
        # What async filters said when they were asked last; before that they hide.
        self._said: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._by_tool)

    @property
    def are_filtered(self) -> bool:
        """Whether any of them may be hidden."""
        return any(handoff.filter is not None for handoff in self._by_tool.values())

    async def ask_filters(self) -> None:
        """Ask the async filters, before a turn; the others are asked whenever somebody looks."""
        for name, handoff in self._by_tool.items():
            if handoff.filter is not None and is_async(handoff.filter):
                try:
                    self._said[name] = bool(await call(handoff.filter, self.info, self.board))
                except Exception as error:
                    # A broken filter hides its hand-off: what nobody allowed is not done.
                    self._said[name] = False
                    self._hide(handoff, error)

    def offered(self) -> Container[str]:
        """The names of tools that are on offer now; those of other tools always are."""
        return _Offer(self._by_tool, self._is_shown)

    def judge(self, case: CallState) -> Denial | None:
        """Deny a hand-off after another; asked when its body is about to start."""
        taken = self._recorder.handoff
        if taken is None or case.tool_name not in self._by_tool:
            return None
        text = f"the request was handed over to {taken.to_agent_id!r} already"
        return Denial(DeniedReason.SUPERSEDED, text)

    def note(self, record: ToolRecord) -> None:
        """Take the hand-off that a settled call made, if it made one."""
        handoff = self._by_tool.get(record.tool_name)
        if handoff is not None and isinstance(record.outcome, ToolExecutionResult):
            said = record.arguments_validated or {}
            self.take(_event_of(handoff, record.tool_name, record.call_id, said))

    def take(self, event: HandoffEvent) -> None:
        """Log *event* unless a hand-off was taken already."""
        if self._recorder.handoff is None:
            self._recorder.emit(event)

    def check_open(self) -> None:
        """Raise where a hand-off was taken already.

        Raises:
            ToolError: It was.
        """
        if self._recorder.handoff is not None:
            code = DeniedReason.SUPERSEDED
            raise ToolError("the request was handed over already", code=code, retryable=False)

    def _is_shown(self, handoff: Handoff) -> bool:
        if handoff.filter is not None and is_async(handoff.filter):
            return self._said.get(_name_of(handoff), False)
        return _is_shown(handoff, self.info, self.board, self._hide)

    def _hide(self, handoff: Handoff, error: Exception) -> None:
        if handoff in self._broken:
            return
        self._broken.append(handoff)
        message = raised(f"filter of the hand-off to {handoff.to_agent_id!r}", error)
        self._recorder.warn(RunWarning(code="filter_failed", message=message, origin=Origin.CALLER))


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
        found = tuple(one for one in found if _is_shown(one, info, board, _ignore))
    return tuple(map(_tool_of, found))


class _Offer(Container[str]):
    """Names of tools on offer: all but hand-offs that are hidden."""

    def __init__(self, by_tool: dict[str, Handoff], shown: Callable[[Handoff], bool]) -> None:
        self._by_tool = by_tool
        self._shown = shown

    def __contains__(self, name: object) -> bool:
        handoff = self._by_tool.get(name) if isinstance(name, str) else None
        return handoff is None or self._shown(handoff)


class _Transfer:
    """The body of a hand-off's tool."""

    def __init__(self, handoff: Handoff) -> None:
        self._handoff = handoff

    async def hand_over(self, context: ToolContext[object], said: JsonObject) -> JsonObject:
        """Ask the caller's hook; what the run makes of it follows from the outcome."""
        # Found by the context, so that tools of any making find it; hooks hand nothing over.
        run, handoff = current_run.get(), self._handoff
        around = None if run is None or run.is_hooks else run.box.handoffs
        info = RunInfo(run_id=context.run_id) if around is None else around.info
        event = _event_of(handoff, context.tool_name, context.call_id, said)
        if around is not None:
            around.check_open()
        if handoff.on_invoke is not None:
            await call(handoff.on_invoke, info, replace(event, run_id=info.run_id))
        if around is not None and context.run_id != info.run_id:
            # A toolbox of the engine's own settled nothing in the run, so that is done here.
            around.check_open()
            around.take(_event_of(handoff, context.tool_name, context.call_id, said))
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
    whom = f" to {handoff.to_agent_id}" if handoff.to_agent_id else ""
    return Tool.from_schema(
        _name_of(handoff),
        handoff.description or f"Hand the request over{whom}.",
        _PARAMETERS,
        _Transfer(handoff).hand_over,
        effect="write",
        idempotent=is_bare,
        repeatable=is_bare,
        resources=(_RESOURCE,),
        approval=False,
        error_key=None,
    )


def _name_of(handoff: Handoff) -> str:
    return handoff.tool_name or handoff_tool_name(handoff.to_agent_id)


def _event_of(handoff: Handoff, tool: str, call_id: str, said: JsonObject) -> HandoffEvent:
    return HandoffEvent(
        to_agent_id=handoff.to_agent_id,
        tool_name=tool,
        call_id=call_id,
        reason=str(said.get("reason", "")),
        note=str(said.get("note", "")),
    )


def _is_shown(
    handoff: Handoff,
    info: RunInfo,
    board: Board,
    on_failure: Callable[[Handoff, Exception], None],
) -> bool:
    if handoff.filter is None:
        return True
    if is_async(handoff.filter):
        raise Misuse(
            f"the filter of the hand-off to {handoff.to_agent_id!r} is async, and nobody can wait "
            "for it here: make it a plain function"
        )
    try:
        return bool(answer_at_once(handoff.filter, info, board))
    except Exception as error:
        # A broken filter hides its hand-off: what nobody allowed is not done.
        on_failure(handoff, error)
        return False


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
