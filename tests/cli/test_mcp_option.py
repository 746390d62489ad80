"""``--mcp FILE``: the tools of MCP servers for the agent of a command."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import aiohttp
import pytest

from tests.cli.conftest import Command, spawn
from tests.processes import start_python
from tests.tools.mcp.test_oauth import realm

SERVER = str(Path(__file__).parents[1] / "tools" / "mcp" / "server.py")
SMALL = {"small": {"command": sys.executable, "args": [SERVER]}}
AGENTS = """\
import upshot


@upshot.tool(effect="read")
def now() -> str:
    return "noon"


@upshot.tool(effect="write", approval=True)
def pay() -> str:
    return "paid"


def reply(messages):
    return "5" if '{"result":5}' in messages[-1].text else messages[-1].text


add = upshot.ToolCall("c", "small_add", {"a": 2, "b": 3})
model = upshot.ScriptedModel([add, reply])
bare = upshot.Agent("bare", model=model)
own = upshot.Agent("own", model=model, tools=[now])
first = upshot.ToolCall("p", "pay", {})
asks = upshot.Agent("asks", model=upshot.ScriptedModel([first, add, reply]), tools=[pay])
graph = upshot.Agent("graph", engine=upshot.GraphEngine(upshot.Graph({"a": lambda run: "x"})))
"""
FILE_AGENT = {
    "id": "described",
    "model": 'scripted:[{"tool_calls": [{"id": "c", "name": "small_add", "arguments": '
    '{"a": 2, "b": 3}}]}, "done"]',
}


@pytest.fixture(autouse=True)
def folder(command: Command) -> Path:
    Path("agents.py").write_text(AGENTS)
    write_servers(SMALL)
    return Path.cwd()


def write_servers(servers: Any, name: str = "mcp.json") -> None:
    Path(name).write_text(json.dumps({"mcpServers": servers}))


@pytest.mark.parametrize("agent", ["bare", "own"])
def test_an_agent_gets_the_tools_of_the_servers(command: Command, agent: str) -> None:
    code, out, err = command("run", f"agents.py:{agent}", "2 + 3?", "--mcp", "mcp.json")
    assert (code, out) == (0, "5\n"), err


@pytest.mark.parametrize("tools", [{}, {"tools": []}, {"tools": ["small_add"]}])
def test_an_agent_of_a_file_gets_them_too(command: Command, tools: Any) -> None:
    Path("agent.json").write_text(json.dumps(FILE_AGENT | tools))
    code, out, err = command("run", "agent.json", "2 + 3?", "--mcp", "mcp.json")
    assert (code, out) == (0, "done\n"), err
    assert "small_add" in command("show", "last", "--events")[1]


def test_a_replay_and_a_resumed_run_open_the_servers_again(command: Command) -> None:
    command("run", "agents.py:own", "2 + 3?", "--mcp", "mcp.json", "--run-id", "r")
    code, out, err = command("replay", "r")
    assert (code, out.partition(",")[0]) == (0, "r: the same"), err
    assert command("run", "agents.py:asks", "?", "--mcp", "mcp.json", "--run-id", "a")[0] == 3
    code, out, err = command("approve", "a", "--all")
    assert (code, out) == (0, "5\n"), err


def test_a_chat_has_them_in_each_turn(folder: Path) -> None:
    process = spawn(
        "chat", "agents.py:bare", "--mcp", "mcp.json", folder=folder, stdin=subprocess.PIPE
    )
    out, err = process.communicate(b"2 + 3?\n")
    assert (process.returncode, out) == (0, b"5\n"), err


@pytest.mark.parametrize(
    ("file", "servers", "said"),
    [
        ("mcpp.json", SMALL, "there is no file mcpp.json: did you mean 'mcp.json'?"),
        ("mcp.json", {"small": {}}, "mcp.json: small: give either command or url"),
        ("mcp.json", {"small": {"command": "no-such"}}, "the MCP server 'small' (no-such) cannot"),
        ("mcp.json", [], 'give an object "mcpServers"'),
    ],
    ids=["missing", "entry", "start", "form"],
)
def test_what_is_wrong_is_one_sentence(
    command: Command, file: str, servers: Any, said: str
) -> None:
    write_servers(servers)
    code, out, err = command("run", "agents.py:bare", "?", "--mcp", file)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not Path(".upshot").exists()


def test_an_agent_with_an_engine_of_its_own_is_refused(command: Command) -> None:
    code, _, err = command("run", "agents.py:graph", "?", "--mcp", "mcp.json")
    assert code == 2
    assert "agent 'graph' has an engine of its own" in err


def start(folder: Path, terminal: int) -> subprocess.Popen[bytes]:
    """Start a run whose standard error is *terminal*."""
    left_out = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    env |= {"XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "80"}
    command = ["-m", "upshot", "run", "agents.py:bare", "2 + 3?", "--mcp", "mcp.json"]
    return start_python(*command, cwd=folder, env=env, stdin=DEVNULL, stdout=PIPE, stderr=terminal)


async def test_the_user_signs_in_once_from_the_terminal(folder: Path) -> None:
    async with realm() as one, aiohttp.ClientSession() as http:
        write_servers({"small": {"url": one.url}})
        ours, theirs = pty.openpty()
        process = start(folder, theirs)
        os.close(theirs)
        screen = ""
        while not (found := re.search(r"small asks you to sign in: (\S+)\r", screen)):
            screen += (await asyncio.to_thread(os.read, ours, 4096)).decode()
        async with http.get(found[1]) as page:
            assert "You are signed in" in await page.text()
        out, _ = await asyncio.to_thread(process.communicate)
        assert (process.returncode, out) == (0, b"5\n")
        # From then on it needs no terminal.
        again = start(folder, DEVNULL)
        out, _ = await asyncio.to_thread(again.communicate)
        assert (again.returncode, out) == (0, b"5\n")
        os.close(ours)
    assert one.asked == ["authorization_code"]
    (file,) = (folder / "config" / "upshot" / "mcp").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert one.token in file.read_text()
    kept = b"".join(file.read_bytes() for file in (folder / ".upshot").iterdir())
    assert b"small_add" in kept and one.token.encode() not in kept


async def test_without_a_terminal_it_says_so_at_once(folder: Path) -> None:
    async with realm() as one:
        write_servers({"small": {"url": one.url}})
        process = start(folder, PIPE)
        _, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == 2
    assert b"run the command once on a terminal" in err
    assert len(err.splitlines()) == 1
