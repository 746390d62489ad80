"""What a browser reaches of runs of another, and from pages of elsewhere: nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.async_api import expect
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.browser_real.shop import make_shop
from tests.serve.kit import Client, listening, served, who
from upshot import App

ELSEWHERE, REBOUND = "elsewhere.example", "rebound.example"
# Is in the request of each run of hers, and so in all that shows one.
MARK = "Zanzibar"
NOWHERE = {"run": "run-0000000000000000", "id": "none", "item": "none", "other": "none"}
# What a request changes something with, where its body must be right before its ids are looked at.
BODIES: dict[str, Any] = {
    "answer": {"answers": []},
    "{id}": {"applied": False},
    "fork": {"at": 1},
    "replay": {},
    "later": {},
    "assign": {"to": "ben"},
    "note": {"name": "thumb", "value": 1},
}


class Place(NamedTuple):
    """A shop where ann has a run that waits, one that ended, a conversation and a grant.

    Attributes:
        app: The shop.
        client: A client of it that is nobody.
        ids: Hers, by the names that routes have for them.
        routes: The method and the path of each route of the pages and of the API.
        reached: The origins of the requests that a route took up, where they named one.
    """

    app: App
    client: Client
    ids: dict[str, dict[str, str]]
    routes: list[tuple[str, str]]
    reached: set[str]


def routes_of(app: App) -> Iterator[tuple[str, str]]:
    for route in app.asgi(user=who).routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, route.path_format


@pytest.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place]:
    app = make_shop(str(tmp_path / "runs.db"))
    reached: set[str] = set()

    def asks(request: Any) -> Any:
        reached.update(filter(None, [request.headers.get("origin")]))
        return who(request)

    async with served(app, user=asks, rate=100_000) as client:
        ann, oz = client.by("ann"), client.by("oz")

        async def submit(text: str, conversation: str = "") -> str:
            given = {"agent": "clerk", "text": text, "conversation": conversation}
            return (await ann.post("/api/runs", given))[1]["run_id"]

        async def settled(run: str) -> None:
            await (await app.run(run)).result()

        async def asked(run: str, tool: str) -> Any:
            await settled(run)
            (item,) = await app.inbox(run_id=run, tool=tool)
            return item.pending

        ended = await submit(f"What does the oak table of {MARK} cost?", f"talk-{MARK}")
        await settled(ended)
        run = await submit(f"Settle the case of {MARK}.")
        call = await asked(run, "refund")
        answer = {"kind": "approve", "call_id": call.id, "digest": call.digest, "always": "tool"}
        assert (await oz.post(f"/api/runs/{run}/answer", {"answers": [answer]}))[0] == 200
        item = (await asked(run, "delete_customer")).id
        (grant,) = await app.grants()
        await settled(await submit("Send customer 7 the invoice again."))
        (doubt,) = await app.effects(state="unknown")
        (worker,) = (await oz.get("/api/workers"))[1]["workers"]
        hers = {"run": run, "other": ended, "item": item, "agent": "clerk"}
        ids = {"run": hers, "grant": {"id": grant.id}, "talk": {"id": f"talk-{MARK}"}}
        ids["effect"] = {"id": doubt.id}
        ids["worker"] = {"id": worker["id"]}
        yield Place(app, client, ids, list(routes_of(app)), reached)


def filled(place: Place, path: str) -> tuple[str, str]:
    """A path with ids of hers, and the same with ids of nothing."""
    kinds = {"grants": "grant", "conversations": "talk", "effects": "effect", "workers": "worker"}
    kind = next((kinds[word] for word in path.split("/") if word in kinds), "run")
    hers = {
        **NOWHERE,
        "seq": "1",
        "at": "0",
        "name": "console.js",
        "agent": "clerk",
        "chat": "none",
        "token": "none",
    }
    return path.format(**{**hers, **place.ids["run"], **place.ids[kind]}), path.format(**hers)


def body_of(path: str) -> Any:
    return BODIES.get(path.rpartition("/")[2], {})


SEND = """async ([method, path, body]) => {
  const headers = { "x-upshot": "1", "content-type": "application/json" };
  const given = method === "GET" ? {} : { body: JSON.stringify(body) };
  const reply = await fetch(path, { method, headers, ...given });
  if (reply.headers.get("content-type")?.startsWith("text/event-stream")) {
    await reply.body.cancel();
    return [reply.status, ""];
  }
  return [reply.status, await reply.text()];
}"""


async def facts(place: Place) -> Any:
    """What a stranger could have changed."""
    runs = await place.app.runs(limit=None)
    seqs = [(await (await place.app.run(run.run_id)).state()).seq for run in runs]
    known = await place.app.grants(), await place.app.inbox(), await place.app.effects()
    return [run.run_id for run in runs], seqs, known


@pytest.mark.parametrize("name", ["ben", "una", "tia"])
async def test_every_route_with_an_id_of_hers_is_404_to_another_and_tells_him_nothing(
    place: Place, page_of: Any, name: str
) -> None:
    page = await page_of(place.client.url, name)
    before = await facts(place)
    swapped = [(method, path) for method, path in place.routes if "{" in path]
    swapped = [(method, path) for method, path in swapped if path.startswith("/api/")]
    assert len(swapped) > 15
    for method, path in swapped:
        hers, nowhere = filled(place, path)
        status, said = await page.evaluate(SEND, [method, hers, body_of(path)])
        other, told = await page.evaluate(SEND, [method, nowhere, body_of(path)])
        # A worker belongs to no user, so there is none whose id could be guessed: a user who may
        # not drain gets 403 before the id is looked at, the same for a worker that is there.
        refusal = 403 if "/workers/" in path else 404
        assert status == other == refusal, (method, path, status, other, said)
        assert MARK not in said.replace(f"talk-{MARK}", "")
        assert len(json.loads(said)) == len(json.loads(told)) == 1
    # One id of his own before one of hers.
    _, made = await place.client.by(name).post("/api/runs", {"agent": "clerk", "text": "Hello"})
    own, hers = made["run_id"], place.ids["run"]["other"]
    for path in (f"{own}/compare/{hers}", f"{hers}/compare/{own}"):
        status, said = await page.evaluate(SEND, ["GET", f"/api/runs/{path}", None])
        assert (status, MARK in said) == (404, False)
    for method, path in place.routes:
        if method == "GET" and "{" not in path and path not in ("/api/live", "/mcp"):
            status, said = await page.evaluate(SEND, [method, path, None])
            assert MARK not in said, path
            assert not any(id in said for id in place.ids["run"].values() if id != "clerk"), path
    runs, seqs, *rest = await facts(place)
    kept = [(id, seq) for id, seq in zip(runs, seqs, strict=True) if id != own]
    assert kept == list(zip(*before[:2], strict=True)) and rest == [*before[2:]]


async def test_the_pages_of_hers_say_not_there_to_another(place: Place, page_of: Any) -> None:
    run, other = place.ids["run"]["run"], place.ids["run"]["other"]
    page = await page_of(place.client.url, "ben")
    came: list[str] = []
    page.on("response", lambda reply: came.append(f"{reply.status} {reply.url}"))
    for path in (f"/runs/{run}", f"/runs/{run}/compare/{other}", f"/conversations/talk-{MARK}"):
        await page.goto(place.client.url + path)
        await expect(page.locator("main")).to_contain_text("Not there")
        assert MARK not in (await page.locator("main").inner_text()).replace(f"talk-{MARK}", "")
        assert "refund" not in await page.content()
    for path in ("/", "/runs", "/inbox", "/conversations"):
        await page.goto(place.client.url + path)
        await page.wait_for_selector("main:not([aria-busy]) > *")
        assert MARK not in await page.content()
    assert any(one.startswith("404") for one in came)


@asynccontextmanager
async def foreign() -> AsyncGenerator[str]:
    """A site of somebody else."""

    async def page(_: Any) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>Elsewhere</title><p>A prize for you.")

    async with listening(Starlette(routes=[Route("/", page)])) as client:
        yield f"http://{ELSEWHERE}:{client.url.rpartition(':')[2]}"


# All ways in which a page can have a browser send a request; gives what it got by them.
TRY = """async ([method, url, body]) => {
  const got = [];
  const text = method === "GET" ? {} : { body: JSON.stringify(body) };
  const tried = [
    { method, ...text, credentials: "include", headers: { "x-upshot": "1" } },
    { method, ...text, credentials: "include" },
    { method, ...text, credentials: "include", mode: "no-cors" },
  ];
  for (const given of tried) {
    try {
      const reply = await fetch(url, given);
      got.push(`${given.mode ?? "cors"} ${reply.type} ${reply.status}`);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
  if (method !== "GET") return got;
  const one = (make) => new Promise((done) => {
    const node = make((what) => { node.remove?.(); node.close?.(); done(what && got.push(what)); });
  });
  for (const name of ["img", "script", "link"]) {
    await one((end) => {
      const node = document.createElement(name);
      node.onload = () => end(`${name} was loaded`);
      node.onerror = () => end("");
      if (name === "link") node.rel = "stylesheet";
      node[name === "link" ? "href" : "src"] = url;
      document.head.append(node);
      return node;
    });
  }
  await one((end) => {
    const source = new EventSource(url, { withCredentials: true });
    source.onopen = source.onmessage = () => end("an EventSource was open");
    source.onerror = () => end("");
    return source;
  });
  return got;
}"""

FORM = """([url]) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.name = "into";
  const form = document.createElement("form");
  Object.assign(form, { action: url, method: "post", enctype: "text/plain", target: "into" });
  const field = document.createElement("input");
  Object.assign(field, { name: '{"agent":"clerk","text":"', value: 'Hello"}' });
  form.append(field);
  document.body.append(frame, form);
  frame.onload = () => {
    let seen = "";
    try { seen = frame.contentDocument.body.textContent; } catch { /* Another's. */ }
    frame.remove();
    form.remove();
    done(seen);
  };
  form.submit();
})"""


async def test_a_page_of_elsewhere_gets_nothing_and_changes_nothing_at_any_route(
    place: Place, page_of: Any
) -> None:
    before = await facts(place)
    async with foreign() as url:
        # Who is signed in with all that he may do.
        page = await page_of(url, "oz")
        for method, path in place.routes:
            hers, _ = filled(place, path)
            got = await page.evaluate(TRY, [method, place.client.url + hers, body_of(path)])
            assert got == [], (method, path)
            if method == "POST":
                assert await page.evaluate(FORM, [place.client.url + hers]) == "", path
    # What a browser sends without an origin it gives to no page of elsewhere.
    assert place.reached == set()
    assert await facts(place) == before


async def test_a_page_under_a_name_that_was_made_to_point_here_reaches_nothing(
    place: Place, page_of: Any
) -> None:
    before = await facts(place)
    port = place.client.url.rpartition(":")[2]
    page = await page_of(f"http://{REBOUND}:{port}/", "oz")
    assert "is not reached as" in await page.content()
    for method, path in place.routes:
        hers, _ = filled(place, path)
        status, said = await page.evaluate(SEND, [method, hers, body_of(path)])
        assert status == 421 and MARK not in said.replace(f"talk-{MARK}", ""), (method, path)
    assert await facts(place) == before
