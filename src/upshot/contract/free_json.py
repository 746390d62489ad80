"""Free JSON: where values from outside enter, they are made JSON and what was lost is listed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import msgspec

from .value import Json

__all__ = ["MAX_DEPTH", "UnserializableError", "clean_text", "to_free_json"]

MAX_DEPTH = 200


class UnserializableError(TypeError):
    """A value has no JSON form.

    Attributes:
        path: Where in the value it is, as a JSON pointer.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the value at {path or '/'} is no JSON: {reason}")
        self.path = path


def clean_text(text: str) -> str:
    """*text* with every lone surrogate replaced by U+FFFD; the same object if it had none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_free_json(value: object) -> tuple[Json, tuple[str, ...]]:
    """Make JSON of *value*.

    Mappings, sequences, sets, dataclasses, msgspec structs, pydantic models, enums, dates,
    UUIDs, paths, bytes (base64) and Decimals (numbers) are converted. NaN and infinities
    become null, lone surrogates U+FFFD.

    Returns:
        The JSON value, and JSON pointers of what was replaced.

    Raises:
        UnserializableError: Something in it has no JSON form, or it is nested deeper than
            ``MAX_DEPTH`` or holds itself.
    """
    lossy: list[str] = []
    return _convert(value, "", lossy, MAX_DEPTH), tuple(lossy)


def _convert(value: Any, path: str, lossy: list[str], depth: int) -> Json:
    if value is None or value is True or value is False or type(value) is int:
        return value
    if isinstance(value, str):
        return _text(value, path, lossy)
    if isinstance(value, float):
        return _number(value, path, lossy)
    if depth == 0:
        raise UnserializableError(path, f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {
            (name := _key(key, path, lossy)): _convert(item, f"{path}/{name}", lossy, depth - 1)
            for key, item in pairs
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("Iterable[object]", value)
        return [
            _convert(item, f"{path}/{place}", lossy, depth - 1) for place, item in enumerate(items)
        ]
    return _convert(_simplify(value, path), path, lossy, depth - 1)


def _text(value: str, path: str, lossy: list[str]) -> str:
    # str() also takes subclasses, such as words, down to plain text.
    text = clean_text(str(value.value) if isinstance(value, Enum) else str(value))
    if text != value:
        lossy.append(path or "/")
    return text


def _number(value: float, path: str, lossy: list[str]) -> float | None:
    if math.isfinite(value):
        return float(value)
    lossy.append(path or "/")
    return None


def _key(key: object, path: str, lossy: list[str]) -> str:
    if isinstance(key, str):
        return _text(key, path, lossy)
    if isinstance(key, int | float | bool | UUID | date) or key is None:
        return str(key)
    raise UnserializableError(path, f"a {type(key).__name__} cannot be a key")


def _simplify(value: Any, path: str) -> object:
    """One step from an object towards JSON."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return (
            int(value) if value == value.to_integral_value() and value.is_finite() else float(value)
        )
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, msgspec.Struct | bytes | bytearray | memoryview):
        return msgspec.to_builtins(value, enc_hook=str)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, UUID | PurePath):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise UnserializableError(path, f"{type(value).__name__} has no JSON form; return plain values")
