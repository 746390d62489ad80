"""The flows of ``OAuth`` on the ``mcp`` package: providers, stored tokens, and the browser.

Source:
    modelcontextprotocol.io, specification 2026-07-28, basic/authorization, and its extensions for
    client credentials, enterprise-managed authorization, workload identity and DPoP, read in 2026.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import warnings
import webbrowser
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import (
    JWT_BEARER_GRANT_TYPE,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl

from upshot.errors import Misuse
from upshot.tools.mcp.oauth import OAuth, SignInState

Entry: TypeAlias = dict[str, Any]

_DONE = b"You are signed in. You can close this window.\n"
_UNKNOWN = b"This address is used to sign in at an MCP server.\n"
_LONGEST_LINE = 16_384
_OWN_HOSTS = ("127.0.0.1", "localhost", "::1")


class TokenStore:
    """The tokens and the registration for one MCP server, in memory or in a file.

    Attributes:
        path: The file, which has an entry for each server; None keeps everything in memory.
        server: The address of the server.
    """

    def __init__(self, path: Path | None, server: str) -> None:
        self.path = path
        self.server = server
        self._entry: Entry = {}

    def read(self) -> Entry:
        """Return what is stored for the server.

        Raises:
            OAuthFlowError: The file cannot be read.
        """
        return self._entry if self.path is None else self._all().get(self.server, {})

    def write(self, **fields: Any) -> None:
        """Change fields of what is stored for the server.

        Raises:
            OSError: The file cannot be written.
        """
        self._entry = {**self.read(), **fields}
        if self.path is None:
            return
        whole = {**self._all(), self.server: self._entry}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        made.unlink(missing_ok=True)
        # Private from the first moment, and whole even if the process ends meanwhile.
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(whole, file)
        made.replace(self.path)

    def _all(self) -> dict[str, Entry]:
        try:
            return json.loads(cast("Path", self.path).read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise OAuthFlowError(f"the token file {self.path} cannot be read: {error}") from error

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, with the seconds that are left of them."""
        stored = self.read()
        if "tokens" not in stored:
            return None
        tokens = OAuthToken.model_validate(stored["tokens"])
        if stored.get("expires_at") is not None:
            # The SDK counts from now on.
            tokens.expires_in = int(stored["expires_at"] - time.time())
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens, and when they expire."""
        left = tokens.expires_in
        expires_at = None if left is None else time.time() + left
        self.write(tokens=tokens.model_dump(mode="json"), expires_at=expires_at)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration of the client."""
        stored = self.read().get("client")
        return None if stored is None else OAuthClientInformationFull.model_validate(stored)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registration of the client."""
        self.write(client=client_info.model_dump(mode="json"))


class _SignIn(OAuthClientProvider):
    """The SDK's provider for users, which can also refresh stored tokens.

    Attributes:
        registered: The client, if the user has registered it.
    """

    registered: OAuthClientInformationFull | None = None

    async def _initialize(self) -> None:
        await super()._initialize()
        context, storage = self.context, self.context.storage
        context.client_info = self.registered or context.client_info
        if isinstance(storage, TokenStore) and context.current_tokens is not None:
            context.update_token_expiry(context.current_tokens)
            found = storage.read().get("metadata")
            # Without it, the SDK would look for the token endpoint at the MCP server.
            context.oauth_metadata = found and OAuthMetadata.model_validate(found)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        metadata, storage = self.context.oauth_metadata, self.context.storage
        if isinstance(storage, TokenStore) and metadata is not None:
            storage.write(metadata=metadata.model_dump(mode="json"))


class _Workload(PrivateKeyJWTOAuthProvider):
    """The identity of a workload as the grant itself (RFC 7523, section 2.1).

    The SDK has the discovery, and the same identity as the authentication of a client only.
    """

    async def _perform_authorization(self) -> httpx2.Request:
        metadata = self.context.oauth_metadata
        if metadata is None:
            raise OAuthFlowError("the authorization server has no metadata")
        # As the audience names it, without the slash that a URL type adds to a bare host.
        fields = {
            "grant_type": JWT_BEARER_GRANT_TYPE,
            "assertion": await self._assertion_provider(str(metadata.issuer)),
            "client_id": self._fixed_client_info.client_id,
        }
        if self.context.should_include_resource_param(self.context.protocol_version):
            fields["resource"] = self.context.get_resource_url()
        if self.context.client_metadata.scope:
            fields["scope"] = self.context.client_metadata.scope
        return httpx2.Request("POST", self._get_token_endpoint(), data=fields)


def make_auth(auth: OAuth, url: str, sign_in: SignInState) -> httpx2.Auth:
    """Return what authorises the requests to the MCP server at *url*.

    Args:
        auth: How.
        url: The address of the server.
        sign_in: Is told while a user signs in.

    Raises:
        Misuse: A value is invalid.
    """
    storage: Any = auth.store
    if storage is None or isinstance(storage, str | Path):
        path = None if storage is None else Path(storage).expanduser()
        storage = TokenStore(path, url)
    try:
        with warnings.catch_warnings():
            # Without an issuer, the one that the server names is trusted, as our docs say.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            made = _make_provider(auth, url, storage, sign_in)
    except ValueError as error:
        raise Misuse(f"OAuth: {error}") from error
    if not auth.dpop:
        return made
    from upshot.tools.mcp.dpop import DPoPAuth

    return DPoPAuth(made, storage if isinstance(storage, TokenStore) else TokenStore(None, url))


def _make_provider(auth: OAuth, url: str, storage: Any, sign_in: SignInState) -> httpx2.Auth:
    scope, issuer = auth.scope or None, auth.issuer or None
    if auth.grant == "authorization_code":
        return _make_sign_in(auth, url, storage, sign_in)
    if auth.client_secret and auth.assertion is not None:
        return IdentityAssertionOAuthProvider(
            url,
            storage,
            auth.client_id,
            auth.client_secret,
            auth.issuer,
            auth.assertion,
            scope=scope,
            token_endpoint_auth_method="client_secret_basic",
        )
    if auth.client_secret:
        return ClientCredentialsOAuthProvider(
            url, storage, auth.client_id, auth.client_secret, scope=scope, issuer=issuer
        )
    kind = _Workload if auth.grant == "jwt_bearer" else PrivateKeyJWTOAuthProvider
    return kind(url, storage, auth.client_id, _assertion_of(auth, url), scope=scope, issuer=issuer)


def _assertion_of(auth: OAuth, url: str) -> Callable[[str], Awaitable[str]]:
    given = auth.assertion
    if given is None:
        return SignedJWTParameters(
            issuer=auth.client_id,
            subject=auth.client_id,
            signing_key=auth.private_key,
            signing_algorithm=auth.signing_algorithm,
        ).create_assertion_provider()

    async def ask(audience: str) -> str:
        return await given(audience, url)

    return ask


def _make_sign_in(auth: OAuth, url: str, storage: Any, sign_in: SignInState) -> httpx2.Auth:
    made = _SignIn(
        url,
        OAuthClientMetadata(
            client_name=auth.client_name,
            redirect_uris=[AnyUrl(auth.redirect_uri)],
            scope=auth.scope or None,
        ),
        storage,
        client_metadata_url=auth.client_metadata_url or None,
    )
    if auth.client_id:
        made.registered = OAuthClientInformationFull(
            client_id=auth.client_id,
            client_secret=auth.client_secret or None,
            redirect_uris=[AnyUrl(auth.redirect_uri)],
            token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
            issuer=auth.issuer or None,
        )
    answer = asyncio.Queue[str]()
    ask = auth.redirect or BrowserSignIn(auth.redirect_uri)

    async def show(address: str) -> None:
        sign_in.is_open = True
        try:
            async with asyncio.timeout(auth.wait_s):
                answer.put_nowait(await ask(address))
        except TimeoutError:
            raise OAuthFlowError(f"nobody signed in within {auth.wait_s:g} s") from None
        finally:
            sign_in.is_open = False

    async def read() -> AuthorizationCodeResult:
        return read_redirect(answer.get_nowait())

    made.context.redirect_handler, made.context.callback_handler = show, read
    return made


def read_redirect(address: str) -> AuthorizationCodeResult:
    """Read the address that the authorization server sent the browser back to.

    Raises:
        OAuthFlowError: The user or the server refused.
    """
    found = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if "code" not in found:
        why = found.get("error_description") or found.get("error") or "it sent no code"
        raise OAuthFlowError(f"the authorization server refused: {why}")
    return AuthorizationCodeResult(
        code=found["code"], state=found.get("state"), iss=found.get("iss")
    )


class BrowserSignIn:
    """Signs the user in with the browser of this machine.

    Args:
        redirect_uri: An address of this machine, to which the browser is sent back.
        show: Shows the user the address to sign in at, and returns whether to open the browser.
            None opens it, and fails if there is none.

    Raises:
        Misuse: It is no http address of this machine with a port.
    """

    def __init__(self, redirect_uri: str, *, show: Callable[[str], bool] | None = None) -> None:
        self._show = show
        place = urlsplit(redirect_uri)
        self._host, self._port, self._path = place.hostname, place.port, place.path or "/"
        if place.scheme != "http" or self._host not in _OWN_HOSTS or self._port is None:
            raise Misuse(
                f"OAuth(redirect_uri={redirect_uri!r}): without redirect=, give an http address of "
                "127.0.0.1 or localhost with a port"
            )

    async def __call__(self, address: str) -> str:
        """Open the browser at *address*; return the address that it is sent back to.

        Raises:
            OAuthFlowError: The port is taken, or there is no browser.
        """
        expected = parse_qs(urlsplit(address).query).get("state")
        came = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                target = (await reader.readline()).decode("latin-1").split(" ")[1]
            except (ValueError, IndexError, OSError):
                writer.close()
                return
            place = urlsplit(target)
            # Any page that the user has open can send the browser here, without the state.
            is_it = place.path == self._path and parse_qs(place.query).get("state") == expected
            writer.write(_reply(b"200 OK", _DONE) if is_it else _reply(b"404 Not Found", _UNKNOWN))
            writer.close()
            if is_it and not came.done():
                came.set_result(target)

        try:
            server = await asyncio.start_server(serve, self._host, self._port, limit=_LONGEST_LINE)
        except OSError as error:
            raise OAuthFlowError(
                f"the browser cannot be awaited at port {self._port}: {error}; give another "
                "OAuth(redirect_uri=)"
            ) from error
        async with server:
            opens = self._show is None or self._show(address)
            opened = opens and await asyncio.to_thread(webbrowser.open, address)
            if not opened and self._show is None:
                raise OAuthFlowError(
                    "there is no browser to sign in with: give OAuth(redirect=) a function"
                )
            return await came


def _reply(status: bytes, text: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n" % (
        status,
        len(text),
    )
    return head + b"Connection: close\r\n\r\n" + text
