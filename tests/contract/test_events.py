"""Events: the small facts that a run is a log of."""

from typing import Any, get_args

import pytest

from upshot.contract import (
    DELTAS,
    AgentError,
    AgentResult,
    Answer,
    ApprovalAnswered,
    ApprovalRequested,
    Approve,
    Event,
    HandoffEvent,
    ModelResponse,
    ModelRetried,
    PendingApproval,
    RunEvent,
    RunInterrupted,
    ToolCall,
    ToolExecutionResult,
    ToolRecord,
    ToolSettled,
    ToolStarted,
    Unknown,
    Warned,
)
from upshot.contract.base.structs import to_snake

KINDS = (
    "run_started run_released run_resumed attempt_started model_started model_retried text_delta "
    "reasoning_delta tool_call_delta part_delta model_replied tool_started tool_state_saved "
    "tool_progress "
    "tool_settled artifact_stored approval_requested approval_answered question_asked "
    "question_answered board_changed step_started step_settled interrupted checkpoint_saved "
    "handoff decided attempt_ended committed warning lagged run_settled usage_reported tainted "
    "compacted"
)
KNOWN: list[Any] = [event for event in get_args(Event) if event is not Unknown]
NAMED_OTHERWISE = {RunInterrupted: "interrupted", HandoffEvent: "handoff", Warned: "warning"}


def test_there_is_an_event_for_every_kind_of_the_log() -> None:
    assert {event.__struct_config__.tag for event in KNOWN} == set(KINDS.split())


@pytest.mark.parametrize("event", KNOWN, ids=lambda event: event.__name__)
def test_a_kind_is_the_name_of_its_class_but_for_three(event: Any) -> None:
    kind = NAMED_OTHERWISE.get(event, to_snake(event.__name__))
    assert event.__struct_config__.tag == kind


def test_every_event_carries_run_attempt_time_and_place() -> None:
    for event in KNOWN:
        assert issubclass(event, RunEvent), event
        assert {"run_id", "attempt", "time", "seq", "part"} <= set(event.__struct_fields__)


def test_deltas_are_for_watchers_only() -> None:
    told = {"text_delta", "reasoning_delta", "tool_call_delta", "part_delta", "tool_progress"}
    told |= {"lagged"}
    assert {delta.__struct_config__.tag for delta in DELTAS} == told


def test_events_of_a_call_name_it() -> None:
    record = ToolRecord(call_id="c1", outcome=ToolExecutionResult("c1", "look"))
    events = (
        ToolStarted(call=ToolCall("c1", "look")),
        ToolSettled(record=record),
        ApprovalRequested(pending=PendingApproval(call_id="c1")),
        ApprovalAnswered(answer=Approve("c1")),
    )
    assert {event.call_id for event in events} == {"c1"}
    assert events[2].pending.id == "c1"
    assert ApprovalAnswered(answer=Answer("q1")).call_id == ""


def test_a_retried_call_says_why() -> None:
    error = AgentError(message="busy")
    assert ModelRetried(response=ModelResponse(error=error)).error is error


def test_a_default_is_shared_by_no_two_events() -> None:
    one, other = ToolStarted(), ToolStarted()
    assert one.arguments is not other.arguments
    assert AgentResult().metadata is not AgentResult().metadata
