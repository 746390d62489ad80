"""The page of a run: the same live, in parts, and once it has ended."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from upshot import (
    Agent,
    AgentError,
    Budget,
    ErrorCode,
    Event,
    ModelResponse,
    PendingApproval,
    Request,
    Retry,
    ScriptedModel,
    ToolCall,
    answer,
    decode,
    encode,
    resume,
    run,
    run_sync,
    states,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.state.run_view import RunView, RunViewer


@tool(effect="write", approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return "refunded"


@tool(effect="read")
def look(order: int) -> str:
    """Look an order up."""
    if order == 2:
        raise ValueError("there is none")
    return "Paid."


BUSY = AgentError(ErrorCode.RATE_LIMIT, "busy", retryable=True, retry_after_s=0)


async def mixed_run(journal: MemoryJournal) -> None:
    """A run with a retry, results, a failure, a refusal, a question and an answer."""
    calls = [ToolCall("a", "look", {"order": 1}), ToolCall("b", "look", {"order": 2})]
    model = ScriptedModel(
        [
            ModelResponse(error=BUSY),
            ModelResponse(content="I look.", tool_calls=(*calls, ToolCall("c", "lok", {}))),
            ToolCall("r", "refund", {"order": 1}),
            "Done.",
        ]
    )
    agent = Agent("desk", model=model, tools=[refund, look], retry=Retry(base_s=0))
    given: Any = {"attributes": {"user": "ann"}}
    await run(agent, Request("My money?", run_id="r"), journal=journal, **given)
    (item,) = await journal.inbox()
    assert isinstance(item.pending, PendingApproval)
    await answer("r", [item.pending.approve(by="sam")], journal=journal)
    await resume("r", agent, journal=journal)


async def logged() -> list[Event]:
    journal = MemoryJournal()
    await mixed_run(journal)
    return [event async for event, _ in states(journal.events("r"))]


def viewed(events: list[Event]) -> RunViewer:
    viewer = RunViewer()
    for event in events:
        viewer.add(event)
    return viewer


def merged(first: RunView, later: RunView) -> RunView:
    """What a page has that was given both."""
    rows = {one.id: one for one in (*first.rows, *later.rows)}
    messages = {one.id: one for one in (*first.messages, *later.messages)}
    return replace(
        later,
        rows=tuple(rows[id] for id in sorted(rows)),
        messages=tuple(messages[id] for id in sorted(messages)),
    )


async def test_what_changed_after_any_view_makes_the_view_of_the_whole() -> None:
    events = await logged()
    whole = viewed(events).view()
    assert whole.head.has_ended and whole.head.owner == "ann"
    for cut in range(len(events) + 1):
        for second in range(cut, len(events) + 1):
            viewer = viewed(events[:cut])
            page = viewer.view()
            for event in events[cut:second]:
                viewer.add(event)
            page = merged(page, viewer.view(page.revision))
            for event in events[second:]:
                viewer.add(event)
            assert merged(page, viewer.view(page.revision)) == whole


async def test_it_says_what_happened_and_reads_back() -> None:
    view = viewed(await logged()).view()
    assert decode(encode(view), RunView) == view
    told = [(row.kind, row.name, row.word, row.effect) for row in view.rows]
    assert ("model", "model 1", "rate_limit", "none") in told
    assert ("model", "model 1 again", "3 calls", "none") in told
    assert ("tool", "look", "result", "none") in told
    assert ("tool", "look", "failure", "none") in told
    assert ("tool", "lok", "denied: unknown_tool", "none") in told
    assert ("tool", "refund", "result", "applied") in told
    assert view.head.effect == "applied"
    (given,) = view.head.answered
    assert given.answer.by == "sam" and given.asked is not None
    said = [(one.role, one.text) for one in view.messages if one.role != "tool"]
    assert said[0] == ("user", "My money?") and said[-1] == ("assistant", "Done.")
    for row in view.rows:
        assert 0 < row.seq <= (row.end_seq or view.head.seq)


@pytest.mark.slow
def test_a_run_of_thousands_of_steps_is_shown_at_once() -> None:
    calls = [ToolCall(f"c{n}", "look", {"order": n + 3}) for n in range(2_000)]
    agent = Agent("a", model=ScriptedModel([*calls, "Done."]), tools=[look])
    journal = MemoryJournal()
    run_sync(agent, Request("?", run_id="r"), journal=journal, budget=Budget(max_turns=None))
    events = run_states(journal)
    began = time.process_time()
    viewer = viewed(events)
    view = viewer.view()
    took_s = time.process_time() - began
    assert len(view.rows) == 4_001
    print(f"first view of 4,001 rows: {took_s * 1000:.0f} ms, {len(encode(view)):,} bytes")
    began = time.process_time()
    viewer.view(view.revision)
    print(f"a later one: {(time.process_time() - began) * 1000:.1f} ms")


def run_states(journal: MemoryJournal) -> list[Event]:
    import asyncio

    async def read() -> list[Event]:
        return [event async for event, _ in states(journal.events("r"))]

    return asyncio.run(read())


@given(st.text(max_size=200))
def test_any_text_of_others_is_text(text: str) -> None:
    agent = Agent("a", model=ScriptedModel([text or "."]))
    journal = MemoryJournal()
    run_sync(agent, Request(text, run_id="r"), journal=journal)
    view = viewed(run_states(journal)).view()
    assert view.messages[0].text == view.head.request == text
    assert decode(encode(view), RunView) == view
