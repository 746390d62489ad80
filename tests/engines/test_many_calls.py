"""A reply with thousands of calls lets other tasks of the loop go on."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import pytest

from upshot import Agent, Budget, Model, ModelResponse, ScriptedModel, ToolCall, run, tool
from upshot.contract.model_calls import ModelReplied
from upshot.journal.event_codec import to_entry
from upshot.journal.memory_journal import MemoryJournal
from upshot.models.registry import resolve
from upshot.models.transport import Answered, Timeouts


@tool(effect="read")
async def look(key: str) -> dict[str, str]:
    """Look a key up."""
    return {"key": key}


def reply_of(count: int) -> ModelResponse:
    calls = [ToolCall(f"c{number}", "look", {"key": f"k{number}"}) for number in range(count)]
    return ModelResponse(tool_calls=calls)


class Counter:
    """Counts calls of Python functions while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Counter":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        self.count += event == "call"


async def most_between_two_turns(count: int, model: Model) -> int:
    """The most function calls for which another task of the loop had to wait."""
    agent = Agent("a", model=model, tools=[look])
    whole = Budget(max_tool_calls=None)
    running = asyncio.create_task(run(agent, "go", journal=MemoryJournal(), budget=whole))
    most = 0
    with Counter() as counter:
        while not running.done():
            before = counter.count
            await asyncio.sleep(0)
            most = max(most, counter.count - before)
    result = await running
    assert len(result.tool_outcomes) == count, result.error
    return most


@pytest.mark.slow
async def test_others_wait_no_longer_for_a_longer_reply() -> None:
    def scripted(count: int) -> Model:
        return ScriptedModel([reply_of(count), "done"])

    few = await most_between_two_turns(300, scripted(300))
    many = await most_between_two_turns(900, scripted(900))
    assert many < 1.5 * few


def test_a_long_reply_is_checked_for_the_log_in_one_pass() -> None:
    event = ModelReplied(run_id="r", seq=1, response=reply_of(5_000))
    # What reads it is made at the first one.
    to_entry(event, "r", 1, 0)
    with Counter() as counter:
        to_entry(event, "r", 1, 0)
    assert counter.count < 100


class Replies:
    """A transport: a reply with *count* calls, and an answer after it."""

    def __init__(self, count: int) -> None:
        calls = [
            {"id": f"c{n}", "function": {"name": "look", "arguments": f'{{"key": "k{n}"}}'}}
            for n in range(count)
        ]
        self._messages: list[dict[str, Any]] = [{"tool_calls": calls}, {"content": "done"}]

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, *, timeouts: Timeouts
    ) -> AsyncGenerator[Answered]:
        message = self._messages.pop(0)
        said = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()

        async def chunks() -> AsyncGenerator[bytes]:
            for start in range(0, len(said), 2**14):
                yield said[start : start + 2**14]

        yield 200, [("content-type", "application/json")], chunks()


@pytest.mark.slow
async def test_what_a_server_sends_is_read_beside_the_loop_and_sent_again_bit_by_bit() -> None:
    model = resolve("openai:m", base_url="http://localhost", transport=Replies(12_000))
    # Only the one message with all calls is still encoded in one piece, at six for each.
    assert await most_between_two_turns(12_000, model) < 7 * 12_000
