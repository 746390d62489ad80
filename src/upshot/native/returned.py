"""Reads what code returned or raised, in every form: a result, a response, an error, an exception.

This is the only reader of such values. ``coerce_result`` uses it to read anything, and a run uses
it to read what its engine, a node, a function or an executor returned or raised, so that a failure
is never mistaken for data, whatever its form:

- ``AgentResult``, ``ModelResponse``, ``AgentError``, and the dict of their encoded form;
- the flat contract, as a dict or a dataclass, containing the flat structures of ``upshot.flat`` or
  the contract's own; this includes ``AgentResponse`` and its ``dataclasses.asdict``;
- an ``AgentExecutionResult``, and any mapping that reports a failure;
- an exception, which may carry its error or come from an API client.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

import msgspec

from upshot.contract.base.enums import (
    ErrorCode,
    FinishReason,
    Origin,
    Resource,
    Role,
    Status,
)
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json, Local
from upshot.contract.codec import decode, encode
from upshot.contract.error import AgentError, is_retryable
from upshot.contract.forms.execution_form import read_execution_facts
from upshot.contract.forms.flat_form import from_contract, limits_of, lossy_warnings, status_of
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelResponse
from upshot.contract.result import FLAT_KEYS, AgentResult
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Cost, RateLimitState, RateLimitWindow, Usage
from upshot.errors import Misuse, RunFailed
from upshot.native.objects import (
    as_count,
    as_items,
    as_object,
    as_text,
    find_headers,
    find_rate_limit,
    look_up,
)
from upshot.wire.decoding import encode_json
from upshot.wire.error_classification import classify_error
from upshot.wire.rate_limits import RateLimitInfo, build_rate_limit_state

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_OURS: Final = __name__.partition(".")[0]
_NO_FAILURES: Final = (ErrorCode.INTERNAL, ErrorCode.CANCELED)
_OUTAGES: Final = (ErrorCode.TIMEOUT, ErrorCode.SERVER_ERROR)
_DOWN: Final = (ErrorCode.SERVER_ERROR, ErrorCode.RATE_LIMIT)
_FAILED_WORDS: Final = frozenset(map(str, Status)) - {str(Status.COMPLETED)}
_RESPONSE_KEYS: Final = {"tool_calls", "raw_response"}
_FORM_KEYS: Final = {*FLAT_KEYS, *_RESPONSE_KEYS, "raw", "success"}
_TELLING_KEYS: Final = {"output", "content", "error"}
_CALL_KEYS: Final = _FORM_KEYS - {"output", "content", "metadata"}
_FAILURE_KEYS: Final = {"error", "success", "kind"}
_EXECUTION_KEYS: Final = {"content", "messages", "success"}
_ERROR_KEYS: Final = {"code", "message", "type", "error_type"}
_LIMIT_KEYS: Final = {field.name for field in dataclass_fields(RateLimitInfo)}
_STRUCTS: Final = (AgentError, Usage, Cost, RateLimitState)


def coerce_result(anything: object, *, now: float | None = None) -> AgentResult[Json]:
    """Convert anything that an agent returned or raised to a result; never raises.

    Args:
        anything: An ``AgentResult`` or ``ModelResponse``, or the dict of its encoded form; an
            ``AgentError``; an exception; a mapping or dataclass that has only keys of the flat
            contract, one of them output, content or error, and perhaps ``raw``, ``success``, or
            keys of an ``AgentResponse``; an ``AgentExecutionResult``; any other mapping with
            ``success`` False or an error that has a code, a type or a message, which is a failure;
            a text; any other JSON value, which becomes the output; None.
        now: When it was received, in unix seconds, as for ``from_contract``; None means now.

    Returns:
        The result. An exception of an API client is classified by its status, body and headers,
        even if it is only the cause of another exception; any other exception that carries no error
        is internal. Values that JSON cannot express are replaced and listed in its warnings; a
        value that JSON cannot express at all is a failure with code invalid_output.
    """
    read = read_result(anything, now=now)
    return _result_of_value(anything) if read is None else read


def read_result(
    anything: object, *, now: float | None = None, or_data: bool = False
) -> AgentResult[Json] | None:
    """Read a form of a result.

    Args:
        anything: As for ``coerce_result``.
        now: As for ``coerce_result``.
        or_data: Whether a mapping may also be the user's own data. Then it is read as a success
            only if it also has facts of a call, such as its usage.

    Returns:
        The result; None if it is an ordinary value. Never raises.
    """
    match anything:
        case AgentResult():
            return cast("AgentResult[Json]", anything)
        case ModelResponse():
            return result_of_response(anything)
        case AgentError():
            return _result_of_error(anything, None)
        case BaseException():
            return result_of_exception(anything)
        case Mapping():
            fields = cast("Mapping[str, object]", anything)
            return _read_fields(_copy_fields(fields), fields, now, or_data=or_data)
        case _ if _is_record(anything):
            # A user's dataclass with a text in it is data, unless it also has facts of a call.
            return _read_fields(_fields_of(anything), anything, now, or_data=True)
        case _:
            return None


def _copy_fields(value: Mapping[str, object]) -> dict[str, object]:
    """Return a copy as a plain dict; empty if the mapping cannot be read."""
    if isinstance(value, dict):
        return dict(dict[str, object].items(value))
    try:
        return dict(value)
    except Exception:  # whatever an object of the user does when it is read, there is a result
        return {}


def reports_failure(value: Mapping[Any, object]) -> bool:
    """Return whether *value* may report a failure; quick, since every mapping is tested."""
    return not _FAILURE_KEYS.isdisjoint(value)


def result_of_response(response: ModelResponse) -> AgentResult[Json]:
    """Return the result of a run that consisted of this one model call."""
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


def result_of_exception(exception: BaseException) -> AgentResult[Json]:
    """Return the result of code that raised *exception*, with the rate limits of its headers."""
    if isinstance(exception, RunFailed):
        return coerce_result(exception.result)
    error = reported_error(exception)
    return _result_of_error(error or _bug_error(exception), exception)


def reported_error(exception: BaseException) -> AgentError | None:
    """Return the failure that *exception* reports; None if it is a bug of the code that raised it.

    It reports a failure if it carries an ``error``, or if an API client raised it.
    """
    known: object = getattr(exception, "error", None)
    return known if isinstance(known, AgentError) else client_error(exception)


def client_error(exception: BaseException) -> AgentError | None:
    """Return the failure that an API client reports with *exception*; None for a bug.

    Its status, headers and causes are read. A group reports a failure if all of its exceptions do,
    and then the first counts. Of the exceptions of Python and its standard library only network
    errors count: others may say "timeout" about a mere argument.
    """
    if isinstance(exception, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exception)
        found = [client_error(each) for each in group.exceptions]
        return found[0] if all(found) else None
    module = type(exception).__module__.partition(".")[0]
    if module == _OURS or not isinstance(exception, Exception):
        return None
    error = classify_error(exception=exception)
    if error.code in _NO_FAILURES:
        return None
    if error.status_code is None and module in sys.stdlib_module_names:
        is_network = isinstance(exception, OSError | EOFError) or module == "http"
        # Code without a specific class for it raises a plain exception that says so in words.
        is_down = type(exception) in (Exception, RuntimeError) and error.code in _DOWN
        return error if is_down or (is_network and error.code in _OUTAGES) else None
    return error


def to_contract_form(given: Mapping[str, object]) -> dict[str, object]:
    """Return the contract's dict of *given*, which may contain flat structures.

    Args:
        given: Values by the contract's keys. ``error``, ``usage``, ``cost`` and ``rate_limit`` may
            be flat structures, or mappings of their fields; other keys are ignored.

    Raises:
        Misuse: The fields of an error or a rate limit have another form.
    """
    form = {key: given[key] for key in FLAT_KEYS if given.get(key) is not None}
    for key in ("error", "usage", "cost", "rate_limit"):
        if (value := form.get(key)) is not None and not isinstance(value, _STRUCTS):
            form[key] = _fields_of(value) if _is_record(value) else value
    _read_usage(form)
    if isinstance(cost := form.get("cost"), Mapping):
        form["cost"] = _without_unknown(cast("Mapping[str, object]", cost), keep=("total",))
    if (error := form.get("error")) is not None:
        form["error"] = _read_error(error)
    limits = form.get("rate_limit")
    fields = _mapping(limits)
    # This field alone does not decide: the contract's own state has it too.
    if fields.keys() - {"retry_after"} and fields.keys() <= _LIMIT_KEYS:
        form["rate_limit"] = _read_limits(fields, form)
    return form


def _read_fields(
    fields: Mapping[str, object], raw: object, now: float | None, *, or_data: bool
) -> AgentResult[Json] | None:
    """Return the result that *fields* describe, None if they are just data."""
    moment = time.time() if now is None else now
    try:
        if fields.get("kind") in ("agent_result", "model_response"):
            return coerce_result(decode(encode(dict(fields))))
        if _is_form(fields, or_data=or_data):
            return msgspec.structs.replace(_read_flat(fields, moment), local=_local(fields, raw))
    except Misuse:
        # It is the user's own data, which happens to have such keys.
        pass
    return _read_execution(fields)


def _is_form(fields: Mapping[str, object], *, or_data: bool) -> bool:
    if not _FORM_KEYS.issuperset(fields) or _TELLING_KEYS.isdisjoint(fields):
        return False
    return not or_data or not _CALL_KEYS.isdisjoint(fields)


def _read_flat(fields: Mapping[str, object], now: float) -> AgentResult[Json]:
    form = to_contract_form(fields)
    is_response = not _RESPONSE_KEYS.isdisjoint(fields)
    if not isinstance(form.get("error"), Mapping | AgentError):
        reported = _reported_error(fields)
        if reported is not None:
            form["error"] = reported
    result = from_contract(form, now=now)
    if not is_response:
        return result
    error = result.error
    more: dict[str, Any] = {}
    if error is not None and result.finish_reason is FinishReason.ABORTED:
        error = msgspec.structs.replace(error, code=ErrorCode.CANCELED)
        more = {"error": error, "status": Status.CANCELED}
    if "usage" not in form:
        more["usage"] = Usage(api_calls=1, unmeasured_calls=1)
    calls = tuple(map(_read_call, as_items(fields.get("tool_calls"))))
    if result.content or calls:
        more["messages"] = (Message(Role.ASSISTANT, result.content or "", tool_calls=calls),)
    return msgspec.structs.replace(result, **more)


def _read_call(call: object) -> ToolCall:
    name = as_text(look_up(call, "tool")) or as_text(look_up(call, "name"))
    return ToolCall(as_text(look_up(call, "id")), name, as_object(look_up(call, "arguments")))


def _local(fields: Mapping[str, object], raw: object) -> Local:
    native = fields.get("raw")
    native = fields.get("raw_response") if native is None else native
    return Local(raw=raw if native is None else native)


def _read_usage(form: dict[str, object]) -> None:
    """Read a flat usage in *form*: it includes the cost, and has 0 for an unknown count."""
    usage = form.get("usage")
    if not isinstance(usage, Mapping) or "cost" not in usage:
        return
    counts = {**cast("Mapping[str, object]", usage)}
    cost = counts.pop("cost")
    if cost is not None and form.get("cost") is None:
        form["cost"] = _fields_of(cost) if _is_record(cost) else cost
    if not any(counts.get(f"{name}_tokens") for name in ("input", "output", "total")):
        form["usage"] = {"api_calls": 1, "unmeasured_calls": 1}
        return
    known = tuple(name for name in counts if not name.startswith("cache_"))
    form["usage"] = {"api_calls": 1, **_without_unknown(counts, keep=known)}


def _without_unknown(fields: Mapping[str, object], *, keep: tuple[str, ...]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value or name in keep}


def _read_error(error: object) -> object:
    """Return *error* in the contract's form; a missing code is derived from the other fields."""
    if isinstance(error, BaseException):
        return reported_error(error) or _bug_error(error)
    fields = _mapping(error)
    if not fields:
        return error
    if _ERROR_KEYS.isdisjoint(fields):
        raise Misuse(f"error of this contract dict has none of {', '.join(sorted(_ERROR_KEYS))}")
    kind = fields.pop("error_type", None)
    fields["type"] = fields.get("type") or kind or ""
    if not fields.get("code") and (fields["type"] or fields.get("status_code") is not None):
        facts = {"type": as_text(fields["type"]), "message": as_text(fields.get("message"))}
        status = as_count(fields.get("status_code"))
        found = classify_error(status=status, body=encode_json({"error": cast("Json", facts)}))
        fields["code"] = found.code
        if fields.get("retryable") is None:
            fields["retryable"] = found.retryable
    return fields


def _read_limits(limits: Mapping[str, object], form: dict[str, object]) -> RateLimitState:
    """Return the state of a flat rate limit; its headers are added to the provider's data."""
    try:
        info = RateLimitInfo(**cast("Any", limits))
        state = to_state(info)
    except (TypeError, ValueError) as problem:
        raise Misuse(f"rate_limit of this contract dict has the wrong form: {problem}") from problem
    if info.raw_headers and "provider_data" not in form:
        form["provider_data"] = {"raw_headers": {**info.raw_headers}}
    return state


def to_state(info: RateLimitInfo) -> RateLimitState:
    """Return the state that *info* describes: from its headers, or without headers its figures."""
    if info.raw_headers:
        return build_rate_limit_state(info.raw_headers, info.retry_after)
    figures = (
        (Resource.REQUESTS, info.limit_requests, info.remaining_requests),
        (Resource.TOKENS, info.limit_tokens, info.remaining_tokens),
    )
    windows = tuple(
        RateLimitWindow(
            name=str(resource),
            resource=resource,
            limit=limit,
            remaining=remaining,
            reset_at=info.reset_at,
        )
        for resource, limit, remaining in figures
        if limit is not None or remaining is not None
    )
    return RateLimitState(limited=info.is_limited(), retry_after=info.retry_after, windows=windows)


def _read_execution(data: Mapping[str, object]) -> AgentResult[Json] | None:
    """Return the result of an execution result, or of any mapping that reports a failure."""
    facts = _mapping(data.get("metadata"))
    error = _reported_error(data)
    if error is None:
        content = data.get("content")
        if not data.keys() >= _EXECUTION_KEYS or not isinstance(content, str | None):
            return None
        return AgentResult[Json](output=content, content=content, **read_execution_facts(data))
    content = facts.get("partialContent", data.get("content"))
    words = [word for word in (data.get("status"), facts.get("status")) if word in _FAILED_WORDS]
    return AgentResult[Json](
        status=Status(words[0]) if words else status_of(error),
        content=clean_text(content) if isinstance(content, str) else None,
        error=error,
        rate_limit=limits_of(None, error),
        **read_execution_facts(data),
    )


def _reported_error(data: Mapping[str, object]) -> AgentError | None:
    """Return the error that *data* reports, None if it reports none."""
    reported = data.get("error")
    if isinstance(reported, AgentError):
        return reported
    if isinstance(reported, BaseException):
        return reported_error(reported) or _bug_error(reported)
    fields = _mapping(_fields_of(reported) if _is_record(reported) else reported)
    if not _ERROR_KEYS.isdisjoint(fields):
        try:
            return from_contract(to_contract_form({"error": fields})).error
        except Misuse:
            # An error in an unknown form is still an error.
            message = fields.get("message")
            return AgentError(message=clean_text(str(message or "An error of an unknown form.")))
    if data.get("success") is not False:
        return None
    text = clean_text(reported) if isinstance(reported, str) else ""
    code, colon, message = text.partition(": ")
    is_ours = _mapping(data.get("metadata")).get("status") in _FAILED_WORDS
    if colon and (code in list(ErrorCode) or (is_ours and code.isidentifier())):
        return AgentError(ErrorCode(code), message, retryable=is_retryable(code, None))
    return AgentError(ErrorCode.INTERNAL, text or "It did not succeed.")


def _mapping(value: object) -> dict[str, object]:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}


def _is_record(value: object) -> TypeGuard[DataclassInstance]:
    return is_dataclass(value) and not isinstance(value, type)


def _fields_of(record: DataclassInstance) -> dict[str, object]:
    return {field.name: getattr(record, field.name) for field in dataclass_fields(record)}


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
        warnings=lossy_warnings(lossy),
        local=Local(raw=value),
    )


def _result_of_error(error: AgentError, raw: object) -> AgentResult[Json]:
    """Return the result of a failure, with the rate limits from the headers of *raw*."""
    headers = find_headers(raw) if isinstance(raw, BaseException) else {}
    is_limit = error.code == ErrorCode.RATE_LIMIT
    limits = find_rate_limit(headers, limited=is_limit, retry_after_s=error.retry_after_s)
    return AgentResult[Json](
        status=status_of(error),
        error=error,
        rate_limit=limits_of(limits, error),
        provider_data={"raw_headers": {**headers}} if headers else {},
        local=None if raw is None else Local(raw=raw),
    )


def _bug_error(exception: BaseException) -> AgentError:
    name = type(exception).__name__
    try:
        message = clean_text(str(exception))
    # This must never raise, even if the __str__ of a foreign exception does.
    except Exception:
        message = ""
    return AgentError(ErrorCode.INTERNAL, message or name, type=name, origin=Origin.ENGINE)
