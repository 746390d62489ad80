"""A pi-agent ``AssistantMessage``, as a model's reply.

Source:
    pi-mono, ``packages/ai/src/types.ts`` and ``providers``, read in 2026.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ..contract import (
    AgentError,
    Cost,
    ErrorCode,
    FinishReason,
    JsonObject,
    Local,
    ModelResponse,
    Origin,
    Reasoning,
    ToolCall,
    Usage,
)
from ..wire import classify_error, parse_finish_reason
from .reader import as_amount, as_arguments, as_count, as_items, as_text, look

__all__ = ["read_pi_message"]

# The SDKs that pi calls begin an error's text with the status and go on with the body.
_STATUS: Final = re.compile(r"\s*([45][0-9]{2})\b[:\s]*(.*)", re.DOTALL)


def read_pi_message(message: object) -> ModelResponse:
    """Read an ``AssistantMessage``.

    Args:
        message: The message as JSON gave it, or an object with the same names.

    Returns:
        What it says. pi counts cached tokens beside the input; here they are part of it. Never
        raises.
    """
    provider = as_text(look(message, "provider"))
    parts = as_items(look(message, "content"))
    stop = as_text(look(message, "stopReason"))
    data: JsonObject = {
        "provider": provider,
        "model": as_text(look(message, "responseModel")) or as_text(look(message, "model")),
        "response_id": as_text(look(message, "responseId")),
        "api": as_text(look(message, "api")),
        "finish_raw": stop,
    }
    usage = _usage(message)
    return ModelResponse(
        content="".join(_texts(parts)) or None,
        tool_calls=tuple(_call(part) for part in parts if look(part, "type") == "toolCall"),
        reasoning=tuple(
            _thought(part, provider) for part in parts if look(part, "type") == "thinking"
        ),
        usage=usage,
        cost=_cost(look(message, "usage", "cost")) if usage else None,
        finish_reason=parse_finish_reason(stop),
        error=_error(stop, as_text(look(message, "errorMessage")), provider),
        provider_data={name: value for name, value in data.items() if value},
        local=Local(raw=message),
    )


def _texts(parts: list[object]) -> list[str]:
    return [as_text(look(part, "text")) for part in parts if look(part, "type") == "text"]


def _call(part: object) -> ToolCall:
    return ToolCall(
        as_text(look(part, "id")),
        as_text(look(part, "name")),
        as_arguments(look(part, "arguments")),
        as_text(look(part, "thoughtSignature")) or None,
    )


def _thought(part: object, provider: str) -> Reasoning:
    return Reasoning(
        text=as_text(look(part, "thinking")),
        signature=as_text(look(part, "thinkingSignature")) or None,
        provider=provider,
        redacted=look(part, "redacted") is True,
    )


def _usage(message: object) -> Usage:
    usage = look(message, "usage")
    names = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
    taken, given, read, written, total = (as_count(look(usage, name)) for name in names)
    if not any((taken, given, read, written, total)):
        # pi begins every message with zeros and fills in what it is told.
        return Usage(api_calls=1, unmeasured_calls=1)
    if taken is not None and not _counts_cached(message, taken, given, total):
        taken += (read or 0) + (written or 0)
    return Usage(
        input_tokens=taken,
        output_tokens=given,
        total_tokens=total,
        cache_read_tokens=read,
        cache_write_tokens=written,
        api_calls=1,
    )


def _counts_cached(message: object, taken: int, given: int | None, total: int | None) -> bool:
    """Whether the input has the cached tokens in it, as Google's has and pi passes it on."""
    google = as_text(look(message, "api")).startswith("google")
    return google and given is not None and taken + given == total


def _cost(cost: object) -> Cost | None:
    names = ("input", "output", "cacheRead", "cacheWrite", "total")
    taken, given, read, written, total = (as_amount(look(cost, name)) for name in names)
    # A model without a price costs 0 there, which does not make it free.
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
