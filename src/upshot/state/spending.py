"""Where the money of a run went: the steps that cost most, in one sentence."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from upshot.contract.base.words import count, money
from upshot.contract.usage import Cost, Usage
from upshot.state.activity import Activity, Step, label_of

_MOST_NAMED = 3


class _Spender(NamedTuple):
    """A step that cost something.

    Attributes:
        amount: Money, or tokens where nothing has a price.
        name: Its number and name.
        usage: Its tokens.
    """

    amount: Decimal
    name: str
    usage: Usage


def spending_of(activity: Activity) -> str:
    """Return which model calls and child runs cost most; "" if no cost and no tokens are known.

    It compares tokens if nothing has a price.
    """
    usage, cost = activity.spent
    whole = Decimal(usage.total_tokens or 0)
    if cost is not None and cost.total:
        whole = cost.total
    else:
        cost = None
    if not whole:
        return ""
    steps = enumerate(activity.logged)
    found = [one for at, step in steps if (one := _spender(at, step, cost)) is not None]
    found.sort(key=lambda one: one.amount, reverse=True)
    named, others = found[:_MOST_NAMED], found[_MOST_NAMED:]
    parts = [
        f"{_amount_words(one.amount, cost)} to {one.name} ({_token_words(one.usage)})"
        for one in named
    ]
    rest = whole - sum(one.amount for one in named)
    if rest > 0 and parts:
        parts.append(
            f"{_amount_words(rest, cost)} to {count(len(others), 'other')}" if others else ""
        )
    return f"Of {_amount_words(whole, cost)}, {', '.join(filter(None, parts))}." if parts else ""


def _spender(at: int, step: Step, whole: Cost | None) -> _Spender | None:
    """Return a step as one that cost something, in the currency of the run; None if it did not."""
    used = step.response or step.inside
    if used is None:
        return None
    amount = Decimal(used.usage.total_tokens or 0)
    if whole is not None:
        is_known = used.cost is not None and used.cost.currency == whole.currency
        amount = (used.cost.total or Decimal()) if is_known and used.cost else Decimal()
    what = "a child run" if step.inside is not None else label_of(step)
    return _Spender(amount, f"step {at + 1}, {what}", used.usage) if amount > 0 else None


def _amount_words(amount: Decimal, whole: Cost | None) -> str:
    if whole is None:
        return count(int(amount), "token")
    return money(Cost(total=amount, currency=whole.currency))


def _token_words(usage: Usage) -> str:
    """Return tokens in, cached and out, as far as they are known."""
    parts = (
        (usage.input_tokens, "in"),
        (usage.cache_read_tokens, "of them cached"),
        (usage.output_tokens, "out"),
    )
    found = [f"{number:,} {what}" for number, what in parts if number]
    return "tokens: " + ", ".join(found) if found else "no tokens known"
