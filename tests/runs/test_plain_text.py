"""The model of a run reads a text that a tool returns as that text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import log_of
from upshot import (
    Agent,
    Request,
    ScriptedModel,
    Tool,
    Toolbox,
    ToolCall,
    ToolExecutionResult,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal


def giving(value: Any, **options: Any) -> Tool:
    @tool(effect="read", **options)
    def look() -> Any:
        return value

    return look


async def read_of(look: Tool) -> tuple[str, Any]:
    """What the model reads of a call, and what the outcome holds."""
    model = ScriptedModel([ToolCall("c", "look", {}), lambda messages: messages[-1].text])
    result = await run(Agent("a", model=model, tools=[look]), "Look.")
    (outcome,) = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    return result.content or "", outcome.output


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("ok", "ok"),
        ('{"a": 1}\n', '{"a": 1}\n'),
        ("", '{"result":""}'),
        (5, '{"result":5}'),
        (["ok"], '{"result":["ok"]}'),
        ({"said": "ok"}, '{"said":"ok"}'),
        ({"result": "ok", "more": 1}, '{"result":"ok","more":1}'),
    ],
)
async def test_a_text_is_read_as_it_is_and_all_else_as_json(value: Any, read: str) -> None:
    said, output = await read_of(giving(value))
    assert said == read
    assert output == (value if isinstance(value, dict) else {"result": value})


async def test_a_tool_may_want_json_for_texts_too() -> None:
    assert (await read_of(giving("ok", plain_text=False)))[0] == '{"result":"ok"}'


async def test_a_toolbox_alone_keeps_to_json() -> None:
    box = Toolbox([giving("ok")])
    (outcome,) = await box.dispatch([ToolCall("c", "look", {})])
    assert box.content_of(outcome) == '{"result":"ok"}'


@pytest.mark.parametrize("plain", [True, False])
async def test_the_log_gives_back_what_was_read(*, plain: bool) -> None:
    journal, look = MemoryJournal(), giving("sunny", plain_text=plain)
    model = ScriptedModel([ToolCall("c", "look", {}), "Done."])
    agent: Agent[Any] = Agent("a", model=model, tools=[look])
    result = await run(agent, Request("Look.", run_id="r"), journal=journal)
    assert (await resume("r", agent, journal=journal)).messages == result.messages
    stored = [event async for event in journal.events("r") if event.kind == "board_changed"]
    # What is read as usual is not written a second time.
    assert ("sunny" in repr(stored)) is not plain
    assert "sunny" in repr(await log_of(journal, "r"))
