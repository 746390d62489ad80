"""A desk whose agents end, wait and fail in every way; ``upshot serve`` takes it as it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from upshot import (
    Agent,
    App,
    Board,
    Decider,
    FinalizeDecision,
    Message,
    Run,
    RunHost,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from upshot.contract import AgentError, ErrorCode, Origin, Role

Step: TypeAlias = str | ErrorCode | list[tuple[str, dict[str, Any]]]

# What the model says and calls, by how the user's message begins.
SCENES: dict[str, tuple[Step, ...]] = {
    "Look": ([("find_order", {"order": 7}), ("peek", {})], "Order 7 is on its way."),
    "Miss": ([("find_order", {"order": 0})], "There is no such order."),
    "Pay": ([("pay", {"order": 1})], "That is settled."),
    "Twice": ([("pay", {"order": 1}), ("pay", {"order": 2})], "Both are settled."),
    "Refund": ([("refund", {"order": 1})], "Staff has looked at it."),
    "Both": ([("refund", {"order": 1}), ("pay", {"order": 1})], "All is settled."),
    "Then": ([("pay", {"order": 1})], [("pay", {"order": 2})], "One after the other."),
    "Silent": ([("pay", {"order": 1})], ErrorCode.CONTENT_FILTER),
    "Fail": (ErrorCode.CONTENT_FILTER,),
    "Hold": ([("hold", {})], "It was held."),
}


@tool(effect="read", public=lambda given: {"order": given["order"]}, public_name="lookup")
def find_order(context: ToolContext[None], order: int, secret: str = "s3cret") -> str:
    """Find an order."""
    context.progress("looking")
    if not order:
        raise ToolError("no order has the number 0", retryable=False)
    return "what only the model reads"


@tool(effect="read")
def peek() -> str:
    """Peek."""
    return "what nobody sees"


@tool(effect="write", approval=True, ask="user")
def pay(order: int) -> str:
    """Pay an order."""
    return f"paid {order}"


@tool(effect="destructive", approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


@tool(effect="read", public=True)
async def hold() -> str:
    """Wait until somebody ends the run."""
    await asyncio.Event().wait()
    return "held"


class Talker(ScriptedModel):
    """Plays the scene that the user's last message names, else says that message."""

    def __init__(self) -> None:
        super().__init__(self._next)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """As any scripted model; a word "..." is waited for until a file has the word."""
        async for item in super().stream(request):
            yield item
            if "..." in str(getattr(item, "text", "")):
                await _released()

    def _next(self, messages: Sequence[Message]) -> Any:
        asked = max(at for at, one in enumerate(messages) if one.role is Role.USER)
        said = sum(one.role is Role.ASSISTANT for one in messages[asked:])
        text = messages[asked].text
        steps = SCENES.get(text.partition(" ")[0], (f"You said {text}",))
        step = steps[min(said, len(steps) - 1)]
        if isinstance(step, ErrorCode):
            return AgentError(step, "the provider said no", origin=Origin.MODEL)
        if isinstance(step, str):
            return step
        return [ToolCall(f"c{said}{at}", name, given) for at, (name, given) in enumerate(step)]


async def _released() -> None:
    """Wait until the file is there that the environment names, if it names one."""
    if name := os.environ.get("UPSHOT_TEST_GATE"):
        while not Path(name).exists():
            await asyncio.sleep(0.01)


async def _ask(run: Run, host: RunHost, board: Board) -> str:
    size = await host.ask_user("Which size?", choices=("S", "M"), key="size")
    return f"Size {size}."


class Once(Decider):
    """Has the first attempt revised."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        first = result.attempts == 1
        again = FinalizeDecision.revise(request.to_message().text, "r")
        return again if first else FinalizeDecision.accept()


class Never(Decider):
    """Lets no answer out."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.discard("it must not be said")


def make_desk(journal: Any = "memory:") -> App:
    """The App: an agent for all scenes, one that asks, and two that are judged."""
    tools = [find_order, peek, pay, refund, hold]
    return App(
        [
            Agent("desk", model=Talker(), tools=tools),
            Agent("tailor", engine=ScriptEngine(_ask)),
            Agent("revised", model=Talker(), tools=tools, deciders=[Once()]),
            Agent("discarded", model=Talker(), tools=tools, deciders=[Never()]),
        ],
        journal=journal,
        version="1",
    )


app = make_desk()
