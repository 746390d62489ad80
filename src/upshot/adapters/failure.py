"""Exceptions of frameworks as findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ..contract import AgentError, ErrorCode, JsonObject, Origin
from ..native import (
    as_amount,
    as_count,
    as_json,
    as_text,
    find_headers,
    find_rate_limit,
    look,
)
from ..wire import classify_error
from ..wire.document import encode_json
from ..wire.failure_facts import one_line
from .findings import Findings

__all__ = ["find_failure", "to_error"]

_RETRYABLE: Final = frozenset({ErrorCode.RATE_LIMIT, ErrorCode.TIMEOUT, ErrorCode.SERVER_ERROR})
_ORIGINS: Final = {
    ErrorCode.MAX_TURNS: Origin.LIMIT,
    ErrorCode.BUDGET_EXCEEDED: Origin.LIMIT,
    ErrorCode.CANCELED: Origin.HOST,
    ErrorCode.INTERRUPTED: Origin.HOST,
    ErrorCode.POLICY_DENIED: Origin.HOST,
}


def to_error(exception: BaseException, codes: Mapping[str, ErrorCode]) -> AgentError:
    """Classify *exception*.

    Args:
        exception: What a framework raised.
        codes: Codes by class name, for those classes that say more than status and text do; the
            class's own name is looked for first, then those of its bases.

    Returns:
        The error; its type is the exception's class where no provider named one.
    """
    error = _classify(exception)
    names = (each.__name__ for each in type(exception).__mro__)
    code = next((codes[name] for name in names if name in codes), None)
    if code is None:
        wait = as_amount(look(exception, "retry_after"))
        if error.retry_after_s is None and wait is not None:
            error = msgspec.structs.replace(error, retry_after_s=float(wait))
        return error
    return msgspec.structs.replace(
        error,
        code=code,
        type=type(exception).__name__,
        retryable=code in _RETRYABLE,
        origin=_ORIGINS.get(code, error.origin),
    )


def find_failure(exception: BaseException, codes: Mapping[str, ErrorCode]) -> Findings:
    """What *exception* says; ``codes`` as for :func:`to_error`.

    The provider is read from ``llm_provider``, the model from ``model`` or ``model_name``, and
    limits from the headers that the exception or a cause of it carries.
    """
    error = to_error(exception, codes)
    headers = find_headers(exception)
    model = as_text(look(exception, "model")) or as_text(look(exception, "model_name"))
    data: JsonObject = {
        "provider": as_text(look(exception, "llm_provider")),
        "model": model,
        "request_id": as_text(look(exception, "request_id")),
        "raw_headers": {**headers},
        "error_type_raw": error.type,
        "error_code_raw": error.provider_code,
    }
    limited = error.code == ErrorCode.RATE_LIMIT
    return Findings(
        raw=exception,
        error=error,
        rate_limit=find_rate_limit(headers, limited=limited, retry_after_s=error.retry_after_s),
        provider_data={name: value for name, value in data.items() if value},
        unknown={"messages"},
    )


def _classify(exception: BaseException) -> AgentError:
    """Classify by the reply that *exception* quotes, where it has one, else by all it says.

    Pydantic AI's own text names the model, which is no word of the provider's about it.
    """
    status, body = as_count(look(exception, "status_code")), look(exception, "body")
    if status is None or not as_text(look(exception, "model_name")):
        return classify_error(exception=exception)
    said = body.encode() if isinstance(body, str) else encode_json(as_json(body))
    error = classify_error(
        status=status, body=b"" if body is None else said, headers=find_headers(exception)
    )
    message = one_line(str(exception)) if body is None else error.message
    return msgspec.structs.replace(
        error, message=message, type=error.type or type(exception).__name__
    )
