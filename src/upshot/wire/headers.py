"""Header containers, and the grammar of numbers, durations and dates in headers and bodies.

A parser takes text as received and returns a value, or None; it never raises, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol, TypeAlias, TypeGuard, cast

MAX_DELAY_S = 100 * 365.25 * 86400
"""A hundred years; a longer wait is assumed to be a mistake of the server."""

_MAX_DIGITS = 18
# A moment has at least the length of "2024-06-15T12:00:00"; shorter texts are not tried as one.
_MOMENT_CHARS = 18
# Bare numbers above this (2000-01-01) are moments; above a thousand times that, in milliseconds.
_EPOCH_FROM_S = 946_684_800
_INTEGER = re.compile(r"([0-9]{1,18})(?:\.0*)?")
_DURATION = re.compile(
    r"(?:(?P<d>[0-9]+(?:\.[0-9]*)?)d)?"
    r"(?:(?P<h>[0-9]+(?:\.[0-9]*)?)h)?"
    r"(?:(?P<m>[0-9]+(?:\.[0-9]*)?)m(?!s))?"
    r"(?:(?P<s>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)s)?"
    r"(?:(?P<ms>[0-9]+(?:\.[0-9]*)?)ms)?"
    r"(?:(?P<us>[0-9]+(?:\.[0-9]*)?)(?:us|\N{MICRO SIGN}s|\N{GREEK SMALL LETTER MU}s))?"
    r"(?:(?P<ns>[0-9]+(?:\.[0-9]*)?)ns)?"
)
_SECONDS_OF = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,18})?"
    r"(?:Z| ?[+-][0-9]{2}:?[0-9]{2})?"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_HTTP_DATE = re.compile(
    r"(?:[a-z]+,? +)?(?P<day>[0-9]{1,2})[ -](?P<month>[a-z]{3})[ -](?P<year>[0-9]{4}|[0-9]{2}) +"
    r"(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?: +(?:gmt|utc|\+0000))?"
)
_ASCTIME = re.compile(
    r"[a-z]{3} +(?P<month>[a-z]{3}) +(?P<day>[0-9]{1,2}) +(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r" +(?P<year>[0-9]{4})"
)


def parse_integer(text: str) -> int | None:
    """Read a count: "12" and "12.0" are 12; "1,000", "-1" and "1.5" are not counts.

    Returns:
        The number, of at most 18 digits; None if *text* is not such a number.
    """
    if text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS:
        return int(text)
    found = _INTEGER.fullmatch(text.strip())
    return int(found[1]) if found else None


def parse_number(text: str) -> float | None:
    """Read a plain number of at least 0, whole or with a fraction; anything else is None."""
    # Without a regular expression, three times as fast: this runs for every header.
    digits = text.replace(".", "", 1)
    if digits.isdecimal() and digits.isascii() and len(digits) <= _MAX_DIGITS:
        return float(text)
    return None


def parse_duration(text: str) -> float | None:
    """Read a length of time: "6m30s", "120ms", "10.59s", "1h30m45s", or bare seconds.

    Letter case does not matter. "0s" is zero, which is not the same as unknown.

    Returns:
        Seconds, from 0 to ``MAX_DELAY_S``; None if *text* is not a duration.

    Source:
        Recorded replies of OpenAI, Azure and Groq; they print durations as Go does.
    """
    seconds = _parse_plain_duration(text)
    if seconds is None:
        seconds = _parse_any_duration(text.strip().lower())
    return seconds if seconds is not None and seconds <= MAX_DELAY_S else None


def parse_datetime(text: str) -> datetime | None:
    """Read an RFC 3339 moment; without an offset it is UTC.

    Returns:
        An aware moment; None if *text* is not one.

    Source:
        RFC 3339 section 5.6.
    """
    text = text.strip().upper()
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# Most windows of one reply reset at the same moment.
@lru_cache(maxsize=256)
def parse_moment(text: str) -> float | None:
    """Read a moment like :func:`parse_datetime`, as unix seconds."""
    # Only the usual form, "2024-06-15T12:00:00Z": Python would also accept others.
    if len(text) == 20 and text[7] == "-" and text[10] == "T" and text[19] == "Z":
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            return None
    moment = parse_datetime(text)
    return None if moment is None else moment.timestamp()


def parse_date(text: str) -> float | None:
    """Read an HTTP date, in any of the three forms that HTTP has had.

    Returns:
        Unix seconds; None if *text* is not a date.

    Source:
        RFC 9110 section 5.6.7.
    """
    text = text.strip().lower()
    found = _HTTP_DATE.fullmatch(text) or _ASCTIME.fullmatch(text)
    month = _MONTHS.get(found["month"]) if found else None
    if found is None or month is None:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year < 70 else 1900
    hour, minute, second = map(int, found["time"].split(":"))
    try:
        # A leap second counts as the second before it.
        moment = datetime(year, month, int(found["day"]), hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp()


def parse_reset(text: str, *, now: float) -> float | None:
    """Read the time of a limit's reset, in any of the forms that providers use.

    Args:
        text: Unix seconds or milliseconds, an RFC 3339 moment, a duration, or bare seconds.
        now: When it was received, in unix seconds.

    Returns:
        Seconds from *now*, 0 for a moment in the past; None if *text* has none of the forms.
    """
    reset = read_reset(text, now=now)
    return None if reset is None else reset[0]


def read_reset(text: str, *, now: float) -> tuple[float, float] | None:
    """Read a reset as :func:`parse_reset` does, as (seconds from *now*, moment in unix seconds)."""
    if not text.endswith("s"):
        # A text that ends in "s" is a duration, as most resets are.
        if len(text) > _MOMENT_CHARS and (moment := parse_moment(text)) is not None:
            return _from_moment(moment, now)
        number = parse_number(text.strip())
        if number is not None and number > _EPOCH_FROM_S:
            return _from_moment(number / 1000 if number > _EPOCH_FROM_S * 1000 else number, now)
    delay = parse_duration(text)
    return None if delay is None else (delay, now + delay)


def parse_retry_after(text: str, *, now: float) -> float | None:
    """Read a ``Retry-After`` field.

    Args:
        text: The value as received: seconds, whole or not, or an HTTP date.
        now: When it was received, in unix seconds; used only for a date.

    Returns:
        Seconds to wait, from 0 to ``MAX_DELAY_S``; None if *text* has neither form.

    Source:
        RFC 9110 section 10.2.3.
    """
    seconds = parse_number(text.strip())
    if seconds is None:
        moment = parse_date(text)
        moment = parse_moment(text) if moment is None else moment
        seconds = None if moment is None else max(0.0, moment - now)
    return seconds if seconds is not None and seconds <= MAX_DELAY_S else None


# While an account is far from its limits, the same few waits recur.
@lru_cache(maxsize=256)
def _parse_plain_duration(text: str) -> float | None:
    """Read the usual forms, "12ms", "1.5s", "6m30s" and "30", without a regular expression."""
    if text.endswith("ms"):
        number = parse_number(text[:-2])
        return None if number is None else number * 1e-3
    if not text.endswith("s"):
        return parse_number(text)
    whole, minutes, rest = text[:-1].partition("m")
    if not minutes:
        return parse_number(whole)
    count, number = parse_integer(whole), parse_number(rest)
    return None if count is None or number is None else count * 60 + number


def _parse_any_duration(text: str) -> float | None:
    if (number := parse_number(text)) is not None:
        return number
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        return None
    units = found.groupdict()
    return sum(float(units[unit]) * size for unit, size in _SECONDS_OF.items() if units[unit])


def _from_moment(moment: float, now: float) -> tuple[float, float] | None:
    if moment > now + MAX_DELAY_S:
        return None
    return max(0.0, moment - now), moment


class Items(Protocol):
    """Any header container that can list its pairs."""

    def items(self) -> Iterable[tuple[object, object]]:
        """Return all (name, value) pairs; a name may occur twice."""
        ...


Headers: TypeAlias = (
    "Mapping[str, str] | Mapping[str, object] | Iterable[tuple[object, object]] | Items | None"
)
"""Accepted as headers: a mapping, pairs, anything with ``items()``, or None."""

WAITS = frozenset({"retry-after-ms", "retry-after"})
"""The headers with the time to wait."""

_PROXIED = "llm_provider-"
_REQUEST_IDS = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "mistral-correlation-id",
)
# Credentials and account ids must not get into results and logs.
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
    """Convert *headers* to one dictionary with lower-case names and text values.

    Repeated names, and lists as values, are joined by ",". Names that are None are omitted, bytes
    are read as Latin-1. litellm's ``llm_provider-`` prefix is removed from a name, unless the
    reply also has the name without it.

    Args:
        headers: A mapping, pairs, or anything with ``items()``; None has none.

    Returns:
        A new dictionary. Never raises, whatever the values are.
    """
    names, values = to_columns(headers)
    return dict(zip(names, values, strict=True))


def is_text(values: Sequence[object]) -> TypeGuard[Sequence[str]]:
    """Whether all *values* are text."""
    try:
        "".join(cast("Sequence[str]", values))
    except TypeError:
        return False
    return True


def to_columns(headers: Headers) -> tuple[tuple[str, ...], Sequence[str]]:
    """Normalise *headers* like :func:`normalize_headers`, without building a dictionary.

    Returns:
        The unique names, and their values in the same order.
    """
    given: tuple[object, ...]
    values: list[object]
    if isinstance(headers, dict):
        plain = cast("dict[object, object]", headers)
        given, values = tuple(plain), list(plain.values())
    else:
        pairs = _pairs(headers)
        given, values = tuple([name for name, _ in pairs]), [value for _, value in pairs]
    # Nearly all headers are plain text without a repeated name; others are read one by one.
    if is_text(given) and is_text(values) and (names := to_plain_names(given)) is not None:
        return names, values
    fields = _normalize_odd(zip(given, values, strict=True))
    return tuple(fields), list(fields.values())


def to_raw_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """Return *fields* without secrets and account ids: cookies, keys, organisations."""
    if _PRIVATE.isdisjoint(fields):
        return dict(fields)
    return {name: value for name, value in fields.items() if name not in _PRIVATE}


def read_request_id(fields: Mapping[str, str]) -> str | None:
    """Return the provider's id of the request, from the first header that has one, else None."""
    for name in _REQUEST_IDS:
        if found := fields.get(name):
            return found
    return None


def read_retry_after(fields: Mapping[str, str], *, now: float) -> float | None:
    """Read how long to wait: ``retry-after-ms``, else ``Retry-After``.

    A malformed value is ignored, so that it cannot hide a valid one.

    Args:
        fields: Normalised headers.
        now: When they were received, in unix seconds.

    Returns:
        Seconds, from 0 to ``MAX_DELAY_S``; None if neither header has a valid wait.
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
    if not isinstance(headers, Iterable):
        return []
    return [
        cast("tuple[object, object]", pair)
        for pair in cast("Iterable[object]", headers)
        if isinstance(pair, (tuple, list)) and len(cast("tuple[object, ...]", pair)) == 2
    ]


# All replies of a server have the same header names, so each list of names is read once.
@lru_cache(maxsize=256)
def to_plain_names(names: tuple[object, ...]) -> tuple[str, ...] | None:
    """Return *names* in lower case; None unless all are text, unique and unproxied."""
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
