"""MCP: the agents of an App as tools, over streamable HTTP and over stdio.

A call of an agent's tool submits a run and follows it. A question to the user is sent to the client
as an elicitation if the client supports that; otherwise the result says what the run waits for, and
``upshot_continue`` follows the run further. Questions to staff are neither shown nor answerable.

When a client disconnects, its run continues; the end of an HTTP connection looks the same. A
cancelled request interrupts its run at the next safe point.

Source:
    Model Context Protocol, versions 2025-11-25 and 2026-07-28, read November 2026.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    redirect_stdout,
    suppress,
)
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from upshot.contract.agent import Agent
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.forms.public_form import approval_question
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Pending,
    PendingApproval,
    PendingEffect,
    PendingQuestion,
)
from upshot.contract.result import AgentResult
from upshot.contract.user import User
from upshot.entry.planning import known_of
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.journal.audit import Actor, set_actor
from upshot.serve.guard import rpc_refusal
from upshot.serve.permissions import from_scoped, may_start, owner_of, to_scoped
from upshot.serve.public import PublicEvent, asked_of_user, digest_of, public_events, public_run
from upshot.serve.site import Site, from_json
from upshot.version import __version__

Context: TypeAlias = ServerRequestContext[Any, Any]
UserOf: TypeAlias = Callable[[Context], Awaitable[User]]
Called: TypeAlias = "types.CallToolResult | types.InputRequiredResult"
V = TypeVar("V")
AnswersOf: TypeAlias = "Callable[[Sequence[Pending], Mapping[str, V]], list[AnyAnswer]]"

DOOR = "mcp"
REFUSALS = {"/mcp": rpc_refusal}
_USER = "upshot.user"
CONTINUE = "upshot_continue"
_INSTRUCTIONS = (
    "Each tool is an agent: it works on its message and answers when it is done. A result that "
    f"waits names its run; call {CONTINUE} with that run_id to follow it on."
)
# How long the run of a cancelled request is remembered, until the notification of that arrives.
_CANCEL_S = 10.0
_NAME = re.compile(r"[^A-Za-z0-9_.-]")


_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of an agent's tool."""

    message: str
    conversation: str = ""
    wait_s: _Seconds | None = None


class _Continued(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of ``upshot_continue``."""

    run_id: str
    answers: dict[str, Any] = {}
    wait_s: _Seconds | None = None


class _Follow(NamedTuple):
    """A run to follow.

    Attributes:
        handle: The run.
        wait_s: Seconds to wait; None waits as long as it takes.
        elicits: Whether its questions to the user are sent to the client.
    """

    handle: RunHandle
    wait_s: float | None
    elicits: bool = True


_WAIT: JsonObject = {
    "type": "number",
    "minimum": 0,
    "description": "Seconds to wait; then the run goes on and its id is returned. By default until "
    "it ends or waits for somebody.",
}
_ASKED: JsonObject = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What is asked of the agent."},
        "conversation": {
            "type": "string",
            "description": "The conversation that this goes on with, as an earlier result named it "
            "or as you name a new one.",
        },
        "wait_s": _WAIT,
    },
    "required": ["message"],
    "additionalProperties": False,
}
_FOLLOWED: JsonObject = {
    "type": "object",
    "properties": {
        "run_id": {"type": "string", "description": "The run, as a result named it."},
        "answers": {
            "type": "object",
            "description": "Answers to questions of the agent, by their ids. Approvals are given "
            "by a person, not here.",
        },
        "wait_s": _WAIT,
    },
    "required": ["run_id"],
    "additionalProperties": False,
}


def _result_schema(output: JsonObject | None) -> JsonObject:
    """Return the schema of a call's structured content."""
    text: JsonObject = {"type": "string"}
    answer: JsonObject = {} if output is None else {"output": output}
    return {
        "type": "object",
        "properties": {
            "run_id": text,
            "status": {
                **text,
                "description": "completed, failed, interrupted, canceled, aborted, input_required "
                "or running",
            },
            "conversation": text,
            "text": text,
            "error": {**text, "description": "The code of what went wrong."},
            "waits_for": {"type": "array", "items": {"type": "object"}},
            "waits_for_others": {"type": "boolean"},
            **answer,
        },
        "required": ["run_id", "status"],
    }


class AgentTools:
    """The agents of a site, as the tools of an MCP server.

    Args:
        site: The site.
        user_of: Returns the sender of a request.

    Attributes:
        server: The server.

    Raises:
        Misuse: Two agents would be tools of the same name.
    """

    def __init__(self, site: Site, user_of: UserOf) -> None:
        self._site = site
        self._user_of = user_of
        self._agents = _by_tool(site.app.agents)
        self._under_way: dict[tuple[str, str], RunHandle] = {}
        self.server: Server[Any] = Server(
            "upshot",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self.server.add_notification_handler(
            "notifications/cancelled", types.CancelledNotificationParams, self._cancel
        )

    async def _list(self, context: Context, params: object) -> types.ListToolsResult:
        user = await self._user_of(context)
        tools = [
            _tool_of(name, agent)
            for name, agent in self._agents.items()
            if may_start(user, agent.id)
        ]
        onward = types.Tool(
            name=CONTINUE,
            title="Follow a run",
            description="Follow a run that waits or still works, and get its result.",
            input_schema=_FOLLOWED,
            output_schema=_result_schema(None),
        )
        return types.ListToolsResult(tools=[*tools, onward])

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> Called:
        user = await self._user_of(context)
        # The task of the request is another one.
        set_actor(Actor(user.id, user.tenant, "mcp"))
        agent = self._agents.get(params.name)
        if agent is None and params.name != CONTINUE:
            known = ", ".join([*self._agents, CONTINUE])
            message = f"there is no tool {params.name!r}: there are {known}"
            raise MCPError(types.INVALID_PARAMS, message)
        try:
            follow = await self._run_of(user, agent, params)
            return await self._follow(context, user, follow)
        except Misuse as error:
            # Return it as a result: the client's model may correct its call.
            return _text_result(str(error), is_error=True)

    async def _run_of(
        self, user: User, agent: Agent[Any] | None, params: types.CallToolRequestParams
    ) -> _Follow:
        """Return the run of a call, after starting or answering it."""
        if agent is None:
            continued = _read(params, _Continued)
            handle = await public_run(self._site, user, continued.run_id, "operate")
            await self._answer(user, handle, _to_questions, continued.answers)
            return _Follow(handle, continued.wait_s)
        asked = _read(params, _Asked)
        if params.request_state is None:
            conversation = asked.conversation or None
            handle = await self._site.submit(
                user, agent.id, asked.message, conversation=conversation
            )
            return _Follow(handle, asked.wait_s)
        # Access is checked against the run's owner, so the state needs no signature.
        handle = await public_run(self._site, user, params.request_state, "operate")
        replies = params.input_responses or {}
        is_answered = await self._answer(user, handle, _to_elicited, replies)
        # Do not show the form again to a user who closed it.
        return _Follow(handle, asked.wait_s, elicits=is_answered or not replies)

    async def _answer(
        self, user: User, handle: RunHandle, answers_of: AnswersOf[V], replies: Mapping[str, V]
    ) -> bool:
        """Answer what the run waits for; return whether there was anything to answer."""
        result = await handle.result(0) if replies else None
        answers = answers_of(() if result is None else result.pending, replies)
        if answers:
            await self._site.answer(user, handle.id, answers, door=DOOR)
        return bool(answers)

    async def _follow(self, context: Context, user: User, follow: _Follow) -> Called:
        """Follow a run until it ends, waits for what the client cannot answer, or time is up."""
        key = _place_of(context), str(context.request_id)
        self._under_way[key] = follow.handle
        try:
            called = await self._result_of(context, user, follow)
        except asyncio.CancelledError:
            # A notification that arrives later says whether the client asked for the cancel.
            asyncio.get_running_loop().call_later(_CANCEL_S, self._under_way.pop, key, None)
            raise
        except BaseException:
            self._under_way.pop(key, None)
            raise
        self._under_way.pop(key, None)
        return called

    async def _result_of(self, context: Context, user: User, follow: _Follow) -> Called:
        """See ``_follow``."""
        handle = follow.handle
        async with _progress(context, self._site.app, handle):
            while True:
                result = await handle.result(follow.wait_s)
                asked = () if result is None else asked_of_user(result.pending)
                if not (asked and follow.elicits and _can_elicit(context)):
                    return _result(user, handle.id, result)
                requests = {_key(item): _elicitation(item) for item in asked}
                if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return types.InputRequiredResult(
                        input_requests={**requests}, request_state=handle.id
                    )
                replies = await _elicit(context, requests)
                if not await self._answer(user, handle, _to_elicited, replies):
                    return _result(user, handle.id, result)

    async def _cancel(self, context: Context, params: types.CancelledNotificationParams) -> None:
        """Interrupt the run of a request that the client cancelled."""
        key = _place_of(context), str(params.request_id)
        if (handle := self._under_way.pop(key, None)) is not None:
            await handle.interrupt(detail=params.reason or "the client cancelled its request")


# -- tools


def _by_tool(agents: Mapping[str, Agent[Any]]) -> dict[str, Agent[Any]]:
    """Return the agents by the names of their tools."""
    found: dict[str, Agent[Any]] = {}
    for agent in agents.values():
        name = _NAME.sub("_", agent.id)[:128]
        if name in found or name == CONTINUE:
            raise Misuse(
                f"agent {agent.id!r} would be the MCP tool {name!r}, which there is already: give "
                "it another id"
            )
        found[name] = agent
    return found


def _tool_of(name: str, agent: Agent[Any]) -> types.Tool:
    description = agent.card.description if agent.card is not None else ""
    return types.Tool(
        name=name,
        title=agent.name or agent.id,
        description=description or f"Asks the agent {agent.name or agent.id}.",
        input_schema=_ASKED,
        output_schema=_result_schema(known_of(agent).output.schema),
    )


def _read(params: types.CallToolRequestParams, kind: type[V]) -> V:
    try:
        return msgspec.convert(params.arguments or {}, kind)
    except msgspec.ValidationError as error:
        raise Misuse(f"the arguments of {params.name} are wrong: {error}") from error


# -- results


def _result(user: User, run_id: str, result: AgentResult[Json] | None) -> types.CallToolResult:
    """Return the result of a call: the state of its run, as text and as structured content."""
    if result is None:
        summary = f"Run {run_id} still works. Call {CONTINUE} with this run_id to follow it on."
        return _text_result(summary, {"run_id": run_id, "status": "running"})
    facts: JsonObject = {"run_id": run_id, "status": str(result.status)}
    if result.context_id:
        facts["conversation"] = from_scoped(owner_of(user), result.context_id)
    if result.pending:
        facts["waits_for"] = [_to_question(item) for item in asked_of_user(result.pending)]
        facts["waits_for_others"] = len(asked_of_user(result.pending)) < len(result.pending)
        return _text_result(_describe_waits(run_id, result.pending), facts)
    if result.error is not None:
        facts["error"] = str(result.error.code)
        summary = f"Run {run_id} ended as {result.status}: {result.error.code}."
        return _text_result(summary, facts, is_error=True)
    if not result.committed:
        return _text_result(f"Run {run_id} ended, and its answer was not let pass.", facts)
    text = result.output if isinstance(result.output, str) else result.content
    if text:
        facts["text"] = text
    if not isinstance(result.output, str):
        facts["output"] = result.output
    return _text_result(text or json.dumps(result.output, ensure_ascii=False), facts)


def _text_result(
    text: str, facts: JsonObject | None = None, *, is_error: bool = False
) -> types.CallToolResult:
    content = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=[*content], structured_content=facts, is_error=is_error)


def _describe_waits(run_id: str, pending: Sequence[Pending]) -> str:
    """Describe what a run waits for, and how to continue."""
    asked = [f"- {item.id}: {_question_of(item)}" for item in asked_of_user(pending)]
    lines = [f"Run {run_id} waits for its user:", *asked] if asked else []
    if len(asked) < len(pending):
        lines.append(f"Run {run_id} waits for somebody else, who answers elsewhere.")
    if any(isinstance(item, PendingApproval) for item in asked_of_user(pending)):
        lines.append("A person has to approve, in a client that can ask or in the inbox.")
    lines.append(f"Call {CONTINUE} with run_id {run_id!r} to follow it on.")
    return "\n".join(lines)


# -- what is asked, and answered


def _key(item: PendingApproval | PendingQuestion) -> str:
    """Return the key of an elicitation; the digest binds the answer to the question shown."""
    digest = digest_of(item)
    return f"{item.id}/{digest}" if digest else item.id


def _question_of(item: PendingApproval | PendingQuestion) -> str:
    if isinstance(item, PendingQuestion):
        return item.question
    return approval_question(item)


def _to_question(item: PendingApproval | PendingQuestion) -> JsonObject:
    asked: JsonObject = {"id": item.id, "question": _question_of(item)}
    if isinstance(item, PendingQuestion):
        return {**asked, "kind": "question", "choices": [*item.choices]}
    return {**asked, "kind": "approval", "tool": item.tool_name, "arguments": item.arguments}


def _elicitation(item: PendingApproval | PendingQuestion) -> types.ElicitRequest:
    """Return the form with which a client asks its user."""
    if isinstance(item, PendingApproval):
        decision = {"type": "string", "enum": ["approve", "deny"], "title": "Decision"}
        reason = {"type": "string", "title": "Why not, for the agent"}
        properties, required = {"decision": decision, "reason": reason}, "decision"
    else:
        properties, required = {"value": _field_of(item)}, "value"
    schema = {"type": "object", "properties": properties, "required": [required]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=_question_of(item), requested_schema=schema)
    )


def _field_of(question: PendingQuestion) -> dict[str, Any]:
    """Return the field for the answer; forms have simple fields only, so others become JSON."""
    if question.choices:
        return {"type": "string", "enum": [*question.choices], "title": "Answer"}
    kind = "string" if question.schema is None else question.schema.get("type")
    if kind in ("string", "number", "integer", "boolean"):
        return {"type": kind, "title": "Answer"}
    return {"type": "string", "title": "Answer, as JSON"}


def _to_questions(pending: Sequence[Pending], values: Mapping[str, Any]) -> list[AnyAnswer]:
    """Return the answers in a call of ``upshot_continue``; a model may have written them."""
    open_ = {item.id: item for item in asked_of_user(pending)}
    answers: list[AnyAnswer] = []
    for id, value in values.items():
        item = open_.get(id)
        if isinstance(item, PendingApproval | PendingEffect):
            what = "an approval" if isinstance(item, PendingApproval) else "about an unknown effect"
            raise Misuse(
                f"{id!r} is {what}: a person answers it, in a client that can ask, or in the inbox"
            )
        if item is None:
            known = ", ".join(open_) or "none"
            raise Misuse(f"{id!r} is no open question to you: there are {known}")
        answers.append(Answer(id, value))
    return answers


def _to_elicited(pending: Sequence[Pending], replies: Mapping[str, Any]) -> list[AnyAnswer]:
    """Return the answers that the user gave in forms; those to closed questions are ignored."""
    answers: list[AnyAnswer] = []
    for item in pending:
        if not isinstance(item, PendingApproval | PendingQuestion):
            continue
        reply = replies.get(_key(item))
        if not isinstance(reply, types.ElicitResult) or reply.action == "cancel":
            continue
        if item.audience != "user":
            raise Misuse(f"{item.id!r} is not yours to answer")
        answer = _answer_of(item, reply)
        answers += [] if answer is None else [answer]
    return answers


def _answer_of(
    item: PendingApproval | PendingQuestion, reply: types.ElicitResult
) -> AnyAnswer | None:
    given: Mapping[str, Any] = reply.content or {}
    if isinstance(item, PendingApproval):
        is_yes = reply.action == "accept" and given.get("decision") == "approve"
        return item.approve() if is_yes else item.deny(str(given.get("reason") or ""))
    if reply.action == "decline":
        return None
    value = given.get("value")
    if "JSON" in _field_of(item)["title"] and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise Misuse(f"the answer to {item.id!r} is no JSON") from None
    return Answer(item.id, cast("Json", value), digest=digest_of(item))


def _can_elicit(context: Context) -> bool:
    known = context.session.client_capabilities
    able = None if known is None else known.elicitation
    # A client that knows only forms sends an empty capability.
    return able is not None and (able.form is not None or able.url is None)


async def _elicit(
    context: Context, requests: Mapping[str, types.ElicitRequest]
) -> dict[str, types.ElicitResult]:
    """Ask the user one question after another, until the client fails to answer."""
    replies: dict[str, types.ElicitResult] = {}
    for key, request in requests.items():
        form = request.params
        if not isinstance(form, types.ElicitRequestFormParams):
            continue
        with suppress(MCPError):
            replies[key] = await context.session.elicit_form(
                form.message, form.requested_schema, context.request_id
            )
    return replies


# -- while a run works


@asynccontextmanager
async def _progress(context: Context, app: App, handle: RunHandle) -> AsyncGenerator[None]:
    """Report the run's progress to the client inside the block, if it asked for that."""
    if "progress_token" not in (context.meta or {}):
        yield
        return
    # With this the run can be found again even if the connection is lost.
    await context.session.report_progress(0, message=f"run {handle.id}")
    task = asyncio.create_task(_report(context, app, handle))
    try:
        yield
    finally:
        task.cancel()
        # A failed progress report must not affect the result.
        await asyncio.gather(task, return_exceptions=True)


async def _report(context: Context, app: App, handle: RunHandle) -> None:
    """Report what the user may see of the run."""
    count = 0
    async for event in public_events(app, handle):
        if message := progress_of(event):
            count += 1
            await context.session.report_progress(count, message=message)


def progress_of(event: PublicEvent) -> str:
    """Return the progress message for a public event; "" for none."""
    match event:
        case {"kind": "message", "text": str(text)}:
            return text
        case {"kind": "tool", "name": str(name), "text": str(text)}:
            return f"{name}: {text}"
        case {"kind": "tool", "name": str(name), "state": str(state)}:
            return f"{name}: {state}"
        case _:
            return ""


# -- transports


def _place_of(context: Context) -> str:
    """Return the session id of a request's connection; "" if it has none."""
    request = context.request
    return "" if request is None else request.headers.get("mcp-session-id", "")


class _Endpoint:
    """``/mcp`` as an ASGI app: streamable HTTP, with sessions for versions before 2026."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Keep sessions inside the block."""
        manager = StreamableHTTPSessionManager(AgentTools(self._site, _user_of).server)
        async with manager.run():
            self._manager = manager
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = await self._site.user(HttpRequest(scope, receive))
        if self._manager is None:
            raise HTTPException(503, "MCP is not served yet: the application has not started")
        # A session belongs to the user who started it.
        token = AccessToken(token="", client_id=to_scoped(owner_of(user), ""), scopes=[])
        scope = {**scope, _USER: user, "user": AuthenticatedUser(token)}
        if scope["method"] == "POST":
            body = await HttpRequest(scope, receive).body()
            if fault := _fault_in(body):
                await JSONResponse(rpc_refusal(400, fault), 400)(scope, receive, send)
                return
            receive = _replay_body(body, receive)
        await self._manager.handle_request(scope, receive, send)


def _fault_in(body: bytes) -> str:
    """Return why the body of a request is not a JSON-RPC message, or "" if it is one."""
    try:
        sent: object = from_json(body)
    except Misuse as error:
        return str(error)
    named = cast("JsonObject", sent) if isinstance(sent, dict) else {}
    is_answer = not named.keys().isdisjoint(("result", "error"))
    if named.get("jsonrpc") == "2.0" and (isinstance(named.get("method"), str) or is_answer):
        return ""
    return 'the body of the request is no message of JSON-RPC: give "jsonrpc": "2.0" and a method'


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that first returns a body that was already read."""
    sent: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return sent.pop() if sent else await receive()

    return receive_again


async def _user_of(context: Context) -> User:
    """Return the sender of an HTTP request."""
    return cast("HttpRequest", context.request).scope[_USER]


_ENDPOINTS: WeakKeyDictionary[Site, _Endpoint] = WeakKeyDictionary()


def routes(site: Site) -> list[Route]:
    """Return the route of the door."""
    return [Route("/mcp", _ENDPOINTS.setdefault(site, _Endpoint(site)))]


def lifespan(site: Site) -> AbstractAsyncContextManager[None]:
    """Keep open what the route needs while the application runs."""
    return _ENDPOINTS[site].open()


async def serve_stdio(site: Site, user: User) -> None:
    """Serve a client on standard input and output until it disconnects.

    What the process prints during that goes to standard error.

    Args:
        site: The site.
        user: The user who owns the client's runs.
    """

    async def is_user(context: Context) -> User:
        return user

    server = AgentTools(site, is_user).server
    async with AsyncExitStack() as stack:
        # The process's own output, even if prints are redirected at the moment.
        with redirect_stdout(sys.__stdout__):
            incoming, outgoing = await stack.enter_async_context(stdio_server())
        stack.enter_context(redirect_stdout(sys.stderr))
        await server.run(incoming, outgoing, server.create_initialization_options())
