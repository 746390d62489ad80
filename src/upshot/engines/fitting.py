"""Fitting: whether a function that a user gave can be called as it will be."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ..errors import Misuse

__all__ = ["check_fit"]


def check_fit(function: Callable[..., object], what: str, *arguments: str) -> None:
    """Check that *function* takes so many arguments, before a run finds out.

    Args:
        function: What was given. One that does not tell its parameters, as some built-in ones,
            passes.
        what: What it is, for the message, such as "a script".
        arguments: The names of what it is called with, by position.

    Raises:
        Misuse: It cannot be called with these.
    """
    try:
        # A decorator may add arguments of its own, or drop some: what it wraps does not count.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        given = f"({', '.join(arguments)})"
        raise Misuse(
            f"{what} is called with {given}; {name} is not made for it: {error}"
        ) from error
