"""The API: ``run``, ``start``, ``resume``, ``answer``, ``fork``, ``replay``, and their variants.

They resolve names, open the log and start a session; nothing below imports them. What
they need is loaded at the first run, so that importing them costs next to nothing.
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
    from typing import Any, Unpack

    from typing_extensions import TypeVar

    from upshot.contract.agent import Agent
    from upshot.contract.agent_spec import AgentSpec
    from upshot.contract.base.structs import Json
    from upshot.contract.model_calls import Request
    from upshot.contract.pending import AnyAnswer, Outdated, Taken
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
def _run_functions():  # what it gives has types of its own
    """The functions that begin a run; an import for each would be a good part of a short run."""
    from upshot.entry.session_setup import run_child, run_whole

    return run_whole, run_child


async def run(
    agent: Agent[T, Deps] | AgentSpec, request: Request | str, **options: Unpack[RunOptions[Deps]]
) -> AgentResult[T]:
    """Run *agent* on *request* until there is a result.

    Args:
        agent: The agent; the names in a spec are found in the options ``tools`` and ``engine``.
        request: What is asked.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            conversation, deciders, dependencies, engine, gates, history, host, if_waiting, journal,
            max_attempts, model, observers, on_pre_tool_use, pacer, parent_run_id, policy, prepare,
            prices, priority, quotas, remember, resume_from, retry, secrets, settings, tools,
            write_grace_s. ``help(upshot.RunOptions)`` tells of each.

    Returns:
        The result. Everything that a model, a tool, a provider, the user or a limit does is in
        it, and none of that is raised. If the agent handed over, ``handoff`` names the next one;
        the caller follows it, or ``run_with_handoffs`` does.

    Raises:
        Misuse: An argument is wrong; nothing was begun.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """
    run_whole, run_child = _run_functions()
    return await run_whole(agent, request, options, child=run_child)


def run_sync(
    agent: Agent[T, Deps] | AgentSpec, request: Request | str, **options: Unpack[RunOptions[Deps]]
) -> AgentResult[T]:
    """The same as ``run``, outside an event loop.

    Work that ignores its cancellation is left behind at the end and named in a warning.

    Args:
        agent: Who works on it, as for ``run``.
        request: What is asked.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            conversation, deciders, dependencies, engine, gates, history, host, if_waiting, journal,
            max_attempts, model, observers, on_pre_tool_use, pacer, parent_run_id, policy, prepare,
            prices, priority, quotas, remember, resume_from, retry, secrets, settings, tools,
            write_grace_s. ``help(upshot.RunOptions)`` tells of each.

    Returns:
        What came of it, as of ``run``.

    Raises:
        Misuse: An argument is wrong, or an event loop is running: await ``run`` there.
        JournalError: The journal cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed. The run is stopped and finalised first: what is under
            way has 2 s, a write ``write_grace_s``. A second Ctrl-C cuts that short.
    """
    run_whole, run_child = _run_functions()
    sessions: list[Session] = []

    def ask_to_stop() -> bool:
        from upshot.contract.base.enums import InterruptCause
        from upshot.contract.run_control import Interrupt

        for session in sessions:
            session.interrupt(Interrupt(InterruptCause.USER_CANCEL, "Ctrl-C"))
        return bool(sessions)

    return run_in_own_loop(
        lambda: run_whole(agent, request, options, child=run_child, opened=sessions.append),
        ask_to_stop,
    )


def start(
    agent: Agent[T, Deps] | AgentSpec, request: Request | str, **options: Unpack[RunOptions[Deps]]
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Begin a run and watch it: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end.

    Args:
        agent: Who works on it, as for ``run``.
        request: What is asked.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            conversation, deciders, dependencies, engine, gates, history, host, if_waiting, journal,
            max_attempts, model, observers, on_pre_tool_use, pacer, parent_run_id, policy, prepare,
            prices, priority, quotas, remember, resume_from, retry, secrets, settings, tools,
            write_grace_s. ``help(upshot.RunOptions)`` tells of each.

    Returns:
        An async context manager of the live run; ``await live.result()`` gives its result.
        Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong, nothing was begun; or it is used otherwise than entered.
        JournalError: The journal cannot be opened.
    """
    from upshot.async_context import Block
    from upshot.entry.session_setup import started

    return Block(started(agent, request, options), call="upshot.start(...)", name="live")


async def answer(
    run_id: str, answers: Sequence[AnyAnswer], *, journal: Where
) -> tuple[Taken | Outdated, ...]:
    """Answer what a parked run waits for, without going on with it: whoever does takes the answers.

    Any process may answer. Of several answers to a question the first one stands.

    Args:
        run_id: A run that is parked.
        answers: The answers, also for its child runs; those to calls have the digest of what was
            shown, as the ``approve()``, ``deny()`` and ``edit()`` of an item of ``pending`` give
            them.
        journal: Where its log is.

    Returns:
        For each answer whether it stands or came too late, and then what was answered before it.
        The same answer by the same person again stands.

    Raises:
        Misuse: There is no such run, it waits for nothing or for no such answer, or an answer has
            no digest.
        JournalError: The journal cannot be read or written, or the run is being worked on.
    """
    from upshot.entry.answers import answer_run

    return await answer_run(run_id, answers, journal=journal)


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
) -> tuple[InboxItem, ...]:
    """All that the runs of a journal wait for and nobody has answered, the longest wait first.

    Args:
        journal: Where the logs are.
        limit: The items of at most so many runs, from 1; None returns all.
        before: Only runs that come after this one: that of the last item of the previous page.
        agent: Only runs of this agent, "" for all.
        conversation: Only runs of this conversation, "" for all.
        tool: Only calls of this tool, "" for all items.
        owner: Only runs of this user of *tenant*, or of none; "" for all.
        tenant: Only runs of this tenant, "" for all.

    Returns:
        The items, those of a run together; ``answer(item.run_id, ...)`` answers one.

    Raises:
        Misuse: *limit* is not a positive whole number, or there is no run *before*.
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
        )


async def note(run_id: str, name: str, value: Json, *, by: str = "", journal: Where) -> None:
    """Note something of a run, such as a thumb or a label, beside its log.

    It is exported and removed with the run; a fork does not have it.

    Args:
        run_id: The run, in whichever state it is.
        name: What is noted, at most 100 characters. Another note of that name by the same person
            takes the place of this one.
        value: What is said of it: JSON of at most 10,000 bytes. None takes the note back.
        by: Who says so.
        journal: Where the run is.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or written.
    """
    from upshot.entry.notes import keep_note

    await keep_note(run_id, name, value, by=by, journal=journal)


def attach(run_id: str, *, journal: Where) -> AbstractAsyncContextManager[RunHandle]:
    """Watch and answer a run, whichever process works on it.

    ::

        async with upshot.attach(run_id, journal="runs.db") as run:
            async for event in run.events(until="parked"):
                ...
            result = await run.result()

    Args:
        run_id: A run of the journal.
        journal: Where its log is.

    Returns:
        An async context manager of its handle. Leaving it leaves the run alone.

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

    Finished calls are not made again. A run that has ended gives its result, and nothing
    is written. A run that is under way in this event loop is followed: its result is waited for,
    with its own agent and options; a cancel ends the waiting only. Answers to such a run are
    refused, and a run that another event loop or another living process on this machine works
    on is left to that.

    Args:
        run_id: The run.
        agent: The agent of the run; a warning says if it has changed since then. For a run of
            ``run_with_handoffs`` the same agents as there: from any of its runs, it goes on
            until an agent answers. With one agent alone, a hand-off to an agent that is not in
            its ``handoffs`` is not followed, and a warning says so.
        journal: Where its log is.
        answers: The user's answers, for its child runs too; the others stay pending. An id that
            several runs use is ``<run_id>/<id>``.
        take_over: Take the run also from a session that works on it, in this process or in
            another living one. That session fails at its next write to the log; what it does
            until then is done twice.
        continue_stopped: Go on also with a run that was interrupted or canceled, and with what was
            stopped inside it: calls that were cut off have their outcomes, and a reply that was cut
            off is followed by a message that asks for the rest.
        options: As in ``reopen``; attributes, artifacts, budget and max_attempts are taken
            from the log where they are not given.

    Returns:
        The result of the whole run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """
    from upshot.entry.handoff_loop import resume_any
    from upshot.entry.session_setup import run_child

    return await resume_any(
        run_id,
        agent,
        journal,
        answers,
        options,
        child=run_child,
        take_over=take_over,
        continue_stopped=continue_stopped,
    )


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

    Of a run that is under way in this event loop it shows the events from now on, beside its
    other readers; leaving the block leaves that run alone.

    Args:
        run_id: A run that is parked, or whose process died.
        agent: Who works on it, as for ``resume``.
        journal: Where its log is: a path or an open journal.
        answers: The user's answers.
        take_over: Take the run also from a session that works on it, as for ``resume``.
        continue_stopped: Go on also with a run that was stopped, as for ``resume``.
        options: Any of approve, artifact_store, artifacts, attributes, budget, clock, committers,
            deciders, dependencies, engine, gates, history, host, max_attempts, model, observers,
            on_pre_tool_use, pacer, parent_run_id, policy, prepare, prices, priority, quotas,
            resume_from, retry, secrets, settings, tools, write_grace_s.
            ``help(upshot.ResumeOptions)`` tells of each.

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
    """End a run that waits, was not begun, or whose process died, without its agent.

    A run that is worked on is ended by whoever works on it, in any process. What was under way when
    a process died is told in the result: of a call that may write it is unknown what it did. A turn
    of a conversation is in the way no more.

    Args:
        run_id: The run.
        journal: Where its log is: a path or an open journal.

    Returns:
        Its result, canceled.

    Raises:
        Misuse: There is no such run, or it has ended.
        JournalError: The journal cannot be opened or read, or a live process works on the run and
            has not ended it within 10 s; it will when it can.
    """
    from upshot.entry.session_setup import canceled

    return await canceled(run_id, journal)


async def fork(
    run_id: str, *, at: int, journal: Where, conversation: str = "", ask_writes: bool = False
) -> str:
    """Begin a new run from a point of another one, which stays as it is.

    The new run has the events of the other up to *at*, its artifacts under ids of their own,
    what the user answered and allowed until then, and what it had used. Go on with it by
    ``resume``; what waits there for an answer can be answered otherwise. Its child runs that had
    ended by then are shared; others are run anew.

    Args:
        run_id: The other run.
        at: The last event to keep, its ``seq``, from 1.
        journal: Where its log is, and where that of the new run goes.
        conversation: The conversation of which the new run is a turn; "" for none.
        ask_writes: Whether every call that may write needs an approval in the new run, for it may
            do again what the other has done; approvals that stand in the other do not count.

    Returns:
        The id of the new run.

    Raises:
        Misuse: There is no such run or event, or the run has ended there; with *ask_writes*, a
            call was approved by then and had not begun.
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

    If it does the same, a called tool that has changed or is gone is still a difference, and so
    is a model request that the agent itself would have made differently.

    Nothing outside is touched: replies of models, outcomes of tools, answers of the user, keyed
    steps and child runs come from the record, and what is not recorded is not done. Neither
    observers, committers, approvers nor the host are called, and nothing is written; deciders,
    instructions and the engine are run.

    Args:
        run_id: A run, ended or not.
        agent: The agent of the run, or one to compare with it.
        journal: Where its log is.
        options: As in ``reopen``; those for the outside world do nothing.

    Returns:
        The first difference, None if there is none, and the result of the replayed run.

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
    """Run agents on *request*; each works until it hands over, the last one until it answers.

    A receiver gets the request, the note and, unless its Handoff says ``history=False``, the
    messages so far. Each is a run of its own; tokens, money and time of a budget among the
    options are those of all.

    Args:
        agents: Those that may work on it; agents that are themselves items of ``handoffs``
            need not be listed.
        request: What is asked; only the first run takes its run_id.
        start: The agent that begins, or its id; None is the first of *agents*.
        max_depth: How often it may be handed over.
        options: As for ``run``; they hold for every agent.

    Returns:
        The result of the last agent, with usage and cost of all, and their ids in order as
        ``state["path"]``. If it was handed over too often, or to an agent that had it before, the
        status is failed with code budget_exceeded.

    Raises:
        Misuse: An argument is wrong, or a hand-off leads to an agent that is not known.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """
    from upshot.entry.handoff_loop import relay
    from upshot.entry.session_setup import run_child

    chain = relay(agents, request, options, start=start, max_depth=max_depth, child=run_child)
    return await chain.go()


def start_with_handoffs(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    *,
    start: Agent[Any] | str | None = None,
    max_depth: float = 8,
    **options: Unpack[RunOptions],
) -> AbstractAsyncContextManager[LiveHandoffs]:
    """Like ``run_with_handoffs``, but watched like ``start``: the events of all runs, one by one.

    Leaving the block early cancels the run that is under way and waits for its end.

    Args:
        agents: Those that may work on it, as for ``run_with_handoffs``.
        request: What is asked.
        start: The agent that begins, or its id; None is the first of *agents*.
        max_depth: How often it may be handed over.
        options: As for ``run``; they hold for every agent.

    Returns:
        An async context manager of the runs; ``await live.result()`` gives what
        ``run_with_handoffs`` gives. Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong, nothing was begun.
        JournalError: The journal cannot be opened.
    """
    from upshot.async_context import Block
    from upshot.entry.handoff_loop import relay, watched
    from upshot.entry.session_setup import run_child

    chain = relay(agents, request, options, start=start, max_depth=max_depth, child=run_child)
    return Block(watched(chain), call="upshot.start_with_handoffs(...)", name="live")


_CLOSE_S = 2.0


def run_in_own_loop(
    work: Callable[[], Coroutine[Any, Any, T]], ask_to_stop: Callable[[], bool] | None = None
) -> T:
    """Run *work* in a new event loop and close it, and the connections that it holds.

    ``asyncio.run`` waits for tasks that ignore their cancellation, without an end; here
    they get ``_CLOSE_S`` and are then left behind, named in a RuntimeWarning. Ctrl-C
    stops the work once, so that it can finalise; the second time it is raised where the
    program stands.

    Args:
        work: Makes the coroutine to run.
        ask_to_stop: Asks the work to stop at Ctrl-C; False if it cannot. Then it is cancelled.

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
    """Takes Ctrl-C for a loop, where no handler of the user's own does.

    Attributes:
        pressed: Whether it was pressed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pressed = self._is_ours = False
        self._loop = loop

    def watch(self, task: asyncio.Task[Any], ask_to_stop: Callable[[], bool] | None) -> None:
        """From now on stop *task*."""

        def stop() -> None:
            if ask_to_stop is None or not ask_to_stop():
                task.cancel()

        def press(_number: int, _frame: object) -> None:
            if self.pressed:
                # At once, for the loop itself may be held up by what does not await.
                raise KeyboardInterrupt
            self.pressed = True
            self._loop.call_soon_threadsafe(stop)

        if threading.current_thread() is threading.main_thread():
            self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, press)

    def close(self) -> None:
        """Give Ctrl-C back."""
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
