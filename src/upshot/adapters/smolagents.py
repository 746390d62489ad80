"""smolagents: a ``RunResult``, a ``ChatMessage``, an exception, or the bare answer of a run.

Source:
    smolagents 1.26, ``agents.py``, ``memory.py`` and ``monitoring.py``, read in 2026.
"""

from __future__ import annotations

import re
from typing import Final

from upshot.adapters.findings import Findings, find_failure
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, FinishReason, Origin, Role
from upshot.contract.base.structs import Json
from upshot.contract.error import RunWarning
from upshot.contract.message import Message
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
from upshot.native.framework_messages import (
    read_call,
    read_smolagents_message,
    read_smolagents_text,
    read_smolagents_usage,
)
from upshot.native.objects import as_amount, as_items, as_moment, as_text, look_up

_CODES: Final = {
    "AgentMaxStepsError": ErrorCode.MAX_TURNS,
    "AgentParsingError": ErrorCode.INVALID_OUTPUT,
}
FINAL: Final = "final_answer"
"""The tool that the agent answers with."""
_LIMIT: Final = "AgentMaxStepsError"
# The exception of ``agent.interrupt()`` has no class of its own.
_INTERRUPTED: Final = "Agent interrupted."
_UNKNOWN_TOOL: Final = re.compile(r"Unknown tool (\S+?),")
_FAILED_TOOL: Final = re.compile(r"Error executing (?:tool|request to team member) '([^']*)'")


def from_smolagents(native: object) -> AgentResult[Json]:
    """Make a result of what smolagents returned or raised.

    Args:
        native: A ``RunResult`` (request it with ``return_full_result=True``) or its ``dict()``, a
            ``ChatMessage``, an exception, or the bare answer that ``agent.run`` returns.

    Returns:
        The result. A run that reached its step limit has finish reason length and a warning,
        because smolagents then asks for a last answer. ``metadata["unknown"]`` lists the facts
        that *native* lacks. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    if look_up(native, "steps") is not None and look_up(native, "state") is not None:
        return _find_run(native).to_result()
    findings = Findings(raw=native)
    if as_text(look_up(native, "role")) == "assistant":
        findings.add_reply(read_smolagents_message(native))
    else:
        findings.output = native
        findings.content = native if isinstance(native, str) else None
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    findings = find_failure(exception, _CODES)
    if findings.error is not None and findings.error.code == ErrorCode.MAX_TURNS:
        findings.finish_reason = FinishReason.LENGTH
    if findings.error is not None and findings.error.message == _INTERRUPTED:
        findings.fail(_INTERRUPTED, code=ErrorCode.CANCELED, type=type(exception).__name__)
    return findings


def _find_run(run: object) -> Findings:
    findings = Findings(raw=run)
    steps = as_items(look_up(run, "steps"))
    for step in steps:
        _add_step(findings, step)
    answer = look_up(run, "output")
    findings.output = answer
    if isinstance(answer, str):
        findings.content = answer
    _add_usage(findings, look_up(run, "token_usage"))
    findings.started_at = as_moment(look_up(run, "timing", "start_time"))
    duration_s = as_amount(look_up(run, "timing", "duration"))
    findings.duration_ms = None if duration_s is None else round(duration_s * 1000)
    if look_up(run, "state") == "max_steps_error":
        findings.finish_reason = FinishReason.LENGTH
        text = "the run reached its step limit; the answer was asked for without further steps"
        findings.warnings.append(
            RunWarning(code=ErrorCode.MAX_TURNS, message=text, origin=Origin.LIMIT)
        )
    return findings


def _add_usage(findings: Findings, usage: object) -> None:
    """Use the run's own sum if the steps have no usage."""
    total = read_smolagents_usage(usage)
    if total and not findings.usage:
        calls = max(findings.usage.api_calls, 1)
        findings.usage = Usage(
            input_tokens=total.input_tokens, output_tokens=total.output_tokens, api_calls=calls
        )


def _add_step(findings: Findings, step: object) -> None:
    if look_up(step, "task") is not None:
        findings.seeded.append(Message(Role.USER, as_text(look_up(step, "task"))))
    elif look_up(step, "system_prompt") is not None:
        findings.seeded.append(Message(Role.SYSTEM, as_text(look_up(step, "system_prompt"))))
    elif look_up(step, "plan") is not None:
        _add_call(findings, step)
        findings.messages.append(Message(Role.ASSISTANT, as_text(look_up(step, "plan"))))
    elif look_up(step, "step_number") is not None:
        _add_action(findings, step)


def _add_call(findings: Findings, step: object) -> ModelResponse:
    """Add the facts of the step's model call, and return its reply."""
    message = look_up(step, "model_output_message")
    response = read_smolagents_message(message)
    usage = read_smolagents_usage(look_up(step, "token_usage"))
    if usage and not response.usage:
        response = read_smolagents_message({"token_usage": look_up(step, "token_usage")})
    findings.count(response)
    return response


def _add_action(findings: Findings, step: object) -> None:
    response = _add_call(findings, step)
    calls = list(response.tool_calls) or [
        read_call(call) for call in as_items(look_up(step, "tool_calls"))
    ]
    text = response.content or read_smolagents_text(look_up(step, "model_output"))
    answers = [call for call in calls if call.name == FINAL]
    calls = [call for call in calls if call.name != FINAL]
    if text or calls or answers:
        findings.say(text or _answer(answers), (), calls)
    _add_outcomes(findings, step, calls)
    if not text and not calls and look_up(step, "action_output") is not None and not answers:
        # The last answer of a run at its limit comes without a message.
        last = read_smolagents_text(look_up(step, "action_output"))
        findings.messages.append(Message(Role.ASSISTANT, last))


def _answer(calls: list[ToolCall]) -> str:
    """Return the answer in a call of final_answer, which ends the run and has no outcome."""
    arguments = calls[0].arguments if calls else {}
    return as_text(look_up(arguments, "answer")) if isinstance(arguments, dict) else ""


def _add_outcomes(findings: Findings, step: object, calls: list[ToolCall]) -> None:
    error = look_up(step, "error")
    kind = as_text(look_up(error, "type")) or (type(error).__name__ if error is not None else "")
    text = as_text(look_up(error, "message"))
    observed = as_text(look_up(step, "observations"))
    if len(calls) > 1:
        # The step has the output of all its calls in one text.
        findings.unknown.add("tool_outcomes.output")
    for call in calls:
        outcome = _outcome(call, calls, kind, text) if error is not None else None
        if outcome is None:
            output: dict[str, Json] = {"result": observed}
            outcome = ToolExecutionResult(call.id, call.name, output=output, effect=Effect.UNKNOWN)
        findings.outcomes.append(outcome)
        findings.messages.append(
            Message(Role.TOOL, text or observed, tool_call_id=call.id, name=call.name)
        )
    if error is not None and not calls and kind != _LIMIT:
        findings.messages.append(Message(Role.USER, text))


def _outcome(call: ToolCall, calls: list[ToolCall], kind: str, text: str) -> ToolOutcome:
    """Return the outcome of *call* in a step that ended with an error."""
    named = _UNKNOWN_TOOL.match(text) or _FAILED_TOOL.match(text)
    if named and named[1] != call.name and any(named[1] == other.name for other in calls):
        text = f"another call of the step failed: {named[1]}"
        return ToolFailure(call.id, call.name, error=text, retryable=False)
    if _UNKNOWN_TOOL.match(text):
        return ToolDenied(call.id, call.name, reason=DeniedReason.UNKNOWN_TOOL, details=text)
    if kind == "AgentToolCallError":
        return ToolDenied(call.id, call.name, reason=DeniedReason.VALIDATION, details=text)
    return ToolFailure(call.id, call.name, error=text, retryable=False)
