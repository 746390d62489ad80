"""A reply that the provider paused is gone on with."""

from __future__ import annotations

from typing import Any

from upshot import (
    Agent,
    BoardChanged,
    Budget,
    Message,
    ModelRequest,
    ModelResponse,
    ServerToolBlock,
    Text,
    ToolCall,
    Usage,
    decode,
    encode,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel

SEARCH = ServerToolBlock({"type": "server_tool_use", "id": "s1", "name": "web_search"}, "anthropic")
FOUND = ServerToolBlock({"type": "web_search_tool_result", "tool_use_id": "s1"}, "anthropic")
PAUSED = ModelResponse(parts=(Text("It "), SEARCH), paused=True)
ENDED = ModelResponse(parts=(FOUND, Text("rains.")), finish_reason="stop")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_the_model_is_asked_again_with_the_paused_reply_and_no_user_message() -> None:
    model = ScriptedModel([PAUSED, ENDED])
    result = await run(Agent("a", model=model), "The weather?")
    asked = model.calls[-1].messages
    assert [message.role for message in asked] == ["user", "assistant"]
    assert asked[-1] == Message("assistant", PAUSED.parts, paused=True)
    assert [message.paused for message in result.messages] == [True, False]


async def test_a_reply_in_several_pieces_is_one_answer() -> None:
    result = await run(Agent("a", model=ScriptedModel([PAUSED, PAUSED, ENDED])), "The weather?")
    assert (result.content, result.output) == ("It It rains.", "It It rains.")
    assert decode(encode(result)) == result


async def test_a_typed_answer_is_read_of_all_pieces() -> None:
    pieces = [ModelResponse(content='{"a": 1', paused=True), ', "b": 2}']
    agent = Agent("a", model=ScriptedModel(pieces), output_type=dict[str, int])
    assert (await run(agent, "?")).output == {"a": 1, "b": 2}


async def test_a_model_that_only_pauses_is_ended_by_the_limit_of_turns() -> None:
    model = ScriptedModel([PAUSED] * 9)
    result = await run(Agent("a", model=model), "?", budget=Budget(max_turns=3))
    assert (result.error and result.error.code, len(model.calls)) == ("max_turns", 3)
    assert result.content == "It It It "


async def test_calls_beside_a_pause_are_answered_first() -> None:
    call = ToolCall("c1", "add", {"a": 1, "b": 2})
    paused = ModelResponse(parts=(SEARCH, call), paused=True)
    model = ScriptedModel([paused, ENDED])
    result = await run(Agent("a", model=model, tools=[add]), "?")
    assert [message.role for message in model.calls[-1].messages] == ["user", "assistant", "tool"]
    assert result.content == "rains."


async def test_a_run_that_ended_in_a_pause_goes_on_from_it() -> None:
    whole, cut = MemoryJournal(), MemoryJournal()
    first = await run(Agent("a", model=ScriptedModel([PAUSED, ENDED])), "?", journal=whole)
    async for event in whole.events(first.run_id):
        cut.append(event)
        if isinstance(event, BoardChanged) and not event.seeded:
            break
    model = ScriptedModel([PAUSED, ENDED])
    result = await resume(first.run_id, Agent("a", model=model), journal=cut)
    assert (result.content, len(model.calls)) == ("It rains.", 1)


class Other:
    """A model of another provider."""

    name = "openai:gpt"

    async def call(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(
            content="Yes.",
            finish_reason="stop",
            usage=Usage(),
            provider_data={"provider": "openai"},
        )


async def test_what_another_provider_is_not_sent_is_told() -> None:
    history: Any = [Message("user", "?"), Message("assistant", (SEARCH, FOUND, Text("It rains.")))]
    result = await run(Agent("a", model=Other()), "Really?", history=history)
    (warning,) = result.warnings
    assert (result.content, warning.code) == ("Yes.", "parts_left_out")
    assert "anthropic" in warning.message
