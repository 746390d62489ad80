"""``upshot mcp``: the tools of an App for a client that starts it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.processes import launched
from upshot import open_journal
from upshot.serve.doors.mcp import CONTINUE

DESK = """
import os, signal, upshot
print("loading")

@upshot.tool(effect="read")
def look() -> str:
    "Look."
    print("looking")
    if not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "fine"

script = [upshot.ToolCall("l", "look"), "All is fine."]
app = upshot.App([upshot.Agent("clerk", model=upshot.ScriptedModel(script), tools=[look])])
"""


@asynccontextmanager
async def desk_at(folder: Path, *, mode: str = "auto") -> AsyncGenerator[Client]:
    """A client of the App in a folder, in a process of its own."""
    given = ["-m", "upshot", "mcp", "desk.py", "--journal", "desk.db"]
    # One with the interpreter itself, whose streams it takes.
    program, *more = [sys.executable, *given] if mode == "legacy" else launched(*given)
    command = StdioServerParameters(command=program, args=more, env={**os.environ}, cwd=str(folder))
    (folder / "desk.py").write_text(DESK, "utf-8")
    async with Client(stdio_client(command), mode=mode) as client:
        yield client


@pytest.mark.slow("legacy")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_what_is_printed_does_not_get_between_the_messages(tmp_path: Path, mode: str) -> None:
    (tmp_path / "killed").touch()
    async with desk_at(tmp_path, mode=mode) as client:
        result = await client.call_tool("clerk", {"message": "Look."})
    assert result.structured_content["text"] == "All is fine."


async def test_a_run_whose_server_was_killed_in_a_tool_goes_on_with_the_next(
    tmp_path: Path,
) -> None:
    with pytest.raises(BaseException) as lost:
        async with desk_at(tmp_path) as client:
            await client.call_tool("clerk", {"message": "Look."})
    assert not isinstance(lost.value, KeyboardInterrupt)
    async with open_journal(tmp_path / "desk.db") as journal:
        (run,) = await journal.runs()
    async with desk_at(tmp_path) as client:
        result: Any = await client.call_tool(CONTINUE, {"run_id": run.run_id})
    assert result.structured_content["text"] == "All is fine."
    assert result.structured_content["run_id"] == run.run_id
