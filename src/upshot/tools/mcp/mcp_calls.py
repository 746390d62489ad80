"""One call to an MCP server and its content."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TypeAlias, cast

import msgspec
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.message import Audio, Data, File, Image, Part, Text
from upshot.tools.definition.tool_context import ToolContext, ToolError
from upshot.tools.mcp.connection import CannotConnect, Connection, Line

__all__ = [
    "CONNECTION_LOST",
    "LineLost",
    "exchange",
    "not_done",
    "reach",
    "read_error",
    "read_refusal",
    "read_result",
]

_SUMMARY_CHARS = 200
_Block: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def read_result(result: CallToolResult) -> object:
    """The value of a result.

    Returns:
        Structured content as it is, where the other blocks say nothing else, as the protocol
        wants of servers; with what else they say beside it under ``content``. Without
        structured content one text, all texts joined by line ends, or a list of parts. None
        where the answer is empty.
    """
    blocks = [block for block in result.content if not _repeats(block, result.structured_content)]
    if result.structured_content is None:
        return _join(blocks)
    if not blocks:
        return result.structured_content
    return {"structured": result.structured_content, "content": _join(blocks)}


def read_error(result: CallToolResult) -> str:
    """What a result that is an error says, in words."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if not texts and result.structured_content is not None:
        texts = [msgspec.json.encode(result.structured_content).decode()]
    return "\n".join(texts) or "The tool failed and gave no reason."


def _join(blocks: Sequence[_Block]) -> object:
    if not blocks:
        return None
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if len(texts) == len(blocks):
        return "\n".join(texts)
    return [_to_part(block) for block in blocks]


def _repeats(block: _Block, structured: object) -> bool:
    """Whether a text says only what the structured content says."""
    if structured is None or not isinstance(block, TextContent):
        return False
    said: list[object] = [structured]
    # A tool that returns no object has its value in the one field of an object; of a list each
    # item may be a block of its own.
    if isinstance(structured, dict):
        fields = list(cast("JsonObject", structured).values())
        if len(fields) == 1:
            inner = fields[0]
            said += [inner, *inner] if isinstance(inner, list) else [inner]
    if block.text in said:
        return True
    try:
        return msgspec.json.decode(block.text) in said
    except (msgspec.DecodeError, RecursionError):  # no JSON, or too deep to be read
        return False


def _to_part(block: _Block) -> Part:
    match block:
        case TextContent():
            return Text(block.text)
        case ImageContent():
            return Image(data=_decode(block.data), media_type=block.mime_type)
        case AudioContent():
            return Audio(data=_decode(block.data), media_type=block.mime_type)
        case ResourceLink():
            return File(
                name=block.name,
                url=block.uri,
                media_type=block.mime_type or "",
                size_bytes=block.size or 0,
                summary=(block.description or "")[:_SUMMARY_CHARS],
            )
        case EmbeddedResource(resource=resource):
            return _to_resource(resource)


def _to_resource(resource: TextResourceContents | BlobResourceContents) -> Part:
    kind = resource.mime_type or ""
    if isinstance(resource, BlobResourceContents):
        data = _decode(resource.blob)
        return File(url=resource.uri, data=data, media_type=kind, size_bytes=len(data))
    # As text and not as bytes, for a model reads it.
    return Data({"uri": resource.uri, "text": resource.text}, media_type=kind or "text/plain")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


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
