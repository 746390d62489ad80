"""The cost of upshot itself: a scripted model in process, no network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import upshot
from bench.interleave import measure

__all__ = ["in_process"]

CALLS = 100


@upshot.tool(effect="read")
async def look_async(key: str) -> str:
    """Look a key up."""
    return key


@upshot.tool(effect="read")
def look_plain(key: str) -> str:
    """Look a key up."""
    return key


def in_process() -> None:
    """CPU of a tool step, for an async and for a plain tool."""
    figures = measure({"async": _run("look_async"), "plain": _run("look_plain")})
    for name, aim in (("async", 0.15), ("plain", 0.30)):
        print(
            f"framework alone, {name} tool\n  {figures[name] / CALLS * 1e3:.3f} ms CPU a step "
            f"(aim <= {aim} ms)"
        )


def _run(tool: str) -> Callable[[], Awaitable[object]]:
    agent = upshot.Agent(
        "bench", tools=[look_async, look_plain], budget=upshot.Budget(max_turns=None)
    )

    async def run() -> None:
        calls = [upshot.ToolCall(f"c{n}", tool, {"key": f"k{n}"}) for n in range(CALLS)]
        model = upshot.ScriptedModel([*calls, "done"])
        result = await upshot.run(agent, "Go.", model=model)
        assert len(result.tool_outcomes) == CALLS, result.error

    return run
