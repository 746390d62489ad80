"""Native: functions of CEL that the library itself gets wrong, as the language has them.

Source:
    Language definition of the Common Expression Language, "List of Standard Definitions", read on
    2026-11-21: the size of a text is its number of code points, and ``string`` takes truth values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sized
from typing import Any, cast

from ..contract.article import kind_of

__all__ = ["INSTEAD", "functions_for"]

INSTEAD: Mapping[str, str] = {"size": "upshot_size"}
"""What is called in place of a function that the library has, and that cannot be replaced by name.

No expression can name them, since they are none of the known ones.
"""


def functions_for(called: Collection[str]) -> Mapping[str, Callable[[Any], Any]]:
    """What an expression needs that calls the functions *called*, by the name that it calls."""
    return {INSTEAD.get(name, name): _MADE[name] for name in called if name in _MADE}


def _size(value: Any) -> int:
    """The library counts the bytes of a text."""
    if isinstance(value, str | bytes | list | dict):
        return len(cast(Sized, value))
    raise TypeError(f"size() takes a text, a list or a mapping, {_not(value)}")


def _string(value: Any) -> str:
    """Is asked only for what the library does not take."""
    if isinstance(value, bool):
        return "true" if value else "false"
    raise TypeError(f"string() takes a number, a text, a truth value or a time, {_not(value)}")


def _not(value: object) -> str:
    return "not null" if value is None else f"not {kind_of(value)}"


_MADE: Mapping[str, Callable[[Any], Any]] = {"size": _size, "string": _string}
