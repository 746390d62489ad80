"""Usage that nobody measured, in every dialect; bodies of errors that never end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from upshot import Agent, Budget, ModelResponse, ToolCall, Usage, resolve, run_sync, tool
from upshot.contract.base.structs import JsonObject
from upshot.contract.model_calls import counted
from upshot.models import ScriptedModel
from upshot.wire.decoding import encode_json
from upshot.wire.reader import StreamReader

ZEROS: dict[str, JsonObject] = {
    "chat": {
        "choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost": 0},
    },
    "messages": {
        "type": "message",
        "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}],
        "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    },
    "generate": {
        "candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0},
    },
    "converse": {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
    },
}


@pytest.mark.parametrize("surface", ZEROS)
def test_usage_of_zeros_is_unknown(surface: Any) -> None:
    reader = StreamReader(surface, provider="x", headers={}, now=0.0)
    reader.feed(encode_json(ZEROS[surface]))
    reply = reader.close()
    assert reply.content == "Hi."
    assert reply.usage == Usage(api_calls=1, unmeasured_calls=1)
    assert reply.cost is None


def test_so_it_is_for_a_model_of_ones_own() -> None:
    free = ModelResponse(content="Hi.", usage=Usage(input_tokens=0, output_tokens=0, api_calls=1))
    result = run_sync(Agent("a", model=ScriptedModel([free])), "Hi")
    assert result.usage == Usage(api_calls=1, unmeasured_calls=1)
    assert result.cost is None


@tool(effect="read", repeatable=True)
def look(number: int) -> int:
    """Look."""
    return number


class Unmeasured:
    """A priced model that never says what it used."""

    name = "own:unmeasured"
    priced = True

    def __init__(self) -> None:
        self.asked = 0

    async def call(self, request: Any) -> ModelResponse:
        self.asked += 1
        calls = (ToolCall(f"c{self.asked}", "look", {"number": self.asked}),)
        usage = Usage(input_tokens=0, output_tokens=0, api_calls=1)
        return ModelResponse(tool_calls=calls, usage=usage)


def test_a_limit_on_money_stops_calls_of_unknown_cost() -> None:
    model: Any = Unmeasured()
    budget = Budget(max_cost_usd=Decimal("0.01"), max_turns=200)
    result = run_sync(Agent("a", model=model, tools=[look], budget=budget), "Hi")
    assert result.error is not None
    assert result.error.code == "budget_exceeded"
    assert "unpriced" in result.error.message
    assert model.asked == 1


class Endless:
    """A transport whose 500 never ends."""

    def __init__(self) -> None:
        self.pieces = 0

    @asynccontextmanager
    async def send(
        self, method: Any, url: Any, headers: Any, body: Any, *, timeouts: Any
    ) -> AsyncGenerator[Any]:
        async def pieces() -> Any:
            while True:
                self.pieces += 1
                yield b"x" * 1024

        yield 500, [], pieces()


def test_little_is_read_of_the_body_of_an_error() -> None:
    transport = Endless()
    model = resolve("openai:gpt-5", transport=transport, api_key="k")
    result = run_sync(Agent("a", model=model, retry=None), "Hi")
    assert result.error is not None
    assert result.error.code == "server_error"
    assert transport.pieces == 65


ERRORS: dict[str, JsonObject] = {
    "chat": {"error": {"message": "Overloaded.", "code": 503}},
    "messages": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded."}},
    "responses": {"error": {"code": "server_error", "message": "Overloaded."}},
    "generate": {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}},
}


@pytest.mark.parametrize("surface", ERRORS)
def test_an_error_in_a_reply_with_status_200_is_of_unknown_usage(surface: Any) -> None:
    reader = StreamReader(surface, provider="x", headers={}, now=0.0)
    reader.feed(encode_json(ERRORS[surface]))
    reply = reader.close()
    assert reply.error is not None
    counted_as = counted(reply)
    assert (counted_as.usage.unmeasured_calls, counted_as.cost) == (1, None)


def test_a_request_that_was_turned_away_by_its_status_is_free() -> None:
    reader = StreamReader("chat", provider="x", headers={}, now=0.0)
    reply = reader.refuse(503, encode_json(ERRORS["chat"]))
    assert counted(reply).usage.unmeasured_calls == 0
