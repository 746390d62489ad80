"""The execution result, a JSON view of a result for user interfaces: writing and reading it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import msgspec

from upshot.contract.base.enums import ErrorCode, FinishReason, Role, Status
from upshot.contract.base.json_values import UnserializableError
from upshot.contract.base.structs import JsonObject, Local
from upshot.contract.codec import decode, encode
from upshot.contract.error import RunWarning
from upshot.contract.message import Message
from upshot.contract.pending import Pending
from upshot.contract.result import AgentResult, RunEffect
from upshot.contract.usage import Cost, Usage, to_money
from upshot.errors import Misuse

T = TypeVar("T")

_ASKING = (Role.SYSTEM, Role.USER)


class ExecutionFacts(TypedDict, total=False):
    """Fields of an AgentResult; unknown ones are missing."""

    messages: tuple[Message, ...]
    seeded: tuple[Message, ...]
    pending: tuple[Pending, ...]
    warnings: tuple[RunWarning, ...]
    effects: tuple[RunEffect, ...]
    usage: Usage
    cost: Cost
    finish_reason: FinishReason
    provider_data: JsonObject
    run_id: str
    agent_id: str
    started_at: datetime
    duration_ms: int
    metadata: JsonObject
    local: Local


def read_execution_facts(data: Mapping[str, object]) -> ExecutionFacts:
    """Read the fields of *data*, leaving out fields that are not in upshot's form. Never raises.

    Messages up to the first answer are the seeded ones and the request. Only the names of the tools
    that ran are known, so there are no records.
    """
    metadata = _mapping(data.get("metadata"))
    messages = _read(tuple[Message, ...], data.get("messages")) or ()
    asked = next((at for at, one in enumerate(messages) if one.role not in _ASKING), len(messages))
    tokens = _read(int, metadata.get("tokensUsed"))
    cost, started = _read(float, metadata.get("cost")), _read(datetime, metadata.get("startTime"))
    about = {key: metadata[word] for word, key in _ABOUT.items() if word in metadata}
    facts: dict[str, object] = {
        "messages": messages[asked:],
        "pending": _read(tuple[Pending, ...], metadata.get("pending")),
        "warnings": _read(tuple[RunWarning, ...], metadata.get("warnings")),
        "effects": _read(tuple[RunEffect, ...], metadata.get("effects")),
        "usage": None if tokens is None else Usage(total_tokens=tokens),
        "cost": None if cost is None else Cost(total=to_money(cost)),
        "finish_reason": _read(FinishReason, metadata.get("finishReason")),
        "provider_data": _read(dict[str, str], about),
        "metadata": _read(cast("type[JsonObject]", dict), _other_metadata(data, metadata)),
        "run_id": _read(str, metadata.get("runId")),
        "agent_id": _read(str, metadata.get("agentId")),
        "started_at": None if started is None or started.tzinfo is None else started,
        "duration_ms": _read(int, metadata.get("executionTime")),
        "seeded": messages[:asked],
        "local": Local(raw=data),
    }
    there = {name: value for name, value in facts.items() if value is not None}
    return cast("ExecutionFacts", there)


def _other_metadata(
    data: Mapping[str, object], metadata: Mapping[str, object]
) -> dict[str, object]:
    """Return what a result has no field for: the request's metadata, and the names of tools."""
    further = {name: value for name, value in metadata.items() if name not in _KNOWN}
    return {**further, _TOOLS: data[_TOOLS]} if data.get(_TOOLS) else further


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _read(form: type[T], value: object) -> T | None:
    if value is None:
        return None
    try:
        return decode(encode(value), form)
    except (Misuse, UnserializableError):
        # Another program may use the name for something else.
        return None


class ExecutionMetadata(TypedDict):
    """The known facts about a run, and the request's own metadata; unknown keys are missing.

    Attributes:
        executionTime: Milliseconds.
        startTime: RFC 3339 in UTC, to the millisecond.
        endTime: startTime plus executionTime.
        tokensUsed: All tokens of all model calls.
        cost: The cost of all model calls, in the result's currency.
        model: The model of the last call.
        provider: The provider of that model.
        requestId: The provider's id of the last call.
        finishReason: Why the last call stopped.
        status: How the run ended; missing if it completed.
        runId: The run.
        agentId: The agent.
        partialContent: Text received before a failure.
        warnings: What went wrong without failing the run, each with code, message and origin.
        effects: Each call that changed something outside, or may have done so, in the run and in
            its child runs; missing if there is none.
        pending: What a parked run waits for.
    """

    executionTime: int
    startTime: NotRequired[str]
    endTime: NotRequired[str]
    tokensUsed: NotRequired[int]
    cost: NotRequired[float]
    model: NotRequired[str]
    provider: NotRequired[str]
    requestId: NotRequired[str]
    finishReason: NotRequired[str]
    status: NotRequired[str]
    runId: NotRequired[str]
    agentId: NotRequired[str]
    partialContent: NotRequired[str]
    warnings: NotRequired[list[JsonObject]]
    effects: NotRequired[list[JsonObject]]
    pending: NotRequired[list[JsonObject]]


_ABOUT = {"model": "model", "provider": "provider", "requestId": "request_id"}
_TOOLS = "toolsUsed"
_KNOWN = frozenset(ExecutionMetadata.__annotations__)


class AgentExecutionResult(TypedDict):
    """The execution result, plain JSON.

    Attributes:
        content: The answer as text, structured output as compact JSON; null unless it succeeded.
        messages: The whole conversation, in upshot's form, with the seeded messages.
        toolsUsed: Tools that ran, without duplicates, in the order of their first run; absent if
            none did.
        metadata: The known facts about the run.
        success: Whether there is no error.
        error: "code: message"; present only if success is false.
    """

    content: str | None
    messages: list[JsonObject]
    toolsUsed: NotRequired[list[str]]
    metadata: ExecutionMetadata
    success: bool
    error: NotRequired[str]


def to_execution_result(result: AgentResult[Any]) -> AgentExecutionResult:
    """Return the execution result of *result*.

    Returns:
        A new dict of plain JSON, valid by ``execution_result_schema()``.
    """
    messages = cast("list[JsonObject]", _plain(result.all_messages()))
    view: AgentExecutionResult = {
        "content": _answer(result) if result.success else None,
        "messages": messages,
        "metadata": _metadata(result),
        "success": result.success,
    }
    tools = result.tools_used or _read(tuple[str, ...], result.metadata.get(_TOOLS))
    if tools:
        view["toolsUsed"] = list(tools)
    if result.error is not None:
        parked = result.status is Status.INPUT_REQUIRED
        code = ErrorCode.INPUT_REQUIRED if parked else result.error.code
        view["error"] = f"{code}: {result.error.message}"
    return view


def decode_execution_result(data: bytes | str) -> AgentExecutionResult:
    """Decode an execution result; reverses the encoding of ``to_execution_result``.

    Raises:
        Misuse: It is not JSON, or not an execution result; the message says where.
    """
    decode(data, AgentExecutionResult)
    # The plain JSON, since its metadata may have more keys than the known ones.
    return cast("AgentExecutionResult", msgspec.json.decode(data))


def _metadata(result: AgentResult[Any]) -> ExecutionMetadata:
    known: dict[str, object] = {
        "executionTime": result.duration_ms,
        "startTime": _moment(result.started_at, 0),
        "endTime": _moment(result.started_at, result.duration_ms),
        "tokensUsed": result.usage.total_tokens,
        "cost": _cost(result),
        "model": _word(result.provider_data, "model"),
        "provider": _word(result.provider_data, "provider"),
        "requestId": _word(result.provider_data, "request_id"),
        "finishReason": result.finish_reason,
        "status": None if result.success else result.status,
        "runId": result.run_id or None,
        "agentId": result.agent_id or None,
        "partialContent": None if result.success else result.content,
        "warnings": result.warnings or None,
        "effects": result.effects or None,
        "pending": result.pending or None,
    }
    there = {name: value for name, value in known.items() if value is not None}
    own = {name: value for name, value in result.metadata.items() if name not in _KNOWN}
    own.pop(_TOOLS, None)
    return cast("ExecutionMetadata", _plain({**own, **there}))


def _answer(result: AgentResult[Any]) -> str | None:
    output: object = result.output
    if output is None or isinstance(output, str):
        return result.content if result.content is not None else output
    return encode(output).decode()


def _word(data: JsonObject, name: str) -> str | None:
    word = data.get(name)
    return word if isinstance(word, str) and word else None


def _cost(result: AgentResult[Any]) -> float | None:
    cost = result.cost
    return None if cost is None or cost.total is None else float(cost.total)


def _moment(start: datetime | None, later_ms: int) -> str | None:
    if start is None:
        return None
    moment = start + timedelta(milliseconds=later_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> object:
    return msgspec.json.decode(encode(value))
