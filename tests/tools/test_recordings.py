"""Calls as models really write them: nested, optional, numbers and booleans as text."""

import json
from typing import Any

import pytest

from upshot.contract import ToolCall, ToolDenied, ToolExecutionResult
from upshot.tools import Tool, Toolbox

FLIGHTS: Any = {
    "type": "object",
    "properties": {
        "from": {"type": "string"},
        "stops": {"type": "array", "items": {"type": "string", "enum": ["OSL", "CPH", "ARN"]}},
        "passengers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "age": {"type": "integer", "minimum": 0},
                    "vegan": {"type": "boolean", "default": False},
                    "bags": {"type": ["integer", "null"]},
                },
                "required": ["age"],
            },
        },
        "budget": {
            "type": "object",
            "properties": {"most": {"type": "number"}, "currency": {"enum": ["EUR", "NOK"]}},
            "required": ["most"],
            "additionalProperties": False,
        },
        "direct": {"type": "boolean"},
        "limit": {"type": "integer", "default": 10, "maximum": 50},
        "note": {"type": "string"},
    },
    "required": ["from", "passengers"],
    "additionalProperties": False,
}
LEAST: Any = {"from": "OSL", "passengers": [{"age": 30}]}


async def outcome_of(arguments: Any) -> Any:
    search = Tool.from_schema(
        "travel.flights.search", "", FLIGHTS, lambda given: {"got": given}, effect="read"
    )
    call = ToolCall("1", "travel.flights.search", arguments)
    return (await Toolbox([search]).dispatch([call]))[0]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({"direct": "True"}, {"direct": True}),
        ({"direct": "false"}, {"direct": False}),
        ({"limit": "5"}, {"limit": 5}),
        ({"limit": 5.0}, {"limit": 5}),
        ({"limit": None}, {}),
        ({"direct": None, "budget": None, "stops": None}, {}),
        ({"stops": "OSL"}, {"stops": ["OSL"]}),
        ({"stops": ["osl", "Cph"]}, {"stops": ["OSL", "CPH"]}),
        ({"stops": '["OSL", "ARN"]'}, {"stops": ["OSL", "ARN"]}),
        ({"budget": '{"most": "99.50", "currency": "eur"}'},
         {"budget": {"most": 99.5, "currency": "EUR"}}),
        ({"budget": {"most": 99, "currency": None}}, {"budget": {"most": 99}}),
        ({"passengers": [{"age": "30", "vegan": "TRUE", "bags": None}, {"age": 4.0}]},
         {"passengers": [{"age": 30, "vegan": True, "bags": None}, {"age": 4}]}),
        ({"passengers": {"age": 30}}, {"passengers": [{"age": 30}]}),
        ({"note": "5"}, {"note": "5"}),
        ({"note": ""}, {"note": ""}),
    ],
    ids=lambda value: json.dumps(value)[:40],
)  # fmt: skip
@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
async def test_what_can_be_read_in_one_way_reaches_the_tool(given: Any, used: Any, as_text: bool):
    arguments = {**LEAST, **given}
    outcome = await outcome_of(json.dumps(arguments) if as_text else arguments)
    assert isinstance(outcome, ToolExecutionResult), outcome
    expected = {key: value for key, value in LEAST.items() if key not in given} | used
    assert outcome.output == {"got": expected}
    # Equal is not enough: 4.0 equals 4.
    got: Any = outcome.output["got"]
    assert repr(got["passengers"]) == repr(expected["passengers"])


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"limit": "ten"}, "/limit"),
        ({"limit": 5.5}, "/limit"),
        ({"limit": "51"}, "/limit: 51 is greater"),
        ({"limit": True}, "/limit"),
        ({"direct": "yes"}, "/direct"),
        ({"direct": 1}, "/direct"),
        ({"stops": "OSL, CPH"}, "/stops"),
        ({"stops": ["OSL", "JFK"]}, "/stops/1"),
        ({"stops": "[OSL, CPH]"}, "/stops"),
        ({"budget": {"currency": "EUR"}}, "/budget/most: is required"),
        ({"budget": {"most": "1,000"}}, "/budget/most"),
        ({"budget": {"most": None}}, "/budget/most: null"),
        ({"passengers": [{"age": None}]}, "/passengers/0/age: null"),
        ({"passengers": "2"}, "/passengers"),
        ({"from": None}, "/from: null"),
        ({"note": 5}, "/note"),
        ({"Limit": 5}, "did you mean limit?"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_would_be_a_guess_is_denied_with_its_place(given: Any, place: str):
    outcome = await outcome_of({**LEAST, **given})
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "validation"
    assert place in outcome.details
