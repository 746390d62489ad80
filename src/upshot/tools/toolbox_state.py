"""What all calls of a Toolbox share, and the log of a Toolbox that belongs to no run."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar
from weakref import ref

import msgspec
from msgspec.structs import force_setattr

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import Origin
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import RunEvent
from upshot.contract.effects import EffectClaim, EffectLedger
from upshot.contract.error import RunWarning
from upshot.contract.events import DELTAS, ApprovalRequested, Event, Warned
from upshot.contract.pending import (
    Approve,
    Deny,
    Edit,
    PendingApproval,
    TaintOrigin,
    answers_question,
)
from upshot.contract.protocols import ArtifactStore, Clock, Journal, until_safe
from upshot.contract.tool_calls import (
    UNTRUSTED,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolOutcome,
    ToolRecord,
    ToolSpec,
    ToolTimeout,
    outcome_to_model_content,
)
from upshot.errors import Misuse
from upshot.state.run_state import RunState
from upshot.state.stored_events import read_event, to_stored
from upshot.tools.artifacts import READER_NAME, InMemoryArtifacts, make_reader
from upshot.tools.call_state import CallState, TurnState
from upshot.tools.catalog import ToolCatalog
from upshot.tools.definition.identity import claim_of
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.executor import Workers
from upshot.tools.gates.pipeline import GatePipeline

Emit: TypeAlias = Callable[[Event], None]
Barrier: TypeAlias = Callable[[], Awaitable[None]]
Offered: TypeAlias = Callable[[], Container[str]]

MAX_PROCESSES = max(4, 2 * (os.cpu_count() or 1))
"""How many bodies of a Toolbox run in processes at a time."""

_encode = msgspec.json.Encoder().encode
V = TypeVar("V")


class JournalLog:
    """Logs the events of a Toolbox that belongs to no run."""

    def __init__(
        self, journal: Journal, run_id: str, *, clock: Clock, attempt: Callable[[], int]
    ) -> None:
        self._journal = journal
        self._run_id = run_id
        self._clock = clock
        self._attempt = attempt
        self._epoch: int | None = None
        self._opening: asyncio.Future[None] | None = None
        self._seq = 0
        self._state = RunState()

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
            read_event(self._state, event)

    def emit(self, event: Event) -> None:
        """Stamp and append *event*; progress is for subscribers, and there are none.

        Raises:
            JournalError: Another process has claimed the run, or the journal is closed.
        """
        if isinstance(event, DELTAS) or not isinstance(event, RunEvent):
            return
        self._seq += 1
        for name, value in (
            ("run_id", self._run_id),
            ("attempt", self._attempt()),
            ("time", self._clock.now()),
            ("seq", self._seq),
        ):
            force_setattr(event, name, value)
        self._journal.append(to_stored(self._state, event), epoch=self._epoch)
        self._state.add(event)

    async def barrier(self) -> None:
        """Wait until all that was appended is safe.

        Raises:
            JournalError: It could not be written.
        """
        await until_safe(self._journal, self._run_id, self._seq, epoch=self._epoch)


# What never holds a word of its tool.
_WITHOUT_OUTPUT = (ToolDenied, ToolTimeout)


@dataclass(slots=True, weakref_slot=True)
class ToolboxState:
    """What all calls of a Toolbox share.

    Attributes:
        identity: The run whose calls they are.
        parent_run_id: That run's parent, "" for none.
        attempt: Gives the number of the engine's current pass.
        step: Gives the key of the step in whose body a call is made, "" for none.
        catalog: The tools.
        offered: Gives the names that are on offer now; None offers all.
        pipeline_of: Gives the gates that concern a tool; None is a tool that is not known.
        clock: Time.
        emit: Takes events.
        barrier: Waits until all that was emitted is safe; None where nothing is logged.
        journal_log: The log of a Toolbox that belongs to no run; None in a run.
        secrets: What is masked; None without secrets.
        store: Where large outputs go; None until the first is stored.
        workers: Threads for plain tools.
        dependencies: The caller's one object for tools.
        parallel: Whether bodies may run together at all; a number, how many.
        earlier_may_work: Whether who began the calls that are taken up may still be at work.
        turn: The tool turn.
        offers_reader: Whether ``read_artifact`` is offered: from the first stored output on.
        held: What a call waits for before it starts, None for nothing.
        ledger: The effects that the journal knows; None where it keeps none.
        keeps_outputs: Whether outputs stay whole, however large.
        told: Warnings that were given already.
        made: How often a call with the same id and arguments was made.
        asked: What the user was asked about calls that are not settled, by call id.
        times_asked: How many questions were asked about calls of an id, settled or not.
        parked: Calls that wait for the user, by id.
        followers: Calls that wait for an equal one that is parked.
        fenced: Calls whose results are shown as untrusted, by id and tool.
        untrusted: Ids of artifacts that may hold untrusted content.
        slots: What limits how many bodies of a tool run at a time, "" for all tools.
        leftover: How many bodies of a tool go on after they were given up.
    """

    identity: RunInfo
    parent_run_id: str
    attempt: Callable[[], int]
    step: Callable[[], str]
    catalog: ToolCatalog
    offered: Offered | None
    pipeline_of: Callable[[Tool | None], GatePipeline]
    clock: Clock
    emit: Emit
    barrier: Barrier | None
    journal_log: JournalLog | None
    secrets: Secrets | None
    store: ArtifactStore | None
    workers: Workers
    dependencies: object
    parallel: bool | int
    earlier_may_work: bool
    turn: TurnState
    offers_reader: bool = False
    held: asyncio.Event | None = None
    ledger: EffectLedger | None = None
    keeps_outputs: bool = False
    told: set[str] = field(init=False)
    made: Counter[str] = field(init=False)
    asked: dict[str, PendingApproval] = field(init=False)
    times_asked: Counter[str] = field(init=False)
    parked: dict[str, CallState] = field(init=False)
    followers: list[CallState] = field(init=False)
    fenced: set[tuple[str, str]] = field(init=False)
    untrusted: set[str] = field(init=False)
    slots: dict[str, asyncio.Semaphore] = field(init=False)
    leftover: Counter[str] = field(init=False)
    _processes: asyncio.Semaphore | None = None
    _reader: Tool | None = None
    _specs: tuple[tuple[str, ...], tuple[ToolSpec, ...]] = ((), ())

    def __post_init__(self) -> None:
        self.told, self.made, self.leftover = set(), Counter(), Counter()
        self.asked, self.times_asked, self.parked, self.followers = {}, Counter(), {}, []
        self.fenced, self.untrusted, self.slots = set(), set(), {}
        # Weak, so that the turn does not lead back here and need the garbage collector.
        state = ref(self)

        def identify(call: CallState) -> EffectClaim | None:
            found = state()
            return None if found is None else found.identify(call)

        self.turn.identify = identify

    # -- tools on offer

    def known(self, name: str) -> Tool | None:
        """The tool called *name*, on offer or not."""
        if name != READER_NAME:
            return self.catalog.tools.get(name)
        if self._reader is None:
            self._reader = make_reader(self.artifact_store(), self.identity.run_id)
        return self._reader

    def names_on_offer(self) -> tuple[str, ...]:
        """The names on offer, in order."""
        names = self.catalog.names
        if self.offered is not None:
            offered = self.offered()
            names = tuple(name for name in names if name in offered)
        # The reader comes last: what stands before it stays the same for prompt caches.
        return (*names, READER_NAME) if self.offers_reader else names

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; the same tuple while nothing changes."""
        if self.offered is None and not self.offers_reader:
            return self.catalog.specs
        # The same object tells an encoder that its bytes of the tools are still right.
        names = self.names_on_offer()
        if names != self._specs[0]:
            found = (self.known(name) for name in names)
            self._specs = (names, tuple(one.spec for one in found if one is not None))
        return self._specs[1]

    def artifact_store(self) -> ArtifactStore:
        """Where large outputs go."""
        if self.store is None:
            self.store = InMemoryArtifacts()
        return self.store

    # -- calls

    def open(self, call: ToolCall, label: int) -> CallState:
        """Take a call in; *label* is what the caller of ``dispatch`` calls the turn.

        Raises:
            Misuse: It is no ToolCall.
        """
        if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"calls must be ToolCall objects, got {call!r:.60}")
        found = self.known(call.name)
        if found is not None and self.offered is not None and call.name != READER_NAME:
            found = found if call.name in self.offered() else None
        return CallState(
            call,
            turn=self.turn,
            found=found,
            pipeline=self.pipeline_of(found),
            names_on_offer=self.names_on_offer() if found is None else (),
            label=label,
            opened=self.clock.monotonic(),
            run_id=self.identity.run_id,
            step=self.step(),
        )

    def identify(self, call: CallState) -> EffectClaim | None:
        """The identity of the effect of a call, None if its tool declares none."""
        tool = call.known_tool
        claim = claim_of(tool, call.arguments or {}, self.identity, self.secrets)
        if claim is not None and self.ledger is None and tool.scope != "run":
            self.warn(
                "no_ledger",
                f"{tool.name} has once=, and the run has no journal "
                "that keeps effects: it is done once in this run only",
                once=f"no_ledger {tool.name}",
            )
        return claim

    def mask(self, value: V) -> V:
        """*value*, JSON or a struct of the contract, with every secret in it replaced."""
        return value if self.secrets is None else self.secrets.mask(value)

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
        warning = RunWarning(code=code, message=self.mask(message), origin=Origin.TOOL)
        self.emit(Warned(warning=warning))

    def key_of(self, call: CallState) -> str:
        """The idempotency key of a call that is about to run: the same after a resume.

        Some models use one call id again and again; then the count of equal calls is in the
        key, for the second is meant as a second one.
        """
        said = f"{self.identity.run_id}\n{call.call_id}\n{call.digest}"
        earlier = self.made[said]
        self.made[said] += 1
        if earlier:
            said = f"{said}\n{earlier}"
        return hashlib.sha256(said.encode()).hexdigest()

    # -- calls that wait for the user

    def park(self, call: CallState, pending: PendingApproval) -> None:
        """Have *call* wait for the user, and its equals for it."""
        call.pending = self._ask(call, pending)
        self.parked[call.call_id] = call
        if call.known_tool.is_deduplicated:
            call.turn.parked[call.digest] = call.call_id
        elif call.known_tool.is_guarded:
            call.turn.equal_calls.enter(call)

    def _ask(self, call: CallState, pending: PendingApproval) -> PendingApproval:
        """Ask the user, unless the very same was asked before and still counts."""
        # The digest covers the moment of the question, so the call is compared as if asked then.
        earlier = self.asked.get(call.call_id)
        if (
            earlier is not None
            and earlier.digest == call.question_digest(earlier.asked_at)
            and not self.is_expired(earlier)
        ):
            return earlier
        pending = self.mask(pending)
        self.asked[call.call_id] = pending
        self.times_asked[call.call_id] += 1
        self.emit(ApprovalRequested(pending=pending, step=call.step))
        return pending

    def unpark(self, call_id: str) -> list[CallState]:
        """Take back a parked call; returns it, and those that wait for it after it."""
        call = self.parked.pop(call_id)
        call.turn.equal_calls.leave(call)
        call.turn.parked.pop(call.digest, None)
        self.turn.parked.pop(call.digest, None)
        followers = [one for one in self.followers if one.follows == call_id]
        self.followers = [one for one in self.followers if one.follows != call_id]
        return [call, *followers]

    def follow_on(self, followers: list[CallState], pending: PendingApproval) -> None:
        """Have the user asked about the first of *followers* instead of the one that is gone."""
        for place, call in enumerate(followers):
            call.follows = "" if place == 0 else followers[0].call_id
        if followers:
            first, *self.followers[len(self.followers) :] = followers
            self.park(first, msgspec.structs.replace(pending, call_id=first.call_id))

    def waiting(self, call_id: str) -> CallState | None:
        """The call of this id that waits for the user, or for one that does; None without one."""
        parked = self.parked.get(call_id)
        if parked is not None:
            return parked
        return next((one for one in self.followers if one.call_id == call_id), None)

    def is_question_of(self, answer: Approve | Deny | Edit, pending: PendingApproval) -> bool:
        """Whether *answer* is to the question *pending*, which has not expired; a no always is."""
        if isinstance(answer, Deny):
            return True
        times_asked = self.times_asked[answer.call_id]
        return not self.is_expired(pending) and answers_question(
            answer, pending, times_asked=times_asked
        )

    def is_expired(self, pending: PendingApproval) -> bool:
        """Whether it has to be asked anew."""
        return pending.expires_at is not None and self.clock.now() >= pending.expires_at

    # -- bodies at a time

    def slots_of(self, call: CallState) -> tuple[asyncio.Semaphore, ...]:
        """What limits how many bodies run beside that of the call: its tool's limit, and all's."""
        tool = call.known_tool
        found = () if tool.concurrency is None else (self._slot(tool.name, tool.concurrency),)
        # The one name that no tool can have; taken last by all, so that nobody waits in a ring.
        most = self.parallel
        return found if isinstance(most, bool) else (*found, self._slot("", most))

    def _slot(self, name: str, most: int) -> asyncio.Semaphore:
        if name not in self.slots:
            self.slots[name] = asyncio.Semaphore(most)
        return self.slots[name]

    def processes(self) -> asyncio.Semaphore:
        """What limits how many bodies run in processes of their own at a time."""
        if self._processes is None:
            self._processes = asyncio.Semaphore(MAX_PROCESSES)
        return self._processes

    # -- settled calls

    def trust_of(self, call: CallState) -> str:
        """UNTRUSTED where the outcome may hold untrusted content, else ""."""
        outcome, tool = call.outcome, call.tool
        if tool is None or isinstance(outcome, _WITHOUT_OUTPUT):
            return ""
        # What is read back is as it was when it was stored.
        is_read_back = tool.name == READER_NAME and call.given.get("id") in self.untrusted
        return UNTRUSTED if call.trust or is_read_back else tool.trust

    def learn(self, record: ToolRecord, tool: Tool | None) -> None:
        """Take note of what a settled call brought into the context; *tool* is that of today."""
        turn = self.turn
        if record.is_untrusted:
            self.fenced.add((record.call_id, record.tool_name))
        if turn.call_judge is not None and tool is not None:
            turn.call_judge.take(record, tool, is_tainted=turn.tainted is not None)
        # What is called untrusted today was so then.
        if record.is_untrusted or (
            tool is not None
            and tool.trust == UNTRUSTED
            and not isinstance(record.outcome, _WITHOUT_OUTPUT)
        ):
            self._distrust(record.outcome)

    def _distrust(self, outcome: ToolOutcome) -> None:
        self.turn.tainted = self.turn.tainted or TaintOrigin(
            source=outcome.tool_name, call_id=outcome.call_id
        )
        if isinstance(outcome, ToolArtifactReference):
            self.untrusted.add(outcome.artifact_id)

    def record_of(self, call: CallState) -> ToolRecord:
        """All facts of a settled call, secrets masked."""
        outcome, tool = call.outcome, call.tool
        if outcome is None:
            raise RuntimeError(f"the call {call.call_id!r} is not settled")
        now = self.clock.monotonic()
        ran = call.run_started is not None
        until = now if call.run_started is None else call.run_started
        # What denies is always the last that was asked.
        trace = call.trace
        last = trace[-1] if trace else None
        record = ToolRecord(
            run_id=self.identity.run_id,
            parent_run_id=self.parent_run_id,
            turn=call.label,
            call_id=call.call_id,
            tool_name=call.tool_name,
            tool_version="" if tool is None else tool.version,
            arguments_given=call.call.arguments,
            arguments_validated=call.arguments,
            arguments_executed=call.arguments if ran else None,
            coercions=call.coercions,
            lossy=call.lossy,
            gate=last.gate if last is not None and last.verdict == "deny" else "",
            trace=trace,
            approval=call.approval,
            attempts=call.attempts,
            queue_ms=_to_ms(until - call.opened - call.paused_s),
            run_ms=_to_ms(now - until) if ran else 0,
            declared_effect=None if tool is None else tool.declared_effect,
            effect=outcome.effect,
            argument_bytes=len(_encode(call.arguments)) if ran else 0,
            output_bytes=_output_bytes(call, outcome) if ran else 0,
            artifact_id=outcome.artifact_id if isinstance(outcome, ToolArtifactReference) else "",
            mode=call.mode,
            idempotency_key=call.idempotency_key,
            started_at=call.started_at,
            trust=self.trust_of(call),
            step=call.step,
            vouched=call.verdict.vouched,
            effect_id="" if call.claim is None else call.claim.id,
            act="" if call.turn.call_judge is None else call.turn.call_judge.name_act(call),
            outcome=outcome,
        )
        if self.secrets is None:
            return record
        masked_before = self.secrets.masked
        record = self.secrets.mask(record)
        count = call.redactions + self.secrets.masked - masked_before
        return msgspec.structs.replace(record, redactions=count)


def _to_ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _output_bytes(call: CallState, outcome: ToolOutcome) -> int:
    content = outcome_to_model_content(outcome) if call.content is None else call.content
    return len(content) if content.isascii() else len(content.encode())
