"""The doors to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.entry.api import fork, reopen, replay, resume, run, run_sync, run_with_handoffs, start
from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.entry.replay_run import Replay

__all__ = [
    "Replay",
    "fork",
    "reopen",
    "replay",
    "resume",
    "run",
    "run_sync",
    "run_with_handoffs",
    "start",
]

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), {"replay_run": "Replay"})
