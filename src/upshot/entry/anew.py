"""Anew: a run that a script begins by ``run`` is not found again when the script goes on.

Whoever the script calls may begin runs too, such as a decider or a model of somebody's own, and is
not called again where the log has what came of it. So the first that asks an agent something need
not be the first that asked it before: only who calls ``run.child`` says that it is.
"""

from __future__ import annotations

import asyncio

from ..contract import Agent, AgentSpec, Journal, Origin, Request, RunStarted, RunWarning, Warned
from ..runs import Parent
from ..tools.case import running_case

__all__ = ["warn_of_anew"]


async def warn_of_anew(
    outer: Parent, agent: Agent[object] | AgentSpec, request: Request | str
) -> None:
    """Tell the run round a new one that it asks for what an earlier sitting had asked for.

    Args:
        outer: The run in which it is begun.
        agent: Who is asked.
        request: What it is asked, in a run without an id.
    """
    begun, journal = outer.box.begun, outer.journal
    is_named = isinstance(request, Request) and bool(request.run_id)
    if not begun or journal is None or is_named or outer.is_hooks:
        return
    if outer.loop is not asyncio.get_running_loop() or running_case.get() is not None:
        # What the body of a call did is handed back with its outcome, or has to be done again.
        return
    asked = request if isinstance(request, Request) else Request(request)
    for run_id in sorted(begun):
        started = await _started(run_id, journal)
        if started is None or started.request != asked or started.agent.id != agent.id:
            # One with a key has the id in its request.
            continue
        outer.box.told_of(run_id)
        message = (
            f"the script goes on, and asks agent {agent.id!r} by run(...) what run {run_id} was "
            "asked before: it is asked anew. Use run.child(...), which finds that run again"
        )
        warning = RunWarning(code="run_begun_anew", message=message, origin=Origin.ENGINE)
        outer.tell(Warned(warning=warning))
        return


async def _started(run_id: str, journal: Journal) -> RunStarted | None:
    async for event in journal.events(run_id):
        return event if isinstance(event, RunStarted) else None
    return None
