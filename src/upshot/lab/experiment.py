"""Experiments: agents tried on the cases of a dataset, without an effect outside.

An experiment is runs in a journal of its own, with ids that follow from the dataset, the variant
and the case. So a process that dies loses nothing: run it again, and it continues where it was. Run
it again with the same dataset and agents, and it costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, TypeAlias, cast, get_args

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent import Agent
from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import Effect, InterruptCause, Status
from upshot.contract.base.structs import Json
from upshot.contract.base.words import count
from upshot.contract.codec import encode
from upshot.contract.protocols import Clock, Journal
from upshot.contract.result import AgentResult
from upshot.contract.settings import Policy, Quota
from upshot.contract.tool_calls import ToolDenied, ToolRecord
from upshot.entry import api
from upshot.entry.resume import fold_new_events
from upshot.entry.run_handle import RunHandle, chain_from
from upshot.entry.session_setup import has_log
from upshot.errors import Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import open_journal
from upshot.lab.dataset import Case, Dataset, RecordedCall, call_key
from upshot.lab.recorded_tools import RecordedTools, Source, Unseen, is_missed, key_of
from upshot.lab.report import LabCall, Report, Row
from upshot.lab.scorers import Score, Scorer, ScorerFunction, Trial, scorer_of
from upshot.models.scripted import ScriptedModel
from upshot.runs.plan import Where
from upshot.runs.run_context import stand_ins
from upshot.state.run_state import RunState
from upshot.tools.gates.approval_gate import ApprovalRequest

Approvals: TypeAlias = Literal["deny", "approve"] | Callable[[ApprovalRequest], bool]
"""Who approves a call that the record has no answer for."""
Progress: TypeAlias = Callable[[int, int, Row], None]
"""Called with how many runs are done, how many there are, and the last one."""


@dataclass(frozen=True)
class Variant:
    """An agent to try, with other rules on tools than the recorded runs had.

    Attributes:
        agent: The agent.
        policy: The rules; None keeps those of each case.
    """

    agent: Agent[Any]
    policy: Policy | None = None


RECORD = "record"
"""The variant of what really happened."""


async def run(
    dataset: Dataset,
    variants: Mapping[str, Agent[Any] | Variant] | Agent[Any],
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
        variants: Agents by name; the first is the baseline. An agent alone is called "today". A
            ``Variant`` is an agent with a policy to try.
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
    chosen = {"tools": tools, "unseen": unseen, "approvals": approvals, "replies": replies}
    named = _check(dataset, variants, chosen, repeat=repeat, concurrency=concurrency)
    judges = check_scorers(scorers)
    options: dict[str, Any] = {"dependencies": dependencies or _NoDependencies()}
    name = name or _name_of(dataset, named, (*chosen.values(),))
    if budget_usd is not None:
        options["quotas"] = [_quota_of(name, budget_usd)]
    async with open_journal(journal) as opened:
        made = _Experiment(
            dataset=dataset,
            variants=named,
            scorers=judges,
            name=name,
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
    variants: Mapping[str, Variant]
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

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work(*job)) for job in jobs]
        except ExceptionGroup as failed:
            # The caller made one mistake, such as an agent without a model, for all runs.
            raise failed.exceptions[0] from failed
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
            stopped=f"{count(over, 'run')} stopped at a budget" if over else "",
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
        run_id, result = await self._result(case, variant, number)
        trial = await self._trial(case, run_id, result)
        scores: dict[str, Score] = {}
        # Scorers may run agents of their own, whose tools are real.
        stand_ins.set(None)
        for scorer in self.scorers:
            try:
                scores[scorer.name] = await scorer.score(case, trial)
            except Exception as error:  # the caller's own code, which must not end the experiment
                reason = f"raised {type(error).__name__}: {error}"
                scores[scorer.name] = Score(reason=reason)
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

    async def _result(self, case: Case, variant: str, number: int) -> tuple[str, AgentResult[Any]]:
        """Run a case, or continue the run, or read how it ended; returns the run too.

        A run that was stopped, or failed for a reason that may pass, is made again under another
        id.
        """
        attempt, tried = 1, self.variants[variant]
        while True:
            run_id = _id_of(self.name, variant, case.id, number, attempt)
            if not await has_log(run_id, self.journal):
                return run_id, await self._start(case, tried, run_id)
            ended = await RunHandle(run_id, self.journal).result(0)
            if ended is None:
                return run_id, await self._resume(case, tried, run_id)
            if _is_final(ended):
                return run_id, ended
            attempt += 1

    async def _resume(self, case: Case, tried: Variant, run_id: str) -> AgentResult[Any]:
        runs = await chain_from(run_id, self.journal)
        states = [state for one in runs async for state in _states_of(one, self.journal)]
        try:
            return await api.resume(runs[-1], tried.agent, **self._options(case, tried, states))
        except RunHeld as error:
            raise Misuse(
                f"the experiment {self.name} is being run by another process: wait for its end, "
                "or give another journal"
            ) from error

    async def _start(self, case: Case, tried: Variant, run_id: str) -> AgentResult[Any]:
        options, request = self._options(case, tried, ()), _request_of(case, run_id)
        agent = tried.agent
        if case.history:
            options["history"] = case.history
        options["attributes"] = dict(case.attributes)
        if agent.handoffs:
            return await api.run_with_handoffs([agent], request, **options)
        return await api.run(agent, request, **options)

    def _options(self, case: Case, tried: Variant, states: Sequence[RunState]) -> dict[str, Any]:
        """Return the options of a run; *states* are those of its earlier sessions, if any."""
        made = [record for state in states for record in state.records]
        answering = RecordedTools(case, self.source, self.unseen)
        answering.add_made(made)
        # Only for this task, and for everything that it starts.
        stand_ins.set(answering.of_run)
        options: dict[str, Any] = {
            "journal": self.journal,
            "host": _RecordedHost(case, sum(len(one.answers_given) for one in states)),
            "approve": _RecordedApprovals(case, self.approvals, states),
            "clock": _RecordedClock(case.started_at),
            "policy": tried.policy or case.policy,
            **self.options,
        }
        if self.is_recorded:
            options["model"] = ScriptedModel(case.replies, name=_model_name(tried.agent))
        return options

    async def _trial(self, case: Case, run_id: str, result: AgentResult[Any]) -> Trial:
        records = [
            record
            for one in await chain_from(run_id, self.journal)
            async for state in _states_of(one, self.journal)
            for record in state.records
        ]
        missed = [_call_of(one) for one in records if is_missed(one, case)]
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


async def _states_of(run_id: str, journal: Journal) -> AsyncIterator[RunState]:
    """Yield the state of a run, and those of its child runs."""
    past = RunState()
    await fold_new_events(past, run_id, journal)
    yield past
    for child in past.children:
        async for inner in _states_of(child, journal):
            yield inner


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
    """Answers questions as the user did, in order.

    Args:
        case: The case.
        given: How many answers earlier sessions got.
    """

    def __init__(self, case: Case, given: int) -> None:
        self._answers = [*case.answers.values()][given:]

    def ask_user(self, question: str) -> Json:
        if not self._answers:
            raise LookupError("the record has no answer to this question")
        return self._answers.pop(0)


class _RecordedApprovals:
    """Approves what was approved, in order; the last answer counts for further equal calls.

    Args:
        case: The case.
        otherwise: For calls that the record has no answer for.
        states: What earlier sessions did; their calls are not asked about again.
    """

    def __init__(self, case: Case, otherwise: Approvals, states: Sequence[RunState]) -> None:
        self._known = case.approvals
        self._otherwise = otherwise
        self._given = Counter[str]()
        for state in states:
            self._given.update(key_of(one) for one in state.records if one.approval is not None)
            # A call that has started was approved, if that was needed.
            started = state.unsettled.values()
            self._given.update(call_key(one.call.name, one.arguments) for one in started)

    def __call__(self, request: ApprovalRequest) -> bool:
        key = call_key(request.tool_name, dict(request.arguments))
        if known := self._known.get(key):
            self._given[key] += 1
            return known[min(self._given[key], len(known)) - 1]
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


_CHOICES: dict[str, tuple[str, ...]] = {
    "tools": get_args(Source),
    "unseen": ("deny", "stop"),
    "approvals": ("deny", "approve"),
    "replies": ("live", "recorded"),
}


def _check(
    dataset: object, variants: object, chosen: Mapping[str, object], **numbers: object
) -> dict[str, Variant]:
    """Check the arguments of ``run``; returns the variants by name."""
    if not isinstance(dataset, Dataset):
        raise Misuse(f"lab.run takes a Dataset, got {format_value(dataset)}")
    if not len(dataset):
        raise Misuse(f"the dataset {dataset.name!r} has no cases")
    for what, given in chosen.items():
        is_function = callable(given) and what in ("unseen", "approvals")
        if not is_function and given not in _CHOICES[what]:
            listed = " or ".join(map(repr, _CHOICES[what]))
            raise Misuse(f"{what} is {listed}, got {format_value(given)}")
    empty = next((case.id for case in dataset if not case.replies), None)
    if chosen["replies"] == "recorded" and empty is not None:
        raise Misuse(f"the case {empty!r} has no recorded replies: use replies='live'")
    for what, number in numbers.items():
        if type(number) is not int or number < 1:
            raise Misuse(f"{what} is a whole number from 1, got {format_value(number)}")
    return _check_variants(variants)


def _check_variants(variants: object) -> dict[str, Variant]:
    if isinstance(variants, Agent):
        return {"today": Variant(cast("Agent[Any]", variants))}
    if not isinstance(variants, Mapping) or not variants:
        got = format_value(cast("object", variants))
        raise Misuse(f'variants are agents by name, such as {{"today": agent}}, got {got}')
    named: dict[str, Variant] = {}
    for name, given in cast("Mapping[str, object]", variants).items():
        tried = given if isinstance(given, Variant) else Variant(cast("Agent[Any]", given))
        if not isinstance(tried.agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"the variant {name!r} is {format_value(given)}: give an Agent")
        if not isinstance(tried.policy, Policy | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
            got = format_value(cast("object", tried.policy))
            raise Misuse(f"the policy of {name!r} is {got}: give a Policy")
        if name == RECORD:
            raise Misuse(f"a variant cannot be called {RECORD!r}: that is what really happened")
        named[name] = tried
    return named


def check_scorers(scorers: object) -> list[Scorer]:
    """Return the scorers of a list.

    Raises:
        Misuse: It is no list, an item cannot score, or two have one name.
    """
    if not isinstance(scorers, Iterable):
        raise Misuse(f"scorers are a list, got {format_value(scorers)}")
    found = [scorer_of(one) for one in cast("Iterable[Scorer | ScorerFunction]", scorers)]
    names = [one.name for one in found]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise Misuse(f"two scorers are called {double!r}: use lab.Scorer(name, function)")
    return found


def _quota_of(name: str, budget_usd: Decimal | float) -> Quota:
    try:
        most = Decimal(str(budget_usd))
    except InvalidOperation as error:
        got = format_value(budget_usd)
        raise Misuse(f"budget_usd is an amount of US dollars, got {got}") from error
    return Quota(f"lab {name}", max_cost_usd=most)


# Failures that the next try may not have.
_MAY_PASS = ("budget_exceeded", "internal", "auth_error", "taken_over", "journal_failed")


def _is_final(result: AgentResult[Any]) -> bool:
    """Whether a run need not be made again."""
    if result.status is Status.CANCELED:
        return False
    if result.status is Status.INTERRUPTED:
        return result.cause == InterruptCause.CUSTOM
    error = result.error
    return error is None or not (error.retryable or str(error.code) in _MAY_PASS)


def _request_of(case: Case, run_id: str) -> Any:
    from msgspec.structs import replace

    return replace(case.request, run_id=run_id, context_id="")


def _model_name(agent: Agent[Any]) -> str:
    model = agent.model
    name = model if isinstance(model, str) else getattr(model, "name", "")
    return name or "scripted:record"


def _name_of(dataset: Dataset, variants: Mapping[str, Variant], how: Sequence[object]) -> str:
    """Return a name that changes with the cases, the agents, and how they are tried."""
    chosen = [one if isinstance(one, str) else getattr(one, "__name__", "") for one in how]
    specs = [
        dataset.digest,
        *(f"{name} {encode(one.agent.spec())!r}" for name, one in variants.items()),
        *(f"{name} {encode(one.policy)!r}" for name, one in variants.items() if one.policy),
    ]
    specs += chosen
    return f"{dataset.name}-{hashlib.sha256(chr(10).join(specs).encode()).hexdigest()[:8]}"


def _id_of(*parts: object) -> str:
    text = "\n".join(map(str, parts))
    return f"lab-{hashlib.sha256(text.encode()).hexdigest()[:20]}"
