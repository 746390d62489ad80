"""Tools that answer from the record: no body runs, so nothing outside changes.

Each call gets the recorded outcome of the same tool and arguments; a second equal call gets the
second one, in whichever run of the case it is made, and a read may get the last one again. Which
outcome is next follows from the logs, so a resumed experiment continues where it was. A read that
the record does not have is denied by the gate ``lab``. A write that it does not have is answered as
if it had been made, so that all limits of the run hold for it as they would outside. A simulator
may answer instead. In each case the trace of the call says so, which is how a report finds it.

Three kinds of tools run as usual, because they change nothing outside: agents as tools, whose runs
get recorded tools too; handoffs; and ``read_artifact``, unless the record has the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.base.enums import Effect, InterruptCause
from upshot.contract.base.structs import JsonObject
from upshot.contract.run_control import Interrupt
from upshot.contract.tool_calls import ToolDenied, ToolExecutionResult, ToolOutcome, ToolRecord
from upshot.errors import Misuse
from upshot.lab.dataset import Case, RecordedCall, call_key, to_call
from upshot.lab.kept_runs import LAB_GATE, deny, is_final, runs_as_usual
from upshot.lab.simulation import (
    NOT_SIMULATED,
    AskSimulator,
    NotSimulated,
    SimulatedCall,
    simulate,
)
from upshot.runs.run_context import RunContext
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.call_log import StandIn
from upshot.tools.execution.outcome_mapping import conclude
from upshot.tools.gates.pipeline import Repeat, note

Source: TypeAlias = Literal["recorded", "simulated", "live reads"]
"""Where outcomes come from: the record; for all calls a simulator; or the record, and reads that it
lacks are made."""

Unseen: TypeAlias = Literal["deny", "stop", "simulated"]
"""What a call gets that was not recorded: a denial, for a read with "stop" also the end of the run,
or what a simulator answers."""

_APPROVAL_GATE = "approval"
_SIMULATED = "simulated"
_NEW_WRITE = "a write that is not in the record"

_NOT_MADE = (
    "this is a trial run, in which nothing is changed; continue as if the change had been made"
)
_NOT_KNOWN = "this is a trial run, and the result of this call is not known; continue without it"


class RecordedTools:
    """Answers the tool calls of a case, in all of its runs.

    Args:
        case: The case.
        source: Where outcomes come from.
        unseen: What a call gets that was not recorded.
        simulator: Answers calls, None if none are simulated.
        ask: Asks an agent that simulates.
        mask: Masks the secrets of arguments, as they are masked in the case and in the logs.
    """

    def __init__(
        self,
        case: Case,
        *,
        source: Source,
        unseen: Unseen,
        simulator: Callable[[SimulatedCall], Any] | Agent[Any] | None,
        ask: AskSimulator,
        mask: Callable[[JsonObject], JsonObject],
    ) -> None:
        self._case = case
        self._source = source
        self._unseen = unseen
        self._simulator = simulator
        self._ask = ask
        self._mask = mask
        self._made = Counter[str]()
        self._earlier: list[RecordedCall] = []
        self._known: dict[str, list[RecordedCall]] = {}
        for one in case.calls:
            self._known.setdefault(one.key, []).append(one)

    def add_made(self, records: Iterable[ToolRecord]) -> None:
        """Count calls that earlier sessions made, so that the next ones get what comes after."""
        for record in records:
            # What another gate denied was never asked for here.
            if not isinstance(record.outcome, ToolDenied) or record.gate == LAB_GATE:
                made = to_call(record)
                self._made[call_key(made.tool, self._mask(made.arguments))] += 1
                self._earlier.append(made)

    def of_run(self, context: RunContext) -> StandIn:
        """Return what answers the calls of a run."""

        async def answer(call: CallState) -> ToolOutcome | None:
            tool = call.known_tool
            if runs_as_usual(tool, context) and not self._is_read_before(call):
                return None
            clock = call.turn.clock
            # So that it counts for limits as a call whose body ran.
            call.started_at, call.run_started = clock.now(), clock.monotonic()
            outcome = await self._answer(call, tool, context)
            if outcome is not None:
                self._earlier.append(_answered(call, tool, outcome))
            return outcome

        return answer

    def _is_read_before(self, call: CallState) -> bool:
        """Whether the call reads an output of the recorded run, which the trial does not store."""
        return call.tool_name == READER_NAME and self._key_of(call) in self._known

    def _key_of(self, call: CallState) -> str:
        return call_key(call.tool_name, self._mask(dict(call.arguments or {})))

    async def _answer(self, call: CallState, tool: Tool, context: RunContext) -> ToolOutcome | None:
        key = self._key_of(call)
        earlier, known = self._made[key], self._known.get(key, [])
        # Before anything waits, since equal calls may run at the same time.
        self._made[key] += 1
        writes = tool.declared_effect is not Effect.READ
        # A read, or a call whose effect was made before, gets the last outcome however often.
        is_lasting = bool(known) and (not writes or known[-1].outcome.repeats is not None)
        is_known = earlier < len(known) or is_lasting
        if writes and not is_known:
            # Before anything waits, so that the report has it whatever happens then.
            note(call, LAB_GATE, _NEW_WRITE)
        if self._source == "simulated" or (self._unseen == "simulated" and not is_known):
            return await self._simulated(call, tool, context)
        if is_known:
            outcome = known[min(earlier, len(known) - 1)].outcome
            return replace(outcome, call_id=call.call_id, tool_name=call.tool_name)
        if writes:
            return _as_made(call)
        if self._source == "live reads":
            return None
        if self._unseen == "stop":
            context.ask_to_stop(Interrupt(InterruptCause.CUSTOM, f"{key} is not in the record"))
        return deny(call, _NOT_KNOWN)

    async def _simulated(self, call: CallState, tool: Tool, context: RunContext) -> ToolOutcome:
        asked = SimulatedCall(
            tool=tool.name,
            arguments=dict(call.arguments or {}),
            description=tool.description,
            parameters=tool.parameters,
            effect=tool.declared_effect,
            case=self._case,
            earlier=tuple(self._earlier),
        )
        assert self._simulator is not None
        try:
            ending = await simulate(asked, self._simulator, self._ask, key=call.idempotency_key)
        except NotSimulated as error:
            if error.result is not None and not is_final(error.result):
                # Not a cause that the next experiment accepts as the end of this run.
                context.ask_to_stop(Interrupt(InterruptCause.HOST_SHUTDOWN, str(error)))
            return deny(call, str(error))
        call.give_up = None
        outcome = conclude(call, ending, elapsed_ms=0, timeout_s=None, deadline_s=0)
        return call.pipeline.conclude(call, LAB_GATE, Repeat(outcome, _SIMULATED))


def check_masking(mask: Callable[[JsonObject], JsonObject]) -> None:
    """Check that masking leaves the words by which the lab finds its calls in logs.

    Raises:
        Misuse: It does not.
    """
    words = [LAB_GATE, _APPROVAL_GATE, _SIMULATED, _NEW_WRITE, *map(str, Effect)]
    if spoilt := [one for one in words if mask({"word": one}) != {"word": one}]:
        raise Misuse(f"secrets= has a text that is part of {spoilt[0]!r}, a word of the lab")


def was_asked(record: ToolRecord) -> bool:
    """Whether a person was asked about a call, or would have been."""
    return record.approval is not None or record.gate == _APPROVAL_GATE


def is_missed(record: ToolRecord, case: Case) -> bool:
    """Whether a call was not in the record of a case: a read that has no answer, or a write.

    That includes a write that was not approved in the lab, unless the record has it too, made or
    denied.
    """
    if _has_note(record, _NEW_WRITE):
        return True
    if record.gate == _APPROVAL_GATE:
        key = to_call(record).key
        was_made = any(one.key == key for one in case.writes)
        return not was_made and False not in case.approvals.get(key, ())
    return record.gate == LAB_GATE


def simulator_error(record: ToolRecord) -> str:
    """Return why the simulator did not answer a call, "" if it did or was not asked."""
    if record.gate != LAB_GATE or not isinstance(record.outcome, ToolDenied):
        return ""
    details = record.outcome.details
    return details if details.startswith(NOT_SIMULATED) else ""


def is_simulated(record: ToolRecord) -> bool:
    """Whether a simulator answered a call."""
    return _has_note(record, _SIMULATED)


def _has_note(record: ToolRecord, text: str) -> bool:
    return any(one.gate == LAB_GATE and one.detail == text for one in record.trace)


def _answered(call: CallState, tool: Tool, outcome: ToolOutcome) -> RecordedCall:
    return RecordedCall(
        tool=tool.name,
        arguments=dict(call.arguments or {}),
        effect=outcome.effect,
        declared=tool.declared_effect,
        outcome=outcome,
    )


def _as_made(call: CallState) -> ToolOutcome:
    # Applied, so that once= and equal calls hold.
    call.give_up = None
    return ToolExecutionResult(
        call.call_id, call.tool_name, output={"result": _NOT_MADE}, effect=Effect.APPLIED
    )
