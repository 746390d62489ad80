"""Output types: what describes an answer, and what it becomes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import msgspec
import pydantic
import pytest

from upshot import Agent, AgentResult, ScriptedModel, ScriptEngine, decode, encode, run
from upshot.runs.plan import OutputType


class Item(pydantic.BaseModel):
    name: str
    day: dt.date


class Strict(pydantic.BaseModel, strict=True):
    day: dt.date


@dataclass
class Order:
    items: list[Item]


class Branch(msgspec.Struct):
    name: str
    parts: list[Branch]


class Leaf(msgspec.Struct):
    name: str


DAY = dt.date(2026, 1, 2)
ITEM = {"name": "pen", "day": "2026-01-02"}
PEN = Item(name="pen", day=DAY)


@pytest.mark.parametrize(
    ("output_type", "answer", "built"),
    [
        pytest.param(list[Item], [ITEM], [PEN], id="list"),
        pytest.param(dict[str, Item], {"a": ITEM}, {"a": PEN}, id="mapping"),
        pytest.param(Item | None, None, None, id="optional"),
        pytest.param(Order, {"items": [ITEM]}, Order([PEN]), id="in a dataclass"),
        pytest.param(Strict, {"day": "2026-01-02"}, Strict(day=DAY), id="strict"),
    ],
)
async def test_models_of_pydantic_may_stand_anywhere_in_an_output_type(
    output_type: Any, answer: Any, built: Any
) -> None:
    model = ScriptedModel([msgspec.json.encode(answer).decode()])
    result: AgentResult[Any] = await run(Agent("a", model=model, output_type=output_type), "?")
    assert result.output == built
    assert decode(encode(result), AgentResult).content == result.content


def test_what_does_not_fit_is_told_as_a_fault_of_the_answer() -> None:
    with pytest.raises(ValueError, match=r"form asked for: /0/name: Field required$"):
        OutputType.of(list[Item]).build([{"day": "2026-01-02"}])


async def test_an_output_that_an_engine_set_has_to_fit_too() -> None:
    engine = ScriptEngine(lambda run, host, board: board.set("output", {"name": "pen"}))
    result: AgentResult[Any] = await run(Agent("a", engine=engine, output_type=Item), "?")
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "invalid_output")
    assert "Field required" in result.error.message


def test_a_type_that_holds_itself_has_a_schema_that_can_be_followed() -> None:
    schema = OutputType.of(Branch).schema
    assert schema is not None
    check = jsonschema_rs.validator_for(schema)
    assert check.is_valid({"name": "a", "parts": [{"name": "b", "parts": []}]})
    assert not check.is_valid({"name": "a", "parts": [{"name": 1, "parts": []}]})
    assert "$defs" not in (OutputType.of(Leaf).schema or {})


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(Exception, match="has no JSON Schema"):
        OutputType.of(list[object.__class__])
