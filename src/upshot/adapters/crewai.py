"""CrewAI: a ``CrewOutput``, a ``TaskOutput``, a ``LiteAgentOutput``, or an exception.

Source:
    crewai 1.15, ``crews/crew_output.py``, ``tasks/task_output.py``, ``lite_agent_output.py`` and
    ``types/usage_metrics.py``, read in 2026. The input includes what was cached. The messages say
    nothing of a failed call but its text: failures are listed beside them.
"""

from __future__ import annotations

from typing import Final

from upshot.adapters.findings import Findings, find_failure, without_zeros
from upshot.contract.base.enums import ErrorCode, Role
from upshot.contract.base.structs import Json
from upshot.contract.message import Message
from upshot.contract.result import AgentResult
from upshot.contract.usage import Usage
from upshot.native.framework_messages import read_call
from upshot.native.objects import (
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_text,
    find_usage,
    join_texts,
    look_up,
)
from upshot.wire.decoding import parse_json

_CODES: Final = {
    "LLMContextLengthExceededError": ErrorCode.CONTEXT_LENGTH,
    "GuardrailError": ErrorCode.POLICY_DENIED,
}
# The text of the exception, which has no class of its own, for a reply without content.
_EMPTY: Final = "Invalid response from LLM call - None or empty."


def from_crewai(native: object) -> AgentResult[Json]:
    """Make a result of what CrewAI returned or raised.

    Args:
        native: A ``CrewOutput``, a ``TaskOutput``, a ``LiteAgentOutput``, or an exception.

    Returns:
        The result. ``metadata["unknown"]`` lists the facts that *native* lacks, such as the model
        and the finish reason. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    findings = Findings(raw=native)
    tasks = as_items(look_up(native, "tasks_output")) or [native]
    for task in tasks:
        _add_task(findings, task)
    structured = next(
        (value for name in ("pydantic", "json_dict") if (value := look_up(native, name))), None
    )
    findings.output = None if structured is None else as_json(structured)
    findings.content = as_text(look_up(native, "raw")) or None
    findings.usage = _usage(native)
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a crew; never raises."""
    findings = find_failure(exception, _CODES)
    if findings.error is not None and findings.error.message == _EMPTY:
        findings.fail(_EMPTY, code=ErrorCode.EMPTY_REPLY, type=type(exception).__name__)
    return findings


def read_messages(given: object) -> list[Message]:
    """Read the messages that an agent sends to its model; never raises."""
    findings = Findings(raw=None)
    _add_task(findings, {"messages": given})
    return [*findings.seeded, *findings.messages]


def usage_of(metrics: object, *, calls: int) -> Usage:
    """Read a ``UsageMetrics``."""
    return without_zeros(
        find_usage(
            metrics,
            calls=calls,
            input_tokens="prompt_tokens",
            output_tokens="completion_tokens",
            total_tokens="total_tokens",
            cache_read_tokens="cached_prompt_tokens",
            cache_write_tokens="cache_creation_tokens",
            reasoning_tokens="reasoning_tokens",
        )
    )


def _add_task(findings: Findings, task: object) -> None:
    findings.agent_id = as_text(look_up(task, "agent")) or as_text(look_up(task, "agent_role"))
    failures = as_items(look_up(task, "tool_failures"))
    calls = dict[str, tuple[str, Json]]()
    for message in as_items(look_up(task, "messages")):
        role, text = as_text(look_up(message, "role")), join_texts(look_up(message, "content"))
        asked = [read_call(call) for call in as_items(look_up(message, "tool_calls"))]
        calls |= {call.id: (call.name, _arguments(call.arguments)) for call in asked}
        if role == "assistant":
            findings.say(text, (), asked)
        elif role == "tool":
            ident = as_text(look_up(message, "tool_call_id"))
            name = as_text(look_up(message, "name"))
            failure = _pop_failure(failures, calls.get(ident, (name, None)))
            reason = as_text(look_up(failure, "failure", "message")) or text
            findings.answer(
                ident, reason if failure else text, name=name, failed=failure is not None
            )
        else:
            into = findings.messages or findings.seeded
            into.append(Message(Role(role) if role in list(Role) else Role.USER, text))


def _pop_failure(failures: list[object], call: tuple[str, Json]) -> object:
    """Remove and return the first failure of *call*; None if it did not fail."""
    for failure in failures:
        same = look_up(failure, "tool_name") == call[0]
        if same and _arguments(look_up(failure, "tool_args")) == call[1]:
            failures.remove(failure)
            return failure
    return None


def _arguments(given: object) -> Json:
    form = as_arguments(given)
    read = parse_json(form) if isinstance(form, str) else form
    return read if isinstance(read, dict) else str(form)


def _usage(output: object) -> Usage:
    usage = look_up(output, "token_usage")
    usage = look_up(output, "usage_metrics") if usage is None else usage
    return usage_of(usage, calls=as_count(look_up(usage, "successful_requests")) or 0)
