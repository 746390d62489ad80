"""Whatever comes: one outcome for every call, in order, that can be written and read."""

import asyncio
import json
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.searching import examples
from upshot.contract import (
    Approve,
    Budget,
    Deny,
    Edit,
    ToolCall,
    ToolDenied,
    ToolOutcome,
    decode,
    encode,
    outcome_to_model_content,
)
from upshot.tools import Policy, Refuse, Toolbox, ToolError, Workers, tool

WORKERS = Workers(cap=4)
RETURNS: dict[str, Any] = {
    "number": 1,
    "nan": float("nan"),
    "half": "\ud800",
    "big": "x" * 13_000,
    "error": {"error": "no"},
    "final": {"error": "no", "retryable": False},
    "object": object(),
    "deep": [[[]]],
}
ENDS = [*RETURNS, "raise", "tool_error", "exit", "hang", "cancel"]


async def act(end: str) -> Any:
    match end:
        case "raise":
            raise ValueError("x\ny")
        case "tool_error":
            raise ToolError("no", code="odd", retryable=False)
        case "exit":
            raise SystemExit(1)
        case "cancel":
            raise asyncio.CancelledError
        case "hang":
            return await asyncio.Event().wait()
        case _:
            return RETURNS[end]


@tool(effect="read", timeout_s=0.003)
async def read(end: str) -> Any:
    return await act(end)


@tool(effect="read", idempotent=True, timeout_s=0.003, retries=1)
async def again(end: str) -> Any:
    return await act(end)


@tool(timeout_s=0.003, resources=["shelf"])
async def write(end: str) -> Any:
    return await act(end)


@tool(effect="destructive", timeout_s=0.003)
async def remove(end: str) -> Any:
    return await act(end)


@tool(effect="read", timeout_s=0.02)
def plain(end: str) -> Any:
    if end in RETURNS:
        return RETURNS[end]
    if end == "hang":
        return threading.Event().wait(0.03)
    raise ValueError(end)


TOOLS = [read, again, write, remove, plain]
NAMES = st.sampled_from([one.name for one in TOOLS] + ["nope", "read_artifact", ""])
ARGUMENTS = st.sampled_from(ENDS).map(lambda end: {"end": end}) | st.sampled_from(
    ['{"end": "number"}', "{", "", "[]", '{"end": 5}', '{"ende": "x"}', '{"end": "hang"}']
)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), max_size=6)
HOOKS = st.sampled_from([None, lambda request: None, lambda request: Refuse("no")])
APPROVERS = st.sampled_from([None, lambda r: True, lambda r: False, lambda r: None, lambda r: 1])
BUDGETS = st.builds(
    Budget,
    max_tool_calls=st.none() | st.integers(0, 3),
    deadline_s=st.none() | st.sampled_from([0.0, 0.005]),
)


def make_calls(pairs: list[tuple[str, Any]]) -> list[ToolCall]:
    return [ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(pairs)]


def assert_sound(outcomes: list[ToolOutcome]) -> None:
    for outcome in outcomes:
        assert decode(encode(outcome)) == outcome
        assert isinstance(json.loads(outcome_to_model_content(outcome)), dict)
        if isinstance(outcome, ToolDenied):
            assert outcome.effect == "none"


def assert_recorded(box: Toolbox, ids: list[str]) -> None:
    assert sorted(record.call_id for record in box.records) == sorted(ids)
    for record in box.records:
        assert decode(encode(record)) == record


@examples(60)
@given(CALLS, HOOKS, APPROVERS, BUDGETS, st.booleans())
async def test_every_call_has_one_outcome_in_order(
    pairs: list[tuple[str, Any]], hook: Any, approve: Any, budget: Budget, parallel: bool
):
    box = Toolbox(
        TOOLS,
        on_pre_tool_use=hook,
        approve=approve,
        budget=budget,
        parallel=parallel,
        workers=WORKERS,
    )
    calls = make_calls(pairs)
    outcomes = await box.dispatch(calls)
    parked = [pending.call_id for pending in box.pending]
    ids = [call.id for call in calls if call.id not in parked]
    assert [outcome.call_id for outcome in outcomes] == ids
    assert_sound(outcomes)
    assert_recorded(box, ids)


@examples(30)
@given(CALLS, st.integers(0, 12))
async def test_a_cancel_at_any_moment_leaves_one_record_for_every_call(
    pairs: list[tuple[str, Any]], steps: int
):
    events: list[str] = []
    box = Toolbox(TOOLS, emit=lambda event: events.append(event.kind), workers=WORKERS)
    calls = make_calls(pairs)
    task = asyncio.create_task(box.dispatch(calls))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    # Cancelled before its first step, a task never looks at its calls.
    if steps:
        assert_recorded(box, [call.id for call in calls if call.id not in _parked(box)])
        assert events.count("tool_settled") == len(box.records)


@examples(30)
@given(
    st.lists(st.sampled_from(["number", "raise", "big"]), min_size=1, max_size=3, unique=True),
    st.lists(
        st.sampled_from(
            [Approve, lambda id: Deny(id, "no"), lambda id: Edit(id, {"end": "number"})]
        ),
        max_size=3,
    ),
)
async def test_answers_settle_what_they_name_and_nothing_else(ends: list[str], kinds: list[Any]):
    box = Toolbox([remove])
    calls = [ToolCall(f"c{n}", "remove", {"end": end}) for n, end in enumerate(ends)]
    assert await box.dispatch(calls) == []
    answers = [kind(call.id) for call, kind in zip(calls, kinds, strict=False)]
    outcomes = await box.answer(answers)
    assert [outcome.call_id for outcome in outcomes] == [answer.call_id for answer in answers]
    assert_sound(outcomes)
    assert _parked(box) == [call.id for call in calls[len(answers) :]]


def _parked(box: Toolbox) -> list[str]:
    return [pending.call_id for pending in box.pending]


class Shop:
    """Tools that write, at once, late, or never, and what they have written."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.tools = [
            tool(effect="write", timeout_s=0.004)(self.order),
            tool(effect="destructive", timeout_s=0.004)(self.cancel_order),
            tool(effect="read", idempotent=True, trust="untrusted")(self.list_orders),
        ]

    async def order(self, after: int, fault: str = "") -> str:
        """Write after so many steps of the loop, with or without a fault after the effect."""
        for _ in range(after):
            await asyncio.sleep(0)
        self.written.append("order")
        return await act(fault or "number")

    async def cancel_order(self, after: int, fault: str = "") -> str:
        """The same, and people are asked."""
        return await self.order(after, fault)

    async def list_orders(self) -> list[str]:
        """Read what was written."""
        return list(self.written)


FAULTS = st.sampled_from(["", "raise", "tool_error", "hang", "cancel", "big", "object", "exit"])
SHOP_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["order", "cancel_order", "list_orders", "nope"]),
        st.fixed_dictionaries({"after": st.integers(0, 6), "fault": FAULTS}) | st.just({}),
    ),
    max_size=5,
)
ENDINGS = st.sampled_from(["none", "toolbox", "caller"])
KINDS = st.sampled_from(
    [
        Approve,
        lambda id: Approve(id, always="tool"),
        lambda id: Deny(id, "no"),
        lambda id: Edit(id, {"after": 0}),
        None,
    ]
)
ROUNDS = st.lists(
    st.tuples(SHOP_CALLS, ENDINGS, st.integers(0, 8), st.lists(KINDS, max_size=5)),
    min_size=1,
    max_size=4,
)


async def play(box: Toolbox, work: Any, ending: str, steps: int) -> None:
    """Do *work* of a Toolbox, and cut it short after so many steps of the loop."""
    task = asyncio.ensure_future(work)
    for _ in range(steps + 1):
        await asyncio.sleep(0)
    if ending == "toolbox":
        box.cancel()
    elif ending == "caller":
        task.cancel()
    await asyncio.wait([task])


@examples(80)
@given(ROUNDS, st.booleans(), st.booleans())
async def test_over_batches_faults_cancels_and_answers_nothing_is_lost_doubled_or_late(
    rounds: list[Any], taint: bool, parallel: bool
):
    shop, made = Shop(), list[str]()
    box = Toolbox(shop.tools, policy=Policy(taint=taint), parallel=parallel)
    for number, (pairs, ending, steps, kinds) in enumerate(rounds):
        calls = [ToolCall(f"{number}-{n}", *pair) for n, pair in enumerate(pairs)]
        made += [call.id for call in calls]
        known = len(box.records)
        await play(box, box.dispatch(calls), ending, steps)
        settled = [record.call_id for record in box.records[known:]]
        assert settled == [call.id for call in calls if call.id in settled]
        chosen = zip([pending.call_id for pending in box.pending], kinds, strict=False)
        answers = [kind(id) for id, kind in chosen if kind is not None]
        await play(box, box.answer(answers), ending, steps)
        # The turn is closed: who was cut off must not write any more.
        written = len(shop.written)
        await asyncio.sleep(0.001)
        assert len(shop.written) == written
        box.new_turn()
    ids = [record.call_id for record in box.records] + _parked(box)
    assert sorted(ids) == sorted(made)
    assert_recorded(box, [id for id in made if id not in _parked(box)])
    assert_sound([record.outcome for record in box.records])
    started = [record for record in box.records if record.started_at is not None]
    assert len(shop.written) <= len([one for one in started if one.tool_name != "list_orders"])
