"""Prices of models, from the caller's table or genai-prices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from upshot.contract.model_calls import ModelResponse
from upshot.contract.usage import Cost
from upshot.errors import Misuse
from upshot.wire.pricing import Billing, Price, price_usage, read_billing

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices


Service: TypeAlias = tuple[tuple[str, str], ...]
"""How a call was served, as pairs of words; empty for the standard way."""

_SOURCE: Final = "genai-prices"
_RATES: Final = {
    "input_mtok": "input_per_mtok",
    "output_mtok": "output_per_mtok",
    "cache_read_mtok": "cache_read_per_mtok",
    "cache_write_mtok": "cache_write_per_mtok",
    "cache_write_5m_mtok": "cache_write_per_mtok",
    "cache_write_1h_mtok": "cache_write_1h_per_mtok",
    "input_audio_mtok": "input_audio_per_mtok",
    "output_audio_mtok": "output_audio_per_mtok",
}
_NEEDED: Final = frozenset({"input_mtok", "output_mtok"})
_SEARCH_FEE: Final = "web_searches_kcount"
_THOUSAND_DIGITS: Final = -3
# Ignored: replies count neither searches of stored files nor the audio tokens of the cached
# input.
_IGNORED: Final = frozenset({"storage_searches_kcount", "cache_audio_read_mtok"})
_MOST_KEPT: Final = 1024
_MINUTE_S: Final = 60


class Prices:
    """Prices of models: from the caller's own table first, then from genai-prices.

    Without the package genai-prices (extra "prices") there is only the own table. A model in
    neither has no price, and the cost of its calls is None.

    Args:
        own: Prices by "provider:model", as models are named; "provider:*" is for all other models
            of a provider.
        only: Whether to use only the own table.

    Raises:
        Misuse: A key is not the name of a model.
    """

    def __init__(self, own: Mapping[str, Price] | None = None, *, only: bool = False) -> None:
        self._own = dict(own or {})
        self._only = only
        for name in self._own:
            provider, colon, model = name.partition(":")
            if not (provider and colon and model):
                raise Misuse(f'{name!r} is not a model\'s name: write "provider:model": Price(...)')

    def __repr__(self) -> str:
        return f"Prices({', '.join(self._own) or 'no own'}{', only' if self._only else ''})"

    @staticmethod
    def of(prices: Prices | Mapping[str, Price] | None) -> Prices:
        """Make prices from an own table; None returns the shared ones."""
        if prices is None:
            return default_prices()
        return prices if isinstance(prices, Prices) else Prices(prices)

    def find(self, name: str, *, at: datetime | None = None, service: Service = ()) -> Price | None:
        """Return the price of the model *name*, None if it is unknown.

        Args:
            name: "provider:model".
            at: When the model is called, aware; None is now.
            service: How the call is served, if not in the standard way.
        """
        own = self._find_own(name) if self._own else None
        if own is not None or self._only:
            return own
        provider, _, model = name.partition(":")
        return _table().find(provider, model, at=at or datetime.now(UTC), service=service)

    def load(self, name: str) -> Awaitable[None] | None:
        """Load the table in a thread; the first time takes some tenths of a second.

        Args:
            name: "provider:model" of the model that will be looked up.

        Returns:
            An awaitable to wait for the table, None if nothing has to be loaded.
        """
        table = _table()
        if self._only or table.is_loaded or (self._own and self._find_own(name) is not None):
            return None
        return asyncio.get_running_loop().run_in_executor(None, table.load)

    def cost_of(self, response: ModelResponse, name: str, *, at: datetime) -> Cost | None:
        """Return the cost of *response*.

        Args:
            response: A reply, good or bad.
            name: "provider:model", as requested. Unless the own table has it, the model named in
                the reply is looked up first: the requested name may be an alias.
            at: When the reply arrived, aware.

        Returns:
            The cost that the provider reports, else one computed from the usage; None without a
            usage or a price.
        """
        if response.cost is not None or not response.usage:
            return response.cost
        billing = read_billing(response)
        price = self._find_for(response, name, billing, at)
        return None if price is None else price_usage(response.usage, price, billing)

    def _find_for(
        self, response: ModelResponse, name: str, billing: Billing, at: datetime
    ) -> Price | None:
        provider, _, asked = name.partition(":")
        reported = response.provider_data.get("model")
        # If the caller has a price for the requested name, use it, whatever the reply calls the
        # model.
        if (
            isinstance(reported, str)
            and reported not in ("", asked)
            and self._find_own(name) is None
        ):
            price = self.find(f"{provider}:{reported}", at=at, service=billing.service)
            if price is not None:
                return price
        return self.find(name, at=at, service=billing.service)

    def _find_own(self, name: str) -> Price | None:
        return self._own.get(name) or self._own.get(name.partition(":")[0] + ":*")


@cache
def default_prices() -> Prices:
    """Return the default prices of all models, one object in the process."""
    return Prices()


class PriceTable:
    """The table of genai-prices as ``Price`` values; empty if the package is not installed.

    The package is imported at the first look-up, which takes some tenths of a second. A price is
    kept for a minute and then made again, since some prices apply only at certain hours.

    Attributes:
        is_loaded: Whether the package was imported and its table read.
    """

    def __init__(self) -> None:
        self.is_loaded: bool = False
        self._lock = Lock()
        self._snapshot: DataSnapshot | None = None
        self._date: date | None = None
        self._kept: dict[tuple[str, str, Service], tuple[int, Price | None]] = {}

    def load(self) -> None:
        """Import the package and read its table; may be called in any thread."""
        with self._lock:
            if not self.is_loaded:
                # Any model will do: the first look-up makes the table.
                self.find("openai", "gpt-4o", at=datetime.now(UTC))
                self.is_loaded = True

    def find(
        self, provider: str, model: str, *, at: datetime, service: Service = ()
    ) -> Price | None:
        """Return the price of a model, None if the table has no certain one."""
        read = _reader()
        if read is None:
            return None
        snapshot = read()
        if snapshot is not self._snapshot:
            # The program may have made the package fetch newer prices.
            self._snapshot, self._date = snapshot, _date_of(snapshot, at.date())
            self._kept.clear()
        minute = int(at.timestamp()) // _MINUTE_S
        key = (provider, model, service)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == minute:
            return kept[1]
        if len(self._kept) >= _MOST_KEPT:
            # Names come from replies, so a peer could fill the memory.
            self._kept.clear()
        price = _look_up(snapshot, key, at, self._date)
        self._kept[key] = minute, price
        return price


@cache
def _table() -> PriceTable:
    return PriceTable()


@cache
def _reader() -> Callable[[], DataSnapshot] | None:
    """Return the function that gets the current table, None if the package is not installed."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    return get_snapshot


def _look_up(
    snapshot: DataSnapshot, key: tuple[str, str, Service], at: datetime, priced_on: date | None
) -> Price | None:
    provider_id, name, service = key
    try:
        provider, model = snapshot.find_provider_model(name, None, provider_id, None)
        if service and not _has_variant(provider, model, dict(service), at):
            return None
        return _to_price(model.get_prices(at, dict(service)), priced_on)
    except LookupError:
        return None
    # Foreign code, and a model call must not fail because of a missing price.
    except Exception:
        return None


def _has_variant(
    provider: Provider, model: ModelInfo, service: dict[str, str], at: datetime
) -> bool:
    # A provider's service tiers do not apply at another provider that offers its models.
    if not any(model is each for each in provider.models):
        return False
    return any(
        variant.when == service and (variant.constraint is None or variant.constraint.active(at))
        for variant in model.price_variants or ()
    )


def _to_price(table: ModelPrice, priced_on: date | None) -> Price | None:
    """Make a Price; None if it charges for tokens that no reply counts."""
    rates: dict[str, Decimal | TieredPrices] = {
        name: rate
        for name, rate in vars(table).items()
        if rate is not None and name not in _IGNORED
    }
    if not _RATES.keys() >= rates.keys() - {_SEARCH_FEE} or not rates.keys() >= _NEEDED:
        return None
    tiers = [tier for rate in rates.values() for tier in getattr(rate, "tiers", ())]
    above = {
        start: _price_at(rates, start + 1, {}, priced_on)
        for start in {tier.start for tier in tiers}
    }
    return _price_at(rates, 0, above, priced_on)


def _price_at(
    rates: Mapping[str, Decimal | TieredPrices],
    prompt: int,
    above: dict[int, Price],
    priced_on: date | None,
) -> Price:
    """Return the price of a call whose prompt has *prompt* tokens."""
    found = {name: _rate_at(rate, prompt) for name, rate in rates.items()}
    fee = found.pop(_SEARCH_FEE, None)
    return Price(
        **{_RATES[name]: rate for name, rate in found.items()},
        per_search=None if fee is None else fee.scaleb(_THOUSAND_DIGITS),
        above=above,
        source=_SOURCE,
        priced_on=priced_on,
    )


def _rate_at(rate: Decimal | TieredPrices, prompt: int) -> Decimal:
    if isinstance(rate, Decimal):
        return rate
    passed = [tier.price for tier in rate.tiers if prompt > tier.start]
    # Tiers are in ascending order.
    return passed[-1] if passed else rate.base


def _date_of(snapshot: DataSnapshot, today: date) -> date | None:
    """Return the date of a table: when it was fetched, or its last change that is in effect."""
    if snapshot.from_auto_update:
        return snapshot.timestamp.date()
    models = (model for provider in snapshot.providers for model in provider.models)
    changes = (
        change
        for model in models
        for change in (
            *(model.prices if isinstance(model.prices, list) else ()),
            *(model.price_variants or ()),
        )
    )
    dates = (getattr(change.constraint, "start_date", None) for change in changes)
    return max((day for day in dates if day is not None and day <= today), default=None)
