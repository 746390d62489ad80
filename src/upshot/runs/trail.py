"""Trail: where an exception came from, so that whoever reads a result finds the place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from ..contract import JsonObject
from .callback import kind_of, origin_of
from .signals import Signal

__all__ = ["blame", "forget_way", "trail_of"]

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
