"""FileLock: processes that write to one file take turns in the order in which they came."""

from __future__ import annotations

import contextlib
import os
import threading
from types import TracebackType

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


# So long a turn is waited for; a holder that was suspended, or a fork that keeps its descriptor,
# must not stop the others for good.
_PATIENCE_S = 10.0
_FILE_MODE = 0o600


class FileLock:
    """Puts writers into a queue, so that none waits for much longer than the others.

    SQLite's own lock is polled: the writer that looks at the right moment gets it, and one of eight
    may miss it for seconds. The system wakes the waiters of ``flock`` in turn. It is
    for fairness only: what is written stays correct without it, so whatever goes wrong with it is
    passed over, and SQLite's lock is waited for as ever.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._late: threading.Thread | None = None
        self._is_usable = fcntl is not None

    def __enter__(self) -> None:
        if fcntl is None or not self._is_usable or self._is_late():
            return
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(self._path, flags, _FILE_MODE)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()
        except OSError:
            # Such as a file system without locks.
            self._is_usable = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fcntl is not None and self._file is not None and not self._is_late():
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back."""
        # A thread that still waits needs its descriptor, and gives it back at the process's end.
        if self._file is not None and not self._is_late():
            os.close(self._file)
            self._file = None

    def _wait(self) -> None:
        # Only a thread that can be left behind may wait without a limit, and no other wait is fair.
        self._late = threading.Thread(target=self._take, name="upshot-journal-turn", daemon=True)
        self._late.start()
        self._late.join(_PATIENCE_S)

    def _take(self) -> None:
        assert fcntl is not None and self._file is not None
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _is_late(self) -> bool:
        """Whether a turn that was not waited for to its end is still to come."""
        if self._late is None or not self._late.is_alive():
            self._late = None
            return False
        return True
