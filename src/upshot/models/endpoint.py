"""The address of a model and its key: what is known before a request is encoded."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from string import Formatter
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote, urlsplit

from upshot.contract.base.checks import safe_address
from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.secrets import Secrets, credentials_in
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError
from upshot.errors import Misuse
from upshot.models.providers import PLACES, Provider

if TYPE_CHECKING:
    from upshot.models.cloud_credentials import CloudCredentials

ApiKey: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a sync or async function that returns one, called before each request."""

# Of a plain and of a streamed request: what follows the base address. Some clouds have their own
# for a surface of another provider.
_PATHS: Final[dict[str, tuple[str, str]]] = {
    "chat": ("/chat/completions", "/chat/completions"),
    "responses": ("/responses", "/responses"),
    "messages": ("/messages", "/messages"),
    "generate": ("/{model}:generateContent", "/{model}:streamGenerateContent?alt=sse"),
    "converse": ("/model/{model}/converse", "/model/{model}/converse-stream"),
    "invoke": ("/model/{model}/invoke", "/model/{model}/invoke-with-response-stream"),
    "vertex-messages": ("/{model}:rawPredict", "/{model}:streamRawPredict"),
}
# What a base address without a path gets; the others get "/v1".
_VERSIONS: Final = {"generate": "/v1beta", "converse": "", "invoke": ""}
_MODEL: Final = "{model}"
# The company whose models are asked for on Vertex AI, by surface.
_PUBLISHERS: Final = {"generate": "google", "messages": "anthropic"}
# Locations with a host of another form.
_VERTEX_HOSTS: Final = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}
_PLACE: Final = re.compile(r"[\w.:-]+")
_LOOPBACK = ("localhost", "::1", "0.0.0.0")  # a server says that it listens there
# What a signed request has besides the provider's own header of the key.
_SIGNED: Final = ("authorization", "x-amz-security-token")


class Endpoint:
    """The address of a model and its key; no repr and no error contains the key.

    Args:
        provider: The provider.
        base_url: Another server with the provider's surface: the part before "/chat/completions",
            "/responses", "/messages", "/models/" or "/model/". Without a path, "/v1" is added; for
            the surface "generate", "/v1beta"; for those of Bedrock, nothing.
        api_key: The key; None reads the provider's environment variable before each request.
        headers: Further headers of each request.
        credentials: What signs requests to a cloud: for Bedrock a session or credentials of boto3
            or botocore, for Vertex AI credentials of google-auth. None means what their library
            finds, unless there is a key.

    Attributes:
        provider: As given.

    Raises:
        Misuse: *base_url* is not an http address, or *credentials* are not of the provider.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        headers: Mapping[str, str] | None = None,
        credentials: object = None,
    ) -> None:
        self.provider = provider
        own = f"{provider.name}-{provider.surface}"
        self._path = _PATHS.get(own) or _PATHS[provider.surface]
        self._key = api_key
        template = provider.base_url if base_url is None else ""
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        # Parts of the address that the environment or the cloud's own library knows.
        self._places = [name for name in names if name in PLACES]
        self._url = "" if names else _to_url(provider, base_url, self._path[0])
        # Of most providers every request has the same address.
        self._same = "" if _MODEL in self._path[0] else self._url
        # The signature names it, and another server's address does not.
        self._region = _region_of(self._url)
        host = urlsplit(self._url).hostname or ""
        self._is_local = host in _LOOPBACK or host.startswith("127.") or host.endswith(".localhost")
        self._cloud: CloudCredentials | None = None
        self._is_signed = credentials is not None
        if credentials is not None or (provider.cloud and not self._is_local):
            # Only clouds need it.
            from upshot.models.cloud_credentials import open_credentials

            self._cloud = open_credentials(provider, credentials)
        self._own = frozenset(headers or ())
        self._headers = {
            "content-type": "application/json",
            "user-agent": "upshot",
            **dict(provider.headers),
            **(headers or {}),
        }

    def __repr__(self) -> str:
        return f"Endpoint({self.provider.name!r}, {safe_address(self.url)!r})"

    @property
    def url(self) -> str:
        """The address of requests; if it names the model, the part before that.

        A part that is not known yet is the name of it in braces.
        """
        return self._url or self._fill(self._known_places())

    def url_of(self, model: str, *, stream: bool) -> str:
        """Return the whole address of a request.

        Args:
            model: The provider's name of the model.
            stream: Whether the reply should be streamed.
        """
        if self._same:
            return self._same
        path, _, option = self._path[stream].partition("?")
        if _MODEL not in path:
            return self.url
        if path.startswith("/model/"):
            # A ":" stays: not every client sends "%3A" unchanged, and the signature covers it.
            name = quote(model, safe=":@")
        else:
            # The names of tuned models and of other publishers' models include their folder.
            name = quote(model if "/" in model else f"models/{model}", safe="/@")
        parts = urlsplit(self.url)
        query = "&".join(filter(None, (parts.query, option)))
        whole = parts.path + path.replace(_MODEL, name)
        return parts._replace(path=whole, query=query).geturl()

    def beside(self, path: str) -> str:
        """Return the address of another *path* beside that of the surface."""
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.removesuffix(self._path[0]) + path).geturl()

    def missing_key(self) -> str | None:
        """Return the environment variable that is missing for a request, None if there is none."""
        if self._cloud is not None:
            return None
        if missing := self._missing_place(self._known_places()):
            return PLACES[missing].variables[0]
        if self._key or not self.provider.key_variable or self._is_local:
            return None
        return None if self._key_of_environment() else self.provider.key_variable

    @property
    def account(self) -> str:
        """The address and the key, which identify an account for limits.

        A function's key is not included, since it may return another key each time for the same
        account.
        """
        key = self._key or self._key_of_environment()
        return f"{self.url} {'' if callable(key) else key.strip()}"

    async def headers(self) -> dict[str, str] | AgentError:
        """Return the headers of the next request, or why it cannot be made.

        Those of a signed request get the rest from :meth:`signed`.
        """
        key = self._key or ("" if self._is_signed else self._key_of_environment())
        is_function = callable(key)
        if callable(key):
            try:
                asked = key()
                key = await asked if isawaitable(asked) else asked
            # The function is the caller's own and may do anything, such as fetch a token; a model
            # call never raises. Only the class is reported, as the message may contain a secret.
            except Exception as exception:
                kind = type(exception).__name__
                return self._refusal(f"the function given as api_key raised {kind}")
        key = key.strip() if isinstance(key, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        if not key and not is_function and self._cloud is not None:
            if reason := await self._cloud.prepare():
                return self._refusal(reason)
            if self.provider.cloud == "aws" and not (self._region or "region" in self._places):
                self._places = [*self._places, "region"]
        elif not key and not self._can_do_without():
            return self._keyless()
        if self._places and (missing := self._missing_place(self._known_places())):
            return self._placeless(missing)
        if not key:
            return dict(self._headers)
        # Azure takes what a function returns, a token or a key, as a bearer token.
        name = "authorization" if is_function and self.provider.tokens else self.provider.key_header
        return {**self._headers, name: f"Bearer {key}" if name == "authorization" else key}

    def signed(self, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        """Return the *headers* of a request, signed if its cloud requires a signature."""
        if self._cloud is None or self.provider.key_header in headers:
            return headers
        region = self._region or self._known_places().get("region", "")
        return self._cloud.sign(url, headers, body, region=region)

    def secrets_in(self, headers: Mapping[str, str]) -> Secrets:
        """Return what no error may contain: the key, and secrets in headers and address."""
        own = (self.provider.key_header, *_SIGNED, *self._own)
        sent = {name: headers[name] for name in own if name in headers}
        return credentials_in(url=self.url, headers=sent)

    def key_hint(self, *, sent: bool) -> str:
        """Return advice for the user about a refused request.

        Args:
            sent: Whether the request had a key.
        """
        variable = self.provider.key_variable
        if not sent:
            return f"no key was sent: set {variable} or pass api_key=" if variable else ""
        if self._key:
            return "check the api_key that was passed"
        if self._is_signed or (self._cloud is not None and not self._key_of_environment()):
            return self._cloud.advice if self._cloud is not None else ""
        return f"check {variable}"

    def _key_of_environment(self) -> str:
        # Read at each request: imports and constructors read no environment.
        names = (self.provider.key_variable, self.provider.other_variable)
        found = (os.environ.get(name, "").strip() for name in names)
        return next(filter(None, found), "")

    def _known_places(self) -> dict[str, str]:
        """Return the known parts of the address."""
        known: dict[str, str] = {}
        for name in self._places:
            learnt = self._cloud.found.get(name, "") if self._cloud is not None else ""
            known[name] = PLACES[name].read() or learnt or PLACES[name].default
        return known

    def _missing_place(self, known: Mapping[str, str]) -> str:
        """Return the first unknown part of the address, "" if there is none."""
        for name, value in known.items():
            address = PLACES[name].is_address
            if not (_is_http(value) if address else _PLACE.fullmatch(value)):
                return name
        return ""

    def _fill(self, known: Mapping[str, str]) -> str:
        places = {name: value or f"{{{name}}}" for name, value in known.items()}
        if location := places.get("location"):
            places["host"] = _VERTEX_HOSTS.get(location, f"{location}-aiplatform.googleapis.com")
            places["publisher"] = _PUBLISHERS[self.provider.surface]
        if (address := places.get("endpoint")) is not None:
            places["endpoint"] = address.rstrip("/").removesuffix("/openai/v1")
        return self.provider.base_url.format(**places) + _ending(self._path[0])

    def _can_do_without(self) -> bool:
        return not callable(self._key) and (self._is_local or not self.provider.key_variable)

    def _keyless(self) -> AgentError:
        if callable(self._key):
            return self._refusal("the function given as api_key returned no key")
        name, variable = self.provider.name, self.provider.key_variable
        return self._refusal(f"{name} needs an API key: set {variable} or pass api_key=")

    def _placeless(self, missing: str) -> AgentError:
        variable, name = PLACES[missing].variables[0], self.provider.name
        example = f", such as {self.provider.example}" if self.provider.example else ""
        return self._refusal(
            f"{name} needs {PLACES[missing].meaning}: set {variable}, or pass base_url={example}",
            code=ErrorCode.INVALID_REQUEST,
            variable=variable,
        )

    def _refusal(
        self, message: str, *, code: ErrorCode = ErrorCode.AUTH_ERROR, variable: str = ""
    ) -> AgentError:
        facts: dict[str, Json] = {"provider": self.provider.name}
        if variable := variable or self.provider.key_variable:
            facts["variable"] = variable
        return AgentError(code, message, origin=Origin.CALLER, details=facts)


def _ending(path: str) -> str:
    """Return what the path adds before the model's name."""
    return "" if _MODEL in path else path


def _region_of(url: str) -> str:
    """Return the region in the name of a host of Bedrock, "" for any other host."""
    labels = (urlsplit(url).hostname or "").split(".")
    services = (place for place, label in enumerate(labels) if label.startswith("bedrock-runtime"))
    place = next(services, len(labels)) + 1
    return labels[place] if place < len(labels) else ""


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        # Reading a port that is not a number raises ValueError.
        return bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        return False


def _to_url(provider: Provider, base_url: str | None, path: str) -> str:
    ending = _ending(path)
    if base_url is None:
        return provider.base_url + ending
    if not _is_http(base_url.strip()):
        wanted = "give an address such as http://localhost:8000/v1"
        raise Misuse(f"base_url is {safe_address(base_url)!r}: {wanted}")
    parts = urlsplit(base_url.strip())
    path = parts.path.rstrip("/") or _VERSIONS.get(provider.surface, "/v1")
    if not path.endswith(ending):
        path += ending
    return parts._replace(path=path, fragment="").geturl()
