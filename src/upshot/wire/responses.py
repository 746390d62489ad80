"""OpenAI Responses, and servers compatible with it: requests, replies and streams.

A reply is a list of items: messages, thoughts, calls, and items of the server's built-in tools.
They are sent back in the same order, since a call or a search is refused without its thought.

Source:
    https://platform.openai.com/docs/api-reference/responses and .../responses-streaming, read
    November 2025, and recorded replies of Azure, Bedrock, DeepSeek, OpenRouter and xAI.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    ServerToolBlock,
    Text,
)
from upshot.contract.model_calls import PartDelta, ReasoningDelta, TextDelta, ToolCallDelta
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.wire.accumulator import ReplyAccumulator, StreamEvent, to_reported_cost
from upshot.wire.chat import CUSTOM_INPUT, find_dialect
from upshot.wire.decoding import (
    as_count,
    as_list,
    as_object,
    as_text,
    encode_json,
    parse_object,
)
from upshot.wire.encoding import (
    SCHEMA_PROMPT,
    Asked,
    RequestEncoder,
    arguments_text,
    encode_wire,
    hosted_items,
    is_strict_schema,
    join_system,
    schema_name,
    sent,
    splice,
    to_data_url,
    to_effort,
    to_openai_part,
    to_wire_id,
    to_wire_name,
    without_none,
)
from upshot.wire.media import decode_media

# By event: what it extends, and the type of its item. The output of the provider's built-in tools
# is not streamed.
_DELTAS: Final = {
    "response.output_text.delta": ("text", "message"),
    "response.refusal.delta": ("refusal", "message"),
    "response.reasoning_text.delta": ("content", "reasoning"),
    "response.reasoning_summary_text.delta": ("summary", "reasoning"),
    "response.function_call_arguments.delta": ("arguments", "function_call"),
    "response.custom_tool_call_input.delta": ("input", "custom_tool_call"),
}
_DONES: Final = {
    "response.output_text.done": ("text", "message", "text"),
    "response.refusal.done": ("refusal", "message", "refusal"),
    "response.reasoning_text.done": ("content", "reasoning", "text"),
    "response.reasoning_summary_text.done": ("summary", "reasoning", "text"),
    "response.function_call_arguments.done": ("arguments", "function_call", "arguments"),
    "response.custom_tool_call_input.done": ("input", "custom_tool_call", "input"),
}
_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
# xAI has no custom tools: such a call is one of xAI's searches, already answered.
_OWN_CALLS: Final = {"xai": "custom_tool_call"}
_OF_MODEL: Final = frozenset({"message", "reasoning", *_CALLS, ""})
_THOUGHTS: Final = ("summary", "content")
_PARAGRAPH: Final = "\n\n"


def read_responses(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Read a whole reply into *reply*."""
    _read_head(document, reply)
    _read_end(document, reply)
    is_response = isinstance(document.get("output"), list) or as_text(document.get("status"))
    if not is_response and reply.error is None:
        reply.fail_unreadable("the reply has no output")
    _add_items(map(as_object, as_list(document.get("output"))), reply)


class ResponsesStream:
    """Reads the events of one streamed reply into an accumulator."""

    __slots__ = ("_calls", "_items", "_made", "_output", "_reply")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._items: dict[int, _Item] = {}
        self._calls = 0
        # The numbers of the items that are no text, thought or call.
        self._made: dict[int, int] = {}
        self._output: list[Json] = []

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one event and return its deltas."""
        kind = as_text(document.get("type")) or name
        if grows := _DELTAS.get(kind):
            return self._read_delta(document, *grows)
        if done := _DONES.get(kind):
            channel, item_type, key = done
            index, item = self._find(document, item_type)
            return _complete(item, channel, index, as_text(document.get(key)))
        match kind:
            case "response.output_item.added":
                return self._begin_item(document)
            case "response.output_item.done":
                return self._end_item(document)
            case "response.image_generation_call.partial_image":
                return self._read_draft(document)
            case "error":
                self._reply.fail(_error_of(document))
            case _ if response := as_object(document.get("response")):
                _read_head(response, self._reply)
                if ending := _ENDS.get(kind):
                    return self._end(response, ending)
            case _:
                pass
        return []

    def finish(self) -> None:
        """Put the items into the accumulator: from the last event, or else the collected ones."""
        items = [as_object(item) for item in self._output]
        if not items:
            # There was no last event with the whole answer, for example because the stream broke
            # off.
            items = [item.to_document() for _, item in sorted(self._items.items())]
        _add_items(items, self._reply)

    def _read_delta(self, document: JsonObject, channel: str, item_type: str) -> list[StreamEvent]:
        index, item = self._find(document, item_type)
        return item.add(channel, index, as_text(document.get("delta")))

    def _begin_item(self, document: JsonObject) -> list[StreamEvent]:
        place = self._place_of(document)
        item = self._items[place] = self._new_item(as_object(document.get("item")))
        if item.call is None:
            return []
        return [ToolCallDelta(index=item.call, call_id=item.call_id, name=item.name)]

    def _end_item(self, document: JsonObject) -> list[StreamEvent]:
        place = self._place_of(document)
        events: list[StreamEvent] = []
        if place not in self._items:
            events += self._begin_item(document)
        item = self._items[place]
        item.document = as_object(document.get("item"))
        for channel, index, text in _texts_of(item.document):
            events += _complete(item, channel, index, text)
        part = _to_own_part(item.document, self._reply.provider)
        return events if part is None else [*events, self._made_part(place, part)]

    def _read_draft(self, document: JsonObject) -> list[StreamEvent]:
        data = decode_media(as_text(document.get("partial_image_b64")))
        if data is None:
            return []
        kind = f"image/{as_text(document.get('output_format')) or 'png'}"
        return [self._made_part(self._place_of(document), Image(data=data, media_type=kind))]

    def _made_part(self, place: int, content: Part) -> PartDelta:
        index = self._made.setdefault(place, len(self._made))
        return PartDelta(index=index, content=content)

    def _end(self, response: JsonObject, ending: str) -> list[StreamEvent]:
        self._reply.done = True
        _read_end({**response, "status": ending}, self._reply)
        self._output = as_list(response.get("output"))
        events: list[StreamEvent] = []
        if not self._items:
            # Some servers send only the last event, which has the whole answer.
            for place, item in enumerate(self._output):
                events += self._end_item({"output_index": place, "item": item})
        return events

    def _find(self, document: JsonObject, item_type: str) -> tuple[int, _Item]:
        """Return the part's index and the item that *document* continues, or a new item."""
        place = self._place_of(document)
        item = self._items.get(place)
        if item is None:
            start: JsonObject = {"type": item_type, "id": document.get("item_id")}
            item = self._items[place] = self._new_item(start)
        index = as_count(document.get("content_index"))
        if index is None:
            index = as_count(document.get("summary_index")) or 0
        return index, item

    def _place_of(self, document: JsonObject) -> int:
        """Return the position of the item: by its output index, else by its id, else the last."""
        place = as_count(document.get("output_index"))
        if place is not None:
            return place
        item = as_object(document.get("item"))
        ident = as_text(document.get("item_id")) or as_text(item.get("id"))
        for known, other in self._items.items():
            if ident and as_text(other.document.get("id")) == ident:
                return known
        last = max(self._items, default=-1)
        return last + 1 if item or last < 0 else last

    def _new_item(self, document: JsonObject) -> _Item:
        kind = as_text(document.get("type"))
        if kind not in _CALLS or _OWN_CALLS.get(self._reply.provider) == kind:
            return _Item(document)
        # A delta's index counts calls; the output index counts items of all types.
        self._calls += 1
        return _Item(document, self._calls - 1)


@dataclass(slots=True)
class _Item:
    """One item of the output, and the pieces that came after its start.

    Attributes:
        document: The item as it was last sent whole.
        call: Its number among the calls that the client has to make, from 0; None if it is not one.
        pieces: The streamed pieces, by what they extend and the index of the part.
    """

    document: JsonObject
    call: int | None = None
    pieces: dict[tuple[str, int], list[str]] = field(
        default_factory=dict[tuple[str, int], list[str]]
    )

    @property
    def name(self) -> str:
        return as_text(self.document.get("name"))

    @property
    def call_id(self) -> str:
        return as_text(self.document.get("call_id")) or as_text(self.document.get("id"))

    def add(self, channel: str, index: int, text: str) -> list[StreamEvent]:
        """Keep a piece, and return it as a delta."""
        if not text:
            return []
        key = (channel, index)
        if key not in self.pieces and channel in _THOUGHTS and self.pieces:
            # Parts of a thought are paragraphs.
            self.pieces[key] = [text]
            text = _PARAGRAPH + text
        else:
            self.pieces.setdefault(key, []).append(text)
        match channel:
            case "text":
                return [TextDelta(text=text)]
            case "summary" | "content":
                return [ReasoningDelta(text=text)]
            case "arguments" | "input" if self.call is not None:
                call_id, name = self.call_id, self.name
                return [ToolCallDelta(index=self.call, call_id=call_id, name=name, arguments=text)]
            case _:
                return []

    def to_document(self) -> JsonObject:
        """Return the item, completed from its pieces if it was not sent whole."""
        document = dict(self.document)
        parts: dict[str, list[Json]] = {"content": [], "summary": []}
        for (channel, _), pieces in sorted(self.pieces.items()):
            text = "".join(pieces)
            match channel:
                case "text":
                    parts["content"].append({"type": "output_text", "text": text})
                case "refusal":
                    parts["content"].append({"type": "refusal", "refusal": text})
                case "summary" | "content":
                    parts[channel].append({"type": "text", "text": text})
                case _:
                    document[channel] = document.get(channel) or text
        for name, found in parts.items():
            if found and not document.get(name):
                document[name] = found
        return document


def _complete(item: _Item, channel: str, index: int, text: str) -> list[StreamEvent]:
    """Add the part of *text* that did not come in pieces before."""
    # If the whole text differs from the pieces, nothing is added: a delta cannot retract text.
    known = "".join(item.pieces.get((channel, index), ()))
    return item.add(channel, index, text[len(known) :]) if text.startswith(known) else []


def _texts_of(document: JsonObject) -> Iterable[tuple[str, int, str]]:
    """Yield the texts of a whole item that may have come in pieces: (channel, index, text)."""
    kind = as_text(document.get("type"))
    if key := _CALLS.get(kind):
        yield key, 0, as_text(document.get(key))
    for name in _THOUGHTS:
        for index, part in enumerate(map(as_object, as_list(document.get(name)))):
            if kind == "reasoning":
                yield name, index, as_text(part.get("text"))
            elif kind == "message" and part.get("type") == "refusal":
                yield "refusal", index, as_text(part.get("refusal"))
            elif kind == "message":
                yield "text", index, as_text(part.get("text"))


def _read_head(response: JsonObject, reply: ReplyAccumulator) -> None:
    reply.model = as_text(response.get("model")) or reply.model
    reply.id = as_text(response.get("id")) or reply.id
    reply.service_tier = as_text(response.get("service_tier")) or reply.service_tier


def _read_end(response: JsonObject, reply: ReplyAccumulator) -> None:
    status = as_text(response.get("status"))
    why = as_text(as_object(response.get("incomplete_details")).get("reason"))
    reply.finish_raw = why if status == "incomplete" and why else status
    _read_usage(as_object(response.get("usage")), reply)
    if response.get("error"):
        reply.fail(_error_of(response))


def _error_of(document: JsonObject) -> JsonObject:
    """Return the error fields of *document*."""
    names = ("error", "code", "message", "param")
    return {name: value for name in names if (value := document.get(name)) is not None}


def _read_usage(usage: JsonObject, reply: ReplyAccumulator) -> None:
    if not usage:
        return
    taken_of = as_object(usage.get("input_tokens_details"))
    given_of = as_object(usage.get("output_tokens_details"))
    taken = as_count(usage.get("input_tokens"))
    given = as_count(usage.get("output_tokens"))
    total = as_count(usage.get("total_tokens"))
    reasoning = as_count(given_of.get("reasoning_tokens"))
    if taken is not None and given is not None and reasoning and taken + given != total:
        # As on the chat surface: omitted reasoning is added back if that matches the total.
        given += reasoning if taken + given + reasoning == total else 0
    reply.usage_raw = usage
    reply.total_tokens_reported = total
    reply.cost = to_reported_cost(usage)
    reply.usage = Usage(
        input_tokens=taken,
        output_tokens=given,
        cache_read_tokens=as_count(taken_of.get("cached_tokens")),
        cache_write_tokens=as_count(taken_of.get("cache_write_tokens")),
        reasoning_tokens=reasoning,
        input_audio_tokens=as_count(taken_of.get("audio_tokens")),
        output_audio_tokens=as_count(given_of.get("audio_tokens")),
        api_calls=1,
    )


def _add_items(items: Iterable[JsonObject], reply: ReplyAccumulator) -> None:
    for item in items:
        kind = as_text(item.get("type"))
        match kind:
            case "message":
                _add_message(item, reply)
            case "reasoning":
                reply.parts.append(_to_reasoning(item, reply.provider))
            case "function_call" | "custom_tool_call" if _OWN_CALLS.get(reply.provider) != kind:
                reply.add_call(_to_call(item, reply))
            case _ if part := _to_own_part(item, reply.provider):
                reply.parts.append(part)
                reply.server_tools.append(kind)
                reply.searches += _is_search(item)
            case _:
                pass


def _to_own_part(item: JsonObject, provider: str) -> Image | ServerToolBlock | None:
    """Return the item of a tool of the provider; None for an item of the model."""
    kind = as_text(item.get("type"))
    if kind in _OF_MODEL and _OWN_CALLS.get(provider) != kind:
        return None
    image = _to_image_part(item, provider) if kind == "image_generation_call" else None
    return image or ServerToolBlock(item, provider)


def _to_image_part(item: JsonObject, provider: str) -> Image | None:
    """Return the image that a call made, signed with the rest of the item; None without one."""
    data = decode_media(as_text(item.get("result")))
    if data is None:
        return None
    rest = {name: value for name, value in item.items() if name != "result"}
    return Image(
        data=data,
        media_type=f"image/{as_text(item.get('output_format')) or 'png'}",
        signature=encode_json(rest).decode(),
        provider=provider,
    )


def _is_search(item: JsonObject) -> bool:
    # Opening a page after a search is free.
    action = as_object(item.get("action")).get("type")
    return item.get("type") == "web_search_call" and action in (None, "search")


def _add_message(item: JsonObject, reply: ReplyAccumulator) -> None:
    content = item.get("content")
    if isinstance(content, str):
        reply.add_text(content)
    for part in map(as_object, as_list(content)):
        if part.get("type") == "refusal":
            reply.refusal.append(as_text(part.get("refusal")))
        else:
            reply.add_text(as_text(part.get("text")))
            reply.cites = reply.cites or bool(part.get("annotations"))


def _to_reasoning(item: JsonObject, provider: str) -> Reasoning:
    """Return the thought itself if it is shown, else its summary."""
    shown = [
        _PARAGRAPH.join(as_text(as_object(part).get("text")) for part in as_list(item.get(name)))
        for name in ("content", "summary")
    ]
    signature = as_text(item.get("encrypted_content")) or None
    return Reasoning(
        text=shown[0] or shown[1],
        signature=signature,
        provider=provider,
        id=as_text(item.get("id")),
        # Not even a summary is shown.
        redacted=signature is not None and not any(shown),
    )


def _to_call(item: JsonObject, reply: ReplyAccumulator) -> ToolCall:
    ident = as_text(item.get("call_id")) or as_text(item.get("id"))
    ident = ident or reply.next_call_id()
    name = as_text(item.get("name"))
    if item.get("type") == "custom_tool_call":
        return ToolCall(ident, name, {CUSTOM_INPUT: as_text(item.get("input"))})
    arguments = item.get("arguments")
    return ToolCall(ident, name, as_text(arguments) or as_object(arguments))


_CALL_ID: Final = re.compile(r".{1,64}", re.DOTALL)
_CHOICES: Final = frozenset({"auto", "none", "required"})
# Providers that accept thoughts only in encrypted form.
_SIGNED_ONLY: Final = frozenset({"openai", "azure", "xai"})
# Blocks that need an answer from the client. Upshot sends none, and without one they are refused.
_FOR_CLIENT: Final = frozenset({"computer_call", "local_shell_call", "apply_patch_call"})
_HOSTED: Final[dict[str, JsonObject]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "image_generation": {"type": "image_generation"},
}
# xAI runs code in no container of the caller's.
_HOSTED_BY: Final[dict[str, dict[str, JsonObject]]] = {
    "xai": {**_HOSTED, "code_execution": {"type": "code_interpreter"}},
}
# Models that think: only these accept the request for encrypted thoughts.
_THINKING: Final = re.compile(
    r"(?:^|[/.])(?:o[1-9]|codex|gpt-[5-9](?!.*-chat)|grok-(?:[4-9]|3-mini)(?!.*-non-reasoning))"
)


class ResponsesEncoder(RequestEncoder):
    """A conversation in the form of Responses.

    It is sent whole each time, and the server is asked to store nothing. The surface has no fields
    for ``stop`` and ``seed``: both settings are omitted.

    Args:
        provider: The provider; only its own thoughts are sent back.
    """

    __slots__ = ("_items", "_provider", "_schema")

    def __init__(self, *, provider: str = "") -> None:
        super().__init__()
        self._provider = provider
        self._schema = find_dialect(provider).schema
        self._items = bytearray()

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self._count += 1
        for item in self._to_items(message):
            if self._items:
                self._items += b","
            self._items += encode_wire(item)

    def _join(self, asked: Asked) -> bytes:
        return b"".join((b'{"input":[', self._items, b"],", self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        model, system, tools, output_schema, settings, stream = asked
        fields: dict[str, object] = {"model": model, "store": False}
        _set_sampling(fields, settings, model)
        self._set_tools(fields, tools, settings)
        if output_schema is not None:
            system = self._set_schema(fields, output_schema, system)
        if system:
            fields["instructions"] = system
        if stream:
            fields["stream"] = True
        fields.update(settings.extra)
        return splice(fields)

    def _set_tools(
        self, fields: dict[str, object], tools: tuple[ToolSpec, ...], settings: ModelSettings
    ) -> None:
        known = _HOSTED_BY.get(self._provider, _HOSTED)
        hosted = hosted_items(settings, known, self._provider or "Responses")
        if not tools and not hosted:
            return
        fields["tools"] = [*hosted, *map(_to_tool, tools)]
        choice = settings.tool_choice
        if choice in _CHOICES:
            fields["tool_choice"] = choice
        elif choice is not None:
            fields["tool_choice"] = {"type": "function", "name": to_wire_name(choice)}
        if settings.parallel_tool_calls is not None:
            fields["parallel_tool_calls"] = settings.parallel_tool_calls

    def _set_schema(
        self, fields: dict[str, object], schema: JsonObject, system: str | None
    ) -> str | None:
        """Request an answer that follows *schema*, and return the instructions to send."""
        if not self._schema:
            fields["text"] = {"format": {"type": "json_object"}}
            return join_system(system, SCHEMA_PROMPT + encode_wire(schema).decode())
        form = {
            "type": "json_schema",
            "name": schema_name(schema),
            "schema": schema,
            "strict": is_strict_schema(schema),
        }
        fields["text"] = {"format": form}
        return system

    def _to_items(self, message: Message) -> list[object]:
        match message.role:
            case Role.ASSISTANT:
                return self._to_assistant_items(message)
            case Role.TOOL:
                call_id = to_wire_id(message.tool_call_id or "", _CALL_ID)
                output = _to_content(message)
                return [{"type": "function_call_output", "call_id": call_id, "output": output}]
            case role:
                return [{"role": role, "content": _to_content(message)}]

    def _to_assistant_items(self, message: Message) -> list[object]:
        # Each thought, text, call and block is a separate item, in the order of the parts.
        items: list[object] = []
        texts: list[str] = []
        is_whole = True
        for part in message.parts:
            match part:
                case Text(text=text):
                    texts.append(text)
                    continue
                case Reasoning():
                    item = self._to_thought(part)
                    # A block is refused without its thought.
                    is_whole = is_whole and item is not None
                case ToolCall():
                    item = _to_call_item(part)
                case Image(signature=str(signature), data=bytes(data)) if is_whole:
                    is_own = part.provider == self._provider
                    item = _to_image_call(signature, data) if is_own else None
                case ServerToolBlock(raw=raw, provider=provider):
                    is_sent = is_whole and provider == self._provider
                    item = raw if is_sent and raw.get("type") not in _FOR_CLIENT else None
                case _:
                    item = None
            if item is not None:
                items += _to_said(texts)
                items.append(item)
        return items + _to_said(texts)

    def _to_thought(self, part: Reasoning) -> object:
        """Return a thought unchanged; None if another provider's or missing its signature."""
        if part.provider != self._provider:
            return None
        item: dict[str, object] = {"type": "reasoning", "summary": []}
        if part.id:
            item["id"] = part.id
        if part.signature:
            item["encrypted_content"] = part.signature
            if part.text:
                item["summary"] = [{"type": "summary_text", "text": part.text}]
        elif not part.text or self._provider in _SIGNED_ONLY:
            return None
        else:
            item["content"] = [{"type": "reasoning_text", "text": part.text}]
        return item


def _to_image_call(signature: str, data: bytes) -> JsonObject | None:
    """Return the item of a made image as it came."""
    rest = parse_object(signature)
    return None if rest is None else {**rest, "result": b64encode(data).decode("ascii")}


def _to_said(texts: list[str]) -> list[object]:
    """Return the texts so far as one item, none if they are empty; clears the list."""
    text = "".join(texts)
    texts.clear()
    return [{"role": "assistant", "content": text}] if text else []


def _set_sampling(fields: dict[str, object], settings: ModelSettings, model: str) -> None:
    sampling = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_tokens,
    }
    fields.update(without_none(sampling))
    effort = None if settings.reasoning is None else to_effort(settings.reasoning)
    if effort is not None:
        fields["reasoning"] = {"effort": effort}
    if effort != "none" and (effort or _THINKING.search(model)):
        # Nothing is stored at the server, so a thought must be sent back whole.
        fields["include"] = ["reasoning.encrypted_content"]


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    item: dict[str, object] = {
        "type": "function",
        "name": to_wire_name(tool.name),
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        # If omitted it is true, and the server would make every parameter required.
        "strict": bool(tool.strict),
    }
    if tool.description:
        item["description"] = tool.description
    return item


def _to_call_item(call: ToolCall) -> object:
    return {
        "type": "function_call",
        "call_id": to_wire_id(call.id, _CALL_ID),
        "name": to_wire_name(call.name),
        "arguments": arguments_text(call),
    }


def _to_content(message: Message) -> str | list[object]:
    """Return the content of a user's or tool's message."""
    if all(isinstance(part, (Text, Reasoning)) for part in message.parts):
        return message.text
    return sent(map(_to_part, message.parts))


def _to_part(part: Part) -> object:
    return to_openai_part(part, "input_text", to_image=_to_image, to_file=_to_file)


def _to_image(part: Image) -> object:
    url = part.url
    if part.data is not None:
        url = to_data_url(part.data, part.media_type or "image/png")
    item = {"type": "input_image", "image_url": url}
    return {**item, "detail": part.detail} if part.detail else item


def _to_file(part: File) -> object:
    if part.data is not None:
        address = to_data_url(part.data, part.media_type or "application/octet-stream")
        return {"type": "input_file", "filename": part.name or "file", "file_data": address}
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    if part.id:
        return {"type": "input_file", "file_id": part.id}
    return {"type": "input_text", "text": part.summary or part.name}
