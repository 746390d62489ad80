"""Events as strangers may see them: what was said, which tools work, what is asked."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping

from upshot.contract.base.enums import Effect, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.base.words import call_words
from upshot.contract.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    RunSettled,
    ToolProgress,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.message import Audio, File, Image, Part
from upshot.contract.model_calls import ModelReplied, ModelResponse, ModelRetried, TextDelta
from upshot.contract.pending import Pending, PendingApproval, PendingEffect, PendingQuestion
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolArtifactReference, ToolExecutionResult

_Shown = (
    AttemptStarted
    | AttemptEnded
    | TextDelta
    | ModelReplied
    | ModelRetried
    | ToolStarted
    | ToolProgress
    | ToolSettled
    | RunSettled
)


def to_public_event(event: Event, *, tools: Mapping[str, str] | None = None) -> JsonObject | None:
    """Return the parts of *event* that a page may show to the user of an agent.

    ====== ============================================================================
    kind   fields
    ====== ============================================================================
    text   ``text``, a piece of a reply
    message ``text``, a whole reply; it replaces the pieces before it; ``files``, if it has images,
           sound or documents: ``media_type``, and ``data`` in base64 or a ``url``; of a document
           its ``name``
    reset  the pieces since the last whole reply are void; with ``attempt``, the number of a
           revised attempt or of one that a guardrail refused, everything said before is void
    tool   ``id`` of the call, ``name`` as in *tools*, ``state``: started, done, failed, or
           working with a ``text``, the tool's report of its progress
    end    ``status``; ``text`` and ``files``, the answer; ``error``, its code; ``questions``, and
           ``waits_for_others`` if it also waits for others; ``effect`` if it is unknown
           whether a call took effect; sent for a park too
    ====== ============================================================================

    Only questions that the run's user may answer are included. A question is about an approval
    (``kind`` approval: ``id``, ``tool``, ``arguments``, ``effect``, ``digest``) or from the agent
    (``kind`` question: ``id``, ``question``, ``choices``; ``digest``, which names the attempt, if
    it asks whether a call took effect). The arguments are shown in full, since the user answers for
    them.

    Instructions, thoughts, headers, outputs and arguments of other calls, messages of errors and
    events of child runs are never included.

    Args:
        event: An event of a run, live or from ``states``.
        tools: The public names of tools by their internal names; calls of other tools are not
            shown.

    Returns:
        A new object, with ``seq`` if the event is in the log; None if there is nothing to show.
    """
    if not isinstance(event, _Shown):
        return None
    shown = None if event.path else _public_form(event, tools or {})
    if shown is not None and not event.part:
        shown["seq"] = event.seq
    return shown


def _public_form(event: _Shown, tools: Mapping[str, str]) -> JsonObject | None:
    match event:
        case AttemptStarted(attempt=attempt):
            return {"kind": "reset", "attempt": attempt} if attempt > 1 else None
        case AttemptEnded(line=line):
            is_refused = line.error is not None and bool(line.error.guardrail)
            return {"kind": "reset", "attempt": event.attempt} if is_refused else None
        case ModelRetried():
            return {"kind": "reset"}
        case TextDelta(text=text):
            return {"kind": "text", "text": text}
        case ModelReplied():
            # A reply to upshot's own request, such as to repair arguments, is not for the user.
            return None if event.purpose else _message(event.response)
        case ToolStarted(call=call):
            return _tool(tools.get(call.name), call.id, "started")
        case ToolProgress(text=text):
            working = _tool(tools.get(event.tool_name), event.call_id, "working")
            return {**working, "text": text} if working and text else None
        case ToolSettled(record=record):
            is_done = isinstance(record.outcome, ToolExecutionResult | ToolArtifactReference)
            return _tool(
                tools.get(record.tool_name), record.call_id, "done" if is_done else "failed"
            )
        case RunSettled(result=result):
            return _end(result, tools)


def media_in(parts: Iterable[Part]) -> list[Image | Audio | File]:
    """Return the images, sounds and documents among *parts* that a client can show."""
    found = (part for part in parts if isinstance(part, Image | Audio | File))
    return [part for part in found if part.data is not None or part.url]


def answer_media(result: AgentResult[Json]) -> list[Image | Audio | File]:
    """Return the images, sounds and documents of an answer, unless the deciders rejected it."""
    last = result.messages[-1] if result.messages else None
    if last is None or last.role is not Role.ASSISTANT or not (result.success and result.committed):
        return []
    return media_in(last.parts)


def _with_files(media: Iterable[Image | Audio | File]) -> JsonObject:
    """Return the field ``files``, empty if there are none."""
    files: list[Json] = []
    for part in media:
        named: JsonObject = {"name": part.name} if isinstance(part, File) and part.name else {}
        data: JsonObject = {"url": part.url}
        if part.data is not None:
            data = {"data": b64encode(part.data).decode()}
        files.append({"media_type": part.media_type, **data, **named})
    return {"files": files} if files else {}


def _message(response: ModelResponse) -> JsonObject | None:
    text, files = response.content or "", _with_files(media_in(response.parts))
    return {"kind": "message", "text": text, **files} if text or files else None


def _tool(name: str | None, call_id: str, state: str) -> JsonObject | None:
    return None if name is None else {"kind": "tool", "id": call_id, "name": name, "state": state}


def _end(result: AgentResult[Json], tools: Mapping[str, str]) -> JsonObject:
    end: JsonObject = {"kind": "end", "status": str(result.status)}
    text = result.output if result.content is None else result.content
    # An answer that the deciders rejected is not shown.
    if result.committed and text and isinstance(text, str):
        end["text"] = text
    end |= _with_files(answer_media(result))
    # A run that waits has not failed.
    if result.error is not None and not result.pending:
        end["error"] = str(result.error.code)
    if result.effect is Effect.UNKNOWN:
        end["effect"] = "unknown"
    if found := [_question(one, tools) for one in result.pending if one.audience == "user"]:
        end["questions"] = [one for one in found if one is not None]
    if len(found) < len(result.pending):
        end["waits_for_others"] = True
    return end


def _question(pending: Pending, tools: Mapping[str, str]) -> JsonObject | None:
    match pending:
        case PendingApproval():
            return {
                "kind": "approval",
                "id": pending.id,
                "tool": tools.get(pending.tool_name, pending.tool_name),
                "arguments": pending.arguments,
                "effect": str(pending.effect),
                "digest": pending.digest,
            }
        case PendingEffect(id=id, choices=choices):
            called = call_words(tools.get(pending.tool_name, pending.tool_name), pending.arguments)
            question = f"Did this happen? {called}"
            asked: JsonObject = {"kind": "question", "id": id, "question": question}
            return {**asked, "choices": [*choices], "digest": pending.digest}
        case PendingQuestion(id=id, question=question, choices=choices):
            return {"kind": "question", "id": id, "question": question, "choices": [*choices]}
        case _:
            return None


def approval_question(item: PendingApproval) -> str:
    """Return an approval as a question to a person, with all arguments."""
    arguments = json.dumps(item.arguments, ensure_ascii=False)
    # Characters that cannot be seen are shown as their codes.
    seen = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in arguments
    )
    reason = f" Why it is asked: {item.reason}" if item.reason else ""
    return f"May {item.tool_name} ({item.effect}) be called with {seen}?{reason}"
