"""Lenient JSON parsing and safe access to its parts.

A document is first decoded by msgspec. If that fails it is decoded leniently, since providers do
send raw control characters, NaN, byte-order marks and halves of surrogate pairs. The ``as_``
functions return an empty value for a wrong type, so readers need no checks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import ModelResponse
from upshot.wire.headers import parse_integer


class NotJson:
    """The type of ``NOT_JSON``."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NOT_JSON"


NOT_JSON: Final = NotJson()
"""Returned by :func:`parse_json` for text that is not JSON, because None is JSON; falsy."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Larger than any count of tokens, and safe for 64-bit readers.
_MAX_COUNT = 10**15
_decode: Callable[[bytes | str], Json] = msgspec.json.Decoder().decode
encode_json: Callable[[object], bytes] = msgspec.json.Encoder().encode


def parse_json(data: bytes | str) -> Json | NotJson:
    """Decode a JSON document, leniently if necessary.

    The lenient decoder drops a byte-order mark, accepts raw control characters, and replaces NaN
    and infinities by null, lone surrogates and bytes that are not UTF-8 by U+FFFD.

    Returns:
        The value, or ``NOT_JSON`` if even that fails, or if the document is nested too deeply or
        has too many parts for one reply. Never raises.
    """
    is_large = len(data) > _LARGE
    if is_large and _has_too_many_parts(data):
        return NOT_JSON
    try:
        return _decode(data)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        # The lenient decoder takes seconds for a large document, and only a hostile server sends
        # a large one that is broken.
        return NOT_JSON if is_large else _parse_leniently(data)


_LARGE = 2**22
_MAX_PARTS = 500_000


def _has_too_many_parts(data: bytes | str) -> bool:
    """Whether a document has so many parts that decoding it would block the event loop."""
    comma, parts = (b"," if isinstance(data, bytes) else ","), 0
    for start in range(0, len(data), _LARGE):
        parts += data.count(comma, start, start + _LARGE)  # pyright: ignore[reportArgumentType]  # the comma is of the kind of the data
        if parts > _MAX_PARTS:
            return True
    return False


def parse_object(data: bytes | str) -> JsonObject | None:
    """Decode a JSON object as :func:`parse_json` does; None if *data* is something else."""
    value = parse_json(data)
    return value if isinstance(value, dict) else None


def as_object(value: Json | NotJson) -> JsonObject:
    """Return *value* if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Return *value* if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def first_sample(document: JsonObject, name: str) -> JsonObject:
    """Return the object with index 0 or no index under *name*; the others are further samples."""
    for sample in as_list(document.get(name)):
        if isinstance(sample, dict) and not sample.get("index"):
            return sample
    return {}


def as_text(value: object) -> str:
    """Return *value* if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """Return *value* as a count of at least 0, else None: 12, 12.0 and "12" are 12."""
    if value is None:
        return None
    if type(value) is int and 0 <= value < _MAX_COUNT:
        return value
    if isinstance(value, str):
        return parse_integer(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # The comparison is false for NaN, and excludes infinities, for which int() raises.
    if not 0 <= value < _MAX_COUNT or value != int(value):
        return None
    return int(value)


def first_count(*values: object) -> int | None:
    """Return the first of *values* that is a count, None if there is none."""
    for value in values:
        count = as_count(value)
        if count is not None:
            return count
    return None


def replace_surrogates(value: object) -> Json:
    """Copy *value*, any JSON, with lone surrogates replaced by U+FFFD."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, (list, tuple)):
        return [replace_surrogates(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {str(replace_surrogates(key)): replace_surrogates(item) for key, item in pairs}
    return cast("Json", value)


def _parse_leniently(data: bytes | str) -> Json | NotJson:
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        value = json.loads(
            text.lstrip("\N{ZERO WIDTH NO-BREAK SPACE}"),
            strict=False,
            parse_constant=_no_number,
            parse_float=_finite,
        )
        return replace_surrogates(value)
    except (ValueError, RecursionError):
        return NOT_JSON


def _no_number(_name: str) -> None:
    return None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# Many models put JSON into a Markdown fence although the prompt forbids it.
_FENCED = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


def with_output(response: ModelResponse) -> ModelResponse:
    """Return *response* with its text decoded as the output, for a request with an output schema.

    The value is not checked against the schema. Text that is not JSON leaves the output None, and
    so does a reply with tool calls, which is not an answer yet.
    """
    text = response.content
    if response.output is not None or text is None or response.tool_calls or response.error:
        return response
    fenced = _FENCED.fullmatch(text)
    value = parse_json(fenced[1] if fenced else text)
    return response if isinstance(value, NotJson) else replace(response, output=value)
