"""Toolbox: runs tool calls to exactly one outcome each."""

from __future__ import annotations

import asyncio
import math
import secrets as random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.checks import is_amount, is_whole
from upshot.contract.base.structs import JsonObject
from upshot.contract.events import ToolStarted
from upshot.contract.pending import AnyAnswer, PendingApproval
from upshot.contract.protocols import ArtifactStore, Clock, Journal
from upshot.contract.settings import Budget, Policy
from upshot.contract.tool_calls import (
    GateVerdict,
    ToolCall,
    ToolDenied,
    ToolOutcome,
    ToolRecord,
    ToolSpec,
    fence,
    outcome_to_model_content,
)
from upshot.errors import Misuse
from upshot.tools.artifacts import InMemoryArtifacts, make_reader
from upshot.tools.call_resumption import (
    CallAnswer,
    give_up,
    recall,
    reopen_all,
    restore_records,
    take_up,
    valid_answers,
)
from upshot.tools.call_state import CallState, ReplayScope, TurnState, running_case
from upshot.tools.catalog import Offered, OfferedTools, kit_of, resolve_tools
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.batch import Batch
from upshot.tools.execution.executor import WORKERS, Workers
from upshot.tools.gates.approval_gate import Approver, PreToolHook
from upshot.tools.gates.standard_gates import AskModel, GateChoice, Repair, passage_of
from upshot.tools.rate_limiter import ActiveTime
from upshot.tools.secrets import UNTRUSTED, Secrets
from upshot.tools.toolbox_state import AtStart, Barrier, Emit, ToolboxState, ledger_of

if TYPE_CHECKING:
    from upshot.tools.export import Box

__all__ = [
    "DryRun",
    "GateChoice",
    "Lending",
    "Toolbox",
    "check_choices",
    "check_options",
    "read_calls",
    "read_list",
    "settle_policy",
]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the gates say of a call that is not made.

    Attributes:
        outcome: How it would be denied, None if it would not.
        pending: What people would be asked first, None for nothing.
        arguments: What it would be called with, valid and with defaults; None where they
            were refused or not looked at.
        trace: What each gate said, in order.
    """

    outcome: ToolDenied | None = None
    pending: PendingApproval | None = None
    arguments: JsonObject | None = None
    trace: tuple[GateVerdict, ...] = ()

    @property
    def would_run(self) -> bool:
        """Whether it would run now, with nobody asked."""
        return self.outcome is None and self.pending is None


class Lending:
    """What a Toolbox does for other frameworks: their agents, our gates, outcomes and records."""

    def for_pydantic_ai(self: Box) -> list[Any]:
        """The tools on offer as Pydantic AI's own, each call through the gates to an outcome.

        The outcome is the metadata of what the tool returns. Call ``new_turn()`` for each
        request. A call that needs approval is deferred by ``ApprovalRequired``.

        Raises:
            Misuse: The package is not installed.
        """
        from upshot.tools.export import to_pydantic_ai

        return to_pydantic_ai(self)

    def for_openai_agents(self: Box) -> list[Any]:
        """The tools on offer as function tools of the OpenAI Agents SDK; see ``for_pydantic_ai``.

        A tool that always needs approval interrupts the SDK's run; else the model is told that
        the call waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from upshot.tools.export import to_openai_agents

        return to_openai_agents(self)

    def for_langchain(self: Box) -> list[Any]:
        """The tools on offer as LangChain's own, for async calls; see ``for_pydantic_ai``.

        The outcome is the artifact of the message. Of a call that needs approval the model is
        told that it waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from upshot.tools.export import to_langchain

        return to_langchain(self)


T = TypeVar("T")

_SCOPES = ("turn", "run", "context")
_KINDS: dict[str, tuple[type, str]] = {
    "budget": (Budget, "a Budget"),
    "policy": (Policy, "a Policy"),
    "identity": (RunInfo, "a RunInfo"),
    "workers": (Workers, "Workers"),
}
_CALLED = ("approve", "on_pre_tool_use", "repair", "emit", "barrier", "offered", "at_start")
# What a thing must be able to do, for protocols are played by anybody's classes.
_ROLES: dict[str, tuple[tuple[str, ...], str]] = {
    "artifacts": (("put", "read"), "an artifact store, such as InMemoryArtifacts()"),
    "journal": (("append", "claim", "durable", "events"), "a journal, such as open_journal(...)"),
    "clock": (("monotonic", "now", "sleep"), "a clock"),
}


def check_options(**options: object) -> None:
    """Find what a Toolbox cannot work with.

    Args:
        **options: By name; None stands for what was not given.

    Raises:
        Misuse: One is of the wrong kind; the message says what to give.
    """
    for name, option in options.items():
        if option is not None and (due := _due(name, option)):
            raise Misuse(f"{name} is {option!r:.60}: give {due}")


def check_choices(
    replay_scope: str, *, parallel: object, secrets: object, deadline: object
) -> None:
    """Find choices that there are not.

    Raises:
        Misuse: One is none; the message says which there are.
    """
    if replay_scope not in _SCOPES:
        raise Misuse(f"replay_scope is {replay_scope!r}: give {', '.join(_SCOPES)}")
    if not isinstance(parallel, bool) and not is_whole(parallel, 1):
        raise Misuse(f"parallel is {parallel!r}: give True, False, or how many at a time")
    if deadline is not None and not is_amount(deadline, above=-math.inf):
        raise Misuse(f"deadline is {deadline!r:.60}: give a moment of the clock, or None")
    if isinstance(secrets, str) or not isinstance(secrets, Iterable):
        raise Misuse("secrets are a list of strings: secrets=[...]")


def settle_policy(policy: Policy | None, *, web_mode: bool) -> Policy | None:
    """The rules, the older switch of the network among them.

    Raises:
        Misuse: The switch is neither True nor False.
    """
    if not isinstance(web_mode, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"web_mode is {web_mode!r}: give True or False")
    if web_mode:
        return policy
    return msgspec.structs.replace(policy or Policy(), network=False)


def read_calls(calls: Iterable[ToolCall], turn: int) -> Iterable[ToolCall]:
    """The calls of a reply.

    Raises:
        Misuse: They are no list, or the label of the turn is no number.
    """
    if isinstance(turn, bool) or not isinstance(turn, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"turn is {turn!r}: give a number")
    return read_list(calls, "calls are", "a list of ToolCalls: dispatch([call])")


def read_list(items: Iterable[T], what: str, due: str) -> Iterable[T]:
    """*items*, where they are some.

    Args:
        items: As given.
        what: They, for the message: "answers are".
        due: What has to be given.

    Raises:
        Misuse: They are one thing, or nothing.
    """
    # A list is the usual case, and this is asked at every reply.
    if isinstance(items, list | tuple):
        return cast("Iterable[T]", items)
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"{what} {items!r:.60}: give {due}")
    return items


def _due(name: str, option: object) -> str:
    """What has to be given in place of *option*, "" where it is right."""
    if name in _KINDS:
        kind, due = _KINDS[name]
        return "" if isinstance(option, kind) else due
    if name in _ROLES:
        deeds, due = _ROLES[name]
        is_right = all(callable(getattr(option, deed, None)) for deed in deeds)
        return "" if is_right and not isinstance(option, type) else due
    if name in _CALLED:
        return "" if callable(option) else "a function"
    if name == "gates":
        is_right = callable(option) or (
            isinstance(option, Iterable) and not isinstance(option, str)
        )
        return "" if is_right else "a list of gates, or a function of the standard ones"
    raise ValueError(f"{name} is no option that is looked over")


# Made once: looking its numbers over costs more than all else of a Toolbox.
_USUAL = Budget()


class Toolbox(Lending):
    """Runs tool calls: through the gates, within their time, to exactly one outcome each.

    Alone, it is a context of its own: its budget counts from ``new_turn()`` and large outputs
    are kept in memory. In a run, that hands in its identity, log and stores.

    Attributes:
        records: One record for every settled call, in call order.
    """

    records: list[ToolRecord]
    _scope: ReplayScope

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
        parallel: bool | int = True,
        repair: AskModel | None = None,
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
        working: ActiveTime | None = None,
        spent: Callable[[], str] | None = None,
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
            parallel: Whether bodies of one reply may run together; a number, how many.
            repair: Asked once to correct arguments that do not fit, for tools with
                ``repair=True``: the ``call`` of a model. None leaves such calls denied.
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
            working: The same but for what people take; None counts ``budget.working_s``.
            spent: Says which limit that others count, such as tokens, is reached; "" for none.
            workers: Threads for plain tools; None is the process's own.

        Raises:
            Misuse: A tool, a gate or an option cannot be used.
        """
        check_options(budget=budget, policy=policy, identity=identity, workers=workers)
        check_options(artifacts=artifacts, journal=journal, clock=clock, gates=gates, emit=emit)
        check_options(approve=approve, on_pre_tool_use=on_pre_tool_use, repair=repair)
        kit = kit_of(resolve_tools(tools))
        check_choices(replay_scope, parallel=parallel, secrets=secrets, deadline=deadline)
        policy, clock = settle_policy(policy, web_mode=web_mode), clock or SYSTEM_CLOCK
        run_id = (identity.run_id if identity else "") or f"box-{random.token_hex(8)}"
        self._scope, self._batches, self.records = replay_scope, set[Batch](), []
        store, masks = InMemoryArtifacts() if artifacts is None else artifacts, Secrets(secrets)
        count = attempt if callable(attempt) else lambda: attempt
        log = ledger_of(journal, emit, barrier, run_id=run_id, clock=clock, attempt=count)
        mend = None if repair is None else Repair(repair, masks)
        way = passage_of(gates, hook=on_pre_tool_use, approve=approve, policy=policy, repair=mend)
        turn = _first_turn(clock, budget, deadline, working, in_run=bool(identity), spent=spent)
        self._desk = ToolboxState(
            run_id=run_id,
            parent_run_id=parent_run_id,
            attempt=count,
            catalog=OfferedTools(kit, partial(make_reader, store, run_id), offered),
            passage=way,
            clock=clock,
            ledger=log,
            secrets=masks,
            store=store,
            workers=workers or WORKERS,
            dependencies=dependencies,
            parallel=parallel,
            turn=turn,
            at_start=at_start,
        )

    def __repr__(self) -> str:
        return f"Toolbox({list(self._desk.catalog.names())})"

    @property
    def run_id(self) -> str:
        """The run whose calls they are; made up where none was given."""
        return self._desk.run_id

    @property
    def blocked_tool_names(self) -> frozenset[str]:
        """Tools that may not be called again in this turn."""
        return frozenset(self._desk.turn.blocked)

    @property
    def stalled(self) -> str:
        """Why this turn leads nowhere: the same call with the same result; "" while it may."""
        return self._desk.turn.ladder.stalled

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """What people are asked about parked calls, in call order."""
        found = (case.pending for case in self._desk.parked.values())
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
        self._desk.turn = self._desk.turn.following(self._scope)

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
        return any(batch.cancel_call(call_id) for batch in tuple(self._batches))

    def has_call(self, call_id: str) -> bool:
        """Whether ``cancel_call`` would find such a call; may be asked in any thread."""
        return any(batch.has_call(call_id) for batch in tuple(self._batches))

    def warn_of_leftovers(self) -> None:
        """Tell which bodies go on though nobody waits for them."""
        self._desk.warn_of_leftovers()

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
            Misuse: *calls* is no list of ToolCalls.
        """
        return await self._run([self._desk.open(call, turn) for call in read_calls(calls, turn)])

    async def check(self, call: ToolCall) -> DryRun:
        """Find out what would come of a call, without making it.

        Your hook and gates are asked; nobody who approves is, nothing is told or counted.

        Args:
            call: What the model might ask for.

        Returns:
            Why it would be denied, or what people would be asked first, with the gates' trace.
        """
        case = self._desk.open(call, 0)
        case.dry = True
        self._desk.passage.go(case)
        await self._desk.passage.wait(case)
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
            ``outcome_to_model_content``; fenced where strangers may have written it, and with a
            note after it where the same call gave the same result again and again.
        """
        text = outcome_to_model_content(outcome)
        if (outcome.call_id, outcome.tool_name) in self._desk.fenced:
            text = fence(text, run_id=self.run_id, call_id=outcome.call_id)
        note = self._desk.turn.ladder.note_of(outcome)
        return f"{text}\n\n{note}" if note else text

    def distrust(self, source: str) -> None:
        """Tell that untrusted words of *source* are in the context already.

        Told by the body of a call, the result of that call is as untrusted as they are.
        """
        turn, case = self._desk.turn, running_case.get()
        turn.tainted = turn.tainted or source
        if case is not None and case.turn is turn:
            case.trust = UNTRUSTED

    @property
    def tainted(self) -> str:
        """Whose untrusted words are in the context, "" for nobody's."""
        return self._desk.turn.tainted

    async def answer(self, answers: Iterable[AnyAnswer]) -> list[ToolOutcome]:
        """Go on with parked calls that people have answered for.

        The gates are asked again, for what was right when a person was asked may not be now.
        A yes or an edit that comes after its question expired is not taken: it is asked anew.

        Args:
            answers: Approve, Deny or Edit; calls without one stay parked.

        Returns:
            One outcome for each of these calls, in call order, and for those that waited for
            their equal among them.

        Raises:
            Misuse: No such call is parked, it is answered twice, or the answer is of a kind
                that is not for calls.
        """
        answers = read_list(answers, "answers are", "a list of them: answer([Approve(...)])")
        return await self._run(reopen_all(self._desk, answers))

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
        cases = [self._desk.open(call, turn) for call in calls]
        for case in cases:
            if case.call_id in started:
                take_up(self._desk, case, started[case.call_id])
                recall(self._desk, case, started[case.call_id], asked=asked, answers=answers)
            elif case.call_id in asked:
                # People were asked about these, whatever a model had to correct first.
                case.mended = asked[case.call_id].arguments
                case.answered = case.call_id in answers
        try:
            outcomes = await self._run(cases)
            valid = valid_answers(self._desk, asked, answers)
            return outcomes + (await self.answer(valid) if valid else [])
        except asyncio.CancelledError:
            # While answers are taken up, the calls without one wait outside of their batch.
            self._settle_off([case for case in cases if self._desk.waiting(case.call_id) is case])
            raise

    async def call_off(
        self,
        calls: Sequence[ToolCall],
        started: Mapping[str, ToolStarted] | None = None,
        *,
        turn: int = 0,
    ) -> list[ToolOutcome]:
        """Settle calls of a reply that nobody will make any more, so that none is left open.

        One that had started in an earlier process is a failure ``interrupted``; all others are
        denied as cancelled, those that wait for people too.

        Args:
            calls: Those of the reply that have no outcome.
            started: What the log says of the start of some of them, by call id.
            turn: A label for their records.

        Returns:
            One outcome for each call, in call order.

        Raises:
            JournalError: Events could not be logged.
        """
        await self._desk.ledger.open()
        cases = [self._desk.waiting(call.id) or self._desk.open(call, turn) for call in calls]
        for case in cases:
            if started and case.call_id in started:
                give_up(self._desk, case, started[case.call_id])
        self._settle_off(cases)
        return [case.outcome for case in cases if case.outcome is not None]

    def _settle_off(self, cases: Sequence[CallState]) -> None:
        batch = Batch(self._desk, cases)
        batch.settle_off()
        self._keep(batch)

    def restore(self, records: Iterable[ToolRecord]) -> None:
        """Take in what a log says of earlier calls of this turn.

        Their successes deny repetitions, their final failures block, and they count.
        """
        earlier = tuple(records)
        self.records += earlier
        self._note_untrusted(earlier)
        restore_records(self._desk, earlier)

    def _note_untrusted(self, records: Iterable[ToolRecord]) -> None:
        self._desk.fenced |= {(one.call_id, one.tool_name) for one in records if one.trust}

    async def _run(self, cases: Sequence[CallState]) -> list[ToolOutcome]:
        batch = Batch(self._desk, cases)
        self._batches.add(batch)
        try:
            await batch.run()
        finally:
            self._batches.discard(batch)
            self._keep(batch)
        return [case.outcome for case in cases if case.outcome is not None]

    def _keep(self, batch: Batch) -> None:
        self.records += batch.records
        self._note_untrusted(batch.records)


def _first_turn(
    clock: Clock,
    budget: Budget | None,
    deadline: float | None,
    working: ActiveTime | None,
    *,
    in_run: bool,
    spent: Callable[[], str] | None,
) -> TurnState:
    limits = budget or _USUAL
    turn = TurnState(clock, limits, deadline=deadline, working=working, in_run=in_run)
    turn.outer_spent = spent
    return turn
