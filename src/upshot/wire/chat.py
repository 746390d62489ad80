"""Chat Completions: requests, replies, streams and server dialects.

A message of this surface has separate fields without an order: it is read as thoughts, text, calls.
Only a content that is a list of parts, as Mistral sends it, keeps its order.

The differences between servers in what they accept are data, in ``DIALECTS``. A server ignores an
unknown field or refuses it with a 400, so fields are sent only in the form of the server's dialect.

Source:
    https://platform.openai.com/docs/api-reference/chat, and recorded replies of Azure, Cerebras,
    DeepSeek, Gemini, Groq, Hugging Face, Mistral, Ollama, OpenRouter, Perplexity, Together,
    Vercel, xAI, Z.ai and others; https://docs.cohere.com/docs/compatibility-api,
    https://docs.fireworks.ai/guides/reasoning and https://docs.mistral.ai/api, read November 2026;
    for hosted tools https://console.groq.com/docs/browser-search and
    https://openrouter.ai/docs/guides/features/server-tools; for caches
    https://openrouter.ai/docs/guides/best-practices/prompt-caching and
    https://vercel.com/docs/ai-gateway/models-and-providers/automatic-caching.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec

from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
)
from upshot.contract.model_calls import PartDelta, ReasoningDelta, TextDelta, ToolCallDelta
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.wire.accumulator import ReplyAccumulator, StreamEvent, to_reported_cost
from upshot.wire.decoding import (
    as_count,
    as_list,
    as_object,
    as_text,
    encode_json,
    first_count,
    first_sample,
    parse_json,
)
from upshot.wire.encoding import (
    EFFORTS,
    SCHEMA_PROMPT,
    Asked,
    RequestEncoder,
    arguments_text,
    encode_wire,
    hosted_items,
    is_strict_schema,
    join_system,
    schema_name,
    sent,
    splice,
    to_data_url,
    to_effort,
    to_openai_part,
    to_wire_id,
    to_wire_name,
    without_none,
)
from upshot.wire.media import decode_media, to_image, to_sound

CUSTOM_INPUT = "input"
"""The key that holds the free text of a custom tool's call."""

# Looked up once: accessing an enum member is slow in Python 3.11.
_ASSISTANT = Role.ASSISTANT
_TOOL = Role.TOOL
_GROWING = frozenset({"text", "summary", "data"})
_REASONING_FIELDS = ("reasoning_content", "reasoning")
# The fields of a message (OpenAI and gateways, Groq's compound models) and of a document
# (Perplexity) with what the provider looked up.
_SOURCES_OF_MESSAGE = ("annotations", "executed_tools")
_SOURCES = ("citations", "search_results")


def read_chat(document: JsonObject, reply: ReplyAccumulator) -> None:
    """Read a whole reply into *reply*."""
    choice = first_sample(document, "choices")
    message = as_object(choice.get("message"))
    _read_frame(document, choice, message, reply)
    if not choice and reply.error is None:
        reply.fail_unreadable("the reply has no choices")
    collected = _Said()
    collected.add(message.get("content"), _reasoning_text(message))
    if refusal := as_text(message.get("refusal")):
        reply.refusal.append(refusal)
    calls = list(map(_PartialCall.of, as_list(message.get("tool_calls"))))
    if legacy := as_object(message.get("function_call")):
        calls.append(_PartialCall.of({"function": legacy}))
    details = list(map(as_object, as_list(message.get("reasoning_details"))))
    media = None
    if "audio" in message or "images" in message:
        media = _Media()
        collected.add(media.add(message), "")
    _add_parts(collected, details, calls, reply, media)


class ChatStream:
    """Reads the chunks of one streamed reply into an accumulator."""

    __slots__ = ("_calls", "_details", "_has_choice", "_media", "_open", "_reply", "_said")

    def __init__(self, reply: ReplyAccumulator) -> None:
        self._reply = reply
        self._said = _Said()
        self._details: dict[tuple[object, object], JsonObject] = {}
        self._calls: list[_PartialCall] = []
        self._open: dict[int, int] = {}
        self._media: _Media | None = None
        self._has_choice = False

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one chunk and return its deltas."""
        choice = first_sample(document, "choices")
        self._has_choice = self._has_choice or bool(choice)
        # Some servers send the message so far with each delta: only the delta is read.
        delta = as_object(choice.get("delta"))
        _read_frame(document, choice, delta, self._reply)
        if name == "error" and self._reply.error is None:
            self._reply.fail(document)
        return self._read_delta(delta)

    def finish(self) -> None:
        """Put thoughts, text and calls into the accumulator."""
        if self._reply.done and not self._has_choice:
            self._reply.fail_unreadable("the reply has no choices")
        details = list(self._details.values())
        _add_parts(self._said, details, self._calls, self._reply, self._media)

    def _read_delta(self, delta: JsonObject) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        text, thought = self._said.add(delta.get("content"), _reasoning_text(delta))
        if thought:
            events.append(ReasoningDelta(text=thought))
        if text:
            events.append(TextDelta(text=text))
        if refusal := as_text(delta.get("refusal")):
            self._reply.refusal.append(refusal)
        # Most deltas hold a piece of text and none of these.
        if "audio" in delta or "images" in delta:
            events += self._read_media(delta)
        if details := delta.get("reasoning_details"):
            for item in as_list(details):
                self._merge_detail(as_object(item))
        if calls := delta.get("tool_calls"):
            for call in as_list(calls):
                events.append(self._read_call(as_object(call)))
        if legacy := as_object(delta.get("function_call")):
            events.append(self._read_call({"index": 0, "function": legacy}))
        return events

    def _read_media(self, delta: JsonObject) -> list[StreamEvent]:
        self._media = self._media or _Media()
        events: list[StreamEvent] = []
        if spoken := self._media.add(delta, events):
            self._said.add(spoken, "")
            events.append(TextDelta(text=spoken))
        return events

    def _read_call(self, piece: JsonObject) -> ToolCallDelta:
        place = self._place_of(piece)
        call = self._calls[place]
        arguments = call.add(piece)
        return ToolCallDelta(index=place, call_id=call.id, name=call.name, arguments=arguments)

    def _place_of(self, piece: JsonObject) -> int:
        """Find the call that *piece* continues, or start one.

        The index identifies it, but some servers send the same index with a new id for every call,
        and some send no index.
        """
        index = as_count(piece.get("index"))
        ident = as_text(piece.get("id"))
        if index is None:
            # With an id it may start a call, which the comparison of ids below detects; without one
            # it continues the last.
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
            # Texts come in pieces; other fields come whole, and an empty one does not replace
            # anything.
            if name in _GROWING and isinstance(old, str) and isinstance(value, str):
                known[name] = old + value
            elif value not in (None, "") or name not in known:
                known[name] = value


class _PartialCall(msgspec.Struct):
    """A call whose pieces are still arriving."""

    id: str = ""
    name: str = ""
    pieces: list[str] = []
    whole: JsonObject | None = None
    signature: str | None = None
    custom: bool = False

    @staticmethod
    def of(call: Json) -> _PartialCall:
        """Make a call from its whole form."""
        part = _PartialCall()
        part.add(as_object(call))
        return part

    def add(self, piece: JsonObject) -> str:
        """Add the next piece and return the argument text in it."""
        self.id = as_text(piece.get("id")) or self.id
        function = as_object(piece.get("function"))
        custom = as_object(piece.get("custom"))
        fields = custom or function
        self.custom = self.custom or bool(custom)
        # A repeated name replaces the first one: servers that repeat it send it whole.
        self.name = as_text(fields.get("name")) or self.name
        self.signature = _thought_signature(piece) or self.signature
        arguments = fields.get("input") if custom else fields.get("arguments")
        if isinstance(arguments, dict):
            self.whole = arguments
            return encode_json(arguments).decode()
        text = as_text(arguments)
        if text:
            self.pieces.append(text)
        return text

    def to_call(self, fallback_id: str, provider: str) -> ToolCall:
        """Return the finished call; without an id it gets *fallback_id*."""
        text = "".join(self.pieces)
        arguments: str | JsonObject = text or self.whole or {}
        if self.custom:
            arguments = {CUSTOM_INPUT: text}
        owner = provider if self.signature else ""
        return ToolCall(self.id or fallback_id, self.name, arguments, self.signature, owner)


def _read_frame(
    document: JsonObject, choice: JsonObject, message: JsonObject, reply: ReplyAccumulator
) -> None:
    """Read what surrounds the message: ids, usage, finish reason and errors."""
    # Azure starts a stream with a chunk whose model and id are empty.
    if not reply.model:
        reply.model = as_text(document.get("model"))
    if not reply.id:
        reply.id = as_text(document.get("id"))
    if finish := as_text(choice.get("finish_reason")):
        reply.finish_raw = finish
    if tier := document.get("service_tier"):
        reply.service_tier = as_text(tier)
    # Moonshot puts it in the choice, and a stream of Groq in a separate field.
    usage = document.get("usage") or choice.get("usage") or _groq_usage(document)
    if isinstance(usage, dict):
        _read_usage(usage, reply)
    if any(map(message.get, _SOURCES_OF_MESSAGE)) or any(map(document.get, _SOURCES)):
        reply.cites = True
    if document.get("error") or document.get("object") == "error":
        reply.fail(document)
    elif error := choice.get("error"):
        reply.fail({"error": error})


def _groq_usage(document: JsonObject) -> Json:
    groq = document.get("x_groq")
    return groq.get("usage") if isinstance(groq, dict) else None


def _read_usage(usage: JsonObject, reply: ReplyAccumulator) -> None:
    prompt = as_object(usage.get("prompt_tokens_details"))
    completion = as_object(usage.get("completion_tokens_details"))
    taken = as_count(usage.get("prompt_tokens"))
    given = as_count(usage.get("completion_tokens"))
    total = as_count(usage.get("total_tokens"))
    reasoning = first_count(completion.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    audio = as_count(prompt.get("audio_tokens"))
    if taken is not None and given is not None and total is not None and taken + given != total:
        # xAI omits reasoning from the completion, and Mistral audio from the prompt. They are
        # added back only if the provider's total then matches.
        if reasoning and taken + given + reasoning == total:
            given += reasoning
        elif audio and taken + audio + given == total:
            taken += audio
    reply.usage_raw = usage
    reply.total_tokens_reported = total
    reply.cost = to_reported_cost(usage) or reply.cost
    reply.usage = Usage(
        input_tokens=taken,
        output_tokens=given,
        cache_read_tokens=first_count(
            prompt.get("cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("cached_tokens"),
        ),
        cache_write_tokens=first_count(
            prompt.get("cache_write_tokens"), usage.get("cache_creation_input_tokens")
        ),
        reasoning_tokens=reasoning,
        input_audio_tokens=audio,
        output_audio_tokens=as_count(completion.get("audio_tokens")),
        api_calls=1,
    )


class _Said(msgspec.Struct):
    """Thoughts and text of a message.

    Thoughts in a field besides the content (``beside``) have no known order, so they come first.
    Parts of a content, as Mistral sends them, keep theirs: ``runs`` has consecutive pieces of one
    kind, as (is_thought, pieces).
    """

    beside: list[str] = []
    runs: list[tuple[bool, list[str]]] = []

    def add(self, content: Json, beside: str) -> tuple[str, str]:
        """Add a content, or a piece of one, and return the text and the thoughts in it."""
        # The fast path: a piece is usually one string.
        if type(content) is str:
            if content:
                self._add(content, is_thought=False)
            text, thought = content, ""
        else:
            texts: tuple[list[str], list[str]] = ([], [])
            for piece, is_thought in _pieces_of(content):
                self._add(piece, is_thought=is_thought)
                texts[is_thought].append(piece)
            text, thought = "".join(texts[0]), "".join(texts[1])
        if beside and not thought:
            self.beside.append(beside)
            thought = beside
        return text, thought

    def _add(self, piece: str, *, is_thought: bool) -> None:
        runs = self.runs
        if runs and runs[-1][0] is is_thought:
            runs[-1][1].append(piece)
        else:
            runs.append((is_thought, [piece]))


class _Media(msgspec.Struct):
    """Sound and images beside the content. The words of the sound are the text of the reply."""

    ident: str = ""
    sound: list[str] = []
    images: list[Image] = []
    sound_index: int | None = None

    def add(self, message: JsonObject, events: list[StreamEvent] | None = None) -> str:
        """Add what a message, or a piece of one, has; return the words of its sound.

        Args:
            message: The message, or the piece.
            events: Gets the deltas of a piece.
        """
        audio = as_object(message.get("audio"))
        self.ident = as_text(audio.get("id")) or self.ident
        if data := as_text(audio.get("data")):
            self.sound.append(data)
            if events is not None and (sound := decode_media(data)) is not None:
                if self.sound_index is None:
                    self.sound_index = len(self.images)
                content = to_sound(sound, self.ident)
                events.append(PartDelta(index=self.sound_index, content=content))
        for item in map(as_object, as_list(message.get("images"))):
            image = to_image(as_text(as_object(item.get("image_url")).get("url")))
            if image is not None:
                if events is not None:
                    place = len(self.images) + (self.sound_index is not None)
                    events.append(PartDelta(index=place, content=image))
                self.images.append(image)
        return as_text(audio.get("transcript"))

    def to_parts(self) -> Iterator[Part]:
        """Yield the parts. Each piece of the sound was encoded by itself."""
        pieces = [data for piece in self.sound if (data := decode_media(piece)) is not None]
        if pieces:
            yield to_sound(b"".join(pieces), self.ident)
        yield from self.images


def _pieces_of(content: Json) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a content that is a list of parts, and whether each is a thought."""
    for item in as_list(content):
        part = as_object(item)
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            pieces = [(inner, False)] if isinstance(inner, str) else _pieces_of(inner)
            yield from ((text, True) for text, is_thought in pieces if text and not is_thought)
        elif text := as_text(item) or as_text(part.get("text")):
            yield text, False


def _reasoning_text(message: JsonObject) -> str:
    for name in _REASONING_FIELDS:
        if text := message.get(name):
            return as_text(text)
    return ""


def _add_parts(
    collected: _Said,
    details: list[JsonObject],
    calls: list[_PartialCall],
    reply: ReplyAccumulator,
    media: _Media | None,
) -> None:
    """Add thoughts, text and calls; a gateway's details replace the thoughts they describe."""
    reply.parts += [_to_detail(detail, reply.provider) for detail in details]
    if collected.beside and not details:
        reply.parts.append(Reasoning(text="".join(collected.beside), provider=reply.provider))
    for is_thought, pieces in collected.runs:
        if not is_thought:
            reply.add_text("".join(pieces))
        elif not details:
            reply.parts.append(Reasoning(text="".join(pieces), provider=reply.provider))
    if media is not None:
        reply.parts += media.to_parts()
    for call in calls:
        reply.add_call(call.to_call(reply.next_call_id(), reply.provider))


def _to_detail(detail: JsonObject, provider: str) -> Reasoning:
    """Make a thought from a gateway's detail, which must be sent back unchanged."""
    return Reasoning(
        text=as_text(detail.get("text")) or as_text(detail.get("summary")),
        signature=encode_json(detail).decode(),
        provider=provider,
        id=as_text(detail.get("id")),
        redacted=detail.get("type") == "reasoning.encrypted",
    )


def _thought_signature(piece: JsonObject) -> str | None:
    google = as_object(as_object(piece.get("extra_content")).get("google"))
    return as_text(google.get("thought_signature")) or None


def _scalar(value: Json) -> str | int | None:
    return value if isinstance(value, (str, int)) else None


# OpenAI refuses ids of more than 40 characters.
_ANY_ID: Final = re.compile(r".{1,40}", re.DOTALL)
_SHORT_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """The form of requests that one server accepts.

    Attributes:
        max_tokens: The name of the field for the maximum number of tokens to generate.
        seed: The name of the field for the seed.
        required: The word that makes the model call some tool.
        reasoning: How thinking is requested: by ``reasoning_effort``; by a ``reasoning`` object;
            by ``thinking`` and an effort; by ``enable_thinking``; or "" for not at all.
        reasoning_back: How earlier thoughts are sent back: in ``reasoning_content``, unchanged as
            ``reasoning_details``, as "thinking" parts, or "" for not at all.
        usage_option: Whether a stream reports usage only if ``stream_options`` requests it.
        schema: Whether the server accepts a JSON Schema for the answer. Otherwise a JSON object
            is requested, and the schema is put into the instructions.
        call_id: The pattern of call ids.
        efforts: The efforts that the server knows, the least first; another one is sent as the
            next higher, or as the last. Empty if it knows all of them.
        parallel: Whether the server accepts ``parallel_tool_calls``.
        hosted: The form of each tool that the server runs itself.
        cache: Fields that mark the stable prefix for the cache of a model behind a gateway.
        cached: How the names of the models begin that need these marks.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed: Literal["seed", "random_seed"] = "seed"
    required: Literal["required", "any"] = "required"
    reasoning: Literal["", "effort", "object", "thinking", "enable"] = "effort"
    reasoning_back: Literal["", "content", "details", "parts"] = ""
    usage_option: bool = True
    schema: bool = True
    call_id: re.Pattern[str] = _ANY_ID
    efforts: tuple[str, ...] = ()
    parallel: bool = True
    hosted: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    cache: JsonObject = field(default_factory=dict[str, Json])
    cached: str = ""

    def effort_of(self, reasoning: str | int) -> str:
        """Return *reasoning* as an effort that the server knows."""
        word = to_effort(reasoning)
        if not self.efforts or word in self.efforts:
            return word
        least = EFFORTS.index(word)
        return next((e for e in self.efforts if EFFORTS.index(e) >= least), self.efforts[-1])


PLAIN: Final = ChatDialect()
"""The dialect of an unknown server."""

_OPENAI = ChatDialect(max_tokens="max_completion_tokens")
_GATEWAY = ChatDialect(reasoning="object", reasoning_back="details")
_SEARCH = "openrouter:web_search"

DIALECTS: Final[dict[str, ChatDialect]] = {
    "openai": _OPENAI,
    "azure": _OPENAI,
    "groq": replace(
        _OPENAI,
        hosted={
            "web_search": {"type": "browser_search"},
            "code_execution": {"type": "code_interpreter"},
        },
    ),
    "cerebras": _OPENAI,
    "xai": _OPENAI,
    "openrouter": replace(
        _GATEWAY,
        hosted={"web_search": {"type": _SEARCH}},
        cache={"cache_control": {"type": "ephemeral"}},
        cached="anthropic/",
    ),
    "vercel-gateway": replace(
        _GATEWAY, cache={"providerOptions": {"gateway": {"caching": "auto"}}}
    ),
    "deepseek": ChatDialect(reasoning="thinking", reasoning_back="content", schema=False),
    "zai": ChatDialect(reasoning="thinking", reasoning_back="content", schema=False),
    "moonshot": ChatDialect(reasoning="", reasoning_back="content"),
    "alibaba": ChatDialect(reasoning="enable", schema=False),
    "cohere": ChatDialect(efforts=("none", "high"), parallel=False),
    "fireworks": ChatDialect(
        reasoning_back="content", efforts=("none", "low", "medium", "high", "xhigh")
    ),
    "mistral": ChatDialect(
        efforts=("none", "high"),
        seed="random_seed",
        required="any",
        reasoning_back="parts",
        usage_option=False,
        call_id=_SHORT_ID,
    ),
    "perplexity": ChatDialect(usage_option=False),
}


def find_dialect(provider: str) -> ChatDialect:
    """Return the dialect of *provider*, ``PLAIN`` if it is not in the table."""
    return DIALECTS.get(provider, PLAIN)


_CHOICES: Final = frozenset({"auto", "none", "required"})


class ChatEncoder(RequestEncoder):
    """A conversation in the form of Chat Completions.

    Args:
        provider: The provider whose dialect is used; for an unknown one it is ``PLAIN``.
        dialect: A dialect to use instead.
    """

    __slots__ = ("_dialect", "_first", "_messages", "_provider")

    def __init__(self, *, provider: str = "", dialect: ChatDialect | None = None) -> None:
        super().__init__()
        self._provider = provider
        self._dialect = dialect or find_dialect(provider)
        self._messages = bytearray()
        self._first = b""

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self._count += 1
        # One growing buffer: a body copies it once, however many messages there are.
        if self._messages:
            self._messages += b","
        self._messages += encode_wire(self._to_item(message))

    def _join(self, asked: Asked) -> bytes:
        between = b"," if self._first and self._messages else b""
        return b"".join((b'{"messages":[', self._first, between, self._messages, b"],", self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        model, system, tools, output_schema, settings, stream = asked
        fields: dict[str, object] = {"model": model}
        self._set_sampling(fields, settings)
        self._set_tools(fields, tools, settings)
        if output_schema is not None:
            system = self._set_schema(fields, output_schema, system)
        if stream:
            fields["stream"] = True
            if self._dialect.usage_option:
                fields["stream_options"] = {"include_usage": True}
        if settings.cache is True and model.startswith(self._dialect.cached):
            fields.update(self._dialect.cache)
        fields.update(settings.extra)
        self._first = encode_wire({"role": "system", "content": system}) if system else b""
        return splice(fields)

    def _set_sampling(self, fields: dict[str, object], settings: ModelSettings) -> None:
        settings_object = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            self._dialect.max_tokens: settings.max_tokens,
            "stop": settings.stop,
            self._dialect.seed: settings.seed,
        }
        fields.update(without_none(settings_object))
        if settings.reasoning is not None:
            fields.update(_to_reasoning_fields(settings.reasoning, self._dialect))

    def _set_tools(
        self, fields: dict[str, object], tools: tuple[ToolSpec, ...], settings: ModelSettings
    ) -> None:
        hosted = hosted_items(settings, self._dialect.hosted, self._provider or "the server")
        if not tools and not hosted:
            return
        fields["tools"] = [*hosted, *map(_to_tool, tools)]
        choice = settings.tool_choice
        if choice == "required":
            fields["tool_choice"] = self._dialect.required
        elif choice in _CHOICES:
            fields["tool_choice"] = choice
        elif choice is not None:
            named = {"name": to_wire_name(choice)}
            fields["tool_choice"] = {"type": "function", "function": named}
        if settings.parallel_tool_calls is not None and self._dialect.parallel:
            fields["parallel_tool_calls"] = settings.parallel_tool_calls

    def _set_schema(
        self, fields: dict[str, object], schema: JsonObject, system: str | None
    ) -> str | None:
        """Request an answer that follows *schema*, and return the instructions to send."""
        if not self._dialect.schema:
            fields["response_format"] = {"type": "json_object"}
            return join_system(system, SCHEMA_PROMPT + encode_wire(schema).decode())
        form = {"name": schema_name(schema), "schema": schema, "strict": is_strict_schema(schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return system

    def _to_item(self, message: Message) -> dict[str, object]:
        if message.role is _ASSISTANT:
            return self._to_assistant_item(message)
        item: dict[str, object] = {"role": message.role, "content": _to_content(message)}
        if message.role is _TOOL:
            item["tool_call_id"] = self._wire_id(message.tool_call_id or "")
        elif message.name:
            item["name"] = message.name
        return item

    def _to_assistant_item(self, message: Message) -> dict[str, object]:
        text, calls = message.text, message.tool_calls
        # Null content is refused unless there are calls.
        item: dict[str, object] = {"role": "assistant", "content": text or None}
        if calls:
            item["tool_calls"] = [self._to_call(call) for call in calls]
        elif not text:
            item["content"] = ""
        thoughts = [
            part
            for part in message.parts
            if isinstance(part, Reasoning) and part.provider == self._provider
        ]
        if thoughts:
            self._add_thoughts(item, thoughts, message)
        return item

    def _add_thoughts(
        self, item: dict[str, object], thoughts: list[Reasoning], message: Message
    ) -> None:
        match self._dialect.reasoning_back:
            # DeepSeek requires them in a tool loop and refuses them elsewhere.
            case "content" if message.tool_calls:
                item["reasoning_content"] = "".join(part.text for part in thoughts)
            case "details":
                signatures = [part.signature for part in thoughts if part.signature]
                item["reasoning_details"] = [parse_json(signature) for signature in signatures]
            case "parts":
                parts = [p for p in message.parts if p in thoughts or isinstance(p, Text)]
                item["content"] = sent(map(_to_said_part, parts))
            case _:
                pass

    def _to_call(self, call: ToolCall) -> dict[str, object]:
        function = {"name": to_wire_name(call.name), "arguments": arguments_text(call)}
        item: dict[str, object] = {
            "id": self._wire_id(call.id),
            "type": "function",
            "function": function,
        }
        if call.signature is not None and call.provider == self._provider:
            item["extra_content"] = {"google": {"thought_signature": call.signature}}
        return item

    def _wire_id(self, ident: str) -> str:
        return to_wire_id(ident, self._dialect.call_id)


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    function: dict[str, object] = {"name": to_wire_name(tool.name)}
    if tool.parameters:
        function["parameters"] = tool.parameters
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _to_reasoning_fields(reasoning: str | int, dialect: ChatDialect) -> dict[str, object]:
    off = reasoning in (0, "none")
    match dialect.reasoning:
        case "effort":
            return {"reasoning_effort": dialect.effort_of(reasoning)}
        case "object":
            if off:
                return {"reasoning": {"enabled": False}}
            key = "max_tokens" if isinstance(reasoning, int) else "effort"
            return {"reasoning": {key: reasoning}}
        case "thinking":
            if off:
                return {"thinking": {"type": "disabled"}}
            return {
                "thinking": {"type": "enabled"},
                "reasoning_effort": dialect.effort_of(reasoning),
            }
        case "enable":
            budget = {"thinking_budget": reasoning} if isinstance(reasoning, int) else {}
            return {"enable_thinking": False} if off else {"enable_thinking": True, **budget}
        case _:
            return {}


def _to_content(message: Message) -> str | list[object]:
    if isinstance(message.content, str):
        return message.content
    if all(isinstance(part, (Text, Reasoning)) for part in message.content):
        return message.text
    return sent(map(_to_part, message.content))


def _to_part(part: Part) -> object:
    return to_openai_part(part, "text", to_image=_to_image, to_file=_to_file)


def _to_said_part(part: Part) -> object:
    """Return a thought or text of the model as a part of its content, None if it is empty."""
    match part:
        case Text(text=text) if text:
            return {"type": "text", "text": text}
        case Reasoning(text=text) if text:
            return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
        case _:
            return None


def _to_image(part: Image) -> object:
    url = part.url
    if part.data is not None:
        url = to_data_url(part.data, part.media_type or "image/png")
    image = {"url": url, "detail": part.detail} if part.detail else {"url": url}
    return {"type": "image_url", "image_url": image}


def _to_file(part: File) -> object:
    if part.data is not None:
        address = to_data_url(part.data, part.media_type or "application/octet-stream")
        file = {"filename": part.name or "file", "file_data": address}
    elif part.id:
        file = {"file_id": part.id}
    else:
        return {"type": "text", "text": part.url or part.summary or part.name}
    return {"type": "file", "file": file}
