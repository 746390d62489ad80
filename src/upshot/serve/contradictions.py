"""Which arguments of a call contradict what the run was asked.

The request names order 5033 and the call is about order 5034: a reader of fifty approvals misses
that. A value of the arguments contradicts the request if all of these hold:

- it is a number, an id or an address, and the request does not have it;
- the request has another value of the same shape, which no argument has;
- the words beside that other value do not say that it is about something else: "customer 4711" says
  nothing about the argument ``order``, and "order 5033" does.

So a value that the request does not mention at all, such as an amount that the agent looked up, is
no contradiction. Amounts may be written in cents ("45 euros" is ``4500``), and values between two
numbers of the request are taken as a range.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from upshot.contract.base.structs import Json, JsonObject, Value

__all__ = ["Contradiction", "contradictions", "named_paths"]

# Longer requests are read up to here, and further values are not compared.
_MOST_CHARS = 20_000
_MOST_VALUES = 200
# From this length on, a text that is written in groups, such as an IBAN, is found without spaces.
_LONG = 8

_TOKEN = re.compile(r"[^\W_](?:[\w.,:/@%+#&=?~-]*[\w/])?")
_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+|[^\W\d_]+")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
# Words between a value and what it is of, and names of arguments that say nothing.
_FILLERS = re.compile(
    "no|nr|num|number|id|ref|reference|key|code|value|target|is|was|be|the|an?|it|its|our|my|your|"
    "this|that|which|please|exactly|only|just"
)
# Words that stand between a value and words that are not about it: "my money for 5033".
_STARTS = re.compile("for|to|at|in|on|about|and|or|than|up|under|over|until|before|after")
# Before an address: it is of a third party.
_OTHERS = frozenset(("from", "by", "of", "with"))


class Contradiction(Value, frozen=True, kw_only=True):
    """An argument that contradicts the request.

    Attributes:
        path: Where the value is in the arguments: keys and places, joined by dots.
        value: The value, as text.
        asked: What the request says in its place.
    """

    path: str
    value: str
    asked: str


class _Token(NamedTuple):
    """A number, an id or an address in a text."""

    text: str
    # The words just before and just after it.
    before: str = ""
    after: str = ""
    path: str = ""

    @property
    def numbers(self) -> tuple[Decimal, ...]:
        """What it may mean as a number."""
        return _readings(self.text)

    @property
    def number(self) -> Decimal | None:
        return next(iter(self.numbers), None)

    @property
    def names(self) -> set[str]:
        """What it is of: words of the argument's name, and the words beside it."""
        beside = {_stem(self.before), _stem(self.after)} - {""}
        return beside | (_names(self.path) if self.path else set())

    @property
    def plain(self) -> str:
        """The text without case and punctuation."""
        return _plain(self.text)

    def equals(self, other: _Token) -> bool:
        """Whether both are one value, also if one is in cents or per cent."""
        if not (self.numbers and other.numbers):
            return self.plain == other.plain
        pairs = itertools.product(self.numbers, other.numbers)
        return any(one in (two, 100 * two) or two == 100 * one for one, two in pairs)

    def is_like(self, other: _Token) -> bool:
        """Whether both have the same shape, so that one could be meant for the other."""
        mine, theirs = self.number, other.number
        if mine is not None and theirs is not None:
            same_digits = mine.normalize().as_tuple().digits == theirs.normalize().as_tuple().digits
            return same_digits or len(str(int(mine))) == len(str(int(theirs)))
        if mine is not None or theirs is not None:
            return False
        if _is_address(self.text) or _is_address(other.text):
            return _is_address(self.text) and _is_address(other.text)
        is_long = len(self.plain) >= _LONG and len(self.plain) == len(other.plain)
        return is_long or _mask(self.text) == _mask(other.text)


def contradictions(
    request: str, tool_name: str, arguments: JsonObject
) -> tuple[Contradiction, ...]:
    """Return the arguments of a call that contradict the request.

    Args:
        request: What the user asked for, in whole.
        tool_name: The tool.
        arguments: The arguments of its call.
    """
    given = _given(arguments)
    asked = _tokens(request[:_MOST_CHARS])
    whole = _plain(request[:_MOST_CHARS])
    unsaid = [one for one in given if not _is_said(one, asked, whole)]
    unused = [one for one in asked if not _is_used(one, given, whole)]
    keys = {word for one in given for word in one.names}
    verbs = _words(tool_name)
    found: dict[str, Contradiction] = {}
    for one in unsaid:
        if _is_between(one, asked):
            continue
        for other in unused:
            if one.path not in found and one.is_like(other) and _is_about(other, one, keys, verbs):
                found[one.path] = Contradiction(path=one.path, value=one.text, asked=other.text)
    return tuple(found.values())


def named_paths(request: str, arguments: JsonObject) -> tuple[str, ...]:
    """Return the paths of the arguments whose number, id or address the request has."""
    asked, whole = _tokens(request[:_MOST_CHARS]), _plain(request[:_MOST_CHARS])
    found = [one.path for one in _given(arguments) if _is_said(one, asked, whole)]
    return tuple(dict.fromkeys(found))


def _is_about(asked: _Token, given: _Token, keys: set[str], verbs: set[str]) -> bool:
    """Whether a value of the request can be meant for an argument, by the words beside it."""
    if asked.names & keys:
        return bool(asked.names & given.names)
    if _is_address(asked.text):
        return asked.before not in _OTHERS
    if not asked.before:
        # A small number may count anything.
        return len(asked.plain) > 2 or not given.names
    return _stem(asked.before) in verbs or not given.names


def _is_said(given: _Token, asked: Iterable[_Token], whole: str) -> bool:
    is_long = len(given.plain) >= _LONG
    return (is_long and given.plain in whole) or any(given.equals(one) for one in asked)


def _is_used(asked: _Token, given: Iterable[_Token], whole: str) -> bool:
    """Whether an argument has a value of the request, in whole or as one group of a longer one."""
    return any(
        one.equals(asked)
        or (len(one.plain) >= _LONG and asked.plain in one.plain and one.plain in whole)
        or (one.number is None and asked.plain in _groups(one.text))
        for one in given
    )


def _is_between(given: _Token, asked: Iterable[_Token]) -> bool:
    """Whether a number is in a range that the request gives, such as orders 5033 to 5040."""
    mine = given.number
    numbers = [one.number for one in asked if one.is_like(given)]
    if mine is None or len(numbers) < 2:
        return False
    known = [one for one in numbers if one is not None]
    return min(known) < mine < max(known)


def _tokens(text: str, path: str = "") -> list[_Token]:
    """Return the numbers, ids and addresses of a text."""
    found = list(_TOKEN.finditer(text))
    return [
        _Token(
            one[0],
            before=_word_before(found[:at]),
            after="" if at + 1 == len(found) else found[at + 1][0].casefold(),
            path=path,
        )
        for at, one in enumerate(found)
        if any(char.isdigit() for char in one[0]) or _is_address(one[0])
    ][:_MOST_VALUES]


def _word_before(before: list[re.Match[str]]) -> str:
    """Return the word that a value follows; "" if another value or only fillers are before it."""
    for one in reversed(before):
        word = one[0].casefold()
        if _STARTS.fullmatch(word) or any(char.isdigit() for char in word) or _is_address(word):
            return ""
        if not _FILLERS.fullmatch(word):
            return word
    return ""


def _given(arguments: JsonObject) -> list[_Token]:
    """Return the numbers, ids and addresses of arguments."""
    found: list[_Token] = []
    for path, value in _leaves(arguments):
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            found += _tokens(str(value), path)
            if len(found) >= _MOST_VALUES:
                break
    return found


def _leaves(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the single values of arguments with their paths, as the console names them."""
    if isinstance(value, dict) and value:
        parts = list(value.items())
    elif isinstance(value, list | tuple) and value:
        parts = [(str(at), one) for at, one in enumerate(value)]
    else:
        yield path, value
        return
    for key, one in parts:
        yield from _leaves(one, f"{path}.{key}" if path else key)


def _names(path: str) -> set[str]:
    """Return the words of an argument's name, without those that say nothing."""
    keys = [key for key in path.split(".") if not key.isdigit()]
    return {word for word in _words(keys[-1]) if not _FILLERS.fullmatch(word)} if keys else set()


def _words(name: str) -> set[str]:
    return {_stem(word.casefold()) for part in name.split("_") for word in _CAMEL.findall(part)}


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _groups(text: str) -> list[str]:
    """Return the groups of digits or letters of a text such as a date, without leading zeros."""
    return [one.lstrip("0") or "0" for one in re.findall(r"\d+|[^\W\d_]+", text.casefold())]


def _mask(text: str) -> str:
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))


def _is_address(text: str) -> bool:
    return "@" in text or "://" in text


def _readings(text: str) -> tuple[Decimal, ...]:
    """Return the numbers that a text may mean; "1.250" is 1.25 or 1250, and "A-7" is none."""
    if not _NUMBER.fullmatch(text):
        return ()
    whole, mark, rest = text.rpartition(max(",.", key=text.rfind))
    if not mark:
        return (Decimal(text),)
    found = [Decimal(f"{_digits(whole)}.{rest}")] if text.count(mark) == 1 else []
    if not found or (len(rest) == 3 and not {",", "."} & {*whole}):
        found.append(Decimal(_digits(text)))
    return tuple(found)


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())
