"""OpenAI Responses: the agents of an App as models, streamed or not.

A response is a run, and a chain of responses is a conversation. A run that waits for its user is a
completed response whose items ask the questions. The answer is sent as the input of the next
request, which continues the same response. A run that waits for staff stays in progress.

The ``sequence_number`` of an event encodes its place in the log and how much of an open text was
sent, so that any process can continue a stream for a reader that reconnects with
``starting_after``.

Source:
    https://platform.openai.com/docs/api-reference/responses and .../responses-streaming, and the
    official Python client 3.54, read November 2026.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeAlias, cast
from weakref import WeakValueDictionary

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from upshot.contract.agent_spec import AgentCard
from upshot.contract.base.enums import Effect, ErrorCode, FinishReason, Status
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Image, Message, Part, Text, mark_tainted
from upshot.contract.model_calls import Request
from upshot.contract.pending import Answer, AnyAnswer, PendingApproval, PendingQuestion
from upshot.contract.protocols import RunSummary
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import UNTRUSTED
from upshot.contract.usage import Usage
from upshot.contract.user import User
from upshot.entry.planning import new_run_id
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.serve.chats import Place, attachment, branch_after, from_data_url
from upshot.serve.permissions import Missing, from_scoped
from upshot.serve.public import (
    PublicEvent,
    asked_of_user,
    digest_of,
    files_in,
    public_events,
    public_run,
)
from upshot.serve.site import ERRORS, ServerSentEvent, Site, from_json, sse, status_of

DOOR = "responses"
ASK = "ask_user"
_ItemEvents: TypeAlias = "Iterator[tuple[int, JsonObject]]"

# How many numbers each place of the log has for its events. The first are for complete events; then
# comes the head of a text that starts after them, and one for each of its characters.
PLACE = 1 << 26
_MESSAGE = 6
# A reply shows at most so many images and sounds, each in two events.
_FILES = 64
_OPENED = _MESSAGE + 2 * _FILES
_CANCEL_S = 5.0
# The items that a revised attempt makes void.
_SAID = ("message", "image_generation_call")
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
    503: "server_error",
}
# Fields that are accepted and do not change what an agent does.
_IDLE = (
    *("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"),
    *("include", "metadata", "stream_options", "truncation", "parallel_tool_calls"),
)
_STATUS = {
    Status.COMPLETED: "completed",
    Status.INTERRUPTED: "cancelled",
    Status.CANCELED: "cancelled",
}
_NO_CARD = AgentCard()
# The last event of a stream, by the status of its response.
_LAST = {"completed": "response.completed", "failed": "response.failed"}


class _Fault(Exception):
    """A request that gets an error of the protocol."""

    def __init__(self, message: str, status: int = 400, *, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


_ANSWERED: tuple[type[Exception], ...] = (_Fault, HTTPException, *ERRORS)


class _Named(msgspec.Struct):
    id: str


class _Create(msgspec.Struct):
    model: str
    input: str | list[dict[str, Any]]
    stream: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _Named | None = None
    store: bool | None = None


# -- what is sent


def _read(body: bytes) -> _Create:
    """Return the request in a body; refuse fields that a client may not choose."""
    found: object = from_json(body)
    if not isinstance(found, dict):
        raise _Fault("the body must be a JSON object with model and input")
    given = cast("dict[str, Any]", found)
    for name, value in given.items():
        if name not in (*_Create.__struct_fields__, *_IDLE) and value not in (None, [], {}):
            message = f"{name} is not taken: the agent has its own. Leave it out."
            raise _Fault(message, param=name, code="unsupported_parameter")
    try:
        asked = msgspec.convert(given, _Create)
    except msgspec.ValidationError as error:
        raise _Fault(f"the request is wrong: {error}", code="invalid_value") from error
    if asked.store is False:
        raise _Fault("store must not be false: each run is kept", param="store")
    if asked.previous_response_id and asked.conversation:
        message = "give one of previous_response_id and conversation"
        raise _Fault(message, param="previous_response_id")
    return asked


def _conversation_of(asked: _Create) -> str:
    """Return the conversation that a request names; "" for none."""
    named = asked.conversation
    return named.id if isinstance(named, _Named) else named or ""


def _items_of(sent: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    items: list[Mapping[str, Any]] = (
        [{"role": "user", "content": sent}] if isinstance(sent, str) else [*sent]
    )
    if not items:
        raise _Fault("input is empty", param="input")
    return items


def _said_in(items: Sequence[Mapping[str, Any]], card: AgentCard) -> tuple[list[Message], Message]:
    """Return the earlier messages, and the user's new message, which comes last."""
    if any(map(_is_answer, items)):
        raise _Fault("nothing waits for an answer of yours there", 409, param="input")
    newest = [*takewhile(lambda item: item.get("role") == "user", reversed(items))][::-1]
    if not newest:
        raise _Fault("the last message of input must be the user's", param="input")
    past = items[: len(items) - len(newest)]
    now = Message("user", [part for one in newest for part in _message_of(one, card).parts])
    return [_message_of(one, card, is_past=True) for one in past], now


def _is_answer(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("mcp_approval_response", "function_call_output")


def _message_of(
    item: Mapping[str, Any], card: AgentCard = _NO_CARD, *, is_past: bool = False
) -> Message:
    """Return a user's message, or one of an earlier exchange, which is untrusted."""
    role, content = item.get("role"), item.get("content")
    if item.get("type", "message") != "message" or role not in ("user", "assistant"):
        named = item.get("type") if role is None else role
        raise _Fault(
            f"an item of input is {named!r}: only messages of users are taken, and answers "
            "to what a response asked",
            param="input",
        )
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not parts:
        raise _Fault("the content of a message must be a text or a list of parts", param="input")
    trust = UNTRUSTED if is_past else ""
    message = Message(
        "assistant" if role == "assistant" else "user",
        [_part_of(part, trust, card) for part in cast("list[object]", parts)],
    )
    return mark_tainted(message) if is_past else message


def _part_of(part: object, trust: str, card: AgentCard) -> Part:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return Text(text, trust=trust)
        case {"type": "input_image", "image_url": str(url)} if url.startswith(
            ("https://", "http://")
        ):
            if not any(one.startswith(("image/", "*/*")) for one in card.default_input_modes):
                message = "the agent takes no pictures: its card does not name them"
                raise _Fault(message, param="input")
            return Image(url=url)
        case {"type": "input_image", "image_url": str(url)} | {
            "type": "input_file",
            "file_data": str(url),
        }:
            name = str(cast("Mapping[str, Any]", part).get("filename") or "")
            try:
                return attachment(*from_data_url(url), name, card)
            except Misuse as error:
                raise _Fault(str(error), param="input") from None
        case _:
            raise _Fault(
                "a part of input must be an input_text, an input_image with an address or data, or "
                "an input_file with file_data",
                param="input",
            )


def _run_named(user: User, key: str) -> str:
    """Return the run id of a request that the user named with a key."""
    named = json.dumps([user.tenant, user.id, key])
    return f"run-{hashlib.sha256(named.encode()).hexdigest()[:16]}"


def _answers_of(
    items: Sequence[Mapping[str, Any]], asked: Sequence[PendingApproval | PendingQuestion]
) -> list[AnyAnswer]:
    """Return the answers in an input; plain text answers if one question is asked."""
    is_said = all(item.get("role") == "user" for item in items)
    if is_said and len(asked) == 1 and isinstance(asked[0], PendingQuestion):
        return [Answer(asked[0].id, "\n".join(_message_of(item).text for item in items))]
    return [_answer_of(item, asked) for item in items]


def _answer_of(
    item: Mapping[str, Any], asked: Sequence[PendingApproval | PendingQuestion]
) -> AnyAnswer:
    """Return one answer; the digest binds an approval to the call that was shown."""
    named = item.get("approval_request_id") or item.get("call_id")
    match next((one for one in asked if _id_of(one) == named), None), item.get("type"):
        case PendingApproval() as one, "mcp_approval_response":
            if not isinstance(item.get("approve"), bool):
                raise _Fault("approve must be true or false", param="input")
            return one.approve() if item["approve"] else one.deny(str(item.get("reason") or ""))
        case PendingQuestion() as one, "function_call_output":
            return Answer(one.id, _value_of(one, item.get("output")), digest=digest_of(one))
        case _:
            known = ", ".join(map(_id_of, asked)) or "nothing"
            raise _Fault(
                f"the response waits for an answer to {known}: send an item of type "
                "mcp_approval_response with approval_request_id, or function_call_output "
                "with call_id",
                param="input",
            )


def _value_of(question: PendingQuestion, sent: object) -> Json:
    """Return the value of an answer, which is sent as text."""
    is_text = question.schema is None or question.schema.get("type") == "string"
    if is_text or not isinstance(sent, str):
        return cast("Json", sent)
    try:
        return cast("Json", json.loads(sent))
    except ValueError:
        raise _Fault(f"the answer to {question.id} must be JSON", param="input") from None


def _id_of(item: PendingApproval | PendingQuestion) -> str:
    """Return the id of a question: its digest if it has one, which binds the answer to it."""
    if isinstance(item, PendingApproval):
        return f"mcpr_{item.digest}"
    return digest_of(item) or item.id


# -- the events of a response


class Fold:
    """Turns the public events of a run into events of its response.

    Args:
        run_id: The run.
        after: The number of the last event that the reader has.

    Attributes:
        items: The output so far.
        number: The number after those of an end.
    """

    def __init__(self, run_id: str, after: int) -> None:
        self.items: list[JsonObject] = []
        self._id = run_id
        self._after = after
        self._count = 0
        self._tools: dict[str, tuple[int, JsonObject]] = {}
        # The current run of the chain, the number of its first place, and the last place of all.
        self._run, self._base, self._place, self._end = "", 0, 0, -1
        self.number: int = 0
        # The text that the reader has of the open message; None if that is not known.
        self._is_open, self._has_part, self._shown = False, False, cast("str | None", "")
        self._is_void, self._length, self._length_at = False, 0, -1
        self._files: list[JsonObject] = []

    def add(self, event: PublicEvent, answer: str = "") -> _ItemEvents:
        """Yield the events for a public event, with their numbers.

        Args:
            event: The event.
            answer: The answer of the run, for its last event.
        """
        run, _, place = str(event["cursor"]).partition("/")
        if run != self._run:
            self._run, self._base = run, self._place
        self._place = self._base + int(place.partition(".")[0])
        self._reopen()
        first = self._place * PLACE
        match event:
            case {"kind": "text", "text": str(text)}:
                yield from self._text_events(first, text)
            case {"kind": "message", "text": str(text)}:
                if text:
                    yield from self._message(first, text)
                self._files = files_in(event)
                yield from self._file_events(first + _MESSAGE, self._files)
            case {"kind": "reset"}:
                self._is_void, self._files = self._is_open, []
                if "attempt" in event:
                    self.items = [one for one in self.items if one["type"] not in _SAID]
            case {"kind": "tool", "state": "started"}:
                yield from self._tool_start_events(first, event)
            case {"kind": "tool", "state": "done" | "failed" as state, "id": str(id)}:
                yield from self._tool_end_events(first, id, str(state))
            case {"kind": "end"}:
                self._end = self._place
                yield from self._end_events(first, event, answer)
            case _:
                pass

    def _reopen(self) -> None:
        """Reopen the message that was open where the reader left off, unless it is sent again."""
        place, last_part = divmod(self._after, PLACE)
        if self._after < 0 or last_part < _OPENED or self._place <= place or place == self._end:
            return
        if not self._is_open:
            # It is not known which text the reader has, so the end of the message sends all of it.
            self._is_open, self._has_part = True, last_part > _OPENED
            self._shown, self._is_void = None, True
        self._after = -1

    def _text_events(self, first: int, text: str) -> _ItemEvents:
        if not self._is_open:
            yield first + _OPENED, self._added_event(self._message_item())
            yield first + _OPENED + 1, self._part("added", "")
            self._is_open, self._has_part, self._shown, self._is_void = True, True, "", False
        if self._length_at != first:
            self._length_at, self._length = first, 0
        before = self._length
        self._length += len(text)
        if self._is_void or self._shown is None:
            return
        self._shown += text
        # A reader may have the first part of it.
        had = max(0, min(self._after - first - _OPENED - 1 - before, len(text)))
        delta = self._event("output_text.delta", delta=text[had:], logprobs=[])
        yield first + _OPENED + 1 + self._length, delta

    def _message(self, first: int, text: str) -> _ItemEvents:
        if not self._is_open:
            yield first, self._added_event(self._message_item())
        if not (self._is_open and self._has_part):
            yield first + 1, self._part("added", "")
        shown = self._shown if self._is_open else ""
        if shown is not None and text.startswith(shown) and text != shown:
            yield first + 2, self._event("output_text.delta", delta=text[len(shown) :], logprobs=[])
        yield first + 3, self._event("output_text.done", text=text, logprobs=[])
        yield first + 4, self._part("done", text)
        item = self._message_item("completed", text)
        yield first + 5, self._done_event(self._count, item)
        self._close(item)

    def _file_events(self, number: int, files: Sequence[JsonObject]) -> _ItemEvents:
        """Yield images as items, and sound as an event that is in no output."""
        for file in files[:_FILES]:
            kind, data = str(file["media_type"]), file.get("data")
            if kind.startswith("image/") and data:
                item: JsonObject = {"type": "image_generation_call", "result": None}
                item |= {"id": f"ig_{self._count}_{self._id}", "status": "in_progress"}
                yield number, self._added_event({**item})
                item |= {"status": "completed", "result": data}
                yield number + 1, self._done_event(self._count, item)
                self._close(item)
            elif kind.startswith("audio/") and data:
                yield number, {"type": "response.audio.delta", "delta": data}
                yield number + 1, {"type": "response.audio.done"}
            number += 2

    def _close(self, item: JsonObject | None) -> None:
        self.items += [] if item is None else [item]
        self._count += 1
        self._is_open, self._has_part, self._shown, self._is_void = False, False, "", False

    def _tool_start_events(self, first: int, event: PublicEvent) -> _ItemEvents:
        item: JsonObject = {
            "type": "mcp_call",
            "id": f"mcp_{self._count}_{self._id}",
            "name": event["name"],
            "server_label": "upshot",
            "arguments": json.dumps(event.get("arguments", {}), ensure_ascii=False),
            "status": "in_progress",
        }
        self._tools[str(event["id"])] = self._count, item
        yield first, self._added_event(item)
        self._count += 1

    def _tool_end_events(self, first: int, id: str, state: str) -> _ItemEvents:
        if id in self._tools:
            index, item = self._tools.pop(id)
            item = {**item, "status": {"done": "completed"}.get(state, state)}
            yield first, self._done_event(index, item)
            self.items.append(item)

    def _end_events(self, first: int, event: PublicEvent, answer: str) -> _ItemEvents:
        if self._is_open:
            # The reply was cut off; its text is not part of the output.
            yield (
                first,
                self._done_event(self._count, self._message_item("incomplete", self._shown or "")),
            )
            self._close(None)
        number = first + _OPENED
        for id in [*self._tools]:
            for _, sent in self._tool_end_events(number, id, "incomplete"):
                yield number, sent
                number += 1
        messages = [one for one in self.items if one["type"] == "message"]
        if answer and (not messages or _text_in(messages[-1]) != answer):
            for extra, sent in self._message(number, answer):
                yield extra, sent
            number += _OPENED
        if (files := files_in(event)) != self._files:
            yield from self._file_events(number, files)
            number += 2 * _FILES
        for question in cast("list[JsonObject]", event.get("questions", [])):
            item = _question_item(question)
            yield number, self._added_event({**item})
            yield number + 1, self._done_event(self._count, item)
            self._close(item)
            number += 2
        self.number = number

    def _message_item(self, status: str = "in_progress", text: str | None = None) -> JsonObject:
        content: list[Json] = [] if text is None else [_text_part(text)]
        id = f"msg_{self._count}_{self._id}"
        head: JsonObject = {"type": "message", "id": id, "role": "assistant"}
        return {**head, "status": status, "content": content}

    def _event(self, kind: str, **more: Any) -> JsonObject:
        """Return an event of the open message."""
        id = f"msg_{self._count}_{self._id}"
        head: JsonObject = {"type": f"response.{kind}", "item_id": id}
        return {**head, "output_index": self._count, "content_index": 0, **more}

    def _part(self, word: str, text: str) -> JsonObject:
        return self._event(f"content_part.{word}", part=_text_part(text))

    def _added_event(self, item: JsonObject) -> JsonObject:
        kind = "response.output_item.added"
        return {"type": kind, "output_index": self._count, "item": item}

    def _done_event(self, index: int, item: JsonObject) -> JsonObject:
        return {"type": "response.output_item.done", "output_index": index, "item": item}


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_in(item: JsonObject) -> Json:
    return cast("list[JsonObject]", item["content"])[0]["text"]


def _question_item(question: JsonObject) -> JsonObject:
    """Return a question as an item: an approval, or a call that the client answers."""
    if question["kind"] == "approval":
        return {
            "type": "mcp_approval_request",
            "id": f"mcpr_{question['digest']}",
            "name": question["tool"],
            "server_label": "upshot",
            "arguments": json.dumps(question["arguments"], ensure_ascii=False),
        }
    asked = {"question": question["question"], "choices": question["choices"]}
    named = question.get("digest") or question["id"]
    return {
        "type": "function_call",
        "id": f"fc_{named}",
        "call_id": named,
        "name": ASK,
        "arguments": json.dumps(asked, ensure_ascii=False),
        "status": "completed",
    }


def _usage_of(usage: Usage) -> JsonObject | None:
    """Return the token usage; None if it is not known."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens,
    }


def _outcome_of(run: RunSummary, result: AgentResult[Json] | None) -> JsonObject:
    """Return the status of a response, and the fields that go with it."""
    cut: Json = None
    error: JsonObject | None = None
    if result is None or (result.pending and not asked_of_user(result.pending)):
        status = "queued" if run.status == "queued" else "in_progress"
    elif result.pending:
        status = "completed"
    elif result.status == Status.COMPLETED and result.finish_reason == FinishReason.LENGTH:
        status, cut = "incomplete", "max_output_tokens"
    elif (
        result.status == Status.COMPLETED and result.finish_reason == FinishReason.CONTENT_FILTER
    ) or (result.error is not None and result.error.code == ErrorCode.CONTENT_FILTER):
        status, cut = "incomplete", "content_filter"
    else:
        status = _STATUS.get(result.status, "failed")
        if status == "failed" and result.error is not None:
            is_limit = result.error.code == ErrorCode.RATE_LIMIT
            code = "rate_limit_exceeded" if is_limit else "server_error"
            error = {"code": code, "message": str(result.error.code)}
    return {"status": status, "error": error, "incomplete_details": cut and {"reason": cut}}


def _metadata_of(result: AgentResult[Json] | None) -> JsonObject:
    """Return metadata that says if an effect is unknown, which the status cannot say."""
    is_unknown = result is not None and result.effect is Effect.UNKNOWN
    return {"effect": "unknown"} if is_unknown else {}


def _answer_in(result: AgentResult[Json]) -> str:
    output = result.output if result.content is None else result.content
    if output is None or not result.committed:
        return ""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _is_now(event: PublicEvent, result: AgentResult[Json]) -> bool:
    """Whether an end event belongs to *result*, and the client must act now."""
    if str(event["cursor"]).partition("/")[0] != result.run_id:
        return False
    if event["status"] != Status.INPUT_REQUIRED:
        return not result.pending
    shown = cast("list[JsonObject]", event.get("questions", []))
    asked = {(one["id"], one.get("digest", "")) for one in shown}
    waits = asked_of_user(result.pending)
    return bool(asked) and asked == {(one.id, digest_of(one)) for one in waits}


# -- responses


class Responses:
    """The runs of a site, as responses.

    Args:
        site: The site.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        # If two requests continue the same response at once, one of them starts a branch.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, request: HttpRequest, user: User) -> Response:
        """``POST /v1/responses``."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise _Fault("the Content-Type must be application/json", 415)
        asked = _read(await request.body())
        handle, after = await self._start_or_answer(
            user, asked, request.headers.get("idempotency-key")
        )
        if asked.stream:
            return sse(_to_sse(self._events(handle, after, is_new=True)))
        if not asked.background:
            await handle.result()
        return JSONResponse(await self._current_response(handle))

    async def get(self, request: HttpRequest, user: User) -> Response:
        """``GET /v1/responses/{id}``."""
        handle = await self._find_run(user, request.path_params["id"])
        if request.query_params.get("stream") != "true":
            return JSONResponse(await self._current_response(handle))
        after = request.query_params.get("starting_after", "-1")
        if not (after == "-1" or (after.isascii() and after.isdigit() and len(after) < 19)):
            raise _Fault(
                "starting_after must be the sequence_number of an event", param="starting_after"
            )
        return sse(_to_sse(self._events(handle, int(after), is_new=int(after) < PLACE)))

    async def cancel(self, request: HttpRequest, user: User) -> Response:
        """``POST /v1/responses/{id}/cancel``; a response that has ended stays as it is."""
        handle = await self._find_run(user, request.path_params["id"], "operate")
        await handle.cancel()
        await handle.result(_CANCEL_S)
        return JSONResponse(await self._current_response(handle))

    async def _find_run(self, user: User, id: str, need: Any = "see") -> RunHandle:
        try:
            return await public_run(self._site, user, id, need)
        except Missing:
            raise _Fault(f"there is no response {id[:80]!r}", 404) from None

    async def _start_or_answer(
        self, user: User, asked: _Create, key: str | None
    ) -> tuple[RunHandle, int]:
        """Return the run that a request starts or answers, and the last number before that."""
        if asked.model not in self._site.app.agents:
            known = ", ".join(self._site.app.agents)
            raise _Fault(
                f"there is no model {asked.model[:80]!r}: there are {known}",
                404,
                param="model",
                code="model_not_found",
            )
        run_id = new_run_id() if key is None else _run_named(user, key)
        async with self._turns.setdefault(asked.previous_response_id or run_id, asyncio.Lock()):
            return await self._turn(user, asked, run_id, key)

    async def _turn(
        self, user: User, asked: _Create, run_id: str, key: str | None
    ) -> tuple[RunHandle, int]:
        """See ``_start_or_answer``."""
        items = _items_of(asked.input)
        known = await self._site.sees(user, run_id) if key is not None else False
        # If it is resent, submitting it checks whether it is the same request.
        last = None if known else await self._last(user, asked)
        result = None if last is None else await last.result(0)
        if last is not None and result is not None and result.pending:
            return await self._answer_run(user, last, result, items)
        past, message = _said_in(items, self._site.app.agents[asked.model].card or _NO_CARD)
        if past and (last is not None or asked.previous_response_id):
            raise _Fault("a conversation knows itself what was said before: send what is new")
        place = await self._place(asked, run_id, past, known=known, user=user)
        handle = await self._site.submit(
            user,
            asked.model,
            Request(message, run_id=run_id),
            conversation=place.conversation,
            key=key,
            history=place.history or (),
        )
        return handle, -1

    async def _last(self, user: User, asked: _Create) -> RunHandle | None:
        """Return the turn that a request continues; None if it starts a conversation."""
        if asked.previous_response_id:
            return await self._find_run(user, asked.previous_response_id)
        conversation = _conversation_of(asked)
        last = await self._newest(user, conversation) if conversation else ""
        return await self._find_run(user, last) if last else None

    async def _newest(self, user: User, conversation: str) -> str:
        """Return the last turn of a conversation; "" for none."""
        runs = await self._site.runs_of(user, conversation=conversation)
        return next((run.turn or run.run_id for run in runs if not run.parent_run_id), "")

    async def _place(
        self, asked: _Create, run_id: str, past: Sequence[Message], *, known: bool, user: User
    ) -> Place:
        """Return where a message belongs; after any but the last response it starts a branch."""
        previous = asked.previous_response_id
        if not previous:
            return Place(_conversation_of(asked) or run_id.replace("run", "conv"), past)
        if not (conversation := (await self._site.summary(previous)).context_id):
            raise _Fault(f"{previous} belongs to no conversation", 409)
        if known:
            is_next = (await self._site.summary(run_id)).context_id == conversation
        else:
            is_next = await self._newest(user, conversation) == previous
        if is_next:
            return Place(conversation)
        return await branch_after(self._site, previous, run_id)

    async def _answer_run(
        self,
        user: User,
        handle: RunHandle,
        result: AgentResult[Json],
        items: Sequence[Mapping[str, Any]],
    ) -> tuple[RunHandle, int]:
        """Answer a run with an input; return the run and the last number before that."""
        asked = asked_of_user(result.pending)
        if not asked:
            raise _Fault(f"{handle.id} waits for somebody else, who answers elsewhere", 409)
        await self._find_run(user, handle.id, "operate")
        answers = _answers_of(items, asked)
        if (now := await self._last_event(handle)) is None:
            raise _Fault("the answer came too late: the response goes on already", 409)
        await self._site.answer_in_time(user, handle.id, answers, door=DOOR)
        return handle, cast("int", now["sequence_number"])

    async def _last_event(self, handle: RunHandle) -> JsonObject | None:
        """Return the last event of a response that has ended or asks its user, or None."""
        result = await handle.result(0)
        if result is None or (result.pending and not asked_of_user(result.pending)):
            return None
        events = [event async for event in self._events(handle, -1, until_now=True)]
        return events[-1] if "response" in events[-1] else None

    async def _current_response(self, handle: RunHandle) -> JsonObject:
        """Return the response now; it has output only if it has ended or asks its user."""
        last = await self._last_event(handle)
        if last is None:
            return await self._response(handle, None, [])
        return cast("JsonObject", last["response"])

    async def _events(
        self, handle: RunHandle, after: int, *, is_new: bool = False, until_now: bool = False
    ) -> AsyncGenerator[JsonObject]:
        """Yield the events of a response after a number, until it ends or asks its user.

        Args:
            handle: The run.
            after: The number, -1 for all.
            is_new: Whether a stream starts there, with the response as it is.
            until_now: Whether to stop where the run has continued after a park.
        """
        fold = Fold(handle.id, after)
        if is_new and after < PLACE:
            for begun in (await self._begin(handle, -1, []))[after + 1 :]:
                yield begun
        async for event in public_events(self._site.app, handle):
            is_end = event["kind"] == "end"
            result = await handle.result(0) if is_end else None
            is_last = result is not None and _is_now(event, result)
            answer = _answer_in(result) if is_last and result is not None else ""
            for number, sent in fold.add(event, answer):
                if number > after:
                    yield {**sent, "sequence_number": number}
            if is_last and fold.number > after:
                response = await self._response(handle, result, fold.items)
                kind = _LAST.get(str(response["status"]), "response.incomplete")
                yield {"type": kind, "sequence_number": fold.number, "response": response}
            if is_last or (is_end and until_now and result is None):
                return
            if is_end and is_new and after == fold.number:
                for begun in await self._begin(handle, after, fold.items):
                    yield begun

    async def _begin(
        self, handle: RunHandle, after: int, output: Sequence[JsonObject]
    ) -> list[JsonObject]:
        """Return the first events of a stream that starts after a number."""
        response = await self._response(handle, None, output)
        return [
            {"type": f"response.{word}", "sequence_number": after + place, "response": response}
            for place, word in enumerate(("created", "in_progress"), 1)
        ]

    async def _response(
        self, handle: RunHandle, result: AgentResult[Json] | None, output: Sequence[JsonObject]
    ) -> JsonObject:
        """Return a response; without a result it is in progress."""
        run = await self._site.summary(handle.id)
        named = from_scoped((run.owner, run.tenant), run.context_id)
        begun = run.started_at or run.updated_at
        ended = None if result is None else result.ended_at
        return {
            "id": handle.id,
            "object": "response",
            "created_at": 0 if begun is None else int(begun.timestamp()),
            "completed_at": None if ended is None else int(ended.timestamp()),
            "model": run.agent_id,
            "output": [*output],
            "usage": None if result is None else _usage_of(result.usage),
            "conversation": {"id": named} if named else None,
            "instructions": None,
            "metadata": _metadata_of(result),
            "parallel_tool_calls": True,
            "store": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            **_outcome_of(run, result),
        }


# -- routes


Call: TypeAlias = Callable[[HttpRequest, User], Awaitable[Response]]


def routes(site: Site) -> list[Route]:
    """Return the routes of the door."""
    responses = Responses(site)

    def with_errors(call: Call) -> Callable[[HttpRequest], Awaitable[Response]]:
        async def answer(request: HttpRequest) -> Response:
            try:
                return await call(request, await site.user(request))
            except _ANSWERED as error:
                return _error(error)

        return answer

    one = "/v1/responses/{id}"
    return [
        Route("/v1/responses", with_errors(responses.create), methods=["POST"]),
        Route(one, with_errors(responses.get), methods=["GET"]),
        Route(f"{one}/cancel", with_errors(responses.cancel), methods=["POST"]),
    ]


def _error(error: Exception) -> Response:
    """Return an error in the form of the protocol."""
    fault = error if isinstance(error, _Fault) else _Fault(str(error), status_of(error))
    message = error.detail if isinstance(error, HTTPException) else str(fault)
    form = refusal(fault.status, message, param=fault.param, code=fault.code)
    return JSONResponse(form, fault.status)


def refusal(status: int, message: str, *, param: str = "", code: str = "") -> JsonObject:
    """Return a sentence as an error in the form of the protocol."""
    kind = _KINDS.get(status, "invalid_request_error")
    form: JsonObject = {
        "message": message,
        "type": kind,
        "param": param or None,
        "code": code or None,
    }
    return {"error": form}


REFUSALS = {"/v1/": refusal}


async def _to_sse(events: AsyncGenerator[JsonObject]) -> AsyncGenerator[ServerSentEvent]:
    async for event in events:
        number = str(event["sequence_number"])
        yield ServerSentEvent(json.dumps(event), event=str(event["type"]), id=number)
