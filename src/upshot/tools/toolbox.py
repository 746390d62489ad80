"""Toolbox: brings tool calls to exactly one outcome each."""

from __future__ import annotations

import asyncio
import secrets as random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, cast

import msgspec

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.checks import ANYTHING, Allowed, check_argument, format_value
from upshot.contract.base.enums import Effect, worst_effect
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import JsonObject
from upshot.contract.base.words import call_words
from upshot.contract.effects import ledger_of
from upshot.contract.events import Event, ToolStarted
from upshot.contract.pending import AnyAnswer, Pending, PendingApproval, TaintOrigin
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import (
    UNTRUSTED,
    GateVerdict,
    Settlement,
    ToolCall,
    ToolDenied,
    ToolOutcome,
    ToolRecord,
    ToolSpec,
    fence,
    outcome_to_model_content,
    plain_text_of,
)
from upshot.errors import Misuse
from upshot.tools.call_resumption import (
    EarlierCalls,
    KnownCall,
    KnownOutcomes,
    give_up,
    reopen_all,
    restore_call,
    restore_records,
    valid_answers,
    without_refused,
)
from upshot.tools.call_state import CallState, ReplayScope, TurnState, Withdrawn, running_call
from upshot.tools.catalog import catalog_of, resolve_tools
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.batch import SLICE, Batch
from upshot.tools.execution.effect_claim import connect, recheck
from upshot.tools.execution.executor import WORKERS
from upshot.tools.gates.standard_gates import Repair, pipelines
from upshot.tools.repetition import EqualCalls
from upshot.tools.toolbox_options import ToolboxOptions, check_options, judge_of, policy_of
from upshot.tools.toolbox_state import JournalLog, ToolboxState


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the gates say about a call that is not made.

    Attributes:
        outcome: The denial that it would get, or None.
        pending: The first question that the user would be asked, or None.
        arguments: The arguments it would run with, valid and with defaults; None if they were
            refused or not checked.
        trace: The verdict of each gate, in order.
    """

    outcome: ToolDenied | None = None
    pending: PendingApproval | None = None
    arguments: JsonObject | None = None
    trace: tuple[GateVerdict, ...] = ()

    @property
    def would_run(self) -> bool:
        """Whether it would run now, without asking the user."""
        return self.outcome is None and self.pending is None


def _box_identity(identity: RunInfo | None) -> RunInfo:
    """Return the identity of a Toolbox that does not work for a run with an id."""
    return msgspec.structs.replace(identity or RunInfo(), run_id=f"box-{random.token_hex(8)}")


_ANSWERS = Allowed("a list of them: answer([Approve(...)])", items=ANYTHING)


# Looked up once: enum members are slow to look up on Python 3.11.
_UNKNOWN = Effect.UNKNOWN
# Made once, because checking its numbers costs more than the rest of a Toolbox.
_DEFAULT_BUDGET = Budget()


def _no_step() -> str:
    return ""


def _drop(event: Event) -> None:
    """Drop events that are neither logged nor passed to a run."""


class Toolbox:
    """Runs tool calls: through the gates, within their time, to exactly one outcome each.

    Alone, it is its own context: its budget counts from ``new_turn()`` and large outputs are kept
    in memory. A run passes in its identity, log and stores.

    Attributes:
        records: One record for every settled call, in call order.
        known_outcomes: Outcomes that are returned instead of making their calls, or None. A run
            that is re-executed sets it after creating its Toolbox.
        doubts: Open questions about unknown effects of a resumed run.
    """

    records: list[ToolRecord]
    known_outcomes: KnownOutcomes | None
    doubts: tuple[Pending, ...] = ()
    _scope: ReplayScope

    def __init__(self, tools: Iterable[object], **options: Unpack[ToolboxOptions]) -> None:
        """Create a Toolbox.

        Args:
            tools: Tools, functions or tool sets.
            options: See ``ToolboxOptions``.

        Raises:
            Misuse: A tool, a gate or an option is unusable.
        """
        get = options.get
        is_new = not get("is_checked")
        resolved = resolve_tools(tools) if is_new else cast("tuple[Tool, ...]", tools)
        check_options({} if get("is_checked") else options)
        policy, secrets, identity = policy_of(options), get("secrets", ()), get("identity")
        clock, attempt, repair = get("clock") or SYSTEM_CLOCK, get("attempt", 0), get("repair")
        whose = identity if identity and identity.run_id else _box_identity(identity)
        count = attempt if callable(attempt) else lambda: attempt
        log, journal, emit, barrier = None, get("journal"), get("emit"), get("barrier")
        if journal is not None and emit is None:
            log = JournalLog(journal, whose.run_id, clock=clock, attempt=count)
            emit, barrier = log.emit, log.barrier
        masks = None if secrets == () else Secrets(secrets) or None
        judging = policy if policy is not None and policy.taint == "values" else None
        self._asks_after_taint = policy is not None and policy.taint != "off"
        self.records, self.known_outcomes, self._batches = [], get("known_outcomes"), set[Batch]()
        self._scope, self._judge = get("replay_scope", "turn"), get("unknown")
        self._state = ToolboxState(
            identity=whose,
            parent_run_id=get("parent_run_id", ""),
            attempt=count,
            step=get("step") or _no_step,
            catalog=catalog_of(resolved),
            offered=get("offered"),
            withheld=get("withheld"),
            pipeline_of=pipelines(
                get("gates"),
                hook=get("on_pre_tool_use"),
                approve=get("approve"),
                policy=policy,
                repair=repair and Repair(repair, masks),
                at_start=get("at_start"),
                earlier=get("earlier_calls", ()),
            ),
            clock=clock,
            emit=emit or _drop,
            barrier=barrier,
            journal_log=log,
            secrets=masks,
            store=get("artifacts"),
            workers=get("workers") or WORKERS,
            dependencies=get("dependencies"),
            parallel=get("parallel", True),
            earlier_may_work=get("earlier_may_work", False),
            ledger=(ledger := ledger_of(get("ledger", journal))),
            keeps_outputs=get("keeps_outputs", False),
            run_calls=get("run_calls"),
            turn=TurnState(
                clock,
                get("budget") or _DEFAULT_BUDGET,
                deadline=get("deadline"),
                active_time=get("working"),
                in_run=identity is not None,
                spent_elsewhere=get("spent"),
                call_judge=judging and judge_of(judging, options, masks, clock, whose),
                equal_calls=EqualCalls(in_ledger=ledger is not None),
            ),
        )
        connect(self._state)

    def __repr__(self) -> str:
        return f"Toolbox({list(self._state.names_on_offer())})"

    @property
    def run_id(self) -> str:
        """The run that makes the calls; a made-up id if none was given."""
        return self._state.identity.run_id

    @property
    def blocked_tool_names(self) -> frozenset[str]:
        """Tools that may not be called again in this turn."""
        return frozenset(self._state.turn.blocked)

    @property
    def stalled(self) -> str:
        """Why this turn makes no progress: the same call with the same result; "" if it may."""
        return self._state.turn.loop_detector.stalled

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The questions to the user about parked calls, in call order.

        Those of agents that calls run come last. They and those of a replay may be any ``Pending``.
        """
        known = self.known_outcomes
        if known is not None and known.pending is not None:
            return cast("tuple[PendingApproval, ...]", known.pending())
        parked = self._state.parked.values()
        own = tuple(call.pending for call in parked if call.pending is not None)
        if not self._state.agents:
            return own
        inside = [one for call in self._state.agents.values() for one in call.waits]
        return (*own, *cast("list[PendingApproval]", inside))

    def pending_of(self, call_id: str) -> tuple[Pending, ...]:
        """Return what a parked call waits for: its own question, or those of the agent it runs."""
        agent = self._state.agents.get(call_id)
        if agent is not None:
            return agent.waits
        # A call of a child run may have the same id.
        asked = (one for one in self.pending if not one.run_id)
        return tuple(one for one in asked if getattr(one, "call_id", "") == call_id)

    def is_waiting(self, call_id: str) -> bool:
        """Whether a call is parked."""
        return self._state.waiting(call_id) is not None

    def question_about(self, call_id: str) -> PendingApproval | None:
        """Return the question about a parked call, or about the equal call it waits for."""
        call = self._state.waiting(call_id)
        if call is not None and call.follows:
            call = self._state.waiting(call.follows)
        return None if call is None else call.pending

    @property
    def abandoned(self) -> int:
        """How many threads of the process still run an abandoned call."""
        return self._state.workers.lost

    @property
    def tainted(self) -> TaintOrigin | None:
        """What brought untrusted content into the context, or None."""
        return self._state.turn.tainted

    @property
    def asks_after_taint(self) -> bool:
        """Whether untrusted content changes what needs approval: ``Policy.taint`` is not off."""
        return self._asks_after_taint

    def depend_on(self, dependencies: object) -> None:
        """Give tools other *dependencies*, from the next call on."""
        self._state.dependencies = dependencies

    def schemas(self) -> tuple[ToolSpec, ...]:
        """Return the offered tools; the same tuple until something changes.

        ``read_artifact`` is included once an output was stored; it can always be called.
        """
        return self._state.specs()

    def add(self, tools: Iterable[Tool]) -> None:
        """Offer more *tools* from now on; a tool whose name is known is ignored.

        Raises:
            Misuse: Two have the same name, or one is unusable.
        """
        known = self._state.catalog.tools
        added = tuple(one for one in tools if one.name not in known)
        self._state.catalog = catalog_of((*known.values(), *added))

    def find(self, name: str) -> Tool | None:
        """Return the tool called *name*, offered or not; None if there is none."""
        return self._state.known(name)

    def new_turn(self) -> None:
        """Start a tool turn: blocked tools are free again, and calls may be repeated."""
        # A new object, because calls of the last turn that still run keep the old one.
        self._state.turn = self._state.turn.following(self._scope)

    def cancel(self, *, running: bool = True) -> None:
        """Deny what has not started, until ``new_turn()``; if *running*, cancel running bodies."""
        self._state.turn.cancelled = True
        # A copy, because a batch that ends removes itself from the set.
        for batch in tuple(self._batches):
            batch.cancel(running=running)

    def wait_before_start(self, held: asyncio.Event | None) -> None:
        """Make every call that has not started wait for *held* first; None removes that."""
        self._state.held = held

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one running or waiting call, as ``cancel`` does for all.

        Returns:
            Whether there was one. To end a parked call, answer it with ``Deny``.
        """
        return any(batch.cancel_call(call_id) for batch in tuple(self._batches))

    def has_call(self, call_id: str) -> bool:
        """Whether ``cancel_call`` would find such a call; safe to call from any thread."""
        return any(call.call_id == call_id for call in self._open_calls())

    def _open_calls(self) -> list[CallState]:
        return [call for batch in tuple(self._batches) for call in batch.open_calls()]

    def writes_in_hand(self) -> dict[CallState, str]:
        """Return the running calls that may write, in words; safe to call from any thread."""
        begun = [call for call in self._open_calls() if call.run_started is not None]
        writes = [call for call in begun if call.record is None and call.known_tool.may_write]
        mask = self._state.mask
        return {call: call_words(call.tool_name, mask(call.arguments or {})) for call in writes}

    def warn_of_leftovers(self) -> None:
        """Warn about abandoned bodies that are still running."""
        for name, count in self._state.leftover.items():
            if count > 0:
                calls = "1 abandoned call" if count == 1 else f"{count} abandoned calls"
                verb = "is" if count == 1 else "are"
                self._state.warn("leftover_calls", f"{calls} of {name} {verb} still running")

    async def dispatch(
        self, calls: Sequence[ToolCall], *, turn: int = 0, reply: object = None
    ) -> list[ToolOutcome]:
        """Run the calls of one reply.

        Args:
            calls: The calls that the model requested.
            turn: A label for their records.
            reply: An id that calls of one reply share if they are dispatched separately; None if
                all of them are here.

        Returns:
            One outcome for each call in call order, except parked calls, which are in
            ``pending``.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every call has its record.
            JournalError: Events could not be logged.
            Misuse: *calls* is not a list of ToolCalls.
        """
        if not isinstance(calls, Sequence) or not isinstance(turn, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            got = f"got {format_value(calls)} and {format_value(turn)}"
            raise Misuse(f"dispatch must be given a list of ToolCalls and a number as turn, {got}")
        # An engine may be called again from its start, with calls that are in the log already.
        if self.known_outcomes is not None:
            return await self._return_known(calls, self.known_outcomes, turn)
        if len(calls) > SLICE:
            return self._check_unknown(await self._run(await self._open_many(calls, turn), reply))
        opened = [self._state.open(call, turn) for call in calls]
        return self._check_unknown(await self._run(opened, reply))

    async def check(self, call: ToolCall) -> DryRun:
        """Find out what a call would get, without making it.

        Your hook and gates are called; ``approve`` is not, and nothing is emitted or counted.

        Args:
            call: A call that a model might request.

        Returns:
            Why it would be denied, or what the user would be asked first, with the gates' trace.
        """
        opened = self._state.open(call, 0)
        opened.is_dry = True
        opened.pipeline.ask(opened)
        # Async hooks are awaited, because an answer without theirs might be wrong.
        await opened.pipeline.wait(opened)
        mask, outcome = self._state.mask, opened.outcome
        return DryRun(
            outcome=mask(outcome) if isinstance(outcome, ToolDenied) else None,
            pending=mask(opened.pending),
            arguments=mask(opened.arguments),
            trace=mask(opened.trace),
        )

    def content_of(self, outcome: ToolOutcome) -> str:
        """Return the content of the tool message for an outcome of this Toolbox.

        Returns:
            ``outcome_to_model_content``; in a run, if a tool with ``plain_text`` returned just a
            text, that text. Possibly untrusted content is put between marks, and a note follows
            if the same call gave the same result repeatedly.
        """
        tools, text = self._state.catalog.tools, None
        if self._state.turn.in_run and (tool := tools.get(outcome.tool_name)) and tool.plain_text:
            text = plain_text_of(outcome)
        if text is None:
            text = outcome_to_model_content(outcome)
        if (outcome.call_id, outcome.tool_name) in self._state.fenced:
            text = fence(text, run_id=self.run_id, call_id=outcome.call_id)
        note = self._state.turn.loop_detector.note_of(outcome)
        return f"{text}\n\n{note}" if note else text

    def distrust(self, origin: TaintOrigin) -> None:
        """Mark the context as containing untrusted content, and say where it came from.

        Called from the body of a call, this also marks the result of that call as untrusted.
        """
        turn, running = self._state.turn, running_call.get()
        turn.tainted = turn.tainted or origin
        if running is not None and running.turn is turn:
            running.trust = UNTRUSTED

    def note_effect(self, effect: Effect) -> None:
        """Add the effect of an agent to the call whose body runs it here."""
        running = running_call.get()
        if running is not None and running.turn is self._state.turn:
            running.inside = worst_effect((running.inside, effect))

    def recheck_approvals_with(self, withdrawn: Withdrawn) -> None:
        """Ask *withdrawn* whether a standing approval still counts, each time before it is used."""
        self._state.turn.withdrawn = withdrawn

    async def answer(self, answers: Iterable[AnyAnswer]) -> list[ToolOutcome]:
        """Resume parked calls that the user has answered.

        The gates are asked again, because their verdicts may have changed since.
        An approval or edit after the question expired is ignored: the user is asked again.

        Args:
            answers: Approve, Deny or Edit; calls without an answer stay parked.

        Returns:
            One outcome for each answered call, and for each call that waited for it as its
            equal, in call order.

        Raises:
            Misuse: No such call is parked, a call is answered twice, or an answer is not for
                calls.
        """
        check_argument("answers", answers, _ANSWERS)
        return self._check_unknown(await self._run(reopen_all(self._state, answers)))

    async def resume(
        self,
        calls: Sequence[ToolCall],
        earlier: EarlierCalls,
        *,
        turn: int = 0,
    ) -> list[ToolOutcome]:
        """Run the calls of a reply that an earlier process did not finish.

        If a call that only reads or is idempotent had started, it runs again with its old
        idempotency key, and the user's answer about it still counts, except in a fork. Any other
        that had started is a failure ``interrupted`` with an unknown effect. What had not started
        is dispatched.

        Args:
            calls: The calls of the reply that have no outcome.
            earlier: Their starts, questions and answers in the log.
            turn: A label for their records.

        Returns:
            One outcome for each call that settled; those with an answer come last.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every call has its record.
            JournalError: Events could not be logged.
        """
        known = self.known_outcomes
        if known is not None and known.pending is not None:
            # A replayed record leaves nothing half done.
            return await self._return_known(calls, known, turn)
        return await self._resume([(call, earlier) for call in calls], earlier, turn)

    async def _resume(
        self, calls: Sequence[tuple[ToolCall, EarlierCalls]], earlier: EarlierCalls, turn: int
    ) -> list[ToolOutcome]:
        """See ``resume``; each call comes with what is known of it."""
        state = self._state
        # Before the calls are opened, so that a call that is asked about again finds its question.
        state.asked.update(earlier.asked)
        opened = [state.open(call, turn) for call, _ in calls]
        for one, (_, known) in zip(opened, calls, strict=True):
            restore_call(state, one, await without_refused(state, known))
        try:
            outcomes = await self._run(opened)
            valid = valid_answers(state, earlier) if earlier.answers else []
            outcomes += await self._run(reopen_all(state, valid)) if valid else []
        except asyncio.CancelledError:
            # While answers are applied, the calls without one are not in a batch.
            self._settle_without_running(
                [one for one in opened if state.waiting(one.call_id) is one]
            )
            raise
        return self._check_unknown(outcomes)

    def _check_unknown(self, outcomes: list[ToolOutcome]) -> list[ToolOutcome]:
        """Return *outcomes*, unless the judge of those with unknown effects raises."""
        if self._judge is None or self._state.turn.cancelled:
            return outcomes
        doubtful = [one for one in outcomes if one.effect is _UNKNOWN]
        if doubtful:
            known = [one for one in self.records if any(one.outcome is each for each in doubtful)]
            self._judge([(self._state.known(one.tool_name), one) for one in known])
        return outcomes

    async def recheck(self, record: ToolRecord, id: str) -> Settlement | None:
        """Return how the unknown effect of an earlier call is settled now, or None.

        Args:
            record: The record of the call.
            id: Its effect in the ledger; if that is unknown, the tool's ``verify`` is asked.
        """
        state, tool = self._state, self._state.known(record.tool_name)
        if tool is None:
            entry = None if state.ledger is None else await state.ledger.effect(id)
            return None if entry is None else entry.settled
        call = state.open(ToolCall(record.call_id, tool.name), record.turn)
        call.take_tool(tool)
        call.take_arguments(record.arguments_validated or {})
        return await recheck(state, call, record, id=id)

    async def call_off(
        self,
        calls: Sequence[ToolCall],
        started: Mapping[str, ToolStarted] | None = None,
        *,
        turn: int = 0,
    ) -> list[ToolOutcome]:
        """Settle calls of a reply that will not be made, so that none is left open.

        One that had started in an earlier process is a failure ``interrupted``. All others are
        denied as cancelled, including those that wait for the user.

        Args:
            calls: The calls of the reply that have no outcome.
            started: Their starts in the log, by call id, if any.
            turn: A label for their records.

        Returns:
            One outcome for each call, in call order.

        Raises:
            JournalError: Events could not be logged.
        """
        state = self._state
        if state.journal_log is not None:
            await state.journal_log.open()
        started = (await without_refused(state, EarlierCalls(started or {}))).started
        opened = [state.waiting(call.id) or state.open(call, turn) for call in calls]
        for one in opened:
            if started and one.call_id in started:
                give_up(state, one, started[one.call_id])
        self._settle_without_running(opened)
        return [one.outcome for one in opened if one.outcome is not None]

    def give_up(self, started: Iterable[ToolStarted]) -> None:
        """Settle calls as interrupted that an earlier process started and that are not repeated.

        Raises:
            JournalError: Events could not be logged.
        """
        opened: list[CallState] = []
        for start in started:
            call = self._state.open(start.call, start.turn)
            call.step = start.step
            give_up(self._state, call, start)
            opened.append(call)
        self._settle_without_running(opened)

    def restore(self, records: Iterable[ToolRecord]) -> None:
        """Restore earlier calls of this turn from a log.

        Their successes deny repetitions, their final failures block, and they are counted.
        """
        earlier = tuple(records)
        self.records += earlier
        restore_records(self._state, earlier)

    async def flush(self) -> None:
        """Wait until everything logged about the calls is on disk.

        Raises:
            JournalError: It could not be written.
        """
        if self._state.barrier is not None:
            await self._state.barrier()

    # -- for other frameworks

    def for_pydantic_ai(self) -> list[Any]:
        """Return the offered tools for Pydantic AI; each call passes the gates to an outcome.

        The outcome is the metadata of the tool's return. Call ``new_turn()`` for each request.
        A call that needs approval is deferred with ``ApprovalRequired``.

        Raises:
            Misuse: The package is not installed.
        """
        from upshot.tools.export import BoxDesk, to_pydantic_ai

        return to_pydantic_ai(BoxDesk(self))

    def for_openai_agents(self) -> list[Any]:
        """Return the offered tools for the OpenAI Agents SDK; see ``for_pydantic_ai``.

        A tool that always needs approval interrupts the SDK's run. For other calls that need
        approval, the model reads that the call waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from upshot.tools.export import BoxDesk, to_openai_agents

        return to_openai_agents(BoxDesk(self))

    def for_langchain(self) -> list[Any]:
        """Return the offered tools for LangChain, for async calls; see ``for_pydantic_ai``.

        The outcome is the artifact of the message. If a call needs approval, the model reads
        that it waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from upshot.tools.export import BoxDesk, to_langchain

        return to_langchain(BoxDesk(self))

    # -- internals

    async def _open_many(self, calls: Sequence[ToolCall], turn: int) -> list[CallState]:
        """Open calls, giving other tasks of the loop a turn in between."""
        opened: list[CallState] = []
        try:
            for first in range(0, len(calls), SLICE):
                await asyncio.sleep(0)
                opened += [self._state.open(call, turn) for call in calls[first : first + SLICE]]
        except asyncio.CancelledError:
            opened += [self._state.open(call, turn) for call in calls[len(opened) :]]
            self._settle_without_running(opened)
            raise
        return opened

    async def _run(self, calls: Sequence[CallState], reply: object = None) -> list[ToolOutcome]:
        batch = Batch(self._state, calls)
        for call in calls:
            if call.reply is None:
                # Only a run numbers its replies.
                call.reply = reply or (call.turn.in_run and call.label) or batch
        self._batches.add(batch)
        try:
            await batch.run()
        finally:
            self._batches.discard(batch)
            # Even after a cancel or a lost log, settled calls have their records.
            self.records += batch.records
        return [call.outcome for call in calls if call.outcome is not None]

    def _settle_without_running(self, calls: Sequence[CallState]) -> None:
        batch = Batch(self._state, calls)
        batch.settle_off()
        self.records += batch.records

    async def _return_known(
        self, calls: Sequence[ToolCall], known: KnownOutcomes, turn: int
    ) -> list[ToolOutcome]:
        """Return the known outcomes, and make the other calls if that is wanted."""
        found = [known.find(call) for call in calls]
        taken = [one for one in found if one is not None and one.record is not None]
        events = [event for one in taken for event in one.events]
        # In the order of the log, even if concurrent calls are requested in another order.
        for event in sorted(events, key=lambda event: event.seq):
            # A copy, because the log stamps what is emitted.
            self._state.emit(msgspec.structs.replace(event))
        self.restore(one.record for one in taken if one.record is not None)
        # By id, and in order, because a model may use one id for several calls of a reply.
        made: dict[str, deque[ToolOutcome]] = {}
        if known.pending is None:
            for outcome in await self._make_rest(calls, found, turn):
                made.setdefault(outcome.call_id, deque()).append(outcome)
        outcomes: list[ToolOutcome] = []
        for call, one in zip(calls, found, strict=True):
            if one is not None and one.outcome is not None:
                outcomes.append(one.outcome)
            elif made.get(call.id):
                outcomes.append(made[call.id].popleft())
        return outcomes

    async def _make_rest(
        self, calls: Sequence[ToolCall], found: Sequence[KnownCall | None], turn: int
    ) -> list[ToolOutcome]:
        """Make the calls of a re-executed log that have no outcome."""
        known = [(call, one or KnownCall()) for call, one in zip(calls, found, strict=True)]
        rest = [(call, one) for call, one in known if one.outcome is None]
        if not rest:
            return []
        waiting = EarlierCalls(
            asked={id: asked for _, one in rest for id, asked in one.earlier.asked.items()},
            answers={id: answer for _, one in rest for id, answer in one.earlier.answers.items()},
        )
        return await self._resume([(call, one.earlier) for call, one in rest], waiting, turn)
