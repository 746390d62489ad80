"""Agent files: an agent as JSON or YAML, its tools by name."""

from __future__ import annotations

import importlib
import json
from difflib import get_close_matches
from pathlib import Path
from typing import cast

import msgspec

from ..contract import AgentSpec
from ..errors import Misuse, need_of_extra

__all__ = ["AGENT_FILES", "read_agent_file"]

AGENT_FILES = (".json", ".yaml", ".yml")

_YAML = (".yaml", ".yml")
_FOUND: dict[type, str] = {type(None): "nothing", list: "a list", str: "a text"}


def read_agent_file(path: Path) -> AgentSpec:
    """Read an agent from a file of the form of ``AgentSpec``.

    Args:
        path: A file that is there; ``.yaml`` and ``.yml`` are YAML, for which the extra
            ``machine`` is needed, anything else JSON.

    Raises:
        Misuse: It cannot be read, or a field is unknown or wrong; with line, or field.
    """
    data = _parse_yaml(path) if path.suffix in _YAML else _parse_json(path)
    if not isinstance(data, dict):
        raise Misuse(
            f"{path.name}, line 1: {_FOUND.get(type(data), 'one value')} where an agent, which has "
            "an id, or a machine, which has states, was expected"
        )
    fields = cast("dict[str, object]", data)
    if "nodes" in fields and "id" not in fields:
        raise Misuse(
            f"{path.name} is a graph, whose functions are in Python: Graph.from_data(...) there; "
            "`upshot graph` draws it"
        )
    known = (*AgentSpec.__struct_fields__, "kind")
    for name in fields:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise Misuse(f"{path.name}: an agent has no field {name!r}: {hint}")
    if not fields.get("id"):
        raise Misuse(f"{path.name}: the agent needs an id")
    try:
        return msgspec.convert({"kind": "agent_spec", **fields}, AgentSpec)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$").removeprefix(".")
        raise Misuse(
            f"{path.name}: {field or 'the agent'}: {what[:1].lower()}{what[1:]}"
        ) from error


def _parse_json(path: Path) -> object:
    try:
        return json.loads(_read(path))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Misuse(f"{path.name}, {place}: this is no JSON: {error.msg}") from error


def _parse_yaml(path: Path) -> object:
    try:
        # Not an import statement: it is an extra without type stubs.
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        needed = need_of_extra("reading YAML", "machine")
        raise Misuse(f"{path.name}: {needed}; or write it as JSON") from error
    try:
        return cast("object", yaml.safe_load(_read(path)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # YAML counts lines from 0, people from 1.
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Misuse(f"{path.name}{place}: this is no YAML: {problem}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Misuse(f"{path.name} is no text in UTF-8: {error.reason}") from error
    except OSError as error:
        raise Misuse(f"{path.name} cannot be read: {error.strerror}") from error
