"""From how a body ended to an outcome."""

import asyncio
import dataclasses
import datetime
from collections.abc import Iterator
from typing import Any

import msgspec
import pydantic
import pytest

from upshot.contract import (
    Budget,
    Effect,
    Text,
    ToolCall,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    outcome_to_model_content,
)
from upshot.testing import FakeClock
from upshot.tools import Toolbox, ToolError, tool


@dataclasses.dataclass
class Data:
    x: int


class Struct(msgspec.Struct):
    x: int


class Model(pydantic.BaseModel):
    x: int


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


async def outcome_of(value: Any, **options: Any) -> ToolOutcome:
    """What comes of a tool that returns or raises *value*."""

    @tool(**options)
    async def f() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value() if callable(value) else value

    return (await Toolbox([f]).dispatch([ToolCall("1", "f")]))[0]


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ({"a": 1}, {"a": 1}),
        ({}, {}),
        (None, {"result": None}),
        (7, {"result": 7}),
        ("text", {"result": "text"}),
        ([1, "a"], {"result": [1, "a"]}),
        ((1, 2), {"result": [1, 2]}),
        (Data(1), {"x": 1}),
        (Struct(1), {"x": 1}),
        (Model(x=1), {"x": 1}),
        ([Data(1)], {"result": [{"x": 1}]}),
        (datetime.date(2020, 1, 2), {"result": "2020-01-02"}),
        (Text("hi"), {"result": {"kind": "text", "text": "hi"}}),
        (10**40, {"result": 10**40}),
    ],
    ids=str,
)
async def test_values_become_objects(value: Any, output: Any):
    outcome = await outcome_of(value)
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == output


async def test_what_json_cannot_hold_is_replaced_and_listed():
    @tool
    async def f() -> Any:
        return {"a": float("nan"), "b": ["\ud800"]}

    box = Toolbox([f])
    outcome = (await box.dispatch([ToolCall("1", "f")]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"a": None, "b": ["\ufffd"]}
    assert box.records[0].lossy == ("/a", "/b/0")


async def later() -> int:
    return 7


def a_generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("value", [a_generator, object, lambda: {"a": open}, lambda: map(str, "a")])
async def test_what_cannot_be_serialised_is_a_final_failure(value: Any):
    outcome = await outcome_of(value)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect) == ("unserializable_output", Effect.APPLIED)
    assert not outcome.retryable


async def test_a_coroutine_returned_by_a_plain_function_is_waited_for():
    @tool
    def f() -> Any:
        return later()

    outcome = (await Toolbox([f]).dispatch([ToolCall("1", "f")]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": 7}


@pytest.mark.parametrize(
    ("error", "text", "retryable", "code"),
    [
        (ValueError("bad\n  input"), "ValueError: bad input", True, None),
        (KeyError(), "KeyError", True, None),
        (Unprintable(), "Unprintable", True, None),
        (ToolError("no stock"), "no stock", True, None),
        (ToolError("gone", code="gone", retryable=False), "gone", False, "gone"),
        (SystemExit(2), "SystemExit: 2", False, "cancelled"),
    ],
    ids=repr,
)
async def test_what_is_raised_is_a_failure(
    error: BaseException, text: str, retryable: bool, code: str | None
):
    outcome = await outcome_of(error)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.error, outcome.retryable, outcome.code) == (text, retryable, code)
    assert "Traceback" not in outcome_to_model_content(outcome)


async def test_a_wait_that_a_tool_asks_for_is_kept():
    outcome = await outcome_of(ToolError("busy", retry_after_s=2.5))
    assert isinstance(outcome, ToolFailure)
    assert outcome.retry_after_s == 2.5


@pytest.mark.parametrize(
    ("value", "failed", "retryable"),
    [
        ({"error": "no"}, True, True),
        ({"error": "no", "retryable": False}, True, False),
        ({"error": {"why": 1}}, True, True),
        ({"error": None, "a": 1}, False, True),
        ({"error": ""}, False, True),
        ({"error": []}, False, True),
    ],
    ids=str,
)
async def test_a_truthy_error_in_a_mapping_is_a_failure(value: Any, failed: bool, retryable: bool):
    outcome = await outcome_of(value)
    assert isinstance(outcome, ToolFailure) is failed
    assert not failed or outcome.retryable is retryable  # type: ignore[union-attr]


async def test_the_error_key_can_be_another_or_none():
    assert isinstance(await outcome_of({"fault": "x"}, error_key="fault"), ToolFailure)
    assert isinstance(await outcome_of({"error": "x"}, error_key=None), ToolExecutionResult)


async def test_a_very_long_message_is_cut():
    outcome = await outcome_of(ValueError("x" * 100_000))
    assert isinstance(outcome, ToolFailure)
    assert len(outcome.error) == 2_000


@pytest.mark.parametrize(
    ("options", "returned", "raised"),
    [
        ({"effect": "read"}, Effect.NONE, Effect.NONE),
        ({"effect": "write"}, Effect.APPLIED, Effect.UNKNOWN),
        ({}, Effect.APPLIED, Effect.UNKNOWN),
        ({"effect": "destructive", "approval": False}, Effect.APPLIED, Effect.UNKNOWN),
    ],
    ids=str,
)
async def test_the_effect_follows_from_what_the_tool_declares(
    options: Any, returned: Effect, raised: Effect
):
    assert (await outcome_of(1, **options)).effect is returned
    assert (await outcome_of(ValueError(), **options)).effect is raised


@pytest.mark.parametrize(
    ("options", "effect", "retryable"),
    [
        ({"effect": "read"}, Effect.NONE, True),
        ({"effect": "write"}, Effect.UNKNOWN, False),
        ({}, Effect.UNKNOWN, False),
        ({"idempotent": True}, Effect.UNKNOWN, True),
        ({"retry_on_timeout": True}, Effect.UNKNOWN, True),
        ({"effect": "read", "retry_on_timeout": False}, Effect.NONE, False),
    ],
    ids=str,
)
async def test_a_timeout_may_be_repeated_only_where_that_is_safe(
    options: Any, effect: Effect, retryable: bool
):
    @tool(timeout_s=0.01, **options)
    async def f() -> None:
        await asyncio.Event().wait()

    outcome = (await Toolbox([f]).dispatch([ToolCall("1", "f")]))[0]
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.effect, outcome.retryable) == (effect, retryable)
    assert (outcome.timeout_s, outcome.stopped) == (0.01, True)


@pytest.mark.parametrize(("passed_s", "kind"), [(9.0, ToolFailure), (11.0, ToolTimeout)])
async def test_a_stop_after_the_deadline_is_a_timeout_whoever_stops_it(passed_s: float, kind: type):
    clock = FakeClock()

    @tool(effect="read")
    async def work() -> None:
        clock.advance(passed_s)
        box.cancel()
        await asyncio.Event().wait()

    box = Toolbox([work], budget=Budget(deadline_s=10), clock=clock)
    (outcome,) = await box.dispatch([ToolCall("1", "work")])
    assert isinstance(outcome, kind)
