"""Number: an option's value that is a whole number within bounds."""

from __future__ import annotations

from collections.abc import Callable

import click

__all__ = ["number_from"]


def number_from(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a whole number.

    Args:
        least: The least that is allowed.
        most: The most that is allowed, None for no bound.

    Returns:
        What reads it; anything else is a usage error that tells the bounds.
    """
    bounds = f"from {least}" + (" on" if most is None else f" to {most}")

    def number(text: str) -> int:
        try:
            read = int(text)
        except ValueError:
            read = least - 1
        if read < least or (most is not None and read > most):
            raise click.BadParameter(f"{text} is no whole number {bounds}")
        return read

    return number
