"""Handoffs of a run: which are offered, and which was accepted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container

from upshot.contract.agent_spec import Handoff, HandoffEvent, RunInfo, handoff_tool_name
from upshot.contract.base.enums import DeniedReason, Origin
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.tool_calls import ToolExecutionResult, ToolRecord
from upshot.errors import Misuse
from upshot.runs.callbacks import answer_at_once, call, is_async, raised
from upshot.runs.recorder import Recorder
from upshot.state.board import Board
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.gates.pipeline import Denial

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Handoffs:
    """The handoffs of one run: which are offered, and which was accepted.

    Args:
        handoffs: The agent's handoffs.
        info: The identity of the run.
        recorder: Logs the accepted handoff; its state has the board that filters get.
        dependencies: The dependencies of the run, for filters that ask for them.

    Attributes:
        info: As given.
    """

    def __init__(
        self,
        handoffs: tuple[Handoff, ...],
        info: RunInfo,
        recorder: Recorder,
        dependencies: object = None,
    ) -> None:
        self.info = info
        self._by_tool = {tool_name_of(handoff): handoff for handoff in handoffs}
        self._recorder = recorder
        self._dependencies = dependencies
        # Handoffs whose filter raised; each is reported once.
        self._broken: list[Handoff] = []
        # The last results of async filters by tool name. Until then, the handoff is hidden.
        self._filter_results: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._by_tool)

    @property
    def are_filtered(self) -> bool:
        """Whether any of them may be hidden by a filter."""
        return any(handoff.filter is not None for handoff in self._by_tool.values())

    async def ask_filters(self) -> None:
        """Call the async filters, before a turn. Sync filters are called at each lookup."""
        for name, handoff in self._by_tool.items():
            if handoff.filter is not None and is_async(handoff.filter):
                try:
                    given = _filter_arguments(
                        handoff.filter, self.info, self._recorder.state.board, self._dependencies
                    )
                    self._filter_results[name] = bool(await call(handoff.filter, *given))
                except Exception as error:
                    # Fail closed: a broken filter hides its handoff.
                    self._filter_results[name] = False
                    self._report_failure(handoff, error)

    def offered(self) -> Container[str]:
        """Return the tool names on offer now. Names of other tools are always included."""
        return _OfferedNames(self._by_tool, self._is_offered)

    def judge(self, case: CallState) -> Denial | None:
        """Deny a handoff if another was accepted already; called before its body starts."""
        taken = self._recorder.state.handoff
        if taken is None or case.tool_name not in self._by_tool:
            return None
        text = f"the request was handed over to {taken.to_agent_id!r} already"
        return Denial(DeniedReason.SUPERSEDED, text)

    def note(self, record: ToolRecord) -> None:
        """Accept the handoff that a settled call made, if it made one."""
        handoff = self._by_tool.get(record.tool_name)
        if handoff is not None and isinstance(record.outcome, ToolExecutionResult):
            arguments = record.arguments_validated or {}
            self.accept(handoff_event(handoff, record.tool_name, record.call_id, arguments))

    def accept(self, event: HandoffEvent) -> None:
        """Log *event* unless a handoff was accepted before."""
        if self._recorder.state.handoff is None:
            self._recorder.emit(event)

    def check_open(self) -> None:
        """Check that no handoff was accepted yet.

        Raises:
            ToolError: One was.
        """
        if self._recorder.state.handoff is not None:
            code = DeniedReason.SUPERSEDED
            raise ToolError("the request was handed over already", code=code, retryable=False)

    def _is_offered(self, handoff: Handoff) -> bool:
        if handoff.filter is not None and is_async(handoff.filter):
            return self._filter_results.get(tool_name_of(handoff), False)
        board = self._recorder.state.board
        return is_offered(handoff, self.info, board, self._report_failure, self._dependencies)

    def _report_failure(self, handoff: Handoff, error: Exception) -> None:
        if handoff in self._broken:
            return
        self._broken.append(handoff)
        message = raised(f"filter of the handoff to {handoff.to_agent_id!r}", error)
        self._recorder.warn(RunWarning(code="filter_failed", message=message, origin=Origin.CALLER))


class _OfferedNames(Container[str]):
    """The names of tools on offer: all except hidden handoffs."""

    def __init__(self, by_tool: dict[str, Handoff], shown: Callable[[Handoff], bool]) -> None:
        self._by_tool = by_tool
        self._shown = shown

    def __contains__(self, name: object) -> bool:
        handoff = self._by_tool.get(name) if isinstance(name, str) else None
        return handoff is None or self._shown(handoff)


def tool_name_of(handoff: Handoff) -> str:
    """Return the name of the tool that makes *handoff*."""
    return handoff.tool_name or handoff_tool_name(handoff.to_agent_id)


def handoff_event(handoff: Handoff, tool: str, call_id: str, arguments: JsonObject) -> HandoffEvent:
    """Return the event of *handoff*, made by a call with the arguments *arguments*."""
    return HandoffEvent(
        to_agent_id=handoff.to_agent_id,
        tool_name=tool,
        call_id=call_id,
        reason=str(arguments.get("reason", "")),
        note=str(arguments.get("note", "")),
    )


def is_offered(
    handoff: Handoff,
    info: RunInfo,
    board: Board,
    on_failure: Callable[[Handoff, Exception], None],
    dependencies: object = None,
) -> bool:
    """Whether the filter of *handoff* shows it; one that raises hides it."""
    if handoff.filter is None:
        return True
    if is_async(handoff.filter):
        raise Misuse(
            f"the filter of the handoff to {handoff.to_agent_id!r} is async, which cannot be "
            "awaited here: make it a sync function"
        )
    try:
        given = _filter_arguments(handoff.filter, info, board, dependencies)
        return bool(answer_at_once(handoff.filter, *given))
    except Exception as error:
        # Fail closed: a broken filter hides its handoff.
        on_failure(handoff, error)
        return False


def _filter_arguments(
    asked: Callable[..., object], info: RunInfo, board: Board, dependencies: object
) -> tuple[object, ...]:
    """Return a filter's arguments. Dependencies go to a third parameter without a default."""
    try:
        parameters = inspect.signature(asked).parameters.values()
    except (TypeError, ValueError):
        # Functions written in C may have no readable signature.
        return info, board
    needed = [one for one in parameters if one.kind in _BY_PLACE and one.default is one.empty]
    return (info, board, dependencies) if len(needed) > len((info, board)) else (info, board)
