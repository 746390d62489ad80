"""Checks of arguments, and the sentences that say what is wrong with them.

Every sentence has one form: what the argument must be, and what was given. ``Allowed`` describes
what an argument may be, so that the arguments of a function stand in one table that
``check_arguments`` holds them to. ``nearest`` and ``did_you_mean`` find what a mistyped name meant.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import NamedTuple, SupportsIndex, cast

from upshot.errors import Misuse

__all__ = [
    "ANYTHING",
    "Allowed",
    "check_amount",
    "check_argument",
    "check_arguments",
    "check_whole",
    "did_you_mean",
    "engine_hint",
    "has_own_output",
    "is_amount",
    "is_whole",
    "json_fault",
    "kind_of",
    "nearest",
    "shown",
    "whole_number",
]


def kind_of(value: object) -> str:
    """The name of the type of *value*; "None" for None."""
    return "None" if value is None else type(value).__name__


def shown(value: object) -> str:
    """*value* as a message names it: a number as it is, a class as one, else the type.

    Texts are not shown: they may be secrets.
    """
    if isinstance(value, type):
        return f"the class {value.__name__} (give an object of it)"
    if not isinstance(value, int | float):
        return kind_of(value)
    # A number of thousands of digits has no text at all.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of too many digits"
    return f"{value!r:.60}"


def nearest(word: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """What of *known* looks like *word* by at least *cutoff*, the nearest first."""
    from difflib import get_close_matches

    # Letter case is what is got wrong first.
    folded: dict[str, list[str]] = {}
    for name in known:
        folded.setdefault(name.casefold(), []).append(name)
    close = get_close_matches(word.casefold()[:200], folded, n=count, cutoff=cutoff)
    return [name for one in close for name in folded[one]][:count]


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The question whether the nearest of *known* was meant; *otherwise* where none is near."""
    near = nearest(word, known)
    return f"did you mean {near[0]!r}?" if near else otherwise


class Allowed(NamedTuple):
    """What an argument may be: one of the types, or what has the methods.

    Attributes:
        words: What it must be, for the message: "a Budget".
        types: Types that will do.
        but: Types that will not, although *types* has them.
        methods: An object that has all of these will do, and a class will not.
        items: What each item of a list must be; the argument is then any iterable but a text or
            a mapping.
        fits: Says whether a value will do, where types and methods cannot.
        hint: What to give in place of a wrong value.
    """

    words: str
    types: tuple[type, ...] = ()
    but: tuple[type, ...] = ()
    methods: tuple[str, ...] = ()
    items: Allowed | None = None
    fits: Callable[[object], bool] | None = None
    hint: Callable[[object], str] | None = None

    def takes(self, value: object) -> bool:
        """Whether *value* will do, its items apart."""
        if self.items is not None:
            return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        if isinstance(value, self.types) and not isinstance(value, self.but):
            return True
        if self.fits is not None:
            return self.fits(value)
        if self.methods == ("__call__",):
            return callable(value)
        # A class has the methods too, and is nothing that can be asked.
        able = all(callable(getattr(value, name, None)) for name in self.methods)
        return bool(self.methods) and able and not isinstance(value, type)


def whole_number(least: int) -> Allowed:
    """What takes whole numbers of at least *least*."""
    return Allowed(
        f"a whole number of at least {least}", fits=functools.partial(is_whole, least=least)
    )


ANYTHING = Allowed("anything", (object,))


def check_argument(name: str, value: object, allowed: Allowed) -> None:
    """Check one argument.

    Args:
        name: What it is called, for the message.
        value: What was given.
        allowed: What it may be. The items of a list are looked at where that does not use it up.

    Raises:
        Misuse: It is something else; the message says what it must be and what was given.
    """
    if not allowed.takes(value):
        hint = allowed.hint(value) if allowed.hint is not None else ""
        raise Misuse(f"{name} must be {allowed.words}, got {shown(value)}{hint and ': ' + hint}")
    if allowed.items is not None and isinstance(value, list | tuple | set | frozenset):
        for item in cast("Iterable[object]", value):
            if not allowed.items.takes(item):
                raise Misuse(f"{name} must be {allowed.words}, got {shown(item)} in it")


def check_arguments(
    given: Mapping[str, object], table: Mapping[str, Allowed], of: str = ""
) -> None:
    """Check arguments by their table; None passes, for it is what was not given.

    Args:
        given: The arguments by name.
        table: What each may be; an argument without a row is not looked at.
        of: Whose they are, for the message: " of agent 'a'".

    Raises:
        Misuse: One is something else.
    """
    for name, value in given.items():
        if value is not None and name in table:
            check_argument(f"{name}{of}", value, table[name])


_ENGINES = {
    "Graph": "GraphEngine(graph)",
    "Machine": "MachineEngine(machine)",
    "dict": "GraphEngine(Graph.from_data(data)) or MachineEngine(load_machine(data))",
    "function": "ScriptEngine(function)",
    "str": "LoopEngine(), GraphEngine(graph), MachineEngine(load_machine(path)) or "
    "ScriptEngine(function)",
}


def engine_hint(value: object) -> str:
    """What to give in place of *value*, which is no engine; "" where nothing is known."""
    if not isinstance(value, type) and callable(getattr(value, "call", None)):
        return "a model is given as model="
    # The engines are above this module: what they drive is known by its name.
    wanted = _ENGINES.get(value.__name__ if isinstance(value, type) else type(value).__name__)
    return f"give {wanted}" if wanted else ""


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
        none: What None means; "" where None is not allowed.

    Raises:
        Misuse: It is no whole number, or below *least*.
    """
    if not ((value is None and none) or is_whole(value, least)):
        wanted = f"a whole number of at least {least}{_or_none(none)}"
        raise Misuse(f"{what} must be {wanted}, got {shown(value)}")


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
        none: What None means; "" where None is not allowed.

    Raises:
        Misuse: It is no such number.
    """
    if not ((value is None and none) or is_amount(value, above=above, is_endless=is_endless)):
        least = "at least 0" if above is None else f"above {above:g}"
        wanted = f"a number of {unit} {least}{_or_none(none)}"
        raise Misuse(f"{what} must be {wanted}, got {shown(value)}")


def _or_none(none: str) -> str:
    return f", or None for {none}" if none else ""


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
