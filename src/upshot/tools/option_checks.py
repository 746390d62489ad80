"""Checks of what callers give: one table of rules for each class that takes options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from upshot.contract.base.checks import did_you_mean, is_amount, is_whole
from upshot.errors import Misuse

# By the name of an option: whether a value is right, and what to give in place of a wrong one.
Rules: TypeAlias = Mapping[str, tuple[Callable[[object], bool], str]]


def check_options(rules: Rules, options: Mapping[str, object], *, whose: str = "") -> None:
    """Check those of *options* that have a rule.

    Args:
        rules: The table.
        options: The values by name.
        whose: What stands before the name of an option in a message, such as "tool 'look': ".

    Raises:
        Misuse: A value is wrong; the message says what to give.
    """
    for name, (is_right, due) in rules.items():
        if name in options and not is_right(options[name]):
            raise Misuse(f"{whose}{name} is {options[name]!r:.60}: give {due}")


def check_known(options: Iterable[str], known: Iterable[str]) -> None:
    """Check that *options* are among the *known* ones.

    Raises:
        Misuse: One is not; the message names the nearest.
    """
    names = frozenset(known)
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names, f"give {', '.join(sorted(names))}")
            raise Misuse(f"there is no option {name!r}: {hint}")


def is_of(kind: type) -> Callable[[object], bool]:
    """Whether a value is a *kind*."""
    return lambda value: isinstance(value, kind)


def none_or(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    """Whether a value is None, or right."""
    return lambda value: value is None or is_right(value)


def one_of(*words: object) -> Callable[[object], bool]:
    """Whether a value is one of *words*."""
    return lambda value: isinstance(value, str) and value in words


def has_methods(*names: str) -> Callable[[object], bool]:
    """Whether a value has these methods, and is no class; any class may play a protocol."""
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in names)
    )


def is_flag(value: object) -> bool:
    """Whether *value* is True or False."""
    return isinstance(value, bool)


def is_seconds(value: object) -> bool:
    """Whether *value* is a time in seconds."""
    return is_amount(value)


def is_count(least: int) -> Callable[[object], bool]:
    """Whether a value is a whole number of at least *least*."""
    return lambda value: is_whole(value, least)


def check_label(turn: object) -> None:
    """Check the label of a turn.

    Raises:
        Misuse: It is no number.
    """
    if isinstance(turn, bool) or not isinstance(turn, int):
        raise Misuse(f"turn is {turn!r}: give a number")


def check_list(items: object, what: str, due: str) -> None:
    """Check that *items* are several things, and not one.

    Args:
        items: What was given.
        what: Its name with its verb, for the message: "answers are".
        due: What to give.

    Raises:
        Misuse: They are one thing, or nothing.
    """
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise Misuse(f"{what} {items!r:.60}: give {due}")
