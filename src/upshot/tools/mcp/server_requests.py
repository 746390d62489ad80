"""What an MCP server asks during a call: questions to the user, replies of a model, roots.

A server of protocol version 2026-07-28 ends the request with what it needs, and the call is made
again with the answers. A server of an older version asks over the open connection, and waits.

Source:
    modelcontextprotocol.io, specification 2026-07-28, basic/patterns/mrtr, client/elicitation and
    client/sampling; 2025-11-25, client/elicitation, read in 2026.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp_types import (
    INVALID_REQUEST,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    InputRequest,
    InputResponse,
    ListRootsResult,
    RequestParams,
    Result,
    Root,
    TextContent,
)
from pydantic import AliasChoices, Field, FileUrl, TypeAdapter

from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.pending import PendingQuestion
from upshot.contract.settings import ModelSettings
from upshot.errors import Misuse
from upshot.tools.arguments.argument_check import ArgumentCheck, Refused
from upshot.tools.call_state import CallWaits, running_call
from upshot.tools.execution.call_log import CallLog

T = TypeVar("T")

Elicit: TypeAlias = Callable[[PendingQuestion], Awaitable[Json] | Json]
"""Answers a server's question at once, or returns None if nobody can answer now."""
Sample: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse | str] | ModelResponse | str]
"""Replies to a server in place of the run's model."""

SKILLS = "io.modelcontextprotocol/skills"
"""The extension of servers that have skills."""
RELATED_TASK = "io.modelcontextprotocol/related-task"
ACCEPT, DECLINE, CANCEL = "accept", "decline", "cancel"
_CHOICES = (ACCEPT, DECLINE, CANCEL)
_MOST_ASKED = 5
# The words of the protocol for why a model stopped.
_STOPS = {"length": "maxTokens", "stop": "endTurn"}

input_requests: TypeAdapter[dict[str, InputRequest]] = TypeAdapter(dict[str, InputRequest])


class CannotAnswer(Exception):
    """The server asks for something that it does not get."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What servers may ask for.

    Attributes:
        elicit: Answers questions at once; None leaves them to the run.
        sampling: Whether the run's model replies to servers, or a function that does.
        roots: The folders that a server is told to work on; None tells it of none.
    """

    elicit: Elicit | None = None
    sampling: bool | Sample = False
    roots: tuple[str, ...] | None = None


@dataclass(eq=False)
class OpenCall:
    """A call that a server is working on.

    Attributes:
        log: The log of the call, None outside a Toolbox.
        may_repeat: Whether the call may be cut off and made again.
        task_id: The task that it has become.
        parked: Set to the signal that parks the call, instead of answering the server.
    """

    log: CallLog | None
    may_repeat: bool = False
    task_id: str = ""
    parked: asyncio.Future[CallWaits] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ServerRequests:
    """Answers one server.

    Args:
        namespace: The name of the server, which users see with its questions.
        abilities: What it may ask for.
    """

    def __init__(self, namespace: str, abilities: Abilities) -> None:
        self.abilities = abilities
        self.calls: list[OpenCall] = []
        self.task_listeners: dict[str, Callable[[TaskState], None]] = {}
        self._source = f"MCP server {namespace}"

    # -- requests that end a call

    async def answer(
        self, requests: Mapping[str, InputRequest], log: CallLog | None, *, number: int
    ) -> dict[str, InputResponse]:
        """Return the responses to what a call needs.

        Args:
            requests: By the server's own keys.
            log: The log of the call.
            number: How many times the server has asked in this call.

        Raises:
            CallWaits: A question has no answer yet.
            CannotAnswer: The server asks for something that it does not get.
        """
        asked = {key: one.params for key, one in requests.items() if isinstance(one, ElicitRequest)}
        # First, so that no model call is paid for before the user has answered.
        found: dict[str, InputResponse] = {**await self._elicit_all(asked, log, number)}
        for key, one in requests.items():
            if isinstance(one, CreateMessageRequest):
                found[key] = await self._sample(one.params, log)
            elif key not in asked:
                found[key] = self._list_roots()
        return found

    async def _elicit_all(
        self, asked: Mapping[str, ElicitRequestParams], log: CallLog | None, number: int
    ) -> dict[str, ElicitResult]:
        found: dict[str, ElicitResult] = {}
        names = {key: f"{number}-{key}" for key in asked}
        for key, params in asked.items():
            if (answer := await self._ask_function(params, log, names[key])) is not None:
                found[key] = answer
        left = {key: one for key, one in asked.items() if key not in found}
        while left:
            questions = {key: self._question(one, log, names[key]) for key, one in left.items()}
            answers = None if log is None else await log.ask([*questions.values()])
            for key, question in questions.items():
                params = left[key]
                answer = CANCEL if answers is None else answers[question.id]
                read = to_result(params, answer)
                if isinstance(read, ElicitResult):
                    found[key] = read
                    del left[key]
                else:
                    names[key] = f"{names[key]}\n{read}"
        return found

    async def _ask_function(
        self, params: ElicitRequestParams, log: CallLog | None, name: str
    ) -> ElicitResult | None:
        elicit = self.abilities.elicit
        if elicit is None:
            return None
        asked = self._question(params, log, name)
        for _ in range(_MOST_ASKED):
            given = elicit(asked)
            answer = await given if isinstance(given, Awaitable) else given
            if answer is None:
                return None
            read = to_result(params, cast("Json", answer))
            if isinstance(read, ElicitResult):
                return read
            asked = self._question(params, log, f"{name}\n{read}")
        return ElicitResult(action="cancel")

    def _question(
        self, params: ElicitRequestParams, log: CallLog | None, name: str
    ) -> PendingQuestion:
        """Return a question; *name* is unique in the call, with the last fault in further lines."""
        _, _, fault = name.partition("\n")
        described = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        digest = hashlib.sha256(canonical_json([name, described])).hexdigest()[:8]
        # Wherever it is shown, the user sees that a stranger wrote it.
        text = f"The {self._source} asks: {params.message}"
        if isinstance(params, ElicitRequestURLParams):
            text = f"{text}\nOpen {params.url} and say when you are done."
        if fault:
            text = f"{text}\nThe last answer does not fit: {fault.rpartition(chr(10))[2]}"
        is_form = isinstance(params, ElicitRequestFormParams)
        return PendingQuestion(
            id=digest if log is None else log.id_of(digest),
            question=text,
            choices=() if is_form else _CHOICES,
            schema=cast("JsonObject", dict(params.requested_schema)) if is_form else None,
            source=self._source,
        )

    # -- requests over an open connection

    def _asking(self, params: RequestParams) -> OpenCall | None:
        """Return the call during which the server asks, None if that may be a call of another run.

        The server says which call it asks about only if that is a task.
        """
        related = cast("JsonObject", params.meta or {}).get(RELATED_TASK)
        if isinstance(related, dict):
            task_id = related.get("taskId")
            return next((one for one in self.calls if one.task_id == task_id), None)
        runs = {"" if one.log is None else one.log.run_id for one in self.calls}
        return self.calls[-1] if len(runs) == 1 else None

    async def elicit_live(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        """Answer a question of a server that waits for the answer."""
        call, name = self._asking(params), "live"
        log = None if call is None else call.log
        answer = await self._ask_function(params, log, name)
        if answer is not None or log is None or call is None:
            return answer or ElicitResult(action="cancel")
        for _ in range(_MOST_ASKED):
            question = self._question(params, log, name)
            is_answered, given = await log.ask_live(question)
            if not is_answered:
                return await self._park(call, question)
            read = to_result(params, given)
            if isinstance(read, ElicitResult):
                return read
            name = f"{name}\n{read}"
        return ElicitResult(action="cancel")

    async def _park(self, call: OpenCall, question: PendingQuestion) -> ElicitResult:
        """Park a call that may be made again; of any other, the question is cancelled."""
        log = call.log
        # With several calls, nothing says which of them the question is about, unless it is a task.
        is_known = bool(call.task_id) or len(self.calls) == 1
        if log is None or not (call.may_repeat and log.is_in_run and is_known):
            return ElicitResult(action="cancel")
        call.parked.set_result(CallWaits((question,)))
        # Until the request is cancelled with its call.
        await asyncio.Event().wait()
        raise AssertionError("the wait has no end")

    async def sample_live(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Reply to a server as a model."""
        call = self._asking(params)
        try:
            return await self._sample(params, None if call is None else call.log)
        except CannotAnswer as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))

    async def roots_live(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        """Tell a server which folders to work on."""
        try:
            return self._list_roots()
        except CannotAnswer as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))

    # -- models and roots

    async def _sample(
        self, params: CreateMessageRequestParams, log: CallLog | None
    ) -> CreateMessageResult:
        sampling = self.abilities.sampling
        if sampling is False:
            raise CannotAnswer("it asks for a reply of a model: open_mcp(sampling=True) allows it")
        if params.tools:
            raise CannotAnswer("it asks for a reply of a model with tools, which it does not get")
        request = to_model_request(params)
        if sampling is True:
            try:
                replied = None if log is None else await log.ask_model(request)
            except Misuse as error:
                raise CannotAnswer(f"it asks for a reply of a model, but {error}") from error
            if replied is None:
                raise CannotAnswer("it asks for a reply of a model, and only runs have one")
        else:
            given = sampling(request)
            replied = await given if isinstance(given, Awaitable) else given
            if isinstance(replied, str):
                replied = ModelResponse(content=replied)
        if replied.error is not None:
            raise CannotAnswer(f"the model did not reply: {replied.error.message}")
        reason = str(replied.finish_reason or "stop")
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=replied.content or ""),
            model=str(replied.provider_data.get("model", "unknown")),
            stop_reason=_STOPS.get(reason, reason),
        )

    def _list_roots(self) -> ListRootsResult:
        roots = self.abilities.roots
        if roots is None:
            raise CannotAnswer("it asks for folders: open_mcp(roots=) names them")
        places = [Path(one).expanduser().absolute() for one in roots]
        return ListRootsResult(
            roots=[Root(uri=FileUrl(place.as_uri()), name=place.name or None) for place in places]
        )


def to_result(params: ElicitRequestParams, answer: Json) -> ElicitResult | str:
    """Return a user's answer as the protocol has it, or what is wrong with it.

    Args:
        params: What the server asked.
        answer: The fields of a form; or "accept" (with the defaults of the form), "decline" or
            "cancel".
    """
    if answer in (DECLINE, CANCEL) or answer is None:
        action: Literal["decline", "cancel"] = "decline" if answer == DECLINE else "cancel"
        return ElicitResult(action=action)
    if isinstance(params, ElicitRequestURLParams):
        if answer in (ACCEPT, True):
            return ElicitResult(action="accept")
        return f"give {', '.join(_CHOICES)}"
    schema = cast("JsonObject", dict(params.requested_schema))
    content: Any = {} if answer in (ACCEPT, True) else answer
    fields = schema.get("properties")
    if not isinstance(content, dict) and isinstance(fields, dict) and len(fields) == 1:
        # A form with one field, answered in one word.
        content = {next(iter(fields)): content}
    if not isinstance(content, dict):
        return "give an object with the fields of the form, accept, decline or cancel"
    try:
        read = ArgumentCheck("form", schema).read(cast("JsonObject", content))
    except Misuse as error:
        return str(error)
    if isinstance(read, Refused):
        return read.details
    filled = cast("dict[str, str | int | float | bool | list[str] | None]", read.filled)
    return ElicitResult(action="accept", content=filled)


def to_model_request(params: CreateMessageRequestParams) -> ModelRequest:
    """Return what a server asks of a model.

    Raises:
        CannotAnswer: It contains what is no text.
    """
    messages: list[Message] = []
    for one in params.messages:
        blocks: Sequence[object] = one.content if isinstance(one.content, list) else [one.content]
        texts = [block.text for block in blocks if isinstance(block, TextContent)]
        if len(texts) < len(blocks):
            raise CannotAnswer("it asks a model about what is no text, which is not supported")
        messages.append(Message(one.role, "\n".join(texts)))
    settings = ModelSettings(
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        stop=tuple(params.stop_sequences) if params.stop_sequences else None,
    )
    return ModelRequest(messages, system=params.system_prompt, settings=settings)


async def in_call(
    request: Awaitable[T], requests: ServerRequests, *, may_repeat: bool, task_id: str = ""
) -> T:
    """Return the result of a request, during which the server may ask.

    Args:
        request: The request.
        requests: Answers the server.
        may_repeat: Whether the request may be cut off and made again.
        task_id: The task that the request is about.

    Raises:
        CallWaits: The server asks the user, and nobody can answer now.
    """
    call = running_call.get()
    opened = OpenCall(None if call is None else call.log, may_repeat=may_repeat, task_id=task_id)
    sent, parked = asyncio.ensure_future(request), opened.parked
    requests.calls.append(opened)
    try:
        await asyncio.wait((sent, parked), return_when=asyncio.FIRST_COMPLETED)
        if sent.done():
            return sent.result()
        raise parked.result()
    finally:
        requests.calls.remove(opened)
        if not sent.done():
            # The server is notified, and may still ask while it ends.
            sent.cancel()
            await asyncio.wait((sent,))


# -- what a call may return besides


# In version 2025-11-25, the name has no unit.
_INTERVAL = AliasChoices("pollIntervalMs", "pollInterval")


class CreatedTask(Result):
    """What a call returns that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int | None = Field(None, validation_alias=_INTERVAL)


class TaskState(Result):
    """How far a task is, with its result once it has ended."""

    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    poll_interval_ms: int | None = Field(None, validation_alias=_INTERVAL)
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, InputRequest] | None = None


class TasksExtension(ClientExtension):
    """Tells servers that calls may become tasks, and receives what they say of tasks.

    Args:
        listeners: Receive the states of tasks, by the id of the task.
    """

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, listeners: Mapping[str, Callable[[TaskState], None]]) -> None:
        self._listeners = listeners

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        """Return what servers of version 2025-11-25 may say of a task by themselves."""
        binding = NotificationBinding(
            method="notifications/tasks/status", params_type=TaskState, handler=self._receive_state
        )
        return (binding,)

    async def _receive_state(self, state: TaskState) -> None:
        if (listener := self._listeners.get(state.task_id)) is not None:
            listener(state)

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the shape of a call's result that is a task."""
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_resolve),)


async def _resolve(created: CreatedTask, context: ClaimContext) -> CallToolResult:
    raise AssertionError("calls take tasks as they are")
