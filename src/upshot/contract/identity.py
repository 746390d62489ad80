"""RunInfo: which run this is, typed so that attributes cannot forge it."""

from __future__ import annotations

from .value import Value

__all__ = ["RunInfo"]


class RunInfo(Value, frozen=True):
    """The identity of a run; the first argument of every hook.

    Attributes:
        agent_id: The agent that works on it.
        run_id: The run.
        task_id: The caller's task, "" if none.
        context_id: The conversation, "" if none.
    """

    agent_id: str = ""
    run_id: str = ""
    task_id: str = ""
    context_id: str = ""
