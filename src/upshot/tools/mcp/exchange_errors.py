"""Why a request to an MCP server has no result: errors of the protocol, and lost connections."""

from __future__ import annotations

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from upshot.contract.base.enums import Effect
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.mcp.connection import CannotConnect, Connection, Line

CONNECTION_LOST = "connection_lost"
_NOT_AVAILABLE = "not_available"
# Error codes of JSON-RPC for a request that was not carried out.
_REFUSED = frozenset({-32700, -32600, -32601, -32602})
# Over HTTP, the SDK uses the other codes for an answer that it cannot read.
_REFUSED_OVER_HTTP = frozenset({-32601, -32602})
# The SDK's own messages; a server may use the same code for an error of its own.
_CLOSED = "Connection closed"
_SESSION_GONE = "Session terminated"
CANCELLED = "cancelled"


class LineLost(Exception):
    """The connection broke.

    Attributes:
        sent: Whether the call may have reached the server.
    """

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the connection to the MCP server broke")
        self.sent = sent

    def to_tool_error(self, *, safe: bool) -> ToolError:
        """Return the error for the call's outcome; *safe* if it may be made twice."""
        if not self.sent:
            return not_done(str(self), code=CONNECTION_LOST)
        text = f"{self} during the call"
        return ToolError(
            text if safe else f"{text}; whether it took effect is unknown",
            code=CONNECTION_LOST,
            retryable=safe,
        )


async def reach(connection: Connection) -> Line:
    """Return the line to the server.

    Raises:
        ToolError: The server cannot be reached; nothing was sent.
    """
    try:
        return await connection.open()
    except CannotConnect as error:
        raise not_done(f"the MCP server cannot be reached: {error}") from error


def not_done(text: str, *, code: str = _NOT_AVAILABLE, retryable: bool = True) -> ToolError:
    """Make the failure of a call that was never sent."""
    return ToolError(text, code=code, retryable=retryable, effect=Effect.NONE)


def read_refusal(line: Line, error: MCPError) -> LineLost | ToolError:
    """Return what a protocol error means; drop the line if the error says that it is lost."""
    if not line.watched and error.code == INVALID_REQUEST and error.message == _SESSION_GONE:
        line.drop()
        return LineLost(sent=False)
    if error.code == CONNECTION_CLOSED and (not line.watched or error.message == _CLOSED):
        line.drop()
        return LineLost(sent=True)
    message = error.message or f"the server refused the call with code {error.code}"
    refused = _REFUSED if line.watched else _REFUSED_OVER_HTTP
    return ToolError(message, effect=Effect.NONE if error.code in refused else None)
