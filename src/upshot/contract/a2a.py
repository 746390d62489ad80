"""The A2A forms of results, messages, artifacts and cards: ``to_a2a`` and ``from_a2a``.

Source:
    A2A protocol specification 0.3, sections 5.5 and 6, read November 2026.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from ..errors import Misuse
from .a2a_part import (
    EXTENSION,
    artifact_of,
    artifact_to_a2a,
    message_of,
    message_to_a2a,
    object_in,
    plain,
    read_as,
    text_in,
    with_extension,
)
from .answer import Pending
from .article import kind_of, with_article
from .artifact import Artifact
from .card import AgentCapabilities, AgentCard, Skill
from .error import AgentError
from .message import Message
from .own_output import has_own_output
from .request import Request, RequestConfig
from .result import AgentResult
from .usage import Cost, Usage
from .value import Json, JsonObject
from .words import ErrorCode, InterruptCause, Origin, Role, Status

__all__ = ["from_a2a", "to_a2a"]

V = TypeVar("V")

_STATES = {
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.ABORTED: "failed",
    Status.CANCELED: "canceled",
    Status.INTERRUPTED: "canceled",
    Status.INPUT_REQUIRED: "input-required",
}
_STATUSES = {
    "completed": Status.COMPLETED,
    "failed": Status.FAILED,
    "rejected": Status.FAILED,
    "canceled": Status.CANCELED,
    "input-required": Status.INPUT_REQUIRED,
    "auth-required": Status.INPUT_REQUIRED,
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
    "state_transition_history": "stateTransitionHistory",
}


def to_a2a(value: object) -> JsonObject:
    """Write a value in the form of the A2A protocol.

    Args:
        value: An ``AgentResult`` becomes a task, a ``Status`` a task status, a ``Request`` the
            parameters of ``message/send``; ``Message``, ``Artifact``, ``AgentCard``, ``Skill``
            and ``AgentCapabilities`` their namesakes.

    Returns:
        The object. What A2A has no word for is under ``metadata["upshot"]``: of a request its
        inputs and the id of its run; of a result its ids, exact status, error, usage, cost,
        output and what it waits for. Thoughts, tool
        records, raw provider data and hooks' facts are left out, for it goes to strangers.

    Raises:
        Misuse: A2A has no form for it.
    """
    match value:
        case AgentResult():
            return _task(cast("AgentResult[Any]", value))
        case Status():
            return with_extension({"state": _STATES[value]}, {}, status=_exact(value))
        case Message():
            return message_to_a2a(value)
        case Artifact():
            return artifact_to_a2a(value)
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
        type: What is expected: one of the types that ``to_a2a`` takes.

    Returns:
        The value; ``from_a2a(to_a2a(value), type(value))`` equals it as far as A2A can hold it.

    Raises:
        Misuse: It is not of that form, or a task that is not over yet.
    """
    if not isinstance(data, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # from the wire
        raise Misuse("the A2A form of a value is a JSON object")
    read = _READERS.get(type)
    if read is None:
        raise Misuse(f"A2A has no form for {with_article(type.__name__)}")
    return cast("V", read(data))


# -- out


def _exact(status: Status) -> str:
    """The status where A2A's word says less, else ""."""
    return str(status) if status in (Status.ABORTED, Status.INTERRUPTED) else ""


def _task(result: AgentResult[Any]) -> JsonObject:
    task_id = result.task_id or result.run_id
    said = result.content if result.error is None else result.error.message
    status: JsonObject = {"state": _STATES[result.status]}
    if said:
        answer = Message(Role.ASSISTANT, said)
        status["message"] = message_to_a2a(answer, task_id=task_id, context_id=result.context_id)
    if result.ended_at is not None:
        status["timestamp"] = result.ended_at.isoformat().replace("+00:00", "Z")
    shown = [m for m in result.messages if m.role in (Role.USER, Role.ASSISTANT)]
    form: JsonObject = {
        "kind": "task",
        "id": task_id,
        "contextId": result.context_id,
        "status": status,
        "artifacts": [artifact_to_a2a(artifact) for artifact in result.artifacts],
        "history": [message_to_a2a(message) for message in shown],
    }
    return with_extension(form, result.metadata, **_facts(result))


def _facts(result: AgentResult[Any]) -> JsonObject:
    output = cast("object", result.output)
    is_own = has_own_output(output, result.content)
    return {
        "status": _exact(result.status),
        "run_id": result.run_id,
        "task_id": "" if result.task_id else None,
        "agent_id": result.agent_id,
        "parent_run_id": result.parent_run_id,
        "content": result.content if result.error is not None else None,
        "output": plain({"output": output}) if is_own else None,
        "error": None if result.error is None else plain(result.error),
        "usage": plain(result.usage) if result.usage or result.usage.api_calls else None,
        # Amounts as text, for a number loses digits on its way through a float.
        "cost": None if result.cost is None else msgspec.to_builtins(result.cost),
        "finish_reason": None if result.finish_reason is None else str(result.finish_reason),
        "cause": str(result.cause),
        "detail": result.detail,
        "duration_ms": result.duration_ms or None,
        "pending": [plain(pending) for pending in result.pending],
    }


def _params(request: Request) -> JsonObject:
    message = request.to_message()
    form: JsonObject = {
        "message": message_to_a2a(message, task_id=request.task_id, context_id=request.context_id)
    }
    if request.config is not None:
        form["configuration"] = {"acceptedOutputModes": [*request.config.accepted_output_modes]}
    return with_extension(form, request.metadata, inputs=request.inputs, run_id=request.run_id)


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


def _result_of(data: JsonObject) -> AgentResult[Any]:
    facts = object_in(object_in(data, "metadata"), EXTENSION)
    told = object_in(data, "status")
    status = _status_of(told, facts)
    said = message_of(object_in(told, "message")).text if object_in(told, "message") else ""
    error = _error_of(status, said, facts)
    content = said or None if error is None else text_in(facts, "content") or None
    output = object_in(facts, "output").get("output", content)
    metadata = object_in(data, "metadata")
    return AgentResult[Any](
        status=status,
        output=output,
        content=content,
        error=error,
        messages=tuple(message_of(one) for one in _objects(data, "history")),
        artifacts=tuple(artifact_of(one) for one in _objects(data, "artifacts")),
        pending=tuple(read_as(one, cast("Any", Pending)) for one in _objects(facts, "pending")),
        usage=read_as(object_in(facts, "usage"), Usage),
        cost=read_as(facts["cost"], Cost) if "cost" in facts else None,
        finish_reason=cast("Any", text_in(facts, "finish_reason") or None),
        cause=InterruptCause(text_in(facts, "cause")),
        detail=text_in(facts, "detail"),
        run_id=text_in(facts, "run_id"),
        task_id="" if text_in(facts, "run_id") == data.get("id") else text_in(data, "id"),
        context_id=text_in(data, "contextId"),
        agent_id=text_in(facts, "agent_id"),
        parent_run_id=text_in(facts, "parent_run_id"),
        ended_at=_moment(text_in(told, "timestamp")),
        duration_ms=_count(facts.get("duration_ms")),
        metadata={name: value for name, value in metadata.items() if name != EXTENSION},
    )


def _request_of(data: JsonObject) -> Request:
    asked, metadata = object_in(data, "message"), object_in(data, "metadata")
    if not asked:
        raise Misuse("the parameters of message/send hold no message")
    facts, config = object_in(metadata, EXTENSION), data.get("configuration")
    modes = object_in(data, "configuration").get("acceptedOutputModes")
    listed = modes if isinstance(modes, list) else []
    accepted = tuple(mode for mode in listed if isinstance(mode, str))
    return Request(
        message_of(asked),
        inputs=object_in(facts, "inputs"),
        run_id=text_in(facts, "run_id"),
        task_id=text_in(asked, "taskId"),
        context_id=text_in(asked, "contextId"),
        config=RequestConfig(accepted_output_modes=accepted) if isinstance(config, dict) else None,
        metadata={name: value for name, value in metadata.items() if name != EXTENSION},
    )


def _status_of(data: JsonObject, facts: JsonObject) -> Status:
    exact = text_in(facts, "status") or text_in(
        object_in(object_in(data, "metadata"), EXTENSION), "status"
    )
    status = _STATUSES.get(text_in(data, "state"))
    if status is None:
        raise Misuse(f"a task of A2A in state {data.get('state')!r} is not over yet")
    known = Status.__members__.get(exact.upper())
    # Ours only says more exactly what the state says; where they part, the state holds.
    return known if known is not None and _STATES[known] == _STATES[status] else status


def _error_of(status: Status, said: str, facts: JsonObject) -> AgentError | None:
    if status is Status.COMPLETED:
        return None
    if object_in(facts, "error"):
        return read_as(facts["error"], AgentError)
    return AgentError(_CODES[status], said, origin=Origin.HOST)


def _read_status(data: JsonObject) -> Status:
    return _status_of(data, {})


def _read_card(data: JsonObject) -> AgentCard:
    return read_as({**_own_words(data), "kind": "agent_card"}, AgentCard)


def _read_skill(data: JsonObject) -> Skill:
    return read_as(_own_words(data), Skill)


def _read_capabilities(data: JsonObject) -> AgentCapabilities:
    return read_as(_own_words(data), AgentCapabilities)


def _own_words(data: JsonObject) -> JsonObject:
    own = {theirs: ours for ours, theirs in _CARD_WORDS.items()}
    # Others write null where they have nothing.
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


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _moment(text: str) -> datetime | None:
    try:
        return msgspec.convert(text, datetime) if text else None
    except msgspec.ValidationError as error:
        raise Misuse(f"timestamp {text!r} is no moment: {error}") from error


_READERS: dict[type, Any] = {
    AgentResult: _result_of,
    Request: _request_of,
    Status: _read_status,
    Message: message_of,
    Artifact: artifact_of,
    AgentCard: _read_card,
    Skill: _read_skill,
    AgentCapabilities: _read_capabilities,
}
