"""Claude Agent SDK: the messages of a query, its ``ResultMessage``, or an exception.

Source:
    claude-agent-sdk 0.2, ``types.py``, ``_errors.py`` and ``_internal/message_parser.py``, read in
    2026. Input excludes what was cached. The usage of an assistant message is that of the start of
    its reply: only the result has the output. An error of the API comes as an assistant message of
    the model "<synthetic>", and in a result whose subtype is "success".
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from upshot.adapters.findings import Findings, find_failure, to_pending
from upshot.contract.base.enums import DeniedReason, ErrorCode, FinishReason, Origin, Role
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError
from upshot.contract.message import Message, Reasoning
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall, ToolDenied
from upshot.contract.usage import Cost, Usage
from upshot.native.completion import with_cache
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_text,
    find_texts,
    find_usage,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason
from upshot.wire.error_classification import classify_error

_PROVIDER: Final = "anthropic"
_SYNTHETIC: Final = "<synthetic>"
_CODES: Final = {
    "CLINotFoundError": ErrorCode.NOT_AVAILABLE,
    "CLIConnectionError": ErrorCode.NOT_AVAILABLE,
}
_SUBTYPES: Final = {
    "error_max_budget_usd": ErrorCode.BUDGET_EXCEEDED,
    "error_max_structured_output_retries": ErrorCode.INVALID_OUTPUT,
    "error_max_turns": ErrorCode.MAX_TURNS,
}
# What the program calls the failure of a model call.
_WORDS: Final = {
    "authentication_failed": ErrorCode.AUTH_ERROR,
    "billing_error": ErrorCode.BUDGET_EXCEEDED,
    "invalid_request": ErrorCode.INVALID_REQUEST,
    "max_output_tokens": ErrorCode.INVALID_OUTPUT,
    "rate_limit": ErrorCode.RATE_LIMIT,
    "server_error": ErrorCode.SERVER_ERROR,
}
_LENGTH: Final = "max_output_tokens"
# All that an exception says of such a reply.
_TOO_LONG: Final = re.compile(r"exceeded the \d+ output token maximum")
_LIMITS: Final = frozenset({ErrorCode.BUDGET_EXCEEDED, ErrorCode.MAX_TURNS})
_API_ERROR: Final = "API Error: "


def from_claude_agent_sdk(native: object) -> AgentResult[Json]:
    """Make a result of what the Claude Agent SDK yielded or raised.

    Args:
        native: The list of messages of a query, one of its messages, such as the
            ``ResultMessage``, or an exception.

    Returns:
        The result. A call that the user's rules refused is denied. The cost is the program's own
        estimate, and is marked as one. ``metadata["unknown"]`` lists the facts that *native*
        lacks. Never raises.
    """
    if isinstance(native, BaseException):
        return to_failure(native).to_result()
    findings = Findings(raw=native)
    query = _Query(findings)
    for message in as_items(native) or [native]:
        query.add_message(message)
    query.close()
    return findings.to_result()


def to_failure(exception: BaseException) -> Findings:
    """Read an exception of a query; a ``ResultError`` carries its result. Never raises."""
    findings = find_failure(exception, _CODES)
    if look_up(exception, "data", "subtype") is None:
        return findings
    query = _Query(findings)
    query.add_message(look_up(exception, "data"))
    return findings


class _Query:
    """Reads the messages of one query, in which each block of a reply is a message of its own."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._reply = ""
        self._texts: list[str] = []
        self._thoughts: list[Reasoning] = []
        self._calls: list[ToolCall] = []
        self._replies: dict[str, Usage] = {}
        self._word = ""
        self._has_result = False
        findings.provider_data = {"provider": _PROVIDER, **findings.provider_data}

    def add_message(self, message: object) -> None:
        """Add the next message of the query; those of agents that a tool started are left out."""
        findings = self._findings
        if look_up(message, "parent_tool_use_id") is not None:
            return
        if (data := look_up(message, "data")) is not None and look_up(message, "subtype") == "init":
            findings.provider_data = {**findings.provider_data, **find_texts(data, model="model")}
            findings.context_id = as_text(look_up(data, "session_id"))
        elif look_up(message, "duration_ms") is not None:
            self.close()
            self._add_result(message)
        elif look_up(message, "model") is not None:
            self._add_block(message)
        elif look_up(message, "content") is not None:
            self.close()
            self._add_user(message)

    def close(self) -> None:
        """End the collected reply, if there is one."""
        findings, text = self._findings, "".join(self._texts)
        if text or self._thoughts or self._calls:
            findings.say(text, self._thoughts, self._calls)
        self._texts, self._thoughts, self._calls = [], [], []
        self._reply = ""
        if not self._has_result:
            findings.usage = sum(self._replies.values(), Usage())

    def _add_block(self, message: object) -> None:
        ident, parts = as_text(look_up(message, "message_id")), look_up(message, "content")
        if as_text(look_up(message, "model")) == _SYNTHETIC:
            self.close()
            self._word = as_text(look_up(message, "error"))
            text = "".join(as_text(look_up(part, "text")) for part in as_items(parts))
            self._findings.error = _error(text, self._word, None)
            return
        if ident != self._reply:
            self.close()
            self._reply = ident
        self._findings.provider_data = {
            **self._findings.provider_data,
            **find_texts(message, model="model", response_id="message_id"),
        }
        self._findings.finish_reason = parse_finish_reason(as_text(look_up(message, "stop_reason")))
        # It was sent before the reply was complete: what it says of the output is no count.
        usage = _usage(look_up(message, "usage"), calls=1)
        self._replies[ident] = msgspec.structs.replace(usage, output_tokens=None, total_tokens=None)
        for part in as_items(parts):
            self._add_part(part)

    def _add_part(self, part: object) -> None:
        if (thought := look_up(part, "thinking")) is not None:
            signature = as_text(look_up(part, "signature")) or None
            self._thoughts.append(
                Reasoning(text=as_text(thought), signature=signature, provider=_PROVIDER)
            )
        elif look_up(part, "input") is not None:
            ident, name = as_text(look_up(part, "id")), as_text(look_up(part, "name"))
            self._calls.append(ToolCall(ident, name, as_arguments(look_up(part, "input"))))
        else:
            self._texts.append(as_text(look_up(part, "text")))

    def _add_user(self, message: object) -> None:
        content = look_up(message, "content")
        into = self._findings.messages or self._findings.seeded
        if isinstance(content, str):
            into.append(Message(Role.USER, content))
        for part in as_items(content):
            if (ident := as_text(look_up(part, "tool_use_id"))) and self._findings.messages:
                output = look_up(part, "content")
                failed = look_up(part, "is_error") is True
                self._findings.answer(ident, _flat(output), failed=failed)
            elif text := as_text(look_up(part, "text")):
                into.append(Message(Role.USER, text))

    def _add_result(self, result: object) -> None:
        findings, self._has_result = self._findings, True
        findings.context_id = as_text(look_up(result, "session_id")) or findings.context_id
        findings.duration_ms = as_count(look_up(result, "duration_ms"))
        findings.usage = _usage(look_up(result, "usage"), calls=max(len(self._replies), 1))
        amount = as_amount(look_up(result, "total_cost_usd"))
        if amount is not None and findings.usage.is_measured:
            findings.cost = Cost(total=amount, source="claude-agent-sdk", estimated=True)
        structured = look_up(result, "structured_output")
        findings.output = None if structured is None else as_json(structured)
        findings.finish_reason = parse_finish_reason(as_text(look_up(result, "stop_reason")))
        if look_up(result, "is_error") is True:
            self._add_failure(result)
        elif text := as_text(look_up(result, "result")):
            findings.content = text
        for denial in as_items(look_up(result, "permission_denials")):
            self._deny(denial)
        if (call := look_up(result, "deferred_tool_use")) is not None:
            ident, name = as_text(look_up(call, "id")), as_text(look_up(call, "name"))
            arguments = as_arguments(look_up(call, "input"))
            findings.pending.append(to_pending(ToolCall(ident, name, arguments)))

    def _add_failure(self, result: object) -> None:
        findings, subtype = self._findings, as_text(look_up(result, "subtype"))
        errors = as_items(look_up(result, "errors"))
        text = as_text(look_up(result, "result")) or "; ".join(map(as_text, errors)) or subtype
        reason = as_text(look_up(result, "terminal_reason"))
        status = as_count(look_up(result, "api_error_status"))
        word = _LENGTH if _TOO_LONG.search(text) else self._word
        # The reason of the message that the program made up is none of the model's.
        findings.finish_reason = FinishReason.LENGTH if word == _LENGTH else None
        if subtype in _SUBTYPES:
            code = _SUBTYPES[subtype]
            origin = Origin.LIMIT if code in _LIMITS else Origin.MODEL
            findings.error = AgentError(code, text, type=subtype, origin=origin)
        elif reason.startswith("aborted"):
            findings.fail(text, code=ErrorCode.CANCELED, type=reason)
        else:
            findings.error = _error(text, word or reason, status)

    def _deny(self, denial: object) -> None:
        ident, name = as_text(look_up(denial, "tool_use_id")), as_text(look_up(denial, "tool_name"))
        outcomes = self._findings.outcomes
        for place, outcome in enumerate(outcomes):
            if outcome.call_id == ident:
                text = as_text(look_up(outcome, "error")) or "the call was not permitted"
                reason = DeniedReason.WRITE_DENIED
                outcomes[place] = ToolDenied(ident, name, reason=reason, details=text)


def _error(text: str, word: str, status: int | None) -> AgentError:
    """Return the failure of a model call, of which the program tells the status and a word."""
    body = text.removeprefix(_API_ERROR)
    error = classify_error(status=status, body=body.encode(), provider=_PROVIDER)
    code = _WORDS.get(word)
    if code is None or status is not None:
        return msgspec.structs.replace(error, type=word or error.type)
    return AgentError(code, error.message, type=word, origin=error.origin)


def _flat(output: object) -> object:
    """Return the output of a call: the text of its blocks, if they all are text."""
    parts = as_items(output)
    texts = [look_up(part, "text") for part in parts]
    if parts and all(isinstance(text, str) for text in texts):
        return "".join(map(as_text, texts))
    return "" if output is None else output


def _usage(usage: object, *, calls: int) -> Usage:
    found = find_usage(
        usage,
        calls=calls,
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        cache_read_tokens="cache_read_input_tokens",
        cache_write_tokens="cache_creation_input_tokens",
    )
    if not found.is_measured:
        return Usage(api_calls=calls, unmeasured_calls=calls)
    return with_cache(found)
