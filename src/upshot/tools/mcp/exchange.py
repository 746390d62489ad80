"""Exchange: one call sent over a line, and what came of it."""

from __future__ import annotations

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, CallToolResult

from ...contract import Effect, JsonObject
from ..context import ToolContext
from ..error import ToolError
from .connection import CannotConnect, Connection, Line
from .content import read_error, read_result

__all__ = ["CONNECTION_LOST", "LineLost", "exchange", "not_done", "reach", "read_refusal"]

CONNECTION_LOST = "connection_lost"
_NOT_AVAILABLE = "not_available"
# JSON-RPC's words for a request that was not carried out.
_REFUSED = frozenset({-32700, -32600, -32601, -32602})
# Behind an address the SDK says the others of an answer that it cannot read.
_REFUSED_OVER_HTTP = frozenset({-32601, -32602})
# What the SDK says itself; a server may use the same code for an error of its own.
_CLOSED = "Connection closed"
_SESSION_GONE = "Session terminated"


class LineLost(Exception):
    """The connection broke.

    Attributes:
        sent: Whether the call may have reached the server.
    """

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the connection to the MCP server broke")
        self.sent = sent

    def told(self, *, safe: bool) -> ToolError:
        """What the call's outcome is made of; *safe* where twice is as good as once."""
        if not self.sent:
            return not_done(str(self), code=CONNECTION_LOST)
        said = f"{self} during the call"
        return ToolError(
            said if safe else f"{said}; whether it took effect is unknown",
            code=CONNECTION_LOST,
            retryable=safe,
        )


async def reach(connection: Connection) -> Line:
    """The line to the server.

    Raises:
        ToolError: There is none; nothing was sent.
    """
    try:
        return await connection.open()
    except CannotConnect as error:
        raise not_done(f"the MCP server cannot be reached: {error}") from error


async def exchange(
    line: Line, name: str, arguments: JsonObject, context: ToolContext[object]
) -> object:
    """Have the server run a tool.

    Args:
        line: Over which.
        name: The server's own name of the tool.
        arguments: Validated.
        context: Told of the server's progress.

    Returns:
        The tool's value. A cancel of the caller is told to the server.

    Raises:
        LineLost: The connection broke before the answer.
        ToolError: The tool failed, or the server refused the call.
    """

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        of = "" if total is None else f"/{total:g}"
        context.progress(message or f"{progress:g}{of}", {"progress": progress, "total": total})

    if line.broken:
        raise LineLost(sent=False)
    try:
        result = await line.client.call_tool(name, dict(arguments), progress_callback=tell)
    except MCPError as error:
        raise read_refusal(line, error) from error
    return _read(result)


def not_done(said: str, *, code: str = _NOT_AVAILABLE, retryable: bool = True) -> ToolError:
    """A failure of a call that never left."""
    return ToolError(said, code=code, retryable=retryable, effect=Effect.NONE)


def read_refusal(line: Line, error: MCPError) -> LineLost | ToolError:
    """What an error of the protocol means; a line that it says to be lost is dropped."""
    if not line.watched and error.code == INVALID_REQUEST and error.message == _SESSION_GONE:
        line.drop()
        return LineLost(sent=False)
    if error.code == CONNECTION_CLOSED and (not line.watched or error.message == _CLOSED):
        line.drop()
        return LineLost(sent=True)
    said = error.message or f"the server refused the call with code {error.code}"
    refused = _REFUSED if line.watched else _REFUSED_OVER_HTTP
    return ToolError(said, effect=Effect.NONE if error.code in refused else None)


def _read(result: CallToolResult) -> object:
    if result.is_error:
        raise ToolError(read_error(result))
    return read_result(result)
