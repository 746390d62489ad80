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
from upshot.contract.base.structs import Json
from upshot.contract.message import Message, Reasoning
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
)
from upshot.native.objects import (
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_object,
    as_text,
    find_texts,
    find_usage,
    look,
)
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
        findings = find_failure(native, _CODES)
        run = look(native, "run_data")
        if run is not None:
            findings.unknown.discard("messages")
            _add_run(findings, run)
        return findings.to_result()
    findings = Findings(raw=native, output=look(native, "final_output"))
    _add_run(findings, native)
    for item in as_items(look(native, "interruptions")):
        call = _call(look(item, "raw_item"))
        findings.pending.append(to_pending(call, as_text(look(item, "tool_name"))))
    return findings.to_result()


def _add_run(findings: Findings, run: object) -> None:
    replies = as_items(look(run, "raw_responses"))
    last = replies[-1] if replies else None
    findings.seeded = _input(look(run, "input"))
    turn = _Turn(findings)
    for item in as_items(look(run, "new_items")):
        turn.take(item)
    turn.close()
    usage = look(run, "context_wrapper", "usage")
    findings.usage = find_usage(
        usage,
        calls=as_count(look(usage, "requests")) or len(replies),
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        total_tokens="total_tokens",
        cache_read_tokens="input_tokens_details.cached_tokens",
        cache_write_tokens="input_tokens_details.cache_write_tokens",
        reasoning_tokens="output_tokens_details.reasoning_tokens",
    )
    findings.agent_id = as_text(look(run, "last_agent", "name"))
    findings.provider_data = {
        **find_texts(run, model="last_agent.model"),
        **find_texts(last, request_id="request_id", response_id="response_id"),
        **findings.provider_data,
    }


def _input(given: object) -> list[Message]:
    """Return the messages at the start of a run; items of other kinds are left out."""
    if isinstance(given, str):
        return [Message(Role.USER, given)]
    messages: list[Message] = []
    for item in as_items(given):
        role = as_text(look(item, "role"))
        if role in list(Role) or role == "developer":
            known = Role(role) if role in list(Role) else Role.SYSTEM
            messages.append(Message(known, _text(look(item, "content"))))
    return messages


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(as_text(look(part, "text")) for part in as_items(content))


class _Turn:
    """Collects the items of one reply, which the SDK lists one by one, into a message."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._texts: list[str] = []
        self._thoughts: list[Reasoning] = []
        self._calls: list[ToolCall] = []

    def take(self, item: object) -> None:
        """Add the next item of the run."""
        kind, raw = as_text(look(item, "type")), look(item, "raw_item")
        if kind in _OUTPUTS:
            self.close()
            self._add_output(item, raw)
        elif kind in _CALLS:
            self._calls.append(_call(raw))
        elif kind == "reasoning_item":
            self._thoughts.append(_thought(raw))
        elif kind == "message_output_item":
            self._texts.append(_text(look(raw, "content")))

    def close(self) -> None:
        """End the collected message, if there is one."""
        text = "".join(self._texts)
        if text or self._thoughts or self._calls:
            self._findings.say(text, self._thoughts, self._calls)
        self._texts, self._thoughts, self._calls = [], [], []

    def _add_output(self, item: object, raw: object) -> None:
        ident = as_text(look(raw, "call_id")) or as_text(look(raw, "id"))
        asked = [call for said in self._findings.messages for call in said.tool_calls]
        name = next((call.name for call in asked if call.id == ident), "")
        output = look(item, "output") if look(item, "output") is not None else look(raw, "output")
        text = output if isinstance(output, str) else encode_json(as_json(output)).decode()
        self._findings.messages.append(Message(Role.TOOL, text, tool_call_id=ident, name=name))
        self._findings.outcomes.append(_outcome(ident, name, output))


def _call(raw: object) -> ToolCall:
    """Return a call of a function, of a handoff, or of a tool that the provider hosts."""
    return ToolCall(
        as_text(look(raw, "call_id")) or as_text(look(raw, "id")),
        as_text(look(raw, "name")) or as_text(look(raw, "type")),
        as_arguments(look(raw, "arguments")),
    )


def _thought(raw: object) -> Reasoning:
    return Reasoning(
        text="".join(as_text(look(part, "text")) for part in as_items(look(raw, "summary"))),
        signature=as_text(look(raw, "encrypted_content")) or None,
        provider="openai",
        id=as_text(look(raw, "id")),
    )


def _outcome(ident: str, name: str, output: object) -> ToolOutcome:
    # Releases differ in whether they append what was raised.
    if isinstance(output, str) and output.startswith(_FAILED):
        return ToolFailure(ident, name, error=output, retryable=False)
    if output == _NOT_APPROVED:
        return ToolDenied(ident, name, reason=DeniedReason.WRITE_DENIED, details=_NOT_APPROVED)
    return ToolExecutionResult(ident, name, output=as_object(output), effect=Effect.UNKNOWN)
