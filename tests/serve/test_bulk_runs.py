"""Acts on several runs at once: each has its own permission and its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.processes import start_python
from tests.serve.kit import Client, served
from upshot import Agent, App, Request, ScriptedModel, ScriptEngine, ToolCall, tool
from upshot.contract.events import Event, RunResumed
from upshot.journal import MemoryJournal
from upshot.journal.audit import needs_audit


@tool(effect="write", approval=True)
def pay(order: int) -> str:
    """Pay."""
    return "paid"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    model = ScriptedModel([[ToolCall("p", "pay", {"order": 1})]] * 99)
    echo = Agent("echo", model=ScriptedModel(["Hello."] * 99))
    app = App([Agent("desk", model=model, tools=[pay]), echo], journal=str(tmp_path / "runs.db"))
    async with served(app, lab=str(tmp_path / "lab.db"), datasets=str(tmp_path / "data")) as client:
        yield app, client


async def begin(client: Client, user: str, agent: str = "desk") -> str:
    """A run of a user that waits, or has ended."""
    status, begun = await client.by(user).post("/api/runs", {"agent": agent, "text": "Go."})
    assert status == 201
    return begun["run_id"]


async def parked(app: App, *ids: str) -> None:
    for id in ids:
        await (await app.run(id)).result(60)


async def until_resumed(events: AsyncIterator[Event]) -> Event:
    """Return the first event of a second session."""
    async with asyncio.timeout(20):
        return await anext(one async for one in events if isinstance(one, RunResumed))


def errors(done: Any) -> dict[str, str]:
    return {one["run_id"]: one.get("error", "") for one in done["outcomes"]}


async def test_each_run_is_canceled_or_says_why_not(site: Any) -> None:
    app, client = site
    ids = [
        await begin(client, "ann"),
        await begin(client, "ben"),
        await begin(client, "ann", "echo"),
    ]
    await parked(app, *ids)
    body = {"action": "cancel", "runs": [*ids, "none", ids[0]]}
    status, done = await client.by("ann").post("/api/bulk", body)
    assert status == 200
    found = errors(done)
    # In the order of the request, and each once.
    assert list(found) == [*ids, "none"]
    assert found[ids[0]] == ""
    assert found[ids[1]] == f"there is no run {ids[1]!r}"
    assert "has ended: there is nothing to cancel" in found[ids[2]]
    assert found["none"] == "there is no run 'none'"
    statuses = {run.run_id: run.status for run in await app.runs()}
    assert [statuses[id] for id in ids] == ["canceled", "input_required", "completed"]


class Late(MemoryJournal):
    """Lets a run end just before a cancel is stored."""

    end: Any = None

    async def place_stop(self, stop: Any) -> None:
        await self.end()
        await super().place_stop(stop)


async def test_a_run_that_ends_at_that_moment_is_not_called_canceled() -> None:
    go = asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> str:
        await go.wait()
        return "Done."

    async def end() -> None:
        go.set()
        await parked(app, *ids)

    journal = Late()
    journal.end = end
    app = App([Agent[Any]("a", engine=ScriptEngine(work))], journal=journal)
    async with served(app) as client:
        ids = [await begin(client, "ann", "a"), await begin(client, "ann", "a")]
        ann, body = client.by("ann"), {"action": "cancel", "runs": ids}
        status, done = await ann.post("/api/bulk", body)
        said = {id: f"run {id} was not canceled: it has ended as completed" for id in ids}
        assert (status, errors(done)) == (200, said)


BLOCKED = """
import asyncio, sys
from upshot import Agent, Request, ScriptEngine, open_journal, run

async def block(run, host, board):
    await log.flush()
    await asyncio.sleep(0)
    if run.id == "r2":
        print("working", flush=True)
        sys.stdin.readline()
    await asyncio.Event().wait()

async def main():
    global log
    agent = Agent("a", engine=ScriptEngine(block))
    async with open_journal(sys.argv[1]) as log:
        runs = [run(agent, Request("?", run_id=id), journal=log) for id in ("r1", "r2")]
        await asyncio.gather(*runs)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_runs_of_a_process_that_does_not_respond_are_not_called_canceled(
    tmp_path: Path,
) -> None:
    program, journal = tmp_path / "blocked.py", str(tmp_path / "runs.db")
    program.write_text(BLOCKED)
    app = App([Agent[Any]("a", model=ScriptedModel([]))], journal=journal)
    process: Any = start_python(program, journal, stdin=PIPE, stdout=PIPE, text=True)
    with process as blocked, blocked.stdin:
        assert blocked.stdout.readline() == "working\n"
        async with served(app) as client, asyncio.timeout(18):
            # Both wait for the process at the same time.
            body = {"action": "cancel", "runs": ["r1", "r2"]}
            _, done = await client.by("sam").post("/api/bulk", body)
            assert all("does not respond" in errors(done)[id] for id in ("r1", "r2")), done
            blocked.stdin.write("\n")
            blocked.stdin.flush()
            await parked(app, "r1", "r2")
            assert {run.status for run in await app.runs()} == {"canceled"}


@pytest.mark.parametrize("act", ["cancel", "interrupt", "resume", "bulk"])
async def test_a_request_that_was_handed_over_is_stopped_where_it_is(
    tmp_path: Path, act: str
) -> None:
    call = [ToolCall("p", "pay", {"order": 1})]
    bo = Agent("bo", model=ScriptedModel([call, "Done."]), tools=[pay])
    front = Agent("a", model=ScriptedModel([[ToolCall("h", "transfer_to_bo", {})]]), handoffs=[bo])
    app = App([front], journal=str(tmp_path / "runs.db"))
    async with served(app) as client:
        await app.submit(front, Request("Go.", run_id="r"), attributes={"user": "ann"})
        await parked(app, "r")
        sam, body = client.by("sam"), {"action": "cancel", "runs": ["r"]}
        path = "/api/bulk" if act == "bulk" else f"/api/runs/r/{act}"
        status, said = await sam.post(path, body if act == "bulk" else {})
        assert status == 200 and not errors({"outcomes": (), **said}).get("r"), said
        if act in ("cancel", "bulk"):
            statuses = {run.agent_id: run.status for run in await app.runs()}
            assert statuses == {"a": "completed", "bo": "canceled"}
        if act == "resume":
            # The parked run works again, and asks the same.
            async with aclosing((await app.run("r")).events()) as events:
                assert (await until_resumed(events)).run_id != "r"
        else:
            await (await app.run("r")).cancel()
            status, said = await sam.post("/api/runs/r/interrupt")
            assert status == 400 and "run r has ended: there is nothing to interrupt" in str(said)


async def test_who_may_only_see_changes_nothing(site: Any) -> None:
    app, client = site
    id = await begin(client, "ann")
    await parked(app, id)
    for action in ("cancel", "resume", "note"):
        body = {"action": action, "runs": [id], "name": "label", "value": "bad"}
        _, done = await client.by("vic").post("/api/bulk", body)
        assert "that takes the role" in errors(done)[id], action
    assert (await app.runs())[0].status == "input_required"
    assert await (await app.run(id)).notes() == []


async def test_runs_get_a_label_and_are_listed_with_it(site: Any) -> None:
    app, client = site
    ids = [await begin(client, "ann"), await begin(client, "ben")]
    await parked(app, *ids)
    body = {"action": "note", "runs": ids, "name": "label", "value": "checked"}
    _, done = await client.by("sam").post("/api/bulk", body)
    assert errors(done) == dict.fromkeys(ids, "")
    _, listed = await client.by("sam").get("/api/runs?notes=true")
    assert {id: one[0]["value"] for id, one in listed["notes"].items()} == dict.fromkeys(
        ids, "checked"
    )
    _, listed = await client.by("sam").get("/api/runs")
    assert "notes" not in listed


async def test_runs_are_resumed_and_collected(site: Any, tmp_path: Path) -> None:
    app, client = site
    ids = [await begin(client, "ann"), await begin(client, "ann", "echo")]
    await parked(app, *ids)
    _, done = await client.by("oz").post("/api/bulk", {"action": "resume", "runs": ids})
    assert errors(done)[ids[0]] == "" and "has ended" in errors(done)[ids[1]]
    await client.by("oz").post("/api/bulk", {"action": "cancel", "runs": ids[1:]})
    # What is refused is no act.
    rows = (await needs_audit(await app.open()).audit(kind="operated")).rows
    assert [(row.action, row.run_id) for row in rows] == [("resume", ids[0])]
    body = {"action": "collect", "runs": [*ids, "none"], "name": "bad"}
    _, done = await client.by("oz").post("/api/bulk", body)
    assert errors(done) == {**dict.fromkeys(ids, ""), "none": "there is no run 'none'"}
    assert len((tmp_path / "data" / "bad.jsonl").read_text().splitlines()) >= 2


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"action": "erase", "runs": ["r"]}, "erase"),
        ({"action": "cancel", "runs": []}, "runs"),
        ({"action": "cancel", "runs": ["r"] * 101}, "runs"),
        ({"action": "note", "runs": ["r"]}, "name is empty: give the name of the note"),
        ({"action": "collect", "runs": ["r"]}, "name is empty: give the name of the dataset"),
    ],
)
async def test_what_cannot_be_done_is_refused(site: Any, body: Any, says: str) -> None:
    _, client = site
    status, told = await client.by("oz").post("/api/bulk", body)
    assert status == 400 and says in told["error"]
