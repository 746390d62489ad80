"""A task outlives the server that was killed in one of its tools."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import aiohttp

from tests.processes import start_python
from tests.serve.doors.test_a2a import rpc, said, streamed
from tests.serve.kit import Client

DESK = """
import os, signal, socket, time, upshot, uvicorn
from upshot.serve import User

@upshot.tool(effect="read")
def look() -> str:
    "Look."
    if not os.path.exists("killed"):
        while not os.path.exists("answered"):
            time.sleep(0.01)
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    while not os.path.exists("watched"):
        time.sleep(0.01)
    return "fine"

script = [upshot.ToolCall("l", "look"), "All is fine."]
clerk = upshot.Agent("clerk", model=upshot.ScriptedModel(script), tools=[look])
site = upshot.App([clerk], journal="desk.db").asgi(user=lambda request: User("ann"))
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(site, log_level="warning")).run([listening])
"""


@asynccontextmanager
async def desk_in(folder: Path) -> AsyncGenerator[tuple[Client, subprocess.Popen[str]]]:
    """A server in a process of its own, and its client."""
    process = start_python("-c", DESK, cwd=folder, text=True, stdout=PIPE)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        async with aiohttp.ClientSession() as session:
            yield Client(session, f"http://127.0.0.1:{port}"), process
    finally:
        process.kill()
        process.communicate()


async def test_a_task_goes_on_after_its_server_was_killed_in_a_tool(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as (client, process):
        at_once: Any = {"message": said(), "configuration": {"returnImmediately": True}}
        task = (await rpc(client, "clerk", "SendMessage", **at_once))["task"]
        # Only now, so that the client knows its task.
        (tmp_path / "answered").touch()
        assert process.wait() == -signal.SIGKILL
    async with desk_in(tmp_path) as (client, _):
        seen: list[Any] = []
        async for update in streamed(client, "clerk", "SubscribeToTask", id=task["id"]):
            (tmp_path / "watched").touch()
            seen.append(update)
        done = await rpc(client, "clerk", "GetTask", id=task["id"])
    assert seen[0]["task"]["id"] == task["id"]
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["artifacts"][0]["parts"] == [{"text": "All is fine."}]
    assert done["contextId"] == task["contextId"]
