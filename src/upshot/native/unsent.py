"""Decides whether an exception of a network client proves that its request was never sent.

A tool that writes and raises has an unknown effect, unless the exception itself shows that nothing
was sent. It does if it comes from connecting: the connection was refused, the name did not resolve,
connecting took too long, the pool had no free connection, or TLS failed before the request.
Third-party clients have public classes for these. The standard library raises the same classes
while connecting and while talking, so for it the traceback decides. A response that refuses the
request (400, 409 and the like) is a proof too.

The proof is about the request that failed. A tool that sent an earlier request and then cannot
connect has had an effect: it should raise ``ToolError(effect=...)`` itself.

Sources, read 2026-11-24: CPython 3.11 (socket, ssl, http.client, urllib.request, asyncio),
aiohttp 3.14.5, httpx 0.28.1 and httpx2 2.16.2 with their httpcore, requests 2.34.2,
urllib3 2.8.0, anyio 4.16.0.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from types import FrameType
from typing import Final, NamedTuple, cast

from upshot.native.objects import as_count, look_up

__all__ = ["Proof", "find_proof"]


class Proof(NamedTuple):
    """Why a request certainly had no effect.

    Attributes:
        retryable: Whether the same request may succeed later.
    """

    retryable: bool


# Classes that a client raises only before it has sent any byte of the request.
_UNSENT: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectorError",
        "aiohttp.client_exceptions.ClientConnectorCertificateError",
        "aiohttp.client_exceptions.ConnectionTimeoutError",
        "aiohttp.client_exceptions.ClientProxyConnectionError",
        "aiohttp.client_exceptions.InvalidURL",
        *(f"{name}.ConnectError" for name in ("httpx", "httpx2", "httpcore", "httpcore2")),
        *(f"{name}.ConnectTimeout" for name in ("httpx", "httpx2", "httpcore", "httpcore2")),
        *(f"{name}.PoolTimeout" for name in ("httpx", "httpx2", "httpcore", "httpcore2")),
        *(f"{name}.UnsupportedProtocol" for name in ("httpx", "httpx2", "httpcore", "httpcore2")),
        "requests.exceptions.ConnectTimeout",
        "requests.exceptions.InvalidURL",
        "requests.exceptions.InvalidSchema",
        "requests.exceptions.MissingSchema",
        "urllib3.exceptions.ConnectTimeoutError",
        "urllib3.exceptions.EmptyPoolError",
        "urllib3.exceptions.LocationValueError",
        "urllib3.exceptions.NewConnectionError",
    }
)
# Functions that only connect: exceptions from them precede the request.
_CONNECTING: Final = frozenset(
    {
        ("socket", "create_connection"),
        ("socket", "getaddrinfo"),
        ("ssl", "do_handshake"),
        ("http.client", "connect"),
        ("asyncio.base_events", "create_connection"),
        ("aiohttp.connector", "connect"),
        ("urllib3.connection", "connect"),
    }
)
# Functions that send a further request after a response.
_FOLLOWING: Final = frozenset(
    {("requests.sessions", "resolve_redirects"), ("urllib.request", "http_error_302")}
)
# Modules whose functions keep the responses so far in a variable named history.
_REDIRECTING: Final = frozenset({"aiohttp.client", "httpx._client", "httpx2._client"})
# The packages whose frames belong to a client.
_CLIENTS: Final = frozenset(
    {
        *("aiohttp", "aiohappyeyeballs", "anyio", "asyncio", "http", "httpcore", "httpcore2"),
        *("httpx", "httpx2", "requests", "socket", "ssl", "trio", "urllib", "urllib3"),
    }
)
# Classes that may wrap another exception of the same request, which then decides.
_WRAPPERS: Final = frozenset(
    {
        "requests.exceptions.RequestException",
        "urllib.error.URLError",
        "urllib3.exceptions.HTTPError",
    }
)
# Any other exception of these families means that something may have been sent.
_NETWORK: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientError",
        "http.client.HTTPException",
        "httpcore.NetworkError",
        "httpcore2.NetworkError",
        "httpx.RequestError",
        "httpx2.RequestError",
        "requests.exceptions.RequestException",
        "urllib3.exceptions.HTTPError",
    }
)
# Not failures: a socket that is not ready yet.
_NOT_READY: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# A response with one of these refuses the request before it acts on it.
_REFUSED: Final = frozenset({400, 401, 403, 404, 405, 409, 410, 415, 422, 429})
_TOO_MANY: Final = 429
_MOST_CAUSES: Final = 50


def find_proof(error: BaseException) -> Proof | None:
    """Look for a proof in *error* and its causes that its request had no effect.

    An exception raised while handling another one proves nothing if that other one may have sent
    something: the tool had tried something else before.

    Args:
        error: The exception that the body of a tool raised.

    Returns:
        The proof, or None if there is none. Never raises.
    """
    # Not with isinstance, after which pyright would lose the type of error.
    if issubclass(type(error), BaseExceptionGroup):
        inner = cast("tuple[BaseException, ...]", look_up(error, "exceptions"))
        proofs = [proof for proof in map(find_proof, inner) if proof is not None]
        if len(proofs) < len(inner):
            return None
        return Proof(retryable=all(proof.retryable for proof in proofs))
    status = _status_of(error)
    if status is not None:
        return Proof(retryable=status == _TOO_MANY) if status in _REFUSED else None
    if any(_may_have_sent(one) for one in _unexplained_errors(error)):
        return None
    return Proof(retryable=True) if _is_proved(error) else None


def _is_proved(error: BaseException | None) -> bool:
    """Return whether *error*, or an exception behind it, was raised before anything was sent."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            return False
        if _is_unsent(error):
            return True
        error = _wrapped_error(error)
    return False


def _unexplained_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield *error* and what led to it, except what a client caught before it raised a proof."""
    left: list[tuple[BaseException | None, bool]] = [(error, False)]
    seen: set[int] = set()
    while left and len(seen) < _MOST_CAUSES:
        one, is_explained = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if is_explained and not _is_caught_by_client(one):
            # The tool caught it, and then tried something else.
            is_explained = False
        if not is_explained:
            yield one
        explains = is_explained or _is_unsent(one)
        left += [(one.__context__, explains), (_wrapped_error(one), explains)]


def _is_caught_by_client(error: BaseException) -> bool:
    traceback = error.__traceback__
    if traceback is None:
        return True
    module = str(traceback.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in _CLIENTS


def _wrapped_error(error: BaseException) -> BaseException | None:
    """Return the exception that *error* was raised from."""
    if error.__cause__ is not None or not _names(error) & _WRAPPERS:
        return error.__cause__
    for inner in (look_up(error, "reason"), *error.args):
        if isinstance(inner, BaseException):
            return inner
    return error.__context__


def _is_unsent(error: BaseException) -> bool:
    """Return whether *error* alone shows that nothing was sent."""
    if _names(error) & _UNSENT:
        return True
    if isinstance(error, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError):
        return True
    # The tool's own time limit cancels the client wherever it is.
    is_candidate = isinstance(error, OSError | asyncio.CancelledError)
    return is_candidate and any(place in _CONNECTING for place, _ in _frames(error))


def _may_have_sent(error: BaseException) -> bool:
    """Return whether *error* is a failure of a network client that may have come after sending."""
    if any(_has_followed(place, frame) for place, frame in _frames(error)):
        return True
    if isinstance(error, _NOT_READY) or _is_unsent(error):
        return False
    names = _names(error)
    if names & _WRAPPERS or isinstance(error, TimeoutError):
        return _wrapped_error(error) is None
    return bool(names & _NETWORK) or isinstance(error, OSError | EOFError)


def _has_followed(place: tuple[object, str], frame: FrameType) -> bool:
    """Return whether the client had sent an earlier request for the same call."""
    module, _ = place
    if place in _FOLLOWING:
        return True
    if module == "urllib3.connectionpool":
        history = look_up(frame.f_locals, "retries", "history")
        earlier = cast("tuple[object, ...]", history) if isinstance(history, tuple) else ()
        errors = [look_up(one, "error") for one in earlier]
        return not all(isinstance(one, BaseException) and _is_proved(one) for one in errors)
    if module not in _REDIRECTING:
        return False
    variables = frame.f_locals
    # aiohttp sends these again, once, if a kept-alive connection breaks.
    is_repeated = variables.get("method") in ("PUT", "DELETE") and not variables.get(
        "retry_persistent_connection", True
    )
    return bool(variables.get("history")) or is_repeated


def _frames(error: BaseException) -> Iterator[tuple[tuple[object, str], FrameType]]:
    """Yield the frames that *error* passed, each with the names of its module and function."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        yield (frame.f_globals.get("__name__"), frame.f_code.co_name), frame
        traceback = traceback.tb_next


def _names(error: BaseException) -> frozenset[str]:
    """Return the classes of *error* by module and name."""
    return frozenset(f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__)


def _status_of(error: BaseException) -> int | None:
    """Return the status of the response that *error* reports, None if it reports none."""
    names = _names(error)
    if "urllib.error.HTTPError" in names:
        return as_count(look_up(error, "code"))
    if "aiohttp.client_exceptions.ClientResponseError" in names:
        return as_count(look_up(error, "status"))
    if names & {"httpx.HTTPStatusError", "httpx2.HTTPStatusError", "requests.exceptions.HTTPError"}:
        return as_count(look_up(error, "response", "status_code"))
    return None
