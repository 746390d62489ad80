"""The API: ``run``, ``start``, ``resume``, ``answer``, ``fork``, ``replay``, and their variants.

They resolve names, open the log and start a session; no lower layer imports them. They import
what they need at the first run, so importing this module costs next to nothing.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import warnings
from collections.abc import Callable, Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from upshot.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from typing import Any, Unpack

    from typing_extensions import TypeVar

    from upshot.contract.agent import Agent
    from upshot.contract.agent_spec import AgentSpec
    from upshot.contract.base.structs import Json
    from upshot.contract.model_calls import Request
    from upshot.contract.pending import AnyAnswer, Outdated, Taken
    from upshot.contract.protocols import RunFilters
    from upshot.contract.result import AgentResult
    from upshot.entry.handoff_loop import LiveHandoffs
    from upshot.entry.replay_run import Replay
    from upshot.entry.run_handle import RunHandle
    from upshot.journal.shared import InboxItem
    from upshot.runs.live_run import LiveRun
    from upshot.runs.plan import ResumeOptions, RunOptions, Where
    from upshot.runs.session import Session

    T = TypeVar("T", default=str)
    Deps = TypeVar("Deps", default=Any)


@cache
def _run_whole():  # its return type is inferred
    """Return ``run_whole``. Cached, because its import is slow compared with a short run."""
    from upshot.entry.session_setup import run_whole

    return run_whole


async def run(
    agent: Agent[T, Deps] | AgentSpec, request: Request | str, **options: Unpack[RunOptions[Deps]]
) -> AgentResult[T]:
    """Run *agent* on *request* until there is a result.

    Args:
        agent: The agent. The names in a spec are looked up in the options ``tools`` and ``engine``.
        request: The user's request.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            conversation, deciders, dependencies, engine, gates, history, host, if_waiting, journal,
            max_attempts, model, observers, on_pre_tool_use, pacer, parent_run_id, policy, prepare,
            prices, priority, quotas, remember, resume_from, retry, secrets, settings, tools,
            write_grace_s. ``help(upshot.RunOptions)`` describes each.

    Returns:
        The result. Whatever a model, a tool, a provider, the user or a limit does is in it; none of
        that is raised. If the agent handed over, ``handoff`` names the next agent: follow it
        yourself, or use ``run_with_handoffs``.

    Raises:
        Misuse: An argument is wrong; nothing was started.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """
    return await _run_whole()(agent, request, options)


def run_sync(
    agent: Agent[T, Deps] | AgentSpec, request: Request | str, **options: Unpack[RunOptions[Deps]]
) -> AgentResult[T]:
    """Like ``run``, for use outside an event loop.

    Tasks that ignore their cancellation are left behind at the end and named in a warning.

    Args:
        agent: The agent, as for ``run``.
        request: The user's request.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            conversation, deciders, dependencies, engine, gates, history, host, if_waiting, journal,
            max_attempts, model, observers, on_pre_tool_use, pacer, parent_run_id, policy, prepare,
            prices, priority, quotas, remember, resume_from, retry, secrets, settings, tools,
            write_grace_s. ``help(upshot.RunOptions)`` describes each.

    Returns:
        The result, as for ``run``.

    Raises:
        Misuse: An argument is wrong, or an event loop is running: await ``run`` there.
        JournalError: The journal cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed. The run is stopped and finalised first: it gets 2 s,
            or ``write_grace_s`` if a write is in progress. A second Ctrl-C cuts that short.
    """
    run_whole = _run_whole()
    sessions: list[Session] = []

    def ask_to_stop() -> bool:
        from upshot.contract.base.enums import InterruptCause
        from upshot.contract.run_control import Interrupt

        for session in sessions:
            session.interrupt(Interrupt(InterruptCause.USER_CANCEL, "Ctrl-C"))
        return bool(sessions)

    return run_in_own_loop(
        lambda: run_whole(agent, request, options, opened=sessions.append), ask_to_stop
    )


def start(
    agent: Agent[T, Deps] | AgentSpec, request: Request | str, **options: Unpack[RunOptions[Deps]]
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Start a run and watch it: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end.

    Args:
        agent: The agent, as for ``run``.
        request: The user's request.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            conversation, deciders, dependencies, engine, gates, history, host, if_waiting, journal,
            max_attempts, model, observers, on_pre_tool_use, pacer, parent_run_id, policy, prepare,
            prices, priority, quotas, remember, resume_from, retry, secrets, settings, tools,
            write_grace_s. ``help(upshot.RunOptions)`` describes each.

    Returns:
        An async context manager of the live run; ``await live.result()`` returns its result.
        Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong and nothing was started, or the context manager was not
            entered.
        JournalError: The journal cannot be opened.
    """
    from upshot.async_context import Block
    from upshot.entry.session_setup import started

    return Block(started(agent, request, options), call="upshot.start(...)", name="live")


async def answer(
    run_id: str, answers: Sequence[AnyAnswer], *, journal: Where, secrets: Iterable[str] = ()
) -> tuple[Taken | Outdated, ...]:
    """Answer what a parked run waits for, without resuming it; the next session reads the answers.

    Any process may answer. The first answer to a question wins.

    Args:
        run_id: The parked run.
        answers: The answers, for its child runs too. An answer to a call carries the digest of what
            was shown, as the ``approve()``, ``deny()`` and ``edit()`` of an item of ``pending``
            return it.
        journal: The journal that has its log.
        secrets: The secrets of the run. They are masked in the answers: by marks in the journal,
            by ``***`` in the audit. Without them the journal stores the answers unchanged, and
            the audit has ``***`` for everything that was typed.

    Returns:
        For each answer, whether it was accepted or came too late, and if so the earlier answer.
        Repeating the same answer as the same person counts as accepted.

    Raises:
        Misuse: There is no such run, it does not wait for such an answer, or an answer has no
            digest.
        JournalError: The journal cannot be read or written, or the run is being worked on.
    """
    from upshot.entry.answers import answer_run

    return await answer_run(run_id, answers, journal=journal, secrets=secrets)


async def inbox(
    *,
    journal: Where,
    limit: int | None = 20,
    before: str = "",
    agent: str = "",
    conversation: str = "",
    tool: str = "",
    owner: str = "",
    tenant: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[InboxItem, ...]:
    """Return the unanswered questions of a journal's runs, the longest waiting first.

    Args:
        journal: The journal that has the logs.
        limit: The items of at most this many runs, from 1; None returns all.
        before: Only runs after this one: the run id of the last item on the previous page.
        agent: Only runs of this agent; "" for all.
        conversation: Only runs of this conversation; "" for all.
        tool: Only calls of this tool; "" for all items.
        owner: Only runs of this user (of *tenant*, or of no tenant); "" for all.
        tenant: Only runs of this tenant; "" for all.
        since: Only items asked at or after this moment, with a time zone; None for all.
        until: Only items asked before it; None for all.

    Returns:
        The items, grouped by run; ``answer(item.run_id, ...)`` answers one.

    Raises:
        Misuse: *limit* is not a positive whole number, a moment has no time zone, or there is no
            run *before*.
        JournalError: The journal cannot be opened.
    """
    from upshot.journal.opening import open_journal
    from upshot.journal.shared import needs_shared

    async with open_journal(journal, create=False) as opened:
        return await needs_shared(opened).inbox(
            limit=limit,
            before=before,
            agent=agent,
            conversation=conversation,
            tool=tool,
            owner=owner,
            tenant=tenant,
            since=since,
            until=until,
        )


async def note(run_id: str, name: str, value: Json, *, by: str = "", journal: Where) -> None:
    """Attach a note to a run, such as a thumb or a label. It is stored beside the log.

    The note is exported and removed with the run; a fork does not have it.

    Args:
        run_id: The run, in any state.
        name: The name of the note, at most 100 characters. A later note by the same person with
            the same name replaces it.
        value: JSON of at most 10,000 bytes; None removes the note.
        by: The person who makes the note.
        journal: The journal that has the run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or written.
    """
    from upshot.entry.annotations import keep_note

    await keep_note(run_id, name, value, by=by, journal=journal)


async def broadcast(
    name: str,
    value: Json = None,
    *,
    journal: Where,
    key: str = "",
    by: str = "",
    **filters: Unpack[RunFilters],
) -> list[str]:
    """Send a signal to every run of a journal that has not ended; see ``RunHandle.signal``.

    Repeat an interrupted broadcast with the same *key*: no run gets the signal twice.

    Args:
        name: The name of the signal.
        value: What ``host.wait_signal(name)`` returns.
        journal: The journal that has the runs.
        key: Identifies the signal; "" for none.
        by: Who sends it, "" if unknown.
        filters: Which runs; see ``RunFilters``, for example ``agent_id="support"``.

    Returns:
        The ids of the runs that have the signal.

    Raises:
        Misuse: The name or a filter is not allowed, or JSON cannot express the value.
        JournalError: The journal cannot be read or written.
    """
    from upshot.entry.run_handle import broadcast_signal
    from upshot.journal.opening import open_journal

    async with open_journal(journal, create=False) as opened:
        return await broadcast_signal(name, value, journal=opened, key=key, by=by, **filters)


def attach(run_id: str, *, journal: Where) -> AbstractAsyncContextManager[RunHandle]:
    """Watch and answer a run, whichever process works on it.

    ::

        async with upshot.attach(run_id, journal="runs.db") as run:
            async for event in run.events(until="parked"):
                ...
            result = await run.result()

    Args:
        run_id: A run of the journal.
        journal: The journal that has its log.

    Returns:
        An async context manager of the run's handle. Leaving it does not affect the run.

    Raises:
        Misuse: There is no such run.
        JournalError: The journal cannot be opened or read.
    """
    from upshot.async_context import Block
    from upshot.entry.run_handle import attached

    return Block(attached(run_id, journal), call="upshot.attach(...)", name="run")


@overload
async def resume(
    run_id: str,
    agent: Agent[T, Deps] | AgentSpec,
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    **options: Unpack[ResumeOptions[Deps]],
) -> AgentResult[T]: ...
@overload
async def resume(
    run_id: str,
    agent: Sequence[Agent[Any]],
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    **options: Unpack[ResumeOptions],
) -> AgentResult[Any]: ...
async def resume(
    run_id: str,
    agent: Agent[Any] | AgentSpec | Sequence[Agent[Any]],
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    **options: Unpack[ResumeOptions],
) -> AgentResult[Any]:
    """Continue a run that is parked, or whose process died.

    Finished calls are not repeated. If the run has ended, its result is returned and nothing is
    written. If this event loop is working on the run, its result is awaited: the run keeps its own
    agent and options, and a cancel ends only the waiting. Answers to such a run are refused. A run
    that another event loop or another living process on this machine works on is left alone.

    Args:
        run_id: The run.
        agent: The agent of the run; a warning says if it has changed since. For a run of
            ``run_with_handoffs``, give the same agents as there: any of its runs can be resumed,
            and the chain continues until an agent answers. If you give one agent only, a handoff to
            an agent outside its ``handoffs`` is not followed, and a warning says so.
        journal: The journal that has its log.
        answers: The user's answers, for its child runs too; unanswered questions stay pending.
            Write an id that several runs use as ``<run_id>/<id>``.
        take_over: Claim the run even if a session works on it, in this process or in another living
            one. That session fails at its next write to the log; what it does until then is done
            twice.
        continue_stopped: Also continue a run that was interrupted or canceled, and what was stopped
            inside it: interrupted calls have their outcomes, and a reply that was cut off is
            followed by a message that asks for the rest.
        options: As in ``reopen``. The log supplies attributes, artifacts, budget and max_attempts
            if you leave them out.

    Returns:
        The result of the whole run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """
    from upshot.entry.handoff_loop import resume_any

    more: Any = {"take_over": take_over, "continue_stopped": continue_stopped}
    return await resume_any(run_id, agent, journal, answers, options, **more)


def reopen(
    run_id: str,
    agent: Agent[T, Deps] | AgentSpec,
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    **options: Unpack[ResumeOptions[Deps]],
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Like ``resume``, but watched like ``start``.

    If this event loop is working on the run, you become one more reader of its events, from now
    on; leaving the block does not affect that run.

    Args:
        run_id: A run that is parked, or whose process died.
        agent: The agent, as for ``resume``.
        journal: The journal that has its log: a path or an open journal.
        answers: The user's answers.
        take_over: Claim the run even if a session works on it, as for ``resume``.
        continue_stopped: Also continue a run that was stopped, as for ``resume``.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            deciders, dependencies, engine, gates, history, host, max_attempts, model, observers,
            on_pre_tool_use, pacer, parent_run_id, policy, prepare, prices, priority, quotas,
            resume_from, retry, secrets, settings, tools, write_grace_s.
            ``help(upshot.ResumeOptions)`` describes each.

    Returns:
        An async context manager of the live run.

    Raises:
        Misuse: There is no such run, it has ended, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """
    from upshot.async_context import Block
    from upshot.entry.session_setup import reopened

    more: Any = {"take_over": take_over, "continue_stopped": continue_stopped}
    going = reopened(run_id, agent, journal, answers, options, **more)
    return Block(going, call="upshot.reopen(...)", name="live")


async def cancel(run_id: str, *, journal: Where) -> AgentResult[Any]:
    """Cancel a run that waits, has not started, or whose process died; its agent is not needed.

    If a process works on the run, that process ends it. The result says what was in progress when
    a process died; the effect of a call that may write is then unknown. A canceled turn no longer
    blocks its conversation.

    Args:
        run_id: The run.
        journal: The journal that has its log: a path or an open journal.

    Returns:
        Its result, canceled.

    Raises:
        Misuse: There is no such run, or it has ended.
        JournalError: The journal cannot be opened or read, or a live process works on the run and
            has not ended it within 10 s. The request stays in force.
    """
    from upshot.entry.session_setup import canceled

    return await canceled(run_id, journal)


async def fork(
    run_id: str, *, at: int, journal: Where, conversation: str = "", ask_writes: bool = False
) -> str:
    """Start a new run from a point of another one, which stays as it is.

    The new run has the events of the other up to *at*, copies of its artifacts under new ids, the
    answers to questions given by then, and the usage up to then. Continue it with ``resume``; what
    waits there for an answer can be answered differently. It shares child runs that had ended by
    then; others run again.

    Approvals are for the other run: a call that the new run makes and that needs an approval is
    asked about, even if a standing approval covered it there.

    Args:
        run_id: The run to fork.
        at: The last event to keep, by its ``seq``, from 1.
        journal: The journal that has its log, and stores the log of the new run.
        conversation: The conversation that the new run is a turn of; "" for none.
        ask_writes: Whether every call that may write needs an approval in the new run, since it may
            repeat what the other run did.

    Returns:
        The id of the new run.

    Raises:
        Misuse: There is no such run or event, the run has ended there, or a call was approved by
            then and had not started.
        JournalError: The journal cannot be opened, read or written.
    """
    from upshot.entry.resume import fork_run

    return await fork_run(
        run_id, at=at, journal=journal, conversation=conversation, ask_writes=ask_writes
    )


async def replay(
    run_id: str, agent: Agent[Any] | AgentSpec, *, journal: Where, **options: Unpack[ResumeOptions]
) -> Replay:
    """Run *agent* against the record of a run, and report the first difference.

    If the agent does the same, two things still count as differences: a tool that was called and
    has changed or is gone, and a model request that the agent itself would have made differently.

    Nothing outside is touched: replies of models, outcomes of tools, answers of the user, keyed
    steps and child runs come from the record, and what is not recorded does not happen. Observers,
    committers, approvers and the host are not called, and nothing is written; deciders,
    instructions and the engine do run.

    Args:
        run_id: A run, ended or not.
        agent: The agent of the run, or one to compare with it.
        journal: The journal that has its log.
        options: As in ``reopen``; those for the outside world have no effect.

    Returns:
        The first difference, or None if there is none, and the result of the replayed run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read.
    """
    from upshot.entry.replay_run import replay_run

    return await replay_run(run_id, agent, journal=journal, options=options)


async def run_with_handoffs(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    *,
    start: Agent[Any] | str | None = None,
    max_depth: float = 8,
    **options: Unpack[RunOptions],
) -> AgentResult[Any]:
    """Run agents on *request*: each works until it hands over, the last one until it answers.

    The next agent gets the request, the note and, unless the Handoff says ``history=False``, the
    messages so far. Each agent has a run of its own; a budget among the options limits the tokens,
    money and time of all of them together.

    Args:
        agents: The agents that may work on the request. You need not list agents that are
            themselves items of ``handoffs``.
        request: The user's request; its run_id is used for the first run only.
        start: The agent that starts, or its id; None is the first of *agents*.
        max_depth: How often the request may be handed over.
        options: As for ``run``; they apply to every agent.

    Returns:
        The result of the last agent, with the usage and cost of all agents; ``state["path"]`` has
        their ids in order. If the request was handed over too often, or to an agent that had it
        before, the status is failed with code budget_exceeded.

    Raises:
        Misuse: An argument is wrong, or a handoff leads to an unknown agent.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """
    from upshot.entry.handoff_loop import relay

    chain = relay(agents, request, options, start=start, max_depth=max_depth)
    return await chain.run()


def start_with_handoffs(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    *,
    start: Agent[Any] | str | None = None,
    max_depth: float = 8,
    **options: Unpack[RunOptions],
) -> AbstractAsyncContextManager[LiveHandoffs]:
    """Like ``run_with_handoffs``, but watched like ``start``: the events of all runs, in order.

    Leaving the block early cancels the current run and waits for its end.

    Args:
        agents: The agents that may work on the request, as for ``run_with_handoffs``.
        request: The user's request.
        start: The agent that starts, or its id; None is the first of *agents*.
        max_depth: How often the request may be handed over.
        options: As for ``run``; they apply to every agent.

    Returns:
        An async context manager of the runs; ``await live.result()`` returns what
        ``run_with_handoffs`` returns. Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong; nothing was started.
        JournalError: The journal cannot be opened.
    """
    from upshot.async_context import Block
    from upshot.entry.handoff_loop import relay, watched

    chain = relay(agents, request, options, start=start, max_depth=max_depth)
    return Block(watched(chain), call="upshot.start_with_handoffs(...)", name="live")


_CLOSE_S = 2.0


def run_in_own_loop(
    work: Callable[[], Coroutine[Any, Any, T]], ask_to_stop: Callable[[], bool] | None = None
) -> T:
    """Run *work* in a new event loop; then close the loop and its open connections.

    ``asyncio.run`` waits without limit for tasks that ignore their cancellation; here they get
    ``_CLOSE_S`` and are then left behind, named in a RuntimeWarning. The first Ctrl-C stops the
    work so that it can finalise; the second is raised wherever the program is.

    Args:
        work: Makes the coroutine to run.
        ask_to_stop: Asks the work to stop at Ctrl-C; if it returns False, the work is cancelled.

    Raises:
        Misuse: An event loop is running in this thread.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise Misuse("run_sync cannot be used inside an event loop: await run(...) there")
    loop = asyncio.new_event_loop()
    keys = _CtrlC(loop)
    try:
        task = loop.create_task(work())
        keys.watch(task, ask_to_stop)
        result = loop.run_until_complete(task)
    except asyncio.CancelledError:
        if keys.pressed:
            raise KeyboardInterrupt from None
        raise
    else:
        if keys.pressed and ask_to_stop is not None:
            raise KeyboardInterrupt
        return result
    finally:
        keys.close()
        _close(loop)


class _CtrlC:
    """Handles Ctrl-C for a loop, unless the user has a handler.

    Attributes:
        pressed: Whether it was pressed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pressed = self._is_ours = False
        self._loop = loop

    def watch(self, task: asyncio.Task[Any], ask_to_stop: Callable[[], bool] | None) -> None:
        """Stop *task* at Ctrl-C from now on."""

        def stop() -> None:
            if ask_to_stop is None or not ask_to_stop():
                task.cancel()

        def press(_number: int, _frame: object) -> None:
            if self.pressed:
                # Raise here: code that does not await may block the loop.
                raise KeyboardInterrupt
            self.pressed = True
            self._loop.call_soon_threadsafe(stop)

        if threading.current_thread() is threading.main_thread():
            self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, press)

    def close(self) -> None:
        """Restore the default Ctrl-C handler."""
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_S))
        stuck = [
            str(getattr(task.get_coro(), "__qualname__", task)) for task in left if not task.done()
        ]
        if stuck:
            message = f"left behind, since they ignore their cancellation: {', '.join(stuck)}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
    # A transport keeps its connections in a generator, which closes them.
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
