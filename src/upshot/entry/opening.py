"""Opening: what a run needs is opened before it begins and closed after its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from ..contract import (
    Agent,
    AgentResult,
    AgentSpec,
    AnyAnswer,
    Journal,
    Json,
    Message,
    Origin,
    Request,
    RunWarning,
)
from ..errors import Misuse
from ..journal import open_journal
from ..runs import (
    Child,
    LiveRun,
    OutputType,
    Plan,
    ResumeOptions,
    RunOptions,
    Sitting,
    Where,
    current_run,
)
from .answering import check_answers
from .arguments import check_options
from .planning import plan_again, plan_run, read_on, read_past, to_agent

__all__ = ["begin", "go_on"]


@asynccontextmanager
async def begin(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    *,
    watch: bool,
    child: Child,
    handed: Sequence[Message] = (),
) -> AsyncGenerator[LiveRun[Any]]:
    """Open what a new run needs, begin it, and close it all after its end.

    Args:
        agent: Who works on it.
        request: What is asked.
        options: Of the call.
        watch: Whether events are kept for a reader.
        child: Starts a run inside this one.
        handed: Messages that come after the request, from who handed it over.
    """
    check_options(options)
    async with AsyncExitStack() as stack:
        journal = await _open(options, stack)
        plan = await plan_run(agent, request, options, journal, child=child, handed=handed)
        if journal is None:
            epoch = None
        else:
            await _refuse_known(plan, journal)
            epoch = await journal.claim(plan.run_id)
        yield LiveRun(Sitting(plan, epoch=epoch), watch=watch)


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
    check_options({**options})
    to_agent(agent, options.get("engine"))
    async with open_journal(journal, create=False) as opened:
        past = await read_past(run_id, opened)
        if not past.ended:
            check_answers(answers, past)
            plan = await plan_again(past, run_id, agent, {**options}, opened, child=child)
            epoch = await opened.claim(run_id)
            # Who had the run until now may have gone on with it meanwhile.
            await read_on(past, run_id, opened)
            if not past.ended:
                sitting = Sitting(plan, past=past, answers=tuple(answers), epoch=epoch)
                yield LiveRun(sitting, watch=watch)
                return
        if past.result is not None:
            yield _typed(past.result, to_agent(agent, options.get("engine")))


async def _open(options: RunOptions, stack: AsyncExitStack) -> Journal | None:
    where = options.get("journal")
    parent = current_run.get()
    if where is None and parent is not None:
        # A journal belongs to one event loop; a run in another one opens its file again.
        is_here = parent.loop is asyncio.get_running_loop()
        where = parent.journal if is_here else getattr(parent.journal, "path", None)
    return None if where is None else await stack.enter_async_context(open_journal(where))


async def _refuse_known(plan: Plan, journal: Journal) -> None:
    """Refuse an id that the caller chose and the journal has; a new one is random."""
    if plan.request.run_id or plan.resume_from is not None:
        async for _ in journal.events(plan.run_id):
            raise Misuse(f"the journal has a run {plan.run_id!r} already: go on with resume(...)")


def _typed(result: AgentResult[Json], agent: Agent[Any]) -> AgentResult[Any]:
    """*result*, read from JSON, with its output as the type that *agent* asks for."""
    if not result.success:
        return result
    try:
        output = OutputType.of(agent.output_type).build(result.output)
    except ValueError as error:
        message = f"agent {agent.id!r} has another output type than the run had: {error}"
        warning = RunWarning(code="agent_changed", message=message, origin=Origin.CALLER)
        return msgspec.structs.replace(result, warnings=(*result.warnings, warning))
    return msgspec.structs.replace(result, output=output)
