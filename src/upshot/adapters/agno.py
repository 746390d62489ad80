"""Agno: a ``RunOutput``, a ``Message`` or a list of messages, or an exception.

Source:
    agno 3.1, ``run/agent.py``, ``models/message.py``, ``models/response.py``, ``metrics.py`` and
    ``exceptions.py``, read in 2026. The input includes what was cached, the output includes
    reasoning. A run that failed or was cancelled is returned, with the reason as its content.
"""

from __future__ import annotations

from typing import Final

import msgspec

from upshot.adapters.findings import Findings, find_failure, to_pending, without_zeros
from upshot.contract.base.enums import ErrorCode, Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import PendingExternal, PendingQuestion
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Cost, Usage
from upshot.native.framework_messages import read_call
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_items,
    as_json,
    as_moment,
    as_text,
    find_texts,
    find_usage,
    join_texts,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason
from upshot.wire.decoding import encode_json

_CODES: Final = {
    "ContextWindowExceededError": ErrorCode.CONTEXT_LENGTH,
    "InputCheckError": ErrorCode.POLICY_DENIED,
    "ModelAuthenticationError": ErrorCode.AUTH_ERROR,
    "ModelRateLimitError": ErrorCode.RATE_LIMIT,
    "OutputCheckError": ErrorCode.POLICY_DENIED,
    "RunCancelledException": ErrorCode.CANCELED,
}


def from_agno(native: object) -> AgentResult[Json]:
    """Make a result of what Agno returned or raised.

    Args:
        native: A ``RunOutput``, a ``Message``, a list of messages, or an exception.

    Returns:
        The result. A run that is paused is parked. Agno puts the text of an error into the content
        of a run that failed: here it is the error. ``metadata["unknown"]`` lists the facts that
        *native* lacks, such as the finish reason. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    return to_findings(native).to_result()


def to_findings(native: object) -> Findings:
    """Read a run or messages; never raises."""
    findings, messages = Findings(raw=native), as_items(native)
    if messages or look_up(native, "role") is not None:
        _add_messages(findings, messages or [native])
    else:
        _add_run(findings, native)
    return findings


def read_messages(messages: list[object]) -> list[Message]:
    """Read messages of all roles, in order; never raises."""
    return [_plain(one, _role(one)) for one in messages]


def read_reply(response: object, model: str, finish: str = "") -> ModelResponse:
    """Read a ``ModelResponse`` of the model called *model*; never raises.

    Args:
        response: The reply.
        model: The name of the model.
        finish: Why it ended, in the provider's word; the reply itself does not say.
    """
    thought = as_text(look_up(response, "reasoning_content"))
    calls = [read_call(call) for call in as_items(look_up(response, "tool_calls"))]
    findings = Findings(raw=response)
    findings.say(
        join_texts(look_up(response, "content")),
        [Reasoning(text=thought)] if thought else [],
        calls,
    )
    metrics = look_up(response, "response_usage")
    return ModelResponse(
        parts=findings.messages[0].parts,
        usage=usage_of(metrics, calls=1),
        cost=_cost(metrics),
        finish_reason=parse_finish_reason(finish),
        provider_data={"model": model, **find_texts(response, response_id="provider_data.id")},
        local=Local(raw=response),
    )


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a run; never raises."""
    return find_failure(exception, _CODES)


def _add_run(findings: Findings, run: object) -> None:
    tools = as_items(look_up(run, "tools"))
    ran = {as_text(look_up(tool, "tool_call_id")): tool for tool in tools}
    _add_messages(findings, as_items(look_up(run, "messages")), ran)
    findings.run_id = as_text(look_up(run, "run_id"))
    findings.context_id = as_text(look_up(run, "session_id"))
    findings.agent_id = as_text(look_up(run, "agent_name")) or as_text(look_up(run, "agent_id"))
    findings.provider_data = {
        **find_texts(run, provider="model_provider", model="model"),
        **findings.provider_data,
    }
    metrics = look_up(run, "metrics")
    replies = [one for one in findings.messages if one.role is Role.ASSISTANT]
    if (usage := usage_of(metrics, calls=max(len(replies), 1))) or not findings.usage:
        findings.usage = usage
    findings.cost = _cost(metrics) or findings.cost
    findings.started_at = as_moment(look_up(run, "created_at"))
    spent_s = as_amount(look_up(metrics, "duration"))
    findings.duration_ms = None if spent_s is None else round(spent_s * 1000)
    _add_status(findings, run)
    for tool in tools:
        _add_wait(findings, tool)


def _add_status(findings: Findings, run: object) -> None:
    status, content = as_text(look_up(run, "status")), look_up(run, "content")
    text = content if isinstance(content, str) else encode_json(as_json(content)).decode()
    if status == "ERROR":
        findings.fail(text or "the run failed", type=status)
    elif status == "CANCELLED":
        findings.fail(text or "the run was cancelled", code=ErrorCode.CANCELED, type=status)
    elif isinstance(content, str):
        findings.content = content or None
    elif content is not None:
        findings.output = as_json(content)


def _add_wait(findings: Findings, tool: object) -> None:
    """Add what a call waits for, if it does."""
    if look_up(tool, "result") is not None:
        return
    call = ToolCall(
        as_text(look_up(tool, "tool_call_id")),
        as_text(look_up(tool, "tool_name")),
        as_arguments(look_up(tool, "tool_args")),
    )
    if look_up(tool, "requires_confirmation") and look_up(tool, "confirmed") is None:
        findings.pending.append(to_pending(call))
    elif look_up(tool, "external_execution_required"):
        findings.pending.append(PendingExternal(id=call.id, description=call.name))
    elif look_up(tool, "requires_user_input") and not look_up(tool, "answered"):
        fields = as_items(look_up(tool, "user_input_schema"))
        names = ", ".join(as_text(look_up(one, "name")) for one in fields)
        text = f"{call.name} needs {names}" if names else call.name
        findings.pending.append(PendingQuestion(id=call.id, question=text))


def _add_messages(
    findings: Findings, messages: list[object], ran: dict[str, object] | None = None
) -> None:
    for message in messages:
        role = as_text(look_up(message, "role"))
        if role == "assistant" and look_up(message, "from_history") is not True:
            _add_reply(findings, message)
        elif role == "tool" and look_up(message, "from_history") is not True:
            _add_tool_message(findings, message, ran or {})
        else:
            into = findings.messages or findings.seeded
            into.append(_plain(message, _role(message)))


def _role(message: object) -> Role:
    role = as_text(look_up(message, "role"))
    return Role(role) if role in list(Role) else Role.SYSTEM


def _plain(message: object, role: Role) -> Message:
    ident = as_text(look_up(message, "tool_call_id"))
    calls = [read_call(call) for call in as_items(look_up(message, "tool_calls"))]
    if role is Role.TOOL:
        name = as_text(look_up(message, "tool_name"))
        return Message(role, join_texts(look_up(message, "content")), tool_call_id=ident, name=name)
    return Message(role, join_texts(look_up(message, "content")), tool_calls=tuple(calls))


def _add_reply(findings: Findings, message: object) -> None:
    thought = as_text(look_up(message, "reasoning_content"))
    calls = [read_call(call) for call in as_items(look_up(message, "tool_calls"))]
    text = join_texts(look_up(message, "content"))
    if text or thought or calls:
        findings.say(text, [Reasoning(text=thought)] if thought else [], calls)
    metrics = look_up(message, "metrics")
    findings.usage += usage_of(metrics, calls=1)
    findings.cost = Cost.of_calls(one for one in (findings.cost, _cost(metrics)) if one is not None)
    findings.provider_data = {
        **findings.provider_data,
        **find_texts(message, response_id="provider_data.id"),
    }


def _add_tool_message(findings: Findings, message: object, ran: dict[str, object]) -> None:
    ident = as_text(look_up(message, "tool_call_id"))
    findings.answer(
        ident,
        join_texts(look_up(message, "content")),
        name=as_text(look_up(message, "tool_name")),
        failed=look_up(message, "tool_call_error") is True,
        elapsed_s=look_up(ran.get(ident), "metrics", "duration"),
    )


def _cost(metrics: object) -> Cost | None:
    amount = as_amount(look_up(metrics, "cost"))
    return None if amount is None else Cost(total=amount, source="agno")


def usage_of(metrics: object, *, calls: int) -> Usage:
    """Read metrics of a message or a run; all zeros are unknown."""
    found = find_usage(
        metrics,
        calls=calls,
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        cache_read_tokens="cache_read_tokens",
        cache_write_tokens="cache_write_tokens",
        reasoning_tokens="reasoning_tokens",
    )
    return without_zeros(found) if found.is_measured else _unknown(calls)


def _unknown(calls: int) -> Usage:
    return msgspec.structs.replace(Usage(), api_calls=calls, unmeasured_calls=calls)
