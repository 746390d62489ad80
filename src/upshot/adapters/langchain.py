"""LangChain and LangGraph: messages, agents' and graphs' states, and exceptions.

Source:
    langchain-core 1.7 (``messages``, ``exceptions.py``), langchain 1.4 (``agents``) and langgraph
    1.2 (``types.py``, ``errors.py``, ``prebuilt/tool_node.py``), read in 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

from upshot.adapters.findings import Findings, find_failure, find_outcome, to_pending
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message
from upshot.contract.pending import Pending, PendingQuestion
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
)
from upshot.native.langchain_messages import read_langchain_message, read_langchain_text
from upshot.native.objects import as_arguments, as_items, as_json, as_object, as_text, look_up
from upshot.wire.decoding import encode_json, parse_json

_CODES: Final = {
    "ContextOverflowError": ErrorCode.CONTEXT_LENGTH,
    "EmptyInputError": ErrorCode.INVALID_REQUEST,
    "GraphDrained": ErrorCode.INTERRUPTED,
    "GraphInterrupt": ErrorCode.INPUT_REQUIRED,
    "GraphRecursionError": ErrorCode.MAX_TURNS,
    "ModelCallLimitExceededError": ErrorCode.BUDGET_EXCEEDED,
    "ModelTimeoutError": ErrorCode.TIMEOUT,
    "NodeCancelledError": ErrorCode.CANCELED,
    "NodeTimeoutError": ErrorCode.TIMEOUT,
    "OutputParserException": ErrorCode.INVALID_OUTPUT,
    "PIIDetectionError": ErrorCode.POLICY_DENIED,
    "StructuredOutputError": ErrorCode.INVALID_OUTPUT,
    "ToolCallLimitExceededError": ErrorCode.BUDGET_EXCEEDED,
}
_INTERRUPTS: Final = "__interrupt__"
# The only sign of a refused call is one of these texts as its answer.
_UNKNOWN_TOOL: Final = re.compile(r"Error: (\S+) is not a valid tool, try one of")
_NOT_VALID: Final = "Error invoking tool "
_REJECTED: Final = "User rejected the tool call for "
_ANSWERED: Final = "Returning structured response: "


def from_langchain(native: object) -> AgentResult[Json]:
    """Make a result of what a chat model or an agent of LangChain returned or raised.

    Args:
        native: An ``AIMessage`` or ``AIMessageChunk``; a list of messages; the state that an agent
            of ``create_agent`` returns; what ``with_structured_output(include_raw=True)`` returns;
            an exception; any other value, which is the output.

    Returns:
        The result. In a list of messages, those after the user's last message belong to the run,
        and earlier ones are seeded. ``metadata["unknown"]`` lists the facts that *native* lacks.
        Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    if _kind(native) == "ai":
        return _find_state(native, [native]).to_result()
    if _kind(look_up(native, "raw")) == "ai":
        return _find_parsed(native).to_result()
    messages = as_items(native)
    if messages and all(map(_kind, messages)):
        return _find_state(native, messages).to_result()
    return from_langgraph(native)


def from_langgraph(native: object) -> AgentResult[Json]:
    """Make a result of what a compiled graph returned or raised.

    Args:
        native: The state, with or without ``messages``; a ``GraphOutput``; a ``StateSnapshot``; or
            an exception.

    Returns:
        The result. The output is ``structured_response`` if the state has one, else the last text
        if it has messages, else the whole state; everything is in ``result.raw``. A graph that
        waits for answers is parked. ``metadata["unknown"]`` lists the facts that *native* lacks.
        Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    state, waits = native, as_items(look_up(native, _INTERRUPTS))
    for holder in ("value", "values"):
        if look_up(native, "interrupts") is not None and look_up(native, holder) is not None:
            state, waits = look_up(native, holder), as_items(look_up(native, "interrupts"))
    messages = as_items(look_up(state, "messages"))
    if messages and all(map(_kind, messages)):
        findings = _find_state(native, messages)
        findings.output = look_up(state, "structured_response")
    else:
        findings = Findings(raw=native, output=_without_waits(state))
    findings.context_id = as_text(look_up(native, "config", "configurable", "thread_id"))
    _add_waits(findings, waits)
    return findings.to_result()


def read_message(message: object) -> Message:
    """Read a message of any type; never raises."""
    return _message(message, {})


def ask_of(wait: object) -> str:
    """Return what an ``Interrupt`` asks: its value, as JSON unless it is text."""
    value = as_json(look_up(wait, "value"))
    return value if isinstance(value, str) else encode_json(value).decode()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a model call or a graph; never raises."""
    findings = find_failure(exception, _CODES)
    if findings.error is not None and findings.error.code == ErrorCode.INPUT_REQUIRED:
        waits = as_items(exception.args[0]) if exception.args else []
        findings.error = None if waits else findings.error
        _add_waits(findings, waits)
    reply = look_up(exception, "ai_message")
    if _kind(reply) == "ai":
        # The exception carries the reply that did not have the requested form.
        error = findings.error
        findings.add_reply(read_langchain_message(reply))
        findings.error = error
        findings.unknown.discard("messages")
    return findings


def _find_parsed(native: object) -> Findings:
    findings = _find_state(native, [look_up(native, "raw")])
    findings.output = look_up(native, "parsed")
    problem = look_up(native, "parsing_error")
    if isinstance(problem, BaseException):
        findings.error = to_failure(problem).error
    return findings


def _find_state(native: object, messages: list[object]) -> Findings:
    kinds = [_kind(message) for message in messages]
    last = len(kinds) - kinds[::-1].index("human") if "human" in kinds else 0
    findings = Findings(raw=native)
    asked: dict[str, str] = {}
    for message in messages[:last]:
        findings.seeded.append(_message(message, asked))
    for message in messages[last:]:
        match _kind(message):
            case "ai":
                response = read_langchain_message(_unwrap(message))
                asked |= {call.id: call.name for call in response.tool_calls}
                findings.add_reply(response)
            case "tool":
                _add_answer(findings, message, asked)
            case _:
                findings.messages.append(_message(message, asked))
    return findings


def _kind(message: object) -> str:
    """Return the type of a message: ai, human, system, tool or other; "" if it is no message."""
    kind = as_text(look_up(message, "type")).removesuffix("MessageChunk").lower()
    if not kind or (
        look_up(message, "content") is None and look_up(message, "data", "content") is None
    ):
        return ""
    return kind if kind in ("ai", "human", "system", "tool") else "other"


def _unwrap(message: object) -> object:
    """Return the message in LangChain's storage form {"type", "data"}, or *message* itself."""
    inner = look_up(message, "data")
    return message if look_up(inner, "content") is None else inner


def _message(message: object, asked: dict[str, str]) -> Message:
    kind, message = _kind(message), _unwrap(message)
    if kind == "ai":
        response = read_langchain_message(message)
        asked |= {call.id: call.name for call in response.tool_calls}
        return response.to_message()
    text = read_langchain_text(look_up(message, "content"))
    if kind == "tool":
        ident = as_text(look_up(message, "tool_call_id"))
        name = as_text(look_up(message, "name")) or asked.get(ident, "")
        return Message(Role.TOOL, text, tool_call_id=ident, name=name)
    return Message(Role.SYSTEM if kind == "system" else Role.USER, text)


def _add_answer(findings: Findings, message: object, asked: dict[str, str]) -> None:
    """Add a ``ToolMessage``, and its call's outcome unless the call returned the answer itself."""
    reply = _message(message, asked)
    findings.messages.append(reply)
    if not reply.text.startswith(_ANSWERED):
        message = _unwrap(message)
        findings.outcomes.append(
            _outcome(message, reply.tool_call_id or "", reply.name or "", reply)
        )


def _outcome(message: object, ident: str, name: str, answered: Message) -> ToolOutcome:
    ours = find_outcome(look_up(message, "artifact"))
    if ours is not None:
        # A tool of ours: its own outcome has more detail.
        return ours
    text = answered.text
    if look_up(message, "status") == "error":
        if _UNKNOWN_TOOL.match(text):
            return ToolDenied(ident, name, reason=DeniedReason.UNKNOWN_TOOL, details=text)
        if text.startswith(_REJECTED):
            return ToolDenied(ident, name, reason=DeniedReason.WRITE_DENIED, details=text)
        if text.startswith(_NOT_VALID):
            return ToolDenied(ident, name, reason=DeniedReason.VALIDATION, details=text)
        return ToolFailure(ident, name, error=text)
    known = parse_json(text)
    output = as_object(known if isinstance(known, dict | list | int | float) else text)
    return ToolExecutionResult(ident, name, output=output, effect=Effect.UNKNOWN)


def _without_waits(state: object) -> object:
    if not isinstance(state, Mapping):
        return state
    fields = cast("Mapping[str, object]", state)
    return {name: value for name, value in fields.items() if name != _INTERRUPTS}


def _add_waits(findings: Findings, waits: list[object]) -> None:
    answered = {outcome.call_id for outcome in findings.outcomes}
    calls = [
        call
        for message in findings.messages
        for call in message.tool_calls
        if call.id not in answered
    ]
    for wait in waits:
        findings.pending += _pending(wait, calls)


def _pending(wait: object, calls: list[ToolCall]) -> list[Pending]:
    """Return what an ``Interrupt`` asks for: the approval of calls, or an answer to its value."""
    value = look_up(wait, "value")
    wanted = as_items(look_up(value, "action_requests"))
    found = [_find_asked_call(action, calls) for action in wanted]
    if found and all(found):
        return [to_pending(call) for call in found if call is not None]
    schema = as_json(look_up(wait, "response_schema"))
    return [
        PendingQuestion(
            id=as_text(look_up(wait, "id")),
            question=ask_of(wait),
            schema=schema if isinstance(schema, dict) else None,
        )
    ]


def _find_asked_call(action: object, calls: list[ToolCall]) -> ToolCall | None:
    """Return the open call that the middleware for approvals asks about, each once."""
    name, arguments = as_text(look_up(action, "name")), as_arguments(look_up(action, "args"))
    for at, call in enumerate(calls):
        if call.name == name and _read(call.arguments) == _read(arguments):
            return calls.pop(at)
    return None


def _read(arguments: str | JsonObject) -> object:
    return parse_json(arguments) if isinstance(arguments, str) else arguments
