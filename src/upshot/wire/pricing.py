"""Prices: computes the cost of a model call from its tokens."""

from __future__ import annotations

from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from upshot.contract.base.structs import Json, JsonObject, Value, set_field
from upshot.contract.model_calls import ModelResponse
from upshot.contract.usage import Cost, Usage, to_money
from upshot.errors import Misuse
from upshot.wire.decoding import as_count, as_object, as_text

Rate: TypeAlias = "Decimal | float | str"
"""A rate as callers may pass it: a number, or its text, which is exact."""

_NEEDED = ("input_per_mtok", "output_per_mtok")
_RATES = (
    "input_per_mtok",
    "output_per_mtok",
    "cache_read_per_mtok",
    "cache_write_per_mtok",
    "cache_write_1h_per_mtok",
    "input_audio_per_mtok",
    "output_audio_per_mtok",
    "per_search",
    "per_call",
)
# Bounds that keep the product of a rate and a count within the limits of an amount of money.
_MAX_MAGNITUDE: Final = 9
_MIN_EXPONENT: Final = -30
_MTOK_DIGITS: Final = -6
_EXACT: Final = Context(prec=200, Emin=MIN_EMIN, Emax=MAX_EMAX)
_ZERO: Final = Decimal(0)

# The words for the standard service tier, which has the standard price.
_USUAL: Final = frozenset({"", "default", "standard", "auto", "on_demand"})

# The fields of usage objects, besides token counts, that affect the price.
_BILLED: Final = frozenset(
    {"service_tier", "trafficType", "speed", "cache_creation", "server_tool_use"}
)


class Price(Value, frozen=True, kw_only=True):
    """The price of a model, in US dollars.

    Attributes:
        input_per_mtok: For a million prompt tokens without a special rate.
        output_per_mtok: For a million output tokens, including reasoning.
        cache_read_per_mtok: For a million tokens read from a cache; None is the input rate.
        cache_write_per_mtok: For a million tokens written to a cache; None is the input rate.
        cache_write_1h_per_mtok: For tokens cached for an hour; None is the rate of other writes.
        input_audio_per_mtok: For audio in the prompt; None is the rate of text.
        output_audio_per_mtok: For audio in the output; None is the rate of text.
        per_search: For one web search by the provider; None if unknown.
        per_call: For the call itself.
        above: Prices of calls with longer prompts, by the number of prompt tokens above which
            each applies; it then applies to the whole call.
        source: Where the price is from.
        priced_on: The date of that price table, None if unknown.

    Raises:
        Misuse: A rate is negative or absurd.
    """

    input_per_mtok: Decimal
    output_per_mtok: Decimal
    cache_read_per_mtok: Decimal | None = None
    cache_write_per_mtok: Decimal | None = None
    cache_write_1h_per_mtok: Decimal | None = None
    input_audio_per_mtok: Decimal | None = None
    output_audio_per_mtok: Decimal | None = None
    per_search: Decimal | None = None
    per_call: Decimal | None = None
    above: dict[int, Price] = {}
    source: str = "own"
    priced_on: date | None = None

    # Any number or its text is accepted, and stored exactly.
    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            input_per_mtok: Rate,
            output_per_mtok: Rate,
            cache_read_per_mtok: Rate | None = None,
            cache_write_per_mtok: Rate | None = None,
            cache_write_1h_per_mtok: Rate | None = None,
            input_audio_per_mtok: Rate | None = None,
            output_audio_per_mtok: Rate | None = None,
            per_search: Rate | None = None,
            per_call: Rate | None = None,
            above: dict[int, Price] = {},  # noqa: B006 - the structs copy it
            source: str = "own",
            priced_on: date | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in _RATES:
            amount = getattr(self, name)
            if amount is not None:
                set_field(self, name, _to_rate(name, amount))
            elif name in _NEEDED:
                raise Misuse(f"{name} is None: give dollars, 0 or more")

    def for_prompt(self, tokens: int) -> Price:
        """Return the price of a call whose prompt has *tokens* tokens."""
        if not self.above:
            return self
        passed = [start for start in self.above if tokens > start]
        return self.above[max(passed)] if passed else self


class Billing(msgspec.Struct, frozen=True):
    """What affects the price of a reply besides its tokens.

    Attributes:
        service: How it was served if not in the standard way, as pairs of words such as
            ("service_tier", "flex"); the standard price does not apply then.
        searches: How often the provider searched the web for it.
        cache_writes_1h: How many of the tokens written to a cache stay there for an hour.
    """

    service: tuple[tuple[str, str], ...] = ()
    searches: int = 0
    cache_writes_1h: int = 0


_PLAIN: Final = Billing()


def price_usage(usage: Usage, price: Price, billing: Billing = _PLAIN) -> Cost | None:
    """Compute the cost of one model call from its tokens.

    Each token is charged once: ``Cost.input`` excludes tokens read from or written to a cache.

    Args:
        usage: The tokens of one call.
        price: What they cost.
        billing: What else affects the price.

    Returns:
        The cost with its parts and their exact sum; None if something cannot be priced: the
        tokens of one side are unknown, a search has no known fee, or it is unknown which of the
        cached tokens were audio.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    price = price.for_prompt(usage.input_tokens)
    # A provider's parts may exceed its total: no token is charged twice, and none below zero.
    read = min(usage.cache_read_tokens or 0, usage.input_tokens)
    written = min(usage.cache_write_tokens or 0, usage.input_tokens - read)
    fees = _fees(price, billing)
    # Audio counts only if it has its own rate; otherwise it costs the same as text.
    heard = usage.input_audio_tokens if price.input_audio_per_mtok is not None else None
    if fees is None or (heard and (read or written)):
        return None
    base = price.input_per_mtok
    return Cost(
        input=_sum(usage.input_tokens - read - written, base, heard, price.input_audio_per_mtok),
        output=_sum(
            usage.output_tokens,
            price.output_per_mtok,
            usage.output_audio_tokens,
            price.output_audio_per_mtok,
        ),
        cache_read=None
        if usage.cache_read_tokens is None
        else _amount(read, _first(price.cache_read_per_mtok, base)),
        cache_write=None
        if usage.cache_write_tokens is None
        else _sum(
            written,
            _first(price.cache_write_per_mtok, base),
            billing.cache_writes_1h,
            price.cache_write_1h_per_mtok,
        ),
        other=fees or None,
        source=price.source,
        priced_on=price.priced_on,
    )


def read_billing(response: ModelResponse) -> Billing:
    """Read from *response* what affects its price besides its tokens."""
    data = response.provider_data
    usage = as_object(data.get("usage_raw"))
    # The fast path: most replies have the standard price.
    usual = data.get("service_tier", "default") == "default" and "web_searches" not in data
    if usual and _BILLED.isdisjoint(usage):
        return _PLAIN
    service = _read_service(data, usage)
    kept = as_object(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")
    searches = _count_searches(data, usage)
    if not (service or kept or searches):
        return _PLAIN
    return Billing(service, searches, as_count(kept) or 0)


def _read_service(data: JsonObject, usage: JsonObject) -> tuple[tuple[str, str], ...]:
    service: Json = data.get("service_tier")
    service = service or usage.get("service_tier") or usage.get("trafficType")
    tier = as_text(service).lower()
    pairs: list[tuple[str, str]] = []
    if tier == "batch":
        pairs.append(("processing", "batch"))
    elif tier not in _USUAL:
        pairs.append(("service_tier", tier))
    speed = as_text(usage.get("speed")).lower()
    if speed not in _USUAL:
        pairs.append(("speed", speed))
    return tuple(pairs)


def _count_searches(data: JsonObject, usage: JsonObject) -> int:
    counted = as_object(usage.get("server_tool_use")).get("web_search_requests")
    if counted is not None:
        return as_count(counted) or 0
    return as_count(data.get("web_searches")) or 0


def _fees(price: Price, billing: Billing) -> Decimal | None:
    """Return the charges besides tokens, None if unknown."""
    fees = price.per_call or _ZERO
    if not billing.searches:
        return fees
    if price.per_search is None:
        return None
    searches = _EXACT.multiply(Decimal(billing.searches), price.per_search)
    return _EXACT.add(fees, searches)


def _sum(tokens: int, rate: Decimal, special: int | None, special_rate: Decimal | None) -> Decimal:
    """Return the price of *tokens*, including *special* ones with a different rate."""
    if not special or special_rate is None:
        return _amount(tokens, rate)
    special = min(special, tokens)
    return _EXACT.add(_amount(tokens - special, rate), _amount(special, special_rate))


def _amount(tokens: int, rate: Decimal) -> Decimal:
    if not tokens:
        return _ZERO
    # Not a division, which might round.
    return _EXACT.scaleb(_EXACT.multiply(Decimal(tokens), rate), _MTOK_DIGITS)


def _first(rate: Decimal | None, other: Decimal) -> Decimal:
    return other if rate is None else rate


def _to_rate(name: str, amount: Rate) -> Decimal:
    rate = to_money(amount)
    exponent = int(rate.as_tuple().exponent)
    if rate < 0 or (rate and rate.adjusted() > _MAX_MAGNITUDE) or exponent < _MIN_EXPONENT:
        raise Misuse(f"{name} is {amount}: give dollars, 0 or more")
    return rate
