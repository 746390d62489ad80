"""State of one tool call, and of the tool turn that it belongs to."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Literal, TypeAlias

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.pending import PendingApproval
from upshot.contract.protocols import Clock
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import (
    ApprovalRecord,
    Coercion,
    GateVerdict,
    ToolCall,
    ToolOutcome,
    ToolRecord,
)
from upshot.errors import Misuse
from upshot.tools.arguments.argument_check import Refused
from upshot.tools.arguments.schema_faults import canonical_json
from upshot.tools.artifacts import READER_NAME
from upshot.tools.catalog import OfferedTools
from upshot.tools.definition.tool import Tool
from upshot.tools.rate_limiter import ActiveTime, RateLimiter
from upshot.tools.repetition import Deduplication, Flight, LoopDetector

__all__ = ["CallState", "RememberedApprovals", "ReplayScope", "TurnState", "running_case"]


class RememberedApprovals:
    """What people have refused, and what they let run always.

    It outlives turns, and is built anew from records when a run goes on.
    """

    def __init__(self) -> None:
        self._refused: dict[str, ApprovalRecord] = {}
        self._granted: dict[str, ApprovalRecord] = {}

    def learn(self, approval: ApprovalRecord, *, tool_name: str, tool_version: str) -> None:
        """Keep what of an answer is for good.

        Args:
            approval: The answer; yes or no, it holds within its scope.
            tool_name: The tool of the call.
            tool_version: Its version; a yes for the tool does not hold for another one.
        """
        if approval.decision == "denied":
            if approval.scope:
                self._refused[approval.digest] = approval
        elif approval.scope == "arguments":
            self._granted[approval.digest] = approval
        elif approval.scope == "tool":
            self._granted[_key_of_tool(tool_name, tool_version)] = approval

    def learn_record(self, record: ToolRecord) -> None:
        """Keep what the record of an earlier call says."""
        if record.approval is not None:
            self.learn(
                record.approval, tool_name=record.tool_name, tool_version=record.tool_version
            )

    @property
    def is_empty(self) -> bool:
        """Whether nobody has said anything yet."""
        return not self._refused and not self._granted

    def refusal(self, digest: str) -> str:
        """What a person said when refusing the very same call, "" where nobody did."""
        refused = self._refused.get(digest)
        return "" if refused is None else refused.reason or "it was not approved"

    def grant(
        self, digest: str, *, tool_name: str, tool_version: str, distrusted: bool
    ) -> ApprovalRecord | None:
        """The standing yes that covers a call, None where there is none.

        Args:
            digest: Of the call.
            tool_name: Its tool.
            tool_version: The tool's version.
            distrusted: Whether it is asked about because of untrusted results. A yes for any
                arguments was not meant for those that strangers may have chosen.
        """
        found = self._granted.get(digest)
        if found is None and not distrusted:
            found = self._granted.get(_key_of_tool(tool_name, tool_version))
        return found


def _key_of_tool(name: str, version: str) -> str:
    return f"{name}\n{version}"


ReplayScope: TypeAlias = Literal["turn", "run", "context"]

_REFUSALS_TO_BLOCK = 3
_HAIR_S = 0.002


class TurnState:
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
        working: ActiveTime | None = None,
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
        self.consent: RememberedApprovals = RememberedApprovals()
        self.ladder: LoopDetector = LoopDetector()
        self.tainted = ""
        self.meters: RateLimiter = RateLimiter(clock)
        self.replay: Deduplication = Deduplication()
        self._refusals: Counter[str] = Counter()
        if deadline is None and budget.deadline_s is not None:
            deadline = clock.monotonic() + budget.deadline_s
        self._deadline = deadline
        if working is None and budget.working_s is not None:
            working = ActiveTime(clock, budget.working_s)
        self._working: ActiveTime | None = working

    def following(self, scope: ReplayScope) -> TurnState:
        """The next turn.

        Args:
            scope: How long successes are remembered.
        """
        in_run = self._in_run
        after = TurnState(
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


running_case: ContextVar[CallState | None] = ContextVar("upshot_case", default=None)
"""The call whose body is running in this context."""


class CallState:
    """One call under way; what a gate looks at and what its record is made of.

    A gate of your own may read all of it; only ``asks`` is for you to set.

    Attributes:
        call: The call as the model made it.
        turn: The tool turn that it belongs to.
        catalog: The tools.
        label: What the caller of ``dispatch`` called the turn.
        tool: The tool, None until the gate known_tool has found it.
        source: What the arguments are read from: the model's, or a hook's or person's edit.
        given: The arguments as the body gets them: parsed, coerced and valid.
        arguments: The same with the schema's defaults filled in.
        values: The typed values of ``given``.
        coercions: What was changed to fit the schema.
        trace: What each gate said.
        asks: Why people shall be asked whatever the tool declares; "" if they need not be.
        answered: Whether somebody's answer is at hand, so that nobody else is asked.
        distrusted: Whether that is because untrusted results are in the context.
        edited: Whether a hook or a person has changed the arguments.
        refused: What was wrong before a model corrected the arguments; None where none has.
        mended: What a model corrected them to; None where none has.
        content: What the model reads of its outcome, None where nobody has written it yet.
        dry: Whether nobody is asked and nothing is done: what would come of it is wanted.
        granted: Digest of what a person let pass, "" for none.
        approval: Who let it run, or did not.
        pending: What is asked, where it is parked.
        follows: The id of the parked call whose equal it is, and which it waits for; "" for none.
        held: Its flight in replay control, None where it has none.
        resources: What it touches, None for anything.
        idempotency_key: What the body is given to recognise a repetition.
        mode: How the body runs: async or thread; "" before it does.
        attempts: How often the body was started.
        started_at: When it was started first.
        run_started: The same on the monotonic clock.
        opened: When the call came in, on the monotonic clock.
        paused_s: Seconds that people took.
        lossy: Paths of output values that JSON cannot hold.
        trust: "untrusted" where its body has brought in words of strangers, whatever the tool
            declares; else "".
        redactions: How many secrets were masked in its output.
        place: Which gate is next.
        wait: What a gate waits for, None for nothing.
        outcome: What came of it, None while it is open.
    """

    # Slots: one is made for every call, and a misspelt attribute must not go unseen.
    __slots__ = (
        "_digest",
        "answered",
        "approval",
        "arguments",
        "asks",
        "attempts",
        "call",
        "catalog",
        "coercions",
        "content",
        "distrusted",
        "dry",
        "edited",
        "follows",
        "given",
        "granted",
        "held",
        "idempotency_key",
        "label",
        "lossy",
        "mended",
        "mode",
        "opened",
        "outcome",
        "paused_s",
        "pending",
        "place",
        "redactions",
        "refused",
        "resources",
        "run_started",
        "source",
        "started_at",
        "tool",
        "trace",
        "trust",
        "turn",
        "values",
        "wait",
    )

    def __init__(
        self, call: ToolCall, *, turn: TurnState, catalog: OfferedTools, label: int, opened: float
    ) -> None:
        if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"calls are a list of ToolCalls, and {call!r:.60} is none")
        self.call: ToolCall = call
        self.turn: TurnState = turn
        self.catalog: OfferedTools = catalog
        self.label: int = label
        self.opened: float = opened
        self.tool: Tool | None = None
        self.source: str | Mapping[str, Json] = call.arguments
        self.given: JsonObject = {}
        self.arguments: JsonObject | None = None
        self.values: dict[str, object] = {}
        self.coercions: tuple[Coercion, ...] = ()
        self.trace: list[GateVerdict] = []
        self.asks: str = ""
        self.refused: Refused | None = None
        self.mended: str | JsonObject | None = None
        self.answered: bool = False
        self.distrusted: bool = False
        self.dry: bool = False
        self.edited: bool = False
        self.granted: str = ""
        self.approval: ApprovalRecord | None = None
        self.pending: PendingApproval | None = None
        self.held: Flight | None = None
        self.follows: str = ""
        self.resources: frozenset[str] | None = None
        self.place: int = 0
        self.idempotency_key: str = ""
        self.mode: str = ""
        self.attempts: int = 0
        self.started_at: datetime | None = None
        self.run_started: float | None = None
        self.paused_s: float = 0.0
        self.lossy: tuple[str, ...] = ()
        self.outcome: ToolOutcome | None = None
        self.content: str | None = None
        self.redactions: int = 0
        self.trust: str = ""
        self.wait: asyncio.Future[object] | None = None
        self._digest = ""

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        return self.call.id

    @property
    def tool_name(self) -> str:
        """The tool as the model named it."""
        return self.call.name

    @property
    def effect(self) -> Effect:
        """What the tool says it may do; write where it is unknown."""
        return Effect.WRITE if self.tool is None else self.tool.declared_effect

    @property
    def known_tool(self) -> Tool:
        """The tool, once the gate known_tool has let the call pass."""
        if self.tool is None:
            raise RuntimeError(f"the call of {self.tool_name!r} has not passed known_tool")
        return self.tool

    @property
    def digest(self) -> str:
        """SHA-256 over the tool, its version and the valid arguments."""
        if not self._digest:
            tool = self.known_tool
            said = canonical_json([tool.name, tool.version, self.arguments])
            self._digest = hashlib.sha256(said).hexdigest()
        return self._digest

    def settle_arguments(
        self,
        given: JsonObject,
        filled: JsonObject,
        values: dict[str, object],
        coercions: tuple[Coercion, ...],
    ) -> None:
        """Take arguments that were found valid."""
        self.given, self.arguments, self.values = given, filled, values
        self.coercions, self._digest = coercions, ""
