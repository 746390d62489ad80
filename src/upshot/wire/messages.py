"""The Messages surface: replies of Anthropic, whole and streamed.

Source:
    https://docs.anthropic.com/en/api/messages and .../messages-streaming, and recorded replies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
from .document import as_count, as_list, as_object, as_text
from .draft import Draft, StreamEvent, to_reported_cost

__all__ = ["MessagesStream", "read_messages"]

_OWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})


def read_messages(document: JsonObject, draft: Draft) -> None:
    """Read a whole reply into *draft*."""
    if document.get("error"):
        draft.fail(document)
    elif not isinstance(document.get("content"), list):
        draft.fail_unreadable("the reply has no content")
    _read_head(document, draft)
    _read_usage(as_object(document.get("usage")), draft)
    draft.finish_raw = as_text(document.get("stop_reason"))
    _add_blocks((_Block(as_object(item)) for item in as_list(document.get("content"))), draft)


class MessagesStream:
    """Reads the events of one streamed reply into a draft."""

    __slots__ = ("_blocks", "_calls", "_draft", "_usage")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._blocks: dict[int, _Block] = {}
        self._calls: dict[int, int] = {}
        self._usage: JsonObject = {}

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Take one event and give the deltas in it."""
        match as_text(document.get("type")) or name:
            case "content_block_delta":
                return self._read_delta(document)
            case "content_block_start":
                return self._start_block(document)
            case "message_start":
                message = as_object(document.get("message"))
                _read_head(message, self._draft)
                self._merge_usage(message.get("usage"))
            case "message_delta":
                delta = as_object(document.get("delta"))
                self._draft.finish_raw = as_text(delta.get("stop_reason")) or self._draft.finish_raw
                self._merge_usage(document.get("usage"))
            case "message_stop":
                self._draft.done = True
            case "error":
                self._draft.fail(document)
            case _:
                pass
        return []

    def finish(self) -> None:
        """Put usage and blocks into the draft."""
        _read_usage(self._usage, self._draft)
        _add_blocks(self._blocks.values(), self._draft)

    def _start_block(self, document: JsonObject) -> list[StreamEvent]:
        index = self._index(document)
        block = self._blocks[index] = _Block(as_object(document.get("content_block")))
        if block.kind != "tool_use":
            return _to_deltas(block.kind, as_text(block.start.get(block.kind)))
        # The index counts blocks of all kinds; a delta's counts calls.
        place = self._calls[index] = len(self._calls)
        return [ToolCallDelta(index=place, call_id=block.id, name=block.name)]

    def _read_delta(self, document: JsonObject) -> list[StreamEvent]:
        index = self._index(document)
        block = self._blocks.get(index)
        if block is None:
            return []
        delta = as_object(document.get("delta"))
        # Deltas of citations and of the provider's own blocks are no text.
        kind = as_text(delta.get("type")).removesuffix("_delta")
        if kind == "input_json":
            return self._read_input(index, block, as_text(delta.get("partial_json")))
        if kind == "signature":
            block.signature += as_text(delta.get("signature"))
            return []
        if kind not in ("text", "thinking"):
            return []
        text = as_text(delta.get(kind))
        block.pieces.append(text)
        return _to_deltas(kind, text)

    def _read_input(self, index: int, block: _Block, text: str) -> list[StreamEvent]:
        block.inputs.append(text)
        place = self._calls.get(index)
        if place is None or not text:
            return []
        return [ToolCallDelta(index=place, call_id=block.id, name=block.name, arguments=text)]

    def _index(self, document: JsonObject) -> int:
        index = as_count(document.get("index"))
        return len(self._blocks) if index is None else index

    def _merge_usage(self, usage: Json) -> None:
        """A later figure replaces an earlier one; one that is left out, or null, does not."""
        told = as_object(usage).items()
        self._usage.update({name: value for name, value in told if value is not None})


@dataclass(slots=True)
class _Block:
    """One content block and, in a stream, the pieces that came after its start."""

    start: JsonObject
    pieces: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    signature: str = ""

    @property
    def kind(self) -> str:
        return as_text(self.start.get("type"))

    @property
    def id(self) -> str:
        return as_text(self.start.get("id"))

    @property
    def name(self) -> str:
        return as_text(self.start.get("name"))

    def text(self, name: str) -> str:
        return as_text(self.start.get(name)) + "".join(self.pieces)

    def to_reasoning(self, provider: str) -> Reasoning:
        """The thought, or what stands for one that was withheld."""
        if self.kind == "redacted_thinking":
            data = as_text(self.start.get("data"))
            return Reasoning(signature=data, provider=provider, redacted=True)
        signature = as_text(self.start.get("signature")) + self.signature
        return Reasoning(text=self.text("thinking"), signature=signature or None, provider=provider)

    def to_call(self) -> ToolCall:
        """The call; input that came in pieces stays the text that it was."""
        text = "".join(self.inputs)
        return ToolCall(self.id, self.name, text or as_object(self.start.get("input")))


def _add_blocks(blocks: Iterable[_Block], draft: Draft) -> None:
    callers: list[str] = []
    results: set[str] = set()
    for block in blocks:
        match block.kind:
            case "text":
                draft.text.append(block.text("text"))
            case "thinking" | "redacted_thinking":
                draft.reasoning.append(block.to_reasoning(draft.provider))
            case "tool_use":
                draft.calls.append(block.to_call())
                callers.append(as_text(as_object(block.start.get("caller")).get("tool_id")))
            case kind:
                draft.server_tools.append(kind)
                results.add(as_text(block.start.get("tool_use_id")))
    # A call that the provider's own code made is settled when that code's result is there.
    draft.settled_calls = sum(1 for caller in callers if caller and caller in results)


def _to_deltas(kind: str, text: str) -> list[StreamEvent]:
    if not text:
        return []
    return [TextDelta(text=text) if kind == "text" else ReasoningDelta(text=text)]


def _read_head(message: JsonObject, draft: Draft) -> None:
    draft.model = as_text(message.get("model")) or draft.model
    draft.id = as_text(message.get("id")) or draft.id


def _read_usage(usage: JsonObject, draft: Draft) -> None:
    if not usage:
        return
    uncached = as_count(usage.get("input_tokens"))
    read = as_count(usage.get("cache_read_input_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    details = as_object(usage.get("output_tokens_details"))
    draft.usage_raw = usage
    draft.cost = to_reported_cost(usage)
    draft.usage = Usage(
        # The wire counts what was neither read from the cache nor written to it.
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=as_count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=as_count(details.get("thinking_tokens")),
        api_calls=1,
    )
