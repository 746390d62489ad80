"""Lines to and from a program."""

import asyncio
import sys
from pathlib import Path

import pytest
from anyio import ClosedResourceError, EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from tests.processes import LOADED
from upshot.tools.mcp.connection import StdioReader, open_stdio
from upshot.tools.mcp.server_address import describe_server

PARENT = """
import subprocess, sys
child = subprocess.Popen(["sleep", "60"])
with open(sys.argv[1], "w") as file:
    file.write(str(child.pid))
print('{"jsonrpc": "2.0", "method": "ready"}', flush=True)
{}
"""
LEAVES = "sys.stdin.read()"
STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


def reading(data: bytes, *, limit: int = 1000) -> StdioReader:
    stream = asyncio.StreamReader(limit=limit)
    stream.feed_data(data)
    stream.feed_eof()
    return StdioReader(stream)


async def test_each_line_is_a_message():
    reader = reading(b'{"jsonrpc": "2.0", "method": "a"}\n{"jsonrpc": "2.0", "method": "b"}\n')
    first, second = await reader.receive(), await reader.receive()
    assert isinstance(first, SessionMessage)
    assert isinstance(second, SessionMessage)
    assert [one.message.method for one in (first, second)] == ["a", "b"]
    with pytest.raises(EndOfStream):
        await reader.receive()


async def test_a_line_that_is_no_message_is_told_and_the_next_is_read():
    reader = reading(b'Starting...\n{"jsonrpc": "2.0", "method": "a"}\n')
    assert isinstance(await reader.receive(), ValueError)
    assert isinstance(await reader.receive(), SessionMessage)


@pytest.mark.parametrize("data", [b"x" * 2000 + b"\n", b'{"jsonrpc"'], ids=["too long", "cut"])
async def test_what_cannot_be_read_to_its_end_is_the_end(data: bytes):
    with pytest.raises(EndOfStream):
        await reading(data).receive()


@pytest.mark.parametrize("last", [LEAVES, STAYS], ids=["leaves", "stays"])
async def test_a_program_ends_with_its_children(tmp_path: Path, last: str):
    path = tmp_path / "pid"
    program = PARENT.replace("\n{}\n", f"\n{last}\n")
    command = [sys.executable, "-S", "-c", program, str(path)]
    server = describe_server(command, None, env=LOADED, cwd=None, headers=None)
    with (tmp_path / "err").open("w") as stderr:
        async with open_stdio(server, stderr=stderr) as (reader, _):
            assert isinstance(await reader.receive(), SessionMessage)
            child = int(path.read_text())
    assert await is_gone(child)


async def test_a_program_inherits_little_and_starts_where_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_NO_CONCERN", "secret")
    program = """
import json, os
seen = [os.environ.get("GIVEN"), os.environ.get("OF_NO_CONCERN"), os.getcwd(), "PATH" in os.environ]
print(json.dumps({"jsonrpc": "2.0", "method": "seen", "params": {"it": seen}}), flush=True)
"""
    command = [sys.executable, "-S", "-c", program]
    server = describe_server(
        command, None, env={**LOADED, "GIVEN": "g"}, cwd=str(tmp_path), headers=None
    )
    with (tmp_path / "err").open("w") as stderr:
        async with open_stdio(server, stderr=stderr) as (reader, _):
            message = await reader.receive()
    assert isinstance(message, SessionMessage)
    assert message.message.params == {"it": ["g", None, str(tmp_path), True]}


async def test_what_a_program_does_not_read_any_more_cannot_be_sent(tmp_path):
    command = [sys.executable, "-S", "-c", "import os; os.close(0); print(flush=True); input()"]
    server = describe_server(command, None, env=LOADED, cwd=None, headers=None)
    note = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="a"))
    with (tmp_path / "err").open("w") as stderr:
        async with open_stdio(server, stderr=stderr) as (reader, writer):
            await reader.receive()
            with pytest.raises(ClosedResourceError):
                while True:
                    await writer.send(note)


async def test_a_program_that_writes_at_its_end_is_read_to_it(tmp_path):
    program = """
import sys
sys.stdin.read()
print("x" * 1_000_000, flush=True)
with open("log", "w") as file:
    file.write("ended")
"""
    command = [sys.executable, "-S", "-c", program]
    server = describe_server(command, None, env=LOADED, cwd=str(tmp_path), headers=None)
    with (tmp_path / "err").open("w") as stderr:
        async with open_stdio(server, stderr=stderr):
            pass
    assert (tmp_path / "log").read_text() == "ended"


async def test_a_cancel_while_a_program_ends_waits_for_its_end_and_is_not_lost(tmp_path):
    log = tmp_path / "log"
    program = """
import os, sys, time
sys.stdin.read()
with open("log", "w") as file:
    file.write("ending")
while not os.path.exists("go"):
    time.sleep(0.002)
with open("log", "w") as file:
    file.write("ended")
"""
    command = [sys.executable, "-S", "-c", program]
    server = describe_server(command, None, env=LOADED, cwd=str(tmp_path), headers=None)

    async def use():
        with (tmp_path / "err").open("w") as stderr:
            async with open_stdio(server, stderr=stderr):
                pass

    task = asyncio.create_task(use())
    while not log.exists():
        await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.sleep(0)
    (tmp_path / "go").write_text("")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.read_text() == "ended"


async def is_gone(pid: int) -> bool:
    # A killed process takes a moment to end.
    for _ in range(5000):
        if not is_alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
