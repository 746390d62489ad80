"""The simulator's side of OpenAI Chat Completions.

Source:
    https://platform.openai.com/docs/api-reference/chat and .../docs/guides/rate-limits, and replies
    recorded from the API in 2025; written from them without the reading side of upshot, so that
    each can disprove the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import Raw, Struct

from upshot.sim.exchange import (
    Body,
    Counts,
    Envelope,
    Problem,
    Quotes,
    Surface,
    Turn,
    content_text,
    read_json,
    read_result,
    split_text,
)

_FINISH: Mapping[str, str] = {"tool_use": "tool_calls"}
_DONE = b"data: [DONE]\n\n"
_ERROR_CODES: Mapping[int, str] = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
}


class _Function(Struct):
    name: str = ""


class _ToolCall(Struct):
    id: str = ""
    function: _Function = msgspec.field(default_factory=_Function)


class _Message(Struct):
    role: str
    content: Raw = Raw(b"null")
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


class _StreamOptions(Struct):
    include_usage: bool | None = False


class _Body(Body, kw_only=True):
    messages: list[_Message]
    stream_options: _StreamOptions | None = None


_encode = msgspec.json.encode


class ChatSurface(Surface[_Body]):
    """Chat Completions."""

    id_prefix = "call_"
    request_id_header = "x-request-id"
    decoder: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)
    limit_header = "x-ratelimit-{figure}-{resource}"

    def find_fault(self, asked: _Body) -> Problem | None:
        """Check that results follow their calls directly, in any order."""
        # A list, not a set: the message names the unanswered calls in their order.
        waiting: list[str] = []
        for place, message in enumerate(asked.messages):
            if message.role == "tool":
                if message.tool_call_id is None or message.tool_call_id not in waiting:
                    return Problem(
                        400,
                        "messages with role 'tool' must be a response to a preceding message "
                        "with 'tool_calls'.",
                        param=f"messages.[{place}].role",
                    )
                waiting.remove(message.tool_call_id)
                continue
            if waiting:
                return _unanswered(waiting, place)
            waiting = [call.id for call in message.tool_calls or ()]
        return _unanswered(waiting, len(asked.messages)) if waiting else None

    def includes_usage(self, asked: _Body) -> bool:
        """Only if the request asks for it."""
        return asked.stream_options is not None and bool(asked.stream_options.include_usage)

    def quotes(self, asked: _Body) -> Quotes:
        """Return the results of the role tool, and the last message of the user."""
        names: dict[str, str] = {}
        results: list[tuple[str, object]] = []
        user_text = ""
        for message in asked.messages:
            names.update({call.id: call.function.name for call in message.tool_calls or ()})
            if message.role == "tool":
                value = read_result(read_json(message.content))
                results.append((names.get(message.tool_call_id or "", ""), value))
            elif message.role == "user":
                user_text = content_text(read_json(message.content))
        return Quotes(results, user_text, asked.model)

    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """Return the ``chat.completion`` object."""
        message: dict[str, object] = {
            "role": "assistant",
            # The API sends null next to calls or a refusal, but an empty text as an empty text.
            "content": turn.text or (None if turn.calls or turn.refusal else ""),
            "refusal": turn.refusal or None,
        }
        # OpenAI itself hides thoughts; compatible servers use this name.
        if turn.reasoning:
            message["reasoning_content"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [
                _call_object(call.id, call.name, call.arguments) for call in turn.calls
            ]
        completion: dict[str, object] = {
            **_head(envelope, "chat.completion"),
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(turn)}
            ],
        }
        if envelope.counts is not None:
            completion["usage"] = _usage(envelope.counts)
        return _encode(completion)

    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> Sequence[bytes]:
        """Return ``chat.completion.chunk`` events, the usage chunk if requested, and ``[DONE]``."""
        head = b"data: " + _encode(_head(envelope, "chat.completion.chunk"))[:-1] + b',"choices":['
        # If usage is requested, the API puts "usage": null into every chunk except the last.
        counts = envelope.counts if include_usage else None
        tail = b"]}\n\n" if counts is None else b'],"usage":null}\n\n'
        events = [head + choice + tail for choice in _choices(turn)]
        if counts is not None:
            events.append(head + b'],"usage":' + _encode(_usage(counts)) + b"}\n\n")
        events.append(_DONE)
        return events

    def problem(self, problem: Problem, request_id: str) -> bytes:
        """Return the ``{"error": ...}`` object."""
        return _encode(_error(problem))

    def problem_event(self, problem: Problem) -> bytes:
        """Return the same object as the data of an event."""
        return b"data: " + _encode(_error(problem)) + b"\n\n"

    def broken_event(self) -> bytes:
        """Return a chunk that breaks off in the middle of a string."""
        return (
            b'data: {"id":"chatcmpl-broken","object":"chat.completion.chunk","choices":[{"del\n\n'
        )

    def reset_text(self, reset_s: float, now: datetime) -> str:
        """Return a duration."""
        return duration_text(reset_s)

    def retry_headers(self, retry_after_s: float) -> Mapping[str, str]:
        """Return ``retry-after`` in whole seconds and ``retry-after-ms``, both rounded up."""
        return {
            "retry-after": str(math.ceil(retry_after_s)),
            "retry-after-ms": str(math.ceil(retry_after_s * 1000)),
        }


def duration_text(seconds: float) -> str:
    """Format a duration as OpenAI does: ``0s``, ``120ms``, ``6m0s``; rounded up to milliseconds."""
    # Rounded first, so that 2.007 s, which is a little more in binary, is not written as 2.008.
    total_ms = math.ceil(round(seconds * 1000, 6))
    if 0 < total_ms < 1000:
        return f"{total_ms}ms"
    minutes, rest_ms = divmod(total_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    parts = f"{hours}h" if hours else ""
    parts += f"{minutes}m" if hours or minutes else ""
    return f"{parts}{rest_ms / 1000:g}s"


def _unanswered(call_ids: Sequence[str], place: int) -> Problem:
    return Problem(
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(call_ids)}",
        param=f"messages.[{place}].role",
    )


def _head(envelope: Envelope, kind: str) -> dict[str, object]:
    return {
        "id": f"chatcmpl-{envelope.id}",
        "object": kind,
        "created": envelope.created,
        "model": envelope.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _call_object(call_id: str, name: str, arguments: str) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _finish(turn: Turn) -> str:
    return _FINISH.get(turn.finish, turn.finish)


def _usage(counts: Counts) -> dict[str, object]:
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.total,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning, "audio_tokens": 0},
    }


def _error(problem: Problem) -> dict[str, object]:
    error = {
        "message": problem.message,
        "type": _error_type(problem),
        "param": problem.param,
        "code": problem.code or _ERROR_CODES.get(problem.status),
    }
    return {"error": error}


def _error_type(problem: Problem) -> str:
    # On a 429, the type is the resource that ran out.
    if problem.status == 429:
        return problem.resource or "requests"
    return "invalid_request_error" if problem.status < 500 else "server_error"


@lru_cache(maxsize=256)
def _choices(turn: Turn) -> tuple[bytes, ...]:
    """Return the choice of every chunk; cached, since it depends only on the turn."""
    deltas: list[Mapping[str, object]] = [
        {
            "role": "assistant",
            "content": None if turn.calls and not turn.text else "",
            "refusal": None,
        }
    ]
    texts = {"reasoning_content": turn.reasoning, "content": turn.text, "refusal": turn.refusal}
    for name, text in texts.items():
        deltas += [{name: piece} for piece in split_text(text, turn.chunk_chars)]
    for number, call in enumerate(turn.calls):
        deltas.append({"tool_calls": [{"index": number, **_call_object(call.id, call.name, "")}]})
        deltas += [
            {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}
            for piece in split_text(call.arguments, turn.chunk_chars)
        ]
    return (*(_choice(delta, None) for delta in deltas), _choice({}, _finish(turn)))


def _choice(delta: Mapping[str, object], finish_reason: str | None) -> bytes:
    return _encode({"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason})
