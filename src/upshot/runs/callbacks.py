"""Calls functions of the user, and finds where their exceptions came from."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from upshot.contract.base.structs import JsonObject
from upshot.runs.engine_api.exceptions import Signal

# Waits for a hook, within the time that the run allows.
Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]


class Stray(RuntimeError):
    """Wraps an exception that would bypass the handlers of the run, such as a SystemExit.

    Attributes:
        error: What was raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(said_by(error))
        self.error = error


def origin_of(error: BaseException) -> BaseException:
    """Return the original exception: the wrapped one if *error* is a Stray, else *error*."""
    return error.error if isinstance(error, Stray) else error


def kind_of(error: BaseException) -> str:
    """Return the class name of *error*, or of the exception that a Stray wraps."""
    return type(origin_of(error)).__name__


def said_by(error: BaseException) -> str:
    """Return the message of *error* in one line, or its class name if it has no message."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        # str() of a user's exception may raise; reporting it must not.
        text = ""
    return text or kind_of(error)


def is_closing() -> bool:
    """Whether this coroutine is being closed from outside, not run by a task."""
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True


def is_async(function: Callable[..., Any]) -> bool:
    """Whether *function* returns an awaitable, as far as can be told without calling it."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = cast("Callable[..., Any]", inner.func)
    made = type(inner).__call__
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(made)


def answer_at_once(function: Callable[..., Any], /, *arguments: object) -> Any:
    """Call *function*, which must not be async, because nothing here can await.

    Raises:
        TypeError: It returned an awaitable.
        Stray: It raised an exception that is not an Exception.
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
        raise TypeError(f"it returned a {type(value).__name__}: make it a sync function")
    return value


def method(subject: object, name: str) -> Callable[..., Any] | None:
    """Return the method *name* of *subject*, None if it has none."""
    found = attribute(subject, name)
    return found if callable(found) else None


def attribute(subject: object, name: str) -> Any:
    """Return the attribute *name* of *subject*, None if it has none.

    If a property raises, this returns a function that raises the same exception when called. So
    the boundary that calls it handles both cases.
    """
    try:
        return getattr(subject, name, None)
    except BaseException as error:
        # A property must not end a run, or the event loop and everything else in it.
        return functools.partial(_raise, error)


def _raise(error: BaseException, *_: object) -> NoReturn:
    try:
        raise error
    finally:
        # Its traceback refers to this frame; break the cycle.
        del error


async def call(
    function: Callable[..., Any], /, *arguments: object, wait: Wait | None = None
) -> Any:
    """Call *function*, and await what it returns if that is awaitable.

    Exceptions pass through: each boundary handles them itself.

    Args:
        function: Sync or async.
        arguments: Passed to *function*.
        wait: Awaits what it returns; None awaits without a limit.

    Raises:
        RuntimeError: It raised CancelledError although its task was not cancelled, for example
            from a future that it had cancelled itself.
        Stray: It raised an exception that is not an Exception, such as a SystemExit.
    """
    try:
        value = function(*arguments)
        if not inspect.isawaitable(value):
            return value
        return await (value if wait is None else wait(value))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        # A hook may leak the cancellation of its own future. That must not cancel the run.
        if task is None or task.cancelling():
            raise
        raise RuntimeError(
            "it raised a CancelledError, though its task was not cancelled"
        ) from error
    except Exception:
        raise
    except BaseException as error:
        # A hook must not end the process, or the event loop and everything else in it.
        if isinstance(error, GeneratorExit) and is_closing():
            raise
        raise Stray(error) from error


def raised(who: str, error: BaseException) -> str:
    """Return one line that says what *who* raised."""
    kind, text = kind_of(error), said_by(error)
    return f"{who} raised {kind}" if text == kind else f"{who} raised {kind}: {text}"


# A loop that does not even start the work within this time is blocked, probably by code that waits
# for the asking thread. Shorter delays may be real work.
PATIENCE_S = 10.0

T = TypeVar("T")


async def ask_elsewhere(
    loop: asyncio.AbstractEventLoop,
    ask: Callable[[], Coroutine[Any, Any, T]],
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Run a coroutine in another event loop and wait for it. Cancelling this cancels it there.

    Args:
        loop: The event loop of another thread.
        ask: Makes the coroutine, in that loop.
        patience_s: Seconds within which it must start; it may run longer than that.

    Raises:
        RuntimeError: The loop has ended or is blocked; nothing was started.
        Exception: What *ask* raised.
    """
    if not loop.is_running():
        raise RuntimeError("its event loop has ended")
    here = asyncio.get_running_loop()
    begun, limit = asyncio.Event(), asyncio.timeout(patience_s)
    is_wanted = True

    async def begin() -> T:
        if not is_wanted:
            # Cancelling the future would take effect only after the first step.
            raise asyncio.CancelledError
        # It has started, and may now take as long as the run does.
        here.call_soon_threadsafe(begun.set)
        return await ask()

    work = begin()
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        # The loop closed in the meantime.
        work.close()
        raise
    try:
        async with limit:
            await begun.wait()
    except BaseException as error:
        is_wanted = False
        future.cancel()
        if isinstance(error, TimeoutError) and limit.expired():
            raise RuntimeError(
                f"its event loop did not answer within {patience_s:g} s: something in it waits "
                "without await, such as thread.join(); use await asyncio.to_thread(...) there"
            ) from None
        raise
    return await asyncio.wrap_future(future)


_OURS = str(Path(__file__).parents[1]) + os.sep
_LIBRARY = str(Path(os.__file__).parent) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_BLAMED = "_upshot_raised_by"
# Paths outside the working directory are shortened to this many parts.
_SHOWN_PARTS = 2


def blame(error: BaseException, who: str, run_id: str) -> None:
    """Note on *error* what raised it, such as "the model 'x'". The first note of a run stays.

    Signals such as Failed are deliberate and get no note.

    Args:
        error: What was raised.
        who: What raised it.
        run_id: The run. One object may be raised in several runs, and each makes a note.
    """
    error = origin_of(error)
    noted = getattr(error, _BLAMED, None)
    if not isinstance(error, Signal) and (noted is None or noted[0] != run_id):
        # An exception that accepts no attributes gets no note.
        try:
            setattr(error, _BLAMED, (run_id, who))
        except (AttributeError, TypeError):
            return


def forget_way(error: BaseException, *files: str) -> None:
    """Remove the outermost frames of *error* that belong to *files*, given by ``__file__``.

    For code that stores an exception it caught: these frames refer back to that code.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in files:
        trace = trace.tb_next
    error.__traceback__ = trace


def trail_of(error: BaseException) -> JsonObject:
    """Return facts of *error* for the details of a result's error.

    Returns:
        ``type``, its class; ``raised_by``, what raised it, if known; and ``file``, ``line`` and
        ``function`` of the innermost frame in the user's code, or else in a library. These three
        are missing if all frames are upshot's. Never contains the value of a variable.
    """
    error = origin_of(error)
    facts: JsonObject = {"type": kind_of(error)}
    noted = getattr(error, _BLAMED, None)
    if noted is not None:
        facts["raised_by"] = noted[1]
    place = _find_frame(error)
    if place is not None:
        frame, line = place
        code = frame.f_code
        facts |= {"file": _short_path(code.co_filename), "line": line, "function": code.co_qualname}
    return facts


def _find_frame(error: BaseException) -> tuple[FrameType, int] | None:
    """Return the frame to look at first, and its line."""
    found = None
    for frame, line in _frames_of(error):
        name = frame.f_code.co_filename
        is_foreign = _INSTALLED in name or name.startswith((_LIBRARY, "<frozen"))
        if not is_foreign:
            return frame, line
        found = found or (frame, line)
    return found


def _frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames outside upshot, the innermost first."""
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if not frame.f_code.co_filename.startswith(_OURS):
            yield frame, line


def _short_path(name: str) -> str:
    """Return a path that identifies a file without revealing the user's home directory."""
    path = Path(name)
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(Path(*path.parts[-_SHOWN_PARTS:]))
