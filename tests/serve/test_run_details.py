"""What the page of a run reads on demand: causes, a model's input, media, copies, comparisons."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import upshot
from tests.serve.kit import Client, served
from upshot import (
    Agent,
    AgentError,
    App,
    Compaction,
    Decider,
    ErrorCode,
    Failed,
    Message,
    ModelRequest,
    ModelResponse,
    Request,
    ScriptedModel,
    ToolCall,
    Usage,
)
from upshot.contract import Image, Text
from upshot.engines import ScriptEngine
from upshot.lab import Case

PNG = b"\x89PNG\r\n\x1a\n" + bytes(24)
FILTERED = AgentError(ErrorCode.CONTENT_FILTER, "the provider refused")


@upshot.tool(effect="read")
def look(order: int) -> list[dict[str, int]]:
    """Look an order up."""
    return [{"order": order, "cents": 500}]


@upshot.tool(effect="write")
def pay(order: int) -> str:
    """Pay an order back."""
    return "paid"


class Careful(Decider):
    """Leaves the tool that pays out of the first request."""

    def before_model(self, info: Any, request: ModelRequest) -> ModelRequest:
        tools = tuple(tool for tool in request.tools if tool.name != "pay")
        first = len(request.messages) == 1
        return msgspec.structs.replace(request, tools=tools) if first else request


def answer(messages: Any) -> ModelResponse:
    """Looks three orders up, one after the other, then answers."""
    done = sum(message.role == "tool" for message in messages)
    usage = Usage(input_tokens=100, output_tokens=1)
    if done < 1 or (len(messages) < 6 and "compact" in messages[0].text):
        call = ToolCall(f"c{len(messages)}", "look", {"order": len(messages)})
        return ModelResponse(tool_calls=(call,), usage=usage)
    return ModelResponse(content="It is paid.", usage=usage)


def agents() -> list[Agent[Any]]:
    leaf = Agent[Any]("leaf", model=ScriptedModel(lambda _: FILTERED))

    async def inner(flow: Any, host: Any, board: Any) -> str:
        raise Failed((await flow.child(leaf, "Say it.")).error)

    middle = Agent[Any]("middle", engine=ScriptEngine(inner))

    async def outer(flow: Any, host: Any, board: Any) -> str:
        raise Failed((await flow.child(middle, "Do it.")).error)

    desk = Agent[Any](
        "desk",
        instructions="Be kind.",
        model=ScriptedModel(answer),
        tools=[look, pay],
        deciders=[Careful()],
    )
    short = Compaction(at_tokens=90, keep_last=2)
    return [
        leaf,
        middle,
        Agent[Any]("lead", engine=ScriptEngine(outer)),
        desk,
        Agent[Any]("memo", model=ScriptedModel(answer), tools=[look], compaction=short),
    ]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    app = App(agents(), journal=str(tmp_path / "runs.db"))
    async with served(app) as client:
        yield app, client.by("oz")


async def run_of(app: App, agent: str, asked: Request | Message | str) -> str:
    """The id of a run that has ended."""
    run = await app.submit(agent, asked)
    await run.result(timeout_s=60)
    return run.id


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


async def test_what_is_no_medium_is_not_shown_whatever_it_is_called(site: Any) -> None:
    app, client = site
    page = Image(data=b"<script>alert(1)</script>", media_type="image/png")
    run_id = await run_of(app, "desk", Message("user", (Text("What is this?"), page)))
    status, said = await client.get(f"/api/runs/{run_id}/events/1/media/0")
    assert status == 404 and "save it as a file" in said["error"]


async def test_a_copied_test_runs_as_it_is(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is 'it'?")
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
