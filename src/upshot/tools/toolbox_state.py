"""What all calls of a Toolbox share, and where their events go."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from upshot.contract.base.enums import Origin
from upshot.contract.base.structs import RunEvent
from upshot.contract.error import RunWarning
from upshot.contract.events import DELTAS, ApprovalRequested, Event, Warned
from upshot.contract.pending import PendingApproval
from upshot.contract.protocols import ArtifactStore, Clock, Journal, until_safe
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolOutcome,
    ToolRecord,
    ToolTimeout,
    outcome_to_model_content,
)
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState, TurnState
from upshot.tools.catalog import OfferedTools
from upshot.tools.execution.executor import Workers
from upshot.tools.gates.pipeline import Denial, GatePipeline
from upshot.tools.secrets import UNTRUSTED, Secrets

__all__ = [
    "AtStart",
    "Barrier",
    "ToolboxState",
    "Emit",
    "JournalLedger",
    "CallLog",
    "MAX_PROCESSES",
    "ledger_of",
]

Emit: TypeAlias = Callable[[Event], None]
Barrier: TypeAlias = Callable[[], Awaitable[None]]


class CallLog:
    """Hands events on to a run, which stamps and logs them."""

    def __init__(self, emit: Emit | None = None, barrier: Barrier | None = None) -> None:
        self._emit = emit
        self._barrier = barrier

    async def open(self) -> None:
        """Make it ready; called before each batch."""

    def emit(self, event: Event) -> None:
        """Tell *event*; run, attempt, time and place in the log are not its business."""
        if self._emit is not None:
            self._emit(event)

    async def barrier(self) -> None:
        """Wait until all that was told is safe."""
        if self._barrier is not None:
            await self._barrier()


class JournalLedger(CallLog):
    """Logs to a journal itself, for a Toolbox that no run surrounds."""

    def __init__(
        self, journal: Journal, run_id: str, *, clock: Clock, attempt: Callable[[], int]
    ) -> None:
        super().__init__()
        self._journal = journal
        self._run_id = run_id
        self._clock = clock
        self._attempt = attempt
        self._epoch: int | None = None
        self._opening: asyncio.Future[None] | None = None
        self._seq = 0

    async def open(self) -> None:
        """Claim the run and find the end of its log, once."""
        if self._opening is None:
            # Two batches may come first at once, and a second claim would end the first.
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        self._epoch = await self._journal.claim(self._run_id)
        async for event in self._journal.events(self._run_id):
            self._seq = max(self._seq, getattr(event, "seq", 0))

    def emit(self, event: Event) -> None:
        """Append *event*; progress is for watchers, and there is none.

        Raises:
            JournalError: The run was claimed by somebody else, or the journal is closed.
        """
        if isinstance(event, DELTAS) or not isinstance(event, RunEvent):
            return
        self._seq += 1
        stamped = msgspec.structs.replace(
            event,
            run_id=self._run_id,
            attempt=self._attempt(),
            time=self._clock.now(),
            seq=self._seq,
        )
        self._journal.append(stamped, epoch=self._epoch)

    async def barrier(self) -> None:
        """Wait until all that was appended is safe.

        Raises:
            JournalError: It could not be written.
        """
        await until_safe(self._journal, self._run_id, self._seq, epoch=self._epoch)


def ledger_of(
    journal: Journal | None,
    emit: Emit | None,
    barrier: Barrier | None,
    *,
    run_id: str,
    clock: Clock,
    attempt: Callable[[], int],
) -> CallLog:
    """The ledger of a Toolbox: a run's where it hands *emit* in, else the journal's own."""
    if journal is None or emit is not None:
        return CallLog(emit, barrier)
    return JournalLedger(journal, run_id, clock=clock, attempt=attempt)


MAX_PROCESSES = max(4, 2 * (os.cpu_count() or 1))
"""How many bodies of a Toolbox run in processes at a time."""

# Says why a body may not start after all, None where it may.
AtStart: TypeAlias = Callable[[CallState], Denial | None]

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class ToolboxState:
    """What all calls of a Toolbox share.

    Attributes:
        run_id: Whose calls they are.
        parent_run_id: That run's parent, "" for none.
        attempt: Which pass of the engine this is.
        catalog: The tools.
        passage: The gates that are asked before a body runs.
        clock: Time.
        ledger: Where events go.
        secrets: What is masked.
        store: Where large outputs go.
        workers: Threads for plain tools.
        dependencies: The caller's one object.
        parallel: Whether bodies may run together at all; a number, how many.
        turn: The tool turn.
        at_start: Asked when a body is about to start.
        told: Warnings that were given already.
        made: How often a call with the same id and arguments was made.
        asked: What people were asked about calls that are not settled, by call id.
        parked: Calls that wait for people, by id.
        followers: Calls that wait for an equal one that is parked.
        fenced: Calls whose results are shown as words of strangers, by id and tool.
        untrusted: Ids of artifacts that may hold words of strangers.
        slots: What limits how many bodies of a tool run at a time, "" for all tools.
        processes: The same for bodies in processes of their own.
        leftover: How often a body of a tool goes on that nobody waits for.
    """

    run_id: str
    parent_run_id: str
    attempt: Callable[[], int]
    catalog: OfferedTools
    passage: GatePipeline
    clock: Clock
    ledger: CallLog
    secrets: Secrets
    store: ArtifactStore
    workers: Workers
    dependencies: object
    parallel: bool | int
    turn: TurnState
    at_start: AtStart | None = None
    told: set[str] = field(default_factory=set[str])
    made: Counter[str] = field(default_factory=Counter[str])
    asked: dict[str, PendingApproval] = field(default_factory=dict[str, PendingApproval])
    parked: dict[str, CallState] = field(default_factory=dict[str, CallState])
    followers: list[CallState] = field(default_factory=list[CallState])
    fenced: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    untrusted: set[str] = field(default_factory=set[str])
    slots: dict[str, asyncio.Semaphore] = field(default_factory=dict[str, asyncio.Semaphore])
    processes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_PROCESSES))
    leftover: Counter[str] = field(default_factory=Counter[str])

    def open(self, call: ToolCall, label: int) -> CallState:
        """Take a call in.

        Args:
            call: As the model made it.
            label: What the caller of ``dispatch`` calls the turn.
        """
        return CallState(
            call,
            turn=self.turn,
            catalog=self.catalog,
            label=label,
            opened=self.clock.monotonic(),
        )

    def warn(self, code: str, message: str, *, once: str = "") -> None:
        """Tell that something went wrong without failing a call.

        Args:
            code: A word for it.
            message: One line; secrets in it are masked.
            once: A key under which it is told only once, "" tells it each time.
        """
        if once in self.told:
            return
        if once:
            self.told.add(once)
        text = self.secrets.mask_text(message)
        self.ledger.emit(Warned(warning=RunWarning(code=code, message=text, origin=Origin.TOOL)))

    def warn_of_leftovers(self) -> None:
        """Tell which bodies go on though nobody waits for them."""
        for name, count in self.leftover.items():
            if count > 0:
                bodies = "1 call goes" if count == 1 else f"{count} calls go"
                self.warn("leftover_calls", f"{bodies} on in {name}, unwatched")

    def key_of(self, case: CallState) -> str:
        """The idempotency key of a call that is about to run: the same after a resume.

        Some models use one call id again and again; then the count of equal calls is in the
        key, for the second is meant as a second one.
        """
        said = f"{self.run_id}\n{case.call_id}\n{case.digest}"
        earlier = self.made[said]
        self.made[said] += 1
        if earlier:
            said = f"{said}\n{earlier}"
        return hashlib.sha256(said.encode()).hexdigest()

    def ask(self, case: CallState, pending: PendingApproval) -> PendingApproval:
        """Put a call before people, unless the very same was asked before and still counts.

        Returns:
            What they are asked, secrets masked.
        """
        earlier = self.asked.get(case.call_id)
        if (
            earlier is not None
            and earlier.digest == pending.digest
            and not self.is_expired(earlier)
        ):
            return earlier
        pending = self.secrets.mask(pending)
        self.asked[case.call_id] = pending
        self.ledger.emit(ApprovalRequested(pending=pending))
        return pending

    def park(self, case: CallState, pending: PendingApproval) -> None:
        """Have *case* wait for people, and its equals for it."""
        case.pending = self.ask(case, pending)
        self.parked[case.call_id] = case
        tool = case.known_tool
        if tool.idempotent and not tool.repeatable:
            case.turn.parked[case.digest] = case.call_id

    def unpark(self, call_id: str) -> list[CallState]:
        """Take back a parked call; returns it, and those that wait for it after it."""
        case = self.parked.pop(call_id)
        case.turn.parked.pop(case.digest, None)
        self.turn.parked.pop(case.digest, None)
        followers = [one for one in self.followers if one.follows == call_id]
        self.followers = [one for one in self.followers if one.follows != call_id]
        return [case, *followers]

    def follow_on(self, followers: list[CallState], pending: PendingApproval) -> None:
        """Have people asked about the first of *followers* instead of the one that is gone."""
        for place, case in enumerate(followers):
            case.follows = "" if place == 0 else followers[0].call_id
        if followers:
            first, *self.followers[len(self.followers) :] = followers
            self.park(first, msgspec.structs.replace(pending, call_id=first.call_id))

    def waits(self, call_id: str) -> bool:
        """Whether a call of this id waits for people, or for one that does."""
        return self.waiting(call_id) is not None

    def waiting(self, call_id: str) -> CallState | None:
        """The call of this id that waits for people, or for one that does; None without one."""
        parked = self.parked.get(call_id)
        if parked is not None:
            return parked
        return next((one for one in self.followers if one.call_id == call_id), None)

    def is_expired(self, pending: PendingApproval) -> bool:
        """Whether it has to be asked anew."""
        return pending.expires_at is not None and self.clock.now() >= pending.expires_at

    def trust_of(self, case: CallState) -> str:
        """What is thought of an outcome: "untrusted" where strangers may have written it."""
        outcome, tool = case.outcome, case.tool
        if tool is None or isinstance(outcome, ToolDenied | ToolTimeout):
            return ""
        # What is read back is as it was when it was stored.
        is_read_back = tool.name == READER_NAME and case.given.get("id") in self.untrusted
        return UNTRUSTED if tool.trust or case.trust or is_read_back else ""

    def distrust(self, outcome: ToolOutcome) -> None:
        """Take note of an outcome that strangers may have written."""
        self.turn.tainted = self.turn.tainted or outcome.tool_name
        if isinstance(outcome, ToolArtifactReference):
            self.untrusted.add(outcome.artifact_id)

    def slots_of(self, case: CallState) -> tuple[asyncio.Semaphore, ...]:
        """What limits how many bodies run beside that of the call: its tool's limit, and all's."""
        tool = case.known_tool
        found = () if tool.concurrency is None else (self._slot(tool.name, tool.concurrency),)
        # The one name that no tool can have; taken last by all, so that nobody waits in a ring.
        most = self.parallel
        return found if isinstance(most, bool) else (*found, self._slot("", most))

    def _slot(self, name: str, most: int) -> asyncio.Semaphore:
        if name not in self.slots:
            self.slots[name] = asyncio.Semaphore(most)
        return self.slots[name]

    def record_of(self, case: CallState) -> ToolRecord:
        """All facts of a settled call, secrets masked."""
        outcome, tool = case.outcome, case.tool
        if outcome is None:
            raise RuntimeError(f"the call {case.call_id!r} is not settled")
        masked_before = self.secrets.masked
        now = self.clock.monotonic()
        ran = case.run_started is not None
        until = now if case.run_started is None else case.run_started
        # What denies is always the last that was asked.
        last = case.trace[-1] if case.trace else None
        record = ToolRecord(
            run_id=self.run_id,
            parent_run_id=self.parent_run_id,
            turn=case.label,
            call_id=case.call_id,
            tool_name=case.tool_name,
            tool_version="" if tool is None else tool.version,
            arguments_given=case.call.arguments,
            arguments_validated=case.arguments,
            arguments_executed=case.arguments if ran else None,
            coercions=case.coercions,
            lossy=case.lossy,
            gate=last.gate if last is not None and last.verdict == "deny" else "",
            trace=tuple(case.trace),
            approval=case.approval,
            attempts=case.attempts,
            queue_ms=_to_ms(until - case.opened - case.paused_s),
            run_ms=_to_ms(now - until) if ran else 0,
            declared_effect=None if tool is None else tool.declared_effect,
            effect=outcome.effect,
            argument_bytes=len(_encode(case.arguments)) if ran else 0,
            output_bytes=_output_bytes(case, outcome) if ran else 0,
            artifact_id=outcome.artifact_id if isinstance(outcome, ToolArtifactReference) else "",
            mode=case.mode,
            idempotency_key=case.idempotency_key,
            started_at=case.started_at,
            trust=self.trust_of(case),
            outcome=outcome,
        )
        if not self.secrets:
            return record
        record = self.secrets.mask(record)
        count = case.redactions + self.secrets.masked - masked_before
        return msgspec.structs.replace(record, redactions=count)


def _to_ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _output_bytes(case: CallState, outcome: ToolOutcome) -> int:
    content = outcome_to_model_content(outcome) if case.content is None else case.content
    return len(content) if content.isascii() else len(content.encode())
