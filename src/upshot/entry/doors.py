"""The doors to a run: ``run``, ``run_sync``, ``start``, ``resume``, ``fork`` and ``replay``.

They resolve names, open the log and call the lifecycle; nothing below imports them. What
they need is loaded at the first run, so that importing them costs next to nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Any, Unpack

    from typing_extensions import TypeVar

    from ..contract import Agent, AgentResult, AgentSpec, AnyAnswer, Request
    from ..runs import LiveRun, ResumeOptions, RunOptions, Where
    from .replaying import Replay

    T = TypeVar("T", default=str)

__all__ = ["fork", "reopen", "replay", "resume", "run", "run_sync", "run_with_handoffs", "start"]


@cache
def _way_in():  # what it gives has types of its own
    """What begins a run; looked for once, for an import costs a good part of a short run."""
    from .opening import run_child, run_whole

    return run_whole, run_child


async def run(
    agent: Agent[T] | AgentSpec, request: Request | str, **options: Unpack[RunOptions]
) -> AgentResult[T]:
    """Have *agent* work on *request* until there is a result.

    Args:
        agent: Who works on it; a spec's names are found in the options ``tools`` and ``engine``.
        request: What is asked.
        options: See ``RunOptions``.

    Returns:
        What came of it; everything that a model, a tool, a provider, a person or a limit
        does is in it, and none of that is raised. To whom it was handed over is its
        ``handoff``, which the caller follows, or ``run_with_handoffs`` does.

    Raises:
        Misuse: An argument is wrong; nothing was begun.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """
    run_whole, run_child = _way_in()
    return await run_whole(agent, request, options, child=run_child)


def run_sync(
    agent: Agent[T] | AgentSpec, request: Request | str, **options: Unpack[RunOptions]
) -> AgentResult[T]:
    """The same as ``run``, outside an event loop.

    Work that ignores its cancellation is left behind at the end and named in a warning.

    Args:
        agent: Who works on it, as for ``run``.
        request: What is asked.
        options: See ``RunOptions``.

    Returns:
        What came of it, as of ``run``.

    Raises:
        Misuse: An argument is wrong, or an event loop is running: await ``run`` there.
        JournalError: The journal cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed; the run was finalised first.
    """
    from ..models import aclose_transports
    from ..runs import run_in_own_loop

    return run_in_own_loop(lambda: run(agent, request, **options), closing=aclose_transports)


def start(
    agent: Agent[T] | AgentSpec, request: Request | str, **options: Unpack[RunOptions]
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Begin a run and watch it: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end.

    Args:
        agent: Who works on it, as for ``run``.
        request: What is asked.
        options: See ``RunOptions``.

    Returns:
        An async context manager of the run in flight; ``await live.result()`` gives what comes
        of it. Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong, nothing was begun; or it is used otherwise than entered.
        JournalError: The journal cannot be opened.
    """
    from ..block import Block
    from .opening import started

    return Block(started(agent, request, options), call="upshot.start(...)", name="live")


@overload
async def resume(
    run_id: str,
    agent: Agent[T] | AgentSpec,
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    **options: Unpack[ResumeOptions],
) -> AgentResult[T]: ...
@overload
async def resume(
    run_id: str,
    agent: Sequence[Agent[Any]],
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    **options: Unpack[ResumeOptions],
) -> AgentResult[Any]: ...
async def resume(
    run_id: str,
    agent: Agent[Any] | AgentSpec | Sequence[Agent[Any]],
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    **options: Unpack[ResumeOptions],
) -> AgentResult[Any]:
    """Go on with a run that is parked, or whose process died.

    Finished calls are not made again. A run that has ended gives its result, and nothing
    is written. A run that another living process on this machine works on is left to it, and so
    are answers for one that this process works on; without answers, the latest to go on has it.

    Args:
        run_id: The run.
        agent: Who worked on it; a change since then is told as a warning. For a run of
            ``run_with_handoffs`` the same agents as there: from whichever of its runs, it goes on
            until somebody answers. With one agent alone, a hand-off to one that it does not hold
            in ``handoffs`` is not followed, which a warning tells.
        journal: Where its log is.
        answers: What people answered, for runs inside it too; the others stay pending. An id that
            several runs use is ``<run_id>/<id>``.
        take_over: Take the run also from who works on it, in this process or in another living
            one, which then fails at its next write to the log; what it does until then is done
            twice.
        options: See ``ResumeOptions``; attributes, artifacts, budget and max_attempts are taken
            from the log where they are not given.

    Returns:
        What came of the whole run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """
    from .opening import run_child
    from .relay import resume_any

    return await resume_any(
        run_id, agent, journal, answers, options, child=run_child, take_over=take_over
    )


def reopen(
    run_id: str,
    agent: Agent[T] | AgentSpec,
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    **options: Unpack[ResumeOptions],
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Like ``resume``, but watched like ``start``.

    Args:
        run_id: A run that is parked, or whose process died.
        agent: Who works on it, as for ``resume``.
        journal: Where its log is: a path or an open journal.
        answers: What people answered.
        take_over: Take the run also from who works on it, as for ``resume``.
        options: See ``ResumeOptions``.

    Returns:
        An async context manager of the run in flight.

    Raises:
        Misuse: There is no such run, it has ended, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """
    from ..block import Block
    from .opening import reopened

    going = reopened(run_id, agent, journal, answers, options, take_over=take_over)
    return Block(going, call="upshot.reopen(...)", name="live")


async def fork(run_id: str, *, at: int, journal: Where) -> str:
    """Begin a new run where another one stood; the other stays as it is.

    The new run has the events of the other up to *at*, its artifacts under ids of their own,
    what people answered and allowed until then, and what it had used. Go on with it by
    ``resume``; what waits there for people can be answered otherwise. Runs inside it that had
    ended by then are shared; others are run anew.

    Args:
        run_id: The other run.
        at: The last event to keep, its ``seq``, from 1.
        journal: Where its log is, and where that of the new run goes.

    Returns:
        The id of the new run.

    Raises:
        Misuse: There is no such run or event, or the run has ended there.
        JournalError: The journal cannot be opened, read or written.
    """
    from .forking import fork_run

    return await fork_run(run_id, at=at, journal=journal)


async def replay(
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    *,
    journal: Where,
    **options: Unpack[ResumeOptions],
) -> Replay:
    """Run *agent* against what was recorded of a run, and say where it first does otherwise.

    Where it does the same, a tool that was called and has changed or is gone is a difference too,
    and so is what the agent itself would have asked its model with.

    Nothing outside is touched: replies of models, outcomes of tools, answers of people, keyed
    steps and runs inside it come from the record, and what is not there is not done. Neither
    observers, committers, approvers nor the host are called, and nothing is written; deciders,
    instructions and the engine are what is tried.

    Args:
        run_id: A run, ended or not.
        agent: Who worked on it, or who shall be compared.
        journal: Where its log is.
        options: See ``ResumeOptions``; those that belong to the world outside do nothing.

    Returns:
        The first difference, None where there is none, and what the replayed run ended with.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read.
    """
    from .replaying import replay_run

    return await replay_run(run_id, agent, journal=journal, options=options)


async def run_with_handoffs(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    *,
    start: Agent[Any] | str | None = None,
    max_depth: float = 8,
    **options: Unpack[RunOptions],
) -> AgentResult[Any]:
    """Run agents on *request*, each until it hands over, the last until it answers.

    A receiver gets the request, the note and, unless its Handoff says ``history=False``, the
    messages so far. Each is a run of its own; tokens, money and time of a budget among the
    options are those of all.

    Args:
        agents: Those that may work on it; agents that are themselves items of ``handoffs``
            need not be listed.
        request: What is asked; only the first run takes its run_id.
        start: Who begins, by id or itself; None is the first of *agents*.
        max_depth: How often it may be handed over.
        options: As for ``run``; they hold for every agent.

    Returns:
        The result of the last agent, with usage and cost of all, and their ids in order as
        ``state["path"]``. Handed over too often, or to one that had it before: failed,
        budget_exceeded.

    Raises:
        Misuse: An argument is wrong, or a hand-off leads to an agent that is not known.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """
    from .opening import run_child
    from .relay import relay

    going = relay(agents, request, options, start=start, max_depth=max_depth, child=run_child)
    return await going
