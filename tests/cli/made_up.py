"""Runs that never were, as lists of events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from msgspec.structs import replace

from upshot.contract import (
    AgentError,
    AgentResult,
    AgentSpec,
    Cost,
    Event,
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    Request,
    RunSettled,
    RunStarted,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
    ToolRecord,
    ToolSettled,
    ToolStarted,
    ToolTimeout,
    Usage,
)
from upshot.state.activity import Activity

BEGAN = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)
RUN_ID = "run-0123456789abcdef"

Timed: TypeAlias = tuple[float, Event]


def stamped(events: Sequence[Timed]) -> list[Event]:
    """Events as a run's log would have them, each at so many seconds from the start."""
    return [
        replace(event, run_id=RUN_ID, seq=place, time=BEGAN + timedelta(seconds=at_s))
        for place, (at_s, event) in enumerate(events, start=1)
    ]


def activity_of(events: Sequence[Timed]) -> Activity:
    activity = Activity()
    for event in stamped(events):
        activity.add(event)
    return activity


def started(request: str = "Count the files.") -> RunStarted:
    return RunStarted(agent=AgentSpec(id="counter"), request=Request(request))


def replied(turn: int, *, calls: int = 0, tokens: int = 100) -> ModelReplied:
    response = ModelResponse(
        tool_calls=tuple(ToolCall(f"c{n}", "count") for n in range(calls)),
        usage=Usage(input_tokens=tokens, output_tokens=10, api_calls=1),
    )
    return ModelReplied(model="openai:simulated", turn=turn, response=response)


def settled_call(outcome: ToolOutcome, run_ms: int = 0) -> ToolSettled:
    record = ToolRecord(
        call_id=outcome.call_id, tool_name=outcome.tool_name, run_ms=run_ms, outcome=outcome
    )
    return ToolSettled(record=record)


def began_call(call_id: str, name: str = "count") -> ToolStarted:
    return ToolStarted(call=ToolCall(call_id, name))


def a_whole_run() -> list[Timed]:
    """Four seconds with a 429, a result, a refusal, a timeout and an answer."""
    refused = ModelResponse(
        error=AgentError("rate_limit", "slow down", status_code=429, retryable=True)
    )
    result = AgentResult[Any](
        content="There are 7.",
        output="There are 7.",
        usage=Usage(input_tokens=200, output_tokens=20, api_calls=2),
        cost=Cost(total=0.0125),
        run_id=RUN_ID,
        duration_ms=4000,
    )
    return [
        (0.0, started()),
        (0.0, ModelStarted(model="openai:simulated", turn=1)),
        (0.2, ModelRetried(model="openai:simulated", turn=1, wait_s=0.8, response=refused)),
        (1.5, replied(1, calls=3)),
        (1.5, began_call("c0")),
        (1.5, settled_call(ToolDenied("c1", "count", reason="validation", details="no number"))),
        (1.5, began_call("c2", "wait")),
        (2.0, settled_call(ToolExecutionResult("c0", "count", output={"files": 7}), run_ms=400)),
        (3.0, settled_call(ToolTimeout("c2", "wait", timeout_s=1.5), run_ms=1500)),
        (3.0, ModelStarted(model="openai:simulated", turn=2)),
        (4.0, replied(2)),
        (4.0, RunSettled(result=result)),
    ]
