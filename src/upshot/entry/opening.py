"""Opening: what a run needs is opened before it begins and closed after its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ..contract import Agent, AgentResult, AgentSpec, AnyAnswer, Journal, Json, Request
from ..journal import open_journal
from ..runs import (
    Child,
    LiveRun,
    Past,
    Plan,
    ResumeOptions,
    RunOptions,
    Sitting,
    Where,
    current_run,
)
from .planning import plan_again, plan_run, read_past

__all__ = ["begin", "go_on"]


@asynccontextmanager
async def begin(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    *,
    watch: bool,
    child: Child,
) -> AsyncGenerator[LiveRun[Any]]:
    """Open what a new run needs, begin it, and close it all after its end.

    Args:
        agent: Who works on it.
        request: What is asked.
        options: Of the call.
        watch: Whether events are kept for a reader.
        child: Starts a run inside this one.
    """
    async with AsyncExitStack() as stack:
        journal = await _open(options, stack)
        plan = await plan_run(agent, request, options, journal, child=child)
        yield await stack.enter_async_context(_sit(plan, None, (), watch=watch))


@asynccontextmanager
async def go_on(
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    journal: Where,
    answers: Sequence[AnyAnswer],
    options: ResumeOptions,
    *,
    watch: bool,
    child: Child,
) -> AsyncGenerator[LiveRun[Any] | AgentResult[Json]]:
    """Read a run's log and go on with it.

    Yields:
        The run in flight; its result where it has ended.
    """
    async with open_journal(journal) as opened:
        past = await read_past(run_id, opened)
        if past.ended and past.result is not None:
            yield past.result
            return
        plan = await plan_again(past, run_id, agent, {**options}, opened, child=child)
        async with _sit(plan, past, tuple(answers), watch=watch) as live:
            yield live


@asynccontextmanager
async def _sit(
    plan: Plan, past: Past | None, answers: tuple[AnyAnswer, ...], *, watch: bool
) -> AsyncGenerator[LiveRun[Any]]:
    epoch = None if plan.journal is None else await plan.journal.claim(plan.run_id)
    yield LiveRun(Sitting(plan, past=past, answers=answers, epoch=epoch), watch=watch)


async def _open(options: RunOptions, stack: AsyncExitStack) -> Journal | None:
    where = options.get("journal")
    if where is not None:
        return await stack.enter_async_context(open_journal(where))
    parent = current_run.get()
    return parent.journal if parent is not None else None
