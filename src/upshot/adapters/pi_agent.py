"""pi-agent: an assistant's message, the messages of a run, or an exception.

Source:
    pi-mono, ``packages/ai/src/types.ts`` and ``packages/agent/src/types.ts``, read in 2026.
"""

from __future__ import annotations

from datetime import datetime

from upshot.adapters.findings import Findings, find_failure
from upshot.contract.base.enums import Effect, Role
from upshot.contract.base.structs import Json
from upshot.contract.message import Image, Message, Part, Text
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolExecutionResult, ToolFailure, ToolOutcome
from upshot.native.framework_messages import read_pi_message
from upshot.native.objects import as_count, as_items, as_moment, as_text, look_up


def from_pi_agent(native: object) -> AgentResult[Json]:
    """Make a result of what pi-agent produced.

    Args:
        native: An ``AssistantMessage``; a list of messages, or an ``agent_end`` event with one;
            as parsed JSON or as objects with the same names. Or an exception.

    Returns:
        The result. An aborted message gives status canceled. pi counts cached tokens separately
        from the input; here the input includes them. ``metadata["unknown"]`` lists the facts that
        *native* lacks. Never raises.
    """
    if isinstance(native, BaseException):
        return find_failure(native, {}).to_result()
    findings = Findings(raw=native)
    several = as_items(native) or as_items(look_up(native, "messages"))
    for message in several or [native]:
        _add_message(findings, message)
    return findings.to_result()


def _add_message(findings: Findings, message: object) -> None:
    match as_text(look_up(message, "role")):
        case "toolResult":
            _add_tool_result(findings, message)
        case "user":
            user_message = Message(Role.USER, _parts(look_up(message, "content")))
            # Messages before the first answer are the request.
            (findings.messages or findings.seeded).append(user_message)
        case _:
            findings.add_reply(read_pi_message(message))
            if findings.started_at is None:
                findings.started_at = _moment(look_up(message, "timestamp"))


def _add_tool_result(findings: Findings, message: object) -> None:
    ident, name = as_text(look_up(message, "toolCallId")), as_text(look_up(message, "toolName"))
    content = _parts(look_up(message, "content"))
    result = Message(Role.TOOL, content, tool_call_id=ident, name=name)
    findings.messages.append(result)
    outcome: ToolOutcome
    if look_up(message, "isError") is True:
        outcome = ToolFailure(ident, name, error=result.text, retryable=False)
    else:
        output: dict[str, Json] = {"result": result.text}
        outcome = ToolExecutionResult(ident, name, output=output, effect=Effect.UNKNOWN)
    findings.outcomes.append(outcome)


def _parts(content: object) -> str | tuple[Part, ...]:
    """Return the content of a message: a string if it is only text, else parts."""
    parts = as_items(content)
    if not any(look_up(part, "type") == "image" for part in parts):
        return as_text(content) + "".join(as_text(look_up(part, "text")) for part in parts)
    return tuple(_part(part) for part in parts)


def _part(part: object) -> Part:
    if look_up(part, "type") != "image":
        return Text(as_text(look_up(part, "text")))
    media_type = as_text(look_up(part, "mimeType"))
    return Image(url=f"data:{media_type};base64,{as_text(look_up(part, 'data'))}")


def _moment(stamp: object) -> datetime | None:
    millis = as_count(stamp)
    return None if millis is None else as_moment(millis / 1000)
