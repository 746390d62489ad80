"""Adapters of LiteLLM and AISuite.

AISuite: a ``ChatCompletionResponse`` with the turns that led to it, or an exception.

Source:
    aisuite 0.2, ``client.py``, ``framework`` and ``providers``, read in 2026.

LiteLLM: a model call's ``ModelResponse``, or the exception that it raised.

Source:
    litellm 1.83, ``types/utils.py`` and ``exceptions.py``, read in 2026. Its ``prompt_tokens``
    include what was cached, whatever the provider's own convention is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from upshot.adapters.findings import Findings, find_failure
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, Origin, Role
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelResponse
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall, ToolDenied, ToolExecutionResult, ToolOutcome
from upshot.native.completion import read_completion, with_cache
from upshot.native.framework_messages import read_call
from upshot.native.objects import as_items, as_moment, as_object, as_text, look_up
from upshot.wire.decoding import parse_json


def from_aisuite(native: object) -> AgentResult[Json]:
    """Make a result of what AISuite returned or raised.

    Args:
        native: A chat completion, of AISuite's own class or of a provider's SDK; a ``RunResult``
            of its agents; or an exception. A completion that ran tools has its turns in
            ``choices[0].intermediate_messages``.

    Returns:
        The result; ``metadata["unknown"]`` lists the facts that *native* lacks, which for
        AISuite's own class are provider, model, cost and headers. Never raises.
    """
    if isinstance(native, BaseException):
        return find_failure(native, {}).to_result()
    if look_up(native, "raw_responses") is not None:
        return _find_run(native).to_result()
    choices = as_items(look_up(native, "choices"))
    turns = as_items(look_up(choices[0], "intermediate_messages")) if choices else []
    findings = Findings(raw=native)
    _add_replies(findings, [*as_items(look_up(native, "intermediate_responses")), native])
    _add_turns(findings, turns, as_items(look_up(native, "tool_events")))
    return findings.to_result()


def _find_run(run: object) -> Findings:
    """Read a ``RunResult``."""
    findings = Findings(
        raw=run,
        output=look_up(run, "final_output"),
        run_id=as_text(look_up(run, "trace_id")),
        agent_id=as_text(look_up(run, "last_agent", "name")),
    )
    _add_replies(findings, as_items(look_up(run, "raw_responses")))
    steps = as_items(look_up(run, "steps"))
    _add_turns(
        findings, as_items(look_up(run, "new_items")), [look_up(step, "data") for step in steps]
    )
    _add_times(findings, steps)
    provider, _, model = as_text(look_up(run, "last_agent", "model")).partition(":")
    findings.provider_data = {"provider": provider, "model": model, **findings.provider_data}
    # The run's status decides: it may have continued after a failed reply.
    findings.error = _error(as_text(look_up(run, "status")))
    return findings


def _error(status: str) -> AgentError | None:
    match status:
        case "max_turns_exceeded":
            text = "the run reached its limit of turns"
            return AgentError(ErrorCode.MAX_TURNS, text, type=status, origin=Origin.LIMIT)
        case "requires_input":
            text = "the run waits for input"
            return AgentError(ErrorCode.INPUT_REQUIRED, text, type=status, origin=Origin.HOST)
        case "failed":
            return AgentError(ErrorCode.INTERNAL, "the run failed", type=status)
        case _:
            return None


def _add_replies(findings: Findings, replies: list[object]) -> None:
    for reply in replies:
        findings.add_reply(_read(reply))


def _read(native: object) -> ModelResponse:
    response = read_completion(native)
    usage = response.usage
    cached, taken = usage.cache_read_tokens, usage.input_tokens
    if cached is None or taken is None or cached <= taken:
        return response
    # More cached than sent: AISuite passes on Anthropic's input, which excludes the cached part.
    return msgspec.structs.replace(response, usage=with_cache(usage))


def _add_turns(findings: Findings, turns: list[object], events: list[object]) -> None:
    """Add the messages of *turns*, if there are any, and the denials among *events*."""
    if not turns:
        return
    findings.messages = [_message(turn) for turn in turns]
    asked = {call.id: call for message in findings.messages for call in message.tool_calls}
    denied = {
        as_text(look_up(event, "tool_call_id")): as_text(look_up(event, "reason"))
        for event in events
        if look_up(event, "allowed") is False
    }
    answers = [message for message in findings.messages if message.role is Role.TOOL]
    findings.outcomes = [_outcome(message, asked, denied) for message in answers]


def _add_times(findings: Findings, steps: list[object]) -> None:
    spans = [step for step in steps if look_up(step, "type") == "agent"]
    if not spans:
        return
    start, end = (_moment(look_up(spans[0], name)) for name in ("started_at", "ended_at"))
    findings.started_at = start
    if start is not None and end is not None and end >= start:
        findings.duration_ms = round((end - start).total_seconds() * 1000)


def _moment(value: object) -> datetime | None:
    try:
        return as_moment(datetime.fromisoformat(as_text(value)))
    except ValueError:
        return None


def _message(turn: object) -> Message:
    role, content = as_text(look_up(turn, "role")), as_text(look_up(turn, "content"))
    if role == Role.TOOL:
        ident = as_text(look_up(turn, "tool_call_id"))
        return Message(Role.TOOL, content, tool_call_id=ident, name=as_text(look_up(turn, "name")))
    calls = tuple(read_call(call) for call in as_items(look_up(turn, "tool_calls")))
    return Message(Role(role) if role in list(Role) else Role.ASSISTANT, content, tool_calls=calls)


def _outcome(message: Message, asked: dict[str, ToolCall], denied: dict[str, str]) -> ToolOutcome:
    ident = message.tool_call_id or ""
    name = message.name or (asked[ident].name if ident in asked else "")
    if ident in denied:
        return ToolDenied(ident, name, reason=DeniedReason.POLICY, details=denied[ident])
    content = parse_json(message.text)
    known = isinstance(content, dict | list | int | float | str)
    output = as_object(content if known else message.text)
    return ToolExecutionResult(ident, name, output=output, effect=Effect.UNKNOWN)


_CODES: Final = {
    "BudgetExceededError": ErrorCode.BUDGET_EXCEEDED,
    "GuardrailRaisedException": ErrorCode.POLICY_DENIED,
    "BlockedPiiEntityError": ErrorCode.POLICY_DENIED,
    "JSONSchemaValidationError": ErrorCode.INVALID_OUTPUT,
}


def from_litellm(native: object) -> AgentResult[Json]:
    """Make a result of what LiteLLM returned or raised.

    Args:
        native: A ``ModelResponse``, its JSON, or an exception.

    Returns:
        The result; ``metadata["unknown"]`` lists the facts that *native* lacks. A cost that LiteLLM
        calculated is marked as estimated. Never raises.
    """
    if isinstance(native, BaseException):
        return find_failure(native, _CODES).to_result()
    response = read_completion(native)
    findings = Findings(raw=native, duration_ms=response.duration_ms or None)
    findings.add_reply(response)
    return findings.to_result()
