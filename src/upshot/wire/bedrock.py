"""Amazon Bedrock: Converse (requests, replies, streams) and InvokeModel (replies, streams).

Converse has one form for all models; what only some of them accept is asked for by the vendor in
the model's id.

Source:
    https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and
    .../API_runtime_ConverseStream.html, read November 2025, and recorded replies; for requests the
    model of the service "bedrock-runtime" of botocore 1.44, and
    https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html and
    .../structured-output.html, read November 2026;
    https://docs.aws.amazon.com/nova/latest/userguide/tool-built-in.html.

InvokeModel returns each vendor's own reply. Requests to it are those of Anthropic's models, which
``messages`` encodes.

Source:
    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html and the pages for
    Amazon, Anthropic, Cohere, DeepSeek, Meta, Mistral and OpenAI under it, read November 2025, and
    recorded replies of Anthropic's models.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import (
    Audio,
    Data,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    ServerToolBlock,
    Text,
    Unknown,
)
from upshot.contract.model_calls import PartDelta, ReasoningDelta, TextDelta, ToolCallDelta
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.wire.accumulator import ReplyAccumulator, StreamEvent, SurfaceStream
from upshot.wire.chat import CUSTOM_INPUT, ChatStream, read_chat
from upshot.wire.decoding import as_count, as_list, as_object, as_text, first_count, parse_object
from upshot.wire.encoding import (
    SCHEMA_PROMPT,
    Asked,
    RequestEncoder,
    arguments_of,
    encode_wire,
    hosted_items,
    is_strict_schema,
    join_system,
    merge_extra,
    schema_name,
    sent,
    splice,
    to_effort,
    to_wire_id,
    to_wire_name,
    without_none,
)
from upshot.wire.media import decode_media, to_media_part
from upshot.wire.messages import (
    MessagesStream,
    accepts_schema,
    read_messages,
    set_thinking,
    to_tool_choice,
)
from upshot.wire.streams import EXCEPTION

_TEXTS: Final = ("text", "reasoningContent", "citationsContent")
# What a model may make besides text.
_MADE: Final = ("image", "audio")
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

    __slots__ = ("_blocks", "_calls", "_made", "_reply")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        # The numbers of the blocks that are no text, thought or call.
        self._made: dict[int, int] = {}

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one event and return its deltas."""
        match name:
            case "contentBlockDelta":
                return self._read_delta(document)
            case "contentBlockStart":
                return self._start_block(document)
            case "contentBlockStop":
                return self._end_block(document)
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
        known = len(block.media)
        events = block.add(as_object(document.get("delta")))
        for piece in block.media[known:]:
            data, kind = decode_media(piece), block.media_type
            if data is not None and kind.startswith("audio/"):
                events.append(self._made_part(block, to_media_part(data, kind)))
        return events

    def _end_block(self, document: JsonObject) -> list[StreamEvent]:
        block = self._blocks.get(self._index(document))
        if block is None or block.is_call:
            return []
        made = block.to_media()
        if made is not None:
            # The pieces of a sound were deltas already.
            return [] if isinstance(made, Audio) else [self._made_part(block, made)]
        if not _server_tools(block.start):
            return []
        return [self._made_part(block, ServerToolBlock(block.to_raw(), self._reply.provider))]

    def _made_part(self, block: _Block, content: Part) -> PartDelta:
        return PartDelta(index=self._made.setdefault(id(block), len(self._made)), content=content)

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
        media: Pieces of its image or sound, each in base64.
        call: Its number among the calls, from 0, if it is one.
    """

    start: JsonObject
    text: list[str] = field(default_factory=list[str])
    thought: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    results: list[Json] = field(default_factory=list[Json])
    media: list[str] = field(default_factory=list[str])
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
        for kind in _MADE:
            if source := as_object(as_object(delta.get(kind)).get("source")):
                self.media.append(as_text(source.get("bytes")))
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

    def to_media(self) -> Image | Audio | File | None:
        """Return the image or the sound, None if it is neither."""
        data, kind = b"".join(filter(None, map(decode_media, self.media))), self.media_type
        return to_media_part(data, kind) if data and kind else None

    @property
    def media_type(self) -> str:
        """The media type of its image or sound, "" if it is neither."""
        kind = next((kind for kind in _MADE if kind in self.start), "")
        form = as_text(as_object(self.start.get(kind)).get("format"))
        return kind and f"{kind}/{form}"

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
        block.add({name: block.start[name] for name in (*_TEXTS, *_MADE) if name in block.start})
        if (thought := block.to_reasoning(reply.provider)) is not None:
            reply.parts.append(thought)
        reply.add_text("".join(block.text))
        if (media := block.to_media()) is not None:
            reply.parts.append(media)
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


_CLAUDE: Final = re.compile(r"\bclaude\b")
_CACHES: Final = re.compile(r"\bclaude\b|\bnova\b")
# The vendors of open models whose models on Bedrock all accept a schema.
_SCHEMAS: Final = re.compile(r"\b(?:google|minimax|moonshot(?:ai)?|nvidia|openai|qwen)\.")
_EFFORTS: Final = re.compile(r"\bopenai\.")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NOT_NAME: Final = re.compile(r"[^a-zA-Z0-9\-()\[\]]+")
_NOT_TOOL: Final = re.compile(r"[^a-zA-Z0-9_-]")
# Amazon's own models have them.
_HOSTED: Final[dict[str, JsonObject]] = {
    "web_search": {"systemTool": {"name": "nova_grounding"}},
    "code_execution": {"systemTool": {"name": "nova_code_interpreter"}},
}
_CACHE_POINT: Final = {"cachePoint": {"type": "default"}}
_CHOICES: Final = {"auto": "auto", "any": "any"}
_IMAGES: Final = {"image/jpg": "jpeg"}
_DOCUMENTS: Final = {
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}


class ConverseEncoder(RequestEncoder):
    """A conversation in the form of Converse.

    Consecutive messages of one role, such as several tool results, are one turn on the wire; the
    last turn stays open until the role changes. The model, and whether to stream, are part of the
    URL. There is no field for a seed; only Claude can be told to make no call or one call at a
    time. Images and documents are sent as bytes, or by an address in S3; of any other address the
    model gets the text.

    Args:
        provider: The provider; only its own reasoning signatures are sent back.
    """

    __slots__ = ("_called", "_early", "_provider", "_role", "_turns")

    def __init__(self, *, provider: str = "") -> None:
        super().__init__()
        self._provider = provider
        self._early: list[str] = []
        self._role = ""
        # All turns, the last one still open.
        self._turns = bytearray()
        # The names of the called tools, in order.
        self._called: dict[str, None] = {}

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self._count += 1
        if message.role is Role.SYSTEM and not self._role:
            # Not every model has a system role: the first such messages join the instructions.
            self._early.append(message.text)
            self._asked = None
            return
        if message.role is Role.ASSISTANT and (calls := message.tool_calls):
            names = dict.fromkeys(_to_name(call.name) for call in calls)
            if not names.keys() <= self._called.keys():
                self._called.update(names)
                self._asked = None
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        for block in self._to_blocks(message):
            if role == self._role:
                self._turns += b","
            else:
                self._turns += b"]}," if self._role else b""
                self._turns += b'{"role":"%b","content":[' % role.encode()
            self._role = role
            self._turns += encode_wire(block)

    def _join(self, asked: Asked) -> bytes:
        mark = b""
        if self._turns and _wants_cache(asked):
            mark = b"," + encode_wire(_CACHE_POINT)
        end = b"]}]," if self._turns else b"],"
        return b"".join((b'{"messages":[', self._turns, mark, end, self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        model, system, _, output_schema, settings, _ = asked
        fields: dict[str, object] = {}
        more: dict[str, object] = {}
        config = without_none(
            {
                "maxTokens": settings.max_tokens,
                "temperature": settings.temperature,
                "topP": settings.top_p,
                "stopSequences": settings.stop,
            }
        )
        if settings.reasoning is not None:
            _set_reasoning(config, more, settings, model)
        self._set_tools(fields, more, asked)
        system = join_system(system, *self._early)
        if output_schema is not None:
            system = _set_schema(fields, output_schema, system, model)
        if system:
            cached = [_CACHE_POINT] if _wants_cache(asked) else []
            fields["system"] = [{"text": system}, *cached]
        if config:
            fields["inferenceConfig"] = config
        if more:
            fields["additionalModelRequestFields"] = more
        merge_extra(fields, settings.extra)
        # The members follow the messages, and there may be none.
        return splice(fields or {"inferenceConfig": {}})

    def _set_tools(self, fields: dict[str, object], more: dict[str, object], asked: Asked) -> None:
        # A conversation with calls is refused without tools: without any, the called ones are
        # named.
        called = (ToolSpec(name=name) for name in self._called)
        items: list[object] = [*hosted_items(asked.settings, _HOSTED, "Converse")]
        items += map(_to_tool, asked.tools or called)
        if not items:
            return
        is_claude = _CLAUDE.search(asked.model) is not None
        choice = to_tool_choice(asked.settings) if asked.tools else {}
        kind = str(choice.get("type", ""))
        config: dict[str, object] = {"tools": items}
        if is_claude and (kind == "none" or "disable_parallel_tool_use" in choice):
            more["tool_choice"] = choice
        elif kind == "none" and not self._called:
            return
        elif kind == "tool":
            config["toolChoice"] = {"tool": {"name": choice["name"]}}
        elif kind in _CHOICES and asked.settings.tool_choice is not None:
            config["toolChoice"] = {kind: {}}
        if is_claude and _wants_cache(asked):
            items.append(_CACHE_POINT)
        fields["toolConfig"] = config

    def _to_blocks(self, message: Message) -> list[object]:
        if message.role is Role.TOOL:
            content = sent(map(_to_result_block, message.parts))
            ident = to_wire_id(message.tool_call_id or "", _CALL_ID)
            return [{"toolResult": {"toolUseId": ident, "content": content}}]
        if message.role is not Role.ASSISTANT:
            return sent(map(_to_block, message.parts))
        return sent(map(self._to_reply_block, message.parts))

    def _to_reply_block(self, part: Part) -> object:
        """Return one block of an earlier reply, None if it is not sent."""
        match part:
            case Reasoning(signature=str(signature), provider=provider) if signature:
                if provider != self._provider:
                    return None
                if part.redacted:
                    return {"reasoningContent": {"redactedContent": signature}}
                thought = {"text": part.text, "signature": signature}
                return {"reasoningContent": {"reasoningText": thought}}
            case ToolCall():
                use = {
                    "toolUseId": to_wire_id(part.id, _CALL_ID),
                    "name": _to_name(part.name),
                    "input": msgspec.Raw(arguments_of(part, stray_key=CUSTOM_INPUT)),
                }
                return {"toolUse": use}
            case ServerToolBlock(raw=raw, provider=provider):
                return raw if provider == self._provider else None
            case Image() | File() | Audio():
                # A model of another provider made it; here only the user shows media.
                return None
            case _:
                return _to_block(part)


def _to_name(name: str) -> str:
    """Return the name of a tool; a model may have called one by a name that is refused."""
    return _NOT_TOOL.sub("_", to_wire_name(name))[:64] or "tool"


def _wants_cache(asked: Asked) -> bool:
    return asked.settings.cache is True and _CACHES.search(asked.model) is not None


def _set_reasoning(
    config: dict[str, object], more: dict[str, object], settings: ModelSettings, model: str
) -> None:
    """Request thinking in the form of the model's vendor; other models decide for themselves."""
    if _CLAUDE.search(model):
        asked: dict[str, object] = without_none({"max_tokens": settings.max_tokens})
        set_thinking(asked, settings, model)
        room = asked.pop("max_tokens")
        if isinstance(asked.get("thinking"), dict) and asked["thinking"] != {"type": "disabled"}:
            config["maxTokens"] = room
        more.update(asked)
    elif _EFFORTS.search(model) and settings.reasoning not in (0, "none"):
        more["reasoning_effort"] = to_effort(settings.reasoning or 0)


def _set_schema(
    fields: dict[str, object], schema: JsonObject, system: str | None, model: str
) -> str | None:
    """Request an answer that follows *schema*, and return the instructions to send."""
    if accepts_schema(model, schema) or (_SCHEMAS.search(model) and is_strict_schema(schema)):
        form = {"schema": encode_wire(schema).decode(), "name": schema_name(schema)}
        shape = {"type": "json_schema", "structure": {"jsonSchema": form}}
        fields["outputConfig"] = {"textFormat": shape}
        return system
    return join_system(system, SCHEMA_PROMPT + encode_wire(schema).decode())


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    schema = tool.parameters or {"type": "object", "properties": {}}
    item: dict[str, object] = {"name": _to_name(tool.name), "inputSchema": {"json": schema}}
    if tool.description:
        item["description"] = tool.description
    if tool.strict is not None:
        item["strict"] = tool.strict
    return {"toolSpec": item}


def _to_result_block(part: Part) -> object:
    """Return one block of a tool's result, None if it is not sent."""
    if isinstance(part, Data) and isinstance(part.data, dict):
        return {"json": part.data}
    return None if isinstance(part, Audio) and part.data is not None else _to_block(part)


def _to_block(part: Part) -> object:
    """Return one block of a message, None if it is not sent."""
    match part:
        case Text(text=text):
            # A blank text is refused.
            return {"text": text} if text.strip() else None
        case Image():
            form = _IMAGES.get(part.media_type, part.media_type.rpartition("/")[2] or "png")
            return _to_media("image", form, part)
        case File():
            return _to_document(part)
        case Audio(data=bytes() as data):
            form = part.media_type.rpartition("/")[2].removeprefix("x-") or "wav"
            return {"audio": {"format": form, "source": {"bytes": _to_base64(data)}}}
        case Audio():
            text = part.transcript or part.url
            return {"text": text} if text else None
        case Data(data=data):
            return {"text": encode_wire(data).decode()}
        case Unknown(raw=raw):
            # A block has no type: its own name is its only member besides the kind.
            return {key: value for key, value in raw.items() if key != "kind"} or None
        case Reasoning() | ToolCall() | ServerToolBlock():
            return None


def _to_document(part: File) -> object:
    suffix = part.name.rpartition(".")[2].lower() if "." in part.name else ""
    form = _DOCUMENTS.get(part.media_type) or suffix or "pdf"
    block = _to_media("document", form, part)
    if block is not None and "document" in block:
        stem = part.name.rpartition(".")[0] or part.name
        name = _NOT_NAME.sub(" ", stem).strip()[:200] or "document"
        block["document"] = {"name": name, **as_object(block["document"])}
    return block


def _to_media(kind: str, form: str, part: Image | File) -> JsonObject | None:
    if part.data is not None:
        return {kind: {"format": form, "source": {"bytes": _to_base64(part.data)}}}
    if part.url.startswith("s3://"):
        return {kind: {"format": form, "source": {"s3Location": {"uri": part.url}}}}
    return {"text": part.url} if part.url else None


def _to_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
