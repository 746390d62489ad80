"""Checks of arguments, and the messages that say what is wrong with them.

Every message has one form: what the argument must be, and what was given. ``Allowed`` describes one
argument; ``check_arguments`` checks the arguments of a function against a table of them.
``nearest`` and ``did_you_mean`` find the name that was probably meant by a mistyped one.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from numbers import Real
from typing import NamedTuple, SupportsIndex, cast
from urllib.parse import urlsplit

from upshot.errors import Misuse


def kind_of(value: object) -> str:
    """Return the name of the type of *value*, "None" for None."""
    return "None" if value is None else type(value).__name__


def format_value(value: object) -> str:
    """Return *value* as a message shows it: a number as it is, a class by its name, or the type.

    Strings are not shown, since they may be secrets.
    """
    if isinstance(value, type):
        return f"the class {value.__name__} (give an object of it)"
    if not isinstance(value, int | float):
        return kind_of(value)
    # Python refuses to print an integer with thousands of digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of too many digits"
    return f"{value!r:.60}"


def safe_address(url: str) -> str:
    """Return a URL as a message shows it: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


def nearest(word: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names in *known* that are similar to *word* by *cutoff*, nearest first."""
    from difflib import get_close_matches

    # Letter case is the most common mistake.
    folded: dict[str, list[str]] = {}
    for name in known:
        folded.setdefault(name.casefold(), []).append(name)
    close = get_close_matches(word.casefold()[:200], folded, n=count, cutoff=cutoff)
    return [name for one in close for name in folded[one]][:count]


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ask whether the nearest name in *known* was meant; *otherwise* if none is near."""
    near = nearest(word, known)
    return f"did you mean {near[0]!r}?" if near else otherwise


def expected(word: str, known: Iterable[str], what: str) -> str:
    """Say what is expected instead of *word*: the nearest names, or all if none is near.

    Args:
        word: What was given.
        known: All accepted names.
        what: What they are, such as "a state".
    """
    names = list(known)
    near = nearest(word, names, count=3)
    if near:
        return f"{what}; did you mean {' or '.join(map(repr, near))}?"
    if not names:
        return f"{what}; there are none"
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{what}: one of {listed}"


class Allowed(NamedTuple):
    """Describes what an argument may be: an object of one of the types, or with the methods.

    Attributes:
        words: What it must be, for the message: "a Budget".
        types: The accepted types.
        but: Types that are refused although *types* includes them.
        methods: An object with all of these methods is accepted; a class is not.
        items: What each item must be; the argument is then any iterable except a string or mapping.
        fits: Tests a value if types and methods are not enough.
        hint: Returns what to give instead of a wrong value.
    """

    words: str
    types: tuple[type, ...] = ()
    but: tuple[type, ...] = ()
    methods: tuple[str, ...] = ()
    items: Allowed | None = None
    fits: Callable[[object], bool] | None = None
    hint: Callable[[object], str] | None = None

    def takes(self, value: object) -> bool:
        """Return whether *value* is accepted; its items are not checked."""
        if self.items is not None:
            return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        if isinstance(value, self.types) and not isinstance(value, self.but):
            return True
        if self.fits is not None:
            return self.fits(value)
        if self.methods == ("__call__",):
            return callable(value)
        # A class has the methods too, but they need an instance.
        able = all(callable(getattr(value, name, None)) for name in self.methods)
        return bool(self.methods) and able and not isinstance(value, type)


def whole_number(least: int) -> Allowed:
    """Accept whole numbers from *least* on."""
    return Allowed(
        f"a whole number of at least {least}", fits=functools.partial(is_whole, least=least)
    )


ANYTHING = Allowed("anything", (object,))


def check_argument(name: str, value: object, allowed: Allowed) -> None:
    """Check one argument.

    Args:
        name: Its name, for the message.
        value: What was given.
        allowed: What it may be. Items are checked unless iterating would use them up.

    Raises:
        Misuse: It is something different; the message says what it must be and what was given.
    """
    if not allowed.takes(value):
        hint = allowed.hint(value) if allowed.hint is not None else ""
        raise Misuse(
            f"{name} must be {allowed.words}, got {format_value(value)}{hint and ': ' + hint}"
        )
    if allowed.items is not None and isinstance(value, list | tuple | set | frozenset):
        for item in cast("Iterable[object]", value):
            if not allowed.items.takes(item):
                raise Misuse(f"{name} must be {allowed.words}, got {format_value(item)} in it")


def check_arguments(
    given: Mapping[str, object], table: Mapping[str, Allowed], of: str = ""
) -> None:
    """Check arguments against a table. None always passes, since it means "not given".

    Args:
        given: The arguments by name.
        table: What each may be; an argument without a row is not checked.
        of: Whose arguments they are, for the message: " of agent 'a'".

    Raises:
        Misuse: An argument does not match its row.
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
    """Return what to give instead of *value*, which is not an engine; "" if there is no hint."""
    if not isinstance(value, type) and callable(getattr(value, "call", None)):
        return "a model is given as model="
    # The engines are in a higher layer, so a graph or machine is recognized by its class name.
    wanted = _ENGINES.get(value.__name__ if isinstance(value, type) else type(value).__name__)
    return f"give {wanted}" if wanted else ""


def json_fault(error: Exception) -> str:
    """Return the fault in a JSON text, such as "invalid character (byte 0)"; bytes count from 0."""
    return str(error).removeprefix("JSON is malformed: ")


def is_whole(value: object, least: int) -> bool:
    """Return whether *value* is a whole number, *least* or more."""
    if isinstance(value, int):
        return not isinstance(value, bool) and value >= least
    if not isinstance(value, SupportsIndex):
        return False
    try:
        return operator.index(value) >= least
    except TypeError:
        # A class has the method only for its instances, an array only if it contains one number.
        return False


def is_amount(value: object, *, above: float | None = None, is_endless: bool = True) -> bool:
    """Return whether *value* is an amount: a real number, but not a boolean and not NaN.

    Args:
        value: What was given.
        above: The amount must be greater than this; None means 0 or more.
        is_endless: Whether infinity is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        amount = float(value)
    except OverflowError:
        # An integer too large for a float is not a sensible amount.
        return False
    # Every comparison with NaN is false.
    in_range = amount >= 0 if above is None else amount > above
    return in_range and (is_endless or math.isfinite(amount))


def check_moment(name: str, moment: object) -> None:
    """Raise Misuse unless *moment* is None, or a datetime with a time zone."""
    if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
        raise Misuse(f"{name} is {moment!r}: give an aware moment, such as datetime.now(UTC)")


def check_whole(what: str, value: object, *, least: int = 0, none: str = "") -> None:
    """Check a count.

    Args:
        what: Its name, for the message.
        value: What was given.
        least: The smallest allowed value.
        none: What None means; "" if None is not allowed.

    Raises:
        Misuse: It is not a whole number, or below *least*.
    """
    if not ((value is None and none) or is_whole(value, least)):
        wanted = f"a whole number of at least {least}{_or_none(none)}"
        raise Misuse(f"{what} must be {wanted}, got {format_value(value)}")


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
        unit: Its unit, for the message.
        above: The amount must be greater than this; None means 0 or more.
        is_endless: Whether infinity is allowed.
        none: What None means; "" if None is not allowed.

    Raises:
        Misuse: It is not such a number.
    """
    if not ((value is None and none) or is_amount(value, above=above, is_endless=is_endless)):
        least = "at least 0" if above is None else f"above {above:g}"
        wanted = f"a number of {unit} {least}{_or_none(none)}"
        raise Misuse(f"{what} must be {wanted}, got {format_value(value)}")


def name_of_function(function: Callable[..., object]) -> str:
    """Return the name of a function that will become a tool.

    Raises:
        Misuse: It has no name, such as a lambda.
    """
    name = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise Misuse(f"{function!r} has no name: give one with tool(name=...)")
    return str(name)


def check_tool_item(item: object) -> None:
    """Check an item of a list of tools.

    Raises:
        Misuse: It is not a function, Tool, tool set or name.
    """
    if isinstance(item, Mapping):
        raise Misuse(
            f"{_name_in(cast('Mapping[str, object]', item))} is a description without a function: "
            "give Tool.from_schema(name, description, parameters, call)"
        )
    if not (callable(item) or isinstance(item, str | Iterable) or hasattr(item, "parameters")):
        raise Misuse(f"{item!r} is not a tool: give a function, a Tool, a tool set or a name")


def _name_in(description: Mapping[str, object]) -> str:
    # In a provider's form of a tool the name is one level down.
    inner = description.get("function", description)
    name = cast("Mapping[str, object]", inner).get("name") if isinstance(inner, Mapping) else None
    return f"{name!r:.60}" if name else f"{description!r:.60}"


def two_tools(name: str) -> Misuse:
    """Return the error for two different tools with the same name."""
    return Misuse(f"two tools are called {name!r}: give one of them another name")


def check_function(function: object, name: str) -> None:
    """Check a callable that will become a tool.

    Raises:
        Misuse: It is a class or a generator.
    """
    if isinstance(function, type):
        raise Misuse(f"{name!r} is a class: make the tool from a function or a method")
    check_no_generator(function, name)


def check_no_generator(function: object, name: str) -> None:
    """Check that the function of a tool returns one value.

    Raises:
        Misuse: It is a generator.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Misuse(f"tool {name!r} is a generator: return one value, such as a list")


def _or_none(none: str) -> str:
    return f", or None for {none}" if none else ""


def has_own_output(output: object, content: str | None) -> bool:
    """Return whether *output*, the answer as a value, differs from its text; never raises."""
    if isinstance(output, str):
        return output != content
    # Not compared: comparing arrays gives an array without a truth value, and other types raise.
    return output is not None
