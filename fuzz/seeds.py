"""Replies to start from, written from the providers' documented forms."""

from __future__ import annotations

import json

__all__ = ["SEEDS"]


def _sse(*documents: object, end: str = "") -> bytes:
    lines = [f"data: {json.dumps(document)}\n\n" for document in documents]
    return "".join([*lines, end]).encode()


def _named(*documents: dict[str, object]) -> bytes:
    return "".join(f"event: {d['type']}\ndata: {json.dumps(d)}\n\n" for d in documents).encode()


_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
_CALL = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"key": 7}'}}

SEEDS: dict[str, tuple[bytes, ...]] = {
    "chat": (
        _sse(
            {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hé"}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [_CALL]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": _USAGE},
            end="data: [DONE]\n\n",
        ),
        json.dumps(
            {
                "id": "a",
                "model": "m",
                "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
                "usage": _USAGE,
            }
        ).encode(),
        b'{"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}',
    ),
    "messages": (
        _named(
            {"type": "message_start", "message": {"id": "a", "usage": {"input_tokens": 3}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Hi"},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ),
        b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
    ),
    "responses": (
        _named(
            {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
            {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"},
            {
                "type": "response.completed",
                "response": {
                    "id": "r",
                    "status": "completed",
                    "output": [
                        {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
                    ],
                    "usage": {"input_tokens": 3, "output_tokens": 1},
                },
            },
        ),
    ),
    "generate": (
        _sse(
            {
                "candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
            }
        ),
        b'{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota"}}',
    ),
    "converse": (
        b'{"output": {"message": {"content": [{"text": "Hi"}]}}, "stopReason": "end_turn",'
        b' "usage": {"inputTokens": 3, "outputTokens": 1}}',
    ),
    "invoke": (b'{"type": "message", "content": [{"type": "text", "text": "Hi"}]}',),
}
