"""Numbers that people give: whole ones are no booleans, and amounts are none that say nothing."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import SupportsIndex

from ..errors import Misuse

__all__ = ["check_amount", "check_whole", "is_amount", "is_whole"]


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
