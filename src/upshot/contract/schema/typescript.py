"""Declarations as TypeScript."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import assert_never

from msgspec import UNSET

from upshot.contract.base.structs import SCHEMA_VERSION
from upshot.contract.forms.execution_form import AgentExecutionResult
from upshot.contract.message import UNKNOWN_TAG
from upshot.contract.schema.declarations import (
    Choice,
    Declaration,
    Either,
    Field,
    Many,
    Named,
    Plain,
    Record,
    Shape,
    Table,
    Words,
    contract_declarations,
    read_declarations,
)

__all__ = ["contract_typescript", "write_typescript"]

_WIDTH = 100
_PLAIN = {
    "null": "null",
    "boolean": "boolean",
    "integer": "number",
    "number": "number",
    "string": "string",
    "money": "Money",
    "moment": "Moment",
    "day": "Day",
    "base64": "Base64",
}
# An unknown kind cannot be typed as string: then no kind could be told from it, and a switch
# would narrow nothing. An enum member is a string that equals no literal.
_PRELUDE = f"""\
/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** Any JSON object. */
export interface JsonObject {{
  [key: string]: Json;
}}

/** A moment: RFC 3339 in UTC, such as "2026-03-01T12:00:00Z". */
export type Moment = string;

/** A day: RFC 3339, such as "2026-03-01". */
export type Day = string;

/** Bytes as base64. */
export type Base64 = string;

/** An amount in the currency that stands beside it, else in US dollars. */
export type Money = number;

/**
 * A kind that is not declared here: any string at run time, never "{UNKNOWN_TAG}". It is an enum so
 * that a switch over `kind` leaves `Unknown` for its default branch.
 */
export declare const enum UnknownKind {{
  Any = "{UNKNOWN_TAG}",
}}
"""


def write_typescript(declarations: Sequence[Declaration], title: str) -> str:
    """Write *declarations* as the text of a TypeScript declaration file.

    Args:
        declarations: All that is referred to.
        title: What it declares, one line.

    Returns:
        One exported declaration each, with what is said of it as a comment. A field that may
        be absent is optional; one that may be null says so.
    """
    head = f"// {title}\n"
    return "\n".join([head, _PRELUDE, *map(_declaration, declarations)])


def _declaration(declaration: Declaration) -> str:
    comment = _comment(declaration.text)
    match declaration:
        case Words(name=name):
            return f"{comment}export type {name} ={_choices(_words(declaration))};\n"
        case Choice(name=name, members=members):
            return f"{comment}export type {name} ={_choices(member.name for member in members)};\n"
        case Record(name=name):
            lines = "".join(_record_lines(declaration))
            return f"{comment}export interface {name} {{\n{lines}}}\n"
        case _:
            assert_never(declaration)


def _record_lines(record: Record) -> Iterable[str]:
    if record.unknown:
        yield "  kind: UnknownKind;\n  [field: string]: Json;\n"
        return
    if record.kind is not None:
        yield f"  kind: {_quoted(record.kind)};\n"
    for field in record.fields:
        mark = "" if field.always else "?"
        comment = _comment(field.text, _default_line(field), indent="  ")
        yield f"{comment}  {field.name}{mark}: {_form(field.shape)};\n"


def _default_line(field: Field) -> str:
    return "" if field.default is UNSET else f"@defaultValue `{json.dumps(field.default)}`"


def _words(words: Words) -> list[str]:
    # The last part takes any string, and keeps editors proposing the others.
    return [*map(_quoted, words.words), *(["(string & {})"] if words.open else [])]


def _choices(options: Iterable[str]) -> str:
    return "".join(f"\n  | {option}" for option in options)


def _form(shape: Shape) -> str:
    match shape:
        case Named(name=name):
            return name
        case Plain(word=word):
            return _PLAIN[word]
        case Many(item=item):
            form = _form(item)
            return f"({form})[]" if isinstance(item, Either | Words) else f"{form}[]"
        case Table(item=item):
            return f"{{ [key: string]: {_form(item)} }}"
        case Words():
            return " | ".join(_words(shape))
        case Either(options=options):
            return " | ".join(map(_form, options))
        case _:
            assert_never(shape)


def _comment(*texts: str, indent: str = "") -> str:
    said = [text.replace("*/", "*\\/") for text in texts if text]
    if not said:
        return ""
    whole = f"{indent}/** {said[0]} */\n"
    if len(said) == 1 and len(whole) <= _WIDTH:
        return whole
    lines = [line for text in said for line in wrap(text, _WIDTH - len(indent) - 3)]
    return "".join(
        [f"{indent}/**\n", *(f"{indent} * {line}\n" for line in lines), f"{indent} */\n"]
    )


def _quoted(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)


def contract_typescript() -> str:
    """The text of a TypeScript declaration file with every type that ``encode`` writes.

    Returns:
        One declaration a type, strict-clean, and the execution result's besides. A switch over
        ``kind`` narrows the unions and leaves ``Unknown`` for its default branch.
    """
    views = read_declarations([AgentExecutionResult], {})
    declarations = {item.name: item for item in (*contract_declarations(), *views)}
    return write_typescript(
        [declarations[name] for name in sorted(declarations)],
        f"upshot contract, schema version {SCHEMA_VERSION}; made by: upshot schema --typescript",
    )
