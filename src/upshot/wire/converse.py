"""The Converse surface: replies of Amazon Bedrock, whole and streamed.

Source:
    https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and
    .../API_runtime_ConverseStream.html, read November 2025, and recorded replies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ..contract import (
    JsonObject,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from .document import as_count, as_list, as_object, as_text
from .draft import Draft, StreamEvent
from .eventstream import EXCEPTION

__all__ = ["ConverseStream", "read_converse"]

_TEXTS: Final = ("text", "reasoningContent", "citationsContent")
# What a block may hold that is neither the model's words nor a tool's work.
_MEDIA: Final = frozenset(
    {"image", "video", "audio", "document", "cachePoint", "guardContent", "citation"}
)


def read_converse(document: JsonObject, draft: Draft) -> None:
    """Read a whole reply into *draft*."""
    content = as_object(as_object(document.get("output")).get("message")).get("content")
    if document.get("error"):
        draft.fail(document)
    elif not isinstance(content, list):
        # An exception of Bedrock is no more than its message.
        _fail_bare(document, draft)
    _read_usage(as_object(document.get("usage")), draft)
    draft.finish_raw = as_text(document.get("stopReason"))
    _add_blocks((_Block(as_object(item)) for item in as_list(content)), draft)


class ConverseStream:
    """Reads the events of one streamed reply into a draft."""

    __slots__ = ("_blocks", "_calls", "_draft")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._blocks: dict[int, _Block] = {}
        self._calls = 0

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Take one event and give the deltas in it."""
        match name:
            case "contentBlockDelta":
                return self._read_delta(document)
            case "contentBlockStart":
                return self._start_block(document)
            case "messageStop":
                self._draft.finish_raw = as_text(document.get("stopReason"))
            case "metadata":
                # The last event, after messageStop.
                self._draft.done = True
                _read_usage(as_object(document.get("usage")), self._draft)
            case _ if name == EXCEPTION:
                self._draft.fail(document)
            case _:
                pass
        return []

    def finish(self) -> None:
        """Put the blocks into the draft."""
        _add_blocks((block for _, block in sorted(self._blocks.items())), self._draft)

    def _start_block(self, document: JsonObject) -> list[StreamEvent]:
        block = self._blocks[self._index(document)] = _Block(as_object(document.get("start")))
        if not block.is_call:
            return []
        # The index counts blocks of all kinds; a delta's counts calls.
        block.call = self._calls
        self._calls += 1
        return [ToolCallDelta(index=block.call, call_id=block.call_id, name=block.name)]

    def _read_delta(self, document: JsonObject) -> list[StreamEvent]:
        # Text and thoughts come without a start.
        block = self._blocks.setdefault(self._index(document), _Block({}))
        return block.add(as_object(document.get("delta")))

    def _index(self, document: JsonObject) -> int:
        index = as_count(document.get("contentBlockIndex"))
        return max(self._blocks, default=0) if index is None else index


@dataclass(slots=True)
class _Block:
    """One content block and, in a stream, the pieces that came after its start.

    Attributes:
        start: The block as it began, or all of it.
        text: What was said.
        thought: What was thought.
        inputs: What a call was given.
        call: Which call it is, if it is one.
    """

    start: JsonObject
    text: list[str] = field(default_factory=list[str])
    thought: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    signature: str = ""
    redacted: str = ""
    call: int = 0

    @property
    def use(self) -> JsonObject:
        return as_object(self.start.get("toolUse"))

    @property
    def is_call(self) -> bool:
        """Whether it is a call that the client shall carry out."""
        return bool(self.use) and self.use.get("type") != "server_tool_use"

    @property
    def call_id(self) -> str:
        return as_text(self.use.get("toolUseId"))

    @property
    def name(self) -> str:
        return as_text(self.use.get("name"))

    def add(self, delta: JsonObject) -> list[StreamEvent]:
        """Keep a piece, and give it as deltas."""
        # A delta has one member, and mostly it is this one.
        if text := as_text(delta.get("text")) or _cited(delta):
            self.text.append(text)
            return [TextDelta(text=text)]
        events: list[StreamEvent] = []
        thought = as_object(delta.get("reasoningContent"))
        # A stream has the fields of the inner object beside the outer one's.
        thought = {**as_object(thought.get("reasoningText")), **thought}
        if text := as_text(thought.get("text")):
            self.thought.append(text)
            events.append(ReasoningDelta(text=text))
        self.signature += as_text(thought.get("signature"))
        self.redacted += as_text(thought.get("redactedContent"))
        text = as_text(as_object(delta.get("toolUse")).get("input"))
        if text:
            self.inputs.append(text)
        if text and self.is_call:
            call_id, name = self.call_id, self.name
            events.append(
                ToolCallDelta(index=self.call, call_id=call_id, name=name, arguments=text)
            )
        return events

    def to_reasoning(self, provider: str) -> Reasoning | None:
        """The thought, or what stands for one that was withheld; None where it is neither."""
        if self.redacted:
            return Reasoning(signature=self.redacted, provider=provider, redacted=True)
        text = "".join(self.thought)
        if not text and not self.signature:
            return None
        return Reasoning(text=text, signature=self.signature or None, provider=provider)

    def to_call(self, fallback_id: str) -> ToolCall:
        """The call; input that came in pieces stays the text that it was."""
        arguments = "".join(self.inputs) or as_object(self.use.get("input"))
        return ToolCall(self.call_id or fallback_id, self.name, arguments)


def _cited(delta: JsonObject) -> str:
    """The text of a block whose sources are given, for it is said like any other."""
    cited = as_object(delta.get("citationsContent"))
    return "".join(as_text(as_object(item).get("text")) for item in as_list(cited.get("content")))


def _add_blocks(blocks: Iterable[_Block], draft: Draft) -> None:
    for block in blocks:
        block.add({name: block.start[name] for name in _TEXTS if name in block.start})
        draft.text += block.text
        if (thought := block.to_reasoning(draft.provider)) is not None:
            draft.reasoning.append(thought)
        if block.is_call:
            draft.calls.append(block.to_call(f"call_{draft.id or 'reply'}_{len(draft.calls)}"))
        else:
            draft.server_tools += _server_tools(block.start)


def _server_tools(start: JsonObject) -> list[str]:
    """What the provider did itself, by type."""
    named = ((name, as_object(value)) for name, value in start.items())
    return [
        as_text(inner.get("type")) or name
        for name, inner in named
        if inner and name not in _TEXTS and name not in _MEDIA
    ]


def _fail_bare(document: JsonObject, draft: Draft) -> None:
    words = ("message", "Message", "__type")
    told = {name: value for name in words if isinstance(value := document.get(name), str)}
    if told:
        draft.fail({**told})
    else:
        draft.fail_unreadable("the reply has no message")


def _read_usage(usage: JsonObject, draft: Draft) -> None:
    if not usage:
        return
    uncached = as_count(usage.get("inputTokens"))
    read = _first_count(usage, "cacheReadInputTokens", "cacheReadInputTokenCount")
    written = _first_count(usage, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
    draft.usage_raw = usage
    draft.total_tokens_reported = as_count(usage.get("totalTokens"))
    draft.usage = Usage(
        # The wire counts what was neither read from the cache nor written to it.
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=as_count(usage.get("outputTokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        api_calls=1,
    )


def _first_count(usage: JsonObject, *names: str) -> int | None:
    counts = (as_count(usage.get(name)) for name in names)
    return next((count for count in counts if count is not None), None)
