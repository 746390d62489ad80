"""Resources and prompts of an MCP server: as tools for a model, and as messages for the caller.

Source:
    modelcontextprotocol.io, specification 2026-07-28, server/resources and server/prompts, read in
    2026.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from mcp import MCPError
from mcp_types import (
    EmbeddedResource,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message, Part, Text, mark_tainted
from upshot.contract.tool_calls import UNTRUSTED
from upshot.contract.tool_context import ToolContext
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_options import Trust
from upshot.tools.mcp.connection import Connection, Line
from upshot.tools.mcp.exchange_errors import LineLost, reach, read_refusal
from upshot.tools.mcp.results import to_part, to_resource_part
from upshot.tools.mcp.server_requests import in_call

T = TypeVar("T")

_MAX_PAGES = 100
_NOTHING: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
_BY_URI: JsonObject = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The address of the resource."}},
    "required": ["uri"],
    "additionalProperties": False,
}


class Resources:
    """The resources and prompts of one server.

    Args:
        connection: The way to it.
        namespace: The prefix of the names of the tools.
        trust: The label of what the server sends.
    """

    def __init__(self, connection: Connection, namespace: str, trust: Trust) -> None:
        self._connection = connection
        self._namespace = namespace
        self._trust: Trust = trust

    def tools(self, *, network: bool, timeout_s: float) -> list[Tool]:
        """Return tools with which a model lists and reads the resources."""

        async def list_them(context: ToolContext, arguments: JsonObject) -> object:
            return await self._ask(self._list)

        async def read_one(context: ToolContext, arguments: JsonObject) -> object:
            result = await self.read(cast("str", arguments["uri"]))
            texts = [one.text for one in result.contents if isinstance(one, TextResourceContents)]
            if len(texts) == len(result.contents) == 1:
                return texts[0]
            return [to_resource_part(one) for one in result.contents]

        made: list[Tool] = []
        for name, description, schema, call in (
            ("list_resources", "Lists the resources that can be read.", _NOTHING, list_them),
            ("read_resource", "Reads a resource.", _BY_URI, read_one),
        ):
            # For questions of the server while it reads.
            setattr(call, "continues", True)  # noqa: B010  # a function has no such field to a type checker
            made.append(
                Tool.from_schema(
                    f"{self._namespace}_{name}",
                    f"{description} They are of the MCP server {self._namespace}.",
                    schema,
                    call,
                    effect="read",
                    network=network,
                    timeout_s=timeout_s,
                    error_key=None,
                    trust=self._trust,
                )
            )
        return made

    async def read(self, uri: str) -> ReadResourceResult:
        """Return the contents of a resource.

        Raises:
            ToolError: The server cannot be reached, or refuses.
        """
        return await self._ask(lambda line: line.client.read_resource(uri))

    async def list(self) -> list[JsonObject]:
        """Return the resources, and templates of their addresses."""
        return await self._ask(self._list)

    async def message(self, uri: str) -> Message:
        """Return a resource as a message of the user."""
        result = await self.read(uri)
        parts = [
            Text(one.text, trust=self._label)
            if isinstance(one, TextResourceContents)
            else to_resource_part(one)
            for one in result.contents
        ]
        return self._labelled(Message("user", parts))

    async def prompts(self) -> list[JsonObject]:
        """Return the prompts."""

        async def ask(line: Line) -> list[JsonObject]:
            return await _pages(line.client.list_prompts, "prompts")

        return await self._ask(ask)

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> list[Message]:
        """Return the messages of a prompt."""
        result = await self._ask(lambda line: line.client.get_prompt(name, dict(arguments)))
        messages: list[Message] = []
        for one in result.messages:
            part: Part = to_part(one.content)
            if isinstance(one.content, TextContent):
                part = Text(one.content.text, trust=self._label)
            elif isinstance(one.content, EmbeddedResource) and isinstance(
                one.content.resource, TextResourceContents
            ):
                part = Text(one.content.resource.text, trust=self._label)
            messages.append(self._labelled(Message(one.role, [part])))
        return messages

    @property
    def _label(self) -> str:
        return UNTRUSTED if self._trust == UNTRUSTED else ""

    def _labelled(self, message: Message) -> Message:
        """Return *message*, which taints the run that reads it unless the server is trusted."""
        return mark_tainted(message) if self._label else message

    async def _list(self, line: Line) -> list[JsonObject]:
        found = await _pages(line.client.list_resources, "resources")
        if not found or line.client.server_capabilities.resources is not None:
            try:
                found += await _pages(line.client.list_resource_templates, "resource_templates")
            except MCPError:
                # Templates are optional, and nothing says whether a server has any.
                return found
        return found

    async def _ask(self, request: Callable[[Line], Awaitable[T]]) -> T:
        """Make a request, again if the connection broke: all of them only read.

        Raises:
            ToolError: The server cannot be reached, or refused it.
            CallWaits: The server asks the user, and nobody can answer now.
        """
        for last in (False, True):
            line = await reach(self._connection)
            try:
                return await in_call(request(line), self._connection.requests, may_repeat=True)
            except MCPError as error:
                refusal = read_refusal(line, error)
                if not isinstance(refusal, LineLost):
                    refusal.message = self._connection.secrets.mask_text(refusal.message)
                    raise refusal from error
                if last:
                    raise refusal.to_tool_error(safe=True) from error
        raise AssertionError("the last try returns or raises")


async def _pages(ask: Callable[..., Awaitable[Any]], field: str) -> list[JsonObject]:
    """Return all entries of a list, as the server describes them."""
    found: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await ask(cursor=cursor)
        entries = cast("Sequence[Any]", getattr(page, field))
        found += [_plain(one.model_dump(mode="json", exclude_none=True)) for one in entries]
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _plain(entry: dict[str, Json]) -> JsonObject:
    """Return an entry without what only a page draws."""
    return {key: value for key, value in entry.items() if key not in ("icons", "meta", "_meta")}
