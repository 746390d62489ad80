"""Reads a stored text page by page, or only the lines that contain a pattern."""

from __future__ import annotations

from collections.abc import Iterator

from upshot.contract.base.structs import JsonObject

PAGE_CHARS = 8_000
_LINE_CHARS = 1_000
_MAX_PATTERN_CHARS = 1_000
# The maximum number of characters searched in one call; the caller continues at next_offset.
_SEARCH_CHARS = 500_000


def read_page(
    text: str, *, offset: int = 0, limit: int | None = None, pattern: str | None = None
) -> JsonObject:
    """Read a part of *text*.

    Args:
        text: The whole text.
        offset: Where to start, in characters from 0; past the end gives an empty page.
        limit: The maximum number of characters, from 1; None means ``PAGE_CHARS``.
        pattern: Text to search for. Only lines that contain it are returned, each as
            ``number: line`` with numbers from 1; a very long line is cut to the part around the
            match. Case is ignored, ``*`` matches any characters within a line, and every other
            character matches itself. Regular expressions are not supported: models write the
            patterns, and some would take forever.

    Returns:
        ``{"text": str, "next_offset": int | None}``: the offset to continue at, in characters of
        *text*, also for a search; None at the end.

    Raises:
        ValueError: *offset* is negative, *limit* is below 1, or *pattern* is too long.
    """
    if offset < 0:
        raise ValueError(f"offset is {offset}; it must not be negative")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1")
    limit = PAGE_CHARS if limit is None else limit
    if pattern is not None:
        return _read_matches(text, pattern, offset, limit)
    end = offset + limit
    return {"text": text[offset:end], "next_offset": end if end < len(text) else None}


def _read_matches(text: str, pattern: str, offset: int, limit: int) -> JsonObject:
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern may have at most {_MAX_PATTERN_CHARS} characters")
    pieces = [piece for piece in _fold(pattern).split("*") if piece]
    # Up to the end of a line, so that no line is searched in two parts.
    stop = text.find("\n", offset + _SEARCH_CHARS - 1)
    stop = len(text) if stop < 0 else stop
    number, counted = text.count("\n", 0, offset) + 1, offset
    shown: list[str] = []
    room = limit
    for begin, end, match_end in _matches(_fold(text[offset:stop]), pieces):
        start = begin + offset
        number, counted = number + text.count("\n", counted, start), start
        line = text[start : end + offset].removesuffix("\r")
        line_text = f"{number}: {_cut(line, match_end)}"
        if shown and len(line_text) + 1 > room:
            return {"text": "\n".join(shown), "next_offset": start}
        shown.append(line_text[:limit])
        room -= len(line_text) + 1
    return {"text": "\n".join(shown), "next_offset": stop + 1 if stop + 1 < len(text) else None}


def _matches(text: str, pieces: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and relative match end of each line with *pieces* in order."""
    at = 0
    while at < len(text):
        hit = text.find(pieces[0], at) if pieces else at
        if hit < 0:
            return
        start = max(at, text.rfind("\n", at, hit) + 1)
        end = text.find("\n", hit)
        end = len(text) if end < 0 else end
        place = start
        for piece in pieces:
            place = text.find(piece, place, end)
            if place < 0:
                break
            place += len(piece)
        if place >= 0:
            yield start, end, place - start
        at = end + 1


def _fold(text: str) -> str:
    """Return *text* in lower case, character by character."""
    # The only letter that has two characters in lower case; positions in the text must not shift.
    return text.replace("\u0130", "i").lower()


def _cut(line: str, match_end: int) -> str:
    if len(line) <= _LINE_CHARS:
        return line
    first = max(0, min(match_end - _LINE_CHARS // 2, len(line) - _LINE_CHARS))
    last = first + _LINE_CHARS
    return ("..." if first else "") + line[first:last] + ("..." if last < len(line) else "")
