"""Reading a stored text page by page, or only the lines that match a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .value import JsonObject

if TYPE_CHECKING:
    from .line_search import LineSearch

__all__ = ["PAGE_CHARS", "read_page"]

PAGE_CHARS = 8_000
_LINE_CHARS = 1_000
# So much is searched in one call at most; the caller goes on at next_offset.
_SEARCH_CHARS = 2_000_000


def read_page(
    text: str, *, offset: int = 0, limit: int | None = None, pattern: str | None = None
) -> JsonObject:
    """Read a part of *text*.

    Args:
        text: The whole text.
        offset: Where to begin, in characters from 0; past the end gives an empty page.
        limit: How many characters at most, from 1; None is ``PAGE_CHARS``.
        pattern: A regular expression; only lines that hold a match are given, each as
            ``number: line`` with numbers from 1 and very long lines cut to what is round
            the match. Back references and look-around are refused, so that the time is
            linear in the text.

    Returns:
        ``{"text": str, "next_offset": int | None}``; the offset to go on with, in
        characters of *text* also where a pattern is given, None at the end.

    Raises:
        ValueError: *offset* is negative, *limit* is below 1, or *pattern* is not valid
            or takes too long.
    """
    if offset < 0:
        raise ValueError(f"offset is {offset}; it must not be negative")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1")
    limit = PAGE_CHARS if limit is None else limit
    if pattern is not None:
        # Few reads search, and compiling its grammar would slow every import.
        from .line_search import LineSearch

        return _read_matches(text, LineSearch(pattern), offset, limit)
    end = offset + limit
    return {"text": text[offset:end], "next_offset": end if end < len(text) else None}


def _read_matches(text: str, search: LineSearch, offset: int, limit: int) -> JsonObject:
    found: list[str] = []
    room = limit
    number = text.count("\n", 0, offset) + 1
    start, last = offset, offset + _SEARCH_CHARS
    while start < len(text):
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        line = text[start:stop].removesuffix("\r")
        match_end = search.find_end(line)
        if match_end is not None:
            shown = f"{number}: {_cut(line, match_end)}"
            if found and len(shown) + 1 > room:
                return {"text": "\n".join(found), "next_offset": start}
            found.append(shown[:limit])
            room -= len(shown) + 1
        start, number = stop + 1, number + 1
        if start >= last:
            break
    return {"text": "\n".join(found), "next_offset": start if start < len(text) else None}


def _cut(line: str, match_end: int) -> str:
    if len(line) <= _LINE_CHARS:
        return line
    first = max(0, min(match_end - _LINE_CHARS // 2, len(line) - _LINE_CHARS))
    last = first + _LINE_CHARS
    return ("..." if first else "") + line[first:last] + ("..." if last < len(line) else "")
