"""Looking at a run changes nothing of it, whatever its models do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import (
    Agent,
    AgentError,
    Cost,
    Misuse,
    ModelResponse,
    ReasoningDelta,
    Request,
    Retry,
    TextDelta,
    ToolCall,
    Usage,
    reopen,
    run,
    start,
    states,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.models import Fallback
from upshot.testing.doubles import FakeClock


class Act(NamedTuple):
    """What a model does at one call: yields so many pieces, and then this."""

    then: str
    pieces: int = 0


ERRORS = {
    "cut": AgentError("server_error", "cut", retryable=True),
    "429": AgentError("rate_limit", "busy", status_code=429, retryable=True, retry_after_s=2),
    "500": AgentError("server_error", "down", status_code=500, retryable=True),
    "wrong": AgentError("invalid_request", "no", status_code=400),
}


class Acts:
    """A model that does one act after the other, streamed or not, and answers at the end."""

    def __init__(self, name: str, *acts: Act) -> None:
        self.name, self._acts = name, iter(acts)
        self.on_hang: Callable[[], object] = bool

    async def call(self, request: Any) -> ModelResponse:
        *_, last = [item async for item in self.stream(request)]
        return last

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        act = next(self._acts, Act("ok", 2))
        words = [f"w{number} " for number in range(act.pieces)]
        for word in words:
            await asyncio.sleep(0)
            yield (ReasoningDelta if act.then == "empty" else TextDelta)(text=word)
        if act.then == "hang":
            self.on_hang()
            await asyncio.Event().wait()
        usage = Usage(input_tokens=10, output_tokens=len(words), api_calls=1)
        text = "".join(words) or None
        if act.then == "empty":
            text = None
        if act.then in ("429", "500", "wrong") or (act.then == "cut" and act.pieces % 2):
            usage = Usage(api_calls=1)
        error, calls = ERRORS.get(act.then), ()
        if act.then == "ok":
            text = text or "Fine."
        if act.then == "call":
            calls = (ToolCall("c", "count", {}),)
        cost = Cost(total=Decimal(1)) if usage else None
        yield ModelResponse(content=text, tool_calls=calls, usage=usage, cost=cost, error=error)


ACTS = st.lists(
    st.builds(
        Act,
        st.sampled_from(["cut", "429", "500", "wrong", "empty", "ok", "call"]),
        st.integers(0, 3),
    ),
    max_size=4,
)
HANG = st.none() | st.builds(Act, st.just("hang"), st.integers(0, 3))


class Case(NamedTuple):
    """What the models do, and who calls them again."""

    first: list[Act]
    second: list[Act] | None
    hang: Act | None
    retry: Retry | None


CASES = st.builds(
    Case, ACTS, st.none() | ACTS, HANG, st.none() | st.builds(Retry, max_tries=st.integers(1, 3))
)


async def live(case: Case, joins: list[int]) -> tuple[Any, ...]:
    """Live a case with readers that join after so many turns of the loop; what it led to."""
    last = [] if case.hang is None else [case.hang]
    models = [Acts("test:first", *case.first, *last)]
    if case.second is not None:
        models.append(Acts("test:second", *case.second, *last))
    model: Any = Fallback(*models) if case.second is not None else models[0]  # type: ignore[arg-type]
    made = 0

    @tool(effect="write")
    def count() -> int:
        nonlocal made
        made += 1
        return made

    agent: Agent[Any] = Agent("a", model=model, tools=[count], retry=case.retry)
    journal, clock = MemoryJournal(), FakeClock()
    options: dict[str, Any] = {"journal": journal, "clock": clock}

    async def read(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        # The run may not have begun, or have ended.
        with suppress(Misuse):
            async with reopen("r", agent, **options) as guest:
                async for _ in guest:
                    pass

    task = asyncio.create_task(run(agent, Request("?", run_id="r"), **options))
    for one in models:
        one.on_hang = task.cancel
    readers = [asyncio.create_task(read(turns)) for turns in joins]
    await asyncio.wait({task})
    await asyncio.gather(*readers, return_exceptions=True)
    events = [event async for event, _ in states(journal.events("r"))]
    told = [(one.kind, getattr(one, "tries", 0), getattr(one, "next_model", "")) for one in events]
    result = events[-1].result  # type: ignore[union-attr]
    # Of a reply that was stopped in the middle, only who is watching has seen a part.
    content = None if result.status == "canceled" else result.content
    outcomes = [(one.call_id, one.outcome) for one in result.tool_records]
    ended = result.status, result.error, content, result.output
    return *ended, result.usage, result.cost, outcomes, made, told, clock.sleeps


@given(CASES, st.lists(st.integers(1, 40), min_size=2, max_size=2))
async def test_a_run_ends_alike_with_no_reader_and_with_one_or_three(
    case: Case, joins: list[int]
) -> None:
    alone = await live(case, [])
    assert await live(case, [1]) == alone
    assert await live(case, [1, *joins]) == alone
    assert await live(case, [joins[0]]) == alone


CUT = [Act("cut", 2), Act("ok", 3)]


@pytest.mark.parametrize("joins", [[], [1]], ids=["unwatched", "watched"])
async def test_a_reply_that_is_cut_after_its_first_piece_is_asked_for_again(
    joins: list[int],
) -> None:
    status, _, content, *_ = await live(Case(CUT, None, None, Retry()), joins)
    assert (status, content) == ("completed", "w0 w1 w2 ")
    status, _, content, *_ = await live(Case(CUT, [Act("ok", 1)], None, None), joins)
    assert (status, content) == ("completed", "w0 ")


@pytest.mark.parametrize("joins", [[], [1]], ids=["unwatched", "watched"])
async def test_a_stop_in_a_fallback_counts_what_has_settled_and_what_is_under_way(
    joins: list[int],
) -> None:
    case = Case([Act("cut", 2)], [Act("hang", 1)], None, None)
    status, _, _, _, usage, cost, *_, told, _ = await live(case, joins)
    assert status == "canceled"
    assert (usage.input_tokens, usage.api_calls, usage.unmeasured_calls) == (10, 2, 1)
    assert (cost.total, cost.unpriced_calls) == (1, 1)
    assert ("model_retried", 0, "test:second") in told


async def test_the_budget_sees_each_reply_of_a_fallback_before_the_next_model_is_called() -> None:
    seen: list[Any] = []

    class Host:
        def report_usage(self, usage: Usage) -> None:
            seen.append(usage.input_tokens)

    class Second:
        name = "test:second"

        async def call(self, request: Any) -> ModelResponse:
            assert seen == [10]
            return ModelResponse(content="Fine.", usage=Usage(input_tokens=4, api_calls=1))

    model: Any = Fallback(Acts("test:first", Act("cut")), Second())  # type: ignore[arg-type]
    agent: Agent[Any] = Agent("a", model=model)
    assert (await run(agent, "?", host=Host())).usage.input_tokens == 14  # type: ignore[arg-type]
    assert seen == [10, 4]


@pytest.mark.parametrize("second", [None, [Act("ok", 1)]], ids=["retry", "fallback"])
async def test_text_that_is_void_is_taken_back(second: list[Act] | None) -> None:
    models: list[Any] = [Acts("test:first", *CUT)]
    if second is not None:
        models.append(Acts("test:second", *second))
    agent: Agent[Any] = Agent("a", model=Fallback(*models))
    async with start(agent, "?", clock=FakeClock()) as live:
        text, voids = "", 0
        async for piece in live.text():
            voids += (void := getattr(piece, "voids", 0))
            text = text[:-void] if void else text + piece
        result = await live.result()
    assert (text, voids) == (result.content, len("w0 w1 "))
