"""What values look like to a person."""

from __future__ import annotations

import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given

import upshot
from tests.contract import strategies
from upshot.contract import (
    AgentError,
    AgentResult,
    BoardChanged,
    Cost,
    DeniedReason,
    ErrorCode,
    GateVerdict,
    Message,
    PendingApproval,
    RunSettled,
    Status,
    TextDelta,
    ToolCall,
    ToolExecutionResult,
    ToolRecord,
    ToolSettled,
    Usage,
)
from upshot.contract.base.structs import Value

NAMES: dict[str, Any] = {
    **{name: getattr(upshot, name) for name in upshot.__all__},
    "datetime": datetime,
    "Decimal": Decimal,
    "inf": float("inf"),
}


@given(strategies.messages())
def test_a_value_looks_like_what_makes_it(message: Message) -> None:
    assert eval(repr(message), NAMES) == message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Usage(), "Usage()"),
        (
            Usage(input_tokens=3, output_tokens=4),
            "Usage(input_tokens=3, output_tokens=4, total_tokens=7)",
        ),
        (AgentError(ErrorCode.TIMEOUT, "Late."), "code=ErrorCode.TIMEOUT, message='Late.'"),
        (ToolCall("c", "f", {}), "ToolCall(id='c', name='f')"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_goes_without_saying_is_not_said(value: object, shown: str) -> None:
    assert repr(value) in (shown, f"AgentError({shown})")


def test_a_field_that_only_equals_its_default_is_shown() -> None:
    class Odd(Value, frozen=True):
        number: Any = 0

    assert repr(Odd(number=False)) == "Odd(number=False)"


def test_a_value_whose_annotations_cannot_be_resolved_is_shown_all_the_same() -> None:
    class Half(Value, frozen=True):
        number: Any = 0

    Half.__annotations__["number"] = "Nowhere"
    assert repr(Half(number=1)) == "Half(number=1)"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (Status.FAILED, "Status.FAILED"),
        (ErrorCode.INTERNAL, "ErrorCode.INTERNAL"),
        (ErrorCode("sold_out"), "ErrorCode('sold_out')"),
        (DeniedReason("BLOCKED"), "DeniedReason('BLOCKED')"),
    ],
)
def test_words_look_alike_and_like_what_makes_them(word: StrEnum, shown: str) -> None:
    assert repr(word) == shown
    assert eval(shown, NAMES) == word
    assert str(word) == f"{word}" == word.value


def test_a_result_is_one_line_of_what_a_person_asks_first() -> None:
    result = AgentResult(
        content="Order 7 is shipped. " * 50,
        messages=(Message("user", "?"), Message("assistant", "!")),
        tool_outcomes=(ToolExecutionResult("c", "f"),),
        usage=Usage(input_tokens=30, output_tokens=9),
        cost=Cost(total=Decimal("0.002")),
        duration_ms=12,
        run_id="run-1",
    )
    shown = repr(result)
    assert shown.startswith("AgentResult(completed, 'Order 7 is shipped. Order 7")
    assert shown.endswith("', 2 messages, 1 tool call, 39 tokens, 0.002 USD, 12 ms, run-1)")
    assert len(shown) < 200


def test_a_result_says_why_it_failed() -> None:
    error = AgentError(ErrorCode.RATE_LIMIT, "Too many. " * 50)
    shown = repr(AgentResult(status=Status.FAILED, error=error))
    assert shown.startswith("AgentResult(failed: rate_limit: Too many. Too many.")
    assert shown.endswith("...)") and len(shown) < 130


def test_a_result_says_what_it_waits_for_and_what_it_gave() -> None:
    error = AgentError(ErrorCode.INPUT_REQUIRED, "Wait.")
    pending = (PendingApproval(call_id="c1"),)
    parked = AgentResult[str](status=Status.INPUT_REQUIRED, error=error, pending=pending)
    assert repr(parked) == "AgentResult(input_required: Wait., waits for 'c1')"
    assert repr(AgentResult(output={"n": 1})) == "AgentResult(completed, output={'n': 1})"


class Array:
    """What no comparison says anything of, as with arrays."""

    def __eq__(self, other: object) -> Any:
        return self

    __ne__ = __eq__
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array is ambiguous")

    def __repr__(self) -> str:
        return "array([1, 2])"


def test_an_output_that_cannot_be_compared_is_shown() -> None:
    assert repr(AgentResult(output=Array())) == "AgentResult(completed, output=array([1, 2]))"


def test_a_field_that_cannot_be_compared_with_its_default_is_shown() -> None:
    usual = Array()

    class Odd(Value, frozen=True):
        grid: Any = usual

    assert repr(Odd(grid=Array())) == "Odd(grid=array([1, 2]))"
    assert repr(Odd()) == "Odd()"


def test_an_event_is_shown_by_its_place_and_what_it_tells() -> None:
    now = datetime.datetime.now(datetime.UTC)
    event = TextDelta(run_id="run-1", attempt=1, time=now, seq=3, part=2, text="It ")
    assert repr(event) == "TextDelta(seq=3, part=2, text='It ')"


def test_long_texts_and_lists_in_an_event_are_cut() -> None:
    messages = tuple(Message("user", "word " * 1000) for _ in range(100))
    assert len(repr(BoardChanged(seq=1, messages=messages))) < 600


def test_a_record_in_an_event_shows_the_call_and_what_came_of_it() -> None:
    record = ToolRecord(
        run_id="run-1",
        call_id="c1",
        tool_name="look",
        arguments_given={"id": "7"},
        trace=(GateVerdict(gate="deadline"),) * 12,
        idempotency_key="5f" * 32,
        outcome=ToolExecutionResult("c1", "look", output={"n": 1}),
    )
    assert repr(ToolSettled(seq=8, record=record)) == (
        "ToolSettled(seq=8, record=ToolRecord(call_id='c1', tool_name='look', "
        "arguments_given={'id': '7'}, outcome=ToolExecutionResult(call_id='c1', "
        "tool_name='look', output={'n': 1})))"
    )


def test_a_result_in_an_event_is_shown_as_a_result() -> None:
    assert repr(RunSettled(seq=2, result=AgentResult(content="x"))) == (
        "RunSettled(seq=2, result=AgentResult(completed, 'x'))"
    )


def test_a_deep_value_ends() -> None:
    data: Any = {}
    for _ in range(50):
        data = {"in": data}
    shown = repr(ToolSettled(record=ToolRecord(arguments_given=data, outcome=_done())))
    assert "..." in shown and len(shown) < 400


def _done() -> ToolExecutionResult:
    return ToolExecutionResult("c", "f")


def test_rich_shows_no_defaults_either() -> None:
    assert isinstance(Usage(), msgspec.Struct)
    assert list(Usage(input_tokens=3).__rich_repr__()) == [("input_tokens", 3)]
