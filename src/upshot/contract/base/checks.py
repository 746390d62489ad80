"""Checks of given values and the words for what is wrong."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from inspect import isroutine
from numbers import Real
from typing import SupportsIndex, cast

from upshot.errors import Misuse

__all__ = [
    "check_amount",
    "check_whole",
    "engine_hint",
    "has_own_output",
    "is_amount",
    "is_whole",
    "json_fault",
    "kind_of",
    "with_article",
]

_VOWEL_LETTERS = "AEFHILMNORSX"
_CONSONANT_SOUNDS = ("eu", "one", "uni", "us", "ut", "uu")


def kind_of(value: object) -> str:
    """The type of *value* with its article, such as "an int"; "None" and "bytes" have none."""
    if value is None:
        return "None"
    return "bytes" if type(value) is bytes else with_article(type(value).__name__)


def with_article(word: str) -> str:
    """*word* after "a" or "an", as it is said."""
    bare = word.lstrip("_")
    if bare[:1].isupper() and not bare[1:2].islower():
        # Said by its letters: an HTTPModel, an H.
        vowel = bare[0] in _VOWEL_LETTERS
    else:
        said = bare.lower()
        vowel = said.startswith(tuple("aeiou")) and not said.startswith(_CONSONANT_SOUNDS)
    return f"{'an' if vowel else 'a'} {word}"


_MACHINE = "MachineEngine({}, agents={{...}}, functions={{...}})"
_LOADED = "load_machine({})"
# The engines are above this module: what they drive is known by its name.
_DRIVEN = {"Graph": "GraphEngine(graph)", "Machine": _MACHINE.format("machine")}
_BY_NAME = {
    "graph": "GraphEngine(Graph(nodes=..., edges=..., start=...))",
    "loop": "LoopEngine()",
    "machine": _MACHINE.format(_LOADED.format("path")),
    "script": "ScriptEngine(function)",
}
_MADE_OF = {
    **_DRIVEN,
    "GraphEngine": _DRIVEN["Graph"],
    "LoopEngine": _BY_NAME["loop"],
    "MachineEngine": _DRIVEN["Machine"],
    "ScriptEngine": _BY_NAME["script"],
}
_FILES = (".json", ".yaml", ".yml")


def engine_hint(value: object) -> str:
    """What *value*, which is no engine, is, and what to give in its place.

    Args:
        value: What was given as an engine.

    Returns:
        The end of a sentence, such as "a Graph: give GraphEngine(graph)".
    """
    if isinstance(value, type):
        name = value.__name__
        return f"the class {name}: make one: {_MADE_OF.get(name, f'{name}(...)')}"
    if isinstance(value, str):
        return f"the text {value!r:.60}: give {_for_text(value)}"
    found, driven = kind_of(value), _DRIVEN.get(type(value).__name__)
    if driven is not None:
        return f"{found}: give {driven}"
    if isroutine(value):
        return "a function: give ScriptEngine(function)"
    if callable(getattr(value, "call", None)):
        return f"{found}, which is a model: give it as model="
    data = cast("Mapping[object, object]", value if isinstance(value, Mapping) else {})
    wanted = "an Engine, which has execute(run, host, board)"
    if "states" in data:
        wanted = _MACHINE.format(_LOADED.format("data"))
    elif "nodes" in data:
        wanted = "GraphEngine(Graph.from_data(data, functions={...}))"
    return f"{found}: give {wanted}"


def _for_text(text: str) -> str:
    word = text.strip().lower()
    if word.endswith(_FILES):
        return _MACHINE.format(_LOADED.format(repr(text)))
    return _BY_NAME.get(word.removesuffix("engine"), "an Engine, such as LoopEngine()")


_PREFIX = "JSON is malformed: "


def json_fault(error: Exception) -> str:
    """What the reader of JSON says, without the words that the sentence round it has already.

    Args:
        error: What was raised while the text was read.

    Returns:
        Such as "invalid character (byte 0)"; bytes count from 0.
    """
    return str(error).removeprefix(_PREFIX)


def is_whole(value: object, least: int) -> bool:
    """Whether *value* is a whole number, and not below *least*."""
    if isinstance(value, int):
        return not isinstance(value, bool) and value >= least
    if not isinstance(value, SupportsIndex):
        return False
    try:
        return operator.index(value) >= least
    except TypeError:
        # A class has the method for what is made of it, and an array for one number only.
        return False


def is_amount(value: object, *, above: float | None = None, is_endless: bool = True) -> bool:
    """Whether *value* is a number that can be measured: no boolean and no NaN.

    Args:
        value: What was given.
        above: It has to be more than that; None is 0 or more.
        is_endless: Whether infinity is one.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        amount = float(value)
    except OverflowError:
        # More than any clock or counter tells.
        return False
    # NaN is not at least anything.
    in_range = amount >= 0 if above is None else amount > above
    return in_range and (is_endless or math.isfinite(amount))


def check_whole(what: str, value: object, *, least: int = 0, none: str = "") -> None:
    """Check a number of things.

    Args:
        what: Its name, for the message.
        value: What was given.
        least: The smallest that makes sense.
        none: What None means; "" where None is none.

    Raises:
        Misuse: It is no whole number, or below *least*.
    """
    if not ((value is None and none) or is_whole(value, least)):
        wanted = f"at least {least}, a whole number{_or_none(none)}"
        raise Misuse(f"{what} is {_shown(value)}: give {wanted}")


def check_amount(
    what: str,
    value: object,
    *,
    unit: str = "seconds",
    above: float | None = None,
    is_endless: bool = True,
    none: str = "",
) -> None:
    """Check a time, or another amount.

    Args:
        what: Its name, for the message.
        value: What was given.
        unit: In which it is measured.
        above: It has to be more than that; None is 0 or more.
        is_endless: Whether infinity is one.
        none: What None means; "" where None is none.

    Raises:
        Misuse: It is no such number.
    """
    if not ((value is None and none) or is_amount(value, above=above, is_endless=is_endless)):
        wanted = f"{unit}, 0 or more" if above is None else f"{unit} above {above:g}"
        raise Misuse(f"{what} is {_shown(value)}: give {wanted}{_or_none(none)}")


def _or_none(none: str) -> str:
    return f", or None for {none}" if none else ""


def _shown(value: object) -> str:
    # A number of thousands of digits has no text at all.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of too many digits"
    return f"{value!r:.60}"


def has_own_output(output: object, content: str | None) -> bool:
    """Whether *output* is something else than *content*; never raises.

    Args:
        output: The answer as a value, None for none.
        content: The answer as a text, None for none.
    """
    if isinstance(output, str):
        return output != content
    # Not compared: arrays answer with an array, which has no truth value, and others raise.
    return output is not None
