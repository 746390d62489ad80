"""What all calls of a Toolbox share, and the log of a Toolbox without a run."""

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
from upshot.tools.execution.call_log import CallLog, RunCalls
from upshot.tools.execution.executor import Workers
from upshot.tools.gates.pipeline import GatePipeline

Emit: TypeAlias = Callable[[Event], None]
Barrier: TypeAlias = Callable[[], Awaitable[None]]
Offered: TypeAlias = Callable[[], Container[str]]
Withheld: TypeAlias = Callable[[ToolCall], Container[str]]

MAX_PROCESSES = max(4, 2 * (os.cpu_count() or 1))
"""How many bodies of a Toolbox may run in processes at a time."""

_encode = msgspec.json.Encoder().encode
V = TypeVar("V")


class JournalLog:
    """Logs the events of a Toolbox that does not work for a run."""

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
            # Two batches may start at the same time, and a second claim would end the first.
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        self._epoch = await self._journal.claim(self._run_id)
        async for event in self._journal.events(self._run_id):
            self._seq = max(self._seq, getattr(event, "seq", 0))
            read_event(self._state, event)

    def emit(self, event: Event) -> None:
        """Stamp and append *event*; deltas are dropped, because there are no subscribers.

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
        """Wait until everything appended is on disk.

        Raises:
            JournalError: It could not be written.
        """
        await until_safe(self._journal, self._run_id, self._seq, epoch=self._epoch)


# Outcomes that never contain the tool's own words.
_WITHOUT_OUTPUT = (ToolDenied, ToolTimeout)


@dataclass(slots=True, weakref_slot=True)
class ToolboxState:
    """What all calls of a Toolbox share.

    Attributes:
        identity: The run that makes the calls.
        parent_run_id: That run's parent, "" for none.
        attempt: Returns the number of the engine's current pass.
        step: Returns the key of the step in whose body a call is made, "" for none.
        catalog: The tools.
        offered: Returns the names that are offered now; None offers all.
        withheld: Returns the names that the model was not offered when it made a call; None if it
            was always offered all.
        pipeline_of: Returns the gate pipeline for a tool, or for an unknown tool (None).
        clock: The time.
        emit: Receives events.
        barrier: Waits until all emitted events are on disk; None if nothing is logged.
        journal_log: The log of a Toolbox that does not work for a run; None in a run.
        secrets: What is masked; None without secrets.
        store: Where large outputs are stored; None until the first one.
        workers: Threads for plain tools.
        dependencies: The caller's one object for tools.
        parallel: Whether bodies may run concurrently; a number limits how many.
        earlier_may_work: Whether the process that started resumed calls may still be running them.
        turn: The tool turn.
        offers_reader: Whether ``read_artifact`` is offered, as it is once an output was stored.
        held: What a call waits for before it starts, or None.
        ledger: The effects that the journal knows; None if it keeps none.
        keeps_outputs: Whether outputs stay whole, however large.
        run_calls: What the log of its run knows of calls that wait or ran agents; None outside
            a run.
        warned: Warnings that were emitted already.
        made: How many calls were made, by their id and arguments.
        asked: The user's questions about unsettled calls, by call id.
        times_asked: How many questions were asked about calls with an id, settled or not.
        parked: Calls that wait for the user, by id.
        followers: Calls that wait for an equal one that is parked.
        agents: Calls whose agents wait for answers, by id.
        fenced: Calls whose results are shown as untrusted, by id and tool.
        untrusted: Ids of artifacts that may contain untrusted content.
        slots: The limits of concurrent bodies by tool, "" for all tools.
        leftover: How many abandoned bodies of a tool are still running.
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
    withheld: Withheld | None = None
    run_calls: RunCalls | None = None
    warned: set[str] = field(init=False)
    made: Counter[str] = field(init=False)
    asked: dict[str, PendingApproval] = field(init=False)
    times_asked: Counter[str] = field(init=False)
    parked: dict[str, CallState] = field(init=False)
    followers: list[CallState] = field(init=False)
    agents: dict[str, CallState] = field(init=False)
    fenced: set[tuple[str, str]] = field(init=False)
    untrusted: set[str] = field(init=False)
    slots: dict[str, asyncio.Semaphore] = field(init=False)
    leftover: Counter[str] = field(init=False)
    _processes: asyncio.Semaphore | None = None
    _reader: Tool | None = None
    _specs: tuple[tuple[str, ...], tuple[ToolSpec, ...]] = ((), ())

    def __post_init__(self) -> None:
        self.warned, self.made, self.leftover = set(), Counter(), Counter()
        self.asked, self.times_asked, self.parked, self.followers = {}, Counter(), {}, []
        self.fenced, self.untrusted, self.slots, self.agents = set(), set(), {}, {}
        # Weak, so that the turn does not refer back here and need the garbage collector.
        state = ref(self)

        def identify(call: CallState) -> EffectClaim | None:
            found = state()
            return None if found is None else found.identify(call)

        self.turn.identify = identify
        self.turn.tainted = self.catalog.taint

    # -- tools on offer

    def known(self, name: str) -> Tool | None:
        """Return the tool called *name*, offered or not."""
        if name != READER_NAME:
            return self.catalog.tools.get(name)
        if self._reader is None:
            self._reader = make_reader(self.artifact_store(), self.identity.run_id)
        return self._reader

    def names_on_offer(self) -> tuple[str, ...]:
        """Return the offered names, in order."""
        names = self.catalog.names
        if self.offered is not None:
            offered = self.offered()
            names = tuple(name for name in names if name in offered)
        # The reader comes last, so that what precedes it stays the same for prompt caches.
        return (*names, READER_NAME) if self.offers_reader else names

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the offered tools; the same tuple until something changes."""
        if self.offered is None and not self.offers_reader:
            return self.catalog.specs
        # An encoder recognises the same object and reuses its bytes for the tools.
        names = self.names_on_offer()
        if names != self._specs[0]:
            found = (self.known(name) for name in names)
            self._specs = (names, tuple(one.spec for one in found if one is not None))
        return self._specs[1]

    def artifact_store(self) -> ArtifactStore:
        """Return the store for large outputs."""
        if self.store is None:
            self.store = InMemoryArtifacts()
        return self.store

    # -- calls

    def open(self, call: ToolCall, label: int) -> CallState:
        """Open a call; *label* is the caller's label for the turn.

        Raises:
            Misuse: It is not a ToolCall.
        """
        if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"calls must be ToolCall objects, got {call!r:.60}")
        found = self.known(call.name)
        if found is not None and self.offered is not None and call.name != READER_NAME:
            found = found if call.name in self.offered() else None
        withheld = () if self.withheld is None else self.withheld(call)
        if withheld and call.name in withheld:
            found = None
        names = self.names_on_offer() if found is None else ()
        made = CallState(
            call,
            turn=self.turn,
            found=found,
            pipeline=self.pipeline_of(found),
            names_on_offer=tuple(name for name in names if name not in withheld),
            label=label,
            opened=self.clock.monotonic(),
            run_id=self.identity.run_id,
            step=self.step(),
        )
        if found is not None and found.continues:
            made.log = CallLog(self, made)
        return made

    def identify(self, call: CallState) -> EffectClaim | None:
        """Return the identity of a call's effect, or None if its tool declares none."""
        tool = call.known_tool
        # An effect that nothing makes must not be claimed outside its run.
        is_made = self.run_calls is None or self.run_calls.stand_in is None
        scope = tool.scope if is_made else "run"
        claim = claim_of(tool, call.arguments or {}, self.identity, self.secrets, scope)
        if claim is not None and self.ledger is None and scope != "run":
            self.warn(
                "no_ledger",
                f"{tool.name} has once=, but the run has no journal "
                "that keeps effects: it is done once only within this run",
                once=f"no_ledger {tool.name}",
            )
        return claim

    def mask(self, value: V) -> V:
        """Return *value*, JSON or a contract struct, with every secret in it replaced."""
        return value if self.secrets is None else self.secrets.mask(value)

    def warn(self, code: str, message: str, *, once: str = "") -> None:
        """Emit a warning that does not fail a call.

        Args:
            code: A word for it.
            message: One line; secrets in it are masked.
            once: A key under which it is emitted only once; "" emits it each time.
        """
        if once in self.warned:
            return
        if once:
            self.warned.add(once)
        warning = RunWarning(code=code, message=self.mask(message), origin=Origin.TOOL)
        self.emit(Warned(warning=warning))

    def key_of(self, call: CallState) -> str:
        """Return the idempotency key of a call that is about to run: the same after a resume.

        Some models reuse call ids. The key then includes the count of equal calls, because the
        second is meant as a second one.
        """
        seed = f"{self.identity.run_id}\n{call.call_id}\n{call.digest}"
        earlier = self.made[seed]
        self.made[seed] += 1
        if earlier:
            seed = f"{seed}\n{earlier}"
        return hashlib.sha256(seed.encode()).hexdigest()

    # -- calls that wait for the user

    def park(self, call: CallState, pending: PendingApproval) -> None:
        """Park *call* until the user answers; its equals will wait for it."""
        call.pending = self._ask(call, pending)
        self.parked[call.call_id] = call
        if call.known_tool.is_deduplicated:
            call.turn.parked[call.digest] = call.call_id
        elif call.known_tool.is_guarded:
            call.turn.equal_calls.enter(call)

    def _ask(self, call: CallState, pending: PendingApproval) -> PendingApproval:
        """Ask the user, unless the same question was asked before and has not expired."""
        # The digest covers the moment of the question, so it is compared as of that moment.
        earlier = self.asked.get(call.call_id)
        if (
            earlier is not None
            # An edit is a new question, even if it changes nothing.
            and not pending.approved_by
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
        """Remove a parked call; returns it, followed by the calls that wait for it."""
        call = self.parked.pop(call_id)
        call.turn.equal_calls.leave(call)
        call.turn.parked.pop(call.digest, None)
        self.turn.parked.pop(call.digest, None)
        followers = [one for one in self.followers if one.follows == call_id]
        self.followers = [one for one in self.followers if one.follows != call_id]
        return [call, *followers]

    def follow_on(self, followers: list[CallState], pending: PendingApproval) -> None:
        """Park the first of *followers* in place of the call that is gone."""
        for place, call in enumerate(followers):
            call.follows = "" if place == 0 else followers[0].call_id
        if followers:
            first, *self.followers[len(self.followers) :] = followers
            # An approval of one call does not count for another.
            own = msgspec.structs.replace(
                pending, call_id=first.call_id, approved_by=(), edited_by=""
            )
            self.park(first, own)

    def stop_waiting(self, call: CallState) -> bool:
        """Stop a parked call from waiting; returns whether it was waiting."""
        if self.parked.get(call.call_id) is call and call.pending is not None:
            self.follow_on(self.unpark(call.call_id)[1:], call.pending)
        elif call in self.followers:
            self.followers.remove(call)
        elif self.agents.pop(call.call_id, None) is None:
            return False
        call.pending, call.follows = None, ""
        return True

    def waiting(self, call_id: str) -> CallState | None:
        """Return the waiting call with this id, or None.

        It waits for the user itself, through its agent, or for an equal call that does.
        """
        found = self.parked.get(call_id) or self.agents.get(call_id)
        if found is not None:
            return found
        return next((one for one in self.followers if one.call_id == call_id), None)

    def is_question_of(self, answer: Approve | Deny | Edit, pending: PendingApproval) -> bool:
        """Whether *answer* is for *pending*, which has not expired; a denial always is."""
        if isinstance(answer, Deny):
            return True
        times_asked = self.times_asked[answer.call_id]
        return not self.is_expired(pending) and answers_question(
            answer, pending, times_asked=times_asked
        )

    def is_expired(self, pending: PendingApproval) -> bool:
        """Whether the question must be asked again."""
        return pending.expires_at is not None and self.clock.now() >= pending.expires_at

    # -- limits of concurrent bodies

    def slots_of(self, call: CallState) -> tuple[asyncio.Semaphore, ...]:
        """Return the limits on bodies that run next to the call's: by its tool, and overall."""
        tool = call.known_tool
        found = () if tool.concurrency is None else (self._slot(tool.name, tool.concurrency),)
        # "" cannot be a tool's name. All acquire it last, so that calls cannot deadlock.
        most = self.parallel
        return found if isinstance(most, bool) else (*found, self._slot("", most))

    def _slot(self, name: str, most: int) -> asyncio.Semaphore:
        if name not in self.slots:
            self.slots[name] = asyncio.Semaphore(most)
        return self.slots[name]

    def processes(self) -> asyncio.Semaphore:
        """Return the semaphore for bodies that run in separate processes."""
        if self._processes is None:
            self._processes = asyncio.Semaphore(MAX_PROCESSES)
        return self._processes

    # -- settled calls

    def trust_of(self, call: CallState) -> str:
        """Return UNTRUSTED if the outcome may contain untrusted content, otherwise ""."""
        outcome, tool = call.outcome, call.tool
        if tool is None or isinstance(outcome, _WITHOUT_OUTPUT):
            return ""
        # What is read back is as untrusted as it was when it was stored.
        is_read_back = tool.name == READER_NAME and call.given.get("id") in self.untrusted
        return UNTRUSTED if call.trust or is_read_back else tool.trust

    def learn(self, record: ToolRecord, tool: Tool | None) -> None:
        """Note what a settled call brought into the context; *tool* is its current definition."""
        turn = self.turn
        if record.is_untrusted:
            self.fenced.add((record.call_id, record.tool_name))
        if turn.call_judge is not None and tool is not None:
            turn.call_judge.learn(record, tool, is_tainted=turn.tainted is not None)
        # A tool that is untrusted today is treated as if it was so then.
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
        """Make the record of a settled call, with secrets masked."""
        outcome, tool = call.outcome, call.tool
        if outcome is None:
            raise RuntimeError(f"the call {call.call_id!r} is not settled")
        now = self.clock.monotonic()
        ran = call.run_started is not None
        until = now if call.run_started is None else call.run_started
        # A denial always comes from the last gate that was asked.
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
            retries_timeouts=tool is None or tool.retry_on_timeout is not False,
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
