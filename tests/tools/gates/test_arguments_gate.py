"""The gate on arguments."""

import datetime
from typing import Any

import pydantic

from upshot.contract import (
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
    outcome_to_model_content,
)
from upshot.tools import Tool, Toolbox, tool


@tool(effect="read")
async def book(day: datetime.date, seats: int = 1) -> Any:
    return {"day": day, "seats": seats}


async def call(one: Tool, arguments: Any) -> tuple[ToolOutcome, Any]:
    box = Toolbox([one])
    return (await box.dispatch([ToolCall("1", one.name, arguments)]))[0], box.records[0]


async def test_bad_arguments_are_denied_with_all_faults():
    outcome, record = await call(book, '{"day": "soon", "seats": "two"}')
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "validation"
    content = outcome_to_model_content(outcome)
    assert '"error":"argument_validation_failed"' in content
    assert "/day" in content
    assert "/seats" in content
    assert record.gate == "arguments"


async def test_what_the_type_refuses_is_the_same_denial():
    @tool(effect="read")
    async def at(moment: datetime.datetime) -> str:
        return moment.isoformat()

    outcome, _ = await call(at, {"moment": "soon"})
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.details[:8]) == ("validation", "/moment:")


async def test_coerced_arguments_reach_the_body_and_are_recorded():
    outcome, record = await call(book, {"day": "2020-01-02", "seats": "2"})
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"day": "2020-01-02", "seats": 2}
    assert outcome.was_coerced
    assert [change.path for change in record.coercions] == ["/seats"]
    assert record.arguments_given == {"day": "2020-01-02", "seats": "2"}
    assert record.arguments_executed == {"day": "2020-01-02", "seats": 2}


async def test_nothing_changed_is_not_coerced():
    outcome, record = await call(book, {"day": "2020-01-02"})
    assert isinstance(outcome, ToolExecutionResult)
    assert not outcome.was_coerced
    assert record.arguments_validated == {"day": "2020-01-02", "seats": 1}


async def test_a_body_that_changes_its_arguments_does_not_change_the_record():
    @tool(effect="read")
    async def spoil(items: list[Any]) -> int:
        items.append(1)
        return len(items)

    _, record = await call(spoil, {"items": []})
    assert record.arguments_executed == {"items": []}


async def test_a_raw_schema_takes_the_same_path():
    schema: Any = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "m": {"type": "integer", "default": 3}},
        "required": ["n"],
    }
    one = Tool.from_schema("raw", "", schema, lambda arguments: arguments, effect="read")
    outcome, record = await call(one, '{"n": "1"}')
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"n": 1}
    assert record.arguments_validated == {"n": 1, "m": 3}


async def test_a_gate_that_breaks_does_not_look_like_a_rule_that_denies():
    @tool(effect="read", resources=lambda arguments: [arguments["missing"]])
    async def broken(a: int) -> int:
        return a

    outcome, _ = await call(broken, {"a": 1})
    assert isinstance(outcome, ToolDenied)
    assert outcome.code == "internal"
    assert "KeyError" in outcome.details


async def test_what_a_type_says_of_many_items_is_cut():
    class Word(pydantic.BaseModel):
        text: str

        @pydantic.field_validator("text")
        @classmethod
        def refuse(cls, text: str) -> str:
            raise ValueError(text)

    async def read(words: Any) -> int:
        return len(words)

    read.__annotations__["words"] = list[Word]
    outcome, _ = await call(tool(effect="read")(read), {"words": [{"text": "x" * 99}] * 900})
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "validation"
    assert len(outcome.details) < 5_000
