"""Conversations as Gemini and Vertex AI want them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Final, cast

import msgspec

from ..contract import (
    Audio,
    Data,
    File,
    Image,
    JsonObject,
    Message,
    ModelSettings,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    Unknown,
)
from .chat import CUSTOM_INPUT
from .document import parse_object
from .transcript import (
    SCHEMA_PROMPT,
    Asked,
    arguments_of,
    encode_wire,
    join_system,
    splice,
)

__all__ = ["GenerateTranscript"]

_VERSION: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?![\d.])")
_THINKS_FROM: Final = (2, 5)
_LEVELS_FROM: Final = (3, 0)
_BUDGETS: Final = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 24576}
# The Pro models cannot be kept from thinking.
_LEAST_BUDGET_OF_PRO: Final = 128
_PRO_LEVELS: Final = {"none": "low", "minimal": "low", "xhigh": "high"}
_LEVELS: Final = {"none": "minimal", "xhigh": "high"}
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
# What these models take in place of a signature for a call that they did not make themselves.
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


class GenerateTranscript:
    """A conversation in the form of generateContent.

    Turns of one role that follow one another, such as several tool results, are one turn on the
    wire; the last one stays open until the role changes. The model and whether the reply shall be
    streamed stand in the address of this surface, not in the body; the surface has no field for
    ``parallel_tool_calls``.

    Args:
        provider: Whose signatures are sent back; those of others are dropped. A name with
            "vertex" in it is sent no ids of calls.
    """

    __slots__ = (
        "_asked",
        "_called",
        "_early",
        "_names",
        "_provider",
        "_rest",
        "_role",
        "_turns",
        "_unsigned",
        "count",
    )

    def __init__(self, *, provider: str = "") -> None:
        self.count: int = 0
        self._provider = provider
        self._early: list[str] = []
        self._names: dict[str, str] = {}
        self._role = ""
        # All turns, without the end of the last one.
        self._turns = bytearray()
        self._called = False
        self._unsigned: list[int] = []
        self._asked: Asked | None = None
        self._rest = b""

    def append(self, message: Message) -> None:
        """Encode *message* and keep its bytes."""
        self.count += 1
        if message.role is Role.SYSTEM and not self._role:
            # The surface has no such role: what comes first joins the instructions.
            self._early.append(message.text)
            self._asked = None
            return
        role = "model" if message.role is Role.ASSISTANT else "user"
        for part in self._to_parts(message):
            self._add(role, part)

    def body(
        self,
        *,
        model: str,
        system: str | None,
        tools: tuple[ToolSpec, ...],
        output_schema: JsonObject | None,
        settings: ModelSettings,
        stream: bool,
    ) -> bytes:
        """Join what is kept to the body of one request; see :class:`Transcript`."""
        asked = Asked(model, system, tools, output_schema, settings, stream)
        # Turns are mostly asked alike. Only the free fields may have been changed in place.
        if settings.extra or asked != self._asked:
            self._asked = None
            self._rest = self._encode_rest(asked)
            self._asked = asked
        pieces = self._signed() if _version(model) >= _LEVELS_FROM else [self._turns]
        end = b"]}]," if self._turns else b"],"
        return b"".join((b'{"contents":[', *pieces, end, self._rest))

    def _encode_rest(self, asked: Asked) -> bytes:
        """What stands beside the turns."""
        model, system, tools, output_schema, settings, _ = asked
        version = _version(model)
        config = _to_config(settings, model, version)
        fields: dict[str, object] = {"generationConfig": config}
        system = join_system(system, *self._early)
        if output_schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = output_schema
            if tools and (0, 0) < version < _LEVELS_FROM:
                # Older models take tools or a form of the answer, but not both.
                del config["responseMimeType"], config["responseJsonSchema"]
                system = join_system(system, SCHEMA_PROMPT + encode_wire(output_schema).decode())
        _set_tools(fields, tools, settings)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        _merge(fields, settings.extra)
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
            # The first call of a turn is the one that is signed.
            if not self._called and "thoughtSignature" not in part:
                self._unsigned.append(len(self._turns) - 1)
            self._called = True

    def _signed(self) -> Iterator[bytes]:
        """The turns, with a stand-in where a call has no signature."""
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
        signature = ""
        for part in message.parts:
            if isinstance(part, Reasoning):
                kept = part.provider == self._provider and part.signature
                if kept and part.text:
                    yield {"text": part.text, "thought": True, "thoughtSignature": part.signature}
                elif kept and message.role is Role.ASSISTANT:
                    # The signature of what was said, not of a thought.
                    signature = part.signature or ""
            elif (item := _to_part(part)) is not None:
                if signature:
                    item["thoughtSignature"], signature = signature, ""
                yield item
        if signature:
            yield {"text": "", "thoughtSignature": signature}
        for call in message.tool_calls:
            yield self._to_call(call)

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
        # The surface goes by the name of the function.
        name = message.name or self._names.get(ident, "") or "tool"
        text = "".join(
            part.text if isinstance(part, Text) else encode_wire(part.data).decode()
            for part in message.parts
            if isinstance(part, (Text, Data))
        )
        # It has to be an object; "output" is what the documentation calls what is none.
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
    fields: dict[str, object], tools: tuple[ToolSpec, ...], settings: ModelSettings
) -> None:
    if not tools:
        return
    fields["tools"] = [{"functionDeclarations": [_to_tool(tool) for tool in tools]}]
    choice = settings.tool_choice
    if choice is None:
        return
    calling: dict[str, object] = {"mode": _MODES.get(choice, "ANY")}
    if choice not in _MODES:
        calling["allowedFunctionNames"] = [choice]
    fields["toolConfig"] = {"functionCallingConfig": calling}


def _version(model: str) -> tuple[int, int]:
    """The version in a model's name, (0, 0) where it tells none."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _to_config(settings: ModelSettings, model: str, version: tuple[int, int]) -> dict[str, object]:
    told = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "maxOutputTokens": settings.max_tokens,
        "stopSequences": settings.stop,
        "seed": settings.seed,
    }
    config: dict[str, object] = {name: v for name, v in told.items() if v is not None}
    # Models before these do not think, and refuse to be asked.
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


def _merge(fields: dict[str, object], extra: JsonObject) -> None:
    """Put *extra* into *fields*; an object joins the one that is there, and wins over it."""
    for name, value in extra.items():
        known = fields.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            fields[name] = {**cast("dict[str, object]", known), **value}
        else:
            fields[name] = value


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    item: dict[str, object] = {"name": tool.name}
    if tool.description:
        item["description"] = tool.description
    if tool.parameters:
        item["parametersJsonSchema"] = tool.parameters
    return item


def _to_part(part: Part) -> dict[str, object] | None:
    """One part of a turn, None for what is not sent."""
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
        case Reasoning():
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
        # The service fetches addresses, and this is none.
        return {"inlineData": {"mimeType": found[1] or fallback, "data": found[2]}}
    file = {"fileUri": url}
    suffix = _SUFFIX.search(url)
    if kind := media_type or _TYPES.get(suffix[1].lower() if suffix else "", ""):
        file["mimeType"] = kind
    return {"fileData": file}
