"""Tools that answer from the record: no body runs, so nothing outside changes.

Each call gets the recorded outcome of the same tool and arguments; a second equal call gets the
second one, in whichever run of the case it is made, and a read may get the last one again. Which
outcome is next follows from the logs, so a resumed experiment continues where it was. A call that
the record does not have is denied by the gate ``lab``, which is how a report finds it: a read is
off the record, a write is a new effect.

Three kinds of tools run as usual, because they change nothing outside: agents as tools, whose runs
get recorded tools too; handoffs; and ``read_artifact``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from upshot.contract.base.enums import DeniedReason, Effect, InterruptCause
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.run_control import Interrupt
from upshot.contract.tool_calls import ToolDenied, ToolExecutionResult, ToolOutcome, ToolRecord
from upshot.lab.dataset import Case, RecordedCall, call_key
from upshot.runs.run_context import RunContext
from upshot.runs.services.handoffs import tool_name_of
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.call_log import StandIn
from upshot.tools.gates.pipeline import Denial

Source: TypeAlias = Literal["recorded", "live reads"]
"""Where outcomes come from: only the record; or reads that it lacks are made."""

Unseen: TypeAlias = Literal["deny", "stop"] | Callable[[str, JsonObject, Case], Any]
"""What a read gets that was not recorded: a denial, with "stop" also the end of the run, or what a
function of the tool's name, the arguments and the case returns, sync or async."""

LAB_GATE = "lab"
"""The gate in the records of calls that the record does not have."""
_APPROVAL_GATE = "approval"

_NOT_MADE = (
    "this is a trial run, in which nothing is changed; continue as if the change had been made"
)
_NOT_KNOWN = "this is a trial run, and the result of this call is not known; continue without it"


class RecordedTools:
    """Answers the tool calls of a case, in all of its runs.

    Args:
        case: The case.
        source: Where outcomes come from.
        unseen: What a read gets that was not recorded.
    """

    def __init__(self, case: Case, source: Source, unseen: Unseen) -> None:
        self._case = case
        self._source = source
        self._unseen = unseen
        self._made = Counter[str]()
        self._known: dict[str, list[RecordedCall]] = {}
        for one in case.calls:
            self._known.setdefault(one.key, []).append(one)

    def add_made(self, records: Iterable[ToolRecord]) -> None:
        """Count calls that earlier sessions made, so that the next ones get what comes after."""
        self._made.update(map(key_of, records))

    def of_run(self, context: RunContext) -> StandIn:
        """Return what answers the calls of a run."""

        async def answer(call: CallState) -> ToolOutcome | None:
            tool = call.known_tool
            if _runs_as_usual(tool, context):
                return None
            return await self._answer(call, tool, context)

        return answer

    async def _answer(self, call: CallState, tool: Tool, context: RunContext) -> ToolOutcome | None:
        key = call_key(tool.name, dict(call.arguments or {}))
        earlier, known = self._made[key], self._known.get(key, [])
        # Before anything waits, since equal calls may run at the same time.
        self._made[key] += 1
        writes = tool.declared_effect is not Effect.READ
        if known and (earlier < len(known) or not writes):
            outcome = known[min(earlier, len(known) - 1)].outcome
            return replace(outcome, call_id=call.call_id, tool_name=call.tool_name)
        if writes:
            return _deny(call, _NOT_MADE)
        if self._source == "live reads":
            return None
        if self._unseen == "stop":
            context.ask_to_stop(Interrupt(InterruptCause.CUSTOM, f"{key} is not in the record"))
        if not callable(self._unseen):
            return _deny(call, _NOT_KNOWN)
        try:
            made = self._unseen(tool.name, dict(call.arguments or {}), self._case)
            output, _ = to_free_json(await made if isawaitable(made) else made)
        except Exception as error:  # the caller's function, whose bug the report must show
            return _deny(call, f"unseen= raised {type(error).__name__}: {error}")
        return ToolExecutionResult(
            call_id=call.call_id,
            tool_name=call.tool_name,
            output=output if isinstance(output, dict) else {"result": output},
            effect=Effect.NONE,
        )


def key_of(record: ToolRecord) -> str:
    """Return the key of a logged call."""
    arguments = record.arguments_executed or record.arguments_validated or {}
    return call_key(record.tool_name, arguments)


def is_missed(record: ToolRecord, case: Case) -> bool:
    """Whether a call was not in the record of a case, and was not answered otherwise.

    That includes a write that was not approved in the lab, and was never denied in the record.
    """
    if not isinstance(record.outcome, ToolDenied):
        return False
    if record.gate == _APPROVAL_GATE:
        return False not in case.approvals.get(key_of(record), ())
    return record.gate == LAB_GATE


def _runs_as_usual(tool: Tool, context: RunContext) -> bool:
    handoffs = set(map(tool_name_of, context.plan.handoffs))
    return tool.runs_agent or tool.name == READER_NAME or tool.name in handoffs


def _deny(call: CallState, text: str) -> ToolOutcome:
    # A call that was interrupted did nothing either, since no body ran.
    call.give_up = None
    return call.pipeline.conclude(call, LAB_GATE, Denial(DeniedReason.POLICY, text))
