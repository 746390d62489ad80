"""Google's Agent Development Kit: the events of a run, one event or ``LlmResponse``, an exception.

Source:
    google-adk 2.13, ``events/event.py``, ``models/llm_response.py``, ``models/lite_llm.py`` and
    ``flows/llm_flows``, read in 2026. The input includes what was cached. Whether the output
    includes reasoning depends on the model class, and the total tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from upshot.adapters.findings import Findings, find_failure, to_pending
from upshot.contract.base.enums import ErrorCode, FinishReason, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import PendingExternal
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Usage
from upshot.native.objects import (
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_text,
    find_texts,
    find_usage,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason, settle_finish

_CODES: Final = {"LlmCallsLimitExceededError": ErrorCode.MAX_TURNS}
_ERRORS: Final = {"MODEL_RETURNED_NO_CONTENT": ErrorCode.EMPTY_REPLY}
# Calls that the kit itself makes up to ask for something.
_CONFIRMATION, _CREDENTIAL = "adk_request_confirmation", "adk_request_credential"


def from_adk(native: object) -> AgentResult[Json]:
    """Make a result of what the Agent Development Kit returned or raised.

    Args:
        native: The list of events of a run, one ``Event``, an ``LlmResponse``, or an exception.

    Returns:
        The result. A run whose last event waits for a confirmation or for a long-running tool is
        parked. The kit reports a reply that was cut at its limit as an error: here it is the
        finish reason. ``metadata["unknown"]`` lists the facts that *native* lacks. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    findings = Findings(raw=native)
    events = as_items(native) or [native]
    for event in events:
        if look_up(event, "partial") is not True:
            _add_event(findings, event)
    _add_waits(findings, events)
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    return find_failure(exception, _CODES)


def read_reply(response: object) -> ModelResponse:
    """Read an ``LlmResponse``; never raises."""
    findings = Findings(raw=response)
    _add_reply(findings, response, as_items(look_up(response, "content", "parts")))
    return ModelResponse(
        parts=findings.messages[0].parts if findings.messages else (),
        usage=findings.usage,
        finish_reason=findings.finish_reason,
        error=findings.error,
        provider_data=findings.provider_data,
        local=Local(raw=response),
    )


def _add_event(findings: Findings, event: object) -> None:
    author, content = as_text(look_up(event, "author")), look_up(event, "content")
    parts = as_items(look_up(content, "parts"))
    if author == "user":
        findings.seeded.append(Message(Role.USER, _text(parts)))
        return
    answers = [one for part in parts if (one := look_up(part, "function_response")) is not None]
    for answer in answers:
        _add_answer(findings, answer)
    if answers:
        return
    findings.agent_id = author or findings.agent_id
    findings.run_id = as_text(look_up(event, "invocation_id")) or findings.run_id
    _add_reply(findings, event, parts)


def _add_reply(findings: Findings, event: object, parts: list[object]) -> None:
    calls = [
        _call(one)
        for part in parts
        if (one := look_up(part, "function_call")) is not None
        and look_up(one, "name") not in (_CONFIRMATION, _CREDENTIAL)
    ]
    thoughts = [
        Reasoning(text=as_text(look_up(part, "text")), provider="google")
        for part in parts
        if look_up(part, "thought") is True
    ]
    if (text := _text(parts)) or thoughts or calls:
        findings.say(text, thoughts, calls)
    usage, reason = look_up(event, "usage_metadata"), as_text(look_up(event, "finish_reason"))
    if usage is not None or reason:
        findings.usage += usage_of(usage)
        # The kit's own word for a reply with calls is stop.
        findings.finish_reason = settle_finish(parse_finish_reason(reason), calls=bool(calls))
    findings.provider_data = {
        **findings.provider_data,
        **find_texts(event, model="model_version", finish_raw="finish_reason"),
    }
    _add_error(findings, event)


def _add_error(findings: Findings, event: object) -> None:
    code = as_text(look_up(event, "error_code"))
    text = as_text(look_up(event, "error_message")) or code
    findings.error = None
    if not code or parse_finish_reason(code) is FinishReason.LENGTH:
        return
    if findings.finish_reason is FinishReason.CONTENT_FILTER:
        findings.fail(text, code=ErrorCode.CONTENT_FILTER, type=code)
    else:
        findings.fail(text, code=_ERRORS.get(code), type=code)


def _text(parts: list[object]) -> str:
    spoken = (part for part in parts if look_up(part, "thought") is not True)
    return "".join(as_text(look_up(part, "text")) for part in spoken)


def _call(call: object) -> ToolCall:
    ident, name = as_text(look_up(call, "id")), as_text(look_up(call, "name"))
    return ToolCall(ident, name, as_arguments(look_up(call, "args")))


def _add_answer(findings: Findings, answer: object) -> None:
    response = as_json(look_up(answer, "response"))
    # The kit wraps what is not an object, and reports an error under a name of its own.
    failed = isinstance(response, dict) and response.keys() == {"error"}
    if isinstance(response, dict) and len(response) == 1:
        response = response.get("error" if failed else "result", response)
    ident, name = as_text(look_up(answer, "id")), as_text(look_up(answer, "name"))
    if name not in (_CONFIRMATION, _CREDENTIAL):
        findings.answer(ident, response, name=name, failed=failed)


def _add_waits(findings: Findings, events: list[object]) -> None:
    """Add what the last events wait for."""
    asked = {call.id: call for message in findings.messages for call in message.tool_calls}
    waiting: dict[str, Any] = {}
    for event in events:
        confirmations = look_up(event, "actions", "requested_tool_confirmations")
        if isinstance(confirmations, Mapping):
            waiting.update(cast("Mapping[str, Any]", confirmations))
    for ident in waiting:
        findings.pending.append(to_pending(asked.get(ident) or ToolCall(ident, "", {})))
    last = look_up(events[-1], "long_running_tool_ids") if events else None
    for ident in sorted(map(as_text, cast("set[object]", last or ()))):
        call = asked.get(ident)
        if call is not None and ident not in waiting:
            findings.pending.append(PendingExternal(id=ident, description=call.name))


def usage_of(usage: object) -> Usage:
    """Read the usage of one reply; its total shows whether its output excludes reasoning."""
    found = find_usage(
        usage,
        calls=1,
        input_tokens="prompt_token_count",
        output_tokens="candidates_token_count",
        cache_read_tokens="cached_content_token_count",
        reasoning_tokens="thoughts_token_count",
    )
    total, taken = as_count(look_up(usage, "total_token_count")), found.input_tokens
    if total is None or taken is None or total < taken:
        return found
    return msgspec.structs.replace(found, output_tokens=total - taken, total_tokens=None)
