"""What of a run's events a stranger may see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentError,
    Failed,
    ModelResponse,
    Reasoning,
    Request,
    Retry,
    ScriptedModel,
    ScriptEngine,
    Text,
    ToolCall,
    ToolContext,
    ToolError,
    output_guardrail,
    start,
    states,
    to_public_event,
    tool,
)
from upshot.journal import MemoryJournal

CANARY = "canary"


@tool(effect="read")
async def look(order: str) -> str:
    """Look canary up."""
    return f"canary of {order}"


@tool(effect="read")
async def search(words: str) -> str:
    raise ToolError("canary is down")


@tool(effect="write", approval=True, ask="user")
async def refund(order: int) -> str:
    """Pay canary back."""
    return "canary"


def desk(*last: Any) -> Agent:
    calls = (
        ToolCall("1", "look", {"order": "canary"}),
        ToolCall("2", "search", {"words": "canary"}),
    )
    parts = (Reasoning(text="canary"), Text("I look."), *calls)
    headers = {"raw_headers": {"x": "canary"}}
    first = ModelResponse(parts=parts, provider_data=headers)  # type: ignore[arg-type]
    model = ScriptedModel([first, *last])
    return Agent("canary", instructions="canary", model=model, tools=[look, search, refund])


async def shown(agent: Agent, **tools: str) -> list[Any]:
    journal, said = MemoryJournal(), Request("canary", run_id="r", metadata={"a": "canary"})
    async with start(agent, said, journal=journal) as live:
        seen = [to_public_event(event, tools=tools) async for event in live]
    again = [to_public_event(event, tools=tools) async for event, _ in states(journal.events("r"))]
    seen, again = ([one for one in all if one is not None] for all in (seen, again))
    assert again == [one for one in seen if "seq" in one]
    return seen


def without_seq(events: list[Any]) -> list[Any]:
    return [{name: value for name, value in one.items() if name != "seq"} for one in events]


async def test_it_shows_what_is_said_and_the_tools_that_have_a_public_name() -> None:
    seen = await shown(desk("It is shipped."), look="Order")
    assert CANARY not in json.dumps(seen)
    pieces = [one["text"] for one in seen if one["kind"] == "text"]
    assert "".join(pieces) == "I look.It is shipped."
    assert without_seq([one for one in seen if one["kind"] != "text"]) == [
        {"kind": "message", "text": "I look."},
        {"kind": "tool", "id": "1", "name": "Order", "state": "started"},
        {"kind": "tool", "id": "1", "name": "Order", "state": "done"},
        {"kind": "message", "text": "It is shipped."},
        {"kind": "end", "status": "completed", "text": "It is shipped."},
    ]


async def test_what_a_tool_says_of_its_progress_is_shown_of_tools_with_a_public_name() -> None:
    def working(name: str) -> Any:
        @tool(name=name, effect="read")
        async def work(context: ToolContext) -> str:
            context.progress(f"half of {name}", {"data": "canary"})
            return "canary"

        return work

    calls = [ToolCall("1", "shown", {}), ToolCall("2", "hidden", {})]
    model = ScriptedModel([calls, "Done."])
    agent = Agent("a", model=model, tools=[working("shown"), working("hidden")])
    seen = [one for one in await shown(agent, shown="Order") if one["kind"] == "tool"]
    assert without_seq(seen) == [
        {"kind": "tool", "id": "1", "name": "Order", "state": "started"},
        {"kind": "tool", "id": "1", "name": "Order", "state": "working", "text": "half of shown"},
        {"kind": "tool", "id": "1", "name": "Order", "state": "done"},
    ]


async def test_a_tool_that_failed_is_failed_and_says_no_more() -> None:
    seen = await shown(desk("Sorry."), search="Search")
    states = [one["state"] for one in seen if one["kind"] == "tool"]
    assert (states, CANARY in json.dumps(seen)) == (["started", "failed"], False)


async def test_what_staff_is_asked_is_not_shown_and_only_that_it_waits() -> None:
    for_staff = desk([ToolCall("p", "refund", {"order": 7})]).but(
        tools=[look, search, refund.but(ask="staff")]
    )
    seen = await shown(for_staff, refund="Refund")
    assert without_seq([seen[-1]]) == [
        {"kind": "end", "status": "input_required", "waits_for_others": True}
    ]


async def test_a_call_of_a_model_that_is_tried_again_makes_its_pieces_void() -> None:
    busy = ModelResponse(error=AgentError("rate_limited", "canary", retryable=True))
    retry = Retry(base_s=0)
    seen = await shown(desk().but(model=ScriptedModel([busy, "Hello."]), retry=retry))
    assert without_seq(seen)[0] == {"kind": "reset"}


async def test_what_a_guardrail_refused_is_void() -> None:
    refuses = output_guardrail(lambda info, result: "canary")
    seen = await shown(desk().but(model=ScriptedModel(["You fool."]), deciders=[refuses]))
    assert without_seq(seen[-2:]) == [
        {"kind": "reset", "attempt": 1},
        {"kind": "end", "status": "failed", "error": "policy_denied"},
    ]


async def test_a_question_shows_what_is_approved_and_its_digest() -> None:
    seen = await shown(desk([ToolCall("p", "refund", {"order": 7})]), refund="Refund")
    (question,) = seen[-1].pop("questions")
    assert len(question.pop("digest")) == 64
    assert without_seq([seen[-1]]) == [{"kind": "end", "status": "input_required"}]
    assert question == {
        "kind": "approval",
        "id": "p",
        "tool": "Refund",
        "arguments": {"order": 7},
        "effect": "write",
    }


async def test_a_question_of_the_agent_is_shown() -> None:
    async def ask(run: Any, host: Any, board: Any) -> None:
        await host.ask_user("Which one?", choices=["a", "b"])

    seen = await shown(Agent("a", engine=ScriptEngine(ask)))
    (question,) = seen[-1]["questions"]
    assert (question["question"], question["choices"]) == ("Which one?", ["a", "b"])


@pytest.mark.parametrize("error", [Failed("invalid_request", CANARY), ValueError(CANARY)])
async def test_an_error_is_its_code(error: Exception) -> None:
    async def fail(run: Any, host: Any, board: Any) -> None:
        raise error

    seen = await shown(Agent("a", engine=ScriptEngine(fail)))
    code = "invalid_request" if isinstance(error, Failed) else "internal"
    assert without_seq(seen) == [{"kind": "end", "status": "failed", "error": code}]


async def test_what_child_runs_say_is_not_shown() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        await run.child(desk("canary"), "canary")
        return "Done."

    seen = await shown(Agent("a", engine=ScriptEngine(work)), look="Order")
    assert [one["kind"] for one in seen] == ["end"]
    assert CANARY not in json.dumps(seen)
