"""Calling what users gave us: hooks that may be missing, sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["call", "method"]


def method(subject: object, name: str) -> Callable[..., Any] | None:
    """The method *name* of *subject*, None where it has none."""
    found = getattr(subject, name, None)
    return found if callable(found) else None


async def call(function: Callable[..., Any], /, *arguments: object) -> Any:
    """Call *function* and await what it gives, if that is to be awaited.

    Whatever it raises comes through: each boundary says itself what that means.
    """
    value = function(*arguments)
    return await value if inspect.isawaitable(value) else value
