"""A run of tool calls over HTTP, against a bare aiohttp loop that makes the same requests."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import aiohttp

import upshot
from bench.interleave import measure, show
from bench.server import serving, tool_calls_then_answer

__all__ = ["long_run", "tool_step"]

RESULT = {"text": "x" * 1000}
LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a key up.",
        "parameters": {
            "type": "object",
            "properties": {"key": {"type": "string"}},
            "required": ["key"],
        },
    },
}


@upshot.tool(effect="read")
async def lookup(key: str) -> dict[str, str]:
    """Look a key up."""
    return RESULT


def tool_step() -> None:
    """Ten tool calls: what a step costs."""
    _compare("tool step over HTTP, 10 calls", calls=10, rounds=9, aim=1.3)


def long_run() -> None:
    """Two hundred tool calls: whether the cost of a step grows with the history."""
    _compare("a run of 200 tool calls over HTTP", calls=200, rounds=5, aim=1.0)


def _compare(what: str, *, calls: int, rounds: int, aim: float) -> None:
    with serving(tool_calls_then_answer(calls)) as base_url:
        raw = RawLoop(base_url)
        candidates = {"upshot": _upshot(base_url, calls), "raw": raw.run}
        figures = measure(candidates, rounds=rounds, closing=raw.aclose)
    show(what, figures, per=calls, unit="step", aim=aim)


def _upshot(base_url: str, calls: int) -> Callable[[], Awaitable[object]]:
    model = upshot.resolve("openai:bench", base_url=base_url, api_key="none")
    budget = upshot.Budget(max_turns=None)
    agent = upshot.Agent("bench", model=model, tools=[lookup], budget=budget)

    async def run() -> None:
        result = await upshot.run(agent, "Look everything up.")
        assert result.content == "That is all.", result.error
        assert len(result.tool_outcomes) == calls

    return run


class RawLoop:
    """The same requests by hand: one aiohttp session, the whole history encoded each turn."""

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url}/chat/completions"
        self._session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Ask until there is an answer."""
        if self._session is None:
            self._session = aiohttp.ClientSession()
        messages: list[object] = [{"role": "user", "content": "Look everything up."}]
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        while True:
            body = json.dumps({"model": "bench", "messages": messages, "tools": [LOOKUP]})
            sent = self._session.post(self._url, data=body.encode(), headers=headers)
            async with sent as response:
                reply = json.loads(await response.read())
            message = reply["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                content = json.dumps(RESULT)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
