"""AG-UI: each agent of an App, for ``HttpAgent`` and what is built on it.

``POST /ag-ui/{agent}`` accepts a ``RunAgentInput`` and answers with server-sent events. A thread is
a conversation. Input that ends with a user message starts a turn, ``resume`` answers what a turn
waits for, and any other input asks for the state of the thread.

The ids of messages start with the id of their run. Only the last user message and the answers are
used; see ``serve.chats``. The client's tools, context, state and properties are ignored.

Source:
    AG-UI 1.0, the schemas of the package ``@ag-ui/core`` 1.0.0 and the page "Interrupts" of its
    documentation, read November 2026.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, cast

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from upshot.contract.agent_spec import AgentCard
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import decode, encode
from upshot.contract.message import File, Image, Message, Text
from upshot.contract.pending import Answer, AnyAnswer, Approve, Deny
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
    from_base64,
    ids_of,
    is_of,
    newest_of,
    read_to_questions,
    request_of,
    until_asked,
)
from upshot.serve.permissions import Differs
from upshot.serve.public import (
    PublicEvent,
    asked_of_user,
    public_events,
    public_run,
    url_of,
)
from upshot.serve.site import ServerSentEvent, Site, sse

DOOR = "ag-ui"
_VERSION = "1.0"
_DECISION: JsonObject = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


class _Resume(msgspec.Struct):
    """The client's response to an interrupt."""

    interrupt_id: str = msgspec.field(name="interruptId")
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class _Input(msgspec.Struct):
    """A client's request; its other fields are ignored."""

    thread_id: str = msgspec.field(name="threadId")
    run_id: str = msgspec.field(name="runId")
    messages: list[dict[str, Any]] = []
    parent_run_id: str | None = msgspec.field(default=None, name="parentRunId")
    resume: list[_Resume] = []


def routes(site: Site) -> list[Route]:
    """Return the routes of all agents."""
    return [Route("/ag-ui/{agent}", _Door(site).post, methods=["POST"])]


class _Door:
    """The routes of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def post(self, request: HttpRequest) -> Response:
        """Start a turn, answer what one waits for, or report the state of a thread."""
        user = await self._site.user(request)
        agent_id: str = request.path_params["agent"]
        card = card_of(self._site.app, agent_id)
        sent = decode(await request.body(), _Input)
        if not sent.thread_id or "/" in sent.thread_id:
            raise Misuse("give the id of a thread, without a slash")
        try:
            if sent.resume:
                events = await self._resume_run(user, agent_id, sent, card)
            elif sent.messages and sent.messages[-1].get("role") == "user":
                events = await self._turn(user, agent_id, sent, card)
            else:
                events = self._thread(user, agent_id, sent)
        except Differs as error:
            events = _refusal_events(str(error))
        return sse(_to_sse(events))

    async def _turn(
        self, user: User, agent_id: str, sent: _Input, card: AgentCard
    ) -> AsyncGenerator[JsonObject]:
        """Return the events of the run that the last message starts, or started if it is resent."""
        message = _to_sent_message(sent, card)
        await self._check_nothing_asked(user, sent.thread_id, message.id)
        try:
            handle = await begin_turn(self._site, user, agent_id, message)
        except Differs:
            if sent.parent_run_id is None:
                raise
            # The client itself says that it drops what came later.
            message = message._replace(edit=sent.parent_run_id)
            handle = await begin_turn(self._site, user, agent_id, message)
        return self._run(sent, handle, _Answer(handle.id, sent.messages))

    async def _check_nothing_asked(self, user: User, thread: str, message_id: str) -> None:
        """Refuse a new message while the user is asked something, as the protocol requires."""
        newest = await newest_of(self._site, user, thread)
        if newest is None or newest.ended:
            return
        handle = await self._site.app.run(newest.run_id)
        items = await self._site.app.inbox(run_id=handle.id, limit=None)
        waits = asked_of_user(item.pending for item in items)
        if waits and (await request_of(handle))[0] != message_id:
            raise Differs("the agent has asked something: answer it by resume, or cancel it there")

    async def _resume_run(
        self, user: User, agent_id: str, sent: _Input, card: AgentCard
    ) -> AsyncGenerator[JsonObject]:
        """Answer what a run of the thread waits for, and return the events after that.

        If an answer is sent again, the first one stays in force, and the events show its outcome. A
        client whose run failed after that must send the answers with its next message.
        """
        found = [_answer_of(one) for one in sent.resume]
        answers = {id: answer for _, id, answer in found}
        run_ids = {run_id for run_id, _, _ in found}
        if len(run_ids) > 1:
            raise Misuse("resume names interrupts of more than one run: answer those of one")
        handle = await public_run(self._site, user, run_ids.pop(), "operate")
        thread = await self._site.conversation_of(user, sent.thread_id)
        run = await self._site.summary(handle.id)
        if run.agent_id != agent_id or not is_of(run.context_id, thread):
            raise Differs("these interrupts are not of this thread: load it again")
        last = sent.messages[-1] if sent.messages else {}
        if last.get("role") == "user" and last.get("id") != (await request_of(handle))[0]:
            if run.ended:
                return await self._turn(user, agent_id, sent, card)
            raise Differs("say it once the run has ended: answers come without a new message")
        answer = _Answer(handle.id, sent.messages)
        app = self._site.app
        async with at_questions(app, handle, answers, answer.add) as (events, is_known):
            await self._answer(user, handle, answers, is_known=is_known)
        return self._run(sent, handle, answer, events)

    async def _answer(
        self,
        user: User,
        handle: RunHandle,
        answers: Mapping[str, AnyAnswer | None],
        *,
        is_known: bool,
    ) -> None:
        """Answer the questions that are still open; None instead of an answer cancels the run."""
        items = await self._site.app.inbox(run_id=handle.id, limit=None)
        names = ids_of(items)
        open_ = [id for id in answers if id in names]
        if not open_ and not is_known:
            raise Differs("nothing of this was asked: load the thread again")
        theirs = {one.id for one in asked_of_user(item.pending for item in items)}
        if open_ and (left := sorted(theirs - answers.keys())):
            raise Differs(f"the agent waits for {', '.join(left)} too: answer all at once")
        given = [one for id in open_ if (one := answers[id]) is not None]
        if len(given) < len(open_):
            await handle.cancel()
            return
        await self._site.answer_in_time(user, handle.id, given, door=DOOR)

    async def _thread(self, user: User, agent_id: str, sent: _Input) -> AsyncGenerator[JsonObject]:
        """Yield the messages of a thread, and the events of its current run."""
        newest = await newest_of(self._site, user, sent.thread_id)
        if newest is None or newest.agent_id != agent_id:
            yield _started_event(sent)
            yield _finished_event(sent, {"type": "success"})
            return
        journal = await self._site.app.open()
        messages: list[JsonObject] = []
        handle = await self._site.app.run(newest.run_id)
        for run in reversed(await journal.runs(context_id=newest.context_id, parent_run_id="")):
            handle = await self._site.app.run(run.run_id)
            id, text = await request_of(handle)
            messages.append({"id": id, "role": "user", "content": text})
            if run.run_id != newest.run_id or newest.ended:
                answer = _Answer(handle.id, messages)
                async with aclosing(public_events(self._site.app, handle)) as events:
                    await read_to_questions(self._site.app, handle, events, (), answer.add)
                messages = answer.all
        if newest.ended:
            yield _started_event(sent)
            yield _snapshot(messages)
            yield _finished_event(sent, {"type": "success"})
            return
        async with aclosing(self._run(sent, handle, _Answer(handle.id, messages))) as events:
            async for event in events:
                yield event

    async def _run(
        self,
        sent: _Input,
        handle: RunHandle,
        answer: _Answer,
        events: AsyncGenerator[PublicEvent] | None = None,
    ) -> AsyncGenerator[JsonObject]:
        """Yield the events of a run until it ends or asks its user; waits for others are passed."""
        yield _started_event(sent)
        if answer.all != sent.messages:
            yield _snapshot(answer.all)
        app = self._site.app
        staged = until_asked(app, handle, events or public_events(app, handle))
        async with aclosing(staged):
            async for event, stage in staged:
                for one in answer.add(event):
                    yield one
                if stage == "waits":
                    value: JsonObject = {"for": "others"}
                    yield {"type": "CUSTOM", "name": "upshot:waiting", "value": value}
                elif stage == "last":
                    yield _end(sent, handle.id, event)


class _Answer(Writer):
    """Turns public events into messages, and into the events that build them.

    Attributes:
        all: The messages before the run, and those of the run so far.
    """

    def __init__(self, run_id: str, before: Sequence[JsonObject]) -> None:
        super().__init__()
        # Messages of the run that the client already has are built again.
        self.all = [one for one in before if not str(one.get("id")).startswith(f"{run_id}.")]
        self._before = len(self.all)
        self._run_id = run_id
        self._number = 0
        self._text: JsonObject = {}

    def _next(self, role: str) -> JsonObject:
        self._number += 1
        message: JsonObject = {"id": f"{self._run_id}.{self._number}", "role": role}
        self.all.append(message)
        return message

    def begin_text(self) -> list[JsonObject]:
        self._text = self._next("assistant")
        self._text["content"] = ""
        self.open = str(self._text["id"])
        return [{"type": "TEXT_MESSAGE_START", "messageId": self.open, "role": "assistant"}]

    def piece(self, text: str) -> JsonObject:
        self._text["content"] = self.text_so_far
        return {"type": "TEXT_MESSAGE_CONTENT", "messageId": self.open, "delta": text}

    def end_text(self, id: str) -> JsonObject:
        return {"type": "TEXT_MESSAGE_END", "messageId": id}

    def file(self, file: JsonObject) -> Iterator[JsonObject]:
        """Yield an activity: messages of an assistant are texts and calls."""
        message = self._next("activity")
        shown: JsonObject = {"url": url_of(file), "mediaType": file["media_type"]}
        shown |= {"name": file["name"]} if "name" in file else {}
        activity: JsonObject = {"activityType": "file", "content": shown}
        message.update(activity)
        yield {"type": "ACTIVITY_SNAPSHOT", "messageId": message["id"], **activity}

    def void(self, *, is_all: bool) -> list[JsonObject]:
        void = [one for one in self.all[self._before :] if is_all and "content" in one]
        void = [one for one in void if one["role"] == "assistant" or "activityType" in one]
        if self.open and self._text not in void:
            void.append(self._text)
        closed, self.text_so_far = self.close(), ""
        if not void:
            return []
        self.all = [one for one in self.all if one not in void]
        return [*closed, _snapshot(self.all)]

    def _call(self, id: str, name: str, arguments: Json) -> Iterator[JsonObject]:
        if id in self.calls:
            return
        self.calls.add(id)
        message, given = self._next("assistant"), encode(arguments).decode()
        named: JsonObject = {"name": name, "arguments": given}
        message["toolCalls"] = [{"id": id, "type": "function", "function": named}]
        call: JsonObject = {"toolCallId": id}
        parent = message["id"]
        yield {"type": "TOOL_CALL_START", **call, "toolCallName": name, "parentMessageId": parent}
        yield {"type": "TOOL_CALL_ARGS", **call, "delta": given}
        yield {"type": "TOOL_CALL_END", **call}

    def tool(self, event: PublicEvent) -> Iterator[JsonObject]:
        id = f"{self._run_id}.{event['id']}"
        yield from self._call(id, str(event["name"]), event.get("arguments", {}))
        match event["state"]:
            case "working":
                content: JsonObject = {"toolCallId": id, "text": event["text"]}
                activity: JsonObject = {"messageId": f"{id}.progress", "activityType": "progress"}
                yield {"type": "ACTIVITY_SNAPSHOT", **activity, "content": content}
            case "done" | "failed" as state:
                message = self._next("tool")
                result: JsonObject = {
                    "toolCallId": id,
                    "content": encode({"state": state}).decode(),
                }
                message.update(result)
                yield {"type": "TOOL_CALL_RESULT", "messageId": message["id"], **result}
            case _:
                pass

    def end(self, event: PublicEvent) -> Iterator[JsonObject]:
        questions: Any = event.get("questions", ())
        for one in questions:
            if one["kind"] == "approval":
                yield from self._call(f"{self._run_id}.{one['id']}", one["tool"], one["arguments"])


def _started_event(sent: _Input) -> JsonObject:
    named: JsonObject = {"threadId": sent.thread_id, "runId": sent.run_id}
    return {"type": "RUN_STARTED", **named, "protocolVersion": _VERSION}


def _snapshot(messages: Sequence[JsonObject]) -> JsonObject:
    return {"type": "MESSAGES_SNAPSHOT", "messages": [dict(one) for one in messages]}


def _finished_event(sent: _Input, outcome: JsonObject) -> JsonObject:
    named: JsonObject = {"threadId": sent.thread_id, "runId": sent.run_id}
    return {"type": "RUN_FINISHED", **named, "outcome": outcome}


def _end(sent: _Input, run_id: str, event: PublicEvent) -> JsonObject:
    """Return the last event of a stream: success, what the user is asked, or an error."""
    questions: Any = event.get("questions", ())
    if questions:
        interrupts: list[Json] = [_interrupt(run_id, one) for one in questions]
        return _finished_event(sent, {"type": "interrupt", "interrupts": interrupts})
    if event["status"] == "completed":
        return _finished_event(sent, {"type": "success"})
    if event["status"] in ("canceled", "interrupted"):
        return _finished_event(sent, {"type": "cancelled"})
    code = str(event.get("error") or event["status"])
    return {"type": "RUN_ERROR", "message": f"the run is {event['status']}: {code}", "code": code}


def _interrupt(run_id: str, asked: JsonObject) -> JsonObject:
    """Return a question as an interrupt; the digest in its id binds an approval to a call."""
    named = f"{run_id} {asked.get('digest', '-')} {asked['id']}"
    if asked["kind"] == "approval":
        return {
            "id": named,
            "reason": "tool_call",
            "message": f"May {asked['tool']} be called with these arguments?",
            "toolCallId": f"{run_id}.{asked['id']}",
            "responseSchema": _DECISION,
        }
    choices: Any = asked["choices"]
    value: JsonObject = {"enum": choices} if choices else {}
    properties: JsonObject = {"value": value}
    return {
        "id": named,
        "reason": "input_required",
        "message": asked["question"],
        "responseSchema": {"type": "object", "properties": properties, "required": ["value"]},
    }


def _answer_of(resume: _Resume) -> tuple[str, str, AnyAnswer | None]:
    """Return the run and the id of a question, and the answer; None if it was cancelled."""
    run_id, _, rest = resume.interrupt_id.partition(" ")
    digest, _, id = rest.partition(" ")
    if resume.status == "cancelled":
        return run_id, id, None
    match resume.payload:
        case {"approved": True} if digest != "-":
            return run_id, id, Approve(call_id=id, digest=digest)
        case {"approved": False, **more} if digest != "-":
            return run_id, id, Deny(call_id=id, digest=digest, reason=str(more.get("reason") or ""))
        case {"value": value}:
            return run_id, id, Answer(id, value, digest=digest.removeprefix("-"))
        case _:
            form = '{"value": ...} for a question, {"approved": true} or false for a call'
            raise Differs(f"the payload for {id[:80]!r} must be {form}")


def _to_sent_message(sent: _Input, card: AgentCard) -> SentMessage:
    """Return what the last message says."""
    *before, last = sent.messages
    # The id of an answer starts with its run; it has a message for each reply and call.
    answers = [
        str(one.get("id")).rpartition(".")[0] for one in before if one.get("role") == "assistant"
    ]
    message = _to_message(last.get("content"), card)
    return SentMessage(sent.thread_id, str(last.get("id") or ""), message, answers)


def _to_message(content: Any, card: AgentCard) -> Message:
    """Return the user's message."""
    if isinstance(content, str):
        return Message("user", content)
    parts: list[Text | Image | File] = []
    for part in cast("list[Any]", content) if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str(text)}:
                parts.append(Text(text))
            case {"source": {"type": "data", "value": str(value), "mimeType": str(kind)}}:
                parts.append(attachment(from_base64(value), kind, "", card))
            case _:
                raise Misuse("a part of the last message is neither text nor inline data")
    if not parts:
        raise Misuse("the last message has no content: give a text")
    return Message("user", tuple(parts))


async def _refusal_events(message: str) -> AsyncGenerator[JsonObject]:
    """Yield the only event of a refused request."""
    yield {"type": "RUN_ERROR", "message": message, "code": "conflict"}


async def _to_sse(events: AsyncGenerator[JsonObject]) -> AsyncGenerator[ServerSentEvent]:
    async with aclosing(events):
        try:
            async for event in events:
                yield ServerSentEvent(encode(event).decode())
        except JournalError as error:
            yield ServerSentEvent(encode({"type": "RUN_ERROR", "message": str(error)}).decode())
