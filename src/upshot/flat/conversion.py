"""Between the flat structures and those of the contract."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec

from ..contract import (
    AgentError,
    AgentResult,
    Cost,
    ErrorCode,
    FinishReason,
    Json,
    JsonObject,
    Local,
    Message,
    ModelResponse,
    RateLimitState,
    RateLimitWindow,
    Resource,
    Role,
    Usage,
    coerce_result,
)
from ..contract import ToolCall as Call
from ..contract.own_output import has_own_output
from ..native import (
    as_json,
    as_object,
    as_text,
    look,
    read_pi_message,
    read_smolagents_message,
)
from ..wire import RateLimitInfo, build_rate_limit_state, classify_error
from ..wire.chat import CUSTOM_INPUT
from ..wire.document import encode_json, parse_json
from .response import AgentResponse, CostInfo, ErrorInfo, ToolCall, UsageInfo

__all__ = [
    "from_agent_response",
    "from_pi_agent",
    "from_smolagents",
    "to_agent_response",
    "to_cost",
    "to_error",
    "to_state",
    "to_usage",
]


def to_agent_response(result: ModelResponse | AgentResult[Any]) -> AgentResponse:
    """The flat form of *result*, in which 0 stands for what is not known.

    ``usage`` is always there, and ``rate_limit`` wherever there are headers or an error, so that
    code which asks them first needs no further test.
    """
    error = result.error
    output: object = result.output
    return AgentResponse(
        content=result.content,
        output=as_json(output) if has_own_output(output, result.content) else None,
        tool_calls=[_to_call(call) for call in _calls(result)] or None,
        raw_response=result.raw,
        usage=_to_usage(result.usage, result.cost),
        rate_limit=_to_rate_limit(result),
        finish_reason=result.finish_reason,
        error=None if error is None else _to_error_info(error),
    )


def from_agent_response(response: AgentResponse) -> AgentResult[Json]:
    """The result that *response* is the flat form of.

    A cache count of 0, and a usage of zeros, may mean "not known" there, and so become None. The
    status follows from the error. The only message has the text and the calls.
    """
    error = None if response.error is None else to_error(response.error)
    if error is not None and response.finish_reason is FinishReason.ABORTED:
        error = msgspec.structs.replace(error, code=ErrorCode.CANCELED)
    status = coerce_result(error).status
    calls = tuple(_from_call(call) for call in response.tool_calls or ())
    said = Message(Role.ASSISTANT, response.content or "", tool_calls=calls)
    info, usage = response.rate_limit, response.usage
    headers: JsonObject = {**info.raw_headers} if info is not None else {}
    return AgentResult[Json](
        status=status,
        output=response.content if response.output is None else response.output,
        content=response.content,
        messages=(said,) if response.content or calls else (),
        usage=Usage(api_calls=1, unmeasured_calls=1) if usage is None else to_usage(usage),
        cost=None if usage is None or usage.cost is None else to_cost(usage.cost),
        finish_reason=response.finish_reason,
        error=error,
        rate_limit=None if info is None else to_state(info),
        provider_data={"raw_headers": headers} if headers else {},
        local=Local(raw=response.raw_response),
    )


def from_smolagents(message: object) -> AgentResponse:
    """The flat form of a smolagents ``ChatMessage``.

    A message that does not say why it stopped counts as stop, or as tool_use where it has calls.
    """
    response = to_agent_response(read_smolagents_message(message))
    if response.finish_reason is None and response.success:
        calls = response.tool_calls
        response.finish_reason = FinishReason.TOOL_USE if calls else FinishReason.STOP
    return response


def from_pi_agent(message: object) -> AgentResponse:
    """The flat form of a pi-agent ``AssistantMessage``, as JSON or as an object.

    The cached tokens, which pi counts beside the input, are part of it here.
    """
    response = to_agent_response(read_pi_message(message))
    if response.error is not None:
        kind = as_text(look(message, "stopReason")) or response.error.error_type
        response.error = dataclasses.replace(response.error, error_type=kind)
    return response


def to_error(info: ErrorInfo) -> AgentError:
    """The error that *info* is the flat form of; its code is concluded where it has none."""
    body = encode_json({"error": {"type": info.error_type, "message": info.message}})
    found = classify_error(status=info.status_code, body=body)
    return AgentError(
        ErrorCode(info.code) if info.code else found.code,
        info.message,
        type=info.error_type,
        status_code=info.status_code,
        retryable=info.retryable,
    )


def to_state(info: RateLimitInfo) -> RateLimitState:
    """The state that *info* is the flat form of: of its headers, else of its figures."""
    if info.raw_headers:
        return build_rate_limit_state(info.raw_headers, info.retry_after)
    figures = (
        (Resource.REQUESTS, info.limit_requests, info.remaining_requests),
        (Resource.TOKENS, info.limit_tokens, info.remaining_tokens),
    )
    windows = tuple(
        RateLimitWindow(
            name=str(resource),
            resource=resource,
            limit=limit,
            remaining=remaining,
            reset_at=info.reset_at,
        )
        for resource, limit, remaining in figures
        if limit is not None or remaining is not None
    )
    return RateLimitState(limited=info.is_limited(), retry_after=info.retry_after, windows=windows)


def to_usage(info: UsageInfo) -> Usage:
    """The usage that *info* is the flat form of."""
    if not (info.input_tokens or info.output_tokens or info.total_tokens):
        return Usage(api_calls=1, unmeasured_calls=1)
    return Usage(
        input_tokens=info.input_tokens,
        output_tokens=info.output_tokens,
        total_tokens=info.total_tokens,
        cache_read_tokens=info.cache_read_tokens or None,
        cache_write_tokens=info.cache_write_tokens or None,
        api_calls=1,
    )


def to_cost(info: CostInfo) -> Cost:
    """The cost that *info* is the flat form of: a part of 0 may not be known, a total is."""
    parts = dataclasses.asdict(info)
    return Cost(**{name: part for name, part in parts.items() if part or name == "total"})


def _calls(result: ModelResponse | AgentResult[Any]) -> tuple[Call, ...]:
    if isinstance(result, ModelResponse):
        return result.tool_calls
    spoken = [message for message in result.messages if message.role is Role.ASSISTANT]
    return spoken[-1].tool_calls if spoken else ()


def _to_call(call: Call) -> ToolCall:
    arguments: object = call.arguments
    if isinstance(arguments, str):
        found = parse_json(arguments or "{}")
        arguments = found if isinstance(found, dict) else {CUSTOM_INPUT: arguments}
    return ToolCall(id=call.id, tool=call.name, arguments=as_object(arguments))


def _from_call(call: ToolCall) -> Call:
    return Call(call.id, call.tool, as_object(call.arguments))


def _to_usage(usage: Usage, cost: Cost | None) -> UsageInfo:
    return UsageInfo(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total_tokens or 0,
        cache_read_tokens=usage.cache_read_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens or 0,
        cost=None if cost is None else _to_cost(cost),
    )


def _to_cost(cost: Cost) -> CostInfo:
    return CostInfo(
        input=float(cost.input or 0),
        output=float(cost.output or 0),
        cache_read=float(cost.cache_read or 0),
        cache_write=float(cost.cache_write or 0),
        total=float(cost),
    )


def _to_rate_limit(result: ModelResponse | AgentResult[Any]) -> RateLimitInfo | None:
    headers = result.provider_data.get("raw_headers")
    state, error = result.rate_limit, result.error
    if state is None and error is None and not headers:
        return None
    fields = {name: as_text(text) for name, text in as_object(headers).items()}
    info = RateLimitInfo.from_state(state or RateLimitState(), fields)
    if info.retry_after is None and error is not None and error.retry_after_s is not None:
        info = msgspec.structs.replace(info, retry_after=math.ceil(error.retry_after_s))
    return info


def _to_error_info(error: AgentError) -> ErrorInfo:
    return ErrorInfo(
        error_type=error.type or error.provider_code or str(error.code),
        message=error.message,
        status_code=error.status_code,
        retryable=error.retryable,
        code=str(error.code),
    )
