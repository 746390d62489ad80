"""Which arguments of a call contradict what the run was asked.

The request names order 5033 and the call is about order 5034: a reader of fifty approvals misses
that. A value of the arguments contradicts the request if all of these hold:

- it is a number, an id, an address or an IBAN, and the request does not have it;
- the request has another value of that kind and form, which no argument has;
- that other value can be meant for it. The words beside a number or an id decide that if they are
  names of the call: "nights 2" is about the argument ``nights`` and not about ``rooms``. Otherwise
  the two must be nearly the same, such as 5033 and 5034, unless the request has no word of the
  call's names at all: "Bestellung 5033" may well be the ``order``.

So a value that the request does not mention at all, such as an amount that the agent looked up, is
no contradiction. Numbers are equal by value and sign; "45 euros" is also ``4500`` in an argument
whose name says cents. Numbers between two of the request are taken as a range.

The time is bounded for any input, since whoever starts a run writes both: what is beyond the limits
below is not compared, which is no contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from operator import eq
from typing import NamedTuple

from upshot.contract.base.structs import Json, JsonObject, Value

__all__ = ["Compared", "Contradiction", "compared"]

# So many characters of the request are read, and of all arguments together.
_MOST_CHARS = 20_000
# So many values of the request are compared, and of the arguments.
_MOST_VALUES = 100
# Longer values are left out, in characters.
_LONGEST_VALUE = 200
# So many entries of the arguments are visited, and so deep.
_MOST_ENTRIES = 2_000
_DEEPEST = 30
# So many values of the request are tried for one of the arguments.
_MOST_ALIKE = 10

# Up to a blank: half a value would be another one.
_HEAD = re.compile(rf"(?s).{{,{_MOST_CHARS}}}(?!\S)")
_PART = re.compile(
    # An address of a page, of mail, a word or a value, or a mark after which something else begins.
    r"""(?<!\w)\w+://[^\s<>"“”„«»]+
    | (?<![^\s<>()\[\],;:"“”„«»])[^\s<>()\[\],;:"“”„«»@]+@[^\s<>()\[\],;:"“”„«»]+
    | (?:(?<![^\s(\[])[-\u2212][$€£¥]?(?=[0-9]))?[^\W_](?:[\w.,:/%+\#&=?~-]*\w)?
    | [.,;:!?%]""",
    re.VERBOSE,
)
_AROUND = ".,;:!?'()[]{}*`"
_IN_GROUPS = re.compile(
    r"(?<!\w)(?:[A-Z]{2}[0-9]{2}(?:[ \xa0\u202f][A-Z0-9]{4}){2,7}(?:[ \xa0\u202f][A-Z0-9]{1,3})?"
    r"|(?=(?:[0-9][ \xa0\u202f]?){8})[0-9]+(?:[ \xa0\u202f][0-9]+)+)(?!\w)"
)
_IBAN = re.compile(r"[a-z]{2}[0-9]{2}[a-z0-9]{8,30}")
_NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]+)*")
_MARK = re.compile(r"[0-9@]|://")
_PLAIN = re.compile(r"[^\W_]+")
_NAME_WORD = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+|[^\W\d_]+")
# An address after one of these is of a third party. In a language that is not here, it is marked.
_FROM = {"from", "by", "of", "with", "von", "mit", "de", "par", "da"}
# Names of arguments, as stems, whose numbers are in hundredths of what a person says.
_HUNDREDTHS = {"cent", "minor", "pence", "penny", "pennie", "centime", "centavo", "subunit"}


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
    """A number, an id or an address in a text, or in an argument with a path and names.

    Two with a common key are equal; two with a common form could be meant for one another.
    """

    text: str
    plain: str
    number: Decimal | None
    keys: frozenset[Decimal | str]
    forms: frozenset[str]
    # The word before it, and those beside it with the argument's names.
    before: str
    names: frozenset[str]
    path: str


def compared(request: str, tool_name: str, arguments: JsonObject) -> Compared:
    """Compare the arguments of a call with the request.

    Args:
        request: What the user asked for, in whole.
        tool_name: The tool.
        arguments: The arguments of its call.
    """
    text = _head(request)
    given, asked = _given(arguments), _tokens(_join_groups(text))
    # Two numbers side by side may be one in groups or two.
    known = {key for one in (*asked, *_tokens(text)) for key in one.keys}
    unsaid = [one for one in given if known.isdisjoint(one.keys)]
    named = dict.fromkeys(one.path for one in given if not known.isdisjoint(one.keys))
    unused = _unused(asked, given)
    tool, names = _words(tool_name), {word for one in given for word in one.names}
    words = {*_PART.findall(text.casefold())}
    has_names = not words.isdisjoint((*tool, *names, *(f"{one}s" for one in tool | names)))
    found: dict[str, Contradiction] = {}
    for one in unsaid:
        alike = [other for other in asked if not one.forms.isdisjoint(other.forms)]
        numbers = [other.number for other in alike if other.number is not None]
        if one.number and numbers and min(numbers) < one.number < max(numbers):
            # In a range that the request gives, such as orders 5033 to 5040.
            continue
        for other in islice((other for other in alike if other in unused), _MOST_ALIKE):
            is_meant = _is_meant(other, one, names, tool)
            if is_meant is None:
                is_meant = _is_near(other, one) or not (has_names or len(other.plain) < 3)
            if is_meant and one.path not in found:
                found[one.path] = Contradiction(path=one.path, value=one.text, asked=other.text)
    return Compared(tuple(found.values()), tuple(named))


def _unused(asked: list[_Token], given: list[_Token]) -> list[_Token]:
    """Return the values of the request that no argument has, in whole or as a part of an id."""
    known = {key for one in given for key in one.keys}
    ids = " ".join(one.plain for one in given if one.number is None or len(one.plain) > 7)
    unused = (one for one in asked if known.isdisjoint(one.keys))
    return [one for one in unused if one.number is None or f"{one.plain:_>3}" not in ids]


def _is_meant(asked: _Token, given: _Token, names: set[str], tool: set[str]) -> bool | None:
    """Whether the words beside a value of the request are about an argument; None if unclear."""
    if not asked.names.isdisjoint(names):
        return not asked.names.isdisjoint(given.names)
    if {"url", "mail", "iban"} & asked.forms:
        return asked.before not in _FROM
    return None if asked.names.isdisjoint(tool) else True


def _is_near(asked: _Token, given: _Token) -> bool:
    """Whether most characters are the same, or all in another order or with more zeros."""
    if given.number and abs(given.number) < 1:
        # It may be a percentage.
        return False
    one, two = asked.plain, given.plain
    digits = sorted(one.strip("0"))
    is_most = len(one) == len(two) < 2 * sum(map(eq, one, two))
    return is_most or (len(digits) > 1 and digits == sorted(two.strip("0")))


def _tokens(
    text: str, path: str = "", names: frozenset[str] = frozenset(), *, readings: int = 2
) -> list[_Token]:
    """Return the first numbers, ids and addresses of a text, or of an argument with its names."""
    parts: list[str] = _PART.findall(text)
    places = [at for at, part in enumerate(parts) if _MARK.search(part)]
    found: list[_Token] = []
    for at in places[:_MOST_VALUES]:
        value = parts[at].strip(_AROUND)
        if len(value) > _LONGEST_VALUE:
            continue
        near = parts[max(0, at - 4) : at]
        # The two words before it, over marks but not over another value, and the one after it.
        others = [place for place, word in enumerate(near, 1) if _MARK.search(word)]
        beside = [_stem(one) for one in near[max(others, default=0) :] if one[0].isalpha()][-2:]
        before = beside[-1] if beside else ""
        after = parts[at + 1] if at + 1 < len(parts) else ""
        beside += [_stem(after)] if after[:1].isalpha() else []
        numbers = _readings(value)[:readings]
        if numbers and (after == "%" or not _HUNDREDTHS.isdisjoint(names)):
            numbers += [Decimal(f"{one:f}e-2") for one in numbers]
        number = numbers[0] if numbers else None
        plain = _plain(value if number is None else f"{number:f}")
        kind = "url" if "://" in value else "mail" if "@" in value else ""
        forms = frozenset((kind,) if kind else _forms(value, number, names))
        whole = plain if "iban" in forms else value.lower()
        keys = frozenset(numbers or (whole.rstrip("/"),))
        words = names.union(beside)
        found.append(_Token(value, plain, number, keys, forms, before, words, path))
    return found


def _forms(text: str, number: Decimal | None, names: frozenset[str]) -> Iterator[str]:
    """Yield what a number or an id is alike by: how long it is, or its form."""
    if number is None:
        yield re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text))
    else:
        whole, _, rest = f"{number:f}".lstrip("-").partition(".")
        yield f"length {len(whole.lstrip('0'))}"
        yield f"digits {(whole + rest).strip('0')}"
    if _IBAN.fullmatch(text.lower()) or ("iban" in names and len(text) > 7):
        yield "iban"


def _readings(text: str) -> list[Decimal]:
    """Return the numbers that a text may mean: "1.250" is 1.25 or 1250, and "A-7" is none."""
    text = re.sub("[$€£¥]", "", text.replace("\u2212", "-"))
    if not _NUMBER.fullmatch(text):
        return []
    whole, mark, rest = text.rpartition(max(",.", key=text.rfind))
    digits, before = (re.sub("[,.]", "", one) for one in (text, whole))
    if not mark or mark in whole:
        return [Decimal(digits)]
    return [Decimal(f"{before}.{rest}"), *([Decimal(digits)] if len(rest) == 3 else [])]


def _given(arguments: JsonObject) -> list[_Token]:
    """Return the numbers, ids and addresses of arguments."""
    found: list[_Token] = []
    left = _MOST_CHARS
    for keys, value in islice(_leaves(arguments, ()), _MOST_ENTRIES):
        text = _head(_text_of(value))
        left -= len(text)
        if left < 0 or len(found) >= _MOST_VALUES:
            break
        if _MARK.search(text):
            named = [key for key in keys if not key.isdigit()]
            names = frozenset(_words(named[-1][:_LONGEST_VALUE]) if named else ())
            readings = 2 if isinstance(value, str) else 1
            found += _tokens(_join_groups(text), ".".join(keys), names, readings=readings)
    return found[:_MOST_VALUES]


def _leaves(value: Json, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the entries of arguments with their keys and places; those with entries as None."""
    if not isinstance(value, dict | list | tuple):
        yield keys, value
        return
    yield keys, None
    if len(keys) < _DEEPEST:
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, (*keys, str(key)))


def _text_of(value: Json) -> str:
    """Return a single value as text; "" if it is nothing to compare, or too long a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{Decimal(repr(value)):f}" if abs(value) < 10**_LONGEST_VALUE else ""


def _head(text: str) -> str:
    found = _HEAD.match(text)
    return found[0] if found else ""


def _join_groups(text: str) -> str:
    """Write long numbers and IBANs that are written in groups as one."""
    return _IN_GROUPS.sub(lambda one: "".join(one[0].split()), text)


def _words(name: str) -> set[str]:
    return {_stem(word) for word in _NAME_WORD.findall(name)}


def _stem(word: str) -> str:
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def _plain(text: str) -> str:
    """Return a text without case and punctuation."""
    return "".join(_PLAIN.findall(text.casefold()))
