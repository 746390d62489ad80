"""Agents whose runs have what the page of a run shows: child runs, tables, media, compaction."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

import upshot
from upshot import (
    Agent,
    AgentError,
    App,
    Compaction,
    Decider,
    ErrorCode,
    Failed,
    Message,
    ModelRequest,
    ModelResponse,
    Request,
    Retry,
    ScriptedModel,
    ToolCall,
    Usage,
)
from upshot.engines import ScriptEngine

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""An image of one pixel."""
BUSY = AgentError(ErrorCode.RATE_LIMIT, "busy", retryable=True, retry_after_s=0)
FILTERED = AgentError(ErrorCode.CONTENT_FILTER, "the provider refused")


@upshot.tool(effect="read")
def look(order: int) -> list[dict[str, int]]:
    """Look an order up."""
    return [{"order": order, "cents": 500}]


@upshot.tool(effect="write")
def pay(order: int) -> str:
    """Pay an order back."""
    return "paid"


@upshot.tool(effect="read")
def list_orders() -> list[dict[str, Any]]:
    """List all orders."""
    return [
        {"order": n, "customer": "\u05d1\u05df" if n == 3 else "Ben", "paid": n % 2 == 0}
        for n in range(60)
    ]


@upshot.tool(effect="read")
def read_terms() -> str:
    """Read the terms."""
    return "\n".join(f"{n}. No refunds on day {n}." for n in range(200))


class Careful(Decider):
    """Leaves the tool that pays out of the first request."""

    def before_model(self, info: Any, request: ModelRequest) -> ModelRequest:
        tools = tuple(tool for tool in request.tools if tool.name != "pay")
        first = len(request.messages) == 1
        return msgspec.structs.replace(request, tools=tools) if first else request


def answer(messages: Any) -> ModelResponse:
    """Looks one order up, or three in a row if it is asked to compact, then answers."""
    found = re.search(r'"order":(\d+)', messages[-1].text)
    seen, usage = int(found[1]) if found else 0, Usage(input_tokens=100, output_tokens=1)
    if seen < (3 if "compact" in messages[0].text else 1):
        call = ToolCall(f"c{seen}", "look", {"order": seen + 1})
        return ModelResponse(tool_calls=(call,), usage=usage)
    return ModelResponse(content="It is paid.", usage=usage)


def agents() -> list[Agent[Any]]:
    leaf = Agent[Any]("leaf", model=ScriptedModel(lambda _: FILTERED))

    async def inner(flow: Any, host: Any, board: Any) -> str:
        raise Failed((await flow.child(leaf, "Say it.")).error)

    middle = Agent[Any]("middle", engine=ScriptEngine(inner))

    async def outer(flow: Any, host: Any, board: Any) -> str:
        raise Failed((await flow.child(middle, "Do it.")).error)

    desk = Agent[Any](
        "desk",
        instructions="Be kind.",
        model=ScriptedModel(answer),
        tools=[look, pay],
        deciders=[Careful()],
    )
    reads = [[ToolCall("a", "list_orders", {}), ToolCall("b", "read_terms", {})], "Read."]
    counts = [[ToolCall(f"k{n}", "look", {"order": n}) for n in range(260)], "Counted."]
    short = Compaction(at_tokens=90, keep_last=2)
    return [
        leaf,
        middle,
        Agent[Any]("lead", engine=ScriptEngine(outer)),
        desk,
        Agent[Any](
            "reader",
            model=ScriptedModel(lambda m: reads[len(m) > 1]),
            tools=[list_orders, read_terms],
        ),
        Agent[Any]("busy", model=ScriptedModel([BUSY, "Hello."]), retry=Retry(base_s=0)),
        Agent[Any]("counter", model=ScriptedModel(lambda m: counts[len(m) > 1]), tools=[look]),
        Agent[Any]("memo", model=ScriptedModel(answer), tools=[look], compaction=short),
    ]


async def run_of(app: App, agent: str, asked: Request | Message | str) -> str:
    """The id of a run that has ended."""
    run = await app.submit(agent, asked)
    await run.result(timeout_s=60)
    return run.id
