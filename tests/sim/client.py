"""A client that is not upshot's, and a clock that stands still."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import aiohttp

from upshot.sim import Simulator

USER = {"role": "user", "content": "Where is order 7?"}


@dataclass
class Heard:
    """One reply as a client got it."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self):
        return json.loads(self.text)

    @property
    def error(self):
        return self.body["error"]

    @property
    def data(self) -> list:
        """The JSON of every event of a stream, [DONE] left out."""
        lines = [line[6:] for line in self.text.split("\n") if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


class Client:
    """Asks a simulator in the words of either API."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def chat(self, sim: Simulator, messages=(USER,), **body) -> Heard:
        asked = {"model": "m", "messages": list(messages), **body}
        return await self.post(f"{sim.base_url}/chat/completions", asked)

    async def messages(self, sim: Simulator, messages=(USER,), **body) -> Heard:
        asked = {"model": "m", "max_tokens": 99, "messages": list(messages), **body}
        return await self.post(f"{sim.base_url}/messages", asked)

    async def post(self, url: str, body: object, **options) -> Heard:
        async with self.session.post(url, json=body, **options) as response:
            return Heard(response.status, response.headers, await response.text())


@dataclass
class StillClock:
    """A clock that moves only when told, or when someone sleeps on it."""

    seconds: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2025, 7, 29, 15, 41, 24, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        self.seconds += delay_s


def said(text: str) -> dict:
    """An assistant message."""
    return {"role": "assistant", "content": text}


def chat_turn(*results: tuple[str, object]) -> list[dict]:
    """An assistant message that called tools, and their results, in Chat Completions."""
    names = [name for name, _ in results]
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(names)
    ]
    answers = [
        {"role": "tool", "tool_call_id": f"c{n}", "content": _text(value)}
        for n, (_, value) in enumerate(results)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *answers]


def messages_turn(*results: tuple[str, object]) -> list[dict]:
    """The same in Anthropic Messages."""
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": name, "input": {}}
        for n, (name, _) in enumerate(results)
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": _text(value)}
        for n, (_, value) in enumerate(results)
    ]
    return [{"role": "assistant", "content": calls}, {"role": "user", "content": answers}]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
