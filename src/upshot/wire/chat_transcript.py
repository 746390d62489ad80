"""Conversations as Chat Completions servers want them."""

from __future__ import annotations

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
from .chat_dialects import ChatDialect, find_dialect
from .document import parse_json
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

__all__ = ["ChatTranscript"]

_CHOICES: Final = frozenset({"auto", "none", "required"})


class ChatTranscript:
    """A conversation in the form of Chat Completions.

    Args:
        provider: Whose dialect is spoken; "" or an unknown one speaks the plainest.
        dialect: Speaks this one instead.
    """

    __slots__ = ("_asked", "_dialect", "_first", "_messages", "_provider", "_rest", "count")

    def __init__(self, *, provider: str = "", dialect: ChatDialect | None = None) -> None:
        self.count: int = 0
        self._provider = provider
        self._dialect = dialect or find_dialect(provider)
        self._messages = bytearray()
        self._asked: Asked | None = None
        self._first = self._rest = b""

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self.count += 1
        # One growing buffer: a body copies it once, however many messages there are.
        if self._messages:
            self._messages += b","
        self._messages += encode_wire(self._to_item(message))

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
            self._first, self._rest = self._encode_rest(asked)
            self._asked = asked
        between = b"," if self._first and self._messages else b""
        return b"".join((b'{"messages":[', self._first, between, self._messages, b"],", self._rest))

    def _encode_rest(self, asked: Asked) -> tuple[bytes, bytes]:
        """What stands before the messages, and what after them."""
        model, system, tools, output_schema, settings, stream = asked
        fields: dict[str, object] = {"model": model}
        self._set_sampling(fields, settings)
        self._set_tools(fields, tools, settings)
        if output_schema is not None:
            system = self._set_schema(fields, output_schema, system)
        if stream:
            fields["stream"] = True
            if self._dialect.usage_option:
                fields["stream_options"] = {"include_usage": True}
        fields.update(settings.extra)
        first = encode_wire({"role": "system", "content": system}) if system else b""
        return first, splice(fields)

    def _set_sampling(self, fields: dict[str, object], settings: ModelSettings) -> None:
        told = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            self._dialect.max_tokens: settings.max_tokens,
            "stop": settings.stop,
            self._dialect.seed: settings.seed,
        }
        fields.update({name: value for name, value in told.items() if value is not None})
        if settings.reasoning is not None:
            fields.update(_to_reasoning_fields(settings.reasoning, self._dialect))

    def _set_tools(
        self, fields: dict[str, object], tools: tuple[ToolSpec, ...], settings: ModelSettings
    ) -> None:
        if not tools:
            return
        fields["tools"] = [_to_tool(tool) for tool in tools]
        choice = settings.tool_choice
        if choice == "required":
            fields["tool_choice"] = self._dialect.required
        elif choice in _CHOICES:
            fields["tool_choice"] = choice
        elif choice is not None:
            named = {"name": to_wire_name(choice)}
            fields["tool_choice"] = {"type": "function", "function": named}
        if settings.parallel_tool_calls is not None:
            fields["parallel_tool_calls"] = settings.parallel_tool_calls

    def _set_schema(
        self, fields: dict[str, object], schema: JsonObject, system: str | None
    ) -> str | None:
        """Ask for an answer that follows *schema*, and give the instructions to send."""
        if not self._dialect.schema:
            fields["response_format"] = {"type": "json_object"}
            return join_system(system, SCHEMA_PROMPT + encode_wire(schema).decode())
        form = {"name": schema_name(schema), "schema": schema, "strict": is_strict_schema(schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return system

    def _to_item(self, message: Message) -> dict[str, object]:
        if message.role is Role.ASSISTANT:
            return self._to_assistant_item(message)
        item: dict[str, object] = {"role": message.role, "content": _to_content(message)}
        if message.role is Role.TOOL:
            item["tool_call_id"] = self._wire_id(message.tool_call_id or "")
        elif message.name:
            item["name"] = message.name
        return item

    def _to_assistant_item(self, message: Message) -> dict[str, object]:
        text = message.text
        # Null content is refused where there are no calls beside it.
        item: dict[str, object] = {"role": "assistant", "content": text or None}
        if message.tool_calls:
            item["tool_calls"] = [self._to_call(call) for call in message.tool_calls]
        elif not text:
            item["content"] = ""
        thoughts = [
            part
            for part in message.parts
            if isinstance(part, Reasoning) and part.provider == self._provider
        ]
        if thoughts:
            self._add_thoughts(item, thoughts, called=bool(message.tool_calls))
        return item

    def _add_thoughts(
        self, item: dict[str, object], thoughts: list[Reasoning], *, called: bool
    ) -> None:
        texts = [part.text for part in thoughts if part.text]
        match self._dialect.reasoning_back:
            # DeepSeek wants them back in a tool loop and refused them elsewhere.
            case "content" if called:
                item["reasoning_content"] = "".join(texts)
            case "details":
                signatures = [part.signature for part in thoughts if part.signature]
                item["reasoning_details"] = [parse_json(signature) for signature in signatures]
            case "parts":
                said = item["content"]
                parts: list[object] = [
                    {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
                    for text in texts
                ]
                item["content"] = [*parts, {"type": "text", "text": said}] if said else parts
            case _:
                pass

    def _to_call(self, call: ToolCall) -> dict[str, object]:
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = encode_wire(arguments).decode()
        item: dict[str, object] = {
            "id": self._wire_id(call.id),
            "type": "function",
            "function": {"name": to_wire_name(call.name), "arguments": arguments or "{}"},
        }
        if call.signature is not None and call.provider == self._provider:
            item["extra_content"] = {"google": {"thought_signature": call.signature}}
        return item

    def _wire_id(self, ident: str) -> str:
        return to_wire_id(ident, self._dialect.call_id)


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    function: dict[str, object] = {"name": to_wire_name(tool.name)}
    if tool.parameters:
        function["parameters"] = tool.parameters
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _to_reasoning_fields(reasoning: str | int, dialect: ChatDialect) -> dict[str, object]:
    off = reasoning in (0, "none")
    match dialect.reasoning:
        case "effort":
            return {"reasoning_effort": to_effort(reasoning)}
        case "object":
            if off:
                return {"reasoning": {"enabled": False}}
            key = "max_tokens" if isinstance(reasoning, int) else "effort"
            return {"reasoning": {key: reasoning}}
        case "thinking":
            if off:
                return {"thinking": {"type": "disabled"}}
            return {"thinking": {"type": "enabled"}, "reasoning_effort": to_effort(reasoning)}
        case "enable":
            budget = {"thinking_budget": reasoning} if isinstance(reasoning, int) else {}
            return {"enable_thinking": False} if off else {"enable_thinking": True, **budget}
        case _:
            return {}


def _to_content(message: Message) -> str | list[object]:
    if isinstance(message.content, str):
        return message.content
    if all(isinstance(part, (Text, Reasoning)) for part in message.content):
        return message.text
    items = (_to_part(part) for part in message.content)
    return [item for item in items if item is not None]


def _to_part(part: Part) -> object:
    """One part of a user's or tool's message, None for what is not sent."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image():
            return _to_image(part)
        case File():
            return _to_file(part)
        case Audio(data=bytes() as data):
            form = part.media_type.rpartition("/")[2].removeprefix("x-") or "wav"
            sound = {"data": b64encode(data).decode("ascii"), "format": form}
            return {"type": "input_audio", "input_audio": sound}
        case Audio():
            return {"type": "text", "text": part.transcript or part.url}
        case Data(data=data):
            return {"type": "text", "text": encode_wire(data).decode()}
        case Unknown(raw=raw):
            return to_own_part(raw)
        case Reasoning():
            return None


def _to_image(part: Image) -> object:
    url = part.url
    if part.data is not None:
        url = to_data_url(part.data, part.media_type or "image/png")
    image = {"url": url, "detail": part.detail} if part.detail else {"url": url}
    return {"type": "image_url", "image_url": image}


def _to_file(part: File) -> object:
    if part.data is not None:
        address = to_data_url(part.data, part.media_type or "application/octet-stream")
        file = {"filename": part.name or "file", "file_data": address}
    elif part.id:
        file = {"file_id": part.id}
    else:
        return {"type": "text", "text": part.url or part.summary or part.name}
    return {"type": "file", "file": file}
