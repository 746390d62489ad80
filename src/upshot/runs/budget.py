"""Ledger: what a run has used, measured against its budget and its parents' budgets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from threading import Lock
from typing import Any

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
    sum_of,
)
from upshot.contract.protocols import Clock
from upshot.contract.settings import Budget
from upshot.contract.usage import NO_USAGE, Cost, Usage
from upshot.runs.ending import StopReason
from upshot.state.child_runs import Spent
from upshot.tools.rate_limiter import ActiveTime

_ZERO = Decimal(0)
# Child runs may live in other threads. One lock for all budgets: it is held for a sum, no longer.
_LOCK = Lock()


class RunBudget:
    """Sums up the model calls of a run and of the runs that it started.

    Calls are only noted as they come and summed when somebody asks, so that a step
    costs the same however many came before.

    Args:
        budget: The limits.
        clock: Time.
        parent: The account of the run that started this one.
        spent_s: Seconds that earlier sessions took; waiting for people is no part of them.

    Attributes:
        budget: The limits.
        allowed: The limits that hold from its start on: its own, or what was left then of those
            of the runs round it where that is less.
        turns: Model calls that were begun, retries of one not counted.
        deadline: Monotonic moment at which the time is over, None for never.
        working: The time in which nobody is asked, None where it has no limit.
        turns_before: Those of earlier attempts.
        tool_calls: Tool calls that were started, by name, those of runs inside included.
        is_known: Set while what the run round this one knows already is counted.
        tell: Told what each call used, with its cost, those of runs inside included; None tells
            nobody.
        elsewhere: Tokens and money that other runs of the conversation used, where the budget is
            of all of them; those of the runs round this one count there.
        look_elsewhere: Finds that out anew; None where no budget asks for it.
        unmeasured_answers: Replies that came without their usage, those of child runs included.
    """

    # On the class, so that a run that sets none of them pays for none.
    turns: int = 0
    turns_before: int = 0
    is_known: bool = False
    tell: Callable[[Usage], None] | None = None
    elsewhere: tuple[int, Decimal] = (0, _ZERO)
    look_elsewhere: Callable[[], Awaitable[None]] | None = None
    unmeasured_answers: int = 0
    _unpriced: int = 0
    _mark: int = 0
    # Of the calls that were summed.
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
        # Told in errors. What siblings use later is no part of it: for that `spent` asks the runs
        # round this one each time.
        self.allowed: Budget = budget if parent is None else _within(budget, parent.left())

    @property
    def total(self) -> tuple[Usage, Cost | None]:
        """Tokens of all calls, and money of the priced ones, the others counted in it.

        The money is None where no call was priced.
        """
        if self._summed == len(self._calls):
            return self._total
        with _LOCK:
            # A tool's thread may append meanwhile: what comes after the slice is summed next time.
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
                # What is summed is kept as one.
                self._costs = [cost]
                cost = Cost.of_calls([cost, *[None] * self._unpriced])
            total = self._total = self._usage, cost
            self._summed += len(calls)
            return total

    def add(self, response: ModelResponse) -> None:
        """Count one model call, well or not."""
        call = counted(response)
        is_unknown = response.error is None and call.cost is None and call.usage.unmeasured_calls
        self._add(call, unmeasured_answers=1 if is_unknown else 0)

    def since_mark(self) -> tuple[Usage, Cost | None]:
        """Usage and cost since the last call of this, or since the start."""
        if not self._calls:
            return NO_USAGE, None
        calls = self._calls[self._mark :]
        # The only attempt so far has used what all have.
        is_first, self._mark = not self._mark, len(self._calls)
        return self.total if is_first else sum_of(calls)

    def add_unfinished(self) -> None:
        """Count a model call that was cut off before it answered."""
        self._add(UNFINISHED)

    def add_spent(self, spent: Spent) -> None:
        """Count what a child run used, as the log says."""
        call = counted_run(spent.usage, spent.cost)
        self._add(call, unmeasured_answers=spent.unmeasured_answers)
        for name, calls in spent.tools.items():
            self.count_tool(name, calls)

    def count_tool(self, name: str, calls: int = 1) -> None:
        """Count tool calls whose bodies were started."""
        with _LOCK:
            self.tool_calls[name] = self.tool_calls.get(name, 0) + calls
        # A resumed child run was counted by its parent when its log was read.
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
        """What it and the runs round it leave to a run inside, by the names of a Budget's fields.

        Only of limits that runs share; a limit that nobody has is not there.
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
                # Never below 0, which a Budget refuses: a limit that was passed leaves as little.
                found[name] = max(0, min(limit, found.get(name, limit)))
        return found

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

    def time_error(self, stop: StopReason) -> AgentError:
        """What a run fails with that was stopped since its time was over."""
        if stop == "working" and self.working is not None:
            return _working_error(self.working)
        return _deadline_error(self.allowed)

    def spent(self) -> AgentError | None:
        """The limit that forbids another model call, None where all are kept."""
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
        """The same for a call of a child run, whose turns are its own."""
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
        """Why a budget of *cap* allows no further call, None where it does."""
        if (money := self._money()) >= cap:
            return _exceeded("cost_usd", float(cap), float(money), "max_cost_usd")
        if not self.unmeasured_answers or self.budget.unpriced != "refuse":
            return None
        return AgentError(
            ErrorCode.BUDGET_EXCEEDED,
            f"The budget of {cap} cost_usd cannot be kept: a reply came without its usage. "
            'Budget(unpriced="allow") does not count such calls.',
            origin=Origin.LIMIT,
            details={"dimension": "cost_usd", "limit": float(cap), "used": None},
        )

    @property
    def limits_tools(self) -> bool:
        """Whether tool calls are limited, here or in a run round this one."""
        budget = self.budget
        has_limit = budget.max_tool_calls is not None or budget.max_calls_per_tool is not None
        return has_limit or (self._parent is not None and self._parent.limits_tools)

    def tools_spent(self, name: str) -> str:
        """Which limit leaves no room for one more call of the tool, "" if none."""
        limit, limit_of_tool = self.budget.max_tool_calls, self.budget.max_calls_per_tool
        used, used_of_tool = sum(self.tool_calls.values()), self.tool_calls.get(name, 0)
        if limit is not None and used >= limit:
            return f"max_tool_calls: {used} of {limit} are used, runs inside included"
        if limit_of_tool is not None and used_of_tool >= limit_of_tool:
            return f"max_calls_per_tool: {used_of_tool} of {limit_of_tool} of {name} are used"
        return "" if self._parent is None else self._parent.tools_spent(name)

    def _tokens(self) -> int:
        """All that are known; who tells only what went in has used that much at least."""
        return self.elsewhere[0] + tokens_of(self.total[0])

    def _money(self) -> Decimal:
        return self.elsewhere[1] + money_of(self.total[1])


def tokens_of(usage: Usage) -> int:
    """All tokens that are known of."""
    return max(usage.total_tokens or 0, (usage.input_tokens or 0) + (usage.output_tokens or 0))


def money_of(cost: Cost | None) -> Decimal:
    """The money that is known of."""
    return _ZERO if cost is None or cost.total is None else cost.total


def _within(budget: Budget, left: Mapping[str, Any]) -> Budget:
    """*budget*, with what is *left* where that is less."""
    less = {
        name: limit
        for name, limit in left.items()
        if (own := getattr(budget, name)) is None or limit < own
    }
    return msgspec.structs.replace(budget, **less) if less else budget


def _deadline_error(budget: Budget) -> AgentError:
    """What a run fails with when its time is over."""
    return AgentError(
        ErrorCode.TIMEOUT,
        "The run's deadline has passed: raise Budget(deadline_s=) if it needs longer.",
        origin=Origin.LIMIT,
        details={"dimension": "deadline_s", "limit": budget.deadline_s},
    )


def _working_error(working: ActiveTime) -> AgentError:
    """What a run fails with when it has worked for too long."""
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
