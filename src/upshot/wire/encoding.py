"""What the request encoders share: their protocol and base, ids, media, and schemas."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.wire.decoding import (
    as_list,
    as_object,
    as_text,
    encode_json,
    parse_json,
    replace_surrogates,
)

SCHEMA_PROMPT = "Reply only with JSON that follows this JSON Schema, with nothing around it:\n"
"""The instructions for a model whose provider does not accept a schema."""

_NOT_NAME = re.compile("[^a-zA-Z0-9_-]+")
_ID_CHARS = 9
_EFFORTS = ((1, "none"), (1025, "minimal"), (4097, "low"), (16385, "medium"))


class Asked(NamedTuple):
    """The fields of a request besides its messages; see :class:`RequestEncoder`."""

    model: str
    system: str | None
    tools: tuple[ToolSpec, ...]
    output_schema: JsonObject | None
    settings: ModelSettings
    stream: bool


class RequestEncoder(Protocol):
    """A conversation in one provider's form: each message is encoded once, its bytes are kept."""

    @property
    def count(self) -> int:
        """How many messages have been appended."""
        ...

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        ...

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
        """Make the body of one request from the kept messages.

        The other fields are kept too, and encoded again only if they change.

        Args:
            model: The provider's name of the model.
            system: Instructions, apart from the messages.
            tools: The tools to offer.
            output_schema: JSON Schema that the answer must follow, None for free text.
            settings: Settings of the call.
            stream: Whether the reply should be streamed.
        """
        ...


class CachingEncoder:
    """The base of all encoders: keeps the fields beside the messages while they stay the same."""

    __slots__ = ("_asked", "_count", "_rest")

    def __init__(self) -> None:
        self._count: int = 0
        self._asked: Asked | None = None
        self._rest = b""

    @property
    def count(self) -> int:
        """How many messages were encoded."""
        return self._count

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
        """Make the body of one request; see :class:`RequestEncoder`."""
        asked = Asked(model, system, tools, output_schema, settings, stream)
        # Turns mostly differ in their messages alone. ``extra`` is the caller's dict: it may have
        # been changed in place, and then still compares equal to itself.
        if settings.extra or asked != self._asked:
            # Not kept if encoding fails half way.
            self._asked = None
            self._rest = self._encode_rest(asked)
            self._asked = asked
        return self._join(asked)

    def _encode_rest(self, asked: Asked) -> bytes:
        """Encode what comes after the messages."""
        raise NotImplementedError

    def _join(self, asked: Asked) -> bytes:
        """Join the messages and the rest."""
        raise NotImplementedError


def encode_wire(value: object) -> bytes:
    """Encode *value* as JSON; lone surrogates become U+FFFD, NaN and infinities null."""
    try:
        return encode_json(value)
    except UnicodeEncodeError:
        return encode_json(replace_surrogates(value))


def to_wire_id(ident: str, pattern: re.Pattern[str]) -> str:
    """*ident*, or a short digest of it if it does not match the provider's *pattern*."""
    # The provider and its caches know its own ids, so these are kept.
    if pattern.fullmatch(ident):
        return ident
    # Imported here: most conversations stay with one provider, whose own ids match.
    from hashlib import blake2s

    return blake2s(ident.encode("utf-8", "replace")).hexdigest()[:_ID_CHARS]


def to_wire_name(name: str) -> str:
    """The name of a tool for a provider that allows letters, digits, "_" and "-" only."""
    return name.replace(".", "_")


def arguments_of(call: ToolCall, *, stray_key: str) -> bytes:
    """The arguments of *call* as a JSON object; other text is put under *stray_key*."""
    if not isinstance(call.arguments, str):
        return encode_wire(call.arguments)
    value = parse_json(call.arguments) if call.arguments else {}
    return encode_wire(value if isinstance(value, dict) else {stray_key: call.arguments})


def to_data_url(data: bytes, media_type: str) -> str:
    """*data* as a ``data:`` address."""
    return f"data:{media_type};base64,{b64encode(data).decode('ascii')}"


def to_effort(reasoning: str | int) -> str:
    """An effort as a word; a number of thinking tokens becomes the nearest one."""
    if isinstance(reasoning, str):
        return reasoning
    return next((word for below, word in _EFFORTS if reasoning < below), "high")


def to_input_audio(data: bytes, media_type: str) -> JsonObject:
    """OpenAI's part for sound, the same in Chat Completions and in Responses."""
    form = media_type.rpartition("/")[2].removeprefix("x-") or "wav"
    sound: Json = {"data": b64encode(data).decode("ascii"), "format": form}
    return {"type": "input_audio", "input_audio": sound}


def to_own_part(raw: JsonObject) -> JsonObject | None:
    """A provider's own part in its form, None for a part of a later version of upshot."""
    # A provider's part has a type; the kind was added by upshot.
    return {key: value for key, value in raw.items() if key != "kind"} if "type" in raw else None


def join_system(*texts: str | None) -> str | None:
    """All instructions as one text, None if there are none."""
    return "\n\n".join(text for text in texts if text) or None


def schema_name(schema: JsonObject) -> str:
    """A valid name for *schema*: its title, or "answer"."""
    title = schema.get("title")
    name = _NOT_NAME.sub("_", title).strip("_") if isinstance(title, str) else ""
    return name[:64] or "answer"


def is_strict_schema(schema: Json) -> bool:
    """Whether every object in *schema* is closed and requires all of its properties.

    Providers enforce only such schemas, and refuse the others.
    """
    if isinstance(schema, list):
        return all(map(is_strict_schema, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        required = {as_text(name) for name in as_list(schema.get("required"))}
        if schema.get("additionalProperties") is not False:
            return False
        if required != set(as_object(schema.get("properties"))):
            return False
    return all(map(is_strict_schema, schema.values()))


def splice(fields: Mapping[str, object]) -> bytes:
    """Encode *fields* without the opening brace, so that they can follow another member."""
    return encode_wire(fields)[1:]
