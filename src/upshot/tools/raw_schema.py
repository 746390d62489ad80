"""Raw schemas: tools that are made of a JSON Schema and a callable, looked over at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import cast

from ..contract import Json, JsonObject, UnserializableError, to_free_json
from ..errors import Misuse
from .body import SchemaBody, is_async, takes_context

__all__ = ["read_body", "usable_schema"]

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum")


def read_body(name: str, description: object, parameters: object, call: object) -> SchemaBody:
    """The body of a tool that is described by a schema.

    Args:
        name: The tool's name, for messages.
        description: What it does.
        parameters: JSON Schema of an object; copied, so that later changes do not reach it.
        call: Takes the arguments as one dict, with a ``ToolContext`` before them if it is
            annotated so.

    Raises:
        Misuse: One of them cannot be used.
    """
    if not isinstance(description, str):
        raise Misuse(f"tool {name!r}: description is {description!r:.100}; give a text")
    schema = _read_schema(name, parameters)
    function = _read_call(name, call)
    return SchemaBody(
        function,
        description,
        schema,
        wants_context=takes_context(function),
        is_async=is_async(function),
    )


def usable_schema(name: str, parameters: object) -> JsonObject:
    """A schema that somebody else wrote, or that of any object where it cannot be used.

    Args:
        name: The tool's name.
        parameters: JSON Schema of an object, if it is one.
    """
    try:
        return _read_schema(name, parameters)
    except Misuse:
        # Whoever wrote it reads the arguments anyway; one bad tool must not cost all others,
        # and a provider would refuse the whole request.
        return {"type": "object"}


def _read_schema(name: str, parameters: object) -> JsonObject:
    if not isinstance(parameters, Mapping):
        raise Misuse(
            f"the schema of tool {name!r} is {parameters!r:.100}: give a JSON Schema of an object, "
            '{"type": "object"} where nothing is known'
        )
    try:
        copy, lossy = to_free_json(cast("object", parameters))
    except UnserializableError as error:
        raise Misuse(f"the schema of tool {name!r} is no JSON: {error}") from error
    if lossy:
        raise Misuse(f"the schema of tool {name!r} is no JSON at {lossy[0]}")
    schema = cast("JsonObject", copy)
    kind = schema.get("type", "object")
    if isinstance(kind, list) and "object" in kind:
        # Arguments are always an object, and providers take no list here.
        schema["type"] = kind = "object"
    if kind != "object":
        raise Misuse(f"the schema of tool {name!r} has to describe an object, not {kind!r:.100}")
    if not _is_plain(schema):
        from .check import ArgumentCheck

        # What is wrong in it is best told where it is written, and not in a call.
        ArgumentCheck(name, schema).validator  # noqa: B018
    return schema


def _read_call(name: str, call: object) -> Callable[..., object]:
    if not callable(call):
        raise Misuse(f"tool {name!r}: call is {call!r:.100}; give a function of the arguments")
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise Misuse(f"tool {name!r} is a generator: return one value, such as a list")
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        # Some builtins have none to look at.
        return call
    try:
        signature.bind(*[None] * (2 if takes_context(call) else 1))
    except TypeError as error:
        raise Misuse(
            f"tool {name!r}: call takes {signature}; it is given one dict of arguments, with a "
            "first parameter annotated ToolContext that before them"
        ) from error
    return call


def _is_plain(schema: Json) -> bool:
    """Whether *schema* is right for sure; others are read by a library that is slow to load."""
    if not isinstance(schema, dict):
        return False
    return all(_is_plain_word(word, value) for word, value in schema.items())


def _is_plain_word(word: str, value: Json) -> bool:
    match word:
        case "type":
            return isinstance(value, str) and value in _TYPES
        case "title" | "description":
            return isinstance(value, str)
        case "default":
            return True
        case "enum":
            return isinstance(value, list) and bool(value)
        case "required":
            return _are_names(value)
        case "properties":
            return isinstance(value, dict) and all(map(_is_plain, value.values()))
        case "items":
            return _is_plain(value)
        case "additionalProperties":
            return isinstance(value, bool) or _is_plain(value)
        case _:
            return _is_plain_number(word, value)


def _are_names(value: Json) -> bool:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return False
    return len(set(cast("list[str]", value))) == len(value)


def _is_plain_number(word: str, value: Json) -> bool:
    if isinstance(value, bool):
        return False
    if word in _SIZES:
        return isinstance(value, int) and value >= 0
    return word in _BOUNDS and isinstance(value, int | float)
