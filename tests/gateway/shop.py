"""``python -m tests.gateway.shop BOOK``: an MCP server; each refund is a line in the book."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

ORDER = {"type": "string"}
REFUND = {
    "type": "object",
    "properties": {
        "order_id": ORDER,
        "cents": {"type": "integer", "default": 900},
        "note": {"type": "string", "default": ""},
        "then": {"type": "string", "default": ""},
    },
    "required": ["order_id"],
}
ONE = {"type": "object", "properties": {"order_id": ORDER}, "required": ["order_id"]}


def _tool(name: str, schema: dict[str, Any], **hints: bool) -> types.Tool:
    annotations = types.ToolAnnotations(title=None, **hints) if hints else None
    return types.Tool(
        name=name, description=f"{name}.", input_schema=schema, annotations=annotations
    )


TOOLS = [
    _tool("refund", REFUND),
    _tool("list_refunds", ONE, read_only_hint=True),
    _tool("wipe", {"type": "object", "properties": {}}, destructive_hint=True),
    _tool("ask", {"type": "object", "properties": {}}),
    _tool("secret", {"type": "object", "properties": {}}),
]


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


def said(text: str, **more: Any) -> types.CallToolResult:
    content: list[Any] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, **more)


def orders(book: Path) -> list[str]:
    return [line.split()[1] for line in book.read_text().splitlines()]


async def call_tool(
    context: Any, params: types.CallToolRequestParams, *, book: Path
) -> types.CallToolResult:
    given = params.arguments or {}
    match params.name:
        case "refund":
            return await refund(context, given, book)
        case "list_refunds":
            found = [{"order": one} for one in orders(book) if one == given["order_id"]]
            return said(json.dumps(found), structured_content={"refunds": found})
        case "ask":
            form = {"type": "object", "properties": {"name": {"type": "string"}}}
            reply = await context.session.elicit_form("Your name?", form, context.request_id)
            return said(f"{reply.action} {reply.content}")
        case "secret":
            text = f"the key is {os.environ.get('SHOP_KEY', 'none')}"
            await context.session.report_progress(1, 1, text)
            return said(text)
        case _:
            return said(f"{params.name} done")


async def refund(context: Any, given: dict[str, Any], book: Path) -> types.CallToolResult:
    then = given.get("then", "")
    if then == "refuse":
        return said("the shop is closed", is_error=True)
    _write(book, f"refund {given['order_id']}")
    await context.session.report_progress(1, 2, "refunding")
    if then == "die":
        assert "SHOP_KEY" in os.environ, "only a shop that is a program can be killed"
        os.kill(os.getpid(), signal.SIGKILL)
    if then == "hang":
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if given.get("note") == "tell":
                _write(book, f"cancelled {given['order_id']}")
            raise
    if then == "fail":
        return said("the line broke", is_error=True)
    return said(f"re_{given['order_id']}")


def _write(book: Path, line: str) -> None:
    with open(book, "a") as file:
        file.write(f"{line}\n")


async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="shop://hours", name="hours")])


async def read_resource(context: Any, params: Any) -> types.ReadResourceResult:
    text = types.TextResourceContents(uri=params.uri, text="9 to 5")
    return types.ReadResourceResult(contents=[text])


async def list_prompts(context: Any, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])


async def get_prompt(context: Any, params: Any) -> types.GetPromptResult:
    text = types.TextContent(type="text", text=f"Say hello, {params.name}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


def make(book: Path) -> Server[Any]:
    """The shop; in the process of a test it may not be told to die."""
    return Server(
        "shop",
        version="1.0",
        instructions="A shop.",
        on_list_tools=list_tools,
        on_call_tool=partial(call_tool, book=book),
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def main() -> None:
    server = make(Path(sys.argv[1]))
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
