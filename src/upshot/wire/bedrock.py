"""Amazon Bedrock: replies and streams of Converse and InvokeModel; requests are not supported.

Converse has one form for all models.

Source:
    https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and
    .../API_runtime_ConverseStream.html, read November 2025, and recorded replies.

InvokeModel returns each vendor's own reply.

Source:
    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html and the pages for
    Amazon, Anthropic, Cohere, DeepSeek, Meta, Mistral and OpenAI under it, read November 2025, and
    recorded replies of Anthropic's models.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Reasoning
from upshot.contract.model_calls import ReasoningDelta, TextDelta, ToolCallDelta
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Usage
from upshot.wire.accumulator import ReplyAccumulator, StreamEvent, SurfaceStream
from upshot.wire.chat import ChatStream, read_chat
from upshot.wire.decoding import as_count, as_list, as_object, as_text, first_count, parse_object
from upshot.wire.messages import MessagesStream, read_messages
from upshot.wire.streams import EXCEPTION

_TEXTS: Final = ("text", "reasoningContent", "citationsContent")
# Members of a block that are neither text of the model nor from a tool.
_MEDIA: Final = frozenset(
    {"image", "video", "audio", "document", "cachePoint", "guardContent", "citation"}
)


def read_converse(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Read a whole reply into *reply*."""
    content = as_object(as_object(document.get("output")).get("message")).get("content")
    if document.get("error"):
        reply.fail(document)
    elif not isinstance(content, list):
        # The body of a Bedrock exception is just its message.
        _fail_bare(document, reply)
    _read_usage(as_object(document.get("usage")), reply)
    reply.finish_raw = as_text(document.get("stopReason"))
    _add_blocks((_Block(as_object(item)) for item in as_list(content)), reply)


class ConverseStream:
    """Reads the events of one streamed reply into an accumulator."""

    __slots__ = ("_blocks", "_calls", "_reply")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._blocks: dict[int, _Block] = {}
        self._calls = 0

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one event and return its deltas."""
        match name:
            case "contentBlockDelta":
                return self._read_delta(document)
            case "contentBlockStart":
                return self._start_block(document)
            case "messageStop":
                self._reply.finish_raw = as_text(document.get("stopReason"))
            case "metadata":
                # The last event, after messageStop.
                self._reply.done = True
                _read_usage(as_object(document.get("usage")), self._reply)
            case _ if name == EXCEPTION:
                self._reply.fail(document)
            case _:
                pass
        return []

    def finish(self) -> None:
        """Put the blocks into the accumulator."""
        _add_blocks((block for _, block in sorted(self._blocks.items())), self._reply)

    def _start_block(self, document: JsonObject) -> list[StreamEvent]:
        block = self._blocks[self._index(document)] = _Block(as_object(document.get("start")))
        if not block.is_call:
            return []
        # The index counts blocks of all kinds; a delta's counts calls.
        block.call = self._calls
        self._calls += 1
        return [ToolCallDelta(index=block.call, call_id=block.call_id, name=block.name)]

    def _read_delta(self, document: JsonObject) -> list[StreamEvent]:
        # Text and thoughts come without a start event.
        block = self._blocks.setdefault(self._index(document), _Block({}))
        return block.add(as_object(document.get("delta")))

    def _index(self, document: JsonObject) -> int:
        index = as_count(document.get("contentBlockIndex"))
        return max(self._blocks, default=0) if index is None else index


@dataclass(slots=True)
class _Block:
    """One content block and, in a stream, the pieces that came after its start.

    Attributes:
        start: The block as it started, or all of it.
        text: Pieces of its text.
        thought: Pieces of its thought.
        inputs: Pieces of a call's arguments.
        results: Results of the provider's built-in tool.
        call: Its number among the calls, from 0, if it is one.
    """

    start: JsonObject
    text: list[str] = field(default_factory=list[str])
    thought: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    results: list[Json] = field(default_factory=list[Json])
    signature: str = ""
    redacted: str = ""
    call: int = 0

    @property
    def use(self) -> JsonObject:
        return as_object(self.start.get("toolUse"))

    @property
    def is_call(self) -> bool:
        """Whether it is a call that the client has to make."""
        return bool(self.use) and self.use.get("type") != "server_tool_use"

    @property
    def call_id(self) -> str:
        return as_text(self.use.get("toolUseId"))

    @property
    def name(self) -> str:
        return as_text(self.use.get("name"))

    def add(self, delta: JsonObject) -> list[StreamEvent]:
        """Add a piece, and return its deltas."""
        # A delta has one member, usually this one.
        if text := as_text(delta.get("text")) or _cited_text(delta):
            self.text.append(text)
            return [TextDelta(text=text)]
        events: list[StreamEvent] = []
        thought = as_object(delta.get("reasoningContent"))
        # In a stream the fields of reasoningText are one level up.
        thought = {**as_object(thought.get("reasoningText")), **thought}
        if text := as_text(thought.get("text")):
            self.thought.append(text)
            events.append(ReasoningDelta(text=text))
        self.signature += as_text(thought.get("signature"))
        self.redacted += as_text(thought.get("redactedContent"))
        self.results += as_list(delta.get("toolResult"))
        text = as_text(as_object(delta.get("toolUse")).get("input"))
        if text:
            self.inputs.append(text)
        if text and self.is_call:
            call_id, name = self.call_id, self.name
            events.append(
                ToolCallDelta(index=self.call, call_id=call_id, name=name, arguments=text)
            )
        return events

    def to_reasoning(self, provider: str) -> Reasoning | None:
        """Return the thought, or the stand-in for a withheld one; None if it is neither."""
        if self.redacted:
            return Reasoning(signature=self.redacted, provider=provider, redacted=True)
        text = "".join(self.thought)
        if not text and not self.signature:
            return None
        return Reasoning(text=text, signature=self.signature or None, provider=provider)

    def to_raw(self) -> JsonObject:
        """Return the block of a built-in tool in the form of a whole reply."""
        if self.inputs:
            value = parse_object("".join(self.inputs)) or {}
            return {**self.start, "toolUse": {**self.use, "input": value}}
        if self.results:
            result = as_object(self.start.get("toolResult"))
            return {**self.start, "toolResult": {**result, "content": self.results}}
        return self.start

    def to_call(self, fallback_id: str) -> ToolCall:
        """Return the call; input that came in pieces stays text."""
        arguments = "".join(self.inputs) or as_object(self.use.get("input"))
        return ToolCall(self.call_id or fallback_id, self.name, arguments)


def _cited_text(delta: JsonObject) -> str:
    """Return the text of a block with citations."""
    cited = as_object(delta.get("citationsContent"))
    return "".join(as_text(as_object(item).get("text")) for item in as_list(cited.get("content")))


def _add_blocks(blocks: Iterable[_Block], reply: ReplyAccumulator) -> None:
    for block in blocks:
        block.add({name: block.start[name] for name in _TEXTS if name in block.start})
        if (thought := block.to_reasoning(reply.provider)) is not None:
            reply.parts.append(thought)
        reply.add_text("".join(block.text))
        if block.is_call:
            reply.add_call(block.to_call(reply.next_call_id()))
        elif kinds := _server_tools(block.start):
            reply.add_server_block(kinds[0], block.to_raw())
            reply.server_tools += kinds[1:]


def _server_tools(start: JsonObject) -> list[str]:
    """Return the types of the provider's built-in tools in a block."""
    named = ((name, as_object(value)) for name, value in start.items())
    return [
        as_text(inner.get("type")) or name
        for name, inner in named
        if inner and name not in _TEXTS and name not in _MEDIA
    ]


def _fail_bare(document: JsonObject, reply: ReplyAccumulator) -> None:
    words = ("message", "Message", "__type")
    facts = {name: value for name in words if isinstance(value := document.get(name), str)}
    if facts:
        reply.fail({**facts})
    else:
        reply.fail_unreadable("the reply has no message")


def _read_usage(usage: JsonObject, reply: ReplyAccumulator) -> None:
    if not usage:
        return
    uncached = as_count(usage.get("inputTokens"))
    read = first_count(usage.get("cacheReadInputTokens"), usage.get("cacheReadInputTokenCount"))
    written = first_count(
        usage.get("cacheWriteInputTokens"), usage.get("cacheWriteInputTokenCount")
    )
    reply.usage_raw = usage
    reply.total_tokens_reported = as_count(usage.get("totalTokens"))
    reply.usage = Usage(
        # inputTokens excludes what was read from the cache or written to it.
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=as_count(usage.get("outputTokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        api_calls=1,
    )


_METRICS: Final = "amazon-bedrock-invocationMetrics"
_EVENTS: Final = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop"}
    | {"messageStop", "metadata"}
)
# The fields of plain completion models for the sample, its text, finish reason and counts.
_SAMPLES: Final = ("results", "outputs", "generations", "choices")
_INVOKE_TEXTS: Final = ("outputText", "generation", "completion", "text")
_FINISHES: Final = ("completionReason", "stop_reason", "finish_reason")
_TAKEN: Final = ("inputTextTokenCount", "prompt_token_count", "inputTokenCount")
_GIVEN: Final = (
    "totalOutputTextTokenCount",
    "tokenCount",
    "generation_token_count",
    "outputTokenCount",
)


def read_invoke(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Read a whole reply into *reply*."""
    # A reply does not name the vendor, so its form decides.
    if isinstance(document.get("content"), list) or document.get("type") == "error":
        read_messages(document, reply)
    elif as_object(document.get("output")).get("message"):
        read_converse(document, reply)
    elif _is_chat(document):
        read_chat(document, reply)
    else:
        reply.add_text(_read_completion(document, reply))
        _add_calls(document, reply)
        if not reply.parts and not reply.finish_raw:
            # Anything else is an exception, or not a reply.
            read_converse(document, reply)
    if reply.usage is None:
        _read_counts(reply)


class InvokeStream:
    """Reads the chunks of one streamed reply into an accumulator, with the vendor's own reader."""

    __slots__ = ("_metrics", "_reply", "_stream")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._stream: SurfaceStream | None = None
        self._metrics: JsonObject = {}

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one chunk and return its deltas."""
        if name == EXCEPTION:
            self._reply.fail(document)
            return []
        inner = _unwrap(document)
        if inner is None:
            self._reply.fail_unreadable("a chunk of the stream is not JSON")
            return []
        if metrics := as_object(inner.get(_METRICS)):
            self._metrics = metrics
        if self._stream is None:
            self._stream = _open_stream(inner, self._reply)
        if isinstance(self._stream, ConverseStream):
            return [
                event
                for kind, value in inner.items()
                for event in self._stream.read(kind, as_object(value))
            ]
        return self._stream.read("", inner)

    def finish(self) -> None:
        """Put the reply into the accumulator."""
        if self._stream is not None:
            self._stream.finish()
        if self._metrics:
            # Bedrock adds the metrics to the last chunk of any model.
            self._reply.done = True
            if self._reply.usage is None:
                self._reply.usage = _to_usage(self._metrics)
                self._reply.usage_raw = self._metrics


class _CompletionStream:
    """Reads the chunks of a vendor whose models only complete text."""

    __slots__ = ("_reply", "_text")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._text: list[str] = []

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one chunk and return its deltas."""
        del name
        if document.get("is_finished") is True:
            # Cohere's last event repeats the whole answer.
            self._reply.finish_raw = as_text(document.get("finish_reason"))
            return []
        text = _read_completion(document, self._reply)
        self._text.append(text)
        return [TextDelta(text=text)] if text else []

    def finish(self) -> None:
        """Put the text into the accumulator."""
        self._reply.add_text("".join(self._text))


def _open_stream(first: JsonObject, reply: ReplyAccumulator) -> SurfaceStream:
    if not _EVENTS.isdisjoint(first):
        return ConverseStream(reply)
    if isinstance(first.get("type"), str) and "completion" not in first:
        return MessagesStream(reply)
    return ChatStream(reply) if _is_chat(first) else _CompletionStream(reply)


def _unwrap(document: JsonObject) -> JsonObject | None:
    """Return the vendor's chunk, which Bedrock wraps in base64."""
    wrapped = document.get("bytes")
    if not isinstance(wrapped, str):
        return document
    try:
        return parse_object(b64decode(wrapped))
    except ValueError:
        return None


def _is_chat(document: JsonObject) -> bool:
    choices = as_list(document.get("choices"))
    # A chunk with an empty list of choices reports the usage of a stream.
    first = as_object(choices[0]) if choices else {"delta": None}
    return "choices" in document and ("message" in first or "delta" in first)


def _read_completion(document: JsonObject, reply: ReplyAccumulator) -> str:
    """Read finish reason and usage into *reply*, and return the text."""
    sample = _sample(document)
    words = (as_text(source.get(name)) for source in (sample, document) for name in _FINISHES)
    reply.finish_raw = next(filter(None, words), reply.finish_raw)
    usage = _to_usage({**document, **sample})
    if usage:
        reply.usage = usage
        names = (*_TAKEN, *_GIVEN)
        counts = {name: v for name in names if (v := {**document, **sample}.get(name)) is not None}
        reply.usage_raw = {**(reply.usage_raw or {}), **counts}
    return next((text for name in _INVOKE_TEXTS if (text := as_text(sample.get(name)))), "")


def _sample(document: JsonObject) -> JsonObject:
    """Return the first sample, or the document itself."""
    for name in _SAMPLES:
        for sample in map(as_object, as_list(document.get(name))):
            return sample
    return document


def _to_usage(counts: JsonObject) -> Usage:
    return Usage(
        input_tokens=first_count(*map(counts.get, _TAKEN)),
        output_tokens=first_count(*map(counts.get, _GIVEN)),
        api_calls=1,
    )


def _add_calls(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Add calls in the form of Cohere, which have no ids."""
    for item in map(as_object, as_list(document.get("tool_calls"))):
        name, arguments = as_text(item.get("name")), as_object(item.get("parameters"))
        reply.add_call(ToolCall(reply.next_call_id(), name, arguments))


def _read_counts(reply: ReplyAccumulator) -> None:
    """Read the usage from Bedrock's headers, for models whose body has none."""
    names = ("input-token-count", "output-token-count")
    counts: dict[str, Json] = {
        name: count
        for name in names
        if (count := as_count(reply.fields.get(f"x-amzn-bedrock-{name}"))) is not None
    }
    if counts:
        reply.usage_raw = counts
        reply.usage = Usage(
            input_tokens=as_count(counts.get(names[0])),
            output_tokens=as_count(counts.get(names[1])),
            api_calls=1,
        )
