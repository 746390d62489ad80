"""What an execution result tells of a run beside its answer and its error."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict, TypeVar, cast

from ..errors import Misuse
from .answer import Pending
from .codec import decode, encode
from .free_json import UnserializableError
from .message import Message
from .result import RunWarning
from .usage import Cost, Usage, to_money
from .value import JsonObject, Local
from .words import FinishReason, Role

__all__ = ["ExecutionFacts", "read_execution_facts"]

T = TypeVar("T")

_ASKING = (Role.SYSTEM, Role.USER)


class ExecutionFacts(TypedDict, total=False):
    """Fields of an AgentResult; those of which nothing is told are not there."""

    messages: tuple[Message, ...]
    pending: tuple[Pending, ...]
    warnings: tuple[RunWarning, ...]
    usage: Usage
    cost: Cost
    finish_reason: FinishReason
    provider_data: JsonObject
    run_id: str
    agent_id: str
    started_at: datetime
    duration_ms: int
    local: Local


def read_execution_facts(data: Mapping[str, object]) -> ExecutionFacts:
    """Read what *data* tells; what has another form than upshot's is left out, and never raises.

    Messages up to the first answer are those that were seeded and asked. Which tools ran is told
    by name only and makes no records.
    """
    metadata = _mapping(data.get("metadata"))
    messages = _read(tuple[Message, ...], data.get("messages")) or ()
    asked = next((at for at, one in enumerate(messages) if one.role not in _ASKING), len(messages))
    tokens = _read(int, metadata.get("tokensUsed"))
    cost, started = _read(float, metadata.get("cost")), _read(datetime, metadata.get("startTime"))
    about = {word: metadata[word] for word in ("model", "provider") if word in metadata}
    facts: dict[str, object] = {
        "messages": messages[asked:],
        "pending": _read(tuple[Pending, ...], metadata.get("pending")),
        "warnings": _read(tuple[RunWarning, ...], metadata.get("warnings")),
        "usage": None if tokens is None else Usage(total_tokens=tokens),
        "cost": None if cost is None else Cost(total=to_money(cost)),
        "finish_reason": _read(FinishReason, metadata.get("finishReason")),
        "provider_data": _read(dict[str, str], about),
        "run_id": _read(str, metadata.get("runId")),
        "agent_id": _read(str, metadata.get("agentId")),
        "started_at": None if started is None or started.tzinfo is None else started,
        "duration_ms": _read(int, metadata.get("executionTime")),
        "local": Local(raw=data, seeded=messages[:asked]),
    }
    there = {name: value for name, value in facts.items() if value is not None}
    return cast("ExecutionFacts", there)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _read(form: type[T], value: object) -> T | None:
    if value is None:
        return None
    try:
        return decode(encode(value), form)
    except (Misuse, UnserializableError):
        # Somebody else's view may mean something else by the name.
        return None
