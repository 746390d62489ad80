"""Signing in at an OpenID provider: who comes in, as whom, for how long; and what does not pass."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import pytest

from tests.serve.kit import Client, listening
from tests.serve.provider import CLIENT, SECRET, Provider
from upshot import Agent, App, Misuse, ScriptedModel, open_journal, run
from upshot.journal.audit import needs_audit
from upshot.serve import oidc

ROLES = {"operate": ["ops"], "view": ["ops", "readers"], "audit": ["auditors"]}


class Visitor:
    """A browser: it keeps cookies and follows the provider's redirects when it is told to."""

    def __init__(self, url: str) -> None:
        self.url = url
        jar = aiohttp.CookieJar(unsafe=True)
        self.session = aiohttp.ClientSession(cookie_jar=jar, headers={"user-agent": "Test/1"})

    async def get(self, path: str, **given: Any) -> tuple[int, str, Any]:
        """Return the status, where it sends the browser, and the text."""
        url = path if path.startswith("http") else self.url + path
        async with self.session.get(url, allow_redirects=False, **given) as response:
            return response.status, response.headers.get("location", ""), await response.text()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"x-upshot": "1"}
        async with self.session.request(
            method, self.url + path, json=body, headers=headers
        ) as response:
            is_json = response.content_type == "application/json"
            return response.status, (await response.json() if is_json else await response.text())

    async def sign_in(self, next: str = "") -> tuple[int, str, str]:
        """Go to the provider and back; return what the site says then."""
        query = f"?{urlencode({'next': next})}" if next else ""
        _, to_provider, _ = await self.get(f"/sign-in{query}")
        _, back, _ = await self.get(to_provider)
        return await self.get(back)

    @property
    def cookies(self) -> dict[str, str]:
        return {one.key: one.value for one in self.session.cookie_jar}


class World:
    """A provider, and a site that trusts it."""

    def __init__(self, provider: Provider, client: Client, app: App) -> None:
        self.provider = provider
        self.url = client.url
        self.app = app
        self.visitors: list[Visitor] = []

    def visitor(self, url: str = "") -> Visitor:
        self.visitors.append(Visitor(url or self.url))
        return self.visitors[-1]

    async def audit(self, **filters: Any) -> list[tuple[str, str]]:
        page = await needs_audit(await self.app.open()).audit(**filters)
        return [(row.user, row.action) for row in page.rows]


def desk(where: str) -> App:
    return App([Agent("desk", model=ScriptedModel(["Done."] * 9))], journal=where)


@asynccontextmanager
async def opened(where: str = "memory:", **options: Any) -> AsyncGenerator[World]:
    provider = Provider()
    async with listening(provider.app) as there:
        provider.url = there.url
        async with serving(provider, where, **options) as world:
            yield world


@asynccontextmanager
async def serving(provider: Provider, where: str, **options: Any) -> AsyncGenerator[World]:
    given: dict[str, Any] = {"roles": ROLES, **options}
    sign_in = oidc(provider.url, client_id=CLIENT, client_secret=SECRET, **given)
    app = desk(where)
    async with listening(app.asgi(user=sign_in)) as client:
        world = World(provider, client, app)
        try:
            yield world
        finally:
            for visitor in world.visitors:
                await visitor.session.close()


async def test_a_user_comes_in_with_the_roles_of_their_groups(tmp_path: Path) -> None:
    async with opened() as world:
        ann = world.visitor()
        status, said = await ann.ask("GET", "/api/me")
        assert (status, said) == (401, {"error": "nobody is signed in", "sign_in": "/sign-in"})
        assert await ann.sign_in("/runs?status=failed") == (303, "/runs?status=failed", "")
        status, me = await ann.ask("GET", "/api/me")
        assert (status, me["user"]["id"], me["user"]["roles"]) == (200, "u1", ["operate", "view"])
        assert me["sessions"] is True
        [only] = ann.session.cookie_jar
        assert (only.key, only["httponly"], only["samesite"]) == ("upshot-session", True, "strict")
        assert await world.audit() == [("u1", "sign_in")]


async def test_claims_may_come_from_the_userinfo_and_name_a_tenant() -> None:
    claims: dict[str, Any] = {
        "sub": "u1",
        "realm": {"roles": ["readers"]},
        "org": "acme",
        "email": "a@b.c",
        "email_verified": True,
    }
    async with opened(roles_claim="realm.roles", tenant_claim="org", user_claim="email") as world:
        world.provider.claims, world.provider.is_narrow = claims, True
        ann = world.visitor()
        await ann.sign_in()
        user = (await ann.ask("GET", "/api/me"))[1]["user"]
        assert (user["id"], user["tenant"], user["roles"]) == ("a@b.c", "acme", ["view"])
        world.provider.userinfo_sub = "u2"
        status, _, page = await world.visitor().sign_in()
        assert (status, "is not accepted" in page) == (400, True)


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"sub": "u1", "groups": []}, "The account u1 is known, but has no role here"),
        ({"sub": "u1<b>"}, "The account u1&lt;b&gt; is known"),
        ({"sub": "u1", "groups": {"ops": 1}}, "has no role here"),
    ],
)
async def test_an_account_without_a_role_reads_one_sentence(
    claims: dict[str, Any], sentence: str
) -> None:
    async with opened() as world:
        world.provider.claims = claims
        ann = world.visitor()
        status, _, page = await ann.sign_in()
        assert status == 403 and sentence in page and "<b>" not in page
        assert ann.cookies == {}
        assert (await ann.ask("GET", "/api/me"))[0] == 401
        assert await world.audit() == [(claims["sub"], "refused")]


WRONG: list[dict[str, Any]] = [
    {"aud": "another"},
    {"aud": ["another", "third"], "azp": CLIENT},
    {"aud": [CLIENT, "another"]},
    {"aud": [CLIENT, "another"], "azp": "another"},
    {"aud": None},
    {"iss": "https://other.example"},
    {"nonce": "another"},
    {"nonce": None},
    {"exp": int(time.time()) - 90},
    {"exp": None},
    {"iat": int(time.time()) + 900},
    {"sub": None},
    {"at_hash": "xxxx"},
]


async def test_a_wrong_identity_token_opens_nothing() -> None:
    async with opened() as world:
        ann = world.visitor()
        for wrong in WRONG:
            world.provider.wrong = wrong
            status, _, page = await ann.sign_in()
            assert (status, "is not accepted" in page) == (400, True), wrong
            assert ann.cookies == {}, wrong
        assert await world.audit() == []


async def test_a_clock_that_is_a_little_off_is_no_fault() -> None:
    async with opened() as world:
        now = int(time.time())
        world.provider.wrong = {"exp": now - 30, "iat": now + 30}
        assert (await world.visitor().sign_in())[0] == 303


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
async def test_only_a_key_of_the_provider_signs(algorithm: str) -> None:
    async with opened() as world:
        world.provider.algorithm = algorithm
        status, _, page = await world.visitor().sign_in()
        assert status == 400 and "is not accepted" in page


async def test_a_new_key_of_the_provider_is_found_and_a_stranger_s_is_not() -> None:
    async with opened() as world:
        assert (await world.visitor().sign_in())[0] == 303
        world.provider.renew_key("k2")
        assert (await world.visitor().sign_in())[0] == 303
        real = world.provider.keys
        world.provider.renew_key("stranger")
        world.provider.keys = {"k2": world.provider.keys["stranger"]}
        token = world.provider.sign({"iss": world.provider.url})
        world.provider.keys = real
        world.provider.sign = lambda claims: token  # type: ignore[method-assign]
        assert (await world.visitor().sign_in())[0] == 400


async def test_another_issuer_at_that_address_is_refused() -> None:
    async with opened() as world:
        world.provider.issuer = "https://other.example"
        status, _, page = await world.visitor().get("/sign-in")
        assert status == 503 and "names another issuer" in page


async def test_a_provider_that_is_away_is_one_sentence_and_sessions_stay() -> None:
    async with opened() as world:
        ann = world.visitor()
        await ann.sign_in()
        away = oidc("http://127.0.0.1:1", client_id=CLIENT, roles=ROLES)
        async with listening(desk("memory:").asgi(user=away)) as client:
            visitor = world.visitor(client.url)
            status, _, page = await visitor.get("/sign-in")
        assert status == 503 and "cannot be reached: try again soon" in page
        assert (await ann.ask("GET", "/api/me"))[0] == 200


async def test_the_provider_s_refusal_is_shown() -> None:
    async with opened() as world:
        world.provider.refused = "access_denied"
        status, _, page = await world.visitor().sign_in()
        assert status == 400 and "did not sign you in: access_denied" in page


async def test_what_comes_back_must_belong_to_an_attempt_of_this_browser() -> None:
    async with opened() as world:
        ann, eve = world.visitor(), world.visitor()
        _, to_provider, _ = await eve.get("/sign-in")
        _, back, _ = await eve.get(to_provider)
        # Eve's link would sign Ann in as Eve.
        status, _, page = await ann.get(back)
        assert status == 400 and "was not begun in this browser" in page and ann.cookies == {}
        # In Eve's browser it works once.
        assert (await eve.get(back))[0] == 303
        assert (await eve.get(back))[0] == 400
        _, to_provider, _ = await ann.get("/sign-in")
        _, back, _ = await ann.get(to_provider)
        for name, value in (("state", "x"), ("iss", "https://other.example"), ("code", "")):
            parts = urlsplit(back)
            query = {**{key: one[0] for key, one in parse_qs(parts.query).items()}, name: value}
            assert (await ann.get(f"{world.url}{parts.path}?{urlencode(query)}"))[0] == 400


@pytest.mark.slow
async def test_no_link_leads_to_another_site() -> None:
    async with opened() as world:
        visitor = world.visitor()
        for next in [
            "https://evil.example",
            "//evil.example/x",
            "/\\evil.example",
            "/\t/evil.example",
            "\\\\evil.example",
            "javascript:alert(1)",
            "runs",
        ]:
            assert (await visitor.sign_in(next))[1] == "/", next


async def test_a_session_is_new_and_the_one_of_before_is_void() -> None:
    async with opened() as world:
        ann = world.visitor()
        ann.session.cookie_jar.update_cookies({"upshot-session": "planted"})
        await ann.sign_in()
        first = ann.cookies["upshot-session"]
        assert first != "planted"
        await ann.sign_in()
        assert ann.cookies["upshot-session"] != first
        old = world.visitor()
        old.session.cookie_jar.update_cookies({"upshot-session": first})
        assert (await old.ask("GET", "/api/me"))[0] == 401


async def test_behind_https_the_cookies_are_secure() -> None:
    async with opened(url="https://ops.example") as world:
        visitor, begin = world.visitor(), f"{world.url}/sign-in"
        async with visitor.session.get(begin, allow_redirects=False) as response:
            [cookie] = response.headers.getall("set-cookie")
            to = parse_qs(urlsplit(response.headers["location"]).query)
        assert to["redirect_uri"] == ["https://ops.example/sign-in/callback"]
        assert cookie.startswith("__Host-upshot-sign-in-") and "Secure" in cookie
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/" in cookie


async def test_signing_out_ends_the_session_here_and_at_the_provider() -> None:
    async with opened() as world:
        ann = world.visitor()
        await ann.sign_in()
        token = ann.cookies["upshot-session"]
        status, said = await ann.ask("POST", "/api/sign-out", {})
        parts = urlsplit(str(said["to"]))
        query = parse_qs(parts.query)
        assert status == 200 and f"{parts.scheme}://{parts.netloc}{parts.path}" == (
            f"{world.provider.url}/end"
        )
        assert query["post_logout_redirect_uri"] == [f"{world.url}/"]
        assert query["client_id"] == [CLIENT] and query["id_token_hint"]
        ann.session.cookie_jar.update_cookies({"upshot-session": token})
        assert (await ann.ask("GET", "/api/me"))[0] == 401
        assert await world.audit() == [("u1", "sign_out"), ("u1", "sign_in")]


async def test_the_provider_ends_sessions_by_account_and_by_its_own_session() -> None:
    async with opened() as world:
        provider = world.provider
        visitors: list[Visitor] = []
        for sub, sid in (("u1", "s1"), ("u1", "s2"), ("u2", "s3")):
            provider.claims = {"sub": sub, "sid": sid, "groups": ["ops"]}
            visitors.append(world.visitor())
            await visitors[-1].sign_in()

        async def logout(token: str) -> int:
            async with visitors[0].session.post(
                f"{world.url}/sign-in/back-channel", data={"logout_token": token}
            ) as response:
                return response.status

        async def there() -> list[int]:
            return [(await one.ask("GET", "/api/me"))[0] for one in visitors]

        wrongs: list[dict[str, Any]] = [
            {"sub": "u1", "aud": "another"},
            {"sub": "u1", "iss": "https://other.example"},
            {"sub": "u1", "nonce": "n"},
            {"sub": "u1", "events": {}},
            {"sub": "u1", "exp": 1},
            {},
        ]
        for wrong in wrongs:
            assert await logout(provider.logout_token(**wrong)) == 400, wrong
        assert await logout("not a token") == 400
        assert await there() == [200, 200, 200]
        assert await logout(provider.logout_token(sub="u1", sid="s2")) == 200
        assert await there() == [200, 401, 200]
        assert await logout(provider.logout_token(sid="s3")) == 200
        assert await logout(provider.logout_token(sub="u1")) == 200
        assert await there() == [401, 401, 401]


async def test_a_session_survives_a_restart_and_ends_in_every_process(tmp_path: Path) -> None:
    where = str(tmp_path / "j.db")
    async with opened(where) as first:
        ann = first.visitor()
        await ann.sign_in()
        async with serving(first.provider, where) as second:
            again = second.visitor()
            again.session.cookie_jar.update_cookies(ann.cookies)
            assert (await again.ask("GET", "/api/me"))[0] == 200
            assert (await again.ask("POST", "/api/sign-out", {}))[0] == 200
        assert (await ann.ask("GET", "/api/me"))[0] == 401


async def test_a_session_ends_without_requests_and_after_its_time() -> None:
    each: list[dict[str, Any]] = [{"idle_s": 0.01}, {"life_s": 0.01}]
    for options in each:
        async with opened(**options) as world:
            ann = world.visitor()
            await ann.sign_in()
            deadline = time.monotonic() + 0.02
            while time.monotonic() < deadline:
                pass
            assert (await ann.ask("GET", "/api/me"))[0] == 401


async def stream_of(visitor: Visitor) -> aiohttp.ClientResponse:
    """Open a stream, and wait for its first event."""
    response = await visitor.session.get(f"{visitor.url}/api/live")
    assert response.status == 200
    await response.content.readuntil(b"\n\n")
    return response


@pytest.mark.slow
async def test_an_ended_session_ends_its_streams_in_other_processes_too(tmp_path: Path) -> None:
    where = str(tmp_path / "j.db")
    async with opened(where) as first:
        ann, oda = first.visitor(), first.visitor()
        await ann.sign_in()
        stream = await stream_of(ann)
        first.provider.claims = {"sub": "u2", "groups": ["ops"]}
        await oda.sign_in()
        async with serving(first.provider, where) as second:
            far = second.visitor()
            far.session.cookie_jar.update_cookies(oda.cookies)
            status, found = await far.ask("GET", "/api/sessions")
            assert status == 200 and {one["user"] for one in found["sessions"]} == {"u1", "u2"}
            assert "id_token" not in str(found)
            [mine] = [one for one in found["sessions"] if one.get("here")]
            assert (mine["user"], mine["browser"], mine["address"]) == (
                "u2",
                "Test/1",
                "127.0.0.1",
            )
            ended = await far.ask("POST", "/api/sessions/end", {"user": "u1"})
            assert ended == (200, {"ended": 1})
            await stream.content.read()
        assert (await ann.ask("GET", "/api/me"))[0] == 401
        assert (await first.audit())[0] == ("u2", "end_session")


async def test_a_role_that_is_gone_ends_streams_and_holds_at_the_next_request() -> None:
    async with opened() as world:
        ann = world.visitor()
        await ann.sign_in()
        journal = await world.app.open()
        agent = Agent("desk", model=ScriptedModel(["Done."]))
        run_id = (await run(agent, "Hi", journal=journal, attributes={"user": "b"})).run_id
        assert (await ann.ask("POST", f"/api/runs/{run_id}/replay", {}))[0] == 200
        stream = await stream_of(ann)
        world.provider.claims["groups"] = ["readers"]
        await world.visitor().sign_in()
        await stream.content.read()
        assert (await ann.ask("GET", "/api/me"))[1]["user"]["roles"] == ["view"]
        assert (await ann.ask("POST", f"/api/runs/{run_id}/replay", {}))[0] == 403


PLACES: list[tuple[dict[str, Any], int]] = [
    ({"groups": []}, 403),
    ({"org": "globex"}, 303),
    ({"org": None}, 400),
]


@pytest.mark.slow("*-400", "*-303")
@pytest.mark.parametrize(("change", "status"), PLACES, ids=str)
async def test_an_account_that_lost_its_place_loses_its_sessions(
    change: dict[str, Any], status: int
) -> None:
    async with opened(tenant_claim="org") as world:
        world.provider.claims |= {"org": "acme"}
        ann, other, ben = world.visitor(), world.visitor(), world.visitor()
        await ann.sign_in()
        world.provider.claims |= {"sub": "u2"}
        await ben.sign_in()
        world.provider.claims |= {"sub": "u1", **change}
        assert (await other.sign_in())[0] == status
        assert (await ann.ask("GET", "/api/me"))[0] == 401
        assert (await ben.ask("GET", "/api/me"))[0] == 200
        assert ("u1", "end_session") in await world.audit(tenant="acme")


@pytest.mark.slow("'true'", "1", "0", "None")
@pytest.mark.parametrize("verified", [True, "true", False, "false", "True", 1, 0, None], ids=repr)
async def test_an_address_names_a_user_only_if_it_is_verified(verified: Any) -> None:
    async with opened(user_claim="email") as world:
        world.provider.claims |= {"email": "ann@example.com", "email_verified": verified}
        status, _, page = await world.visitor().sign_in()
        is_verified = verified is True or verified == "true"
        assert status == (303 if is_verified else 400)
        assert ("does not say that the account" in page) is not is_verified


async def test_users_see_and_end_only_their_own_sessions() -> None:
    async with opened() as world:
        ann, reader = world.visitor(), world.visitor()
        await ann.sign_in()
        world.provider.claims = {"sub": "u2", "groups": ["readers"]}
        await reader.sign_in()
        [own] = (await reader.ask("GET", "/api/sessions"))[1]["sessions"]
        assert own["user"] == "u2"
        other = next(
            one for one in (await ann.ask("GET", "/api/sessions"))[1]["sessions"]
            if one["user"] == "u1"
        )  # fmt: skip
        for body in ({"id": other["id"]}, {"user": "u1"}):
            assert (await reader.ask("POST", "/api/sessions/end", body))[0] == 404
        assert (await reader.ask("POST", "/api/sessions/end", {}))[0] == 403
        assert (await reader.ask("POST", "/api/sessions/end", {"id": own["id"]}))[0] == 200
        assert (await reader.ask("GET", "/api/me"))[0] == 401


LIMITS: list[tuple[dict[str, list[str]], tuple[list[str], list[str], list[str]]]] = [
    ({"answer:tool/refund": ["ops"], "view": ["*"]}, (["answer", "view"], [], ["refund"])),
    ({"answer:agent/desk": ["ops"]}, (["answer"], ["desk"], [])),
    ({"answer:tool/refund": ["ops"], "answer": ["ops"]}, (["answer"], [], [])),
    ({"answer:tool/refund": ["ops"], "answer": ["x"]}, (["answer"], [], ["refund"])),
]


@pytest.mark.parametrize(("roles", "user"), LIMITS, ids=str)
async def test_answering_is_limited_to_agents_and_tools(
    roles: dict[str, list[str]], user: tuple[list[str], list[str], list[str]]
) -> None:
    async with opened(roles=roles) as world:
        ann = world.visitor()
        await ann.sign_in()
        found = (await ann.ask("GET", "/api/me"))[1]["user"]
        assert (found["roles"], found.get("agents", []), found.get("tools", [])) == user


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"issuer": "http://login.example"}, "issuer is .* give an address of https"),
        ({"issuer": ""}, "issuer"),
        ({"url": "ftp://ops.example"}, "url is .* give an address of https"),
        ({"roles": {"admin": ["ops"]}}, "roles has 'admin': give one of own, view"),
        ({"roles": {"view:tool/x": ["ops"]}}, "only answer has limits"),
        ({"roles": {"view": "ops"}}, "is one text: give a list of groups"),
        ({"scopes": ["email"]}, "'openid' must be among them"),
        ({"idle_s": -1}, "idle_s"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Misuse, match=message):
        options: dict[str, Any] = {"issuer": "https://op.example", "roles": ROLES, **given}
        oidc(client_id="c", **options)


async def test_a_site_whose_journal_is_another_program_s_says_so() -> None:
    sign_in = oidc("https://op.example", client_id="c", roles=ROLES)
    async with open_journal("memory:"), listening(desk("memory:").asgi(user=sign_in)) as client:
        visitor = Visitor(client.url)
        visitor.session.cookie_jar.update_cookies({"upshot-session": "unknown"})
        assert (await visitor.ask("GET", "/api/me"))[0] == 401
        await visitor.session.close()
