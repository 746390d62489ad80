"""AgentResult, the result of a run, and its flat form: a plain dict with the same facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.checks import has_own_output
from upshot.contract.base.enums import (
    CauseField,
    Effect,
    ErrorCode,
    FinishReason,
    InterruptCause,
    Origin,
    Status,
    word,
    worst_effect,
)
from upshot.contract.base.json_values import to_json
from upshot.contract.base.structs import (
    Json,
    JsonObject,
    Local,
    Moment,
    Root,
    Value,
    check_types,
    freeze,
    set_field,
    settle_moments,
    written,
)
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.message import Artifact, Message
from upshot.contract.pending import Pending, TaintOrigin
from upshot.contract.tool_calls import ToolDenied, ToolOutcome, ToolRecord
from upshot.contract.usage import NO_USAGE, Cost, RateLimitState, Usage, to_money
from upshot.errors import Misuse, RunFailed

FLAT_KEYS = (
    "output",
    "content",
    "usage",
    "cost",
    "metadata",
    "finish_reason",
    "error",
    "rate_limit",
    "provider_data",
)


# These keys are left out if the field is empty or None; in the order of writing.
_FLAT_FACTS = (
    *("usage", "cost", "finish_reason", "error", "rate_limit"),
    *("metadata", "provider_data"),
)


def to_flat_form(result: AgentResult[Any]) -> JsonObject:
    """Convert *result* to plain dicts: money as floats, without unknown facts."""
    form: JsonObject = {}
    output = plain(result.output)
    if has_own_output(output, result.content):
        form["output"] = output
    if result.content is not None:
        form["content"] = result.content
    for key in _FLAT_FACTS:
        value = getattr(result, key)
        # A usage without token counts is falsy, but may still say how many calls there were.
        if value or (value is result.usage and value.api_calls):
            form[key] = plain(value)
    if result.effects:
        # The form has no separate key for effects.
        form["metadata"] = plain({**result.metadata, "effects": result.effects})
    if (limits := limited_by(result.error, result.rate_limit)) is not None:
        form["rate_limit"] = plain(limits)
    return form


def limited_by(error: AgentError | None, limits: RateLimitState | None) -> RateLimitState | None:
    """Return *limits*, marked as limited if *error* is a rate_limit: some 429s have no headers."""
    if error is None or error.code != ErrorCode.RATE_LIMIT:
        return limits
    return msgspec.structs.replace(limits or RateLimitState(), limited=True)


def plain(value: object) -> Json:
    """Convert *value* to new builtins: structs to dicts, money to floats, tuples to lists."""
    return msgspec.json.decode(to_json(value))


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # Unlike Agent's, not str by default: hooks annotated with the bare name take any result.
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

OUTPUT_VAR = "output"
_SEQUENCES = (
    "messages",
    "seeded",
    "tool_outcomes",
    "tool_records",
    "effects",
    "child_runs",
    "artifacts",
    "pending",
    "attempt_log",
    "warnings",
)


# These types need no conversion; a decoder gives lists, and callers write words as strings.
_FINE = frozenset[type]({Status, FinishReason, InterruptCause, NoneType, tuple})
_COMPLETED = Status.COMPLETED
_UNKNOWN = Effect.UNKNOWN
_WORDS = (("status", Status), ("finish_reason", FinishReason), ("cause", InterruptCause))
# Reads all of them at once.
_judged_of = attrgetter(*_SEQUENCES, *(name for name, _ in _WORDS))


class AttemptLine(Value, frozen=True, kw_only=True, gc=False):
    """A summary of one attempt; discarded attempts have one too.

    Attributes:
        attempt: Its number, from 1.
        status: How it ended.
        error: Why it failed, None if it completed.
        usage: Tokens of its model calls.
        cost: Cost of its model calls.
        content: Its answer, kept even if it was discarded.
        revise_reason: Why there was another attempt, "" if there was none.
        feedback: The feedback given to the next attempt.
    """

    attempt: int = 1
    status: Status = written(Status.COMPLETED)
    error: AgentError | None = None
    usage: Usage = NO_USAGE
    cost: Cost | None = None
    content: str | None = None
    revise_reason: str = ""
    feedback: str = ""


class RunEffect(Value, frozen=True, kw_only=True, gc=False):
    """A call that changed something outside, or may have done so.

    Attributes:
        tool: The tool as the model named it, "" for a step of an engine that failed.
        state: "applied" or "unknown".
        run_id: The run that made the call; its result has the record.
        call_id: The model's id of the call, "" for a step.
        step: The key of the step, or of the step that made the call; "" if none.
        path: The runs that ``run_id`` is nested in, from the result's own run down. Empty for the
            run's own calls and for the calls of a run that handed the request over to it.
        key: The id of the effect in the ledger; None if the tool declares no identity.
    """

    tool: str = ""
    state: Effect = written(Effect.APPLIED)
    run_id: str = ""
    call_id: str = ""
    step: str = ""
    path: tuple[str, ...] = ()
    key: str | None = None


class ChildRun(Value, frozen=True, kw_only=True, gc=False):
    """A run whose calls count in this result; their records are in its own result.

    Attributes:
        run_id: The run.
        tools: Names of the tools that ran in it and in its own child runs.
        effect: The worst effect of the run and its own child runs.
    """

    run_id: str = ""
    tools: tuple[str, ...] = ()
    effect: Effect = written(Effect.NONE)


def warning_of_unknown(effects: Iterable[RunEffect]) -> RunWarning | None:
    """Return a warning that names each unknown effect, or None if no effect is unknown."""
    unknown = [one for one in effects if one.state is _UNKNOWN]
    if not unknown:
        return None
    message = (
        f"it is not known whether {', '.join(map(_describe_effect, unknown))} took effect: check "
        "it before you make the call again"
    )
    return RunWarning(code="effect_unknown", message=message, origin=Origin.TOOL)


def _describe_effect(effect: RunEffect) -> str:
    if not effect.tool:
        return f"step {effect.step!r} of run {effect.run_id}"
    return f"{effect.tool} (call {effect.call_id} of run {effect.run_id})"


class AgentResult(Root, Generic[T], frozen=True, kw_only=True):
    """The result of a run. It can also be read like a mapping with the keys of the flat contract.

    Attributes:
        status: completed, interrupted, canceled, failed, aborted or input_required.
        output: The typed answer: the board variable ``output`` if set, otherwise content.
        content: Text of the last assistant message on the main channel; None if there is none.
        messages: The messages that the run produced on the main channel, in order, without the
            seeded messages. Other channels are artifacts, if they are asked for.
        seeded: The messages on the main channel before the engine started: the history, the
            request, and what was handed over with it.
        tool_outcomes: One for every settled call, in the order of the calls within each reply.
        tool_records: The same calls with all their facts, in the same order.
        effects: Each call that changed something outside, or may have done so, in this run and in
            ``child_runs``.
        child_runs: The runs that it started, and the runs that handed the request over to it. The
            outcomes and records of their calls are in their own results.
        artifacts: What the run produced besides the answer.
        pending: What a parked run waits for.
        usage: Tokens of all model calls, of all attempts and child runs.
        cost: The cost of these calls, None if none had a price.
        finish_reason: The finish reason of the last model call; None if unknown.
        error: What went wrong; present exactly when status is not completed.
        rate_limit: The rate limit of the last reply that carried one.
        provider_data: provider, model, request_id, raw_headers, finish_raw of the last reply.
        cause: The cause of an interrupt.
        detail: The detail of an interrupt.
        committed: Whether its messages count for the conversation.
        attempts: How many attempts it took.
        state: Facts set by deciders, such as finalize_reason and handoff.
        handoff: The handoff that ended it, None if there was none.
        attempt_log: A summary of each attempt.
        warnings: What went wrong without failing the run.
        taint: What first brought untrusted content into the run; None if nothing did.
        run_id: The run.
        task_id: The caller's task, "" if none.
        context_id: The conversation, "" if none.
        parent_run_id: The run that started it, "" for a root run.
        agent_id: The agent of the run.
        started_at: When it started, UTC; None if not measured.
        ended_at: started_at + duration_ms.
        duration_ms: Milliseconds from started_at until this result. For a resumed run this includes
            the time when it was parked or not running.
        metadata: Free JSON from the caller and from hooks.
        local: In this process only: ``raw``, ``last_board``.
    """

    status: Status = written(Status.COMPLETED)
    output: T | None = None
    content: str | None = None
    messages: tuple[Message, ...] = ()
    seeded: tuple[Message, ...] = ()
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    tool_records: tuple[ToolRecord, ...] = ()
    effects: tuple[RunEffect, ...] = ()
    child_runs: tuple[ChildRun, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    pending: tuple[Pending, ...] = ()
    usage: Usage = NO_USAGE
    cost: Cost | None = None
    finish_reason: FinishReason | None = None
    error: AgentError | None = None
    rate_limit: RateLimitState | None = None
    provider_data: JsonObject = {}
    cause: CauseField = word(InterruptCause.NONE)
    detail: str = ""
    committed: bool = written(False)
    attempts: int = 1
    state: JsonObject = {}
    handoff: HandoffEvent | None = None
    attempt_log: tuple[AttemptLine, ...] = ()
    warnings: tuple[RunWarning, ...] = ()
    taint: TaintOrigin | None = None
    run_id: str = ""
    task_id: str = ""
    context_id: str = ""
    parent_run_id: str = ""
    agent_id: str = ""
    started_at: Moment | None = None
    ended_at: Moment | None = None
    duration_ms: int = 0
    metadata: JsonObject = {}
    local: Local | None = None

    def __post_init__(self) -> None:
        if not _FINE.issuperset(map(type, _judged_of(self))):
            for name, words in _WORDS:
                word: object = getattr(self, name)
                if type(word) is str:
                    set_field(self, name, words(word))
            freeze(self, *_SEQUENCES)
        if (self.error is None) is not (self.status is _COMPLETED):
            if self.error is None:
                raise Misuse(f"status {self.status} needs an error: give error=AgentError(...)")
            check_types(self, "error")
            why = f"status completed cannot carry the error {self.error.code}"
            raise Misuse(f"{why}: give status='failed'")
        started, ended = self.started_at, self.ended_at
        if (started and getattr(started, "tzinfo", None) is not UTC) or (
            ended and getattr(ended, "tzinfo", None) is not UTC
        ):
            settle_moments(self, "started_at", "ended_at")
        if self.cost is not None or self.usage is not NO_USAGE:
            self._settle_cost()
        if ended is None and self.started_at is not None:
            set_field(self, "ended_at", _end(self.started_at, self.duration_ms))

    def _settle_cost(self) -> None:
        if type(self.usage) is not Usage:
            check_types(self, "usage")
        amount = cast("object", self.cost)
        if amount is not None and not isinstance(amount, Cost):
            set_field(self, "cost", Cost(total=to_money(cast("float", amount))))
        cost = None if self.cost is None or not self.usage else self.cost
        if self.usage.cost is not cost:
            set_field(self, "usage", self.usage.with_cost(cost))

    @property
    def success(self) -> bool:
        """Whether there is no error."""
        return self.error is None

    @property
    def effect(self) -> Effect:
        """The worst of ``effects``: unknown, applied, or none if no call changed anything."""
        return worst_effect(one.state for one in self.effects)

    @property
    def tools_used(self) -> tuple[str, ...]:
        """Names of the tools that ran, without denied calls.

        First the tools of the run itself, in the order of their first run, then the tools of its
        ``child_runs``.
        """
        inside = [name for one in self.child_runs for name in one.tools]
        return tuple(dict.fromkeys((*self._own_tools(), *inside)))

    def _own_tools(self) -> tuple[str, ...]:
        ran = [r for r in self.tool_records if not isinstance(r.outcome, ToolDenied)]
        if self.tool_records and all(r.started_at is not None for r in ran):
            # Concurrent calls may settle in another order than they start.
            ran.sort(key=lambda record: cast("datetime", record.started_at))
            return tuple(dict.fromkeys(record.tool_name for record in ran))
        names = (o.tool_name for o in self.tool_outcomes if not isinstance(o, ToolDenied))
        return tuple(dict.fromkeys(names))

    @property
    def raw(self) -> object:
        """The native result that this was converted from, in this process only; otherwise None."""
        return self.local.get("raw") if self.local is not None else None

    @property
    def last_board(self) -> object:
        """The board as the engine left it, in this process only; None if it is not available."""
        return self.local.get("last_board") if self.local is not None else None

    def __repr__(self) -> str:
        from upshot.contract.base.reprs import portray_result

        return portray_result(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows; see ``contract.forms.html_form``."""
        from upshot.contract.forms.html_form import to_html

        return to_html(self)

    def all_messages(self) -> tuple[Message, ...]:
        """Return all messages of the main channel, the seeded ones first."""
        return (*self.seeded, *self.messages)

    def unwrap(self) -> T:
        """Return the output, or the text if there is no output.

        Raises:
            RunFailed: The run did not complete; it carries this result.
        """
        if self.error is not None:
            raw = self.raw
            if isinstance(raw, BaseException):
                raise RunFailed(self) from raw
            raise RunFailed(self)
        value: object = self.output
        if value is None and not self.run_id:
            # A hand-built result may have only a text; for a real run, None is the output.
            value = self.content
        return value  # pyright: ignore[reportReturnType]  # T is str without an output type, and may include None

    def output_payload(self) -> JsonObject:
        """Return the output if it is a JSON object, otherwise ``{"content": ...}`` or ``{}``."""
        output: object = self.output
        if output is not None and not isinstance(output, dict | str):
            output = plain(output)
        if isinstance(output, dict):
            return output  # pyright: ignore[reportUnknownVariableType]  # keys of JSON are str
        return {} if self.content is None else {"content": self.content}

    def __getitem__(self, key: str) -> Any:
        return to_flat_form(self)[key]

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of *key* in the flat contract dict, or *default*."""
        return to_flat_form(self).get(key, default)

    def keys(self) -> KeysView[str]:
        """Return the keys of the flat contract dict."""
        return to_flat_form(self).keys()

    def __iter__(self) -> Iterator[str]:
        return iter(to_flat_form(self))

    def __contains__(self, key: object) -> bool:
        return key in to_flat_form(self)


def _end(started_at: datetime, duration_ms: int) -> datetime:
    try:
        return started_at + timedelta(milliseconds=duration_ms)
    except OverflowError as error:
        raise Misuse(f"duration_ms is out of range: {duration_ms}") from error
