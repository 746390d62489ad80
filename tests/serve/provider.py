"""An OpenID provider on loopback whose answers can be wrong, as those of a real one cannot."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from functools import cache
from typing import Any
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "console", "of the console"
LOGOUT = "http://schemas.openid.net/event/backchannel-logout"


@cache
def _key(id: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider:
    """A provider that signs everyone in as the account that a test names.

    Attributes:
        url: Its address; to be set before it is asked.
        claims: The claims of the account that signs in.
        wrong: Claims of the identity token that replace the right ones; None leaves one out.
        issuer: What it says that it is; "" is its address.
        algorithm: How it signs; "none" does not.
        refused: An error that it sends the browser back with.
        is_narrow: Whether the groups are in the userinfo alone.
    """

    def __init__(self) -> None:
        self.url = ""
        self.claims: dict[str, Any] = {"sub": "u1", "name": "Ann", "groups": ["ops"]}
        self.wrong: dict[str, Any] = {}
        self.issuer = ""
        self.algorithm = "RS256"
        self.refused = ""
        self.is_narrow = False
        self.userinfo_sub = ""
        self.codes: dict[str, dict[str, str]] = {}
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.renew_key("k1")
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/auth", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/jwks", self._jwks),
                Route("/userinfo", self._userinfo),
            ]
        )

    def renew_key(self, id: str) -> None:
        """Replace the key that signs."""
        self.keys = {id: _key(id)}

    def sign(self, claims: dict[str, Any]) -> str:
        [(id, key)] = self.keys.items()
        signing: Any = {"none": None, "HS256": SECRET}.get(self.algorithm, key)
        return jwt.encode(claims, signing, self.algorithm, headers={"kid": id})

    def logout_token(self, **claims: Any) -> str:
        now = int(time.time())
        given: dict[str, Any] = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "jti": "1",
            "events": {LOGOUT: {}},
            **claims,
        }
        return self.sign({name: value for name, value in given.items() if value is not None})

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/auth",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                "userinfo_endpoint": f"{self.url}/userinfo",
                "end_session_endpoint": f"{self.url}/end",
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            }
        )

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["client_id"] == CLIENT and asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256" and asked["nonce"] and asked["state"]
        back = {"state": asked["state"], "iss": self.issuer or self.url}
        if self.refused:
            back["error"] = self.refused
        else:
            back["code"] = f"code-{len(self.codes)}"
            self.codes[back["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 303)

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        asked = self.codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or request.headers.get("authorization") != f"Basic {wanted}"
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        known = {"sub": self.claims["sub"]} if self.is_narrow else self.claims
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **known,
            **self.wrong,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        token = {"access_token": "at", "token_type": "Bearer", "id_token": self.sign(claims)}
        return JSONResponse(token)

    async def _jwks(self, _: Request) -> Response:
        [(id, key)] = self.keys.items()
        public = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
        return JSONResponse({"keys": [{**public, "kid": id, "alg": "RS256", "use": "sig"}]})

    async def _userinfo(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer at"
        sub = self.userinfo_sub or self.claims["sub"]
        return JSONResponse({**self.claims, "sub": sub})
