"""What surrounds an engine: the user's host, questions, keyed steps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tests.runs.kit import Do, kinds, log_of, measured
from upshot import (
    Agent,
    Answer,
    Budget,
    Checkpoint,
    FinalizeDecision,
    Interrupt,
    Interrupted,
    Message,
    Misuse,
    ModelReplied,
    ModelResponse,
    Parked,
    PendingQuestion,
    ScriptEngine,
    Status,
    StepSettled,
    ToolCall,
    ToolExecutionResult,
    ToolRecord,
    ToolSettled,
    Usage,
    decode,
    encode,
    resume,
    run,
    start,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


@dataclass
class Point:
    x: int


class Hosts:
    """Hosts that wish for an interrupt, each in another form."""

    class Sync:
        def interrupts(self) -> Interrupt:
            return Interrupt("custom", "why")

    class Async:
        async def interrupts(self) -> Interrupt:
            return Interrupt("custom", "why")

    class Value:
        interrupts = Interrupt("custom", "why")


@pytest.mark.parametrize("host", [Hosts.Sync(), Hosts.Async(), Hosts.Value()])
async def test_the_loop_follows_the_wish_of_the_host(host: Any) -> None:
    model = ScriptedModel(["Hi."])
    result = await run(Agent("a", model=model), "?", host=host)
    assert (result.status, result.cause, result.detail) == ("interrupted", "custom", "why")
    assert model.calls == []


@pytest.mark.parametrize("host", [None, object(), type("H", (), {"interrupts": None})()])
async def test_a_host_without_methods_is_enough(host: Any) -> None:
    assert (await run(Agent("a", model=ScriptedModel(["Hi."])), "?", host=host)).success


@pytest.mark.parametrize("method", ["publish", "interrupts", "checkpoint", "report_usage"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_host_that_raises_is_a_warning(method: str, is_async: bool) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no host")

    async def broken_later(*_: Any) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("no host")

    async def work(run: Any, host: Any, board: Any) -> str:
        await host.interrupts()
        await host.checkpoint(Checkpoint(run.id, "s", board.snapshot()))
        host.report_usage(measured())
        for _ in range(5):
            await asyncio.sleep(0)
        return "fine"

    host = type("H", (), {method: staticmethod(broken_later if is_async else broken)})()
    result = await run(Agent("a", engine=Do(work)), "?", host=host)
    assert (result.status, result.output) == (Status.COMPLETED, "fine")
    assert [warning.code for warning in result.warnings] == ["host_failed"]
    assert f"host.{method} raised RuntimeError: no host" in result.warnings[0].message


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_host_is_told_every_event_in_order(is_async: bool) -> None:
    class Sync:
        def __init__(self) -> None:
            self.told: list[Any] = []

        def publish(self, event: Any) -> None:
            self.told.append(event)

    class Async(Sync):
        async def publish(self, event: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.told.append(event)

    host = Async() if is_async else Sync()
    result = await run(Agent("a", model=ScriptedModel(["Hi there."])), "?", host=host)
    assert kinds(host.told)[0] == "run_started"
    assert kinds(host.told).count("text_delta") == 2
    assert host.told[-1].result is result
    places = [(event.seq, event.part) for event in host.told]
    assert places == sorted(places)


async def test_usage_that_a_foreign_engine_reports_counts() -> None:
    told: list[Any] = []

    class Host:
        def report_usage(self, delta: Any) -> None:
            told.append(delta)

    async def work(run: Any, host: Any, board: Any) -> None:
        host.report_usage(measured())
        await host.report_usage(measured())

    result = await run(Agent("a", engine=Do(work)), "?", host=Host())
    assert (result.usage.total_tokens, result.usage.api_calls, len(told)) == (30, 2, 2)


async def test_a_checkpoint_names_a_point_of_the_log() -> None:
    kept: list[Checkpoint] = []

    class Host:
        async def checkpoint(self, checkpoint: Checkpoint) -> None:
            kept.append(checkpoint)

    async def work(run: Any, host: Any, board: Any) -> None:
        await host.checkpoint(Checkpoint(run.id, "half", board.snapshot(), payload={"n": 1}))

    journal = MemoryJournal()
    result = await run(Agent("a", engine=Do(work)), "?", host=Host(), journal=journal)
    (saved,) = [e for e in await log_of(journal, result.run_id) if e.kind == "checkpoint_saved"]
    assert (saved.step, saved.payload) == ("half", {"n": 1})  # type: ignore[union-attr]
    assert [one.step for one in kept] == ["half"]


# -- questions


def asking() -> Agent:
    async def work(run: Any, host: Any, board: Any) -> Any:
        name = await host.ask_user("Who?")
        return [name, await host.ask_user("Why?", choices=("fun", "duty"))]

    return Agent("a", engine=Do(work))


async def test_a_host_answers_at_once() -> None:
    class Host:
        def ask_user(self, question: str) -> str:
            return {"Who?": "Ada", "Why?": "fun"}[question]

    assert (await run(asking(), "?", host=Host())).output == ["Ada", "fun"]


async def test_without_anybody_to_ask_the_run_parks_and_goes_on_with_the_answers() -> None:
    journal = MemoryJournal()
    parked = await run(asking(), "?", journal=journal)
    (first,) = parked.pending
    assert isinstance(first, PendingQuestion)
    assert (parked.status, first.question) == ("input_required", "Who?")
    answers = [Answer(first.id, "Ada")]
    again = await resume(parked.run_id, asking(), journal=journal, answers=answers)
    (second,) = again.pending
    assert (again.status, second.question, second.choices) == (  # type: ignore[union-attr]
        "input_required",
        "Why?",
        ("fun", "duty"),
    )
    done = await resume(
        parked.run_id, asking(), journal=journal, answers=[Answer(second.id, "fun")]
    )
    assert (done.status, done.output) == (Status.COMPLETED, ["Ada", "fun"])
    assert len(done.attempt_log) == 1


async def test_a_key_finds_its_answer_whatever_else_is_asked() -> None:
    asked = ["Who?"]

    async def work(run: Any, host: Any, board: Any) -> Any:
        return [await host.ask_user(question, key=question) for question in asked]

    agent, journal = Agent("a", engine=Do(work)), MemoryJournal()
    parked = await run(agent, "?", journal=journal)
    asked.insert(0, "When?")
    answers = [Answer("Who?", "Ada")]
    again = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert [pending.id for pending in again.pending] == ["When?"]
    answers = [Answer("When?", "Now")]
    done = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert done.output == ["Now", "Ada"]


async def test_questions_without_a_key_are_numbered_in_each_attempt() -> None:
    class Again:
        def before_finalize(self, *_: Any) -> Any:
            return FinalizeDecision.revise("Again.", "why")

    agent, journal = asking().but(deciders=[Again()]), MemoryJournal()
    result = await run(agent, "?", journal=journal, max_attempts=2)
    for answer in ("Ada", "fun", "Ida", "duty"):
        (pending,) = result.pending
        given = [Answer(pending.id, answer)]
        result = await resume(result.run_id, agent, journal=journal, answers=given)
    assert (result.attempts, result.output) == (2, ["Ida", "duty"])


@pytest.mark.parametrize("error", [RuntimeError("no line"), Parked()])
async def test_a_host_that_cannot_ask_parks_the_run(error: Exception) -> None:
    class Host:
        async def ask_user(self, question: str) -> str:
            raise error

    assert (await run(asking(), "?", host=Host())).status is Status.INPUT_REQUIRED


# -- keyed steps


async def test_a_step_runs_once_for_all_who_ask_at_the_same_time() -> None:
    ran: list[int] = []

    async def body() -> int:
        ran.append(1)
        await asyncio.sleep(0)
        return 7

    async def work(run: Any, host: Any, board: Any) -> Any:
        both = await asyncio.gather(*(host.once("k", "write", body) for _ in range(2)))
        return [*both, await host.once("k", "write", body)]

    result = await run(Agent("a", engine=Do(work)), "?")
    assert (result.output, ran) == ([7, 7, 7], [1])


async def test_a_step_that_failed_is_not_run_again() -> None:
    ran: list[int] = []

    def body() -> None:
        ran.append(1)
        raise ValueError("odd")

    async def work(run: Any, host: Any, board: Any) -> None:
        with pytest.raises(ValueError, match="odd"):
            await host.once("k", "write", body)
        await host.once("k", "write", body)

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert (result.error.message, result.error.type, ran) == ("odd", "ValueError", [1])


async def test_a_step_that_ended_is_handed_back_on_resume() -> None:
    ran: list[str] = []
    stop = [True]

    async def work(run: Any, host: Any, board: Any) -> Any:
        value = await host.once("paid", "write", lambda: ran.append("paid") or {"id": 7})
        if stop:
            raise Parked()
        return value

    agent, journal = Agent("a", engine=Do(work)), MemoryJournal()
    parked = await run(agent, "?", journal=journal)
    stop.clear()
    result = await resume(parked.run_id, agent, journal=journal)
    assert (result.output, ran) == ({"id": 7}, ["paid"])


async def test_an_interrupt_that_an_engine_made_up_is_logged() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        raise Interrupted("custom", "enough")

    journal = MemoryJournal()
    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    assert kinds(await log_of(journal, result.run_id)).count("interrupted") == 1


async def test_watchers_hear_of_a_host_that_raises_after_what_it_raised_at() -> None:
    class Host:
        def publish(self, event: Any) -> None:
            raise RuntimeError("broken")

    agent = Agent("a", model=ScriptedModel(["Hi."]))
    async with start(agent, "?", host=Host(), journal=MemoryJournal()) as live:
        events = [event async for event in live]
    places = [(event.seq, event.part) for event in events]
    assert places == sorted(places)
    assert [event.kind for event in events[:2]] == ["run_started", "warning"]


@pytest.mark.parametrize("host", [Hosts.Sync(), Hosts.Value()], ids=["sync", "value"])
async def test_a_wish_can_be_looked_at(host: Any) -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        if host.interrupts:
            raise Interrupted(host.interrupts.cause, host.interrupts.detail)

    result = await run(Agent("a", engine=Do(work)), "?", host=host)
    assert (result.status, result.cause) == ("interrupted", "custom")


async def test_without_a_wish_there_is_none_to_look_at() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        wish = host.interrupts
        return [bool(wish), wish.cause, wish.detail, await wish, await wish()]

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.output == [False, "", "", None, None]


async def test_the_wish_of_who_watches_can_be_looked_at() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        while not host.interrupts:
            await asyncio.sleep(0)
        return host.interrupts.detail

    async with start(Agent("a", engine=Do(work)), "?") as live:
        live.interrupt("custom", "enough")
        result = await live.result()
    assert result.output == "enough"


async def test_a_broken_wish_is_no_wish_and_a_warning() -> None:
    class Host:
        def interrupts(self) -> Any:
            raise SystemExit("broken")

    result = await run(
        Agent("a", engine=Do(lambda run, host, board: bool(host.interrupts))), "?", host=Host()
    )
    assert result.output is False
    assert [one.code for one in result.warnings] == ["host_failed"]


async def test_bare_usage_can_be_reported() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        host.report_usage(Usage(input_tokens=3, output_tokens=2))

    result = await run(Agent("a", engine=Do(work)), "?")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (3, 2)


async def test_what_is_no_usage_is_misuse() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        host.report_usage({"input_tokens": 3})

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert (result.error.type, "a dict" in result.error.message) == ("Misuse", True)


def reporting(times: int) -> Do:
    async def work(run: Any, host: Any, board: Any) -> str:
        for _ in range(times):
            await host.report_usage(Usage(input_tokens=10, output_tokens=5, api_calls=1))
            await asyncio.sleep(0)
        return "done"

    return Do(work)


async def test_who_uses_more_than_the_budget_elsewhere_is_ended() -> None:
    result = await run(Agent("a", engine=reporting(9)), "?", budget=Budget(max_tokens=32))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "budget_exceeded")
    assert result.error.details["dimension"] == "tokens"
    assert result.usage.api_calls == 4


async def test_what_spends_the_last_of_the_budget_elsewhere_still_counts() -> None:
    result = await run(Agent("a", engine=reporting(3)), "?", budget=Budget(max_tokens=32))
    assert (result.status, result.output) == ("completed", "done")


async def test_a_run_ends_where_a_run_inside_spends_its_budget_elsewhere() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(Agent("b", engine=reporting(9)), "?")
        return result.error.code

    result = await run(Agent("a", engine=Do(work)), "?", budget=Budget(max_tokens=32))
    assert (result.status, result.output) == ("completed", "budget_exceeded")


@pytest.mark.parametrize("asked", ["Hi.", [Message("user", "Hi.")]], ids=["text", "messages"])
async def test_a_model_can_be_asked_in_short(asked: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.call_model(asked)).content

    agent = Agent("a", model=ScriptedModel(["Hello."]), engine=Do(work))
    assert (await run(agent, "?")).output == "Hello."


async def test_a_refusal_is_told_in_a_warning() -> None:
    reply = ModelResponse(refusal="I will not.", finish_reason="stop")
    result = await run(Agent("a", model=ScriptedModel([reply])), "?")
    assert (result.content, result.status) == ("I will not.", "completed")
    assert [(one.code, one.message, one.origin) for one in result.warnings] == [
        ("refusal", "I will not.", "model")
    ]


async def test_a_refusal_to_correct_arguments_is_none_of_the_answer() -> None:
    @tool(effect="read", repair=True)
    async def double(n: int) -> int:
        return 2 * n

    refusal = ModelResponse(refusal="I will not.", finish_reason="stop")
    wrong = ToolCall("1", "double", {"n": "three"})
    model = ScriptedModel([wrong, refusal, "Six."])
    result = await run(Agent("a", model=model, tools=[double]), "?")
    assert (result.content, result.warnings) == ("Six.", ())


@pytest.mark.parametrize("make", [Do, ScriptEngine])
async def test_usage_that_was_reported_counts_over_all_sessions(make: Any) -> None:
    told: list[Any] = []

    class Host:
        def report_usage(self, delta: Any) -> None:
            told.append(delta)

    async def work(run: Any, host: Any, board: Any) -> str:
        await host.report_usage(Usage(input_tokens=10, api_calls=1))
        answer = await host.ask_user("Go?", key="go")
        await host.report_usage(Usage(input_tokens=1, api_calls=1))
        return answer

    journal, agent = MemoryJournal(), Agent("a", engine=make(work))
    host = Host()
    parked = await run(agent, "?", journal=journal, host=host)
    answers = [Answer("go", "yes")]
    result = await resume(parked.run_id, agent, journal=journal, answers=answers, host=host)
    # An engine that knows nothing of the log did it all again.
    calls = 2 if make is ScriptEngine else 3
    assert (parked.usage.api_calls, result.usage.api_calls, len(told)) == (1, calls, calls)
    again = await resume(parked.run_id, agent, journal=journal)
    assert again.usage == result.usage


async def saved_point(journal: Any = None, **fields: Any) -> tuple[Any, list[Checkpoint]]:
    """A run whose engine saves one point; its result, and what its host was given."""
    kept: list[Checkpoint] = []

    class Keeper:
        def checkpoint(self, checkpoint: Checkpoint) -> None:
            kept.append(checkpoint)

    async def work(run: Any, host: Any, board: Any) -> None:
        given = {name: run.attributes if value is ... else value for name, value in fields.items()}
        await host.checkpoint(Checkpoint(run.id, "half", board, **given))

    options = {"host": Keeper(), "attributes": {"desk": 3}, "journal": journal}
    return await run(Agent("a", engine=Do(work)), "?", **options), kept


async def test_the_attributes_of_a_run_may_be_those_of_its_checkpoint() -> None:
    result, (kept,) = await saved_point(attributes=...)
    assert result.success
    assert kept.attributes == {"desk": 3}
    assert decode(encode(kept)) == kept


async def test_a_checkpoint_may_be_given_no_attributes() -> None:
    result, (kept,) = await saved_point(attributes=None)
    assert result.success
    assert kept.attributes == {"desk": 3}


@pytest.mark.parametrize("payload", [(1, 2), b"raw", Decimal("1.5"), Point(1)], ids=type)
async def test_a_host_gets_the_payload_of_a_checkpoint_as_it_was_given(payload: Any) -> None:
    _, (kept,) = await saved_point(payload=payload)
    assert kept.payload is payload


async def test_what_json_cannot_hold_is_replaced_in_the_log_of_a_checkpoint_and_told() -> None:
    journal = MemoryJournal()
    given = {"n": float("nan"), "seen": {1}}
    result, (kept,) = await saved_point(payload=given, journal=journal)
    log = await log_of(journal, result.run_id)
    assert [e.payload for e in log if e.kind == "checkpoint_saved"] == [{"n": None, "seen": [1]}]
    assert kept.payload is given
    (warning,) = result.warnings
    assert warning.code == "lossy_value"
    assert "checkpoint 'half'/n" in warning.message


async def test_a_checkpoint_without_a_json_form_is_the_engines_fault_also_without_a_log() -> None:
    result, kept = await saved_point(payload=object())
    assert result.error is not None
    assert "checkpoint 'half' cannot be saved" in result.error.message
    assert kept == []


@pytest.mark.parametrize("key", ["", None, 3, ["a"]], ids=repr)
async def test_a_step_without_a_key_is_the_scripts_fault(key: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        with pytest.raises(Misuse, match="give a text"):
            await host.once(key, "read", lambda: 1)

    assert (await run(Agent("a", engine=Do(work)), "?")).success


async def test_calls_that_an_engine_tells_of_are_not_the_run_s_own() -> None:
    record = ToolRecord(
        call_id="c", tool_name="t", outcome=ToolExecutionResult("c", "t", output={"a": 1})
    )

    def work(_run: Any, host: Any, _board: Any) -> str:
        host.publish(ModelReplied(response=measured("told")))
        host.publish(ToolSettled(record=record))
        host.publish(StepSettled(key="child:run-1", value={"tools": {"t": 9}}))
        return "done"

    journal, told = MemoryJournal(), []
    async with start(Agent("a", engine=Do(work)), "?", journal=journal) as live:
        async for event in live:
            told.append(event.kind)
        result = await live.result()
    logged = [event.kind async for event in journal.events(live.run_id)]
    assert {"model_replied", "tool_settled"} <= set(told)
    assert not {"model_replied", "tool_settled", "step_settled"} & set(logged)
    assert (result.tool_records, result.usage.api_calls) == ((), 0)
    assert [warning.code for warning in result.warnings] == ["event_refused"]
