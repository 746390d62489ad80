"""Budget: what a run may use, shared with the runs that it starts."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from ..errors import Misuse
from .keyword import KeywordMeta
from .usage import to_money
from .value import Value, check_types, set_field

__all__ = ["Budget"]


class Budget(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Limits of a run; None is no limit.

    Attributes:
        deadline_s: Seconds from the start until the run fails with timeout.
        working_s: The same, but for the time in which people are asked.
        max_turns: The most model calls of an engine, and steps of a machine or graph.
        max_tool_calls: The most tool calls in all.
        max_calls_per_tool: The most calls of one tool.
        max_denials: The most tool calls that are denied; then all others are.
        max_tokens: The most tokens of all model calls, children included.
        max_cost_usd: The most money, in US dollars.
        max_depth: How deep runs may start runs; the root has depth 0.
        tool_timeout_s: Seconds for a tool that names no timeout of its own.
        unpriced: "refuse" makes a cost limit on a model without a price misuse at the
            start; "allow" lets its calls run uncounted.
    """

    deadline_s: float | None = None
    working_s: float | None = None
    max_turns: int | None = 50
    max_tool_calls: int | None = None
    max_calls_per_tool: int | None = None
    max_denials: int | None = None
    max_tokens: int | None = None
    max_cost_usd: Decimal | None = None
    max_depth: int | None = 8
    tool_timeout_s: float | None = 45
    unpriced: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        if self.max_cost_usd is not None:
            set_field(self, "max_cost_usd", to_money(self.max_cost_usd))
        if self.unpriced not in ("refuse", "allow"):
            raise Misuse(f'unpriced is {self.unpriced!r}: give "refuse" or "allow"')
        check_types(self)
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            # Not below zero, and no NaN either.
            if isinstance(limit, int | float | Decimal) and not limit >= 0:
                raise Misuse(f"{name} is {limit}: give 0 or more, or None for no limit")
