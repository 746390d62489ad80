"""The Chat Completions surface: replies of OpenAI and of all that follow it, whole and streamed.

Source:
    https://platform.openai.com/docs/api-reference/chat, and recorded replies of Azure, Cerebras,
    DeepSeek, Gemini, Groq, Hugging Face, Mistral, Ollama, OpenRouter, Perplexity, Together,
    Vercel, xAI, Z.ai and others.
"""

from __future__ import annotations

import msgspec

from ..contract import (
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
from .draft import Draft, StreamEvent, to_reported_cost

__all__ = ["CUSTOM_INPUT", "ChatStream", "read_chat"]

CUSTOM_INPUT = "input"
"""The key under which the free text of a custom tool's call is kept."""

_GROWING = frozenset({"text", "summary", "data"})
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def read_chat(document: JsonObject, draft: Draft) -> None:
    """Read a whole reply into *draft*."""
    choice = _first_choice(document)
    _read_frame(document, choice, draft)
    if not choice and draft.error is None:
        draft.fail_unreadable("the reply has no choices")
    message = as_object(choice.get("message"))
    texts, thoughts = _split_content(message.get("content"))
    draft.text += texts
    if refusal := as_text(message.get("refusal")):
        draft.refusal.append(refusal)
    thought = "".join(thoughts) or _reasoning_text(message)
    details = as_list(message.get("reasoning_details"))
    if thought or details:
        draft.reasoning += _to_reasoning(thought, list(map(as_object, details)), draft.provider)
    parts = list(map(_PartialCall.of, as_list(message.get("tool_calls"))))
    if legacy := as_object(message.get("function_call")):
        parts.append(_PartialCall.of({"function": legacy}))
    _add_calls(parts, draft)


class ChatStream:
    """Reads the chunks of one streamed reply into a draft."""

    __slots__ = ("_calls", "_details", "_draft", "_open", "_thoughts")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._thoughts: list[str] = []
        self._details: dict[tuple[object, object], JsonObject] = {}
        self._calls: list[_PartialCall] = []
        self._open: dict[int, int] = {}

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Take one chunk and give the deltas in it."""
        choice = _first_choice(document)
        _read_frame(document, choice, self._draft)
        if name == "error" and self._draft.error is None:
            self._draft.fail(document)
        # Some servers send the message so far beside the delta: only the delta is read.
        delta = choice.get("delta")
        return self._read_delta(delta) if isinstance(delta, dict) else []

    def finish(self) -> None:
        """Put reasoning and calls into the draft."""
        details = list(self._details.values())
        thought = "".join(self._thoughts)
        self._draft.reasoning += _to_reasoning(thought, details, self._draft.provider)
        _add_calls(self._calls, self._draft)

    def _read_delta(self, delta: JsonObject) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        # The usual delta is one string: it takes no detour.
        content = delta.get("content")
        texts, thoughts = ([content], []) if type(content) is str else _split_content(content)
        thought = "".join(thoughts) or _reasoning_text(delta)
        if thought:
            self._thoughts.append(thought)
            events.append(ReasoningDelta(text=thought))
        if text := "".join(texts):
            self._draft.text.append(text)
            events.append(TextDelta(text=text))
        if refusal := as_text(delta.get("refusal")):
            self._draft.refusal.append(refusal)
        for item in as_list(delta.get("reasoning_details")):
            self._merge_detail(as_object(item))
        for call in as_list(delta.get("tool_calls")):
            events.append(self._read_call(as_object(call)))
        if legacy := as_object(delta.get("function_call")):
            events.append(self._read_call({"index": 0, "function": legacy}))
        return events

    def _read_call(self, piece: JsonObject) -> ToolCallDelta:
        place = self._place_of(piece)
        call = self._calls[place]
        arguments = call.take(piece)
        return ToolCallDelta(index=place, call_id=call.id, name=call.name, arguments=arguments)

    def _place_of(self, piece: JsonObject) -> int:
        """Find the call that *piece* goes on with, or begin one.

        The index says which it is, but some servers give every call the same index and a new id,
        and some give none.
        """
        index = as_count(piece.get("index"))
        ident = as_text(piece.get("id"))
        if index is None:
            index = 0 if not self._calls or ident else max(self._open, default=0)
        place = self._open.get(index)
        named = bool(as_text(as_object(piece.get("function")).get("name")))
        if place is None or (named and ident and self._calls[place].id not in ("", ident)):
            place = len(self._calls)
            self._calls.append(_PartialCall())
            self._open[index] = place
        return place

    def _merge_detail(self, piece: JsonObject) -> None:
        key = (_scalar(piece.get("index")), _scalar(piece.get("type")))
        known = self._details.setdefault(key, {})
        for name, value in piece.items():
            old = known.get(name)
            if name in _GROWING and isinstance(old, str) and isinstance(value, str):
                known[name] = old + value
            elif value not in (None, "") or name not in known:
                known[name] = value


class _PartialCall(msgspec.Struct):
    """A call whose pieces are still coming."""

    id: str = ""
    name: str = ""
    pieces: list[str] = []
    whole: JsonObject | None = None
    signature: str | None = None
    custom: bool = False

    @staticmethod
    def of(call: Json) -> _PartialCall:
        """A call that came whole."""
        part = _PartialCall()
        part.take(as_object(call))
        return part

    def take(self, piece: JsonObject) -> str:
        """Take the next piece and give the argument text in it."""
        self.id = as_text(piece.get("id")) or self.id
        function = as_object(piece.get("function"))
        custom = as_object(piece.get("custom"))
        said = custom or function
        self.custom = self.custom or bool(custom)
        # A name may come in pieces too, but most servers that send it again repeat it whole.
        self.name = as_text(said.get("name")) or self.name
        self.signature = _thought_signature(piece) or self.signature
        arguments = said.get("input") if custom else said.get("arguments")
        if isinstance(arguments, dict):
            self.whole = arguments
            return encode_json(arguments).decode()
        text = as_text(arguments)
        if text:
            self.pieces.append(text)
        return text

    def to_call(self, fallback_id: str, provider: str) -> ToolCall:
        """The finished call; one without an id gets *fallback_id*."""
        text = "".join(self.pieces)
        arguments: str | JsonObject = text or self.whole or {}
        if self.custom:
            arguments = {CUSTOM_INPUT: text}
        owner = provider if self.signature else ""
        return ToolCall(self.id or fallback_id, self.name, arguments, self.signature, owner)


def _first_choice(document: JsonObject) -> JsonObject:
    """The choice with index 0, or without one; the others are further samples."""
    for choice in as_list(document.get("choices")):
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return {}


def _read_frame(document: JsonObject, choice: JsonObject, draft: Draft) -> None:
    """Read what stands round the message: ids, usage, finish and errors."""
    # Azure begins a stream with a chunk whose model and id are empty.
    if not draft.model:
        draft.model = as_text(document.get("model"))
    if not draft.id:
        draft.id = as_text(document.get("id"))
    if finish := as_text(choice.get("finish_reason")):
        draft.finish_raw = finish
    if tier := document.get("service_tier"):
        draft.service_tier = as_text(tier)
    # The choice has it at Moonshot, and a stream of Groq repeats it in a field of its own.
    usage = document.get("usage") or choice.get("usage") or _groq_usage(document)
    if isinstance(usage, dict):
        _read_usage(usage, draft)
    if document.get("error") or document.get("object") == "error":
        draft.fail(document)
    elif error := choice.get("error"):
        draft.fail({"error": error})


def _groq_usage(document: JsonObject) -> Json:
    groq = document.get("x_groq")
    return groq.get("usage") if isinstance(groq, dict) else None


def _read_usage(usage: JsonObject, draft: Draft) -> None:
    prompt = as_object(usage.get("prompt_tokens_details"))
    completion = as_object(usage.get("completion_tokens_details"))
    taken = as_count(usage.get("prompt_tokens"))
    given = as_count(usage.get("completion_tokens"))
    total = as_count(usage.get("total_tokens"))
    reasoning = _count(completion, "reasoning_tokens", usage, "reasoning_tokens")
    audio = as_count(prompt.get("audio_tokens"))
    if taken is not None and given is not None and total is not None and taken + given != total:
        # xAI leaves reasoning out of the completion and Mistral audio out of the prompt; it is
        # put back where only that makes their own sum.
        if reasoning and taken + given + reasoning == total:
            given += reasoning
        elif audio and taken + audio + given == total:
            taken += audio
    draft.usage_raw = usage
    draft.total_tokens_reported = total
    draft.cost = to_reported_cost(usage) or draft.cost
    draft.usage = Usage(
        input_tokens=taken,
        output_tokens=given,
        cache_read_tokens=_count(
            prompt, "cached_tokens", usage, "prompt_cache_hit_tokens", "cached_tokens"
        ),
        cache_write_tokens=_count(
            prompt, "cache_write_tokens", usage, "cache_creation_input_tokens"
        ),
        reasoning_tokens=reasoning,
        input_audio_tokens=audio,
        output_audio_tokens=as_count(completion.get("audio_tokens")),
        api_calls=1,
    )


def _count(inner: JsonObject, name: str, outer: JsonObject, *names: str) -> int | None:
    found = as_count(inner.get(name))
    for other in names:
        if found is None and other in outer:
            found = as_count(outer[other])
    return found


def _split_content(content: Json) -> tuple[list[str], list[str]]:
    """Text and thoughts of a content that may be a string or a list of parts."""
    if isinstance(content, str):
        return [content], []
    texts: list[str] = []
    thoughts: list[str] = []
    for item in as_list(content):
        if isinstance(item, str):
            texts.append(item)
        part = as_object(item)
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            texts_of, _ = _split_content(inner)
            thoughts += texts_of
        elif text := as_text(part.get("text")):
            texts.append(text)
    return texts, thoughts


def _reasoning_text(message: JsonObject) -> str:
    for name in _REASONING_FIELDS:
        if text := message.get(name):
            return as_text(text)
    return ""


def _to_reasoning(thought: str, details: list[JsonObject], provider: str) -> list[Reasoning]:
    """Make parts of the text, or of a gateway's details, which have to go back as they came."""
    if details:
        return [
            Reasoning(
                text=as_text(detail.get("text")) or as_text(detail.get("summary")),
                signature=encode_json(detail).decode(),
                provider=provider,
                id=as_text(detail.get("id")),
                redacted=detail.get("type") == "reasoning.encrypted",
            )
            for detail in details
        ]
    return [Reasoning(text=thought, provider=provider)] if thought else []


def _thought_signature(piece: JsonObject) -> str | None:
    google = as_object(as_object(piece.get("extra_content")).get("google"))
    return as_text(google.get("thought_signature")) or None


def _add_calls(parts: list[_PartialCall], draft: Draft) -> None:
    for place, part in enumerate(parts):
        # Some servers give no ids; outcomes are told apart by them.
        fallback_id = f"call_{draft.id or 'reply'}_{place}"
        draft.calls.append(part.to_call(fallback_id, draft.provider))


def _scalar(value: Json) -> str | int | None:
    return value if isinstance(value, (str, int)) else None
