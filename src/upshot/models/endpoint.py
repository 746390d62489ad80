"""Endpoint: where a model is asked, and with whose key."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Final, TypeAlias
from urllib.parse import quote, urlsplit

from ..contract import AgentError, ErrorCode, Json, Origin
from ..errors import Misuse
from .providers import Provider, SurfaceName

__all__ = ["ApiKey", "Endpoint"]

ApiKey: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a sync or async function that is asked for one before each request."""

_PATHS: Final[dict[SurfaceName, str]] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
    # The model and what is wanted of it follow.
    "generate": "",
}
_VERSIONS: Final[dict[SurfaceName, str]] = {"generate": "/v1beta"}
_METHODS: Final = (":generateContent", ":streamGenerateContent")
_LOOPBACK = ("localhost", "::1", "0.0.0.0")  # a server says that it listens there


class Endpoint:
    """Where a model is asked, and with whose key; the key is in no repr and no error.

    Args:
        provider: Who is asked.
        base_url: Another server that speaks the provider's surface: what stands before
            "/chat/completions", "/responses", "/messages" or "/models/". Without a path it means
            "/v1", for the surface "generate" "/v1beta".
        api_key: The key; None reads the provider's environment variable before each request.
        headers: What each request carries besides.

    Attributes:
        provider: As given.
        url: The address that requests go to; for the surface "generate" what stands before the
            model.

    Raises:
        Misuse: *base_url* is no http address, or the provider has none of its own and none is
            given.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = provider
        self.url: str = _to_url(provider, base_url)
        self._key = api_key
        host = urlsplit(self.url).hostname or ""
        self._is_local = host in _LOOPBACK or host.startswith("127.") or host.endswith(".localhost")
        self._headers = {
            "content-type": "application/json",
            "user-agent": "upshot",
            **dict(provider.headers),
            **(headers or {}),
        }

    def __repr__(self) -> str:
        return f"Endpoint({self.provider.name!r}, {self.url!r})"

    def url_of(self, model: str, *, stream: bool) -> str:
        """The whole address of a request.

        Args:
            model: The model's name as the provider knows it.
            stream: Whether the reply shall come in pieces.
        """
        if self.provider.surface != "generate":
            return self.url
        parts = urlsplit(self.url)
        # Tuned models and those of other publishers bring their own folder.
        name = quote(model if "/" in model else f"models/{model}", safe="/@")
        events = "alt=sse" if stream else ""
        query = "&".join(filter(None, (parts.query, events)))
        path = f"{parts.path}/{name}{_METHODS[stream]}"
        return parts._replace(path=path, query=query).geturl()

    def missing_key(self) -> str | None:
        """The environment variable that has to be set before a request can be made, else None."""
        if self._key or not self.provider.key_variable or self._is_local:
            return None
        return None if self._key_of_environment() else self.provider.key_variable

    async def headers(self) -> dict[str, str] | AgentError:
        """The headers of the next request, or why it cannot be made."""
        key = self._key or self._key_of_environment()
        if callable(key):
            try:
                asked = key()
                key = await asked if isawaitable(asked) else asked
            # The function is the caller's own and may do anything, such as fetch a token; a
            # model call never raises. What it says may hold a secret.
            except Exception as exception:
                kind = type(exception).__name__
                return self._refusal(f"the function given as api_key raised {kind}")
        key = key.strip() if isinstance(key, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        if not key:
            return dict(self._headers) if self._can_do_without() else self._keyless()
        name = self.provider.key_header
        return {**self._headers, name: f"Bearer {key}" if name == "authorization" else key}

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The key in *headers* that this endpoint made, "" where there is none."""
        return headers.get(self.provider.key_header, "").removeprefix("Bearer ")

    def key_hint(self, *, sent: bool) -> str:
        """What a person can do about a refused request.

        Args:
            sent: Whether it carried a key.
        """
        variable = self.provider.key_variable
        if not sent:
            return f"no key was sent: set {variable} or pass api_key=" if variable else ""
        return "check the api_key that was passed" if self._key else f"check {variable}"

    def _key_of_environment(self) -> str:
        # Read at each request: importing and building read no environment.
        names = (self.provider.key_variable, self.provider.other_variable)
        found = (os.environ.get(name, "").strip() for name in names)
        return next(filter(None, found), "")

    def _can_do_without(self) -> bool:
        return not callable(self._key) and (self._is_local or not self.provider.key_variable)

    def _keyless(self) -> AgentError:
        if callable(self._key):
            return self._refusal("the function given as api_key returned no key")
        name, variable = self.provider.name, self.provider.key_variable
        return self._refusal(f"{name} wants an API key: set {variable} or pass api_key=")

    def _refusal(self, message: str) -> AgentError:
        facts: dict[str, Json] = {"provider": self.provider.name}
        if self.provider.key_variable:
            facts["variable"] = self.provider.key_variable
        return AgentError(ErrorCode.AUTH_ERROR, message, origin=Origin.CALLER, details=facts)


def _to_url(provider: Provider, base_url: str | None) -> str:
    ending = _PATHS[provider.surface]
    if base_url is None:
        if not provider.base_url:
            raise Misuse(
                f"{provider.name} has no address of its own: pass base_url=, such as "
                f"{provider.example or 'http://localhost:8000/v1'}"
            )
        return provider.base_url + ending
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misuse(f"base_url is {base_url!r}: give an address such as http://localhost:8000/v1")
    path = parts.path.rstrip("/") or _VERSIONS.get(provider.surface, "/v1")
    if not path.endswith(ending):
        path += ending
    return parts._replace(path=path, fragment="").geturl()
