"""Tokens and money: sums that neither round nor take the unknown for nothing."""

import decimal
import pickle
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import money, structs, usages
from upshot.contract import AgentResult, Cost, ModelResponse, Usage
from upshot.errors import Misuse

COUNTS = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "input_audio_tokens",
    "output_audio_tokens",
]
PARTS = ["input", "output", "cache_read", "cache_write", "other"]


# ---- tokens


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    ("one", "other", "both"), [(None, None, None), (None, 3, 3), (3, None, 3), (0, 4, 4), (3, 4, 7)]
)
def test_an_unknown_count_stays_unknown_only_if_it_is_so_on_both_sides(
    name: str, one: int | None, other: int | None, both: int | None
) -> None:
    def usage(count: int | None) -> Usage:
        return Usage(**{name: count}) if count is not None else Usage()

    assert getattr(usage(one) + usage(other), name) == both


@given(usages(), usages(), usages())
def test_adding_is_associative_and_commutative_in_every_part(a: Usage, b: Usage, c: Usage) -> None:
    one, other = (a + b) + c, (c + b) + a
    for name in [*COUNTS, "api_calls", "unmeasured_calls"]:
        assert getattr(one, name) == getattr(other, name)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_total_of_a_call_is_the_sum_of_both_sides(sent: int, got: int) -> None:
    for told in (None, 0, 10**12):
        usage = Usage(input_tokens=sent, output_tokens=got, total_tokens=told, api_calls=1)
        assert usage.total_tokens == sent + got


def test_a_total_alone_is_kept() -> None:
    assert Usage(total_tokens=9).total_tokens == 9


def test_a_call_that_told_only_its_total_stays_in_the_sum() -> None:
    usage = Usage(total_tokens=100, api_calls=1) + Usage(
        input_tokens=10, output_tokens=5, api_calls=1
    )
    assert (usage.total_tokens, usage.input_tokens, usage.output_tokens) == (115, 10, 5)


def test_the_total_is_at_least_what_the_sides_add_up_to() -> None:
    usage = Usage(input_tokens=10, api_calls=1) + Usage(output_tokens=5, api_calls=1)
    assert usage.total_tokens == 15


@given(usages())
def test_adding_nothing_changes_nothing_but_the_calls(usage: Usage) -> None:
    assert usage + Usage() == Usage() + usage == usage


def test_calls_without_usage_are_counted() -> None:
    usage = Usage(input_tokens=1, api_calls=1) + Usage(api_calls=1, unmeasured_calls=1)
    assert (usage.api_calls, usage.unmeasured_calls, usage.input_tokens) == (2, 1, 1)


@pytest.mark.parametrize("name", [*COUNTS, "total_tokens"])
def test_usage_is_truthy_as_soon_as_a_count_is_known(name: str) -> None:
    zero: dict[str, Any] = {name: 0}
    assert Usage(**zero)
    assert not Usage(api_calls=2, unmeasured_calls=2)


# ---- the view of the cost


def test_usage_shows_the_cost_of_what_carries_both() -> None:
    cost = Cost(total="0.25")
    for value in (
        AgentResult(cost=cost, usage=Usage(input_tokens=1)),
        ModelResponse(cost=cost, usage=Usage(input_tokens=1)),
    ):
        assert value.usage.cost is cost
        assert value.usage.estimated_cost == 0.25


def test_usage_shows_no_cost_where_either_is_unknown() -> None:
    assert AgentResult(cost=Cost(total=1)).usage.cost is None
    assert ModelResponse(usage=Usage(input_tokens=1)).usage.estimated_cost is None
    assert AgentResult(cost=Cost(), usage=Usage(input_tokens=1)).usage.estimated_cost is None


def test_the_view_goes_with_the_cost() -> None:
    result: AgentResult[str] = AgentResult(cost=Cost(total=1), usage=Usage(input_tokens=1))
    assert msgspec.structs.replace(result, cost=None).usage.cost is None
    shared = ModelResponse(usage=result.usage)
    assert (shared.usage.cost, result.usage.cost) == (None, Cost(total=1))


def test_the_view_is_neither_compared_nor_pickled_alone() -> None:
    usage = Usage(input_tokens=1)
    seen = usage.with_cost(Cost(total=1))
    assert seen == usage
    assert hash(seen) == hash(usage)
    assert seen.with_cost(seen.cost) is seen
    assert pickle.loads(pickle.dumps(seen)) == usage


# ---- money


@given(st.lists(st.integers(1, 10**8).map(lambda micro: micro / 10**9), min_size=2, max_size=6))
def test_what_adding_floats_leaves_is_no_money(amounts: list[float]) -> None:
    exact = sum((Decimal(str(amount)) for amount in amounts), Decimal(0))
    assert Cost(total=sum(amounts)).total == exact  # type: ignore[arg-type]  # a float is taken
    assert Cost(total=float(exact)).total == exact  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize(
    ("amount", "exact"),
    [(0.1, "0.1"), (1, "1"), ("0.30", "0.3"), (Decimal("1E-7"), "0.0000001"), (1e-7, "0.0000001")],
)
def test_an_amount_counts_as_the_digits_it_is_written_with(amount: Any, exact: str) -> None:
    assert Cost(total=amount).total == Decimal(exact)


@pytest.mark.parametrize(
    "amount",
    [
        *("NaN", "sNaN", "Infinity", "1E+99", "1E-99", "ten", ""),
        *(True, float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity"), [], {}),
    ],
    ids=repr,
)
def test_what_is_no_amount_of_money_is_misuse(amount: Any) -> None:
    with pytest.raises(Misuse, match="not an amount of money"):
        Cost(total=amount)


@given(st.dictionaries(st.sampled_from(PARTS), money()))
def test_the_total_is_the_exact_sum_of_the_parts(parts: dict[str, Decimal]) -> None:
    with decimal.localcontext(prec=3):
        cost = Cost(**parts)
    assert cost.total == (sum(parts.values()) if parts else None)


@given(st.lists(money(), min_size=1, max_size=20))
def test_sums_of_many_calls_are_exact(amounts: list[Decimal]) -> None:
    with decimal.localcontext(prec=3):
        cost = Cost.of_calls([Cost(total=amount) for amount in amounts])
    assert cost is not None
    with decimal.localcontext(prec=100):
        assert cost.total == sum(amounts)


def test_a_total_alone_is_a_cost() -> None:
    cost = Cost(total=0.5)
    assert (float(cost), cost.input, cost.currency) == (0.5, None, "USD")
    assert float(Cost()) == 0.0


@given(structs(Cost), structs(Cost))
def test_parts_are_added_and_the_unknown_is_not_nothing(one: Cost, other: Cost) -> None:
    if one.currency != other.currency:
        return
    both = one + other
    for name in [*PARTS, "total"]:
        known = [p for p in (getattr(one, name), getattr(other, name)) if p is not None]
        assert getattr(both, name) == (sum(known) if known else None)
    assert both.unpriced_calls == one.unpriced_calls + other.unpriced_calls


def test_costs_of_two_currencies_cannot_be_added() -> None:
    with pytest.raises(Misuse, match="EUR"):
        Cost(total=1) + Cost(total=1, currency="EUR")


def test_a_sum_says_where_its_prices_are_from_only_if_all_agree() -> None:
    reported = Cost(total=1, source="reported", estimated=False)
    table = Cost(total=1, source="table")
    assert (reported + reported).source == "reported"
    assert not (reported + reported).estimated
    assert (reported + table).source == "mixed"
    assert (reported + table).estimated


@pytest.mark.parametrize(
    ("costs", "total", "unpriced"),
    [
        ([], None, None),
        ([None, None], None, None),
        ([Cost(total=1)], 1, 0),
        ([None, Cost(total=1), None, Cost(total=2)], 3, 2),
        ([Cost(total=1, unpriced_calls=2), None], 1, 3),
    ],
    ids=["no-calls", "none-priced", "one", "some-priced", "sums-again"],
)
def test_calls_without_a_price_are_counted_beside_the_sum(
    costs: list[Cost | None], total: int | None, unpriced: int | None
) -> None:
    cost = Cost.of_calls(costs)
    assert (cost.total if cost else None) == total
    assert (cost.unpriced_calls if cost else None) == unpriced
