"""OpenAI Agents SDK: a ``RunResult``, streamed or not, or an exception of a run.

Source:
    openai-agents 0.24, ``result.py``, ``items.py``, ``usage.py`` and ``exceptions.py``, read in
    2026. Its usage is that of the Responses API: the input includes what was cached, the output
    includes reasoning.
"""

from __future__ import annotations

from typing import Final

from upshot.adapters.findings import Findings, find_failure, to_pending
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
)
from upshot.contract.usage import Usage
from upshot.native.objects import (
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_object,
    as_text,
    find_texts,
    find_usage,
    join_texts,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason
from upshot.wire.decoding import encode_json

_CODES: Final = {
    "InputGuardrailTripwireTriggered": ErrorCode.POLICY_DENIED,
    "MaxTurnsExceeded": ErrorCode.MAX_TURNS,
    "ModelBehaviorError": ErrorCode.INVALID_OUTPUT,
    "ModelRefusalError": ErrorCode.CONTENT_FILTER,
    "ModelTimeoutError": ErrorCode.TIMEOUT,
    "OutputGuardrailTripwireTriggered": ErrorCode.POLICY_DENIED,
    "ToolInputGuardrailTripwireTriggered": ErrorCode.POLICY_DENIED,
    "ToolOutputGuardrailTripwireTriggered": ErrorCode.POLICY_DENIED,
    "ToolTimeoutError": ErrorCode.TIMEOUT,
    "UserError": ErrorCode.INVALID_REQUEST,
}
_CALLS: Final = frozenset({"tool_call_item", "handoff_call_item"})
_OUTPUTS: Final = frozenset({"tool_call_output_item", "handoff_output_item"})
_ITEMS: Final = {"message": "message_output_item", "reasoning": "reasoning_item"}
# The only sign of a failed or refused call is one of these texts as its output.
_FAILED: Final = "An error occurred while running the tool. Please try again."
_NOT_APPROVED: Final = "Tool execution was not approved."


def from_openai_agents(native: object) -> AgentResult[Json]:
    """Make a result of what the SDK returned or raised.

    Args:
        native: A ``RunResult``, a ``RunResultStreaming`` that has ended, or an exception. The SDK's
            own exceptions carry what the run had done.

    Returns:
        The result. A run that waits for approvals is parked. ``metadata["unknown"]`` lists the
        facts that *native* lacks, such as the finish reason. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    findings = Findings(raw=native, output=look_up(native, "final_output"))
    _add_run(findings, native)
    for item in as_items(look_up(native, "interruptions")):
        call = read_call(look_up(item, "raw_item"))
        findings.pending.append(to_pending(call, as_text(look_up(item, "tool_name"))))
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    findings = find_failure(exception, _CODES)
    run = look_up(exception, "run_data")
    if run is not None:
        findings.unknown.discard("messages")
        _add_run(findings, run)
    return findings


def read_reply(response: object, model: str, finish: str = "") -> ModelResponse:
    """Read a ``ModelResponse`` of the model called *model*; never raises.

    Args:
        response: The reply.
        model: The name of the model.
        finish: Why it ended, in the provider's word; the reply itself does not say.
    """
    findings = Findings(raw=response)
    turn = _Turn(findings)
    for raw in as_items(look_up(response, "output")):
        kind = as_text(look_up(raw, "type"))
        item = _ITEMS.get(kind, "tool_call_item" if kind.endswith("_call") else "")
        turn.add_item({"type": item, "raw_item": raw})
    turn.close()
    known = find_texts(response, request_id="request_id", response_id="response_id")
    return ModelResponse(
        parts=findings.messages[0].parts if findings.messages else (),
        usage=usage_of(look_up(response, "usage"), calls=1),
        finish_reason=parse_finish_reason(finish),
        provider_data={"model": model, **known},
        local=Local(raw=response),
    )


def usage_of(usage: object, *, calls: int) -> Usage:
    """Read a ``Usage``."""
    return find_usage(
        usage,
        calls=calls,
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        total_tokens="total_tokens",
        cache_read_tokens="input_tokens_details.cached_tokens",
        cache_write_tokens="input_tokens_details.cache_write_tokens",
        reasoning_tokens="output_tokens_details.reasoning_tokens",
    )


def _add_run(findings: Findings, run: object) -> None:
    replies = as_items(look_up(run, "raw_responses"))
    last = replies[-1] if replies else None
    findings.seeded = _input(look_up(run, "input"))
    turn = _Turn(findings)
    for item in as_items(look_up(run, "new_items")):
        turn.add_item(item)
    turn.close()
    usage = look_up(run, "context_wrapper", "usage")
    calls = as_count(look_up(usage, "requests")) or len(replies)
    findings.usage = usage_of(usage, calls=calls)
    findings.agent_id = as_text(look_up(run, "last_agent", "name"))
    findings.provider_data = {
        # The agent has the name of its model, or the model itself.
        **find_texts(run, model="last_agent.model.model"),
        **find_texts(run, model="last_agent.model"),
        **find_texts(last, request_id="request_id", response_id="response_id"),
        **findings.provider_data,
    }


def _input(given: object) -> list[Message]:
    """Return the messages at the start of a run; items of other kinds are left out."""
    if isinstance(given, str):
        return [Message(Role.USER, as_text(given))]
    messages: list[Message] = []
    for item in as_items(given):
        role = as_text(look_up(item, "role"))
        if role in list(Role) or role == "developer":
            known = Role(role) if role in list(Role) else Role.SYSTEM
            messages.append(Message(known, join_texts(look_up(item, "content"))))
    return messages


class _Turn:
    """Collects the items of one reply, which the SDK lists one by one, into a message."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._texts: list[str] = []
        self._thoughts: list[Reasoning] = []
        self._calls: list[ToolCall] = []

    def add_item(self, item: object) -> None:
        """Add the next item of the run."""
        kind, raw = as_text(look_up(item, "type")), look_up(item, "raw_item")
        if kind in _OUTPUTS:
            self.close()
            self._add_output(item, raw)
        elif kind in _CALLS:
            self._calls.append(read_call(raw))
        elif kind == "reasoning_item":
            self._thoughts.append(_thought(raw))
        elif kind == "message_output_item":
            self._texts.append(join_texts(look_up(raw, "content")))

    def close(self) -> None:
        """End the collected message, if there is one."""
        text = "".join(self._texts)
        if text or self._thoughts or self._calls:
            self._findings.say(text, self._thoughts, self._calls)
        self._texts, self._thoughts, self._calls = [], [], []

    def _add_output(self, item: object, raw: object) -> None:
        ident = as_text(look_up(raw, "call_id")) or as_text(look_up(raw, "id"))
        asked = [call for message in self._findings.messages for call in message.tool_calls]
        name = next((call.name for call in asked if call.id == ident), "")
        output = (
            look_up(item, "output")
            if look_up(item, "output") is not None
            else look_up(raw, "output")
        )
        text = output if isinstance(output, str) else encode_json(as_json(output)).decode()
        self._findings.messages.append(Message(Role.TOOL, text, tool_call_id=ident, name=name))
        self._findings.outcomes.append(_outcome(ident, name, output))


def read_call(raw: object) -> ToolCall:
    """Return a call of a function, of a handoff, or of a tool that the provider hosts."""
    return ToolCall(
        as_text(look_up(raw, "call_id")) or as_text(look_up(raw, "id")),
        as_text(look_up(raw, "name")) or as_text(look_up(raw, "type")),
        as_arguments(look_up(raw, "arguments")),
    )


def _thought(raw: object) -> Reasoning:
    return Reasoning(
        text="".join(as_text(look_up(part, "text")) for part in as_items(look_up(raw, "summary"))),
        signature=as_text(look_up(raw, "encrypted_content")) or None,
        provider="openai",
        id=as_text(look_up(raw, "id")),
    )


def _outcome(ident: str, name: str, output: object) -> ToolOutcome:
    # Releases differ in whether they append what was raised.
    if isinstance(output, str) and output.startswith(_FAILED):
        return ToolFailure(ident, name, error=output, retryable=False)
    if output == _NOT_APPROVED:
        return ToolDenied(ident, name, reason=DeniedReason.WRITE_DENIED, details=_NOT_APPROVED)
    return ToolExecutionResult(ident, name, output=as_object(output), effect=Effect.UNKNOWN)
