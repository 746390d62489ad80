"""Ledger: what a run has used, measured against its budget and its parents' budgets."""

from __future__ import annotations

from decimal import Decimal

from ..contract import (
    AgentError,
    Budget,
    Clock,
    Cost,
    ErrorCode,
    Json,
    ModelResponse,
    Origin,
    Usage,
)

__all__ = ["Ledger", "deadline_error"]

_ZERO = Decimal(0)


class Ledger:
    """Sums up the model calls of a run and of the runs that it started.

    Attributes:
        budget: The limits.
        turns: Model calls that were begun, retries of one not counted.
        usage: Tokens of all calls.
        deadline: Monotonic moment at which the time is over, None for never.
    """

    def __init__(self, budget: Budget, *, clock: Clock, parent: Ledger | None = None) -> None:
        self.budget = budget
        self.turns = 0
        self.usage = Usage()
        self._costs: Cost | None = None
        self._unpriced = 0
        self._marked_usage = Usage()
        self._marked_costs: list[Cost | None] = []
        self._parent = parent
        self._clock = clock
        limit_s = budget.deadline_s
        self.deadline = None if limit_s is None else clock.monotonic() + limit_s
        if parent is not None and parent.deadline is not None:
            own = self.deadline
            self.deadline = parent.deadline if own is None else min(own, parent.deadline)

    @property
    def cost(self) -> Cost | None:
        """Money for all priced calls, the others counted; None where none was priced."""
        if self._costs is None or not self._unpriced:
            return self._costs
        unpriced: list[Cost | None] = [None] * self._unpriced
        return Cost.of_calls([self._costs, *unpriced])

    def add(self, response: ModelResponse) -> None:
        """Count one model call, well or not."""
        usage = response.usage
        calls = Usage(api_calls=max(0, 1 - usage.api_calls))
        if not usage and not usage.unmeasured_calls and not _refused(response):
            calls = Usage(api_calls=calls.api_calls, unmeasured_calls=1)
        self._add(usage + calls, response.cost, priced=_refused(response))

    def since_mark(self) -> tuple[Usage, Cost | None]:
        """Usage and cost since the last call of this, or since the start."""
        usage, costs = self._marked_usage, self._marked_costs
        self._marked_usage, self._marked_costs = Usage(), []
        return usage, Cost.of_calls(costs)

    def add_unfinished(self) -> None:
        """Count a model call that was cut off before it answered."""
        self._add(Usage(api_calls=1, unmeasured_calls=1), None, priced=False)

    def _add(self, usage: Usage, cost: Cost | None, *, priced: bool) -> None:
        self.usage = self.usage + usage
        self._marked_usage = self._marked_usage + usage
        if cost is not None or not priced:
            self._marked_costs.append(cost)
        if cost is not None:
            self._costs = cost if self._costs is None else self._costs + cost
        elif not priced:
            self._unpriced += 1
        if self._parent is not None:
            self._parent._add(usage, cost, priced=priced)

    def too_deep(self, depth: int) -> AgentError | None:
        """Why a run may not be *depth* deep, None where it may; parents' limits hold too."""
        limit = self.budget.max_depth
        if limit is None or depth <= limit:
            return None if self._parent is None else self._parent.too_deep(depth)
        return AgentError(
            ErrorCode.BUDGET_EXCEEDED,
            f"Runs may start runs {limit} deep, and this one would be {depth} deep: "
            "raise Budget(max_depth=).",
            origin=Origin.LIMIT,
            details={"dimension": "depth", "limit": limit, "used": depth},
        )

    def spent(self) -> AgentError | None:
        """The limit that forbids another model call, None where all are kept."""
        found = self._own_limit()
        if found is None and self._parent is not None:
            found = self._parent.spent_by_children()
        return found

    def spent_by_children(self) -> AgentError | None:
        """The same for a call of a child run, whose turns are its own."""
        found = self._shared_limit()
        if found is None and self._parent is not None:
            found = self._parent.spent_by_children()
        return found

    def _own_limit(self) -> AgentError | None:
        limit = self.budget.max_turns
        if limit is not None and self.turns >= limit:
            return AgentError(
                ErrorCode.MAX_TURNS,
                f"The limit of {limit} model calls is reached: raise Budget(max_turns=).",
                origin=Origin.LIMIT,
                details={"dimension": "turns", "limit": limit, "used": self.turns},
            )
        return self._shared_limit()

    def _shared_limit(self) -> AgentError | None:
        if self.deadline is not None and self._clock.monotonic() >= self.deadline:
            return deadline_error(self.budget)
        tokens, most = self.usage.total_tokens or 0, self.budget.max_tokens
        if most is not None and tokens >= most:
            return _exceeded("tokens", most, tokens, "max_tokens")
        money, cap = self._costs.total if self._costs else None, self.budget.max_cost_usd
        if cap is not None and (money or _ZERO) >= cap:
            return _exceeded("cost_usd", float(cap), float(money or 0), "max_cost_usd")
        return None


def _refused(response: ModelResponse) -> bool:
    """Whether the provider turned the call away, so that nothing was used or charged."""
    error = response.error
    return error is not None and (error.status_code or 0) >= 400 and not response.usage


def deadline_error(budget: Budget) -> AgentError:
    """What a run fails with when its time is over."""
    return AgentError(
        ErrorCode.TIMEOUT,
        "The run's deadline has passed: raise Budget(deadline_s=) if it needs longer.",
        origin=Origin.LIMIT,
        details={"dimension": "deadline_s", "limit": budget.deadline_s},
    )


def _exceeded(dimension: str, limit: Json, used: Json, option: str) -> AgentError:
    return AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        f"The budget of {limit} {dimension} is spent ({used} used): raise Budget({option}=).",
        origin=Origin.LIMIT,
        details={"dimension": dimension, "limit": limit, "used": used},
    )
