"""A tool's own hook says whether a call of unknown effect took effect."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from upshot.contract import (
    Budget,
    Effect,
    Event,
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolStarted,
    ToolTimeout,
    Warned,
)
from upshot.testing import FakeClock
from upshot.tools import Tool, Toolbox, tool
from upshot.tools.call_resumption import EarlierCalls
from upshot.tools.definition.tool_options import UnknownEffect


async def hang(a: int = 1) -> None:
    await asyncio.Event().wait()


def hung(verify: Callable[[UnknownEffect], Any], **fields: Any) -> Tool:
    return tool(name="send", timeout_s=0.01, verify=verify, **fields)(hang)


async def one(used: Tool, events: list[Event] | None = None) -> ToolOutcome:
    box = Toolbox([used], emit=None if events is None else events.append)
    return (await box.dispatch([ToolCall("1", used.name)]))[0]


@pytest.mark.parametrize(
    ("answer", "effect", "retryable"),
    [
        (True, Effect.APPLIED, False),
        ("applied", Effect.APPLIED, False),
        (Effect.APPLIED, Effect.APPLIED, False),
        (False, Effect.NONE, True),
        (Effect.NONE, Effect.NONE, True),
        (None, Effect.UNKNOWN, False),
        ("unknown", Effect.UNKNOWN, False),
        ("perhaps", Effect.UNKNOWN, False),
    ],
)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_what_a_timeout_did_is_what_the_hook_says(
    answer: object, effect: Effect, retryable: bool, plain: bool
):
    async def verify(call: UnknownEffect) -> object:
        return answer

    outcome = await one(hung((lambda _: answer) if plain else verify))
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.effect, outcome.retryable) == (effect, retryable)


async def test_a_hook_is_told_of_the_call():
    asked: list[UnknownEffect] = []
    used = hung(asked.append)
    box = Toolbox([used])
    outcome = (await box.dispatch([ToolCall("7", "send", {"a": "3"})]))[0]
    (call,) = asked
    assert (call.call_id, call.tool_name, call.run_id) == ("7", "send", box.run_id)
    assert (call.arguments, call.outcome) == ({"a": 3}, outcome)
    assert call.idempotency_key == box.records[0].idempotency_key != ""


async def test_a_plain_hook_does_not_stop_the_loop():
    threads: list[threading.Thread] = []
    await one(hung(lambda _: threads.append(threading.current_thread())))
    assert threads[0] is not threading.main_thread()


def fail(_: UnknownEffect) -> bool:
    raise ConnectionError("no answer")


@pytest.mark.parametrize(("hook", "said"), [(fail, "no answer"), (lambda _: [], "list")])
async def test_a_hook_that_fails_leaves_it_unknown_and_is_told(hook: Any, said: str):
    events: list[Event] = []
    outcome = await one(hung(hook), events)
    assert outcome.effect is Effect.UNKNOWN
    (warned,) = [event for event in events if isinstance(event, Warned)]
    assert warned.warning.code == "verify_failed"
    assert said in warned.warning.message


async def test_a_hook_that_hangs_leaves_it_unknown():
    running = asyncio.Event()

    async def verify(_: UnknownEffect) -> bool:
        await asyncio.Event().wait()
        return True

    @tool(effect="write", verify=verify)
    async def send() -> None:
        running.set()
        await asyncio.Event().wait()

    box = Toolbox([send])
    batch = asyncio.create_task(box.dispatch([ToolCall("1", "send")]))
    await running.wait()
    # After a cancel a hook has a quarter of a second.
    box.cancel()
    assert [outcome.effect for outcome in await batch] == [Effect.UNKNOWN]


async def test_what_did_nothing_is_run_again_where_the_tool_wants_retries():
    tries: list[int] = []

    @tool(effect="write", retries=1, verify=lambda _: False)
    async def send() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("reset")
        return "sent"

    outcome = await one(send)
    assert (outcome.kind, len(tries)) == ("tool_execution_result", 2)


async def test_what_took_effect_is_not_run_again():
    tries: list[int] = []

    @tool(effect="write", retries=3, verify=lambda _: True)
    async def send() -> str:
        tries.append(1)
        raise OSError("reset")

    outcome = await one(send)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.effect, outcome.retryable, len(tries)) == (Effect.APPLIED, False, 1)


async def test_nobody_is_asked_where_the_effect_is_known():
    @tool(effect="read", timeout_s=0.01, verify=fail)
    async def look() -> None:
        await asyncio.Event().wait()

    events: list[Event] = []
    assert (await one(look, events)).effect is Effect.NONE
    assert not [event for event in events if isinstance(event, Warned)]


async def test_a_tools_final_word_stays_final():
    from upshot.tools import ToolError

    @tool(effect="write", verify=lambda _: False)
    async def send() -> None:
        raise ToolError("no such address", retryable=False)

    outcome = await one(send)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.effect, outcome.retryable) == (Effect.NONE, False)


async def test_a_call_that_a_crash_interrupted_is_verified_before_it_is_told():
    call = ToolCall("1", "send", {"a": 1})
    started = ToolStarted(
        call=call, arguments={"a": 1}, idempotency_key="k", time=datetime(2026, 1, 1, tzinfo=UTC)
    )
    keys: list[str] = []

    def verify(asked: UnknownEffect) -> bool:
        keys.append(asked.idempotency_key)
        return False

    box = Toolbox([hung(verify)])
    outcome = (await box.resume([call], EarlierCalls({"1": started})))[0]
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect, outcome.retryable) == ("interrupted", Effect.NONE, True)
    assert keys == ["k"]
    assert [record.outcome for record in box.records] == [outcome]


async def test_a_cancel_while_an_interrupted_call_is_verified_leaves_what_was_known():
    asked = asyncio.Event()

    async def verify(_: UnknownEffect) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    call = ToolCall("1", "send")
    box = Toolbox([hung(verify)])
    running = asyncio.create_task(box.resume([call], EarlierCalls({"1": ToolStarted(call=call)})))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (record,) = box.records
    assert (record.outcome.code, record.outcome.effect) == ("interrupted", Effect.UNKNOWN)


def put(a: int = 1, **fields: Any) -> Tool:
    return tool(name="put", effect="write", idempotent=True, **fields)(lambda a=1: a)


@pytest.mark.parametrize("effect", [Effect.NONE, Effect.UNKNOWN])
async def test_no_gate_can_deny_that_an_interrupted_call_had_started(effect: Effect) -> None:
    call = ToolCall("1", "put")
    verify = None if effect is Effect.UNKNOWN else lambda asked: False
    box = Toolbox([put(verify=verify)], budget=Budget(max_tool_calls=0))
    started = EarlierCalls({"1": ToolStarted(call=call, arguments={}, idempotency_key="k")})
    (outcome,) = await box.resume([call], started)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect) == ("interrupted", effect)
    (record,) = box.records
    assert (record.gate, record.idempotency_key, record.effect) == ("budget", "k", effect)


async def test_a_restarted_call_that_is_cancelled_first_may_have_had_its_effect() -> None:
    call = ToolCall("1", "put")
    box = Toolbox([put()])
    box.cancel()
    started = EarlierCalls({"1": ToolStarted(call=call, arguments={})})
    (outcome,) = await box.resume([call], started)
    assert (outcome.code, outcome.effect) == ("interrupted", Effect.UNKNOWN)


async def test_an_interrupted_call_counts_against_the_budget() -> None:
    calls = [ToolCall("1", "send"), ToolCall("2", "put")]
    box = Toolbox([hung(lambda _: True), put()], budget=Budget(max_tool_calls=1))
    started = EarlierCalls({"1": ToolStarted(call=calls[0], arguments={})})
    first, second = await box.resume(calls, started)
    assert first.code == "interrupted"
    assert isinstance(second, ToolDenied) and second.reason == "budget"


async def test_of_two_calls_in_doubt_with_one_id_the_second_is_denied():
    call = ToolCall("1", "send", {"a": 1})
    box = Toolbox([hung(lambda _: True)])
    started = EarlierCalls({"1": ToolStarted(call=call, arguments={"a": 1})})
    first, second = await box.resume([call, call], started)
    assert first.effect is Effect.APPLIED
    assert isinstance(second, ToolDenied)
    assert second.reason == "duplicate"


class Noting(asyncio.SelectorEventLoop):
    """A loop that keeps for how long it was asked to wait at most."""

    longest_s = 0.0

    def call_at(self, when: float, *more: Any, **named: Any) -> asyncio.TimerHandle:
        self.longest_s = max(self.longest_s, when - self.time())
        return super().call_at(when, *more, **named)


def test_a_hook_that_hangs_holds_no_turn_past_its_deadline():
    async def verify(call: UnknownEffect) -> None:
        await asyncio.Event().wait()

    async def used() -> ToolOutcome:
        box = Toolbox([tool(verify=verify, timeout_s=0.01)(hang)], budget=Budget(deadline_s=0.1))
        return (await box.dispatch([ToolCall("1", "hang")]))[0]

    loop = Noting()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        outcome = runner.run(used())
    assert (outcome.kind, outcome.effect) == ("tool_timeout", "unknown")
    # Unbounded it would be five seconds.
    assert loop.longest_s < 4


async def test_a_hook_has_time_to_answer_though_that_of_the_turn_is_over():
    clock = FakeClock()

    async def late(a: int = 1) -> None:
        clock.advance(60)
        await hang()

    async def verify(call: UnknownEffect) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return True

    used = tool(timeout_s=0.01, verify=verify)(late)
    box = Toolbox([used], budget=Budget(deadline_s=10), clock=clock)
    outcome = (await box.dispatch([ToolCall("1", "late")]))[0]
    assert (outcome.kind, outcome.effect) == ("tool_timeout", "applied")


async def test_what_did_nothing_is_not_run_again_where_the_tool_forbids_it():
    outcome = await one(hung(lambda _: False, retry_on_timeout=False))
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.effect, outcome.retryable) == (Effect.NONE, False)


async def test_a_plain_hook_may_give_what_is_to_be_awaited():
    async def look() -> bool:
        return True

    assert (await one(hung(lambda _: look()))).effect is Effect.APPLIED


async def test_that_nothing_happened_is_not_believed_while_the_body_goes_on():
    gate, bodies = threading.Event(), list[int]()

    @tool(effect="write", timeout_s=0.05, retries=1, verify=lambda _: False)
    def send() -> None:
        bodies.append(1)
        gate.wait(10)

    try:
        outcome = await one(send)
    finally:
        gate.set()
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.stopped, outcome.effect, outcome.retryable) == (False, Effect.UNKNOWN, False)
    assert len(bodies) == 1
