"""Lines to and from a program."""

import asyncio
import sys
from pathlib import Path

import pytest
from anyio import EndOfStream
from mcp.shared.message import SessionMessage

from tests.processes import LOADED
from upshot.tools.mcp.server import describe_server
from upshot.tools.mcp.stdio import StdioReader, open_stdio

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
