"""``Findings``: what an adapter found in a native object or exception, and its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from upshot.contract.base.enums import Effect, ErrorCode, FinishReason, Origin, Role
from upshot.contract.base.structs import Json, JsonObject, Local
from upshot.contract.error import AgentError, RunWarning, is_retryable
from upshot.contract.forms.flat_form import status_of
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import Pending, PendingApproval
from upshot.contract.result import AgentResult, RunEffect, limited_by
from upshot.contract.tool_calls import (
    ToolCall,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
)
from upshot.contract.usage import Cost, RateLimitState, Usage
from upshot.native.objects import (
    as_amount,
    as_count,
    as_json,
    as_object,
    as_text,
    find_headers,
    find_rate_limit,
    find_texts,
    look_up,
)
from upshot.wire.decoding import encode_json, parse_json
from upshot.wire.error_classification import PROVIDER_TYPE, classify_error, one_line

_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
_FACTS: Final = ("provider", "model", "request_id")


@dataclass(slots=True)
class Findings:
    """What an adapter found about a run; fields that it did not find keep their default.

    Attributes:
        raw: The native object.
        messages: The messages that the run produced, in order.
        seeded: The messages before those, including the request.
        outcomes: The outcomes of settled tool calls, in order.
        output: The answer as data; None if the text is the answer.
        content: The answer as text; None means the text of the last assistant message.
        usage: The tokens of all calls.
        cost: The cost of all calls.
        finish_reason: The finish reason of the last call.
        error: Why it failed.
        rate_limit: The rate limit in the last reply.
        provider_data: Facts from the last reply.
        pending: What a parked run waits for.
        warnings: What went wrong without failing the run.
        run_id: The native run's id.
        context_id: The native conversation's id.
        agent_id: The native agent's name.
        started_at: When it started.
        duration_ms: How long it took; None if unknown.
        unknown: Names of further facts that the native object lacks.
        timed: Of how many outcomes it says how long the tool ran.
    """

    raw: object
    messages: list[Message] = field(default_factory=list[Message])
    seeded: list[Message] = field(default_factory=list[Message])
    outcomes: list[ToolOutcome] = field(default_factory=list[ToolOutcome])
    output: object = None
    content: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    finish_reason: FinishReason | None = None
    error: AgentError | None = None
    rate_limit: RateLimitState | None = None
    provider_data: JsonObject = field(default_factory=dict[str, Json])
    pending: list[Pending] = field(default_factory=list[Pending])
    warnings: list[RunWarning] = field(default_factory=list[RunWarning])
    run_id: str = ""
    context_id: str = ""
    agent_id: str = ""
    started_at: datetime | None = None
    duration_ms: int | None = None
    unknown: set[str] = field(default_factory=set[str])
    timed: int = 0

    def add_reply(self, response: ModelResponse) -> None:
        """Add the facts of a model call, and its message unless that is empty."""
        self.count(response)
        message = response.to_message()
        if message.content:
            self.messages.append(message)

    def count(self, response: ModelResponse) -> None:
        """Add the facts of a model call, the latest one so far."""
        self.usage += response.usage
        self.cost = Cost.of_calls(cost for cost in (self.cost, response.cost) if cost is not None)
        self.finish_reason = response.finish_reason
        self.error = response.error
        self.rate_limit = response.rate_limit or self.rate_limit
        self.provider_data = {**self.provider_data, **response.provider_data}

    def say(self, text: str, thoughts: Sequence[Reasoning], calls: Sequence[ToolCall]) -> None:
        """Add a message of the model, with its thoughts before the text."""
        content = (*thoughts, *Message(Role.ASSISTANT, text).parts) if thoughts else text
        self.messages.append(Message(Role.ASSISTANT, content, tool_calls=tuple(calls)))

    def answer(
        self,
        call_id: str,
        output: object,
        *,
        name: str = "",
        failed: bool = False,
        elapsed_s: object = None,
    ) -> None:
        """Add the outcome of a call, and the message that the model reads about it.

        Args:
            call_id: The call; a message before has it, or *name* says which tool it was.
            output: What the tool returned: text, JSON, or the outcome of a tool of ours.
            name: The tool; "" looks it up.
            failed: Whether the call failed, so that *output* says why.
            elapsed_s: How long the tool ran, in seconds; anything that is no number is unknown.
        """
        is_text = isinstance(output, str)
        text = as_text(output) if is_text else encode_json(as_json(output)).decode()
        asked = (call for message in self.messages for call in message.tool_calls)
        name = name or next((call.name for call in asked if call.id == call_id), "")
        ran_s = as_amount(elapsed_s)
        ran_ms = 0 if ran_s is None else round(ran_s * 1000)
        self.timed += ran_s is not None
        outcome = find_outcome(output)
        if outcome is None and failed:
            outcome = ToolFailure(call_id, name, error=text, retryable=False, elapsed_ms=ran_ms)
        elif outcome is None:
            outcome = ToolExecutionResult(
                call_id,
                name,
                output=as_object(output),
                effect=Effect.UNKNOWN,
                elapsed_ms=ran_ms,
            )
        self.messages.append(Message(Role.TOOL, text, tool_call_id=call_id, name=name))
        self.outcomes.append(outcome)

    def fail(self, text: str, *, code: ErrorCode | None = None, type: str = "") -> None:
        """Report that the run failed; only *text* is known about the failure.

        Args:
            text: What went wrong.
            code: The code; None classifies the text.
            type: The library's own word for it.
        """
        error = classify_error(body=text.encode())
        if code is not None:
            error = AgentError(code, text, origin=_ORIGINS.get(code, error.origin))
        self.error = msgspec.structs.replace(error, type=type or error.type)

    def to_result(self) -> AgentResult[Json]:
        """Make the result, with unknown facts listed in its metadata."""
        if self.pending and self.error is None:
            text = f"it waits for {len(self.pending)} answers"
            self.error = AgentError(ErrorCode.INPUT_REQUIRED, text, origin=Origin.HOST)
        spoken = [message for message in self.messages if message.role is Role.ASSISTANT]
        # Some libraries have classes of their own that are texts.
        content = None if self.content is None else as_text(self.content)
        if content is None and spoken:
            content = spoken[-1].text or None
        output = content if self.output is None else as_json(self.output)
        return AgentResult[Json](
            status=status_of(self.error),
            output=output,
            content=content,
            messages=tuple(self.messages),
            tool_outcomes=tuple(self.outcomes),
            tool_records=tuple(self._records()),
            effects=tuple(self._effects()),
            pending=tuple(self.pending),
            usage=self.usage,
            cost=self.cost,
            finish_reason=self.finish_reason,
            error=self.error,
            rate_limit=limited_by(self.error, self.rate_limit),
            provider_data=self.provider_data,
            warnings=tuple(self.warnings),
            run_id=self.run_id,
            context_id=self.context_id,
            agent_id=self.agent_id,
            started_at=self.started_at,
            duration_ms=self.duration_ms or 0,
            metadata={"unknown": [*sorted(self.unknown | set(self.gaps()))]},
            seeded=tuple(self.seeded),
            local=Local(raw=self.raw),
        )

    def _effects(self) -> Iterator[RunEffect]:
        for one in self.outcomes:
            if (effect := one.effect) is not Effect.NONE:
                yield RunEffect(
                    tool=one.tool_name, state=effect, run_id=self.run_id, call_id=one.call_id
                )

    def _records(self) -> list[ToolRecord]:
        calls = (call for message in self.messages for call in message.tool_calls)
        arguments = {call.id: call.arguments for call in calls}
        return [
            ToolRecord(
                run_id=self.run_id,
                call_id=outcome.call_id,
                tool_name=outcome.tool_name,
                arguments_given=arguments.get(outcome.call_id, {}),
                effect=outcome.effect,
                outcome=outcome,
            )
            for outcome in self.outcomes
        ]

    def gaps(self) -> list[str]:
        """Return the names of the contract's facts that the native object lacks."""
        gaps = [f"provider_data.{name}" for name in _FACTS if not self.provider_data.get(name)]
        if not self.usage:
            gaps.append("usage")
        gaps += [f"usage.{name}" for name in _COUNTS if getattr(self.usage, name) is None]
        facts = ("cost", "finish_reason", "rate_limit", "started_at", "duration_ms")
        gaps += [name for name in facts if getattr(self, name) is None]
        if self.timed < len(self.outcomes):
            gaps.append("tool_outcomes.elapsed_ms")
        if any(outcome.effect is Effect.UNKNOWN for outcome in self.outcomes):
            gaps.append("tool_outcomes.effect")
        return gaps


_ORIGINS: Final = {
    ErrorCode.MAX_TURNS: Origin.LIMIT,
    ErrorCode.BUDGET_EXCEEDED: Origin.LIMIT,
    ErrorCode.CANCELED: Origin.HOST,
    ErrorCode.INTERRUPTED: Origin.HOST,
    ErrorCode.POLICY_DENIED: Origin.HOST,
}


def to_error(exception: BaseException, codes: Mapping[str, ErrorCode]) -> AgentError:
    """Classify *exception*, by *codes* if it has the name of its class or of a base class.

    The type of the error is the exception's class unless the provider named one.
    """
    error = _classify(exception)
    names = (each.__name__ for each in type(exception).__mro__)
    code = next((codes[name] for name in names if name in codes), None)
    if code is None:
        wait = as_amount(look_up(exception, "retry_after"))
        if error.retry_after_s is None and wait is not None:
            error = msgspec.structs.replace(error, retry_after_s=float(wait))
        return error
    return msgspec.structs.replace(
        error,
        code=code,
        type=type(exception).__name__,
        retryable=is_retryable(code, None),
        origin=_ORIGINS.get(code, error.origin),
    )


def find_failure(exception: BaseException, codes: Mapping[str, ErrorCode]) -> Findings:
    """Read *exception*; ``codes`` as for :func:`to_error`.

    The provider is in ``llm_provider``, the model in ``model`` or ``model_name``, and limits are in
    the headers that the exception or one of its causes carries.
    """
    error = to_error(exception, codes)
    headers = find_headers(exception)
    data: JsonObject = {
        **find_texts(exception, provider="llm_provider", model="model_name"),
        **find_texts(exception, model="model", request_id="request_id"),
        "raw_headers": {**headers},
        "error_type_raw": error.details.get(PROVIDER_TYPE, error.type),
        "error_code_raw": error.provider_code,
    }
    limited = error.code == ErrorCode.RATE_LIMIT
    return Findings(
        raw=exception,
        error=error,
        rate_limit=find_rate_limit(headers, limited=limited, retry_after_s=error.retry_after_s),
        provider_data={name: value for name, value in data.items() if value},
        unknown={"messages"},
    )


def find_outcome(value: object) -> ToolOutcome | None:
    """Return the outcome that a tool of ours left beside its text; None if *value* is not one.

    Args:
        value: The outcome itself, or its JSON form.
    """
    if isinstance(value, ToolOutcome):
        return value
    if not as_text(look_up(value, "kind")).startswith("tool_"):
        return None
    try:
        return msgspec.convert(value, ToolOutcome)
    except msgspec.ValidationError:
        return None


def without_zeros(usage: Usage) -> Usage:
    """Return the usage of a library whose counts start at zero: a zero there may be unknown.

    Every call has input and output, so the parts of these are meant.
    """
    names = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    zeros = {name: None for name in names if not getattr(usage, name)}
    return msgspec.structs.replace(usage, **zeros)


def to_pending(call: ToolCall, tool_name: str = "") -> PendingApproval:
    """Return the approval that *call* waits for."""
    arguments = parse_json(call.arguments) if isinstance(call.arguments, str) else call.arguments
    return PendingApproval(
        call_id=call.id,
        tool_name=tool_name or call.name,
        arguments=arguments if isinstance(arguments, dict) else {},
    )


def _classify(exception: BaseException) -> AgentError:
    """Classify by the provider's reply if *exception* quotes it, else by the whole exception.

    Pydantic AI's own text mentions the model, which must not count as the provider's complaint.
    """
    status, body = as_count(look_up(exception, "status_code")), look_up(exception, "body")
    if status is None or not as_text(look_up(exception, "model_name")):
        return classify_error(exception=exception)
    raw = body.encode() if isinstance(body, str) else encode_json(as_json(body))
    error = classify_error(
        status=status, body=b"" if body is None else raw, headers=find_headers(exception)
    )
    message = one_line(str(exception)) if body is None else error.message
    details: JsonObject = {PROVIDER_TYPE: error.type} if error.type else {}
    return msgspec.structs.replace(
        error,
        message=message,
        type=type(exception).__name__,
        details={**error.details, **details},
    )
