"""Pydantic AI: an ``AgentRunResult``, a ``ModelResponse``, or an exception.

Source:
    pydantic-ai 2.68, ``run.py``, ``messages.py``, ``usage.py`` and ``exceptions.py``, read in
    2026. Its usage has the convention of the contract: the input includes what was cached, the
    output includes reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, cast

import msgspec

from upshot.adapters.findings import Findings, find_failure, find_outcome, to_pending
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, FinishReason, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Part, Reasoning, Text
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import Pending, PendingExternal
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
)
from upshot.contract.usage import Cost, Usage
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_object,
    as_text,
    find_texts,
    find_usage,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason
from upshot.wire.decoding import encode_json

_CODES: Final = {
    "ConcurrencyLimitExceeded": ErrorCode.BUDGET_EXCEEDED,
    "ContentFilterError": ErrorCode.CONTENT_FILTER,
    "ModelContextWindowExceededError": ErrorCode.CONTEXT_LENGTH,
    "RunCancelled": ErrorCode.CANCELED,
    "RunTimedOut": ErrorCode.TIMEOUT,
    "UnexpectedModelBehavior": ErrorCode.INVALID_OUTPUT,
    "UsageLimitExceeded": ErrorCode.BUDGET_EXCEEDED,
    "UserError": ErrorCode.INVALID_REQUEST,
}
_TRUNCATED: Final = "OutputTokenLimitExceeded"
_OLD_REASONING: Final = "details.reasoning_tokens"
_REFUSED: Final = {"denied": DeniedReason.WRITE_DENIED, "interrupted": DeniedReason.CANCELLED}


def from_pydantic_ai(native: object) -> AgentResult[Json]:
    """Make a result of what Pydantic AI returned or raised.

    Args:
        native: An ``AgentRunResult``, a message of kind response, or an exception; the exception
            of a cancelled run carries its messages and usage.

    Returns:
        The result. A run whose output is deferred calls is parked. The call that returns a
        structured answer is not among its tool outcomes. ``metadata["unknown"]`` lists the facts
        that *native* lacks. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    if look_up(native, "kind") == "response":
        findings = Findings(raw=native)
        _add_messages(findings, [native], answer_tool="")
        findings.usage = _usage(look_up(native, "usage"), calls=1)
        findings.cost = _cost(look_up(native, "usage"))
        return findings.to_result()
    findings = Findings(
        raw=native,
        output=look_up(native, "output"),
        run_id=as_text(look_up(native, "run_id")),
        context_id=as_text(look_up(native, "conversation_id")),
    )
    _add_run(findings, native)
    _add_pending(findings)
    return findings.to_result()


def read_response(message: object) -> ModelResponse:
    """Read a ``ModelResponse``, with its parts in their order; never raises."""
    findings, provider = Findings(raw=message), as_text(look_up(message, "provider_name"))
    _add_response(findings, message)
    usage = look_up(message, "usage")
    return ModelResponse(
        parts=tuple(_parts(as_items(look_up(message, "parts")), provider)),
        usage=_usage(usage, calls=1),
        cost=_cost(usage),
        finish_reason=findings.finish_reason,
        provider_data=findings.provider_data,
        local=Local(raw=message),
    )


def read_messages(messages: Iterable[object]) -> list[Message]:
    """Read messages of both kinds, in order; never raises."""
    findings = Findings(raw=None)
    _add_messages(findings, list(messages), answer_tool="")
    return [*findings.seeded, *findings.messages]


def usage_of(run: object) -> object:
    """Return the usage of a run; in older versions it is a method."""
    usage = look_up(run, "usage")
    return _called(usage) if look_up(usage, "requests") is None else usage


def _parts(parts: list[object], provider: str) -> Iterator[Part]:
    for part in parts:
        match as_text(look_up(part, "part_kind")):
            case "text":
                yield Text(as_text(look_up(part, "content")))
            case "speech":
                yield Text(as_text(look_up(part, "transcript")))
            case "thinking":
                yield _thought(part, provider)
            case "tool-call":
                yield _call(part)
            case _:
                pass


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    exceptions = as_items(look_up(exception, "exceptions"))
    if exceptions and isinstance(exceptions[-1], BaseException):
        # Several models were tried: the failure of the last one is the run's failure.
        findings = to_failure(exceptions[-1])
        findings.raw = exception
        return findings
    findings = find_failure(exception, _CODES)
    if any(each.__name__ == _TRUNCATED for each in type(exception).__mro__):
        findings.finish_reason = FinishReason.LENGTH
    if look_up(exception, "new_messages") is not None:
        findings.unknown.discard("messages")
        findings.run_id = as_text(look_up(exception, "run_id"))
        findings.context_id = as_text(look_up(exception, "conversation_id"))
        _add_run(findings, exception)
    return findings


def _add_run(findings: Findings, run: object) -> None:
    """Add messages and usage of a result, or of an exception that carries them."""
    produced = as_items(_called(look_up(run, "new_messages")))
    everything = as_items(_called(look_up(run, "all_messages")))
    history = everything[: len(everything) - len(produced)]
    earlier = Findings(raw=None)
    _add_messages(earlier, history, answer_tool="")
    findings.seeded = [*earlier.seeded, *earlier.messages]
    _add_messages(findings, produced, answer_tool=as_text(look_up(run, "_output_tool_name")))
    usage = usage_of(run)
    findings.usage = _usage(usage, calls=as_count(look_up(usage, "requests")) or 0)
    findings.cost = _cost(usage)


def _called(value: object) -> object:
    """Call *value* if it is a method; some versions have methods where others have attributes."""
    if not callable(value):
        return value
    try:
        return cast("Callable[[], object]", value)()
    # Foreign code: a method that raises counts as a missing value.
    except Exception:
        return None


def _usage(usage: object, *, calls: int) -> Usage:
    # Older versions have reasoning in the details only.
    is_old = not look_up(usage, "output_reasoning_tokens") and look_up(
        usage, *_OLD_REASONING.split(".")
    )
    found = find_usage(
        usage,
        calls=calls,
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        cache_read_tokens="cache_read_tokens",
        cache_write_tokens="cache_write_tokens",
        reasoning_tokens=_OLD_REASONING if is_old else "output_reasoning_tokens",
        input_audio_tokens="input_audio_tokens",
        output_audio_tokens="output_audio_tokens",
    )
    unmeasured = as_count(look_up(usage, "unmeasured_requests"))
    if found.unmeasured_calls or not unmeasured:
        return found
    return msgspec.structs.replace(found, unmeasured_calls=unmeasured)


def _cost(usage: object) -> Cost | None:
    amount = as_amount(look_up(usage, "cost"))
    return None if amount is None else Cost(total=amount, source="pydantic-ai")


def _add_messages(findings: Findings, messages: list[object], *, answer_tool: str) -> None:
    for message in messages:
        if look_up(message, "kind") == "response":
            _add_response(findings, message)
            continue
        for part in as_items(look_up(message, "parts")):
            _add_request_part(findings, part, answer_tool)


def _add_response(findings: Findings, message: object) -> None:
    provider = as_text(look_up(message, "provider_name"))
    texts: list[str] = []
    thoughts: list[Reasoning] = []
    calls: list[ToolCall] = []
    for part in as_items(look_up(message, "parts")):
        match as_text(look_up(part, "part_kind")):
            case "text":
                texts.append(as_text(look_up(part, "content")))
            case "speech":
                texts.append(as_text(look_up(part, "transcript")))
            case "thinking":
                thoughts.append(_thought(part, provider))
            case "tool-call":
                calls.append(_call(part))
            case _:
                pass
    findings.say("".join(texts), thoughts, calls)
    findings.finish_reason = parse_finish_reason(as_text(look_up(message, "finish_reason")))
    known = find_texts(
        message,
        provider="provider_name",
        model="model_name",
        response_id="provider_response_id",
        finish_raw="provider_details.finish_reason",
    )
    findings.provider_data = {**findings.provider_data, **known}


def _thought(part: object, provider: str) -> Reasoning:
    return Reasoning(
        text=as_text(look_up(part, "content")),
        signature=as_text(look_up(part, "signature")) or None,
        provider=as_text(look_up(part, "provider_name")) or provider,
        id=as_text(look_up(part, "id")),
    )


def _call(part: object) -> ToolCall:
    return ToolCall(
        as_text(look_up(part, "tool_call_id")),
        as_text(look_up(part, "tool_name")),
        as_arguments(look_up(part, "args")),
    )


def _add_request_part(findings: Findings, part: object, answer_tool: str) -> None:
    kind, content = as_text(look_up(part, "part_kind")), look_up(part, "content")
    text = content if isinstance(content, str) else encode_json(as_json(content)).decode()
    # Messages before the first answer are the request or older.
    into = findings.messages or findings.seeded
    match kind:
        case "system-prompt":
            into.append(Message(Role.SYSTEM, text))
        case "user-prompt":
            into.append(Message(Role.USER, _prompt(content)))
        case "tool-return" | "retry-prompt" if as_text(look_up(part, "tool_name")):
            ident, name = (
                as_text(look_up(part, "tool_call_id")),
                as_text(look_up(part, "tool_name")),
            )
            into.append(Message(Role.TOOL, text, tool_call_id=ident, name=name))
            if name != answer_tool:
                findings.outcomes.append(_outcome(part, ident, name, text))
        case "retry-prompt" | "retry-feedback":
            into.append(Message(Role.USER, text))
        case _:
            pass


def _prompt(content: object) -> str:
    """Return the text of a prompt, without its other parts."""
    texts = (
        as_text(item) or as_text(look_up(item, "content"))
        for item in as_items(content) or [content]
    )
    return "\n".join(text for text in texts if text)


def _outcome(part: object, ident: str, name: str, text: str) -> ToolOutcome:
    ours = find_outcome(look_up(part, "metadata"))
    if ours is not None:
        # A tool of ours: its own outcome has more detail.
        return ours
    word = as_text(look_up(part, "outcome"))
    if word in _REFUSED:
        return ToolDenied(ident, name, reason=_REFUSED[word], details=text)
    if word == "retried" or look_up(part, "part_kind") == "retry-prompt":
        return ToolFailure(ident, name, error=text)
    if word == "failed":
        return ToolFailure(ident, name, error=text, retryable=False)
    output = as_object(look_up(part, "content"))
    return ToolExecutionResult(ident, name, output=output, effect=Effect.UNKNOWN)


def _add_pending(findings: Findings) -> None:
    """If the output is deferred calls, the run waits for them."""
    output = findings.output
    approvals, calls = look_up(output, "approvals"), look_up(output, "calls")
    if not isinstance(approvals, list) or not isinstance(calls, list):
        return
    waits: list[Pending] = [to_pending(_call(part)) for part in as_items(cast("object", approvals))]
    for part in as_items(cast("object", calls)):
        call = _call(part)
        waits.append(PendingExternal(id=call.id, description=call.name))
    if waits:
        findings.pending, findings.output = waits, None
