"""Signals: a run ends as its engine says, whatever stands beside the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from upshot import Aborted, Agent, AgentResult, Failed, ScriptEngine, Status, decode, encode, run


class Odd: ...


class Itself(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()
        self["self"] = self


async def ended_by(signal: Exception) -> AgentResult[Any]:
    async def script(run: Any, host: Any, board: Any) -> None:
        raise signal

    return await run(Agent("a", engine=ScriptEngine(script)), "Go.")


@pytest.mark.parametrize(
    ("details", "kept", "places"),
    [
        ({"odd": Odd(), "n": 1}, {"odd": "an Odd", "n": 1}, ["/odd"]),
        ({"cause": ValueError("secret")}, {"cause": "a ValueError"}, ["/cause"]),
        ({"n": float("nan"), "t": "\ud800"}, {"n": None, "t": "\ufffd"}, ["/n", "/t"]),
        ({"deep": Itself()}, {"deep": "an Itself"}, ["/deep"]),
        ({(1, 2): 3}, {"(1, 2)": "an int"}, ["/(1, 2)"]),
        ([1, 2], {"details": [1, 2]}, []),
        ({1: {2}}, {"1": [2]}, []),
        (None, {}, []),
    ],
    ids=["object", "exception", "lossy", "itself", "key", "list", "set", "none"],
)
async def test_details_that_are_no_json_cost_a_failure_no_code(
    details: Any, kept: Any, places: list[str]
) -> None:
    result = await ended_by(Failed("sold_out", "None is left.", details=details))
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("sold_out", "None is left.")
    assert result.error.details == kept
    told = [(one.code, one.message.partition(" holds")[0]) for one in result.warnings]
    assert told == [("lossy_value", f"details{place}") for place in places]
    assert decode(encode(result)) == result


async def test_a_failure_in_a_group_of_tasks_warns_too() -> None:
    async def fail() -> None:
        raise Failed("sold_out", "None is left.", details={"odd": Odd()})

    async def script(run: Any, host: Any, board: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    result = await run(Agent("a", engine=ScriptEngine(script)), "Go.")
    assert [warning.code for warning in result.warnings] == ["lossy_value"]


@pytest.mark.parametrize("signal", [Failed, lambda code, message: Aborted(message, code)])
async def test_an_exception_as_message_is_its_text(signal: Any) -> None:
    result = await ended_by(signal("sold_out", ValueError("None is left.")))
    assert result.error is not None
    assert result.status in (Status.FAILED, Status.ABORTED)
    assert (result.error.code, result.error.message) == ("sold_out", "None is left.")
