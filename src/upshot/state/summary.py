"""What an event changes in the list of runs.

Every journal keeps one row a run beside the events, so that runs are listed without reading their
logs. This is the only place that says which events change such a row, and how.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, cast

from upshot.contract.base.json_values import clean_text, without_nul
from upshot.contract.base.structs import JsonObject
from upshot.contract.events import Event, RunReleased, RunResumed, RunSettled, RunStarted
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import Cost, Usage
from upshot.state.child_runs import CHAIN_OPTION, TURN_OPTION, origins_of

RUNNING: str = RunSummary().status
REQUEST_CHARS = 200
"""So much of the text of a request is listed."""


class SummaryChange(NamedTuple):
    """New values for a run's row; None leaves a column as it is.

    Attributes:
        status: "running", or the status with which the session ended.
        agent_id: Who works on the run.
        request: The beginning of the text that was asked.
        parent_run_id: The run that started this one, "" for a root run.
        context_id: The conversation that the run belongs to, "" if none.
        started_at: When the run began.
        forked_from: The runs that this one is a fork of; it may read their child runs.
        turn: The first run of the turn that it is, "" if it is none.
        is_chained: Whether its request may be handed on to a further run of the turn.
        committed: Whether it counts for the conversation.
        handed_over: Whether it handed its request over.
        usage: What its sessions used.
        cost: The money for that, None where nothing had a price.
        due_at: From when on it is to be taken up again, None where this does not say so.
        due_reason: Why it is.
    """

    status: str
    agent_id: str | None = None
    request: str | None = None
    parent_run_id: str | None = None
    context_id: str | None = None
    started_at: datetime | None = None
    forked_from: tuple[str, ...] = ()
    turn: str | None = None
    is_chained: bool = False
    committed: bool = False
    handed_over: bool = False
    usage: Usage | None = None
    cost: Cost | None = None
    due_at: datetime | None = None
    due_reason: str | None = None

    @property
    def is_end(self) -> bool:
        """Whether the session is over: the run ended, or waits."""
        return self.status != RUNNING


def summary_change(event: Event) -> SummaryChange | None:
    """What *event* changes in the run's row, None for nothing."""
    change = _CHANGES.get(type(event))
    return None if change is None else change(event)


def _started(event: RunStarted) -> SummaryChange:
    request, turn = event.request, event.options.get(TURN_OPTION)
    return SummaryChange(
        RUNNING,
        agent_id=clean_text(event.agent.id),
        request=without_nul(clean_text(request.text[:REQUEST_CHARS])),
        parent_run_id=clean_text(event.parent_run_id),
        context_id=clean_text(request.context_id),
        started_at=event.time,
        forked_from=tuple(map(clean_text, origins_of(event.options))),
        turn=_head_of(turn, event.run_id) if isinstance(turn, dict) else "",
        is_chained=CHAIN_OPTION in event.options,
    )


def _head_of(turn: JsonObject, run_id: str) -> str:
    """The first run of a turn, as the first event of the run *run_id* has it."""
    return clean_text(str(turn.get("head") or run_id)) if turn.get("remember", True) else ""


def _resumed(event: RunResumed) -> SummaryChange:
    return SummaryChange(RUNNING)


def _released(event: RunReleased) -> SummaryChange:
    return SummaryChange(RUNNING, due_at=event.at, due_reason=event.at and event.reason)


def _settled(event: RunSettled) -> SummaryChange:
    result = event.result
    return SummaryChange(
        str(result.status.value),
        committed=result.committed,
        handed_over=result.handoff is not None,
        usage=result.usage,
        cost=result.cost,
    )


_CHANGES: dict[type, Callable[[Any], SummaryChange]] = {
    RunStarted: _started,
    RunResumed: _resumed,
    RunReleased: _released,
    RunSettled: _settled,
}
# The kinds of these events, as they stand in stored rows.
SUMMARY_KINDS: tuple[str, ...] = tuple(cast("Any", kind).__struct_config__.tag for kind in _CHANGES)
