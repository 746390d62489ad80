"""Reads the messages of pi-agent (``AssistantMessage``) and of smolagents (``ChatMessage``).

Source:
    pi-mono, ``packages/ai/src/types.ts`` and ``providers``, read in 2026.

    smolagents 1.26, ``models.py`` and ``monitoring.py``, read in 2026. ``TokenUsage`` has the
    API's unchanged figures: in the OpenAI shape, the input includes cached tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

import msgspec

from upshot.contract.base.enums import ErrorCode, FinishReason, Origin, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.error import AgentError
from upshot.contract.message import Message, Part, Reasoning, Text
from upshot.contract.model_calls import ModelResponse
from upshot.contract.result import limited_by
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Cost, Usage, measured
from upshot.native.completion import read_completion
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_text,
    find_headers,
    find_rate_limit,
    find_texts,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason
from upshot.wire.error_classification import classify_error

# The SDKs that pi calls start an error's text with the status, followed by the body.
_STATUS: Final = re.compile(r"\s*([45][0-9]{2})\b[:\s]*(.*)", re.DOTALL)


def read_pi_message(message: object) -> ModelResponse:
    """Read an ``AssistantMessage``.

    Args:
        message: The message as parsed JSON, or an object with the same names.

    Returns:
        The reply. pi's input excludes cached tokens; here they are included. Never raises.
    """
    provider = as_text(look_up(message, "provider"))
    parts = as_items(look_up(message, "content"))
    stop = as_text(look_up(message, "stopReason"))
    named = find_texts(
        message, provider="provider", model="model", api="api", finish_raw="stopReason"
    )
    answered = find_texts(message, model="responseModel", response_id="responseId")
    usage = _usage(message)
    error = _error(stop, as_text(look_up(message, "errorMessage")), provider)
    return ModelResponse(
        parts=tuple(_parts_of(parts, provider)),
        usage=usage,
        cost=_cost(look_up(message, "usage", "cost")) if usage else None,
        finish_reason=parse_finish_reason(stop),
        error=error,
        rate_limit=limited_by(error, None),
        provider_data={**named, **answered},
        local=Local(raw=message),
    )


def _parts_of(items: list[object], provider: str) -> Iterator[Part]:
    for item in items:
        match look_up(item, "type"):
            case "text":
                if text := as_text(look_up(item, "text")):
                    yield Text(text)
            case "thinking":
                yield _thought(item, provider)
            case "toolCall":
                yield _call(item)
            case _:
                pass


def _call(part: object) -> ToolCall:
    return ToolCall(
        as_text(look_up(part, "id")),
        as_text(look_up(part, "name")),
        as_arguments(look_up(part, "arguments")),
        as_text(look_up(part, "thoughtSignature")) or None,
    )


def _thought(part: object, provider: str) -> Reasoning:
    return Reasoning(
        text=as_text(look_up(part, "thinking")),
        signature=as_text(look_up(part, "thinkingSignature")) or None,
        provider=provider,
        redacted=look_up(part, "redacted") is True,
    )


def _usage(message: object) -> Usage:
    usage = look_up(message, "usage")
    names = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
    taken, given, read, written, total = (as_count(look_up(usage, name)) for name in names)
    if not any((taken, given, read, written, total)):
        # pi initializes every count with zero, so all zeros means unknown.
        return Usage(api_calls=1, unmeasured_calls=1)
    # Google's input includes the cached tokens, and pi passes it on unchanged.
    is_google = as_text(look_up(message, "api")).startswith("google")
    includes_cached = (
        is_google and None not in (taken, given) and (taken or 0) + (given or 0) == total
    )
    if taken is not None and not includes_cached:
        taken += (read or 0) + (written or 0)
    return Usage(
        input_tokens=taken,
        output_tokens=given,
        total_tokens=total,
        cache_read_tokens=read,
        cache_write_tokens=written,
        api_calls=1,
    )


def _cost(cost: object) -> Cost | None:
    names = ("input", "output", "cacheRead", "cacheWrite", "total")
    taken, given, read, written, total = (as_amount(look_up(cost, name)) for name in names)
    # pi writes 0 for a model without a price, so 0 does not mean free.
    if not any((taken, given, read, written, total)):
        return None
    return Cost(
        input=taken,
        output=given,
        cache_read=read,
        cache_write=written,
        total=total,
        source="pi-agent",
    )


def _error(stop: str, message: str, provider: str) -> AgentError | None:
    if parse_finish_reason(stop) is FinishReason.ABORTED:
        text = message or "the request was aborted"
        return AgentError(ErrorCode.CANCELED, text, type=stop, origin=Origin.HOST)
    if stop != "error" and not message:
        return None
    found = _STATUS.match(message)
    error = classify_error(
        status=int(found[1]) if found else None,
        body=(found[2] if found else message).encode(),
        provider=provider,
    )
    return msgspec.structs.replace(error, type=error.type or stop)


def read_smolagents_message(message: object) -> ModelResponse:
    """Read a ``ChatMessage``.

    Args:
        message: The object, or its ``dict()``.

    Returns:
        The reply, read from the message and from the API's reply under ``raw``. Never raises.
    """
    raw = look_up(message, "raw")
    reply = read_completion(raw) if as_items(look_up(raw, "choices")) else _read_headers_only(raw)
    text = read_smolagents_text(look_up(message, "content"))
    calls = (read_call(call) for call in as_items(look_up(message, "tool_calls")))
    usage = read_smolagents_usage(look_up(message, "token_usage"))
    return msgspec.structs.replace(
        reply,
        parts=(*reply.reasoning, *Message(Role.ASSISTANT, text).parts, *calls),
        # The API's own figures have more detail, such as cached tokens.
        usage=reply.usage if reply.usage or not usage else usage,
        local=Local(raw=raw),
    )


def read_smolagents_usage(usage: object) -> Usage:
    """Read a ``TokenUsage``; falsy if it has no figures."""
    return measured(
        Usage(
            input_tokens=as_count(look_up(usage, "input_tokens")),
            output_tokens=as_count(look_up(usage, "output_tokens")),
            api_calls=1,
        )
    )


def read_smolagents_text(content: object) -> str:
    """Return the text of a message's content: a string, or a list of parts."""
    if isinstance(content, list | tuple):
        parts = as_items(cast("object", content))
        return "".join(as_text(look_up(part, "text")) for part in parts)
    if content is None or isinstance(content, str):
        return as_text(content)
    # Its dict() parses text that looks like JSON.
    return msgspec.json.encode(as_json(content)).decode()


def read_call(call: object) -> ToolCall:
    """Read a tool call of a message (under ``function``) or of a step's memory."""
    function = look_up(call, "function")
    inner = call if function is None else function
    return ToolCall(
        as_text(look_up(call, "id")),
        as_text(look_up(inner, "name")),
        as_arguments(look_up(inner, "arguments")),
    )


def _read_headers_only(raw: object) -> ModelResponse:
    """Return the known facts of a reply in another shape: only its headers, if any."""
    headers = find_headers(raw)
    return ModelResponse(
        usage=Usage(api_calls=1, unmeasured_calls=1),
        rate_limit=find_rate_limit(headers),
        provider_data={"raw_headers": dict[str, Json](headers)} if headers else {},
    )
