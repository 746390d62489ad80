"""Chat completions as objects: from LiteLLM, AISuite, and SDKs in OpenAI's shape.

The object is turned back into its original JSON and read as a reply of the chat surface, so that
usage, finish reasons and calls follow one set of rules.

Source:
    litellm 1.83 (``ModelResponse``), aisuite 0.2 (``ChatCompletionResponse``) and openai 3.54
    (``ChatCompletion``), read in 2026.
"""

from __future__ import annotations

import msgspec

from upshot.contract.base.structs import Json, JsonObject, Local
from upshot.contract.message import Part, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.usage import Cost, Usage
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_text,
    find_headers,
    look_up,
)
from upshot.wire.decoding import encode_json
from upshot.wire.reader import read_response


def read_completion(native: object) -> ModelResponse:
    """Read a chat completion.

    Args:
        native: The object, or its JSON as a mapping.

    Returns:
        The reply; its ``raw`` is *native*. A cost that LiteLLM calculated is marked as estimated.
        Never raises.
    """
    provider = as_text(look_up(native, "_hidden_params", "custom_llm_provider"))
    response = read_response(
        "chat",
        status=200,
        headers=find_headers(native),
        body=encode_json(_document(native)),
        provider=provider,
        mode="json",
    )
    ident = as_text(look_up(native, "id"))
    more: JsonObject = {"response_id": ident} if ident else {}
    elapsed_ms = as_amount(look_up(native, "_response_ms"))
    estimate = as_amount(look_up(native, "_hidden_params", "response_cost"))
    return msgspec.structs.replace(
        response,
        parts=with_thoughts(response, _thinking(native, provider)),
        cost=response.cost
        or (None if estimate is None else Cost(total=estimate, source="litellm")),
        provider_data={**response.provider_data, **more},
        duration_ms=round(elapsed_ms) if elapsed_ms is not None else 0,
        local=Local(raw=native),
    )


def with_cache(usage: Usage) -> Usage:
    """Return a *usage* in Anthropic's form, whose input excludes the cache, in upshot's form.

    If tokens were read from the cache and the cache writes are unknown, the input is unknown.
    """
    taken, read, written = usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    if taken is not None:
        taken = None if read and written is None else taken + (read or 0) + (written or 0)
    return msgspec.structs.replace(usage, input_tokens=taken, total_tokens=None)


def with_thoughts(response: ModelResponse, thoughts: tuple[Reasoning, ...]) -> tuple[Part, ...]:
    """Return the parts of *response* with its thoughts replaced by *thoughts*, if there are any."""
    if not thoughts:
        return response.parts
    return (*thoughts, *(part for part in response.parts if not isinstance(part, Reasoning)))


def read_completion_message(message: object) -> JsonObject:
    """Return the JSON of a completion's message: content, refusal, reasoning and calls."""
    form: JsonObject = {
        "role": as_text(look_up(message, "role")) or "assistant",
        "content": as_json(look_up(message, "content")),
        "refusal": as_text(look_up(message, "refusal")),
        "reasoning_content": as_text(look_up(message, "reasoning_content")),
        "tool_calls": [_call(call) for call in as_items(look_up(message, "tool_calls"))],
    }
    return {name: value for name, value in form.items() if value not in (None, "", [])}


def _document(native: object) -> JsonObject:
    choices = as_items(look_up(native, "choices"))
    choice = choices[0] if choices else None
    document: JsonObject = {
        "id": as_text(look_up(native, "id")),
        "model": as_text(look_up(native, "model")),
    }
    if choice is not None:
        document["choices"] = [
            {
                "index": 0,
                "finish_reason": as_text(look_up(choice, "finish_reason")),
                "message": read_completion_message(look_up(choice, "message")),
            }
        ]
    if usage := _usage(look_up(native, "usage")):
        document["usage"] = usage
    if isinstance(error := as_json(look_up(native, "error")), dict):
        document["error"] = error
    return document


def _call(call: object) -> JsonObject:
    return {
        "id": as_text(look_up(call, "id")),
        "type": "function",
        "function": {
            "name": as_text(look_up(call, "function", "name")),
            "arguments": as_arguments(look_up(call, "function", "arguments")),
        },
    }


def _usage(usage: object) -> JsonObject:
    """Return the usage as JSON; empty if all counts are zero, which LiteLLM writes for unknown."""
    prompt, completion = (
        look_up(usage, f"{side}_tokens_details") for side in ("prompt", "completion")
    )
    form: dict[str, Json] = {
        name: as_count(look_up(usage, name))
        for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    }
    if not any(form.values()):
        return {}
    written = look_up(prompt, "cache_creation_tokens")
    written = look_up(prompt, "cache_write_tokens") if written is None else written
    cost = as_amount(look_up(usage, "cost"))
    return {
        **form,
        "prompt_tokens_details": {
            "cached_tokens": as_count(look_up(prompt, "cached_tokens")),
            "cache_write_tokens": as_count(written),
            "audio_tokens": as_count(look_up(prompt, "audio_tokens")),
        },
        "completion_tokens_details": {
            "reasoning_tokens": as_count(look_up(completion, "reasoning_tokens")),
            "audio_tokens": as_count(look_up(completion, "audio_tokens")),
        },
        "cost": None if cost is None else float(cost),
    }


def _thinking(native: object, provider: str) -> tuple[Reasoning, ...]:
    """Return Anthropic's signed thoughts, which LiteLLM keeps in a separate field."""
    choices = as_items(look_up(native, "choices"))
    blocks = as_items(look_up(choices[0], "message", "thinking_blocks")) if choices else []
    return tuple(
        Reasoning(
            text=as_text(look_up(block, "thinking")),
            signature=as_text(look_up(block, "signature"))
            or as_text(look_up(block, "data"))
            or None,
            provider=provider,
            redacted=look_up(block, "type") == "redacted_thinking",
        )
        for block in blocks
    )
