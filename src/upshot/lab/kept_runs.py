"""Runs of an experiment that are made once, and read afterwards.

Every run has an id that follows from what it is for: a trial, a judge's question, a simulated call.
So the same experiment again reads its log, and a process that died continues it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import Context
from typing import Any

from upshot.contract.agent import Agent
from upshot.contract.base.enums import Effect, InterruptCause, Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolOutcome
from upshot.entry import api
from upshot.entry.resume import fold_new_events
from upshot.entry.run_handle import RunHandle
from upshot.entry.session_setup import has_log
from upshot.errors import Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.lab.agent_digest import digest_of
from upshot.runs.plan import LAB_ATTRIBUTE
from upshot.runs.run_context import RunContext, stand_ins
from upshot.runs.services.handoffs import tool_name_of
from upshot.state.run_state import RunState
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.call_log import StandIn
from upshot.tools.gates.pipeline import Denial
from upshot.tools.repetition import NOT_RECORDED

LAB_GATE = "lab"
"""The gate in the records of calls that the lab denied or answered."""
_PREFIX = "lab-"
_ONLY_READS = "judges and simulators of the lab only read; continue without this call"
# Failures that the next try may not have.
_MAY_PASS = ("budget_exceeded", "internal", "auth_error", "taken_over", "journal_failed")


class KeptRuns:
    """The runs of one experiment.

    Args:
        experiment: Its name.
        journal: Where they are.
        options: Options of the agents that the lab asks itself.
        outside: The context of the caller, in which no run is in progress. The lab's own agents
            work in copies of it: they are no child runs, and their reads are real.
        judges: The agents that judge. Their digests are taken now, before anything runs that
            changes what they refer to.
    """

    def __init__(
        self,
        experiment: str,
        journal: Journal,
        options: Mapping[str, Any],
        outside: Context,
        judges: Iterable[Agent[Any]] = (),
    ) -> None:
        self._experiment = experiment
        self._journal = journal
        self._options = options
        self._outside = outside
        self._digests = {id(one): digest_of(one) for one in judges}

    async def result_of(
        self,
        parts: tuple[object, ...],
        *,
        start: Callable[[str], Awaitable[AgentResult[Any]]],
        resume: Callable[[str], Awaitable[AgentResult[Any]]],
    ) -> tuple[str, AgentResult[Any]]:
        """Start a run, or continue it, or read how it ended; returns its id too.

        A run that was stopped, or failed for a reason that may pass, is made again under another
        id.

        Args:
            parts: What the run is for; its id follows from it.
            start: Starts the run with this id.
            resume: Continues it.

        Raises:
            Misuse: Another process works on the run.
        """
        attempt = 1
        while True:
            run_id = _id_of(*parts, attempt)
            if not await has_log(run_id, self._journal):
                return run_id, await start(run_id)
            ended = await RunHandle(run_id, self._journal).result(0)
            if ended is None:
                try:
                    return run_id, await resume(run_id)
                except RunHeld as error:
                    raise Misuse(
                        f"the experiment {self._experiment} is being run by another process: wait "
                        "for its end, or give another journal"
                    ) from error
            if is_final(ended):
                return run_id, ended
            attempt += 1

    async def ask(
        self, agent: Agent[Any], text: str, parts: tuple[str, ...], about: JsonObject
    ) -> AgentResult[Any]:
        """Ask an agent of the lab's own, such as a judge, outside of any trial.

        Args:
            agent: The agent.
            text: The request.
            parts: What it is asked as, and what makes this run different from others.
            about: Goes into the attributes of the run.
        """
        options: dict[str, Any] = {"journal": self._journal, **self._options}

        async def start(run_id: str) -> AgentResult[Any]:
            attributes = {LAB_ATTRIBUTE: {**about, "role": parts[0]}}
            return await api.run(
                agent, Request(text, run_id=run_id), attributes=attributes, **options
            )

        async def resume(run_id: str) -> AgentResult[Any]:
            return await api.resume(run_id, agent, **options)

        async def work() -> AgentResult[Any]:
            stand_ins.set(reads_only)
            return (await self.result_of(parts, start=start, resume=resume))[1]

        return await asyncio.create_task(work(), context=self._outside.copy())

    async def earlier_costs(self, parts: tuple[object, ...], run_id: str) -> list[float | None]:
        """Return what the tries before this run cost, in US dollars; they stopped or failed."""
        found: list[float | None] = []
        while (earlier := _id_of(*parts, len(found) + 1)) != run_id:
            result = await RunHandle(earlier, self._journal).result(0)
            is_free = result is not None and result.usage.api_calls == 0
            found.append(0.0 if is_free else None if result is None else cost_of(result))
        return found

    def digest_of(self, agent: Agent[Any]) -> str:
        """Return the digest of a judge, the same for the whole experiment."""
        return self._digests.get(id(agent)) or digest_of(agent)

    async def costs(self, parts: tuple[str, ...]) -> list[float | None]:
        """Return what each try of a run cost, in US dollars; none if there was no such run."""
        found: list[float | None] = []
        while await has_log(run_id := _id_of(*parts, len(found) + 1), self._journal):
            result = await RunHandle(run_id, self._journal).result(0)
            found.append(None if result is None else cost_of(result))
        return found


def reads_only(context: RunContext) -> StandIn:
    """Return what denies the calls of a run that are not declared as reads.

    Judges and simulators change nothing, and neither do the runs that they start.
    """

    async def answer(call: CallState) -> ToolOutcome | None:
        tool = call.known_tool
        if tool.effect is Effect.READ or runs_as_usual(tool, context):
            return None
        return deny(call, _ONLY_READS)

    return answer


def runs_as_usual(tool: Tool, context: RunContext) -> bool:
    """Whether a tool changes nothing outside by itself: an agent, a handoff, read_artifact."""
    handoffs = set(map(tool_name_of, context.plan.handoffs))
    return tool.runs_agent or tool.name == READER_NAME or tool.name in handoffs


def deny(call: CallState, text: str) -> ToolOutcome:
    """Return the lab's denial of a call."""
    # A call that was interrupted did nothing either, since no body ran.
    call.give_up = None
    return call.pipeline.conclude(call, LAB_GATE, Denial(NOT_RECORDED, text))


def is_final(result: AgentResult[Any]) -> bool:
    """Whether a run need not be made again."""
    if result.status is Status.CANCELED:
        return False
    if result.status is Status.INTERRUPTED:
        return result.cause == InterruptCause.CUSTOM
    error = result.error
    return error is None or not (error.retryable or str(error.code) in _MAY_PASS)


def cost_of(result: AgentResult[Any]) -> float | None:
    """Return the cost of a run in US dollars, None if it is unknown."""
    total = None if result.cost is None else result.cost.total
    return None if total is None else float(total)


async def is_of_lab(run_id: str, journal: Journal) -> bool:
    """Whether a run was made by the lab: a trial, or one of the lab's own agents."""
    if not run_id.startswith(_PREFIX):
        return False
    past = RunState()
    await fold_new_events(past, run_id, journal)
    return past.started is not None and LAB_ATTRIBUTE in past.started.attributes


async def check_journal(journal: Journal) -> None:
    """Refuse a journal that has runs, but none of the lab.

    Raises:
        Misuse: It is such a journal.
    """
    if not await journal.runs(limit=1):
        return
    found = await journal.runs(prefix=_PREFIX, limit=1)
    if not (found and await is_of_lab(found[0].run_id, journal)):
        raise Misuse(
            "the journal has real runs, and trials must not be among them: give the lab a journal "
            "of its own, such as lab.db"
        )


def _id_of(*parts: object) -> str:
    text = "\n".join(map(str, parts))
    return f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:20]}"
