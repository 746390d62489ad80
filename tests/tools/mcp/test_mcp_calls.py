"""Calls over a line, without a server."""

import pytest

from upshot.contract import Effect
from upshot.tools.mcp.connection import Connection, Line
from upshot.tools.mcp.exchange import Exchange
from upshot.tools.mcp.exchange_errors import LineLost
from upshot.tools.mcp.server_address import describe_server
from upshot.tools.mcp.server_requests import Abilities, ServerRequests


async def test_nothing_is_sent_over_a_line_that_is_known_to_be_broken():
    server = describe_server(None, "http://127.0.0.1:9", env=None, cwd=None, headers=None)
    requests = ServerRequests("s", Abilities())
    connection = Connection(server, timeout_s=1, requests=requests)
    line = Line(watched=True)
    line.drop()
    with pytest.raises(LineLost, match="the connection to the MCP server broke") as caught:
        await Exchange(line, "note", {}, None, connection=connection, may_repeat=False).run()
    await connection.aclose()
    told = caught.value.to_tool_error(safe=False)
    assert (told.code, told.effect, told.retryable) == ("connection_lost", Effect.NONE, True)


@pytest.mark.parametrize("safe", [True, False])
def test_only_a_call_that_is_as_good_twice_as_once_may_be_made_again(safe):
    told = LineLost(sent=True).to_tool_error(safe=safe)
    assert (told.code, told.effect, told.retryable) == ("connection_lost", None, safe)
    assert ("whether it took effect is unknown" in str(told)) is not safe
