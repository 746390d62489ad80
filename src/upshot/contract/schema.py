"""The contract in other languages: JSON Schema and TypeScript, both made from the structs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Union

import msgspec

from .answer import AnyAnswer, Pending
from .codec import STANDALONE
from .event import Event
from .execution_result import AgentExecutionResult
from .message import Part, Unknown
from .outcome import ToolOutcome
from .schema_declaration import Declaration, read_declarations
from .schema_json import write_json_schema
from .schema_typescript import write_typescript
from .value import SCHEMA_VERSION, JsonObject

__all__ = ["contract_schema", "contract_typescript"]

_STANDALONE = "Standalone"
# The base of events is none itself, and a model request is written in each provider's own form.
_NEVER_WRITTEN = {"ModelRequest", "RunEvent"}


def contract_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) of every value that ``encode`` writes.

    Returns:
        A new object. A whole document has to be a value that stands alone, as ``decode`` takes
        it without a type; under ``$defs`` is every type by its name, such as
        ``#/$defs/AgentResult``. It says what is written: what is never left out is required,
        although a reader takes its default. Unknown fields, parts and events fit.
    """
    return write_json_schema(
        _declarations(), _STANDALONE, f"upshot contract, schema version {SCHEMA_VERSION}"
    )


def contract_typescript() -> str:
    """The text of a TypeScript declaration file with every type that ``encode`` writes.

    Returns:
        One declaration a type, strict-clean, and the execution result's besides. A switch over
        ``kind`` narrows the unions and leaves ``Unknown`` for its default branch.
    """
    views = read_declarations([AgentExecutionResult], {})
    declarations = {item.name: item for item in (*_declarations(), *views)}
    return write_typescript(
        [declarations[name] for name in sorted(declarations)],
        f"upshot contract, schema version {SCHEMA_VERSION}; made by: upshot schema --typescript",
    )


@cache
def _declarations() -> tuple[Declaration, ...]:
    standing: Any = Union[tuple(kind for kind in STANDALONE if kind is not Unknown)]  # noqa: UP007  # made at run time
    return read_declarations(
        _public_structs(),
        {
            _STANDALONE: (standing, "Every kind of value that stands alone."),
            "AnyAnswer": (AnyAnswer, "What people answer."),
            "Event": (Event, "Everything that a run's log and its watchers get."),
            "Part": (Part, "A part of a message or an artifact."),
            "Pending": (Pending, "What a parked run waits for."),
            "ToolOutcome": (ToolOutcome, "What came of a tool call. Closed."),
        },
    )


def _public_structs() -> Iterator[type[msgspec.Struct]]:
    """Every struct that the package exports, so that a new one is declared without a line here."""
    package = sys.modules[__name__.rpartition(".")[0]]
    for name in package.__all__:
        value: object = getattr(package, name)
        if not isinstance(value, type) or name in _NEVER_WRITTEN:
            continue
        if issubclass(value, msgspec.Struct):
            yield value
