"""The doors to a run."""

from .doors import reopen, resume, run, run_sync, run_with_handoffs, start

__all__ = [
    "reopen",
    "resume",
    "run",
    "run_sync",
    "run_with_handoffs",
    "start",
]
