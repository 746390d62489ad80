"""Which arguments of a call contradict what the run was asked.

The request names order 5033 and the call is about order 5034: a reader of fifty approvals misses
that. A value of the arguments contradicts the request if all of these hold:

- it is a number, an id or an address, and the request does not have it;
- the request has another value of the same shape, which no argument has;
- the words beside that other value do not say that it is about something else: "customer 4711" says
  nothing about the argument ``order``, and "order 5033" does.

So a value that the request does not mention at all, such as an amount that the agent looked up, is
no contradiction. Numbers are equal by value and sign; "45 euros" is also ``4500`` in an argument
whose name says cents. Ids and addresses are equal in whole, apart from case and the blanks of
groups. Numbers between two of the request are taken as a range.

The time is bounded for any input, since whoever starts a run writes both: what is beyond the limits
below is not compared, which is no contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

from upshot.contract.base.structs import Json, JsonObject, Value

__all__ = ["Compared", "Contradiction", "compared"]

# So many characters of the request are read, and of all arguments together.
_MOST_CHARS = 20_000
# So many values of the request are compared, and of the arguments.
_MOST_VALUES = 100
# Longer values are left out.
_MOST_DIGITS = 200
# So much of what has no blank in it is read, and of a name or for the form of an id.
_MOST_CHUNK = 1_000
_MOST_NAME = 60
# So many entries of the arguments are visited, and so deep.
_MOST_ENTRIES = 2_000
_DEEPEST = 30
# So many values of one shape can be what an argument should have been.
_MOST_ALIKE = 10
# So many words before a value are read.
_MOST_WORDS = 6
# From this length on, digits in groups are also one value, and ids are alike by their length.
_LONG = 8

_CHUNK = re.compile(r'[^\s<>"“”„«»]+')
_TOKEN = re.compile(r"[^\W_](?:[\w.,:/@%+#&=?~-]*[\w/])?")
_AROUND = ".,;:!?'()[]{}*`"
_SIGN = re.compile(r"[(\[]?[-\u2212](?=[$€£¥]?[0-9])")
_ROOT = re.compile(r"(\w+://[^/?#]+)/\Z")
_IBAN = re.compile(r"[a-z]{2}[0-9]{2}[a-z0-9]{8,30}")
_IBAN_IN_GROUPS = re.compile(
    r"\b[A-Z]{2}[0-9]{2}(?:[ \xa0\u202f][A-Z0-9]{4}){2,7}(?:[ \xa0\u202f][A-Z0-9]{1,3})?\b"
)
_CAMEL = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+|[^\W\d_]+")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_GROUP = re.compile(r"\d+|[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_MARK = re.compile(r"\d|@|://")
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_PLAIN = re.compile(r"[^\W_]+")
# Words between a value and what it is of, and names of arguments that say nothing.
_FILLERS = frozenset(
    (
        *("no", "nr", "num", "number", "id", "ref", "reference", "key", "code", "value", "target"),
        *("is", "was", "be", "the", "a", "an", "it", "its", "our", "my", "your", "this", "that"),
        *("which", "please", "exactly", "only", "just"),
    )
)
# Words that stand between a value and words that are not about it: "my money for 5033".
_STARTS = frozenset(
    (
        *("for", "to", "at", "in", "on", "about", "and", "or", "than", "up", "under", "over"),
        *("until", "before", "after"),
    )
)
# Before an address: it is of a third party.
_OTHERS = frozenset(("from", "by", "of", "with"))
_PERCENT = frozenset(("%", "percent", "pct"))
# Names of arguments, as stems, whose numbers are in hundredths of what a person says.
_HUNDREDTHS = frozenset(
    ("cent", "minor", "pence", "penny", "pennie", "centime", "centavo", "subunit")
)


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


class Compared(NamedTuple):
    """The arguments of a call, compared with the request.

    Attributes:
        contradictions: The arguments that contradict the request, one for each path.
        named: The paths of those whose number, id or address the request has.
    """

    contradictions: tuple[Contradiction, ...]
    named: tuple[str, ...]


class _Token(NamedTuple):
    """A number, an id or an address in a text."""

    text: str
    # What it is equal by: two values with a common key are one value.
    keys: frozenset[str]
    # What it is alike by: two values with a common shape could be meant for one another.
    shapes: tuple[str, ...]
    plain: str
    number: Decimal | None
    # The word just before it, and what it is of: that word, the one after, the argument's name.
    before: str = ""
    names: frozenset[str] = frozenset()
    path: str = ""


class _Name(NamedTuple):
    """The name of an argument, and whether its value was a number."""

    path: str = ""
    names: frozenset[str] = frozenset()
    is_hundredths: bool = False
    is_number: bool = False


def compared(request: str, tool_name: str, arguments: JsonObject) -> Compared:
    """Compare the arguments of a call with the request.

    Args:
        request: What the user asked for, in whole.
        tool_name: The tool.
        arguments: The arguments of its call.
    """
    given = _given(arguments)
    asked = _tokens(_cut(request, _MOST_CHARS), _Name())
    known = {key for one in asked for key in one.keys}
    unsaid = [one for one in given if known.isdisjoint(one.keys)]
    named = dict.fromkeys(one.path for one in given if not known.isdisjoint(one.keys))
    keys = {word for one in given for word in one.names}
    verbs = _words(tool_name)
    alike = _by_shape(_unused(asked, given))
    ranges = _ranges(asked)
    found: dict[str, Contradiction] = {}
    for one in unsaid:
        if one.path in found or _is_between(one, ranges):
            continue
        others = (other for shape in one.shapes for other in alike.get(shape, ()))
        other = next((two for two in others if _is_about(two, one, keys, verbs)), None)
        if other is not None:
            found[one.path] = Contradiction(path=one.path, value=one.text, asked=other.text)
    return Compared(tuple(found.values()), tuple(named))


def _unused(asked: Iterable[_Token], given: list[_Token]) -> Iterator[_Token]:
    """Yield the values of the request that no argument has, in whole or as a group of an id."""
    known = {key for one in given for key in one.keys}
    parts = {part for one in given if one.number is None for part in _groups(one.text[:_MOST_NAME])}
    for one in asked:
        if known.isdisjoint(one.keys) and one.plain not in parts:
            yield one


def _by_shape(tokens: Iterable[_Token]) -> dict[str, list[_Token]]:
    found: dict[str, list[_Token]] = {}
    for one in tokens:
        for shape in one.shapes:
            alike = found.setdefault(shape, [])
            if len(alike) < _MOST_ALIKE:
                alike.append(one)
    return found


def _ranges(asked: Iterable[_Token]) -> dict[str, tuple[Decimal, Decimal]]:
    """Return the least and the greatest number of each shape."""
    found: dict[str, tuple[Decimal, Decimal]] = {}
    for one in asked:
        if (number := one.number) is not None:
            for shape in one.shapes:
                low, high = found.get(shape, (number, number))
                found[shape] = min(low, number), max(high, number)
    return found


def _is_between(given: _Token, ranges: dict[str, tuple[Decimal, Decimal]]) -> bool:
    """Whether a number is in a range that the request gives, such as orders 5033 to 5040."""
    mine = given.number
    known = [ranges[shape] for shape in given.shapes if shape in ranges]
    return mine is not None and any(low < mine < high for low, high in known)


def _is_about(asked: _Token, given: _Token, keys: set[str], verbs: set[str]) -> bool:
    """Whether a value of the request can be meant for an argument, by the words beside it."""
    if asked.number is None and asked.plain == given.plain and not _is_address(asked.text):
        # One id, written in another way.
        return False
    if not asked.names.isdisjoint(keys):
        return not asked.names.isdisjoint(given.names)
    if _is_address(asked.text):
        return asked.before not in _OTHERS
    if not asked.before:
        # A small number may count anything.
        return len(asked.plain) > 2 or not given.names
    return _stem(asked.before) in verbs or not given.names


def _tokens(text: str, name: _Name, most: int = _MOST_VALUES) -> list[_Token]:
    """Return the numbers, ids and addresses of a text; digits in groups are also one number."""
    if len(text) > _LONG:
        text = _IBAN_IN_GROUPS.sub(lambda one: "".join(one[0].split()), text)
    chunks: list[str] = _CHUNK.findall(text)
    found: list[_Token] = []
    group: list[str] = []
    left = most
    for at, chunk in enumerate(chunks):
        if chunk.isalpha() or not _MARK.search(chunk):
            group.clear()
            continue
        parts = _parts(chunk)
        for place, part in enumerate(parts):
            left -= 1
            if left < 0:
                return found
            if not _is_value(part) or len(part) > _MOST_DIGITS:
                group.clear()
                continue
            before = _word_before(_backwards(chunks, at, parts, place))
            after = _word_after(chunks, at, parts, place)
            found.append(_token(part, before, after, name))
            if not part.isdigit():
                group.clear()
                continue
            group.append(part)
            if not after.isdigit():
                _join(found, group, after, name)
                group.clear()
    return found


def _backwards(chunks: list[str], at: int, parts: list[str], place: int) -> Iterator[str]:
    """Yield the few words and values before a value, the nearest first."""
    yield from islice(reversed(parts[:place]), _MOST_WORDS)
    for chunk in reversed(chunks[max(0, at - _MOST_WORDS) : at]):
        yield from islice(reversed(_parts(chunk)), _MOST_WORDS)


def _word_after(chunks: list[str], at: int, parts: list[str], place: int) -> str:
    """Return the word or value after a value; "" if there is none."""
    if place + 1 < len(parts):
        return parts[place + 1].casefold()
    after = _parts(chunks[at + 1]) if at + 1 < len(chunks) else []
    return after[0].casefold() if after else ""


def _join(found: list[_Token], group: list[str], after: str, name: _Name) -> None:
    """Add the number that the last values are the groups of, if it is long."""
    digits = "".join(group)
    if len(group) > 1 and _LONG <= len(digits) <= _MOST_DIGITS:
        whole = _token(digits, "", after, name)
        # Who has the number has its groups.
        for place in range(len(found) - len(group), len(found)):
            found[place] = found[place]._replace(keys=found[place].keys | whole.keys)
        found.append(whole._replace(text=" ".join(group)))


def _parts(chunk: str) -> list[str]:
    """Return the words and values between two blanks; "," stands for a mark at the end."""
    if chunk.isalnum():
        return [chunk]
    if len(chunk) > _MOST_CHUNK:
        # The last value may be cut, which makes it another one.
        return _parts(chunk[:_MOST_CHUNK])[:-1]
    if "://" in chunk:
        return [chunk.rpartition("](")[2].strip(_AROUND)]
    if "@" in chunk:
        return [one.strip(_AROUND) for one in chunk.replace(";", ",").split(",")]
    found = _TOKEN.findall(chunk)
    if found and _SIGN.match(chunk) and _NUMBER.fullmatch(found[0]):
        found[0] = f"-{found[0]}"
    if chunk[-1] == "%":
        found.append("%")
    elif found and not chunk[-1].isalnum():
        found.append(",")
    return found


def _is_value(part: str) -> bool:
    return not part.isalpha() and (_is_address(part) or _DIGIT.search(part) is not None)


def _token(text: str, before: str, after: str, name: _Name) -> _Token:
    """Return a value of a text with what it is equal and alike by."""
    beside = {_stem(before), _stem(after)} - {"", ","}
    numbers = _readings(text)
    plain = _plain(text)
    if numbers:
        numbers = numbers[:1] if name.is_number else numbers
        keys = {f"{one[0]}{one[1]}.{one[2]}" for one in numbers}
        if name.is_hundredths or after in _PERCENT:
            keys |= {_hundredth(*one) for one in numbers}
        minus, whole, rest = numbers[0]
        shapes = f"length {len(whole) or 1}", f"digits {(whole + rest).strip('0')}"
        number = Decimal(f"{minus}{whole or 0}.{rest or 0}")
        if len(plain) >= _LONG and "iban" in name.names:
            shapes = *shapes, "iban"
    else:
        number = None
        # "https://a.example/" is "https://a.example".
        keys = {_ROOT.sub(r"\1", text.lower().removeprefix("mailto:"))}
        shapes = _shapes(text, plain, name)
    names = name.names | beside
    return _Token(text, frozenset(keys), shapes, plain, number, before, names, name.path)


def _shapes(text: str, plain: str, name: _Name) -> tuple[str, ...]:
    """Return what an id or an address is alike by."""
    if "://" in text:
        return ("url",)
    if "@" in text:
        return ("mail",)
    shapes = [f"mask {_mask(text[:_MOST_NAME])}"]
    if len(plain) >= _LONG:
        shapes.append(f"long {len(plain)}")
        if "iban" in name.names or (not name.path and _IBAN.fullmatch(plain)):
            shapes.append("iban")
    return tuple(shapes)


def _word_before(before: Iterable[str]) -> str:
    """Return the word that a value follows; "" if another value or only fillers are before it."""
    for one in before:
        word = one.casefold()
        if word in _STARTS or _is_value(word):
            return ""
        if word not in _FILLERS and word not in ",%":
            return word
    return ""


def _given(arguments: JsonObject) -> list[_Token]:
    """Return the numbers, ids and addresses of arguments."""
    found: list[_Token] = []
    left = _MOST_CHARS
    for keys, value in islice(_leaves(arguments), _MOST_ENTRIES):
        text = _cut(_text_of(value), left)
        if not _MARK.search(text):
            left -= len(text)
            continue
        tokens = _tokens(text, _name(keys, value), _MOST_VALUES - len(found))
        found += tokens
        left -= len(text)
        if left <= 0 or len(found) >= _MOST_VALUES:
            break
    return found


def _text_of(value: Json) -> str:
    """Return a single value as text; "" if it is nothing to compare, or too long a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    return str(value) if abs(value) < 10**_MOST_DIGITS else ""


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to a blank: half a value would be another one."""
    if len(text) <= most:
        return text
    end = max(text.rfind(blank, 0, most + 1) for blank in " \n\t")
    return text[: max(end, 0)]


def _leaves(value: Json) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the entries of arguments with their keys and places; those with entries as None."""
    waiting: list[Iterator[tuple[tuple[str, ...], Json]]] = [iter([((), value)])]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
            continue
        keys, one = entry
        if isinstance(one, dict | list | tuple) and one:
            if len(waiting) <= _DEEPEST:
                waiting.append(_entries(keys, one))
            yield keys, None
        else:
            yield keys, one


def _entries(keys: tuple[str, ...], tree: Json) -> Iterator[tuple[tuple[str, ...], Json]]:
    if isinstance(tree, dict):
        return (((*keys, key), one) for key, one in tree.items())
    assert isinstance(tree, list | tuple)
    return (((*keys, str(at)), one) for at, one in enumerate(tree))


def _name(keys: tuple[str, ...], value: Json) -> _Name:
    """Return an argument's name, as the console has it, and its words that say something."""
    named = [_words(key[:_MOST_NAME]) for key in keys[-_DEEPEST:] if not key.isdigit()]
    words = named[-1] if named else set[str]()
    return _Name(
        path=".".join(keys),
        names=frozenset(words - _FILLERS),
        is_hundredths=any(not _HUNDREDTHS.isdisjoint(one) for one in named[-2:]),
        is_number=not isinstance(value, str),
    )


def _words(name: str) -> set[str]:
    return {_stem(word.casefold()) for word in _CAMEL.findall(name)}


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def _plain(text: str) -> str:
    """Return a text without case and punctuation."""
    return "".join(_PLAIN.findall(text.casefold()))


def _groups(text: str) -> list[str]:
    """Return the groups of digits or letters of a text such as a date, without leading zeros."""
    return [one.lstrip("0") or "0" for one in _GROUP.findall(text.casefold())]


def _mask(text: str) -> str:
    return _DIGITS.sub("9", _LETTERS.sub("a", text))


def _is_address(text: str) -> bool:
    return "@" in text or "://" in text


def _readings(text: str) -> list[tuple[str, str, str]]:
    """Return the numbers that a text may mean: the sign, and the digits before and after the point.

    "1.250" is 1.25 or 1250, and "A-7" is none. No zero leads or ends, so equal numbers are equal.
    """
    sign, digits = ("-", text[1:]) if text[:1] == "-" else ("", text)
    if not _NUMBER.fullmatch(digits):
        return []
    whole, mark, rest = digits.rpartition(max(",.", key=digits.rfind))
    if not mark:
        return [_number(sign, digits, "")]
    found = [_number(sign, whole, rest)] if digits.count(mark) == 1 else []
    if not found or (len(rest) == 3 and not {",", "."} & {*whole}):
        found.append(_number(sign, digits, ""))
    return found


def _number(sign: str, whole: str, rest: str) -> tuple[str, str, str]:
    whole = whole.replace(",", "").replace(".", "").lstrip("0")
    rest = rest.rstrip("0")
    return sign if whole or rest else "", whole, rest


def _hundredth(sign: str, whole: str, rest: str) -> str:
    digits = whole.rjust(2, "0")
    sign, whole, rest = _number(sign, digits[:-2], digits[-2:] + rest)
    return f"{sign}{whole}.{rest}"
