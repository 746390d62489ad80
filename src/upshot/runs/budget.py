"""RunBudget: what a run has used, measured against its budget and its parents' budgets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError
from upshot.contract.model_calls import (
    UNFINISHED,
    CountedCall,
    ModelResponse,
    counted,
    counted_run,
    is_unmeasured_answer,
    sum_of,
)
from upshot.contract.protocols import Clock
from upshot.contract.settings import Budget
from upshot.contract.usage import NO_USAGE, Cost, Usage
from upshot.runs.ending import StopReason
from upshot.state.child_runs import Spent
from upshot.tools.rate_limiter import ActiveTime

_ZERO = Decimal(0)
# Child runs may run in other threads. One lock for all budgets, held only while summing.
_LOCK = Lock()


class Elsewhere(NamedTuple):
    """What other runs used of a shared budget.

    Attributes:
        tokens: The tokens that are known of.
        money: The known cost.
        unmeasured_answers: Replies that came without their usage.
    """

    tokens: int = 0
    money: Decimal = _ZERO
    unmeasured_answers: int = 0


class RunBudget:
    """Sums up the model calls of a run and of its child runs.

    Calls are appended when they come and summed only on request, so a step costs the same however
    many came before.

    Args:
        budget: The limits.
        clock: The clock.
        parent: The budget of the parent run.
        spent_s: Seconds that earlier sessions took, without the time spent waiting for people.

    Attributes:
        budget: The limits.
        allowed: The limits in force at the start: its own, or what the parent runs had left if that
            was less.
        turns: Model calls that were started, not counting retries.
        deadline: Monotonic time at which the time is over, None for never.
        working: Measures working time, excluding waits for people; None without a limit on it.
        turns_before: The turns of earlier attempts.
        tool_calls: Started tool calls by tool name, including those of child runs.
        is_known: Set while usage is counted that the parent run has already counted.
        tell: Called with the usage of each call, cost included, also of child runs; None without
            a listener.
        elsewhere: What other runs of the conversation used, if the budget covers them all. They
            include the parent runs.
        look_elsewhere: Updates ``elsewhere``; None if no budget needs it.
        unmeasured_answers: Replies without usage, including those of child runs.
    """

    # Class attributes, so that runs which do not use them pay nothing.
    turns: int = 0
    turns_before: int = 0
    is_known: bool = False
    tell: Callable[[Usage], None] | None = None
    elsewhere: Elsewhere = Elsewhere()
    look_elsewhere: Callable[[], Awaitable[None]] | None = None
    unmeasured_answers: int = 0
    _unpriced: int = 0
    _mark: int = 0
    # The sum so far.
    _total: tuple[Usage, Cost | None] = (NO_USAGE, None)

    def __init__(
        self, budget: Budget, *, clock: Clock, parent: RunBudget | None = None, spent_s: float = 0.0
    ) -> None:
        self.budget = budget
        self._summed = 0
        self._usage = NO_USAGE
        self.tool_calls: dict[str, int] = {}
        self._calls: list[CountedCall] = []
        self._costs: list[Cost] = []
        self._parent = parent
        if parent is not None and parent.look_elsewhere is not None:
            self.look_elsewhere = parent.look_elsewhere
        self._clock = clock
        limit_s = budget.deadline_s
        self.deadline = None if limit_s is None else clock.monotonic() + limit_s - spent_s
        if parent is not None and parent.deadline is not None:
            own = self.deadline
            self.deadline = parent.deadline if own is None else min(own, parent.deadline)
        outer = None if parent is None else parent.working
        self.working: ActiveTime | None = outer
        if budget.working_s is not None:
            self.working = ActiveTime(clock, budget.working_s, spent_s=spent_s, outer=outer)
        # For error messages only: siblings may use more later, so `spent` asks the parent budgets
        # each time.
        self.allowed: Budget = budget if parent is None else _within(budget, parent.left())

    @property
    def total(self) -> tuple[Usage, Cost | None]:
        """The tokens of all calls, and their cost; None if no call had a price.

        The cost also has the number of calls without a price.
        """
        if self._summed == len(self._calls):
            return self._total
        with _LOCK:
            # A tool's thread may append now; calls after the slice are summed next time.
            calls = self._calls[self._summed :]
            for call in calls:
                is_first = self._usage is NO_USAGE
                self._usage = call.usage if is_first else self._usage + call.usage
                if call.cost is not None:
                    self._costs.append(call.cost)
                else:
                    self._unpriced += call.unpriced
            cost = Cost.of_calls(self._costs) if self._costs else None
            if cost is not None:
                # Keep only the sum.
                self._costs = [cost]
                cost = Cost.of_calls([cost, *[None] * self._unpriced])
            total = self._total = self._usage, cost
            self._summed += len(calls)
            return total

    def add(self, response: ModelResponse) -> None:
        """Count one model call, failed or not."""
        self._add(counted(response), unmeasured_answers=int(is_unmeasured_answer(response)))

    def since_mark(self) -> tuple[Usage, Cost | None]:
        """Return usage and cost since the last call of this method, or since the start."""
        if not self._calls:
            return NO_USAGE, None
        calls = self._calls[self._mark :]
        # The first attempt has used everything used so far.
        is_first, self._mark = not self._mark, len(self._calls)
        return self.total if is_first else sum_of(calls)

    def add_unfinished(self) -> None:
        """Count a model call that was cut off before a reply."""
        self._add(UNFINISHED)

    def add_spent(self, spent: Spent) -> None:
        """Count what a child run used, according to the log."""
        call = counted_run(spent.usage, spent.cost)
        self._add(call, unmeasured_answers=spent.unmeasured_answers)
        for name, calls in spent.tools.items():
            self.count_tool(name, calls)

    def count_tool(self, name: str, calls: int = 1) -> None:
        """Count tool calls whose bodies were started."""
        with _LOCK:
            self.tool_calls[name] = self.tool_calls.get(name, 0) + calls
        # The parent counted a resumed child run when it read its own log.
        if self._parent is not None and not self.is_known:
            self._parent.count_tool(name, calls)

    def _add(self, call: CountedCall, *, unmeasured_answers: int = 0) -> None:
        self._calls.append(call)
        self.unmeasured_answers += unmeasured_answers
        if self.tell is not None:
            self.tell(call.usage.with_cost(call.cost))
        if self._parent is not None and not self.is_known:
            self._parent._add(call, unmeasured_answers=unmeasured_answers)

    def left(self) -> dict[str, Any]:
        """Return what this budget and its parents leave to a child run, by field of Budget.

        Only limits that child runs share, and only those that are set.
        """
        found = {} if self._parent is None else self._parent.left()
        own = self.budget
        left: dict[str, Any] = {"max_depth": own.max_depth}
        if self.deadline is not None:
            left["deadline_s"] = self.deadline - self._clock.monotonic()
        if self.working is not None:
            left["working_s"] = self.working.left_s()
        if own.max_tool_calls is not None:
            left["max_tool_calls"] = own.max_tool_calls - sum(self.tool_calls.values())
        if own.max_tokens is not None:
            left["max_tokens"] = own.max_tokens - self._tokens()
        if own.max_cost_usd is not None:
            left["max_cost_usd"] = own.max_cost_usd - self._money()
        for name, limit in left.items():
            if limit is not None:
                # At least 0, because Budget refuses negative limits.
                found[name] = max(0, min(limit, found.get(name, limit)))
        return found

    def too_deep(self, depth: int) -> AgentError | None:
        """Return the error for a run at nesting depth *depth*, None if it is allowed."""
        limit = self.budget.max_depth
        if limit is None or depth <= limit:
            return None if self._parent is None else self._parent.too_deep(depth)
        return AgentError(
            ErrorCode.BUDGET_EXCEEDED,
            f"Child runs may be {limit} deep, and this one would be {depth} deep: "
            "raise Budget(max_depth=).",
            origin=Origin.LIMIT,
            details={"dimension": "depth", "limit": limit, "used": depth},
        )

    def time_error(self, stop: StopReason) -> AgentError:
        """Return the error for a run that was stopped because its time was over."""
        if stop == "working" and self.working is not None:
            return _working_error(self.working)
        return _deadline_error(self.allowed)

    def spent(self) -> AgentError | None:
        """Return the error of the limit that forbids another model call, None if none does."""
        limit = self.budget.max_turns
        if limit is not None and self.turns >= limit:
            return AgentError(
                ErrorCode.MAX_TURNS,
                f"The limit of {limit} model calls is reached: raise Budget(max_turns=).",
                origin=Origin.LIMIT,
                details={"dimension": "turns", "limit": limit, "used": self.turns},
            )
        return self.spent_by_children()

    def spent_by_children(self) -> AgentError | None:
        """Do the same as ``spent`` for a call of a child run, which has its own limit on turns."""
        if self.deadline is not None and self._clock.monotonic() >= self.deadline:
            return _deadline_error(self.allowed)
        if self.working is not None and self.working.left_s() <= 0:
            return _working_error(self.working)
        most, cap = self.budget.max_tokens, self.budget.max_cost_usd
        if most is not None and (tokens := self._tokens()) >= most:
            return _exceeded("tokens", most, tokens, "max_tokens")
        if cap is not None and (error := self._money_error(cap)) is not None:
            return error
        return None if self._parent is None else self._parent.spent_by_children()

    def _money_error(self, cap: Decimal) -> AgentError | None:
        """Return the error if a budget of *cap* allows no further call, None if it does."""
        if (money := self._money()) >= cap:
            return _exceeded("cost_usd", float(cap), float(money), "max_cost_usd")
        unmeasured = self.unmeasured_answers or self.elsewhere.unmeasured_answers
        if not unmeasured or not self.refuses_unmeasured:
            return None
        where = "" if self.unmeasured_answers else " in another run of the conversation"
        return AgentError(
            ErrorCode.BUDGET_EXCEEDED,
            f"The budget of {cap} cost_usd cannot be kept: a reply{where} came without its usage. "
            'Budget(unpriced="allow") does not count such calls.',
            origin=Origin.LIMIT,
            details={"dimension": "cost_usd", "limit": float(cap), "used": None},
        )

    @property
    def refuses_unmeasured(self) -> bool:
        """Whether a reply without its usage allows no further call."""
        return self.budget.max_cost_usd is not None and self.budget.unpriced == "refuse"

    @property
    def limits_tools(self) -> bool:
        """Whether tool calls are limited, by this budget or a parent's."""
        budget = self.budget
        has_limit = budget.max_tool_calls is not None or budget.max_calls_per_tool is not None
        return has_limit or (self._parent is not None and self._parent.limits_tools)

    def tools_spent(self, name: str) -> str:
        """Return which limit forbids another call of the tool, "" if none."""
        limit, limit_of_tool = self.budget.max_tool_calls, self.budget.max_calls_per_tool
        used, used_of_tool = sum(self.tool_calls.values()), self.tool_calls.get(name, 0)
        if limit is not None and used >= limit:
            return f"max_tool_calls: {used} of {limit} are used, runs inside included"
        if limit_of_tool is not None and used_of_tool >= limit_of_tool:
            return f"max_calls_per_tool: {used_of_tool} of {limit_of_tool} of {name} are used"
        return "" if self._parent is None else self._parent.tools_spent(name)

    def _tokens(self) -> int:
        """Return the known tokens. If a reply reports only input tokens, these count."""
        return self.elsewhere[0] + tokens_of(self.total[0])

    def _money(self) -> Decimal:
        return self.elsewhere.money + money_of(self.total[1])


def tokens_of(usage: Usage) -> int:
    """Return the number of known tokens."""
    return max(usage.total_tokens or 0, (usage.input_tokens or 0) + (usage.output_tokens or 0))


def money_of(cost: Cost | None) -> Decimal:
    """Return the known cost."""
    return _ZERO if cost is None or cost.total is None else cost.total


def _within(budget: Budget, left: Mapping[str, Any]) -> Budget:
    """Return *budget*, reduced to what is *left* where that is less."""
    less = {
        name: limit
        for name, limit in left.items()
        if (own := getattr(budget, name)) is None or limit < own
    }
    return msgspec.structs.replace(budget, **less) if less else budget


def _deadline_error(budget: Budget) -> AgentError:
    """Return the error for a run whose deadline has passed."""
    return AgentError(
        ErrorCode.TIMEOUT,
        "The run's deadline has passed: raise Budget(deadline_s=) if it needs longer.",
        origin=Origin.LIMIT,
        details={"dimension": "deadline_s", "limit": budget.deadline_s},
    )


def _working_error(working: ActiveTime) -> AgentError:
    """Return the error for a run whose working time is used up."""
    return AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        f"The budget of {working.limit_s:g} s of work is spent: raise Budget(working_s=) if it "
        "needs longer.",
        origin=Origin.LIMIT,
        details={"dimension": "working_s", "limit": working.limit_s},
    )


def _exceeded(dimension: str, limit: Json, used: Json, option: str) -> AgentError:
    return AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        f"The budget of {limit} {dimension} is spent ({used} used): raise Budget({option}=).",
        origin=Origin.LIMIT,
        details={"dimension": dimension, "limit": limit, "used": used},
    )
