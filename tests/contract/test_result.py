"""AgentResult: what came of a run, whatever came."""

import dataclasses
import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import json_objects, json_values, messages, results
from upshot.contract import (
    AgentError,
    AgentResult,
    Cost,
    ErrorCode,
    FinishReason,
    InterruptCause,
    Json,
    Local,
    Message,
    RunWarning,
    Status,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolTimeout,
    Usage,
    decode,
    encode,
    to_contract,
)
from upshot.errors import Misuse, RunFailed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAILED = AgentError(ErrorCode.TIMEOUT, "too slow")


# ---- status and error


@given(results())
def test_error_status_and_success_never_disagree(result: AgentResult[Json]) -> None:
    assert result.success is (result.error is None) is (result.status is Status.COMPLETED)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.COMPLETED])
def test_any_other_status_needs_an_error(status: Status) -> None:
    with pytest.raises(Misuse, match="needs an error"):
        AgentResult(status=status)
    assert AgentResult(status=status, error=FAILED).error is FAILED


def test_a_completed_run_cannot_carry_an_error() -> None:
    with pytest.raises(ValueError, match="completed cannot carry the error timeout"):
        AgentResult(error=FAILED)


def test_words_given_as_text_become_members() -> None:
    words: dict[str, Any] = {"status": "failed", "finish_reason": "length", "cause": "mine"}
    result: AgentResult[str] = AgentResult(error=FAILED, **words)
    assert result.status is Status.FAILED
    assert result.finish_reason is FinishReason.LENGTH
    assert isinstance(result.cause, InterruptCause)
    assert result.cause == "mine"


# ---- making one


@pytest.mark.parametrize("amount", [0.25, "0.25", Decimal("0.25")], ids=repr)
def test_a_bare_number_is_the_total_cost(amount: Any) -> None:
    assert AgentResult(cost=amount).cost == Cost(total="0.25")


def test_the_end_follows_from_start_and_duration() -> None:
    result: AgentResult[str] = AgentResult(started_at=NOON, duration_ms=1_500)
    assert result.ended_at == NOON + timedelta(seconds=1.5)
    assert AgentResult(duration_ms=5).ended_at is None


def test_moments_need_a_time_zone_and_a_place_in_the_calendar() -> None:
    with pytest.raises(Misuse, match="time zone"):
        AgentResult(started_at=NOON.replace(tzinfo=None))
    with pytest.raises(Misuse, match="out of range"):
        AgentResult(started_at=NOON, duration_ms=10**18)


def test_lists_are_frozen() -> None:
    said: Any = [Message("assistant", "x")]
    warnings: Any = [RunWarning(code="a")]
    result: AgentResult[str] = AgentResult(messages=said, warnings=warnings)
    assert (result.messages, result.warnings) == (tuple(said), tuple(warnings))


def test_usage_is_always_there() -> None:
    assert AgentResult().usage == Usage()
    assert not AgentResult().usage


# ---- what is read from it


def outcome(kind: Any, name: str) -> ToolOutcome:
    why = {"reason": "policy"} if kind is ToolDenied else {}
    return kind(f"call of {name}", name, **why)


def test_tools_used_are_those_that_ran_each_once() -> None:
    outcomes = (
        outcome(ToolExecutionResult, "look"),
        outcome(ToolDenied, "refund"),
        outcome(ToolTimeout, "crawl"),
        outcome(ToolExecutionResult, "look"),
        outcome(ToolFailure, "write"),
        outcome(ToolArtifactReference, "dump"),
    )
    assert AgentResult(tool_outcomes=outcomes).tools_used == ("look", "crawl", "write", "dump")


def test_tools_used_are_in_the_order_of_their_start() -> None:
    records = tuple(
        ToolRecord(
            tool_name=name,
            outcome=outcome(kind, name),
            started_at=None if start is None else NOON + timedelta(seconds=start),
        )
        for name, kind, start in (
            ("slow", ToolExecutionResult, 2),
            ("never", ToolDenied, None),
            ("fast", ToolExecutionResult, 1),
            ("slow", ToolExecutionResult, 0),
        )
    )
    outcomes = tuple(record.outcome for record in records)
    result: AgentResult[str] = AgentResult(tool_outcomes=outcomes, tool_records=records)
    assert result.tools_used == ("slow", "fast")


def test_tools_used_without_all_starts_are_in_the_order_of_settling() -> None:
    records = (
        ToolRecord(tool_name="b", outcome=outcome(ToolExecutionResult, "b"), started_at=NOON),
        ToolRecord(tool_name="a", outcome=outcome(ToolTimeout, "a")),
    )
    outcomes = tuple(record.outcome for record in records)
    result: AgentResult[str] = AgentResult(tool_outcomes=outcomes, tool_records=records)
    assert result.tools_used == ("b", "a")


def test_no_tools_are_none_used() -> None:
    assert AgentResult().tools_used == ()


@given(st.lists(messages(), max_size=3), st.lists(messages(), max_size=3))
def test_all_messages_are_seeded_and_produced(before: list[Message], after: list[Message]) -> None:
    result: AgentResult[str] = AgentResult(messages=tuple(after), seeded=tuple(before))
    assert result.all_messages() == (*before, *after)
    read_elsewhere = pickle.loads(pickle.dumps(result))
    assert read_elsewhere.all_messages() == (*before, *after)
    assert decode(encode(result)).all_messages() == (*before, *after)


def test_raw_and_board_stay_in_the_process() -> None:
    raw, board = object(), object()
    result: AgentResult[str] = AgentResult(local=Local(raw=raw, last_board=board))
    assert (result.raw, result.last_board) == (raw, board)
    assert (AgentResult().raw, AgentResult().last_board) == (None, None)


@given(json_values())
def test_unwrap_gives_the_output(output: Json) -> None:
    assert AgentResult[Json](output=output).unwrap() == output


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"content": "text"}, "text"),
        ({"content": "0", "output": 0}, 0),
        ({}, None),
        ({"content": "null", "run_id": "r"}, None),
    ],
    ids=["text", "both", "nothing", "of a run"],
)
def test_unwrap_gives_the_text_where_there_is_no_other_output(
    fields: dict[str, Any], value: Json
) -> None:
    assert AgentResult[Json](**fields).unwrap() == value


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.COMPLETED])
def test_unwrap_of_any_other_status_raises_with_the_result(status: Status) -> None:
    result: AgentResult[str] = AgentResult(status=status, error=FAILED, output="half")
    with pytest.raises(RunFailed, match=f"{status}: timeout: too slow") as caught:
        result.unwrap()
    assert caught.value.result is result


@pytest.mark.parametrize(
    ("output", "content", "payload"),
    [
        ({"a": 1}, "text", {"a": 1}),
        ([1, 2], "text", {"content": "text"}),
        ("text", "text", {"content": "text"}),
        (None, "", {"content": ""}),
        ([1, 2], None, {}),
        (None, None, {}),
    ],
)
def test_the_payload_is_always_a_mapping(
    output: Json, content: str | None, payload: dict[str, Json]
) -> None:
    assert AgentResult[Json](output=output, content=content).output_payload() == payload


# ---- reading it like a mapping


@given(results())
def test_it_reads_like_the_flat_contract_dict(result: AgentResult[Json]) -> None:
    flat = to_contract(result)
    assert dict(result) == {**result} == flat
    assert list(result) == list(result.keys()) == list(flat)
    assert all(key in result and result.get(key) == flat[key] for key in flat)


def test_the_error_is_read_by_its_keys() -> None:
    result: AgentResult[str] = AgentResult(status=Status.FAILED, error=FAILED)
    assert result["error"]["code"] == "timeout"
    assert result.get("error")["message"] == "too slow"


def test_what_is_absent_is_missing() -> None:
    result: AgentResult[str] = AgentResult(content="x")
    assert "error" not in result
    assert result.get("error") is None
    assert result.get("error", "none") == "none"
    with pytest.raises(KeyError, match="error"):
        result["error"]


@given(json_objects())
def test_changing_what_was_read_changes_nothing(metadata: dict[str, Json]) -> None:
    result: AgentResult[str] = AgentResult(metadata={**metadata, "here": {}})
    result["metadata"]["here"]["new"] = 1
    assert result.metadata["here"] == {}


class _Point(msgspec.Struct):
    x: int


@dataclasses.dataclass
class _Pair:
    a: int


@pytest.mark.parametrize(
    ("output", "payload"),
    [(_Point(1), {"x": 1}), (_Pair(2), {"a": 2}), ([_Point(1)], {"content": "said"})],
    ids=["struct", "dataclass", "list"],
)
def test_a_typed_output_has_the_payload_that_its_json_has(output: Any, payload: Any) -> None:
    result = AgentResult(output=output, content="said")
    assert result.output_payload() == payload
    assert decode(encode(result), AgentResult).output_payload() == payload
