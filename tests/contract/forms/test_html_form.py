"""A result in a notebook: figures and outcomes, and no word of anybody."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import Agent, AgentResult, ScriptedModel, ToolCall, run, tool

SECRETS = ("asked-of-it", "it-answers", "argument-of-it", "what-it-gave", "why-it-failed")


@tool(effect="write")
def refund(order: str) -> str:
    """Refund an order."""
    return f"what-it-gave {order}"


@tool(effect="read")
def look(order: str) -> str:
    """Look at an order."""
    raise ValueError(f"why-it-failed {order}")


@tool(effect="write", approval=True)
def erase(order: str) -> str:
    """Erase an order."""
    return order


class Reader(HTMLParser):
    """Reads HTML, and fails where a tag is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += f" {data}"


def read(result: AgentResult[Any]) -> Reader:
    html = result._repr_html_()
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [] and "script" not in reader.tags
    return reader


async def done(*calls: ToolCall, **options: Any) -> AgentResult[Any]:
    model = ScriptedModel([[*calls], "it-answers"])
    agent = Agent("desk", model=model, tools=[refund, look, erase])
    return await run(agent, "asked-of-it", **options)


def call(id: str, name: str) -> ToolCall:
    return ToolCall(id, name, {"order": "argument-of-it"})


async def test_it_has_figures_outcomes_and_a_bar_for_each_call() -> None:
    result = await done(call("1", "refund"), call("2", "look"), call("3", "argument-of-it"))
    reader = read(result)
    words = " ".join(reader.text.split())
    assert words.startswith("desk completed ")
    assert "3 tool calls · 1 applied" in words and "cost unknown" in words
    assert re.search(r"refund \d+ ms result , applied", words)
    assert re.search(r"look \d+ ms failure", words)
    assert "no tool denied: unknown_tool" in words
    assert reader.tags.count("rect") == 2
    assert not [one for one in SECRETS if one in result._repr_html_()]


async def test_it_says_what_is_waited_for_and_why_a_run_failed() -> None:
    waits = read(await done(call("1", "erase"), journal="memory:")).text
    assert "input_required" in waits and "waits for 1 answer" in waits
    assert "argument-of-it" not in waits
    failed = await run(Agent("desk", model=ScriptedModel([])), "asked-of-it")
    assert failed.error is not None
    said = read(failed).text
    assert str(failed.error.code) in said and failed.error.message not in said


@pytest.mark.parametrize("field", ["agent_id", "run_id"])
@given(name=st.text(max_size=40))
def test_any_name_is_text(field: str, name: str) -> None:
    given: dict[str, Any] = {field: f"<script>{name}</script><img src=x onerror=alert(1)>"}
    read(AgentResult[Any](**given))
