"""What the page of a run reads on demand: causes, a model's input, media, copies, comparisons."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import upshot
from tests.serve.kit import Client, served
from tests.serve.run_agents import PNG, agents, run_of
from upshot import Agent, App, Cost, Message, ModelResponse, ScriptedModel
from upshot.contract import Image, Text
from upshot.lab import Case
from upshot.sim import Simulator


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    app = App(agents(), journal=str(tmp_path / "runs.db"))
    async with served(app) as client:
        yield app, client.by("oz")


async def calls_of(client: Client, run_id: str) -> list[int]:
    """The events of a run's model calls."""
    _, view = await client.get(f"/api/runs/{run_id}")
    return [row["seq"] for row in view["rows"] if row["kind"] == "model"]


async def test_the_chain_of_causes_goes_down_to_the_error(site: Any) -> None:
    app, client = site
    run_id = await run_of(app, "lead", "Do all.")
    _, found = await client.get(f"/api/runs/{run_id}/causes")
    chain = found["chain"]
    assert [one["agent"] for one in chain] == ["lead", "middle", "leaf"]
    assert (chain[-1]["kind"], chain[-1]["code"]) == ("model", "content_filter")
    assert all(one["step"] == 0 for one in chain)


async def test_the_input_of_a_call_has_tools_instructions_and_what_is_new(site: Any) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is it?")
    first, second = await calls_of(client, run_id)
    _, one = await client.get(f"/api/runs/{run_id}/events/{first}/sent")
    assert (one["instructions"], one["is_instructed"], one["before"]) == ("Be kind.", True, 0)
    assert {tool["name"]: tool.get("withheld", False) for tool in one["tools"]} == {
        "look": False,
        "pay": True,
    }
    assert one["has_tools"]
    _, other = await client.get(f"/api/runs/{run_id}/events/{second}/sent")
    assert [message["is_new"] for message in other["messages"]] == [False, True, True]
    assert (other["before"], other["changed"], other["dropped"]) == (first, ["tools"], 0)
    assert not any(tool.get("withheld") for tool in other["tools"])


async def test_a_retry_was_sent_what_its_first_try_was(site: Any) -> None:
    app, client = site
    first, again = await calls_of(client, run_id := await run_of(app, "busy", "Hello?"))
    _, one = await client.get(f"/api/runs/{run_id}/events/{first}/sent")
    assert (await client.get(f"/api/runs/{run_id}/events/{again}/sent"))[1] == one
    assert one["messages"][0]["message"]["content"] == "Hello?"


async def test_the_input_says_what_compaction_hid(site: Any) -> None:
    app, client = site
    run_id = await run_of(app, "memo", "Please compact.")
    last = (await calls_of(client, run_id))[-1]
    _, found = await client.get(f"/api/runs/{run_id}/events/{last}/sent")
    assert found["hidden"] and found["dropped"]
    shown = [one["message"] for one in found["messages"]]
    assert not [one for one in found["hidden"] if one in shown]


async def test_an_image_of_a_request_is_served_by_its_bytes_and_sealed(site: Any) -> None:
    app, client = site
    image = Image(data=PNG, media_type="text/html")
    run_id = await run_of(app, "desk", Message("user", (Text("What is this?"), image)))
    _, view = await client.get(f"/api/runs/{run_id}")
    seq = view["messages"][0]["seq"]
    assert [one["kind"] for one in view["messages"][0]["media"]] == ["image"]
    path = f"{client.url}/api/runs/{run_id}/events/{seq}/media/0"
    async with client.session.get(path, headers=client.headers) as response:
        assert (response.content_type, await response.read()) == ("image/png", PNG)
        assert response.headers["content-security-policy"].startswith("sandbox")
        assert response.headers["x-content-type-options"] == "nosniff"
    status, _ = await client.get(f"/api/runs/{run_id}/events/{seq}/media/1")
    assert status == 404


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7 ", "application/pdf"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"\x00\x00\x00\x20ftypM4A ", "audio/mp4"),
        (b"ID3\x04", "audio/mpeg"),
    ],
)
async def test_sounds_and_pdfs_have_the_type_of_their_first_bytes(
    site: Any, data: bytes, kind: str
) -> None:
    app, client = site
    parts = (Text("What is this?"), Image(data=data, media_type="image/png"))
    run_id = await run_of(app, "desk", Message("user", parts))
    path = f"{client.url}/api/runs/{run_id}/events/1/media/0"
    async with client.session.get(path, headers=client.headers) as response:
        assert response.content_type == kind
        assert "default-src 'none'" in response.headers["content-security-policy"]


async def test_a_long_run_is_sent_as_the_list_knows_it_before_its_log_is_read(site: Any) -> None:
    app, client = site
    run_id = await run_of(app, "counter", "Count.")
    path = f"{client.url}/api/runs/{run_id}/view"
    async with client.session.get(path, headers=client.headers) as response:
        parts = [line[6:] async for line in response.content if line.startswith(b'data: {"head')]
    early, whole = (json.loads(part) for part in parts)
    assert "rows" not in early and "revision" not in early
    assert early["head"]["status"] == whole["head"]["status"] == "completed"
    assert len(whole["rows"]) > 250


async def test_what_is_no_medium_is_not_shown_whatever_it_is_called(site: Any) -> None:
    app, client = site
    page = Image(data=b"<script>alert(1)</script>", media_type="image/png")
    run_id = await run_of(app, "desk", Message("user", (Text("What is this?"), page)))
    status, said = await client.get(f"/api/runs/{run_id}/events/1/media/0")
    assert status == 404 and "save it as a file" in said["error"]


async def test_a_copied_test_runs_as_it_is(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is '''it'''?")
    status, refused = await client.get(f"/api/runs/{run_id}/copies/test")
    assert status == 400 and "at the top of a module" in refused["error"]
    module = ModuleType("my_desk")
    vars(module)["support"] = app.agents["desk"]
    monkeypatch.setitem(sys.modules, "my_desk", module)
    _, copied = await client.get(f"/api/runs/{run_id}/copies/test")
    names: dict[str, Any] = {}
    exec(compile(copied["text"], "test_copied.py", "exec"), names)  # the promise
    await asyncio.to_thread(names["test_desk_does_the_same_again"])
    assert "from my_desk import support" in copied["text"]


async def test_a_copied_case_is_a_line_of_a_dataset(site: Any) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is it?")
    _, copied = await client.get(f"/api/runs/{run_id}/copies/case")
    case = upshot.decode(copied["text"], Case)
    assert (case.run_id, [call.tool for call in case.calls]) == (run_id, ["look"])
    assert copied["note"] == f"upshot lab collect runs.jsonl --run {run_id}"


async def test_a_comparison_has_the_facts_and_steps_of_both(site: Any) -> None:
    app, client = site
    one = await run_of(app, "desk", "Where is it?")
    other = await run_of(app, "memo", "Please compact.")
    _, found = await client.get(f"/api/runs/{one}/compare/{other}")
    assert [agent["id"] for agent in found["agents"]] == ["desk", "memo"]
    assert any(step["left"] is None for step in found["steps"])
    _, same = await client.get(f"/api/runs/{one}/compare/{one}")
    assert all(step["same"] for step in same["steps"]) and same["difference"] is None


async def test_a_run_that_cost_much_more_than_others_of_its_agent_says_so(site: Any) -> None:
    app, client = site
    journal = await app.open()
    runs: list[str] = []
    for cost in ("0.01", "0.02", "0.03", "0.02", "0.02", "0.05", "0.08"):
        reply = ModelResponse(parts=(Text("Done."),), cost=Cost(total=Decimal(cost)))
        agent = Agent[Any]("dear", model=ScriptedModel([reply]))
        runs.append((await upshot.run(agent, "?", journal=journal)).run_id)

    async def says(run_id: str, user: str = "oz") -> str:
        return (await client.by(user).get(f"/api/runs/{run_id}/costly"))[1]["says"]

    assert await says(runs[-1]) == (
        "It cost 4 times the median of the 6 latest runs of dear that you may see, $0.0200."
    )
    assert await says(runs[-2]) == await says(runs[0]) == ""
    assert await says(await run_of(app, "desk", "Where is it?")) == ""


async def test_a_model_call_is_copied_as_curl_without_its_key(site: Any) -> None:
    app, client = site
    async with Simulator(["Hello."]) as server:
        own = server.base_url.replace("//", "//me:word-of-me@") + "?key=sk-of-url"
        model = upshot.resolve("openai:gpt-5", base_url=own, api_key="sk-own-key")
        app.agents["talker"] = Agent("talker", instructions="It's kind.", model=model)
        run_id = await run_of(app, "talker", "Hello?")
        (seq,) = await calls_of(client, run_id)
        _, copied = await client.get(f"/api/runs/{run_id}/copies/curl/{seq}")
        text = copied["text"]
        assert "Bearer $OPENAI_API_KEY" in text
        assert not [one for one in ("sk-own-key", "word-of-me", "sk-of-url") if one in text]
        # The shell gives it to curl as it is.
        command = text.replace("curl ", "printf '%s\\n' ", 1).replace(
            "<<'UPSHOT'", "; cat <<'UPSHOT'"
        )
        process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
        said = (await process.communicate())[0].decode()
        assert server.base_url in said
    assert "It's kind." in said and '"Hello?"' in said
    desk = await run_of(app, "desk", "Hello?")
    seq = (await calls_of(client, desk))[0]
    status, refused = await client.get(f"/api/runs/{desk}/copies/curl/{seq}")
    assert status == 404 and "not called over HTTP" in refused["error"]
