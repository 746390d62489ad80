"""What a result says, field by field."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tests.runs.kit import ADD, Do, add, log_of, measured, say
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Cost,
    Event,
    FinishReason,
    Message,
    RateLimitState,
    RateLimitWindow,
    Request,
    Retry,
    RunSettled,
    Status,
    ToolCall,
    Usage,
    decode,
    encode,
    resume,
    run,
    start,
    to_contract,
    tool,
)
from upshot.contract import Local, to_execution_result
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.testing.doubles import FakeClock


async def test_a_run_with_a_tool_call_gives_messages_outcomes_and_the_answer() -> None:
    agent = Agent("a", model=ScriptedModel([ADD, "It is 3."]), tools=[add])
    result = await run(agent, "1 + 2?")
    assert result.status is Status.COMPLETED
    assert result.content == result.output == result.unwrap() == "It is 3."
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.messages[1].text == '{"result":3}'
    assert result.messages[1].tool_call_id == "call-1"
    assert result.tools_used == ("add",)
    assert result.finish_reason is FinishReason.STOP
    assert result.committed
    assert result.error is None


async def test_messages_leave_out_what_was_seeded_and_all_messages_do_not() -> None:
    agent = Agent("a", model=ScriptedModel(["Hello."]))
    result = await run(agent, "Hi.", history=[Message("user", "Before."), say("Yes.")])
    assert [message.text for message in result.messages] == ["Hello."]
    texts = [message.text for message in result.all_messages()]
    assert texts == ["Before.", "Yes.", "Hi.", "Hello."]


async def test_a_result_that_is_read_back_shows_what_the_user_asked() -> None:
    journal, before = MemoryJournal(), [Message("user", "Before."), say("Yes.")]
    agent = Agent("a", model=ScriptedModel(["Hello."]))
    options: Any = {"journal": journal, "history": before}
    fresh = await run(agent, Request("Hi.", run_id="r"), **options)
    view = to_execution_result(fresh)
    asked = [one["content"] for one in view["messages"] if one["role"] == "user"]
    assert asked == ["Before.", "Hi."]
    assert to_execution_result(decode(encode(fresh), AgentResult)) == view
    assert to_execution_result(await resume("r", agent, journal=journal)) == view


async def test_outcomes_and_records_stand_in_one_order() -> None:
    @tool(effect="read")
    async def wait(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    calls = [ToolCall(f"c{turns}", "wait", {"turns": turns}) for turns in (9, 0, 4)]
    result = await run(Agent("a", model=ScriptedModel([calls, "Done."]), tools=[wait]), "Go.")
    assert [outcome.call_id for outcome in result.tool_outcomes] == ["c9", "c0", "c4"]
    assert tuple(record.outcome for record in result.tool_records) == result.tool_outcomes
    asked = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert asked == ["c9", "c0", "c4"]
    assert [record.turn for record in result.tool_records] == [1, 1, 1]


async def test_usage_counts_every_try_and_what_nobody_measured() -> None:
    refused = AgentError("server_error", "down", retryable=True)
    script = [refused, measured(None, ADD), "It is 3."]
    agent = Agent("a", model=ScriptedModel(script), tools=[add], retry=Retry(base_s=0))
    usage = (await run(agent, "?", clock=FakeClock())).usage
    assert usage == Usage(
        input_tokens=10, output_tokens=5, total_tokens=15, api_calls=3, unmeasured_calls=2
    )


async def test_cost_is_the_sum_of_the_priced_calls() -> None:
    cost = Cost(input=Decimal("0.001"), output=Decimal("0.002"))
    script = [measured(None, ADD, cost=cost), measured("It is 3.")]
    result = await run(Agent("a", model=ScriptedModel(script), tools=[add]), "?")
    assert result.cost is not None
    assert result.cost.total == Decimal("0.003")
    assert result.cost.unpriced_calls == 1
    assert result.usage.cost is result.cost


async def test_cost_is_none_where_no_call_had_a_price() -> None:
    result = await run(Agent("a", model=ScriptedModel([measured("Hi.")])), "?")
    assert result.cost is None
    assert "cost" not in to_contract(result)


async def test_the_last_reply_gives_provider_data_and_the_last_windows_the_rate_limit() -> None:
    windows = (RateLimitWindow(name="requests", limit=10, remaining=3),)
    limited = measured(None, ADD, rate_limit=RateLimitState(windows=windows))
    last = measured("Hi.", provider_data={"provider": "p", "request_id": "r-2"})
    result = await run(Agent("a", model=ScriptedModel([limited, last]), tools=[add]), "?")
    assert result.rate_limit == RateLimitState(windows=windows)
    assert result.provider_data == {"provider": "p", "request_id": "r-2"}


async def test_a_result_says_whose_run_it_is() -> None:
    request = Request(
        "?",
        task_id="t",
        context_id="c",
        run_id="run-x",
        metadata={"n": 7, "lost": float("nan")},
    )
    result = await run(
        Agent("a", model=ScriptedModel(["Hi."])), request, parent_run_id="run-parent"
    )
    ids = (result.agent_id, result.run_id, result.task_id, result.context_id)
    assert ids == ("a", "run-x", "t", "c")
    assert result.parent_run_id == "run-parent"
    assert result.metadata == {"n": 7, "lost": None}


async def test_a_new_run_gets_an_id_of_sixteen_hex_digits() -> None:
    result = await run(Agent("a", model=ScriptedModel(["Hi."])), "?")
    assert result.run_id.startswith("run-")
    assert int(result.run_id.removeprefix("run-"), 16) >= 0
    assert len(result.run_id) == len("run-") + 16


async def test_times_are_of_the_clock_and_the_duration_of_its_monotonic_part() -> None:
    clock = FakeClock()
    engine = Do(lambda run, host, board: clock.advance(2.5))
    result = await run(Agent("a", engine=engine), "?", clock=clock)
    assert result.started_at == FakeClock().now()
    assert result.duration_ms == 2500
    assert result.ended_at == FakeClock().now() + timedelta(seconds=2.5)


async def test_the_attempt_log_has_a_line_for_the_attempt() -> None:
    result = await run(Agent("a", model=ScriptedModel([measured("Hi.")])), "?")
    (line,) = result.attempt_log
    assert (line.attempt, line.status, line.content) == (1, "completed", "Hi.")
    assert line.usage.total_tokens == 15
    assert result.attempts == 1


async def test_a_real_result_survives_json() -> None:
    script = [[ADD, ToolCall("call-2", "add", {"a": "x"})], AgentError("auth_error", "no key")]
    result = await run(Agent("a", model=ScriptedModel(script), tools=[add]), "?")
    again = decode(encode(result), AgentResult)
    assert again == result
    assert again.local is None or isinstance(again.local, Local)


async def test_text_before_a_failure_is_kept() -> None:
    broken = measured("Half an ans", error=AgentError("server_error", "cut off"))
    result = await run(Agent("a", model=ScriptedModel([broken]), retry=None), "?")
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.code == "server_error"
    assert result.content == "Half an ans"
    assert not result.committed


async def test_channels_asked_for_are_harvested_as_artifacts() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(say("A draft."), "drafts")
        board.append(say("Done."))

    result = await run(Agent("a", engine=Do(work)), "?", artifacts=["drafts", "empty"])
    assert [(one.name, one.parts[0].text) for one in result.artifacts] == [("drafts", "A draft.")]
    assert result.content == "Done."


async def test_a_large_output_is_stored_and_listed() -> None:
    @tool(effect="read")
    async def dump() -> str:
        return "x" * 20_000

    agent = Agent("a", model=ScriptedModel([ToolCall("d", "dump"), "Long."]), tools=[dump])
    result = await run(agent, "?")
    (stored,) = result.artifacts
    assert stored.parts[0].size_bytes >= 20_000
    assert result.tool_outcomes[0].kind == "tool_artifact_reference"
    assert result.tool_outcomes[0].artifact_id == stored.parts[0].id
    assert "artifact_reference" in result.messages[1].text


async def test_the_board_and_what_was_raised_are_there_in_the_process() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.set("step", 3)
        raise ValueError("odd")

    result = await run(Agent("a", engine=Do(work)), "?")
    assert isinstance(result.raw, ValueError)
    assert result.last_board.get("step") == 3


async def test_a_run_that_used_nothing_leaves_usage_out_of_its_json() -> None:
    result = await run(Agent("a", engine=Do(lambda *_: "fine")), "?")
    form = json.loads(encode(result))
    assert "usage" not in form
    assert form["attempt_log"] == [{"status": "completed"}]
    assert decode(encode(result), AgentResult) == result


async def test_a_log_in_memory_keeps_nothing_that_lives_in_the_process_only() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        raise ValueError("odd")

    journal = MemoryJournal()
    seen: list[Event] = []
    async with start(Agent("a", engine=Do(work)), "?", journal=journal) as live:
        seen.extend([event async for event in live])
        result = await live.result()
    shown, logged = seen[-1], (await log_of(journal, result.run_id))[-1]
    assert isinstance(shown, RunSettled)
    assert isinstance(logged, RunSettled)
    assert isinstance(shown.result.raw, ValueError)
    assert logged.result.local is None
    assert logged == shown


async def test_a_result_tells_who_asked_for_what() -> None:
    asked = Request("?", task_id="t", context_id="c", metadata={"from": "shop"})
    result = await run(
        Agent("a", engine=Do(lambda run, host, board: None)), asked, parent_run_id="p"
    )
    assert (result.task_id, result.context_id, result.parent_run_id) == ("t", "c", "p")
    assert result.metadata == {"from": "shop"}
    assert result.metadata is not asked.metadata
