"""What must hold for every run, whatever happened to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from msgspec.structs import replace

import upshot
from tests.whole.case import (
    ENGINES,
    FAULTS,
    LIMIT_CODES,
    READS,
    REPEATABLE,
    SLOW,
    WRITES,
    Case,
    Reply,
    calls_in,
    script_key,
)
from tests.whole.paths import Outcome
from tests.whole.provider import Billed
from tests.whole.world import Life, tag_of
from upshot import (
    AgentResult,
    Cost,
    Effect,
    ModelReplied,
    ModelRetried,
    PendingEffect,
    QuestionAnswered,
    QuestionAsked,
    Status,
    ToolRecord,
    ToolSettled,
    Usage,
    decode,
    encode,
    states,
)
from upshot.contract.base.enums import worst_effect
from upshot.contract.tool_calls import ToolArtifactReference, ToolExecutionResult
from upshot.models.fallback import FALLBACK_CODES
from upshot.state.stored_events import seeds_of

SCHEMA = Path(__file__).parents[2] / "schema" / "upshot.schema.json"
SLOW_WARNINGS = ("abandoned_tool", "effect_unknown", "late_result")


async def faults_of(life: Life, outcome: Outcome) -> list[str]:
    """Return all faults."""
    found = [*life.world.strange]
    for result in outcome.results:
        found += _of_itself(result)
    found += _of_money(life, outcome.turns or [outcome.result], outcome.kills)
    # What a killed tool ran inside it is lost: its own effect is reported as unknown.
    has_all = outcome.journal is not None and not (outcome.kills and life.case.engine == "tool")
    records = await records_of(outcome)
    found += _of_effects(life, records, outcome.turns or [outcome.result], has_all=has_all)
    for task, result in enumerate(outcome.turns or [outcome.result]):
        found += _of_end(life, result, task)
        found += _of_worst(life, result, task, records if has_all else {})
    if found and outcome.journal is not None:
        found += await _failed_tries(outcome.journal)
    known = [essence(one) for one in outcome.results]
    found += [
        f"reader {number} was shown another result"
        for number, shown in enumerate(outcome.shown)
        if shown is not None and life.case.engine != "handoff" and essence(shown) not in known
    ]
    if (journal := outcome.journal) is not None:
        again = await life.resume(outcome.result.run_id, journal=journal, **life.options())
        if again != outcome.result:
            found.append(f"its log gives another result: {differences(again, outcome.result)}")
        if life.case.is_calm and life.case.engine != "handoff":
            found += await _of_replay(life, outcome)
    return found


async def _failed_tries(journal: Any) -> list[str]:
    """Return why model calls failed according to the logs, to help whoever investigates."""
    return [
        f"a try of {event.run_id} failed: {event.response.error}"
        for run in await journal.runs()
        async for event, _ in states(journal.events(run.run_id), seeds=seeds_of(journal))
        if isinstance(event, ModelReplied | ModelRetried) and event.response.error is not None
    ]


async def _of_replay(life: Life, outcome: Outcome) -> list[str]:
    """Return the faults of a replay, which should do the same and touch nothing."""
    (agent,), before = life.agents(), (life.book.read(), len(life.world.bill))
    given = life.options()
    replayed = await upshot.replay(outcome.result.run_id, agent, journal=outcome.journal, **given)
    found: list[str] = []
    if replayed.difference is not None:
        found.append(f"its replay differs: {replayed.difference}")
    if (life.book.read(), len(life.world.bill)) != before:
        found.append("its replay touched the world")
    return found


async def records_of(outcome: Outcome) -> dict[str, ToolRecord]:
    """Return the record of each call from the logs of all runs, or from the result."""
    records = list(outcome.result.tool_records)
    if (journal := outcome.journal) is not None:
        records = [
            record for run in await journal.runs() for record in await _logged(journal, run.run_id)
        ]
    found = {tag: one for one in records if (tag := tag_of(one))}
    return {tag: one for tag, one in found.items() if one.tool_name in (*READS, *WRITES)}


async def _logged(journal: Any, run_id: str) -> list[ToolRecord]:
    """Return the records of a log, with effects that were settled while the run waited."""
    records, asked = list[ToolRecord](), dict[str, str]()
    async for event, _ in states(journal.events(run_id), seeds=seeds_of(journal)):
        if isinstance(event, ToolSettled):
            records.append(event.record)
        elif isinstance(event, QuestionAsked) and isinstance(event.pending, PendingEffect):
            asked[event.pending.id] = event.pending.call_id
        elif isinstance(event, QuestionAnswered) and event.settled is not None:
            call_id, known = asked[event.id], event.settled.effect
            records = [
                replace(one, effect=known, outcome=replace(one.outcome, effect=known))
                if one.call_id == call_id and one.effect is Effect.UNKNOWN
                else one
                for one in records
            ]
    return records


def differences(one: Any, other: Any) -> str:
    """Return how two results differ."""
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    return ", ".join(f"{name}: {a!r} {b!r}" for name, a, b in pairs if a != b)


# -- the result by itself


@cache
def _validator() -> Any:
    return jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))


def _of_itself(result: AgentResult[Any]) -> Iterator[str]:
    encoded = encode(result)
    if decode(encoded, AgentResult) != result:
        yield "it is encoded as another"
    try:
        _validator().validate(json.loads(encoded))
    except jsonschema_rs.ValidationError as error:
        yield f"it is against its schema: {error.message}"
    if (result.status is Status.COMPLETED) != (result.error is None):
        yield "it completed with an error, or did not and has none"
    if result.error is not None and result.error.code == "internal":
        yield f"something raised: {result.error.message}"
    if len(result.tool_outcomes) != len(result.tool_records):
        yield "it has not one record for each outcome"
    if any(
        record.outcome != one
        for record, one in zip(result.tool_records, result.tool_outcomes, strict=False)
    ):
        yield "its records are of other outcomes"
    if result.status is not Status.INPUT_REQUIRED:
        calls = [call.id for message in result.messages for call in message.tool_calls]
        answered = [one.tool_call_id for one in result.messages if one.tool_call_id]
        if len({*calls}) < len(calls):
            yield f"one id names two calls: {calls}"
        if sorted(calls) != sorted(answered):
            yield f"calls without an answer, or answers without a call: {calls} {answered}"


# -- tokens and money


def _of_money(life: Life, results: list[AgentResult[Any]], kills: int) -> Iterator[str]:
    bill = life.world.bill
    usage = sum((one.usage for one in results), Usage())
    cost = Cost.of_calls(one.cost for one in results if one.cost is not None)
    told = [one for one in bill if one.is_told and not one.is_refused]
    untold = [one for one in bill if not one.is_told]
    least = (sum(one.tokens[0] for one in told), sum(one.tokens[1] for one in told))
    most = (
        least[0] + sum(one.tokens[0] for one in untold),
        least[1] + sum(one.tokens[1] for one in untold),
    )
    got = (usage.input_tokens or 0, usage.output_tokens or 0)
    if not life.case.is_calm:
        # The last reply may not have been read.
        least = (0, 0) if usage.unmeasured_calls else least
    if not (least[0] <= got[0] <= most[0] and least[1] <= got[1] <= most[1]):
        yield f"its usage is {got}, the bill says {least} to {most}: {bill}"
    # A process may have been killed, or a run stopped, before a request arrived.
    lost = 0 if life.case.is_calm else 1 + (life.case.engine == "parallel")
    if not len(bill) <= usage.api_calls <= len(bill) + kills * max(1, lost) + lost:
        yield f"it tells of {usage.api_calls} model calls, the bill of {len(bill)}: {bill}"
    extra = usage.unmeasured_calls - len(untold)
    if extra < 0 or (extra and life.case.is_calm):
        yield f"it calls {usage.unmeasured_calls} unmeasured, {len(untold)} are: {bill}"
    price = Decimal(got[0]) / 1000 + Decimal(got[1]) / 100
    if (0 if cost is None else cost.total) != price:
        yield f"it cost {cost}, and its tokens {price}"
    is_priced = all(one.cost is not None for one in results)
    if cost is not None and is_priced and cost.unpriced_calls != usage.unmeasured_calls:
        yield f"{cost} misses prices, and {usage.unmeasured_calls} calls have no usage"
    yield from _of_limit(life.case, bill)


def _of_limit(case: Case, bill: list[Billed]) -> Iterator[str]:
    """Find turns that were requested after a limit on tokens or money was passed."""
    used, last = (0, 0), ""
    name, most = case.limit or ("", 0)
    for one in bill if case.is_calm else []:
        if one.mark.split(".")[0] != last.split(".", maxsplit=1)[0]:
            # Each task is a run with its own budget.
            used = (0, 0)
        spent = {"max_tokens": sum(used), "max_cost_usd": used[0] / 1000 + used[1] / 100}
        if one.mark != last and spent.get(name, -1) > most:
            yield f"it asked for {one.mark} after it had used {spent[name]} of {most}: {bill}"
        last = one.mark
        if one.is_told:
            used = used[0] + one.tokens[0], used[1] + one.tokens[1]


# -- effects


def _of_effects(
    life: Life,
    records: dict[str, ToolRecord],
    results: Sequence[AgentResult[Any]],
    *,
    has_all: bool,
) -> Iterator[str]:
    book = life.book.read()
    unrecorded = Counter(
        tool for _, _, tool in set().union(*(_unrecorded(one, records) for one in results))
    )
    tools = {call.tag: call.tool for call in calls_in(life.case.scripts)}
    for reply in replies_in(life.case):
        for call in reply.calls if reply.finish == "content_filter" else ():
            if book[call.tag]:
                yield f"{call.tag} took effect, and a filter had cut its reply off"
    for tag in book if has_all else ():
        # A read need not be in the log before it runs.
        if tag in records or tools[tag] in READS:
            continue
        unrecorded[tools[tag]] -= 1
        if unrecorded[tools[tag]] < 0:
            yield f"{tag} took effect, and no record tells of it"
    for tag, record in records.items():
        yield from _of_call(tag, record, book[tag])


def _unrecorded(
    result: AgentResult[Any], records: dict[str, ToolRecord]
) -> set[tuple[str, str, str]]:
    """Return the run, the call and the tool of each unknown effect that has no record.

    A child run that died and was not resumed has no record of the call it was making.
    """
    recorded = {record.call_id for record in records.values()}
    effects = (one for one in result.effects if one.state is Effect.UNKNOWN)
    return {(one.run_id, one.call_id, one.tool) for one in effects if one.call_id not in recorded}


def _of_call(tag: str, record: ToolRecord, done: int) -> Iterator[str]:
    effect, name = str(record.outcome.effect), record.tool_name
    said = f"{tag} ({name}, {record.outcome})"
    if effect != str(record.effect):
        yield f"{said}: its record says {record.effect}"
    if name not in WRITES:
        if effect != "none":
            yield f"{said} only reads"
        return
    if done and effect == "none":
        yield f"{said} took effect"
    if not done and effect == "applied":
        yield f"{said} took no effect"
    if done > 1 and name not in REPEATABLE:
        yield f"{said} took effect {done} times"
    is_whole = isinstance(record.outcome, ToolExecutionResult | ToolArtifactReference)
    if effect == "unknown" and is_whole:
        yield f"{said} returned, and its effect is told as unknown"


def _of_worst(
    life: Life, result: AgentResult[Any], task: int, records: dict[str, ToolRecord]
) -> Iterator[str]:
    """Check that the effect of the whole run is the worst effect in it."""
    mark, book = f"~{task}.", life.book.read()
    calls = (call for call in calls_in(life.case.scripts) if call.tag.startswith(mark))
    is_done = any(book[call.tag] for call in calls if call.tool in WRITES)
    worst = worst_effect(one.effect for tag, one in records.items() if tag.startswith(mark))
    # A tool that runs an agent writes, whatever the agent does.
    can_be_worse = life.case.engine == "tool" or not records or _unrecorded(result, records)
    said = f"the effect of the run is {result.effect}"
    if is_done and result.effect is Effect.NONE:
        yield f"{said}, and its tools did something"
    if not is_done and result.effect is Effect.APPLIED and life.case.engine != "tool":
        yield f"{said}, and its tools did nothing"
    if worst_effect((worst, result.effect)) is not result.effect:
        yield f"{said}, and a call in it is {worst}"
    if worst is not result.effect and not can_be_worse:
        yield f"{said}, and the worst of its calls is {worst}"


# -- how it ended


def _of_end(life: Life, result: AgentResult[Any], task: int) -> Iterator[str]:
    case = life.case
    code = None if result.error is None else str(result.error.code)
    if not case.is_calm:
        planted = {FAULTS[fault][0] for fault in faults_in(case)} | {"content_filter"}
        planted.add(LIMIT_CODES.get(case.limit[0], "") if case.limit else "")
        if code not in {None, "canceled", "interrupted", *planted}:
            yield f"it ended with {code}, and only {planted} were planted: {result.error}"
        return
    expected, text = expected_end(case, task)
    if case.limit is not None and code == LIMIT_CODES.get(case.limit[0]):
        return
    if code != expected:
        yield f"it ended with {code}, and should with {expected}: {result.error}"
    elif not (code or text) or case.engine not in ("loop", "handoff"):
        return
    elif code in (None, "content_filter") and result.content != text:
        yield f"it says {result.content!r}, and its model said {text!r}"


def faults_in(case: Case) -> set[str]:
    """Return all faults that are planted in *case*."""
    return {fault for one in replies_in(case) for fault in (*one.faults, *one.other_faults)}


def replies_in(case: Case) -> list[Reply]:
    """Return all planned replies."""
    return [reply for script in case.scripts.values() for reply in script]


def expected_end(case: Case, task: int) -> tuple[str | None, str | None]:
    """Return the error code (or None) and the answer with which a task of a calm case ends."""
    code = text = None
    for attempt in range(case.revisions + 1):
        for agent in ENGINES[case.engine]:
            for reply in case.scripts[script_key(task, attempt, agent)]:
                code, text = _fails(case, reply), reply.text or reply.refusal
                if code is not None:
                    break
            if code is not None and not (case.engine in ("tool", "agent") and agent == "b"):
                # The tool reports it, and agent a continues.
                return code, text if code == "content_filter" else None
    return None, text


def _fails(case: Case, reply: Reply) -> str | None:
    """Return the code with which a model call fails after its faults in turn, or None."""
    faults, others = [*reply.faults], [*reply.other_faults]
    count, was_empty = 1, False
    while True:
        fault = _next(faults)
        if case.has_fallback and fault and FAULTS[fault][0] in FALLBACK_CODES:
            fault = _of_both(fault, _next(others))
        if not fault:
            return "content_filter" if reply.finish == "content_filter" else None
        code, retryable = FAULTS[fault]
        if fault == "empty":
            if was_empty:
                return code
            was_empty = True
        elif not retryable or count >= case.tries:
            return code
        count += 1


def _next(faults: list[str]) -> str:
    return faults.pop(0) if faults else ""


def _of_both(first: str, second: str) -> str:
    """Return the fault that a fallback reports if its models had these two."""
    if not second or FAULTS[second][0] not in FALLBACK_CODES or FAULTS[first][1]:
        return second if not second or FAULTS[second][0] not in FALLBACK_CODES else first
    return second if FAULTS[second][1] else first


def essence(result: AgentResult[Any]) -> dict[str, Any]:
    """Return the part of *result* that is the same on every path."""
    code = None if result.error is None else str(result.error.code)
    tools = [one.tool_name for one in result.tool_outcomes]
    tools += [name for child in result.child_runs for name in child.tools]
    # It varies whether a thread started in time, and when it ended.
    is_slow = not {*tools}.isdisjoint(SLOW)
    timed, slow = (SLOW_WARNINGS, (*SLOW, "ask_b")) if is_slow else ((), ())
    return {
        "status": str(result.status),
        "code": code,
        # More can be read from a broken stream than from a broken document.
        "content": result.content if code in (None, "content_filter") else "",
        "finish": result.finish_reason,
        "usage": result.usage,
        "cost": None if result.cost is None else result.cost.total,
        "outcomes": [
            (one.kind, one.tool_name, "" if one.tool_name in slow else str(one.effect))
            for one in result.tool_outcomes
        ],
        "warnings": sorted(str(one.code) for one in result.warnings if one.code not in timed),
        "attempts": result.attempts,
    }
