"""Turn: what is counted and remembered from one user request to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeAlias

from ..contract import Budget, Clock
from .artifacts import READER_NAME
from .consent import Consent
from .definition import Tool
from .ladder import Ladder
from .meters import Meters
from .replay import ReplayControl
from .working_time import WorkingTime

__all__ = ["ReplayScope", "Turn"]

ReplayScope: TypeAlias = Literal["turn", "run", "context"]

_REFUSALS_TO_BLOCK = 3
_HAIR_S = 0.002


class Turn:
    """The state of a tool turn; gates look at it.

    Attributes:
        clock: Time.
        budget: The limits.
        cancelled: Whether nothing may start any more.
        blocked: Tools that may not be called again, with the reason.
        blocked_keys: Digests of calls that may not be made again.
        calls: How many bodies were started.
        calls_of: The same for each tool.
        denials: How many calls were denied.
        outer_spent: Says which limit that others count is reached, "" for none; None asks nobody.
        consent: What people said for good.
        ladder: Whether the same call is made again and again.
        meters: What is counted for rate limits and circuits of tools.
        tainted: The tool whose untrusted result is in the context, "" for none.
        parked: Ids of calls that wait for people and are not to be made twice, by digest.
        replay: Which calls succeeded already.
    """

    def __init__(
        self,
        clock: Clock,
        budget: Budget,
        *,
        deadline: float | None = None,
        working: WorkingTime | None = None,
        in_run: bool = False,
    ) -> None:
        """Begin.

        Args:
            clock: Time.
            budget: The limits.
            deadline: When the time is over, on the monotonic clock; None counts
                ``budget.deadline_s`` from now.
            working: The same but for what people take; None counts ``budget.working_s`` from now.
            in_run: Whether the budget is a run's and goes on in the turns that follow.
        """
        self.outer_spent: Callable[[], str] | None = None
        self._in_run = in_run
        self.clock = clock
        self.budget = budget
        self.cancelled = False
        self.blocked: dict[str, str] = {}
        self.blocked_keys: set[str] = set()
        self.calls: int = 0
        self.calls_of: Counter[str] = Counter()
        self.denials = 0
        self.parked: dict[str, str] = {}
        self.consent: Consent = Consent()
        self.ladder: Ladder = Ladder()
        self.tainted = ""
        self.meters: Meters = Meters(clock)
        self.replay: ReplayControl = ReplayControl()
        self._refusals: Counter[str] = Counter()
        if deadline is None and budget.deadline_s is not None:
            deadline = clock.monotonic() + budget.deadline_s
        self._deadline = deadline
        if working is None and budget.working_s is not None:
            working = WorkingTime(clock, budget.working_s)
        self._working: WorkingTime | None = working

    def following(self, scope: ReplayScope) -> Turn:
        """The next turn.

        Args:
            scope: How long successes are remembered.
        """
        in_run = self._in_run
        after = Turn(
            self.clock,
            self.budget,
            deadline=self._deadline if in_run else None,
            working=self._working if in_run else None,
            in_run=in_run,
        )
        after.outer_spent = self.outer_spent
        # What a person said is final, and what the model has read stays read.
        after.consent, after.tainted, after.meters = self.consent, self.tainted, self.meters
        if in_run:
            after.calls, after.calls_of = self.calls, self.calls_of
            after.denials = self.denials
        if scope != "turn":
            after.replay = self.replay
        return after

    def remaining_s(self) -> float | None:
        """Seconds that are left to work, below 0 when they are over; None without a limit."""
        left, working = self.waiting_s(), self._working
        if working is None:
            return left
        return working.left_s() if left is None else min(left, working.left_s())

    def waiting_s(self) -> float | None:
        """Seconds that are left to wait for people: until the deadline, None without one."""
        return None if self._deadline is None else self._deadline - self.clock.monotonic()

    def asking(self) -> AbstractContextManager[None]:
        """What to be in while a person is asked."""
        return nullcontext() if self._working is None else self._working.asking()

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed, or is passing: timers for it may be a hair early."""
        left = self.remaining_s()
        return left is not None and left <= _HAIR_S

    def spent(self, tool_name: str) -> str:
        """Which limit leaves no room for one more call, "" if none."""
        working = self._working
        if working is not None and working.left_s() <= 0:
            return f"working_s: {working.limit_s:g} s of work are over"
        if tool_name == READER_NAME:
            # What was paid for already can be read to its end.
            return ""
        limit, limit_of_tool = self.budget.max_tool_calls, self.budget.max_calls_per_tool
        if limit is not None and self.calls >= limit:
            return f"max_tool_calls: {self.calls} of {limit} are used"
        used = self.calls_of[tool_name]
        if limit_of_tool is not None and used >= limit_of_tool:
            return f"max_calls_per_tool: {used} of {limit_of_tool} of {tool_name} are used"
        most = self.budget.max_denials
        if most is not None and self.denials >= most:
            return f"max_denials: {self.denials} calls were denied"
        return "" if self.outer_spent is None else self.outer_spent()

    def claim(self, tool_name: str) -> None:
        """Count one call; one that reads a stored output does not count."""
        if tool_name != READER_NAME:
            self.calls += 1
            self.calls_of[tool_name] += 1

    def unclaim(self, tool_name: str) -> None:
        """Take back a count: the body did not start."""
        if tool_name != READER_NAME:
            self.calls -= 1
            self.calls_of[tool_name] -= 1

    def block(self, tool: Tool, digest: str) -> None:
        """A call failed for good."""
        if tool.block_scope == "key":
            self.blocked_keys.add(digest)
        else:
            self.blocked[tool.name] = "an earlier call failed for good"

    def accept(self, tool_name: str) -> None:
        """A call's arguments were valid."""
        self._refusals.pop(tool_name, None)

    def refuse(self, tool_name: str) -> None:
        """A call's arguments were refused; the third time in a row blocks the tool."""
        self._refusals[tool_name] += 1
        if self._refusals[tool_name] >= _REFUSALS_TO_BLOCK:
            self.blocked[tool_name] = (
                f"its arguments were refused {self._refusals[tool_name]} times in a row"
            )
