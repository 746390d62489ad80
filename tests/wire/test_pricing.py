"""From tokens to money."""

from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import ModelResponse, Usage
from upshot.errors import Misuse
from upshot.wire.pricing import Billing, Price, price_usage, read_billing

LONG = Price(input_per_mtok=6, output_per_mtok="22.5", cache_read_per_mtok="0.6")
PRICE = Price(
    input_per_mtok=3,
    output_per_mtok=15,
    cache_read_per_mtok="0.3",
    cache_write_per_mtok="3.75",
    cache_write_1h_per_mtok=6,
    above={200_000: LONG},
)


def used(taken=1_000_000, given_back=0, **more):
    return Usage(input_tokens=taken, output_tokens=given_back, **more)


def cost(usage, price=PRICE, **billing):
    return price_usage(usage, price, Billing(**billing))


def parts(found):
    return [found.input, found.output, found.cache_read, found.cache_write, found.other]


def test_each_kind_of_token_has_its_own_part():
    usage = used(100_000, 10_000, cache_read_tokens=60_000, cache_write_tokens=20_000)
    found = cost(usage)
    assert parts(found) == [*map(Decimal, ("0.06", "0.15", "0.018", "0.075")), None]
    assert found.total == Decimal("0.303")


def test_what_is_not_known_of_a_cache_is_not_known_of_its_cost():
    found = cost(used(1000))
    assert (found.cache_read, found.cache_write) == (None, None)


def test_a_price_says_where_it_is_from():
    found = cost(used(1))
    assert (found.source, found.estimated, found.currency) == ("own", True, "USD")


@pytest.mark.parametrize(
    ("tokens", "price"), [(0, PRICE), (200_000, PRICE), (200_001, LONG)], ids=str
)
def test_a_long_prompt_has_another_price(tokens, price):
    assert PRICE.for_prompt(tokens) is price


def test_the_highest_passed_step_holds():
    steps = {32_000: PRICE, 128_000: LONG}
    assert Price(input_per_mtok=1, output_per_mtok=1, above=steps).for_prompt(200_000) is LONG


def test_the_price_of_a_long_prompt_is_for_the_whole_call():
    assert cost(used(300_000, 1000)).total == Decimal("1.8225")


def test_a_cache_without_a_rate_costs_as_the_rest():
    plain = Price(input_per_mtok=2, output_per_mtok=2)
    found = cost(used(1_000_000, cache_read_tokens=500_000, cache_write_tokens=0), plain)
    assert (found.input, found.cache_read, found.cache_write) == (1, 1, 0)


def test_what_is_kept_for_an_hour_has_its_own_rate():
    usage = used(100_000, cache_write_tokens=20_000)
    assert cost(usage, cache_writes_1h=10_000).cache_write == Decimal("0.0975")


def test_audio_has_its_own_rate():
    price = Price(
        input_per_mtok=1, output_per_mtok=2, input_audio_per_mtok=10, output_audio_per_mtok=20
    )
    found = cost(used(1000, 1000, input_audio_tokens=400, output_audio_tokens=100), price)
    assert (found.input, found.output) == (Decimal("0.0046"), Decimal("0.0038"))


def test_fees_are_the_other_part():
    price = msgspec.structs.replace(PRICE, per_call="0.001", per_search="0.01")
    assert cost(used(0), price, searches=3).other == Decimal("0.031")


AUDIO = Price(input_per_mtok=1, output_per_mtok=1, input_audio_per_mtok=9)


@pytest.mark.parametrize(
    ("usage", "price", "billing"),
    [
        (Usage(), PRICE, {}),
        (Usage(total_tokens=9), PRICE, {}),
        (Usage(input_tokens=9), PRICE, {}),
        (Usage(output_tokens=9), PRICE, {}),
        (used(9), PRICE, {"searches": 1}),
        (used(9, cache_read_tokens=5, input_audio_tokens=5), AUDIO, {}),
    ],
    ids=["nothing", "total alone", "no output", "no input", "no fee", "audio from a cache"],
)
def test_what_cannot_be_priced_has_no_cost(usage, price, billing):
    assert cost(usage, price, **billing) is None


@pytest.mark.parametrize("rate", [-1, "1e10", float("nan"), "1e-31", "x"], ids=str)
def test_an_absurd_rate_is_misuse(rate):
    with pytest.raises(Misuse):
        Price(input_per_mtok=rate, output_per_mtok=1)


def test_a_float_counts_as_its_digits():
    assert Price(input_per_mtok=0.1, output_per_mtok=0).input_per_mtok == Decimal("0.1")


def billed(usage_raw=None, **data):
    return read_billing(ModelResponse(provider_data={"usage_raw": usage_raw or {}, **data}))


@pytest.mark.parametrize(
    ("reply", "service"),
    [
        ({}, ()),
        ({"service_tier": "default"}, ()),
        ({"usage_raw": {"service_tier": "standard"}}, ()),
        ({"usage_raw": {"trafficType": "ON_DEMAND"}}, ()),
        ({"service_tier": "flex"}, (("service_tier", "flex"),)),
        ({"service_tier": "priority"}, (("service_tier", "priority"),)),
        ({"usage_raw": {"service_tier": "batch"}}, (("processing", "batch"),)),
        ({"usage_raw": {"speed": "fast"}}, (("speed", "fast"),)),
        (
            {"usage_raw": {"trafficType": "PROVISIONED_THROUGHPUT"}},
            (("service_tier", "provisioned_throughput"),),
        ),
        ({"service_tier": 7, "usage_raw": {"speed": []}}, ()),
    ],
)
def test_the_way_of_serving_is_found_wherever_it_is_told(reply, service):
    assert billed(**reply).service == service


def test_searches_and_long_caches_are_found():
    usage = {
        "server_tool_use": {"web_search_requests": 2},
        "cache_creation": {"ephemeral_1h_input_tokens": 5},
    }
    assert billed(usage) == Billing(searches=2, cache_writes_1h=5)
    assert billed(web_searches=3).searches == 3


counts = st.none() | st.integers(0, 10**15)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    input_audio_tokens=counts,
    output_audio_tokens=counts,
)
rates = st.decimals(0, 10**9, places=9) | st.decimals(0, 100, places=3)
prices = st.builds(
    Price,
    input_per_mtok=rates,
    output_per_mtok=rates,
    cache_read_per_mtok=st.none() | rates,
    cache_write_per_mtok=st.none() | rates,
    cache_write_1h_per_mtok=st.none() | rates,
    input_audio_per_mtok=st.none() | rates,
    output_audio_per_mtok=st.none() | rates,
    per_search=st.none() | rates,
    per_call=st.none() | rates,
)
billings = st.builds(
    Billing, searches=st.integers(0, 10**6), cache_writes_1h=st.integers(0, 10**15)
)


@given(usages, prices, billings)
def test_a_total_is_the_exact_sum_of_parts_that_are_never_negative(usage, price, billing):
    found = price_usage(usage, price, billing)
    if found is None:
        return
    known = [part for part in parts(found) if part is not None]
    assert all(part >= 0 for part in known)
    assert found.total is not None
    # A fraction's sum is exact whatever the digits.
    assert found.total.as_integer_ratio() == _exact(known)


def _exact(amounts):
    return sum(map(Fraction, amounts), Fraction()).as_integer_ratio()


@given(usages, prices, st.integers(0, 10**12), st.integers(0, 10**12))
def test_more_tokens_never_cost_less(usage, price, more_in, more_out):
    before = price_usage(usage, price)
    if before is None:
        return
    after = price_usage(
        msgspec.structs.replace(
            usage,
            input_tokens=usage.input_tokens + more_in,
            output_tokens=usage.output_tokens + more_out,
            total_tokens=None,
            # What would become a part of the prompt only now is no part of the comparison.
            cache_read_tokens=min(usage.cache_read_tokens or 0, usage.input_tokens),
            cache_write_tokens=0,
            input_audio_tokens=0,
            output_audio_tokens=min(usage.output_audio_tokens or 0, usage.output_tokens),
        ),
        price,
    )
    plain = price_usage(
        msgspec.structs.replace(usage, cache_write_tokens=0, input_audio_tokens=0), price
    )
    assert after.total >= plain.total


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), rates)
def test_a_token_is_paid_for_once_wherever_it_was(taken, read, written, rate):
    flat = Price(input_per_mtok=rate, output_per_mtok=0)
    usage = used(taken, cache_read_tokens=read, cache_write_tokens=written)
    assert price_usage(usage, flat).total == price_usage(used(taken), flat).total


documents = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(["service_tier", "speed", "server_tool_use", "web_search_requests",
                         "cache_creation", "ephemeral_1h_input_tokens", "trafficType"]),
        inner, max_size=4,
    ),
)  # fmt: skip


@given(documents, documents, documents)
def test_any_reply_can_be_billed(usage, tier, tools):
    assert isinstance(billed(usage, service_tier=tier, web_searches=tools), Billing)
