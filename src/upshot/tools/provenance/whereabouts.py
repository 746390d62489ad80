"""Where a value in doubt appears, and what the user said of its kind, for questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from upshot.contract.base.structs import Json
from upshot.contract.provenance import Argument
from upshot.tools.provenance.saying import Saying, Span, fold

_MAX_BESIDE = 5


@dataclass(eq=False)
class Result:
    """The result of a call, for finding where a value appears.

    Attributes:
        tool_name: The name of the tool.
        output: Its output.
    """

    tool_name: str
    output: Json

    @cached_property
    def texts(self) -> list[list[str]]:
        """The lines of each text in it, folded for comparison; computed once for all doubts."""
        return [list(map(fold, text_of(leaf).splitlines())) for leaf in leaves(self.output)]


def whereabouts(value: Json, results: Iterable[Result]) -> str:
    """Return where a value in doubt appears among the results."""
    wanted, places = fold(text_of(value)), dict[str, None]()
    whole = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
    for result in results if wanted else ():
        for text in result.texts:
            for number, line in enumerate(text, 1):
                if wanted in line and whole.search(line):
                    places.setdefault(f"the result of {result.tool_name}, line {number}")
                    break
    shown = list(places)[:3]
    if not shown:
        return "nowhere"
    return ("only in " if len(places) == 1 else "in ") + " and ".join(shown)


def sayings_beside(word: Argument, sayings: Iterable[Saying]) -> list[str]:
    """Return what the user said of the same kind."""
    found: dict[str, None] = {}
    for saying in sayings:
        spans: Iterable[Span] = ()
        if word.word == "recipient" or word.format == "email":
            spans = [span for part, span in saying.words if "@" in part]
        elif word.format == "url":
            spans = [span for span, _ in saying.urls]
        elif word.word == "amount":
            spans = [one.span for one in saying.amounts]
        elif word.word in ("day", "time"):
            spans = [span for span, _ in (*saying.days, *saying.minutes)]
        for start, end in spans:
            found.setdefault(saying.text[start:end].strip())
    return list(found)[:_MAX_BESIDE]


def leaves(value: Json | Mapping[str, Json]) -> Iterator[Json]:
    """Yield everything in a JSON value that is neither a list nor an object."""
    if isinstance(value, Mapping):
        for item in cast("Mapping[str, Json]", value).values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def text_of(value: object) -> str:
    """Return a leaf as a text; "" for null."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else "" if value is None else str(value)
