"""Reads the replies of LangChain's chat models: ``AIMessage`` and ``AIMessageChunk``.

Source:
    langchain-core 1.7, ``messages/ai.py`` and ``messages/content.py``, and what langchain-openai
    1.7 and langchain-anthropic 1.7 put in them, read in 2026. ``usage_metadata`` follows the
    convention of the contract: the input includes cached tokens, the output includes reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Part, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Usage
from upshot.native.objects import (
    as_arguments,
    as_count,
    as_items,
    as_text,
    find_headers,
    find_rate_limit,
    find_texts,
    find_usage,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason, settle_finish
from upshot.wire.headers import read_request_id

# Each integration uses its provider's own name for it.
_FINISHES: Final = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")
_LIFETIMES: Final = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def read_langchain_message(message: object) -> ModelResponse:
    """Read a message of type ai.

    Args:
        message: The object or its JSON.

    Returns:
        The reply. The headers are known only if the model was created with
        ``include_response_headers=True``, and a streamed reply has no usage unless the provider was
        asked for it. Never raises.
    """
    metadata = look_up(message, "response_metadata")
    provider = as_text(look_up(metadata, "model_provider"))
    finish = next((word for name in _FINISHES if (word := as_text(look_up(metadata, name)))), "")
    calls = tuple(_calls(message))
    headers = find_headers(metadata)
    facts = find_texts(metadata, provider="model_provider", model="model", response_id="id")
    facts |= find_texts(metadata, model="model_name")
    named: dict[str, Json] = {"request_id": read_request_id(headers), "finish_raw": finish}
    raw: dict[str, Json] = {"raw_headers": {**headers}}
    return ModelResponse(
        parts=(
            *_thoughts(message, provider),
            *Message(Role.ASSISTANT, read_langchain_text(look_up(message, "content"))).parts,
            *calls,
        ),
        refusal=as_text(look_up(message, "additional_kwargs", "refusal")) or None,
        usage=_usage(look_up(message, "usage_metadata")),
        finish_reason=settle_finish(parse_finish_reason(finish), calls=bool(calls)),
        rate_limit=find_rate_limit(headers),
        provider_data={name: value for name, value in {**facts, **named, **raw}.items() if value},
        local=Local(raw=message),
    )


def read_langchain_text(content: object) -> str:
    """Return the text of a message's content: a string, or a list of strings and blocks."""
    if isinstance(content, str):
        return as_text(content)
    return "".join(as_text(block) or _text_of(block) for block in as_items(content))


def _text_of(block: object) -> str:
    return (
        as_text(look_up(block, "text")) if look_up(block, "type") in ("text", "output_text") else ""
    )


def _thoughts(message: object, provider: str) -> Iterator[Part]:
    blocks = [
        block for block in as_items(look_up(message, "content")) if not isinstance(block, str)
    ]
    found = [thought for block in blocks if (thought := _thought(block, provider)) is not None]
    yield from found
    alone = as_text(look_up(message, "additional_kwargs", "reasoning_content"))
    if alone and not found:
        yield Reasoning(text=alone, provider=provider)


def _thought(block: object, provider: str) -> Reasoning | None:
    match look_up(block, "type"):
        case "thinking":
            text = as_text(look_up(block, "thinking"))
            signature = as_text(look_up(block, "signature"))
        case "redacted_thinking":
            text, signature = "", as_text(look_up(block, "data"))
        case "reasoning":
            summary = (
                as_text(look_up(part, "text")) for part in as_items(look_up(block, "summary"))
            )
            text = as_text(look_up(block, "reasoning")) or "".join(summary)
            signature = as_text(look_up(block, "encrypted_content"))
            signature = signature or as_text(look_up(block, "extras", "signature"))
        case _:
            return None
    return Reasoning(
        text=text,
        signature=signature or None,
        provider=provider,
        id=as_text(look_up(block, "id")),
        redacted=look_up(block, "type") == "redacted_thinking",
    )


def _calls(message: object) -> Iterator[ToolCall]:
    for name in ("tool_calls", "invalid_tool_calls"):
        for call in as_items(look_up(message, name)):
            yield ToolCall(
                as_text(look_up(call, "id")),
                as_text(look_up(call, "name")),
                as_arguments(look_up(call, "args")),
            )


def _usage(usage: object) -> Usage:
    found = find_usage(
        usage,
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        total_tokens="total_tokens",
        cache_read_tokens="input_token_details.cache_read",
        cache_write_tokens="input_token_details.cache_creation",
        reasoning_tokens="output_token_details.reasoning",
        input_audio_tokens="input_token_details.audio",
        output_audio_tokens="output_token_details.audio",
    )
    written = [as_count(look_up(usage, "input_token_details", name)) for name in _LIFETIMES]
    if not found or not any(written):
        return found
    # Anthropic's cache writes are then reported by lifetime, with a total of 0.
    return msgspec.structs.replace(
        found, cache_write_tokens=sum(count for count in written if count is not None)
    )
