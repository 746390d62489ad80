"""McpTools: the tools of one MCP server, calls of them, and their results."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
from mcp_types import Tool as Listed

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.message import Audio, Data, File, Image, Part, Text
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.tools.definition.body import usable_schema
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.definition.tool_options import Trust
from upshot.tools.mcp.connection import CannotConnect, Connection, Line

_SUMMARY_CHARS = 200
_Block: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def read_result(result: CallToolResult) -> object:
    """Return the value of a result.

    Returns:
        Structured content as it is, if the other blocks only repeat it, as the protocol asks of
        servers; otherwise with the other blocks under ``content``. Without structured content: one
        text, all texts joined by line breaks, or a list of parts. None if the result is empty.
    """
    blocks = [block for block in result.content if not _repeats(block, result.structured_content)]
    if result.structured_content is None:
        return _join(blocks)
    if not blocks:
        return result.structured_content
    return {"structured": result.structured_content, "content": _join(blocks)}


def read_error(result: CallToolResult) -> str:
    """Return the text of a result that is an error."""
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
    """Whether a text only repeats the structured content."""
    if structured is None or not isinstance(block, TextContent):
        return False
    values: list[object] = [structured]
    # A tool that returns no object has its value in the single field of an object; each item of a
    # list may be a block of its own.
    if isinstance(structured, dict):
        fields = list(cast("JsonObject", structured).values())
        if len(fields) == 1:
            inner = fields[0]
            values += [inner, *inner] if isinstance(inner, list) else [inner]
    if block.text in values:
        return True
    try:
        return msgspec.json.decode(block.text) in values
    except (msgspec.DecodeError, RecursionError):  # not JSON, or nested too deeply
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
    # As text, not as bytes, because a model reads it.
    return Data({"uri": resource.uri, "text": resource.text}, media_type=kind or "text/plain")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


CONNECTION_LOST = "connection_lost"
_NOT_AVAILABLE = "not_available"
# Error codes of JSON-RPC for a request that was not carried out.
_REFUSED = frozenset({-32700, -32600, -32601, -32602})
# Over HTTP, the SDK uses the other codes for an answer that it cannot read.
_REFUSED_OVER_HTTP = frozenset({-32601, -32602})
# The SDK's own messages; a server may use the same code for an error of its own.
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

    def to_tool_error(self, *, safe: bool) -> ToolError:
        """Return the error for the call's outcome; *safe* if twice is as good as once."""
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


async def exchange(
    line: Line, name: str, arguments: JsonObject, context: ToolContext[object]
) -> object:
    """Call a tool of the server.

    Args:
        line: The connection.
        name: The server's own name of the tool.
        arguments: Validated arguments.
        context: Receives the server's progress.

    Returns:
        The tool's value. If the caller is cancelled, the server is notified.

    Raises:
        LineLost: The connection broke before the answer.
        ToolError: The tool failed, or the server refused the call.
    """

    async def report(progress: float, total: float | None, message: str | None) -> None:
        of = "" if total is None else f"/{total:g}"
        context.progress(message or f"{progress:g}{of}", {"progress": progress, "total": total})

    if line.broken:
        raise LineLost(sent=False)
    try:
        result = await line.client.call_tool(name, dict(arguments), progress_callback=report)
    except MCPError as error:
        raise read_refusal(line, error) from error
    return _read(result)


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


def _read(result: CallToolResult) -> object:
    if result.is_error:
        raise ToolError(read_error(result))
    return read_result(result)


TOOL_CHANGED = "tool_changed"

_MAX_PAGES = 100
_MAX_NAME_CHARS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Terms:
    """How a server's tools are used.

    Attributes:
        namespace: The prefix of every name.
        trusted: Whether the server's annotations are believed.
        include: Globs for the server's own names; None includes all.
        exclude: Globs for names to leave out.
        timeout_s: Seconds for one call.
        trust: The label of the results.
        network: Whether the server itself is reached over the network.
        pins: The accepted versions of the tools, by name; None accepts any.
    """

    namespace: str
    trusted: bool
    include: tuple[str, ...] | None
    exclude: tuple[str, ...]
    timeout_s: float
    trust: Trust
    network: bool
    pins: Mapping[str, str] | None

    def takes(self, name: str) -> bool:
        """Return whether the tool that the server calls *name* is included."""
        wanted = self.include is None or any(fnmatchcase(name, glob) for glob in self.include)
        return wanted and not any(fnmatchcase(name, glob) for glob in self.exclude)


class McpTools:
    """The tools of one MCP server: an iterable of ``Tool``, made by ``open_mcp``."""

    def __init__(self, connection: Connection, terms: Terms) -> None:
        self._connection = connection
        self._terms = terms
        self._loop = asyncio.get_running_loop()
        self._tools: dict[str, Tool] = {}
        self._own_names: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._changed: set[str] = set()
        self._checked: Line | None = None
        self._comparing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"McpTools({list(self._tools)})"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        """Return the tool called *name*, with or without the namespace.

        Raises:
            KeyError: There is no such tool.
        """
        return self._tools.get(name) or self._tools[to_tool_name(self._terms.namespace, name)]

    @property
    def pins(self) -> dict[str, str]:
        """The versions of the tools by name, to store and pass to ``open_mcp(pins=...)``."""
        return {tool.name: tool.version for tool in self._tools.values()}

    @property
    def changed(self) -> frozenset[str]:
        """Tools whose description has changed on the server since they were first listed.

        Calls of them fail until the tool set is opened again.
        """
        return frozenset(self._own_names[name] for name in self._changed)

    async def load(self) -> None:
        """List the server's tools.

        Raises:
            Misuse: No tool is included, or two of them have the same name.
            CannotConnect: The server cannot be reached, or does not list its tools in time.
            MCPError, ...: Whatever the connection raises.
        """
        line = await self._connection.open()
        timeout_s = self._terms.timeout_s
        # Separate from the start, whose own timeout reports what the server wrote.
        listing = asyncio.ensure_future(list_tools(line))
        try:
            if not await self._connection.wait_for(listing, timeout_s):
                raise CannotConnect(f"it did not list its tools within {timeout_s:g} s")
        finally:
            listing.cancel()
        listed = listing.result()
        for one in listed:
            if self._terms.takes(one.name):
                self._add(one)
        self._checked = line
        if not self._tools and self._terms.include is not None:
            names = ", ".join(one.name for one in listed) or "none"
            raise Misuse(
                f"open_mcp({self._terms.namespace!r}): include= matches no tool; it has: {names}"
            )

    def _add(self, listed: Listed) -> None:
        tool = self._make(listed)
        if tool.name in self._tools:
            raise Misuse(f"the MCP server has two tools called {listed.name!r}")
        pins = self._terms.pins
        if pins is not None and pins.get(tool.name) != tool.version:
            tool = tool.but(approval=True)
        self._tools[tool.name] = tool
        self._own_names[listed.name] = tool.name
        self._digests[listed.name] = _digest_of(listed)

    def _make(self, listed: Listed) -> Tool:
        name, terms = listed.name, self._terms
        annotations = listed.annotations if terms.trusted else None
        reads = bool(annotations and annotations.read_only_hint)
        effect = Effect.READ if reads else Effect.WRITE
        if annotations and annotations.destructive_hint and not reads:
            effect = Effect.DESTRUCTIVE
        # In the protocol, this hint applies only to tools that write.
        idempotent = bool(annotations and annotations.idempotent_hint and not reads)
        hints = listed.annotations

        async def call(context: ToolContext, arguments: JsonObject) -> object:
            return await self._call(name, arguments, context, safe=reads or idempotent)

        own_name = to_tool_name(terms.namespace, name)
        return Tool.from_schema(
            own_name,
            listed.description or listed.title or "",
            usable_schema(own_name, listed.input_schema),
            call,
            effect=effect,
            idempotent=idempotent,
            # A hint that makes it stricter is believed even from an untrusted server.
            network=terms.network or bool(hints and hints.open_world_hint),
            timeout_s=terms.timeout_s,
            error_key=None,
            trust=terms.trust,
            foreign=True,
        )

    async def _call(
        self, name: str, arguments: JsonObject, context: ToolContext, *, safe: bool
    ) -> object:
        if asyncio.get_running_loop() is not self._loop:
            raise not_done("its MCP server was opened in another event loop", retryable=False)
        for last in (False, True):
            line = await reach(self._connection)
            try:
                await self._check(name, line)
                return await exchange(line, name, arguments, context)
            except LineLost as lost:
                # Only a call that was never sent, or is safe to repeat, is sent again; and only
                # once, because it may be what crashes the server.
                if last or (lost.sent and not safe):
                    raise lost.to_tool_error(safe=safe) from lost
            except ToolError as error:
                error.message = self._connection.secrets.mask_text(error.message)
                error.args = (error.message,)
                raise
        raise AssertionError("the last try returns or raises")

    async def _check(self, name: str, line: Line) -> None:
        # Concurrent calls wait for the one comparison that says whether they may run.
        async with self._comparing:
            await self._compare(line)
        if name in self._changed:
            raise not_done(
                f"the server has changed {name} since it was listed; check it and open the tool "
                "set again before it is called",
                code=TOOL_CHANGED,
                retryable=False,
            )

    async def _compare(self, line: Line) -> None:
        """Compare the tools with how they were first listed."""
        if line is self._checked and not line.stale:
            return
        # Unchecked until the list has arrived, whatever interrupts the wait for it.
        self._checked, line.stale = None, False
        try:
            listed = await list_tools(line)
        except Exception as error:  # a server may fail in any way; the call was not made
            if isinstance(error, MCPError) and isinstance(read_refusal(line, error), LineLost):
                raise LineLost(sent=False) from error
            raise not_done(f"the server does not list its tools: {error}") from error
        now = {one.name: _digest_of(one) for one in listed}
        self._changed = {name for name, then in self._digests.items() if now.get(name) != then}
        self._checked = line


async def list_tools(line: Line) -> list[Listed]:
    """Return all tools of a server, page by page."""
    listed: list[Listed] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await line.client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return listed


def to_tool_name(namespace: str, name: str) -> str:
    """Return the name by which a model calls the server's tool *name*."""
    whole = f"{namespace}_{name}"
    plain = _NOT_IN_NAMES.sub("_", whole)
    if plain == whole and len(whole) <= _MAX_NAME_CHARS:
        return whole
    # So that two different names stay different.
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{plain[: _MAX_NAME_CHARS - 9]}_{digest}"


def _digest_of(listed: Listed) -> str:
    identity = canonical_json([listed.description, listed.input_schema])
    return hashlib.sha256(identity).hexdigest()
