"""Budget: what a run may use."""

import re
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from upshot.contract import Budget
from upshot.errors import Misuse


def test_the_defaults_are_those_of_the_contract() -> None:
    budget = Budget()
    assert (budget.max_turns, budget.max_depth, budget.tool_timeout_s) == (50, 8, 45)
    assert budget.unpriced == "refuse"
    unlimited = ("deadline_s", "max_tool_calls", "max_calls_per_tool", "max_tokens", "max_cost_usd")
    assert {getattr(budget, name) for name in unlimited} == {None}


def test_money_is_exact() -> None:
    cents: Any = 0.1
    assert Budget(max_cost_usd=cents).max_cost_usd == Decimal("0.1")


LIMITS = [name for name in Budget.__struct_fields__ if name not in ("scope", "unpriced")]


@pytest.mark.parametrize("limit", [-1, -0.5, float("nan")], ids=str)
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_below_zero_or_no_number_is_misuse(name: str, limit: float) -> None:
    with pytest.raises(Misuse):
        Budget(**{name: limit})


@pytest.mark.parametrize("name", LIMITS)
def test_none_is_no_limit_and_zero_is_one(name: str) -> None:
    assert getattr(Budget(**{name: None}), name) is None
    assert getattr(Budget(**{name: 0}), name) == 0


@pytest.mark.parametrize("limit", ["5", True, [1]], ids=str)
def test_a_limit_that_is_no_number_is_misuse(limit: Any) -> None:
    with pytest.raises(Misuse, match=r"Budget\(max_turns=.*\): expected int"):
        Budget(max_turns=limit)


def test_what_to_do_without_a_price_is_one_of_two_words() -> None:
    word: Any = "maybe"
    with pytest.raises(Misuse, match="maybe"):
        Budget(unpriced=word)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_turn": 1}, "Budget has no field 'max_turn': did you mean 'max_turns'?"),
        ({"zzz": 1}, "Budget has no field 'zzz': it has deadline_s"),
        ({"max_turns": "5"}, "max_turns"),
        ({"max_turns": 1.5}, "max_turns"),
        ({"max_tool_calls": True}, "max_tool_calls"),
        ({"deadline_s": "5"}, "deadline_s"),
        ({"unpriced": "no"}, "unpriced"),
    ],
    ids=str,
)
def test_what_is_misspelt_or_of_another_type_is_misuse(fields: Any, said: str) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        Budget(**fields)


def test_a_budget_takes_keywords_only() -> None:
    several: Any = [5]
    with pytest.raises(Misuse, match="keywords only, such as deadline_s="):
        Budget(*several)


def test_a_field_of_a_later_version_is_passed_over_where_it_is_read() -> None:
    assert msgspec.json.decode(b'{"max_turns":3,"max_dreams":1}', type=Budget).max_turns == 3
