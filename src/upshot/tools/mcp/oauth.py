"""OAuth: how a client authorises itself at an MCP server over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from upshot.contract.base.checks import check_amount
from upshot.errors import Misuse

if TYPE_CHECKING:
    from mcp.client.auth import TokenStorage

Grant: TypeAlias = Literal["authorization_code", "client_credentials", "jwt_bearer"]
Assert: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Takes the authorization server's issuer and the MCP server's address; returns a signed JWT."""
Redirect: TypeAlias = Callable[[str], Awaitable[str]]
"""Shows the user an address to sign in at; returns the address that the browser is sent back to."""

_GRANTS = ("authorization_code", "client_credentials", "jwt_bearer")


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """How to get access tokens for an MCP server, passed to ``open_mcp(auth=)``.

    The servers involved, their endpoints and scopes are found as the protocol says. Without
    arguments, the user signs in with the browser of this machine, and the client is registered at
    the authorization server.

    Attributes:
        grant: "authorization_code" if a user signs in; "client_credentials" for a client of its
            own, with *client_secret*, *private_key* or *assertion*; "jwt_bearer" if *assertion*
            returns the grant itself, from a workload's identity, or with *client_secret* from the
            identity provider of a company.
        client_id: The registered id of the client; "" registers it when a user signs in.
        client_secret: The secret of the client.
        private_key: A PEM key that signs the client's assertions, instead of a secret.
        signing_algorithm: The algorithm for *private_key*.
        assertion: Returns a signed JWT from elsewhere, such as a cloud's workload identity.
        issuer: The authorization server to which the client or the company belongs. Its
            credentials are sent nowhere else; "" trusts the one that the MCP server names.
        scope: Scopes separated by spaces; "" asks for those that the server names.
        store: A file for tokens and registrations, created readable by its owner only, or a storage
            of the ``mcp`` package. None keeps them in memory.
        redirect: Signs the user in; None opens the browser and waits at *redirect_uri*.
        redirect_uri: Where the browser is sent back to. Without *redirect*, an address of this
            machine.
        client_metadata_url: The HTTPS address of the client's metadata document, used as its id by
            servers that support that.
        client_name: The name under which the client is registered.
        wait_s: Seconds that the user has to sign in.
        dpop: Whether tokens are bound to a key (RFC 9449), where the authorization server does so.

    Raises:
        Misuse: A value is invalid, or the grant lacks one that it needs.
    """

    grant: Grant = "authorization_code"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    signing_algorithm: str = "ES256"
    assertion: Assert | None = None
    issuer: str = ""
    scope: str = ""
    store: str | Path | TokenStorage | None = None
    redirect: Redirect | None = None
    redirect_uri: str = "http://127.0.0.1:33418/callback"
    client_metadata_url: str = ""
    client_name: str = "upshot"
    wait_s: float = 300
    dpop: bool = False

    def __post_init__(self) -> None:
        check_amount("OAuth(wait_s=)", self.wait_s, above=0)
        if self.grant not in _GRANTS:
            raise Misuse(f"OAuth(grant={self.grant!r}): give one of {', '.join(_GRANTS)}")
        if self.grant == "authorization_code":
            return
        if not self.client_id:
            raise Misuse(f'OAuth(grant="{self.grant}") needs client_id=')
        if self.grant == "jwt_bearer" and self.assertion is None:
            raise Misuse('OAuth(grant="jwt_bearer") needs assertion=')
        if self.grant == "jwt_bearer" and self.client_secret and not self.issuer:
            raise Misuse('OAuth(grant="jwt_bearer", client_secret=...) needs issuer=')
        if not (self.client_secret or self.private_key or self.assertion):
            raise Misuse(
                'OAuth(grant="client_credentials") needs client_secret=, private_key= or assertion='
            )


@dataclass
class SignInState:
    """Whether a user is signing in, which takes longer than a server may.

    Attributes:
        is_open: Whether one is.
    """

    is_open: bool = False
