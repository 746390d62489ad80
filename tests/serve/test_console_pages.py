"""What the console's routes send and refuse, beside who may use them."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.serve.kit import Client, served
from upshot import Agent, App, Message, ModelResponse, ScriptedModel, Text, ToolCall
from upshot.engines import ScriptEngine
from upshot.serve import User


@upshot.tool(effect="write", approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return "refunded"


def desk(path: Path) -> App:
    def reply(messages: Sequence[Message]) -> ModelResponse:
        if messages[-1].role == "tool":
            return ModelResponse(parts=(Text("Done."),))
        call = ToolCall("r", "refund", {"order": 7})
        return ModelResponse(parts=(Text("One moment."), call))

    agent = Agent("desk", model=ScriptedModel(reply), instructions="Be kind.", tools=[refund])

    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Which colour?")

    asker = Agent[Any]("asker", engine=ScriptEngine(ask))
    return App([agent, asker], journal=str(path / "runs.db"), version="1")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Client]:
    async with served(desk(tmp_path)) as client:
        yield client


async def begin(client: Client, text: str, agent: str = "desk", **more: str) -> str:
    """A run of a user that waits."""
    new = {"agent": agent, "text": text, **more}
    _, said = await client.post("/api/runs", new)
    while True:
        _, view = await client.get(f"/api/runs/{said['run_id']}")
        if view["head"]["status"] == "input_required":
            return str(said["run_id"])


async def test_an_item_says_whose_run_it_is_of_what_talk_and_since_when(site: Client) -> None:
    una = site.by("una")
    run_id = await begin(una, "First, refund order 7", conversation="talk")
    other = await begin(site.by("ann"), "Which colour?", agent="asker")
    _, page = await site.by("oz").get("/api/inbox")
    first, second = page["items"]
    assert (first["run_id"], first["owner"], first["tenant"]) == (run_id, "una", "blue")
    assert first["title"] == first["request"] == "First, refund order 7"
    assert second["run_id"] == other and (second["owner"], second.get("title", "")) == ("ann", "")
    assert first["pending"]["asked_at"] < second["pending"]["asked_at"]


async def test_the_total_is_that_of_all_pages_and_of_what_was_put_off(site: Client) -> None:
    ann, sam = site.by("ann"), site.by("sam")
    run_id = await begin(ann, "Refund order 7")
    await begin(ann, "Refund order 8")
    _, page = await sam.get("/api/inbox?tool=refund")
    assert (len(page["items"]), page["total"]) == (2, 2)
    later = {"until": "2999-01-01T00:00:00Z"}
    assert (await sam.post(f"/api/inbox/{run_id}/r/later", later))[0] == 200
    _, page = await sam.get("/api/inbox")
    assert (len(page["items"]), page["total"]) == (1, 2)
    assert (await sam.get("/api/inbox?tool=none"))[1]["total"] == 0


async def test_what_a_model_was_sent_is_there_in_words(site: Client) -> None:
    ann = site.by("ann")
    run_id = await begin(ann, "Refund order 7")
    _, view = await ann.get(f"/api/runs/{run_id}")
    model = next(row for row in view["rows"] if row["kind"] == "model")
    status, sent = await ann.get(f"/api/runs/{run_id}/events/{model['seq']}/sent")
    assert status == 200 and sent["instructions"] == "Be kind."
    messages = [one["message"] for one in sent["messages"]]
    assert [(one["role"], one["content"]) for one in messages] == [("user", "Refund order 7")]
    asked = (await ann.get("/api/inbox"))[1]["items"][0]["pending"]
    answer = {"kind": "approve", "call_id": "r", "digest": asked["digest"]}
    assert (await ann.post(f"/api/runs/{run_id}/answer", {"answers": [answer]}))[0] == 403
    assert (await site.by("oz").post(f"/api/runs/{run_id}/answer", {"answers": [answer]}))[0] == 200
    while view["head"]["status"] != "completed":
        _, view = await ann.get(f"/api/runs/{run_id}")
    last = [row for row in view["rows"] if row["kind"] == "model"][-1]
    _, sent = await ann.get(f"/api/runs/{run_id}/events/{last['seq']}/sent")
    roles = [one["message"]["role"] for one in sent["messages"]]
    assert roles == ["user", "assistant", "tool"]
    status, said = await ann.get(f"/api/runs/{run_id}/events/1/sent")
    assert (status, said) == (404, {"error": "event 1 is not a model call"})


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/api/runs?since=yesterday", "since"),
        ("/api/runs?status=foo", "status is 'foo': give one of queued"),
        ("/api/runs?effect=foo", "effect is 'foo'"),
        ("/api/counts?status=foo", "status is 'foo'"),
        ("/api/runs?colour=red", "colour"),
        ("/api/runs/{run}/events?after=soon", "after must be the seq of an event"),
        ("/api/runs/{run}/events?after=run-9/1", "after names run 'run-9'"),
    ],
)
async def test_what_is_no_filter_and_no_place_is_refused_in_one_sentence(
    site: Client, path: str, word: str
) -> None:
    ann = site.by("ann")
    run_id = await begin(ann, "Refund order 7")
    status, said = await ann.get(path.replace("{run}", run_id))
    assert status == 400 and word in said["error"] and "\n" not in said["error"], said


async def test_an_origin_that_is_no_url_is_refused_as_any_other_one(site: Client) -> None:
    for origin in ("http://[", "http://[::1", "null", "//"):
        status, said = await site.by("oz").get("/api/me", origin=origin)
        assert status == 403 and "are not taken" in said["error"], (origin, said)


async def test_an_address_without_a_page_is_told_to_a_browser_as_a_page(site: Client) -> None:
    browser = {"accept": "text/html,*/*;q=0.8"}
    status, page = await site.get("/nope", **browser)
    assert status == 404 and page.startswith("<!doctype html>") and "/static/console.js" in page
    assert (await site.get("/nope"))[1] == {"error": "Not Found"}
    assert (await site.post("/nope", **browser))[1] == {"error": "Not Found"}


async def test_the_files_of_the_pages_are_packed_and_sent_once(site: Client) -> None:
    url = site.url + "/static/console.css"
    async with site.session.get(url, auto_decompress=False) as plain:
        assert plain.headers["content-encoding"] == "gzip"
        packed, tag = await plain.read(), plain.headers["etag"]
    async with site.session.get(url, headers={"accept-encoding": "identity"}) as plain:
        assert "content-encoding" not in plain.headers
        assert await plain.read() == gzip.decompress(packed)
    async with site.session.get(url, headers={"if-none-match": tag}) as again:
        assert (again.status, await again.read()) == (304, b"")
    async with site.session.get(url, headers={"if-none-match": '"other"'}) as again:
        assert again.status == 200


async def test_behind_a_proxy_one_user_does_not_use_up_what_another_may_send(
    tmp_path: Path,
) -> None:
    users = {name: User(name, ("own",)) for name in ("ann", "ben")}
    asked: list[str] = []

    async def who(request: Any) -> User | None:
        asked.append(request.headers.get("authorization", ""))
        return users.get(asked[-1])

    async with served(desk(tmp_path), user=who, rate=20) as site:
        # Many who are not known: they use up what their address may send.
        statuses = [(await site.get("/api/me"))[0] for _ in range(40)]
        assert set(statuses) == {401, 429}
        assert (await site.by("ben").get("/api/me"))[0] == 200
        asked.clear()
        ann = site.by("ann")
        replies = [await ann.get("/api/me") for _ in range(60)]
        assert {status for status, _ in replies} == {200, 429}
        assert replies[-1][1] == {"error": "more than 20 requests in ten seconds: wait a little"}
        # Each request asks once who sent it.
        assert len(asked) == 60
        assert (await site.by("ben").get("/api/me"))[0] == 200
