"""Replaying: running an agent against the record of a run instead of the outside world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.structs import Json
from upshot.contract.events import StepStarted
from upshot.contract.model_calls import Request
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.entry.planning import plan_again, secrets_of, to_agent
from upshot.entry.resume import fold_new_events, read_past
from upshot.entry.session_setup import typed
from upshot.errors import Misuse
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.opening import open_journal
from upshot.runs.plan import Plan, ResumeOptions, Where, check_options, check_run_id
from upshot.runs.replay.comparison import (
    Difference,
    changed_agent,
    changed_tool,
    facts_of,
    first_difference,
    missing_call,
)
from upshot.runs.replay.recording import Recording
from upshot.runs.run_context import current_run
from upshot.runs.session import Session
from upshot.state.child_runs import step_of
from upshot.state.run_state import RunState
from upshot.state.stored_events import result_of, seeds_of, states

# Options for the outside world; a replayed run gets none of them.
_OUTSIDE = ("approve", "artifact_store", "committers", "history", "host", "observers", "prepare")


# The parts of a model request that the log also has in words, from the agent or its tools.
_OF_THE_AGENT = ("instructions", "tools", "settings")


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of replaying a run.

    Attributes:
        run_id: The run.
        difference: The first difference; None if there is none.
        compared: How many facts the record has.
        result: The result of the replayed run.
    """

    run_id: str
    difference: Difference | None
    compared: int
    result: AgentResult[Any]

    @property
    def same(self) -> bool:
        """Whether the run did what the record says."""
        return self.difference is None


async def replay_run(
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    *,
    journal: Where,
    options: ResumeOptions,
) -> Replay:
    """See ``replay``."""
    check_run_id(run_id)
    check_options(options, also=("journal",))
    agent = to_agent(agent, options.get("engine"))
    if current_run.get() is not None:
        raise Misuse("a run cannot be replayed inside a run")
    async with open_journal(journal, create=False) as opened:
        hidden = secrets_of(options)
        await read_past(run_id, opened, secrets=hidden)
        logged = opened.events(run_id)
        events = [event async for event, _ in states(logged, seeds=seeds_of(opened))]
        record = Recording(events, hidden)
        results = {child: await _result_of(child, opened, hidden) for child in record.children}
        given = {name: one for name, one in options.items() if name not in _OUTSIDE}
        quiet = agent.but(observers=(), committers=())
        start = _Children(record, results).start
        plan = await plan_again(record.past, run_id, quiet, given, opened, child=start)
    if not getattr(plan.engine, "can_replay", True):
        name = type(plan.engine).__name__
        raise Misuse(f"a run of {name} cannot be replayed: it takes no replies of a log")
    copy = MemoryJournal()
    plan = replace(plan, journal=copy, artifact_store=copy.artifacts)
    result = await _run_session(plan, copy, record)
    again = [event async for event, _ in states(copy.events(run_id))]
    recorded = facts_of(events, is_left_out=record.is_left_out, show=record.show)
    found = (
        first_difference(recorded, facts_of(again, is_record=False, show=record.show)),
        missing_call(events, again, is_left_out=record.is_left_out),
    )
    # A difference beyond the record has no place in it, and comes last.
    found = sorted(filter(None, found), key=lambda one: one.seq or len(events) + 1)
    if not found or found[0].part in _OF_THE_AGENT:
        # It did the same, but would have made another model request or called another tool.
        versions = {tool.name: tool.version for tool in plan.tools}
        # An engine of another library may have its own tools.
        versions |= getattr(plan.engine, "tool_versions", {})
        changed = changed_tool(events, versions) or changed_agent(events, again)
        if changed is not None:
            part = found[0].part if found else ""
            found = [replace(changed, part=part)]
    difference = _to_shown(found[0], record) if found else None
    compared = len(recorded.facts) + len(recorded.seen)
    return Replay(run_id=run_id, difference=difference, compared=compared, result=result)


def _to_shown(difference: Difference, record: Recording) -> Difference:
    """Return the difference for display, with what was asked for beyond the record.

    Both sides have one form: an object whose first key is the event's kind.
    """
    kind = difference.kind

    def to_object(value: Json) -> Json:
        return record.show({"kind": kind, **value} if isinstance(value, dict) else value)

    return replace(
        difference,
        recorded=to_object(difference.recorded),
        replayed=to_object(difference.replayed),
        asked=record.beyond,
    )


async def _run_session(plan: Plan, journal: MemoryJournal, record: Recording) -> AgentResult[Any]:
    epoch = await journal.claim(plan.run_id)
    return await Session(plan, epoch=epoch, recording=record).run()


async def _result_of(
    run_id: str, journal: Journal, secrets: Sequence[str]
) -> AgentResult[Json] | None:
    past = RunState()
    await fold_new_events(past, run_id, journal, secrets=secrets)
    return result_of(past)


class _Children:
    """The results of the child runs, from their logs."""

    def __init__(self, record: Recording, results: dict[str, AgentResult[Any] | None]) -> None:
        self._record = record
        self._results = results

    async def start(
        self, agent: Agent[Any] | AgentSpec, request: Request | str, **_: Any
    ) -> AgentResult[Any]:
        """Return the result of the child run that was started this way."""
        named = request.run_id if isinstance(request, Request) else ""
        run_id = self._record.child(named)
        outer = current_run.get()
        if outer is not None and outer.is_near:
            # The child run's step records what was on the board when it was requested.
            outer.log(StepStarted(key=step_of(run_id)))
        result = self._results.get(run_id)
        if result is None:
            self._record.miss(f"the result of the run {run_id}")
        return typed(result, to_agent(agent))
