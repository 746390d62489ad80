"""Arguments that are made up from a tool's schema."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Len, Lt, MultipleOf

from upshot import Toolbox, ToolCall, ToolExecutionResult, tool
from upshot.testing.tool_contract import sample_of


class Size(enum.Enum):
    SMALL = "small"


@dataclass
class Place:
    city: str
    zip: int
    note: str = ""


def takes(kind: Any) -> Any:
    def one(given: Any) -> str:
        """Take something."""
        return "taken"

    one.__annotations__["given"] = kind
    return tool(effect="read")(one)


@pytest.mark.parametrize(
    "kind",
    [
        str,
        int,
        float,
        bool,
        date,
        Size,
        Place,
        Literal["a", "b"],
        str | None,
        int | str,
        list[str],
        list[Place],
        dict[str, int],
        tuple[int, str],
        Annotated[int, Gt(0)],
        Annotated[int, Ge(5), Le(7)],
        Annotated[int, Le(-3)],
        Annotated[int, Lt(0)],
        Annotated[float, Gt(0), Lt(0.5)],
        Annotated[int, MultipleOf(4), Gt(4)],
        Annotated[str, Len(3, 5)],
        Annotated[list[int], Len(2, 4)],
    ],
    ids=str,
)
async def test_what_is_made_up_fits_the_schema(kind: Any) -> None:
    subject = takes(kind)
    arguments = sample_of(subject.parameters)
    assert list(arguments) == ["given"]
    (outcome,) = await Toolbox([subject]).dispatch([ToolCall("c", subject.name, arguments)])
    assert isinstance(outcome, ToolExecutionResult), outcome


def test_only_what_is_required_is_made_up() -> None:
    @tool(effect="read")
    def one(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert sample_of(one.parameters) == {"a": 1}


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    schema: Any = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}
    assert "a" in sample_of(schema)


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"required": ["a"]}, {"$ref": "#/no"}])
def test_what_names_no_arguments_gives_none(schema: Any) -> None:
    assert sample_of(schema) == {}
