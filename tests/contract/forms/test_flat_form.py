"""The flat contract dict: nine keys, plain values, absent where unknown."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from tests.contract.strategies import results
from upshot.contract import (
    AgentError,
    AgentResult,
    Cost,
    Effect,
    Json,
    RateLimitState,
    RateLimitWindow,
    Text,
    Usage,
    from_contract,
    to_contract,
)
from upshot.contract.result import FLAT_KEYS, plain
from upshot.native.returned import coerce_result


@given(results())
def test_it_has_only_the_keys_of_the_contract_and_plain_values(result: AgentResult[Json]) -> None:
    form = to_contract(result)
    assert set(form) <= set(FLAT_KEYS)
    assert json.loads(json.dumps(form)) == form


def test_an_empty_result_is_an_empty_dict() -> None:
    assert to_contract(AgentResult()) == {}


def test_money_is_a_float() -> None:
    form: Any = to_contract(AgentResult(cost=Cost(input="0.1", output="0.2")))
    assert form["cost"]["input"] == 0.1
    assert form["cost"]["total"] == 0.3
    assert type(form["cost"]["total"]) is float


def test_the_output_is_told_where_it_is_not_the_text() -> None:
    text: AgentResult[Json] = AgentResult(output="x", content="x")
    table: AgentResult[Json] = AgentResult(output={"a": None}, content='{"a": null}')
    falsy: AgentResult[Json] = AgentResult(output=False, content="no")
    assert to_contract(text) == {"content": "x"}
    assert to_contract(table) == {"output": {"a": None}, "content": '{"a": null}'}
    assert to_contract(falsy)["output"] is False


def test_usage_and_windows_are_plain() -> None:
    windows = (RateLimitWindow(name="tokens", remaining=0),)
    result: AgentResult[str] = AgentResult(
        usage=Usage(input_tokens=1, output_tokens=2),
        rate_limit=RateLimitState(limited=True, retry_after=3, windows=windows),
    )
    assert to_contract(result) == {
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        "rate_limit": {
            "limited": True,
            "retry_after": 3,
            "windows": [{"name": "tokens", "resource": "requests", "remaining": 0}],
        },
    }


def test_plain_makes_builtins_of_anything_in_a_result() -> None:
    assert plain((Text("\ud800"), Decimal("0.5"), Effect.READ, float("nan"))) == [
        {"kind": "text", "text": "\ufffd"},
        0.5,
        "read",
        None,
    ]


LIMIT = AgentError("rate_limit", "Too many.", status_code=429)


@pytest.mark.parametrize(
    "told",
    [
        {"error": {"code": "rate_limit", "message": "Too many."}},
        {"error": {"code": "rate_limit", "message": "m"}, "rate_limit": {"limited": False}},
        {"success": False, "more": 1, "error": {"code": "rate_limit", "message": "m"}},
        LIMIT,
    ],
)
def test_an_error_that_says_rate_limit_makes_the_result_limited(told: Any) -> None:
    result = coerce_result(told)
    assert result.rate_limit is not None
    assert result.rate_limit.limited


def test_the_flat_form_of_a_rate_limit_error_is_limited() -> None:
    form = to_contract(AgentResult[Any](status="failed", error=LIMIT))
    assert form["rate_limit"] == {"limited": True}
    read = from_contract({"error": {"code": "timeout", "message": "m"}})
    assert read.rate_limit is None
