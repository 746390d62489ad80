"""Experiments: agents tried on the cases of a dataset, without an effect outside.

An experiment is runs in a journal of its own, with ids that follow from the dataset, the variant
and the case. So a process that dies loses nothing: run it again, and it continues where it was. Run
it again with the same dataset and agents, and it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, TypeAlias, cast, get_args

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK, SystemClock
from upshot.contract.agent import Agent
from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.base.words import count
from upshot.contract.model_calls import ModelInput, ModelResponse
from upshot.contract.protocols import Journal, Model, StreamItem
from upshot.contract.result import AgentResult
from upshot.contract.settings import Policy, Quota
from upshot.contract.tool_calls import ToolDenied, ToolRecord
from upshot.entry import api
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.lab.agent_digest import digest_of
from upshot.lab.dataset import (
    Case,
    Dataset,
    RecordedCall,
    answers_in,
    call_key,
    chain_states,
    own_records,
    repeats_own,
    signals_in,
    to_call,
    with_children,
)
from upshot.lab.kept_reports import KeptExperiment, keep_report, keep_start
from upshot.lab.kept_runs import LAB_GATE, KeptRuns, check_journal, cost_of
from upshot.lab.recorded_tools import (
    RecordedTools,
    Source,
    Unseen,
    check_masking,
    is_missed,
    is_simulated,
    simulator_error,
    was_asked,
)
from upshot.lab.report import LabCall, Report, Row
from upshot.lab.scorers import AnyScorer, AskJudge, Score, Scorer, Trial, missing_writes, scorer_of
from upshot.lab.simulation import Simulator, check_simulator
from upshot.models.registry import resolve
from upshot.models.scripted import ScriptedModel
from upshot.runs.plan import LAB_ATTRIBUTE, Where
from upshot.runs.run_context import stand_ins
from upshot.state.run_state import RunState
from upshot.tools.gates.approval_gate import ApprovalRequest, EditArguments
from upshot.tools.gates.pipeline import Denial
from upshot.tools.repetition import NOT_RECORDED

Approvals: TypeAlias = Literal["deny", "approve"] | Callable[[ApprovalRequest], bool | None]
"""Who approves a call that the record has no answer for."""
Progress: TypeAlias = Callable[[int, int, Row], None]
"""Called with how many runs are done, how many there are, and the last one."""


@dataclass(frozen=True)
class Variant:
    """An agent to try, with its own rules on tools if they differ from the recorded runs'.

    Attributes:
        agent: The agent.
        policy: The rules; None keeps those of each case.
    """

    agent: Agent[Any]
    policy: Policy | None = None


Mask: TypeAlias = Callable[[Any], Any]

RECORD = "record"
"""The variant of what really happened."""


async def run(
    dataset: Dataset,
    variants: Mapping[str, Agent[Any] | Variant] | Agent[Any],
    *,
    scorers: Iterable[AnyScorer] = (),
    repeat: int = 1,
    name: str = "",
    journal: Where = "lab.db",
    tools: Source = "recorded",
    unseen: Unseen = "deny",
    simulator: Simulator | None = None,
    approvals: Approvals = "deny",
    replies: Literal["live", "recorded"] = "live",
    dependencies: object = None,
    run_options: Mapping[str, Any] | None = None,
    secrets: Iterable[str] = (),
    budget_usd: Decimal | float | None = None,
    concurrency: int = 10,
    progress: Progress | None = None,
) -> Report:
    """Try agents on a dataset, and compare them.

    Models are asked; tools answer from the record, so nothing outside changes. Observers and
    committers of the agents are not called, and judges and simulators only read. Code of your own
    runs: deciders, preparers, engines' scripts, and functions, such as those of graphs.

    Args:
        dataset: The cases.
        variants: Agents by name; the first is the baseline. An agent alone is called "today". A
            ``Variant`` is an agent with a policy to try.
        scorers: How results are judged; see ``scorers``.
        repeat: How often each case is run.
        name: The name of the experiment; "" makes one from the cases, the agents, the options, and
            what all these refer to. A change of these makes new runs under any name; give another
            name after a change in code of other modules.
        journal: Where its runs are; not where an App's are.
        tools: "recorded"; "simulated" for all calls; or "live reads" to make reads that the record
            does not have.
        unseen: What a call gets that was not recorded: "deny", for a read also "stop", or
            "simulated".
        simulator: Answers simulated calls: a function of a ``SimulatedCall`` that returns or raises
            what the tool would, an agent, or the name of a model.
        approvals: Whether calls are approved that the record has no answer for; None of a function
            is a denial too.
        replies: "live" asks the models; "recorded" replays the replies of the case, which costs
            nothing, and shows what the lab itself changes.
        dependencies: The ``dependencies`` of the runs, if instructions or deciders need them; the
            agents' own factories are not called.
        run_options: The ``gates``, ``on_pre_tool_use``, ``deciders`` and ``tools`` that your runs
            are given, if any: they are code, so the record does not have them.
        secrets: Texts that are masked in the journal of the experiment and in the report. Give
            those of the recorded runs, so that a call with one of them is found in the record.
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
    simulates = _check_simulator(simulator, is_used="simulated" in (tools, unseen))
    judges = check_scorers(scorers)
    asked = [one.agent for one in judges if one.agent is not None]
    given = _check_run_options(run_options or {})
    secrets, mask = _check_secrets(secrets)
    made_of = (dataset.digest, named, chosen, simulates, dependencies, secrets, given)
    digest = digest_of(*made_of)[:8]
    label = f"{name or dataset.name}-{digest}"
    name = name or label
    shared: dict[str, Any] = {"secrets": secrets} if secrets else {}
    if budget_usd is not None:
        shared["quotas"] = [_quota_of(label, budget_usd)]
    options = {"dependencies": dependencies or _NoDependencies(), **given, **shared}
    async with open_journal(journal) as opened:
        made = _Experiment(
            dataset=dataset,
            variants=named,
            scorers=judges,
            name=name,
            digest=digest,
            journal=opened,
            source=tools,
            unseen=unseen,
            simulator=simulates,
            kept=KeptRuns(name, opened, shared, copy_context(), asked),
            approvals=approvals,
            secrets=secrets,
            mask=mask,
            is_recorded=replies == "recorded",
            options=options,
        )
        await check_journal(opened)
        report = await made.run(repeat, concurrency, progress)
        await keep_report(opened, report)
        vars(report)["runs_read"] = made.read
        return report


@dataclass
class _Experiment:
    dataset: Dataset
    variants: Mapping[str, Variant]
    scorers: Sequence[Scorer]
    name: str
    digest: str
    journal: Journal
    source: Source
    unseen: Unseen
    simulator: Any
    kept: KeptRuns
    approvals: Approvals
    secrets: tuple[str, ...]
    mask: Mask
    is_recorded: bool
    options: Mapping[str, Any]
    read: int = 0

    async def run(self, repeat: int, concurrency: int, progress: Progress | None) -> Report:
        entry = KeptExperiment(
            name=self.name,
            dataset=self.dataset.name,
            cases=len(self.dataset),
            repeat=repeat,
            variants=tuple(self.variants),
        )
        await keep_start(self.journal, entry)
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
        made = [task.result() for task in tasks]
        rows += made
        over = [row.error_message for row in made if row.error == "budget_exceeded"]
        return Report(
            name=self.name,
            dataset=self.dataset.name,
            digest=self.dataset.digest,
            cases=len(self.dataset),
            repeat=repeat,
            variants=tuple(self.variants),
            # A scorer may give several scores, whose names only it knows.
            scorers=tuple(dict.fromkeys(name for row in rows for name in row.scores)),
            rows=tuple(rows),
            requests={one.id: one.request.text for one in self.dataset},
            expected={one.id: one.expected for one in self.dataset if one.expected is not None},
            stopped=f"{count(len(over), 'run')} stopped at a budget: {over[0]}" if over else "",
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
        tried = self.variants[variant]
        about: JsonObject = {"experiment": self.name, "case": case.id, "variant": variant}
        helpers = _LabAgents(self.kept, about)
        worked = False

        async def start(run_id: str) -> AgentResult[Any]:
            nonlocal worked
            worked = True
            return await self._start(case, tried, run_id, helpers)

        async def resume(run_id: str) -> AgentResult[Any]:
            nonlocal worked
            worked = True
            chain = await chain_states(run_id, self.journal, secrets=self.secrets)
            states = [
                state async for state in with_children(chain, self.journal, secrets=self.secrets)
            ]
            options = self._options(case, tried, states, helpers)
            last = run_id if chain[-1].started is None else chain[-1].started.run_id
            agent = self._agent_for(case, tried.agent)
            return await api.resume(last, agent, **options)

        parts = (self.name, self.digest, variant, case.id, number)
        run_id, result = await self.kept.result_of(parts, start=start, resume=resume)
        self.read += not worked
        if result.status is Status.INPUT_REQUIRED and await self._send_signals(case, run_id):
            run_id, result = await self.kept.result_of(parts, start=start, resume=resume)
        if helpers.faults:
            raise Misuse(helpers.faults[0])
        trial = await self._trial(case, run_id, result, helpers)
        return Row(
            case=case.id,
            variant=variant,
            repeat=number,
            run_id=run_id,
            status=str(result.status.value),
            answer=result.content,
            error="" if result.error is None else str(result.error.code),
            error_message="" if result.error is None else result.error.message,
            scores=await self._scores(case, trial),
            off_record=tuple(map(_lab_call, trial.off_record)),
            new_effects=tuple(map(_lab_call, trial.new_effects)),
            missing_effects=tuple(map(_lab_call, missing_writes(case, trial.calls))),
            simulated=tuple(map(_lab_call, trial.simulated)),
            simulator_errors=trial.simulator_errors,
            cost=trial.cost,
            earlier_cost=_total_of(await self.kept.earlier_costs(parts, run_id)),
            simulation_cost=_total_of(helpers.simulation_costs),
            judging_cost=_total_of(helpers.judging_costs),
            tokens=result.usage.total_tokens or 0,
            took_s=result.duration_ms / 1000,
        )

    async def _send_signals(self, case: Case, run_id: str) -> bool:
        """Send a parked run the recorded signals; returns whether it had not got them yet."""
        if not case.signals:
            return False
        chain = await chain_states(run_id, self.journal, secrets=self.secrets)
        taken = Counter(one.name for one in signals_in(chain))
        handle, sent = RunHandle(run_id, self.journal), list[str]()
        for number, one in enumerate(case.signals):
            taken[one.name] -= 1
            if taken[one.name] < 0:
                # The key finds those that an earlier session sent, and the run has not taken.
                sent.append(await handle.signal(one.name, one.value, key=f"recorded {number}"))
        return "delivered" in sent

    async def _scores(self, case: Case, trial: Trial) -> dict[str, Score]:
        scores: dict[str, Score] = {}
        # Scorers may run agents of their own, whose tools are real.
        stand_ins.set(None)
        for scorer in self.scorers:
            try:
                scores |= await scorer.scores(case, trial)
            except Exception as error:  # the caller's own code, which must not end the experiment
                reason = f"raised {type(error).__name__}: {error}"
                scores[scorer.name] = Score(reason=reason)
        return scores

    async def _start(
        self, case: Case, tried: Variant, run_id: str, helpers: _LabAgents
    ) -> AgentResult[Any]:
        options = self._options(case, tried, (), helpers)
        request = replace(case.request, run_id=run_id, context_id="")
        agent = self._agent_for(case, tried.agent)
        if case.history:
            options["history"] = case.history
        options["attributes"] = {**case.attributes, LAB_ATTRIBUTE: helpers.about}
        if agent.handoffs:
            return await api.run_with_handoffs([agent], request, **options)
        return await api.run(agent, request, **options)

    def _agent_for(self, case: Case, agent: Agent[Any]) -> Agent[Any]:
        if self.is_recorded or not case.first_replies or agent.model is None:
            return agent
        # A model among the options would be that of child runs too.
        return agent.but(model=_FirstReplies(case.first_replies, agent.model))

    def _options(
        self, case: Case, tried: Variant, states: Sequence[RunState], helpers: _LabAgents
    ) -> dict[str, Any]:
        """Return the options of a run; *states* are those of its earlier sessions, if any."""
        made = [record for state in states for record in state.records]
        answering = RecordedTools(
            case,
            source=self.source,
            unseen=self.unseen,
            simulator=self.simulator,
            ask=helpers.simulate,
            mask=self.mask,
        )
        answering.add_made(made)
        # Only for this task, and for everything that it starts.
        stand_ins.set(answering.of_run)
        options: dict[str, Any] = {
            "journal": self.journal,
            "host": _RecordedHost(case, sum(len(answers_in(one)) for one in states)),
            "approve": _RecordedApprovals(case, self.approvals, states, self.mask, helpers.faults),
            "clock": _RecordedClock(case.started_at),
            "policy": tried.policy or case.policy,
            "budget": case.budget,
            "max_attempts": case.max_attempts,
            **self.options,
        }
        if self.is_recorded:
            options["model"] = ScriptedModel(case.replies, name=_model_name(tried.agent))
        return options

    async def _trial(
        self, case: Case, run_id: str, result: AgentResult[Any], helpers: _LabAgents
    ) -> Trial:
        found = await self._records(run_id, result)
        records = self.mask([one for one in found if not repeats_own(one)])
        if isinstance(self.simulator, Agent):
            await helpers.count_simulations(one.idempotency_key for one in records)
        judged = [(one, to_call(one), is_missed(one, case)) for one in records]
        missed = [call for _, call, is_missing in judged if is_missing]
        answered = [one for one in judged if not isinstance(one[0].outcome, ToolDenied)]
        denied = [one for one in judged if isinstance(one[0].outcome, ToolDenied)]
        return Trial(
            result=result,
            calls=tuple(call for _, call, is_missing in answered if not is_missing),
            off_record=tuple(one for one in missed if one.declared is Effect.READ),
            new_effects=tuple(one for one in missed if one.declared is not Effect.READ),
            simulated=tuple(call for one, call, _ in answered if is_simulated(one)),
            simulator_errors=tuple(filter(None, map(simulator_error, records))),
            made=tuple(
                call
                for one, call, is_missing in judged
                if is_missing or not isinstance(one.outcome, ToolDenied)
            ),
            asked=tuple(call for one, call, _ in judged if was_asked(one)),
            denied=tuple(call for one, call, _ in denied if one.gate != LAB_GATE),
            cost=cost_of(result),
            ask=helpers.judge_of(run_id),
        )

    async def _records(self, run_id: str, result: AgentResult[Any]) -> Sequence[ToolRecord]:
        """Return the calls of a run, of those that it handed over to, and of all child runs."""
        is_alone = result.run_id == run_id
        if is_alone and not await self.journal.runs(parent_run_id=run_id, limit=1):
            return result.tool_records  # which spares reading the log
        chain = await chain_states(run_id, self.journal, secrets=self.secrets)
        states = with_children(chain, self.journal, secrets=self.secrets)
        return [record async for state in states for record in own_records(state)]


class _LabAgents:
    """The lab's own agents that are asked for one trial, and what they cost.

    Attributes:
        about: The experiment, the case and the variant.
        faults: What is wrong with functions of the caller.

    Args:
        kept: The runs of the experiment.
        about: The experiment, the case and the variant.
    """

    def __init__(self, kept: KeptRuns, about: JsonObject) -> None:
        self._kept = kept
        self.about = about
        self.simulation_costs: list[float | None] = []
        self.judging_costs: list[float | None] = []
        self.faults: list[str] = []

    async def simulate(self, agent: Agent[Any], text: str, key: str) -> AgentResult[Any]:
        """Ask a simulator, for the call with this idempotency key."""
        return await self._kept.ask(agent, text, ("simulator", key), self.about)

    async def count_simulations(self, keys: Iterable[str]) -> None:
        """Add what the simulated ones of these calls cost, in earlier sessions too."""
        for key in filter(None, keys):
            self.simulation_costs += await self._kept.costs(("simulator", key))

    def judge_of(self, run_id: str) -> AskJudge:
        """Return what asks judges about a run."""

        async def ask(agent: Agent[Any], text: str, name: str) -> AgentResult[Any]:
            parts = ("judge", run_id, name, self._kept.digest_of(agent), text)
            result = await self._kept.ask(agent, text, parts, self.about)
            self.judging_costs += await self._kept.costs(parts)
            return result

        return ask


def _total_of(costs: Sequence[float | None]) -> float | None:
    known = [one for one in costs if one is not None]
    return sum(known) if len(known) == len(costs) else None


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
        mask: Masks secrets, as they are masked in the case.
        faults: Gets what is wrong with the caller's function.
    """

    # It answers for all users that a call needs.
    is_record = True

    def __init__(
        self,
        case: Case,
        otherwise: Approvals,
        states: Sequence[RunState],
        mask: Mask,
        faults: list[str],
    ) -> None:
        self._faults = faults
        self._known = case.approvals
        self._edits = case.edits
        self._edited = Counter[str]()
        self._otherwise = otherwise
        self._mask = mask
        self._given = Counter[str]()
        for state in states:
            asked = mask([one for one in state.records if one.approval is not None])
            self._given.update(to_call(one).key for one in asked)
            # A call that has started was approved, if that was needed.
            started = state.unsettled.values()
            self._given.update(call_key(one.call.name, mask(one.arguments)) for one in started)

    def __call__(self, request: ApprovalRequest) -> bool | Denial | EditArguments:
        key = call_key(request.tool_name, self._mask(dict(request.arguments)))
        if edits := self._edits.get(key):
            self._edited[key] += 1
            return EditArguments(edits[min(self._edited[key], len(edits)) - 1])
        if known := self._known.get(key):
            self._given[key] += 1
            return known[min(self._given[key], len(known)) - 1]
        if callable(self._otherwise):
            is_approved = self._ask(self._otherwise, request)
        else:
            is_approved = self._otherwise == "approve"
        # In the record nobody denied it, so it does not count as denied.
        return is_approved or Denial(NOT_RECORDED, "it was not approved")

    def _ask(self, approves: Callable[[ApprovalRequest], object], request: ApprovalRequest) -> bool:
        try:
            answer = approves(request)
        except Exception as error:  # the caller's own code; the run would take it for a denial
            self._faults.append(f"approvals= raised {type(error).__name__}: {error}")
            return False
        if not isinstance(answer, bool | None):
            self._faults.append(
                f"approvals= returned {format_value(answer)}; True, False or None is due"
            )
        # Nobody answers later, so None is a denial too.
        return answer is True


class _RecordedClock(SystemClock):
    """A clock that starts when the recorded run did."""

    def __init__(self, started_at: datetime | None) -> None:
        self._began = self.monotonic()
        self._started_at = started_at or SYSTEM_CLOCK.now()

    def now(self) -> datetime:
        return self._started_at + timedelta(seconds=self.monotonic() - self._began)


class _FirstReplies:
    """A model whose first replies are recorded ones; then the real one is asked.

    Args:
        replies: The first replies.
        model: The real model, or its name.
    """

    def __init__(self, replies: Sequence[ModelResponse], model: Model | str) -> None:
        self._left = [*reversed(replies)]
        self._model = resolve(model) if isinstance(model, str) else model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def name(self) -> str:
        return self._model.name

    async def call(self, request: ModelInput) -> ModelResponse:
        return self._left.pop() if self._left else await self._model.call(request)

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        if self._left:
            yield self._left.pop()
            return
        async for item in self._model.stream(request):
            yield item

    def skip_played(self, replies: Iterable[ModelResponse], **more: object) -> None:
        """Skip the replies that earlier sessions got."""
        del self._left[max(0, len(self._left) - len(tuple(replies))) :]


class _NoDependencies:
    """Stands in for the dependencies of an agent, which the lab does not open."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the lab opens no dependencies, and {name!r} of them was used: pass dependencies= "
            "to lab.run"
        )


_RUN_OPTIONS = ("gates", "on_pre_tool_use", "deciders", "tools")
_CHOICES: dict[str, tuple[str, ...]] = {
    "tools": get_args(Source),
    "unseen": get_args(Unseen),
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
        is_function = callable(given) and what == "approvals"
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


def _check_run_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of runs, their lists as tuples, which each run can read."""
    if unknown := [one for one in given if one not in _RUN_OPTIONS]:
        listed = ", ".join(_RUN_OPTIONS)
        raise Misuse(f"run_options has {unknown[0]!r}: it takes {listed}")
    lists = (list, tuple)
    return {
        name: tuple(cast("list[object]", one)) if isinstance(one, lists) else one
        for name, one in given.items()
    }


def _check_secrets(given: object) -> tuple[tuple[str, ...], Mask]:
    """Return the secrets, and what masks them."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    listed = tuple(cast("Iterable[str]", given)) if is_list else cast("Any", given)
    mask = Secrets(listed).mask
    check_masking(mask)
    return listed, mask


def _check_simulator(given: object, *, is_used: bool) -> Any:
    found = check_simulator(given)
    if is_used and found is None:
        raise Misuse("simulated tools need simulator=: a function, an agent or the name of a model")
    if found is not None and not is_used:
        raise Misuse("simulator= needs tools='simulated' or unseen='simulated'")
    return found


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
    found = [scorer_of(one) for one in cast("Iterable[AnyScorer]", scorers)]
    names = [one.name for one in found]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise Misuse(f"two scorers are called {double!r}: use lab.Scorer(name, function)")
    return found


def _quota_of(experiment: str, budget_usd: Decimal | float) -> Quota:
    try:
        most = Decimal(str(budget_usd))
    except InvalidOperation as error:
        got = format_value(budget_usd)
        raise Misuse(f"budget_usd is an amount of US dollars, got {got}") from error
    return Quota(f"lab {experiment}", max_cost_usd=most)


def _model_name(agent: Agent[Any]) -> str:
    model = agent.model
    name = model if isinstance(model, str) else getattr(model, "name", "")
    return name or "scripted:record"
