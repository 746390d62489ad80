"""Gate, its verdicts, and a call on its way through the gates."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from upshot.contract.base.enums import DeniedReason, ErrorCode
from upshot.contract.pending import PendingApproval
from upshot.contract.tool_calls import GateVerdict, ToolDenied
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool_context import is_stop, named

__all__ = [
    "Denial",
    "Following",
    "Gate",
    "Parked",
    "GatePipeline",
    "Rewind",
    "Verdict",
    "deny",
    "is_open",
    "release",
]


@dataclass(frozen=True, slots=True)
class Denial:
    """The call shall not run.

    Attributes:
        reason: A word for it; an open list.
        details: What is told, in one line.
        hint: What to do instead, "" for nothing.
        code: A word for programs, None for none; internal is a gate that broke.
    """

    reason: DeniedReason | str
    details: str = ""
    hint: str = ""
    code: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """The call waits for people, and holds nothing meanwhile.

    Attributes:
        pending: What they are asked.
    """

    pending: PendingApproval


@dataclass(frozen=True, slots=True)
class Following:
    """The call waits for its equal, which people are asked about.

    Attributes:
        call_id: The id of that one.
    """

    call_id: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """The arguments were changed: the gates are asked again from *gate* on.

    Attributes:
        gate: The name of the gate to go back to.
    """

    gate: str


# None lets the call pass.
Verdict: TypeAlias = Denial | Parked | Following | Rewind | None


class Gate(Protocol):
    """One question; a small object without state of its own."""

    @property
    def name(self) -> str:
        """What the trace calls it."""
        ...

    def check(self, case: CallState) -> Verdict | Awaitable[Verdict]:
        """Judge a call.

        It must have no side effect, for a later gate may still deny. While it is awaited,
        other calls go on. An exception denies the call.
        """
        ...


class GatePipeline:
    """Asks gates in order; the first that denies decides, later ones are not asked."""

    def __init__(self, gates: Sequence[Gate]) -> None:
        self._gates = tuple(gates)
        # One for all calls: most verdicts are a pass and say no more.
        self._passes = tuple(GateVerdict(gate=gate.name) for gate in gates)
        self._places = {gate.name: place for place, gate in enumerate(self._gates)}

    def asks(self, name: str) -> bool:
        """Whether a gate of this name is among them."""
        return name in self._places

    def go(self, case: CallState) -> None:
        """Ask on until a gate denies, parks or has to wait, or all let the call pass."""
        gates, trace = self._gates, case.trace
        goes_on = is_open(case)
        while goes_on and case.place < len(gates):
            gate = gates[case.place]
            try:
                verdict = gate.check(case)
            except BaseException as error:  # a gate that raises denies the call, even a cancel
                if is_stop(error):
                    raise
                verdict = _failed(gate, error)
            # Most gates let most calls pass: that is told first, and at once.
            if verdict is None:
                trace.append(self._passes[case.place])
                case.place += 1
                continue
            if inspect.isawaitable(verdict):
                case.wait = asyncio.ensure_future(cast("Awaitable[object]", verdict))
                return
            self._note(case, gate, verdict)
            goes_on = is_open(case)

    async def wait(self, case: CallState) -> None:
        """Wait for the gate that has to wait, within the turn's time, and ask on."""
        while case.wait is not None:
            waiting, gate = case.wait, self._gates[case.place]
            try:
                # Not wait_for: a hook that ignores its cancel must not hold the call.
                await asyncio.wait((waiting,), timeout=case.turn.waiting_s())
                ended = waiting.done()
            finally:
                waiting.cancel()
                case.wait = None
            self._note(case, gate, _verdict_of(waiting, gate, ended=ended))
            self.go(case)

    def _note(self, case: CallState, gate: Gate, verdict: Verdict) -> None:
        match verdict:
            case None:
                case.trace.append(self._passes[case.place])
                case.place += 1
            case Denial():
                deny(case, gate.name, verdict)
            case Parked(pending=pending):
                _trace(case, gate.name, "wait", "somebody is asked")
                case.pending = pending
            case Following(call_id=call_id):
                _trace(case, gate.name, "wait", f"its equal, {call_id}, waits for people")
                case.follows = call_id
            case Rewind(gate=target) if target in self._places:
                _trace(case, gate.name, "edit", "the arguments were changed")
                case.place = self._places[target]
            case other:
                deny(case, gate.name, _no_verdict(gate, other))
        if verdict is not None:
            release(case)


def is_open(case: CallState) -> bool:
    """Whether nothing has been decided about *case*."""
    return case.outcome is None and case.pending is None and not case.follows


def release(case: CallState) -> None:
    """Let the twins of a call go on that does not run now."""
    if case.held is not None:
        case.turn.replay.leave(case.held)
        case.held = None


def deny(case: CallState, gate: str, denial: Denial) -> None:
    """Settle *case* as denied by *gate*."""
    _trace(case, gate, "deny", denial.details)
    case.outcome = ToolDenied(
        case.call_id,
        case.tool_name,
        reason=DeniedReason(denial.reason),
        details=denial.details,
        hint=denial.hint,
        code=denial.code,
    )


def _trace(case: CallState, gate: str, verdict: str, detail: str) -> None:
    case.trace.append(GateVerdict(gate=gate, verdict=verdict, detail=detail))


def _verdict_of(waiting: asyncio.Future[object], gate: Gate, *, ended: bool) -> Verdict:
    if not ended:
        return Denial(DeniedReason.DEADLINE, f"the deadline passed while {gate.name} waited")
    if waiting.cancelled():
        return _failed(gate, asyncio.CancelledError())
    error = waiting.exception()
    return cast("Verdict", waiting.result()) if error is None else _failed(gate, error)


def _no_verdict(gate: Gate, said: object) -> Denial:
    due = "None, a Denial, Parked or a Rewind to a gate that is asked"
    text = f"the gate {gate.name} answered {said!r:.60}; {due} is due"
    return Denial(DeniedReason.POLICY, text)


def _failed(gate: Gate, error: BaseException) -> Denial:
    # Nobody's rule said so: the code tells it from a policy that denies.
    text = f"the gate {gate.name} failed: {named(error)}"
    return Denial(DeniedReason.POLICY, text, code=ErrorCode.INTERNAL)
