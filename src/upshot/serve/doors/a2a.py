"""A2A 1.0: each agent of an App as an A2A agent, over JSON-RPC and server-sent events.

A task is a run and a context is a conversation, so both survive a restart of the server. A task
that waits for its user is in the state input-required, and the message of its status names what is
asked. A task that waits only for other people is in the state auth-required, and cannot be answered
here.

The card of an agent is at ``/a2a/{agent}/.well-known/agent-card.json``; the card of the App's first
agent is at the root too. Only known users can read cards.

Source:
    A2A protocol specification 1.0, sections 3, 5, 8 and 9, read November 2026.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatch
from typing import Annotated, Any, TypeAlias, cast
from urllib.parse import quote

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentCard, Skill
from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.forms.a2a_form import from_a2a, to_a2a
from upshot.contract.forms.public_form import answer_media
from upshot.contract.message import Artifact, Data, File, Message, Part, Text
from upshot.contract.model_calls import Request
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Approve,
    Deny,
    PendingApproval,
    PendingQuestion,
)
from upshot.contract.protocols import RunSummary
from upshot.contract.result import AgentResult
from upshot.contract.user import User
from upshot.entry.planning import new_run_id
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.serve.guard import rpc_refusal
from upshot.serve.permissions import Differs, Missing, Need, from_scoped
from upshot.serve.public import (
    PublicEvent,
    asked_of_user,
    digest_of,
    files_in,
    public_events,
    public_run,
)
from upshot.serve.site import ServerSentEvent, Site, from_json, sse
from upshot.version import __version__

DOOR = "a2a"
REFUSALS = {"/a2a/": rpc_refusal}
VERSION = "1.0"
# The metadata key for the id that the client gave a message.
_MESSAGE_ID = "message_id"
# How long a cancelled task may take to end before its current state is returned.
_CANCEL_S = 5.0

_ENDED = tuple(f"TASK_STATE_{word}" for word in ("COMPLETED", "FAILED", "CANCELED", "REJECTED"))
_PARKED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"

_PARSE, _REQUEST, _METHOD, _PARAMS = -32700, -32600, -32601, -32602
_NOT_FOUND = -32001, "TASK_NOT_FOUND"
_NOT_CANCELABLE = -32002, "TASK_NOT_CANCELABLE"
_NO_PUSH = -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"
_UNSUPPORTED = -32004, "UNSUPPORTED_OPERATION"
_NO_MEDIA = -32005, "CONTENT_TYPE_NOT_SUPPORTED"
_NO_VERSION = -32009, "VERSION_NOT_SUPPORTED"


class _Fault(Exception):
    """A request that gets an error of the protocol."""

    def __init__(self, code: int | tuple[int, str], message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code if isinstance(code, tuple) else (code, "")

    def to_json(self) -> JsonObject:
        error: JsonObject = {"code": self.code, "message": str(self)}
        if self.reason:
            info = "type.googleapis.com/google.rpc.ErrorInfo"
            error["data"] = [{"@type": info, "reason": self.reason, "domain": "a2a-protocol.org"}]
        return error


# -- parameters


_Length: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Configuration(msgspec.Struct, rename="camel", frozen=True):
    return_immediately: bool = False
    history_length: _Length | None = None


class _Sent(msgspec.Struct, rename="camel"):
    """A client's message; its metadata is ignored, as upshot stores facts of its own there."""

    message_id: str
    role: str
    parts: list[dict[str, Any]]
    context_id: str = ""
    task_id: str = ""


class _Send(msgspec.Struct):
    message: _Sent
    configuration: _Configuration = _Configuration()


class _Named(msgspec.Struct, rename="camel"):
    id: str
    history_length: _Length | None = None


class _Listed(msgspec.Struct, rename="camel"):
    context_id: str = ""
    status: str = ""
    page_size: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50
    page_token: str = ""
    history_length: _Length | None = None
    status_timestamp_after: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    include_artifacts: bool = False


# -- tasks


def _state_of(result: AgentResult[Any]) -> str:
    """Return the state of a task whose run has ended or waits."""
    if result.pending and not asked_of_user(result.pending):
        return "TASK_STATE_AUTH_REQUIRED"
    return str(to_a2a(result.status)["state"])


def _status(state: str, at: datetime | None, message: JsonObject | None = None) -> JsonObject:
    status: JsonObject = {"state": state}
    if at is not None:
        status["timestamp"] = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
    return status if message is None else {**status, "message": message}


def _status_message(result: AgentResult[Any], ids: Mapping[str, str]) -> JsonObject | None:
    """Return the status message of a task that waits or failed."""
    if result.pending:
        asked = asked_of_user(result.pending)
        lines = [_in_words(item) for item in asked]
        if len(asked) < len(result.pending):
            lines.append("It waits for somebody else, who answers elsewhere.")
        content = [Text("\n".join(lines)), *(Data(_to_question(item)) for item in asked)]
    elif result.error is not None:
        content = [Text(str(result.error.code))]
    else:
        return None
    return {**to_a2a(Message("assistant", tuple(content))), **ids}


def _in_words(item: PendingApproval | PendingQuestion) -> str:
    if isinstance(item, PendingQuestion):
        return f"{item.id}: {item.question}"
    return (
        f"{item.id}: may {item.tool_name} be called with these arguments? Answer by a data part "
        "with id, digest and decision: approve or deny."
    )


def _to_question(item: PendingApproval | PendingQuestion) -> JsonObject:
    if isinstance(item, PendingQuestion):
        asked: JsonObject = {"kind": "question", "id": item.id, "question": item.question}
        asked |= {"choices": [*item.choices]} if item.choices else {}
        return asked | ({"digest": digest} if (digest := digest_of(item)) else {})
    return {
        "kind": "approval",
        "id": item.id,
        "tool": item.tool_name,
        "arguments": item.arguments,
        "effect": str(item.effect),
        "digest": item.digest,
    }


def _artifacts_of(task_id: str, result: AgentResult[Any]) -> list[JsonObject]:
    """Return the artifacts and the answer; an answer that deciders withheld is left out."""
    others = [to_a2a(artifact) for artifact in result.artifacts if result.committed]
    parts = _answer_parts(result)
    return [*others, _artifact(task_id, parts)] if parts else others


def _answer_parts(result: AgentResult[Any]) -> list[Part]:
    if not result.committed:
        return []
    output: Json = result.output
    parts: list[Part] = [Text(result.content)] if result.content else []
    if output is not None and output != result.content:
        parts.append(Text(output) if isinstance(output, str) else Data(output))
    return [*parts, *answer_media(result)]


def _artifact(run_id: str, parts: Sequence[Part]) -> JsonObject:
    return {**to_a2a(Artifact("answer", tuple(parts))), "artifactId": f"{run_id}-answer"}


def _history(request: Request, answer: str, ids: Mapping[str, str]) -> list[JsonObject]:
    """Return the request, and the answer."""
    asked, task = request.to_message(), ids["taskId"]
    question = {**to_a2a(Message("user", asked.content)), **ids}
    question["messageId"] = asked.metadata.get(_MESSAGE_ID) or f"{task}-request"
    if not answer:
        return [question]
    answered = {**to_a2a(Message("assistant", answer)), **ids, "messageId": f"{task}-answer"}
    return [question, answered]


def update_of(event: PublicEvent, ids: Mapping[str, str], *, is_open: bool) -> Iterator[JsonObject]:
    """Yield what a client receives for a public event while the task works.

    Args:
        event: The event.
        ids: The ids of the task and its context.
        is_open: Whether the event before it was a piece of the same reply.
    """
    match event:
        case {"kind": "text", "text": str(text)}:
            piece = _artifact(ids["taskId"], [Text(text)])
            yield {"artifactUpdate": {**ids, "artifact": piece, "append": is_open}}
        case {"kind": "message", "files": list()}:
            piece = _artifact(ids["taskId"], [_to_file(file) for file in files_in(event)])
            yield {"artifactUpdate": {**ids, "artifact": piece, "append": is_open}}
        case {"kind": "tool", "name": str(name), "text": str(text)}:
            yield {"statusUpdate": {**ids, "status": _working(f"{name}: {text}", ids)}}
        case {"kind": "tool", "name": str(name), "state": str(state)}:
            yield {"statusUpdate": {**ids, "status": _working(f"{name}: {state}", ids)}}
        case {"kind": "reset"} if is_open:
            # The next piece would replace the text; clear it, since there may be none.
            piece = _artifact(ids["taskId"], [Text("")])
            yield {"artifactUpdate": {**ids, "artifact": piece, "append": False}}
        case _:
            pass


def _to_file(file: JsonObject) -> File:
    data = b64decode(str(file["data"])) if "data" in file else None
    url, name = str(file.get("url", "")), str(file.get("name", ""))
    return File(name=name, url=url, data=data, media_type=str(file["media_type"]))


def _ending(task: JsonObject, ids: Mapping[str, str]) -> Iterator[JsonObject]:
    """Yield what a client receives for a task that has ended or parked."""
    for artifact in cast("list[Json]", task.get("artifacts", [])):
        yield {"artifactUpdate": {**ids, "artifact": artifact, "lastChunk": True}}
    yield {"statusUpdate": {**ids, "status": task["status"]}}


def _word_of(task: JsonObject) -> str:
    """Return the state of a task."""
    return cast("dict[str, str]", task["status"])["state"]


def _working(text: str, ids: Mapping[str, str]) -> JsonObject:
    message = {**to_a2a(Message("assistant", text)), **ids}
    return _status("TASK_STATE_WORKING", SYSTEM_CLOCK.now(), message)


class AgentTasks:
    """The runs of one agent of a site, as A2A tasks.

    Args:
        site: The site.
        agent: The agent.
    """

    def __init__(self, site: Site, agent: Agent[Any]) -> None:
        self._site = site
        self._agent = agent

    # -- the methods of the protocol

    async def send(self, user: User, params: _Send) -> JsonObject:
        """``SendMessage``."""
        handle = await self._start_or_answer(user, params.message)
        # Use the awaited result: a parked run may have been resumed since.
        result = await handle.result(0 if params.configuration.return_immediately else None)
        history_length = params.configuration.history_length
        return {"task": await self._task_with(handle, result, history_length)}

    async def stream(self, user: User, params: _Send) -> AsyncGenerator[JsonObject]:
        """``SendStreamingMessage``."""
        handle = await self._start_or_answer(user, params.message)
        return self._updates(handle, until=(*_ENDED, *_PARKED))

    async def get(self, user: User, params: _Named) -> JsonObject:
        """``GetTask``."""
        return await self._task(await self._find_task(user, params.id), params.history_length)

    async def subscribe(self, user: User, params: _Named) -> AsyncGenerator[JsonObject]:
        """``SubscribeToTask``."""
        handle = await self._find_task(user, params.id)
        if (await self._site.summary(handle.id)).ended:
            raise _Fault(_UNSUPPORTED, f"task {handle.id} has ended: GetTask gives its result")
        return self._updates(handle, until=_ENDED)

    async def cancel(self, user: User, params: _Named) -> JsonObject:
        """``CancelTask``."""
        handle = await self._find_task(user, params.id, "operate")
        if (await self._site.summary(handle.id)).ended:
            raise _Fault(_NOT_CANCELABLE, f"task {handle.id} has ended already")
        await handle.cancel()
        await handle.result(_CANCEL_S)
        return await self._task(handle, params.history_length)

    async def list(self, user: User, params: _Listed) -> JsonObject:
        """``ListTasks``."""
        found = [run for run in await self._runs(user, params.context_id) if _matches(run, params)]
        places = [_place_of(run) for run in found]
        if params.page_token and params.page_token not in places:
            raise _Fault(_PARAMS, "pageToken was not returned by this method")
        start = places.index(params.page_token) + 1 if params.page_token else 0
        page = found[start : start + params.page_size]
        handles = [await self._site.run_of(user, run.run_id) for run in page]
        tasks = [await self._task(handle, params.history_length) for handle in handles]
        if not params.include_artifacts:
            for task in tasks:
                task.pop("artifacts", None)
        is_last = start + len(page) >= len(found)
        return {
            "tasks": [*tasks],
            "nextPageToken": "" if is_last else _place_of(page[-1]),
            "pageSize": params.page_size,
            "totalSize": len(found),
        }

    # -- runs

    async def _runs(self, user: User, conversation: str) -> Sequence[RunSummary]:
        """Return the user's runs, the last changed first."""
        runs = await self._site.runs_of(
            user, agent=self._agent.id, conversation=conversation, limit=None
        )
        return sorted(runs, key=_place_of, reverse=True)

    async def _find_task(self, user: User, task_id: str, need: Need = "see") -> RunHandle:
        """Return a task of this agent that the user may see; others count as unknown."""
        try:
            handle = await public_run(self._site, user, task_id, need)
        except Missing:
            raise _Fault(_NOT_FOUND, f"there is no task {task_id!r}") from None
        if (await self._site.summary(task_id)).agent_id != self._agent.id:
            raise _Fault(_NOT_FOUND, f"there is no task {task_id!r}")
        return handle

    async def _start_or_answer(self, user: User, message: _Sent) -> RunHandle:
        """Return the run that a message starts or answers."""
        if message.role != "ROLE_USER":
            raise _Fault(_PARAMS, "the role of message must be ROLE_USER")
        if not message.message_id or not message.parts:
            raise _Fault(_PARAMS, "message needs a messageId, and at least one part")
        if message.task_id:
            return await self._answer_task(user, message)
        content = _to_message(message.parts, self._card().default_input_modes)
        asked = msgspec.structs.replace(content, metadata={_MESSAGE_ID: message.message_id})
        conversation = message.context_id or new_run_id().replace("run", "context")
        return await self._site.submit(user, self._agent.id, asked, conversation=conversation)

    async def _answer_task(self, user: User, message: _Sent) -> RunHandle:
        """Answer a task with a message, and return its run."""
        handle = await self._find_task(user, message.task_id, "operate")
        summary = await self._site.summary(handle.id)
        named = message.context_id
        if named and await self._site.conversation_of(user, named) != summary.context_id:
            raise _Fault(_PARAMS, f"contextId is not that of task {handle.id}")
        if summary.ended:
            raise _Fault(
                _UNSUPPORTED,
                f"task {handle.id} has ended: send a message with its contextId and no taskId",
            )
        result = await handle.result(0)
        if result is None or not asked_of_user(result.pending):
            raise _Fault(_UNSUPPORTED, f"task {handle.id} is not waiting for an answer from you")
        answers = _answers_of(message.parts, asked_of_user(result.pending))
        await self._site.answer_in_time(user, handle.id, answers, door=DOOR)
        return handle

    async def _task(self, handle: RunHandle, history_length: int | None = None) -> JsonObject:
        """Return a task as it is now."""
        return await self._task_with(handle, await handle.result(0), history_length)

    async def _task_with(
        self, handle: RunHandle, result: AgentResult[Any] | None, history_length: int | None
    ) -> JsonObject:
        """Return a task with *result*, or in progress if that is None."""
        summary, state = await self._site.summary(handle.id), await handle.state()
        context = from_scoped((summary.owner, summary.tenant), summary.context_id)
        ids: dict[str, str] = {"taskId": handle.id, "contextId": context}
        task: JsonObject = {"id": handle.id, "contextId": context}
        if result is None:
            word = "TASK_STATE_SUBMITTED" if state.started is None else "TASK_STATE_WORKING"
            task["status"] = _status(word, summary.updated_at)
        else:
            asks = _status_message(result, ids)
            task["status"] = _status(_state_of(result), summary.updated_at, asks)
            task["artifacts"] = [*_artifacts_of(handle.id, result)]
        if state.started is not None and history_length != 0:
            parts = [] if result is None else _answer_parts(result)
            answer = "".join(part.text for part in parts if isinstance(part, Text))
            messages = _history(state.started.request, answer, ids)
            task["history"] = [*messages[-(history_length or len(messages)) :]]
        return task

    async def _updates(
        self, handle: RunHandle, *, until: Sequence[str]
    ) -> AsyncGenerator[JsonObject]:
        """Yield the task as it is, and its updates until it is in one of the states *until*."""
        # Read before the task, so that no event between the two is lost.
        seen = (await handle.state()).seq
        task = await self._task(handle)
        yield {"task": task}
        ids = {"taskId": handle.id, "contextId": str(task["contextId"])}
        is_open = False
        if _word_of(task) in until:
            return
        async for event in public_events(self._site.app, handle, after=str(seen)):
            if event["kind"] == "end":
                task = await self._task(handle)
                for update in _ending(task, ids):
                    yield update
                if _word_of(task) in until:
                    return
            else:
                for update in update_of(event, ids, is_open=is_open):
                    yield update
                is_open = event["kind"] == "text"

    # -- the card

    def _card(self) -> AgentCard:
        return self._agent.card or AgentCard(name=self._agent.name or self._agent.id)

    def card(self, base_url: str) -> JsonObject:
        """Return the card of the agent, for clients that reach it under *base_url*."""
        card, id = self._card(), self._agent.id
        name = card.name or self._agent.name or id
        description = card.description or f"The agent {name}."
        skill = Skill(id=id, name=name, description=description, tags=("agent",))
        form = to_a2a(msgspec.structs.replace(card, skills=card.skills or (skill,)))
        return {
            **form,
            "name": name,
            "description": description,
            "version": __version__,
            "capabilities": {"streaming": True, "pushNotifications": False},
            "supportedInterfaces": [
                {
                    "url": f"{base_url.rstrip('/')}/a2a/{quote(id)}",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": VERSION,
                }
            ],
        }


def _matches(run: RunSummary, params: _Listed) -> bool:
    since = params.status_timestamp_after
    is_late = since is None or (run.updated_at is not None and run.updated_at >= since)
    return is_late and (not params.status or params.status == _state_in_list(run))


def _state_in_list(run: RunSummary) -> str:
    """Return the state of a task from its line in the list of runs."""
    if run.status == "queued":
        return "TASK_STATE_SUBMITTED"
    if run.status == "running":
        return "TASK_STATE_WORKING"
    return str(to_a2a(Status(run.status))["state"])


def _place_of(run: RunSummary) -> str:
    """Return the place of a run in a list; the last changed is the largest."""
    return f"{'' if run.updated_at is None else run.updated_at.isoformat()}/{run.run_id}"


def _to_message(parts: Sequence[Mapping[str, Any]], accepted: Sequence[str]) -> Message:
    """Return the user's message; metadata of its parts is ignored."""
    bare: list[Json] = []
    for part in parts:
        kind = part.get("mediaType") or _MEDIA.get(next(iter(_MEDIA.keys() & part.keys()), ""), "")
        if not kind:
            raise _Fault(_PARAMS, "a part of message needs one of text, data, raw and url")
        if not any(fnmatch(str(kind), one) for one in accepted):
            known = ", ".join(accepted)
            raise _Fault(_NO_MEDIA, f"a part is of media type {kind}: the agent takes {known}")
        if "url" in part and not str(part["url"]).startswith(("https://", "http://")):
            raise _Fault(_PARAMS, "the url of a part must be of http or https")
        bare.append({name: value for name, value in part.items() if name in _PART})
    try:
        return from_a2a({"role": "ROLE_USER", "parts": bare}, Message)
    except Misuse as error:
        raise _Fault(_PARAMS, str(error)) from error


# The media type of a part, unless it names one.
_MEDIA = {
    "text": "text/plain",
    "data": "application/json",
    "raw": "application/octet-stream",
    "url": "application/octet-stream",
}
_PART = (*_MEDIA, "mediaType", "filename")


def _answers_of(
    parts: Sequence[Mapping[str, Any]], asked: Sequence[PendingApproval | PendingQuestion]
) -> list[AnyAnswer]:
    """Return the answers in a message: data parts, or one text if one question is asked."""
    answers: list[AnyAnswer] = []
    for part in parts:
        data = part.get("data")
        if isinstance(data, dict):
            answers.append(_answer_of(cast("JsonObject", data), asked))
        elif len(asked) == 1 and isinstance(asked[0], PendingQuestion):
            answers.append(Answer(asked[0].id, str(part.get("text", ""))))
        else:
            raise _Fault(
                _PARAMS,
                "an approval, or one of several questions, is answered by a data part with id, and "
                "with digest and decision (approve or deny) or with value",
            )
    return answers


def _answer_of(data: JsonObject, asked: Sequence[PendingApproval | PendingQuestion]) -> AnyAnswer:
    """Return one answer; an approval is bound to the call that was shown."""
    item = next((one for one in asked if one.id == data.get("id")), None)
    if item is None:
        known = ", ".join(one.id for one in asked)
        raise _Fault(_PARAMS, f"id names nothing that waits for you: there are {known}")
    if isinstance(item, PendingQuestion):
        return Answer(item.id, data.get("value"), digest=str(data.get("digest") or ""))
    decision, digest = data.get("decision"), data.get("digest")
    if decision not in ("approve", "deny") or not isinstance(digest, str) or not digest:
        raise _Fault(
            _PARAMS, f"the answer to {item.id} needs its digest, and decision: approve or deny"
        )
    if decision == "approve":
        return Approve(item.id, digest=digest)
    return Deny(item.id, str(data.get("reason") or ""), digest=digest)


# -- JSON-RPC

Method: TypeAlias = Callable[[AgentTasks, User, Any], Awaitable[Any]]
_METHODS: dict[str, tuple[Method, type]] = {
    "SendMessage": (AgentTasks.send, _Send),
    "SendStreamingMessage": (AgentTasks.stream, _Send),
    "GetTask": (AgentTasks.get, _Named),
    "ListTasks": (AgentTasks.list, _Listed),
    "CancelTask": (AgentTasks.cancel, _Named),
    "SubscribeToTask": (AgentTasks.subscribe, _Named),
}
_UNDERLINED = re.compile("_([a-z])")
_WITHOUT_PUSH = (
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
)


async def _respond(tasks: AgentTasks, request: HttpRequest, user: User) -> Response:
    """Return the response to one JSON-RPC request."""
    id: Json = None
    try:
        call = _call_in(await request.body(), request.headers.get("content-type", ""))
        id = call["id"]
        version = request.headers.get("a2a-version") or request.query_params.get("A2A-Version")
        if version != VERSION:
            named = version or "missing, which means 0.3"
            raise _Fault(_NO_VERSION, f"A2A-Version is {named}: this speaks {VERSION}")
        method, params = _method_of(call)
        result = await method(tasks, user, params)
    except (_Fault, Misuse) as error:
        code = _UNSUPPORTED if isinstance(error, Differs) else _PARAMS
        fault = error if isinstance(error, _Fault) else _Fault(code, str(error))
        return JSONResponse({"jsonrpc": "2.0", "id": id, "error": fault.to_json()})
    if isinstance(result, AsyncGenerator):
        return sse(_sent_events(cast("AsyncGenerator[JsonObject]", result), id))
    return JSONResponse({"jsonrpc": "2.0", "id": id, "result": result})


async def _sent_events(
    updates: AsyncGenerator[JsonObject], id: Json
) -> AsyncGenerator[ServerSentEvent]:
    async for update in updates:
        response = {"jsonrpc": "2.0", "id": id, "result": update}
        yield ServerSentEvent(json.dumps(response))


def _call_in(body: bytes, media_type: str) -> dict[str, Any]:
    """Return the JSON-RPC request in a body."""
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise _Fault(_NO_MEDIA, "the Content-Type of a request must be application/json")
    try:
        call: object = from_json(body)
    except Misuse as error:
        raise _Fault(_PARSE, str(error)) from None
    if not isinstance(call, dict):
        raise _Fault(_REQUEST, "a request is one JSON object; batches are not taken")
    found = cast("dict[str, Any]", call)
    id = found.get("id")
    if found.get("jsonrpc") != "2.0" or not isinstance(found.get("method"), str):
        raise _Fault(_REQUEST, 'a request needs jsonrpc: "2.0", and a method')
    if "id" not in found or isinstance(id, bool) or not isinstance(id, str | int | None):
        raise _Fault(_REQUEST, "a request needs an id: a text, a whole number or null")
    return found


def _method_of(call: Mapping[str, Any]) -> tuple[Method, Any]:
    """Return the called method, and its parameters."""
    name: str = call["method"]
    if name in _WITHOUT_PUSH:
        raise _Fault(
            _NO_PUSH, "this agent sends no push notifications: use SubscribeToTask or GetTask"
        )
    if name == "GetExtendedAgentCard":
        raise _Fault(_UNSUPPORTED, "this agent has no extended card")
    if name not in _METHODS:
        raise _Fault(_METHOD, f"there is no method {name!r}: there are {', '.join(_METHODS)}")
    method, kind = _METHODS[name]
    params: object = call.get("params") or {}
    if isinstance(params, dict):
        # Some clients use the names of the protocol's protobuf definition.
        given = cast("dict[str, Any]", params)
        params = {
            _UNDERLINED.sub(lambda found: found[1].upper(), name): value
            for name, value in given.items()
        }
    try:
        return method, cast("object", msgspec.convert(params, kind))
    except msgspec.ValidationError as error:
        raise _Fault(_PARAMS, f"params are wrong: {error}") from error


# -- routes


def routes(site: Site) -> list[Route]:
    """Return the routes: an endpoint and a card for each agent, and the card at the root."""
    tasks = {id: AgentTasks(site, agent) for id, agent in site.app.agents.items()}

    async def call(request: HttpRequest) -> Response:
        user = await site.user(request)
        found = tasks.get(request.path_params["agent"])
        return _no_agent() if found is None else await _respond(found, request, user)

    async def card(request: HttpRequest) -> Response:
        await site.user(request)
        found = tasks.get(request.path_params.get("agent", next(iter(tasks))))
        if found is None:
            return _no_agent()
        form = found.card(str(request.base_url))
        tag = f'"{hashlib.sha256(json.dumps(form).encode()).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "private, max-age=300"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return JSONResponse(form, headers=headers)

    known = ".well-known/agent-card.json"
    return [
        # Some clients append a slash to every address.
        *(Route(f"/a2a/{{agent}}{end}", call, methods=["POST"]) for end in ("", "/")),
        Route(f"/a2a/{{agent}}/{known}", card),
        Route(f"/{known}", card),
    ]


def _no_agent() -> Response:
    return JSONResponse({"error": "there is no such agent"}, status_code=404)
