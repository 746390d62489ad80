"""Tools that answer from the record: no body runs, so nothing outside changes.

Each call gets the recorded outcome of the same tool and arguments; a second equal call gets the
second one, in whichever run of the case it is made, and a read may get the last one again. Which
outcome is next follows from the logs, so a resumed experiment continues where it was. A call that
the record does not have is denied by the gate ``lab``, or answered by a simulator; then the trace
of the call says so. That is how a report finds it: a read is off the record or simulated, a write
is a new effect.

Three kinds of tools run as usual, because they change nothing outside: agents as tools, whose runs
get recorded tools too; handoffs; and ``read_artifact``.
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
from upshot.contract.tool_calls import ToolDenied, ToolOutcome, ToolRecord
from upshot.lab.dataset import Case, RecordedCall, call_key
from upshot.lab.kept_runs import LAB_GATE, deny, is_final, runs_as_usual
from upshot.lab.simulation import (
    NOT_SIMULATED,
    AskSimulator,
    NotSimulated,
    SimulatedCall,
    simulate,
)
from upshot.runs.run_context import RunContext
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.call_log import StandIn
from upshot.tools.execution.outcome_mapping import conclude
from upshot.tools.gates.pipeline import Repeat

Source: TypeAlias = Literal["recorded", "simulated", "live reads"]
"""Where outcomes come from: the record; for all calls a simulator; or the record, and reads that it
lacks are made."""

Unseen: TypeAlias = Literal["deny", "stop", "simulated"]
"""What a call gets that was not recorded: a denial, for a read with "stop" also the end of the run,
or what a simulator answers."""

_APPROVAL_GATE = "approval"
_SIMULATED = "simulated"
_SIMULATED_NEW = "simulated, and not in the record"

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
            if runs_as_usual(tool, context):
                return None
            outcome = await self._answer(call, tool, context)
            if outcome is not None:
                self._earlier.append(_answered(call, tool, outcome))
            return outcome

        return answer

    async def _answer(self, call: CallState, tool: Tool, context: RunContext) -> ToolOutcome | None:
        key = call_key(tool.name, self._mask(dict(call.arguments or {})))
        earlier, known = self._made[key], self._known.get(key, [])
        # Before anything waits, since equal calls may run at the same time.
        self._made[key] += 1
        writes = tool.declared_effect is not Effect.READ
        is_known = bool(known) and (earlier < len(known) or not writes)
        if self._source == "simulated" or (self._unseen == "simulated" and not is_known):
            return await self._simulated(call, tool, context, is_known=is_known)
        if is_known:
            outcome = known[min(earlier, len(known) - 1)].outcome
            return replace(outcome, call_id=call.call_id, tool_name=call.tool_name)
        if writes:
            return deny(call, _NOT_MADE)
        if self._source == "live reads":
            return None
        if self._unseen == "stop":
            context.ask_to_stop(Interrupt(InterruptCause.CUSTOM, f"{key} is not in the record"))
        return deny(call, _NOT_KNOWN)

    async def _simulated(
        self, call: CallState, tool: Tool, context: RunContext, *, is_known: bool
    ) -> ToolOutcome:
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
        detail = _SIMULATED if is_known else _SIMULATED_NEW
        return call.pipeline.conclude(call, LAB_GATE, Repeat(outcome, detail))


def key_of(record: ToolRecord) -> str:
    """Return the key of a logged call."""
    return to_call(record).key


def to_call(record: ToolRecord) -> RecordedCall:
    """Return a logged call of a trial."""
    return RecordedCall(
        tool=record.tool_name,
        arguments=record.arguments_executed or record.arguments_validated or {},
        effect=record.effect,
        declared=record.declared_effect or Effect.READ,
        outcome=record.outcome,
    )


def is_missed(record: ToolRecord, case: Case) -> bool:
    """Whether a call was not in the record of a case, and has no answer, or is a simulated write.

    That includes a write that was not approved in the lab, and was never denied in the record.
    """
    if not isinstance(record.outcome, ToolDenied):
        is_write = record.declared_effect is not Effect.READ
        return is_write and _simulated_as(record) == _SIMULATED_NEW
    if record.gate == _APPROVAL_GATE:
        return False not in case.approvals.get(key_of(record), ())
    return record.gate == LAB_GATE


def simulator_error(record: ToolRecord) -> str:
    """Return why the simulator did not answer a call, "" if it did or was not asked."""
    if record.gate != LAB_GATE or not isinstance(record.outcome, ToolDenied):
        return ""
    details = record.outcome.details
    return details if details.startswith(NOT_SIMULATED) else ""


def is_simulated(record: ToolRecord) -> bool:
    """Whether a simulator answered a call."""
    return bool(_simulated_as(record))


def _simulated_as(record: ToolRecord) -> str:
    found = (one.detail for one in record.trace if one.gate == LAB_GATE and one.verdict == "repeat")
    return next(found, "")


def _answered(call: CallState, tool: Tool, outcome: ToolOutcome) -> RecordedCall:
    return RecordedCall(
        tool=tool.name,
        arguments=dict(call.arguments or {}),
        effect=outcome.effect,
        declared=tool.declared_effect,
        outcome=outcome,
    )
