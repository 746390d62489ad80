"""Who the chat is with: an assistant of a shop, with a slow tool and one that needs a yes.

Its model is scripted, so that it needs no key: a function that reads the conversation as a model
would. ``make_assistant("openai:gpt-5")`` is the same with a real one.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from typing import Any

from upshot import (
    Agent,
    Compaction,
    Message,
    Misuse,
    Role,
    ScriptedModel,
    ToolCall,
    ToolContext,
    resolve,
    tool,
)

SHELVES = 40


@tool(effect="read")
async def find_parcel(context: ToolContext[Any], order: int) -> str:
    """Look for the parcel of an order, shelf by shelf."""
    for shelf in range(1, SHELVES + 1):
        context.progress(f"shelf {shelf} of {SHELVES}")
        await asyncio.sleep(0.05)
        if shelf == order:
            return f"on shelf {shelf}"
    return "nowhere"


@tool(effect="write", approval=True)
async def send_parcel(order: int) -> str:
    """Send a parcel to the customer."""
    return "sent"


def make_assistant(model: str | None = None) -> Agent[Any]:
    """The assistant, with a model by name or the scripted one.

    Raises:
        Misuse: *model* names none.
    """
    return Agent(
        "assistant",
        model=resolve(model) if model else ScriptedModel(answer, name="scripted:assistant"),
        instructions="Find parcels and send them, when the customer wants it.",
        tools=[find_parcel, send_parcel],
        # A long talk goes on from a summary; the scripted model has none to give.
        compaction=Compaction(at_tokens=100_000, summarise=model),
    )


def chosen_assistant() -> Agent[Any]:
    """The assistant that the command line names."""
    parser = argparse.ArgumentParser(description="A terminal chat. Ctrl-C stops the reply only.")
    parser.add_argument("--model", help="a real one, such as openai:gpt-5; else scripted")
    try:
        return make_assistant(parser.parse_args().model)
    except Misuse as error:
        parser.error(str(error))


def answer(messages: Sequence[Message]) -> str | ToolCall:
    """What a model might say; the order may have been named some turns ago."""
    last, said = messages[-1], [one.text for one in messages if one.role is Role.USER]
    order = int((re.findall(r"\d+", " ".join(said)) or ["7"])[-1])
    if last.role is Role.TOOL:
        found = re.search(r"on shelf \d+|nowhere|sent", last.text)
        words = found[0] if found else "still here"
        return f"The parcel of order {order} is {words}." + " Shall I send it?" * ("on" in words)
    if re.search("send|yes", last.text.lower()):
        return ToolCall(f"send-{len(messages)}", "send_parcel", {"order": order})
    if re.search("where|find|order", last.text.lower()):
        return ToolCall(f"find-{len(messages)}", "find_parcel", {"order": order})
    return "Ask me where the parcel of an order is, such as order 7, and I will find it."
