"""Opens and closes what a session needs, and starts or resumes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Unpack, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.enums import Origin, Status
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.events import RunStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import Engine, InstantJournal, Journal, as_instant
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Compacted
from upshot.entry.answers import outdated_warnings, route_answers, sort_answers, too_late
from upshot.entry.conversations import (
    check_not_passed,
    claim_again,
    conflicting,
    conversation_taken_error,
    names_conversation,
    part_of,
    with_earlier_turns,
)
from upshot.entry.planning import plan_again, plan_run, secrets_of, to_agent
from upshot.entry.resume import (
    check_onward,
    check_unlogged,
    fold_new_events,
    read_begun,
    read_children,
    read_past,
    runs_above,
    with_settlements,
)
from upshot.entry.run_lease import (
    RunLease,
    claim_new_run,
    claimed,
    drop,
    is_at_work,
    may_be_at_work,
    session_at_work,
)
from upshot.entry.stops import place_stop, stop_of, watch_stops, with_stops
from upshot.errors import Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import ends_with_user, open_journal
from upshot.journal.shared import Submission, shared_journal
from upshot.runs.live_run import LiveRun
from upshot.runs.plan import (
    RESUME_NAMES,
    OutputType,
    Plan,
    ResumeOptions,
    RunOptions,
    Where,
    check_options,
    check_run_id,
)
from upshot.runs.redaction import masking_reader
from upshot.runs.run_context import current_run
from upshot.runs.session import Session
from upshot.state.run_state import STOPPED, RunState
from upshot.state.stored_events import result_of


async def left_behind(past: RunState, run_id: str, journal: Journal) -> tuple[RunWarning, ...]:
    """Return a warning if the run continues although its parent run has ended."""
    async for outer, outer_id in runs_above(past, run_id, journal):
        if outer.ended:
            message = (
                f"run {run_id} continues, but run {outer_id}, which started it, has "
                "ended: nothing there reads its result"
            )
            return (RunWarning(code="outer_run_ended", message=message, origin=Origin.CALLER),)
    return ()


class KnownRun(Misuse):
    """The new run already has a log."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the journal already has a run {run_id!r}: continue it with resume(...)")
        self.run_id = run_id


@asynccontextmanager
async def begin(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    *,
    watch: bool = False,
    handoff_messages: Sequence[Message] = (),
    extra_logged: JsonObject | None = None,
    compacted: tuple[Compacted, Sequence[Message]] | None = None,
    head: str = "",
    sees: bool = True,
) -> AsyncGenerator[LiveRun[Any]]:
    """Open what a new run needs, start it, and close everything after its end."""
    check_options(options)
    more: Any = {"handoff_messages": handoff_messages, "extra_logged": extra_logged}
    more["compacted"] = compacted
    where = place_of(options)
    if where is None:
        plan = await _plan_new(agent, request, options, None, **more)
        yield LiveRun(Session(plan), watch=watch)
        return
    async with open_journal(where) as journal:
        plan = await _plan_new(agent, request, options, journal, **more)
        new = _claim_new(plan, options, journal, head=head, sees=sees)
        async with new as (plan, hold):
            session = Session(plan, epoch=hold.epoch)
            if _is_chosen(plan):
                # Another process may know the run already, and have asked it to stop.
                await with_stops(session, journal)
            yield LiveRun(hold.set_session(session), watch=watch)


async def run_whole(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    *,
    opened: Callable[[Session], None] | None = None,
) -> AgentResult[Any]:
    """Run a new run to its end, with all that it needs; *opened* is called with its session."""
    outer = current_run.get()
    if outer is not None and outer.context.recording is not None:
        return await (outer.context.plan.child or run_child)(agent, request, **options)
    check_options(options)
    where = options.get("journal") if outer is None else place_of(options)
    instant = None if where is None else as_instant(where)
    if where is None or (instant is not None and not names_conversation(request, options)):
        plan = await _plan_new(agent, request, options, instant)
        if instant is None:
            return await _run_session(Session(plan), opened)
        return await _run_in_memory(instant, plan, opened)
    async with open_journal(where) as journal:
        plan = await _plan_new(agent, request, options, journal)
        async with _claim_new(plan, options, journal) as (plan, hold):
            return await _run_session(hold.set_session(Session(plan, epoch=hold.epoch)), opened)


async def _run_in_memory(
    journal: InstantJournal, plan: Plan, opened: Callable[[Session], None] | None
) -> AgentResult[Any]:
    """Run *plan* to its end; its journal is in memory."""
    hold = claim_new_run(plan.run_id, journal)
    try:
        return await _run_session(hold.set_session(Session(plan, epoch=hold.epoch)), opened)
    finally:
        drop(hold, plan.run_id, journal)


async def _run_session(
    session: Session, opened: Callable[[Session], None] | None = None
) -> AgentResult[Any]:
    """Run *session* to its end; cancelling the waiting task cancels the run, and is re-raised.

    The run is finalised first, so that its log and its observers see its end.
    """
    if opened is not None:
        opened(session)
    if not session.is_bare:
        return await LiveRun[Any](session, watch=False).finish()
    # Only the engine is awaited, in a task of its own, so a cancel interrupts nothing else.
    result = await session.run()
    # The run is finalised; now pass the cancel on to the caller.
    if session.context.supervisor.stop == "caller":
        raise asyncio.CancelledError
    return result


async def run_child(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    *,
    may_have_begun: bool = False,
    **options: Unpack[RunOptions],
) -> AgentResult[Any]:
    """Run an agent as a child run; if it may have started before, continue from its log."""
    where = place_of(options) if may_have_begun else None
    if where is None or not isinstance(request, Request):
        return await run_whole(agent, request, options)
    async with open_journal(where) as journal:
        if not await has_log(request.run_id, journal):
            return await run_whole(agent, request, options)
        rest = cast("ResumeOptions", {**options, "journal": None})
        outer = current_run.get()
        going = continue_run(
            request.run_id,
            agent,
            journal,
            (),
            rest,
            is_known=True,
            continue_stopped=outer is not None and outer.context.plan.continue_stopped,
        )
        async with going as live:
            if not isinstance(live, AgentResult):
                return await live.finish()
            if outer is not None:
                outer.note_effect(live.effect)
            return live


@asynccontextmanager
async def started(
    agent: Agent[Any] | AgentSpec, request: Request | str, options: RunOptions
) -> AsyncGenerator[LiveRun[Any]]:
    """See ``start``."""
    async with begin(agent, request, options, watch=True) as live, live:
        yield live


@asynccontextmanager
async def reopened(
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    journal: Where,
    answers: Sequence[AnyAnswer],
    options: ResumeOptions,
    *,
    take_over: bool,
    continue_stopped: bool,
) -> AsyncGenerator[LiveRun[Any]]:
    """See ``reopen``."""
    more: Any = {"take_over": take_over, "continue_stopped": continue_stopped}
    async with continue_run(run_id, agent, journal, answers, options, watch=True, **more) as live:
        if isinstance(live, AgentResult):
            hint = "; continue it with continue_stopped=True" if live.status in STOPPED else ""
            raise Misuse(f"run {run_id} has ended: its result is in the journal{hint}")
        async with live:
            yield live


@asynccontextmanager
async def continue_run(
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    journal: Where,
    answers: Sequence[AnyAnswer],
    options: ResumeOptions,
    *,
    watch: bool = False,
    is_known: bool = False,
    take_over: bool = False,
    continue_stopped: bool = False,
) -> AsyncGenerator[LiveRun[Any] | AgentResult[Json]]:
    """Read a run's log and resume it."""
    check_run_id(run_id)
    check_options(options, also=RESUME_NAMES)
    to_agent(agent, options.get("engine"))
    async with open_journal(journal, create=False) as opened:
        hidden = secrets_of(options)
        past = await read_past(run_id, opened, secrets=hidden)
        if continue_stopped:
            past.reopen()
        if not past.ended:
            # Before the claim: if an answer is refused, a process that works on the run keeps it.
            await sort_answers(answers, past, run_id, opened)
            plan = await plan_again(past, run_id, agent, {**options}, opened, child=run_child)
            check_unlogged(past, plan)
            takes = take_over or is_known
            at_work = bool(past.begun) and await may_be_at_work(run_id, opened)
            if not (answers or takes) and (session := await session_at_work(run_id, opened)):
                yield LiveRun(session, watch=watch, is_guest=True)
                return
            # Two callers may answer at once; the second must not take the run over from the first.
            async with _claim_resumed(past, run_id, opened, take_over=takes) as hold:
                # The previous holder may have continued the run. Under the lease no other process
                # appends, so from here on the state matches the log.
                await fold_new_events(past, run_id, opened, secrets=hidden)
                if continue_stopped:
                    past.reopen()
                    await check_not_passed(plan, past, opened)
                if not past.ended:
                    await check_onward(past, plan)
                    own, outdated = await route_answers(
                        answers, past, run_id, opened, secrets=hidden, take_over=take_over
                    )
                    # After the answers: a child run may have ended or parked again.
                    await read_children(past, opened)
                    abandoned = () if is_known else await left_behind(past, run_id, opened)
                    plan = replace(plan, is_known=is_known, seed=tuple(past.seed))
                    plan = replace(
                        plan, earlier_may_work=at_work, continue_stopped=continue_stopped
                    )
                    plan = replace(plan, warnings=(*abandoned, *outdated_warnings(outdated)))
                    session = Session(plan, past=past, answers=tuple(own), epoch=hold.epoch)
                    yield LiveRun(hold.set_session(await with_stops(session, opened)), watch=watch)
                    return
        if (result := result_of(past)) is not None:
            result = await with_settlements(result, opened)
            if late := too_late(answers, run_id):
                result = replace(result, warnings=(*result.warnings, *late))
            yield typed(result, to_agent(agent, options.get("engine")))


async def check_again(
    run_id: str, agent: Agent[Any], options: ResumeOptions, journal: Journal
) -> None:
    """Check that a run could be resumed with an agent and options, without claiming it.

    Raises:
        Misuse: They lack what the run was given.
        JournalError: Its log is damaged.
    """
    past = await read_past(run_id, journal, secrets=secrets_of(options))
    plan = await plan_again(past, run_id, agent, {**options}, journal, child=run_child)
    check_unlogged(past, plan)


# How long the holder of a run has to end it, and how often that is checked.
_HOLDER_S = 10.0
_LOOK_S = 0.1


class _Waiting:
    """The engine of a run that only needs to end; it needs nothing that the run was given."""

    only_waits = True

    async def execute(self, run: object, host: object, board: object) -> None:
        """Do nothing until it is cancelled."""
        await asyncio.Event().wait()


async def canceled(run_id: str, journal: Where) -> AgentResult[Json]:
    """See ``cancel``."""
    async with open_journal(journal, create=False) as opened:
        past = await read_begun(run_id, opened)
        if past.last_settled is not None and past.ended:
            raise Misuse(f"run {run_id} has ended: it is {past.last_settled.result.status}")
        result = await end_canceled(run_id, opened)
        if result.status is not Status.CANCELED:
            # It ended by itself at the same moment.
            raise Misuse(f"run {run_id} has ended: it is {result.status}")
        return result


async def end_canceled(run_id: str, journal: Journal) -> AgentResult[Json]:
    """Cancel a run, or wait until its holder does; if it has ended, return its result.

    Raises:
        Misuse: There is no such run.
        RunHeld: Its holder has not ended it in time; the request stays in force.
    """
    past, shared = await read_begun(run_id, journal), shared_journal(journal)
    if shared is not None and not past.ended:
        await place_stop(stop_of(run_id), journal, shared)
    until = asyncio.get_running_loop().time() + (_HOLDER_S if shared else 0)
    while True:
        agent = Agent[Any](past.agent.id or run_id, engine=_Waiting())
        new = await shared.submission(run_id) if shared and past.started is None else None
        going = continue_run(run_id, agent, journal, (), {})
        try:
            async with going if new is None else begin_to_end(new, journal, _Waiting()) as live:
                if isinstance(live, AgentResult):
                    return live
                live.cancel()
                return await live.finish()
        except (RunHeld, KnownRun):
            if asyncio.get_running_loop().time() > until:
                raise
        await asyncio.sleep(_LOOK_S)
        past = await read_begun(run_id, journal)


def begin_to_end(
    new: Submission, journal: Journal, engine: Engine
) -> AbstractAsyncContextManager[LiveRun[Any]]:
    """Start a submitted run only to let *engine* end it; it is not a turn of its conversation."""
    # Its secrets are not known here.
    hide = masking_reader((), RunStarted(run_id=new.run_id, seq=1, options=new.marks))
    request = replace(new.request if hide is None else hide(new.request), run_id=new.run_id)
    agent = Agent[Any](new.agent_id, engine=engine)
    options = RunOptions(journal=journal, remember=False)
    return begin(agent, request, options)


async def _plan_new(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    journal: Journal | None,
    *,
    handoff_messages: Sequence[Message] = (),
    extra_logged: JsonObject | None = None,
    compacted: tuple[Compacted, Sequence[Message]] | None = None,
) -> Plan:
    """Plan a new run; its id must not be in the journal yet."""
    plan = await plan_run(
        agent, request, options, journal, child=run_child, handoff_messages=handoff_messages
    )
    if extra_logged:
        plan = replace(plan, extra_logged=extra_logged, compacted=compacted)
    if journal is not None:
        if ends_with_user(options.get("journal")):
            plan = replace(plan, is_journal_lost=True)
        await _refuse_known(plan, journal)
        if _is_chosen(plan) and is_at_work(plan.run_id, journal):
            # It is about to start, and its log has no event yet.
            raise KnownRun(plan.run_id)
    return plan


@asynccontextmanager
async def _claim_new(
    plan: Plan, options: RunOptions, journal: Journal, *, head: str = "", sees: bool = True
) -> AsyncGenerator[tuple[Plan, RunLease]]:
    """Claim the log of a new run, and its turn. The parent's holder owns a child run's log."""
    is_inside = current_run.get() is not None
    part = await part_of(plan, options, journal, head=head, sees=sees)
    turn = None if part is None else part.claim
    async with claimed(
        plan.run_id, journal, take_over=False, is_owned=is_inside, turn=turn
    ) as hold:
        if hold.in_the_way is not None:
            yield await conflicting(plan, journal, hold.in_the_way), hold
            return
        watch_stops(journal)
        # Since the first look-up, another process may have started the run and even finished it.
        await _refuse_known(plan, journal)
        yield (
            (plan if part is None else await with_earlier_turns(plan, options, journal, part)),
            hold,
        )


@asynccontextmanager
async def _claim_resumed(
    past: RunState, run_id: str, journal: Journal, *, take_over: bool
) -> AsyncGenerator[RunLease]:
    """Claim a run to resume it, and its turn."""
    turn = claim_again(past)
    async with claimed(run_id, journal, take_over=take_over, turn=turn) as hold:
        if turn is not None and hold.in_the_way is not None:
            raise conversation_taken_error(run_id, turn.conversation, hold.in_the_way)
        watch_stops(journal)
        yield hold


def place_of(options: RunOptions) -> Where | None:
    """Return where the log of a run goes: the call's journal, else that of the parent run."""
    where = options.get("journal")
    parent = current_run.get()
    if where is None and parent is not None:
        # A journal belongs to one event loop; a run in another one opens its file again.
        journal = parent.context.plan.journal
        where = journal if parent.is_near else getattr(journal, "path", None)
    return where


async def has_log(run_id: str, journal: Journal) -> bool:
    """Whether the journal has any event of a run."""
    async for _ in journal.events(run_id):
        return True
    return False


async def _refuse_known(plan: Plan, journal: Journal) -> None:
    if _is_chosen(plan) and await has_log(plan.run_id, journal):
        raise KnownRun(plan.run_id)


def _is_chosen(plan: Plan) -> bool:
    # Ids made here are random and need no look-up.
    return bool(plan.request.run_id) or plan.resume_from is not None


def typed(result: AgentResult[Json], agent: Agent[Any]) -> AgentResult[Any]:
    """Return *result*, read from JSON, with its output as the type that *agent* asks for."""
    if not result.success or (result.output is None and result.handoff is not None):
        # An agent that hands over gives no answer.
        return result
    try:
        output = OutputType.of(agent.output_type).build(result.output)
    except ValueError as error:
        message = f"agent {agent.id!r} has another output type than the run had: {error}"
        warning = RunWarning(code="agent_changed", message=message, origin=Origin.CALLER)
        return replace(result, warnings=(*result.warnings, warning))
    return replace(result, output=output)
