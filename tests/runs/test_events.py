"""What a watcher of a run sees: every event, in order, to the last."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.runs.kit import ADD, Do, add, kinds, log_of, measured, say
from upshot import (
    Agent,
    AgentError,
    Interrupted,
    Lagged,
    Misuse,
    ModelResponse,
    Reasoning,
    Retry,
    RunSettled,
    Status,
    StepSettled,
    StepStarted,
    TextDelta,
    ToolCall,
    ToolContext,
    Usage,
    Warned,
    run,
    start,
    tool,
)
from upshot.contract import DELTAS, RunWarning
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.runs.live_run import MAX_WAITING_DELTAS
from upshot.testing.doubles import FakeClock


def adding(*replies: Any) -> Agent:
    return Agent("a", model=ScriptedModel([ADD, *replies]), tools=[add])


async def seen(agent: Agent, **options: Any) -> list[Any]:
    async with start(agent, "?", **options) as live:
        return [event async for event in live]


async def test_durable_events_have_a_dense_seq_and_deltas_count_after_them() -> None:
    seq, part = 0, 0
    for event in await seen(adding("It is three.")):
        if isinstance(event, DELTAS):
            part += 1
        else:
            seq, part = seq + 1, 0
        assert (event.seq, event.part) == (seq, part)


async def test_every_event_says_run_attempt_and_time() -> None:
    async with start(adding("It is 3."), "?") as live:
        events = [event async for event in live]
    assert {event.run_id for event in events} == {live.run_id}
    times = [event.time for event in events]
    assert None not in times
    assert times == sorted(times)
    assert [event.attempt for event in events[:2]] == [0, 1]
    assert {event.attempt for event in events[1:]} == {1}


async def test_the_log_holds_what_was_seen_but_the_deltas() -> None:
    journal = MemoryJournal()
    events = await seen(adding("It is 3."), journal=journal)
    durable = [event for event in events if not isinstance(event, DELTAS)]
    assert await log_of(journal, events[0].run_id) == durable


async def test_the_last_event_carries_the_very_result() -> None:
    async with start(adding("It is 3."), "?") as live:
        events = [event async for event in live]
        result = await live.result()
    assert isinstance(events[-1], RunSettled)
    assert events[-1].result is result
    assert kinds(events).count("run_settled") == 1


async def test_text_comes_piece_by_piece() -> None:
    async with start(adding("It is three."), "?") as live:
        pieces = [piece async for piece in live.text()]
    assert len(pieces) == 3
    assert "".join(pieces) == "It is three."


async def test_reasoning_and_calls_come_as_deltas() -> None:
    reply = ModelResponse(reasoning=(Reasoning(text="Hm."),), tool_calls=(ADD,))
    agent = Agent("a", model=ScriptedModel([reply, "3"]), tools=[add])
    found = kinds(await seen(agent))
    assert found.index("reasoning_delta") < found.index("tool_call_delta")
    assert found.index("tool_call_delta") < found.index("model_replied")


async def test_a_model_that_cannot_stream_is_watched_all_the_same() -> None:
    class Plain:
        name = "plain:model"

        async def call(self, request: Any) -> ModelResponse:
            return measured("Hi.")

    async with start(Agent("a", model=Plain()), "?") as live:  # type: ignore[arg-type]
        assert (await live.result()).content == "Hi."


async def test_progress_of_a_tool_is_seen() -> None:
    @tool(effect="read")
    def count(context: ToolContext) -> int:
        context.progress("half way", {"done": 1})
        return 2

    agent = Agent("a", model=ScriptedModel([ToolCall("c", "count"), "2"]), tools=[count])
    (progress,) = [event for event in await seen(agent) if event.kind == "tool_progress"]
    assert (progress.call_id, progress.text, progress.data) == ("c", "half way", {"done": 1})


async def test_a_retry_is_an_event() -> None:
    busy = AgentError("rate_limit", "busy", retryable=True, retry_after_s=7)
    agent = Agent("a", model=ScriptedModel([busy, "Hi."]), retry=Retry(base_s=0))
    clock = FakeClock()
    events = await seen(agent, clock=clock)
    (retried,) = [event for event in events if event.kind == "model_retried"]
    assert (retried.tries, retried.wait_s, retried.error) == (1, 7, busy)
    (replied,) = [event for event in events if event.kind == "model_replied"]
    assert replied.tries == 2
    assert clock.sleeps == [7]


async def test_a_stream_is_tried_again_after_its_first_delta() -> None:
    class Cut(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            if not self.calls:
                yield TextDelta(text="Half")
            async for item in super().stream(request):
                yield item

    cut = AgentError("server_error", "cut", retryable=True)
    clock = FakeClock()
    events = await seen(Agent("a", model=Cut([cut, "Whole."])), clock=clock)
    told = [one.kind for one in events if one.kind.startswith(("model", "text"))]
    assert told == ["model_started", "text_delta", "model_retried", "text_delta", "model_replied"]
    assert (events[-1].result.status, events[-1].result.content) == (Status.COMPLETED, "Whole.")


async def test_leaving_early_cancels_the_run() -> None:
    at_work, ended = asyncio.Event(), asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> None:
        at_work.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with start(Agent("a", engine=Do(work)), "?") as live:
        await at_work.wait()
    assert ended.is_set()
    assert live.done
    assert (await live.result()).status is Status.CANCELED


async def test_leaving_by_an_exception_cancels_the_run_and_lets_it_through() -> None:
    async def leave() -> Any:
        async with start(Agent("a", engine=Do(lambda *_: asyncio.sleep(60))), "?") as live:
            kept.append(live)
            raise KeyError("mine")

    kept: list[Any] = []
    with pytest.raises(KeyError):
        await leave()
    assert (await kept[0].result()).status is Status.CANCELED


async def test_a_timeout_round_the_waiting_stops_only_the_waiting() -> None:
    go = asyncio.Event()
    agent = Agent("a", engine=Do(lambda run, host, board: go.wait()))
    async with start(agent, "?") as live:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(live.result(), 0.01)
        assert not live.done
        go.set()
        assert (await live.result()).output is True


async def test_an_interrupt_is_followed_at_a_safe_point() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        for _ in range(1000):
            wish = await host.interrupts()
            if wish:
                board.append(say("Half."))
                raise Interrupted(wish.cause, wish.detail)
            await asyncio.sleep(0)
        return "never"

    async with start(Agent("a", engine=Do(work)), "?") as live:
        await asyncio.sleep(0)
        live.interrupt("user_input", "wait")
        live.interrupt("custom", "too late")
        events = [event async for event in live]
        result = await live.result()
    assert (result.status, result.cause, result.detail) == ("interrupted", "user_input", "wait")
    assert (result.content, result.committed) == ("Half.", False)
    assert kinds(events).count("interrupted") == 1


async def test_an_interrupt_of_a_run_that_is_over_does_nothing() -> None:
    async with start(Agent("a", engine=Do(lambda *_: "done")), "?") as live:
        result = await live.result()
        live.interrupt()
        live.cancel()
        assert await live.result() is result


def telling(count: int) -> Do:
    """An engine that publishes more deltas than are kept for a slow reader."""

    async def work(run: Any, host: Any, board: Any) -> None:
        for number in range(count):
            host.publish(TextDelta(text=str(number)))
        await asyncio.sleep(0.01)
        host.publish(TextDelta(text="later"))

    return Do(work)


async def test_a_slow_reader_of_deltas_is_told_how_many_it_missed() -> None:
    most = MAX_WAITING_DELTAS
    async with start(Agent("a", engine=telling(most + 7)), "?") as live:
        await live.result()
        events = [event async for event in live]
    (lagged,) = [event for event in events if isinstance(event, Lagged)]
    place = events.index(lagged)
    assert kinds(events).count("text_delta") == most
    assert kinds(events)[place - 1 : place + 2] == ["text_delta", "lagged", "attempt_ended"]
    assert (lagged.missed, lagged.seq, lagged.part) == (8, 3, most + 8)
    durable = [event.seq for event in events if not isinstance(event, DELTAS)]
    assert durable == list(range(1, len(durable) + 1))


async def test_deltas_after_a_gap_come_after_the_word_of_it() -> None:
    most = MAX_WAITING_DELTAS
    async with start(Agent("a", engine=telling(most + 7)), "?") as live:
        while not live.done:
            events = [event async for event in live]
    deltas = [event for event in events if isinstance(event, TextDelta | Lagged)]
    assert [event.kind for event in deltas[-2:]] == ["lagged", "text_delta"]
    assert (deltas[-2].missed, deltas[-1].text) == (7, "later")


async def test_an_engine_publishes_events_of_its_own() -> None:
    warned = Warned(warning=RunWarning(code="odd", message="It is odd."))

    async def work(run: Any, host: Any, board: Any) -> None:
        host.publish(warned)
        await host.publish(warned)

    journal = MemoryJournal()
    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    log = [event for event in await log_of(journal, result.run_id) if event.kind == "warning"]
    assert [event.seq for event in log] == [4, 5]
    assert [warning.code for warning in result.warnings] == ["odd", "odd"]
    assert warned.seq == 0


async def test_a_second_reader_at_the_same_time_is_refused() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await asyncio.sleep(60)

    async def read(live: Any) -> None:
        async for _ in live:
            pass

    async with start(Agent("a", engine=Do(work)), "?") as live:
        first = asyncio.ensure_future(read(live))
        await asyncio.sleep(0)
        with pytest.raises(Misuse, match="one reader"):
            await read(live)
        live.cancel()
        await first


async def test_who_stopped_reading_may_go_on_later() -> None:
    async with start(adding("Done."), "?") as live:
        async for event in live:
            if event.kind == "tool_settled":
                break
        rest = [event.kind async for event in live]
    assert rest[-1] == "run_settled"


@pytest.mark.parametrize(
    "event",
    [
        StepStarted(key=cast("Any", 5)),
        StepSettled(key=cast("Any", 5)),
        Warned(warning=cast("Any", "x")),
    ],
)
async def test_an_event_that_could_not_be_read_back_is_refused_with_a_warning(event: Any) -> None:
    journal = MemoryJournal()

    async def work(run: Any, host: Any, board: Any) -> str:
        await host.publish(event)
        return "fine"

    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    assert (result.output, [one.code for one in result.warnings]) == ("fine", ["event_refused"])
    logged = [one for one in await log_of(journal, result.run_id) if type(one) is type(event)]
    assert [one.warning for one in logged if isinstance(one, Warned)] == [
        one for one in result.warnings if isinstance(event, Warned)
    ]


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=cast("Any", "x")),
        Usage(input_tokens=cast("Any", 1.5)),
    ],
)
async def test_a_report_of_usage_that_could_not_be_read_back_is_misuse(usage: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        with pytest.raises(Misuse, match="expected"):
            host.report_usage(usage)

    assert (await run(Agent("a", engine=Do(work)), "?")).success
