"""A page that watches one process is told when the worker in another is killed in a reply."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from tests.processes import start_python
from tests.serve.kit import served
from upshot import Agent, App

PROGRAM = """
import asyncio, os, pathlib, signal
from upshot import Agent, App, ModelResponse
from upshot.contract import TextDelta

HERE = pathlib.Path(__file__).parent

class Model:
    async def call(self, request):
        return ModelResponse(content="one two three")

    async def stream(self, request):
        is_first = not (HERE / "seen").exists()
        for word in ("one ", "two ", "three"):
            yield TextDelta(text=word)
            while word == "two " and is_first:
                await asyncio.sleep(0.01)
                if (HERE / "seen").exists():
                    os.kill(os.getpid(), signal.SIGKILL)
        yield ModelResponse(content="one two three")

app = App([Agent("clerk", model=Model())], journal=str(HERE / "desk.db"), version="1")
"""


def worker(program: Path) -> subprocess.Popen[bytes]:
    return start_python("-m", "upshot", "work", program, stderr=DEVNULL)


async def chunks_of(client: Any, chat: str, folder: Path) -> list[dict[str, Any]]:
    """Ask in a new chat, kill the worker in its reply, and return what the page was sent.

    A reply that starts before the worker knows of the page comes whole, and nothing is killed.
    """
    said = {"role": "user", "id": "m1", "parts": [{"type": "text", "text": "Hi."}]}
    workers: list[subprocess.Popen[bytes]] = []
    chunks: list[dict[str, Any]] = []
    ann = client.by("ann")
    asking = ann.session.post(
        f"{ann.url}/ui/clerk", json={"id": chat, "messages": [said]}, headers=ann.headers
    )
    try:
        async with asking as response:
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                chunks.append(chunk)
                if chunk["type"] == "start":
                    workers.append(worker(folder / "app.py"))
                elif chunk.get("delta", "").endswith("two ") and len(workers) == 1:
                    (folder / "seen").touch()
                    assert workers[0].wait() == -signal.SIGKILL
                    workers.append(worker(folder / "app.py"))
    finally:
        for one in workers:
            one.kill()
            one.wait()
    return chunks


async def test_a_page_takes_back_what_a_worker_had_said_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    app = App([Agent("clerk")], journal=str(tmp_path / "desk.db"), version="1")
    async with served(app, work=False) as client:
        for number in range(10):
            chunks = await chunks_of(client, f"chat-{number}", tmp_path)
            if (tmp_path / "seen").exists():
                break
    assert chunks[-1]["finishReason"] == "stop"
    void = [chunk["type"] for chunk in chunks].index("reset-step")
    texts = ["".join(one.get("delta", "") for one in some) for some in (chunks[:void], chunks)]
    assert texts == ["one two ", "one two one two three"]
