"""The longest task of a page, by what Chromium traced."""

from __future__ import annotations

import json
from typing import NamedTuple

__all__ = ["TRACED", "Task", "longest_task"]

TRACED = ["toplevel"]
"""What to trace for `longest_task`."""


class Task(NamedTuple):
    """The longest task of a page's main thread.

    Attributes:
        took_ms: Its time by the clock; other work of the machine is part of it.
        cpu_ms: The longest CPU time of one task.
    """

    took_ms: float
    cpu_ms: float


def longest_task(trace: bytes) -> Task:
    """Return the longest task of the main thread that a page's trace has."""
    events = json.loads(trace)["traceEvents"]
    main = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        one
        for one in events
        if (one["pid"], one["tid"]) in main and one["name"] == "ThreadControllerImpl::RunTask"
    ]
    assert tasks, "the trace has no tasks of a page"
    took, cpu = (max(one.get(key, 0) for one in tasks) for key in ("dur", "tdur"))
    return Task(took / 1_000, cpu / 1_000)
