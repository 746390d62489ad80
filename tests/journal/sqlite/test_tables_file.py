"""The file of a journal: its locks hold whoever else opens it, and its loss is not overlooked."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from upshot import (
    Agent,
    JournalError,
    Request,
    RunStarted,
    ScriptedModel,
    ToolCall,
    open_journal,
    run,
    run_sync,
    tool,
)
from upshot.journal.sqlite.tables import keep_open, note_closed, peek

SOURCE = Path(__file__).resolve().parents[3] / "src"
LOOK = """
import asyncio, sys
from upshot import open_journal
async def look():
    async with open_journal(sys.argv[1], create=False) as journal:
        return await journal.runs()
print(len(asyncio.run(look())))
"""
FORKED = """
import asyncio, os, sys
from upshot import Agent, JournalError, Request, RunStarted, ScriptedModel
from upshot import open_journal, run, run_sync
agent = Agent("a", model=ScriptedModel(["Done.", "Done."]))
async def main(path):
    async with open_journal(path) as journal:
        await run(agent, Request("?", run_id="first"), journal=journal)
        if os.fork():
            os.wait()
            return
        asyncio.events._set_running_loop(None)
        try:
            journal.append(RunStarted(run_id="x", seq=1, request=Request("?")))
        except JournalError as error:
            print("object:", error, flush=True)
        try:
            run_sync(agent, Request("?", run_id="second"), journal=path)
        except JournalError as error:
            print("file:", error, flush=True)
        os._exit(0)
asyncio.run(main(sys.argv[1]))
"""


def said(program: str, path: Path) -> list[str]:
    """What a process says that gets the journal."""
    return run_python("-W", "ignore", "-c", program, path, text=True).stdout.splitlines()


def napping(began: threading.Event, gate: threading.Event) -> Agent:
    @tool(effect="read")
    def nap() -> str:
        began.set()
        gate.wait(20)
        return "slept"

    return Agent("a", model=ScriptedModel([ToolCall("n", "nap"), "Done."]), tools=[nap])


def test_a_second_opening_here_leaves_the_log_to_no_other_process(tmp_path: Path) -> None:
    path, began, gate = tmp_path / "runs.db", threading.Event(), threading.Event()
    results: list[Any] = []

    def go(name: str) -> None:
        results.append(run_sync(napping(began, gate), Request("?", run_id=name), journal=path))

    first = threading.Thread(target=go, args=("first",))
    first.start()
    assert began.wait(20)
    run_sync(Agent("b", model=ScriptedModel(["Hi."])), Request("?", run_id="b"), journal=path)
    # A process that believes itself to be the last one takes the log away when it closes.
    said(LOOK, path)
    assert (tmp_path / "runs.db-wal").exists()
    gate.set()
    first.join(20)
    assert [result.content for result in results] == ["Done."]
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert said(LOOK, path) == ["2"]


@pytest.mark.parametrize("loss", ["delete", "replace", "log"])
async def test_a_file_that_is_lost_meanwhile_is_told_at_the_next_barrier(
    tmp_path: Path, loss: str
) -> None:
    path = tmp_path / "runs.db"
    async with open_journal(path) as journal:
        epoch = await journal.claim("r")
        journal.append(RunStarted(run_id="r", seq=1, request=Request("?")), epoch=epoch)
        await journal.durable("r", 1)
        os.remove(f"{path}-wal" if loss == "log" else path)
        if loss == "replace":
            path.write_bytes(b"")
        journal.append(RunStarted(run_id="r", seq=2, request=Request("?")), epoch=epoch)
        with pytest.raises(JournalError, match="deleted or replaced"):
            await journal.durable("r", 2)


def test_a_file_that_is_open_twice_is_not_looked_into_until_both_have_let_go(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "runs.db")
    Path(path).write_bytes(b"SQLite")
    held = [keep_open(path), keep_open(path)]
    for file in held:
        assert peek(path, 6) is None
        note_closed(file)
    assert peek(path, 6) == b"SQLite"


async def test_a_run_whose_file_is_lost_does_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    @tool(effect="write")
    async def lose() -> str:
        path.unlink()
        return "gone"

    agent = Agent("a", model=ScriptedModel([ToolCall("l", "lose"), "Done."]), tools=[lose])
    result = await run(agent, "?", journal=path)
    assert result.status == "failed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_is_refused_what_its_parent_had_open(tmp_path: Path) -> None:
    told = said(FORKED, tmp_path / "runs.db")
    assert [line.partition(":")[0] for line in told] == ["object", "file"]
    assert all("forked" in line for line in told)
    assert said(LOOK, tmp_path / "runs.db") == ["1"]
