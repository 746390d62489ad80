"""Reads foreign objects by attribute or key, and their headers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Final, cast

from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.usage import RateLimitState, to_money
from upshot.errors import Misuse
from upshot.wire.chat import CUSTOM_INPUT
from upshot.wire.headers import Headers, normalize_headers, to_raw_headers
from upshot.wire.rate_limits import find_rate_limit_state

__all__ = [
    "as_amount",
    "as_arguments",
    "as_count",
    "as_items",
    "as_json",
    "as_moment",
    "as_object",
    "as_text",
    "find_headers",
    "find_rate_limit",
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


# The first ones win: what LiteLLM rewrites stands last.
_REWRITTEN: Final = ("_hidden_params", "additional_headers")
_PLACES: Final = (
    ("headers",),
    ("response", "headers"),
    ("_response_headers",),
    ("litellm_response_headers",),
    _REWRITTEN,
)
_COMMON: Final = "x-ratelimit-"
_CAUSES: Final = 5


def find_headers(native: object) -> dict[str, str]:
    """The headers of the reply that *native* was made of.

    Args:
        native: A response or an exception of any client library; of an exception its causes are
            looked at too.

    Returns:
        Names in lower case, without what is secret; empty where it carries none. Never raises.
    """
    found: dict[str, str] = {}
    for source in _sources(native):
        for place in _PLACES:
            read = _read(look(source, *place))
            found = {**(_without_copies(read) if place is _REWRITTEN else read), **found}
    return to_raw_headers(found)


def find_rate_limit(
    headers: Headers, *, limited: bool = False, retry_after_s: float | None = None
) -> RateLimitState | None:
    """What *headers* say of rate limits.

    Args:
        headers: As :func:`find_headers` gives them.
        limited: Whether the reply was a rate-limit error.
        retry_after_s: Seconds to wait, where the error tells them.

    Returns:
        The state; None where nothing is known of any limit.
    """
    return find_rate_limit_state(
        normalize_headers(headers), now=time.time(), retry_after=retry_after_s, limited=limited
    )


def _sources(native: object) -> Iterator[object]:
    yield native
    one = native if isinstance(native, BaseException) else None
    for _ in range(_CAUSES):
        if one is None:
            return
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        yield one


def _without_copies(headers: dict[str, str]) -> dict[str, str]:
    """Leave out what LiteLLM copies from the provider's own limits to the names of OpenAI's."""
    limits = [name for name in headers if "ratelimit-" in name]
    if all(name.startswith(_COMMON) for name in limits):
        return headers
    return {name: value for name, value in headers.items() if not name.startswith(_COMMON)}


def _read(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping | list | tuple) and not hasattr(headers, "items"):
        return {}
    try:
        return normalize_headers(cast("Headers", headers))
    # Foreign code: what has items() need not be headers.
    except Exception:
        return {}
