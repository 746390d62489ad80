"""The UI message stream of the AI SDK: each agent of an App behind ``useChat``.

``POST /ui/{agent}`` accepts what the SDK's ``DefaultChatTransport`` sends and answers with chunks
as server-sent events. ``GET /ui/{agent}/{chat}/stream`` follows the run in progress, and ``GET
/ui/{agent}/{chat}`` returns the messages of a chat for a page that reloads.

A chat is a conversation, and the id of an answer is the id of its run. Only the last message that
is sent is used; see ``serve.chats``.

Source:
    AI SDK 7.0, "Stream Protocols" and ``uiMessageChunkSchema`` of the package ``ai`` 7.0.173, read
    November 2026.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Literal

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from upshot.contract.agent_spec import AgentCard
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import decode, encode
from upshot.contract.message import File, Image, Message, Text
from upshot.contract.pending import Answer, AnyAnswer, Approve, Deny
from upshot.contract.protocols import RunSummary
from upshot.contract.user import User
from upshot.entry.run_handle import RunHandle
from upshot.errors import JournalError, Misuse
from upshot.serve.chats import (
    SentMessage,
    Writer,
    at_questions,
    attachment,
    begin_turn,
    card_of,
    from_data_url,
    ids_of,
    is_of,
    newest_of,
    request_of,
    until_asked,
)
from upshot.serve.permissions import Differs
from upshot.serve.public import PublicEvent, public_events, public_run, url_of
from upshot.serve.site import ServerSentEvent, Site, sse, to_json

DOOR = "ui"
# A question of the agent is shown as a call of this tool, which the page answers.
ASK = "ask_user"
# Marks a call that the page must not make.
_OURS: JsonObject = {"providerExecuted": True}
_HEADER = "x-vercel-ai-ui-message-stream"
_FINISH = {"completed": "stop", "input_required": "tool-calls", "failed": "error"}


class _UIMessage(msgspec.Struct):
    """A client's message; only the parts of the last one are used."""

    id: str
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]] = []


class _Sent(msgspec.Struct):
    """A client's request; its other fields are ignored."""

    id: str
    messages: list[_UIMessage]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = msgspec.field(default=None, name="messageId")


def routes(site: Site) -> list[Route]:
    """Return the routes of all agents."""
    door = _Door(site)
    return [
        Route("/ui/{agent}", door.post, methods=["POST"]),
        Route("/ui/{agent}/{chat}/stream", door.resume, methods=["GET"]),
        Route("/ui/{agent}/{chat}", door.chat, methods=["GET"]),
    ]


class _Door:
    """The routes of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def post(self, request: HttpRequest) -> Response:
        """Start a turn, or answer what one waits for; respond with its chunks."""
        user = await self._site.user(request)
        agent_id: str = request.path_params["agent"]
        card = card_of(self._site.app, agent_id)
        sent = decode(await request.body(), _Sent)
        if not sent.id or "/" in sent.id or not sent.messages:
            raise Misuse("give the id of a chat, without a slash, and at least one message")
        if sent.messages[-1].role == "assistant":
            return await self._answered(user, agent_id, sent)
        handle = await begin_turn(self._site, user, agent_id, _to_sent_message(sent, card))
        return _stream(self._chunks(handle, _Answer()))

    async def resume(self, request: HttpRequest) -> Response:
        """Return the run in progress in a chat, from its start; 204 if there is none."""
        run = await self._newest(request)
        if run is None or run.ended:
            return Response(status_code=204)
        return _stream(self._chunks(await self._site.app.run(run.run_id), _Answer()))

    async def chat(self, request: HttpRequest) -> Response:
        """Return the messages of a chat; ``resume`` returns the answer in progress."""
        newest = await self._newest(request)
        messages: list[Json] = []
        if newest is not None:
            journal = await self._site.app.open()
            runs = await journal.runs(context_id=newest.context_id, parent_run_id="")
            for run in reversed(runs):
                messages += await self._messages(await self._site.app.run(run.run_id))
        return to_json({"messages": messages})

    async def _newest(self, request: HttpRequest) -> RunSummary | None:
        """Return the user's newest turn in the chat that a path names."""
        user = await self._site.user(request)
        run = await newest_of(self._site, user, request.path_params["chat"])
        return run if run and run.agent_id == request.path_params["agent"] else None

    async def _messages(self, handle: RunHandle) -> list[Json]:
        """Return a turn as messages: the question, and the answer once it is available."""
        id, text = await request_of(handle)
        messages: list[Json] = [
            {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
        ]
        if await handle.result(0) is not None:
            parts = list[JsonObject]()
            async with aclosing(self._chunks(handle, _Answer(), until_parked=True)) as chunks:
                async for chunk in chunks:
                    _add_to(parts, chunk)
            messages.append({"id": handle.id, "role": "assistant", "parts": [*parts]})
        return messages

    async def _answered(self, user: User, agent_id: str, sent: _Sent) -> Response:
        """Answer what the run of the last message waits for, and continue that message."""
        handle = await public_run(self._site, user, sent.messages[-1].id, "operate")
        items = await self._site.app.inbox(run_id=handle.id, limit=None)
        open_ = ids_of(items)
        answers = {id: one for id, one in _answers_of(sent.messages[-1]) if id in open_}
        chat = await self._site.conversation_of(user, sent.id)
        is_here = any(one.agent_id == agent_id and is_of(one.conversation, chat) for one in items)
        if not answers or not is_here:
            raise Differs("nothing of this is waited for any more: load the chat again")
        answer, given = _Answer(), [*answers.values()]
        app = self._site.app
        async with at_questions(app, handle, answers, answer.add) as (events, _):
            await self._site.answer_in_time(user, handle.id, given, door=DOOR)
        return _stream(self._chunks(handle, answer, events))

    async def _chunks(
        self,
        handle: RunHandle,
        answer: _Answer,
        events: AsyncGenerator[PublicEvent] | None = None,
        *,
        until_parked: bool = False,
    ) -> AsyncGenerator[JsonObject]:
        """Yield the chunks of a message, until the run ends or waits for its user.

        While it waits for other people the stream stays open, unless *until_parked*.
        """
        yield {"type": "start", "messageId": handle.id}
        app = self._site.app
        staged = until_asked(app, handle, events or public_events(app, handle))
        try:
            async with aclosing(staged):
                async for event, stage in staged:
                    for chunk in answer.add(event):
                        yield chunk
                    if stage == "last":
                        yield _finish(event)
                    elif stage == "waits":
                        yield {"type": "data-waiting", "data": {"for": "others"}, "transient": True}
                        if until_parked:
                            return
        except JournalError as error:
            yield {"type": "error", "errorText": str(error)}


class _Answer(Writer):
    """Turns public events into the chunks of one message.

    A step is a text and the calls that it made, so that a void text can be reset.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts = 0
        # The requested approvals by their calls, the denied calls, and the unsettled ones.
        self._asked: dict[str, str] = {}
        self._denied: set[str] = set()
        self._unsettled: dict[str, JsonObject] = {}
        self._in_step = False
        self._is_fresh = False

    def _step(self) -> list[JsonObject]:
        """Start a step, unless one has just started."""
        is_fresh, self._in_step, self._is_fresh = self._is_fresh, True, False
        return [] if is_fresh else [{"type": "start-step"}]

    def begin_text(self) -> list[JsonObject]:
        self._texts += 1
        self.open = f"text-{self._texts}"
        return [*self._step(), {"type": "text-start", "id": self.open}]

    def piece(self, text: str) -> JsonObject:
        return {"type": "text-delta", "id": self.open, "delta": text}

    def end_text(self, id: str) -> JsonObject:
        return {"type": "text-end", "id": id}

    def file(self, file: JsonObject) -> Iterator[JsonObject]:
        if not self._in_step:
            yield from self._step()
        yield {"type": "file", "url": url_of(file), "mediaType": file["media_type"]}

    def void(self, *, is_all: bool) -> list[JsonObject]:
        """Void what was said since the last whole reply; revised attempts are never shown."""
        chunks: list[JsonObject] = [{"type": "reset-step"}] if self.open else []
        self.open = self.text_so_far = ""
        return chunks

    def _call(self, id: str, name: str, input: Json, **more: Json) -> Iterator[JsonObject]:
        if id in self.calls:
            return
        self.calls.add(id)
        if not self._in_step:
            yield from self._step()
        shown: JsonObject = {"toolCallId": id, "toolName": name, "input": input}
        yield {"type": "tool-input-available", **shown, **more}
        self._unsettled[id] = {"toolCallId": id, **more}

    def tool(self, event: PublicEvent) -> Iterator[JsonObject]:
        id, name = str(event["id"]), str(event["name"])
        yield from self._call(id, name, event.get("arguments", {}), **_OURS)
        match event["state"]:
            case "working" if call := self._unsettled.get(id):
                output: JsonObject = {"progress": event["text"]}
                progress: JsonObject = {**call, "output": output, "preliminary": True}
                yield {"type": "tool-output-available", **progress}
            case "done":
                yield from self._settle_events(id, {})
            case "failed":
                yield from self._fail_events(id)
            case _:
                pass

    def answered(self, event: PublicEvent) -> Iterator[JsonObject]:
        """Yield the chunks for an answered question; what follows is a new step.

        A page sends its answers when the last step contains nothing else.
        """
        id = str(event["id"])
        if "approved" in event:
            yield from self._decision_events(id, approved=bool(event["approved"]))
        else:
            yield from self._settle_events(id, event["value"])
        if not self._is_fresh:
            yield from self._step()
            self._is_fresh = True

    def _decision_events(self, id: str, *, approved: bool) -> Iterator[JsonObject]:
        if mark := self._asked.pop(id, ""):
            self._denied.update(() if approved else (id,))
            yield {"type": "tool-approval-response", "approvalId": mark, "approved": approved}

    def _settle_events(self, id: str, output: Json) -> Iterator[JsonObject]:
        yield from self._decision_events(id, approved=True)
        if call := self._unsettled.pop(id, None):
            yield {"type": "tool-output-available", **call, "output": output}

    def _fail_events(self, id: str) -> Iterator[JsonObject]:
        # A call that was not approved in time was denied.
        yield from self._decision_events(id, approved=False)
        if (call := self._unsettled.pop(id, None)) is None:
            return
        if id in self._denied:
            yield {"type": "tool-output-denied", "toolCallId": id}
        else:
            # It may have been done, or be settled later: only its own end is known here.
            yield {"type": "tool-output-error", **call, "errorText": "It did not finish."}

    def end(self, event: PublicEvent) -> Iterator[JsonObject]:
        asked: Any = event.get("questions", ())
        for one in asked:
            if one["kind"] == "approval":
                yield from self._call(one["id"], one["tool"], one["arguments"], **_OURS)
                # The digest binds an approval to what was shown.
                mark = f"{one['id']} {one['digest']}"
                self._asked[one["id"]] = mark
                yield {"type": "tool-approval-request", "approvalId": mark, "toolCallId": one["id"]}
            else:
                question = {k: v for k, v in one.items() if k not in ("kind", "id")}
                # The page answers it: it is not a call of the server.
                yield from self._call(one["id"], ASK, question)
        if event["status"] != "input_required":
            for id, call in self._unsettled.items():
                # A call of another agent's run, whose events are not public: whether it was
                # approved and made is not known here.
                self._asked.pop(id, "")
                text = "How it ended is in the run of another agent."
                yield {"type": "tool-output-error", **call, "errorText": text}
            self._unsettled = {}
        # What follows is a new step, even if the page has more parts than these.
        self._in_step = False


def _finish(event: PublicEvent) -> JsonObject:
    status = str(event["status"])
    metadata: JsonObject = {"status": status}
    if "error" in event:
        metadata["error"] = event["error"]
    reason = _FINISH.get(status, "interrupted")
    return {"type": "finish", "finishReason": reason, "messageMetadata": metadata}


def _add_to(parts: list[JsonObject], chunk: JsonObject) -> None:
    """Add a chunk to the parts of a message, as the client's own reader does."""
    match chunk:
        case {"type": "start-step"}:
            parts.append({"type": "step-start"})
        case {"type": "reset-step"}:
            while parts and parts[-1]["type"] != "step-start":
                parts.pop()
        case {"type": "text-start"}:
            parts.append({"type": "text", "text": "", "state": "done"})
        case {"type": "text-delta", "delta": str(delta)}:
            parts[-1]["text"] = f"{parts[-1]['text']}{delta}"
        case {"type": "file"}:
            parts.append(chunk)
        case {"type": "tool-input-available", "toolName": str(name)}:
            part = {field: value for field, value in chunk.items() if field != "toolName"}
            parts.append({**part, "type": f"tool-{name}", "state": "input-available"})
        case {"approvalId": mark, "approved": approved}:
            approval: JsonObject = {"id": mark, "approved": approved}
            (part,) = [one for one in parts if one.get("approval") == {"id": mark}]
            part.update(state="approval-responded", approval=approval)
        case {"toolCallId": str(id)}:
            (part,) = [one for one in parts if one.get("toolCallId") == id]
            _settle(part, chunk)
        case _:
            pass


def _settle(part: JsonObject, chunk: JsonObject) -> None:
    """Apply the outcome of a call to its part."""
    match chunk:
        case {"type": "tool-approval-request", "approvalId": str(mark)}:
            approval: JsonObject = {"id": mark}
            part.update(state="approval-requested", approval=approval)
        case {"type": "tool-output-available", "output": output}:
            part.update(state="output-available", output=output)
        case {"type": "tool-output-denied"}:
            part.update(state="output-denied")
        case {"errorText": text}:
            part.update(state="output-error", errorText=text)
        case _:
            pass


def _to_sent_message(sent: _Sent, card: AgentCard) -> SentMessage:
    """Return what the last message of a client says."""
    *before, last = sent.messages
    if last.role != "user":
        raise Misuse(f"the last message is of {last.role}: only what the user says is taken")
    is_again = sent.trigger == "regenerate-message"
    answers = [one.id for one in before if one.role == "assistant"]
    edit = sent.message_id or ("the last" if is_again else "")
    return SentMessage(sent.id, last.id, _to_message(last, card), answers, edit, is_again)


def _to_message(sent: _UIMessage, card: AgentCard) -> Message:
    """Return the user's message."""
    parts: list[Text | Image | File] = []
    for part in sent.parts:
        match part:
            case {"type": "text", "text": str(text)}:
                parts.append(Text(text))
            case {"type": "file", "url": str(url), "mediaType": str(kind)}:
                name = str(part.get("filename", ""))
                parts.append(attachment(from_data_url(url)[0], kind, name, card))
            case _:
                kind = str(part.get("type", ""))[:80]
                raise Misuse(f"a part is of type {kind!r}: a user's message has text and files")
    if not parts:
        raise Misuse("the last message has no parts: give at least one text")
    return Message("user", tuple(parts))


def _answers_of(sent: _UIMessage) -> Iterator[tuple[str, AnyAnswer]]:
    """Yield the answers in a message, each with the id of its question."""
    for part in sent.parts:
        match part:
            case {
                "state": "approval-responded",
                "toolCallId": str(id),
                "approval": {"id": str(mark), "approved": bool(approved), **rest},
            }:
                digest = mark.removeprefix(f"{id} ")
                if approved:
                    yield id, Approve(call_id=id, digest=digest)
                else:
                    reason = str(rest.get("reason") or "")
                    yield id, Deny(call_id=id, digest=digest, reason=reason)
            case {"state": "output-available", "toolCallId": str(id), "output": output} if (
                part.get("type") == f"tool-{ASK}" or part.get("toolName") == ASK
            ):
                match part.get("input"):
                    case {"digest": str(digest)}:
                        yield id, Answer(id, output, digest=digest)
                    case _:
                        yield id, Answer(id, output)
            case _:
                pass


def _stream(chunks: AsyncGenerator[JsonObject]) -> Response:
    """Return chunks as server-sent events, followed by the end marker."""

    async def sent_events() -> AsyncGenerator[ServerSentEvent]:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield ServerSentEvent(encode(chunk).decode())
        yield ServerSentEvent("[DONE]")

    response = sse(sent_events())
    response.headers[_HEADER] = "v1"
    return response
