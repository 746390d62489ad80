"""The gateway between servers and clients of others, of which none knows of it."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.mcp_real.test_servers import NODE, PATH, needs_node
from upshot import open_journal

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "gateway" / "desk.yml"
PACKAGES = NODE.parent

pytestmark = needs_node


@pytest.fixture
def place(tmp_path):
    """A folder in which npx finds the server that is installed."""
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    shutil.copy(EXAMPLE, tmp_path)
    return tmp_path


def test_the_example_with_a_client_of_another_language(place):
    gateway = [sys.executable, "-m", "upshot", "gateway", "desk.yml", "--as", "ann"]
    node = shutil.which("node", path=PATH)
    done = subprocess.run(
        [node, str(HERE / "gateway_client.mjs"), str(PACKAGES), *gateway],
        capture_output=True,
        text=True,
        cwd=place,
        env={"PATH": PATH, "HOME": str(place), "npm_config_offline": "true"},
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert "everything" in got["server"] and {"echo", "get-sum"} <= set(got["tools"])
    assert got["sum"][0] is False and "5" in got["sum"][1]
    assert got["echoed"] == [False, "Echo: hello"]
    assert got["again"][1].startswith("Echo: hello\nThis was done before at")
    assert got["denied"][0] is True and "password" in got["denied"][1]
    assert got["long"] == [False, "Echo: a message of many words"]
    # What the file does not name is asked about too.
    assert len(got["asked"]) == 2 and "size(message) > 20" in got["asked"][0]
    assert [2, 2] in got["progress"] and got["slow"][0] is False
    assert got["resources"] and got["prompts"]

    async def kept():
        async with open_journal(str(place / "gateway.db")) as journal:
            return [(one.key, one.state) for one in await journal.effects(user="ann")]

    assert sorted(asyncio.run(kept())) == [
        ('{"message":"a message of many words"}', "applied"),
        ('{"message":"hello"}', "applied"),
    ]


async def test_a_file_is_written_once_whoever_asks_again(tmp_path):
    work, file = tmp_path / "work", tmp_path / "desk.yml"
    work.mkdir()
    command = [str(NODE / "mcp-server-filesystem"), str(work)]
    terms = {"effect": "write", "once": ["path"]}
    # JSON is YAML too.
    text = {
        "journal": str(tmp_path / "gateway.db"),
        "servers": {"files": {"command": command, "env": {"PATH": PATH}, "trusted": True}},
        "tools": {"files/write_file": terms},
    }
    file.write_text(json.dumps(text))
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "upshot", "gateway", str(file)]
    )
    note = {"path": str(work / "note.txt"), "content": "first"}
    for _ in range(2):
        async with Client(stdio_client(server), mode="legacy") as client:
            written = await client.call_tool("write_file", note)
            assert not written.is_error
            other = await client.call_tool("write_file", {**note, "content": "second"})
            assert other.is_error and "conflict" in str(other.meta)
            read = await client.call_tool("read_text_file", {"path": note["path"]})
            assert "first" in str(read.content)
            outside = await client.call_tool("read_text_file", {"path": "/etc/hostname"})
            assert outside.is_error and "denied" in str(outside.content).lower()
    assert "done before" in str(written.content)
    assert [one.name for one in work.iterdir()] == ["note.txt"]
