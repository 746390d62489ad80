"""Conversations as Responses servers want them."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

from ..contract import (
    Audio,
    Data,
    File,
    Image,
    JsonObject,
    Message,
    ModelSettings,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    Unknown,
)
from .chat_dialects import find_dialect
from .transcript import (
    SCHEMA_PROMPT,
    Asked,
    encode_wire,
    is_strict_schema,
    join_system,
    schema_name,
    splice,
    to_data_url,
    to_effort,
    to_own_part,
    to_wire_id,
    to_wire_name,
)

__all__ = ["ResponsesTranscript"]

_CALL_ID: Final = re.compile(r".{1,64}", re.DOTALL)
_CHOICES: Final = frozenset({"auto", "none", "required"})
# Whose thoughts go back only in their encrypted form.
_SIGNED_ONLY: Final = frozenset({"openai", "azure", "xai"})
# Which models think, and so can be asked for their thoughts in encrypted form; others refuse that.
_THINKING: Final = re.compile(
    r"(?:^|[/.])(?:o[1-9]|codex|gpt-[5-9](?!.*-chat)|grok-(?:[4-9]|3-mini)(?!.*-non-reasoning))"
)


class ResponsesTranscript:
    """A conversation in the form of Responses.

    It is sent whole each time, and the server is asked to store nothing. The surface has no field
    for ``stop`` and none for ``seed``: both settings are left out.

    Args:
        provider: Whose thoughts are sent back; those of others are dropped.
    """

    __slots__ = ("_asked", "_items", "_provider", "_rest", "_schema", "count")

    def __init__(self, *, provider: str = "") -> None:
        self.count: int = 0
        self._provider = provider
        self._schema = find_dialect(provider).schema
        self._items = bytearray()
        self._asked: Asked | None = None
        self._rest = b""

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self.count += 1
        for item in self._to_items(message):
            if self._items:
                self._items += b","
            self._items += encode_wire(item)

    def body(
        self,
        *,
        model: str,
        system: str | None,
        tools: tuple[ToolSpec, ...],
        output_schema: JsonObject | None,
        settings: ModelSettings,
        stream: bool,
    ) -> bytes:
        """Join what is kept to the body of one request; see :class:`Transcript`."""
        asked = Asked(model, system, tools, output_schema, settings, stream)
        # Turns are mostly asked alike. Only the free fields may have been changed in place.
        if settings.extra or asked != self._asked:
            self._asked = None
            self._rest = self._encode_rest(asked)
            self._asked = asked
        return b"".join((b'{"input":[', self._items, b"],", self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        """What stands beside the messages."""
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
        if not tools:
            return
        fields["tools"] = [_to_tool(tool) for tool in tools]
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
        """Ask for an answer that follows *schema*, and give the instructions to send."""
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
        # Each thought, text and call is an item of its own.
        items: list[object] = []
        for part in message.parts:
            if isinstance(part, Reasoning):
                items += self._to_thought(part)
        if text := message.text:
            items.append({"role": "assistant", "content": text})
        items += [_to_call(call) for call in message.tool_calls]
        return items

    def _to_thought(self, part: Reasoning) -> list[object]:
        """A thought as it came; none where it is another provider's, or worth nothing unsigned."""
        if part.provider != self._provider:
            return []
        item: dict[str, object] = {"type": "reasoning", "summary": []}
        if part.id:
            item["id"] = part.id
        if part.signature:
            item["encrypted_content"] = part.signature
            if part.text:
                item["summary"] = [{"type": "summary_text", "text": part.text}]
        elif not part.text or self._provider in _SIGNED_ONLY:
            return []
        else:
            item["content"] = [{"type": "reasoning_text", "text": part.text}]
        return [item]


def _set_sampling(fields: dict[str, object], settings: ModelSettings, model: str) -> None:
    told = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_tokens,
    }
    fields.update({name: value for name, value in told.items() if value is not None})
    effort = None if settings.reasoning is None else to_effort(settings.reasoning)
    if effort is not None:
        fields["reasoning"] = {"effort": effort}
    if effort != "none" and (effort or _THINKING.search(model)):
        # Nothing is stored, so a thought goes back whole or not at all.
        fields["include"] = ["reasoning.encrypted_content"]


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    item: dict[str, object] = {
        "type": "function",
        "name": to_wire_name(tool.name),
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        # Left out, it would be true, and the server would make every parameter a required one.
        "strict": bool(tool.strict),
    }
    if tool.description:
        item["description"] = tool.description
    return item


def _to_call(call: ToolCall) -> object:
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = encode_wire(arguments).decode()
    return {
        "type": "function_call",
        "call_id": to_wire_id(call.id, _CALL_ID),
        "name": to_wire_name(call.name),
        "arguments": arguments or "{}",
    }


def _to_content(message: Message) -> str | list[object]:
    """The content of a message that is not the model's."""
    if all(isinstance(part, (Text, Reasoning)) for part in message.parts):
        return message.text
    items = (_to_part(part) for part in message.parts)
    return [item for item in items if item is not None]


def _to_part(part: Part) -> object:
    """One part, None for what is not sent."""
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image():
            return _to_image(part)
        case File():
            return _to_file(part)
        case Audio(data=bytes() as data):
            form = part.media_type.rpartition("/")[2].removeprefix("x-") or "wav"
            sound = {"data": b64encode(data).decode("ascii"), "format": form}
            return {"type": "input_audio", "input_audio": sound}
        case Audio():
            return {"type": "input_text", "text": part.transcript or part.url}
        case Data(data=data):
            return {"type": "input_text", "text": encode_wire(data).decode()}
        case Unknown(raw=raw):
            return to_own_part(raw)
        case Reasoning():
            return None


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
