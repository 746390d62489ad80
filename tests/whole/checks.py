"""What must hold of every run, whatever happened on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.whole.case import FAULTS, Case, script_key
from tests.whole.paths import Outcome
from tests.whole.world import REPEATABLE, Life, is_write, tag_of
from upshot import AgentResult, Status, ToolRecord, decode, encode, states
from upshot.contract.tool_calls import ToolArtifactReference, ToolExecutionResult
from upshot.state.stored_events import result_of

SCHEMA = Path(__file__).parents[2] / "schema" / "upshot.schema.json"
STOPPED = (Status.CANCELED, Status.INTERRUPTED)


async def faults_of(life: Life, outcome: Outcome) -> list[str]:
    """All that is wrong."""
    found = [*life.world.strange]
    for result in outcome.results:
        found += _of_itself(result)
    found += _of_money(life, outcome.result)
    found += _of_effects(life, outcome.result)
    found += _of_end(life, outcome.result)
    found += [
        f"reader {number} was shown another result"
        for number, shown in enumerate(outcome.shown)
        if shown is not None and shown not in outcome.results
    ]
    if outcome.journal is not None:
        events = outcome.journal.events(life.run_id)
        folded = [result_of(state) async for _, state in states(events)]
        if folded[-1] != outcome.result:
            found.append(f"its log gives another result: {folded[-1]}")
    return found


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
        if sorted(calls) != sorted(answered):
            yield f"calls without an answer, or answers without a call: {calls} {answered}"


# -- tokens and money


def _of_money(life: Life, result: AgentResult[Any]) -> Iterator[str]:
    usage, bill = result.usage, life.world.bill
    told = [one for one in bill if one.is_told and not one.is_refused]
    untold = [one for one in bill if not one.is_told]
    least = (sum(one.tokens[0] for one in told), sum(one.tokens[1] for one in told))
    most = (
        least[0] + sum(one.tokens[0] for one in untold),
        least[1] + sum(one.tokens[1] for one in untold),
    )
    got = (usage.input_tokens or 0, usage.output_tokens or 0)
    if not life.case.is_calm:
        # The last reply may not have been read any more.
        least = (0, 0) if usage.unmeasured_calls else least
    if not (least[0] <= got[0] <= most[0] and least[1] <= got[1] <= most[1]):
        yield f"its usage is {got}, the bill says {least} to {most}: {bill}"
    if usage.api_calls != len(bill):
        yield f"it tells of {usage.api_calls} model calls, the bill of {len(bill)}: {bill}"
    extra = usage.unmeasured_calls - len(untold)
    if extra < 0 or (extra and life.case.is_calm):
        yield f"it calls {usage.unmeasured_calls} unmeasured, {len(untold)} are: {bill}"
    price = Decimal(got[0]) / 1000 + Decimal(got[1]) / 100
    cost = None if result.cost is None else result.cost.total
    if (cost or 0) != price:
        yield f"it cost {cost}, and its tokens {price}"
    unpriced = 0 if result.cost is None else result.cost.unpriced_calls
    if result.cost is not None and unpriced != usage.unmeasured_calls:
        yield f"{unpriced} calls have no price, and {usage.unmeasured_calls} no usage"


# -- effects


def _of_effects(life: Life, result: AgentResult[Any]) -> Iterator[str]:
    book = life.book.read()
    records = {tag_of(one): one for one in result.tool_records}
    if life.case.revisions:
        # Those of a discarded attempt are in its line.
        records |= {tag: None for tag in book if _attempt(tag) != result.attempts - 1}
    for tag in book:
        if tag not in records:
            yield f"{tag} took effect, and no record tells of it"
    for tag, record in records.items():
        if record is not None and tag:
            yield from _of_call(life.case, tag, record, book[tag])


def _attempt(tag: str) -> int:
    return int(tag.split(".")[1])


def _of_call(case: Case, tag: str, record: ToolRecord, done: int) -> Iterator[str]:
    effect, name = str(record.outcome.effect), record.tool_name
    said = f"{tag} ({name}, {record.outcome})"
    if effect != str(record.effect):
        yield f"{said}: its record says {record.effect}"
    if not is_write(name):
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


# -- how it ended


def _of_end(life: Life, result: AgentResult[Any]) -> Iterator[str]:
    case = life.case
    code = None if result.error is None else str(result.error.code)
    if not case.is_calm:
        allowed = {"completed", "canceled", "interrupted", "failed"}
        if str(result.status) not in allowed:
            yield f"it ended {result.status}"
        return
    expected, text = expected_end(case)
    if code != expected:
        yield f"it ended with {code}, and should with {expected}: {result.error}"
    elif code is None and result.content != text:
        yield f"it says {result.content!r}, and its model said {text!r}"


def expected_end(case: Case) -> tuple[str | None, str | None]:
    """The error's code with which a calm case ends, None for none; and its answer."""
    text = None
    for attempt in range(case.revisions + 1):
        for reply in case.scripts[script_key(0, attempt, "a")]:
            code = _fails(reply.faults, case.tries)
            if code is not None:
                return code, None
            text = reply.text
    return None, text


def _fails(faults: tuple[str, ...], tries: int) -> str | None:
    """The code with which a model call fails that meets *faults* in turn, None if it does not."""
    count, was_empty = 1, False
    for fault in faults:
        code, retryable = FAULTS[fault]
        if fault == "empty":
            if was_empty:
                return code
            was_empty = True
        elif not retryable or count >= tries:
            return code
        count += 1
    return None


def essence(result: AgentResult[Any]) -> dict[str, Any]:
    """What of *result* is the same on every path."""
    return {
        "status": str(result.status),
        "code": None if result.error is None else str(result.error.code),
        "content": result.content,
        "finish": result.finish_reason,
        "usage": result.usage,
        "cost": None if result.cost is None else result.cost.total,
        "outcomes": [
            (one.kind, one.tool_name, str(one.effect)) for one in result.tool_outcomes
        ],
        "warnings": sorted(str(one.code) for one in result.warnings),
        "attempts": result.attempts,
    }
