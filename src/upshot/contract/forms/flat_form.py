"""The flat contract dict: writing it, reading it, and ``ResultView``, a dict with attributes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar, cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin, Status
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json, JsonObject, Local
from upshot.contract.codec import decode, encode
from upshot.contract.error import AgentError, RunWarning, is_retryable
from upshot.contract.forms.execution_form import read_execution_facts
from upshot.contract.model_calls import ModelResponse
from upshot.contract.result import FLAT_KEYS, AgentResult, limited_by, to_flat_form
from upshot.contract.usage import Cost, RateLimitState, Usage, complete_rate_limit
from upshot.errors import Misuse, RunFailed

_EXAMPLE = 'from_contract({"content": ..., "usage": ...})'

V = TypeVar("V")

_STATUS_OF = {
    ErrorCode.INTERRUPTED: Status.INTERRUPTED,
    ErrorCode.CANCELED: Status.CANCELED,
    ErrorCode.INPUT_REQUIRED: Status.INPUT_REQUIRED,
}
_FAILED_WORDS = frozenset(map(str, Status)) - {str(Status.COMPLETED)}
_EXECUTION_KEYS = {"content", "messages", "metadata", "success"}
_ERROR_KEYS = {"code", "message", "type", "error_type"}
_TELLING_KEYS = {"output", "content", "error"}
_STRUCTS = (AgentError, Usage, Cost, RateLimitState)


def to_contract(result: AgentResult[Any]) -> JsonObject:
    """Make the flat contract dict of *result*.

    Returns:
        output (if it is not the content), content, usage, cost, metadata, finish_reason, error,
        rate_limit and provider_data; plain values, money as floats, unknown keys missing.
    """
    return to_flat_form(result)


def from_contract(data: Mapping[str, object], *, now: float | None = None) -> AgentResult[Json]:
    """Read a flat contract dict.

    Args:
        data: As ``to_contract`` returns it. ``cost`` may be a number, ``error`` a text, and a
            key or field that is None counts as absent. Other keys are ignored.
        now: When it was made, in unix seconds; then the resets of a rate limit are given both as
            waits and as moments. None leaves them as they are.

    Returns:
        The result. Its status follows from the error. If the error does not say whether it is
        retryable, its status code decides, else its code; an internal error never is. A rate
        limit without a wait gets the longest wait of its exhausted windows. An unknown finish
        reason becomes stop, with the word kept in ``provider_data["finish_raw"]``. Values that
        JSON cannot hold are replaced and listed in the warnings.

    Raises:
        Misuse: It is not a mapping, or the value of a key has another form; the key is named.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"a contract dict must be a mapping, got {kind_of(data)}: {_EXAMPLE}")
    given = {key: data[key] for key in FLAT_KEYS if data.get(key) is not None}
    structs = {key: value for key, value in given.items() if isinstance(value, _STRUCTS)}
    if isinstance(given.get("cost"), Decimal):
        structs["cost"] = Cost(total=cast("Decimal", given["cost"]))
    try:
        free, lossy = to_free_json({k: v for k, v in given.items() if k not in structs})
    except UnserializableError as problem:
        raise Misuse(f"this is not a contract dict: {problem}") from problem
    form: dict[str, Any] = {**cast("JsonObject", free), **structs}
    error = _read_error(form.get("error"))
    limits = _read(RateLimitState, form, "rate_limit")
    return AgentResult[Json](
        status=_status_of(error),
        output=form.get("output", form.get("content")),
        content=_read(str, form, "content"),
        usage=_read(Usage, form, "usage") or Usage(),
        cost=_read_cost(form),
        error=error,
        rate_limit=_limits_of(limits, error, now=now),
        metadata=_read_object(form, "metadata"),
        warnings=_lossy_warnings(lossy),
        **_read_finish(form),
    )


def coerce_result(anything: object, *, now: float | None = None) -> AgentResult[Json]:
    """Turn anything that an agent returned or raised into a result; never raises.

    Args:
        anything: An ``AgentResult`` or ``ModelResponse``, or the dict of its encoded form; an
            ``AgentError``; an exception; a mapping that has only keys of the flat contract, one
            of them output, content or error; an ``AgentExecutionResult``; any other mapping with
            ``success`` False or an error that has a code, a type or a message, which is a
            failure; a text; any other JSON value, which becomes the output; None.
        now: When it was received, in unix seconds, as for ``from_contract``; None means now.

    Returns:
        The result. Values that JSON cannot hold are replaced and listed in its warnings; a value
        without any JSON form is a failure with code invalid_output.
    """
    match anything:
        case AgentResult():
            return cast("AgentResult[Json]", anything)
        case ModelResponse():
            return result_of_response(anything)
        case AgentError():
            return _result_of_error(anything, None)
        case RunFailed():
            return coerce_result(anything.result)
        case BaseException():
            return _result_of_error(_error_of_exception(anything), anything)
        case Mapping():
            moment = time.time() if now is None else now
            read = _read_mapping(cast("Mapping[str, object]", anything), moment)
            return _result_of_value(cast("object", anything)) if read is None else read
        case _:
            return _result_of_value(anything)


def result_of_response(response: ModelResponse) -> AgentResult[Json]:
    """Make the result of a run that consisted of this one model call."""
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


def _read_mapping(data: Mapping[str, object], now: float) -> AgentResult[Json] | None:
    """The result that *data* describes, None if it is just JSON."""
    try:
        if data.get("kind") in ("agent_result", "model_response"):
            return coerce_result(decode(encode(dict(data))))
        if set(FLAT_KEYS).issuperset(data) and not _TELLING_KEYS.isdisjoint(data):
            return msgspec.structs.replace(from_contract(data, now=now), local=Local(raw=data))
    except Misuse:
        # It is the user's own data, which happens to have such keys.
        pass
    return _read_execution(data)


def _read_execution(data: Mapping[str, object]) -> AgentResult[Json] | None:
    """The result of an execution result, or of any mapping that reports a failure."""
    facts = _mapping(data.get("metadata"))
    error = _told_error(data)
    if error is None:
        content = data.get("content")
        if not data.keys() >= _EXECUTION_KEYS or not isinstance(content, str | None):
            return None
        return AgentResult[Json](output=content, content=content, **read_execution_facts(data))
    content = facts.get("partialContent", data.get("content"))
    words = [word for word in (data.get("status"), facts.get("status")) if word in _FAILED_WORDS]
    return AgentResult[Json](
        status=Status(words[0]) if words else _status_of(error),
        content=clean_text(content) if isinstance(content, str) else None,
        error=error,
        rate_limit=_limits_of(None, error),
        **read_execution_facts(data),
    )


def _told_error(data: Mapping[str, object]) -> AgentError | None:
    """The error that *data* reports, None if it reports none."""
    told = data.get("error")
    fields = _mapping(told)
    if not _ERROR_KEYS.isdisjoint(fields):
        try:
            return _read_error(to_free_json(fields)[0])
        except (Misuse, UnserializableError):
            # An error in an unknown form is still an error.
            message = fields.get("message")
            return AgentError(message=clean_text(str(message or "An error of an unknown form.")))
    if data.get("success") is not False:
        return None
    text = clean_text(told) if isinstance(told, str) else ""
    code, colon, message = text.partition(": ")
    is_ours = _mapping(data.get("metadata")).get("status") in _FAILED_WORDS
    if colon and (code in list(ErrorCode) or (is_ours and code.isidentifier())):
        return AgentError(ErrorCode(code), message, retryable=is_retryable(code, None))
    return AgentError(ErrorCode.INTERNAL, text or "It did not succeed.")


def _mapping(value: object) -> dict[str, object]:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}


def _read(form: type[V], data: Mapping[str, object], key: str) -> V | None:
    value = data.get(key)
    if value is None or isinstance(value, form):
        return value
    try:
        return decode(encode(_without_nulls(value)), form)
    except Misuse as problem:
        raise Misuse(f"{key} of this contract dict has the wrong form: {problem}") from problem


def _read_object(data: Mapping[str, object], key: str) -> JsonObject:
    return _read(cast("type[JsonObject]", dict), data, key) or {}


def _without_nulls(value: object) -> object:
    """*value* without fields that are None; unknown fields are left out."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    return {
        name: _without_nulls(item) if name == "windows" else item
        for name, item in fields.items()
        if item is not None
    }


def _read_error(error: object) -> AgentError | None:
    if not error:
        return None
    if isinstance(error, str):
        return AgentError(ErrorCode.INTERNAL, error)
    form: object = error
    fields = cast("JsonObject", error) if isinstance(error, dict) else {}
    if "error_type" in fields:
        form = {"type": fields["error_type"], **fields}
    read = _read(AgentError, {"error": form}, "error")
    if read is None or read is error or fields.get("retryable") is not None:
        return read
    # AgentError fills in a default code, which says nothing about whether this error may pass.
    code = read.code if fields.get("code") else ""
    return msgspec.structs.replace(read, retryable=is_retryable(code, read.status_code))


def _read_cost(form: Mapping[str, object]) -> Cost | None:
    cost = form.get("cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        return Cost(total=Decimal(str(cost)))
    return _read(Cost, form, "cost")


def _limits_of(
    limits: RateLimitState | None, error: AgentError | None, *, now: float | None = None
) -> RateLimitState | None:
    """*limits*, completed, and marked as limited if *error* is a rate_limit."""
    limits = limited_by(error, limits)
    return None if limits is None else complete_rate_limit(limits, now=now)


def _read_finish(form: Mapping[str, object]) -> dict[str, Any]:
    data = _read_object(form, "provider_data")
    raw = _read(str, form, "finish_reason")
    if raw is None:
        return {"provider_data": data}
    if raw.lower() in list(FinishReason):
        return {"provider_data": data, "finish_reason": raw.lower()}
    return {"provider_data": {"finish_raw": raw, **data}, "finish_reason": FinishReason.STOP}


def _status_of(error: AgentError | None) -> Status:
    return Status.COMPLETED if error is None else _STATUS_OF.get(error.code, Status.FAILED)


def _lossy_warnings(lossy: tuple[str, ...]) -> tuple[RunWarning, ...]:
    if not lossy:
        return ()
    message = f"replaced what JSON cannot hold, at {', '.join(lossy)}"
    return (RunWarning(code="lossy_value", message=clean_text(message), origin=Origin.ENGINE),)


def _result_of_value(value: object) -> AgentResult[Json]:
    try:
        output, lossy = to_free_json(value)
    except UnserializableError as problem:
        error = AgentError(
            ErrorCode.INVALID_OUTPUT,
            clean_text(str(problem)),
            type=type(value).__name__,
            origin=Origin.ENGINE,
        )
        return _result_of_error(error, value)
    return AgentResult[Json](
        output=output,
        content=output if isinstance(output, str) else None,
        warnings=_lossy_warnings(lossy),
        local=Local(raw=value),
    )


def _result_of_error(error: AgentError, raw: object) -> AgentResult[Json]:
    return AgentResult[Json](
        status=_status_of(error),
        error=error,
        rate_limit=_limits_of(None, error),
        local=None if raw is None else Local(raw=raw),
    )


def _error_of_exception(exception: BaseException) -> AgentError:
    # Upshot's own signals and the adapters' errors carry an AgentError.
    known: object = getattr(exception, "error", None)
    if isinstance(known, AgentError):
        return known
    name = type(exception).__name__
    try:
        message = clean_text(str(exception))
    # The promise kept: this never raises, even if the __str__ of a foreign exception does.
    except Exception:
        message = ""
    return AgentError(ErrorCode.INTERNAL, message or name, type=name, origin=Origin.ENGINE)


class ResultView(dict[str, Json]):
    """A dict equal to ``to_contract(result)`` with the attributes of the result.

    Code that checks ``isinstance(output, dict)`` and reads ``output.get("error")`` works, and so
    does ``output.error.code``. Changing the dict does not change the result.

    Attributes:
        result: The whole result, of a success or a failure.
    """

    __slots__ = ("result",)

    def __init__(self, result: AgentResult[Any]) -> None:
        super().__init__(to_contract(result))
        self.result: AgentResult[Any] = result

    def __getattr__(self, name: str) -> Any:
        # Only called for names that a dict lacks; while it is unpickled there is no result yet.
        if name == "result":
            raise AttributeError(name)
        return getattr(self.result, name)

    def __reduce__(self) -> tuple[type[ResultView], tuple[AgentResult[Any]], None, None, Any]:
        return type(self), (self.result,), None, None, iter(self.items())

    def __repr__(self) -> str:
        return f"ResultView({super().__repr__()})"
