"""Parts, messages and artifacts in the form of the A2A protocol, and back.

What A2A has no word for goes into ``metadata["upshot"]``, so that upshot reads it back
and others pass it by.

Source:
    A2A protocol specification 0.3, sections 6.4 to 6.7, read November 2026.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import msgspec

from ..errors import Misuse
from .artifact import Artifact
from .codec import decode, encode
from .message import Audio, Data, File, Image, Message, Part, Reasoning, Text, Unknown
from .value import Json, JsonObject
from .words import Role

__all__ = [
    "EXTENSION",
    "artifact_of",
    "artifact_to_a2a",
    "message_of",
    "message_to_a2a",
    "object_in",
    "plain",
    "read_as",
    "text_in",
    "with_extension",
]

EXTENSION = "upshot"
_ID_CHARS = 16
_STORED = "artifact:"

V = TypeVar("V")


def plain(value: object) -> JsonObject:
    """A contract value as JSON objects; what equals its default is left out."""
    return msgspec.json.decode(encode(value), type=dict[str, Any])


def read_as(value: Json, kind: type[V]) -> V:
    """Read a contract value from JSON objects.

    Raises:
        Misuse: It is not of the kind.
    """
    return decode(msgspec.json.encode(value), kind)


def object_in(data: JsonObject, name: str) -> JsonObject:
    """The object under *name*, empty where there is none."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def text_in(data: JsonObject, name: str) -> str:
    """The text under *name*, "" where there is none."""
    found = data.get(name)
    return found if isinstance(found, str) else ""


def with_extension(form: JsonObject, metadata: JsonObject, **facts: Json) -> JsonObject:
    """*form* with its metadata, and under ``upshot`` those of *facts* that say something."""
    kept: JsonObject = {
        name: fact for name, fact in facts.items() if fact not in (None, "", [], {})
    }
    joined = dict(metadata)
    if kept:
        joined[EXTENSION] = kept
    whole = dict(form)
    if joined:
        whole["metadata"] = joined
    return whole


# -- out


def message_to_a2a(message: Message, *, task_id: str = "", context_id: str = "") -> JsonObject:
    """A message; thoughts and what providers sign stay here."""
    form: JsonObject = {
        "kind": "message",
        "messageId": _id("msg", message),
        "role": "user" if message.role is Role.USER else "agent",
        "parts": _parts_to_a2a(message.parts),
    }
    form |= {"taskId": task_id} if task_id else {}
    form |= {"contextId": context_id} if context_id else {}
    return with_extension(
        form,
        message.metadata,
        role="" if message.role in (Role.USER, Role.ASSISTANT) else str(message.role),
        name=message.name,
        tool_call_id=message.tool_call_id,
        tool_calls=[plain(call) for call in message.tool_calls],
    )


def artifact_to_a2a(artifact: Artifact) -> JsonObject:
    """An artifact; its id is a digest of its content."""
    form: JsonObject = {
        "artifactId": _id("art", artifact),
        "name": artifact.name,
        "parts": _parts_to_a2a(artifact.parts),
    }
    return with_extension(form, artifact.metadata)


def _parts_to_a2a(parts: Iterable[Part]) -> list[Json]:
    return [_part_to_a2a(part) for part in parts if not isinstance(part, Reasoning)]


def _part_to_a2a(part: Part) -> JsonObject:
    match part:
        case Text():
            return with_extension({"kind": "text", "text": part.text}, {}, trust=part.trust)
        case Data():
            return _data_to_a2a(part)
        case Unknown():
            return with_extension({"kind": "data", "data": part.raw}, {}, kind="unknown")
        case Image():
            return _file_to_a2a(part, "image")
        case Audio():
            return _file_to_a2a(part, "audio")
        case File():
            return _file_to_a2a(part, "file")
        case Reasoning():
            return {}


def _data_to_a2a(part: Data) -> JsonObject:
    is_object = isinstance(part.data, dict)
    form: JsonObject = {"kind": "data", "data": part.data if is_object else {"value": part.data}}
    is_usual = part.media_type == Data().media_type
    facts: JsonObject = {} if is_usual else {"media_type": part.media_type}
    return with_extension(form, {}, facts=facts, shape="" if is_object else "value")


def _file_to_a2a(part: Image | Audio | File, kind: str) -> JsonObject:
    facts = plain(part)
    for name in ("kind", "url", "data", "media_type", "name"):
        facts.pop(name, None)
    file: JsonObject = {"name": part.name} if isinstance(part, File) and part.name else {}
    file |= {"mimeType": part.media_type} if part.media_type else {}
    if part.data is not None:
        file["bytes"] = b64encode(part.data).decode()
        facts |= {"url": part.url} if part.url else {}
    else:
        # A file has to be somewhere; one that is only stored is named by its id.
        stored = "" if isinstance(part, Image) else part.id
        file["uri"] = part.url or f"{_STORED}{stored}"
    return with_extension({"kind": "file", "file": file}, {}, part=kind, facts=facts)


def _id(prefix: str, value: object) -> str:
    return f"{prefix}-{hashlib.sha256(encode(value)).hexdigest()[:_ID_CHARS]}"


# -- in


def message_of(data: JsonObject) -> Message:
    """Read a message.

    Raises:
        Misuse: It is none.
    """
    metadata, facts = _metadata_of(data)
    role = text_in(facts, "role") or ("user" if data.get("role") == "user" else "assistant")
    parts = _parts_of(data)
    only = parts[0] if len(parts) == 1 else None
    is_text = isinstance(only, Text) and bool(only.text) and not only.trust
    content = only.text if isinstance(only, Text) and is_text else ""
    form: JsonObject = {"kind": "message", "role": role, "metadata": metadata, "content": content}
    for name in ("name", "tool_call_id", "tool_calls"):
        if name in facts:
            form[name] = facts[name]
    message = read_as(form, Message)
    return message if is_text or not parts else msgspec.structs.replace(message, content=parts)


def artifact_of(data: JsonObject) -> Artifact:
    """Read an artifact.

    Raises:
        Misuse: It is none.
    """
    metadata, _ = _metadata_of(data)
    return Artifact(text_in(data, "name"), _parts_of(data), metadata=metadata)


def _metadata_of(data: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The metadata of others, and ours."""
    metadata = object_in(data, "metadata")
    others = {name: value for name, value in metadata.items() if name != EXTENSION}
    return others, object_in(metadata, EXTENSION)


def _parts_of(data: JsonObject) -> tuple[Part, ...]:
    parts = data.get("parts")
    if not isinstance(parts, list):
        raise Misuse(f"this {data.get('kind', 'value')} of A2A has no list of parts")
    return tuple(_part_of(part) for part in parts)


def _part_of(data: Json) -> Part:
    if not isinstance(data, dict):
        raise Misuse(f"a part of A2A is an object, not {type(data).__name__}")
    _, facts = _metadata_of(data)
    match data.get("kind"):
        case "text":
            return Text(text_in(data, "text"), trust=text_in(facts, "trust"))
        case "data":
            return _data_of(data.get("data"), facts)
        case "file":
            return _file_of(object_in(data, "file"), facts)
        case _:
            return Unknown(raw=data)


def _data_of(data: Json, facts: JsonObject) -> Part:
    if facts.get("kind") == "unknown" and isinstance(data, dict):
        return Unknown(raw=data)
    if facts.get("shape") == "value" and isinstance(data, dict):
        data = data.get("value")
    named = object_in(facts, "facts")
    return Data(data, text_in(named, "media_type") if named else Data().media_type)


def _file_of(file: JsonObject, facts: JsonObject) -> Part:
    media_type, uri = text_in(file, "mimeType"), text_in(file, "uri")
    kind = text_in(facts, "part") or _kind_of(media_type)
    form: JsonObject = {**object_in(facts, "facts"), "kind": kind, "media_type": media_type}
    if isinstance(file.get("bytes"), str):
        form["data"] = file["bytes"]
    elif uri.startswith(_STORED):
        form.setdefault("id", uri.removeprefix(_STORED))
    else:
        form["url"] = uri
    if kind == "file":
        form["name"] = text_in(file, "name")
    return cast("Part", read_as(form, _FILES.get(kind, File)))


def _kind_of(media_type: str) -> str:
    family = media_type.partition("/")[0]
    return family if family in ("image", "audio") else "file"


_FILES: dict[str, type[Image | Audio | File]] = {"image": Image, "audio": Audio, "file": File}
