"""Content: what an MCP tool answered, as one value."""

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

from ...contract import Audio, Data, File, Image, JsonObject, Part, Text

__all__ = ["read_error", "read_result"]

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
