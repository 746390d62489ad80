"""Figures and foreign texts as people read them, each in a few characters of one line."""

from __future__ import annotations

import unicodedata
from datetime import datetime

from ..contract import Cost, Usage

__all__ = [
    "UNKNOWN",
    "clean",
    "clean_lines",
    "count",
    "duration",
    "moment",
    "money",
    "size",
    "tokens",
]

UNKNOWN = "unknown"

_KIB = 1024


def duration(seconds: float) -> str:
    """A time span: ``340 ms``, ``5.1 s``, ``2 min 05 s``, ``1 h 02 min``; below 0 is 0."""
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left_s:02} s"
    hours, left_min = divmod(minutes, 60)
    return f"{hours} h {left_min:02} min"


def size(size_bytes: int) -> str:
    """A number of bytes: ``812 B``, ``17.3 KiB``, ``2.0 MiB``."""
    if size_bytes < _KIB:
        return f"{size_bytes} B"
    if size_bytes < _KIB**2:
        return f"{size_bytes / _KIB:.1f} KiB"
    return f"{size_bytes / _KIB**2:.1f} MiB"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things: ``1 call``, ``12,345 tokens``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tokens(usage: Usage) -> str:
    """All tokens in one figure; ``unknown`` where no call told any, a bound where one did not."""
    if usage.total_tokens is None:
        return UNKNOWN
    return f"{'at least ' if usage.unmeasured_calls else ''}{usage.total_tokens:,}"


def money(cost: Cost | None) -> str:
    """An amount of money, ``unknown`` where nothing had a price."""
    if cost is None or cost.total is None:
        return UNKNOWN
    digits = 2 if cost.total >= 1 else 4
    amount = f"{cost.total:.{digits}f}"
    shown = f"${amount}" if cost.currency == "USD" else f"{amount} {cost.currency}"
    unpriced = f" + {count(cost.unpriced_calls, 'call')} of unknown price"
    return shown + (unpriced if cost.unpriced_calls else "")


def moment(time: datetime | None) -> str:
    """A moment in UTC to the second, ``unknown`` for None."""
    return UNKNOWN if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def clean(text: str, limit: int = 200) -> str:
    """*text* as one harmless line of at most *limit* characters.

    Control characters, with which a model or a tool could steer the terminal, are taken out.
    """
    line = " ".join(_harmless(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def clean_lines(text: str) -> str:
    """*text* with its lines and tabs, without any other control character."""
    return _harmless(text)


def _harmless(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs")
    )
