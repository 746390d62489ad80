"""Conversations as Anthropic's Messages surface wants them."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

import msgspec

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
    ToolSpec,
    Unknown,
)
from .chat import CUSTOM_INPUT
from .transcript import (
    SCHEMA_PROMPT,
    Asked,
    arguments_of,
    encode_wire,
    is_strict_schema,
    join_system,
    splice,
    to_own_part,
    to_wire_id,
    to_wire_name,
)

__all__ = ["MessagesTranscript"]

_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VERSION: Final = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
# The surface asks for max_tokens; older models take no more than this.
_MAX_TOKENS: Final = (
    (re.compile(r"claude-(?:3-(?:opus|sonnet|haiku)|2|instant)"), 4096),
    (re.compile(r"claude-3-5"), 8192),
    (re.compile(r""), 16384),
)
_BUDGETS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}
_EFFORTS: Final = {"minimal": "low", "xhigh": "max"}
_MIN_BUDGET: Final = 1024
# From these versions on, a model decides itself how long it thinks, and takes a schema.
_ADAPTIVE_FROM: Final = (4, 6)
_SCHEMA_FROM: Final = (4, 5)
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'


class MessagesTranscript:
    """A conversation in the form of Messages.

    Turns of one role that follow one another, such as several tool results, are one turn on the
    wire; the last one stays open until the role changes.

    Args:
        provider: Whose reasoning signatures are sent back; those of others are dropped.
    """

    __slots__ = ("_asked", "_closed", "_early", "_open", "_provider", "_rest", "_role", "count")

    def __init__(self, *, provider: str = "") -> None:
        self.count: int = 0
        self._provider = provider
        self._closed = bytearray()
        self._role = ""
        self._open: list[bytes] = []
        self._early: list[str] = []
        self._asked: Asked | None = None
        self._rest = b""

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self.count += 1
        if message.role is Role.SYSTEM and not self._role:
            # The surface has no such role: what comes first joins the instructions.
            self._early.append(message.text)
            self._asked = None
            return
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
        last = self._open_turn(marked=settings.cache is True) if self._open else b""
        between = b"," if self._closed and last else b""
        return b"".join((b'{"messages":[', self._closed, between, last, b"],", self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        """What stands beside the messages."""
        model, system, tools, output_schema, settings, stream = asked
        fields: dict[str, object] = {"model": model}
        _set_sampling(fields, settings)
        _set_thinking(fields, settings, model)
        _set_tools(fields, tools, settings)
        system = join_system(system, *self._early)
        if output_schema is not None:
            system = _set_schema(fields, output_schema, system, model)
        if system:
            fields["system"] = _to_system(system) if settings.cache is True else system
        if stream:
            fields["stream"] = True
        fields.update(settings.extra)
        return splice(fields)

    def _open_turn(self, *, marked: bool) -> bytes:
        content = b",".join(self._open)
        if marked:
            # Spliced into the last block's bytes, so that the kept ones stay without a mark.
            content = content[:-1] + _MARK
        return b'{"role":"%s","content":[%s]}' % (self._role.encode(), content)

    def _to_blocks(self, message: Message) -> list[object]:
        if message.role is Role.TOOL:
            content = message.content
            result: dict[str, object] = {
                "type": "tool_result",
                "tool_use_id": to_wire_id(message.tool_call_id or "", _CALL_ID),
                "content": content if isinstance(content, str) else _to_parts(content),
            }
            return [result]
        if message.role is not Role.ASSISTANT:
            return _to_parts(message.parts)
        # The surface wants thoughts before what came of them.
        blocks = [
            block
            for part in message.parts
            if isinstance(part, Reasoning) and (block := self._to_thought(part)) is not None
        ]
        blocks += _to_parts(message.parts)
        for call in message.tool_calls:
            arguments = msgspec.Raw(arguments_of(call, stray_key=CUSTOM_INPUT))
            ident = to_wire_id(call.id, _CALL_ID)
            name = to_wire_name(call.name)
            blocks.append({"type": "tool_use", "id": ident, "name": name, "input": arguments})
        return blocks

    def _to_thought(self, part: Reasoning) -> object:
        """A thought as it came; None where it is unsigned or another provider's."""
        if not part.signature or part.provider != self._provider:
            return None
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _set_sampling(fields: dict[str, object], settings: ModelSettings) -> None:
    told = {
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": settings.stop,
    }
    fields.update({name: value for name, value in told.items() if value is not None})


def _set_tools(
    fields: dict[str, object], tools: tuple[ToolSpec, ...], settings: ModelSettings
) -> None:
    if not tools:
        return
    items = [_to_tool(tool) for tool in tools]
    if settings.cache is True:
        items[-1]["cache_control"] = {"type": "ephemeral"}
    fields["tools"] = items
    choice: dict[str, object] = {}
    if settings.tool_choice is not None:
        kind = _CHOICES.get(settings.tool_choice)
        name = to_wire_name(settings.tool_choice)
        choice = {"type": kind} if kind else {"type": "tool", "name": name}
    if settings.parallel_tool_calls is not None and choice.get("type") != "none":
        # The switch has no place of its own: it stands in a choice.
        choice.setdefault("type", "auto")
        choice["disable_parallel_tool_use"] = not settings.parallel_tool_calls
    if choice:
        fields["tool_choice"] = choice


def _set_thinking(fields: dict[str, object], settings: ModelSettings, model: str) -> None:
    """Ask for thinking, and set max_tokens, which has to leave room for it."""
    reasoning = settings.reasoning
    room = next(size for pattern, size in _MAX_TOKENS if pattern.search(model))
    budget = 0
    if isinstance(reasoning, str) and reasoning != "none" and _version(model) >= _ADAPTIVE_FROM:
        fields["thinking"] = {"type": "adaptive"}
        fields["output_config"] = {"effort": _EFFORTS.get(reasoning, reasoning)}
    elif reasoning in (0, "none"):
        fields["thinking"] = {"type": "disabled"}
    elif reasoning is not None:
        budget = reasoning if isinstance(reasoning, int) else _BUDGETS[reasoning]
        budget = max(budget, _MIN_BUDGET)
        if settings.max_tokens is not None:
            budget = min(budget, settings.max_tokens - 1)
        if budget >= _MIN_BUDGET:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
    fields.setdefault("max_tokens", room + budget)


def _set_schema(
    fields: dict[str, object], schema: JsonObject, system: str | None, model: str
) -> str | None:
    """Ask for an answer that follows *schema*, and give the instructions to send."""
    if _version(model) < _SCHEMA_FROM or not is_strict_schema(schema):
        return join_system(system, SCHEMA_PROMPT + encode_wire(schema).decode())
    config = fields.get("output_config")
    form = {"format": {"type": "json_schema", "schema": schema}}
    fields["output_config"] = {**config, **form} if isinstance(config, dict) else form
    return system


def _version(model: str) -> tuple[int, int]:
    """The version in a model's name, (0, 0) where it tells none."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _to_system(system: str) -> list[object]:
    return [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    schema = tool.parameters or {"type": "object", "properties": {}}
    item: dict[str, object] = {"name": to_wire_name(tool.name), "input_schema": schema}
    if tool.description:
        item["description"] = tool.description
    if tool.strict is not None:
        item["strict"] = tool.strict
    return item


def _to_parts(parts: tuple[Part, ...]) -> list[object]:
    blocks = (_to_block(part) for part in parts)
    return [block for block in blocks if block is not None]


def _to_block(part: Part) -> object:
    """One block of a message, None for what is not sent."""
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
        case Reasoning():
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
