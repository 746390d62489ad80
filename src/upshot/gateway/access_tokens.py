"""Verifies the access tokens of OAuth that clients send to a gateway over HTTP.

A token is a JWT that an issuer of the gateway's file has signed for the gateway: the keys are read
where the issuer's metadata says, and kept for a while. What an issuer's key did not sign, what is
for another audience, and what has expired is the token of an unknown user.

Source:
    RFC 9068 (JWT access tokens), RFC 8414 (metadata of an issuer), RFC 6750 (how they are sent),
    RFC 9449 section 7.2 (tokens that are bound to a key); read in 2026.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

import httpx2
import jwt

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.user import User
from upshot.gateway.config import OAuth

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

# A secret that both sides know would let the gateway issue tokens too, so HS256 is not among them.
_ALGORITHMS = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
]  # fmt: skip
_REQUIRED = ["exp", "iss", "aud", "sub"]
_METADATA = ("openid-configuration", "oauth-authorization-server")
_TIMEOUT_S = 10.0
# Keys are read again after this time; and sooner for a key that is not among them, but not for each
# token that names one.
_KEEP_S, _LEAST_S = 600.0, 10.0
_LEEWAY_S = 30.0


class NoKeys(Exception):
    """The keys of an issuer cannot be read."""


class MissingScope(Exception):
    """A valid token lacks a scope."""


@dataclass(eq=False)
class _Issuer:
    """An issuer, and its keys by their ids."""

    url: str
    keys: dict[str | None, jwt.PyJWK] = field(default_factory=dict[str | None, jwt.PyJWK])
    read_at: float | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key with an id; the only one for a token that names none.

        Raises:
            NoKeys: None can be read, and there are no earlier ones.
        """
        async with self.lock:
            age_s = None if self.read_at is None else SYSTEM_CLOCK.monotonic() - self.read_at
            is_known = key_id in self.keys or (key_id is None and len(self.keys) == 1)
            if age_s is None or age_s > (_KEEP_S if is_known else _LEAST_S):
                await self._read()
        if key_id is None and len(self.keys) == 1:
            return next(iter(self.keys.values()))
        return self.keys.get(key_id)

    async def _read(self) -> None:
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False) as http:
                found = await _json_at(http, await self._keys_url(http))
            keys = jwt.PyJWKSet.from_dict(dict(found)).keys
        except (httpx2.HTTPError, jwt.PyJWTError, ValueError, TypeError) as error:
            # Earlier keys stay good: the issuer may be away for a moment.
            if self.keys:
                self.read_at = SYSTEM_CLOCK.monotonic()
                return
            raise NoKeys(f"the keys of {self.url} cannot be read") from error
        self.keys = {one.key_id: one for one in keys}
        self.read_at = SYSTEM_CLOCK.monotonic()

    async def _keys_url(self, http: httpx2.AsyncClient) -> str:
        reason = ""
        for name in _METADATA:
            for address in _metadata_addresses(self.url, name):
                try:
                    found = await _json_at(http, address)
                except (httpx2.HTTPStatusError, ValueError) as error:
                    reason = str(error)
                    continue
                if found.get("issuer") == self.url and isinstance(found.get("jwks_uri"), str):
                    return cast("str", found["jwks_uri"])
                reason = f"{address} has no jwks_uri of this issuer"
        raise ValueError(reason)


def _metadata_addresses(issuer: str, name: str) -> list[str]:
    """Return where the metadata may be: before the path of the issuer's URL, and after it."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    places = [f"/.well-known/{name}{path}", f"{path}/.well-known/{name}"]
    urls = [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]
    return list(dict.fromkeys(urls))


async def _json_at(http: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    response = await http.get(url)
    response.raise_for_status()
    found = response.json()
    if not isinstance(found, dict):
        raise ValueError(f"{url} has no JSON object")
    return cast("dict[str, Any]", found)


class TokenVerifier:
    """Returns the user of a request by its bearer token; a ``sign_in`` of ``serve_http``.

    Args:
        oauth: The issuers, the audience, and what the token must say.
    """

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth
        self._issuers = {url: _Issuer(url) for url in oauth.servers}

    async def __call__(self, request: HTTPConnection) -> User | None:
        """Return the user, or None for a request without a valid token.

        Raises:
            MissingScope: The token is valid, and lacks a scope.
            NoKeys: The issuer cannot be asked for its keys.
        """
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return None
        try:
            claims = await self._read(token.strip())
        except (jwt.PyJWTError, ValueError):
            return None
        user = None if claims is None else self._user_of(claims)
        if user is not None and not {*self._oauth.scopes} <= _scopes_of(cast("Any", claims)):
            raise MissingScope
        return user

    async def _read(self, token: str) -> dict[str, Any] | None:
        """Return the verified claims, or None if no issuer's key fits.

        Raises:
            PyJWTError: The token is not valid.
        """
        unverified = jwt.decode(token, options={"verify_signature": False})
        issuer = self._issuers.get(str(unverified.get("iss")))
        if issuer is None:
            return None
        key = await issuer.key(jwt.get_unverified_header(token).get("kid"))
        if key is None:
            return None
        return jwt.decode(
            token,
            key,
            algorithms=_ALGORITHMS,
            audience=self._oauth.audience,
            issuer=issuer.url,
            leeway=_LEEWAY_S,
            options={"require": _REQUIRED},
        )

    def _user_of(self, claims: Mapping[str, Any]) -> User | None:
        subject, tenant = claims.get("sub"), ""
        # A token that is bound to a key is not a bearer's.
        if not isinstance(subject, str) or not subject or "cnf" in claims:
            return None
        if self._oauth.tenant:
            tenant = claims.get(self._oauth.tenant)
            if not isinstance(tenant, str) or not tenant:
                return None
        # Two issuers may give one name to two people.
        id = subject if len(self._issuers) == 1 else f"{claims['iss']}#{subject}"
        return User(id, tenant=tenant)


def _scopes_of(claims: Mapping[str, Any]) -> set[str]:
    given = claims.get("scope", claims.get("scp", ""))
    if isinstance(given, str):
        return {*given.split()}
    return {one for one in cast("list[object]", given or ()) if isinstance(one, str)}
