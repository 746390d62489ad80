"""What the request encoders share: their base, ids, media, and schemas."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar, cast

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
from upshot.contract.model_calls import ToolCallDelta
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.errors import Misuse
from upshot.wire.decoding import (
    as_list,
    as_object,
    as_text,
    encode_json,
    parse_json,
    replace_surrogates,
)

T = TypeVar("T")
SCHEMA_PROMPT = "Reply only with JSON that follows this JSON Schema, with nothing around it:\n"
"""The instructions for a model whose provider does not accept a schema."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The efforts, the least first."""

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


class RequestEncoder(ABC):
    """A conversation in one provider's form: each message is encoded once and its bytes are kept.

    The other fields of a request are kept too, and encoded again only if they change.
    """

    __slots__ = ("_asked", "_count", "_rest")

    def __init__(self) -> None:
        self._count: int = 0
        self._asked: Asked | None = None
        self._rest = b""

    @property
    def count(self) -> int:
        """How many messages have been appended."""
        return self._count

    @abstractmethod
    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""

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

        Args:
            model: The provider's name of the model.
            system: Instructions, apart from the messages.
            tools: The tools to offer.
            output_schema: JSON Schema that the answer must follow, None for free text.
            settings: Settings of the call.
            stream: Whether the reply should be streamed.
        """
        asked = Asked(model, system, tools, output_schema, settings, stream)
        # Turns mostly differ in their messages alone. ``extra`` is the caller's own dict: changed
        # in place it still equals itself, so the comparison would miss the change.
        if settings.extra or asked != self._asked:
            # Not cached if encoding fails halfway.
            self._asked = None
            self._rest = self._encode_rest(asked)
            self._asked = asked
        return self._join(asked)

    @abstractmethod
    def _encode_rest(self, asked: Asked) -> bytes:
        """Encode what comes after the messages."""

    @abstractmethod
    def _join(self, asked: Asked) -> bytes:
        """Join the messages and the rest."""


def encode_wire(value: object) -> bytes:
    """Encode *value* as JSON; lone surrogates become U+FFFD, NaN and infinities null."""
    try:
        return encode_json(value)
    except UnicodeEncodeError:
        return encode_json(replace_surrogates(value))


def to_wire_id(ident: str, pattern: re.Pattern[str]) -> str:
    """Return *ident*, or a short digest of it if it does not match the provider's *pattern*."""
    # The provider and its caches know its own ids, so these are not changed.
    if pattern.fullmatch(ident):
        return ident
    # Imported here: most conversations stay with one provider, whose own ids match.
    from hashlib import blake2s

    return blake2s(ident.encode("utf-8", "replace")).hexdigest()[:_ID_CHARS]


def to_wire_name(name: str) -> str:
    """Return the name of a tool for a provider that only allows letters, digits, "_" and "-"."""
    return name.replace(".", "_")


def arguments_of(call: ToolCall, *, stray_key: str) -> bytes:
    """Return the arguments of *call* as a JSON object; other text is put under *stray_key*."""
    if not isinstance(call.arguments, str):
        return encode_wire(call.arguments)
    value = parse_json(call.arguments) if call.arguments else {}
    return encode_wire(value if isinstance(value, dict) else {stray_key: call.arguments})


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of *call* as JSON text."""
    if isinstance(call.arguments, str):
        return call.arguments or "{}"
    return encode_wire(call.arguments).decode()


def to_delta(index: int, call: ToolCall) -> ToolCallDelta:
    """Return a whole call in the form of a stream's delta."""
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = encode_wire(arguments).decode()
    return ToolCallDelta(index=index, call_id=call.id, name=call.name, arguments=arguments)


def without_none(fields: Mapping[str, object]) -> dict[str, object]:
    """Return *fields* without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def sent(items: Iterable[T | None]) -> list[T]:
    """Return *items* without None, which stands for a part that the surface cannot express."""
    return [item for item in items if item is not None]


def version_in(model: str, pattern: re.Pattern[str]) -> tuple[int, int]:
    """Return the version in a model's name, (0, 0) if there is none."""
    found = pattern.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def to_data_url(data: bytes, media_type: str) -> str:
    """Return *data* as a ``data:`` address."""
    return f"data:{media_type};base64,{b64encode(data).decode('ascii')}"


def to_effort(reasoning: str | int) -> str:
    """Return an effort as a word; a number of thinking tokens becomes the nearest one."""
    if isinstance(reasoning, str):
        return reasoning
    return next((word for below, word in _EFFORTS if reasoning < below), "high")


def _to_input_audio(data: bytes, media_type: str) -> JsonObject:
    """Return OpenAI's part for sound, the same in Chat Completions and in Responses."""
    form = media_type.rpartition("/")[2].removeprefix("x-") or "wav"
    sound: Json = {"data": b64encode(data).decode("ascii"), "format": form}
    return {"type": "input_audio", "input_audio": sound}


def to_openai_part(
    part: Part,
    text_type: str,
    *,
    to_image: Callable[[Image], object],
    to_file: Callable[[File], object],
) -> object:
    """Return one part of a user's or tool's message, None if it is not sent.

    Args:
        part: The part.
        text_type: The surface's name for a text, in Chat Completions or Responses.
        to_image: Encodes an image for that surface.
        to_file: Encodes a file for that surface.
    """
    match part:
        case Text(text=text):
            return {"type": text_type, "text": text}
        case Image():
            return to_image(part)
        case File():
            return to_file(part)
        case Audio(data=bytes() as data):
            return _to_input_audio(data, part.media_type)
        case Audio():
            return {"type": text_type, "text": part.transcript or part.url}
        case Data(data=data):
            return {"type": text_type, "text": encode_wire(data).decode()}
        case Unknown(raw=raw):
            return to_own_part(raw)
        case Reasoning() | ToolCall() | ServerToolBlock():
            return None


def to_own_part(raw: JsonObject) -> JsonObject | None:
    """Return a provider's own part unchanged, None for a part of a later version of upshot."""
    # A provider's part has a type; the kind was added by upshot.
    return {key: value for key, value in raw.items() if key != "kind"} if "type" in raw else None


def join_system(*texts: str | None) -> str | None:
    """Join all instructions to one text, None if there are none."""
    return "\n\n".join(text for text in texts if text) or None


def merge_extra(fields: dict[str, object], extra: JsonObject) -> None:
    """Merge *extra* into *fields*; objects are merged by key, and *extra* wins."""
    for name, value in extra.items():
        known = fields.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            fields[name] = {**cast("dict[str, object]", known), **value}
        else:
            fields[name] = value


def hosted_items(
    settings: ModelSettings, known: Mapping[str, JsonObject], owner: str
) -> list[dict[str, object]]:
    """Return the tools that the provider runs itself, in its own form.

    Args:
        settings: The settings that name them.
        known: The forms of the names that the provider has.
        owner: The provider or surface, for the message.

    Raises:
        Misuse: The provider has no tool of that name.
    """
    items: list[dict[str, object]] = []
    for tool in settings.hosted_tools or ():
        form = known.get(tool) if isinstance(tool, str) else tool
        if form is None:
            has = f"it has {', '.join(known)}" if known else "it has none that upshot knows"
            raise Misuse(
                f"{owner} has no hosted tool {tool!r}: {has}; or give the tool's own form as an "
                "object"
            )
        items.append({**form})
    return items


def schema_name(schema: JsonObject) -> str:
    """Return a valid name for *schema*: its title, or "answer"."""
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
