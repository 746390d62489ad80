"""Reading objects of libraries that are not imported: by attribute or by key, and never raising."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Final, cast

from ..contract import Json, JsonObject, UnserializableError, clean_text, to_free_json
from ..contract.usage import to_money
from ..errors import Misuse
from ..wire.chat import CUSTOM_INPUT

__all__ = [
    "as_amount",
    "as_arguments",
    "as_count",
    "as_items",
    "as_json",
    "as_moment",
    "as_object",
    "as_text",
    "look",
]

_MAX_COUNT: Final = 2**63


def look(value: object, *path: str) -> object:
    """What *value* has under *path*, each step an attribute or a key.

    Args:
        value: A mapping, or any object.
        path: The steps; a native result and its JSON form are read alike.

    Returns:
        What is there; None where a step leads nowhere. Never raises.
    """
    for step in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(step)
            continue
        try:
            value = getattr(value, step, None)
        # A property of a foreign class may raise or warn; then it says nothing.
        except Exception:
            return None
    return value


def as_text(value: object) -> str:
    """*value* if it is text, an enum's member included; else ""."""
    if isinstance(value, Enum):
        value = value.value
    return clean_text(str(value)) if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """*value* if it is a whole number of at least 0; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    count = int(value) if math.isfinite(value) else -1
    return count if count == value and 0 <= count < _MAX_COUNT else None


def as_amount(value: object) -> Decimal | None:
    """*value* as money if it is a finite number of at least 0; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        amount = to_money(value)
    except Misuse:
        return None
    return amount if amount >= 0 else None


def as_items(value: object) -> list[object]:
    """The items of *value* if it is a list or a tuple; else none."""
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else []


def as_json(value: object) -> Json:
    """*value* as JSON; what has no JSON form is the text that it prints as."""
    try:
        return to_free_json(value)[0]
    except UnserializableError:
        return _printed(value)


def as_object(value: object) -> JsonObject:
    """*value* as a JSON object; what is none stands under "result", None is empty."""
    form = as_json(value)
    if isinstance(form, dict):
        return form
    return {} if form is None else {"result": form}


def as_arguments(value: object) -> str | JsonObject:
    """A call's arguments: JSON text as it is, a mapping as JSON, none as {}."""
    if isinstance(value, str):
        return clean_text(value) or {}
    form = as_json(value)
    if isinstance(form, dict):
        return form
    return {} if form is None else {CUSTOM_INPUT: form}


def as_moment(value: object) -> datetime | None:
    """A moment in UTC, of unix seconds or of an aware datetime; else None."""
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo is not None else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return None


def _printed(value: object) -> str:
    try:
        return clean_text(str(value))
    # Foreign code: what cannot even print itself is told by its class.
    except Exception:
        return type(value).__name__
