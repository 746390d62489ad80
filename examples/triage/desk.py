"""A help desk: triage hands a ticket over to billing or tech; a refund needs approval.

The models are scripted, so that it needs no key: functions that read the conversation as a model
would. Tools, hand-offs, approvals and the log are real.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from upshot import Agent, Handoff, Message, Role, ScriptedModel, ToolCall, tool

CHARGES = {7: [1250, 1250], 9: [4900], 12: [24000, 24000]}
LINES = {"4711": "no signal since 08:12, the street cabinet is being repaired"}
refunds: list[tuple[int, int]] = []


@tool(effect="read")
def charges(order: int) -> list[int]:
    """What was charged for an order, in cents."""
    return CHARGES.get(order, [])


@tool(effect="write", approval=True)
def refund(order: int, cents: int) -> dict[str, int]:
    """Pay money back for an order."""
    refunds.append((order, cents))
    return {"refunded_cents": cents}


@tool(effect="read")
def line_state(line: str) -> str:
    """What is known of a customer's line."""
    return LINES.get(line, "in order")


def make_desk(model: str | None = None) -> list[Agent[Any]]:
    """The three agents; triage comes first.

    Args:
        model: A real model for all of them, such as "openai:gpt-5"; None is the scripted ones.
    """
    return [
        Agent(
            "triage",
            model=model or ScriptedModel(triage, name="scripted:triage"),
            instructions="Hand tickets over to who can solve them, with a reason.",
            handoffs=[Handoff("billing", "Money."), Handoff("tech", "Faults.")],
        ),
        Agent(
            "billing",
            model=model or ScriptedModel(billing, name="scripted:billing"),
            instructions="Look charges up before you refund what was charged twice.",
            tools=[charges, refund],
        ),
        Agent(
            "tech",
            model=model or ScriptedModel(tech, name="scripted:tech"),
            instructions="Look the customer's line up and say what is known.",
            tools=[line_state],
        ),
    ]


def triage(messages: Sequence[Message]) -> str | ToolCall:
    """Whose ticket is it?"""
    text = messages[-1].text.lower()
    if re.search("charged|refund|bill", text):
        return hand_over("billing", "it is about money")
    if re.search("router|line|slow", text):
        return hand_over("tech", "it sounds like a fault of the line")
    return "We are open from eight to six, every day but Sunday."


def billing(messages: Sequence[Message]) -> str | ToolCall:
    """Look the charges up, refund what was charged twice, answer."""
    last = messages[-1]
    order = number_in(messages)
    if last.role is not Role.TOOL:
        return ToolCall("look", "charges", {"order": order})
    facts = json.loads(last.text)
    if last.name == "charges":
        charged = facts["result"]
        if len(charged) < 2:
            return f"Order {order} was charged once; there is nothing to pay back."
        return ToolCall("pay", "refund", {"order": order, "cents": charged[-1]})
    if "refunded_cents" in facts:
        return f"Sorry for that: {facts['refunded_cents'] / 100:.2f} for order {order} are yours."
    return f"Order {order} was charged twice. A colleague will look at it and call you."


def tech(messages: Sequence[Message]) -> str | ToolCall:
    """Look the line up, and say what is known."""
    line = str(number_in(messages))
    if messages[-1].role is not Role.TOOL:
        return ToolCall("look", "line_state", {"line": line})
    return f"Line {line}: {messages[-1].text}."


def hand_over(to: str, reason: str) -> ToolCall:
    """The call that passes a ticket on."""
    return ToolCall(f"to-{to}", f"transfer_to_{to}", {"reason": reason})


def number_in(messages: Sequence[Message]) -> int:
    """The number that the customer named."""
    return int((re.findall(r"\d+", messages[0].text) or ["0"])[0])
