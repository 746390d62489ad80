"""The contract in other languages: a JSON Schema, and TypeScript generated from it.

msgspec generates the schema of the structs. It differs in a few places from what ``encode`` writes,
and ``write_json_schema`` corrects those: money is a number, an open enum accepts any text, and a
field is required if it is always written rather than if a reader needs it. It also takes the
description of each field from the docstrings, and names the unions.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, TypeAlias, Union, get_args

import msgspec

from upshot.contract.base.enums import OpenWord
from upshot.contract.base.structs import SCHEMA_VERSION, JsonObject, Local
from upshot.contract.codec import STANDALONE
from upshot.contract.events import Event
from upshot.contract.forms.execution_form import AgentExecutionResult, ExecutionMetadata
from upshot.contract.message import UNKNOWN_TAG, Message, Part, Unknown
from upshot.contract.pending import AnyAnswer, Pending
from upshot.contract.tool_calls import ToolOutcome

_Form: TypeAlias = dict[str, Any]
"""A JSON Schema, or a part of one."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TITLE = f"upshot contract, schema version {SCHEMA_VERSION}"
# The base of events is not an event, and a model request is encoded in each provider's own form.
_NEVER_WRITTEN = {"ModelRequest", "RunEvent"}
_OPEN = {kind.__name__ for kind in OpenWord.__subclasses__()}
_REF = "#/$defs/"
# A whole document has a known kind.
_STANDALONE: Any = Union[tuple(kind for kind in STANDALONE if kind is not Unknown)]  # noqa: UP007  # made at run time
_UNIONS: dict[str, tuple[Any, str]] = {
    "AnyAnswer": (AnyAnswer, "An answer of the user."),
    "Event": (Event, "An event, as a run's log and its subscribers get it."),
    "Part": (Part, "A part of a message or an artifact."),
    "Pending": (Pending, "What a parked run waits for."),
    "ToolOutcome": (ToolOutcome, "The outcome of a tool call. Closed."),
    "Standalone": (_STANDALONE, "Every kind of value that stands alone."),
}
_NAMED_FORMS: dict[str, _Form] = {
    "Json": {
        "description": "Any JSON value.",
        "type": ["null", "boolean", "number", "string", "array", "object"],
        "items": {"$ref": f"{_REF}Json"},
        "additionalProperties": {"$ref": f"{_REF}Json"},
    },
    "JsonObject": {
        "description": "Any JSON object.",
        "type": "object",
        "additionalProperties": {"$ref": f"{_REF}Json"},
    },
    "Money": {
        "description": "An amount in the currency named beside it, else in US dollars.",
        "type": "number",
    },
    "Moment": {
        "description": 'A moment: RFC 3339 in UTC, such as "2026-03-01T12:00:00Z".',
        "type": "string",
        "format": "date-time",
    },
    "Day": {
        "description": 'A day: RFC 3339, such as "2026-03-01".',
        "type": "string",
        "format": "date",
    },
    "Base64": {"description": "Bytes as base64.", "type": "string", "contentEncoding": "base64"},
}
_MSGSPEC_FORMS = {"decimal": "Money", "date-time": "Moment", "date": "Day", "base64": "Base64"}
_ATTRIBUTE = re.compile(r"(?P<name>\w+): (?P<text>.*)")
_CONSTANTS = {"None": "null", "True": "true", "False": "false"}
_CONSTANT = re.compile(rf"\b({'|'.join(_CONSTANTS)})\b")


def contract_schema() -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of every value that ``encode`` writes.

    Returns:
        A new object. A whole document is a standalone value, as ``decode`` accepts it without a
        type; ``$defs`` has every type by its name, such as ``#/$defs/AgentResult``. It describes
        what is
        written: a field that is never left out is required, even if a reader has a default for it.
        Unknown fields, parts and events are valid.
    """
    return write_json_schema(_public_structs(), _UNIONS, "Standalone", _TITLE)


def execution_result_schema() -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of an execution result, as a new object."""
    types = (AgentExecutionResult, ExecutionMetadata, Message, *get_args(Part))
    unions = {"Part": _UNIONS["Part"]}
    form = write_json_schema(types, unions, "AgentExecutionResult", "upshot execution result")
    # In Python both are plain JSON.
    view = form["$defs"]["AgentExecutionResult"]["properties"]
    view["messages"]["items"] = _ref("Message")
    form["$defs"]["ExecutionMetadata"]["additionalProperties"] = _ref("Json")
    return form


def contract_typescript() -> str:
    """Return the text of a TypeScript declaration file with every type that ``encode`` writes.

    Returns:
        One declaration per type, including the execution result; it compiles in strict mode. A
        switch over ``kind`` narrows the unions and leaves ``Unknown`` for its default branch.
    """
    contract: _Form = contract_schema()
    view: _Form = execution_result_schema()
    definitions: dict[str, _Form] = {**view["$defs"], **contract["$defs"]}
    return write_typescript(definitions, f"{_TITLE}; made by: upshot schema --typescript")


def write_json_schema(
    types: Iterable[type[Any]], unions: Mapping[str, tuple[Any, str]], root: str, title: str
) -> _Form:
    """Write a JSON Schema, draft 2020-12, of *types* and the types of their fields.

    *unions* get separate definitions, each with a line of description; *root* is the definition
    that a whole document must match. Additional fields are valid, since readers ignore them.
    Raises TypeError if JSON cannot express a field's type.
    """
    classes = {kind.__name__: kind for kind in types}
    wanted = [*classes.values(), *(union for union, _ in unions.values())]
    try:
        _, found = msgspec.json.schema_components(
            wanted, schema_hook=_local_form, ref_template=_REF + "{name}"
        )
    except NotImplementedError as error:
        raise TypeError(f"{error} has no known JSON form") from error
    # Encoded once, since defaults may be tuples; a parametrized class gets the name of the class.
    text = msgspec.json.encode(found).replace(b"AgentResult_Any_", b"AgentResult")
    components: dict[str, _Form] = msgspec.json.decode(text)
    members = {
        name: [_origin(member).__name__ for member in get_args(union)]
        for name, (union, _) in unions.items()
    }
    definitions = dict(_NAMED_FORMS)
    for name, component in components.items():
        definitions[name] = _definition(name, component, members, classes.get(name))
    for name, (_, about) in unions.items():
        one_of = [_member(one, members[name], components) for one in members[name]]
        definitions[name] = {"description": about, "oneOf": one_of}
    return {
        "$schema": _DIALECT,
        "title": title,
        "$ref": _REF + root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _public_structs() -> Iterator[type[msgspec.Struct]]:
    """Return every struct that the package exports, so that a new one needs no change here."""
    package = sys.modules["upshot.contract"]
    for name in package.__all__:
        value: object = getattr(package, name)
        if not isinstance(value, type) or name in _NEVER_WRITTEN:
            continue
        if issubclass(value, msgspec.Struct):
            yield value


def _origin(kind: Any) -> type[Any]:
    """Return the class of *kind*, which may be parametrized."""
    return getattr(kind, "__origin__", kind)


def _local_form(kind: type) -> dict[str, Any]:
    if kind is Local:
        return {"type": "null"}
    raise NotImplementedError(kind.__name__)


def _definition(
    name: str, component: _Form, members: Mapping[str, list[str]], kind: type | None
) -> _Form:
    about = _for_any_language(str(component.get("description", "")).partition("\n")[0])
    head = {"description": about} if about else {}
    if "enum" in component:
        words = "examples" if name in _OPEN else "enum"
        return {**head, "type": "string", words: component["enum"]}
    if name == Unknown.__name__:
        kind_form: _Form = {"kind": {"type": "string"}}
        return {**head, "type": "object", "properties": kind_form, "required": ["kind"]}
    texts = {} if kind is None else _attribute_texts(kind)
    held: dict[str, _Form] = component["properties"]
    if "enum" in held.get("kind", {}):
        held = {**held, "kind": {"const": held["kind"]["enum"][0]}}
    # msgspec sorts the keys of a typed dict; the docstring has a better order.
    order = [*held] if kind is None or hasattr(kind, "__struct_fields__") else [*texts]
    properties = {field: _field(held[field], texts.get(field, ""), members) for field in order}
    required = component["required"]
    if kind is None or hasattr(kind, "__struct_fields__"):
        # A field without a default in the schema has no default, or is always written.
        required = [field for field in order if "default" not in held[field]]
    form = {**head, "type": "object", "properties": properties}
    return {**form, "required": required} if required else form


def _field(form: _Form, text: str, members: Mapping[str, list[str]]) -> _Form:
    if "const" in form:
        return form
    bare = {key: value for key, value in form.items() if key != "default"}
    made = dict(_form(bare, members))
    if text:
        made["description"] = text
    if form.get("default") is not None:
        made["default"] = form["default"]
    return made


def _form(form: _Form, members: Mapping[str, list[str]]) -> _Form:
    """Return the schema of what ``encode`` writes for msgspec's *form*."""
    named = _MSGSPEC_FORMS.get(form.get("format", "")) or _MSGSPEC_FORMS.get(
        form.get("contentEncoding", "")
    )
    if not form or named:
        return _ref(named or "Json")
    if "anyOf" in form:
        return _either([_form(option, members) for option in form["anyOf"]], members)
    if "enum" in form:
        return {"type": "string", **form}
    if form.get("type") == "array":
        return {**form, "items": _form(form["items"], members)}
    if form.get("type") == "object":
        values = _form(form.get("additionalProperties") or {}, members)
        is_free = values == _ref("Json")
        return _ref("JsonObject") if is_free else {**form, "additionalProperties": values}
    return form


def _either(options: list[_Form], members: Mapping[str, list[str]]) -> _Form:
    if _ref("Json") in options:
        return _ref("Json")
    for name, kinds in members.items():
        refs = [_ref(kind) for kind in kinds]
        if all(ref in options for ref in refs):
            options = [_ref(name), *(option for option in options if option not in refs)]
    # Null comes last.
    options = [option for at, option in enumerate(options) if option not in options[:at]]
    options.sort(key=lambda option: option == {"type": "null"})
    return options[0] if len(options) == 1 else {"anyOf": options}


def _member(name: str, members: list[str], components: Mapping[str, _Form]) -> _Form:
    if name != Unknown.__name__:
        return _ref(name)
    # A known kind must match its own schema, so that a malformed value is not valid as Unknown.
    known = [
        components[other]["properties"]["kind"]["enum"][0] for other in members if other != name
    ]
    return {**_ref(name), "properties": {"kind": {"not": {"enum": known}}}}


def _ref(name: str) -> _Form:
    return {"$ref": _REF + name}


def _attribute_texts(kind: type) -> dict[str, str]:
    """Return the descriptions of attributes in the docstrings of *kind* and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base not in (object, dict, msgspec.Struct):
            texts.update(_attributes_section(inspect.cleandoc(base.__doc__ or "")))
    return texts


def _attributes_section(docstring: str) -> Iterator[tuple[str, str]]:
    _, _, section = docstring.partition("\nAttributes:\n")
    for entry in re.split(r"\n(?=    \w)", "\n" + section):
        found = _ATTRIBUTE.match(" ".join(entry.split()))
        if found is not None and entry.startswith("    "):
            yield found["name"], _for_any_language(found["text"])


def _for_any_language(text: str) -> str:
    """Return *text* with Python's constants and double backticks written as in other languages."""
    text = _CONSTANT.sub(lambda found: _CONSTANTS[found[0]], text)
    return text.replace("``", "`")


# -- TypeScript

_WIDTH = 100
# An unknown kind is not typed as string: then it would include the known kinds, and a switch would
# narrow nothing. An enum member is a string that equals no literal.
_UNKNOWN_KIND = f"""\
/**
 * A kind that is not declared here: any string at run time, never "{UNKNOWN_TAG}". It is an enum so
 * that a switch over `kind` leaves `Unknown` for its default branch.
 */
export declare const enum UnknownKind {{
  Any = "{UNKNOWN_TAG}",
}}
"""
_OBJECTS = {
    "JsonObject": "  [key: string]: Json;\n",
    "Unknown": "  kind: UnknownKind;\n  [field: string]: Json;\n",
}
_SCALARS = {"null": "null", "boolean": "boolean", "integer": "number", "number": "number"}


def write_typescript(definitions: Mapping[str, _Form], title: str) -> str:
    """Write a TypeScript declaration file of *definitions*, which are schemas by name."""
    declared = [_declaration(name, definitions[name]) for name in sorted(definitions)]
    return "\n".join([f"// {title}\n", _UNKNOWN_KIND, *declared])


def _declaration(name: str, form: _Form) -> str:
    comment = _comment(form.get("description", ""))
    if name in _OBJECTS:
        return f"{comment}export interface {name} {{\n{_OBJECTS[name]}}}\n"
    if "properties" in form:
        lines = "".join(_lines(form))
        return f"{comment}export interface {name} {{\n{lines}}}\n"
    if name == "Json":
        written = " null | boolean | number | string | Json[] | JsonObject"
    elif options := _options(form):
        written = "".join(f"\n  | {option}" for option in options)
    else:
        written = f" {_type(form)}"
    return f"{comment}export type {name} ={written};\n"


def _lines(form: _Form) -> Iterator[str]:
    for name, held in form["properties"].items():
        mark = "" if name in form.get("required", ()) else "?"
        default = f"@defaultValue `{json.dumps(held['default'])}`" if "default" in held else ""
        comment = _comment(held.get("description", ""), default, indent="  ")
        yield f"{comment}  {name}{mark}: {_type(held)};\n"
    if further := form.get("additionalProperties"):
        yield f"  [key: string]: {_type(further)} | undefined;\n"


def _options(form: _Form) -> list[str]:
    """Return the alternatives of *form*; empty if it is a single type."""
    if "examples" in form:
        # The last one accepts any string but keeps editors suggesting the others.
        return [*map(_quote, form["examples"]), "(string & {})"]
    if "enum" in form:
        return [*map(_quote, form["enum"])]
    return [_type(option) for option in form.get("anyOf") or form.get("oneOf") or ()]


def _type(form: _Form) -> str:
    if "$ref" in form:
        return form["$ref"].removeprefix(_REF)
    if "const" in form:
        return _quote(form["const"])
    if options := _options(form):
        return " | ".join(options)
    if form["type"] == "array":
        item = _type(form["items"])
        return f"({item})[]" if " | " in item else f"{item}[]"
    if form["type"] == "object":
        return f"{{ [key: string]: {_type(form['additionalProperties'])} }}"
    return _SCALARS.get(form["type"], "string")


def _comment(*texts: str, indent: str = "") -> str:
    safe_texts = [text.replace("*/", "*\\/") for text in texts if text]
    if not safe_texts:
        return ""
    whole = f"{indent}/** {safe_texts[0]} */\n"
    if len(safe_texts) == 1 and len(whole) <= _WIDTH:
        return whole
    lines = [line for text in safe_texts for line in wrap(text, _WIDTH - len(indent) - 3)]
    return "".join(
        [f"{indent}/**\n", *(f"{indent} * {line}\n" for line in lines), f"{indent} */\n"]
    )


def _quote(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)
