"""Reads objects of other libraries by attribute or key, and finds their headers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast

from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.usage import RateLimitState, Usage, measured, to_money
from upshot.errors import Misuse
from upshot.wire.chat import CUSTOM_INPUT
from upshot.wire.headers import Headers, normalize_headers, to_raw_headers
from upshot.wire.rate_limits import find_rate_limit_state

_MAX_COUNT: Final = 2**63


def look_up(value: object, *path: str) -> object:
    """Look up *path* in *value*; each step is a key of a mapping or an attribute of an object.

    Returns:
        The value at *path*; None if a step is missing. Never raises.
    """
    for step in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(step)
            continue
        try:
            value = getattr(value, step, None)
        # Foreign code: a property may raise, or warn as an error; then it counts as missing.
        except Exception:
            return None
    return value


def as_text(value: object) -> str:
    """Return *value* if it is text or an enum member with a text value, otherwise ""."""
    if isinstance(value, Enum):
        value = value.value
    return clean_text(str(value)) if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """Return *value* if it is a whole number, 0 or more, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    count = int(value) if math.isfinite(value) else -1
    return count if count == value and 0 <= count < _MAX_COUNT else None


def as_amount(value: object) -> Decimal | None:
    """Return *value* as money if it is a finite number, 0 or more, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        amount = to_money(value)
    except Misuse:
        return None
    return amount if amount >= 0 else None


def as_items(value: object) -> list[object]:
    """Return the items of *value* if it is a list or a tuple, otherwise an empty list."""
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else []


def join_texts(content: object) -> str:
    """Return the text of a message: *content* itself, or the texts of its parts, joined."""
    if isinstance(content, str):
        return as_text(content)
    return "".join(as_text(look_up(part, "text")) for part in as_items(content))


def find_texts(value: object, **paths: str) -> JsonObject:
    """Return the texts at these dotted *paths* of *value*, by name, without missing ones."""
    found = {name: as_text(look_up(value, *path.split("."))) for name, path in paths.items()}
    return {name: text for name, text in found.items() if text}


def find_usage(value: object, *, calls: int = 1, **paths: str) -> Usage:
    """Return the token counts at these dotted *paths* of *value*; unmeasured if all are unknown."""
    found = {name: as_count(look_up(value, *path.split("."))) for name, path in paths.items()}
    counts: dict[str, Any] = found
    return measured(Usage(**counts, api_calls=calls))


def as_json(value: object) -> Json:
    """Return *value* as JSON; a value that JSON cannot express becomes its ``str``."""
    try:
        return to_free_json(value)[0]
    except UnserializableError:
        return _to_str(value)


def as_object(value: object) -> JsonObject:
    """Return *value* as a JSON object; anything else is put under "result", None is empty."""
    form = as_json(value)
    if isinstance(form, dict):
        return form
    return {} if form is None else {"result": form}


def as_arguments(value: object) -> str | JsonObject:
    """Return the arguments of a call: JSON text unchanged, a mapping as JSON, None as {}."""
    if isinstance(value, str):
        return clean_text(value) or {}
    form = as_json(value)
    if isinstance(form, dict):
        return form
    return {} if form is None else {CUSTOM_INPUT: form}


def as_moment(value: object) -> datetime | None:
    """Return unix seconds or an aware datetime as a moment in UTC, otherwise None."""
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo is not None else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return None


def _to_str(value: object) -> str:
    try:
        return clean_text(str(value))
    # Foreign code: an object whose __str__ raises is shown by its class.
    except Exception:
        return type(value).__name__


# The first place that has a header wins; LiteLLM's copies come last.
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
    """Find the headers of the reply behind *native*.

    Args:
        native: A response or an exception of any client library; the causes of an exception are
            searched too.

    Returns:
        Names in lower case, without secrets; empty if there are no headers. Never raises.
    """
    found: dict[str, str] = {}
    for source in _sources(native):
        for place in _PLACES:
            read = _read(look_up(source, *place))
            limits = [name for name in read if "ratelimit-" in name]
            if place is _REWRITTEN and not all(name.startswith(_COMMON) for name in limits):
                # LiteLLM copies the provider's own limits to OpenAI's names: keep the originals.
                read = {name: text for name, text in read.items() if not name.startswith(_COMMON)}
            found = {**read, **found}
    return to_raw_headers(found)


def find_rate_limit(
    headers: Headers, *, limited: bool = False, retry_after_s: float | None = None
) -> RateLimitState | None:
    """Read the rate limits in *headers*.

    Args:
        headers: The headers, from :func:`find_headers`.
        limited: Whether the reply was a rate-limit error.
        retry_after_s: Seconds to wait, if the error says so.

    Returns:
        The state; None if no limit is known.
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


def _read(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping | list | tuple) and not hasattr(headers, "items"):
        return {}
    try:
        return normalize_headers(cast("Headers", headers))
    # Foreign code: not every object with items() contains headers.
    except Exception:
        return {}
