"""A streamed reply, against a bare aiohttp loop that reads the same stream line by line."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import aiohttp

import upshot
from bench.interleave import measure, show
from bench.server import serving

__all__ = ["streaming"]

EVENTS = 2_000
PIECE = "tokens, "


def streaming() -> None:
    """Two thousand events, one per flushed chunk."""
    text = PIECE * EVENTS
    scenario = {"replies": [{"text": text}], "chunk_chars": len(PIECE)}
    with serving(scenario) as base_url:
        raw = RawStream(base_url, text)
        candidates = {"upshot": _upshot(base_url, text), "raw": raw.run}
        figures = measure(candidates, closing=raw.aclose)
    what = f"reading a stream of {EVENTS:,} events over HTTP"
    show(what, figures, per=EVENTS // 1_000, unit="1,000 chunks", aim=1.5)


def _upshot(base_url: str, text: str) -> Callable[[], Awaitable[object]]:
    model = upshot.resolve("openai:bench", base_url=base_url, api_key="none")

    async def run() -> None:
        pieces: list[str] = []
        async for item in model.stream("Say it all."):
            if isinstance(item, upshot.TextDelta):
                pieces.append(item.text)
            elif isinstance(item, upshot.ModelResponse):
                assert item.content == text, item.error
        assert len(pieces) == EVENTS

    return run


class RawStream:
    """The same request by hand: every data line is parsed as JSON, the text kept."""

    def __init__(self, base_url: str, text: str) -> None:
        self._url = f"{base_url}/chat/completions"
        self._text = text
        self._session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Read one stream to its end."""
        if self._session is None:
            self._session = aiohttp.ClientSession()
        messages = [{"role": "user", "content": "Say it all."}]
        body = json.dumps({"model": "bench", "messages": messages, "stream": True})
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        pieces: list[str] = []
        async with self._session.post(self._url, data=body.encode(), headers=headers) as response:
            async for line in response.content:
                if not line.startswith(b"data: ") or line == b"data: [DONE]\n":
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    pieces.append(choice["delta"].get("content") or "")
        assert "".join(pieces) == self._text

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
