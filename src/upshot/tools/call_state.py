"""State of one tool call, and of the tool turn that it belongs to."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.effects import EffectClaim
from upshot.contract.pending import GivenApproval, Pending, PendingApproval, TaintOrigin
from upshot.contract.protocols import Clock
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import (
    ApprovalRecord,
    Coercion,
    GateVerdict,
    Settlement,
    ToolCall,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
)
from upshot.tools.arguments.argument_check import Refused
from upshot.tools.artifacts import READER_NAME
from upshot.tools.definition.tool import Tool
from upshot.tools.provenance.judgement import NO_VERDICT, Verdict
from upshot.tools.rate_limiter import ActiveTime, RateLimiter
from upshot.tools.repetition import (
    CANCELLED,
    INTERRUPTED,
    REFUSED,
    Deduplication,
    EqualCalls,
    LoopDetector,
    is_unknown,
)

if TYPE_CHECKING:
    from upshot.tools.execution.call_log import CallLog
    from upshot.tools.gates.pipeline import Denial, GatePipeline, Repeat
    from upshot.tools.provenance.call_judge import CallJudge


class CallWaits(Exception):
    """Raised by a body that waits for answers, itself or because its agent does. The call stays
    open; a later session makes it again, and the body or the agent continues.

    Attributes:
        pending: What it waits for.
    """

    def __init__(self, pending: tuple[Pending, ...]) -> None:
        super().__init__(f"waits for {len(pending)} answers")
        self.pending = pending


class RememberedApprovals:
    """What the user has refused permanently, and what may run without asking again.

    It outlives turns, and is rebuilt from records when a run is resumed.
    """

    def __init__(self) -> None:
        self._refused: dict[str, ApprovalRecord] = {}
        self._granted: dict[str, ApprovalRecord] = {}

    def learn(self, approval: ApprovalRecord, *, tool_name: str, tool_version: str) -> None:
        """Remember an answer if its scope reaches beyond its own call.

        Args:
            approval: The answer.
            tool_name: The tool of the call.
            tool_version: Its version; an approval of the tool does not cover another version.
        """
        if approval.decision == "denied":
            if approval.scope:
                self._refused[approval.digest] = approval
        elif approval.decision == "always":
            # The use of a standing approval, which may be withdrawn.
            return
        elif approval.scope == "arguments":
            self._granted[approval.digest] = approval
        elif approval.scope == "tool":
            self._granted[_key_of_tool(tool_name, tool_version)] = approval

    def refusal(self, digest: str) -> str:
        """Return the user's reason for refusing the same call, "" if it was not refused."""
        refused = self._refused.get(digest)
        return "" if refused is None else refused.reason or "it was not approved"

    def forget(self, approval: ApprovalRecord) -> None:
        """Revoke a standing approval."""
        self._granted = {key: one for key, one in self._granted.items() if one != approval}

    def grant(self, call: CallState) -> ApprovalRecord | None:
        """Return the standing approval that covers a call, or None."""
        found = self._granted.get(call.digest)
        # An approval for any arguments does not cover those that untrusted results may have chosen.
        if found is None and not call.is_distrusted:
            tool = call.known_tool
            found = self._granted.get(_key_of_tool(tool.name, tool.version))
        return found


def _key_of_tool(name: str, version: str) -> str:
    return f"{name}\n{version}"


Withdrawn: TypeAlias = Callable[[], Awaitable[Collection[str]]]
"""Returns the keys of withdrawn approvals."""
ReplayScope: TypeAlias = Literal["turn", "run", "context"]

_REFUSALS_TO_BLOCK = 3
_HAIR_S = 0.002
# Codes of final failures that say nothing about other arguments.
_OF_THESE_ARGUMENTS = (CANCELLED, INTERRUPTED, REFUSED)


@dataclass(eq=False, repr=False)
class TurnState:
    """Counters and memory of a tool turn, for gates to read.

    Attributes:
        clock: The time.
        budget: The limits.
        deadline: When time is up, on the monotonic clock; None for no deadline. If given as
            None, ``budget.deadline_s`` counts from now.
        active_time: The time that counts except while waiting for the user; None for no limit. If
            given as None, ``budget.working_s`` counts from now.
        in_run: Whether the budget belongs to a run and continues in later turns.
        spent_elsewhere: Returns which limit counted elsewhere is reached, such as the run's
            tokens, or ""; None without such limits.
        call_judge: Judges where the values of a call come from; None if no policy needs it.
        withdrawn: Reads which standing approvals were withdrawn; None if that is unavailable.
        cancelled: Whether nothing may start.
        calls: How many bodies were started.
        calls_of: The same for each tool.
        denials: How many calls were denied.
        refusals: How many times in a row the arguments for a tool were refused.
        blocked: Tools that may not be called again, with the reason.
        blocked_keys: Digests of calls that may not be made again.
        parked: Ids of calls that wait for the user and must not be made twice, by digest.
        tainted: What brought untrusted content into the context, or None.
        approvals: The user's lasting answers; None if there are none.
        loop_detector: Detects the same call being made again and again.
        equal_calls: The calls of guarded tools.
        identify: Returns the identity of a call's effect; None if no tool declares one.
        recheck: Returns how the unknown effect of an earlier call was settled since, for a
            call that would make it again; None if that cannot be found out.
        made_before: Returns what a call gets if the ledger knows its effect; None without a ledger.
    """

    clock: Clock
    budget: Budget
    deadline: float | None = None
    active_time: ActiveTime | None = None
    in_run: bool = False
    spent_elsewhere: Callable[[], str] | None = None
    call_judge: CallJudge | None = None
    withdrawn: Withdrawn | None = None
    cancelled: bool = False
    calls: int = 0
    calls_of: Counter[str] = field(init=False)
    denials: int = 0
    refusals: dict[str, int] = field(init=False)
    blocked: dict[str, str] = field(init=False)
    blocked_keys: set[str] = field(init=False)
    parked: dict[str, str] = field(init=False)
    tainted: TaintOrigin | None = None
    approvals: RememberedApprovals | None = None
    loop_detector: LoopDetector = field(default_factory=LoopDetector)
    equal_calls: EqualCalls = field(default_factory=EqualCalls)
    identify: Callable[[CallState], EffectClaim | None] | None = None
    recheck: Callable[[CallState, ToolRecord], Awaitable[Settlement | None]] | None = None
    made_before: Callable[[CallState], Awaitable[Denial | Repeat | None]] | None = None

    def __post_init__(self) -> None:
        self.calls_of, self.refusals, self.parked = Counter(), {}, {}
        self.blocked, self.blocked_keys = {}, set()
        budget = self.budget
        if self.deadline is None and budget.deadline_s is not None:
            self.deadline = self.clock.monotonic() + budget.deadline_s
        if self.active_time is None and budget.working_s is not None:
            self.active_time = ActiveTime(self.clock, budget.working_s)

    @cached_property
    def deduplication(self) -> Deduplication:
        """The calls that have succeeded."""
        return Deduplication()

    @cached_property
    def rate_limiter(self) -> RateLimiter:
        """The counters for rate limits and circuits of tools."""
        return RateLimiter(self.clock)

    def following(self, scope: ReplayScope) -> TurnState:
        """Return the next turn; *scope* says how long successes are remembered."""
        in_run = self.in_run
        after = TurnState(
            self.clock,
            self.budget,
            deadline=self.deadline if in_run else None,
            active_time=self.active_time if in_run else None,
            in_run=in_run,
            spent_elsewhere=self.spent_elsewhere,
            call_judge=self.call_judge,
            withdrawn=self.withdrawn,
            equal_calls=self.equal_calls.following(),
            identify=self.identify,
            recheck=self.recheck,
            made_before=self.made_before,
        )
        # The user's answers are final, and what the model has read stays read. Created here if
        # necessary, because calls of this turn that still run share it with those of the next.
        self.approvals = after.approvals = self.approvals or RememberedApprovals()
        after.tainted, after.rate_limiter = self.tainted, self.rate_limiter
        if in_run:
            after.calls, after.calls_of = self.calls, self.calls_of
            after.denials = self.denials
        if scope != "turn":
            after.deduplication = self.deduplication
        return after

    def remember(self, approval: ApprovalRecord, *, tool_name: str, tool_version: str) -> None:
        """Remember a user's answer for later calls."""
        self.approvals = self.approvals or RememberedApprovals()
        self.approvals.learn(approval, tool_name=tool_name, tool_version=tool_version)

    def remaining_s(self) -> float | None:
        """Return the seconds left to work, negative once time is up; None without a limit."""
        left = None if self.deadline is None else self.deadline - self.clock.monotonic()
        active_time = self.active_time
        if active_time is None:
            return left
        return active_time.left_s() if left is None else min(left, active_time.left_s())

    def waiting_s(self) -> float | None:
        """Return the seconds left to wait for the user until the deadline; None without one."""
        return None if self.deadline is None else self.deadline - self.clock.monotonic()

    def asking(self) -> AbstractContextManager[None]:
        """Return a context manager to use while the user is asked."""
        return nullcontext() if self.active_time is None else self.active_time.asking()

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed; 2 ms early, because timers for it may fire early."""
        left = self.remaining_s()
        return left is not None and left <= _HAIR_S

    def spent(self, tool_name: str) -> str:
        """Return which limit leaves no room for another call, "" if none does."""
        active_time = self.active_time
        if active_time is not None and active_time.left_s() <= 0:
            return f"working_s: {active_time.limit_s:g} s of work are over"
        if tool_name == READER_NAME:
            # An output that was paid for may be read to its end.
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
        return "" if self.spent_elsewhere is None else self.spent_elsewhere()

    def count(self, tool: Tool, *, by: Literal[1, -1] = 1) -> None:
        """Count a call that is going to run; -1 uncounts one whose body did not start."""
        self.count_restored(tool.name, by=by)
        if tool.rate is not None or tool.circuit is not None:
            self.rate_limiter.count(tool, by=by)

    def count_restored(self, tool_name: str, *, by: Literal[1, -1] = 1) -> None:
        """Count a call against the budget; reading a stored output does not count."""
        if tool_name != READER_NAME:
            self.calls += by
            self.calls_of[tool_name] += by

    def block(self, tool: Tool, digest: str, outcome: ToolOutcome) -> None:
        """Block what a final failure blocks.

        A call that was cut off (by the end of its process or a cancel) or refused by its service
        says nothing about other arguments. If the effect is unknown, another gate denies equal
        calls.
        """
        if tool.is_guarded and is_unknown(outcome):
            return
        was_cut = isinstance(outcome, ToolFailure) and outcome.code in _OF_THESE_ARGUMENTS
        if tool.block_scope == "key" or (was_cut and tool.may_write):
            self.blocked_keys.add(digest)
        else:
            self.blocked[tool.name] = "an earlier call failed for good"

    def refuse_arguments(self, tool_name: str) -> None:
        """Count refused arguments; three times in a row blocks the tool."""
        times = self.refusals[tool_name] = self.refusals.get(tool_name, 0) + 1
        if times >= _REFUSALS_TO_BLOCK:
            self.blocked[tool_name] = f"its arguments were refused {times} times in a row"


@dataclass(eq=False, repr=False, slots=True)
class CallState:
    """One call on its way through the gates to its outcome; what a gate sees.

    A user's gate may read all of it, but may only set ``asks``.

    Attributes:
        call: The call as the model made it.
        call_id: The model's id of the call.
        tool_name: The tool as the model named it.
        turn: The tool turn that it belongs to.
        names_on_offer: The names of the offered tools if it names none of them, otherwise ().
        label: The label that the caller of ``dispatch`` gave the turn.
        run_id: The run that makes the call.
        step: The key of the step in whose body it was made, "" for none.
        found: The offered tool of that name, or None.
        pipeline: Asks the gates that concern that tool.
        tool: The same tool, but None until the gate known_tool has passed the call.
        known_tool: The same tool; unset until then.
        source: The arguments to read: the model's, or an edit by a hook or the user.
        given: The arguments as the body gets them: parsed, coerced and valid.
        arguments: The same with the schema's defaults filled in; None until they are valid.
        values: The typed values of ``given``.
        coercions: What was changed to match the schema.
        digest: SHA-256 of the tool, its version and ``arguments``; "" until there are any.
        claim: The identity of its effect, or None.
        asks: Why the user must be asked, whatever the tool declares; "" for no reason.
        refused: The faults before a model corrected the arguments; None if none did.
        mended: The arguments corrected by a model; None if none did.
        is_answered: Whether the user has answered already, so ``approve`` is not asked.
        approvals: How many different users must approve it by the policy.
        edit: The edit of its arguments that other users must approve too; None if there is none.
            It has no moment once the others were asked.
        is_distrusted: Whether ``asks`` is set because of untrusted results in the context.
        verdict: Which of its values are vouched for and which are in doubt, if judged.
        is_dry: Whether it is a dry run: the user is not asked, and nothing runs.
        is_edited: Whether a hook or the user has changed the arguments.
        is_cancelled: Whether this call alone was cancelled, not the whole turn.
        is_counted: Whether it is counted in the budget and has its place in the order.
        is_late: Whether it ran out of time while it waited to start.
        is_equal_of: Whether it is a read in a long reply, where each waits for its earlier equals.
        reply: Identifies the model's reply; the same for all its calls.
        is_id_taken: Whether it was denied because another call has its id.
        granted: Digest of the arguments that the user approved, "" for none.
        approval: The approval or refusal.
        pending: The question to the user while it is parked.
        follows: The id of the parked equal call that it waits for; "" for none.
        waits: What its body, or the agent that this ran, waits for; empty if it does not wait.
        resources: What it touches, None for anything.
        is_deduplicated: Whether it has entered the turn's deduplication and not left it. That
            also sets ``is_stale``, ``is_overtaken`` and ``ended`` (see ``repetition``).
        give_up: Settles a call that an earlier session had started as interrupted, in place of a
            denial, which would say that the call never ran. None for any other call.
        idempotency_key: The key by which the body can recognise a repetition.
        mode: How the body runs: async, thread or process; "" before it starts.
        attempts: How many times the body was started.
        started_at: When it was first started.
        run_started: The same on the monotonic clock.
        within: The call inside whose body it was made, or None.
        opened: When the call came in, on the monotonic clock.
        paused_s: Seconds spent asking the user.
        place: The index of the next gate in the pipeline.
        noted: The trace up to the last gate that did more than pass.
        passed_from: The index of the first gate after those in ``noted``.
        wait: The gate's awaitable that it waits for, or None.
        outcome: Its outcome, None while it is open.
        record: Its record, None until it is settled.
        content: The model's view of the outcome, None until it is written.
        lossy: Paths of output values that JSON cannot represent.
        redactions: How many secrets were masked in its output.
        trust: "untrusted" if its body brought in untrusted content, whatever the tool declares;
            otherwise "".
        inside: The worst effect of the agents that its body ran.
        log: Its log, for the body of a tool that ``continues``; None for others.
    """

    call: ToolCall
    _: KW_ONLY
    turn: TurnState
    found: Tool | None
    pipeline: GatePipeline
    names_on_offer: tuple[str, ...]
    label: int
    opened: float
    run_id: str
    step: str
    call_id: str = field(init=False)
    tool_name: str = field(init=False)
    source: str | Mapping[str, Json] = field(init=False)
    tool: Tool | None = None
    known_tool: Tool = field(init=False)
    given: JsonObject = field(init=False)
    arguments: JsonObject | None = None
    digest: str = ""
    claim: EffectClaim | None = None
    values: dict[str, object] = field(init=False)
    coercions: tuple[Coercion, ...] = ()
    asks: str = ""
    refused: Refused | None = None
    mended: str | JsonObject | None = None
    is_answered: bool = False
    approvals: int = 1
    edit: GivenApproval | None = None
    is_distrusted: bool = False
    verdict: Verdict = NO_VERDICT
    is_dry: bool = False
    is_edited: bool = False
    is_cancelled: bool = False
    is_counted: bool = False
    is_late: bool = False
    is_equal_of: bool = False
    reply: object = None
    is_id_taken: bool = False
    granted: str = ""
    approval: ApprovalRecord | None = None
    pending: PendingApproval | None = None
    follows: str = ""
    waits: tuple[Pending, ...] = ()
    resources: frozenset[str] | None = None
    is_deduplicated: bool = False
    is_stale: bool = False
    is_overtaken: bool = False
    ended: asyncio.Future[None] | None = None
    give_up: Callable[[CallState], None] | None = None
    idempotency_key: str = ""
    mode: str = ""
    attempts: int = 0
    started_at: datetime | None = None
    run_started: float | None = None
    within: CallState | None = None
    paused_s: float = 0.0
    place: int = 0
    noted: tuple[GateVerdict, ...] = ()
    passed_from: int = 0
    wait: asyncio.Future[object] | None = None
    outcome: ToolOutcome | None = None
    record: ToolRecord | None = None
    content: str | None = None
    lossy: tuple[str, ...] = ()
    redactions: int = 0
    trust: str = ""
    inside: Effect = Effect.NONE
    log: CallLog | None = None

    def __post_init__(self) -> None:
        call = self.call
        self.call_id, self.tool_name, self.source = call.id, call.name, call.arguments
        self.given, self.values = {}, {}

    @property
    def effect(self) -> Effect:
        """The effect that the tool declares; write if the tool is unknown."""
        return Effect.WRITE if self.tool is None else self.tool.declared_effect

    @property
    def trace(self) -> tuple[GateVerdict, ...]:
        """The verdict of each gate so far, in order."""
        # Most calls pass all gates, and then this is a shared tuple.
        return self.noted + self.pipeline.passes[self.passed_from : self.place]

    @property
    def identity(self) -> str:
        """Identifies the effect: the same for all calls that make it, such as equal calls."""
        return self.digest if self.claim is None else self.claim.id

    @property
    def needed(self) -> int:
        """How many different users must approve it, 1 or more."""
        return max(self.approvals, self.known_tool.approvals)

    def question_digest(self, asked_at: datetime | None) -> str:
        """Return a digest of the question at that moment; a later question has another."""
        moment = "" if asked_at is None else asked_at.astimezone(UTC).isoformat()
        text = f"{self.digest}\n{self.label}\n{moment}"
        # With other doubts than those shown, it is another question.
        for doubt in self.verdict.doubts:
            text += f"\n{doubt.path}\n{doubt.reason}"
        if (needed := self.needed) > 1:
            text += f"\nby {needed}"
        return hashlib.sha256(text.encode()).hexdigest()

    def take_tool(self, tool: Tool | None) -> None:
        """Set the tool that was found, None for none."""
        self.tool = tool
        if tool is not None:
            self.known_tool = tool

    def take_arguments(self, arguments: JsonObject) -> None:
        """Set arguments that were found valid, with defaults filled in."""
        self.arguments, self.digest = arguments, call_digest(self.known_tool, arguments)

    def release(self) -> None:
        """Release equal calls that wait for this one, which will not run now."""
        if self.is_deduplicated:
            self.turn.deduplication.leave(self)
        elif self.tool is not None and self.tool.is_guarded:
            self.turn.equal_calls.leave(self)

    def wake(self) -> None:
        """Wake the equal calls that wait for the end of this one."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)
        self.ended = None


def call_digest(tool: Tool, arguments: JsonObject) -> str:
    """Return the SHA-256 of a tool, its version and valid arguments for it."""
    identity = canonical_json([tool.name, tool.version, arguments])
    return hashlib.sha256(identity).hexdigest()


running_call: ContextVar[CallState | None] = ContextVar("upshot_call", default=None)
"""The call whose body is running in this context."""
