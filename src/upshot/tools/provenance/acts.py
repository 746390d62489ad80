"""Acts and their names: two spellings of the same act share a name.

An act is named by its tool and, for each group of arguments, by the things in it. A thing has
several names: how it was written, and everything that a trusted record says about it. So "Ada" and
her address are one recipient, and an id and a title are one file. Names are stored as digests,
because they are in the log.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import TypeAlias
from urllib.parse import unquote

import msgspec

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.provenance import Argument, ToolDeclaration
from upshot.tools.provenance.saying import (
    Saying,
    fold,
    parse_moment,
    parse_number,
    parse_url,
)

Names: TypeAlias = frozenset[str]
Aliases: TypeAlias = Callable[[str, str], Iterable[str]]
"""Returns the other names of a value, for a kind of record; "" means any kind."""

_TARGET = Argument()
_RECEIVERS = "to"
_MAX_NAMES = 12
_LABELS = re.compile(r"(?:(?:file|id|no|nr|number|order|ticket|event|page|case)s?[.:]?\s+|#\s*)+")
_PACKED = re.compile(r".*<([^<>]+)>\s*", re.DOTALL)


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """A call, for judging.

    Attributes:
        tool_name: The name of the tool.
        arguments: Its arguments, valid and with defaults.
        shown: The arguments as they are logged, without secrets; None if they are the same.
        declaration: What the tool declares.
        parameters: The JSON Schema of its arguments.
        effect: The declared effect.
        place: Distinguishes this call from others with the same arguments.
    """

    tool_name: str
    arguments: JsonObject
    shown: JsonObject | None = None
    declaration: ToolDeclaration = ToolDeclaration()
    parameters: JsonObject = {}
    effect: Effect = Effect.WRITE
    place: str = ""

    def word_of(self, name: str) -> Argument:
        """Return the role of the argument *name*."""
        return self.declaration.arguments.get(name, _TARGET)


def things_in(act: Act, aliases: Aliases, today: date | None) -> dict[str, tuple[Names, ...]]:
    """Return the things in each group of an act's arguments, each with its names.

    Args:
        act: The act.
        aliases: Returns the other names of a value.
        today: The day on which the user asked, None if it is unknown.
    """
    arguments = act.arguments if act.shown is None else act.shown
    words = {name: act.word_of(name) for name in arguments}
    # Different words next to the same payment do not make it another one.
    has_amount = any(word.word == "amount" for word in words.values())
    left_out = {"free", "content"} if has_amount else {"free"}
    found: dict[str, list[Names]] = {}
    for name, value in arguments.items():
        word = words[name]
        if word.word in left_out or value in (None, "", [], {}) or _is_default(act, name, value):
            continue
        group = _RECEIVERS if word.word == "recipient" else name
        for item in _items(value, word):
            names = _names_of(item, word, aliases, today)
            found.setdefault(group, []).append(frozenset(map(_digest, names)))
    return {group: tuple(things) for group, things in found.items()}


def name_of(tool_name: str, things: Mapping[str, tuple[Names, ...]]) -> str:
    """Return the name of an act, as it is logged."""
    groups = (
        f"{_digest(group)}={','.join('+'.join(sorted(names)) for names in things[group])}"
        for group in sorted(things)
    )
    return " ".join((_digest(tool_name), *groups))


def is_same(name: str, other: str) -> bool:
    """Whether two names are of the same act: every group has a thing in common."""
    tool, *groups = name.split(" ")
    other_tool, *other_groups = other.split(" ")
    if tool != other_tool:
        return False
    mine, theirs = dict(map(_read, groups)), dict(map(_read, other_groups))
    return mine.keys() == theirs.keys() and all(
        any(one & another for one in mine[group] for another in theirs[group]) for group in mine
    )


def _read(group: str) -> tuple[str, list[set[str]]]:
    name, _, things = group.partition("=")
    return name, [set(one.split("+")) for one in things.split(",")]


def has_double(things: Mapping[str, tuple[Names, ...]], groups: Iterable[str]) -> bool:
    """Whether one of *groups* contains the same thing twice."""
    return any(
        one & another
        for group in groups
        for at, one in enumerate(things.get(group, ()))
        for another in things[group][:at]
    )


def named_groups(act: Act) -> list[str]:
    """Return the groups in which nothing may occur twice."""
    words = act.declaration.arguments
    wanted = ("recipient", "ref", "target")
    return [_RECEIVERS, *(name for name in act.arguments if _word(words, name) in wanted)]


def _word(words: Mapping[str, Argument], name: str) -> str:
    return words[name].word if name in words else "target"


def _is_default(act: Act, name: str, value: Json) -> bool:
    fields = act.parameters.get("properties")
    field = fields.get(name) if isinstance(fields, dict) else None
    return isinstance(field, dict) and "default" in field and field["default"] == value


def _items(value: Json, word: Argument) -> Iterator[Json]:
    if isinstance(value, list):
        for item in value:
            yield from _items(item, word)
    elif word.word == "recipient" and isinstance(value, str):
        yield from (one for one in re.split(r"[;,\n]", value) if one.strip())
    else:
        yield value


def _names_of(value: Json, word: Argument, aliases: Aliases, today: date | None) -> Iterator[str]:
    """Yield all names of a value, its own normal form first."""
    if isinstance(value, dict):
        yield canonical_json(_normal_object(value)).decode()
        return
    if (number := parse_number(value)) is not None:
        yield str(number.normalize())
    if not isinstance(value, str):
        yield _plain(str(value))
        return
    text = _LABELS.sub("", fold(value)) if word.word in ("ref", "target") else fold(value)
    packed = _PACKED.fullmatch(text)
    text = packed[1] if packed is not None else text.removeprefix("mailto:")
    yield _plain(text)
    if word.word in ("day", "time"):
        yield from _moments(value, today)
    if (url := parse_url(value.strip())) is not None and word.word in ("target", "ref"):
        host = url.host.removeprefix("www.").rstrip(".")
        yield f"{host}{unquote(url.path).lower()}{url.query.rstrip('?#')}"
    kind = word.record_kind if word.word == "ref" else ""
    for alias in list(aliases(kind, text))[:_MAX_NAMES]:
        yield _plain(alias)


def _moments(value: str, today: date | None) -> Iterator[str]:
    text = re.sub(r"(?:Z|[+-]\d\d:?\d\d)$", "", value.strip())
    moment = parse_moment(text, today=today)
    if moment is not None:
        yield f"{moment.day} {moment.minute or 0}"
        return
    for _, days in Saying(text, "", today=today).days:
        yield from (f"{day} 0" for day in days)


def _normal_object(value: JsonObject) -> Json:
    return {
        name: _normal_object(one) if isinstance(one, dict) else _plain(str(one))
        for name, one in value.items()
        if one not in (None, "", [], {})
    }


def _plain(text: str) -> str:
    """Return *text* reduced to letters and digits: no case, spaces or marks."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(char for char in folded if char.isalnum() or char in "@%")
    return plain or folded


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
