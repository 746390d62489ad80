"""What an event changes in the list of runs.

Every journal keeps one row a run beside the events, so that runs are listed without reading their
logs. Only this module says which events change such a row, and how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec

from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, Status
from upshot.contract.base.json_values import clean_text, to_json, without_nul
from upshot.contract.base.secrets import hide_marks
from upshot.contract.base.structs import JsonObject
from upshot.contract.call_counts import BUCKETS, CallCount, bucket_of
from upshot.contract.events import (
    ApprovalAnswered,
    Event,
    QuestionAnswered,
    RunReleased,
    RunResumed,
    RunSettled,
    RunStarted,
)
from upshot.contract.model_calls import ModelResponse, Request
from upshot.contract.pending import Approve, Pending, PendingApproval
from upshot.contract.protocols import RunSummary
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolDenied, ToolFailure, ToolRecord, ToolTimeout
from upshot.contract.usage import Cost, RateLimitWindow, Usage
from upshot.state.child_runs import CHAIN_OPTION, TURN_OPTION, bare_id, origins_of

RUNNING: str = RunSummary().status
_TEXT_CHARS = 200
_MOST_TOOLS = 20
OWNERS = ("user", "tenant")
"""The attributes that say whose a run is; child runs, handoffs and forks inherit them."""
NO_ASKS: Mapping[str, Pending] = MappingProxyType({})
"""The pending items of a run that waits for nothing."""


class SummaryChange(NamedTuple):
    """New values for a run's row; None leaves a column as it is.

    Attributes:
        status: "running", or the status with which the session ended.
        agent_id: The agent.
        request: The start of the request's text.
        parent_run_id: The run that started this one, "" for a root run.
        context_id: The conversation that the run belongs to, "" if none.
        started_at: When the run started.
        forked_from: The runs that this one is a fork of; it may read their child runs.
        turn: The first run of its turn, "" if it is in none.
        is_chained: Whether its request may be handed over to a further run of the turn.
        is_inside: Whether its parent waits for it: not a fork, nor a run whose caller named a
            parent.
        asks: The open pending items of the run itself, by the name of the question.
        committed: Whether it counts for the conversation.
        handed_over: Whether it handed its request over.
        usage: What its sessions used.
        cost: Their cost, None if nothing had a price.
        effect: Their worst effect.
        error_code: Why they failed, "" if they did not.
        due_at: When it must be resumed, None if unchanged.
        due_reason: Why it must.
        owner: The user that it belongs to.
        tenant: The tenant that it belongs to.
        answer: The start of the answer.
        took_s: How long its sessions took.
        tools: The tools that it called.
        calls: How often they called each model and tool.
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
    is_inside: bool = False
    asks: Mapping[str, Pending] | None = None
    committed: bool = False
    handed_over: bool = False
    usage: Usage | None = None
    cost: Cost | None = None
    effect: Effect | None = None
    error_code: str | None = None
    due_at: datetime | None = None
    due_reason: str | None = None
    owner: str | None = None
    tenant: str | None = None
    answer: str | None = None
    took_s: float | None = None
    tools: tuple[str, ...] | None = None
    calls: tuple[CallCount, ...] | None = None

    @property
    def is_end(self) -> bool:
        """Whether the session is over: the run ended, or waits."""
        return self.status != RUNNING


def summary_change(event: Event) -> SummaryChange | None:
    """Return what *event* changes in the run's row, None for nothing."""
    change = _CHANGES.get(type(event))
    return None if change is None else change(event)


def asks_after(asks: Mapping[str, Pending], event: Event) -> Mapping[str, Pending]:
    """Return what a run waits for after a stored *event*, if it waited for *asks* before."""
    change = summary_change(event)
    if change is not None:
        return asks if change.asks is None else change.asks
    if asks and isinstance(event, ApprovalAnswered | QuestionAnswered):
        after = {item: _ask_after(event, item, one) for item, one in asks.items()}
        return {item: one for item, one in after.items() if one is not None}
    return asks


def _ask_after(
    event: ApprovalAnswered | QuestionAnswered, item: str, asked: Pending
) -> Pending | None:
    """Return a question after an answer, None if it was answered."""
    if isinstance(event, QuestionAnswered):
        is_answered = not isinstance(asked, PendingApproval) and event.id == bare_id(asked)
        return None if is_answered else asked
    if event.digest != item:
        return asked
    answer = event.answer
    if isinstance(asked, PendingApproval) and isinstance(answer, Approve):
        asked = asked.with_approval(answer.by, answer.at or event.time)
        return asked if asked.approvals > 1 and asked.missing else None
    return None


def _on_start(event: RunStarted) -> SummaryChange:
    request, turn = event.request, event.options.get(TURN_OPTION)
    origins = origins_of(event.options)
    owner, tenant = owner_of(event.attributes) if event.attributes else ("", "")
    return SummaryChange(
        RUNNING,
        agent_id=clean_text(event.agent.id),
        request=listed_request(request, event.options),
        parent_run_id=clean_text(event.parent_run_id),
        context_id=clean_text(request.context_id),
        started_at=event.time,
        forked_from=tuple(map(clean_text, origins)),
        turn=_head_of(turn, event.run_id) if isinstance(turn, dict) else "",
        is_chained=CHAIN_OPTION in event.options,
        is_inside=event.depth > 0 and not origins,
        owner=owner,
        tenant=tenant,
    )


def listed_request(request: Request, options: JsonObject) -> str:
    """Return the start of the request's text, without marks of secrets.

    Args:
        request: As it is stored.
        options: The logged options.
    """
    return without_nul(clean_text(hide_marks(request.text, options)[:_TEXT_CHARS]))


def owner_of(attributes: object) -> tuple[str, str]:
    """Return the user and the tenant of a run, from its attributes; "" for none."""
    known = cast("JsonObject", attributes) if isinstance(attributes, dict) else {}
    user, tenant = (known.get(name) for name in OWNERS)
    return _name(user), _name(tenant)


def _name(value: object) -> str:
    return "" if value is None else without_nul(clean_text(str(value)))


def answer_text(result: AgentResult[Any]) -> str:
    """Return the start of the answer's text, "" for a run that waits."""
    if result.status is Status.INPUT_REQUIRED:
        return ""
    if result.content is not None:
        return result.content[:_TEXT_CHARS]
    return "" if result.output is None else to_json(result.output).decode()[:_TEXT_CHARS]


def tools_in(records: Iterable[ToolRecord], asks: Mapping[str, Pending]) -> tuple[str, ...]:
    """Return the first tools that were called or wait for approval, without duplicates."""
    called = [record.tool_name for record in records]
    asked = [one.tool_name for one in asks.values() if isinstance(one, PendingApproval)]
    return tuple(dict.fromkeys((*called, *asked)))[:_MOST_TOOLS]


class _Calls(msgspec.Struct):
    """The calls of one model or tool so far; its attributes are those of ``CallCount``."""

    calls: int = 0
    failed: int = 0
    timed_out: int = 0
    unknown: int = 0
    denied: int = 0
    repeated: int = 0
    limited: int = 0
    took: list[int] = msgspec.field(default_factory=lambda: [0] * BUCKETS)
    slowest_ms: int = 0
    slowest: str = ""
    waits: list[int] = []
    windows: tuple[RateLimitWindow, ...] = ()

    def count_reply(self, response: ModelResponse) -> None:
        self.calls += 1
        if response.duration_ms:
            self.took[bucket_of(response.duration_ms / 1000)] += 1
        if (error := response.error) is not None:
            self.failed += 1
            self.limited += error.code == ErrorCode.RATE_LIMIT
        if response.rate_limit is not None and response.rate_limit.windows:
            self.windows = response.rate_limit.windows

    def count_call(self, record: ToolRecord) -> None:
        outcome = record.outcome
        if outcome.repeats is not None:
            self.repeated += 1
        if record.effect is Effect.UNKNOWN:
            self.unknown += 1
        if record.started_at is None:
            # A call that was never made because its run was stopped was not refused.
            is_denied = isinstance(outcome, ToolDenied)
            self.denied += is_denied and outcome.reason != DeniedReason.CANCELLED
            return
        self.calls += 1
        self.took[bucket_of(record.run_ms / 1000)] += 1
        if record.run_ms > self.slowest_ms:
            self.slowest_ms, self.slowest = record.run_ms, record.call_id
        if isinstance(outcome, ToolFailure | ToolTimeout):
            self.failed += 1
            self.timed_out += isinstance(outcome, ToolTimeout)

    def count_wait(self, seconds: float) -> None:
        self.waits = self.waits or [0] * BUCKETS
        self.waits[bucket_of(seconds)] += 1

    def shown(self, type: str, name: str, at: datetime | None) -> CallCount:
        return CallCount(
            type=type,
            name=name,
            calls=self.calls,
            failed=self.failed,
            timed_out=self.timed_out,
            unknown=self.unknown,
            denied=self.denied,
            repeated=self.repeated,
            limited=self.limited,
            took=_without_end(self.took),
            slowest_ms=self.slowest_ms,
            slowest=self.slowest,
            waits=_without_end(self.waits),
            windows=self.windows,
            at=at if self.windows or self.limited else None,
        )


def _without_end(took: list[int]) -> tuple[int, ...]:
    """Return counts by bucket without the empty buckets at the end."""
    while took and not took[-1]:
        took.pop()
    return tuple(took)


def calls_in(
    responses: Sequence[ModelResponse],
    records: Iterable[ToolRecord],
    model: str,
    *,
    waits: Iterable[tuple[str, float]] = (),
    at: datetime | None = None,
) -> tuple[CallCount, ...]:
    """Count the calls of the first models and tools of a run.

    Args:
        responses: The replies of its models.
        records: Its tool calls. Those that neither started nor were denied are not counted.
        model: The name of a model that does not say its own.
        waits: The tool of each approval that was answered, and how many seconds that took.
        at: When the session ended.
    """
    models: dict[str, _Calls] = {}
    for response in responses:
        known = response.provider_data
        name = f"{known.get('provider') or ''}:{known.get('model') or ''}"
        if (calls := _calls_of(models, name)) is not None:
            calls.count_reply(response)
    tools: dict[str, _Calls] = {}
    for record in records:
        if (calls := _calls_of(tools, record.tool_name)) is not None:
            calls.count_call(record)
    for name, seconds in waits:
        if (calls := _calls_of(tools, name)) is not None:
            calls.count_wait(seconds)
    # Names are cleaned once each, and not for each call.
    return (
        *(calls.shown("model", _model_name(name, model), at) for name, calls in models.items()),
        *(calls.shown("tool", _tool_name(name), None) for name, calls in tools.items()),
    )


def _calls_of(known: dict[str, _Calls], name: str) -> _Calls | None:
    """Return the calls of *name*; None if it is one too many."""
    calls = known.get(name)
    if calls is None and len(known) < _MOST_TOOLS:
        calls = known[name] = _Calls()
    return calls


def _model_name(name: str, model: str) -> str:
    is_whole = not (name.startswith(":") or name.endswith(":"))
    return without_nul(clean_text(name if is_whole else model or "unknown"))


def _head_of(turn: JsonObject, run_id: str) -> str:
    """Return the first run of a turn, from the first event of the run *run_id*."""
    return clean_text(str(turn.get("head") or run_id)) if turn.get("remember", True) else ""


def _on_resume(event: RunResumed) -> SummaryChange:
    return SummaryChange(RUNNING, asks=NO_ASKS, error_code="")


def _on_release(event: RunReleased) -> SummaryChange:
    return SummaryChange(RUNNING, due_at=event.due_at, due_reason=event.due_at and event.reason)


def _on_settle(event: RunSettled) -> SummaryChange:
    result, waits = event.result, event.result.status is Status.INPUT_REQUIRED
    return SummaryChange(
        str(result.status.value),
        asks=event.asks if waits else None,
        committed=result.committed,
        handed_over=result.handoff is not None,
        usage=result.usage,
        cost=result.cost,
        effect=event.effect,
        error_code="" if result.error is None or waits else clean_text(str(result.error.code)),
        answer=without_nul(clean_text(event.answer)),
        took_s=event.took_s,
        due_at=event.due_at if waits else None,
        due_reason="expired" if waits and event.due_at else None,
        tools=tuple(map(_tool_name, event.tools)),
        calls=event.calls,
    )


def _tool_name(name: str) -> str:
    # The table has one tool a line.
    return without_nul(clean_text(name.replace("\n", " ")))


_CHANGES: dict[type, Callable[[Any], SummaryChange]] = {
    RunStarted: _on_start,
    RunResumed: _on_resume,
    RunReleased: _on_release,
    RunSettled: _on_settle,
}
# The kinds of these events, as in stored rows.
SUMMARY_KINDS: tuple[str, ...] = tuple(cast("Any", kind).__struct_config__.tag for kind in _CHANGES)
