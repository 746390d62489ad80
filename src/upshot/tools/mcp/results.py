"""Results of MCP servers as values and parts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TypeAlias, cast

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from upshot.contract.base.structs import JsonObject
from upshot.contract.message import Audio, Data, File, Image, Part, Text

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
    return [to_part(block) for block in blocks]


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


def to_part(block: _Block) -> Part:
    """Return a content block as a part."""
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
            return to_resource_part(resource)


def to_resource_part(resource: TextResourceContents | BlobResourceContents) -> Part:
    """Return the contents of a resource as a part."""
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
