"""Way: what came before a run that got its request from another agent."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ..contract import AgentResult, Budget, Cost, RunStarted, Usage

__all__ = ["WAY_OPTION", "Way", "way_in"]

WAY_OPTION = "relay"
"""Where run_started keeps it among the options."""


class Way(msgspec.Struct, kw_only=True):
    """What came before a run of a relay; its log has it.

    Attributes:
        path: Ids of the agents, in order.
        usage: Tokens of all.
        costs: What each cost that asked a model.
        handed: How many messages it got from them.
        max_depth: How often the request may be handed over.
        budget: What is left for it of the budget of all, None without one.
    """

    path: list[str] = []
    usage: Usage = Usage()
    costs: list[Cost | None] = []
    handed: int = 0
    max_depth: float
    budget: Budget | None = None

    def add(self, agent_id: str, result: AgentResult[Any]) -> None:
        """Take note of a run that ended."""
        self.path = [*self.path, agent_id]
        self.usage += result.usage
        if result.usage.api_calls or result.cost is not None:
            self.costs = [*self.costs, result.cost]
        if self.budget is not None:
            self.budget = _rest(self.budget, result)

    def sum_up(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """The last result, with the path, and with what all used."""
        cost = Cost.of_calls(self.costs)
        state = {**result.state, "path": list(self.path)}
        return replace(result, usage=self.usage, cost=cost, state=state)

    def fault(self, agent_id: str) -> str:
        """Why the request does not go on to *agent_id*, "" where it may."""
        if agent_id in self.path:
            ring = " -> ".join((*self.path, agent_id))
            return f"The request was handed over in a ring: {ring}."
        if len(self.path) > self.max_depth:
            return f"The request was handed over more than {self.max_depth} times."
        return ""


def way_in(started: RunStarted) -> Way | None:
    """What the log of a run says of it; None where the run is of no relay."""
    noted = started.options.get(WAY_OPTION)
    return None if noted is None else msgspec.convert(noted, Way)


def _rest(budget: Budget, result: AgentResult[Any]) -> Budget:
    """What *result* left of *budget*."""
    cost = result.cost.total if result.cost is not None else None
    return replace(
        budget,
        deadline_s=_left(budget.deadline_s, result.duration_ms / 1000),
        max_tokens=_left(budget.max_tokens, result.usage.total_tokens),
        max_cost_usd=_left(budget.max_cost_usd, cost),
    )


def _left(limit: Any, used: Any) -> Any:
    return limit if limit is None or used is None else max(limit - used, type(limit)(0))
