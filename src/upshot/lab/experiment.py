"""Experiments: agents tried on the cases of a dataset, without an effect outside.

An experiment is runs in a journal of its own, with ids that follow from the dataset, the variant
and the case. So a process that dies loses nothing: run it again, and it continues where it was. Run
it again with the same dataset and agents, and it costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent import Agent
from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.protocols import Clock, Journal
from upshot.contract.result import AgentResult
from upshot.contract.settings import Quota
from upshot.contract.tool_calls import ToolDenied, ToolRecord
from upshot.entry import api
from upshot.entry.resume import fold_new_events
from upshot.entry.run_handle import RunHandle, chain_from
from upshot.entry.session_setup import has_log
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.lab.dataset import Case, Dataset, RecordedCall, call_key
from upshot.lab.recorded_tools import RecordedTools, Source, Unseen, is_off_record
from upshot.lab.report import LabCall, Report, Row
from upshot.lab.scorers import Score, Scorer, ScorerFunction, Trial, scorer_of
from upshot.models.scripted import ScriptedModel
from upshot.runs.plan import Where
from upshot.runs.services.run_tools import stand_ins
from upshot.state.run_state import RunState
from upshot.tools.gates.approval_gate import ApprovalRequest

Approvals: TypeAlias = Literal["deny", "approve"] | Callable[[ApprovalRequest], bool]
"""Who approves a call that the record has no answer for."""
Progress: TypeAlias = Callable[[int, int, Row], None]
"""Called with how many runs are done, how many there are, and the last one."""

RECORD = "record"
"""The variant of what really happened."""


async def run(
    dataset: Dataset,
    variants: Mapping[str, Agent[Any]] | Agent[Any],
    *,
    scorers: Iterable[Scorer | ScorerFunction | Agent[Any]] = (),
    repeat: int = 1,
    name: str = "",
    journal: Where = "lab.db",
    tools: Source = "recorded",
    unseen: Unseen = "deny",
    approvals: Approvals = "deny",
    replies: Literal["live", "recorded"] = "live",
    dependencies: object = None,
    budget_usd: Decimal | float | None = None,
    concurrency: int = 10,
    progress: Progress | None = None,
) -> Report:
    """Try agents on a dataset, and compare them.

    Models are asked; tools answer from the record, so nothing outside changes. Observers and
    committers of the agents are not called. Code of your own runs: deciders, preparers, engines'
    scripts, and functions of graphs and machines.

    Args:
        dataset: The cases.
        variants: Agents by name; the first is the baseline. An agent alone is called "today".
        scorers: How results are judged; see ``scorers``.
        repeat: How often each case is run.
        name: The name of the experiment; "" makes one from the cases, the agents as far as they are
            data, and the options. Give another name after a change that is only code.
        journal: Where its runs are.
        tools: "recorded", or "live reads" to make reads that the record does not have.
        unseen: What a read gets that was not recorded: "deny", "stop", or what a function of tool,
            arguments and case returns.
        approvals: Whether calls are approved that the record has no answer for.
        replies: "live" asks the models; "recorded" replays the replies of the case, which costs
            nothing, and shows what the lab itself changes.
        dependencies: The ``dependencies`` of the runs, if instructions or deciders need them; the
            agents' own factories are not called.
        budget_usd: The most that all runs may cost together, in US dollars.
        concurrency: How many runs work at the same time.
        progress: Called after each run.

    Returns:
        The report; its first rows are what really happened, as the variant "record".

    Raises:
        Misuse: An argument is wrong.
        JournalError: The journal cannot be opened or written.
    """
    named = {"today": variants} if isinstance(variants, Agent) else dict(variants)
    _check(dataset, named, repeat, concurrency)
    judges = [scorer_of(one) for one in scorers]
    options: dict[str, Any] = {"dependencies": dependencies or _NoDependencies()}
    if budget_usd is not None:
        options["quotas"] = [Quota("lab", max_cost_usd=Decimal(str(budget_usd)))]
    async with open_journal(journal) as opened:
        made = _Experiment(
            dataset=dataset,
            variants=named,
            scorers=judges,
            name=name or _name_of(dataset, named, (tools, unseen, approvals, replies)),
            journal=opened,
            source=tools,
            unseen=unseen,
            approvals=approvals,
            is_recorded=replies == "recorded",
            options=options,
        )
        return await made.run(repeat, concurrency, progress)


@dataclass
class _Experiment:
    dataset: Dataset
    variants: Mapping[str, Agent[Any]]
    scorers: Sequence[Scorer]
    name: str
    journal: Journal
    source: Source
    unseen: Unseen
    approvals: Approvals
    is_recorded: bool
    options: Mapping[str, Any]

    async def run(self, repeat: int, concurrency: int, progress: Progress | None) -> Report:
        jobs = [
            (case, variant, number)
            for number in range(1, repeat + 1)
            for case in self.dataset
            for variant in self.variants
        ]
        rows: list[Row] = [await self._record_of(case) for case in self.dataset]
        slots, done = asyncio.Semaphore(concurrency), 0

        async def work(case: Case, variant: str, number: int) -> Row:
            nonlocal done
            async with slots:
                row = await self._row(case, variant, number)
            done += 1
            if progress is not None:
                progress(done, len(jobs), row)
            return row

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(*job)) for job in jobs]
        rows += [task.result() for task in tasks]
        over = sum(row.error == "budget_exceeded" for row in rows if row.variant != RECORD)
        return Report(
            name=self.name,
            dataset=self.dataset.name,
            digest=self.dataset.digest,
            cases=len(self.dataset),
            repeat=repeat,
            variants=tuple(self.variants),
            scorers=tuple(one.name for one in self.scorers),
            rows=tuple(rows),
            stopped=f"{over} runs were stopped by a budget" if over else "",
        )

    async def _record_of(self, case: Case) -> Row:
        return Row(
            case=case.id,
            variant=RECORD,
            run_id=case.run_id,
            status=case.status,
            answer=case.answer,
            error=case.error,
            cost=float(case.cost) if case.cost else None,
            tokens=case.tokens,
            took_s=case.took_s,
        )

    async def _row(self, case: Case, variant: str, number: int) -> Row:
        run_id = _id_of(self.name, variant, case.id, number)
        result = await self._result(case, self.variants[variant], run_id)
        trial = await self._trial(run_id, result)
        scores: dict[str, Score] = {}
        for scorer in self.scorers:
            scores[scorer.name] = await scorer.score(case, trial)
        return Row(
            case=case.id,
            variant=variant,
            repeat=number,
            run_id=run_id,
            status=str(result.status.value),
            answer=result.content,
            error="" if result.error is None else str(result.error.code),
            scores=scores,
            off_record=tuple(map(_lab_call, trial.off_record)),
            new_effects=tuple(map(_lab_call, trial.new_effects)),
            cost=trial.cost,
            tokens=result.usage.total_tokens or 0,
            took_s=result.duration_ms / 1000,
        )

    async def _result(self, case: Case, agent: Agent[Any], run_id: str) -> AgentResult[Any]:
        """Run a case, or continue the run, or read how it ended."""
        answering = RecordedTools(case, self.source, self.unseen)
        # Only for this task, and for everything that it starts.
        stand_ins.set(answering.of_run)
        quiet = agent.but(observers=(), committers=())
        options: dict[str, Any] = {
            "journal": self.journal,
            "host": _RecordedHost(case),
            "approve": _RecordedApprovals(case, self.approvals),
            "clock": _RecordedClock(case.started_at),
            **self.options,
        }
        if self.is_recorded:
            options["model"] = ScriptedModel(case.replies, name=_model_name(agent))
        if await has_log(run_id, self.journal):
            handle = RunHandle(run_id, self.journal)
            if (ended := await handle.result(0)) is not None:
                return ended
            return await api.resume(run_id, quiet, **options)
        request = _request_of(case, run_id)
        if case.history:
            options["history"] = case.history
        options["attributes"] = dict(case.attributes)
        if agent.handoffs:
            return await api.run_with_handoffs([quiet], request, **options)
        return await api.run(quiet, request, **options)

    async def _trial(self, run_id: str, result: AgentResult[Any]) -> Trial:
        records = [
            record
            for one in await chain_from(run_id, self.journal)
            async for record in _records_of(one, self.journal)
        ]
        missed = [_call_of(one) for one in records if is_off_record(one)]
        total = None if result.cost is None else result.cost.total
        return Trial(
            result=result,
            calls=tuple(
                _call_of(one) for one in records if not isinstance(one.outcome, ToolDenied)
            ),
            off_record=tuple(one for one in missed if one.declared is Effect.READ),
            new_effects=tuple(one for one in missed if one.declared is not Effect.READ),
            cost=None if total is None else float(total),
        )


async def _records_of(run_id: str, journal: Journal) -> AsyncIterator[ToolRecord]:
    past = RunState()
    await fold_new_events(past, run_id, journal)
    for record in past.records:
        yield record
    for child in past.children:
        async for record in _records_of(child, journal):
            yield record


def _call_of(record: ToolRecord) -> RecordedCall:
    return RecordedCall(
        tool=record.tool_name,
        arguments=record.arguments_executed or record.arguments_validated or {},
        effect=record.effect,
        declared=record.declared_effect or Effect.READ,
        outcome=record.outcome,
    )


def _lab_call(call: RecordedCall) -> LabCall:
    return LabCall(tool=call.tool, arguments=call.arguments)


class _RecordedHost:
    """Answers questions as the user did, in order."""

    def __init__(self, case: Case) -> None:
        self._answers = [*case.answers.values()]

    def ask_user(self, question: str) -> Json:
        if not self._answers:
            raise LookupError("the record has no answer to this question")
        return self._answers.pop(0)


class _RecordedApprovals:
    """Approves what was approved."""

    def __init__(self, case: Case, otherwise: Approvals) -> None:
        self._known = case.approvals
        self._otherwise = otherwise

    def __call__(self, request: ApprovalRequest) -> bool:
        known = self._known.get(call_key(request.tool_name, dict(request.arguments)))
        if known is not None:
            return known
        if callable(self._otherwise):
            return self._otherwise(request)
        return self._otherwise == "approve"


class _RecordedClock(Clock):
    """A clock that starts when the recorded run did."""

    def __init__(self, started_at: datetime | None) -> None:
        self._began = time.monotonic()
        self._started_at = started_at or SYSTEM_CLOCK.now()

    def now(self) -> datetime:
        return self._started_at + timedelta(seconds=time.monotonic() - self._began)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


class _NoDependencies:
    """Stands in for the dependencies of an agent, which the lab does not open."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the lab opens no dependencies, and {name!r} of them was used: pass dependencies= "
            "to lab.run"
        )


def _check(
    dataset: Dataset, variants: Mapping[str, Agent[Any]], repeat: int, concurrency: int
) -> None:
    if not len(dataset):
        raise Misuse(f"the dataset {dataset.name!r} has no cases")
    if not variants:
        raise Misuse('lab.run needs a variant: {"today": agent}')
    for name, agent in variants.items():
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"the variant {name!r} is {format_value(agent)}: give an Agent")
        if name == RECORD:
            raise Misuse(f"a variant cannot be called {RECORD!r}: that is what really happened")
    for what, number in (("repeat", repeat), ("concurrency", concurrency)):
        if type(number) is not int or number < 1:
            raise Misuse(f"{what} is a whole number from 1, got {format_value(number)}")


def _request_of(case: Case, run_id: str) -> Any:
    from msgspec.structs import replace

    return replace(case.request, run_id=run_id, context_id="")


def _model_name(agent: Agent[Any]) -> str:
    model = agent.model
    name = model if isinstance(model, str) else getattr(model, "name", "")
    return name or "scripted:record"


def _name_of(dataset: Dataset, variants: Mapping[str, Agent[Any]], how: Sequence[object]) -> str:
    """Return a name that changes with the cases, the agents, and how they are tried."""
    chosen = [one if isinstance(one, str) else getattr(one, "__name__", "") for one in how]
    specs = [dataset.digest, *(f"{name} {encode(one.spec())!r}" for name, one in variants.items())]
    specs += chosen
    return f"{dataset.name}-{hashlib.sha256(chr(10).join(specs).encode()).hexdigest()[:8]}"


def _id_of(*parts: object) -> str:
    text = "\n".join(map(str, parts))
    return f"lab-{hashlib.sha256(text.encode()).hexdigest()[:20]}"
