"""The fold of a run's events keeps up with replies that hold thousands of calls."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from upshot.contract import Message, ToolCall, ToolRecord, ToolStarted
from upshot.contract.events import ToolSettled
from upshot.contract.tool_calls import ToolExecutionResult
from upshot.state.board import Board
from upshot.state.run_state import RunState


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python *work* runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def begin_and_end(count: int) -> Callable[[], object]:
    calls = [ToolCall(f"c{number}", "look", {}) for number in range(count)]
    state = RunState()

    def work() -> None:
        for seq, call in enumerate(calls, 1):
            state.add(ToolStarted(seq=seq, call=call, idempotency_key=call.id))
        for seq, call in enumerate(reversed(calls), count + 1):
            outcome = ToolExecutionResult(call.id, call.name, output={"result": 1})
            record = ToolRecord(call_id=call.id, idempotency_key=call.id, outcome=outcome)
            state.add(ToolSettled(seq=seq, record=record))
        assert not state.begun

    return work


def find_open_calls(count: int) -> Callable[[], object]:
    calls = [ToolCall(f"c{number}", "look", {}) for number in range(count)]
    board = Board()
    board.append(Message("assistant", "", tool_calls=calls))
    board.extend([Message("tool", "1", tool_call_id=one.id, name=one.name) for one in calls])
    return board.open_calls


@pytest.mark.parametrize("make", [begin_and_end, find_open_calls])
def test_ten_times_as_many_calls_take_ten_times_as_long(make: Callable[[int], Any]) -> None:
    few, many = (lines_of(make(count)) for count in (20, 200))
    assert many < 12 * few
