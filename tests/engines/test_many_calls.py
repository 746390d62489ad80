"""A reply with thousands of calls lets other tasks of the loop go on."""

import asyncio
import sys
from types import FrameType
from typing import Any

from upshot import Agent, Budget, ModelResponse, ScriptedModel, ToolCall, run, tool
from upshot.contract.model_calls import ModelReplied
from upshot.journal.event_codec import to_entry
from upshot.journal.memory_journal import MemoryJournal


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


async def most_between_two_turns(count: int) -> int:
    """The most function calls for which another task of the loop had to wait."""
    agent = Agent("a", model=ScriptedModel([reply_of(count), "done"]), tools=[look])
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


async def test_others_wait_no_longer_for_a_longer_reply() -> None:
    few, many = await most_between_two_turns(2_000), await most_between_two_turns(6_000)
    assert many < 1.5 * few


def test_a_long_reply_is_checked_for_the_log_in_one_pass() -> None:
    event = ModelReplied(run_id="r", seq=1, response=reply_of(5_000))
    # What reads it is made at the first one.
    to_entry(event, "r", 1, 0)
    with Counter() as counter:
        to_entry(event, "r", 1, 0)
    assert counter.count < 100
