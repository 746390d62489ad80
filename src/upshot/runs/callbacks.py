"""Calls functions of the user, and traces what they raise."""

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

# Waits for a hook as long as the run has patience.
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
        # A hook may leak a cancel of its own future. Taken for one of the run, it would end that.
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


# A loop that does not even begin for so long is held up by what waits for who asks. What holds
# it up for a shorter time may be work of its own.
PATIENCE_S = 10.0

T = TypeVar("T")


async def ask_elsewhere(
    loop: asyncio.AbstractEventLoop,
    ask: Callable[[], Coroutine[Any, Any, T]],
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Have *loop* do something, and wait for it; a cancel here cancels it there.

    Args:
        loop: That of another thread.
        ask: Makes what is to be done, in that loop.
        patience_s: Within how many seconds it has to begin; it may take longer than that.

    Raises:
        RuntimeError: The loop has ended, or is held up; nothing was begun.
        Exception: What *ask* raised.
    """
    if not loop.is_running():
        raise RuntimeError("its event loop has ended")
    here = asyncio.get_running_loop()
    begun, limit = asyncio.Event(), asyncio.timeout(patience_s)
    is_wanted = True

    async def begin() -> T:
        if not is_wanted:
            # Its cancel would come in time only after the first step.
            raise asyncio.CancelledError
        # From here on it is at work, and has as long as the run.
        here.call_soon_threadsafe(begun.set)
        return await ask()

    work = begin()
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        # Closed in between.
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
# So much of a path is told where it is not below the working directory.
_TOLD_PARTS = 2


def blame(error: BaseException, who: str, run_id: str) -> None:
    """Note on *error* whose it is, such as "the model 'x'"; who was noted first was nearer to it.

    What ends a run by a word of upshot's, such as Failed, is nobody's fault.

    Args:
        error: What was raised.
        who: Whose it is.
        run_id: In which run, for one object may be raised in several, and counts anew in each.
    """
    error = origin_of(error)
    noted = getattr(error, _BLAMED, None)
    if not isinstance(error, Signal) and (noted is None or noted[0] != run_id):
        # One without a place for it goes without.
        try:
            setattr(error, _BLAMED, (run_id, who))
        except (AttributeError, TypeError):
            return


def forget_way(error: BaseException, *files: str) -> None:
    """Take the outermost frames of *error* off that are of *files*, each by its ``__file__``.

    For who keeps what it caught: these frames lead back to who keeps it.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in files:
        trace = trace.tb_next
    error.__traceback__ = trace


def trail_of(error: BaseException) -> JsonObject:
    """Facts of *error* for the details of a result's error.

    Returns:
        ``type``, its class; ``raised_by``, whose it is, where that is known; ``file``, ``line``
        and ``function`` of the innermost frame of the user's own code, of a library's where there
        is none; none of these where all frames are upshot's. Never the value of a variable.
    """
    error = origin_of(error)
    facts: JsonObject = {"type": kind_of(error)}
    noted = getattr(error, _BLAMED, None)
    if noted is not None:
        facts["raised_by"] = noted[1]
    place = _place_of(error)
    if place is not None:
        frame, line = place
        code = frame.f_code
        facts |= {"file": _short(code.co_filename), "line": line, "function": code.co_qualname}
    return facts


def _place_of(error: BaseException) -> tuple[FrameType, int] | None:
    """The frame to look at first, and its line."""
    found = None
    for frame, line in _frames_of(error):
        name = frame.f_code.co_filename
        is_foreign = _INSTALLED in name or name.startswith((_LIBRARY, "<frozen"))
        if not is_foreign:
            return frame, line
        found = found or (frame, line)
    return found


def _frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames outside upshot, the innermost first."""
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if not frame.f_code.co_filename.startswith(_OURS):
            yield frame, line


def _short(name: str) -> str:
    """A path that says which file it is, and not where somebody's home is."""
    path = Path(name)
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(Path(*path.parts[-_TOLD_PARTS:]))
