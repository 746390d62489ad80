"""What a run tells its user over a public door."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.serve.doors.asking import pay, refund
from upshot import Agent, App, Decider, FinalizeDecision, Request, ScriptedModel, ToolCall
from upshot.serve.public import public_events
from upshot.serve.site import working


def chosen(arguments: Any) -> Any:
    return {"order": arguments["order"]}


@upshot.tool(effect="read", public=chosen, public_name="Order")
def look(order: int, card: str) -> str:
    """Look."""
    return "secret"


@upshot.tool(effect="read")
def peek() -> str:
    """Peek."""
    return "secret"


class Once(Decider):
    """Has the first attempt revised."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        first = result.attempts == 1
        return FinalizeDecision.revise("shorter", "r") if first else FinalizeDecision.accept()


CALLS = [ToolCall("1", "look", {"order": 7, "card": "4242"}), ToolCall("2", "peek", {})]


async def seen(agent: Agent[Any], **options: Any) -> list[Any]:
    async with App([agent], journal="memory:") as app, working(app):
        handle = await app.submit(agent, Request("Go.", run_id="r"), max_attempts=2)
        return [one async for one in public_events(app, handle, **options)]


async def test_tools_are_shown_as_they_say_themselves() -> None:
    agent = Agent("a", model=ScriptedModel([CALLS, "Done."]), tools=[[look], peek])
    shown = [one for one in await seen(agent) if one["kind"] == "tool"]
    assert [(one["name"], one["state"]) for one in shown] == [
        ("Order", "started"),
        ("Order", "done"),
    ]
    assert shown[0]["arguments"] == {"order": 7}
    assert "4242" not in str(shown)


async def test_what_may_still_be_revised_is_held_until_it_was_judged() -> None:
    agent = Agent("a", model=ScriptedModel(["Too long.", "Short."]), deciders=[Once()])
    shown = await seen(agent)
    assert [one["kind"] for one in shown] == ["end"]
    assert shown[0]["text"] == "Short."


async def test_live_it_is_shown_and_taken_back() -> None:
    agent = Agent("a", model=ScriptedModel(["Too long.", "Short."]), deciders=[Once()])
    shown = [one for one in await seen(agent, stream="live") if one["kind"] != "text"]
    assert [(one["kind"], one.get("text"), one.get("attempt")) for one in shown] == [
        ("message", "Too long.", None),
        ("reset", None, 2),
        ("message", "Short.", None),
        ("end", "Short.", None),
    ]


async def test_a_reader_goes_on_at_each_place() -> None:
    agent = Agent("a", model=ScriptedModel([CALLS, "Done."]), tools=[look, peek])
    async with App([agent], journal="memory:") as app, working(app):
        handle = await app.submit(agent, "Go.")
        whole = [one async for one in public_events(app, handle)]
        durable = [one for one in whole if "." not in str(one["cursor"])]
        for number, one in enumerate(durable):
            after = [rest async for rest in public_events(app, handle, after=str(one["cursor"]))]
            assert after == durable[number + 1 :]


async def test_a_place_that_is_none_is_misuse() -> None:
    agent = Agent("a", model=ScriptedModel(["Done."]))
    with pytest.raises(upshot.Misuse):
        await seen(agent, after="x")


async def test_answers_are_told_of_what_the_user_was_asked_and_of_nothing_else() -> None:
    calls = [ToolCall("p", "pay", {"order": 1}), ToolCall("r", "refund", {"order": 1})]
    agent = Agent("a", model=ScriptedModel([calls, "Done."]), tools=[pay, refund])
    async with App([agent], journal="memory:") as app, working(app):
        handle = await app.submit(agent, "Go.")
        result = await handle.result()
        await handle.answer(*(one.deny() for one in result.pending))
        shown = [one async for one in public_events(app, handle) if one["kind"] == "answered"]
    assert [(one["id"], one["approved"]) for one in shown] == [("p", False)]
