"""More paths: an App whose worker claims the run, and every door of its site."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from mcp import Client as McpClient

from tests.serve.kit import Client, listening
from tests.whole.paths import Outcome, Steps, killed_in
from tests.whole.shown import ShownText
from tests.whole.world import TASK, Life
from upshot import App, RunHandle
from upshot.serve import User
from upshot.serve.doors.mcp import AgentTools
from upshot.serve.site import Site, working

ANN = User("ann", ("owner",))
# How long a case may take on a machine that has other things to do; it ends one that hangs.
PATIENCE_S = 300


def app_of(life: Life, journal: Any) -> App:
    """Make the App of a life."""
    given = life.options()
    return App(life.agents(), journal=journal, approve=given["approve"], deciders=given["deciders"])


async def until_ended(life: Life, app: App, journal: Any) -> Outcome:
    """Answer questions until the run, and those that it hands over to, have ended."""
    results: list[Any] = []
    async with asyncio.timeout(PATIENCE_S):
        while not (runs := await journal.runs()):
            await asyncio.sleep(0.002)
        run = await app.run(runs[-1].run_id)
        reading = asyncio.create_task(_read(life, run))
        while not results or results[-1].status == "input_required":
            for item in await app.inbox(limit=None):
                await app.answer(item.run_id, life.answer(item.pending))
            results.append(await run.result())
        await reading
    return Outcome(results[-1], journal, [], results)


async def _read(life: Life, run: RunHandle) -> None:
    """Read a run to its end as other processes see it, in half of the cases."""
    text = ShownText(life.world.strange, lags=True)
    if life.case.seed % 2:
        async for event in run.events(deltas=True):
            text.add(event)


async def by_worker(life: Life, journal: Any) -> Outcome:
    """Submit the run, and let a worker work on it."""
    app = app_of(life, journal)
    async with app, working(app):
        await app.submit("a", life.request(), max_attempts=life.case.revisions + 1)
        return await until_ended(life, app, journal)


async def by_close(life: Life, journal: Any) -> Outcome:
    """Close a worker in the middle; another one continues."""
    app, closes = app_of(life, journal), asyncio.Event()
    stop = life.case.stop
    Steps(life, None if stop is None else stop[:2], closes.set)
    async with app, working(app):
        await app.submit("a", life.request(), max_attempts=life.case.revisions + 1)
        ends = asyncio.create_task(_until_idle(journal))
        closed = asyncio.create_task(closes.wait())
        await asyncio.wait((ends, closed), timeout=PATIENCE_S, return_when="FIRST_COMPLETED")
        ends.cancel()
        closed.cancel()
    return await _by_another(life, journal)


async def by_killed_worker(life: Life, journal: Any) -> Outcome:
    """Kill the process of a worker; another one continues."""
    killed = await killed_in(life, work_in_process)
    async with app_of(life, journal) as app:
        if not await journal.runs():
            await app.submit("a", life.request(), max_attempts=life.case.revisions + 1)
    outcome = await _by_another(life, journal)
    outcome.kills = killed
    return outcome


async def work_in_process(life: Life, journal: Any) -> None:
    """Submit the run if that has not happened, and work on it until it waits or ends."""
    app = app_of(life, journal)
    async with app, working(app):
        if not await journal.runs():
            await app.submit("a", life.request(), max_attempts=life.case.revisions + 1)
        await _until_idle(journal)


async def _until_idle(journal: Any) -> None:
    """Wait until no run is due or running."""
    async with asyncio.timeout(PATIENCE_S):
        while any(one.status in ("running", "submitted") for one in await journal.runs()):
            await asyncio.sleep(0.005)


async def _by_another(life: Life, journal: Any) -> Outcome:
    life.world.on_step = lambda kind: None
    app = app_of(life, journal)
    async with app, working(app):
        return await until_ended(life, app, journal)


def by_door(ask: Callable[[Life, Client, App], Coroutine[Any, Any, str]]) -> Any:
    """Make the path through a door of the site; *ask* returns what was said there."""

    async def path(life: Life, journal: Any) -> Outcome:
        app = app_of(life, journal)
        async with listening(app.asgi(user=lambda request: ANN)) as client:
            asking = asyncio.create_task(ask(life, client, app))
            outcome = await until_ended(life, app, journal)
            said = await asyncio.wait_for(asking, 30)
        content = outcome.result.content
        # A door may answer when the run parks, before there is any text.
        is_whole = outcome.result.success and not life.was_asked
        if is_whole and content and content.strip() not in said:
            life.world.strange.append(f"the door said {said!r}, the run {content!r}")
        return outcome

    return path


async def _post(client: Client, path: str, body: Any, **headers: str) -> list[Any]:
    """Return the JSON of a response, or of each event of a stream."""
    asking = client.session.post(
        client.url + path,
        json=body,
        headers={**client.headers, **headers},
        timeout=aiohttp.ClientTimeout(PATIENCE_S),
    )
    async with asking as response:
        text = await response.text()
        assert response.status < 300, text
    if response.content_type != "text/event-stream":
        return [json.loads(text)]
    lines = (line[5:].strip() for line in text.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def ask_responses(life: Life, client: Client, app: App) -> str:
    """``POST /v1/responses``."""
    stream = life.case.seed % 2 == 0
    body = {"model": "a", "input": TASK, "stream": stream}
    last = (await _post(client, "/v1/responses", body))[-1]
    response = last.get("response", last)
    texts = [item["content"] for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for parts in texts for part in parts)


async def ask_ui(life: Life, client: Client, app: App) -> str:
    """``POST /ui/a``; retracted text does not count."""
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": TASK}]}
    events = await _post(client, "/ui/a", {"id": "chat", "messages": [message]})
    return "".join(one["delta"] for one in events if one["type"] == "text-delta")


async def ask_ag_ui(life: Life, client: Client, app: App) -> str:
    """``POST /ag-ui/a``."""
    body: dict[str, Any] = {"threadId": "t", "runId": "r", "tools": [], "context": [], "state": {}}
    body["messages"] = [{"id": "m1", "role": "user", "content": TASK}]
    events = await _post(client, "/ag-ui/a", body)
    return "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")


async def ask_a2a(life: Life, client: Client, app: App) -> str:
    """``SendMessage`` of A2A."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": TASK}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return json.dumps(await _post(client, "/a2a/a", body, **{"a2a-version": "1.0"}))


async def ask_console(life: Life, client: Client, app: App) -> str:
    """``POST /api/runs``, and the page of the run once it has ended."""
    (begun,) = await _post(client, "/api/runs", {"agent": "a", "text": TASK})
    run = await app.run(begun["run_id"])
    result = await run.result()
    # A run that handed its request over has its own page.
    last = run.id if result is None else result.run_id
    page = f"{client.url}/api/runs/{last}"
    async with client.session.get(page, headers=client.headers) as response:
        return str(await response.json())


async def by_mcp(life: Life, journal: Any) -> Outcome:
    """Call a tool of the MCP server."""

    async def user_of(context: object) -> User:
        return ANN

    app = app_of(life, journal)
    site = Site(app, user=lambda request: ANN)
    async with app, working(app), _mcp(AgentTools(site, user_of).server) as client:
        asking = asyncio.create_task(client.call_tool("a", {"message": TASK}))
        outcome = await until_ended(life, app, journal)
        await asyncio.wait_for(asking, 30)
    return outcome


@asynccontextmanager
async def _mcp(server: Any) -> AsyncGenerator[Any]:
    async with McpClient(server, mode="auto") as client:
        yield client


DOORS = {
    "worker": by_worker,
    "close": by_close,
    "killed worker": by_killed_worker,
    "responses": by_door(ask_responses),
    "ui": by_door(ask_ui),
    "ag-ui": by_door(ask_ag_ui),
    "a2a": by_door(ask_a2a),
    "console": by_door(ask_console),
    "mcp": by_mcp,
}
SITES = ("responses", "ui", "ag-ui", "a2a", "console")
"""The doors that are reached over HTTP."""
