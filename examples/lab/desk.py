"""A support desk, and three changes to it that somebody proposes.

The models are scripts, so that the example needs no key. Each stands for a real model under the
instructions of its agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from upshot import Agent, App, Message, ModelResponse, ScriptedModel, ToolCall, Usage, tool

KINDS = ("late", "broken", "wrong size", "invoice")
paid: list[tuple[int, int]] = []
"""What the shop's bank has really paid back."""


@tool(effect="read")
def find_order(order: int) -> dict[str, Any]:
    """Find an order: its price and its kind of delivery."""
    return {"order": order, "cents": 1000 + order, "delivery": "parcel"}


@tool(effect="read")
def track_parcel(order: int) -> dict[str, Any]:
    """Say where the parcel of an order is."""
    return {"order": order, "arrives": "Tuesday"}


@tool(effect="write")
def refund(order: int, cents: int) -> str:
    """Pay money back to the customer."""
    paid.append((order, cents))
    return f"refunded {cents}"


def today(ticket: str, order: int, results: Sequence[str]) -> str | ToolCall:
    """Looks the order up and refunds what came broken. It says sorry to the others."""
    if not results:
        return ToolCall("find", "find_order", {"order": order})
    if "broken" in ticket and len(results) == 1:
        return ToolCall("pay", "refund", {"order": order, "cents": 1000 + order})
    return "The money is on its way." if "broken" in ticket else "We are sorry for that."


def tracking(ticket: str, order: int, results: Sequence[str]) -> str | ToolCall:
    """Today's desk, which also tracks parcels that are late."""
    if "late" in ticket and len(results) == 1:
        return ToolCall("track", "track_parcel", {"order": order})
    if "late" in ticket and len(results) == 2:
        return "Your parcel arrives on Tuesday."
    return today(ticket, order, results)


def generous(ticket: str, order: int, results: Sequence[str]) -> str | ToolCall:
    """Refunds whatever is complained about, without a look at the order."""
    if "invoice" in ticket:
        return today(ticket, order, results)
    if not results:
        return ToolCall("pay", "refund", {"order": order, "cents": 5000})
    return "The money is on its way."


def small(ticket: str, order: int, results: Sequence[str]) -> str | ToolCall:
    """A small model, which forgets to pay in every fifth ticket, and says that it did."""
    if order % 5 == 0 and len(results) == 1:
        return "The money is on its way."
    return today(ticket, order, results)


def make_desk(reply: Callable[[str, int, Sequence[str]], str | ToolCall], tokens: int) -> Agent:
    """The desk with a model that replies like this, and needs so many tokens for it."""

    def model(messages: Sequence[Message]) -> ModelResponse:
        ticket = messages[0].text
        order = int(re.findall(r"\d+", ticket)[0])
        said = reply(ticket, order, [one.text for one in messages if one.tool_call_id])
        usage = Usage(input_tokens=tokens, output_tokens=tokens // 10)
        if isinstance(said, str):
            return ModelResponse(content=said, usage=usage)
        return ModelResponse(tool_calls=(said,), usage=usage)

    tools = [find_order, track_parcel, refund]
    return Agent("support", model=ScriptedModel(model), tools=tools)


support = make_desk(today, 400)
"""Today's desk."""
app = App([support], journal="desk.db")
"""For ``upshot serve``."""
CHANGES = {
    "tracking": make_desk(tracking, 420),
    "generous": make_desk(generous, 380),
    "small model": make_desk(small, 90),
}
