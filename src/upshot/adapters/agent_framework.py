"""Microsoft Agent Framework: an ``AgentResponse``, a ``ChatResponse``, messages, an exception.

Source:
    agent-framework-core 1.23, ``_types.py`` and ``exceptions.py``, and agent-framework-openai
    1.17, read in 2026. The input includes what was cached, the output includes reasoning.
"""

from __future__ import annotations

from typing import Final

from upshot.adapters.findings import Findings, find_failure, to_pending
from upshot.contract.base.enums import ErrorCode, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Usage
from upshot.native.objects import (
    as_arguments,
    as_items,
    as_json,
    as_text,
    find_texts,
    find_usage,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason

_CODES: Final = {
    "AgentContentFilterException": ErrorCode.CONTENT_FILTER,
    "AgentInvalidAuthException": ErrorCode.AUTH_ERROR,
    "AgentInvalidRequestException": ErrorCode.INVALID_REQUEST,
    "AgentInvalidResponseException": ErrorCode.INVALID_OUTPUT,
    "ChatClientContentFilterException": ErrorCode.CONTENT_FILTER,
    "ChatClientInvalidAuthException": ErrorCode.AUTH_ERROR,
    "ChatClientInvalidRequestException": ErrorCode.INVALID_REQUEST,
    "ChatClientInvalidResponseException": ErrorCode.INVALID_OUTPUT,
    "IntegrationInvalidAuthException": ErrorCode.AUTH_ERROR,
}


def from_agent_framework(native: object) -> AgentResult[Json]:
    """Make a result of what Microsoft Agent Framework returned or raised.

    Args:
        native: An ``AgentResponse``, a ``ChatResponse``, a ``Message``, a list of messages, or an
            exception.

    Returns:
        The result. A run that asks for approvals is parked. ``metadata["unknown"]`` lists the
        facts that *native* lacks. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    findings = Findings(raw=native)
    messages = as_items(native) or as_items(look_up(native, "messages"))
    messages = messages or ([native] if look_up(native, "contents") is not None else [])
    for message in messages:
        _add_message(findings, message)
    replies = sum(1 for message in findings.messages if message.role is Role.ASSISTANT)
    findings.usage = _usage(native, calls=max(replies, 1))
    findings.finish_reason = parse_finish_reason(as_text(look_up(native, "finish_reason")))
    value = look_up(native, "value")
    findings.output = None if value is None else as_json(value)
    findings.agent_id = as_text(look_up(native, "agent_id")) or findings.agent_id
    findings.provider_data = {
        # The agent's response has the model only in what it was made of.
        **find_texts(native, model="raw_representation.model"),
        **find_texts(native, model="model", response_id="response_id"),
    }
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    findings = find_failure(exception, _CODES)
    inner = exception.__cause__
    if inner is not None and findings.error is not None and len(exception.args) > 1:
        # Its text is that of a tuple; the client's own says what happened.
        caused = find_failure(inner, _CODES)
        if caused.error is not None:
            caused.raw = exception
            return caused
    return findings


def read_messages(given: list[object]) -> list[Message]:
    """Read the messages that an agent sends to its model; never raises."""
    findings = Findings(raw=None)
    for message in given:
        _add_message(findings, message)
    return [*findings.seeded, *findings.messages]


def read_reply(response: object, model: str) -> ModelResponse:
    """Read a ``ChatResponse`` of the model called *model*; never raises."""
    findings = Findings(raw=response)
    for message in as_items(look_up(response, "messages")):
        _add_message(findings, message)
    return ModelResponse(
        parts=tuple(part for message in findings.messages for part in message.parts),
        finish_reason=parse_finish_reason(as_text(look_up(response, "finish_reason"))),
        usage=_usage(response, calls=1),
        provider_data={
            "model": model,
            **find_texts(response, model="model", response_id="response_id"),
        },
        local=Local(raw=response),
    )


def _usage(native: object, *, calls: int) -> Usage:
    return find_usage(
        look_up(native, "usage_details"),
        calls=calls,
        input_tokens="input_token_count",
        output_tokens="output_token_count",
        total_tokens="total_token_count",
        cache_read_tokens="cache_read_input_token_count",
        cache_write_tokens="cache_creation_input_token_count",
        reasoning_tokens="reasoning_output_token_count",
    )


def _add_message(findings: Findings, message: object) -> None:
    role, contents = as_text(look_up(message, "role")), as_items(look_up(message, "contents"))
    texts, thoughts, calls = list[str](), list[Reasoning](), list[ToolCall]()
    for content in contents:
        match as_text(look_up(content, "type")):
            case "text":
                texts.append(as_text(look_up(content, "text")))
            case "text_reasoning":
                signature = as_text(look_up(content, "protected_data")) or None
                text = as_text(look_up(content, "text"))
                thoughts.append(Reasoning(text=text, signature=signature))
            case "function_call":
                calls.append(read_call(content))
            case kind:
                _add_event(findings, kind, content)
    if role == "assistant":
        findings.agent_id = as_text(look_up(message, "author_name")) or findings.agent_id
        if texts or thoughts or calls:
            findings.say("".join(texts), thoughts, calls)
    elif texts:
        into = findings.messages or findings.seeded
        into.append(Message(Role(role) if role in list(Role) else Role.USER, "".join(texts)))


def _add_event(findings: Findings, kind: str, content: object) -> None:
    """Add a content that no model wrote."""
    if kind == "function_result":
        _add_answer(findings, content)
    elif kind == "function_approval_request":
        findings.pending.append(to_pending(read_call(look_up(content, "function_call"))))
    elif kind == "error":
        text, code = look_up(content, "message"), look_up(content, "error_code")
        findings.fail(as_text(text), type=as_text(code))


def read_call(content: object) -> ToolCall:
    """Read a call of a tool."""
    ident, name = as_text(look_up(content, "call_id")), as_text(look_up(content, "name"))
    return ToolCall(ident, name, as_arguments(look_up(content, "arguments")))


def _add_answer(findings: Findings, content: object) -> None:
    exception = as_text(look_up(content, "exception"))
    result = look_up(content, "result")
    failed = exception if exception and not as_text(result) else result
    ident = as_text(look_up(content, "call_id"))
    findings.answer(ident, failed if exception else result, failed=bool(exception))
