"""The InvokeModel surface: each maker's own reply, handed through by Amazon Bedrock.

Source:
    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html and the pages for
    Amazon, Anthropic, Cohere, DeepSeek, Meta, Mistral and OpenAI under it, read November 2025, and
    recorded replies of Anthropic's models.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from ..contract import Json, JsonObject, TextDelta, ToolCall, Usage
from .chat import ChatStream, read_chat
from .converse import ConverseStream, read_converse
from .document import as_count, as_list, as_object, as_text, parse_object
from .draft import Draft, StreamEvent, SurfaceStream
from .eventstream import EXCEPTION
from .messages import MessagesStream, read_messages

__all__ = ["InvokeStream", "read_invoke"]

_METRICS: Final = "amazon-bedrock-invocationMetrics"
_EVENTS: Final = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop"}
    | {"messageStop", "metadata"}
)
# Where makers of plain completions keep the sample, its text, and why and how long it is.
_SAMPLES: Final = ("results", "outputs", "generations", "choices")
_TEXTS: Final = ("outputText", "generation", "completion", "text")
_FINISHES: Final = ("completionReason", "stop_reason", "finish_reason")
_TAKEN: Final = ("inputTextTokenCount", "prompt_token_count", "inputTokenCount")
_GIVEN: Final = (
    "totalOutputTextTokenCount",
    "tokenCount",
    "generation_token_count",
    "outputTokenCount",
)


def read_invoke(document: JsonObject, draft: Draft) -> None:
    """Read a whole reply into *draft*."""
    if isinstance(document.get("content"), list) or document.get("type") == "error":
        read_messages(document, draft)
    elif as_object(document.get("output")).get("message"):
        read_converse(document, draft)
    elif _is_chat(document):
        read_chat(document, draft)
    else:
        _read_completion(document, draft)
        _add_calls(document, draft)
        if not draft.text and not draft.calls and not draft.finish_raw:
            # What is none of these is an exception, or nothing at all.
            read_converse(document, draft)
    if draft.usage is None:
        _read_counts(draft)


class InvokeStream:
    """Reads the chunks of one streamed reply into a draft, by the maker's own stream."""

    __slots__ = ("_draft", "_metrics", "_stream")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._stream: SurfaceStream | None = None
        self._metrics: JsonObject = {}

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Take one chunk and give the deltas in it."""
        if name == EXCEPTION:
            self._draft.fail(document)
            return []
        inner = _unwrap(document)
        if inner is None:
            self._draft.fail_unreadable("a chunk of the stream is no JSON")
            return []
        if metrics := as_object(inner.get(_METRICS)):
            self._metrics = metrics
        if self._stream is None:
            self._stream = _open_stream(inner, self._draft)
        if isinstance(self._stream, ConverseStream):
            return [
                event
                for kind, value in inner.items()
                for event in self._stream.read(kind, as_object(value))
            ]
        return self._stream.read("", inner)

    def finish(self) -> None:
        """Put what was gathered into the draft."""
        if self._stream is not None:
            self._stream.finish()
        if self._metrics:
            # Bedrock adds them to the last chunk, whoever made the model.
            self._draft.done = True
            if self._draft.usage is None:
                self._draft.usage = _to_usage(self._metrics)
                self._draft.usage_raw = self._metrics


class _CompletionStream:
    """Reads the chunks of a maker whose models only complete text."""

    __slots__ = ("_draft",)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Take one chunk and give the deltas in it."""
        del name
        known = len(self._draft.text)
        if document.get("is_finished") is True:
            # Cohere's last event repeats the whole answer.
            self._draft.finish_raw = as_text(document.get("finish_reason"))
            return []
        _read_completion(document, self._draft)
        return [TextDelta(text=text) for text in self._draft.text[known:]]

    def finish(self) -> None:
        """There is nothing left to put into the draft."""


def _open_stream(first: JsonObject, draft: Draft) -> SurfaceStream:
    if not _EVENTS.isdisjoint(first):
        return ConverseStream(draft)
    if isinstance(first.get("type"), str) and "completion" not in first:
        return MessagesStream(draft)
    return ChatStream(draft) if _is_chat(first) else _CompletionStream(draft)


def _unwrap(document: JsonObject) -> JsonObject | None:
    """The maker's chunk, which Bedrock wraps in base64."""
    wrapped = document.get("bytes")
    if not isinstance(wrapped, str):
        return document
    try:
        return parse_object(b64decode(wrapped))
    except ValueError:
        return None


def _is_chat(document: JsonObject) -> bool:
    choices = as_list(document.get("choices"))
    # A list without samples is how a stream of this surface tells its usage.
    first = as_object(choices[0]) if choices else {"delta": None}
    return "choices" in document and ("message" in first or "delta" in first)


def _read_completion(document: JsonObject, draft: Draft) -> None:
    sample = _sample(document)
    text = next((text for name in _TEXTS if (text := as_text(sample.get(name)))), "")
    if text:
        draft.text.append(text)
    words = (as_text(source.get(name)) for source in (sample, document) for name in _FINISHES)
    draft.finish_raw = next(filter(None, words), draft.finish_raw)
    usage = _to_usage({**document, **sample})
    if usage:
        draft.usage = usage
        names = (*_TAKEN, *_GIVEN)
        counts = {name: v for name in names if (v := {**document, **sample}.get(name)) is not None}
        draft.usage_raw = {**(draft.usage_raw or {}), **counts}


def _sample(document: JsonObject) -> JsonObject:
    """The first sample, or the document itself where that is one."""
    for name in _SAMPLES:
        for sample in map(as_object, as_list(document.get(name))):
            return sample
    return document


def _to_usage(counts: JsonObject) -> Usage:
    return Usage(
        input_tokens=_first_count(counts, _TAKEN),
        output_tokens=_first_count(counts, _GIVEN),
        api_calls=1,
    )


def _first_count(counts: JsonObject, names: tuple[str, ...]) -> int | None:
    found = (as_count(counts.get(name)) for name in names)
    return next((count for count in found if count is not None), None)


def _add_calls(document: JsonObject, draft: Draft) -> None:
    """Add calls in the form of Cohere, which gives them no ids."""
    for place, item in enumerate(map(as_object, as_list(document.get("tool_calls")))):
        name, arguments = as_text(item.get("name")), as_object(item.get("parameters"))
        draft.calls.append(ToolCall(f"call_{draft.id or 'reply'}_{place}", name, arguments))


def _read_counts(draft: Draft) -> None:
    """Read the usage that Bedrock tells in headers, for makers who tell none in the body."""
    names = ("input-token-count", "output-token-count")
    told: dict[str, Json] = {
        name: count
        for name in names
        if (count := as_count(draft.fields.get(f"x-amzn-bedrock-{name}"))) is not None
    }
    if told:
        draft.usage_raw = told
        draft.usage = Usage(
            input_tokens=as_count(told.get(names[0])),
            output_tokens=as_count(told.get(names[1])),
            api_calls=1,
        )
