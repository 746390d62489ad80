"""Header containers of every kind, made into one plain dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias, TypeGuard, cast

from .fields import MAX_DELAY_S, parse_number, parse_retry_after

__all__ = [
    "Headers",
    "Items",
    "WAITS",
    "is_text",
    "normalize_headers",
    "read_request_id",
    "read_retry_after",
    "to_columns",
    "to_plain_names",
    "to_raw_headers",
]


class Items(Protocol):
    """Any header container that can list its pairs."""

    def items(self) -> Iterable[tuple[object, object]]:
        """All (name, value) pairs; a name may come twice."""
        ...


Headers: TypeAlias = (
    "Mapping[str, str] | Mapping[str, object] | Iterable[tuple[object, object]] | Items | None"
)
"""What is taken for headers: a mapping, pairs, anything with ``items()``, or None."""

WAITS = frozenset({"retry-after-ms", "retry-after"})
"""The headers that say how long to wait."""

_PROXIED = "llm_provider-"
_REQUEST_IDS = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "mistral-correlation-id",
)
# What lets somebody in, or tells whose account it is, stays out of results and logs.
_PRIVATE = frozenset(
    {
        "set-cookie",
        "set-cookie2",
        "cookie",
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "openai-organization",
        "openai-project",
        "anthropic-organization-id",
        "x-organization-id",
        "x-org-id",
    }
)


def normalize_headers(headers: Headers) -> dict[str, str]:
    """Make one dictionary of *headers*: lower-case names, text values.

    A name that comes twice, and a list as a value, is joined by ",". Names that are None are
    left out, bytes are read as Latin-1. A name with litellm's ``llm_provider-`` prefix is the
    name behind it, unless that is there too.

    Args:
        headers: A mapping, pairs, or anything with ``items()``; None has none.

    Returns:
        A new dictionary. Never raises on what the values are.
    """
    names, values = to_columns(headers)
    return dict(zip(names, values, strict=True))


def is_text(values: Sequence[object]) -> TypeGuard[Sequence[str]]:
    """Tell whether all *values* are text."""
    try:
        "".join(cast("Sequence[str]", values))
    except TypeError:
        return False
    return True


def to_columns(headers: Headers) -> tuple[tuple[str, ...], Sequence[str]]:
    """Do what :func:`normalize_headers` does, without making a dictionary of it.

    Returns:
        The names, each once, and their values in the same order.
    """
    given: tuple[object, ...]
    values: list[object]
    if isinstance(headers, dict):
        plain = cast("dict[object, object]", headers)
        given, values = tuple(plain), list(plain.values())
    else:
        pairs = _pairs(headers)
        given, values = tuple([name for name, _ in pairs]), [value for _, value in pairs]
    # Nearly all replies are plain: text by text, no name twice. The others go name by name.
    if is_text(given) and is_text(values) and (names := to_plain_names(given)) is not None:
        return names, values
    fields = _normalize_odd(zip(given, values, strict=True))
    return tuple(fields), list(fields.values())


def to_raw_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """Leave out of *fields* what is secret or names the account: cookies, keys, organisations."""
    if _PRIVATE.isdisjoint(fields):
        return dict(fields)
    return {name: value for name, value in fields.items() if name not in _PRIVATE}


def read_request_id(fields: Mapping[str, str]) -> str | None:
    """The provider's id of the request, by the first header that has one; None without."""
    for name in _REQUEST_IDS:
        if found := fields.get(name):
            return found
    return None


def read_retry_after(fields: Mapping[str, str], *, now: float) -> float | None:
    """Read how long to wait: ``retry-after-ms``, else ``Retry-After``.

    A value that is no time is passed over, so that it cannot hide one that is.

    Args:
        fields: Normalised headers.
        now: When they were received, in unix seconds.

    Returns:
        Seconds, from 0 to ``MAX_DELAY_S``; None where neither header says any.
    """
    if "retry-after-ms" in fields:
        millis = parse_number(fields["retry-after-ms"].strip())
        if millis is not None and millis <= MAX_DELAY_S * 1000:
            return millis / 1000
    text = fields.get("retry-after")
    return None if text is None else parse_retry_after(text, now=now)


def _pairs(headers: Headers) -> list[tuple[object, object]]:
    if headers is None:
        return []
    items = getattr(headers, "items", None)
    if items is not None:
        return list(cast("Iterable[tuple[object, object]]", items()))
    return [
        cast("tuple[object, object]", pair)
        for pair in cast("Iterable[object]", headers)
        if isinstance(pair, (tuple, list)) and len(cast("tuple[object, ...]", pair)) == 2
    ]


# A server names the headers of all its replies alike, so each list of names is read once.
@lru_cache(maxsize=256)
def to_plain_names(names: tuple[object, ...]) -> tuple[str, ...] | None:
    """Make *names* lower case; None where they are not all text, unique and unproxied."""
    lower = tuple(name.lower() for name in names if type(name) is str)
    unique = len(set(lower)) == len(names)
    return lower if unique and not any(name.startswith(_PROXIED) for name in lower) else None


def _normalize_odd(pairs: Iterable[tuple[object, object]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    proxied: dict[str, str] = {}
    for name, value in pairs:
        if name is None:
            continue
        key, text = _text(name).strip().lower(), _text(value)
        into, key = (proxied, key[len(_PROXIED) :]) if key.startswith(_PROXIED) else (fields, key)
        into[key] = f"{into[key]},{text}" if key in into else text
    return {**proxied, **fields}


def _text(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, cast("list[object]", value)))
    return "" if value is None else str(value)
