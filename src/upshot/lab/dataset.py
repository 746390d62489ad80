"""Datasets: past runs as cases, each with what was asked and what its tools returned.

A dataset is a JSON Lines file that stands alone: a first line with its name and the digest of the
others, then one case a line. It can be read in a review and kept in a repository. It is masked as
the journal is.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, cast

from msgspec import convert
from msgspec.structs import replace

from upshot.contract.base.enums import Effect
from upshot.contract.base.secrets import Secrets, hide_all_marks
from upshot.contract.base.structs import Json, JsonObject, Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.events import ApprovalRequested, QuestionAnswered
from upshot.contract.message import MAIN_CHANNEL, Message
from upshot.contract.model_calls import ModelReplied, ModelResponse, Request
from upshot.contract.protocols import ArtifactStore, Journal, RunFilters, RunSummary
from upshot.contract.settings import Budget, Policy
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
    ToolRecord,
)
from upshot.entry.resume import fold_new_events
from upshot.entry.run_handle import next_in_chain
from upshot.errors import Misuse
from upshot.journal.shared import shared_journal
from upshot.lab.kept_runs import is_of_lab
from upshot.runs.plan import POLICY_OPTION
from upshot.state.child_runs import child_id
from upshot.state.run_state import RunState
from upshot.state.signals import EXPIRED, signal_name
from upshot.state.stored_events import result_of, seeds_of, states

_FORM = "upshot.dataset/1"
_PAGE = 200
_MOST_ARTIFACT_BYTES = 1_000_000


class RecordedCall(Value, frozen=True, kw_only=True):
    """A tool call of a past run.

    Attributes:
        tool: The tool.
        arguments: Its arguments, as the tool got them.
        effect: The effect that the call had.
        declared: The effect that the tool declared.
        outcome: Its outcome; a large output is in it, and not only referred to.
    """

    tool: str
    arguments: JsonObject = {}
    effect: Effect = Effect.NONE
    declared: Effect = Effect.READ
    outcome: ToolOutcome

    @property
    def key(self) -> str:
        """The tool and its arguments, for comparing calls."""
        return call_key(self.tool, self.arguments)


class RecordedSignal(Value, frozen=True, kw_only=True):
    """A signal that a past run waited for and got.

    Attributes:
        name: Its name.
        value: What the wait returned.
    """

    name: str
    value: Json = None


class Case(Value, frozen=True, kw_only=True):
    """A past request: what it was given, and what happened.

    Attributes:
        id: Unique in its dataset.
        request: What was asked.
        agent: The agent that it was asked of, "" if it does not matter.
        history: The messages before the request.
        attributes: The attributes of the run, such as its user.
        policy: The rules on tools that the run had, None for none.
        budget: The budget that the run was given, None if it had its agent's.
        max_attempts: How many attempts its deciders might ask for.
        run_id: The run that it comes from, "" for a case made by hand.
        started_at: When that run started; the tools of an experiment see this day.
        first_replies: Replies that are played before the run's model is asked, so that the run is
            tried from a later point on.
        replies: The replies of the models of the run and its child runs, in the order of their
            times.
        calls: The tool calls of the run and of its child runs, in order.
        answers: What the user answered to the run and its child runs, by the question, in order.
        signals: The signals that it got, in order.
        approvals: Whether a call was approved, each time, by tool and arguments; those of child
            runs too.
        edits: With which arguments a person let a call be made instead, each time, likewise.
        status: How the run ended, "" for a case made by hand.
        answer: What it answered, None for nothing.
        error: Why it failed, "" if it did not.
        cost: What it cost, in US dollars as text, "" if unknown.
        tokens: How many tokens it used.
        took_s: How long it worked.
        notes: Notes on the run, by name.
        expected: What a good answer is, for scorers; any JSON.
    """

    id: str
    request: Request
    agent: str = ""
    history: tuple[Message, ...] = ()
    attributes: JsonObject = {}
    policy: Policy | None = None
    budget: Budget | None = None
    max_attempts: int = 1
    run_id: str = ""
    started_at: Moment | None = None
    first_replies: tuple[ModelResponse, ...] = ()
    replies: tuple[ModelResponse, ...] = ()
    calls: tuple[RecordedCall, ...] = ()
    answers: dict[str, Json] = {}
    signals: tuple[RecordedSignal, ...] = ()
    approvals: dict[str, tuple[bool, ...]] = {}
    edits: dict[str, tuple[JsonObject, ...]] = {}
    status: str = ""
    answer: str | None = None
    error: str = ""
    cost: str = ""
    tokens: int = 0
    took_s: float = 0.0
    notes: JsonObject = {}
    expected: Json = None

    @property
    def writes(self) -> tuple[RecordedCall, ...]:
        """The calls that changed something, or may have."""
        return tuple(one for one in self.calls if one.effect is not Effect.NONE)


@dataclass(frozen=True)
class Dataset:
    """Cases under a name.

    Attributes:
        name: The name.
        cases: The cases; their ids differ.

    Raises:
        Misuse: Two cases have one id.
    """

    name: str
    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        counted = Counter(case.id for case in self.cases)
        if double := next((id for id, often in counted.items() if often > 1), None):
            raise Misuse(f"two cases of {self.name!r} have the id {double!r}: give each its own")

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    @property
    def digest(self) -> str:
        """Identifies the cases; it changes with any of them."""
        return _digest(encode(case).decode() for case in self.cases)

    @classmethod
    async def from_journal(
        cls,
        journal: Journal,
        *,
        name: str = "runs",
        status: str | None = "ended",
        note: str | None = None,
        min_cost: Decimal | float = 0,
        after: int = 0,
        secrets: Iterable[str] = (),
        sample: int | None = None,
        seed: int = 0,
        **filters: Unpack[RunFilters],
    ) -> Dataset:
        """Make a dataset of the root runs of a journal, without those of the lab.

        Args:
            journal: An open journal.
            name: The name of the dataset.
            status: Only runs with this status or phase, as in ``Journal.runs``.
            note: Only runs with a note of this name, or "name=value".
            min_cost: Only runs that cost at least so much, in their own currency; see ``currency``.
            after: An event of each run: replies up to it are played, and models are asked from
                there on.
            secrets: Texts to mask, beside those that the journal masks.
            sample: As many of them, drawn at random; None takes all.
            seed: Makes the draw repeatable.
            filters: Which runs, the newest first; see ``RunFilters``. *limit* counts those with
                the note and the cost.

        Raises:
            Misuse: A filter is not allowed.
            JournalError: A log is damaged or cannot be read.
        """
        for what, number in (("sample", sample), ("limit", filters.get("limit"))):
            if number is not None and (type(number) is not int or number < 1):
                raise Misuse(f"{what} is a whole number from 1, got {number!r:.40}")
        if unknown := next(iter(filters.keys() - RunFilters.__annotations__.keys()), None):
            raise Misuse(f"there is no filter {unknown!r}: RunFilters lists what there is")
        if not isinstance(note, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"note is the name of a note, or name=value, got {note!r:.40}")
        _check_min_cost(min_cost)
        if type(after) is not int or after < 0:
            raise Misuse(f"after is the number of an event, got {after!r:.40}")
        fits = partial(_fits, journal=journal, note=note or "", min_cost=Decimal(str(min_cost)))
        found = [one async for one in _run_ids(journal, status, fits, filters)]
        if sample is not None and sample < len(found):
            found = sorted(random.Random(seed).sample(found, sample), key=found.index)
        mask = Secrets(secrets).mask
        cases = [await case_of(run_id, journal, after=after) for run_id in found]
        return cls(name, tuple(mask(_without_marks(case)) for case in cases if case is not None))

    def with_cases(self, cases: Iterable[Case]) -> Dataset:
        """Return the dataset with further cases; those whose id it has already are left out."""
        known = {case.id for case in self.cases}
        return Dataset(self.name, (*self.cases, *(one for one in cases if one.id not in known)))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the dataset to a file, replacing it.

        Raises:
            Misuse: The file cannot be written.
        """
        lines = [encode(case).decode() for case in self.cases]
        head = {"form": _FORM, "name": self.name, "digest": _digest(lines), "cases": len(lines)}
        text = "\n".join((json.dumps(head), *lines)) + "\n"
        write_file(path, text.encode())

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Dataset:
        """Read a dataset from a file.

        Raises:
            Misuse: It is no dataset, or its lines do not fit its digest.
        """
        try:
            # Not splitlines: a text may contain other separators of lines.
            found = Path(path).read_text("utf-8-sig").split("\n")
            head, *lines = [line for line in found if line.strip()] or [""]
            facts: object = json.loads(head) if head else {}
        except (OSError, ValueError) as error:
            raise Misuse(f"{path} cannot be read as a dataset: {error}") from error
        about = _check_head(facts, path, len(lines))
        if about.get("digest") != _digest(lines):
            raise Misuse(
                f"the cases of {path} were changed, since they do not fit its digest: write it "
                "again with Dataset.write, which checks each case"
            )
        cases = tuple(decode(line, decoder_of(Case)) for line in lines)
        return cls(str(about.get("name") or Path(path).stem), cases)


def _check_head(given: object, path: str | PathLike[str], cases: int) -> dict[str, Any]:
    facts = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    form = facts.get("form")
    if form is None:
        raise Misuse(
            f"{path} cannot be read as a dataset: its first line is no head with a form, a name "
            "and a digest; Dataset.write makes one"
        )
    if form != _FORM:
        raise Misuse(f"{path} has the form {form!r}: this version reads {_FORM}")
    if facts.get("cases", cases) != cases:
        raise Misuse(f"the head of {path} says {facts['cases']!r} cases, and there are {cases}")
    return facts


def write_file(path: str | PathLike[str], data: bytes) -> None:
    """Write a file, replacing it.

    Raises:
        Misuse: It cannot be written.
    """
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise Misuse(f"{path} cannot be written: {error.strerror}") from error


def call_key(tool: str, arguments: JsonObject) -> str:
    """Return a text that is equal for calls of one tool with equal arguments: 5.0 equals 5."""
    plain = _with_plain_numbers(arguments)
    return f"{tool} {json.dumps(plain, sort_keys=True, ensure_ascii=False)}"


def _with_plain_numbers(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _with_plain_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_plain_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


async def case_of(run_id: str, journal: Journal, *, after: int = 0) -> Case | None:
    """Return a run as a case; None if it has not started.

    If the run handed its request over, the case has what the whole chain did. Replies up to the
    event *after* are played before a model is asked.
    """
    runs = await chain_states(run_id, journal)
    past, started = runs[0], runs[0].started
    if started is None:
        return None
    results = [one for one in map(result_of, runs) if one is not None]
    last = results[-1] if results else None
    costs = [one.cost.total for one in results if one.cost is not None]
    shared = shared_journal(journal)
    notes = () if shared is None else await shared.notes(run_id)
    everyone = [state async for state in with_children(runs, journal)]
    replied = [
        (one.time, one.response)
        for state in everyone
        if state.started is not None
        async for one in _replies_of(state.started.run_id, journal)
    ]
    first = (
        [one.response async for one in _replies_of(run_id, journal) if one.seq <= after]
        if after
        else []
    )
    return Case(
        id=run_id,
        run_id=run_id,
        request=started.request,
        agent=started.agent.id,
        history=_history_of(past),
        attributes=dict(started.attributes),
        policy=convert(past.options.get(POLICY_OPTION), Policy | None),
        budget=convert(past.options.get("budget"), Budget | None),
        max_attempts=convert(past.options.get("max_attempts", 1), int),
        started_at=started.time,
        first_replies=tuple(first),
        replies=tuple(response for _, response in sorted(replied, key=_by_time)),
        calls=tuple([one for state in everyone async for one in _calls_of(state, journal)]),
        answers=await _answers_of(everyone, journal),
        signals=tuple(signals_in(runs)),
        approvals=_approvals_in(everyone),
        edits=await _edits_of(everyone, journal),
        status="" if last is None else str(last.status.value),
        answer=None if last is None else last.content,
        error="" if last is None or last.error is None else str(last.error.code),
        cost=str(sum(filter(None, costs))) if costs and None not in costs else "",
        tokens=sum(one.usage.total_tokens or 0 for one in results),
        took_s=sum(one.duration_ms for one in results) / 1000,
        notes={one.name: one.value for one in notes},
    )


async def chain_states(
    run_id: str, journal: Journal, *, secrets: Sequence[str] = ()
) -> list[RunState]:
    """Return the states of a run and of those that its request was handed over to, in order."""
    found, following = list[RunState](), run_id
    while following:
        found.append(RunState())
        await fold_new_events(found[-1], following, journal, secrets=secrets)
        has_started = found[-1].started is not None
        following = await next_in_chain(found[-1], journal) if has_started else ""
    return found


async def with_children(
    states: Iterable[RunState], journal: Journal, *, secrets: Sequence[str] = ()
) -> AsyncIterator[RunState]:
    """Yield the states of runs, each followed by those of its child runs."""
    for past in states:
        yield past
        for child in past.children:
            inner = RunState()
            await fold_new_events(inner, child, journal, secrets=secrets)
            async for state in with_children([inner], journal, secrets=secrets):
                yield state


def answers_in(past: RunState) -> dict[str, Json]:
    """Return the answers to questions of one run, by question; signals are none."""
    return {
        id: value
        for id, value in past.answers_given.items()
        if id not in past.waits and not signal_name(id)
    }


def signals_in(runs: Iterable[RunState]) -> Iterator[RecordedSignal]:
    """Yield the signals that runs waited for and got, in order."""
    for past in runs:
        for id, value in past.answers_given.items():
            if (name := signal_name(id)) and value != EXPIRED:
                yield RecordedSignal(name=name, value=value)


def _without_marks(case: Case) -> Case:
    """Return a case whose masked secrets are the same text, from whichever log it comes."""
    text = encode(case).decode()
    return case if "<secret " not in text else decode(hide_all_marks(text), decoder_of(Case))


def _history_of(past: RunState) -> tuple[Message, ...]:
    """Return what the run was given before its request; what preparers added is not part of it."""
    if past.started is None:
        return ()
    asked = past.started.request.to_message()
    changes = [one for one in past.seed if one.channel == MAIN_CHANNEL]
    seeded = [message for change in changes for message in change.messages]
    if past.named_seed is not None:
        seeded = [*past.named_seed[1], *seeded]
    place = next((at for at in reversed(range(len(seeded))) if seeded[at] == asked), 0)
    return tuple(seeded[:place])


async def _replies_of(run_id: str, journal: Journal) -> AsyncIterator[ModelReplied]:
    """Yield the replies of a run's own model."""
    async for event, _ in states(journal.events(run_id), seeds=seeds_of(journal)):
        if isinstance(event, ModelReplied) and not event.purpose:
            yield event


async def _answers_of(runs: Iterable[RunState], journal: Journal) -> dict[str, Json]:
    """Return the answers in the order of their times; child runs may have asked in between."""
    found: list[tuple[datetime | None, tuple[str, Json]]] = []
    for past in runs:
        given = answers_in(past)
        if not given or past.started is None:
            continue
        events = states(journal.events(past.started.run_id), seeds=seeds_of(journal))
        times = {one.id: one.time async for one, _ in events if isinstance(one, QuestionAnswered)}
        found += [(times.get(id), one) for id, one in zip(given, given.items(), strict=True)]
    answers: dict[str, Json] = {}
    for _, (id, value) in sorted(found, key=_by_time):
        # Two runs may call their questions the same.
        answers[id if id not in answers else f"{id} ({len(answers) + 1})"] = value
    return answers


def _by_time(timed: tuple[datetime | None, object]) -> float:
    return 0.0 if timed[0] is None else timed[0].timestamp()


def _check_min_cost(given: object) -> None:
    is_amount = isinstance(given, int | float | Decimal) and not isinstance(given, bool)
    if not is_amount or not Decimal(str(given)).is_finite() or cast("float", given) < 0:
        raise Misuse(f"min_cost is an amount of money from 0, got {given!r:.40}")


async def _run_ids(
    journal: Journal,
    status: str | None,
    fits: Callable[[RunSummary], Awaitable[bool]],
    filters: RunFilters,
) -> AsyncIterator[str]:
    before, left = "", filters.get("limit")
    while page := await journal.runs(
        status, **{"parent_run_id": "", **filters, "before": before, "limit": _PAGE}
    ):
        for run in page:
            if not await fits(run):
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            yield run.run_id
        before = page[-1].run_id


async def _fits(run: RunSummary, *, journal: Journal, note: str, min_cost: Decimal) -> bool:
    """Whether a run is none of the lab, and has the note and the cost that are asked for."""
    cost = None if run.cost is None else run.cost.total
    if min_cost and (cost is None or cost < min_cost):
        return False
    if await is_of_lab(run.run_id, journal):
        return False
    if not note:
        return True
    name, _, value = note.partition("=")
    shared = shared_journal(journal)
    notes = () if shared is None else await shared.notes(run.run_id)
    return any(one.name == name and value in ("", str(one.value)) for one in notes)


async def _calls_of(past: RunState, journal: Journal) -> AsyncIterator[RecordedCall]:
    """Yield the calls of a run that have an outcome."""
    for record in own_records(past):
        if not isinstance(record.outcome, ToolDenied) and not repeats_own(record):
            yield await _recorded(record, journal)


def own_records(past: RunState) -> list[ToolRecord]:
    """Return the calls of a run; one that a child run answered has no effect of its own."""
    return [
        replace(one, effect=Effect.NONE)
        if past.children and child_id(one.run_id, one.idempotency_key) in past.children
        else one
        for one in past.records
    ]


def repeats_own(record: ToolRecord) -> bool:
    """Whether a call got the outcome of an equal one of its run, as it would in a trial."""
    repeats = record.outcome.repeats
    return repeats is not None and repeats.run_id == record.run_id


def to_call(record: ToolRecord) -> RecordedCall:
    """Return a logged call, with its outcome as it is logged."""
    return RecordedCall(
        tool=record.tool_name,
        arguments=record.arguments_executed or record.arguments_validated or {},
        effect=record.effect,
        declared=record.declared_effect or Effect.READ,
        outcome=record.outcome,
    )


async def _recorded(record: ToolRecord, journal: Journal) -> RecordedCall:
    call, store = to_call(record), getattr(journal, "artifacts", None)
    if isinstance(call.outcome, ToolArtifactReference) and store is not None:
        return replace(call, outcome=await _whole(call.outcome, record.run_id, store))
    return call


async def _whole(outcome: ToolArtifactReference, run_id: str, store: ArtifactStore) -> ToolOutcome:
    """Return the outcome with its stored output, if that is not too large for a dataset."""
    if outcome.size_bytes > _MOST_ARTIFACT_BYTES:
        return outcome
    text, offset = "", 0
    while offset is not None:
        page = await store.read(outcome.artifact_id, run_id=run_id, offset=offset)
        text, offset = text + str(page["text"]), cast("int | None", page["next_offset"])
    try:
        output: Json = json.loads(text)
    except ValueError:
        output = text
    return ToolExecutionResult(
        call_id=outcome.call_id,
        tool_name=outcome.tool_name,
        output=output if isinstance(output, dict) else {"result": output},
        effect=outcome.effect,
    )


def _approvals_in(runs: Iterable[RunState]) -> dict[str, tuple[bool, ...]]:
    """Return whether each call that was asked about was approved, in order."""
    found: dict[str, tuple[bool, ...]] = {}
    records = (one for past in runs for one in past.records)
    asked = [(one.approval.at, one) for one in records if one.approval is not None]
    for _, record in sorted(asked, key=_by_time):
        key = to_call(record).key
        found[key] = (*found.get(key, ()), not isinstance(record.outcome, ToolDenied))
    return found


async def _edits_of(
    runs: Iterable[RunState], journal: Journal
) -> dict[str, tuple[JsonObject, ...]]:
    """Return what a person changed the arguments of calls to, by the call that was asked about."""
    found: dict[str, tuple[JsonObject, ...]] = {}
    for past in runs:
        edited = {
            one.call_id: one
            for one in past.records
            if one.approval is not None and one.approval.decision == "edited"
        }
        if not edited or past.started is None:
            continue
        async for event, _ in states(journal.events(past.started.run_id), seeds=seeds_of(journal)):
            if isinstance(event, ApprovalRequested) and event.pending.call_id in edited:
                record = edited.pop(event.pending.call_id)
                key = call_key(record.tool_name, event.pending.arguments)
                found[key] = (*found.get(key, ()), record.arguments_validated or {})
    return found


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
