"""Gate, its verdicts, and the pipeline that asks the gates and alone denies calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeAlias, cast

from upshot.contract.base.enums import DeniedReason, ErrorCode
from upshot.contract.pending import PendingApproval
from upshot.contract.tool_calls import (
    ID_GATE,
    EffectRef,
    GateVerdict,
    ToolDenied,
    ToolOutcome,
)
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import is_stop, named


@dataclass(frozen=True, slots=True)
class Denial:
    """The call must not run.

    Attributes:
        reason: A word for the reason; other words than the enum's are allowed.
        details: One line for the model.
        hint: What the model should do instead, "" for nothing.
        code: A word for programs, or None; "internal" means that the gate failed.
        repeats: The earlier call that conflicts, or None.
    """

    reason: DeniedReason | str
    details: str = ""
    hint: str = ""
    code: ErrorCode | None = None
    repeats: EffectRef | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """The call passes to the next gate, and the trace says why.

    Attributes:
        detail: Why.
    """

    detail: str


@dataclass(frozen=True, slots=True)
class Park:
    """The call waits for the user's answer, without holding any resource.

    Attributes:
        pending: The question.
    """

    pending: PendingApproval


@dataclass(frozen=True, slots=True)
class Follow:
    """The call waits for an equal call that needs the user's answer.

    Attributes:
        call_id: The id of that call.
    """

    call_id: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """The call is not made, because it gets the outcome of an equal call.

    Attributes:
        outcome: The outcome.
        detail: Why, for the trace.
    """

    outcome: ToolOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """The arguments were changed: the gates are asked again from *gate* on.

    Attributes:
        gate: The name of the gate to go back to.
    """

    gate: str


# None passes the call.
Verdict: TypeAlias = Denial | Pass | Park | Follow | Repeat | Rewind | None


class Gate(Protocol):
    """One check of a call; a small object without state."""

    @property
    def name(self) -> str:
        """The name in the trace."""
        ...

    def check(self, call: CallState) -> Verdict | Awaitable[Verdict]:
        """Judge a call.

        It must have no side effects, because a later gate may still deny. While it is awaited,
        other calls continue. An exception denies the call.
        """
        ...


class StandardGate:
    """What a gate of upshot can do beyond ``check``; a user's gate needs none of it."""

    name = ""

    def concerns(self, tool: Tool) -> bool:
        """Whether the gate can ever deny or change a call of *tool*."""
        return True

    def failed(self, error: BaseException) -> Denial:
        """Return the denial of a call if the gate itself failed."""
        return _failed(self.name, error)

    def check_count(self, call: CallState) -> Denial | None:
        """Judge a call that is about to be counted; earlier calls were counted in between."""
        return None

    def check_start(self, call: CallState) -> Denial | None:
        """Judge a call whose body is about to start; it may have waited since ``check``."""
        return None


class GatePipeline:
    """Asks the gates that concern a tool, in order; only this class denies calls.

    The first gate that denies decides, and later ones are not asked. Gates are asked three times:
    all of them when the call comes in (``ask``, ``wait``), those on limits when it is counted
    (``ask_count``), and those on time and cancellation before its body starts (``ask_start``).

    Args:
        gates: All gates of the Toolbox.
        asked_again: The gates that are asked again at the count and the start, even if the user's
            choice of gates omits them.
        tool: The tool of the calls; None for an unknown tool.

    Attributes:
        passes: The trace entry of each gate that passes a call, in order.
    """

    def __init__(
        self, gates: Sequence[Gate], asked_again: Sequence[StandardGate], tool: Tool | None
    ) -> None:
        kept: list[Gate] = []
        # A rewind to a gate that is left out for this tool goes to the next one that is not.
        self._places: dict[str, int] = {}
        for gate in gates:
            self._places[gate.name] = len(kept)
            if tool is None or not isinstance(gate, StandardGate) or gate.concerns(tool):
                kept.append(gate)
        self._gates = tuple(kept)
        self.passes: tuple[GateVerdict, ...] = tuple(_pass_of(gate.name) for gate in kept)
        kept_again = [gate for gate in asked_again if tool is None or gate.concerns(tool)]
        self._at_count = tuple(one for one in kept_again if _has_own(one, "check_count"))
        self._at_start = tuple(one for one in kept_again if _has_own(one, "check_start"))

    def ask(self, call: CallState) -> None:
        """Ask until a gate denies, parks or has to be awaited, or all have passed the call."""
        gates = self._gates
        while call.place < len(gates):
            gate = gates[call.place]
            try:
                verdict = gate.check(call)
            except BaseException as error:  # a gate that raises denies the call, even with a cancel
                if is_stop(error):
                    raise
                verdict = _denial_of(gate, error)
            # Most gates pass most calls, so that is checked first.
            if verdict is None:
                call.place += 1
            elif inspect.isawaitable(verdict):
                # Started at once, so that the hooks of all calls of a reply wait concurrently.
                call.wait = asyncio.ensure_future(cast("Awaitable[object]", verdict))
                return
            elif not self._apply(call, gate, verdict):
                return

    async def wait(self, call: CallState) -> None:
        """Await the gate that has to wait, within the turn's time, and ask the next ones."""
        while call.wait is not None:
            waiting, gate = call.wait, self._gates[call.place]
            try:
                # Not wait_for, because a hook that ignores its cancel must not hold up the call.
                await asyncio.wait((waiting,), timeout=call.turn.waiting_s())
                ended = waiting.done()
            finally:
                waiting.cancel()
                call.wait = None
            verdict = _verdict_of(waiting, gate, ended=ended)
            if verdict is None:
                call.place += 1
            elif not self._apply(call, gate, verdict):
                return
            self.ask(call)

    def ask_count(self, call: CallState) -> None:
        """Ask the gates on limits again when the call is counted."""
        for gate in self._at_count:
            denial = gate.check_count(call)
            if denial is not None:
                _deny(call, gate.name, denial)
                return

    def ask_start(self, call: CallState) -> None:
        """Ask again the gates whose answer may have changed while the call waited to start."""
        for gate in self._at_start:
            denial = gate.check_start(call)
            if denial is not None:
                _deny(call, gate.name, denial)
                return

    def conclude(self, call: CallState, gate: str, verdict: Denial | Repeat) -> ToolOutcome:
        """Give a call an outcome without running it, and return the outcome."""
        if isinstance(verdict, Denial):
            return _deny(call, gate, verdict)
        _trace(call, gate, "repeat", verdict.detail)
        call.outcome = verdict.outcome
        return verdict.outcome

    def deny_id(self, call: CallState, conflict: str) -> None:
        """Deny a call whose id another call of the Toolbox has; *conflict* says which."""
        call.is_id_taken = True
        text = f"the call id {call.call_id!r} {conflict}"
        _deny(call, ID_GATE, Denial(DeniedReason.DUPLICATE, text))

    def deny_cancelled(self, call: CallState) -> None:
        """Deny a call that was cancelled before its body started."""
        denial = Denial(DeniedReason.CANCELLED, "the turn was cancelled")
        if call.is_cancelled:
            denial = Denial(DeniedReason.CANCELLED, "the call was cancelled")
        elif call.turn.is_over:
            denial = Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        _deny(call, "cancelled", denial)

    def _apply(self, call: CallState, gate: Gate, verdict: Verdict) -> bool:
        """Apply a verdict that is not None; returns whether to ask the next gates."""
        if isinstance(verdict, Pass):
            return _record_pass(call, gate.name, verdict)
        call.release()
        match verdict:
            case Denial() | Repeat():
                self.conclude(call, gate.name, verdict)
            case Park(pending=pending):
                _trace(call, gate.name, "wait", "the user is asked")
                call.pending = pending
            case Follow(call_id=call_id):
                _trace(call, gate.name, "wait", f"the user is asked about {call_id}, its equal")
                call.follows = call_id
            case Rewind(gate=target) if target in self._places:
                _trace(call, gate.name, "edit", "the arguments were changed")
                call.place = call.passed_from = self._places[target]
                return True
            case other:
                _deny(call, gate.name, _no_verdict(gate, other))
        return False


def note(call: CallState, gate: str, detail: str) -> None:
    """Note something in the trace of a call before its outcome is known."""
    _trace(call, gate, "pass", detail)


def _has_own(gate: StandardGate, method: str) -> bool:
    return getattr(type(gate), method) is not getattr(StandardGate, method)


@cache
def _pass_of(gate: str) -> GateVerdict:
    # Shared, because most verdicts are a pass without a note.
    return GateVerdict(gate=gate)


def _deny(call: CallState, gate: str, denial: Denial) -> ToolOutcome:
    _trace(call, gate, "deny", denial.details)
    if call.give_up is not None and gate != ID_GATE:
        call.give_up(call)
        assert call.outcome is not None
        return call.outcome
    call.outcome = denied = ToolDenied(
        call.call_id,
        call.tool_name,
        reason=DeniedReason(denial.reason),
        details=denial.details,
        hint=denial.hint,
        code=denial.code,
        repeats=denial.repeats,
    )
    return denied


def _record_pass(call: CallState, gate: str, verdict: Pass) -> bool:
    _trace(call, gate, "pass", verdict.detail)
    # The pass is in the trace already, so it is not listed again with the plain ones.
    call.place = call.passed_from = call.place + 1
    return True


def _trace(call: CallState, gate: str, verdict: str, detail: str) -> None:
    call.noted = (*call.trace, GateVerdict(gate=gate, verdict=verdict, detail=detail))
    call.passed_from = call.place


def _verdict_of(waiting: asyncio.Future[object], gate: Gate, *, ended: bool) -> Verdict:
    if not ended:
        return Denial(DeniedReason.DEADLINE, f"the deadline passed while {gate.name} waited")
    if waiting.cancelled():
        return _denial_of(gate, asyncio.CancelledError())
    error = waiting.exception()
    return cast("Verdict", waiting.result()) if error is None else _denial_of(gate, error)


def _no_verdict(gate: Gate, value: object) -> Denial:
    due = "None, a Denial, Park or a Rewind to a gate that is asked"
    text = f"the gate {gate.name} answered {value!r:.60}; {due} is due"
    return Denial(DeniedReason.POLICY, text)


def _denial_of(gate: Gate, error: BaseException) -> Denial:
    return gate.failed(error) if isinstance(gate, StandardGate) else _failed(gate.name, error)


def _failed(gate: str, error: BaseException) -> Denial:
    # No rule denied it: the code distinguishes this from a policy.
    text = f"the gate {gate} failed: {named(error)}"
    return Denial(DeniedReason.POLICY, text, code=ErrorCode.INTERNAL)
