"""File: which databases this process has open, and whether a path still leads to one.

SQLite's locks on a file belong to the process, and the system drops all of them as soon as
anybody in it closes any descriptor of that file. So nothing here opens a file that is open as a
database already. A forked process has the connections of its parent without their locks, and must
not use that file.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import TypeAlias

from ..errors import JournalError

__all__ = ["Identity", "forks", "identity_of", "keep_open", "let_go", "peek"]

# Device and number of a file, by which it is the same under any name.
Identity: TypeAlias = tuple[int, int]

_lock = threading.Lock()
_open: Counter[Identity] = Counter()
_inherited: set[Identity] = set()
_forks = 0


def peek(path: str, length: int) -> bytes | None:
    """The first bytes of a file; None of one that is open as a database here.

    Raises:
        OSError: It cannot be read.
    """
    with _lock:
        if _open[_identity(os.stat(path))]:
            return None
        with open(path, "rb") as file:
            return file.read(length)


def keep_open(path: str) -> Identity:
    """Note that the file is about to be opened as a database, until ``let_go``.

    Raises:
        JournalError: It was open as one when this process was forked.
        OSError: It is not there.
    """
    with _lock:
        file = _identity(os.stat(path))
        if file in _inherited:
            raise JournalError(
                f"the journal {path} was open when this process was forked, so it cannot be used "
                "here: start processes by spawn, or before the journal is opened"
            )
        _open[file] += 1
        return file


def let_go(file: Identity) -> None:
    """Note that the file was closed."""
    with _lock:
        _open[file] -= 1
        if _open[file] < 1:
            del _open[file]


def identity_of(path: str) -> Identity | None:
    """The file that *path* leads to now, None for none."""
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def forks() -> int:
    """How often this process was forked from another one, it and those before it."""
    return _forks


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _after_fork() -> None:
    global _lock, _forks  # noqa: PLW0603  # of the process, which is another one now
    _lock = threading.Lock()
    _forks += 1
    _inherited.update(_open)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
