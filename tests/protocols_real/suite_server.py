"""``suite_server.py PORT``: an MCP server with all that the conformance suite asks of a server."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import Server

# One red pixel, and a sound without samples.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
    "AABJRU5ErkJggg=="
)
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def resource(uri: str, said: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


# What tools answer that do nothing else.
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        resource("test://embedded-resource", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        ),
    ],
    "test_reconnection": [text("It was connected again.")],
    "json_schema_2020_12_tool": [text("It fits.")],
}
WORDS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{at}", "title": f"Option {at}"} for at in (1, 2, 3)]
# What tools ask the user by a form.
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": WORDS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": WORDS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}
OTHERS = (
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_sampling",
)
SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": {"properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {"properties": {"message": {"type": "string"}}, "required": ["message"]},
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}}}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
}
PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    tools = [
        {
            "name": name,
            "description": f"{name}.",
            "inputSchema": {"type": "object", **SCHEMAS.get(name, {})},
        }
        for name in (*ANSWERS, *FORMS, *OTHERS)
    ]
    return types.ListToolsResult.model_validate({"tools": tools})


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    name, given, session = params.name, params.arguments or {}, context.session
    content = ANSWERS.get(name, [text(f"{name} is done.")])
    if name == "test_error_handling":
        content = [text("This tool intentionally returns an error for testing")]
        return types.CallToolResult.model_validate({"content": content, "isError": True})
    if name in FORMS:
        fields = FORMS[name]
        schema = {"type": "object", "properties": fields, "required": []}
        reply = await session.elicit_form(
            given.get("message", "Please?"), schema, context.request_id
        )
        said = f"action={reply.action}, content={json.dumps(reply.content)}"
        content = [text(f"Elicitation completed: {said}")]
    elif name == "test_sampling":
        said_by_user = types.SamplingMessage(
            role="user", content=types.TextContent(type="text", text=given["prompt"])
        )
        sampled = await session.create_message(
            [said_by_user], max_tokens=100, related_request_id=context.request_id
        )
        content = [text(f"LLM response: {sampled.content.text}")]
    elif name == "test_tool_with_logging":
        for said in ("started", "goes on", "completed"):
            await session.send_log_message(
                "info", f"The tool {said}", related_request_id=context.request_id
            )
            await asyncio.sleep(0.02)
    elif name == "test_tool_with_progress":
        for progress in (0, 50, 100):
            await session.report_progress(progress, 100)
            await asyncio.sleep(0.02)
    return types.CallToolResult.model_validate({"content": content})


async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
    names = ("static-text", "static-binary", "watched-resource")
    listed = [{"uri": f"test://{name}", "name": name, "description": name} for name in names]
    return types.ListResourcesResult.model_validate({"resources": listed})


async def list_templates(context: Any, params: Any) -> types.ListResourceTemplatesResult:
    one = {"uriTemplate": "test://template/{id}/data", "name": "data", "description": "Data."}
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [one]})


async def read_resource(context: Any, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    content: dict[str, Any] = {"uri": uri, "mimeType": "text/plain"}
    if uri == "test://static-binary":
        content |= {"mimeType": "image/png", "blob": PIXEL}
    elif (found := re.fullmatch(r"test://template/(\w+)/data", uri)) is not None:
        said = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        content |= {"mimeType": "application/json", "text": json.dumps(said)}
    elif uri in ("test://static-text", "test://watched-resource"):
        content["text"] = "This is the content of the static text resource."
    else:
        raise MCPError(-32002, f"there is no resource {uri}")
    return types.ReadResourceResult.model_validate({"contents": [content]})


async def list_prompts(context: Any, params: Any) -> types.ListPromptsResult:
    listed = [
        {
            "name": name,
            "description": f"{name}.",
            "arguments": [{"name": one, "required": True} for one in arguments],
        }
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult.model_validate({"prompts": listed})


async def get_prompt(context: Any, params: Any) -> types.GetPromptResult:
    given = params.arguments or {}
    said = {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            resource(given.get("resourceUri", ""), "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, text("Please analyze the image above.")],
    }[params.name]
    messages = [{"role": "user", "content": one} for one in said]
    return types.GetPromptResult.model_validate({"messages": messages})


async def complete(context: Any, params: Any) -> types.CompleteResult:
    found = {"values": ["paris", "park"], "total": 2, "hasMore": False}
    return types.CompleteResult.model_validate({"completion": found})


async def nothing(context: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


SERVER: Server[Any] = Server(
    "suite",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=nothing,
    on_unsubscribe_resource=nothing,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=nothing,
)

if __name__ == "__main__":
    uvicorn.run(
        SERVER.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error"
    )
