"""The cast: the agents that a machine describes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..contract import Agent, Json, JsonObject, ModelSettings
from ..errors import Misuse
from .machine_document import Listing, Piece, Scalar, Table
from .machine_fault import nearest
from .machine_table import TableReader, plain, shown

__all__ = ["Cast", "read_cast"]

# None: one that has to be given to the engine.
Cast = Mapping[str, Agent[Any] | None]


def read_cast(piece: Piece | None, reader: TableReader) -> Cast:
    """Read the agents of a machine.

    Args:
        piece: A list of names; or by name a model, the description of an agent, or null.
        reader: Keeps what is wrong with them.
    """
    if piece is None:
        return {}
    if isinstance(piece, Listing):
        names = (reader.name(item, "the name of an agent") for item in piece.items)
        return {name: None for name in names if name}
    table = reader.mapping(piece, "agents by name")
    if table is None:
        return {}
    return {name: _agent(name, inner, reader) for name, inner in table.items.items()}


def _agent(name: str, piece: Piece, reader: TableReader) -> Agent[Any] | None:
    if isinstance(piece, Scalar):
        if piece.value is None:
            return None
        model = _model(piece, "a model, such as openai:gpt-5", reader)
        return _made(name, piece, {"model": model or None}, reader)
    table = reader.table(piece, "agent", "an agent")
    return None if table is None else _made(name, table, _fields(table, reader), reader)


def _fields(table: Table, reader: TableReader) -> dict[str, Any]:
    items, given = table.items, dict[str, Any]()
    if "model" in items:
        given["model"] = _model(items["model"], "the model of an agent", reader) or None
    for key in ("name", "instructions"):
        if key in items:
            given[key] = reader.text(items[key], f"the {key} of an agent") or None
    if "tools" in items:
        tools = reader.listing(items["tools"], "names of tools")
        names = [] if tools is None else tools.items
        given["tools"] = [reader.word(tool, "the name of a tool") for tool in names]
    if "output_schema" in items:
        schema = reader.mapping(items["output_schema"], "the JSON Schema of an agent's output")
        given["output_type"] = None if schema is None else plain(schema)
    if "settings" in items:
        given["settings"] = _settings(items["settings"], reader)
    return given


def _model(piece: Piece, what: str, reader: TableReader) -> str:
    model = reader.text(piece, what)
    if model and ":" not in model:
        # No fault: a model that the call names wins over it.
        wanted = "provider:model, such as openai:gpt-5"
        reader.warn(piece.mark, f"the model {model!r}", wanted, kind="model")
    return model


def _settings(piece: Piece, reader: TableReader) -> ModelSettings | None:
    table = reader.mapping(piece, "the settings of an agent's model")
    if table is None:
        return None
    known = ModelSettings.__struct_fields__
    given = JsonObject()
    for name, item in table.items.items():
        if name not in known:
            wanted = nearest(name, known, "a setting of models")
            reader.tell(table.marks[name], f"the key {name!r}", wanted, kind="unknown_key")
        elif problem := _misfit(name, plain(item)):
            reader.tell(item.mark, shown(item), f"the setting {name!r}: {problem}", kind="type")
        else:
            given[name] = plain(item)
    return msgspec.convert(given, ModelSettings)


def _misfit(name: str, value: Json) -> str:
    """Why the setting *name* cannot be *value*, "" where it can."""
    try:
        msgspec.convert({name: value}, ModelSettings)
    except (msgspec.ValidationError, Misuse) as problem:
        return " ".join(str(problem).partition(" - at ")[0].split())
    return ""


def _made(name: str, piece: Piece, given: dict[str, Any], reader: TableReader) -> Agent[Any] | None:
    try:
        return Agent[Any](name, **given)
    except Misuse as problem:
        reader.tell(piece.mark, str(problem), "an agent")
        return None
