"""Who sees what, who may do what, and what is refused at every route."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.kit import Client, served
from upshot import Agent, App, Misuse, ModelResponse, ScriptedModel, Text, ToolCall, tool
from upshot.serve import console


@tool(effect="write", approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return "refunded"


class Desk:
    """Asks for a refund where one is wanted, and then says that it is done."""

    async def call(self, request: Any) -> ModelResponse:
        if request.messages[-1].role == "tool":
            return ModelResponse(content="Your money is on its way.")
        if "refund" in str(request.messages[-1].content):
            return ModelResponse(tool_calls=(ToolCall("r", "refund", {"order": 7}),))
        return ModelResponse(parts=(Text("Hello."),))


def desk(path: Path) -> App:
    model: Any = Desk()
    agent = Agent("desk", model=model, tools=[refund])
    return App([agent], journal=str(path / "runs.db"), version="1")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Client]:
    async with served(desk(tmp_path)) as client:
        yield client


async def waiting(client: Client) -> tuple[str, dict[str, Any]]:
    """A run of a user that waits for approval, and what it asks."""
    _, said = await client.post("/api/runs", {"agent": "desk", "text": "refund order 7"})
    sam = client.by("sam")
    while True:
        _, inbox = await sam.get(f"/api/inbox?run_id={said['run_id']}")
        for item in inbox["items"]:
            return said["run_id"], item["pending"]


def approve(pending: dict[str, Any], **more: str) -> dict[str, Any]:
    answer = {"kind": "approve", "call_id": pending["call_id"], "digest": pending["digest"]}
    return {"answers": [{**answer, **more}]}


def test_an_app_without_users_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="needs user="):
        desk(tmp_path).asgi()


async def test_a_run_is_submitted_worked_on_and_answered(site: Client) -> None:
    ann, sam = site.by("ann"), site.by("sam")
    run_id, pending = await waiting(ann)
    assert pending["arguments"] == {"order": 7}
    # By whom it is comes from who asks, whatever the body says.
    status, said = await sam.post(f"/api/runs/{run_id}/answer", approve(pending, by="ann"))
    assert (status, said[0]["answer"]["by"]) == (200, "sam")
    no = {"answers": [{"kind": "deny", "call_id": "r", "digest": pending["digest"]}]}
    status, said = await site.by("oz").post(f"/api/runs/{run_id}/answer", no)
    assert (status, said[0]["by"]) == (200, "sam") and said[0]["reason"]


async def test_what_waits_for_staff_is_not_the_users_to_answer(site: Client) -> None:
    ann = site.by("ann")
    run_id, pending = await waiting(ann)
    status, said = await ann.post(f"/api/runs/{run_id}/answer", approve(pending))
    assert status == 403 and "waits for staff" in said["error"]
    status, _ = await site.by("vic").post(f"/api/runs/{run_id}/answer", approve(pending))
    assert status == 403
    _, said = await site.by("sam").get("/api/inbox")
    assert len(said["items"]) == 1


# What each route gives whoever is not to see a run, with what it is sent.
OF_A_RUN: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("GET", "/view", None),
    ("GET", "/events", None),
    ("GET", "/events/1", None),
    ("POST", "/answer", {"answers": [{"kind": "deny", "call_id": "r"}]}),
    ("POST", "/interrupt", {}),
    ("POST", "/cancel", {}),
    ("POST", "/resume", {}),
    ("POST", "/fork", {"at": 1}),
    ("POST", "/replay", {}),
    ("GET", "/compare/run-0000000000000000", None),
    ("GET", "/artifacts/a", None),
    ("GET", "/export", None),
    ("POST", "/note", {"name": "thumb", "value": 1}),
]


@pytest.mark.parametrize("name", ["ben", "una", "tia"])
async def test_the_run_of_another_is_as_if_it_were_not_there(site: Client, name: str) -> None:
    run_id, _ = await waiting(site.by("ann"))
    client = site.by(name)
    for method, path, body in OF_A_RUN:
        there = await client.ask(method, f"/api/runs/{run_id}{path}", body)
        nowhere = await client.ask(method, f"/api/runs/run-0000000000000000{path}", body)
        assert there[0] == nowhere[0] == 404, path
        assert there[1]["error"].replace(run_id, "run-0000000000000000") == nowhere[1]["error"]
    _, inbox = await client.get("/api/inbox")
    _, me = await client.get("/api/me")
    assert (inbox["items"], me["waits"]) == ([], 0)


async def test_whoever_has_no_role_reaches_no_log(site: Client) -> None:
    run_id, _ = await waiting(site.by("ann"))
    for method, path in ROUTES:
        asked = path.replace("/x", f"/{run_id}")
        status, said = await site.by("cal").ask(method, asked, {})
        assert status == 403 and "needs a role: 'own'" in said["error"], path


async def test_a_turn_in_the_conversation_of_another_is_an_operators(site: Client) -> None:
    new = {"agent": "desk", "text": "hello", "conversation": "c"}
    _, of_ann = await site.by("ann").post("/api/runs", new)
    new["conversation"] = of_ann["conversation"]
    assert (await site.by("vic").post("/api/runs", new))[0] == 403
    status, said = await site.by("sam").post("/api/runs", new)
    assert status == 201 and said["conversation"] == of_ann["conversation"]
    _, run = await site.by("ann").get("/api/runs?conversation=c")
    assert {one["run_id"] for one in run["runs"]} == {of_ann["run_id"], said["run_id"]}


async def test_two_who_choose_one_name_have_a_conversation_each(site: Client) -> None:
    new = {"agent": "desk", "text": "hello", "conversation": "c", "key": "k"}
    names = ["ann", "ben", "una"] * 3
    found = await asyncio.gather(*(site.by(name).post("/api/runs", new) for name in names))
    assert {status for status, _ in found} == {201}
    begun = {(name, one["run_id"]) for name, (_, one) in zip(names, found, strict=True)}
    assert len(begun) == 3
    assert [one["conversation"] for _, one in found][:3] == ["c~ann", "c~ben", "c~una~blue"]


async def test_what_is_anothers_takes_no_place_on_a_page(site: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(console, "_PAGE", 2)
    monkeypatch.setattr("upshot.serve.inbox._ITEMS", 2)
    ann = {"agent": "desk", "text": "hello", "conversation": "of-ann"}
    await site.by("ann").post("/api/runs", ann)
    for _ in range(2):
        await waiting(site.by("ann"))
    for number in range(3):
        new = {"agent": "desk", "text": "hello", "conversation": f"of-ben-{number}"}
        await site.by("ben").post("/api/runs", new)
        await waiting(site.by("ben"))
    _, said = await site.by("ann").get("/api/conversations")
    assert [one["id"] for one in said["conversations"]] == ["of-ann~ann"]
    _, inbox = await site.by("ann").get("/api/inbox")
    assert len(inbox["items"]) == 2
    assert (await site.by("ann").get("/api/me"))[1]["waits"] == 2
    assert (await site.by("tia").get("/api/me"))[1]["waits"] == 0
    assert (await site.by("oz").get("/api/me"))[1]["waits"] == 5


async def test_a_conversation_is_its_first_users(site: Client) -> None:
    new = {"agent": "desk", "text": "hello", "conversation": "c"}
    _, begun = await site.by("ann").post("/api/runs", new)
    id = begun["conversation"]
    for name, status in (("ann", 200), ("vic", 200), ("ben", 404), ("tia", 404)):
        assert (await site.by(name).get(f"/api/conversations/{id}"))[0] == status
        _, said = await site.by(name).get("/api/conversations")
        assert [one["id"] for one in said["conversations"]] == ([id] if status == 200 else [])
    # Its first user may go on calling it by the name that was chosen.
    assert (await site.by("ann").get("/api/conversations/c"))[1]["id"] == id
    assert (await site.by("ben").get("/api/conversations/c"))[0] == 404


async def test_a_list_has_the_runs_that_a_user_may_see(site: Client) -> None:
    for name in ("ann", "ben", "una"):
        await site.by(name).post("/api/runs", {"agent": "desk", "text": f"hello of {name}"})

    async def seen(name: str, query: str = "") -> set[str]:
        status, said = await site.by(name).get(f"/api/runs{query}")
        assert status == 200, said
        return {one["owner"] for one in said["runs"]}

    assert await seen("ann") == await seen("ann", "?owner=ben") == {"ann"}
    assert await seen("vic") == {"ann", "ben", "una"}
    assert await seen("tia") == await seen("una") == {"una"}
    assert await seen("vic", "?text=OF BEN&since=2020-01-01T00:00:00Z") == {"ben"}
    status, said = await site.by("vic").get("/api/runs?agnt=desk")
    assert status == 400 and "unknown field `agnt`" in said["error"]


async def test_who_may_view_only_may_not_stop_a_run(site: Client) -> None:
    run_id, _ = await waiting(site.by("ann"))
    assert (await site.by("vic").get(f"/api/runs/{run_id}/events/1"))[0] == 200
    for path in ("interrupt", "cancel"):
        status, said = await site.by("vic").post(f"/api/runs/{run_id}/{path}")
        assert status == 403 and "'operate'" in said["error"]
    assert (await site.by("sam").post(f"/api/runs/{run_id}/cancel"))[0] == 200


ROUTES = [
    ("GET", "/api/me"),
    ("GET", "/api/runs"),
    ("POST", "/api/runs"),
    ("GET", "/api/inbox"),
    ("GET", "/api/live"),
    ("GET", "/api/counts"),
    ("GET", "/api/conversations"),
    ("GET", "/api/conversations/c"),
    ("GET", "/api/inbox/x/r/before"),
    ("POST", "/api/inbox/x/r/later"),
    ("POST", "/api/inbox/x/r/assign"),
    ("GET", "/api/grants"),
    ("GET", "/api/effects"),
    ("POST", "/api/effects/e"),
    ("POST", "/api/effects/e/check"),
    ("DELETE", "/api/grants/g"),
    *((method, f"/api/runs/x{path}") for method, path, _ in OF_A_RUN),
]


async def test_every_route_needs_somebody_a_known_host_and_origin(site: Client) -> None:
    port = site.url.rpartition(":")[2]
    for method, path in ROUTES:
        assert (await site.ask(method, path, {}))[0] == 401
        for name in ("", "ann", "tia"):
            asking = site.by(name)
            rebound = await asking.ask(method, path, {}, host=f"rebound.example:{port}")
            assert rebound[0] == 421 and "asgi(hosts=[...])" in rebound[1]["error"]
            foreign = await asking.ask(method, path, {}, origin="https://shop.example")
            assert foreign[0] == 403 and "asgi(origins=[...])" in foreign[1]["error"]
            assert (await asking.ask(method, path, {}, origin="null"))[0] == 403
    assert (await site.by("ann").get("/api/me", origin=site.url))[0] == 200


async def test_a_change_needs_a_header_that_no_form_can_send(site: Client) -> None:
    bare = Client(site.session, site.url, "ann")
    del bare.headers["x-upshot"]
    status, said = await bare.post("/api/runs", {"agent": "desk", "text": "hello"})
    assert status == 403 and "X-Upshot: 1" in said["error"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "truncated"),
        (b"[]", 400, "Expected `object`"),
        (b'{"agent": "desk"}', 400, "missing required field `text`"),
        (b'{"agent": "dsk", "text": ""}', 400, "did you mean"),
        (b'{"agent": "desk", "text": "", "by": "ben"}', 400, "unknown field `by`"),
        (b" " * 1_100_000, 413, ""),
    ],
)
async def test_a_bad_body_is_told_in_one_sentence(
    site: Client, body: bytes, status: int, words: str
) -> None:
    found, said = await site.by("ann").ask("POST", "/api/runs", body)
    assert found == status
    assert words in str(said) and "Traceback" not in str(said)


async def test_too_many_requests_of_one_client_are_refused(tmp_path: Path) -> None:
    async with served(desk(tmp_path), rate=5) as site:
        statuses = [(await site.by("ann").get("/api/me"))[0] for _ in range(12)]
    assert 429 in statuses


async def test_each_response_says_what_a_browser_may_do_with_it(site: Client) -> None:
    async with site.session.get(site.url + "/") as response:
        headers = response.headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_fork_opens_as_a_draft_of_what_it_does_again(site: Client) -> None:
    run_id, pending = await waiting(site.by("ann"))
    sam = site.by("sam")
    await sam.post(f"/api/runs/{run_id}/answer", approve(pending))
    while True:
        _, said = await sam.get("/api/runs?status=completed")
        if said["runs"]:
            break
    status, said = await sam.post(f"/api/runs/{run_id}/fork", {"at": 4})
    assert status == 200
    assert [one.get("tool", "model") for one in said["again"]] == ["model", "refund", "model"][
        -len(said["again"]) :
    ]
    assert "refund" in [one.get("tool") for one in said["again"]]
    status, said = await sam.post(f"/api/runs/{run_id}/fork", {"at": 4000})
    assert status == 400 and "has no event 4000" in said["error"]
    status, said = await sam.post(f"/api/runs/{run_id}/fork", {"at": 4, "draft": False})
    assert status == 201
    fork = said["run_id"]
    # It is whose the first one is, and asks anew.
    while not any(
        item["run_id"] == fork for item in (await site.by("ann").get("/api/inbox"))[1]["items"]
    ):
        pass
    status, said = await sam.get(f"/api/runs/{run_id}/compare/{fork}")
    assert status == 200 and said["difference"]["kind"]
    status, said = await sam.post(f"/api/runs/{run_id}/resume")
    assert status == 400 and "fork it" in said["error"]


async def test_a_replay_says_what_would_be_done_today_and_touches_nothing(tmp_path: Path) -> None:
    paid, asked = list[int](), list[Any]()

    @tool(effect="write")
    def pay(order: int) -> str:
        """Pay an order back."""
        paid.append(order)
        return "paid"

    class Payer(Desk):
        async def call(self, request: Any) -> ModelResponse:
            asked.append(request)
            if request.messages[-1].role == "tool":
                return ModelResponse(content="Paid.")
            return ModelResponse(tool_calls=(ToolCall("p", "pay", {"order": 7}),))

    model: Any = Payer()
    journal = str(tmp_path / "runs.db")

    def shop(instructions: str) -> App:
        agent = Agent("desk", instructions=instructions, model=model, tools=[pay])
        return App([agent], journal=journal)

    async with served(shop("Pay.")) as site:
        sam = site.by("sam")
        _, said = await sam.post("/api/runs", {"agent": "desk", "text": "pay order 7"})
        run = f"/api/runs/{said['run_id']}"
        while (await sam.get(run))[1]["head"]["status"] != "completed":
            pass
        _, before = await sam.get(f"{run}/events")
        status, said = await sam.post(f"{run}/replay")
        assert (status, said["same"], said["difference"]) == (200, True, None)
        assert said["compared"] > 3
        assert (await sam.get(f"{run}/events"))[1] == before
        status, _ = await site.by("vic").post(f"{run}/replay")
        assert status == 403
    async with served(shop("Pay at once.")) as site:
        status, said = await site.by("sam").post(f"{run}/replay")
        assert (status, said["same"], said["difference"]["part"]) == (200, False, "instructions")
    assert (paid, len(asked)) == ([7], 2)
    others = App([Agent("other", model=model)], journal=journal)
    async with served(others, work=False) as site:
        sam = site.by("sam")
        status, said = await sam.post(f"{run}/replay")
        assert status == 400 and "no such agent 'desk'" in said["error"]
        _, said = await sam.post("/api/runs", {"agent": "other", "text": "wait"})
        status, said = await sam.post(f"/api/runs/{said['run_id']}/replay")
        assert status == 400 and "it has not started yet" in said["error"]


async def test_the_page_of_a_run_is_the_same_live_and_ended(site: Client) -> None:
    run_id, pending = await waiting(site.by("ann"))
    sam, parts = site.by("sam"), list[dict[str, Any]]()
    asking = site.session.get(f"{site.url}/api/runs/{run_id}/view", headers=sam.headers)
    async with asking as stream:
        async for line in stream.content:
            if line.startswith(b"data:") and b"head" in line:
                parts.append(json.loads(line[5:]))
                if len(parts) == 1:
                    assert parts[0]["head"]["pending"][0]["call_id"] == "r"
                    await sam.post(f"/api/runs/{run_id}/answer", approve(pending))
        # It ends by itself.
    rows = {row["id"]: row for part in parts for row in part.get("rows", ())}
    said = {one["id"]: one for part in parts for one in part.get("messages", ())}
    status, whole = await sam.get(f"/api/runs/{run_id}")
    assert status == 200 and whole["head"]["status"] == "completed"
    assert parts[-1]["head"] == whole["head"]
    assert [rows[id] for id in sorted(rows)] == whole["rows"]
    assert [said[id] for id in sorted(said)] == whole["messages"]
    status, page = await sam.get(f"/api/runs/{run_id}/export")
    assert status == 200 and page.startswith("<!doctype html>") and "refund" in page


async def test_an_artifact_is_kept_byte_for_byte_and_never_shown(tmp_path: Path) -> None:
    app, data = desk(tmp_path), b"\x89PNG<script>\xff\x00" * 5_000
    async with served(app) as site:
        run_id, _ = await waiting(site.by("ann"))
        journal: Any = await app.open()
        file = await journal.artifacts.put(run_id, "r", data, "text/html")
        path = f"{site.url}/api/runs/{run_id}/artifacts/{file.id}"
        async with site.session.get(path, headers=site.by("sam").headers) as response:
            assert await response.read() == data
            assert response.content_type == "application/octet-stream"
            assert response.headers["content-disposition"] == "attachment"
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["content-security-policy"].startswith("sandbox")
        assert (await site.by("ben").get(path.removeprefix(site.url)))[0] == 404


async def test_an_item_is_described_and_put_off_for_one_user(site: Client) -> None:
    run_id, pending = await waiting(site.by("ann"))
    sam, oz = site.by("sam"), site.by("oz")
    _, said = await sam.get("/api/inbox?tool=refund")
    (item,) = said["items"]
    assert item["description"] == "Pay an order back." and item["answerable"]
    (shown,) = (await site.by("ann").get("/api/inbox"))[1]["items"]
    assert not shown["answerable"]
    later = {"until": "2999-01-01T00:00:00Z"}
    status, _ = await sam.post(f"/api/inbox/{run_id}/{pending['call_id']}/later", later)
    assert status == 200
    counts = [len((await one.get("/api/inbox"))[1]["items"]) for one in (sam, oz)]
    assert counts == [0, 1]
    assert (await sam.get("/api/me"))[1]["waits"] == 1
    assert (await site.by("ben").post(f"/api/inbox/{run_id}/r/later", later))[0] == 404


async def test_an_item_is_assigned_by_who_may_answer_it(site: Client) -> None:
    run_id, pending = await waiting(site.by("ann"))
    sam, path = site.by("sam"), f"/api/inbox/{run_id}/{pending['call_id']}/assign"
    assert (await site.by("ann").post(path, {"to": "sam"}))[0] == 403
    assert (await site.by("ben").post(path, {"to": "sam"}))[0] == 404
    assert (await sam.post(path, {"to": "oz"}))[0] == 200
    (item,) = (await sam.get("/api/inbox?assignee=oz"))[1]["items"]
    assert (item["assigned"]["to"], item["assigned"]["by"]) == ("oz", "sam")
    assert (item["due_at"], item["after_due"]) == (None, "")
    assert (await sam.get("/api/inbox?assignee=sam"))[1]["items"] == []


async def test_a_standing_approval_is_withdrawn(site: Client) -> None:
    run_id, pending = await waiting(site.by("ann"))
    sam = site.by("sam")
    await sam.post(f"/api/runs/{run_id}/answer", approve(pending, always="tool"))
    _, said = await sam.get("/api/grants")
    for one in said["grants"]:
        assert (await site.by("ben").ask("DELETE", f"/api/grants/{one['id']}"))[0] == 404
        assert (await site.by("vic").ask("DELETE", f"/api/grants/{one['id']}"))[0] == 403
        assert (await sam.ask("DELETE", f"/api/grants/{one['id']}"))[0] == 200
    assert (await sam.ask("DELETE", "/api/grants/none"))[0] == 404


async def test_what_changes_is_told_to_who_looks_at_the_list(site: Client) -> None:
    sam = site.by("sam")
    asking = site.session.get(site.url + "/api/live", headers=sam.headers)
    async with asking as stream:
        told: list[bytes] = []
        async for line in stream.content:
            if line.startswith(b"data:"):
                told.append(line)
                if len(told) == 1:
                    assert b'"waits":0' in line
                    await waiting(site.by("ann"))
                elif b'"waits":1' in line:
                    break


async def test_runs_are_counted(site: Client) -> None:
    await waiting(site.by("ann"))
    for name, count in (("ann", 1), ("vic", 1), ("ben", 0), ("tia", 0)):
        status, said = await site.by(name).get("/api/counts")
        assert (status, sum(said.get("statuses", {}).values())) == (200, count)


async def test_any_request_is_compared_with_its_call(site: Client) -> None:
    text = "refund order " + "9" * 4301
    _, said = await site.by("ann").post("/api/runs", {"agent": "desk", "text": text})
    await waiting(site.by("ben"))
    items: list[Any] = []
    while len(items) < 2:
        status, inbox = await site.by("oz").get("/api/inbox")
        assert status == 200
        items = inbox["items"]
    (item,) = [one for one in items if one["run_id"] == said["run_id"]]
    assert (item["contradictions"], item["named"]) == ([], [])


async def test_a_run_is_listed_as_answered_once_all_its_questions_are(tmp_path: Path) -> None:
    calls = (ToolCall("p", "refund", {"order": 5}), ToolCall("q", "refund", {"order": 6}))
    agent = Agent("desk", model=ScriptedModel([ModelResponse(parts=calls)]), tools=[refund])
    async with served(App([agent], journal=str(tmp_path / "runs.db"))) as client:
        run_id, _ = await waiting(client.by("ann"))
    app = App([agent], journal=str(tmp_path / "runs.db"))
    async with served(app, work=False) as client:
        oz = client.by("oz")
        listed: list[list[str]] = []
        for item in (await oz.get("/api/inbox"))[1]["items"]:
            answer = approve(item["pending"])
            assert (await oz.post(f"/api/runs/{run_id}/answer", answer))[0] == 200
            listed.append((await oz.get("/api/runs"))[1].get("answered", []))
        assert listed == [[], [run_id]]


async def test_the_inbox_says_what_was_decided_like_it_before(site: Client) -> None:
    sam = site.by("sam")
    for word in ("approve", "deny"):
        run_id, pending = await waiting(site.by("ann"))
        answer = {"kind": word, "call_id": pending["call_id"], "digest": pending["digest"]}
        assert (await sam.post(f"/api/runs/{run_id}/answer", {"answers": [answer]}))[0] == 200
        while (await sam.get(f"/api/runs/{run_id}"))[1]["head"]["status"] != "completed":
            pass
    run_id, pending = await waiting(site.by("ann"))
    path = f"/api/inbox/{run_id}/{pending['call_id']}/before"
    status, said = await sam.get(path)
    assert status == 200
    told = [(one["answer"]["kind"], one["answer"]["by"], one["same"]) for one in said["answered"]]
    assert told == [("deny", "sam", True), ("approve", "sam", True)]
    assert {one["asked"]["tool_name"] for one in said["answered"]} == {"refund"}
    assert (await site.by("ben").get(path))[0] == 404
    assert (await sam.get(f"/api/inbox/{run_id}/none/before"))[0] == 404
    # Who sees his own runs only is told of those alone.
    assert (await site.by("ann").get(path))[1]["answered"] == said["answered"]


async def test_the_page_of_a_run_links_to_its_spans(tmp_path: Path) -> None:
    url = "https://traces.example/search?run={run_id}"
    async with served(desk(tmp_path), trace_url=url) as site:
        assert (await site.by("sam").get("/api/me"))[1]["trace_url"] == url
    for wrong in ("https://traces.example", "javascript:{run_id}", 5):
        given: Any = wrong
        with pytest.raises(Misuse, match="trace_url"):
            desk(tmp_path).asgi(user=lambda _: None, trace_url=given)


async def test_an_answer_waits_for_a_run_that_goes_on_with_another_answer(tmp_path: Path) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    @tool(effect="write", approval=True)
    async def pack(order: int) -> str:
        """Pack an order."""
        began.set()
        await goes_on.wait()
        return "packed"

    calls = [ToolCall("p", "pack", {"order": 7}), ToolCall("r", "refund", {"order": 7})]
    agent = Agent("desk", model=ScriptedModel([calls, "Done."]), tools=[pack, refund])
    async with served(App([agent], journal=str(tmp_path / "runs.db"), version="1")) as site:
        sam = site.by("sam")
        run_id, _ = await waiting(site.by("ann"))
        asked = {one["pending"]["call_id"]: one["pending"] for one in await inbox_of(sam)}
        path = f"/api/runs/{run_id}/answer"
        assert (await sam.post(path, approve(asked["p"])))[0] == 200
        await began.wait()
        late = asyncio.create_task(sam.post(path, approve(asked["r"])))
        # Meanwhile the same loop has served many others, so it has been looked at.
        for _ in range(50):
            await sam.get("/api/inbox")
        goes_on.set()
        status, said = await late
        assert status == 200 and said[0]["answer"]["call_id"] == "r", said
        while (await sam.get(f"/api/runs/{run_id}"))[1]["head"]["status"] != "completed":
            pass


async def inbox_of(client: Client) -> list[Any]:
    return (await client.get("/api/inbox"))[1]["items"]
