"""Files with the servers of other MCP clients."""

import json
import sys
from pathlib import Path

import pytest

from tests.tools.mcp.modern import Modern, serving, text
from upshot import Effect, open_mcp_servers
from upshot.errors import Misuse

SMALL = str(Path(__file__).parent / "server.py")


def program(**more):
    return {"command": sys.executable, "args": [SMALL], **more}


def written(tmp_path, servers, key="mcpServers"):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({key: servers}))
    return file


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
async def test_all_servers_of_a_file_are_opened(tmp_path, monkeypatch, key):
    monkeypatch.setenv("KEEP_IN", str(tmp_path / "log"))
    env = {"MCP_LOG": "${KEEP_IN}"}
    async with serving(Modern(text("ok"))) as bank:
        file = written(
            tmp_path,
            {
                "small one": program(env=env, autoApprove=["note"]),
                "bank": {"type": "http", "url": bank.url},
                "off": {"command": "no-such-program", "disabled": True},
            },
            key,
        )
        async with open_mcp_servers(file) as servers:
            assert list(servers) == ["small one", "bank"]
            assert "small_one_note" in {tool.name for tool in servers["small one"]}
            # What a file approves is not approved here.
            assert servers["small one"]["add"].effect is Effect.WRITE
    assert (tmp_path / "log").read_text().split() == ["start", "end"]


async def test_servers_may_be_chosen_and_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    servers = {"a": program(env={"MCP_LOG": "${env:LOG}"}), "b": {"command": "no-such-program"}}
    async with open_mcp_servers({"mcpServers": servers}, only=["a"], trusted=["a"]) as opened:
        assert opened["a"]["add"].effect is Effect.READ


async def test_if_one_cannot_be_opened_the_others_are_closed(tmp_path, monkeypatch):
    servers = {
        "good": program(env={"MCP_LOG": str(tmp_path / "log")}),
        "bad": program(args=[SMALL, "noisy"], env={"MCP_LOG": str(tmp_path / "other")}),
    }
    with pytest.raises(Misuse, match="the MCP server 'bad'"):
        async with open_mcp_servers({"mcpServers": servers}):
            pass
    log = tmp_path / "log"
    assert not log.exists() or log.read_text().split() in (["start"], ["start", "end"])


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({}, "give either command or url"),
        ({"command": "x", "url": "http://x"}, "give either command or url"),
        ({"type": "sse", "url": "http://x"}, "the transport sse is not supported"),
        ({"type": "pigeon", "url": "http://x"}, "give stdio or http"),
        ({"url": "http://x/${NO_SUCH_VARIABLE}"}, "needs the variable NO_SUCH_VARIABLE"),
        ({"command": "x", "args": ["${input:key}"]}, "which only its editor can fill in"),
        ({"command": "x", "args": "y"}, "give a list of texts"),
        ({"command": "x", "env": ["y"]}, "give an object of texts"),
        ({"command": 5.5, "args": [None]}, "give a text"),
        ("x", "give an object"),
    ],
    ids=range(10),
)
async def test_a_fault_is_named_with_its_place(server, said):
    with pytest.raises(Misuse, match=said):
        async with open_mcp_servers({"mcpServers": {"one": server}}):
            pass


@pytest.mark.parametrize(
    ("whole", "more", "said"),
    [
        ({}, {}, 'give an object "mcpServers"'),
        ({"mcpServers": []}, {}, 'give an object "mcpServers"'),
        ({"mcpServers": {"one": {"url": "http://x"}}}, {"only": ["on"]}, "no server 'on': did you"),
        ({"mcpServers": {}}, {"trusted": ["x"]}, "no server 'x'"),
        (
            {"mcpServers": {"a b": {"url": "http://x"}, "a_b": {"url": "http://x"}}},
            {},
            "would have the same names",
        ),
    ],
    ids=range(5),
)
async def test_a_file_that_fits_nothing_is_refused(whole, more, said):
    with pytest.raises(Misuse, match=said):
        async with open_mcp_servers(whole, **more):
            pass


async def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(Misuse, match=r"none\.json cannot be read"):
        async with open_mcp_servers(tmp_path / "none.json"):
            pass


async def test_a_variable_may_have_a_default():
    servers = {"one": {"url": "http://${NO_SUCH_HOST:-127.0.0.1:9}/mcp"}}
    with pytest.raises(Misuse, match=r"\(http://127\.0\.0\.1:9/mcp\) cannot be used"):
        async with open_mcp_servers({"mcpServers": servers}):
            pass


async def test_a_function_may_say_what_authorises_each_server():
    asked = []

    def sign_in(name, url):
        asked.append((name, url))

    async with serving(Modern(text("ok"))) as bank:
        place = {"url": bank.url}
        own = {**place, "headers": {"authorization": "Bearer x"}}
        servers = {"a": place, "b": own, "c": program()}
        async with open_mcp_servers({"mcpServers": servers}, auth=sign_in):
            assert asked == [("a", bank.url)]
