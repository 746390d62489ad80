"""Where an MCP server is, as a caller says it."""

import pytest

from upshot.errors import Misuse
from upshot.tools.mcp.server_address import Server, describe_server


def described(command=None, url=None, **options):
    return describe_server(command, url, **{"env": None, "cwd": None, "headers": None} | options)


@pytest.mark.parametrize(
    "command", ["run 'a file' -q", ["run", "a file", "-q"]], ids=["text", "words"]
)
def test_a_command_is_a_text_or_words(command):
    assert described(command) == Server(("run", "a file", "-q"), "", {}, None, {})


@pytest.mark.parametrize("url", ["http://x/mcp", "https://x/mcp"])
def test_an_address_takes_the_place_of_a_command(url):
    server = described(None, url, headers={"a": "b"}, env={"c": "d"}, cwd="e")
    assert server == Server((), url, {"c": "d"}, "e", {"a": "b"})


@pytest.mark.parametrize("command", ["", " ", []])
def test_an_empty_command_is_misuse(command):
    with pytest.raises(Misuse, match="is empty"):
        described(command)
