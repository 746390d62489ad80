"""The doors to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .doors import fork, reopen, replay, resume, run, run_sync, run_with_handoffs, start

if TYPE_CHECKING:
    from .replaying import Replay

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

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), {"replaying": "Replay"})
