"""The generateContent surface: replies of Gemini and Vertex AI, whole and streamed.

Source:
    https://ai.google.dev/api/generate-content and
    https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference, read
    November 2025, and recorded replies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from ..contract import (
    FinishReason,
    Json,
    JsonObject,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from .document import as_count, as_list, as_object, as_text, encode_json
from .draft import Draft, StreamEvent
from .finish import parse_finish_reason
from .google_words import AUDIO, NOT_BLOCKED, parse_block_reason, parse_finish
from .partial_arguments import PartialArguments

__all__ = ["GenerateStream", "read_generate"]

_COUNTS: Final = (
    "promptTokenCount",
    "totalTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)
_CHARGED_BY_PROMPT: Final = re.compile(r"gemini-[12]\b")
_SERVER_PARTS: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


def read_generate(document: JsonObject, draft: Draft) -> None:
    """Read a whole reply into *draft*."""
    stream = GenerateStream(draft)
    stream.read("", document)
    stream.finish()
    draft.done = None
    if not as_list(document.get("candidates")) and not draft.blocked and draft.error is None:
        draft.fail_unreadable("the reply has no candidates")


class GenerateStream:
    """Reads the chunks of one streamed reply into a draft; each is a reply of its own form."""

    __slots__ = ("_calls", "_draft", "_thoughts")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._thoughts: list[_Thought] = []
        self._calls: list[_Call] = []

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Take one chunk and give the deltas in it."""
        candidate = _first_candidate(document)
        _read_frame(document, candidate, self._draft)
        if name == "error" and self._draft.error is None:
            self._draft.fail(document)
        if queries := as_object(candidate.get("groundingMetadata")).get("webSearchQueries"):
            self._draft.searches = _count_searches(as_list(queries), self._draft.model)
        events: list[StreamEvent] = []
        for part in as_list(as_object(candidate.get("content")).get("parts")):
            events += self._read_part(as_object(part))
        return events

    def finish(self) -> None:
        """Put thoughts and calls into the draft."""
        _read_usage(self._draft.usage_raw or {}, self._draft)
        provider = self._draft.provider
        self._draft.reasoning += [thought.to_reasoning(provider) for thought in self._thoughts]
        for call in self._calls:
            # The service gives no ids as a rule; outcomes are told apart by them.
            fallback = f"call_{self._draft.id or 'reply'}_{len(self._draft.calls)}"
            self._draft.calls.append(call.to_call(fallback, provider))

    def _read_part(self, part: JsonObject) -> list[StreamEvent]:
        call = part.get("functionCall")
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(call, dict):
            return self._read_call(call, signature)
        self._draft.server_tools += [name for name in _SERVER_PARTS if as_object(part.get(name))]
        text = as_text(part.get("text"))
        if part.get("thought") is True:
            return self._read_thought(text, signature)
        if signature:
            # It is about what is said, so it stands apart from what was thought.
            self._thoughts.append(_Thought([], signature))
        if not text:
            return []
        self._draft.text.append(text)
        return [TextDelta(text=text)]

    def _read_thought(self, text: str, signature: str) -> list[StreamEvent]:
        # A thought comes in as many parts as the server likes, until one is signed.
        if not self._thoughts or self._thoughts[-1].signature:
            self._thoughts.append(_Thought())
        thought = self._thoughts[-1]
        thought.pieces.append(text)
        thought.signature = signature
        return [ReasoningDelta(text=text)] if text else []

    def _read_call(self, piece: JsonObject, signature: str) -> list[StreamEvent]:
        """Begin a call, or go on with the one that is open."""
        name = as_text(piece.get("name"))
        goes_on = not name and bool(self._calls) and self._calls[-1].open
        if not goes_on and not piece:
            return []
        events: list[StreamEvent] = []
        if not goes_on:
            call = _Call(len(self._calls), as_text(piece.get("id")), name, signature)
            self._calls.append(call)
            events.append(call.to_delta(""))
        call = self._calls[-1]
        call.signature = call.signature or signature
        call.take(piece)
        if not call.open:
            events.append(call.to_delta(encode_json(call.arguments.value).decode()))
        return events


def _count_searches(queries: list[Json], model: str) -> int:
    """How many searches are charged: before Gemini 3 one a prompt, from there on all queries."""
    return min(1, len(queries)) if _CHARGED_BY_PROMPT.search(model) else len(queries)


@dataclass(slots=True)
class _Thought:
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""

    def to_reasoning(self, provider: str) -> Reasoning:
        text = "".join(self.pieces)
        signature = self.signature or None
        redacted = signature is not None and not text
        return Reasoning(text=text, signature=signature, provider=provider, redacted=redacted)


@dataclass(slots=True)
class _Call:
    """A call, whole or while its arguments are still coming."""

    place: int
    id: str
    name: str
    signature: str
    open: bool = True
    arguments: PartialArguments = field(default_factory=PartialArguments)

    def take(self, piece: JsonObject) -> None:
        """Take what *piece* says of the arguments, and whether more will come."""
        self.arguments.value.update(as_object(piece.get("args")))
        for value in as_list(piece.get("partialArgs")):
            self.arguments.add(as_object(value))
        self.open = piece.get("willContinue") is True

    def to_delta(self, arguments: str) -> ToolCallDelta:
        return ToolCallDelta(index=self.place, call_id=self.id, name=self.name, arguments=arguments)

    def to_call(self, fallback_id: str, provider: str) -> ToolCall:
        signature = self.signature or None
        owner = provider if signature else ""
        return ToolCall(self.id or fallback_id, self.name, self.arguments.value, signature, owner)


def _first_candidate(document: JsonObject) -> JsonObject:
    """The candidate with index 0, or without one; the others are further samples."""
    for item in as_list(document.get("candidates")):
        candidate = as_object(item)
        if not candidate.get("index"):
            return candidate
    return {}


def _read_frame(document: JsonObject, candidate: JsonObject, draft: Draft) -> None:
    """Read what stands round the parts: model, usage, finish, blocks and errors."""
    draft.model = as_text(document.get("modelVersion")) or draft.model
    draft.id = as_text(document.get("responseId")) or draft.id
    finish = candidate.get("finishReason")
    if finish is not None and (finish := parse_finish(finish, provider=draft.provider)):
        _end(finish, as_text(candidate.get("finishMessage")), draft)
    feedback = as_object(document.get("promptFeedback"))
    block = parse_block_reason(feedback.get("blockReason"), provider=draft.provider)
    if block not in NOT_BLOCKED:
        draft.blocked = True
        _end(block, as_text(feedback.get("blockReasonMessage")), draft)
    usage = as_object(document.get("usageMetadata"))
    # Vertex says with every chunk what kind of traffic it is, and counts with the last only.
    told = any(usage.get(name) is not None for name in _COUNTS)
    if told or (usage and draft.usage_raw is None):
        draft.usage_raw = usage
    if document.get("error"):
        draft.fail(document)


def _end(word: str, message: str, draft: Draft) -> None:
    reason = parse_finish_reason(word)
    draft.finish_raw = word
    # A word for "not over" may come with every chunk.
    draft.done = draft.done or draft.blocked or reason is not None
    if message and (draft.blocked or reason is FinishReason.CONTENT_FILTER):
        draft.refusal[:] = [message]


def _read_usage(usage: JsonObject, draft: Draft) -> None:
    taken = as_count(usage.get("promptTokenCount"))
    given = as_count(usage.get("candidatesTokenCount"))
    thought = as_count(usage.get("thoughtsTokenCount"))
    total = as_count(usage.get("totalTokenCount"))
    if (taken, given, thought, total) == (None, None, None, None):
        return
    for_tools = as_count(usage.get("toolUsePromptTokenCount"))
    draft.total_tokens_reported = total
    draft.usage = Usage(
        input_tokens=None if taken is None else taken + (for_tools or 0),
        output_tokens=given if thought is None else thought + (given or 0),
        cache_read_tokens=as_count(usage.get("cachedContentTokenCount")),
        reasoning_tokens=thought,
        input_audio_tokens=_audio(usage, "promptTokensDetails"),
        output_audio_tokens=_audio(usage, "candidatesTokensDetails"),
        api_calls=1,
    )


def _audio(usage: JsonObject, name: str) -> int | None:
    details = map(as_object, as_list(usage.get(name)))
    counts = (as_count(item.get("tokenCount")) for item in details if item.get("modality") in AUDIO)
    return next((count for count in counts if count is not None), None)
