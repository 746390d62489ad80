"""Declarations as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from msgspec import UNSET

from upshot.contract.base.structs import SCHEMA_VERSION, JsonObject
from upshot.contract.schema.declarations import (
    JSON_OBJECT,
    JSON_VALUE,
    STANDALONE_NAME,
    Choice,
    Declaration,
    Either,
    Many,
    Named,
    Plain,
    Record,
    Shape,
    Table,
    Words,
    contract_declarations,
)

__all__ = ["contract_schema", "write_json_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: dict[str, JsonObject] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string"},
    "money": {"type": "number"},
    "moment": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "base64": {"type": "string", "contentEncoding": "base64"},
}


def write_json_schema(declarations: Sequence[Declaration], root: str, title: str) -> JsonObject:
    """Write *declarations* as a JSON Schema, draft 2020-12.

    Args:
        declarations: All that is referred to.
        root: The name of the one that a whole document has to fit.
        title: What it is a schema of.

    Returns:
        A new object. Other fields than those declared are let through, for readers ignore them.
    """
    definitions: JsonObject = {
        JSON_VALUE.name: {
            "description": "Any JSON value.",
            "type": ["null", "boolean", "number", "string", "array", "object"],
            "items": _reference(JSON_VALUE.name),
            "additionalProperties": _reference(JSON_VALUE.name),
        },
        JSON_OBJECT.name: {
            "description": "Any JSON object.",
            "type": "object",
            "additionalProperties": _reference(JSON_VALUE.name),
        },
    }
    for declaration in declarations:
        definitions[declaration.name] = _definition(declaration)
    return {
        "$schema": _DIALECT,
        "title": title,
        **_reference(root),
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _definition(declaration: Declaration) -> JsonObject:
    form = {"description": declaration.text} if declaration.text else {}
    match declaration:
        case Words():
            return {**form, **_words(declaration)}
        case Choice(members=members):
            return {**form, "oneOf": [_member(member, members) for member in members]}
        case Record():
            return {**form, **_record(declaration)}
        case _:
            assert_never(declaration)


def _words(words: Words) -> JsonObject:
    if words.open:
        return {"type": "string", "examples": [*words.words]}
    return {"type": "string", "enum": [*words.words]}


def _member(member: Record, members: Iterable[Record]) -> JsonObject:
    reference = _reference(member.name)
    if not member.unknown:
        return reference
    # What has a known kind has to fit that kind, so that a broken one is not let through here.
    known: list[Any] = [other.kind for other in members if not other.unknown]
    return {**reference, "properties": {"kind": {"not": {"enum": known}}}}


def _record(record: Record) -> JsonObject:
    if record.unknown:
        return {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    properties: JsonObject = {} if record.kind is None else {"kind": {"const": record.kind}}
    required: list[Any] = list(properties)
    for field in record.fields:
        held = _form(field.shape)
        if field.text:
            held["description"] = field.text
        if field.default is not UNSET:
            held["default"] = field.default
        if field.always:
            required.append(field.name)
        properties[field.name] = held
    form: JsonObject = {"type": "object", "properties": properties}
    if required:
        form["required"] = required
    return form


def _form(shape: Shape) -> JsonObject:
    match shape:
        case Named(name=name):
            return _reference(name)
        case Plain(word=word):
            return dict(_PLAIN[word])
        case Many(item=item):
            return {"type": "array", "items": _form(item)}
        case Table(item=item):
            return {"type": "object", "additionalProperties": _form(item)}
        case Words():
            return _words(shape)
        case Either(options=options):
            return {"anyOf": [_form(option) for option in options]}
        case _:
            assert_never(shape)


def _reference(name: str) -> JsonObject:
    return {"$ref": f"#/$defs/{name}"}


def contract_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) of every value that ``encode`` writes.

    Returns:
        A new object. A whole document has to be a value that stands alone, as ``decode`` takes
        it without a type; under ``$defs`` is every type by its name, such as
        ``#/$defs/AgentResult``. It says what is written: what is never left out is required,
        although a reader takes its default. Unknown fields, parts and events fit.
    """
    return write_json_schema(
        contract_declarations(),
        STANDALONE_NAME,
        f"upshot contract, schema version {SCHEMA_VERSION}",
    )
