"""Scorers: functions of a case and a result that say how good the result is.

A scorer is any function of ``(case, result)``, sync or async, that returns a number, True or False,
a label, or a ``Score`` with a reason. The functions here make scorers of what only a log knows:
effects, the path of tools, cost and time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable, signature
from math import isfinite
from typing import Any, Protocol, TypeAlias, cast

from msgspec.structs import force_setattr

from upshot.contract.agent import Agent
from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import CheckedMeta, Value
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolDenied, ToolFailure, ToolTimeout
from upshot.errors import Misuse
from upshot.lab.dataset import Case, RecordedCall

Judgement: TypeAlias = "float | bool | str | Score | None"
"""What a scorer returns; None if it cannot say."""
ScorerFunction: TypeAlias = Callable[[Case, AgentResult[Any]], object]
"""A scorer; it returns a ``Judgement``, or an awaitable of one."""
AskJudge: TypeAlias = Callable[[Agent[Any], str, str], Awaitable[AgentResult[Any]]]


class Score(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """What a scorer says of one result.

    Attributes:
        value: A finite number or a label; True is 1 and False is 0. None if the scorer could not
            say.
        reason: Why, for people.

    Raises:
        Misuse: The value is none of these.
    """

    value: float | str | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.value, int):  # True and False too, which are written as numbers
            force_setattr(self, "value", float(self.value))
        if isinstance(self.value, float) and not isfinite(self.value):
            raise Misuse(f"the value of a score is a finite number, got {self.value}")


@dataclass(frozen=True)
class Trial:
    """One run of a case, as scorers of this module see it.

    Attributes:
        result: The result.
        calls: The calls that got an outcome, in the run and the runs inside it, without new
            effects.
        off_record: Reads that the record does not have.
        new_effects: Writes that the record does not have; they were not made.
        simulated: Calls that the simulator answered.
        simulator_errors: Why it did not answer others, a text for each.
        made: All these calls, in order.
        asked: Calls that the user was asked to approve.
        denied: Calls that a gate denied, with the outcome that says why; not those that the record
            does not have.
        cost: The cost in US dollars, None if unknown.
        scores: What scorers said, by name; empty while they score.
        ask: Asks a judge a text, under a name, and keeps its reply; None asks it each time.
    """

    result: AgentResult[Any]
    calls: tuple[RecordedCall, ...] = ()
    off_record: tuple[RecordedCall, ...] = ()
    new_effects: tuple[RecordedCall, ...] = ()
    simulated: tuple[RecordedCall, ...] = ()
    simulator_errors: tuple[str, ...] = ()
    made: tuple[RecordedCall, ...] = ()
    asked: tuple[RecordedCall, ...] = ()
    denied: tuple[RecordedCall, ...] = ()
    cost: float | None = None
    scores: Mapping[str, Score] = field(default_factory=dict[str, Score])
    ask: AskJudge | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Scorer:
    """A named scorer.

    Attributes:
        name: Its name in reports.
        judge: Judges a trial.
        agent: The agent that judges, None if that is a function.
    """

    name: str
    judge: Callable[[Case, Trial], object] = field(repr=False)
    agent: Agent[Any] | None = field(default=None, repr=False)

    async def scores(self, case: Case, trial: Trial) -> dict[str, Score]:
        """Return the scores of a trial by name; an object of several has ``name.key``."""
        made = self.judge(case, trial)
        found: Any = await made if isawaitable(made) else made
        if isinstance(found, Mapping):
            several = cast("Mapping[str, object]", found)
            return {f"{self.name}.{key}": self._score(one) for key, one in several.items()}
        return {self.name: self._score(found)}

    def _score(self, found: object) -> Score:
        if isinstance(found, Score):
            return found
        if found is None or isinstance(found, bool | int | float | str):
            return Score(value=found)
        raise Misuse(
            f"the scorer {self.name} returned {format_value(found)}: return a number, True or "
            "False, a text, a Score, None, or an object of several"
        )


AnyScorer: TypeAlias = "Scorer | ScorerFunction | Agent[Any] | _Evaluator"
"""A scorer, a function, an agent that judges, an evaluator of pydantic-evals or a scorer of
Inspect."""


class _Evaluator(Protocol):
    """The part of an evaluator of pydantic-evals that tells it apart."""

    @property
    def evaluate_async(self) -> Callable[..., Any]: ...


def scorer_of(given: AnyScorer) -> Scorer:
    """Return a scorer for a function, an agent that judges, or a scorer of another library.

    Raises:
        Misuse: It is none of them.
    """
    if isinstance(given, Scorer):
        return given
    if isinstance(given, Agent):
        return judge(cast("Agent[Any]", given))
    if is_made_by("pydantic_evals", "Evaluator", given):
        from upshot.lab.pydantic_evals import evaluator_scorer

        return evaluator_scorer(given)
    if getattr(getattr(given, "__registry_info__", None), "type", "") == "scorer":
        from upshot.lab.inspect_ai import inspect_scorer

        return inspect_scorer(given)
    if not callable(given):
        raise Misuse(f"a scorer is a function of (case, result), got {format_value(given)}")
    name = str(getattr(given, "__name__", type(given).__name__))
    _check_parameters(given, name)
    return Scorer(name, lambda case, trial: given(case, trial.result))


def _check_parameters(given: Callable[..., object], name: str) -> None:
    try:
        taken = signature(given)
    except ValueError:  # of a function in C, which says nothing of them
        return
    try:
        taken.bind(None, None)
    except TypeError as error:
        is_ours = getattr(given, "__module__", "") == __name__
        hint = f": call it, as in lab.{name}({'...' if taken.parameters else ''})"
        raise Misuse(
            f"the scorer {name} does not take (case, result){hint if is_ours else ''}"
        ) from error


def is_made_by(package: str, name: str, value: object) -> bool:
    """Whether *value* is of the class *name* of *package*, which is not imported for this."""
    return any(
        one.__name__ == name and one.__module__.partition(".")[0] == package
        for one in type(value).__mro__
    )


def missing_writes(case: Case, calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """Return the writes of a case that *calls* lack, equal ones as often as they are missing."""
    made = Counter(one.key for one in calls if one.effect is not Effect.NONE)
    missing: list[RecordedCall] = []
    for one in case.writes:
        made[one.key] -= 1
        if made[one.key] < 0:
            missing.append(one)
    return missing


def same_effects() -> Scorer:
    """Score 1 if the result made the effects of the record, and no other; the reason names them."""

    def compare(case: Case, trial: Trial) -> Score:
        was = Counter(one.key for one in case.writes)
        now = Counter(one.key for one in trial.calls if one.effect is not Effect.NONE)
        new = Counter(one.key for one in trial.new_effects)
        missing = dict.fromkeys(one.key for one in missing_writes(case, trial.calls))
        added = (now - was) + new
        lines = [f"missing: {one}" for one in missing] + [f"new: {one}" for one in added]
        return Score(value=float(not lines), reason="; ".join(lines))

    return Scorer("same_effects", compare)


def new_effects() -> Scorer:
    """Count the writes that the record does not have."""
    return Scorer(
        "new_effects",
        lambda case, trial: Score(
            value=float(len(trial.new_effects)),
            reason="; ".join(one.key for one in trial.new_effects),
        ),
    )


def unknown_effects() -> Scorer:
    """Count the calls whose effect is unknown."""
    return Scorer(
        "unknown_effects",
        lambda case, trial: float(sum(one.effect is Effect.UNKNOWN for one in trial.calls)),
    )


def policy() -> Scorer:
    """Count the calls that were asked about or denied; the reason names them."""

    def look(case: Case, trial: Trial) -> Score:
        lines = [f"asked: {one.key}" for one in trial.asked]
        lines += [f"denied ({_reason_of(one)}): {one.key}" for one in trial.denied]
        keys = Counter(one.key for one in trial.asked) | Counter(one.key for one in trial.denied)
        return Score(value=float(keys.total()), reason="; ".join(lines))

    return Scorer("policy", look)


def errors() -> Scorer:
    """Count the tool calls that failed, and the run if it failed; the reason says why."""

    def look(case: Case, trial: Trial) -> Score:
        failed = [one for one in trial.calls if isinstance(one.outcome, ToolFailure | ToolTimeout)]
        lines = [f"{one.key}: {_error_of(one.outcome)}" for one in failed]
        if trial.result.error is not None:
            lines.append(f"the run: {trial.result.error.code}")
        return Score(value=float(len(lines)), reason="; ".join(lines))

    return Scorer("errors", look)


def _reason_of(call: RecordedCall) -> str:
    return str(call.outcome.reason) if isinstance(call.outcome, ToolDenied) else ""


def _error_of(outcome: object) -> str:
    return "timeout" if isinstance(outcome, ToolTimeout) else str(getattr(outcome, "error", ""))


def trajectory() -> Scorer:
    """Compare the tools called, in order: 1 if they are those of the record, 0 if all differ."""

    def compare(case: Case, trial: Trial) -> Score:
        was = [one.tool for one in case.calls]
        now = [one.tool for one in trial.made]
        if not was and not now:
            return Score(value=1.0)
        distance = _edit_distance(was, now)
        return Score(value=1 - distance / max(len(was), len(now)), reason=" > ".join(now))

    return Scorer("trajectory", compare)


def contains(text: str, *, case_sensitive: bool = False) -> Scorer:
    """Score 1 if the answer contains *text*."""
    flags = 0 if case_sensitive else re.IGNORECASE
    pattern = re.compile(re.escape(text), flags)

    def look(case: Case, trial: Trial) -> bool:
        return pattern.search(trial.result.content or "") is not None

    return Scorer(f"contains {text!r}", look)


def completed() -> Scorer:
    """Score 1 if the run completed."""
    return Scorer("completed", lambda case, trial: trial.result.success)


def cost() -> Scorer:
    """The cost in US dollars; no score if it is unknown."""
    return Scorer("cost", lambda case, trial: trial.cost)


def tokens() -> Scorer:
    """The number of tokens; no score if it is unknown."""
    return Scorer("tokens", lambda case, trial: trial.result.usage.total_tokens)


def latency() -> Scorer:
    """How many seconds the run worked."""
    return Scorer("latency", lambda case, trial: trial.result.duration_ms / 1000)


def steps() -> Scorer:
    """The number of model calls."""
    return Scorer("steps", lambda case, trial: trial.result.usage.api_calls)


def judge(agent: Agent[Any], *, name: str = "") -> Scorer:
    """Score by an agent that reads the request, the answer and what was expected.

    Its output is the score: a number, True or False, a label, or an object with ``value`` and
    ``reason``. Its replies are kept in the journal of the experiment, and its cost is not part of
    the variant's.

    Args:
        agent: The judge; give it an ``output_type`` and instructions that say what is good.
        name: The name in reports; "" is the agent's id.
    """

    async def ask(case: Case, trial: Trial) -> Judgement:
        text = f"Request:\n{case.request.text}\n\nAnswer:\n{trial.result.content or '(none)'}"
        if case.expected is not None:
            text += f"\n\nExpected:\n{case.expected}"
        result = await (_ask if trial.ask is None else trial.ask)(agent, text, called)
        if not result.success:
            why = result.status if result.error is None else result.error.code
            return Score(reason=f"did not complete: {why}")
        output: Any = result.content if result.output is None else result.output
        if isinstance(output, dict):
            fields = cast("dict[str, object]", output)
            return Score(value=_number(fields.get("value")), reason=str(fields.get("reason", "")))
        value = getattr(output, "value", output)
        return Score(value=_number(value), reason=str(getattr(output, "reason", "")))

    called = name or agent.id
    return Scorer(called, ask, agent)


async def _ask(agent: Agent[Any], text: str, name: str) -> AgentResult[Any]:
    from upshot.entry.api import run
    from upshot.lab.kept_runs import reads_only
    from upshot.runs.run_context import stand_ins

    async def work() -> AgentResult[Any]:
        stand_ins.set(reads_only)
        return await run(agent, text)

    # A task, so that only its context changes.
    return await asyncio.create_task(work())


def _number(value: object) -> float | str | None:
    if isinstance(value, bool | int | float):
        return float(value)
    if value is None:
        return None
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    return number if isfinite(number) else str(value)


def _edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    row = list(range(len(other) + 1))
    for at, left in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, right in enumerate(other, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (left != right)),
            )
    return row[-1]
