"""Errors that say what to do: what the wire tells, and what the caller can change."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Final, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from ..contract import AgentError, ErrorCode, Json, JsonObject, Origin
from .endpoint import Endpoint
from .transport import Timeouts

__all__ = ["advise", "explain_fault", "mask"]

_CAUSES = 8
# Shorter keys are made up, and might be any word.
_MIN_MASKED_CHARS = 6
_UNREACHABLE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
# By parts of class names, so that other transports' exceptions are understood too.
_TIMEOUTS: Final = (
    (("ConnectionTimeout", "ConnectTimeout"), "connect_s", "no connection to {} within {} s"),
    (("SocketTimeout", "ReadTimeout"), "read_s", "no byte came from {} for {} s"),
    (("Timeout",), "total_s", "no whole reply from {} within {} s"),
)


def advise(error: AgentError, endpoint: Endpoint, *, model: str, key: str) -> AgentError:
    """*error* of a reply, with what the caller can do about it, and without the key.

    Args:
        error: What the reply says.
        endpoint: Where was asked.
        model: Whom, as "provider:model".
        key: The key that was sent, "" if none.
    """
    hint = _hint(error, endpoint, model, sent=bool(key))
    message = cast("str", mask(error.message, key))
    return replace(
        error,
        message=f"{message} ({hint})" if hint else message,
        details=cast("JsonObject", mask(error.details, key)),
    )


def mask(value: Json, key: str) -> Json:
    """*value* with *key* blotted out wherever it stands; a provider may say it back."""
    if isinstance(value, str):
        return value.replace(key, "***") if len(key) >= _MIN_MASKED_CHARS else value
    if isinstance(value, dict):
        return {name: mask(item, key) for name, item in value.items()}
    return [mask(item, key) for item in value] if isinstance(value, list) else value


def explain_fault(
    error: AgentError, exception: BaseException, endpoint: Endpoint, timeouts: Timeouts
) -> AgentError:
    """*error* of a request that got no whole reply, in words that name the address and the fault.

    Args:
        error: As the exception was classified.
        exception: What the transport raised.
        endpoint: Where was asked.
        timeouts: How long it might take.
    """
    where = "{0.scheme}://{0.netloc}{0.path}".format(urlsplit(endpoint.url))
    causes = tuple(_causes(exception))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # aiohttp's own class for it has no such field; its cause has.
            why = getattr(cause, "verify_message", "") or "its certificate cannot be verified"
            said = f"cannot trust {where}: {why}"
            advice = "pass AiohttpTransport(ca_file=...) as transport"
            # The same certificate comes the next time.
            return replace(error, message=f"{said}; {advice}", retryable=False)
        fault = _fault(cause)
        if fault:
            return replace(error, message=f"cannot reach {where}: {fault}")
    names = {each.__name__ for cause in causes for each in type(cause).__mro__}
    for parts, limit, said in _TIMEOUTS:
        if any(part in name for part in parts for name in names):
            limit_s = getattr(timeouts, limit)
            message = f"{said.format(where, limit_s)}; Timeouts({limit}=...) allows more"
            return replace(error, message=message)
    return replace(error, message=f"the exchange with {where} broke off: {error.message}")


def _hint(error: AgentError, endpoint: Endpoint, model: str, *, sent: bool) -> str:
    if error.code == ErrorCode.AUTH_ERROR and error.origin != Origin.CALLER:
        return endpoint.key_hint(sent=sent)
    if error.code == ErrorCode.MODEL_UNAVAILABLE and not error.retryable:
        if endpoint.provider.name == "ollama":
            return f"check the name in {model!r}; `ollama pull` fetches a model"
        return f"check the name in {model!r}"
    if error.status_code in (404, 405) and error.code == ErrorCode.INVALID_REQUEST:
        return f"is base_url right? {endpoint.url} was asked"
    return ""


def _fault(cause: BaseException) -> str:
    if isinstance(cause, socket.gaierror):
        return "there is no such host; is base_url right, is the network there?"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused; is the server running, is base_url right?"
    if isinstance(cause, ssl.SSLError):
        why = getattr(cause, "reason", "") or cause
        return f"TLS failed: {why}; is it https that the server speaks?"
    if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
        return f"{os.strerror(cause.errno)}; is base_url right, is the network there?"
    return ""


def _causes(exception: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = exception
    for _ in range(_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__
