"""Caps that hold for all processes: what is reserved, refused, settled and forgotten."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import Quota
from upshot.contract import (
    AgentError,
    ErrorCode,
    Message,
    MessageList,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    RunInfo,
    Usage,
)
from upshot.contract.usage import Cost
from upshot.errors import Misuse
from upshot.journal.shared import MemoryValues
from upshot.models import Price
from upshot.runs.limits.quotas import (
    BoundQuota,
    Bounds,
    Reservation,
    Used,
    bind,
    bounds_of,
    handed_on,
    renewed,
    reserve,
    settle,
    used_by,
)

INFO = RunInfo(agent_id="a", run_id="r", context_id="c", attributes={"tenant": "t", "n": 7})
PRICE = Price(input_per_mtok=1, output_per_mtok=10)
ASKED = Bounds("m", 100, (PRICE,), 1, 50)


class Values(MemoryValues):
    """Values at a moment of the test's."""

    def __init__(self, now: str = "2026-11-23T12:00:00") -> None:
        super().__init__()
        self.at = now

    @property
    def now_us(self) -> int:
        return round(datetime.fromisoformat(self.at).replace(tzinfo=UTC).timestamp() * 1e6)


def bound(**limits: Any) -> tuple[BoundQuota, ...]:
    return bind([Quota("q", **limits)], INFO)


def used(values: Values, quotas: tuple[BoundQuota, ...], period: str = "always") -> Used:
    return msgspec.json.decode(values.read(quotas[0].place + period), type=Used)


def taken(values: Values, quotas: Any, asked: Bounds = ASKED, new_run: str = "") -> Reservation:
    decided = reserve(values, quotas, asked, new_run)
    assert isinstance(decided, Reservation), decided
    return decided


def refused(values: Values, quotas: Any, asked: Bounds = ASKED, new_run: str = "") -> AgentError:
    decided = reserve(values, quotas, asked, new_run)
    assert isinstance(decided, AgentError)
    return decided


def test_a_reservation_takes_the_upper_bound() -> None:
    values, quotas = Values(), bound(max_cost_usd=1)
    reserved = taken(values, quotas)
    assert reserved == Reservation((quotas[0].place + "always",), Decimal("0.0006"), 150, 50)
    assert used(values, quotas) == Used(Decimal("0.0006"), 150, 0)


def test_a_call_that_may_pass_the_cap_is_refused_and_takes_nothing() -> None:
    values, quotas = Values(), bound(max_tokens=299, per="day")
    taken(values, quotas)
    error = refused(values, quotas)
    assert error.code == ErrorCode.BUDGET_EXCEEDED and error.was_unsent and not error.retryable
    assert (error.details["dimension"], error.details["used"]) == ("quota", 150)
    assert error.retry_after_s == 12 * 3600
    assert used(values, quotas, "2026-11-23").tokens == 150


def test_a_month_begins_anew_with_the_next_one() -> None:
    values, quotas = Values("2026-12-31T23:00:00"), bound(max_tokens=10, per="month")
    assert refused(values, quotas).retry_after_s == 3600


def test_without_a_period_there_is_no_moment_to_wait_for() -> None:
    assert refused(Values(), bound(max_tokens=10)).retry_after_s is None


def test_a_new_day_begins_with_nothing_used_and_forgets_the_days_before() -> None:
    values, quotas = Values(), bound(max_tokens=150, per="day")
    late = taken(values, quotas)
    values.at = "2026-11-24T00:00:01"
    taken(values, quotas)
    settle(values, late, Decimal(0), 0)
    assert used(values, quotas, "2026-11-24").tokens == 150
    assert values.read(quotas[0].place + "2026-11-23") == ""


def test_what_was_not_used_comes_back() -> None:
    values, quotas = Values(), bound(max_tokens=200)
    settle(values, taken(values, quotas), Decimal("0.0001"), 20)
    assert used(values, quotas) == Used(Decimal("0.0001"), 20, 0)


def test_of_several_quotas_each_holds() -> None:
    values = Values()
    quotas = bind([Quota("wide", max_tokens=10_000), Quota("tight", max_tokens=100)], INFO)
    assert refused(values, quotas).details["quota"] == "tight"
    assert values.read(quotas[0].place + "always") == ""


def test_of_two_under_one_name_the_tighter_holds() -> None:
    quotas = bind([Quota("q", max_tokens=100), Quota("q", max_tokens=10_000)], INFO)
    assert refused(Values(), quotas).details["limit"] == 100


def test_where_no_max_tokens_is_set_one_is_set_to_what_is_left() -> None:
    values, asked = Values(), Bounds("m", 100, (PRICE,))
    assert taken(values, bound(max_tokens=1000), asked).max_tokens == 900
    assert taken(Values(), bound(max_cost_usd="0.0011"), asked).max_tokens == 100
    assert taken(Values(), bound(max_cost_usd=100), asked).max_tokens == 8_192


def test_a_model_without_a_price_is_refused_where_money_is_capped() -> None:
    asked = Bounds("m", 100, None, 1, 50)
    assert "price of m" in refused(Values(), bound(max_cost_usd=1), asked).message
    assert taken(Values(), bound(max_tokens=1000), asked).tokens == 150


def test_a_run_counts_once() -> None:
    values, quotas = Values(), bound(max_runs=1)
    taken(values, quotas, new_run="r")
    taken(values, quotas)
    taken(values, quotas, new_run="child")
    other = bind([quotas[0].quota], msgspec.structs.replace(INFO, run_id="s"))
    assert refused(values, other, new_run="s").details["limit_of"] == "max_runs"


def test_a_price_above_a_size_and_each_special_rate_are_bounds() -> None:
    price = Price(
        input_per_mtok=1,
        output_per_mtok=1,
        cache_write_1h_per_mtok=5,
        output_audio_per_mtok=7,
        per_call=1,
        above={50: Price(input_per_mtok=9, output_per_mtok=2)},
    )
    assert Bounds("m", 1_000_000, (price, PRICE)).rates() == (
        Decimal(1 + 9 + 1),
        Decimal("0.000017"),
    )


@pytest.mark.parametrize(
    ("scope", "key"),
    [("all", ""), ("run", "r"), ("agent", "a"), ("conversation", "c"), ("tenant", "t")],
)
def test_a_scope_says_whose_use_is_counted(scope: Any, key: str) -> None:
    (one,) = bind([Quota("q", scope=scope, max_runs=1)], INFO)
    assert one.key == key


def test_another_attribute_may_name_the_tenant() -> None:
    (one,) = bind([Quota("q", scope="tenant", attribute="n", max_runs=1)], INFO)
    assert one.key == "7"


@pytest.mark.parametrize("scope", ["conversation", "tenant"])
def test_a_run_without_what_is_counted_by_is_misuse(scope: Any) -> None:
    with pytest.raises(Misuse, match=f"by {scope}"):
        bind([Quota("q", scope=scope, max_runs=1)], RunInfo(agent_id="a", run_id="r"))


@given(st.lists(st.tuples(st.text(max_size=3), st.text(min_size=1, max_size=3)), min_size=2))
def test_no_two_quotas_share_a_place(names: list[tuple[str, str]]) -> None:
    places = {
        BoundQuota(Quota(name or "-", max_runs=1, scope="tenant"), key, "r").place
        for name, key in names
    }
    assert len(places) == len({(name or "-", key) for name, key in names})


def test_who_is_handed_over_to_stays_in_the_quota_of_the_run() -> None:
    by_run, by_agent = Quota("q", scope="run", max_runs=1), Quota("p", scope="agent", max_runs=1)
    assert handed_on([by_run, by_agent], "r") == [BoundQuota(by_run, "r", "r"), by_agent]
    assert handed_on(bind([by_run, by_agent], INFO), "r") == handed_on([by_run, by_agent], "r")


RESERVED = Reservation((), Decimal(1), 1000, 50)
WHOLE = (Decimal(1), 1000)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (ModelResponse(usage=Usage(input_tokens=3, output_tokens=4, api_calls=1)), (1, 7)),
        (ModelResponse(), WHOLE),
        (ModelResponse(error=AgentError(details={"phase": "unsent"})), (0, 0)),
        (ModelResponse(error=AgentError(details={"phase": "sent"})), WHOLE),
        (ModelResponse(error=AgentError(ErrorCode.RATE_LIMIT, status_code=429)), (0, 0)),
        (ModelResponse(error=AgentError(ErrorCode.SERVER_ERROR, status_code=500)), WHOLE),
    ],
    ids=["told", "untold", "unsent", "sent", "refused", "failed"],
)
def test_what_is_not_known_counts_whole(response: ModelResponse, expected: Any) -> None:
    assert used_by(response, RESERVED) == expected


def test_what_a_reply_cost_counts() -> None:
    cost = Cost(input=Decimal("0.25"))
    usage = Usage(input_tokens=3, output_tokens=4, api_calls=1)
    assert used_by(ModelResponse(usage=usage, cost=cost), RESERVED) == (Decimal("0.25"), 7)


class Priced:
    name = "test:priced"
    price = PRICE
    settings = ModelSettings(max_tokens=77)


async def test_the_bound_of_what_goes_in_is_its_bytes() -> None:
    model: Any = Priced()
    messages = MessageList([Message("user", "ü" * 100)])
    small = await bounds_of(model, ModelRequest(messages), (0, 0))
    assert 200 < small.input < 400 and small.max_tokens == 77
    messages.append(Message("assistant", "x" * 1000))
    larger = await bounds_of(model, ModelRequest(messages), (0, 0))
    assert 1000 < larger.input - small.input < 1100


async def test_or_what_was_counted_and_the_bytes_since_where_that_is_more() -> None:
    model: Any = Priced()
    messages = MessageList([Message("user", "x"), Message("assistant", "y" * 100)])
    assert 5100 < (await bounds_of(model, ModelRequest(messages), (5000, 1))).input < 5200


@given(
    st.integers(0, 3000),
    st.lists(
        st.tuples(
            st.integers(1, 500), st.none() | st.integers(1, 300), st.integers(0, 3), st.booleans()
        ),
        max_size=30,
    ),
)
def test_no_order_of_calls_passes_the_cap(cap: int, calls: list[Any]) -> None:
    values, quotas, spent = Values(), bound(max_tokens=cap), 0
    waiting: list[tuple[Reservation, int]] = []
    for tokens_in, most, settled, answers in calls:
        decided = reserve(values, quotas, Bounds("m", tokens_in, None, 1, most), "")
        if isinstance(decided, Reservation):
            # What the provider bills is below the bound, whether the reply comes or not.
            billed = tokens_in // 2 + (decided.max_tokens or 0) // 2
            spent += billed
            if answers:
                waiting.append((decided, billed))
        for reserved, billed in waiting[:settled]:
            settle(values, reserved, Decimal(0), billed)
        waiting = waiting[settled:]
        assert spent <= cap


def test_what_is_given_anew_under_a_name_counts_on_what_it_counted() -> None:
    day, own = Quota("day", max_runs=5), Quota("own", scope="run", max_runs=1)
    logged = (BoundQuota(day, "", "first"), BoundQuota(own, "first", "first"))
    assert renewed((), logged) == logged
    wider, more = Quota("own", scope="run", max_runs=9), Quota("month", max_runs=7)
    found = (logged[0], BoundQuota(wider, "first", "first"), more)
    assert renewed((wider, more), logged) == found
    assert renewed(found, logged) == found
