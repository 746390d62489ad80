"""Calling what users gave us: hooks that may be missing, sync or async."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

__all__ = ["Wait", "call", "method", "raised"]

# Waits for a hook as long as the run has patience.
Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]


def method(subject: object, name: str) -> Callable[..., Any] | None:
    """The method *name* of *subject*, None where it has none."""
    found = getattr(subject, name, None)
    return found if callable(found) else None


async def call(
    function: Callable[..., Any], /, *arguments: object, wait: Wait | None = None
) -> Any:
    """Call *function* and await what it gives, if that is to be awaited.

    Whatever it raises comes through: each boundary says itself what that means.

    Args:
        function: Sync or async.
        arguments: What it gets.
        wait: Awaits what it gives; None waits without an end.

    Raises:
        RuntimeError: It raised a cancel that nobody asked for, such as that of a future of its own.
    """
    try:
        value = function(*arguments)
        if not inspect.isawaitable(value):
            return value
        return await (value if wait is None else wait(value))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it raised a CancelledError that nobody asked for") from error


def raised(who: str, error: BaseException) -> str:
    """One line that says what *who* raised."""
    return " ".join(f"{who} raised {type(error).__name__}: {error}".split())
