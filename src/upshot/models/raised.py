"""Raised: what came of a call whose model raised, though errors of models are values."""

from __future__ import annotations

from msgspec.structs import replace

from ..contract import AgentError, ErrorCode, JsonObject, ModelResponse, Origin, Usage
from ..native import find_headers, find_rate_limit
from ..wire import classify_error

__all__ = ["client_error", "reply_of"]

_OURS = __name__.partition(".")[0]
_NO_FAILURES = (ErrorCode.INTERNAL, ErrorCode.CANCELED)


def client_error(exception: Exception) -> AgentError | None:
    """The failure that a client of an API tells of by *exception*; None where it is a bug.

    Its status, headers and causes are looked at. Python's own exceptions but ``OSError`` are bugs,
    for they say "timeout" of an argument as of a network.
    """
    error = classify_error(exception=exception)
    if error.code in _NO_FAILURES:
        return None
    is_foreign = isinstance(exception, OSError) or type(exception).__module__ != "builtins"
    return error if is_foreign or error.status_code is not None else None


def reply_of(exception: Exception) -> ModelResponse | None:
    """What came of a model call that ended with *exception*; None where that is a bug, or ours."""
    if type(exception).__module__.partition(".")[0] == _OURS:
        return None
    error = client_error(exception)
    if error is None:
        return None
    headers = find_headers(exception)
    data: JsonObject = {"raw_headers": {**headers}} if headers else {}
    is_limit = error.code == ErrorCode.RATE_LIMIT
    return ModelResponse(
        error=replace(error, origin=Origin.MODEL),
        usage=Usage(api_calls=1),
        rate_limit=find_rate_limit(headers, limited=is_limit, retry_after_s=error.retry_after_s),
        provider_data=data,
    )
