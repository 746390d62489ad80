"""A model that plays a script, from code or a JSON file."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import json_fault, kind_of
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin, Role
from upshot.contract.base.structs import JsonObject, unchecked
from upshot.contract.error import AgentError
from upshot.contract.message import Message, MessageList, Reasoning, Text
from upshot.contract.model_calls import (
    ModelInput,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
)
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import RateLimitState, Usage
from upshot.errors import Misuse
from upshot.models.prices import default_prices
from upshot.wire.decoding import with_output
from upshot.wire.encoding import to_delta
from upshot.wire.pricing import Price

Reply: TypeAlias = str | ToolCall | Sequence[ToolCall] | ModelResponse | AgentError
"""A text, one call, several calls, a whole response, or a failure."""

ScriptItem: TypeAlias = Reply | Callable[[Sequence[Message]], Reply | Awaitable[Reply]]
"""A reply, or a sync or async function of the messages that makes one."""

_WORDS = re.compile(r"\s*\S+\s*|\s+")
_POSITION = "position"
# Looked up once: accessing an enum member is slow in Python 3.11.
_REPLIES = (str, ToolCall, ModelResponse, AgentError)
_STOP = FinishReason.STOP
_TOOL_USE = FinishReason.TOOL_USE
# The items of a script are checked when it is made.
_make_response = unchecked(ModelResponse())
# Accepted instead of the parts.
_VIEWS: dict[str, Any] = {
    "content": str | None,
    "tool_calls": tuple[ToolCall, ...],
    "reasoning": tuple[Reasoning, ...],
}
_PLURAL = ("reply", "replies")


class ScriptedModel:
    """A model that plays a script: each call, including retries, gets the next reply.

    The model keeps its position, so a second run continues where the first one stopped. Concurrent
    runs share the replies in the order of their calls; with *per_conversation* each conversation
    gets the whole script.

    Args:
        script: The replies in order; or one function of the messages that answers every call.
        name: "provider:model" for logs.
        per_conversation: Whether every ``MessageList`` starts at the first reply. For messages in
            any other sequence, the position is the number of assistant messages in it.

    Attributes:
        calls: Every request so far, with its messages at that time.

    Raises:
        Misuse: An item cannot be a reply.
    """

    def __init__(
        self,
        script: Iterable[ScriptItem] | Callable[[Sequence[Message]], Reply | Awaitable[Reply]],
        *,
        name: str = "scripted:script",
        per_conversation: bool = False,
    ) -> None:
        self._every = script if callable(script) else None
        self._script: tuple[ScriptItem, ...] = () if callable(script) else _check_script(script)
        self._name = name
        self._is_named = not name.startswith("scripted:")
        self._per_conversation = per_conversation
        self._played = 0
        self._most_played = 0
        self.calls: list[ModelRequest] = []

    def __repr__(self) -> str:
        return f"ScriptedModel({self._name!r}, {self._played} of {len(self._script)} played)"

    @property
    def priced(self) -> bool:
        """True: its replies have a cost, or the price of the model in its name applies."""
        return True

    @property
    def price(self) -> Price | None:
        """The price of the model in its name, None if its name is not of another model."""
        return default_prices().find(self._name) if self._is_named else None

    @property
    def name(self) -> str:
        """ "provider:model"."""
        return self._name

    async def call(self, request: ModelInput) -> ModelResponse:
        """Return the next reply.

        Returns:
            The reply; an error with the number of replies if none is left.

        Raises:
            Exception: Whatever a function in the script raises; it is the caller's own code.
        """
        asked = ModelRequest.of(request)
        messages = asked.messages
        # A MessageList can return a fixed view of itself; anything else may change and is copied.
        kept = messages.so_far() if isinstance(messages, MessageList) else tuple(messages)
        self.calls.append(msgspec.structs.replace(asked, messages=kept))
        place = self._next_place(asked.messages)
        # A model that never waits would block everything else in the loop.
        await asyncio.sleep(0)
        if self._every is None and place >= len(self._script):
            return self._exhausted_response()
        item = self._script[place] if self._every is None else self._every
        if callable(item):
            made = item(asked.messages)
            item = await made if isawaitable(made) else made
        response = self._to_response(_check_reply(item), place)
        if self._is_named and response.cost is None and response.usage:
            response = await self._with_cost(response)
        return response if asked.output_schema is None else with_output(response)

    async def _with_cost(self, response: ModelResponse) -> ModelResponse:
        """Return *response* with the cost of its usage at the price of the model in its name."""
        prices = default_prices()
        if (loading := prices.load(self._name)) is not None:
            await loading
        cost = prices.cost_of(response, self._name, at=SYSTEM_CLOCK.now())
        return msgspec.structs.replace(response, cost=cost)

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Yield the next reply in pieces: text word by word, each call whole."""
        response = await self.call(request)
        for thought in response.reasoning:
            if thought.text:
                yield ReasoningDelta(text=thought.text)
        for word in _WORDS.findall(response.content or ""):
            yield TextDelta(text=word)
        for index, call in enumerate(response.tool_calls):
            yield to_delta(index, call)
        yield response

    def skip_played(
        self, replies: Iterable[ModelResponse], *, conversation: MessageList | None = None
    ) -> None:
        """Skip the replies that a resumed run has already played; never goes back.

        Args:
            replies: The run's responses of this model, including failed tries, as logged.
            conversation: The resumed run's conversation; needed only with *per_conversation*.
        """
        place = 0
        for reply in replies:
            # Replies made here have their position: earlier runs may have played some before.
            position = reply.provider_data.get(_POSITION)
            place = position if isinstance(position, int) else place + 1
        if self._per_conversation and conversation is not None:
            place = max(place, self._place_in(conversation))
            # Stored with the conversation, so that it lives as long.
            conversation.encoded[self] = place
        else:
            self._played = max(self._played, place)
        self._most_played = max(self._most_played, place)

    def assert_finished(self) -> None:
        """Check that every reply was played, with *per_conversation* by some conversation.

        Raises:
            AssertionError: Some replies are left.
        """
        left = 0 if self._every is not None else len(self._script) - self._most_played
        if left > 0:
            raise AssertionError(
                f"{self._name} has {left} of {len(self._script)} replies left to play"
            )

    def _next_place(self, messages: Sequence[Message]) -> int:
        if not self._per_conversation:
            place = self._played
            self._played = place + 1
        else:
            place = self._place_in(messages)
            if isinstance(messages, MessageList):
                messages.encoded[self] = place + 1
        self._most_played = max(self._most_played, place + 1)
        return place

    def _place_in(self, messages: Sequence[Message]) -> int:
        if isinstance(messages, MessageList):
            return cast("int", messages.encoded.get(self, 0))
        return sum(message.role is Role.ASSISTANT for message in messages)

    def _exhausted_response(self) -> ModelResponse:
        count = len(self._script)
        error = AgentError(
            ErrorCode.INVALID_REQUEST,
            f"the script of {self._name} is spent: it had {count} {_PLURAL[count != 1]}",
            origin=Origin.MODEL,
            details={"replies": count},
        )
        return ModelResponse(
            error=error, finish_reason=FinishReason.ERROR, provider_data=self._data(count)
        )

    def _to_response(self, reply: Reply, place: int) -> ModelResponse:
        if isinstance(reply, ModelResponse):
            return reply
        usage = Usage(api_calls=1, unmeasured_calls=1)
        data = self._data(place + 1)
        if isinstance(reply, AgentError):
            return ModelResponse(
                error=reply,
                finish_reason=FinishReason.ERROR,
                rate_limit=_rate_limit_of(reply),
                usage=usage,
                provider_data=data,
            )
        if isinstance(reply, str):
            parts_of_text = (Text(reply),) if reply else ()
            return _make_response(
                parts=parts_of_text, finish_reason=_STOP, usage=usage, provider_data=data
            )
        return _make_response(
            parts=(reply,) if isinstance(reply, ToolCall) else tuple(reply),
            finish_reason=_TOOL_USE,
            usage=usage,
            provider_data=data,
        )

    def _data(self, position: int) -> JsonObject:
        provider, _, model = self._name.partition(":")
        return {"provider": provider, "model": model, _POSITION: position}


def _check_script(script: Iterable[ScriptItem]) -> tuple[ScriptItem, ...]:
    if isinstance(script, str):
        raise Misuse(f"a script is a list of replies: give [{script!r}]")
    items = tuple(script)
    for place, item in enumerate(items):
        if not callable(item):
            _check_reply(item, f"item {place} of the script")
    return items


def _check_reply(item: object, what: str = "what a function in the script returned") -> Reply:
    if isinstance(item, _REPLIES):
        return item
    kind = f"of type {type(item).__name__}"
    if isinstance(item, list | tuple):
        calls = cast("Sequence[object]", item)
        if calls and all(isinstance(call, ToolCall) for call in calls):
            return cast("Sequence[ToolCall]", calls)
        kind = "a sequence that is empty or holds other things than ToolCalls"
    raise Misuse(
        f"{what} is {kind}: give a str, a ToolCall, a list of ToolCalls, a ModelResponse, an "
        "AgentError, or a function that returns one of these"
    )


def _rate_limit_of(error: AgentError) -> RateLimitState | None:
    if error.code != ErrorCode.RATE_LIMIT:
        return None
    wait_s = error.retry_after_s
    return RateLimitState(limited=True, retry_after=None if wait_s is None else math.ceil(wait_s))


_FORMS = (
    'a text, a call {"name": ..., "arguments": {...}}, a list of calls, '
    '{"error": {"code": ..., "message": ...}}, or the fields of a ModelResponse'
)


def open_script(where: str) -> ScriptedModel:
    """Make the model that plays the script *where*.

    Args:
        where: The path of a JSON file, or the JSON itself if it starts with "[" or a quotation
            mark: a list of replies, or one text. A reply is a text, a call
            ``{"name": ..., "arguments": {...}}`` (it gets an id unless it has one), a list of
            calls, ``{"error": {"code": ..., "message": ...}}``, or the fields of a
            ``ModelResponse`` such as content and usage.

    Raises:
        Misuse: There is no such file, or it is not a script.
    """
    inline = where.startswith(("[", '"'))
    what = "the script" if inline else f"the script {where!r}"
    if not where:
        raise Misuse('scripted: needs a script: write scripted:FILE.json or scripted:["Hello"]')
    script = _parse(where if inline else _read(where), what)
    if isinstance(script, str):
        script = [script]
    if not isinstance(script, list):
        raise Misuse(f"{what} is not a list: give a JSON list of replies; a reply is {_FORMS}")
    items = cast("list[object]", script)
    replies = [_to_reply(item, place, what) for place, item in enumerate(items)]
    return ScriptedModel(replies, name="scripted:script" if inline else f"scripted:{where}")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Misuse(f"cannot read the script {path!r}: {error.strerror or error}") from error


def _parse(data: bytes | str, what: str) -> object:
    if not data.strip():
        raise Misuse(f"{what} is empty: give a JSON list of replies")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Misuse(f"{what} is not JSON: {json_fault(error)}") from error


def _to_reply(item: object, place: int, what: str) -> Reply:
    try:
        if isinstance(item, str):
            return item
        if isinstance(item, list):
            calls = cast("list[object]", item)
            return [_to_call(call, f"call-{place}-{index}") for index, call in enumerate(calls)]
        if isinstance(item, dict):
            return _to_other(cast("dict[str, object]", item), place)
    except msgspec.ValidationError as error:
        raise Misuse(f"reply {place} of {what} cannot be read: {error}") from error
    raise Misuse(f"reply {place} of {what} is {kind_of(item)}: a reply is {_FORMS}")


def _to_other(fields: dict[str, object], place: int) -> Reply:
    if "name" in fields:
        return _to_call(fields, f"call-{place}")
    if set(fields) == {"error"}:
        return msgspec.convert(fields["error"], AgentError)
    unknown = sorted(set(fields) - {"kind", *_VIEWS, *ModelResponse.__struct_fields__})
    if unknown:
        raise msgspec.ValidationError(f"{unknown[0]!r} is not a field of a ModelResponse")
    rest = {name: value for name, value in fields.items() if name not in _VIEWS}
    response = msgspec.convert({"kind": "model_response", **rest}, ModelResponse)
    calls = fields.get("tool_calls")
    if isinstance(calls, list):
        calls = cast("list[object]", calls)
        named = [_with_id(call, f"call-{place}-{index}") for index, call in enumerate(calls)]
        fields = {**fields, "tool_calls": named}
    views = {
        name: msgspec.convert(fields[name], form) for name, form in _VIEWS.items() if name in fields
    }
    return (
        msgspec.structs.replace(response, parts=ModelResponse(**views).parts) if views else response
    )


def _to_call(call: object, ident: str) -> ToolCall:
    return msgspec.convert(_with_id(call, ident), ToolCall)


def _with_id(call: object, ident: str) -> object:
    if not isinstance(call, dict):
        return call
    return {"kind": "tool_call", "id": ident, **cast("dict[str, object]", call)}
