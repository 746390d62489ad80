"""The loop: model, tools, model, until there is an answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from tests.runs.kit import ADD, add, measured
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Approve,
    Deny,
    Edit,
    Misuse,
    ModelResponse,
    Reasoning,
    RunFailed,
    Status,
    ToolCall,
    decode,
    encode,
    resume,
    run,
    tool,
)
from upshot.engines import LoopEngine
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


class Order(msgspec.Struct):
    id: str
    cents: int


@dataclass
class OrderData:
    id: str
    cents: int


class OrderModel(pydantic.BaseModel):
    id: str
    cents: int


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["id", "cents"],
}
RIGHT = '{"id": "7", "cents": 120}'
WRONG = '{"id": "7", "cents": "many"}'
TYPES = [
    (Order, Order("7", 120)),
    (OrderData, OrderData("7", 120)),
    (OrderModel, OrderModel(id="7", cents=120)),
    (SCHEMA, {"id": "7", "cents": 120}),
]
BY_TYPE = pytest.mark.parametrize(
    ("output_type", "value"), TYPES, ids=["msgspec", "dataclass", "pydantic", "schema"]
)


def texts(model: ScriptedModel, call: int = -1) -> list[str]:
    return [message.text for message in model.calls[call].messages]


# -- tools


async def test_every_outcome_goes_to_the_model_in_call_order() -> None:
    model = ScriptedModel([[ADD, ToolCall("call-2", "add", {"a": 5, "b": 5})], "Both."])
    await run(Agent("a", model=model, tools=[add]), "?")
    assert texts(model)[-2:] == ['{"result":3}', '{"result":10}']


async def test_refused_arguments_are_told_and_the_corrected_call_runs() -> None:
    wrong = ToolCall("call-0", "add", {"a": "x", "b": 2})
    model = ScriptedModel([wrong, ADD, "It is 3."])
    result = await run(Agent("a", model=model, tools=[add]), "?")
    assert "argument_validation_failed" in texts(model, 1)[-1]
    assert [outcome.kind for outcome in result.tool_outcomes] == [
        "tool_denied",
        "tool_execution_result",
    ]
    assert (result.tools_used, result.content) == (("add",), "It is 3.")


async def test_an_unknown_tool_is_told_with_the_nearest_name() -> None:
    model = ScriptedModel([ToolCall("c", "ad", {}), "Oh."])
    result = await run(Agent("a", model=model, tools=[add]), "?")
    assert (result.success, result.tools_used) == (True, ())
    assert "add" in encode(result.tool_outcomes[0]).decode()


async def test_a_tool_that_raises_is_a_failure_that_the_model_reads() -> None:
    @tool(effect="read")
    async def look() -> None:
        raise LookupError("no such order")

    model = ScriptedModel([ToolCall("c", "look"), "Sorry."])
    result = await run(Agent("a", model=model, tools=[look]), "?")
    assert "no such order" in texts(model)[-1]
    assert (result.success, result.tools_used) == (True, ("look",))


async def test_a_tool_past_its_time_is_a_timeout_that_the_model_reads() -> None:
    @tool(effect="read", timeout_s=0.01)
    async def wait() -> None:
        await asyncio.sleep(60)

    model = ScriptedModel([ToolCall("c", "wait"), "Too slow."])
    result = await run(Agent("a", model=model, tools=[wait]), "?")
    assert '"timed_out":true' in texts(model)[-1]
    assert (result.status, result.tool_outcomes[0].kind) == (Status.COMPLETED, "tool_timeout")


async def test_one_call_id_in_two_replies_means_two_calls() -> None:
    second = ToolCall("call-1", "add", {"a": 2, "b": 2})
    model = ScriptedModel([ADD, second, "Done."])
    await run(Agent("a", model=model, tools=[add]), "?")
    assert [text for text in texts(model) if text.startswith("{")] == [
        '{"result":3}',
        '{"result":4}',
    ]


async def test_one_call_id_twice_in_a_reply_gets_a_message_for_each() -> None:
    model = ScriptedModel([[ADD, ADD], "Done."])
    result = await run(Agent("a", model=model, tools=[add]), "?")
    asked = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert asked == ["call-1", "call-1_2"]


async def test_a_large_output_is_read_back_by_its_reference() -> None:
    @tool(effect="read")
    async def dump() -> str:
        return "start " + "x" * 20_000

    def read(messages: Any) -> ToolCall:
        id = msgspec.json.decode(messages[-1].text)["artifact_reference"]
        return ToolCall("r", "read_artifact", {"id": id, "offset": 0, "limit": 5})

    model = ScriptedModel([ToolCall("d", "dump"), read, "Done."])
    await run(Agent("a", model=model, tools=[dump]), "?")
    assert '"text":"start"' in texts(model)[-1]
    assert [len(call.tools) for call in model.calls] == [1, 2, 2]


# -- answers


async def test_an_empty_reply_is_an_answer_without_text_where_the_agent_says_so() -> None:
    agent = Agent("a", model=ScriptedModel([ModelResponse()]), allow_empty=True)
    result = await run(agent, "?")
    assert (result.status, result.content, len(result.messages)) == (Status.COMPLETED, None, 1)


async def test_reasoning_stays_in_the_conversation() -> None:
    thought = Reasoning(text="Hm.", signature="sig", provider="p")
    model = ScriptedModel([measured("Wait.", ADD, reasoning=(thought,)), "3"])
    result = await run(Agent("a", model=model, tools=[add]), "?")
    assert result.messages[0].parts[0] == thought
    assert model.calls[1].messages[1].parts[0] == thought


@BY_TYPE
async def test_an_answer_is_built_as_the_output_type(output_type: Any, value: Any) -> None:
    model = ScriptedModel([RIGHT])
    result = await run(Agent("a", model=model, output_type=output_type), "?")
    assert result.unwrap() == result.output == value
    assert result.content == RIGHT
    schema = model.calls[0].output_schema
    assert schema is not None
    assert set(schema["properties"]) == {"id", "cents"}  # type: ignore[arg-type]


@BY_TYPE
async def test_a_wrong_answer_is_sent_back_once(output_type: Any, value: Any) -> None:
    model = ScriptedModel([WRONG, RIGHT])
    result = await run(Agent("a", model=model, output_type=output_type), "?")
    assert result.output == value
    assert "cents" in texts(model)[-1]
    assert [message.role for message in result.messages] == ["assistant", "user", "assistant"]


@BY_TYPE
async def test_a_second_wrong_answer_is_invalid_output(output_type: Any, value: Any) -> None:
    model = ScriptedModel([WRONG, "no JSON at all", RIGHT])
    result = await run(Agent("a", model=model, output_type=output_type), "?")
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, "invalid_output")
    assert (result.content, result.output, len(model.calls)) == ("no JSON at all", None, 2)
    with pytest.raises(RunFailed) as caught:
        result.unwrap()
    assert caught.value.result is result


async def test_how_often_an_answer_is_sent_back_is_the_engines_choice() -> None:
    agent = Agent("a", model=ScriptedModel([WRONG, WRONG, RIGHT]), output_type=Order)
    assert (await run(agent, "?", engine=LoopEngine(corrective_turns=2))).success
    again = agent.but(model=ScriptedModel([WRONG, RIGHT]))
    assert not (await run(again, "?", engine=LoopEngine(corrective_turns=0))).success


@BY_TYPE
async def test_a_typed_result_survives_json(output_type: Any, value: Any) -> None:
    result = await run(Agent("a", model=ScriptedModel([RIGHT]), output_type=output_type), "?")
    assert decode(encode(result), AgentResult).output == {"id": "7", "cents": 120}


@BY_TYPE
async def test_the_result_of_an_ended_run_is_typed_again(output_type: Any, value: Any) -> None:
    journal = MemoryJournal()
    agent = Agent("a", model=ScriptedModel([RIGHT]), output_type=output_type)
    result = await run(agent, "?", journal=journal)
    assert (await resume(result.run_id, agent, journal=journal)).output == value


@pytest.mark.parametrize("answer", ["```json\n[1, 2]\n```", " [1, 2]\n", "```\n[1, 2]\n```"])
async def test_json_in_a_fence_is_read(answer: str) -> None:
    agent = Agent("a", model=ScriptedModel([answer]), output_type=list[int])
    assert (await run(agent, "?")).output == [1, 2]


@pytest.mark.parametrize(
    ("output_type", "said"),
    [(object(), "has no JSON Schema"), ({"type": "strin"}, "is not a JSON Schema")],
)
async def test_an_output_type_without_a_schema_is_misuse(output_type: Any, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        await run(Agent("a", model=ScriptedModel([RIGHT]), output_type=output_type), "?")


async def test_an_error_without_text_leaves_no_message() -> None:
    broken = measured(None, ADD, error=AgentError("server_error", "cut"))
    result = await run(Agent("a", model=ScriptedModel([broken]), tools=[add], retry=None), "?")
    assert (result.status, result.content, result.messages) == (Status.FAILED, None, ())


async def test_an_error_with_text_keeps_the_text_and_drops_the_calls() -> None:
    broken = measured("Half", ADD, error=AgentError("server_error", "cut"))
    result = await run(Agent("a", model=ScriptedModel([broken]), tools=[add], retry=None), "?")
    assert (result.content, result.messages[0].tool_calls) == ("Half", ())
    assert result.tool_outcomes == ()


# -- people


@tool(effect="destructive")
async def wipe(name: str) -> str:
    return f"wiped {name}"


def wiping(*replies: Any) -> Agent:
    calls = [ToolCall("w", "wipe", {"name": "x"}), ADD]
    model = ScriptedModel([calls, "Done.", *replies])
    return Agent("a", model=model, tools=[wipe, add])


async def test_a_call_that_waits_for_people_parks_the_run_and_the_others_run() -> None:
    result = await run(wiping(), "?")
    assert (result.status, result.committed) == (Status.INPUT_REQUIRED, False)
    assert [pending.call_id for pending in result.pending] == ["w"]  # type: ignore[union-attr]
    assert [outcome.call_id for outcome in result.tool_outcomes] == ["call-1"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Approve("w"), "wiped x"),
        (Edit("w", {"name": "y"}), "wiped y"),
        (Deny("w", "not today"), "not today"),
    ],
)
async def test_a_parked_run_goes_on_with_the_answer(answer: Any, said: str) -> None:
    journal = MemoryJournal()
    parked = await run(wiping(), "?", journal=journal)
    result = await resume(parked.run_id, wiping(), journal=journal, answers=[answer])
    assert (result.status, result.content, result.attempts) == (Status.COMPLETED, "Done.", 1)
    assert [message.tool_call_id for message in result.messages if message.role == "tool"] == [
        "call-1",
        "w",
    ]
    assert said in result.messages[2].text
    assert len(result.attempt_log) == 1


async def test_a_parked_run_without_an_answer_stays_parked() -> None:
    journal = MemoryJournal()
    parked = await run(wiping(), "?", journal=journal)
    again = await resume(parked.run_id, wiping(), journal=journal)
    assert again.status is Status.INPUT_REQUIRED
    assert len(again.tool_outcomes) == 1


async def test_an_answer_that_nobody_waits_for_is_misuse() -> None:
    journal = MemoryJournal()
    parked = await run(wiping(), "?", journal=journal)
    with pytest.raises(Misuse, match="waits for w"):
        await resume(parked.run_id, wiping(), journal=journal, answers=[Approve("v")])


async def test_an_answer_does_not_hold_for_a_tool_that_was_changed() -> None:
    @tool(name="wipe", effect="destructive")
    async def other(name: str) -> str:
        """Wipes more."""
        return "more"

    journal = MemoryJournal()
    parked = await run(wiping(), "?", journal=journal)
    changed = wiping().but(tools=[other, add])
    result = await resume(parked.run_id, changed, journal=journal, answers=[Approve("w")])
    assert result.status is Status.INPUT_REQUIRED


def looking(times: int) -> Agent[Any]:
    @tool(effect="read")
    async def look() -> str:
        return "nothing new"

    calls = [ToolCall(f"c{n}", "look") for n in range(times)]
    return Agent("a", model=ScriptedModel([*calls, "I see."]), tools=[look])


async def test_a_model_that_calls_in_circles_is_told_at_the_third_result():
    result = await run(looking(3), "?")
    told = [message.text for message in result.messages if message.role == "tool"]
    assert ["Note: look" in text for text in told] == [False, False, True]
    assert all(text.startswith("nothing new") for text in told)
    assert result.content == "I see."


async def test_a_run_whose_model_calls_in_circles_ends_at_the_sixth():
    result = await run(looking(8), "?")
    assert result.status is Status.FAILED
    assert result.error is not None
    assert (result.error.code, result.error.origin) == ("no_progress", "model")
    assert [outcome.kind for outcome in result.tool_outcomes] == [
        *["tool_execution_result"] * 3,
        *["tool_denied"] * 3,
    ]


async def test_a_model_that_stops_going_in_circles_gets_its_answer():
    result = await run(looking(5), "?")
    assert (result.status, result.content) == (Status.COMPLETED, "I see.")


async def test_instructions_that_are_no_text_fail_the_run() -> None:
    model = ScriptedModel(["Never."])
    agent = Agent[str]("a", model=model, instructions=lambda run: 5)  # type: ignore[arg-type, return-value]
    result = await run(agent, "?")
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, "internal")
    assert "instructions returned int, not a string" in result.error.message
