"""Answers as JSON, where a schema was asked for."""

from __future__ import annotations

import re

from msgspec.structs import replace

from ..contract import ModelRequest, ModelResponse
from ..wire import parse_json
from ..wire.document import NotJson

__all__ = ["with_output"]

# Many models put JSON into a fence, whatever they were told.
_FENCED = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


def with_output(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """*response* with its text read as JSON, if *request* asked for that.

    The value is not checked against the schema. Text that is no JSON leaves the output None, and
    so does a reply with tool calls: it is no answer yet.
    """
    if request.output_schema is None or response.output is not None:
        return response
    if response.content is None or response.tool_calls or not response.success:
        return response
    fenced = _FENCED.fullmatch(response.content)
    value = parse_json(fenced[1] if fenced else response.content)
    return response if isinstance(value, NotJson) else replace(response, output=value)
