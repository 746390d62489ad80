"""Reading: from what a model wrote to an object of arguments, before any schema is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import cast

import msgspec

from ..contract import Coercion, Json, JsonObject, UnserializableError, to_free_json
from ..contract.free_json import MAX_DEPTH
from .fault import join_faults, pointer
from .place import ABSENT, Absent, floats_in, found_at, is_too_deep

__all__ = ["read_object"]


def read_object(arguments: str | Mapping[str, Json], coercions: list[Coercion]) -> JsonObject | str:
    """Read *arguments*, leniently where models and proxies are known to go wrong.

    Args:
        arguments: JSON text (empty text and null are no arguments), or a mapping.
        coercions: What is changed is added here.

    Returns:
        The object; or what is wrong, in words. A number that JSON cannot hold is wrong
        wherever it stands: as null it would count as absent.
    """
    if not isinstance(arguments, str):
        return _read_mapping(arguments)
    if not arguments.strip():
        return {}
    value, strict = _parse(arguments)
    # Encoded twice: a model's own mistake, or that of a proxy before it.
    if isinstance(value, str):
        inner, strict = _parse(value)
        if isinstance(inner, dict):
            said, value = value, cast("JsonObject", inner)
            coercions.append(Coercion(path="", rule="json", before=said, after=value))
    if value is None:
        # Several models write null where a tool takes nothing.
        return {}
    if value is ABSENT:
        return f"/: the arguments are no JSON: {arguments[:100]}"
    if not isinstance(value, dict):
        return _no_object(value)
    if is_too_deep(arguments, cast("object", value)):
        return f"/: the arguments are nested deeper than {MAX_DEPTH} levels"
    found = cast("JsonObject", value)
    return found if strict else _check_numbers(found)


def _read_mapping(arguments: object) -> JsonObject | str:
    if arguments is None:
        return {}
    try:
        value, lossy = to_free_json(arguments)
    except UnserializableError as error:
        return f"{error.path or '/'}: is no JSON: {error.reason}"
    lost = [path for path in lossy if _is_number_at(value, path)]
    if lost:
        return join_faults(map(_lost, lost))
    return value if isinstance(value, dict) else _no_object(value)


def _is_number_at(value: Json, path: str) -> bool:
    """Whether a number stands at *path*, where something was replaced, or null for one."""
    for step in path.split("/")[1:] if path != "/" else ():
        name = step.replace("~1", "/").replace("~0", "~")
        found = found_at(value, (int(name) if isinstance(value, list) else name,))
        if isinstance(found, Absent):
            return False
        value = found
    return value is None or isinstance(value, int | float)


def _parse(text: str) -> tuple[object, bool]:
    """JSON of *text* and whether it is strict; ``ABSENT`` where it is none.

    NaN and infinities stay what they are.
    """
    from ..wire.document import replace_surrogates

    try:
        return msgspec.json.decode(text), True
    except (ValueError, msgspec.MsgspecError, RecursionError):
        pass
    try:
        # Providers really send raw line breaks and byte order marks.
        value = json.loads(text.lstrip("\N{ZERO WIDTH NO-BREAK SPACE}"), strict=False)
        return replace_surrogates(value), False
    except (ValueError, RecursionError):
        return ABSENT, False


def _check_numbers(value: JsonObject) -> JsonObject | str:
    lost = [place for place, number in floats_in(value) if not math.isfinite(number)]
    return join_faults(map(_lost, map(pointer, lost))) if lost else value


def _lost(path: str) -> str:
    return f"{path}: is a number that JSON cannot hold"


def _no_object(value: object) -> str:
    what = "an array" if isinstance(value, list) else "a single value"
    return f"/: the arguments are {what}; a JSON object is needed"
