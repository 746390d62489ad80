"""Other forms of a result: the flat contract dict, and what a model reads of a tool outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never, cast

import msgspec

from ..errors import Misuse
from .codec import decode, encode
from .error import AgentError
from .flat_form import FLAT_KEYS, to_flat_form
from .free_json import to_free_json
from .outcome import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from .rate_limit import RateLimitState
from .response import ModelResponse
from .result import AgentResult
from .usage import Cost, Usage
from .value import Json, JsonObject, Local
from .words import DeniedReason, ErrorCode, Origin, Status

__all__ = [
    "coerce_result",
    "from_contract",
    "outcome_to_model_content",
    "outcome_to_object",
    "result_of_response",
    "to_contract",
]

_STATUS_OF = {
    ErrorCode.INTERRUPTED: Status.INTERRUPTED,
    ErrorCode.CANCELED: Status.CANCELED,
    ErrorCode.INPUT_REQUIRED: Status.INPUT_REQUIRED,
}
_SAYS_SOMETHING = {"output", "content", "error"}


def to_contract(result: AgentResult[Any]) -> JsonObject:
    """The flat contract dict of *result*.

    Returns:
        output (where it is not the content), content, usage, cost, metadata, finish_reason,
        error, rate_limit and provider_data; plain values, money as floats, unknown keys missing.
    """
    return to_flat_form(result)


def from_contract(data: Mapping[str, Json]) -> AgentResult[Json]:
    """Read a flat contract dict.

    Args:
        data: As ``to_contract`` gives it; ``cost`` may be a number, ``error`` a text.

    Returns:
        The result; its status follows from the error.

    Raises:
        Misuse: A key holds something of another form; the message names it.
    """
    error = _read_error(data.get("error"))
    fields: dict[str, Any] = {key: data[key] for key in FLAT_KEYS if data.get(key) is not None}
    fields["error"] = error
    fields["status"] = (
        Status.COMPLETED if error is None else _STATUS_OF.get(error.code, Status.FAILED)
    )
    fields.setdefault("output", fields.get("content"))
    if isinstance(fields.get("cost"), int | float):
        fields["cost"] = {"total": fields["cost"]}
    for key, form in (("usage", Usage), ("cost", Cost), ("rate_limit", RateLimitState)):
        if key in fields and not isinstance(fields[key], form):
            fields[key] = decode(encode(fields[key]), form)
    try:
        return AgentResult[Json](**fields)
    except (TypeError, ValueError) as problem:
        raise Misuse(f"this is no contract dict: {problem}") from problem


def coerce_result(anything: object) -> AgentResult[Json]:
    """Make a result of whatever an agent returned.

    Args:
        anything: An ``AgentResult`` or ``ModelResponse``; an exception; a mapping whose keys
            are all the flat contract's and say something (output, content or error); a text;
            any other JSON value, which becomes the output; None.

    Returns:
        The result; what JSON cannot hold is replaced and listed in its warnings.
    """
    match anything:
        case AgentResult():
            return cast("AgentResult[Json]", anything)
        case ModelResponse():
            return result_of_response(anything)
        case BaseException():
            return _result_of_exception(anything)
        case str():
            return AgentResult[Json](output=anything, content=anything)
        case Mapping() if _is_contract(cast("Mapping[object, object]", anything)):
            return from_contract(cast("Mapping[str, Json]", anything))
        case _:
            output, lossy = to_free_json(anything)
            metadata: JsonObject = {"lossy": list(lossy)} if lossy else {}
            return AgentResult[Json](output=output, metadata=metadata, local=Local(raw=anything))


def result_of_response(response: ModelResponse) -> AgentResult[Json]:
    """The result of a run that was this one model call."""
    return AgentResult[Json](
        status=response.status,
        output=response.content if response.output is None else response.output,
        content=response.content,
        messages=(response.to_message(),) if response.success else (),
        usage=response.usage,
        cost=response.cost,
        finish_reason=response.finish_reason,
        error=response.error,
        rate_limit=response.rate_limit,
        provider_data=response.provider_data,
        duration_ms=response.duration_ms,
        local=Local(raw=response.raw),
    )


def outcome_to_model_content(outcome: ToolOutcome) -> str:
    """What the model reads of *outcome*, as JSON text.

    Returns:
        Compact JSON without ASCII escaping; exactly the keys of each outcome's form.
    """
    return msgspec.json.encode(outcome_to_object(outcome)).decode()


def outcome_to_object(outcome: ToolOutcome) -> JsonObject:
    """What the model reads of *outcome*, as an object."""
    match outcome:
        case ToolExecutionResult(output=output):
            return output
        case ToolTimeout(retryable=retryable):
            return {
                "status": "error",
                "error": _timeout_text(outcome),
                "timed_out": True,
                "retryable": retryable,
            }
        case ToolFailure(error=error, retryable=retryable):
            return {"status": "error", "error": error, "retryable": retryable}
        case ToolDenied():
            return _denied(outcome)
        case ToolArtifactReference(artifact_id=artifact_id, summary=summary):
            hint = f"Stored whole: read_artifact(id={artifact_id!r}) with offset, limit or pattern."
            return {"artifact_reference": artifact_id, "summary": summary, "hint": hint}
        case _:
            assert_never(outcome)


def _timeout_text(outcome: ToolTimeout) -> str:
    allowed = f"{outcome.timeout_s:g} s" if outcome.timeout_s else "its deadline"
    return f"{outcome.tool_name} did not finish within {allowed}."


def _denied(outcome: ToolDenied) -> JsonObject:
    match outcome.reason:
        case DeniedReason.DUPLICATE:
            return {"warning": "duplicate_tool_call", "skipped": True}
        case DeniedReason.BLOCKED:
            return {"warning": "non_retryable_tool_failure", "skipped": True}
        case DeniedReason.VALIDATION:
            return {
                "error": "argument_validation_failed",
                "details": outcome.details,
                "hint": outcome.hint or "Correct the arguments and call the tool again.",
            }
        case DeniedReason.DEADLINE:
            return {"error": "Turn deadline expired; cannot execute tool.", "timed_out": True}
        case reason:
            return {"error": f"Blocked: {outcome.details or reason}", "blocked": True}


def _is_contract(data: Mapping[object, object]) -> bool:
    return bool(data) and set(FLAT_KEYS).issuperset(data) and not _SAYS_SOMETHING.isdisjoint(data)


def _read_error(error: object) -> AgentError | None:
    if not error:
        return None
    if isinstance(error, AgentError):
        return error
    if isinstance(error, str):
        return AgentError(ErrorCode.INTERNAL, error)
    fields = to_free_json(error)[0]
    if isinstance(fields, dict) and "error_type" in fields:
        fields = {"type": fields["error_type"], **fields}
    return decode(encode(fields), AgentError)


def _result_of_exception(exception: BaseException) -> AgentResult[Json]:
    error = AgentError(
        ErrorCode.INTERNAL,
        str(exception) or type(exception).__name__,
        type=type(exception).__name__,
        origin=Origin.ENGINE,
    )
    return AgentResult[Json](status=Status.FAILED, error=error, local=Local(raw=exception))
