"""Toolbox: from tool calls to exactly one outcome for each."""

from __future__ import annotations

import secrets as random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..clock import SYSTEM_CLOCK
from ..contract import (
    AnyAnswer,
    ArtifactStore,
    Budget,
    Clock,
    Deny,
    Journal,
    JsonObject,
    PendingApproval,
    Policy,
    RunInfo,
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolSpec,
    ToolStarted,
    outcome_blocks_tool,
    outcome_to_model_content,
)
from ..errors import Misuse
from .answering import CallAnswer, apply_answer, read_answer, tell_outdated
from .artifacts import InMemoryArtifacts, make_reader
from .batch import Batch
from .case import Case
from .catalog import Catalog, Offered, resolve_tools
from .conclusion import INTERRUPTED
from .definition import Tool
from .desk import AtStart, Desk
from .dry_run import DryRun
from .fence import fence
from .gate import Gate
from .gates import Approver, PreToolHook, standard_gates
from .gates.approval import ANY_ARGUMENTS
from .ledger import Barrier, Emit, JournalLedger, Ledger
from .passage import Passage
from .secrets import Secrets
from .turn import ReplayScope, Turn
from .workers import WORKERS, Workers

__all__ = ["GateChoice", "Toolbox"]

GateChoice: TypeAlias = Iterable[Gate] | Callable[[tuple[Gate, ...]], Iterable[Gate]]

_NEEDED_GATES = ("known_tool", "arguments")
_SCOPES = ("turn", "run", "context")


class Toolbox:
    """Runs tool calls: through the gates, within their time, to exactly one outcome each.

    Alone, it is a context of its own: its budget counts from ``new_turn()`` and large outputs
    are kept in memory. In a run, that hands in its identity, log and stores.

    Attributes:
        records: One record for every settled call, in call order.
    """

    def __init__(
        self,
        tools: Iterable[object],
        *,
        budget: Budget | None = None,
        gates: GateChoice | None = None,
        policy: Policy | None = None,
        approve: Approver | None = None,
        on_pre_tool_use: PreToolHook | None = None,
        artifacts: ArtifactStore | None = None,
        secrets: Iterable[str] = (),
        web_mode: bool = True,
        parallel: bool = True,
        replay_scope: ReplayScope = "turn",
        journal: Journal | None = None,
        clock: Clock | None = None,
        identity: RunInfo | None = None,
        parent_run_id: str = "",
        attempt: Callable[[], int] | int = 0,
        dependencies: object = None,
        emit: Emit | None = None,
        barrier: Barrier | None = None,
        offered: Offered | None = None,
        at_start: AtStart | None = None,
        deadline: float | None = None,
        workers: Workers | None = None,
    ) -> None:
        """Make a Toolbox.

        Args:
            tools: Tools, functions or tool sets.
            budget: Limits; None is the default budget.
            gates: Your own gates, asked before people are; or a function of the standard
                gates that gives all that shall be asked, in order.
            policy: Rules on tools; None is none.
            approve: Asked where a call needs approval: True, False, or None to leave it
                parked. None parks every such call.
            on_pre_tool_use: Asked about every call with valid arguments: Allow, Refuse, Ask
                or EditArguments; None is Allow.
            artifacts: Where large outputs go; None keeps them in memory.
            secrets: Texts that are masked everywhere but in the tool itself.
            web_mode: Whether tools that declare the network may run; the older name of
                ``Policy(network=)``.
            parallel: Whether bodies of one reply may run together.
            replay_scope: How long a success denies its repetition: "turn", or as long as the
                Toolbox lives and what ``restore`` brings in ("run", "context").
            journal: Where events are logged when no run does that.
            clock: Time for deadlines and durations; bodies themselves run in real time.
            identity: The run that it works for; the budget is then that run's. None is none.
            parent_run_id: That run's parent.
            attempt: Which pass of the engine this is.
            dependencies: The one object that tools find in their context.
            emit: Takes events without run, attempt, time and place; it has to be quick.
            barrier: Waits until all that was emitted is safe; awaited before writing bodies.
            offered: Gives the names that are on offer now; None offers all.
            at_start: Asked at once before a body starts; it has to be quick and may not raise.
            deadline: When the time is over, monotonic; None counts ``budget.deadline_s``.
            workers: Threads for plain tools; None is the process's own.

        Raises:
            Misuse: A tool, a gate or an option cannot be used.
        """
        policy = _read_options(policy, replay_scope, web_mode=web_mode)
        clock = clock or SYSTEM_CLOCK
        run_id = (identity.run_id if identity else "") or f"box-{random.token_hex(8)}"
        store = artifacts or InMemoryArtifacts()
        self._scope: ReplayScope = replay_scope
        self._in_run = identity is not None
        self._parked: dict[str, Case] = {}
        self._batches: set[Batch] = set()
        self._untrusted: set[tuple[str, str]] = set()
        self.records: list[ToolRecord] = []
        ledger = Ledger(emit, barrier)
        get_attempt = attempt if callable(attempt) else lambda: attempt
        if journal is not None and emit is None:
            ledger = JournalLedger(journal, run_id, clock=clock, attempt=get_attempt)
        standard = standard_gates(hook=on_pre_tool_use, approve=approve, policy=policy, clock=clock)
        self._desk = Desk(
            run_id=run_id,
            parent_run_id=parent_run_id,
            attempt=get_attempt,
            catalog=Catalog(resolve_tools(tools), make_reader(store, run_id), offered),
            gates=_choose_gates(gates, standard),
            clock=clock,
            ledger=ledger,
            secrets=Secrets(secrets),
            store=store,
            workers=workers or WORKERS,
            dependencies=dependencies,
            parallel=parallel,
            turn=Turn(clock, budget or Budget(), deadline=deadline),
            at_start=at_start,
        )
        self._passage = Passage(self._desk.gates)

    @property
    def run_id(self) -> str:
        """The run whose calls they are; made up where none was given."""
        return self._desk.run_id

    @property
    def blocked_tool_names(self) -> frozenset[str]:
        """Tools that may not be called again in this turn."""
        return frozenset(self._desk.turn.blocked)

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """What people are asked about parked calls, in call order."""
        found = (case.pending for case in self._parked.values())
        return tuple(pending for pending in found if pending is not None)

    @property
    def abandoned(self) -> int:
        """How many threads of the process still run a call that nobody waits for."""
        return self._desk.workers.lost

    def schemas(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; the same tuple while nothing changes.

        ``read_artifact`` is among them from the first stored output on; it can always be called.
        """
        return self._desk.catalog.specs()

    def find(self, name: str) -> Tool | None:
        """The tool called *name*, on offer or not; None where there is none."""
        return self._desk.catalog.known(name)

    def new_turn(self) -> None:
        """Begin a tool turn: what was blocked is free again, and calls may be repeated."""
        self._desk.turn = self._desk.turn.following(self._scope, in_run=self._in_run)

    def cancel(self, *, running: bool = True) -> None:
        """Deny what has not started, until ``new_turn()``, and end bodies that are *running*."""
        self._desk.turn.cancelled = True
        for batch in tuple(self._batches):
            batch.cancel(running=running)

    def cancel_call(self, call_id: str) -> bool:
        """End one running or waiting call, as ``cancel`` ends all.

        Returns:
            Whether there was one. A parked call is answered instead, with ``Deny``.
        """
        return any(batch.cancel_call(call_id) for batch in self._batches)

    def warn_of_leftovers(self) -> None:
        """Tell which bodies go on though nobody waits for them."""
        for name, count in self._desk.leftover.items():
            if count > 0:
                bodies = "1 call goes" if count == 1 else f"{count} calls go"
                self._desk.warn("leftover_calls", f"{bodies} on in {name}, unwatched")

    async def dispatch(self, calls: Sequence[ToolCall], *, turn: int = 0) -> list[ToolOutcome]:
        """Run the calls of one reply.

        Args:
            calls: What the model asks for.
            turn: A label for their records.

        Returns:
            One outcome for each call in call order; parked calls are left out, ``pending``
            has them.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every call has its record.
            JournalError: Events could not be logged.
        """
        return await self._run([self._open(call, turn) for call in calls])

    async def check(self, call: ToolCall) -> DryRun:
        """Find out what would come of a call, without making it.

        Your hook and gates are asked; nobody who approves is, nothing is told or counted.

        Args:
            call: What the model might ask for.

        Returns:
            Why it would be denied, or what people would be asked first, with the gates' trace.
        """
        case = self._open(call, 0)
        case.dry = True
        self._passage.go(case)
        await self._passage.wait(case)
        mask, outcome = self._desk.secrets.mask, case.outcome
        return DryRun(
            outcome=mask(outcome) if isinstance(outcome, ToolDenied) else None,
            pending=None if case.pending is None else mask(case.pending),
            arguments=mask(case.arguments),
            trace=tuple(mask(verdict) for verdict in case.trace),
        )

    def content_of(self, outcome: ToolOutcome) -> str:
        """What a tool message holds of an outcome of this Toolbox.

        Returns:
            ``outcome_to_model_content``; fenced where strangers may have written it.
        """
        text = outcome_to_model_content(outcome)
        if (outcome.call_id, outcome.tool_name) not in self._untrusted:
            return text
        return fence(text, run_id=self.run_id, call_id=outcome.call_id)

    def distrust(self, source: str) -> None:
        """Tell that untrusted words of *source* are in the context already."""
        self._desk.turn.tainted = self._desk.turn.tainted or source

    async def answer(self, answers: Iterable[AnyAnswer]) -> list[ToolOutcome]:
        """Go on with parked calls that people have answered for.

        The gates are asked again, for what was right when a person was asked may not be now.
        A yes or an edit that comes after its question expired is not taken: it is asked anew.

        Args:
            answers: Approve, Deny or Edit; calls without one stay parked.

        Returns:
            One outcome for each of these calls, in call order.

        Raises:
            Misuse: No such call is parked, or the answer is of a kind that is not for calls.
        """
        given = [read_answer(answer) for answer in answers]
        unknown = [one.call_id for one in given if one.call_id not in self._parked]
        if unknown:
            raise Misuse(f"no call {unknown[0]!r} waits for an answer")
        by_call = {one.call_id: one for one in given}
        cases = [
            self._reopen(self._parked.pop(call_id), by_call[call_id])
            for call_id in list(self._parked)
            if call_id in by_call
        ]
        return await self._run(cases)

    async def resume(
        self,
        calls: Sequence[ToolCall],
        started: Mapping[str, ToolStarted],
        *,
        asked: Mapping[str, PendingApproval] | None = None,
        answers: Mapping[str, CallAnswer] | None = None,
        turn: int = 0,
    ) -> list[ToolOutcome]:
        """Run the calls of a reply at which an earlier process ended.

        A call that had started and only reads or is idempotent runs again, with its old
        idempotency key; what people said then still holds. Any other that had started is a
        failure ``interrupted``, its effect unknown. What had not started is dispatched.

        Args:
            calls: Those of the reply that have no outcome.
            started: What the log says of the start of some of them, by call id.
            asked: What people were asked about some of them, by call id.
            answers: What they have answered since, by call id. A yes or an edit holds only
                for the very question that was asked, and while that has not expired.
            turn: A label for their records.

        Returns:
            One outcome for each call that settled; those with an answer come last.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every call has its record.
            JournalError: Events could not be logged.
        """
        asked, answers = asked or {}, answers or {}
        self._desk.asked.update(asked)
        cases = [self._open(call, turn) for call in calls]
        for case in cases:
            if case.call_id in started:
                self._take_up(case, started[case.call_id])
            else:
                case.answered = case.call_id in asked and case.call_id in answers
        outcomes = await self._run(cases)
        return outcomes + await self._answer_again(asked, answers)

    async def _answer_again(
        self, asked: Mapping[str, PendingApproval], answers: Mapping[str, CallAnswer]
    ) -> list[ToolOutcome]:
        """Take the answers to questions that still are what they were."""
        valid: list[CallAnswer] = []
        for call_id, case in self._parked.items():
            if call_id not in answers:
                continue
            # A no holds whatever has changed since: they do not want it.
            if case.pending == asked.get(call_id) or isinstance(answers[call_id], Deny):
                valid.append(answers[call_id])
            else:
                tell_outdated(self._desk, case)
        return await self.answer(valid) if valid else []

    def restore(self, records: Iterable[ToolRecord]) -> None:
        """Take in what a log says of earlier calls of this turn.

        Their successes deny repetitions, their final failures block, and they count.
        """
        turn = self._desk.turn
        for record in records:
            self.records.append(record)
            turn.consent.learn_record(record)
            if record.trust:
                self._desk.distrust(record.outcome)
                self._untrusted.add((record.call_id, record.tool_name))
            tool, outcome = self.find(record.tool_name), record.outcome
            if record.started_at is not None:
                turn.claim(record.tool_name)
            if tool is None or isinstance(outcome, ToolDenied):
                continue
            if outcome_blocks_tool(outcome):
                turn.blocked[tool.name] = "an earlier call failed for good"
            case = self._open(ToolCall(record.call_id, tool.name), record.turn)
            case.tool, case.arguments = tool, record.arguments_validated or {}
            self._desk.key_of(case)
            resources = _resources_then(tool, case.arguments)
            held = tool.idempotent and not tool.repeatable
            key = case.digest if held else None
            if key is not None:
                turn.replay.enter(key, resources)
            turn.replay.record(outcome, key=key, resources=resources, may_write=tool.may_write)

    def for_pydantic_ai(self) -> list[Any]:
        """The tools on offer as Pydantic AI's own, each call through the gates to an outcome.

        The outcome is the metadata of what the tool returns. Call ``new_turn()`` for each
        request. A call that needs approval is deferred by ``ApprovalRequired``.

        Raises:
            Misuse: The package is not installed.
        """
        from .foreign import to_pydantic_ai

        return to_pydantic_ai(self)

    def for_openai_agents(self) -> list[Any]:
        """The tools on offer as function tools of the OpenAI Agents SDK; see ``for_pydantic_ai``.

        A tool that always needs approval interrupts the SDK's run; else the model is told that
        the call waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from .foreign import to_openai_agents

        return to_openai_agents(self)

    def for_langchain(self) -> list[Any]:
        """The tools on offer as LangChain's own, for async calls; see ``for_pydantic_ai``.

        The outcome is the artifact of the message. Of a call that needs approval the model is
        told that it waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from .foreign import to_langchain

        return to_langchain(self)

    def _open(self, call: ToolCall, label: int) -> Case:
        desk = self._desk
        return Case(
            call,
            turn=desk.turn,
            catalog=desk.catalog,
            label=label,
            opened=desk.clock.monotonic(),
        )

    def _take_up(self, case: Case, started: ToolStarted) -> None:
        tool = self.find(case.tool_name)
        case.idempotency_key = started.idempotency_key
        if tool is not None and (not tool.may_write or tool.idempotent):
            case.granted = ANY_ARGUMENTS
            return
        case.tool, case.arguments, case.started_at = tool, started.arguments, started.time
        case.outcome = ToolFailure(
            case.call_id,
            case.tool_name,
            error="The process ended while this call ran; whether it took effect is unknown.",
            retryable=False,
            code=INTERRUPTED,
        )

    def _reopen(self, parked: Case, answer: CallAnswer) -> Case:
        case = self._open(parked.call, parked.label)
        apply_answer(self._desk, case, parked, answer)
        return case

    async def _run(self, cases: Sequence[Case]) -> list[ToolOutcome]:
        batch = Batch(self._desk, self._passage, cases)
        self._batches.add(batch)
        try:
            await batch.run()
        finally:
            self._batches.discard(batch)
            self.records += batch.records
            self._untrusted |= {(one.call_id, one.tool_name) for one in batch.records if one.trust}
            self._parked |= {case.call_id: case for case in cases if case.pending is not None}
        return [case.outcome for case in cases if case.outcome is not None]


def _read_options(policy: object, replay_scope: str, *, web_mode: bool) -> Policy | None:
    if replay_scope not in _SCOPES:
        raise Misuse(f"replay_scope is {replay_scope!r}: give {', '.join(_SCOPES)}")
    if policy is not None and not isinstance(policy, Policy):
        raise Misuse(f"policy is a {type(policy).__name__}: give a Policy")
    if web_mode:
        return policy
    return msgspec.structs.replace(policy or Policy(), network=False)


def _choose_gates(chosen: GateChoice | None, standard: tuple[Gate, ...]) -> tuple[Gate, ...]:
    if chosen is None:
        return standard
    if callable(chosen):
        gates = tuple(chosen(standard))
    else:
        place = [gate.name for gate in standard].index("approval")
        gates = (*standard[:place], *chosen, *standard[place:])
    for name in _NEEDED_GATES:
        if name not in [gate.name for gate in gates]:
            raise Misuse(f"the gate {name} is missing: without it no call can be read")
    return gates


def _resources_then(tool: Tool, arguments: JsonObject) -> frozenset[str] | None:
    try:
        return tool.resources_of(arguments)
    except Exception:  # a log may hold masked arguments, and a resume must not fail on them
        return None
