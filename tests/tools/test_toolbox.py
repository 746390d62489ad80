"""A Toolbox as its users meet it."""

import asyncio
import threading
from typing import Any

import pytest

from tests.leaping import leap, run_leaping
from tests.naming import name_of
from upshot.contract import (
    Budget,
    Event,
    RunInfo,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolProgress,
    ToolRecord,
    ToolStarted,
    ToolTimeout,
    Warned,
    encode,
)
from upshot.errors import Misuse
from upshot.testing import FakeClock
from upshot.tools import (
    CallState,
    Denial,
    InMemoryArtifacts,
    Toolbox,
    ToolContext,
    ToolError,
    Workers,
    tool,
)
from upshot.tools.call_resumption import EarlierCalls


@tool(effect="read")
async def look(a: int = 0) -> int:
    return a


@tool(effect="write")
async def put(a: int = 0) -> int:
    return a


@tool(effect="write", idempotent=True)
async def set_to(a: int = 0) -> int:
    return a


@tool(effect="read", idempotent=True)
async def lookup(a: int = 0) -> int:
    return a


async def test_a_plain_function_runs_in_a_thread_and_an_async_one_on_the_loop():
    @tool(effect="read")
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    box = Toolbox([plain, look])
    outcomes = await box.dispatch([ToolCall("1", "plain"), ToolCall("2", "look")])
    assert isinstance(outcomes[0], ToolExecutionResult)
    assert outcomes[0].output == {"result": False}
    assert [record.mode for record in box.records] == ["thread", "async"]


async def test_a_record_says_all():
    clock = FakeClock()
    box = Toolbox([look], identity=RunInfo(run_id="run-1"), parent_run_id="run-0", clock=clock)
    await box.dispatch([ToolCall("1", "look", '{"a": 3}')], turn=4)
    record = box.records[0]
    assert (record.run_id, record.parent_run_id, record.turn) == ("run-1", "run-0", 4)
    assert (record.tool_name, record.tool_version) == ("look", look.version)
    assert (record.attempts, record.declared_effect, record.effect) == (1, "read", "none")
    assert (record.argument_bytes, record.output_bytes) == (7, 12)
    assert record.started_at == clock.now()
    assert [verdict.gate for verdict in record.trace] == [
        "cancelled",
        "deadline",
        "budget",
        "known_tool",
        "blocked",
        "arguments",
        "progress",
        "approval",
        "deadline_again",
    ]


async def test_a_context_knows_its_call():
    seen: list[Any] = []

    @tool(effect="read", timeout_s=3)
    async def know(context: ToolContext[dict[str, int]], a: int) -> None:
        seen.append(context)

    clock = FakeClock()
    box = Toolbox(
        [know], identity=RunInfo(run_id="r"), dependencies={"x": 1}, attempt=lambda: 2, clock=clock
    )
    await box.dispatch([ToolCall("1", "know", {"a": 1})], turn=5)
    context = seen[0]
    assert (context.run_id, context.call_id, context.tool_name) == ("r", "1", "know")
    assert (context.turn, context.attempt, context.dependencies) == (5, 2, {"x": 1})
    assert context.deadline == pytest.approx(clock.now().timestamp() + 3)
    assert context.idempotency_key == box.records[0].idempotency_key
    assert not context.cancelled


@pytest.mark.parametrize("plain", [True, False])
async def test_progress_is_told_while_the_body_runs(plain: bool):
    def body(context: ToolContext) -> None:
        context.progress("half", {"n": 1})

    async def async_body(context: ToolContext) -> None:
        body(context)

    events: list[Event] = []
    one = tool(effect="read", name="work")(body if plain else async_body)
    await Toolbox([one], emit=events.append).dispatch([ToolCall("1", "work")])
    told = [event for event in events if isinstance(event, ToolProgress)]
    assert [(event.call_id, event.text, event.data) for event in told] == [("1", "half", {"n": 1})]
    assert events[-1].kind == "tool_settled"


async def test_a_tool_without_a_timeout_of_its_own_gets_the_budgets():
    @tool(effect="read")
    async def hang() -> None:
        await asyncio.Event().wait()

    clock = FakeClock()
    box = Toolbox([hang], budget=Budget(tool_timeout_s=0.01), clock=clock)
    outcome = (await box.dispatch([ToolCall("1", "hang")]))[0]
    assert isinstance(outcome, ToolTimeout)
    assert outcome.timeout_s == 0.01
    assert outcome.deadline_s == clock.now().timestamp() + 0.01


@pytest.mark.parametrize("calls", ["abc", [{"name": "read"}], [None]], ids=str)
async def test_what_is_no_call_is_misuse(calls: Any):
    with pytest.raises(Misuse, match=r"a list of ToolCalls|must be ToolCall objects"):
        await Toolbox([]).dispatch(calls)


def test_a_timeout_of_its_own_is_cut_by_what_the_turn_has_left():
    @tool(effect="read", timeout_s=60)
    async def hang() -> None:
        leap(40)
        await asyncio.Event().wait()

    box = Toolbox([hang], budget=Budget(deadline_s=30))
    outcome = run_leaping(box.dispatch([ToolCall("1", "hang")]))[0]
    assert isinstance(outcome, ToolTimeout)
    assert 0 < outcome.timeout_s <= 30


async def test_a_hung_thread_gives_its_outcome_in_time_and_its_late_end_is_told():
    release = threading.Event()

    @tool(effect="write", timeout_s=0.01)
    def hang() -> None:
        release.wait(60)

    events: list[Event] = []
    told = asyncio.Event()

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, Warned) and event.warning.code == "late_result":
            told.set()

    box = Toolbox([hang], emit=emit, workers=Workers())
    outcome = (await box.dispatch([ToolCall("1", "hang")]))[0]
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.stopped, outcome.effect, outcome.retryable) == (False, "unknown", False)
    assert box.abandoned == 1
    release.set()
    await asyncio.wait_for(told.wait(), 60)
    assert len(box.records) == 1
    assert [e.warning.code for e in events if isinstance(e, Warned)] == [
        "abandoned_tool",
        "late_result",
    ]


@pytest.mark.parametrize("then", ["new_turn", "cancel"])
async def test_a_late_end_is_told_to_nobody_who_has_gone_on(then: str):
    release, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="write", timeout_s=0.01)
    def hang() -> None:
        release.wait(60)
        # Told after what the end itself sets off.
        loop.call_soon_threadsafe(loop.call_later, 0.02, ended.set)

    events: list[Event] = []
    box = Toolbox([hang], emit=events.append, workers=Workers())
    await box.dispatch([ToolCall("1", "hang")])
    getattr(box, then)()
    release.set()
    await asyncio.wait_for(ended.wait(), 60)
    codes = [event.warning.code for event in events if isinstance(event, Warned)]
    assert codes == ["abandoned_tool"]


async def test_hung_calls_do_not_grow_threads_past_the_cap():
    release = threading.Event()

    @tool(effect="read", timeout_s=0.02)
    def hang(a: int) -> None:
        release.wait(60)

    workers = Workers(cap=3)
    box = Toolbox([hang], workers=workers)
    outcomes = await box.dispatch([ToolCall(str(n), "hang", {"a": n}) for n in range(20)])
    release.set()
    assert workers.alive == 3
    assert all(isinstance(outcome, ToolTimeout) for outcome in outcomes)
    assert [outcome.effect for outcome in outcomes] == ["none"] * 20


@pytest.mark.parametrize(
    ("effect", "tries"), [("read", 3), ("write", 1)], ids=["safe", "unknown effect"]
)
async def test_a_failed_body_is_run_again_only_where_nothing_is_unknown(effect: Any, tries: int):
    clock = FakeClock()

    @tool(effect=effect, retries=2)
    async def flaky(a: list[int]) -> None:
        a.append(1)
        if len(a) > 1:
            raise AssertionError("the arguments of the first try are used again")
        raise ToolError("busy", retry_after_s=7)

    box = Toolbox([flaky], clock=clock)
    outcome = (await box.dispatch([ToolCall("1", "flaky", {"a": []})]))[0]
    assert isinstance(outcome, ToolFailure)
    assert outcome.error == "busy"
    assert box.records[0].attempts == tries
    assert clock.sleeps == [7.0] * (tries - 1)


async def test_a_retry_that_would_pass_the_deadline_is_not_begun():
    clock = FakeClock()

    @tool(effect="read", retries=5)
    async def flaky() -> None:
        raise ToolError("busy", retry_after_s=7)

    box = Toolbox([flaky], clock=clock, budget=Budget(deadline_s=10))
    await box.dispatch([ToolCall("1", "flaky")])
    assert box.records[0].attempts == 2


async def test_secrets_reach_the_tool_and_nothing_else():
    seen: list[str] = []
    events: list[Event] = []

    @tool(effect="read")
    async def login(context: ToolContext, key: str, fails: bool = False) -> Any:
        seen.append(key)
        context.progress(f"with {key}", {"key": key})
        if fails:
            raise ValueError(f"bad {key}")
        return {"key": key, "pin": 31337, "text": f"<{key}>"}

    box = Toolbox([login], secrets=["hunter2", "31337"], emit=events.append)
    outcomes = await box.dispatch(
        [
            ToolCall("1", "login", '{"key":"hunter2"}'),
            ToolCall("2", "login", {"key": "hunter2", "fails": True}),
            ToolCall("3", "login", {"kez": "hunter2"}),
        ]
    )
    assert seen == ["hunter2"] * 2
    shown = encode([outcomes, box.records, events]).decode()
    assert "hunter2" not in shown
    assert "31337" not in shown
    assert [record.redactions > 0 for record in box.records] == [True] * 3


async def test_secrets_are_masked_in_artifacts_and_parked_calls():
    @tool(effect="read")
    async def big(key: str) -> str:
        return key * 4000

    @tool(effect="destructive")
    async def remove(key: str) -> None: ...

    box = Toolbox([big, remove], secrets=["hunter2"])
    await box.dispatch(
        [ToolCall("1", "big", {"key": "hunter2"}), ToolCall("2", "remove", {"key": "hunter2"})]
    )
    id = box.records[0].artifact_id
    page = (await box.dispatch([ToolCall("3", "read_artifact", {"id": id})]))[0]
    assert "hunter2" not in encode([page, *box.pending]).decode()


async def test_the_idempotency_key_is_the_same_for_the_same_call_of_the_run():
    async def key_of(call: ToolCall, run_id: str = "r") -> str:
        box = Toolbox([set_to], identity=RunInfo(run_id=run_id))
        await box.dispatch([call])
        return box.records[0].idempotency_key

    first = await key_of(ToolCall("1", "set_to", {"a": 1}))
    assert first == await key_of(ToolCall("1", "set_to", '{"a":"1"}'))
    others = [
        await key_of(ToolCall("2", "set_to", {"a": 1})),
        await key_of(ToolCall("1", "set_to", {"a": 2})),
        await key_of(ToolCall("1", "set_to", {"a": 1}), "other"),
    ]
    assert first not in others


async def test_a_call_id_used_again_for_the_same_arguments_gets_another_key():
    box = Toolbox([put])
    for _ in range(2):
        await box.dispatch([ToolCall("call_1", "put", {"a": 1})])
    keys = [record.idempotency_key for record in box.records]
    assert keys[0] != keys[1]


class Curfew:
    """A gate of a user's own."""

    name = "curfew"

    def check(self, case: CallState) -> Denial | None:
        if case.arguments == {"a": 13}:
            return Denial("too_late", "after hours")
        return None


class Broken:
    """A gate that does not work."""

    name = "broken"

    def check(self, case: CallState) -> Denial | None:
        raise RuntimeError("oops")


async def test_gates_of_ones_own_are_asked_with_valid_arguments():
    box = Toolbox([look], gates=[Curfew()])
    outcomes = await box.dispatch([ToolCall(str(a), "look", {"a": a}) for a in (12, 13)])
    assert isinstance(outcomes[0], ToolExecutionResult)
    assert isinstance(outcomes[1], ToolDenied)
    assert (outcomes[1].reason, outcomes[1].details) == ("too_late", "after hours")
    assert [verdict.gate for verdict in box.records[0].trace][-3:] == [
        "curfew",
        "approval",
        "deadline_again",
    ]


async def test_a_gate_that_raises_denies():
    outcome = (await Toolbox([look], gates=[Broken()]).dispatch([ToolCall("1", "look")]))[0]
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, "oops" in outcome.details) == ("policy", True)


async def test_the_list_of_gates_can_be_changed_as_a_whole():
    box = Toolbox([lookup], gates=lambda gates: [g for g in gates if g.name != "replay"])
    outcomes = await box.dispatch([ToolCall(id, "lookup") for id in "12"])
    assert all(isinstance(outcome, ToolExecutionResult) for outcome in outcomes)


@pytest.mark.parametrize(
    "options",
    [
        {"policy": object()},
        {"replay_scope": "day"},
        {"gates": lambda gates: []},
        {"tools": [look, look.but(timeout_s=1.0)]},
    ],
    ids=name_of,
)
def test_options_that_make_no_sense_are_misuse(options: dict[str, Any]):
    with pytest.raises(Misuse):
        Toolbox(**{"tools": [look], **options})


def lost(call: ToolCall, key: str = "old-key") -> EarlierCalls:
    start = ToolStarted(call=call, arguments={"a": 1}, idempotency_key=key)
    return EarlierCalls({call.id: start})


@pytest.mark.parametrize("name", ["look", "set_to"])
async def test_resume_runs_reads_and_idempotent_calls_again_with_the_old_key(name: str):
    box = Toolbox([look, set_to])
    call = ToolCall("1", name, {"a": 1})
    outcomes = await box.resume([call], lost(call))
    assert isinstance(outcomes[0], ToolExecutionResult)
    assert box.records[0].idempotency_key == "old-key"


async def test_resume_does_not_ask_again_what_was_approved():
    one = set_to.but(approval=True)
    box = Toolbox([one])
    calls = [ToolCall(str(a), "set_to", {"a": a}) for a in (1, 2)]
    outcomes = await box.resume(calls, lost(calls[0]))
    assert [outcome.call_id for outcome in outcomes] == ["1"]
    assert [pending.call_id for pending in box.pending] == ["2"]


@pytest.mark.parametrize("name", ["put", "gone"])
async def test_resume_of_any_other_started_call_is_a_failure_interrupted(name: str):
    events: list[Event] = []
    box = Toolbox([put, look], emit=events.append)
    calls = [ToolCall("1", name, {"a": 1}), ToolCall("2", "look")]
    outcomes = await box.resume(calls, lost(calls[0]))
    assert isinstance(outcomes[0], ToolFailure)
    assert (outcomes[0].code, outcomes[0].effect) == ("interrupted", "unknown")
    assert not outcomes[0].retryable
    assert isinstance(outcomes[1], ToolExecutionResult)
    assert [event.kind for event in events].count("tool_settled") == 2


async def history(box: Toolbox, *calls: ToolCall) -> list[ToolRecord]:
    await box.dispatch(calls)
    return box.records


async def test_restored_successes_deny_repetitions():
    records = await history(Toolbox([lookup]), ToolCall("1", "lookup", {"a": 1}))
    box = Toolbox([lookup])
    box.restore(records)
    outcome = (await box.dispatch([ToolCall("2", "lookup", {"a": 1})]))[0]
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, "call 1" in outcome.details) == ("duplicate", True)
    assert [record.call_id for record in box.records] == ["1", "2"]


async def test_a_restored_write_forgets_restored_reads():
    records = await history(Toolbox([lookup, put]), ToolCall("1", "lookup"), ToolCall("2", "put"))
    box = Toolbox([lookup, put])
    box.restore(records)
    assert isinstance((await box.dispatch([ToolCall("3", "lookup")]))[0], ToolExecutionResult)


async def test_restored_failures_block_and_restored_calls_count():
    @tool(effect="read")
    async def broken() -> None:
        raise ToolError("no", retryable=False)

    records = await history(Toolbox([broken, look]), ToolCall("1", "broken"), ToolCall("2", "nope"))
    box = Toolbox([broken, look], budget=Budget(max_tool_calls=2))
    box.restore(records)
    assert box.blocked_tool_names == {"broken"}
    outcomes = await box.dispatch([ToolCall("3", "look"), ToolCall("4", "look")])
    assert isinstance(outcomes[0], ToolExecutionResult)
    assert isinstance(outcomes[1], ToolDenied)


async def test_restored_calls_keep_keys_apart():
    records = await history(Toolbox([put], identity=RunInfo(run_id="r")), ToolCall("1", "put"))
    box = Toolbox([put], identity=RunInfo(run_id="r"))
    box.restore(records)
    await box.dispatch([ToolCall("1", "put")])
    assert box.records[0].idempotency_key != box.records[1].idempotency_key


async def test_a_store_that_refuses_is_told_and_the_output_is_cut():
    @tool(effect="read")
    async def tell() -> str:
        return "x" * 20_000

    events: list[Event] = []
    box = Toolbox([tell], artifacts=InMemoryArtifacts(max_bytes=10), emit=events.append)
    outcome = (await box.dispatch([ToolCall("1", "tell")]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output["truncated"] is True
    warned = [event.warning.code for event in events if isinstance(event, Warned)]
    assert warned == ["artifact_refused"]


async def test_a_call_that_is_cancelled_while_its_output_is_stored_keeps_what_fits():
    storing = asyncio.Event()

    class Hanging(InMemoryArtifacts):
        async def put(self, *_: Any, **__: Any) -> Any:
            storing.set()
            await asyncio.Event().wait()

    @tool(effect="write")
    async def tell() -> str:
        return "x" * 20_000

    box = Toolbox([tell], artifacts=Hanging())
    task = asyncio.create_task(box.dispatch([ToolCall("1", "tell")]))
    await storing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (outcome,) = [record.outcome for record in box.records]
    assert isinstance(outcome, ToolExecutionResult)
    assert (outcome.output["truncated"], outcome.effect) == (True, "applied")


async def test_a_body_does_not_start_where_logging_its_intent_took_all_the_time():
    ran: list[int] = []
    clock = FakeClock()

    @tool(effect="write", idempotent=True)
    async def put(a: int = 0) -> None:
        ran.append(a)

    async def barrier() -> None:
        clock.advance(10)

    box = Toolbox([put], budget=Budget(deadline_s=10), clock=clock, barrier=barrier)
    outcome = (await box.dispatch([ToolCall("1", "put")]))[0]
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.effect, ran) == ("none", [])


async def test_resources_that_cannot_be_told_any_more_hinder_no_restoring():
    @tool(effect="write", resources=lambda arguments: [names[arguments["a"]]])
    async def put(a: int = 0) -> None: ...

    names = {0: "zero"}
    box = Toolbox([put, lookup])
    await box.dispatch([ToolCall("1", "put", {"a": 0}), ToolCall("2", "lookup", {"a": 0})])
    names.clear()
    again = Toolbox([put, lookup])
    again.restore(box.records)
    (outcome,) = await again.dispatch([ToolCall("3", "lookup", {"a": 0})])
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "duplicate"


async def test_a_denial_holds_no_secret_of_the_arguments():
    box = Toolbox([look], secrets=["hunter2"])
    (outcome,) = await box.dispatch([ToolCall("1", "look", {"a": "hunter2"})])
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "validation"
    for shown in (encode(outcome), box.content_of(outcome).encode(), encode(box.records[0])):
        assert b"hunter2" not in shown


async def test_tools_that_are_added_pass_the_gates_of_the_others() -> None:
    @tool(effect="read")
    def first() -> int:
        return 1

    @tool(effect="read")
    def second(x: int) -> int:
        return x

    box = Toolbox([first])
    box.add([second, first])
    assert [spec.name for spec in box.schemas()] == ["first", "second"]
    done, refused = await box.dispatch(
        [ToolCall("c1", "second", {"x": 2}), ToolCall("c2", "second", {"x": "no"})]
    )
    assert isinstance(done, ToolExecutionResult)
    assert isinstance(refused, ToolDenied)


def test_a_tool_that_is_added_needs_a_name_of_its_own() -> None:
    @tool(name="same")
    def first() -> int:
        return 1

    @tool(name="same")
    def second() -> int:
        return 2

    with pytest.raises(Misuse, match="two tools are called 'same'"):
        Toolbox([]).add([first, second])
