"""Gemini generateContent, including Vertex AI: requests, replies and streams.

A reply is a list of parts, and each may have a ``thoughtSignature``, which is sent back on the same
part. A stream cuts texts anywhere; pieces without a signature are joined again.

Source:
    https://ai.google.dev/api/generate-content and
    https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference, read
    November 2025, and recorded replies;
    https://ai.google.dev/gemini-api/docs/tool-combination, read November 2026.

Some clients request numbers instead of words; tables of the enumerations translate them.

Source:
    The protocol buffers of the Gemini API (v1beta) and of Vertex AI (v1beta1), as published with
    google-ai-generativelanguage 0.12 and google-cloud-aiplatform 2.7.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from upshot.contract.base.enums import FinishReason, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import (
    Audio,
    Data,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    ServerToolBlock,
    Text,
    Unknown,
)
from upshot.contract.model_calls import PartDelta, ReasoningDelta, TextDelta, ToolCallDelta
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.wire.accumulator import ReplyAccumulator, StreamEvent, parse_finish_reason
from upshot.wire.chat import CUSTOM_INPUT
from upshot.wire.decoding import (
    as_count,
    as_list,
    as_object,
    as_text,
    encode_json,
    first_sample,
    parse_object,
)
from upshot.wire.encoding import (
    SCHEMA_PROMPT,
    Asked,
    RequestEncoder,
    arguments_of,
    encode_wire,
    hosted_items,
    join_system,
    merge_extra,
    sent,
    splice,
    version_in,
    without_none,
)
from upshot.wire.media import decode_media, to_media_part

AUDIO: Final = ("AUDIO", 4)
"""The word and the number of the audio modality."""

NOT_BLOCKED: Final = frozenset({"", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
"""Block reasons that mean "not blocked"."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Up to 5, both services have the same numbers.
_GEMINI: Final = _words(
    "FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION OTHER LANGUAGE BLOCKLIST "
    "PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL IMAGE_SAFETY UNEXPECTED_TOOL_CALL "
    "TOO_MANY_TOOL_CALLS IMAGE_PROHIBITED_CONTENT IMAGE_OTHER NO_IMAGE IMAGE_RECITATION"
)
_VERTEX: Final = _words(
    "FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION OTHER BLOCKLIST "
    "PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL MODEL_ARMOR"
)
_BLOCKS: Final = _words(
    "BLOCK_REASON_UNSPECIFIED SAFETY OTHER BLOCKLIST PROHIBITED_CONTENT IMAGE_SAFETY"
)
_VERTEX_BLOCKS: Final = (*_BLOCKS[:-1], "MODEL_ARMOR")


def parse_finish(value: Json, *, provider: str) -> str:
    """Return the finish reason as a word, from the word or the *provider*'s number; else ""."""
    return _parse(value, _VERTEX if "vertex" in provider else _GEMINI)


def parse_block_reason(value: Json, *, provider: str) -> str:
    """Return the block reason as a word; see :func:`parse_finish`."""
    return _parse(value, _VERTEX_BLOCKS if "vertex" in provider else _BLOCKS)


def _parse(value: Json, words: tuple[str, ...]) -> str:
    number = as_count(value)
    if number is None:
        return as_text(value)
    return words[number] if number < len(words) else str(number)


_STEP: Final = re.compile(
    r"\.(?P<name>[^.\[\]'\"]+)|\[(?P<index>[0-9]{1,9})\]"
    r"|\[(?:'(?P<single>(?:[^'\\]|\\.)*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\")\]"
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_MAX_STEPS: Final = 100


class PartialArguments:
    """The arguments of a call that is being streamed.

    A text may come in pieces: the next piece for the same path is appended if the last one had
    ``willContinue``. A malformed path is ignored. An index beyond the end appends.

    Attributes:
        value: The arguments so far.

    Source:
        https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling,
        "Stream function call arguments"; read November 2025.
    """

    __slots__ = ("_open_path", "value")

    def __init__(self) -> None:
        self.value: JsonObject = {}
        self._open_path = ""

    def add(self, piece: JsonObject) -> None:
        """Set one value, or append one piece of a text."""
        path = as_text(piece.get("jsonPath"))
        steps = _to_steps(path)
        if not steps:
            return
        value = _value_of(piece)
        _set_at(self.value, steps, value, grows=path == self._open_path)
        self._open_path = path if piece.get("willContinue") else ""


def _to_steps(path: str) -> list[str | int]:
    """Return the names and indexes in *path*, none if it is not a path from the root."""
    steps: list[str | int] = []
    place = 1
    while path.startswith("$") and place < len(path):
        found = _STEP.match(path, place)
        if found is None or len(steps) == _MAX_STEPS:
            return []
        place = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            quoted = found["single"] if found["single"] is not None else found["double"]
            steps.append(found["name"] or _ESCAPE.sub(r"\1", quoted or ""))
    return steps


def _value_of(piece: JsonObject) -> Json:
    names = ("stringValue", "numberValue", "boolValue")
    return next((piece[name] for name in names if piece.get(name) is not None), None)


def _set_at(root: JsonObject, steps: list[str | int], value: Json, *, grows: bool) -> None:
    holder: Json = root
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if following is None:
            old = _get(holder, step)
            if grows and isinstance(old, str) and isinstance(value, str):
                value = old + value
            _set(holder, step, value)
            return
        inner = _get(holder, step)
        # The next step decides what belongs here: a list for an index, an object for a name.
        wanted = list if isinstance(following, int) else dict
        if not isinstance(inner, wanted):
            inner = cast("Json", wanted())
            _set(holder, step, inner)
        holder = inner


def _get(holder: Json, step: str | int) -> Json:
    if isinstance(holder, dict):
        return holder.get(str(step))
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        return holder[step]
    return None


def _set(holder: Json, step: str | int, value: Json) -> None:
    if isinstance(holder, dict):
        holder[str(step)] = value
    elif isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        holder[step] = value
    elif isinstance(holder, list):
        # Not padded up to the index: one large number in a reply must not make a huge list.
        holder.append(value)


_COUNTS: Final = (
    "promptTokenCount",
    "totalTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)
_CHARGED_BY_PROMPT: Final = re.compile(r"gemini-[12]\b")
_SERVER_PARTS: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


def read_generate(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Read a whole reply into *reply*."""
    stream = GenerateStream(reply)
    stream.read("", document)
    stream.finish()
    reply.done = None
    if not as_list(document.get("candidates")) and not reply.blocked and reply.error is None:
        reply.fail_unreadable("the reply has no candidates")


class GenerateStream:
    """Reads one streamed reply into an accumulator; each chunk has the form of a whole reply."""

    __slots__ = ("_calls", "_made", "_parts", "_reply")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        # In the order they started; a call is in both lists.
        self._parts: list[_Words | _Call | _Sound | Image | Audio | File | JsonObject] = []
        self._calls: list[_Call] = []
        self._made = 0

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one chunk and return its deltas."""
        candidate = first_sample(document, "candidates")
        known = self._reply.usage_raw
        _read_frame(document, candidate, self._reply)
        if self._reply.usage_raw is not known:
            _read_usage(self._reply.usage_raw or {}, self._reply)
        if name == "error" and self._reply.error is None:
            self._reply.fail(document)
        grounding = as_object(candidate.get("groundingMetadata"))
        if queries := grounding.get("webSearchQueries"):
            self._reply.searches = _count_searches(as_list(queries), self._reply.model)
        if grounding.get("groundingChunks") or candidate.get("urlContextMetadata"):
            self._reply.cites = True
        events: list[StreamEvent] = []
        for part in as_list(as_object(candidate.get("content")).get("parts")):
            events += self._read_part(as_object(part))
        return events

    def finish(self) -> None:
        """Put the parts into the accumulator."""
        reply = self._reply
        for part in self._parts:
            match part:
                case _Call():
                    # The service usually sends no ids.
                    reply.add_call(part.to_call(reply.next_call_id(), reply.provider))
                case _Words():
                    reply.parts.append(part.to_part(reply.provider))
                case _Sound():
                    reply.parts.append(to_media_part(b"".join(part.pieces), part.media_type))
                case dict():
                    reply.parts.append(ServerToolBlock(part, reply.provider))
                case _:
                    reply.parts.append(part)

    def _read_part(self, part: JsonObject) -> list[StreamEvent]:
        call = part.get("functionCall")
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(call, dict):
            return self._read_call(call, signature)
        if kinds := [name for name in _SERVER_PARTS if as_object(part.get(name))]:
            self._reply.server_tools += kinds
            self._parts.append(part)
            return [self._made_part(ServerToolBlock(part, self._reply.provider))]
        is_thought = part.get("thought") is True
        if media := as_object(part.get("inlineData")):
            # An image in a thought is a draft.
            return [] if is_thought else self._add_media(media, signature)
        text = as_text(part.get("text"))
        if not text and not signature:
            return []
        self._add_words(text, signature, is_thought=is_thought)
        if not text:
            return []
        return [ReasoningDelta(text=text) if is_thought else TextDelta(text=text)]

    def _add_words(self, text: str, signature: str, *, is_thought: bool) -> None:
        """Start a thought or a text, or continue the last one.

        The server cuts them anywhere. A signature ends a thought; a signed text is a separate part,
        apart from unsigned text before it.
        """
        last = self._parts[-1] if self._parts else None
        goes_on = isinstance(last, _Words) and last.is_thought is is_thought and not last.signature
        if not isinstance(last, _Words) or not goes_on or (signature and not is_thought):
            last = _Words(is_thought)
            self._parts.append(last)
        last.pieces.append(text)
        last.signature = signature

    def _made_part(self, content: Part, *, goes_on: bool = False) -> PartDelta:
        self._made += not goes_on
        return PartDelta(index=self._made - 1, content=content)

    def _add_media(self, media: JsonObject, signature: str) -> list[StreamEvent]:
        """Add an image, a sound or a file; a sound may come in pieces."""
        data = decode_media(as_text(media.get("data")))
        kind = as_text(media.get("mimeType"))
        if data is None:
            return []
        last = self._parts[-1] if self._parts else None
        provider = self._reply.provider
        part = to_media_part(data, kind, provider=provider, signature=signature or None)
        goes_on = isinstance(last, _Sound) and last.media_type == kind
        if isinstance(last, _Sound) and goes_on:
            last.pieces.append(data)
        elif kind.startswith("audio/"):
            self._parts.append(_Sound(kind, [data]))
        else:
            self._parts.append(part)
        return [self._made_part(part, goes_on=goes_on)]

    def _read_call(self, piece: JsonObject, signature: str) -> list[StreamEvent]:
        """Start a call, or continue the open one."""
        name = as_text(piece.get("name"))
        goes_on = not name and bool(self._calls) and self._calls[-1].open
        # An empty piece ends an open call; without one it means nothing.
        if not goes_on and not piece:
            return []
        events: list[StreamEvent] = []
        if not goes_on:
            call = _Call(len(self._calls), as_text(piece.get("id")), name, signature)
            self._calls.append(call)
            self._parts.append(call)
            events.append(call.to_delta(""))
        call = self._calls[-1]
        call.signature = call.signature or signature
        call.add(piece)
        if not call.open:
            events.append(call.to_delta(encode_json(call.arguments.value).decode()))
        return events


def _count_searches(queries: list[Json], model: str) -> int:
    """Count the charged searches: one per prompt before Gemini 3, every query since then."""
    return min(1, len(queries)) if _CHARGED_BY_PROMPT.search(model) else len(queries)


@dataclass(slots=True)
class _Words:
    """A thought or a text while its pieces arrive."""

    is_thought: bool
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""

    def to_part(self, provider: str) -> Text | Reasoning:
        text = "".join(self.pieces)
        signature = self.signature or None
        if not self.is_thought:
            return Text(text, signature=signature, provider=provider if signature else "")
        redacted = signature is not None and not text
        return Reasoning(text=text, signature=signature, provider=provider, redacted=redacted)


@dataclass(slots=True)
class _Sound:
    """A sound while its pieces arrive."""

    media_type: str
    pieces: list[bytes]


@dataclass(slots=True)
class _Call:
    """A call, complete or while its arguments arrive."""

    place: int
    id: str
    name: str
    signature: str
    open: bool = True
    arguments: PartialArguments = field(default_factory=PartialArguments)

    def add(self, piece: JsonObject) -> None:
        """Add the arguments in *piece*, and record whether more will come."""
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


def _read_frame(document: JsonObject, candidate: JsonObject, reply: ReplyAccumulator) -> None:
    """Read what surrounds the parts: model, usage, finish reason, blocks and errors."""
    reply.model = as_text(document.get("modelVersion")) or reply.model
    reply.id = as_text(document.get("responseId")) or reply.id
    finish = candidate.get("finishReason")
    if finish is not None and (finish := parse_finish(finish, provider=reply.provider)):
        _end(finish, as_text(candidate.get("finishMessage")), reply)
    feedback = as_object(document.get("promptFeedback"))
    block = parse_block_reason(feedback.get("blockReason"), provider=reply.provider)
    if block not in NOT_BLOCKED:
        reply.blocked = True
        _end(block, as_text(feedback.get("blockReasonMessage")), reply)
    usage = as_object(document.get("usageMetadata"))
    # Vertex sends the type of traffic with every chunk, but counts only with the last one.
    has_usage = any(usage.get(name) is not None for name in _COUNTS)
    if has_usage or (usage and reply.usage_raw is None):
        reply.usage_raw = usage
    if document.get("error"):
        reply.fail(document)


def _end(word: str, message: str, reply: ReplyAccumulator) -> None:
    reason = parse_finish_reason(word)
    reply.finish_raw = word
    # A word for "not finished" may come with every chunk.
    reply.done = reply.done or reply.blocked or reason is not None
    if message and (reply.blocked or reason is FinishReason.CONTENT_FILTER):
        reply.refusal[:] = [message]


def _read_usage(usage: JsonObject, reply: ReplyAccumulator) -> None:
    taken = as_count(usage.get("promptTokenCount"))
    given = as_count(usage.get("candidatesTokenCount"))
    thought = as_count(usage.get("thoughtsTokenCount"))
    total = as_count(usage.get("totalTokenCount"))
    if (taken, given, thought, total) == (None, None, None, None):
        return
    for_tools = as_count(usage.get("toolUsePromptTokenCount"))
    reply.total_tokens_reported = total
    reply.usage = Usage(
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


_VERSION: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?![\d.])")
_THINKS_FROM: Final = (2, 5)
_LEVELS_FROM: Final = (3, 0)
_BUDGETS: Final = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 24576}
# Thinking cannot be turned off in the Pro models.
_LEAST_BUDGET_OF_PRO: Final = 128
_PRO_LEVELS: Final = {"none": "low", "minimal": "low", "xhigh": "high"}
_LEVELS: Final = {"none": "minimal", "xhigh": "high"}
_HOSTED: Final[dict[str, JsonObject]] = {
    "web_search": {"googleSearch": {}},
    "web_fetch": {"urlContext": {}},
    "code_execution": {"codeExecution": {}},
}
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
# These models accept this instead of a signature for a call that they did not make.
_UNSIGNED: Final = b',"thoughtSignature":"skip_thought_signature_validator"'
_DATA_URL: Final = re.compile(r"data:([\w.+/-]*)(?:;[\w=.-]+)*;base64,(.*)", re.DOTALL)
_SUFFIX: Final = re.compile(r"\.(\w+)(?:[?#].*)?$", re.DOTALL)
_TYPES: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "mp4": "video/mp4",
}
_OWN_PARTS: Final = frozenset(
    {"inlineData", "fileData", "executableCode", "codeExecutionResult"}
    | {"toolCall", "toolResponse"}
)


class GenerateEncoder(RequestEncoder):
    """A conversation in the form of generateContent.

    Consecutive messages of one role, such as several tool results, are one turn on the wire; the
    last turn stays open until the role changes. On this surface the model, and whether to stream,
    are part of the URL and not of the body; there is no field for ``parallel_tool_calls``.

    Args:
        provider: The provider; only its own signatures are sent back. If its name contains
            "vertex", no call ids are sent.
    """

    __slots__ = ("_called", "_early", "_names", "_provider", "_role", "_turns", "_unsigned")

    def __init__(self, *, provider: str = "") -> None:
        super().__init__()
        self._provider = provider
        self._early: list[str] = []
        self._names: dict[str, str] = {}
        self._role = ""
        # All turns, the last one still open.
        self._turns = bytearray()
        self._called = False
        self._unsigned: list[int] = []

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self._count += 1
        if message.role is Role.SYSTEM and not self._role:
            # The surface has no system role: the first such messages join the instructions.
            self._early.append(message.text)
            self._asked = None
            return
        role = "model" if message.role is Role.ASSISTANT else "user"
        for part in self._to_parts(message):
            self._add(role, part)

    def _join(self, asked: Asked) -> bytes:
        is_signed = version_in(asked.model, _VERSION) >= _LEVELS_FROM
        pieces = self._signed() if is_signed else [self._turns]
        end = b"]}]," if self._turns else b"],"
        return b"".join((b'{"contents":[', *pieces, end, self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        model, system, tools, output_schema, settings, _ = asked
        version = version_in(model, _VERSION)
        config = _to_config(settings, model, version)
        fields: dict[str, object] = {"generationConfig": config}
        system = join_system(system, *self._early)
        if output_schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = output_schema
            if tools and (0, 0) < version < _LEVELS_FROM:
                # Older models accept tools or a schema, but not both.
                del config["responseMimeType"], config["responseJsonSchema"]
                system = join_system(system, SCHEMA_PROMPT + encode_wire(output_schema).decode())
        _set_tools(fields, tools, settings, version)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        merge_extra(fields, settings.extra)
        return splice(fields)

    def _add(self, role: str, part: dict[str, object]) -> None:
        if role == self._role:
            self._turns += b","
        else:
            if self._role:
                self._turns += b"]},"
            self._turns += b'{"role":"%b","parts":[' % role.encode()
            self._called = False
        self._role = role
        self._turns += encode_wire(part)
        if "functionCall" in part:
            # Only the first call of a turn carries a signature.
            if not self._called and "thoughtSignature" not in part:
                # Right before the brace that closes the part: whether a placeholder belongs there
                # depends on the model, which only the request names.
                self._unsigned.append(len(self._turns) - 1)
            self._called = True

    def _signed(self) -> Iterator[bytes]:
        """Yield the turns, with a placeholder wherever a call has no signature."""
        begin = 0
        for place in self._unsigned:
            yield bytes(self._turns[begin:place])
            yield _UNSIGNED
            begin = place
        yield bytes(self._turns[begin:])

    def _to_parts(self, message: Message) -> Iterator[dict[str, object]]:
        if message.role is Role.TOOL:
            yield from self._to_result(message)
            return
        yield from sent(map(self._to_own_part, message.parts))

    def _to_own_part(self, part: Part) -> dict[str, object] | None:
        """Return one part of a turn, including what is sent only to this provider."""
        match part:
            case ToolCall():
                return self._to_call(part)
            case ServerToolBlock(raw=raw, provider=provider):
                return {**raw} if provider == self._provider else None
            case Reasoning(signature=str(signature), provider=provider) if signature:
                if provider != self._provider:
                    return None
                return {"text": part.text, "thought": True, "thoughtSignature": signature}
            case Text(text=text, signature=str(signature), provider=provider) if signature:
                if provider == self._provider:
                    return {"text": text, "thoughtSignature": signature}
            case Image(signature=str(signature), provider=self._provider) if signature:
                media = _to_media(part.url, part.data, part.media_type, "image/png")
                return {**media, "thoughtSignature": signature}
            case _:
                pass
        return _to_part(part)

    def _to_call(self, call: ToolCall) -> dict[str, object]:
        self._names[call.id] = call.name
        arguments = msgspec.Raw(arguments_of(call, stray_key=CUSTOM_INPUT))
        function: dict[str, object] = {"name": call.name, "args": arguments}
        self._set_id(function, call.id)
        item: dict[str, object] = {"functionCall": function}
        if call.signature and call.provider == self._provider:
            item["thoughtSignature"] = call.signature
        return item

    def _to_result(self, message: Message) -> Iterator[dict[str, object]]:
        ident = message.tool_call_id or ""
        # The surface matches results to calls by the function's name.
        name = message.name or self._names.get(ident, "") or "tool"
        text = "".join(
            part.text if isinstance(part, Text) else encode_wire(part.data).decode()
            for part in message.parts
            if isinstance(part, (Text, Data))
        )
        # It must be an object; the documentation says to put anything else under "output".
        result = parse_object(text)
        function: dict[str, object] = {
            "name": name,
            "response": {"output": text} if result is None else result,
        }
        self._set_id(function, ident)
        yield {"functionResponse": function}
        for part in message.parts:
            if not isinstance(part, (Text, Data, Reasoning)) and (item := _to_part(part)):
                yield item

    def _set_id(self, function: dict[str, object], ident: str) -> None:
        if ident and "vertex" not in self._provider:
            function["id"] = ident


def _set_tools(
    fields: dict[str, object],
    tools: tuple[ToolSpec, ...],
    settings: ModelSettings,
    version: tuple[int, int],
) -> None:
    items = hosted_items(settings, _HOSTED, "generateContent")
    calling: dict[str, object] = {}
    if items and tools and version >= _LEVELS_FROM:
        # The calls of both kinds then stand in the reply; older models accept only one kind.
        calling["includeServerSideToolInvocations"] = True
    choice = settings.tool_choice
    if tools:
        items.append({"functionDeclarations": [_to_tool(tool) for tool in tools]})
        if choice is not None:
            mode: dict[str, object] = {"mode": _MODES.get(choice, "ANY")}
            if choice not in _MODES:
                mode["allowedFunctionNames"] = [choice]
            calling["functionCallingConfig"] = mode
    if items:
        fields["tools"] = items
    if calling:
        fields["toolConfig"] = calling


def _to_config(settings: ModelSettings, model: str, version: tuple[int, int]) -> dict[str, object]:
    sampling = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "maxOutputTokens": settings.max_tokens,
        "stopSequences": settings.stop,
        "seed": settings.seed,
    }
    config = without_none(sampling)
    # Older models do not think, and refuse the setting.
    if settings.reasoning is not None and not (0, 0) < version < _THINKS_FROM:
        config["thinkingConfig"] = _to_thinking(settings.reasoning, model, version)
    return config


def _to_thinking(reasoning: str | int, model: str, version: tuple[int, int]) -> dict[str, object]:
    pro = "-pro" in model
    if isinstance(reasoning, str) and version >= _LEVELS_FROM:
        levels = _PRO_LEVELS if pro else _LEVELS
        thinking: dict[str, object] = {"thinkingLevel": levels.get(reasoning, reasoning)}
    else:
        budget = _BUDGETS.get(reasoning, 0) if isinstance(reasoning, str) else reasoning
        least = _LEAST_BUDGET_OF_PRO if pro else 0
        thinking = {"thinkingBudget": max(budget, least)}
    if reasoning not in (0, "none"):
        thinking["includeThoughts"] = True
    return thinking


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    item: dict[str, object] = {"name": tool.name}
    if tool.description:
        item["description"] = tool.description
    if tool.parameters:
        item["parametersJsonSchema"] = tool.parameters
    return item


def _to_part(part: Part) -> dict[str, object] | None:
    """Return one part of a turn, None if it is not sent."""
    match part:
        case Text(text=text):
            # An empty part is refused.
            return {"text": text} if text else None
        case Image():
            return _to_media(part.url, part.data, part.media_type, "image/png")
        case File():
            return _to_file(part)
        case Audio():
            if part.data is None and not part.url:
                return {"text": part.transcript} if part.transcript else None
            return _to_media(part.url, part.data, part.media_type, "audio/wav")
        case Data(data=data):
            return {"text": encode_wire(data).decode()}
        case Unknown(raw=raw):
            own: dict[str, object] = {key: value for key, value in raw.items() if key != "kind"}
            return None if _OWN_PARTS.isdisjoint(own) else own
        case Reasoning() | ToolCall() | ServerToolBlock():
            return None


def _to_file(part: File) -> dict[str, object] | None:
    if part.data is None and not part.url and not part.id:
        text = part.summary or part.name
        return {"text": text} if text else None
    return _to_media(part.url or part.id, part.data, part.media_type, "application/pdf")


def _to_media(url: str, data: bytes | None, media_type: str, fallback: str) -> dict[str, object]:
    if data is not None:
        encoded = b64encode(data).decode("ascii")
        return {"inlineData": {"mimeType": media_type or fallback, "data": encoded}}
    if found := _DATA_URL.match(url):
        # The service fetches addresses, but not data URLs.
        return {"inlineData": {"mimeType": found[1] or fallback, "data": found[2]}}
    file = {"fileUri": url}
    suffix = _SUFFIX.search(url)
    if kind := media_type or _TYPES.get(suffix[1].lower() if suffix else "", ""):
        file["mimeType"] = kind
    return {"fileData": file}
