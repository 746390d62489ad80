"""A smolagents ``ChatMessage``, as a model's reply.

Source:
    smolagents 1.26, ``models.py`` and ``monitoring.py``, read in 2026. ``TokenUsage`` has the
    figures of the API as they came: for the OpenAI shape, cached tokens are within the input.
"""

from __future__ import annotations

from typing import cast

import msgspec

from ..contract import Json, Local, ModelResponse, ToolCall, Usage
from .completion import read_completion
from .headers import find_headers, find_rate_limit
from .reader import as_arguments, as_count, as_items, as_json, as_text, look

__all__ = ["read_call", "read_smolagents_message", "read_smolagents_text", "read_smolagents_usage"]


def read_smolagents_message(message: object, *, now: float | None = None) -> ModelResponse:
    """Read a ``ChatMessage``.

    Args:
        message: The object, or its ``dict()``.
        now: When it came, in unix seconds, for rate limits; None takes this moment.

    Returns:
        What the message and the API's reply under ``raw`` say. Never raises.
    """
    raw = look(message, "raw")
    reply = read_completion(raw, now=now) if as_items(look(raw, "choices")) else _bare(raw)
    usage = read_smolagents_usage(look(message, "token_usage"))
    return msgspec.structs.replace(
        reply,
        content=read_smolagents_text(look(message, "content")) or None,
        tool_calls=tuple(read_call(call) for call in as_items(look(message, "tool_calls"))),
        # The API's own figures say more, such as what was cached.
        usage=reply.usage if reply.usage or not usage else usage,
        local=Local(raw=raw),
    )


def read_smolagents_usage(usage: object) -> Usage:
    """Read a ``TokenUsage``; falsy where it has no figures."""
    return Usage(
        input_tokens=as_count(look(usage, "input_tokens")),
        output_tokens=as_count(look(usage, "output_tokens")),
        api_calls=1,
    )


def read_smolagents_text(content: object) -> str:
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, list | tuple):
        parts = as_items(cast("object", content))
        return "".join(as_text(look(part, "text")) for part in parts)
    if content is None or isinstance(content, str):
        return as_text(content)
    # Its dict() turns text that looks like JSON into what it says.
    return msgspec.json.encode(as_json(content)).decode()


def read_call(call: object) -> ToolCall:
    """Read a call, of a message (under ``function``) or of a step's memory."""
    function = look(call, "function")
    inner = call if function is None else function
    return ToolCall(
        as_text(look(call, "id")),
        as_text(look(inner, "name")),
        as_arguments(look(inner, "arguments")),
    )


def _bare(raw: object) -> ModelResponse:
    """What a reply of another shape says: its headers at most."""
    headers = find_headers(raw)
    return ModelResponse(
        usage=Usage(api_calls=1, unmeasured_calls=1),
        rate_limit=find_rate_limit(headers),
        provider_data={"raw_headers": dict[str, Json](headers)} if headers else {},
    )
