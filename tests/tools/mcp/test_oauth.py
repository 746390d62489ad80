"""OAuth at MCP servers: signing in, stored tokens, errors. All flows: ``make conformance``."""

import asyncio
import json
import stat
import webbrowser
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.tools.mcp.server import answer
from upshot import OAuth, open_mcp
from upshot.errors import Misuse
from upshot.tools.mcp.connection import Connection
from upshot.tools.mcp.server_address import describe_server
from upshot.tools.mcp.server_requests import Abilities, ServerRequests


class Realm:
    """An MCP server and, at an address of its own, the authorization server for it."""

    def __init__(self):
        self.url = self.issuer = ""
        self.asked = []
        self.token = "token-of-the-realm-one"
        self.proofs = []
        self.kind = "Bearer"

    async def mcp(self, request):
        if request.method != "POST":
            return web.Response(status=405)
        if request.headers.get("Authorization") != f"{self.kind} {self.token}":
            where = f"{self.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
            challenge = {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'}
            return web.Response(status=401, headers=challenge)
        self.proofs.append(request.headers.get("DPoP"))
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        return web.json_response(answer(message, print))

    async def resource(self, request):
        return web.json_response({"resource": self.url, "authorization_servers": [self.issuer]})

    async def metadata(self, request):
        places = {f"{one}_endpoint": f"{self.issuer}/{one}" for one in ("token", "registration")}
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                **places,
            }
        )

    async def register(self, request):
        body = await request.json()
        return web.json_response({**body, "client_id": "c1"}, status=201)

    async def authorize(self, request):
        back = f"{request.query['redirect_uri']}?code=k&state={request.query['state']}"
        return web.Response(status=302, headers={"Location": back})

    async def give(self, request):
        form = await request.post()
        self.asked.append(form["grant_type"])
        body = {"access_token": self.token, "token_type": self.kind, "refresh_token": "r"}
        return web.json_response({**body, "expires_in": 3600})

    @property
    def routes(self):
        return [
            [
                web.route("*", "/mcp", self.mcp),
                web.get("/.well-known/oauth-protected-resource/mcp", self.resource),
            ],
            [
                web.get("/.well-known/oauth-authorization-server", self.metadata),
                web.post("/registration", self.register),
                web.get("/authorize", self.authorize),
                web.post("/token", self.give),
            ],
        ]


@asynccontextmanager
async def realm():
    made, runners = Realm(), []
    for routes in made.routes:
        app = web.Application()
        app.add_routes(routes)
        runners.append(runner := web.AppRunner(app))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
    ports = [one.addresses[0][1] for one in runners]
    made.url, made.issuer = f"http://127.0.0.1:{ports[0]}/mcp", f"http://127.0.0.1:{ports[1]}"
    try:
        yield made
    finally:
        for runner in runners:
            await runner.cleanup()


async def sign_in(address):
    async with aiohttp.ClientSession() as http, http.get(address, allow_redirects=False) as got:
        return got.headers["Location"]


async def refuse(address):
    raise AssertionError(f"nobody should be asked to sign in at {address}")


async def names_at(url, auth, **more):
    async with open_mcp("s", url=url, auth=auth, **more) as tools:
        return {tool.name for tool in tools}


async def test_a_user_signs_in_and_the_tools_are_listed():
    async with realm() as one:
        assert "s_add" in await names_at(one.url, OAuth(redirect=sign_in))
        assert one.asked == ["authorization_code"]


async def test_the_time_to_sign_in_is_not_the_server_s():
    server = describe_server(None, "http://127.0.0.1:9/mcp", env=None, cwd=None, headers=None)
    connection = Connection(server, timeout_s=1, requests=ServerRequests("s", Abilities()))
    signed_in = asyncio.get_running_loop().create_future()
    connection.sign_in.is_open = True
    waiting = asyncio.ensure_future(connection.wait_for(signed_in, 0.001))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    signed_in.set_result(None)
    assert await waiting
    connection.sign_in.is_open = False
    assert not await connection.wait_for(asyncio.get_running_loop().create_future(), 0.001)
    await connection.aclose()


async def test_a_stored_token_is_used_again_and_its_file_is_private(tmp_path):
    file = tmp_path / "tokens.json"
    async with realm() as one:
        await names_at(one.url, OAuth(redirect=sign_in, store=file))
        assert await names_at(one.url, OAuth(redirect=refuse, store=str(file)))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())[one.url]["tokens"]["access_token"] == one.token
    assert [one.name for one in tmp_path.iterdir()] == ["tokens.json"]


async def test_an_expired_stored_token_is_refreshed_at_the_authorization_server(tmp_path):
    async with realm() as one:
        await names_at(one.url, OAuth(redirect=sign_in, store=tmp_path / "tokens"))
        one.token = "t2"
        stored = json.loads((tmp_path / "tokens").read_text())
        stored[one.url]["expires_at"] = 1.0
        (tmp_path / "tokens").write_text(json.dumps(stored))
        assert await names_at(one.url, OAuth(redirect=refuse, store=tmp_path / "tokens"))
        assert one.asked == ["authorization_code", "refresh_token"]


async def test_a_bound_token_is_sent_with_a_proof_for_each_request(tmp_path):
    async with realm() as one:
        one.kind = "DPoP"
        auth = OAuth(redirect=sign_in, dpop=True, store=tmp_path / "tokens")
        assert await names_at(one.url, auth)
        assert None not in one.proofs and len(set(one.proofs)) == len(one.proofs) > 1
        # The key is stored with the token that is bound to it.
        assert await names_at(one.url, OAuth(redirect=refuse, dpop=True, store=auth.store))


OWN = "http://127.0.0.1:33419"


async def test_the_browser_of_this_machine_is_sent_back_here(monkeypatch):
    loop, seen = asyncio.get_running_loop(), []

    async def visit(address):
        async with aiohttp.ClientSession() as http:
            # What any other page can send the browser to comes first.
            for place in (f"{OWN}/callback?code=x&state=wrong", address):
                async with http.get(place) as got:
                    seen.append((got.status, await got.text()))

    def open_browser(address):
        return bool(asyncio.run_coroutine_threadsafe(visit(address), loop))

    monkeypatch.setattr(webbrowser, "open", open_browser)
    async with realm() as one:
        assert await names_at(one.url, OAuth(redirect_uri=f"{OWN}/callback"))
    assert [status for status, _ in seen] == [404, 200]
    assert "You are signed in" in seen[1][1]


async def test_without_a_browser_it_says_what_to_give(monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    async with realm() as one:
        with pytest.raises(Misuse, match=r"no browser to sign in with: give OAuth\(redirect=\)"):
            await names_at(one.url, OAuth(redirect_uri=f"{OWN}/callback"))


async def test_a_refusal_to_sign_in_is_told():
    async def deny(address):
        back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        return f"{back}?error=access_denied&error_description=Not+you"

    async with realm() as one:
        with pytest.raises(Misuse, match="the authorization server refused: Not you"):
            await names_at(one.url, OAuth(redirect=deny))


async def test_the_secret_of_a_client_is_in_no_error_and_no_text():
    auth = OAuth(grant="client_credentials", client_id="c", client_secret="hunter2-secret")
    assert "hunter2" not in repr(auth)
    async with realm() as one:
        one.token = "hunter2-secret"
        one.kind = "Nothing"
        with pytest.raises(Misuse) as caught:
            await names_at(one.url, auth)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"grant": "password"}, "give one of authorization_code, client_credentials"),
        ({"grant": "client_credentials", "client_secret": "s"}, "needs client_id="),
        ({"grant": "client_credentials", "client_id": "c"}, "needs client_secret=, private_key="),
        ({"grant": "jwt_bearer", "client_id": "c"}, "needs assertion="),
        (
            {"grant": "jwt_bearer", "client_id": "c", "client_secret": "s", "assertion": refuse},
            "needs issuer=",
        ),
        ({"wait_s": 0}, "wait_s"),
    ],
    ids=lambda one: "" if isinstance(one, dict) else one[:20],
)
def test_what_a_grant_needs_is_said(given, said):
    with pytest.raises(Misuse, match=said):
        OAuth(**given)


@pytest.mark.parametrize(
    "uri", ["https://127.0.0.1:3/x", "http://example.com:80/", "http://localhost/"]
)
async def test_only_an_address_of_this_machine_awaits_a_browser(uri):
    async with realm() as one:
        with pytest.raises(Misuse, match=r"127\.0\.0\.1 or localhost with a port"):
            await names_at(one.url, OAuth(redirect_uri=uri))


async def test_a_program_takes_no_auth():
    with pytest.raises(Misuse, match="credentials by env="):
        async with open_mcp("s", command="true", auth=OAuth()):
            pass
