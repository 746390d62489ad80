"""Text of a reply that broke off is taken back by every door, when the reply is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentError,
    App,
    Request,
    Retry,
    ScriptedModel,
    TextDelta,
    ToolCall,
    tool,
)
from upshot.models import Fallback
from upshot.serve.doors import a2a, ag_ui, mcp, responses, ui_stream
from upshot.serve.public import public_events
from upshot.serve.site import working

CUT = AgentError("server_error", "cut", retryable=True)


class Breaking(ScriptedModel):
    """A model whose stream breaks off once its reader has seen half of it."""

    def __init__(self, *replies: Any) -> None:
        super().__init__([[ToolCall("w", "wait")], CUT, *replies])
        self.seen = asyncio.Event()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        if len(self.calls) == 1:
            yield TextDelta(text="Half ")
            await self.seen.wait()
        async for item in super().stream(request):
            yield item


async def told(first: Breaking, model: Any) -> list[Any]:
    """The public events of a run that is read while another session works on it."""
    begun = asyncio.Event()

    @tool(effect="read", public=True)
    async def wait() -> str:
        await begun.wait()
        return "now"

    agent: Agent[Any] = Agent("a", model=model, tools=[wait], retry=Retry(base_s=0))
    async with App([agent], journal="memory:") as app, working(app):
        handle = await app.submit(agent, Request("Go.", run_id="r"))
        found: list[Any] = []
        async for event in public_events(app, handle):
            found.append(event)
            begun.set()
            if event["kind"] == "text":
                first.seen.set()
    return found


@pytest.fixture(params=["retry", "fallback"])
async def events(request: pytest.FixtureRequest) -> list[Any]:
    if request.param == "retry":
        first = model = Breaking("The whole.")
    else:
        first = Breaking()
        model = Fallback(first, ScriptedModel(["The whole."]))  # type: ignore[assignment]
    found = await told(first, model)
    kinds = [one["kind"] for one in found if one["kind"] != "tool"]
    place = kinds.index("reset")
    assert (kinds[:place], kinds[-2:]) == (["text"], ["message", "end"])
    return found


def test_the_stream_for_the_ai_sdk_resets_the_step(events: list[Any]) -> None:
    answer = ui_stream._Answer()  # pyright: ignore[reportPrivateUsage]
    text = ""
    for chunk in (chunk for event in events for chunk in answer.add(event)):
        match chunk["type"]:
            case "reset-step":
                text = ""
            case "text-delta":
                text += str(chunk["delta"])
            case _:
                pass
    assert text == "The whole."


def test_ag_ui_sends_the_messages_without_it(events: list[Any]) -> None:
    answer = ag_ui._Answer("r", [])  # pyright: ignore[reportPrivateUsage]
    messages: dict[str, str] = {}
    for one in (one for event in events for one in answer.add(event)):
        told: Any = one
        match told["type"]:
            case "MESSAGES_SNAPSHOT":
                messages = {each["id"]: each.get("content", "") for each in told["messages"]}
            case "TEXT_MESSAGE_CONTENT":
                id = told["messageId"]
                messages[id] = messages.get(id, "") + told["delta"]
            case _:
                pass
    assert [text for text in messages.values() if "Half" in text or "whole" in text] == [
        "The whole."
    ]


def test_the_artifact_of_a2a_is_emptied_until_the_next_piece_or_the_end(events: list[Any]) -> None:
    text, is_open = "", False
    for event in events:
        if event["kind"] == "end":
            break
        for told in a2a.update_of(event, {"taskId": "r", "contextId": "c"}, is_open=is_open):
            update: Any = told.get("artifactUpdate")
            if update is not None:
                (part,) = update["artifact"]["parts"]
                text = text + part["text"] if update["append"] else part["text"]
        is_open = event["kind"] == "text"
    # Where the reply came at once, the artifact comes with the end of the task.
    assert text in ("", "The whole.")


def test_a_response_is_done_with_the_text_that_counts(events: list[Any]) -> None:
    fold = responses.Fold("r", -1)
    told: list[Any] = [one for event in events for _, one in fold.add(event, "The whole.")]
    (done,) = [one["text"] for one in told if one["type"] == "response.output_text.done"]
    (item,) = [one for one in fold.items if one["type"] == "message"]
    content: Any = item["content"]
    assert (done, content[0]["text"], item["status"]) == ("The whole.", "The whole.", "completed")


def test_the_progress_of_mcp_never_has_it(events: list[Any]) -> None:
    said = [mcp.progress_of(event) for event in events]
    assert "The whole." in said
    assert not [one for one in said if "Half" in one]
