"""Anthropic Messages: requests, replies and streams.

A reply is a list of content blocks, and is sent back as the same list: thoughts with their
signatures, calls, and the blocks of the server's built-in tools in their places. The server
continues a turn that ended with ``pause_turn`` when it is sent back as the last message. Running
code continues in its container, which the request names.

Source:
    https://docs.anthropic.com/en/api/messages, .../messages-streaming,
    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking and
    .../agents-and-tools/tool-use/web-search-tool, and recorded replies;
    https://platform.claude.com/docs/build-with-claude/handling-stop-reasons, read November 2026;
    .../agents-and-tools/tool-use/code-execution-tool, for containers;
    .../build-with-claude/claude-on-amazon-bedrock and .../claude-on-vertex-ai, for the clouds.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeGuard

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
from upshot.wire.accumulator import PAUSED, ReplyAccumulator, StreamEvent, to_reported_cost
from upshot.wire.chat import CUSTOM_INPUT
from upshot.wire.decoding import as_count, as_list, as_object, as_text, encode_json, parse_object
from upshot.wire.encoding import (
    SCHEMA_PROMPT,
    Asked,
    RequestEncoder,
    arguments_of,
    encode_wire,
    hosted_items,
    is_strict_schema,
    join_system,
    sent,
    splice,
    to_own_part,
    to_wire_id,
    to_wire_name,
    version_in,
    without_none,
)


def read_messages(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Read a whole reply into *reply*."""
    if document.get("error"):
        reply.fail(document)
    elif not isinstance(document.get("content"), list):
        reply.fail_unreadable("the reply has no content")
    _read_head(document, reply)
    _read_usage(as_object(document.get("usage")), reply)
    reply.finish_raw = as_text(document.get("stop_reason"))
    _add_blocks((_Block(as_object(item)) for item in as_list(document.get("content"))), reply)


class MessagesStream:
    """Reads the events of one streamed reply into an accumulator."""

    __slots__ = ("_blocks", "_calls", "_reply", "_tools", "_usage")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._blocks: dict[int, _Block] = {}
        self._calls: dict[int, int] = {}
        # The numbers of the blocks of the provider's own tools.
        self._tools: dict[int, int] = {}
        self._usage: JsonObject = {}

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one event and return its deltas."""
        match as_text(document.get("type")) or name:
            case "content_block_delta":
                return self._read_delta(document)
            case "content_block_start":
                return self._start_block(document)
            case "content_block_stop":
                return self._end_block(document)
            case "message_start":
                message = as_object(document.get("message"))
                _read_head(message, self._reply)
                self._merge_usage(message.get("usage"))
            case "message_delta":
                delta = as_object(document.get("delta"))
                self._reply.finish_raw = as_text(delta.get("stop_reason")) or self._reply.finish_raw
                _read_container(delta, self._reply)
                self._merge_usage(document.get("usage"))
            case "message_stop":
                self._reply.done = True
            case "error":
                self._reply.fail(document)
            case _:
                pass
        return []

    def finish(self) -> None:
        """Put the blocks into the accumulator."""
        _add_blocks(self._blocks.values(), self._reply)

    def _start_block(self, document: JsonObject) -> list[StreamEvent]:
        index = self._index(document)
        block = self._blocks[index] = _Block(as_object(document.get("content_block")))
        if block.kind != "tool_use":
            return _to_deltas(block.kind, as_text(block.start.get(block.kind)))
        # The index counts blocks of all kinds; a delta's counts calls.
        place = self._calls[index] = len(self._calls)
        return [ToolCallDelta(index=place, call_id=block.id, name=block.name)]

    def _read_delta(self, document: JsonObject) -> list[StreamEvent]:
        index = self._index(document)
        block = self._blocks.get(index)
        if block is None:
            return []
        delta = as_object(document.get("delta"))
        kind = as_text(delta.get("type")).removesuffix("_delta")
        if kind == "input_json":
            return self._read_input(index, block, as_text(delta.get("partial_json")))
        if kind == "signature":
            block.signature += as_text(delta.get("signature"))
            return []
        if kind == "citations":
            block.citations.append(delta.get("citation"))
            return []
        # Deltas of the provider's built-in tools are not text.
        if kind not in ("text", "thinking"):
            return []
        text = as_text(delta.get(kind))
        block.pieces.append(text)
        return _to_deltas(kind, text)

    def _read_input(self, index: int, block: _Block, text: str) -> list[StreamEvent]:
        block.inputs.append(text)
        place = self._calls.get(index)
        if place is None or not text:
            return []
        return [ToolCallDelta(index=place, call_id=block.id, name=block.name, arguments=text)]

    def _end_block(self, document: JsonObject) -> list[StreamEvent]:
        index = as_count(document.get("index"))
        block = self._blocks.get(len(self._blocks) - 1 if index is None else index)
        if block is None or block.kind in _OF_MODEL:
            return []
        place = self._tools.setdefault(id(block), len(self._tools))
        content = ServerToolBlock(block.to_raw(), self._reply.provider)
        return [PartDelta(index=place, content=content)]

    def _index(self, document: JsonObject) -> int:
        index = as_count(document.get("index"))
        return len(self._blocks) if index is None else index

    def _merge_usage(self, usage: Json) -> None:
        """Merge usage: a later figure replaces an earlier one unless it is missing or null."""
        counts = as_object(usage).items()
        self._usage.update({name: value for name, value in counts if value is not None})
        _read_usage(self._usage, self._reply)


@dataclass(slots=True)
class _Block:
    """One content block and, in a stream, the pieces that came after its start."""

    start: JsonObject
    pieces: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    citations: list[Json] = field(default_factory=list[Json])
    signature: str = ""

    @property
    def kind(self) -> str:
        return as_text(self.start.get("type"))

    @property
    def id(self) -> str:
        return as_text(self.start.get("id"))

    @property
    def name(self) -> str:
        return as_text(self.start.get("name"))

    def text(self, name: str) -> str:
        return as_text(self.start.get(name)) + "".join(self.pieces)

    def to_reasoning(self, provider: str) -> Reasoning:
        """Return the thought, or the stand-in for a withheld one."""
        if self.kind == "redacted_thinking":
            data = as_text(self.start.get("data"))
            return Reasoning(signature=data, provider=provider, redacted=True)
        signature = as_text(self.start.get("signature")) + self.signature
        return Reasoning(text=self.text("thinking"), signature=signature or None, provider=provider)

    @property
    def caller(self) -> JsonObject:
        return as_object(self.start.get("caller"))

    def to_text(self, provider: str) -> Text:
        """Return the text, with its citations."""
        citations = (*as_list(self.start.get("citations")), *self.citations)
        text = self.text("text")
        if not citations:
            return Text(text)
        return Text(text, citations=tuple(map(as_object, citations)), provider=provider)

    def to_call(self, provider: str) -> ToolCall:
        """Return the call; input that came in pieces stays text."""
        arguments = "".join(self.inputs) or as_object(self.start.get("input"))
        if self.caller.get("type", "direct") == "direct":
            return ToolCall(self.id, self.name, arguments)
        # Code at the provider made the call; ``caller`` has to be sent back with it.
        caller = encode_json(self.caller).decode()
        return ToolCall(self.id, self.name, arguments, caller, provider)

    def to_raw(self) -> JsonObject:
        """Return the block in the form of a whole reply."""
        if not self.inputs:
            return self.start
        return {**self.start, "input": parse_object("".join(self.inputs)) or {}}


def _add_blocks(blocks: Iterable[_Block], reply: ReplyAccumulator) -> None:
    callers: list[str] = []
    results: set[str] = set()
    for block in blocks:
        match block.kind:
            case "text":
                if (text := block.to_text(reply.provider)).text:
                    reply.parts.append(text)
            case "thinking" | "redacted_thinking":
                reply.parts.append(block.to_reasoning(reply.provider))
            case "tool_use":
                reply.add_call(block.to_call(reply.provider))
                callers.append(as_text(block.caller.get("tool_id")))
            case kind:
                reply.add_server_block(kind, block.to_raw())
                results.add(as_text(block.start.get("tool_use_id")))
    # A call made by code at the provider is settled once the result of that code arrives.
    reply.settled_calls = sum(1 for caller in callers if caller and caller in results)
    if reply.container and (reply.calls or reply.finish_raw == PAUSED):
        # The turn continues in it. The reply names it outside of its blocks; it is kept among them.
        raw: JsonObject = {"type": _CONTAINER, **reply.container}
        reply.parts.append(ServerToolBlock(raw, reply.provider))


def _to_deltas(kind: str, text: str) -> list[StreamEvent]:
    if not text:
        return []
    return [TextDelta(text=text) if kind == "text" else ReasoningDelta(text=text)]


def _read_head(message: JsonObject, reply: ReplyAccumulator) -> None:
    reply.model = as_text(message.get("model")) or reply.model
    reply.id = as_text(message.get("id")) or reply.id
    _read_container(message, reply)


def _read_container(reported: JsonObject, reply: ReplyAccumulator) -> None:
    container = as_object(reported.get("container"))
    if as_text(container.get("id")):
        reply.container = container


def _read_usage(usage: JsonObject, reply: ReplyAccumulator) -> None:
    if not usage:
        return
    uncached = as_count(usage.get("input_tokens"))
    read = as_count(usage.get("cache_read_input_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    details = as_object(usage.get("output_tokens_details"))
    reply.usage_raw = usage
    reply.cost = to_reported_cost(usage)
    reply.usage = Usage(
        # input_tokens excludes what was read from the cache or written to it.
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=as_count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=as_count(details.get("thinking_tokens")),
        api_calls=1,
    )


_CONTAINER: Final = "container"
_OF_MODEL: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
# The newest versions that every current model has; an object asks for another one.
_HOSTED: Final[dict[str, JsonObject]] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
# Clouds that name the model in the address and the version in the body.
_VERSIONS: Final = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VERSION: Final = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
# The surface requires max_tokens; older models accept no more than this.
_MAX_TOKENS: Final = (
    (re.compile(r"claude-(?:3-(?:opus|sonnet|haiku)|2|instant)"), 4096),
    (re.compile(r"claude-3-5"), 8192),
    (re.compile(r""), 16384),
)
_BUDGETS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}
_EFFORTS: Final = {"minimal": "low", "xhigh": "max"}
_MIN_BUDGET: Final = 1024
# From these versions on, a model decides how long it thinks, and accepts a schema.
_ADAPTIVE_FROM: Final = (4, 6)
_SCHEMA_FROM: Final = (4, 5)
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
# A paused reply may end with a thought, which cannot carry a cache mark.
_THOUGHTS: Final = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'


class MessagesEncoder(RequestEncoder):
    """A conversation in the form of Messages.

    Consecutive messages of one role, such as several tool results, are one turn on the wire; the
    last turn stays open until the role changes.

    Args:
        provider: The provider; only its own reasoning signatures are sent back.
    """

    __slots__ = ("_closed", "_container", "_early", "_open", "_provider", "_role")

    def __init__(self, *, provider: str = "") -> None:
        super().__init__()
        self._provider = provider
        self._closed = bytearray()
        self._role = ""
        self._open: list[bytes] = []
        self._early: list[str] = []
        # The container of the unfinished turn, "" for none.
        self._container = ""

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self._count += 1
        if message.role is Role.SYSTEM and not self._role:
            # The surface has no system role: the first such messages join the instructions.
            self._early.append(message.text)
            self._asked = None
            return
        self._note_container(message)
        blocks = [encode_wire(block) for block in self._to_blocks(message)]
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        # A turn without content is refused.
        if not blocks:
            return
        if role != self._role and self._open:
            if self._closed:
                self._closed += b","
            self._closed += self._open_turn(marked=False)
            self._open.clear()
        self._role = role
        self._open += blocks

    def _note_container(self, message: Message) -> None:
        """Remember the container of the provider's code, until the next user message."""
        container = self._container
        if message.role is Role.ASSISTANT:
            for part in message.parts:
                if _is_container(part) and part.provider == self._provider:
                    container = as_text(part.raw.get("id"))
        elif message.role is not Role.TOOL:
            container = ""
        if container != self._container:
            self._container, self._asked = container, None

    def _join(self, asked: Asked) -> bytes:
        # Encoded again for each request: the cache mark moves to the last turn each time.
        last = self._open_turn(marked=asked.settings.cache is True) if self._open else b""
        between = b"," if self._closed and last else b""
        return b"".join((b'{"messages":[', self._closed, between, last, b"],", self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        model, system, tools, output_schema, settings, stream = asked
        version = _VERSIONS.get(self._provider)
        fields: dict[str, object] = {"model": model}
        if version is not None:
            fields = {"anthropic_version": version}
        _set_sampling(fields, settings)
        set_thinking(fields, settings, model)
        _set_tools(fields, tools, settings)
        system = join_system(system, *self._early)
        if output_schema is not None:
            system = _set_schema(fields, output_schema, system, model)
        if system:
            mark = {"cache_control": {"type": "ephemeral"}}
            marked = [{"type": "text", "text": system, **mark}]
            fields["system"] = marked if settings.cache is True else system
        # On Bedrock the address says whether to stream, and the field is refused.
        if stream and self._provider != "bedrock":
            fields["stream"] = True
        if self._container:
            fields["container"] = self._container
        fields.update(settings.extra)
        return splice(fields)

    def _open_turn(self, *, marked: bool) -> bytes:
        content = b",".join(self._open)
        if marked and not self._open[-1].startswith(_THOUGHTS):
            # Spliced into the last block's bytes, so that the kept bytes stay unmarked.
            content = content[:-1] + _MARK
        return b'{"role":"%s","content":[%s]}' % (self._role.encode(), content)

    def _to_blocks(self, message: Message) -> list[object]:
        if message.role is Role.TOOL:
            content = message.content
            result: dict[str, object] = {
                "type": "tool_result",
                "tool_use_id": to_wire_id(message.tool_call_id or "", _CALL_ID),
                "content": content if isinstance(content, str) else sent(map(_to_block, content)),
            }
            return [result]
        if message.role is not Role.ASSISTANT:
            return sent(map(_to_block, message.parts))
        return sent(map(self._to_reply_block, message.parts))

    def _to_reply_block(self, part: Part) -> object:
        """Return one block of an earlier reply, None if it is not sent."""
        match part:
            case Reasoning():
                return self._to_thought(part)
            case ToolCall():
                return self._to_call(part)
            case ServerToolBlock(raw=raw, provider=provider):
                # The container is a field beside the messages, not a block.
                return raw if provider == self._provider and not _is_container(part) else None
            case Text(text=text, citations=citations) if text.strip() and citations:
                block: dict[str, object] = {"type": "text", "text": text}
                if part.provider == self._provider:
                    block["citations"] = citations
                return block
            case Image() | File():
                # A model of another provider made it; here only the user shows media.
                return None
            case _:
                return _to_block(part)

    def _to_call(self, call: ToolCall) -> object:
        block: dict[str, object] = {
            "type": "tool_use",
            "id": to_wire_id(call.id, _CALL_ID),
            "name": to_wire_name(call.name),
            "input": msgspec.Raw(arguments_of(call, stray_key=CUSTOM_INPUT)),
        }
        if call.signature and call.provider == self._provider:
            caller = parse_object(call.signature)
            if caller is not None:
                block["caller"] = caller
        return block

    def _to_thought(self, part: Reasoning) -> object:
        """Return a thought unchanged; None if it is unsigned or another provider's."""
        if not part.signature or part.provider != self._provider:
            return None
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _is_container(part: Part) -> TypeGuard[ServerToolBlock]:
    return type(part) is ServerToolBlock and part.raw.get("type") == _CONTAINER


def _set_sampling(fields: dict[str, object], settings: ModelSettings) -> None:
    sampling = {
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": settings.stop,
    }
    fields.update(without_none(sampling))


def _set_tools(
    fields: dict[str, object], tools: tuple[ToolSpec, ...], settings: ModelSettings
) -> None:
    items = hosted_items(settings, _HOSTED, "Messages")
    items += map(_to_tool, tools)
    if not items:
        return
    if settings.cache is True:
        items[-1]["cache_control"] = {"type": "ephemeral"}
    fields["tools"] = items
    if choice := to_tool_choice(settings):
        fields["tool_choice"] = choice


def to_tool_choice(settings: ModelSettings) -> dict[str, object]:
    """Return the choice of tools, which also says whether calls may be parallel; or nothing."""
    choice: dict[str, object] = {}
    if settings.tool_choice is not None:
        kind = _CHOICES.get(settings.tool_choice)
        name = to_wire_name(settings.tool_choice)
        choice = {"type": kind} if kind else {"type": "tool", "name": name}
    if settings.parallel_tool_calls is not None and choice.get("type") != "none":
        choice.setdefault("type", "auto")
        choice["disable_parallel_tool_use"] = not settings.parallel_tool_calls
    return choice


def set_thinking(fields: dict[str, object], settings: ModelSettings, model: str) -> None:
    """Request thinking, and set max_tokens, which must leave room for it."""
    reasoning = settings.reasoning
    room = next(size for pattern, size in _MAX_TOKENS if pattern.search(model))
    is_adaptive = version_in(model, _VERSION) >= _ADAPTIVE_FROM
    budget = 0
    if isinstance(reasoning, str) and reasoning != "none" and is_adaptive:
        fields["thinking"] = {"type": "adaptive"}
        fields["output_config"] = {"effort": _EFFORTS.get(reasoning, reasoning)}
    elif reasoning in (0, "none"):
        fields["thinking"] = {"type": "disabled"}
    elif reasoning is not None:
        budget = reasoning if isinstance(reasoning, int) else _BUDGETS[reasoning]
        budget = max(budget, _MIN_BUDGET)
        if settings.max_tokens is not None:
            # A budget that is not below max_tokens is refused, and so is one that is too small.
            budget = min(budget, settings.max_tokens - 1)
        if budget >= _MIN_BUDGET:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
    # Thinking counts towards max_tokens, so the tokens for the answer are added to it.
    fields.setdefault("max_tokens", room + budget)


def accepts_schema(model: str, schema: JsonObject) -> bool:
    """Whether a Claude model enforces *schema*."""
    return version_in(model, _VERSION) >= _SCHEMA_FROM and is_strict_schema(schema)


def _set_schema(
    fields: dict[str, object], schema: JsonObject, system: str | None, model: str
) -> str | None:
    """Request an answer that follows *schema*, and return the instructions to send."""
    if not accepts_schema(model, schema):
        return join_system(system, SCHEMA_PROMPT + encode_wire(schema).decode())
    config = fields.get("output_config")
    form = {"format": {"type": "json_schema", "schema": schema}}
    fields["output_config"] = {**config, **form} if isinstance(config, dict) else form
    return system


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    schema = tool.parameters or {"type": "object", "properties": {}}
    item: dict[str, object] = {"name": to_wire_name(tool.name), "input_schema": schema}
    if tool.description:
        item["description"] = tool.description
    if tool.strict is not None:
        item["strict"] = tool.strict
    return item


def _to_block(part: Part) -> object:
    """Return one block of a message, None if it is not sent."""
    match part:
        case Text(text=text):
            # An empty text block is refused.
            return {"type": "text", "text": text} if text.strip() else None
        case Image():
            return {"type": "image", "source": _to_source(part, "image/png")}
        case File():
            return _to_document(part)
        case Audio():
            text = part.transcript or part.url
            return {"type": "text", "text": text} if text else None
        case Data(data=data):
            return {"type": "text", "text": encode_wire(data).decode()}
        case Unknown(raw=raw):
            return to_own_part(raw)
        case Reasoning() | ToolCall() | ServerToolBlock():
            return None


def _to_document(part: File) -> object:
    source: object
    if part.data is not None and part.media_type.startswith("text/"):
        text = part.data.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif part.id and part.data is None and not part.url:
        source = {"type": "file", "file_id": part.id}
    else:
        source = _to_source(part, "application/pdf")
    block: dict[str, object] = {"type": "document", "source": source}
    if part.name:
        block["title"] = part.name
    return block


def _to_source(part: Image | File, media_type: str) -> object:
    if part.data is None:
        return {"type": "url", "url": part.url}
    data = b64encode(part.data).decode("ascii")
    return {"type": "base64", "media_type": part.media_type or media_type, "data": data}
