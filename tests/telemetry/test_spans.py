"""Spans of runs, model calls and tool calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from tests.runs.kit import ADD, Do, add, measured
from tests.telemetry.kit import Sight, facts, is_inside
from upshot import (
    Aborted,
    Agent,
    AgentCard,
    AgentError,
    Approve,
    Fallback,
    Graph,
    GraphEngine,
    Interrupted,
    ModelReplied,
    Parked,
    Request,
    Retry,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolError,
    ToolStarted,
    lab,
    resume,
    run,
    run_sync,
    run_with_handoffs,
    start,
    tool,
)
from upshot.engines import AgentTask
from upshot.testing import FakeClock

LIMITED = AgentError("rate_limit", "Too many.", retryable=True, retry_after_s=2)


def adding(*replies: Any, **fields: Any) -> Agent[Any]:
    model = ScriptedModel([ADD, *replies], name="openai:gpt-5")
    return Agent("adder", model=model, tools=[add], **fields)


async def test_a_run_is_a_span_with_its_model_calls_and_tools_inside(sight: Sight) -> None:
    await run(adding("Three."), "How much?")
    whole = sight.span("invoke_agent")
    assert [span.name for span in sight.spans()] == [
        "invoke_agent adder",
        "chat gpt-5",
        "execute_tool add",
        "chat gpt-5",
    ]
    assert all(is_inside(span, whole) for span in sight.spans() if span is not whole)
    assert whole.parent is None


async def test_a_run_says_who_worked_on_what(sight: Sight) -> None:
    agent = adding("Three.", name="Adder", card=AgentCard(description="Adds."))
    result = await run(agent, Request("How much?", context_id="talk-1"))
    span = sight.span("invoke_agent Adder")
    assert facts(span) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "adder",
        "gen_ai.agent.name": "Adder",
        "gen_ai.agent.description": "Adds.",
        "gen_ai.conversation.id": "talk-1",
        "gen_ai.output.type": "text",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
        "upshot.run.id": result.run_id,
        "upshot.run.status": "completed",
        "upshot.run.effect": "applied",
        "upshot.run.attempts": 1,
    }
    assert (span.kind, span.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)


async def test_a_model_call_says_what_it_used(sight: Sight) -> None:
    data = {"provider": "google", "model": "gemini-9-001", "finish_raw": "STOP"}
    model = ScriptedModel([measured("Hi", provider_data=data)], name="google:gemini-9")
    await run(Agent("a", model=model), "Hi")
    span = sight.span("chat gemini-9")
    assert facts(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-9",
        "gen_ai.response.model": "gemini-9-001",
        "gen_ai.response.finish_reasons": ("STOP",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    assert span.kind is SpanKind.CLIENT
    assert is_inside(span, sight.span("invoke_agent"))
    assert facts(sight.span("invoke_agent"))["gen_ai.usage.output_tokens"] == 5


async def test_a_model_call_says_of_which_conversation_it_is(sight: Sight) -> None:
    await run(adding("Three."), Request("How much?", context_id="talk-1"))
    told = [facts(span)["gen_ai.conversation.id"] for span in sight.spans("chat")]
    assert told == ["talk-1", "talk-1"]


async def test_a_reply_that_an_engine_tells_of_alone_is_a_span(sight: Sight) -> None:
    replied = ModelReplied(model="theirs:one", turn=1, response=measured("Hi", duration_ms=250))
    engine = Do(lambda run, host, board: host.publish(replied))
    await run(Agent("a"), "Hi", engine=engine, clock=FakeClock())
    span = sight.span("chat one")
    assert facts(span)["gen_ai.provider.name"] == "theirs"
    assert (span.end_time or 0) - (span.start_time or 0) == 250_000_000
    assert facts(sight.span("invoke_agent"))["gen_ai.request.model"] == "one"


async def test_a_handed_over_run_says_to_whom(sight: Sight) -> None:
    call = ToolCall("c", "transfer_to_tech")
    triage = Agent("triage", model=ScriptedModel([call]), handoffs=["tech"])
    await run_with_handoffs([triage, Agent("tech", model=ScriptedModel(["Fixed."]))], "Help!")
    first, second = sight.spans("invoke_agent")
    assert facts(first)["upshot.handoff.to_agent_id"] == "tech"
    assert second.name == "invoke_agent tech"


async def test_of_a_fallback_the_model_that_answered_is_named(sight: Sight) -> None:
    first = ScriptedModel([AgentError("server_error", "Down.")], name="openai:gpt-5")
    second = ScriptedModel(["Hi"], name="anthropic:claude")
    await run(Agent("a", model=Fallback(first, second)), "Hi")
    assert sight.span("chat claude")
    failed, said = map(facts, sight.spans("chat"))
    assert (failed["gen_ai.provider.name"], failed["gen_ai.request.model"]) == ("openai", "gpt-5")
    assert failed["error.type"] == "server_error"
    assert (said["gen_ai.provider.name"], said["gen_ai.request.model"]) == ("anthropic", "claude")
    assert "error.type" not in said


async def test_every_try_of_a_model_call_is_a_span_and_the_wait_is_none(sight: Sight) -> None:
    clock = FakeClock()

    def slowly(messages: Any) -> str:
        clock.advance(3)
        return "Hi"

    agent = Agent("a", model=ScriptedModel([LIMITED, slowly]), retry=Retry())
    result = await run(agent, "Hi", clock=clock)
    assert result.success
    failed, answered = sight.spans("chat")
    assert facts(failed)["error.type"] == "rate_limit"
    assert failed.status.status_code is StatusCode.ERROR
    assert "error.type" not in facts(answered)
    assert (answered.start_time or 0) - (failed.end_time or 0) >= 2_000_000_000
    took = (answered.end_time or 0) - (answered.start_time or 0)
    assert took == pytest.approx(3_000_000_000, abs=1_000_000)


async def test_a_try_that_was_only_waited_for_is_no_span(sight: Sight) -> None:
    patient = AgentError("rate_limit", "Too many.", retryable=True, retry_after_s=30)
    agent = Agent("a", model=ScriptedModel([patient, "Hi"]))
    async with start(agent, "Hi") as live:
        async for event in live:
            if event.kind == "model_retried":
                live.cancel()
    assert len(sight.spans("chat")) == 1


async def test_a_tool_call_says_what_it_was(sight: Sight) -> None:
    await run(adding("Three."), "How much?")
    assert facts(sight.span("execute_tool")) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.type": "function",
    }


def failing(error: Exception) -> Agent[Any]:
    @tool(effect="read", timeout_s=0.01)
    async def work() -> None:
        if isinstance(error, TimeoutError):
            await asyncio.Event().wait()
        raise error

    return Agent("a", model=ScriptedModel([ToolCall("c", "work"), "It failed."]), tools=[work])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("secret facts"), "tool_error"),
        (ToolError("no", code="not_found"), "not_found"),
        (TimeoutError(), "timeout"),
    ],
    ids=["raised", "with code", "timeout"],
)
async def test_a_tool_that_failed_is_an_error_in_a_run_that_did_not(
    sight: Sight, error: Exception, told: str
) -> None:
    await run(failing(error), "Hi")
    span = sight.span("execute_tool")
    assert facts(span)["error.type"] == told
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, told)
    assert sight.span("invoke_agent").status.status_code is StatusCode.UNSET


async def test_a_tool_call_whose_end_nobody_tells_ends_with_the_run(sight: Sight) -> None:
    started = ToolStarted(call=ToolCall("c", "theirs"))
    await run(Agent("a"), "Hi", engine=Do(lambda run, host, board: host.publish(started)))
    span = sight.span("execute_tool theirs")
    assert facts(span)["error.type"] == "interrupted"
    assert is_inside(span, sight.span("invoke_agent"))


async def test_a_denied_call_is_told_and_is_no_span(sight: Sight) -> None:
    agent = Agent("a", model=ScriptedModel([ToolCall("c", "nothing"), "So be it."]))
    await run(agent, "Hi")
    assert not sight.spans("execute_tool")
    (event,) = sight.span("invoke_agent").events
    assert event.name == "upshot.tool_denied"
    assert dict(event.attributes or {}) == {"gen_ai.tool.name": "nothing", "reason": "unknown_tool"}


async def raise_interrupt(run: Any, host: Any, board: Any) -> None:
    raise Interrupted("user_cancel")


async def raise_abort(run: Any, host: Any, board: Any) -> None:
    raise Aborted("It cannot go on.", code="dead_end")


async def raise_parked(run: Any, host: Any, board: Any) -> None:
    raise Parked


async def crash(run: Any, host: Any, board: Any) -> None:
    raise RuntimeError("a secret")


@pytest.mark.parametrize(
    ("script", "status", "error_type"),
    [
        (raise_interrupt, "interrupted", None),
        (raise_parked, "input_required", None),
        (raise_abort, "aborted", "dead_end"),
        (crash, "failed", "internal"),
    ],
)
async def test_only_what_failed_is_an_error(
    sight: Sight, script: Any, status: str, error_type: str | None
) -> None:
    await run(Agent("a"), "Hi", engine=ScriptEngine(script))
    span = sight.span("invoke_agent")
    assert facts(span)["upshot.run.status"] == status
    assert facts(span).get("error.type") == error_type
    is_error = span.status.status_code is StatusCode.ERROR
    assert is_error is (error_type is not None)
    assert span.status.description == error_type


async def test_a_model_call_that_a_cancel_cut_off_ends_with_the_run(sight: Sight) -> None:
    began = asyncio.Event()

    class Silent(ScriptedModel):
        async def call(self, request: Any) -> Any:
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run(Agent("a", model=Silent([])), "Hi"))
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert facts(sight.span("chat"))["error.type"] == "canceled"
    assert facts(sight.span("invoke_agent"))["upshot.run.status"] == "canceled"


async def test_a_run_that_parked_and_went_on_is_two_spans_of_one_run(
    sight: Sight, tmp_path: Path
) -> None:
    @tool(effect="write", approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel([ToolCall("c", "pay"), "Paid."])
    agent, journal = Agent("a", model=model, tools=[pay]), tmp_path / "runs.db"
    parked = await run(agent, "Pay.", journal=journal)
    await resume(parked.run_id, agent, journal=journal, answers=[Approve("c")])
    told = [facts(span) for span in sight.spans("invoke_agent")]
    assert [one["upshot.run.status"] for one in told] == ["input_required", "completed"]
    assert {one["upshot.run.id"] for one in told} == {parked.run_id}
    assert len(sight.spans("execute_tool pay")) == 1


async def by_script(run: Any, host: Any, board: Any) -> None:
    await run.child(inner(), "Hi")


def inner() -> Agent[Any]:
    return Agent("inner", model=ScriptedModel(["Hello."]))


@pytest.mark.parametrize(
    "engine",
    [
        ScriptEngine(by_script),
        GraphEngine(Graph(nodes={"one": AgentTask(inner(), "Hi")}, edges=[], start="one")),
    ],
    ids=["script", "graph"],
)
async def test_a_child_run_is_inside_its_parent(sight: Sight, engine: Any) -> None:
    result = await run(Agent("outer"), "Hi", engine=engine)
    assert result.success
    outer, child = sight.span("invoke_agent outer"), sight.span("invoke_agent inner")
    assert is_inside(child, outer)
    assert is_inside(sight.span("chat"), child)
    assert facts(child)["upshot.run.parent_id"] == result.run_id


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "thread"])
async def test_a_child_run_of_a_tool_is_inside_the_tool_call(sight: Sight, in_thread: bool) -> None:
    async def ask_async() -> str:
        return (await run(inner(), "Hi")).unwrap()

    def ask_plain() -> str:
        return run_sync(inner(), "Hi").unwrap()

    asked = tool(name="ask", description="Ask.", effect="read")(
        ask_plain if in_thread else ask_async
    )
    model = ScriptedModel([ToolCall("c", "ask"), "Done."])
    result = await run(Agent("outer", model=model, tools=[asked]), "Hi")
    assert result.success
    assert is_inside(sight.span("invoke_agent inner"), sight.span("execute_tool ask"))


async def test_parallel_tool_calls_do_not_nest_in_one_another(sight: Sight) -> None:
    @tool(effect="read")
    async def look(n: int) -> int:
        await asyncio.sleep(0)
        return n

    calls = [ToolCall(f"c{n}", "look", {"n": n}) for n in range(3)]
    await run(Agent("a", model=ScriptedModel([calls, "Done."]), tools=[look]), "Hi")
    whole = sight.span("invoke_agent")
    assert [is_inside(span, whole) for span in sight.spans("execute_tool")] == [True] * 3


async def test_a_run_is_inside_the_span_of_its_caller(sight: Sight) -> None:
    tracer = sight.tracers.get_tracer("mine")
    with tracer.start_as_current_span("request"):
        await run(adding("Three."), "How much?")
        with tracer.start_as_current_span("after"):
            pass
    outer = sight.span("request")
    assert is_inside(sight.span("invoke_agent"), outer)
    assert is_inside(sight.span("after"), outer)


async def test_spans_of_a_script_stand_between_the_run_and_its_calls(sight: Sight) -> None:
    tracer = sight.tracers.get_tracer("mine")

    async def script(run: Any, host: Any, board: Any) -> None:
        with tracer.start_as_current_span("draft"):
            await run.child(inner(), "Hi")
        with tracer.start_as_current_span("check"):
            pass

    await run(Agent("outer"), "Hi", engine=ScriptEngine(script))
    whole = sight.span("invoke_agent outer")
    assert is_inside(sight.span("draft"), whole)
    assert is_inside(sight.span("invoke_agent inner"), sight.span("draft"))
    assert is_inside(sight.span("check"), whole)


async def test_runs_side_by_side_do_not_mix(sight: Sight) -> None:
    await asyncio.gather(*(run(adding("Three."), "How much?") for _ in range(10)))
    runs = sight.spans("invoke_agent")
    assert len(runs) == 10
    for whole in runs:
        assert len([span for span in sight.spans() if is_inside(span, whole)]) == 3


async def test_spans_have_the_times_of_the_events(sight: Sight) -> None:
    clock = FakeClock()

    async def script(run: Any, host: Any, board: Any) -> None:
        clock.advance(90)

    result = await run(Agent("a"), "Hi", engine=ScriptEngine(script), clock=clock)
    span = sight.span("invoke_agent")
    assert (span.end_time or 0) - (span.start_time or 0) == 90_000_000_000
    assert result.started_at is not None
    assert span.start_time == result.started_at.timestamp() * 1e9


def texts(span: ReadableSpan) -> dict[str, Any]:
    names = ("messages", "instructions", "arguments", "result")
    return {name: json.loads(value) for name, value in facts(span).items() if name.endswith(names)}


async def test_no_text_is_recorded_unless_asked_for(sight: Sight) -> None:
    await run(adding("Three.", instructions="Add."), "How much?")
    await run(Agent("a"), "Hi", engine=Do(crash))
    assert not any(texts(span) for span in sight.spans())
    assert "a secret" not in str([span.to_json() for span in sight.spans()])


async def test_texts_are_recorded_where_asked_for() -> None:
    with Sight().instrumented(content=True) as sight:
        await run(adding("Three.", instructions="Add."), "How much?")
    first, last = sight.spans("chat")
    assert texts(sight.span("invoke_agent")) == {
        "gen_ai.input.messages": [
            {"role": "user", "parts": [{"type": "text", "content": "How much?"}]}
        ],
        "gen_ai.system_instructions": [{"type": "text", "content": "Add."}],
        "gen_ai.output.messages": [said("Three.")],
    }
    assert texts(last) == {"gen_ai.output.messages": [said("Three.")]}
    (reply,) = texts(first)["gen_ai.output.messages"]
    assert reply["parts"] == [
        {"type": "tool_call", "id": "call-1", "name": "add", "arguments": {"a": 1, "b": 2}}
    ]
    assert texts(sight.span("execute_tool")) == {
        "gen_ai.tool.call.arguments": {"a": 1, "b": 2},
        "gen_ai.tool.call.result": {"result": 3},
    }


def said(text: str) -> dict[str, Any]:
    parts = [{"type": "text", "content": text}]
    return {"role": "assistant", "parts": parts, "finish_reason": "stop"}


async def test_secrets_stay_masked_in_recorded_texts() -> None:
    @tool(effect="read")
    async def look(key: str) -> str:
        raise ValueError(f"no such key as {key}")

    model = ScriptedModel([ToolCall("c", "look", {"key": "hunter2"}), "It is hunter2."])
    agent = Agent("a", model=model, tools=[look], instructions="Say hunter2.")
    with Sight().instrumented(content=True) as sight:
        await run(agent, "Is it hunter2?", secrets=["hunter2"])
    told = str([span.to_json() for span in sight.spans()])
    assert "hunter2" not in told
    assert "no such key as ***" in told


async def test_spans_of_the_lab_say_which_experiment_case_and_variant(sight: Sight) -> None:
    dataset = lab.Dataset("one", (lab.Case(id="7", request=Request("How much?")),))
    judge = Agent("kind", model=ScriptedModel(["1"]))
    options: Any = {"name": "trial", "scorers": [judge], "journal": "memory:"}
    await lab.run(dataset, {"new": adding("Three.")}, **options)
    expected = {
        "upshot.lab.experiment": "trial",
        "upshot.lab.case": "7",
        "upshot.lab.variant": "new",
    }
    assert expected.items() <= facts(sight.span("invoke_agent adder")).items()
    judged = facts(sight.span("invoke_agent kind"))
    assert {**expected, "upshot.lab.role": "judge"}.items() <= judged.items()
    assert sight.span("invoke_agent kind").parent is None
