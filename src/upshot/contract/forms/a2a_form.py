"""The A2A forms of results, messages, artifacts and cards: ``to_a2a`` and ``from_a2a``.

Facts that A2A has no field for go into ``metadata["upshot"]``: upshot reads them back, and other
programs ignore them.

Source:
    A2A protocol specification 1.0, sections 4 and 5, and its a2a.proto, read November 2026.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from upshot.contract.agent_spec import AgentCapabilities, AgentCard, Skill
from upshot.contract.base.checks import has_own_output, kind_of
from upshot.contract.base.enums import Effect, ErrorCode, InterruptCause, Origin, Role, Status
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import decode, encode
from upshot.contract.error import AgentError
from upshot.contract.message import (
    Artifact,
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
from upshot.contract.model_calls import Request, RequestConfig
from upshot.contract.pending import Pending
from upshot.contract.result import AgentResult, RunEffect
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Cost, Usage
from upshot.errors import Misuse

V = TypeVar("V")

_EXTENSION = "upshot"
_USER, _AGENT = "ROLE_USER", "ROLE_AGENT"
_ID_CHARS = 16
_STORED = "artifact:"


def _plain(value: object) -> JsonObject:
    """Return a contract value as a JSON object; fields that equal their default are left out."""
    return msgspec.json.decode(encode(value), type=dict[str, Any])


def _read_as(value: Json, kind: type[V]) -> V:
    """Decode a contract value from JSON; raises ``Misuse`` if it is not of the kind."""
    return decode(msgspec.json.encode(value), kind)


def _object_in(data: JsonObject, name: str) -> JsonObject:
    """Return the object under *name*, empty if there is none."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _text_in(data: JsonObject, name: str) -> str:
    """Return the text under *name*, "" if there is none."""
    found = data.get(name)
    return found if isinstance(found, str) else ""


def _with_extension(form: JsonObject, metadata: JsonObject, **facts: Json) -> JsonObject:
    """Return *form* with *metadata*, and the non-empty *facts* under ``upshot`` in it."""
    kept: JsonObject = {
        name: fact for name, fact in facts.items() if fact not in (None, "", [], {})
    }
    joined = {**metadata, _EXTENSION: kept} if kept else metadata
    return {**form, "metadata": {**joined}} if joined else dict(form)


# -- out


def _message_to_a2a(message: Message, *, task_id: str = "", context_id: str = "") -> JsonObject:
    """Return the form of a message; thoughts and provider-signed parts are left out."""
    form: JsonObject = {
        "messageId": _id("msg", message),
        "role": _USER if message.role is Role.USER else _AGENT,
        "parts": _parts_to_a2a(message.parts),
    }
    form |= {"taskId": task_id} if task_id else {}
    form |= {"contextId": context_id} if context_id else {}
    return _with_extension(
        form,
        message.metadata,
        role="" if message.role in (Role.USER, Role.ASSISTANT) else str(message.role),
        name=message.name,
        tool_call_id=message.tool_call_id,
        tool_calls=[_plain(call) for call in message.tool_calls],
        paused=message.paused or None,
    )


def _artifact_to_a2a(artifact: Artifact) -> JsonObject:
    """Return the form of an artifact; its id is a digest of its content."""
    form: JsonObject = {
        "artifactId": _id("art", artifact),
        "name": artifact.name,
        "parts": _parts_to_a2a(artifact.parts),
    }
    return _with_extension(form, artifact.metadata)


# Parts that A2A cannot express: calls go into the metadata, the others are left out.
_INNER = (Reasoning, ToolCall, ServerToolBlock)


def _parts_to_a2a(parts: Iterable[Part]) -> list[Json]:
    return [_part_to_a2a(part) for part in parts if not isinstance(part, _INNER)]


def _part_to_a2a(part: Text | Image | File | Audio | Data | Unknown) -> JsonObject:
    match part:
        case Text():
            return _with_extension({"text": part.text}, {}, trust=part.trust)
        case Data():
            return {"data": part.data, "mediaType": part.media_type}
        case Unknown():
            return _with_extension({"data": part.raw}, {}, kind="unknown")
        case Image():
            return _file_to_a2a(part, "image")
        case Audio():
            return _file_to_a2a(part, "audio")
        case File():
            return _file_to_a2a(part, "file")


def _file_to_a2a(part: Image | Audio | File, kind: str) -> JsonObject:
    facts = _plain(part)
    for name in ("kind", "url", "data", "media_type", "name"):
        facts.pop(name, None)
    form: JsonObject = {"filename": part.name} if isinstance(part, File) and part.name else {}
    form |= {"mediaType": part.media_type} if part.media_type else {}
    if part.data is not None:
        form["raw"] = b64encode(part.data).decode()
        facts |= {"url": part.url} if part.url else {}
    else:
        # A file needs a URL; a stored one gets a pseudo-URL with its id.
        stored = "" if isinstance(part, Image) else part.id
        form["url"] = part.url or f"{_STORED}{stored}"
    return _with_extension(form, {}, part=kind, facts=facts)


def _id(prefix: str, value: object) -> str:
    return f"{prefix}-{hashlib.sha256(encode(value)).hexdigest()[:_ID_CHARS]}"


# -- in


def _message_of(data: JsonObject) -> Message:
    """Read a message; raises ``Misuse`` if it is not one."""
    metadata, facts = _metadata_of(data)
    role = _text_in(facts, "role") or ("user" if data.get("role") == _USER else "assistant")
    parts = _parts_of(data)
    only = parts[0] if len(parts) == 1 else None
    is_text = isinstance(only, Text) and bool(only.text) and not only.trust
    content = only.text if isinstance(only, Text) and is_text else ""
    form: JsonObject = {"kind": "message", "role": role, "metadata": metadata, "content": content}
    for name in ("name", "tool_call_id", "paused"):
        if name in facts:
            form[name] = facts[name]
    message = _read_as(form, Message)
    calls = _read_as(facts.get("tool_calls", []), tuple[ToolCall, ...])
    if calls or (parts and not is_text):
        message = msgspec.structs.replace(message, content=(*parts, *calls))
    return message


def _artifact_of(data: JsonObject) -> Artifact:
    """Read an artifact; raises ``Misuse`` if it is not one."""
    metadata, _ = _metadata_of(data)
    return Artifact(_text_in(data, "name"), _parts_of(data), metadata=metadata)


def _metadata_of(data: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return the metadata without upshot's, and upshot's."""
    metadata = _object_in(data, "metadata")
    others = {name: value for name, value in metadata.items() if name != _EXTENSION}
    return others, _object_in(metadata, _EXTENSION)


def _parts_of(data: JsonObject) -> tuple[Part, ...]:
    parts = data.get("parts")
    if not isinstance(parts, list):
        raise Misuse("this A2A message or artifact has no list of parts")
    return tuple(_part_of(part) for part in parts)


def _part_of(data: Json) -> Part:
    if not isinstance(data, dict):
        raise Misuse(f"an A2A part must be an object, got {kind_of(data)}")
    _, facts = _metadata_of(data)
    if "text" in data:
        return Text(_text_in(data, "text"), trust=_text_in(facts, "trust"))
    if "data" in data:
        return _data_of(data["data"], data, facts)
    if "raw" in data or "url" in data:
        return _file_of(data, facts)
    return Unknown(raw=data)


def _data_of(value: Json, data: JsonObject, facts: JsonObject) -> Part:
    if facts.get("kind") == "unknown" and isinstance(value, dict):
        return Unknown(raw=value)
    known = isinstance(data.get("mediaType"), str)
    return Data(value, _text_in(data, "mediaType") if known else Data().media_type)


def _file_of(data: JsonObject, facts: JsonObject) -> Part:
    media_type, url = _text_in(data, "mediaType"), _text_in(data, "url")
    kind = _text_in(facts, "part") or _kind_of(media_type)
    form: JsonObject = {**_object_in(facts, "facts"), "kind": kind, "media_type": media_type}
    if isinstance(data.get("raw"), str):
        form["data"] = data["raw"]
    elif url.startswith(_STORED):
        form.setdefault("id", url.removeprefix(_STORED))
    else:
        form["url"] = url
    if kind == "file":
        form["name"] = _text_in(data, "filename")
    return cast("Part", _read_as(form, _FILES.get(kind, File)))


def _kind_of(media_type: str) -> str:
    family = media_type.partition("/")[0]
    return family if family in ("image", "audio") else "file"


_FILES: dict[str, type[Image | Audio | File]] = {"image": Image, "audio": Audio, "file": File}

_STATES = {
    Status.COMPLETED: "TASK_STATE_COMPLETED",
    Status.FAILED: "TASK_STATE_FAILED",
    Status.ABORTED: "TASK_STATE_FAILED",
    Status.CANCELED: "TASK_STATE_CANCELED",
    Status.INTERRUPTED: "TASK_STATE_CANCELED",
    Status.INPUT_REQUIRED: "TASK_STATE_INPUT_REQUIRED",
}
_STATUSES = {
    "TASK_STATE_COMPLETED": Status.COMPLETED,
    "TASK_STATE_FAILED": Status.FAILED,
    "TASK_STATE_REJECTED": Status.FAILED,
    "TASK_STATE_CANCELED": Status.CANCELED,
    "TASK_STATE_INPUT_REQUIRED": Status.INPUT_REQUIRED,
    "TASK_STATE_AUTH_REQUIRED": Status.INPUT_REQUIRED,
}
_CODES = {
    Status.FAILED: ErrorCode.INTERNAL,
    Status.ABORTED: ErrorCode.INTERNAL,
    Status.CANCELED: ErrorCode.CANCELED,
    Status.INTERRUPTED: ErrorCode.INTERRUPTED,
    Status.INPUT_REQUIRED: ErrorCode.INPUT_REQUIRED,
}
_CARD_WORDS = {
    "default_input_modes": "defaultInputModes",
    "default_output_modes": "defaultOutputModes",
    "input_modes": "inputModes",
    "output_modes": "outputModes",
    "push_notifications": "pushNotifications",
}


def to_a2a(value: object) -> JsonObject:
    """Convert a value to the form of the A2A protocol.

    Args:
        value: An ``AgentResult`` becomes a task, a ``Status`` a task status, a ``Request`` the
            parameters of ``SendMessage``; ``Message``, ``Artifact``, ``AgentCard``, ``Skill``
            and ``AgentCapabilities`` become the A2A objects of the same name.

    Returns:
        The object. Facts that A2A has no field for are under ``metadata["upshot"]``: a request's
        inputs and run id; a result's ids, exact status, error, usage, cost, effect, output and
        pending items. Thoughts, tool records, raw provider data and facts from hooks are left out,
        because the receiver may be untrusted.

    Raises:
        Misuse: A2A has no form for it.
    """
    match value:
        case AgentResult():
            return _task(cast("AgentResult[Any]", value))
        case Status():
            return _with_extension({"state": _STATES[value]}, {}, status=_exact_status(value))
        case Message():
            return _message_to_a2a(value)
        case Artifact():
            return _artifact_to_a2a(value)
        case Request():
            return _params(value)
        case AgentCard() | Skill() | AgentCapabilities():
            return _card(value)
        case _:
            raise Misuse(f"A2A has no form for {kind_of(value)}")


def from_a2a(data: JsonObject, type: type[V]) -> V:
    """Read a value from the form of the A2A protocol.

    Args:
        data: The object.
        type: The expected type, which must be one that ``to_a2a`` accepts.

    Returns:
        The value; ``from_a2a(to_a2a(value), type(value))`` equals it as far as A2A can express it.

    Raises:
        Misuse: It does not have that form, or is a task that has not ended.
    """
    if not isinstance(data, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # from the wire
        raise Misuse(f"the A2A form of a value must be a JSON object, got {kind_of(data)}")
    read = _READERS.get(type)
    if read is None:
        raise Misuse(f"A2A has no form for {type.__name__}")
    return cast("V", read(data))


# -- out


def _exact_status(status: Status) -> str:
    """Return the status if it is more exact than A2A's word, otherwise ""."""
    return str(status) if status in (Status.ABORTED, Status.INTERRUPTED) else ""


def _task(result: AgentResult[Any]) -> JsonObject:
    task_id = result.task_id or result.run_id
    text = result.content if result.error is None else result.error.message
    status: JsonObject = {"state": _STATES[result.status]}
    if text:
        answer = Message(Role.ASSISTANT, text)
        status["message"] = _message_to_a2a(answer, task_id=task_id, context_id=result.context_id)
    if result.ended_at is not None:
        status["timestamp"] = result.ended_at.isoformat().replace("+00:00", "Z")
    shown = [m for m in result.messages if m.role in (Role.USER, Role.ASSISTANT)]
    form: JsonObject = {
        "id": task_id,
        "contextId": result.context_id,
        "status": status,
        "artifacts": [_artifact_to_a2a(artifact) for artifact in result.artifacts],
        "history": [_message_to_a2a(message) for message in shown],
    }
    return _with_extension(form, result.metadata, **_facts(result))


def _facts(result: AgentResult[Any]) -> JsonObject:
    output = cast("object", result.output)
    is_own = has_own_output(output, result.content)
    return {
        "status": _exact_status(result.status),
        "run_id": result.run_id,
        "task_id": "" if result.task_id else None,
        "agent_id": result.agent_id,
        "parent_run_id": result.parent_run_id,
        "content": result.content if result.error is not None else None,
        "output": _plain({"output": output}) if is_own else None,
        "error": None if result.error is None else _plain(result.error),
        "usage": _plain(result.usage) if result.usage or result.usage.api_calls else None,
        # Amounts as text: as a float, a number would lose digits.
        "cost": None if result.cost is None else msgspec.to_builtins(result.cost),
        "finish_reason": None if result.finish_reason is None else str(result.finish_reason),
        "cause": str(result.cause),
        "detail": result.detail,
        "duration_ms": result.duration_ms or None,
        # Strangers should not learn the names of tools.
        "effect": "" if result.effect is Effect.NONE else str(result.effect),
        "pending": [_plain(pending) for pending in result.pending],
    }


def _params(request: Request) -> JsonObject:
    message = request.to_message()
    form: JsonObject = {
        "message": _message_to_a2a(message, task_id=request.task_id, context_id=request.context_id)
    }
    if request.config is not None:
        form["configuration"] = {"acceptedOutputModes": [*request.config.accepted_output_modes]}
    return _with_extension(form, request.metadata, inputs=request.inputs, run_id=request.run_id)


def _card(value: AgentCard | Skill | AgentCapabilities) -> JsonObject:
    form: JsonObject = {}
    for name in value.__struct_fields__:
        if name == "schema_version":
            continue
        field: object = getattr(value, name)
        if isinstance(field, AgentCapabilities):
            field = _card(field)
        elif isinstance(field, tuple):
            items = cast("tuple[object, ...]", field)
            field = [_card(item) if isinstance(item, Skill) else item for item in items]
        form[_CARD_WORDS.get(name, name)] = cast("Json", field)
    return form


# -- in


def _effects_of(facts: JsonObject) -> tuple[RunEffect, ...]:
    """Return the worst effect, without its call, which the form does not include."""
    if "effect" not in facts:
        return ()
    return (RunEffect(state=_read_as(facts["effect"], Effect), run_id=_text_in(facts, "run_id")),)


def _result_of(data: JsonObject) -> AgentResult[Any]:
    metadata, facts = _metadata_of(data)
    status_object = _object_in(data, "status")
    status = _status_of(status_object, facts)
    text = (
        _message_of(_object_in(status_object, "message")).text
        if _object_in(status_object, "message")
        else ""
    )
    error = _error_of(status, text, facts)
    content = text or None if error is None else _text_in(facts, "content") or None
    output = _object_in(facts, "output").get("output", content)
    duration_ms = facts.get("duration_ms")
    return AgentResult[Any](
        status=status,
        output=output,
        content=content,
        error=error,
        messages=tuple(_message_of(one) for one in _objects(data, "history")),
        artifacts=tuple(_artifact_of(one) for one in _objects(data, "artifacts")),
        effects=_effects_of(facts),
        pending=tuple(_read_as(one, cast("Any", Pending)) for one in _objects(facts, "pending")),
        usage=_read_as(_object_in(facts, "usage"), Usage),
        cost=_read_as(facts["cost"], Cost) if "cost" in facts else None,
        finish_reason=cast("Any", _text_in(facts, "finish_reason") or None),
        cause=InterruptCause(_text_in(facts, "cause")),
        detail=_text_in(facts, "detail"),
        run_id=_text_in(facts, "run_id"),
        task_id="" if _text_in(facts, "run_id") == data.get("id") else _text_in(data, "id"),
        context_id=_text_in(data, "contextId"),
        agent_id=_text_in(facts, "agent_id"),
        parent_run_id=_text_in(facts, "parent_run_id"),
        ended_at=_moment(_text_in(status_object, "timestamp")),
        duration_ms=duration_ms if isinstance(duration_ms, int) else 0,
        metadata=metadata,
    )


def _request_of(data: JsonObject) -> Request:
    asked = _object_in(data, "message")
    if not asked:
        raise Misuse("the parameters of SendMessage have no message")
    (metadata, facts), config = _metadata_of(data), data.get("configuration")
    modes = _object_in(data, "configuration").get("acceptedOutputModes")
    listed = modes if isinstance(modes, list) else []
    accepted = tuple(mode for mode in listed if isinstance(mode, str))
    return Request(
        _message_of(asked),
        inputs=_object_in(facts, "inputs"),
        run_id=_text_in(facts, "run_id"),
        task_id=_text_in(asked, "taskId"),
        context_id=_text_in(asked, "contextId"),
        config=RequestConfig(accepted_output_modes=accepted) if isinstance(config, dict) else None,
        metadata=metadata,
    )


def _status_of(data: JsonObject, facts: JsonObject) -> Status:
    exact = _text_in(facts, "status") or _text_in(_metadata_of(data)[1], "status")
    status = _STATUSES.get(_text_in(data, "state"))
    if status is None:
        raise Misuse(f"an A2A task in state {data.get('state')!r} has not ended yet")
    known = Status.__members__.get(exact.upper())
    # Upshot's status may only be more exact than the state; if they contradict, the state wins.
    return known if known is not None and _STATES[known] == _STATES[status] else status


def _error_of(status: Status, text: str, facts: JsonObject) -> AgentError | None:
    if status is Status.COMPLETED:
        return None
    if _object_in(facts, "error"):
        return _read_as(facts["error"], AgentError)
    return AgentError(_CODES[status], text, origin=Origin.HOST)


def _own_words(data: JsonObject) -> JsonObject:
    own = {theirs: ours for ours, theirs in _CARD_WORDS.items()}
    # Other implementations write null for a missing value.
    return {
        own.get(name, name): _own_value(name, value)
        for name, value in data.items()
        if value is not None
    }


def _own_value(name: str, value: Json) -> Json:
    if name == "skills" and isinstance(value, list):
        return [_own_words(one) for one in value if isinstance(one, dict)]
    if name == "capabilities" and isinstance(value, dict):
        return _own_words(value)
    return value


def _objects(data: JsonObject, name: str) -> list[JsonObject]:
    found = data.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _moment(text: str) -> datetime | None:
    try:
        return msgspec.convert(text, datetime) if text else None
    except msgspec.ValidationError as error:
        raise Misuse(f"timestamp {text!r} is not a moment: {error}") from error


_READERS: dict[type, Callable[[JsonObject], object]] = {
    AgentResult: _result_of,
    Request: _request_of,
    Status: lambda data: _status_of(data, {}),
    Message: _message_of,
    Artifact: _artifact_of,
    AgentCard: lambda data: _read_as({**_own_words(data), "kind": "agent_card"}, AgentCard),
    Skill: lambda data: _read_as(_own_words(data), Skill),
    AgentCapabilities: lambda data: _read_as(_own_words(data), AgentCapabilities),
}
