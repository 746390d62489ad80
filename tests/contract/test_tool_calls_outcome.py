"""Tool outcomes: a closed union of five."""

from typing import Any, get_args

import pytest
from hypothesis import given

from tests.contract.strategies import outcomes
from upshot.contract import (
    DeniedReason,
    Effect,
    ErrorCode,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    outcome_blocks_tool,
    outcome_is_error,
    outcome_is_retryable,
)

FIVE: list[tuple[Any, str, Effect]] = [
    (ToolExecutionResult, "tool_execution_result", Effect.APPLIED),
    (ToolTimeout, "tool_timeout", Effect.UNKNOWN),
    (ToolFailure, "tool_failure", Effect.UNKNOWN),
    (ToolDenied, "tool_denied", Effect.NONE),
    (ToolArtifactReference, "tool_artifact_reference", Effect.APPLIED),
]


def test_there_are_five() -> None:
    assert set(get_args(ToolOutcome)) == {outcome for outcome, _, _ in FIVE}


@pytest.mark.parametrize(("outcome", "kind", "effect"), FIVE, ids=[kind for _, kind, _ in FIVE])
def test_an_outcome_needs_no_more_than_call_and_tool(
    outcome: Any, kind: str, effect: Effect
) -> None:
    why = {"reason": "policy"} if outcome is ToolDenied else {}
    made = outcome("c1", "look", **why)
    assert (made.call_id, made.tool_name, made.kind) == ("c1", "look", kind)
    assert (made.effect, made.code) == (effect, None)


def test_a_denial_says_why() -> None:
    with pytest.raises(TypeError, match="reason"):
        ToolDenied("c1", "look")  # pyright: ignore[reportCallIssue]  # what is tested


@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize("outcome", [ToolTimeout, ToolFailure])
def test_a_timeout_or_failure_is_an_error_that_blocks_if_it_is_final(
    outcome: Any, retryable: bool
) -> None:
    made = outcome("c1", "look", retryable=retryable)
    assert outcome_is_error(made)
    assert outcome_is_retryable(made) is retryable
    assert outcome_blocks_tool(made) is not retryable


@given(outcomes())
def test_no_outcome_is_both_retryable_and_blocking(outcome: ToolOutcome) -> None:
    flags = (outcome_is_retryable(outcome), outcome_blocks_tool(outcome))
    assert sum(flags) == int(outcome_is_error(outcome))


@pytest.mark.parametrize("outcome", [ToolTimeout, ToolFailure])
def test_timeouts_and_failures_may_be_retried_unless_they_say_no(outcome: Any) -> None:
    assert outcome("c1", "look").retryable is True


def test_words_given_as_text_become_members() -> None:
    failure: Any = ToolFailure("c", "t", code="interrupted", effect="none")
    assert failure.effect is Effect.NONE
    assert failure.code is ErrorCode.INTERRUPTED
    denied: Any = ToolDenied("c", "t", reason="my_gate")
    assert isinstance(denied.reason, DeniedReason)
