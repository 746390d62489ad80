"""Reads a stored text by page or by lines that match a pattern, in linear time.

Searching lines for a regular expression in time linear in their length.

The patterns come from models, and ``re`` takes exponential time on some of them while it
holds the whole process. Here a pattern becomes a set of states that all advance together,
one character at a time; which states follow which is remembered, so that most characters
cost one look-up.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from upshot.contract.base.structs import JsonObject

__all__ = ["LineSearch", "PAGE_CHARS", "read_page"]

_MAX_PATTERN_CHARS = 1_000
_MAX_NODES = 4_000
# Counted in places of the pattern that were looked at; so many take about two seconds.
_MAX_WORK = 5_000_000
_MAX_REMEMBERED = 250_000

_FLAGS = re.compile(r"\(\?(?P<flags>[aimsu]+)\)")
_OPEN = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
_REPEAT = re.compile(r"(?:[*+?]|\{(?P<least>\d*)(?P<comma>,)?(?P<most>\d*)\})(?P<mode>[?+]?)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]+\}|0[0-7]{0,2}|[0-7]{3}|.)",
    re.DOTALL,
)
_EDGES = {"^", "$", "\\A", "\\Z", "\\b", "\\B"}


class LineSearch:
    """A regular expression made ready to be searched for.

    Args:
        pattern: In the syntax of ``re``, without back references, look-around, conditions,
            verbose mode, and atomic or possessive parts.

    Raises:
        ValueError: *pattern* is not valid, or too large, or uses what is not offered.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise ValueError(f"a pattern may have at most {_MAX_PATTERN_CHARS} characters")
        _check(pattern)
        try:
            self._program = _Parser(pattern).program()
        except RecursionError as error:
            raise ValueError("the pattern has too many groups in each other") from error
        self._stops: dict[_State, _Stop] = {}
        self._remembered = 0

    def find_end(self, line: str) -> int | None:
        """Where the first match in *line* to be complete ends, None if there is no match.

        Args:
            line: One line without its line end.

        Raises:
            ValueError: Over all lines so far the pattern took too much work.
        """
        start = _State(frozenset((self._program.start,)), at_start=True, after_word=False)
        stop = self._stop(start)
        for place, char in enumerate(line):
            following = stop.then.get(char, stop)
            # A stop may lead to itself, so that a miss has to be told apart.
            if following is stop and char not in stop.then:
                following = self._advance(stop, char)
            if following is None:
                return place
            stop = following
        ended = stop.then[""] if "" in stop.then else self._advance(stop, "")
        return None if ended else len(line)

    def _stop(self, state: _State) -> _Stop:
        if self._remembered > _MAX_REMEMBERED:
            self._stops.clear()
            self._remembered = 0
        return self._stops.setdefault(state, _Stop(state))

    def _advance(self, stop: _Stop, char: str) -> _Stop | None:
        state = self._program.advance(stop.state, char)
        following = stop.then[char] = None if state is None else self._stop(state)
        self._remembered += 0 if state is None else len(state.nodes)
        if self._program.work > _MAX_WORK:
            raise ValueError(
                "the pattern takes too long on this text; search for something simpler"
            )
        return following


@dataclass(frozen=True, slots=True)
class _State:
    """All places of the pattern where the search may be, and what is to the left of it."""

    nodes: frozenset[int]
    at_start: bool
    after_word: bool


@dataclass(slots=True, eq=False)
class _Stop:
    """A state with the ways out of it that were found so far; None is a match."""

    state: _State
    then: dict[str, _Stop | None] = field(default_factory=dict[str, "_Stop | None"])


@dataclass(slots=True)
class _Node:
    """A place in the pattern: it takes a character, tests an edge, or only leads on."""

    takes: Callable[[str], object] | None = None
    edge: str = ""
    then: list[int] = field(default_factory=list[int])


class _Program:
    """The places of a pattern; the last one made is the match."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.start = 0
        self.match = 0
        self.work = 0

    def add(self, node: _Node) -> int:
        """Put *node* in; returns its number."""
        if len(self.nodes) >= _MAX_NODES:
            raise ValueError("the pattern is too large: its counted repeats multiply")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def advance(self, state: _State, char: str) -> _State | None:
        """Where *char* ("" is the end of the line) leads; None says that a match is complete."""
        reached = self._reach(state, char)
        self.work += len(reached)
        if self.match in reached:
            return None
        nodes = (self.nodes[number] for number in reached) if char else ()
        taken = {place for node in nodes if node.takes and node.takes(char) for place in node.then}
        # A match may begin at any place, so the start is always among the states.
        taken.add(self.start)
        return _State(frozenset(taken), at_start=False, after_word=_is_word(char))

    def _reach(self, state: _State, char: str) -> set[int]:
        reached: set[int] = set()
        waiting = list(state.nodes)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            node = self.nodes[number]
            if node.takes is None and (not node.edge or _holds(node.edge, state, char)):
                waiting.extend(node.then)
        return reached


def _holds(edge: str, state: _State, char: str) -> bool:
    if edge in ("^", "\\A"):
        return state.at_start
    if edge in ("$", "\\Z"):
        return not char
    return (state.after_word != _is_word(char)) == (edge == "\\b")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a program: where it begins, and the node that leads out of it."""

    first: int
    last: int


class _Parser:
    """Makes a program of a pattern whose syntax ``re`` has already accepted."""

    def __init__(self, pattern: str) -> None:
        self._flags = re.NOFLAG
        while found := _FLAGS.match(pattern):
            for letter in found["flags"]:
                self._flags |= re.RegexFlag[letter.upper()]
            pattern = pattern[found.end() :]
        self._pattern = pattern
        self._place = 0
        self._program = _Program()

    def program(self) -> _Program:
        """The whole pattern as a program."""
        whole = self._alternatives()
        program = self._program
        program.start = whole.first
        program.match = program.add(_Node())
        program.nodes[whole.last].then.append(program.match)
        return program

    def _alternatives(self) -> _Piece:
        first, last = self._program.add(_Node()), self._program.add(_Node())
        while True:
            self._link(first, self._sequence(), last)
            if not self._take("|"):
                return _Piece(first, last)

    def _sequence(self) -> _Piece:
        first = last = self._program.add(_Node())
        while self._place < len(self._pattern) and self._pattern[self._place] not in "|)":
            piece = self._repeated()
            self._program.nodes[last].then.append(piece.first)
            last = piece.last
        return _Piece(first, last)

    def _repeated(self) -> _Piece:
        start = self._place
        piece = self._atom()
        stop = self._place
        found = _REPEAT.match(self._pattern, self._place)
        if found is None or found[0] in ("{}", "{}?", "{}+"):
            return piece
        if found["mode"] == "+":
            _refuse("possessive repeats")
        self._place = found.end()
        least, most = _bounds(found)
        # A counted repeat is the piece written out that many times.
        copies = [piece, *(self._again(start, stop) for _ in range(1, max(least, most or 1, 1)))]
        if most is None:
            self._link(copies[-1].last, copies[-1], None)
        return self._chain(copies, least=least, most=most)

    def _chain(self, copies: list[_Piece], *, least: int, most: int | None) -> _Piece:
        first, last = self._program.add(_Node()), self._program.add(_Node())
        place = first
        for count, copy in enumerate(copies):
            if count >= least:
                self._program.nodes[place].then.append(last)
            if most != 0:
                self._program.nodes[place].then.append(copy.first)
                # Its own way out: the copy's last node may lead back into a repeat.
                place = self._program.add(_Node())
                self._program.nodes[copy.last].then.append(place)
        self._program.nodes[place].then.append(last)
        return _Piece(first, last)

    def _again(self, start: int, stop: int) -> _Piece:
        place, self._place = self._place, start
        piece = self._atom()
        assert self._place == stop
        self._place = place
        return piece

    def _atom(self) -> _Piece:
        pattern, place = self._pattern, self._place
        if pattern[place] == "(":
            return self._group()
        found = _ESCAPE.match(pattern, place) or _CLASS.match(pattern, place)
        text = found[0] if found else pattern[place]
        self._place += len(text)
        if text in _EDGES:
            return self._single(_Node(edge=text))
        if re.fullmatch(r"\\[1-9]\d?", text):
            _refuse("back references")
        # Inside a line nothing is a line end, so "." is any character.
        alone = text if found or text == "." else re.escape(text)
        return self._single(_Node(takes=_compile(alone, self._flags | re.DOTALL).match))

    def _group(self) -> _Piece:
        found = _OPEN.match(self._pattern, self._place)
        if found is None:
            _refuse("groups that begin with (? other than (?:...) and (?P<name>...)")
        self._place = found.end()
        piece = self._alternatives()
        self._place += 1
        return piece

    def _single(self, node: _Node) -> _Piece:
        last = self._program.add(_Node())
        node.then.append(last)
        return _Piece(self._program.add(node), last)

    def _link(self, first: int, piece: _Piece, last: int | None) -> None:
        self._program.nodes[first].then.append(piece.first)
        if last is not None:
            self._program.nodes[piece.last].then.append(last)

    def _take(self, char: str) -> bool:
        taken = self._pattern.startswith(char, self._place)
        self._place += taken
        return taken


def _bounds(found: re.Match[str]) -> tuple[int, int | None]:
    sign = found[0][0]
    if sign != "{":
        return (1 if sign == "+" else 0), (1 if sign == "?" else None)
    least, most = found["least"], found["most"]
    if not found["comma"]:
        return int(least), int(least)
    return int(least or 0), int(most) if most else None


def _compile(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # What may one day mean something else is no concern of who only searches.
        warnings.simplefilter("ignore")
        return re.compile(pattern, flags)


def _check(pattern: str) -> None:
    try:
        _compile(pattern, re.NOFLAG)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} is not valid: {error}") from error


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"the pattern uses {what}, which a search in stored text does not offer")


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
