"""Exit codes: what a status is to a shell."""

from __future__ import annotations

from ..contract import Status

__all__ = ["EXIT_CODES", "MISUSE"]

MISUSE = 2

EXIT_CODES: dict[Status, int] = {
    Status.COMPLETED: 0,
    Status.FAILED: 1,
    Status.ABORTED: 1,
    Status.INPUT_REQUIRED: 3,
    Status.INTERRUPTED: 4,
    Status.CANCELED: 5,
}
