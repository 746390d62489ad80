"""Calling what users gave us: hooks that may be missing, sync or async."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, cast

__all__ = [
    "Stray",
    "Wait",
    "answer_at_once",
    "attribute",
    "call",
    "is_async",
    "is_closing",
    "kind_of",
    "method",
    "origin_of",
    "raised",
    "said_by",
]

# Waits for a hook as long as the run has patience.
Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]


class Stray(RuntimeError):
    """What would have left a run past everybody who cares for it, such as a SystemExit.

    Attributes:
        error: What was raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(said_by(error))
        self.error = error


def origin_of(error: BaseException) -> BaseException:
    """What was raised where it was raised: what *error* stands for where it is a Stray."""
    return error.error if isinstance(error, Stray) else error


def kind_of(error: BaseException) -> str:
    """The name of the class of *error*, of what it stands for where it is a Stray."""
    return type(origin_of(error)).__name__


def said_by(error: BaseException) -> str:
    """The message of *error* in one line; the name of its class where it has none."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        # What users raise may be unable to speak; the word of it must not fail.
        text = ""
    return text or kind_of(error)


def is_closing() -> bool:
    """Whether the coroutine at hand is closed from outside, and by no task."""
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True


def is_async(function: Callable[..., Any]) -> bool:
    """Whether what *function* gives must be awaited, as far as one can tell before."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = cast("Callable[..., Any]", inner.func)
    made = type(inner).__call__
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(made)


def answer_at_once(function: Callable[..., Any], /, *arguments: object) -> Any:
    """Call *function*, which must not be async, for there is nobody who could wait.

    Raises:
        TypeError: It gave something to be awaited.
        Stray: It raised what is no Exception.
    """
    try:
        value = function(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise Stray(error) from error
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"it gave a {type(value).__name__}: make it a plain function")
    return value


def method(subject: object, name: str) -> Callable[..., Any] | None:
    """The method *name* of *subject*, None where it has none."""
    found = attribute(subject, name)
    return found if callable(found) else None


def attribute(subject: object, name: str) -> Any:
    """The attribute *name* of *subject*, None where it has none.

    A property that raises is as good as a method that does: what is given raises when it is
    called, where the boundary is that says what that means.
    """
    try:
        return getattr(subject, name, None)
    except BaseException as error:
        # Nobody's property ends a run, or the loop with all else that is in it.
        return functools.partial(_raise, error)


def _raise(error: BaseException, *_: object) -> NoReturn:
    try:
        raise error
    finally:
        # Its traceback leads here, and from here back to it.
        del error


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
        Stray: It raised what is no Exception, such as a SystemExit.
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
    except Exception:
        raise
    except BaseException as error:
        # Nobody's hook ends a process, or the loop with all else that is in it.
        if isinstance(error, GeneratorExit) and is_closing():
            raise
        raise Stray(error) from error


def raised(who: str, error: BaseException) -> str:
    """One line that says what *who* raised."""
    kind, text = kind_of(error), said_by(error)
    return f"{who} raised {kind}" if text == kind else f"{who} raised {kind}: {text}"
