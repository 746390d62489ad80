"""The audit over HTTP: what users of a site do has its rows, and only auditors read them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.serve.kit import USERS, Client, listening, served
from upshot import Agent, App, ScriptedModel, ToolCall, run, tool
from upshot.journal.audit import needs_audit
from upshot.serve import User
from upshot.serve.site import Site

AUDITORS = {
    "ada": User("ada", ("audit",)),
    "bob": User("bob", ("audit",), tenant="blue"),
}


def who(request: Any) -> User | None:
    return {**USERS, **AUDITORS}.get(request.headers.get("authorization", ""))


@tool(effect="write", approval=True)
def refund(order: int, amount: int) -> str:
    """Pay money back."""
    return "paid"


@asynccontextmanager
async def desk(*amounts: int) -> AsyncGenerator[tuple[Client, App, list[str]]]:
    """A site with a run of ann and one of blue's una that wait for staff."""
    calls = [ToolCall(f"r{amount}", "refund", {"order": 7, "amount": amount}) for amount in amounts]
    agent = Agent("desk", model=ScriptedModel([calls, "Done."] * 9), tools=[refund])
    app, runs = App([agent], journal="memory:"), list[str]()
    async with served(app, user=who, work=False) as client:
        journal = await app.open()
        for owner in ({"user": "ann"}, {"user": "una", "tenant": "blue"}):
            found = await run(
                agent, "Hi", journal=journal, attributes=owner, conversation=f"c-{owner['user']}"
            )
            runs.append(found.run_id)
        yield client, app, runs


async def acts(client: Client, query: str = "", by: str = "ada") -> list[tuple[str, str, str, str]]:
    status, page = await client.by(by).get(f"/api/audit{query}")
    assert status == 200, page
    return [
        (row.get("user", ""), row["action"], row.get("run_id", ""), row["door"])
        for row in page["rows"]
    ]


async def test_what_is_seen_has_one_row_an_hour_and_one_s_own_run_has_none() -> None:
    async with desk(120) as (client, _, (run_id, _)):
        for path in ("", "/events/1", "", "/notes", ""):
            assert (await client.by("vic").get(f"/api/runs/{run_id}{path}"))[0] == 200
        assert (await client.by("vic").get("/api/conversations/c-ann"))[0] == 200
        assert (await client.by("ann").get(f"/api/runs/{run_id}"))[0] == 200
        assert (await client.by("ben").get(f"/api/runs/{run_id}"))[0] == 404
        found = await acts(client, "?kind=saw")
    # An hour may end in between.
    assert set(found) == {("vic", "see", run_id, "console"), ("vic", "see", "", "console")}
    assert len(found) <= 4


async def test_what_is_operated_has_its_row_before_it_is_done() -> None:
    async with desk(120) as (client, _, (run_id, _)):
        sam = client.by("sam")
        for path, body in (
            ("replay", {}),
            ("fork", {"at": 1, "draft": False}),
            ("note", {"name": "thumb", "value": 1}),
            ("interrupt", {"detail": "enough"}),
            ("cancel", {}),
        ):
            status, said = await sam.post(f"/api/runs/{run_id}/{path}", body)
            assert status in (200, 201), said
        # What is refused has none, nor has what an ended run is asked for.
        for act in ("cancel", "interrupt"):
            status, said = await sam.post(f"/api/runs/{run_id}/{act}")
            assert status == 400 and f"has ended: there is nothing to {act}" in str(said)
        assert (await client.by("vic").post(f"/api/runs/{run_id}/cancel"))[0] == 403
        assert (await sam.get(f"/api/runs/{run_id}/export"))[0] == 200
        found = await acts(client, "?user=sam&kind=operated")
    words = ["export", "cancel", "interrupt", "note", "fork", "replay"]
    assert found == [("sam", word, run_id, "console") for word in words]


async def test_answers_are_found_by_tool_and_argument() -> None:
    async with desk(80, 120) as (client, app, (run_id, _)):
        items = (await client.by("sam").get(f"/api/inbox?run_id={run_id}"))[1]["items"]
        for item in items:
            asked = item["pending"]
            yes = {"kind": "approve", "call_id": asked["call_id"], "digest": asked["digest"]}
            path = f"/api/runs/{run_id}/answer"
            assert (await client.by("sam").post(path, {"answers": [yes]}))[0] == 200
        query = "?tool=refund&argument=amount%3E100"
        assert await acts(client, query) == [("sam", "approve", run_id, "console")]
        [row] = (await client.by("ada").get(f"/api/audit{query}"))[1]["rows"]
        assert row["arguments"] == {"order": 7, "amount": 120}
        assert row["address"] == "127.0.0.1"
        status, text = await client.by("ada").get(f"/api/audit/lines{query}")
        assert (status, [json.loads(line) for line in text.splitlines()]) == (200, [row])
        newest = (await needs_audit(await app.open()).audit(limit=1)).rows[0]
        assert (newest.user, newest.action, newest.subject) == ("ada", "export", "audit")
        status, said = await client.by("ada").get("/api/audit?argument=amount")
        assert (status, "give a condition" in said["error"]) == (400, True)


async def test_only_auditors_read_it_and_those_of_a_tenant_their_part() -> None:
    async with desk(120) as (client, _, (of_ann, of_una)):
        for run_id in (of_ann, of_una):
            await client.by("vic").get(f"/api/runs/{run_id}")
        for name in ("ann", "vic", "sam"):
            for path in ("", "/lines"):
                status, said = await client.by(name).get(f"/api/audit{path}")
                assert (status, said["error"]) == (
                    403,
                    "the audit needs the role 'audit' or 'owner'",
                )
        assert {row[2] for row in await acts(client)} >= {of_ann, of_una}
        assert [row[2] for row in await acts(client, by="bob")] == [of_una]
        assert [row[2] for row in await acts(client, by="tia")] == [of_una]
        assert (await client.by("ada").get("/api/me"))[1]["audit"] is True
        assert (await client.by("sam").get("/api/me"))[1].get("audit") in (None, False)


async def test_a_protocol_is_named_as_the_door() -> None:
    async with desk(120) as (client, _, (run_id, _)):
        assert (await client.by("vic").get(f"/v1/responses/{run_id}"))[0] == 200
        assert await acts(client) == [("vic", "see", run_id, "responses")]


async def test_a_stream_ends_when_the_user_of_its_request_is_another() -> None:
    found = [User("vic", ("view",))]
    app = App([Agent("desk", model=ScriptedModel(["Done."]))], journal="memory:")
    site = Site(app, user=lambda _: found[0], work=False)
    async with listening(site.asgi()) as client:
        async with client.session.get(f"{client.url}/api/live") as stream:
            await stream.content.readuntil(b"\n\n")
            # Nothing has changed: it stays open.
            site.changes.notify()
            assert (await client.get("/api/me"))[0] == 200
            assert not stream.content.at_eof()
            found[0] = User("vic", ("own",))
            site.changes.notify()
            await stream.content.read()
        assert (await client.get("/api/me"))[1]["user"]["roles"] == ["own"]
