"""The simulator's side of Anthropic Messages.

Source:
    https://docs.anthropic.com/en/api/messages, .../messages-streaming, .../errors and
    .../rate-limits, and replies recorded from the API in 2025; written without the reading side of
    upshot, so that each can disprove the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

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
    read_json,
    read_result,
    split_text,
)

_FINISH: Mapping[str, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_ERROR_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# With the space after the colon, as the API sends it: clients must not match exact bytes.
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class _Block(Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    content: Raw = Raw(b"null")


class _Message(Struct):
    role: str
    content: str | list[_Block]

    def blocks(self, kind: str) -> list[_Block]:
        if isinstance(self.content, str):
            return []
        return [block for block in self.content if block.type == kind]

    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text for block in self.blocks("text"))


class _Body(Body, kw_only=True):
    messages: list[_Message]
    max_tokens: int


_Json: TypeAlias = Mapping[str, object]

_encode = msgspec.json.encode


class MessagesSurface(Surface[_Body]):
    """Anthropic Messages."""

    id_prefix = "toolu_"
    request_id_header = "request-id"
    decoder: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)
    limit_header = "anthropic-ratelimit-{resource}-{figure}"

    def find_fault(self, asked: _Body) -> Problem | None:
        """Check that all results are in the very next message: stricter than Chat Completions."""
        waiting: set[str] = set()
        for place, message in enumerate(asked.messages):
            answered = {block.tool_use_id for block in message.blocks("tool_result")}
            if missing := sorted(waiting - answered):
                return _unanswered(missing, place)
            if strange := sorted(answered - waiting):
                return Problem(
                    400,
                    f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{', '.join(strange)}. Each `tool_result` block must have a corresponding "
                    "`tool_use` block in the previous message.",
                )
            waiting = {block.id for block in message.blocks("tool_use")}
        return _unanswered(sorted(waiting), len(asked.messages)) if waiting else None

    def includes_usage(self, asked: _Body) -> bool:
        """Always, asked or not."""
        return True

    def quotes(self, asked: _Body) -> Quotes:
        """Return the blocks with results, and the last text of the user."""
        names: dict[str, str] = {}
        results: list[tuple[str, object]] = []
        user_text = ""
        for message in asked.messages:
            names.update({block.id: block.name for block in message.blocks("tool_use")})
            for block in message.blocks("tool_result"):
                value = read_result(read_json(block.content))
                results.append((names.get(block.tool_use_id, ""), value))
            if message.role == "user":
                user_text = message.text() or user_text
        return Quotes(results, user_text, asked.model)

    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """Return the ``message`` object."""
        message = _message(envelope, _blocks(turn), _finish(turn))
        if envelope.counts is not None:
            message["usage"] = {
                **_input_usage(envelope.counts),
                "output_tokens": envelope.counts.output,
            }
        return _encode(message)

    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> Sequence[bytes]:
        """Return the events from ``message_start`` to ``message_stop``."""
        start = _message(envelope, [], None)
        delta: dict[str, object] = {
            "type": "message_delta",
            "delta": {"stop_reason": _finish(turn), "stop_sequence": None},
        }
        if envelope.counts is not None:
            # The first count of output tokens is provisional; message_delta has the final one.
            start["usage"] = {**_input_usage(envelope.counts), "output_tokens": 1}
            delta["usage"] = {"output_tokens": envelope.counts.output}
        first = _event({"type": "message_start", "message": start})
        return [first, *_block_events(turn), _event(delta), _STOP]

    def problem(self, problem: Problem, request_id: str) -> bytes:
        """Return the ``{"type": "error", ...}`` object."""
        return _encode({**_error(problem), "request_id": request_id})

    def problem_event(self, problem: Problem) -> bytes:
        """Return an ``error`` event."""
        return _event(_error(problem))

    def broken_event(self) -> bytes:
        """Return a delta that breaks off in the middle of a string."""
        return b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n'

    def reset_text(self, reset_s: float, now: datetime) -> str:
        """Return a moment in UTC, rounded up to a second, so that a client is never too early."""
        moment = (now + timedelta(seconds=reset_s)).astimezone(UTC)
        whole = moment.replace(microsecond=0) + timedelta(seconds=bool(moment.microsecond))
        return f"{whole:%Y-%m-%dT%H:%M:%SZ}"

    def retry_headers(self, retry_after_s: float) -> Mapping[str, str]:
        """Return ``retry-after`` in whole seconds, rounded up."""
        return {"retry-after": str(math.ceil(retry_after_s))}


def _unanswered(call_ids: Sequence[str], place: int) -> Problem:
    return Problem(
        400,
        f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(call_ids)}. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message.",
    )


def _message(
    envelope: Envelope, content: Sequence[object], stop_reason: str | None
) -> dict[str, object]:
    return {
        "id": f"msg_{envelope.id}",
        "type": "message",
        "role": "assistant",
        "model": envelope.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
    }


def _finish(turn: Turn) -> str:
    if turn.refusal and turn.finish == "stop":
        return "refusal"
    return _FINISH.get(turn.finish, turn.finish)


def _input_usage(counts: Counts) -> dict[str, object]:
    return {
        # In this API the input excludes the cached parts.
        "input_tokens": counts.input - counts.cache_read - counts.cache_write,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "service_tier": "standard",
    }


def _error(problem: Problem) -> dict[str, object]:
    usual = "invalid_request_error" if problem.status < 500 else "api_error"
    # This API has no separate code: a code of the scenario replaces the type.
    kind = problem.code or _ERROR_TYPES.get(problem.status, usual)
    return {"type": "error", "error": {"type": kind, "message": problem.message}}


def _blocks(turn: Turn) -> list[dict[str, object]]:
    """Return the content blocks of a whole reply; a refusal is plain text here."""
    blocks: list[dict[str, object]] = []
    if turn.reasoning:
        blocks.append(
            {"type": "thinking", "thinking": turn.reasoning, "signature": _signature(turn)}
        )
    if text := turn.text + turn.refusal:
        blocks.append({"type": "text", "text": text})
    for call in turn.calls:
        blocks.append(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}
        )
    return blocks


def _signature(turn: Turn) -> str:
    return f"sim-{len(turn.reasoning)}"


def _input(arguments: str) -> object:
    """Return arguments as the API sends them: an object, or a string if the text is not JSON."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _event(data: Mapping[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(data["type"]).encode(), _encode(data))


@lru_cache(maxsize=256)
def _block_events(turn: Turn) -> tuple[bytes, ...]:
    """Return all events between start and end; cached, since they depend only on the turn."""
    events: list[bytes] = []
    for index, (opening, deltas) in enumerate(_streamed_blocks(turn)):
        events.append(
            _event({"type": "content_block_start", "index": index, "content_block": opening})
        )
        if index == 0:
            events.append(_PING)
        events += [
            _event({"type": "content_block_delta", "index": index, "delta": delta})
            for delta in deltas
        ]
        events.append(_event({"type": "content_block_stop", "index": index}))
    return tuple(events)


def _streamed_blocks(turn: Turn) -> Iterator[tuple[_Json, list[_Json]]]:
    size = turn.chunk_chars
    if turn.reasoning:
        thoughts: list[_Json] = [
            {"type": "thinking_delta", "thinking": piece}
            for piece in split_text(turn.reasoning, size)
        ]
        signature = {"type": "signature_delta", "signature": _signature(turn)}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]
    if text := turn.text + turn.refusal:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in split_text(text, size)],
        )
    for call in turn.calls:
        # The API starts with an empty piece, which a reader must not mistake for empty arguments.
        pieces = ["", *split_text(call.arguments, size)]
        opening: _Json = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield opening, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
