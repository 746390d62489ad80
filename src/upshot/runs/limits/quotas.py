"""Quotas: caps on money, tokens and runs that hold for all processes using a journal.

An upper bound is reserved before a request is sent, and corrected to the real usage afterwards. If
a process dies in between, the whole reservation counts. A crash never frees a reservation.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import MessageList
from upshot.contract.model_calls import ModelRequest, ModelResponse, name_of
from upshot.contract.protocols import Model
from upshot.contract.settings import Quota
from upshot.errors import Misuse
from upshot.journal.shared import SharedValues
from upshot.models.prices import default_prices
from upshot.runs.budget import money_of, tokens_of
from upshot.wire.pricing import Price

if TYPE_CHECKING:
    from upshot.contract.agent_spec import RunInfo

QUOTAS_OPTION = "quotas"
_ZERO = Decimal(0)
_MTOK = Decimal(1_000_000)
# The tokens reserved for a file given by URL, whose size is unknown until it is fetched.
_LINKED_TOKENS = 100_000
# Used if the settings set no limit. Models refuse requests for more than they can generate.
_MOST_OUTPUT = 8_192
# Error statuses of refused requests, which cost nothing.
_REFUSED = range(400, 500)


class BoundQuota(msgspec.Struct, frozen=True):
    """A quota together with the run, conversation, agent or tenant that it counts.

    Attributes:
        quota: The quota.
        key: The id of the run, conversation, agent or tenant; "" for all.
        run_id: The run that the quota was given to. It counts as one run; its child runs do not.
    """

    quota: Quota
    key: str
    run_id: str

    @property
    def place(self) -> str:
        """The name under which its usage is stored, without the period."""
        key = quote(self.key, safe="")
        return f"quota/{quote(self.quota.name, safe='')}/{self.quota.scope}/{key}/"


def bind(quotas: Sequence[Quota | BoundQuota], info: RunInfo) -> tuple[BoundQuota, ...]:
    """Bind *quotas* to a run. Quotas that are already bound to an earlier run stay unchanged.

    Raises:
        Misuse: A quota is per conversation or tenant, and the run has none.
    """
    return tuple(
        one if isinstance(one, BoundQuota) else BoundQuota(one, _key(one, info), info.run_id)
        for one in quotas
    )


def _key(quota: Quota, info: RunInfo) -> str:
    match quota.scope:
        case "all":
            return ""
        case "run":
            return info.run_id
        case "agent":
            return info.agent_id
        case "conversation":
            found, missing = info.context_id, "is in no conversation: give conversation="
        case "tenant":
            found = info.attributes.get(quota.attribute)
            missing = f"has no such attribute: give attributes={{{quota.attribute!r}: ...}}"
    if not isinstance(found, str | int) or not str(found):
        raise Misuse(f"the quota {quota.name!r} is by {quota.scope}, and the run {missing}")
    return str(found)


class Used(msgspec.Struct):
    """What is used or reserved of a quota."""

    cost_usd: Decimal = _ZERO
    tokens: int = 0
    runs: int = 0


class Reservation(NamedTuple):
    """What was reserved from quotas for one request.

    Attributes:
        places: The names of the quotas' stored values.
        cost_usd: The maximum cost.
        tokens: The maximum number of tokens.
        max_tokens: The maximum number of tokens to generate, None for no such cap.
    """

    places: tuple[str, ...] = ()
    cost_usd: Decimal = _ZERO
    tokens: int = 0
    max_tokens: int | None = None


class Bounds(NamedTuple):
    """Upper bounds on the usage of one request.

    Attributes:
        model: The model, for messages.
        input: The maximum of input tokens for each model that may be called.
        prices: The prices of these models; None if one has no price.
        models: The number of these models.
        max_tokens: The limit in the settings.
    """

    model: str
    input: int
    prices: tuple[Price, ...] | None
    models: int = 1
    max_tokens: int | None = None

    def rates(self) -> tuple[Decimal, Decimal]:
        """Return the maximum cost of the input, and of each generated token."""
        before, each = _ZERO, _ZERO
        for price in self.prices or ():
            tiers = [price, *(tier for start, tier in price.above.items() if start < self.input)]
            fee = max(tier.per_call or _ZERO for tier in tiers)
            before += fee + self.input * max(map(_input_rate, tiers)) / _MTOK
            each += max(map(_output_rate, tiers)) / _MTOK
        return before, each


def _input_rate(price: Price) -> Decimal:
    return max(
        price.input_per_mtok,
        price.cache_write_per_mtok or _ZERO,
        price.cache_write_1h_per_mtok or _ZERO,
        price.input_audio_per_mtok or _ZERO,
    )


def _output_rate(price: Price) -> Decimal:
    return max(price.output_per_mtok, price.output_audio_per_mtok or _ZERO)


def reserve(
    values: SharedValues, quotas: Sequence[BoundQuota], bounds: Bounds, new_run: str
) -> Reservation | AgentError:
    """Reserve the upper bound of a request from all quotas, or from none.

    Args:
        values: The shared values, in a transaction.
        quotas: The quotas of the run.
        bounds: The bounds of the request.
        new_run: The run id, if this is its first call, otherwise "".
    """
    places = {one: one.place + _period(one.quota, values.now_us) for one in quotas}
    # The same order everywhere, so that no two processes wait for each other.
    folders = {place: one.place for one, place in sorted(places.items(), key=lambda one: one[1])}
    found = {place: _read(values, place, folder) for place, folder in folders.items()}
    if new_run:
        for place in {places[one] for one in quotas if one.run_id == new_run}:
            found[place].runs += 1
    before, each = bounds.rates()
    caps = [_most_output(one.quota, found[places[one]], bounds, before, each) for one in quotas]
    most = min([one for one in caps if one is not None], default=None)
    output = bounds.max_tokens
    if output is None and most is not None:
        output = min(most, _MOST_OUTPUT)
    for one, place in places.items():
        error = _refusal(one.quota, found[place], bounds, output, values.now_us)
        if error is not None:
            return error
    cost = before + (output or 0) * each
    tokens = bounds.models * (bounds.input + (output or 0))
    for place, used in found.items():
        used.cost_usd += cost
        used.tokens += tokens
        values.write(place, msgspec.json.encode(used).decode())
    return Reservation(tuple(found), cost, tokens, output)


def settle(values: SharedValues, reserved: Reservation, cost_usd: Decimal, tokens: int) -> None:
    """Replace a reservation by the real usage."""
    for place in reserved.places:
        # The value of a past period may have been removed.
        if body := values.read(place):
            used = msgspec.json.decode(body, type=Used)
            used.cost_usd += cost_usd - reserved.cost_usd
            used.tokens += tokens - reserved.tokens
            values.write(place, msgspec.json.encode(used).decode())


def used_by(response: ModelResponse, reserved: Reservation) -> tuple[Decimal, int]:
    """Return the cost and tokens that a request used; if unknown, the whole reservation."""
    error, usage = response.error, response.usage
    is_refused = error is not None and (error.was_unsent or error.status_code in _REFUSED)
    # Models of a Fallback that were called before the refusing one may have used tokens.
    if is_refused and not tokens_of(usage) and not usage.unmeasured_calls:
        return _ZERO, 0
    if error is not None or usage.unmeasured_calls or not tokens_of(usage):
        return reserved.cost_usd, reserved.tokens
    cost = reserved.cost_usd if response.cost is None else money_of(response.cost)
    return cost, tokens_of(usage)


def _read(values: SharedValues, place: str, folder: str) -> Used:
    body = values.read(place)
    if body:
        return msgspec.json.decode(body, type=Used)
    # The first use in a new period: remove the values of past periods.
    values.forget(folder, place)
    return Used()


def _most_output(
    quota: Quota, used: Used, bounds: Bounds, before: Decimal, each: Decimal
) -> int | None:
    """Return the most tokens that a quota allows a request to generate, None if unlimited."""
    most: list[int] = []
    if quota.max_tokens is not None:
        most.append((quota.max_tokens - used.tokens) // bounds.models - bounds.input)
    if quota.max_cost_usd is not None and each:
        most.append(int((quota.max_cost_usd - used.cost_usd - before) / each))
    return min(most, default=None)


def _refusal(
    quota: Quota, used: Used, bounds: Bounds, output: int | None, now_us: int
) -> AgentError | None:
    """Return the error if a quota does not allow these bounds, None if it does."""
    before, each = bounds.rates()
    if quota.max_runs is not None and used.runs > quota.max_runs:
        return _spent_error(quota, "max_runs", now_us, used=used.runs - 1)
    if quota.max_tokens is not None:
        needed = bounds.models * (bounds.input + max(output or 0, 1))
        if used.tokens + needed > quota.max_tokens:
            return _spent_error(quota, "max_tokens", now_us, used=used.tokens, needed=needed)
    if quota.max_cost_usd is not None:
        if bounds.prices is None:
            return _unpriced_error(quota, bounds.model)
        cost = before + max(output or 0, 1) * each
        if used.cost_usd + cost > quota.max_cost_usd:
            spent = float(used.cost_usd)
            return _spent_error(quota, "max_cost_usd", now_us, used=spent, needed=float(cost))
    return None


def _spent_error(
    quota: Quota, limit: str, now_us: int, *, used: float, needed: float | None = None
) -> AgentError:
    allowed = float(getattr(quota, limit))
    wait_s = _left_s(quota, now_us)
    until = "" if wait_s is None else f"; it resets in {wait_s / 3600:.1f} h"
    more = "" if needed is None else f", and the call may need {needed:.6g}"
    details: JsonObject = {
        "dimension": "quota",
        "quota": quota.name,
        "limit_of": limit,
        "limit": allowed,
        "used": used,
        "phase": "unsent",
    }
    return AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        f"The quota {quota.name!r} has {limit}={allowed:.6g}, of which {used:.6g} are used or "
        f"reserved{more}{until}: raise it, or set ModelSettings(max_tokens=) lower.",
        retry_after_s=wait_s,
        origin=Origin.LIMIT,
        details=details,
    )


def _unpriced_error(quota: Quota, model: str) -> AgentError:
    return AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        f"The quota {quota.name!r} caps money, and the price of {model} is unknown: give "
        "prices=, or cap tokens.",
        origin=Origin.LIMIT,
        details={"dimension": "quota", "quota": quota.name, "model": model, "phase": "unsent"},
    )


def _period(quota: Quota, now_us: int) -> str:
    """Return the name of the current period, in UTC. Names sort by time."""
    now = datetime.fromtimestamp(now_us / 1e6, UTC)
    return {"day": f"{now:%Y-%m-%d}", "month": f"{now:%Y-%m}"}.get(quota.per or "", "always")


def _left_s(quota: Quota, now_us: int) -> float | None:
    """Return the seconds until the next period, None if there is none."""
    now = datetime.fromtimestamp(now_us / 1e6, UTC)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match quota.per:
        case None:
            return None
        case "day":
            following = day + timedelta(days=1)
        case "month":
            following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return (following - now).total_seconds()


async def bounds_of(model: Model, request: ModelRequest, counted: tuple[int, int]) -> Bounds:
    """Return upper bounds on the usage of a request.

    Args:
        model: The model to call.
        request: The request to send.
        counted: The input tokens and the number of messages of an earlier request of the run;
            zeros for none.
    """
    name = name_of(model)
    if (loading := default_prices().load(name)) is not None:
        await loading
    models = _models_of(model)
    prices: list[Price | None] = [getattr(one, "price", None) for one in models]
    known = tuple(one for one in prices if one is not None)
    sizes = _sizes(request)
    rest = msgspec.json.encode((request.system, request.tools, request.output_schema))
    tokens, messages = counted
    # Each token has at least one byte, except in linked files.
    most = sizes[-1] + len(rest)
    if messages < len(sizes):
        most = max(most, tokens + sizes[-1] - sizes[messages])
    outputs = [_max_tokens(one, request) for one in models]
    return Bounds(
        name,
        most,
        known if len(known) == len(models) else None,
        len(models),
        None if None in outputs else max(one for one in outputs if one is not None),
    )


def _max_tokens(model: Model, request: ModelRequest) -> int | None:
    """Return the limit on generated tokens, from the settings of the request or of the model."""
    for settings in (request.settings, getattr(model, "settings", None)):
        if settings is not None and settings.max_tokens is not None:
            return settings.max_tokens
    return None


def _models_of(model: Model) -> Sequence[Model]:
    """Return the models that one call may try, one after another."""
    inside: Sequence[Model] | None = getattr(model, "models", None)
    if not isinstance(inside, tuple):
        return (model,)
    return [one for each in inside for one in _models_of(each)]


def _sizes(request: ModelRequest) -> list[int]:
    """Return the size in bytes of the first n messages, for each n from 0."""
    messages = request.messages
    kept = messages.encoded if isinstance(messages, MessageList) else dict[object, object]()
    sizes = cast("list[int]", kept.setdefault(_sizes, [0]))
    for message in messages[len(sizes) - 1 :]:
        body = msgspec.json.encode(message)
        linked = sum(bool(getattr(part, "url", "")) for part in message.parts)
        sizes.append(sizes[-1] + len(body) + linked * _LINKED_TOKENS)
    return sizes[: len(messages) + 1]


def quotas_in(options: JsonObject) -> tuple[BoundQuota, ...]:
    """Return the quotas in the logged options of a run."""
    found = options.get(QUOTAS_OPTION)
    return msgspec.convert(found, tuple[BoundQuota, ...], strict=False) if found else ()


def renewed(
    given: Sequence[Quota | BoundQuota], logged: Sequence[BoundQuota]
) -> tuple[Quota | BoundQuota, ...]:
    """Return the quotas of a resumed run: the logged ones, updated by *given* ones of that name.

    Updated quotas keep the usage counted so far.
    """
    before = {(one.quota.name, one.quota.scope): one for one in reversed(logged)}
    found: list[Quota | BoundQuota] = []
    for one in given:
        if isinstance(one, Quota) and (known := before.get((one.name, one.scope))):
            found.append(replace(known, quota=one))
        else:
            found.append(one)
    anew = {(bare.name, bare.scope) for bare in map(_unbound, given)}
    return *(one for one in logged if (one.quota.name, one.quota.scope) not in anew), *found


def _unbound(one: Quota | BoundQuota) -> Quota:
    return one if isinstance(one, Quota) else one.quota


def handed_on(quotas: Sequence[Quota | BoundQuota], run_id: str) -> list[Quota | BoundQuota]:
    """Return the quotas for the run that a run hands over to: all of them.

    A quota per run counts both as one run. Other quotas are bound again, to the new run.
    """
    found: list[Quota | BoundQuota] = []
    for one in quotas:
        own = BoundQuota(one, run_id, run_id) if isinstance(one, Quota) else one
        is_kept = own.quota.scope == "run" or own.run_id != run_id
        found.append(own if is_kept else own.quota)
    return found
