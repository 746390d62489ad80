"""Access tokens of an issuer, a process of its own, that the gateway verifies itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from subprocess import PIPE
from typing import Any

import jwt
import pytest

from tests.gateway.kit import REFUND, ROOT, Place, serving
from tests.gateway.test_fronts import CALL, HELLO, owners_of_effects, send, session_of
from tests.processes import start_python
from upshot import Agent, OAuth, ScriptedModel, ToolCall, open_mcp, run
from upshot.errors import Misuse
from upshot.gateway import access_tokens, read_config, serve_http

RESOURCE = "https://tools.example/mcp"


@asynccontextmanager
async def issuing() -> AsyncGenerator[str]:
    """Run an issuer, and yield its address."""
    process = start_python("-m", "tests.gateway.issuer", stdout=PIPE, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        yield (await asyncio.to_thread(process.stdout.readline)).strip()
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


async def minted(issuer: str, **claims: Any) -> dict[str, str]:
    """The header of a request with a token of these claims."""
    given = {"sub": "ann", "aud": RESOURCE, **claims}
    made = await send(f"{issuer}/mint", given)
    return {"Authorization": f"Bearer {made.text}"}


def write(place: Place, *issuers: str, **more: Any) -> None:
    oauth = {"resource": RESOURCE, "servers": [*issuers], **more}
    place.write({"shop/refund": {**REFUND, "scope": "tenant"}}, oauth=oauth)


async def test_calls_belong_to_the_subject_of_a_token(place: Place):
    async with issuing() as issuer:
        write(place, issuer, tenant="org")
        ann = await minted(issuer, org="acme")
        async with place.over_http() as url:
            theirs = await session_of(url, **ann)
            assert (await send(url, CALL, **theirs, **ann)).status_code == 200
    assert await owners_of_effects(place) == [("ann", "acme")]


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example"},
        {"exp": 1},
        {"sub": ""},
        {"sub": 5},
        {"iss": "https://eve.example"},
        {"cnf": {"jkt": "x"}},
        {"org": ""},
        {"nbf": 32503680000},
    ],
    ids=lambda one: next(iter(one)),
)
async def test_a_token_that_is_not_for_the_gateway_is_nobody_s(place: Place, claims: Any):
    async with issuing() as issuer:
        write(place, issuer, tenant="org")
        async with place.over_http() as url:
            good = await send(url, HELLO, **await minted(issuer, org="acme"))
            refused = await send(url, HELLO, **await minted(issuer, **{"org": "acme", **claims}))
    assert (good.status_code, refused.status_code) == (200, 401)
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


async def test_a_token_that_its_issuer_did_not_sign_is_nobody_s(place: Place):
    async with issuing() as issuer:
        write(place, issuer)
        claims = {"sub": "ann", "aud": RESOURCE, "iss": issuer, "exp": 32503680000}
        public = (await send(f"{issuer}/keys")).json()["keys"][0]
        forged = [
            jwt.encode(claims, "k" * 32, algorithm="HS256", headers={"kid": public["kid"]}),
            jwt.encode(claims, public["x"] + public["y"], algorithm="HS256"),
            jwt.encode(claims, None, algorithm="none"),
            "no.to.ken",
        ]
        async with place.over_http() as url:
            for one in forged:
                said = await send(url, HELLO, Authorization=f"Bearer {one}")
                assert said.status_code == 401


async def test_a_client_learns_which_scopes_it_needs(place: Place):
    async with issuing() as issuer:
        write(place, issuer, scopes=["tools", "refunds"])
        async with place.over_http() as url:
            without = await send(url, HELLO)
            few = await send(url, HELLO, **await minted(issuer, scope="tools"))
            all_ = await send(url, HELLO, **await minted(issuer, scope="a refunds tools"))
            listed = await send(url, HELLO, **await minted(issuer, scp=["refunds", "tools"]))
            path = "/.well-known/oauth-protected-resource/mcp"
            metadata = (await send(url.replace("/mcp", path))).json()
    assert (without.status_code, few.status_code) == (401, 403)
    assert all_.status_code == listed.status_code == 200
    assert 'scope="tools refunds"' in without.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in few.headers["www-authenticate"]
    assert metadata["scopes_supported"] == ["tools", "refunds"]


async def test_a_new_key_is_read_and_an_issuer_that_is_away_is_not_missed(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(access_tokens, "_LEAST_S", 0.0)
    async with place_over_http(place) as (issuer, stop, url):
        old = await minted(issuer)
        assert (await send(url, HELLO, **old)).status_code == 200
        await send(f"{issuer}/rotate", {})
        new = await minted(issuer)
        assert (await send(url, HELLO, **new)).status_code == 200
        assert (await send(url, HELLO, **old)).status_code == 401
        await stop()
        monkeypatch.setattr(access_tokens, "_KEEP_S", 0.0)
        assert (await send(url, HELLO, **new)).status_code == 200


@asynccontextmanager
async def place_over_http(place: Place) -> AsyncGenerator[Any]:
    """An issuer, a function that ends it, and the address of a gateway that knows it."""
    opened = issuing()
    issuer = await opened.__aenter__()
    is_open = [True]

    async def stop() -> None:
        if is_open and is_open.pop():
            await opened.__aexit__(None, None, None)

    try:
        write(place, issuer)
        async with place.over_http() as url:
            yield issuer, stop, url
    finally:
        await stop()


async def test_without_the_keys_of_an_issuer_nobody_is_told_to_sign_in_again(place: Place):
    async with place_over_http(place) as (issuer, stop, url):
        ann = await minted(issuer)
        await stop()
        said = await send(url, HELLO, **ann)
    assert said.status_code == 503
    assert said.json() == {"error": f"the keys of {issuer} cannot be read"}


async def test_users_of_two_issuers_are_two_users(place: Place):
    async with issuing() as one, issuing() as two:
        write(place, one, two)
        async with place.over_http() as url:
            for issuer in (one, two):
                ann = await minted(issuer)
                theirs = await session_of(url, **ann)
                assert (await send(url, CALL, **theirs, **ann)).status_code == 200
    users = {user for user, _ in await owners_of_effects(place)}
    assert users <= {f"{one}#ann", f"{two}#ann"} and users


async def test_open_mcp_signs_in_at_the_issuer_by_itself(place: Place):
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    async with issuing() as issuer:
        oauth = {"resource": url, "servers": [issuer], "scopes": ["refunds"]}
        place.write(oauth=oauth)
        auth = OAuth(grant="client_credentials", client_id="desk", client_secret="of-the-desk")
        async with (
            serve_http(read_config(str(place.file)), "", []) as app,
            serving(app, listening=listening),
            open_mcp("shop", url=url, auth=auth) as shop,
        ):
            call = ToolCall("c", "shop_refund", {"order_id": "7"})
            agent = Agent("a", model=ScriptedModel([call, "Done."]), tools=[shop])
            result = await run(agent, "Refund order 7.")
    assert result.tool_outcomes[0].output == {"result": "re_7"}
    assert await owners_of_effects(place) == [("clerk", "")]


def test_one_thing_names_the_user(place: Place):
    place.write(oauth={"resource": RESOURCE, "servers": "https://a"}, user_header="X-User")
    with pytest.raises(Misuse, match="both oauth and user_header"):
        read_config(str(place.file))
