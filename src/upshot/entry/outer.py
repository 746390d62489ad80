"""Outer: what has become of the run that a run was started in."""

from __future__ import annotations

from ..contract import Journal, Origin, RunWarning
from ..runs import Past
from .history import read_on

__all__ = ["left_behind"]


async def left_behind(past: Past, run_id: str, journal: Journal) -> tuple[RunWarning, ...]:
    """The warning that a run goes on for nobody: one round it has ended while it was open.

    Args:
        past: What the log of the run says.
        run_id: Which run.
        journal: Where its log is, and those of the runs round it.

    Returns:
        One warning, or none: of a run that the engine of another one has started and that
        this one waits for, or that has none round it.
    """
    inner, inner_id = past, run_id
    while inner.started is not None and inner.started.parent_run_id:
        outer, outer_id = Past(), inner.started.parent_run_id
        await read_on(outer, outer_id, journal)
        if inner_id not in outer.children:
            # Somebody named it for the parent, or its log is elsewhere.
            return ()
        if outer.ended:
            message = (
                f"run {run_id} goes on, but run {outer_id}, inside which it was started, has "
                "ended: what comes of it reaches nobody there"
            )
            return (RunWarning(code="outer_run_ended", message=message, origin=Origin.CALLER),)
        inner, inner_id = outer, outer_id
    return ()
