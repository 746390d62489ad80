"""Strands Agents: an ``AgentResult``, a message or a list of messages, or an exception.

Source:
    strands-agents 1.62, ``agent/agent_result.py``, ``telemetry/metrics.py``, ``types/content.py``
    and ``types/exceptions.py``, read in 2026. Its result has the last message only; the others are
    in the traces of its metrics. Whether its input includes what was cached depends on the model
    class, and its total tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from upshot.adapters.findings import Findings, find_failure
from upshot.contract.base.enums import ErrorCode, FinishReason, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import PendingQuestion
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Usage
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_moment,
    as_text,
    find_usage,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason
from upshot.wire.decoding import encode_json

_CODES: Final = {
    "ConcurrencyException": ErrorCode.CONFLICT,
    "ContextWindowOverflowException": ErrorCode.CONTEXT_LENGTH,
    "MaxTokensReachedException": ErrorCode.INVALID_OUTPUT,
    "ModelThrottledException": ErrorCode.RATE_LIMIT,
    "StructuredOutputException": ErrorCode.INVALID_OUTPUT,
}
_LENGTH: Final = "MaxTokensReachedException"
# Reasons that no model gives: the agent itself stopped.
_STOPS: Final = {
    "cancelled": (ErrorCode.CANCELED, "the agent was cancelled"),
    "limit_output_tokens": (ErrorCode.BUDGET_EXCEEDED, "the limit on output tokens was reached"),
    "limit_total_tokens": (ErrorCode.BUDGET_EXCEEDED, "the limit on tokens was reached"),
    "limit_turns": (ErrorCode.MAX_TURNS, "the limit on turns was reached"),
}
# Where the pieces of a reply are.
_DELTAS: Final = {
    "text": ("text",),
    "thought": ("reasoningContent", "text"),
    "signature": ("reasoningContent", "signature"),
    "input": ("toolUse", "input"),
}
_FILTERED: Final = frozenset({"content_filtered", "guardrail_intervened"})


def from_strands(native: object) -> AgentResult[Json]:
    """Make a result of what Strands Agents returned or raised.

    Args:
        native: An ``AgentResult``, a message, the list of messages of an agent, or an exception.
            Of a list, what follows the user's last text is the run.

    Returns:
        The result. A run that was interrupted for people is parked. ``metadata["unknown"]`` lists
        the facts that *native* lacks, such as the model. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    findings, messages = Findings(raw=native), as_items(native)
    if messages or look_up(native, "role") is not None:
        _add_history(findings, messages or [native])
    else:
        _add_result(findings, native)
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    inner = look_up(exception, "original_exception")
    if isinstance(inner, BaseException):
        findings = to_failure(inner)
        findings.raw = exception
        return findings
    findings = find_failure(exception, _CODES)
    if type(exception).__name__ == _LENGTH:
        findings.finish_reason = FinishReason.LENGTH
    return findings


def read_messages(messages: list[object]) -> list[Message]:
    """Read messages of all roles, in order; never raises."""
    findings = Findings(raw=None)
    for message in messages:
        _add_message(findings, message)
    return findings.messages


def read_reply(events: list[object], model: str) -> ModelResponse:
    """Read the events of one reply of the model called *model*; never raises."""
    blocks, findings = [dict[str, str]()], Findings(raw=events)
    reason, usage = "", None
    for event in events:
        start = look_up(event, "contentBlockStart", "start", "toolUse")
        delta = look_up(event, "contentBlockDelta", "delta")
        if look_up(event, "contentBlockStart") is not None:
            blocks.append({})
        if start is not None:
            blocks[-1] |= {"id": as_text(look_up(start, "toolUseId"))}
            blocks[-1] |= {"name": as_text(look_up(start, "name")), "input": ""}
        for name, path in _DELTAS.items():
            piece = as_text(look_up(delta, *path))
            blocks[-1][name] = blocks[-1].get(name, "") + piece
        reason = as_text(look_up(event, "messageStop", "stopReason")) or reason
        usage = look_up(event, "metadata", "usage") or usage
    text = "".join(block.get("text", "") for block in blocks)
    thoughts = [
        Reasoning(text=block["thought"], signature=block.get("signature") or None)
        for block in blocks
        if block.get("thought")
    ]
    calls = [
        ToolCall(block["id"], block["name"], block.get("input") or {})
        for block in blocks
        if block.get("name")
    ]
    findings.say(text, thoughts, calls)
    _add_stop(findings, reason)
    return ModelResponse(
        parts=findings.messages[0].parts,
        usage=usage_of(usage, calls=1),
        finish_reason=findings.finish_reason,
        error=findings.error,
        provider_data={"model": model, "finish_raw": reason},
        local=Local(raw=events),
    )


def _add_result(findings: Findings, result: object) -> None:
    metrics = look_up(result, "metrics")
    traces = list(_all_traces(as_items(look_up(metrics, "traces"))))
    for trace in traces:
        if (message := look_up(trace, "message")) is not None:
            start, end = (as_amount(look_up(trace, name)) for name in ("start_time", "end_time"))
            spent = end - start if start is not None and end is not None else None
            _add_message(findings, message, elapsed_s=spent)
    if not findings.messages:
        _add_message(findings, look_up(result, "message"))
    invocation = as_items(look_up(metrics, "agent_invocations"))[-1:]
    counted = look_up(invocation[0], "usage") if invocation else None
    cycles = len(as_items(look_up(invocation[0], "cycles"))) if invocation else 0
    usage = look_up(metrics, "accumulated_usage") if counted is None else counted
    findings.usage = usage_of(usage, calls=cycles or 1)
    _add_times(findings, traces)
    _add_stop(findings, as_text(look_up(result, "stop_reason")))
    structured = look_up(result, "structured_output")
    findings.output = None if structured is None else as_json(structured)
    for wait in as_items(look_up(result, "interrupts")):
        name, reason = as_text(look_up(wait, "name")), look_up(wait, "reason")
        text = as_text(reason) or ("" if reason is None else encode_json(as_json(reason)).decode())
        question = ": ".join(part for part in (name, text) if part)
        findings.pending.append(PendingQuestion(id=as_text(look_up(wait, "id")), question=question))


def _all_traces(traces: list[object]) -> Iterator[object]:
    """Yield traces and those inside them, in order."""
    for trace in traces:
        yield trace
        yield from _all_traces(as_items(look_up(trace, "children")))


def _add_times(findings: Findings, traces: list[object]) -> None:
    starts = [moment for one in traces if (moment := as_moment(look_up(one, "start_time")))]
    ends = [moment for one in traces if (moment := as_moment(look_up(one, "end_time")))]
    if starts:
        begun: datetime = min(starts)
        findings.started_at = begun
        if ends:
            findings.duration_ms = round((max(ends) - begun).total_seconds() * 1000)


def _add_stop(findings: Findings, reason: str) -> None:
    if reason in _STOPS:
        code, text = _STOPS[reason]
        findings.fail(text, code=code, type=reason)
    elif reason in _FILTERED:
        findings.finish_reason = FinishReason.CONTENT_FILTER
        findings.fail("the reply was withheld", code=ErrorCode.CONTENT_FILTER, type=reason)
    elif reason not in ("interrupt", "checkpoint"):
        findings.finish_reason = parse_finish_reason(reason)


def _add_history(findings: Findings, messages: list[object]) -> None:
    asked = [
        place
        for place, message in enumerate(messages)
        if look_up(message, "role") == "user" and _text(message)
    ]
    begin = asked[-1] + 1 if asked else 0
    earlier = Findings(raw=None)
    for message in messages[:begin]:
        _add_message(earlier, message)
    findings.seeded = earlier.messages
    for message in messages[begin:]:
        _add_message(findings, message)
    replies = [one for one in messages[begin:] if look_up(one, "role") == "assistant"]
    for reply in replies:
        findings.usage += usage_of(look_up(reply, "metadata", "usage"), calls=1)


def _text(message: object) -> str:
    parts = as_items(look_up(message, "content"))
    return "".join(as_text(look_up(part, "text")) for part in parts)


def _add_message(findings: Findings, message: object, *, elapsed_s: object = None) -> None:
    text, thoughts, calls = _text(message), list[Reasoning](), list[ToolCall]()
    for part in as_items(look_up(message, "content")):
        if (thought := look_up(part, "reasoningContent", "reasoningText")) is not None:
            signature = as_text(look_up(thought, "signature")) or None
            thoughts.append(Reasoning(text=as_text(look_up(thought, "text")), signature=signature))
        if (call := look_up(part, "toolUse")) is not None:
            calls.append(read_call(call))
        if (result := look_up(part, "toolResult")) is not None:
            _add_tool_result(findings, result, elapsed_s)
    if look_up(message, "role") == "assistant":
        if text or thoughts or calls:
            findings.say(text, thoughts, calls)
    elif text:
        findings.messages.append(Message(Role.USER, text))


def read_call(part: object) -> ToolCall:
    """Read a call of a tool."""
    ident, name = as_text(look_up(part, "toolUseId")), as_text(look_up(part, "name"))
    return ToolCall(ident, name, as_arguments(look_up(part, "input")))


def _add_tool_result(findings: Findings, result: object, elapsed_s: object) -> None:
    parts = as_items(look_up(result, "content"))
    values = [look_up(part, "json") for part in parts]
    text = "".join(as_text(look_up(part, "text")) for part in parts)
    # One JSON block is the tool's return value; several blocks have no other common form.
    output: object = values[0] if len(values) == 1 and values[0] is not None else text
    if len(parts) > 1 and any(value is not None for value in values):
        output = as_json(parts)
    findings.answer(
        as_text(look_up(result, "toolUseId")),
        output,
        failed=look_up(result, "status") == "error",
        elapsed_s=elapsed_s,
    )


def usage_of(usage: object, *, calls: int) -> Usage:
    """Read a ``Usage``: the input may exclude what was cached, and the total never does."""
    found = find_usage(
        usage,
        calls=calls,
        input_tokens="inputTokens",
        output_tokens="outputTokens",
        cache_read_tokens="cacheReadInputTokens",
        cache_write_tokens="cacheWriteInputTokens",
    )
    total, given = as_count(look_up(usage, "totalTokens")), found.output_tokens
    if total is None or given is None or total < given:
        return found
    return msgspec.structs.replace(found, input_tokens=total - given, total_tokens=None)
