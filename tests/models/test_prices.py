"""What models cost, and what a call of one cost."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as TableUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
)

from tests.processes import run_python
from upshot.contract import Cost, ModelResponse, Usage
from upshot.errors import Misuse
from upshot.models import Price, Prices

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
OWN = Price(input_per_mtok=1, output_per_mtok=2)
USED = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
_BASIC = {"input_mtok": Decimal(3), "output_mtok": Decimal(4)}


def model(name, prices, **more):
    return ModelInfo(id=name, match=ClauseEquals(name), prices=prices, **more)


def rates(**more):
    return ModelPrice(**_BASIC, **{name: Decimal(rate) for name, rate in more.items()})


FLEX = PriceVariant(when={"service_tier": "flex"}, prices=ModelPrice(input_mtok=Decimal(1)))
CHANGED = [
    ConditionalPrice(prices=rates()),
    ConditionalPrice(
        StartDateConstraint(date(2026, 11, 20)),
        prices=ModelPrice(**_BASIC | {"input_mtok": Decimal(2)}),
    ),
    ConditionalPrice(StartDateConstraint(date(2027, 1, 1)), prices=rates()),
]
TIERED = ModelPrice(
    input_mtok=TieredPrices(Decimal(3), [Tier(100, Decimal(6)), Tier(200, Decimal(9))]),
    output_mtok=TieredPrices(Decimal(4), [Tier(200, Decimal(8))]),
)
MODELS = [
    model("plain", rates(cache_read_mtok="0.5", web_searches_kcount=10)),
    model("flexible", rates(), price_variants=[FLEX]),
    model("changed", CHANGED),
    model("tiered", TIERED),
    model("pictures", rates(output_image_mtok=30)),
    model("free", ModelPrice()),
    model("deaf", ModelPrice(input_mtok=Decimal(1))),
    model("absurd", rates(cache_read_mtok=-1)),
]


@pytest.fixture
def table():
    """A table of which a test knows every figure, in place of the one that is installed."""
    lab = Provider(id="lab", name="Lab", api_pattern="x", models=MODELS)
    reseller = Provider(
        id="shop", name="Shop", api_pattern="y", models=[], fallback_model_providers=["lab"]
    )
    set_custom_snapshot(DataSnapshot(providers=[lab, reseller], from_auto_update=False))
    yield Prices()
    set_custom_snapshot(None)


def replied(usage=USED, *, model="", tier="", cost=None):
    data = {"model": model, "service_tier": tier}
    return ModelResponse(usage=usage, provider_data=data, cost=cost)


def paid(prices, name, **reply):
    found = prices.cost_of(replied(**reply), name, at=NOW)
    return None if found is None else found.total


def test_an_own_price_goes_before_the_table(table):
    assert paid(table, "lab:plain") == 7
    assert paid(Prices({"lab:plain": OWN}), "lab:plain", model="plain") == 3


def test_one_price_can_be_for_all_other_models_of_a_provider():
    prices = Prices({"vllm:*": OWN, "vllm:big": Price(input_per_mtok=5, output_per_mtok=5)})
    assert (paid(prices, "vllm:x"), paid(prices, "vllm:big")) == (3, 10)


def test_only_the_own_table_can_hold(table):
    assert paid(Prices({"lab:x": OWN}, only=True), "lab:plain") is None


@pytest.mark.parametrize("name", ["gpt-5", "openai:", ":gpt-5"])
def test_a_key_that_is_no_models_name_is_misuse(name):
    with pytest.raises(Misuse, match="provider:model"):
        Prices({name: OWN})


def test_what_the_provider_reports_wins():
    reported = Cost(total=Decimal(9), estimated=False, source="reported")
    prices = Prices({"lab:plain": OWN})
    assert prices.cost_of(replied(cost=reported), "lab:plain", at=NOW) is reported


def test_no_usage_has_no_cost():
    assert paid(Prices({"lab:x": OWN}), "lab:x", usage=Usage(unmeasured_calls=1)) is None


@pytest.mark.parametrize("name", ["lab:none", "nowhere:plain", "lab:pictures", "lab:deaf",
                                  "lab:free", "lab:absurd"])  # fmt: skip
def test_what_no_table_prices_surely_has_no_cost(table, name):
    assert paid(table, name) is None


def test_the_model_that_answered_is_looked_for_first(table):
    assert paid(table, "lab:alias", model="plain") == 7
    assert paid(table, "lab:plain", model="plain-2026-01-01") == 7


def test_a_model_may_be_another_providers(table):
    assert paid(table, "shop:plain") == 7


def test_a_price_says_from_which_table_it_is(table):
    price = table.find("lab:plain", at=NOW)
    assert (price.source, price.priced_on) == ("genai-prices", date(2026, 11, 20))
    assert (price.cache_read_per_mtok, price.per_search) == (Decimal("0.5"), Decimal("0.01"))


def test_the_price_of_the_day_holds(table):
    day = datetime(2026, 11, 19, 23, 59, tzinfo=UTC)
    assert table.find("lab:changed", at=day).input_per_mtok == 3
    assert table.find("lab:changed", at=NOW).input_per_mtok == 2


def test_steps_are_taken_over(table):
    price = table.find("lab:tiered", at=NOW)
    found = [
        (step.input_per_mtok, step.output_per_mtok)
        for step in map(price.for_prompt, (100, 101, 200, 201))
    ]
    assert found == [(3, 4), (6, 4), (6, 4), (9, 8)]


def test_an_unusual_way_of_serving_has_its_price_or_none(table):
    assert paid(table, "lab:flexible", tier="flex") == 5
    assert paid(table, "lab:plain", tier="flex") is None
    assert paid(table, "shop:flexible", tier="flex") is None


def test_a_newer_table_takes_the_place_of_the_old_one(table):
    assert paid(table, "lab:plain") == 7
    newer = Provider(id="lab", name="Lab", api_pattern="x", models=[model("plain", TIERED)])
    fetched = DataSnapshot(providers=[newer], from_auto_update=True, timestamp=NOW)
    set_custom_snapshot(fetched)
    assert paid(table, "lab:plain") == 17
    assert table.find("lab:plain", at=NOW).priced_on == NOW.date()


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("openai:gpt-5", {"cache_read_tokens": 300}),
        ("anthropic:claude-sonnet-4-5", {"cache_read_tokens": 300, "cache_write_tokens": 200}),
        ("anthropic:claude-sonnet-4-5", {"input_tokens": 250_000, "cache_read_tokens": 9}),
        ("google:gemini-2.5-pro", {"input_tokens": 200_001}),
        ("google:gemini-2.5-flash", {"input_audio_tokens": 100}),
        ("xai:grok-4", {"cache_read_tokens": 300}),
        ("azure:gpt-4o", {}),
        ("groq:llama-3.3-70b-versatile", {}),
        ("moonshot:kimi-k2-0905-preview", {}),
    ],
)
def test_the_installed_table_is_read_as_its_own_package_reads_it(name, usage):
    usage = {"input_tokens": 1000, "output_tokens": 50, **usage}
    provider, _, ref = name.partition(":")
    theirs = calc_price(TableUsage(**usage), ref, provider_id=provider)
    ours = Prices().cost_of(replied(Usage(**usage)), name, at=datetime.now(UTC))
    assert ours.total == theirs.total_price
    assert ours.priced_on is not None


LOADING = """
import asyncio, sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "genai_prices":
            print("main" if threading.current_thread() is threading.main_thread() else "thread")

sys.meta_path.insert(0, Watch())
import upshot
from upshot.models import HttpModel, resolve

class Answering:
    def send(self, method, url, headers, body, *, timeouts):
        return self

    async def __aenter__(self):
        async def body():
            yield (
                b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],'
                b'"usage": {"prompt_tokens": 1000000, "completion_tokens": 1}}'
            )
        return 200, [("content-type", "application/json")], body()

    async def __aexit__(self, *exception):
        return None

async def main():
    model = resolve("openai:gpt-4o", api_key="k", transport=Answering())
    agent = upshot.Agent("a", model=model)
    budget = upshot.Budget(max_cost_usd=100) if "limited" in sys.argv else None
    results = await asyncio.gather(*(upshot.run(agent, "hi", budget=budget) for _ in range(3)))
    assert all(one.cost.total > 1 for one in results), results

asyncio.run(main())
"""


@pytest.mark.slow("limited")
@pytest.mark.parametrize("how", ["usual", "limited"])
def test_the_table_is_read_in_a_thread_while_the_first_request_is_under_way(how):
    done = run_python("-c", LOADING, how, text=True, check=True)
    assert done.stdout.split() == ["thread"]
