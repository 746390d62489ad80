"""Bugs and failures: what an exception is that somebody's code raised."""

from __future__ import annotations

from typing import Any

from ..contract import AgentError, AgentResult, ErrorCode, JsonObject, Origin, Status, coerce_result
from ..errors import RunFailed
from ..models.raised import client_error
from ..native import find_headers, find_rate_limit
from ..tools import ToolError

__all__ = ["error_of_tool", "read_failure"]


def read_failure(exception: Exception) -> AgentResult[Any] | None:
    """The failure that *exception* tells of; None where it is a bug of the code that raised it.

    A failure is what brings its own error, a ``ToolError``, and what a client of an API raises:
    its status, headers and causes are looked at.
    """
    if isinstance(exception, ToolError):
        return _failed(error_of_tool(exception), exception)
    if isinstance(exception, RunFailed) or isinstance(
        getattr(exception, "error", None), AgentError
    ):
        return coerce_result(exception)
    error = client_error(exception)
    return None if error is None else _failed(error, exception)


def error_of_tool(exception: ToolError) -> AgentError:
    """The failure that *exception* names, raised by a function that is no tool."""
    return AgentError(
        ErrorCode(exception.code or ErrorCode.INTERNAL),
        str(exception),
        type=type(exception).__name__,
        retryable=exception.retryable,
        retry_after_s=exception.retry_after_s,
        origin=Origin.TOOL,
    )


def _failed(error: AgentError, exception: Exception) -> AgentResult[Any]:
    headers = find_headers(exception)
    data: JsonObject = {"raw_headers": {**headers}} if headers else {}
    is_limit = error.code == ErrorCode.RATE_LIMIT
    return AgentResult[Any](
        status=Status.FAILED,
        error=error,
        rate_limit=find_rate_limit(headers, limited=is_limit, retry_after_s=error.retry_after_s),
        provider_data=data,
    )
