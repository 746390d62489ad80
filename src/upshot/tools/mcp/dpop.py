"""DPoP: access tokens that are bound to a key of the client (RFC 9449).

The SDK has no DPoP, so this wraps its providers: each of their requests gets a proof, and a token
that the authorization server has bound is sent with the scheme ``DPoP``.

Source:
    RFC 9449, sections 4, 5, 7.1, 8 and 9; RFC 7638; SEP-1932, read in 2026.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import AsyncGenerator
from typing import Any, cast
from uuid import uuid4

import httpx2
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from upshot.contract.base.structs import JsonObject
from upshot.tools.mcp.oauth_flow import TokenStore

_NONCE = "DPoP-Nonce"
_CHALLENGE = "use_dpop_nonce"


class DPoPAuth(httpx2.Auth):
    """Adds proofs to the requests of another provider.

    Args:
        inner: The provider.
        store: Keeps the key with the tokens that are bound to it.
    """

    def __init__(self, inner: httpx2.Auth, store: TokenStore) -> None:
        self._inner = inner
        self._store = store
        self._nonces: dict[str, str] = {}

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the flow of the other provider."""
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                self._prove(outgoing)
                response = yield outgoing
                if await self._is_challenged(outgoing, response):
                    self._prove(outgoing)
                    response = yield outgoing
                if _asks_for_token(outgoing):
                    response = await self._unbind(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _prove(self, request: httpx2.Request) -> None:
        """Add a fresh proof to a request that asks for a token or carries a bound one."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        bound = scheme in ("Bearer", "DPoP") and bool(self._store.read().get("bound"))
        if bound:
            request.headers["Authorization"] = f"DPoP {token}"
        elif not _asks_for_token(request):
            return
        claims: JsonObject = {
            "jti": uuid4().hex,
            "htm": request.method,
            "htu": str(request.url.copy_with(query=None, fragment=None)),
            "iat": int(time.time()),
        }
        if bound:
            claims["ath"] = _base64url(hashlib.sha256(token.encode()).digest())
        if (nonce := self._nonces.get(_origin(request))) is not None:
            claims["nonce"] = nonce
        key = self._key()
        public = json.loads(ECAlgorithm.to_jwk(key.public_key()))
        head = {"typ": "dpop+jwt", "jwk": public}
        request.headers["DPoP"] = jwt.encode(claims, key, algorithm="ES256", headers=head)

    async def _is_challenged(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Remember the server's nonce; returns whether the request must be repeated with it."""
        nonce = response.headers.get(_NONCE)
        if nonce is None:
            return False
        self._nonces[_origin(request)] = nonce
        if response.status_code not in (400, 401) or "DPoP" not in request.headers:
            return False
        if _CHALLENGE in response.headers.get("WWW-Authenticate", ""):
            return True
        return _asks_for_token(request) and (await _read(response)).get("error") == _CHALLENGE

    async def _unbind(self, response: httpx2.Response) -> httpx2.Response:
        """Remember whether a token is bound, and show it to the SDK as one that it knows."""
        body = await _read(response)
        if response.status_code not in (200, 201) or "access_token" not in body:
            return response
        is_bound = str(body.get("token_type", "")).lower() == "dpop"
        self._store.write(bound=is_bound)
        if not is_bound:
            return response
        return httpx2.Response(
            response.status_code,
            json={**body, "token_type": "Bearer"},
            request=response.request,
        )

    def _key(self) -> ec.EllipticCurvePrivateKey:
        stored = self._store.read().get("dpop_key")
        if stored is not None:
            found = serialization.load_pem_private_key(stored.encode(), None)
            return cast("ec.EllipticCurvePrivateKey", found)
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self._store.write(dpop_key=pem.decode())
        return key


def _asks_for_token(request: httpx2.Request) -> bool:
    form = request.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
    return form and b"grant_type=" in request.content


async def _read(response: httpx2.Response) -> dict[str, Any]:
    await response.aread()
    try:
        found = response.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _origin(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode()}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
