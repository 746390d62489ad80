"""The flat contract dict: writing it, reading it, and ``ResultView``, a dict with attributes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar, cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin, Status
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import decode, encode
from upshot.contract.error import AgentError, RunWarning, is_retryable
from upshot.contract.result import FLAT_KEYS, AgentResult, RunEffect, limited_by, to_flat_form
from upshot.contract.usage import Cost, RateLimitState, Usage, complete_rate_limit, measured
from upshot.errors import Misuse

_EXAMPLE = 'from_contract({"content": ..., "usage": ...})'

V = TypeVar("V")

_STATUS_OF = {
    ErrorCode.INTERRUPTED: Status.INTERRUPTED,
    ErrorCode.CANCELED: Status.CANCELED,
    ErrorCode.INPUT_REQUIRED: Status.INPUT_REQUIRED,
}
_STRUCTS = (AgentError, Usage, Cost, RateLimitState)


def to_contract(result: AgentResult[Any]) -> JsonObject:
    """Return the flat contract dict of *result*.

    Returns:
        output (if it is not the content), content, usage, cost, metadata, finish_reason, error,
        rate_limit and provider_data; plain values, money as floats, unknown keys missing.
    """
    return to_flat_form(result)


def from_contract(data: Mapping[str, object], *, now: float | None = None) -> AgentResult[Json]:
    """Read a flat contract dict.

    Args:
        data: As returned by ``to_contract``. ``cost`` may be a number, ``error`` a text, and a key
            or field that is None counts as absent. Other keys are ignored.
        now: When it was created, in unix seconds; then the resets of a rate limit are given both as
            waits and as moments. None leaves them unchanged.

    Returns:
        The result. Its status follows from the error. If the error does not say whether it is
        retryable, its status code decides, or its code if it has none; an internal error never is.
        A rate limit without a wait gets the longest wait of its exhausted windows. An unknown
        finish reason becomes stop, with the word kept in ``provider_data["finish_raw"]``. Values
        that JSON cannot express are replaced and listed in the warnings.

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
        status=status_of(error),
        output=form.get("output", form.get("content")),
        content=_read(str, form, "content"),
        usage=_read_usage(form),
        cost=_read_cost(form),
        error=error,
        rate_limit=limits_of(limits, error, now=now),
        **_read_metadata(form),
        warnings=lossy_warnings(lossy),
        **_read_finish(form),
    )


def _read(form: type[V], data: Mapping[str, object], key: str) -> V | None:
    value = data.get(key)
    if value is None or isinstance(value, form):
        return value
    try:
        return decode(encode(_without_nulls(value)), form)
    except Misuse as problem:
        raise Misuse(f"{key} of this contract dict has the wrong form: {problem}") from problem


def _read_usage(form: Mapping[str, object]) -> Usage:
    usage = _read(Usage, form, "usage")
    if usage is None:
        return Usage()
    # No prompt is empty, so all zeros mean unknown.
    return measured(usage) if usage and not usage.is_measured else usage


def _read_object(data: Mapping[str, object], key: str) -> JsonObject:
    return _read(cast("type[JsonObject]", dict), data, key) or {}


def _read_metadata(form: Mapping[str, object]) -> dict[str, Any]:
    """Return the metadata, and the effects that ``to_contract`` put into them."""
    metadata = _read_object(form, "metadata")
    if "effects" not in metadata:
        return {"metadata": metadata}
    try:
        effects = decode(encode(metadata["effects"]), tuple[RunEffect, ...])
    except Misuse:
        # The caller uses the word for something else.
        return {"metadata": metadata}
    others = {name: value for name, value in metadata.items() if name != "effects"}
    return {"metadata": others, "effects": effects}


def _without_nulls(value: object) -> object:
    """Return *value* without fields that are None; unknown fields are left out."""
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


def limits_of(
    limits: RateLimitState | None, error: AgentError | None, *, now: float | None = None
) -> RateLimitState | None:
    """Return *limits*, completed, and marked as limited if *error* is a rate_limit."""
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


def status_of(error: AgentError | None) -> Status:
    """Return the status of a run that ended with *error*."""
    return Status.COMPLETED if error is None else _STATUS_OF.get(error.code, Status.FAILED)


def lossy_warnings(lossy: tuple[str, ...]) -> tuple[RunWarning, ...]:
    """Return a warning about the values at these JSON pointers, which were replaced."""
    if not lossy:
        return ()
    message = f"replaced what JSON cannot hold, at {', '.join(lossy)}"
    return (RunWarning(code="lossy_value", message=clean_text(message), origin=Origin.ENGINE),)


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
        # Only called for names that a dict lacks; during unpickling there is no result yet.
        if name == "result":
            raise AttributeError(name)
        return getattr(self.result, name)

    def __reduce__(self) -> tuple[type[ResultView], tuple[AgentResult[Any]], None, None, Any]:
        return type(self), (self.result,), None, None, iter(self.items())

    def __repr__(self) -> str:
        return f"ResultView({super().__repr__()})"
