"""An authorization server as a process: ``python -m tests.gateway.issuer``; prints its address.

It gives any client a token of its own, by the grant client_credentials. ``POST /rotate`` replaces
its key, and ``POST /mint`` signs the claims that it gets.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec


class Issuer:
    """The server, with its key."""

    def __init__(self) -> None:
        self.url = ""
        self.number = 0
        self.rotate()

    def rotate(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.number += 1

    def sign(self, **claims: Any) -> str:
        given = {"iss": self.url, "exp": int(time.time()) + 300, **claims}
        headers = {"kid": f"k{self.number}"}
        return jwt.encode(given, self.key, algorithm="ES256", headers=headers)

    async def metadata(self, request: web.Request) -> web.Response:
        places = {
            "jwks_uri": "keys",
            "token_endpoint": "token",
            "authorization_endpoint": "authorize",
        }
        return web.json_response(
            {
                "issuer": self.url,
                **{name: f"{self.url}/{place}" for name, place in places.items()},
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    async def keys(self, request: web.Request) -> web.Response:
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return web.json_response({"keys": [{**public, "kid": f"k{self.number}", "alg": "ES256"}]})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        made = self.sign(sub="clerk", aud=form["resource"], scope=form.get("scope", ""))
        body = {"access_token": made, "token_type": "Bearer", "expires_in": 300}
        return web.json_response(body)

    async def mint(self, request: web.Request) -> web.Response:
        return web.Response(text=self.sign(**await request.json()))

    async def turn(self, request: web.Request) -> web.Response:
        self.rotate()
        return web.Response()


async def serve() -> None:
    issuer, app = Issuer(), web.Application()
    app.add_routes(
        [
            web.get("/.well-known/oauth-authorization-server", issuer.metadata),
            web.get("/keys", issuer.keys),
            web.post("/token", issuer.token),
            web.post("/mint", issuer.mint),
            web.post("/rotate", issuer.turn),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    print(issuer.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
