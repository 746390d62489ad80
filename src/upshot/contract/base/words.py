"""Formats times, sizes and amounts for people, and makes text from others harmless."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from upshot.contract.base.json_values import to_json

if TYPE_CHECKING:
    from upshot.contract.usage import Cost, Usage

UNKNOWN = "unknown"

_KIB = 1024

# Control and format characters, surrogate halves, private and unassigned ones, line separators.
_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINING = "\u200c\u200d"
# Letters and marks that are shown as nothing or as a blank: Default_Ignorable_Code_Point
# in DerivedCoreProperties.txt (Unicode 15.1), and the blank of Braille.
_FILLERS = (
    *(range(code, code + 1) for code in (0x34F, 0x2800, 0x3164, 0xFFA0)),
    range(0x115F, 0x1161),
    range(0x17B4, 0x17B6),
    range(0x180B, 0x1810),
    range(0xFE00, 0xFE10),
    range(0xE0100, 0xE01F0),
)
# A text that cannot be mistaken for more than one value.
_IS_PLAIN = re.compile(r"[\w@.:+#/-]+").fullmatch


def duration(seconds: float) -> str:
    """Return a time span: ``340 ms``, ``5.1 s``, ``2 min 05 s``, ``1 h 02 min``; below 0 is 0."""
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
    """Return a number of bytes: ``812 B``, ``17.3 KiB``, ``2.0 MiB``."""
    if size_bytes < _KIB:
        return f"{size_bytes} B"
    if size_bytes < _KIB**2:
        return f"{size_bytes / _KIB:.1f} KiB"
    return f"{size_bytes / _KIB**2:.1f} MiB"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things: ``1 call``, ``12,345 tokens``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tokens(usage: Usage) -> str:
    """Return all tokens: ``unknown`` if no call reported any, a lower bound if one did not."""
    if usage.total_tokens is None:
        return UNKNOWN
    return f"{'at least ' if usage.unmeasured_calls else ''}{usage.total_tokens:,}"


def money(cost: Cost | None) -> str:
    """Return an amount of money, ``unknown`` if nothing had a price."""
    if cost is None or cost.total is None:
        return UNKNOWN
    digits = 2 if cost.total >= 1 else 4
    amount = f"{cost.total:.{digits}f}"
    shown = f"${amount}" if cost.currency == "USD" else f"{amount} {cost.currency}"
    unpriced = f" + {count(cost.unpriced_calls, 'call')} of unknown price"
    return shown + (unpriced if cost.unpriced_calls else "")


def moment(time: datetime | None) -> str:
    """Return a moment in UTC to the second, ``unknown`` for None."""
    return UNKNOWN if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def clean(text: str, limit: int = 200) -> str:
    """Return *text* as one harmless line of *limit* characters or fewer.

    Invisible characters, which a model or a tool could use to steer the terminal or to hide what it
    says, are shown escaped.
    """
    line = " ".join(visible(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def call_words(name: str, arguments: Mapping[str, object], limit: int = 80) -> str:
    """Return a call in one line of limited length: ``refund(order 7, note "two words")``."""
    words = ", ".join(f"{key} {_argument(value)}" for key, value in arguments.items())
    line = clean(f"{name}({words})", limit)
    return line if line.endswith(")") else f"{clean(line, limit - 1)})"


def _argument(value: object) -> str:
    return value if isinstance(value, str) and _IS_PLAIN(value) else to_json(value).decode()


def clean_lines(text: str) -> str:
    """Return *text* with its lines and tabs, but other control and format characters escaped.

    Joiners stay, since emoji and Persian need them.
    """
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\r\n", "\n")
    return "".join(c if c in _JOINING or not steers(c) else _escape(c) for c in lines)


def visible(text: str) -> str:
    """Return *text* with its lines and tabs, but all other invisible characters escaped.

    For texts that the user decides about: two texts that look alike are equal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(c) if c not in "\n\t" and _is_unseen(c) else c for c in text)


def steers(character: str) -> bool:
    """Return whether a character is invisible, other than a line break or tab."""
    return character not in "\n\t" and unicodedata.category(character) in _STEERING


def _is_unseen(character: str) -> bool:
    kind = unicodedata.category(character)
    is_blank = kind == "Zs" and character != " "
    return is_blank or kind in _STEERING or any(ord(character) in part for part in _FILLERS)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def figures(worked_s: float, usage: Usage, cost: Cost | None, tool_calls: int) -> tuple[str, ...]:
    """Return what a run used: time, tokens, money, tool calls."""
    return (
        duration(worked_s),
        f"{tokens(usage)} tokens",
        f"cost {money(cost)}",
        count(tool_calls, "tool call"),
    )
