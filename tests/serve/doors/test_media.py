"""Images, sound and documents of a reply come out of every door that has a form for them."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from tests.serve.kit import Client, served
from upshot import Agent, App, Audio, Decider, File, FinalizeDecision, Image, ScriptedModel, Text
from upshot.contract import ModelResponse
from upshot.serve.doors.a2a import update_of

PIXEL = b"\x89PNG-of-a-cat"
SOUND = b"RIFF-of-a-meow"
PAPER = b"%PDF-of-a-cat"
REPLY = ModelResponse(
    parts=(
        Text("Here it is."),
        Image(data=PIXEL, media_type="image/png"),
        Audio(data=SOUND, media_type="audio/wav"),
        File(name="cat.pdf", data=PAPER, media_type="application/pdf"),
    )
)
BARE = ModelResponse(parts=(Image(url="https://h.example/cat.png", media_type="image/png"),))


class Passes(Decider):
    """Lets every answer out, once it has seen it."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision()


class Never(Decider):
    """Lets no answer out."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.discard("it must not be seen")


def desk() -> App:
    deciders: dict[str, list[Decider]] = {"open": [], "held": [Passes()], "never": [Never()]}
    agents = [
        Agent(name, model=ScriptedModel([REPLY] * 4), deciders=given)
        for name, given in deciders.items()
    ]
    return App([*agents, Agent("bare", model=ScriptedModel([BARE] * 4))], journal="memory:")


async def stream(site: Client, path: str, body: Any, **headers: str) -> list[Any]:
    """Post a request; return the events of its stream."""
    cal = site.by("cal")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asking = site.session.post(site.url + path, json=body, headers={**cal.headers, **named})
    async with asking as response:
        assert response.status == 200, await response.text()
        lines = (await response.text()).splitlines()
    data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def ui(agent: str) -> tuple[str, Any]:
    parts = [{"type": "text", "text": "A cat"}]
    return f"/ui/{agent}", {"id": agent, "messages": [{"id": "m", "role": "user", "parts": parts}]}


def ag_ui(agent: str) -> tuple[str, Any]:
    said = {"id": "m", "role": "user", "content": "A cat"}
    body = {"threadId": agent, "runId": "r", "messages": [said], "state": None, "tools": []}
    return f"/ag-ui/{agent}", {**body, "context": [], "forwardedProps": None}


def responses(agent: str) -> tuple[str, Any]:
    return "/v1/responses", {"model": agent, "input": "A cat", "stream": True}


def a2a(agent: str) -> tuple[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "A cat"}]}
    body = {"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage"}
    return f"/a2a/{agent}", {**body, "params": {"message": message}}


def in_url(url: str) -> bytes:
    return b64decode(url.partition("base64,")[2])


@pytest.mark.parametrize("agent", ["open", "held"])
async def test_the_ai_sdk_gets_them_as_files(agent: str) -> None:
    async with served(desk()) as site:
        chunks = await stream(site, *ui(agent))
        shown = await site.by("cal").get(f"/ui/{agent}/{agent}")
    files = [chunk for chunk in chunks if chunk["type"] == "file"]
    assert [one["mediaType"] for one in files] == ["image/png", "audio/wav", "application/pdf"]
    assert [in_url(one["url"]) for one in files] == [PIXEL, SOUND, PAPER]
    kinds = [chunk["type"] for chunk in chunks if chunk["type"] != "text-delta"]
    assert kinds == ["start", "start-step", "text-start", "text-end", *["file"] * 3, "finish"]
    # A page that is opened again has the same parts.
    parts = shown[1]["messages"][1]["parts"]
    assert [part["type"] for part in parts] == ["step-start", "text", *["file"] * 3]
    assert parts[2:] == files


@pytest.mark.parametrize("agent", ["open", "held"])
async def test_ag_ui_gets_them_as_activities(agent: str) -> None:
    async with served(desk()) as site:
        path, body = ag_ui(agent)
        events = await stream(site, path, body)
        again = await stream(site, path, {**body, "messages": []})
    found = [event for event in events if event["type"] == "ACTIVITY_SNAPSHOT"]
    assert {event["activityType"] for event in found} == {"file"}
    assert [in_url(event["content"]["url"]) for event in found] == [PIXEL, SOUND, PAPER]
    assert found[2]["content"]["name"] == "cat.pdf"
    (snapshot,) = [event for event in again if event["type"] == "MESSAGES_SNAPSHOT"]
    kept = [one for one in snapshot["messages"] if one["role"] == "activity"]
    assert [one["content"] for one in kept] == [event["content"] for event in found]
    assert [one["id"] for one in kept] == [event["messageId"] for event in found]


@pytest.mark.parametrize("agent", ["open", "held"])
async def test_responses_have_images_as_items_and_stream_sound(agent: str) -> None:
    async with served(desk()) as site:
        path, body = responses(agent)
        events = await stream(site, path, body)
        numbers = [event["sequence_number"] for event in events]
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        id, place = events[-1]["response"]["id"], numbers[-3]
        asking = site.session.get(
            f"{site.url}{path}/{id}?stream=true&starting_after={place}",
            headers=site.by("cal").headers,
        )
        async with asking as response:
            rest = await response.text()
    assert numbers == sorted(set(numbers))
    assert [item["type"] for item in done] == ["message", "image_generation_call"]
    assert b64decode(done[1]["result"]) == PIXEL
    sound = [event for event in events if event["type"] == "response.audio.delta"]
    assert [b64decode(event["delta"]) for event in sound] == [SOUND]
    assert events[-1]["response"]["output"] == done
    # A reader that reconnects gets what it has not seen, with the same numbers.
    ids = [int(line[4:]) for line in rest.splitlines() if line.startswith("id: ")]
    assert ids == numbers[-2:]


@pytest.mark.parametrize("agent", ["open", "held"])
async def test_an_a2a_task_has_them_in_its_answer(agent: str) -> None:
    async with served(desk()) as site:
        path, body = a2a(agent)
        events = await stream(site, path, body, a2a_version="1.0")
    updates = [one["result"] for one in events if "artifactUpdate" in one["result"]]
    last = [one["artifactUpdate"]["artifact"] for one in updates][-1]
    raw = [b64decode(part["raw"]) for part in last["parts"] if "raw" in part]
    assert (last["parts"][0]["text"], raw) == ("Here it is.", [PIXEL, SOUND, PAPER])
    before = [one["artifactUpdate"] for one in updates if "lastChunk" not in one["artifactUpdate"]]
    streamed = [part for one in before for part in one["artifact"]["parts"] if "raw" in part]
    assert [b64decode(part["raw"]) for part in streamed] == (raw if agent == "open" else [])


@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_follows_the_text_of_its_reply(is_open: bool) -> None:
    event = {
        "kind": "message",
        "text": "Here",
        "files": [{"media_type": "a/b", "url": "https://h"}],
    }
    ids = {"taskId": "t", "contextId": "c"}
    (update,) = update_of(event, ids, is_open=is_open)
    sent: Any = update["artifactUpdate"]
    assert sent["append"] is is_open


@pytest.mark.parametrize("form", [ui, ag_ui, responses, a2a])
async def test_what_the_deciders_reject_is_not_seen(form: Any) -> None:
    async with served(desk()) as site:
        events = await stream(site, *form("never"), a2a_version="1.0")
    for secret in ("iVBOR", "base64", "image", "Here it is", "cat.pdf"):
        assert secret not in json.dumps(events)


async def test_a_reply_of_an_image_alone_is_seen_by_its_address() -> None:
    async with served(desk()) as site:
        chunks = await stream(site, *ui("bare"))
        events = await stream(site, *a2a("bare"), a2a_version="1.0")
    assert [chunk["type"] for chunk in chunks] == ["start", "start-step", "file", "finish"]
    assert chunks[2]["url"] == "https://h.example/cat.png"
    last = [one["result"] for one in events if "artifactUpdate" in one["result"]][-1]
    (part,) = last["artifactUpdate"]["artifact"]["parts"]
    assert part["url"] == "https://h.example/cat.png"
