"""Plain functions round async ones."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from upshot.contract import ToolCall, ToolExecutionResult, ToolFailure, ToolTimeout
from upshot.tools import Tool, Toolbox, tool


async def double(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


async def fail(n: int) -> int:
    raise ValueError(f"not {n}")


async def hang(n: int) -> int:
    await asyncio.Event().wait()
    return n


def wrapped(function: Callable[..., Awaitable[int]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def in_a_loop_of_its_own(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return wrapper


async def outcome_of(one: Tool) -> Any:
    return (await Toolbox([one]).dispatch([ToolCall("1", one.name, {"n": 2})]))[0]


SCHEMA: Any = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "one",
    [
        tool(effect="read")(wrapped(double)),
        tool(effect="read")(in_a_loop_of_its_own(double)),
        tool(name="double", effect="read")(lambda n: double(int(n))),
        Tool.from_schema("double", "", SCHEMA, lambda given: double(given["n"]), effect="read"),
    ],
    ids=["wraps", "own loop", "lambda", "raw schema"],
)
async def test_what_an_async_function_gives_is_waited_for(one: Tool):
    outcome = await outcome_of(one)
    assert isinstance(outcome, ToolExecutionResult), outcome
    assert outcome.output == {"result": 4}


async def test_what_it_raises_is_the_failure_of_the_call():
    outcome = await outcome_of(tool(wrapped(fail)))
    assert isinstance(outcome, ToolFailure)
    assert "not 2" in outcome.error


async def test_it_ends_with_its_time():
    outcome = await outcome_of(tool(effect="read", timeout_s=0.02)(wrapped(hang)))
    assert isinstance(outcome, ToolTimeout)
    assert outcome.stopped
