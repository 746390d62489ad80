"""The doors to a run."""

from .answering import keep_answers
from .doors import reopen, resume, run, run_sync, run_with_handoffs, start

__all__ = [
    "keep_answers",
    "reopen",
    "resume",
    "run",
    "run_sync",
    "run_with_handoffs",
    "start",
]
