"""Reads JSON and YAML files, and converts their content to structs.

Any fault in a file is a ``Misuse`` with one sentence that names the file and the place in it.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from upshot.errors import Misuse, need_of_extra

YAML_SUFFIXES = (".yaml", ".yml")

T = TypeVar("T")


def read_data_file(path: Path, name: str) -> object:
    """Read the single value of a file.

    Args:
        path: The file: YAML by its suffix, otherwise JSON.
        name: The file's name in messages.

    Raises:
        Misuse: It cannot be read or parsed, or it is YAML and the extra is not installed.
    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Misuse(f"{name} is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise Misuse(f"{name} cannot be read: {error.strerror or type(error).__name__}") from error
    return parse_yaml(text, name) if path.suffix in YAML_SUFFIXES else _parse_json(text, name)


def fit(data: object, kind: type[T], where: str) -> T:
    """Convert plain data; Misuse starts with *where* and names the field that does not fit."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        # msgspec says "what - at `$.replies[0].text`"; a reader looks for the place first.
        what, _, place = str(error).partition(" - at ")
        place = place.strip("`").removeprefix("$").removeprefix(".")
        raise Misuse(f"{where}: {place or 'the whole'}: {what[:1].lower()}{what[1:]}") from error


def _parse_json(text: str, name: str) -> object:
    if not text.strip():
        raise Misuse(f"{name}: the file is empty")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Misuse(f"{name}, {place}: this is not JSON: {error.msg}") from error


def parse_yaml(text: str, name: str) -> object:
    """Read the single value of a YAML text; *name* is its file's name in messages.

    Raises:
        Misuse: It is not YAML, or the extra is not installed.
    """
    try:
        # Not an import statement: it is an extra without type stubs, and JSON works without it.
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        needed = need_of_extra("reading YAML", "machine")
        raise Misuse(f"{name}: {needed}; or write it as JSON") from error
    try:
        return cast("object", yaml.safe_load(text))
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        # YAML counts lines from 0, messages from 1.
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Misuse(f"{name}{place}: this is not YAML: {problem}") from error
