"""Runs agents that hand a request over until one of them answers.

Each agent works in a run of its own. The run's log says what came before it, so the chain can be
resumed from any of its runs. The id of the next run is derived from the id of the run before it,
so it can be found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.agent import Agent, handoffs_of
from upshot.contract.agent_spec import AgentSpec, HandoffEvent
from upshot.contract.base.checks import check_amount, kind_of
from upshot.contract.base.enums import ErrorCode, InterruptCause, Origin, Role, Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import Event, RunStarted
from upshot.contract.message import Message, Text
from upshot.contract.model_calls import Request, costs_of, counted_run
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult, ChildRun, RunEffect, warning_of_unknown
from upshot.contract.run_control import Compacted
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import UNTRUSTED
from upshot.contract.usage import Cost, Usage
from upshot.entry.planning import secrets_of, to_agent
from upshot.entry.resume import read_past
from upshot.entry.run_lease import claimed
from upshot.entry.session_setup import (
    KnownRun,
    begin,
    continue_run,
    end_canceled,
    has_log,
    place_of,
)
from upshot.errors import Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import open_journal
from upshot.journal.shared import SharedJournal, shared_journal
from upshot.runs.limits.quotas import handed_on, quotas_in, renewed
from upshot.runs.live_run import LiveRun, conclude, text_of
from upshot.runs.plan import (
    RESUME_NAMES,
    ResumeOptions,
    RunOptions,
    Where,
    check_options,
    check_run_id,
    items_of,
)
from upshot.runs.task_supervisor import CALLER_GRACE_S
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.run_state import RunState
from upshot.state.turns import turn_of

OnLive: TypeAlias = Callable[[LiveRun[Any]], None]


class AgentRegistry:
    """The agents that may receive the request, by id."""

    def __init__(
        self,
        agents: Iterable[Agent[Any]] | Agent[Any],
        start: Agent[Any] | str | None,
        *,
        is_whole: bool = True,
    ) -> None:
        self._by_id: dict[str, Agent[Any]] = {}
        listed = (agents,) if isinstance(agents, Agent) else tuple(agents)
        for agent in (*listed, *((start,) if isinstance(start, Agent) else ())):
            self._add(agent)
        # A listed agent wins over one that is only reached through handoffs.
        for agent in tuple(self._by_id.values()):
            self._reach(agent)
        if is_whole:
            self._check()
        if start is None and not listed:
            raise Misuse("run_with_handoffs needs an agent: give [Agent(...), ...]")
        first = listed[0].id if start is None else start if isinstance(start, str) else start.id
        self.by_id: Mapping[str, Agent[Any]] = self._by_id
        if first not in self._by_id:
            raise Misuse(f"start is {first!r}: there are {', '.join(self._by_id)}")
        self.first: Agent[Any] = self._by_id[first]

    def find(self, event: HandoffEvent) -> Agent[Any] | None:
        """Return the agent that gets the request, or None if it is unknown."""
        return self._by_id.get(event.to_agent_id)

    def _add(self, agent: object) -> None:
        if not isinstance(agent, Agent):
            raise Misuse(f"agents hold {kind_of(agent)}: give Agents")
        known = cast("Agent[Any]", agent)
        if self._by_id.setdefault(known.id, known) is not known:
            raise Misuse(f"two agents are called {known.id!r}: give one of them another id")

    def _reach(self, agent: Agent[Any]) -> None:
        for item in agent.handoffs:
            if isinstance(item, Agent) and item.id not in self._by_id:
                self._by_id[item.id] = item
                self._reach(item)

    def _check(self) -> None:
        for agent in self._by_id.values():
            for handoff in handoffs_of(agent):
                if handoff.to_agent_id not in self._by_id:
                    raise Misuse(
                        f"agent {agent.id!r} hands over to {handoff.to_agent_id!r}, "
                        f"which is not among the agents: {', '.join(self._by_id)}"
                    )


class HandoffChain(msgspec.Struct, kw_only=True):
    """What came before a run of a relay; it is stored in the run's log.

    Attributes:
        path: The ids of the agents that had the request.
        usage: The usage of their runs.
        costs: The cost of each run.
        duration_ms: The time that the runs took, in milliseconds.
        handed: The number of messages that the run received besides the request.
        sees: Whether it gets the messages before the request.
        max_depth: How often the request may be handed over.
        budget: What is left of the budget of the whole chain.
        effects: What their calls changed outside, or may have changed.
        runs: The runs, with the tools that ran in them.
    """

    path: list[str] = []
    usage: Usage = Usage()
    costs: list[Cost | None] = []
    duration_ms: int = 0
    handed: int = 0
    sees: bool = True
    max_depth: float
    budget: Budget | None = None
    effects: tuple[RunEffect, ...] = ()
    runs: tuple[ChildRun, ...] = ()

    def add(self, agent_id: str, result: AgentResult[Any]) -> None:
        """Add a run that ended."""
        self.path = [*self.path, agent_id]
        used = counted_run(result.usage, result.cost)
        self.usage += used.usage
        self.costs = [*self.costs, *costs_of(used)]
        self.duration_ms += result.duration_ms
        self.effects += result.effects
        done = ChildRun(run_id=result.run_id, tools=result.tools_used, effect=result.effect)
        self.runs += (done,)
        if self.budget is not None:
            # Each run of the chain has a budget of its own, so the remainder is passed on
            # explicitly.
            self.budget = _remaining_budget(
                self.budget, result.usage, result.cost, result.duration_ms
            )

    def remaining(self, budget: Budget) -> Budget:
        """Return what the runs left of a budget of the whole chain."""
        return _remaining_budget(budget, self.usage, Cost.of_calls(self.costs), self.duration_ms)

    def with_totals(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """Return the last result with the path, and the usage and effects of all runs."""
        cost = Cost.of_calls(self.costs)
        state = {**result.state, "path": list(self.path)}
        before = self.runs[:-1]
        if before:
            result = replace(
                result,
                effects=self.effects,
                child_runs=(*before, *result.child_runs),
                warnings=_with_unknown(result, self.effects),
            )
        return replace(result, usage=self.usage, cost=cost, state=state)

    def completed(self, result: AgentResult[Any], *, has_log: bool) -> AgentResult[Any]:
        """Return the last result, already added; it says so if its handoff was not followed."""
        event = result.handoff
        if event is None or not result.success:
            return self.with_totals(result)
        if fault := self.fault(event.to_agent_id):
            return self.with_totals(_too_deep(result, fault, self.max_depth, len(self.path)))
        return self.with_totals(_unknown(result, event, has_log=has_log))

    def fault(self, agent_id: str) -> str:
        """Return why the request must not go to *agent_id*, or "" if it may."""
        if agent_id in self.path:
            ring = " -> ".join((*self.path, agent_id))
            return f"The request was handed over in a ring: {ring}."
        if len(self.path) > self.max_depth:
            return f"The request was handed over more than {self.max_depth} times."
        return ""


def _with_unknown(result: AgentResult[Any], effects: Iterable[RunEffect]) -> tuple[RunWarning, ...]:
    """Return the last result's warnings, with one for the unknown effects of all runs."""
    warning = warning_of_unknown(effects) if result.success else None
    if warning is None:
        return result.warnings
    return (*(one for one in result.warnings if one.code != warning.code), warning)


def chain_of(started: RunStarted) -> HandoffChain | None:
    """Return the chain stored in the log of a run, or None if it is in no relay."""
    noted = started.options.get(CHAIN_OPTION)
    return None if noted is None else msgspec.convert(noted, HandoffChain)


def following_run(past: RunState) -> str:
    """Return the id of the next run in the chain if the run handed its request over, else ""."""
    ended, started = past.last_settled, past.started
    if ended is None or started is None or chain_of(started) is None:
        return ""
    hands_over = ended.result.status is Status.COMPLETED and ended.result.handoff is not None
    return child_id(CHAIN_OPTION, started.run_id) if hands_over else ""


def whole_result(past: RunState, result: AgentResult[Any]) -> AgentResult[Any]:
    """Return the result of the last run of a chain, combined with the runs before it."""
    chain = None if past.started is None else chain_of(past.started)
    if chain is None:
        return result
    chain.add(past.agent.id, result)
    return chain.completed(result, has_log=True)


def _remaining_budget(budget: Budget, usage: Usage, cost: Cost | None, duration_ms: int) -> Budget:
    """Return what is left of *budget* after runs that used *usage*, *cost* and *duration_ms*."""
    budget = replace(budget, deadline_s=_subtract(budget.deadline_s, duration_ms / 1000))
    if budget.scope == "conversation":
        # The journal has the usage of the runs.
        return budget
    return replace(
        budget,
        max_tokens=_subtract(budget.max_tokens, usage.total_tokens),
        max_cost_usd=_subtract(budget.max_cost_usd, None if cost is None else cost.total),
    )


def _subtract(limit: Any, used: Any) -> Any:
    return limit if limit is None or used is None else max(limit - used, type(limit)(0))


# Logged options that apply to the later runs of a chain too, unless the call gives them.
_LASTING = ("max_attempts", "artifacts")


def relay(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    options: RunOptions,
    *,
    start: Agent[Any] | str | None,
    max_depth: float,
) -> Relay:
    """Return a relay that runs agents on *request* until one of them does not hand over."""
    check_amount("max_depth", max_depth, unit="handoffs")
    check_options(options)
    chain = HandoffChain(max_depth=max_depth, budget=options.get("budget"))
    return Relay(AgentRegistry(agents, start), request, chain, options)


@asynccontextmanager
async def watched(relay: Relay) -> AsyncGenerator[LiveHandoffs]:
    """See ``start_with_handoffs``."""
    live = LiveHandoffs(relay)
    try:
        await live.wait_until_started()
        yield live
    finally:
        await live.aclose()


class LiveHandoffs:
    """A request that agents hand over to each other, and the events of all their runs.

    Only one reader may read its events: ``async for event in live``.
    """

    def __init__(self, relay: Relay) -> None:
        self._runs: list[LiveRun[Any]] = []
        self._wake = asyncio.Event()
        self._stop: Callable[[LiveRun[Any]], None] | None = None
        relay.on_live, relay.watches = self._add_run, True
        self._task = asyncio.get_running_loop().create_task(relay.run())
        self._task.add_done_callback(lambda _: self._wake.set())

    def __repr__(self) -> str:
        return f"LiveHandoffs({self._runs[-1] if self._runs else 'not begun'})"

    @property
    def run_id(self) -> str:
        """The id of the current run, or of the last one."""
        return self._runs[-1].run_id

    @property
    def done(self) -> bool:
        """Whether the result is available."""
        return self._task.done()

    async def result(self) -> AgentResult[Any]:
        """Wait for the result of ``run_with_handoffs``; a timeout stops only the waiting."""
        return await asyncio.shield(self._task)

    def interrupt(self, cause: str = InterruptCause.USER_CANCEL, detail: str = "") -> None:
        """Stop the current run at its next safe point; no other run follows it."""
        self._stop_by(lambda live: live.interrupt(cause, detail))

    def cancel(self) -> None:
        """Stop the current run at once; no other run follows it."""
        self._stop_by(lambda live: live.cancel())

    async def aclose(self) -> None:
        """Cancel the current run and wait until it has ended; no other run follows it."""
        if self._runs:
            # A run that starts while this one ends is cancelled too.
            self._stop = LiveRun[Any].cancel
            await self._runs[-1].aclose()
        elif not self._task.done():
            self._task.cancel()
        await conclude(self._task, within_s=CALLER_GRACE_S)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def text(self) -> AsyncIterator[str]:
        """Yield the visible text of all runs as it arrives, as ``LiveRun.text`` does for one."""
        async for piece in text_of(self._events()):
            yield piece

    def partial(self) -> Any:
        """Return what has arrived of the current run's answer; see ``LiveRun.partial``."""
        return self._runs[-1].partial() if self._runs else None

    async def wait_until_started(self) -> None:
        """Wait until the first run has started; raise the error if it cannot."""
        await self._wake.wait()
        if not self._runs:
            await self._task

    def _add_run(self, live: LiveRun[Any]) -> None:
        self._runs.append(live)
        self._wake.set()
        if self._stop is not None:
            self._stop(live)

    def _stop_by(self, stop: Callable[[LiveRun[Any]], None]) -> None:
        # Between two runs, this stops the next one.
        self._stop = stop
        stop(self._runs[-1])

    async def _events(self) -> AsyncIterator[Event]:
        for number in count():
            while number == len(self._runs):
                if self._task.done():
                    await self._task
                    return
                self._wake.clear()
                await self._wake.wait()
            async for event in self._runs[number]:
                yield event


class Relay:
    """One request that agents hand over to each other.

    Attributes:
        on_live: Called with each run as it starts; None for no callback.
        watches: Whether the events of the runs are kept for a reader.
    """

    on_live: OnLive | None = None
    watches: bool = False

    def __init__(
        self,
        known: AgentRegistry,
        request: Request | str,
        chain: HandoffChain,
        options: RunOptions,
    ) -> None:
        self.answers: Sequence[AnyAnswer] = ()
        self.take_over: bool = False
        self.continue_stopped: bool = False
        # The first run of the conversation's turn; "" until it starts.
        self.head: str = ""
        # Whether the caller named a parent run for all of them.
        self.is_inside: bool = bool(options.get("parent_run_id"))
        # The run that the last handoff submitted; held here until it starts.
        self._next_run_id: str = ""
        # The summary that replaces older messages, and the messages it was made for.
        self._compacted: tuple[Compacted, Sequence[Message]] | None = None
        self._known = known
        self._request = request
        self._chain = chain
        self._options = options

    def name_outer(self, run_id: str) -> None:
        """Set the run that the caller named as the parent of all of them."""
        self._options = cast("RunOptions", {**self._options, "parent_run_id": run_id})
        self.is_inside = True

    async def run(self) -> AgentResult[Any]:
        """Start, and continue until an agent does not hand over."""
        return await self._follow(self._known.first, await self._begin(self._known.first, ()), ())

    async def resume(self, run_id: str, journal: Journal) -> AgentResult[Any]:
        """Resume the run of an agent of the chain, and continue from there."""
        agent = self._known.first
        result = await self._resume(run_id, agent, journal)
        return await self._follow(agent, result, (), journal)

    async def _follow(
        self,
        agent: Agent[Any],
        result: AgentResult[Any],
        handed: Sequence[Message],
        journal: Journal | None = None,
    ) -> AgentResult[Any]:
        """Run the agents that come after *agent*; the first of them may have started already."""
        self.head = self.head or result.run_id
        try:
            while (receiver := self._receiver(agent, result)) is not None:
                event = cast("HandoffEvent", result.handoff)
                # A resumed run has no board in this process; only the log says what it was
                # handed.
                if journal is None:
                    produced = _produced_messages(result)
                    self._compacted = _compaction_of(result.last_board)
                else:
                    handed, produced = await self._messages_of(result.run_id, journal)
                handed = tuple(_messages_for_next(agent, result, produced, event, handed))
                self._chain.sees = self._chain.sees and _keeps_history(agent, event)
                agent = receiver
                self._prepare_next(result)
                result = await self._next(agent, handed, journal)
        except BaseException as error:
            await self._leave_next(is_canceled=isinstance(error, asyncio.CancelledError))
            raise
        if self._next_run_id:
            await self._drop_next()
        return self._chain.completed(result, has_log=journal is not None)

    def _receiver(self, agent: Agent[Any], result: AgentResult[Any]) -> Agent[Any] | None:
        """Add a run that ended; return the agent that gets the request, or None."""
        chain, event = self._chain, result.handoff
        chain.add(agent.id, result)
        self._next_run_id = ""
        if event is None or not result.success:
            return None
        self._next_run_id = child_id(CHAIN_OPTION, result.run_id)
        return None if chain.fault(event.to_agent_id) else self._known.find(event)

    async def _drop_next(self) -> None:
        """Withdraw the next run, because its handoff is not followed."""
        async with self._shared() as shared:
            if shared is not None:
                await shared.withdraw(self._next_run_id)

    async def _leave_next(self, *, is_canceled: bool) -> None:
        """Release the next run if it did not start here; end it if the chain was cancelled."""
        async with self._shared() as shared:
            if shared is None or await has_log(self._next_run_id, cast("Journal", shared)):
                return
            with suppress(RunHeld, Misuse):
                if is_canceled:
                    await end_canceled(self._next_run_id, cast("Journal", shared))
                else:
                    async with claimed(self._next_run_id, cast("Journal", shared), take_over=False):
                        pass

    @asynccontextmanager
    async def _shared(self) -> AsyncGenerator[SharedJournal | None]:
        """Yield the journal that has the next run, or None."""
        where = place_of(self._options)
        if not self._next_run_id or where is None:
            yield None
            return
        async with open_journal(where) as journal:
            shared = shared_journal(journal)
            has_next = shared is not None and await shared.submission(self._next_run_id) is not None
            yield shared if has_next else None

    async def _begin(self, agent: Agent[Any], handed: Sequence[Message]) -> AgentResult[Any]:
        self._chain.handed = len(handed)
        noted = cast("JsonObject", msgspec.to_builtins(self._chain))
        run_it = begin(
            agent,
            self._request,
            self._options,
            watch=self.watches,
            handoff_messages=handed,
            extra_logged={CHAIN_OPTION: noted},
            compacted=self._compacted,
            head=self.head,
            sees=self._chain.sees,
        )
        async with run_it as live:
            return await self._finish(live)

    async def _finish(self, live: LiveRun[Any]) -> AgentResult[Any]:
        return await wait_until_finished(live, self.on_live)

    async def _next(
        self, agent: Agent[Any], handed: Sequence[Message], journal: Journal | None
    ) -> AgentResult[Any]:
        run_id = cast("Request", self._request).run_id
        # Its id is derived from the run before it, so an earlier process may have started it.
        if journal is not None and await has_log(run_id, journal):
            return await self._resume(run_id, agent, journal)
        try:
            return await self._begin(agent, handed)
        except KnownRun as known:
            where = place_of(self._options)
            if known.run_id != run_id or where is None:
                raise
        # Another process has started it since.
        return await self._resume(run_id, agent, where)

    async def _resume(self, run_id: str, agent: Agent[Any], journal: Where) -> AgentResult[Any]:
        options = cast("ResumeOptions", {**self._options, "journal": None})
        going = continue_run(
            run_id,
            agent,
            journal,
            self.answers,
            options,
            watch=self.watches,
            take_over=self.take_over,
            continue_stopped=self.continue_stopped,
        )
        async with going as live:
            if isinstance(live, AgentResult):
                return live
            # The answers were for the parked run; the runs after it start without any.
            self.answers = ()
            return await self._finish(live)

    async def _messages_of(
        self, run_id: str, journal: Journal
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        """Read from its log what a run was handed and what it produced; note its history."""
        past = await read_past(run_id, journal, secrets=secrets_of(self._options))
        seeded = past.board.seeded()
        chain = None if past.started is None else chain_of(past.started)
        first = len(seeded) - (0 if chain is None else chain.handed)
        if past.named_seed is None and past.started is not None:
            messages = seeded[: first - 1]
            if messages and seeded[first - 1] == past.started.request.to_message():
                self._options = cast("RunOptions", {**self._options, "history": messages})
        self._compacted = _compaction_of(past.board)
        return seeded[first:], past.board.messages()[len(seeded) :]

    def _prepare_next(self, result: AgentResult[Any]) -> None:
        """Prepare a new run: another id, no checkpoint, and the remaining budget."""
        # With the arguments swapped, since a child's key may be any word.
        request, run_id = self._request, child_id(CHAIN_OPTION, result.run_id)
        if isinstance(request, Request):
            self._request = replace(request, run_id=run_id)
        else:
            self._request = Request(request, run_id=run_id)
        # The checkpoint belongs to the first agent's engine.
        left_out = ("resume_from",) if self._chain.sees else ("resume_from", "history")
        options = {name: one for name, one in self._options.items() if name not in left_out}
        if quotas := items_of(options, "quotas"):
            options["quotas"] = handed_on(quotas, result.run_id)
        if not self.is_inside:
            options["parent_run_id"] = result.run_id
        if self._chain.budget is not None:
            options["budget"] = self._chain.budget
        self._options = cast("RunOptions", options)


async def wait_until_finished(
    live: LiveRun[Any] | AgentResult[Any], on_live: OnLive | None
) -> AgentResult[Any]:
    """Wait for the result of a run after *on_live* was called with it, unless it has ended."""
    if isinstance(live, AgentResult):
        return live
    if on_live is not None:
        on_live(live)
    return await live.finish()


async def resume_any(
    run_id: str,
    agents: Agent[Any] | AgentSpec | Iterable[Agent[Any]],
    journal: Where,
    answers: Sequence[AnyAnswer],
    options: ResumeOptions,
    *,
    take_over: bool = False,
    continue_stopped: bool = False,
    on_live: OnLive | None = None,
) -> AgentResult[Any]:
    """Resume a run, and its relay if it is in one; *on_live* is called with each run."""
    check_run_id(run_id)
    check_options(options, also=RESUME_NAMES)
    async with open_journal(journal, create=False) as opened:
        shared = shared_journal(opened)
        new = None if shared is None else await shared.submission(run_id)
        if new is not None and new.after and not await has_log(run_id, opened):
            # The run that handed it over has ended; resume there, and the next one starts.
            run_id = new.after
        started = await _read_started(run_id, opened)
        chain = None if started is None else chain_of(started)
        agent = _agent_of_run(agents, run_id, started, options)
        if started is None or chain is None:
            more: Any = {"take_over": take_over, "continue_stopped": continue_stopped}
            going = continue_run(run_id, agent, opened, answers, options, **more)
            async with going as live:
                return await wait_until_finished(live, on_live)
        listed = () if isinstance(agents, Agent | AgentSpec) else tuple(agents)
        known = AgentRegistry([one for one in listed if one.id != agent.id], agent, is_whole=False)
        if (budget := options.get("budget")) is not None:
            # It is the budget of the whole chain.
            chain.budget = chain.remaining(budget)
            options = {**options, "budget": chain.budget}
        relay_ = Relay(known, started.request, chain, _options_of(started, options, opened))
        relay_.answers, relay_.take_over = answers, take_over
        relay_.continue_stopped, relay_.on_live = continue_stopped, on_live
        outer = started.parent_run_id
        if outer and run_id != child_id(CHAIN_OPTION, outer):
            relay_.name_outer(outer)
        turn = turn_of(started.options)
        relay_.head = run_id if turn is None else turn.head or run_id
        return await relay_.resume(run_id, opened)


def _agent_of_run(
    agents: object, run_id: str, started: RunStarted | None, options: ResumeOptions
) -> Agent[Any]:
    """Return the agent of the run: the only one given, else the one with its id."""
    if isinstance(agents, Agent | AgentSpec) or not isinstance(agents, Iterable):
        return to_agent(cast("object", agents), options.get("engine"))
    listed = [to_agent(one) for one in cast("Iterable[object]", agents)]
    own = "" if started is None else started.agent.id
    found = [one for one in listed if one.id == own]
    if started is not None and not found:
        ids = ", ".join(one.id for one in listed) or "none"
        raise Misuse(f"run {run_id} belongs to agent {own!r}, and the agents given are {ids}")
    if not listed:
        raise Misuse("resume needs an agent: give one, or [Agent(...), ...]")
    return (found or listed)[0]


async def _read_started(run_id: str, journal: Journal) -> RunStarted | None:
    async for event in journal.events(run_id):
        return event if isinstance(event, RunStarted) else None
    return None


def _options_of(started: RunStarted, options: ResumeOptions, journal: Journal) -> RunOptions:
    """Return the options of later runs; those of this run apply unless the call gives them."""
    kept = {name: started.options[name] for name in _LASTING if name in started.options}
    attributes = {"attributes": started.attributes} if started.attributes else {}
    held = renewed(items_of(options, "quotas"), quotas_in(started.options))
    quotas = {"quotas": handed_on(held, started.run_id)}
    return cast("RunOptions", {**kept, **attributes, **options, **quotas, "journal": journal})


def _messages_for_next(
    sender: Agent[Any],
    result: AgentResult[Any],
    produced: Sequence[Message],
    event: HandoffEvent,
    before: Sequence[Message],
) -> Iterator[Message]:
    """Yield what the receiver gets besides the request: the messages so far, and the note."""

    if _keeps_history(sender, event):
        yield from before
        yield from produced
    text = ": ".join(filter(None, (event.reason, event.note)))
    note = f"Handed over by {sender.id}{f': {text}' if text else '.'}"
    # The model wrote the note, after reading untrusted content.
    trust = "" if result.taint is None else UNTRUSTED
    yield Message(Role.USER, [Text(note, trust=trust)] if trust else note)


def _keeps_history(sender: Agent[Any], event: HandoffEvent) -> bool:

    found = [one for one in handoffs_of(sender) if one.to_agent_id == event.to_agent_id]
    return not found or found[0].history


def _produced_messages(result: AgentResult[Any]) -> Sequence[Message]:
    """Return the messages of the main channel since the run was seeded."""
    board = cast("Any", result.last_board)
    return board.messages()[len(result.seeded) :]


def _compaction_of(board: Any) -> tuple[Compacted, Sequence[Message]] | None:
    """Return the summary that replaces older messages of a board, and all its messages, or None."""
    compacted = getattr(board, "compacted", None)
    return None if compacted is None else (compacted, board.messages())


def _unknown(result: AgentResult[Any], event: HandoffEvent, *, has_log: bool) -> AgentResult[Any]:
    """Return the result of a run that handed over to an unknown agent, with a warning."""
    # Only an engine that makes its own events can name an unknown agent; its work is kept.
    text = f"handed over to {event.to_agent_id!r}, which is not known: give all agents"
    if has_log:
        text = f"{text}, resume({result.run_id!r}, [...]), to continue"
    warning = RunWarning(code="handoff_not_followed", message=text, origin=Origin.CALLER)
    return replace(result, warnings=(*result.warnings, warning))


def _too_deep(result: AgentResult[Any], message: str, limit: float, used: int) -> AgentResult[Any]:

    error = AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        message,
        origin=Origin.LIMIT,
        details={"dimension": "depth", "limit": limit, "used": used},
    )
    return replace(result, status=Status.FAILED, error=error, committed=False)
