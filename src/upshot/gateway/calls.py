"""The calls of one session: through a Toolbox, or through a run if a person is asked."""

from __future__ import annotations

import asyncio
import hashlib
import secrets as random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

import msgspec
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, PROTOCOL_VERSION_META_KEY

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec, RunInfo
from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.events import RunSettled, RunStarted
from upshot.contract.forms.public_form import approval_question
from upshot.contract.model_calls import Request
from upshot.contract.pending import Approve, Deny, PendingApproval
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import (
    ToolCall,
    ToolExecutionResult,
    ToolOutcome,
    outcome_to_model_content,
)
from upshot.contract.tool_context import ToolContext
from upshot.engines.script import ScriptEngine
from upshot.entry.api import resume, run
from upshot.entry.run_handle import RunHandle
from upshot.entry.session_setup import has_log
from upshot.errors import JournalError
from upshot.gateway.config import Config
from upshot.gateway.link import CannotReach, Link
from upshot.gateway.peer import Context, Id, Params
from upshot.journal.shared import needs_shared
from upshot.journal.watching import placed_answers_topic, watch
from upshot.journal.work_listeners import work_listeners
from upshot.runs.engine_api.exceptions import Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board
from upshot.tools.definition.lookup import Lookup
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.definition.tool_options import UnknownEffect
from upshot.tools.toolbox import Toolbox
from upshot.tools.toolbox_state import JournalLog

META = "upshot/outcome"
_ENDED: AgentResult[Json] = AgentResult(status=Status.COMPLETED, agent_id="gateway")
_NO_LIMITS = Budget(max_turns=None, max_depth=None, tool_timeout_s=None)
# A new Toolbox and log after this many calls: a Toolbox remembers every call.
_CALLS_A_LOG = 1_000
# The JSON-RPC errors for a request that was not carried out.
_REFUSED = frozenset({-32700, -32600, -32601, -32602})
# How often a waiting call reports progress, so that the client does not time out.
_TELL_S = 5.0


@dataclass(eq=False)
class Ticket:
    """A client's call that is under way.

    Attributes:
        link: The server that makes it.
        context: The client's request.
        params: What the client sent.
        result: The server's result; None until it has answered.
        error: The server's error, or the connection's; None if there was none.
    """

    link: Link
    context: Context
    params: JsonObject
    result: JsonObject | None = None
    error: MCPError | None = None

    async def make(self, name: str, arguments: JsonObject, error: Effect | None) -> JsonObject:
        """Send the call to the server.

        Args:
            name: The tool as the server calls it.
            arguments: Validated.
            error: The effect to assume if the server answers with an error; None is unknown.

        Raises:
            ToolError: The server says that the call failed, or does not answer.
        """
        sent = {**self.params, "name": name, "arguments": arguments}
        try:
            self.result = result = await ask(self.link, self.context, "tools/call", sent)
        except MCPError as refused:
            self.error = refused
            is_none = isinstance(refused, CannotReach) or refused.code in _REFUSED
            raise ToolError(
                refused.message or f"the server refused with code {refused.code}",
                code="connection_lost" if refused.code == CONNECTION_CLOSED else None,
                effect=Effect.NONE if is_none else None,
            ) from refused
        if result.get("resultType") == "input_required":
            # The client answers what the server asks, and makes the same call again.
            raise ToolError("the server asks for input first", effect=Effect.NONE)
        if result.get("resultType") == "task" or ("task" in result and "content" not in result):
            raise ToolError("the server made a task of it, which was not asked for")
        if result.get("isError") is True:
            raise ToolError(_text_of(result) or "it failed and gave no reason", effect=error)
        return result


class Owner(NamedTuple):
    """The user and tenant that calls belong to; "" if unknown."""

    user: str = ""
    tenant: str = ""

    @property
    def attributes(self) -> JsonObject:
        """The attributes of the runs of these calls."""
        return {name: value for name, value in self._asdict().items() if value}

    def __str__(self) -> str:
        return self.user or "a client"


class Elicit(Protocol):
    """Ask the person at the client; return None if there is no answer."""

    def __call__(self, item: PendingApproval) -> Awaitable[Approve | Deny | None]: ...


@dataclass(eq=False)
class _Log:
    box: Toolbox
    left: int = _CALLS_A_LOG


@dataclass(eq=False)
class Calls:
    """Makes the calls of one session.

    Args:
        config: The gateway's configuration.
        journal: Stores the calls.
        owner: The user and tenant that the calls belong to.
        tools: The tools by their own names, filled by the session.
    """

    config: Config
    journal: Journal
    owner: Owner
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    tickets: dict[str, Ticket] = field(default_factory=dict[str, Ticket])
    _log: _Log | None = None
    _runs: list[str] = field(default_factory=list[str])
    _beginning: asyncio.Lock = field(default_factory=asyncio.Lock)
    # The number of the latest question about a call, by the call's digest.
    _rounds: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.masks: Secrets | None = self.config.masks

    def body_of(self, name: str, error: Effect | None) -> Callable[..., Awaitable[JsonObject]]:
        """The body of the tool that its server calls *name*."""

        async def call(context: ToolContext, arguments: JsonObject) -> JsonObject:
            return await self.tickets[context.call_id].make(name, arguments, error)

        return call

    def verify_of(
        self, link: Link, lookup: Lookup, envelope: Mapping[str, Any]
    ) -> Callable[..., Awaitable[bool]]:
        """Return a hook that asks another tool of the server whether a call took effect."""

        async def call(name: str, arguments: JsonObject) -> Json:
            asked = {**envelope, "name": name, "arguments": arguments}
            result = await link.request("tools/call", asked)
            if result.get("isError") is True:
                raise ToolError(_text_of(result))
            value = result.get("structuredContent")
            return _text_of(result) if value is None else value

        async def verify(unknown: UnknownEffect) -> bool:
            return await lookup.ask(unknown.arguments, call)

        return verify

    def forget(self) -> None:
        """Start a new Toolbox, with the current tools, at the next call."""
        self._log = None

    async def make(self, tool: Tool, ticket: Ticket, elicit: Elicit | None) -> JsonObject:
        """Make a call and return the result for the client.

        Args:
            tool: The tool.
            ticket: The call.
            elicit: Asks the person at the client; None if that is impossible.

        Raises:
            MCPError: The server refused the call, so that it was not made.
        """
        given = cast("JsonObject", ticket.params.get("arguments") or {})
        box = await self._box()
        may_ask = tool.always_asks or not isinstance(tool.approval, bool | None)
        if may_ask or callable(tool.deny) or self.config.policy is not None:
            dry = await box.check(ToolCall("c", tool.name, given))
            if dry.pending is not None:
                return await self._ask(tool, ticket, given, elicit)
        call_id = random.token_hex(8)
        with self._under(call_id, ticket):
            (outcome,) = await box.dispatch([ToolCall(call_id, tool.name, given)])
            if outcome.effect is not Effect.NONE:
                # The outcome is on disk before the client gets it.
                await box.flush()
        for listener in work_listeners():
            listener.called(tool.name, outcome)
        return self.to_result(outcome, ticket)

    @contextmanager
    def _under(self, call_id: str, ticket: Ticket) -> Generator[None]:
        """Register a ticket while its call is dispatched, so that the body finds it."""
        self.tickets[call_id] = ticket
        try:
            yield
        finally:
            self.tickets.pop(call_id, None)

    async def aclose(self) -> None:
        """End the logs of the session."""
        for run_id in self._runs:
            with suppress(JournalError):
                await self._write(run_id, RunSettled(result=_ENDED))

    async def _box(self) -> Toolbox:
        async with self._beginning:
            log = self._log
            if log is None or log.left <= 0:
                log = self._log = _Log(await self._new_box())
        log.left -= 1
        # Each call is its own turn: the gateway cannot know what the client's model has seen.
        log.box.new_turn()
        return log.box

    async def _write(self, run_id: str, event: RunStarted | RunSettled) -> None:
        log = JournalLog(self.journal, run_id, clock=SYSTEM_CLOCK, attempt=lambda: 0)
        await log.open()
        log.emit(event)
        await log.barrier()

    async def _new_box(self) -> Toolbox:
        run_id = f"gateway-{random.token_hex(8)}"
        attributes = self.owner.attributes
        identity = RunInfo(agent_id="gateway", run_id=run_id, attributes=attributes)
        # The run belongs to the user, so that it is listed and its effects carry their name.
        request = Request(f"Calls of {self.owner}", run_id=run_id)
        agent = AgentSpec(id="gateway", name="gateway")
        await self._write(run_id, RunStarted(agent=agent, request=request, attributes=attributes))
        self._runs.append(run_id)
        return Toolbox(
            self.tools.values(),
            journal=self.journal,
            identity=identity,
            budget=_NO_LIMITS,
            policy=self.config.policy,
            secrets=self.config.secrets,
            keeps_outputs=True,
        )

    # -- calls that wait for a person

    async def _ask(
        self, tool: Tool, ticket: Ticket, given: JsonObject, elicit: Elicit | None
    ) -> JsonObject:
        """Ask a person about a call, in a run that parks; see the package's docstring."""
        identity = canonical_json([*self.owner, tool.name, tool.version, given])
        digest = hashlib.sha256(identity).hexdigest()[:16]
        run_id = await self._open_question(digest)
        call = ToolCall(run_id, tool.name, given)
        loop = asyncio.get_running_loop()
        until = loop.time() + self.config.wait_s
        with self._under(run_id, ticket):
            result = await self._continue_run(tool, call)
            async with _telling(ticket.context, run_id):
                while (item := _open_item(result)) is not None:
                    answer = await self._answer(run_id, item, elicit, until - loop.time())
                    elicit = None
                    if answer is None and not await self._is_answered(run_id):
                        return _waiting(run_id, item)
                    result = await self._continue_run(tool, call, answer)
        if result.status != Status.COMPLETED or not result.tool_outcomes:
            why = "" if result.error is None else f": {result.error.message}"
            return error_result(f"run {run_id} ended as {result.status}{why}")
        return self.to_result(result.tool_outcomes[-1], ticket)

    async def _open_question(self, digest: str) -> str:
        """Return the run id of the open question, or a new one."""
        number = self._rounds.get(digest, 1)
        while await self._has_ended(f"ask-{digest}-{number}"):
            number += 1
        self._rounds[digest] = number
        return f"ask-{digest}-{number}"

    async def _has_ended(self, run_id: str) -> bool:
        """Whether a question's run has ended. The same call is then asked about again."""
        if not await has_log(run_id, self.journal):
            return False
        result = await RunHandle(run_id, self.journal).result(0)
        return result is not None and result.status != Status.INPUT_REQUIRED

    async def _continue_run(
        self, tool: Tool, call: ToolCall, answer: Approve | Deny | None = None
    ) -> AgentResult[Any]:
        """Start the run of a question, or resume it."""

        async def script(own: Run, host: RunHost, board: Board) -> str:
            if not await own.tools.dispatch([call]):
                raise Parked(*own.tools.pending)
            return call.name

        if tool.declared_effect is not Effect.READ:
            # An unknown effect is reported to the client; the run may not ask a second question.
            tool = tool.but(on_unknown="tell")
        agent = Agent[Any]("gateway", tools=[tool], engine=ScriptEngine(script))
        options: dict[str, Any] = {
            "policy": self.config.policy,
            "secrets": self.config.secrets,
            "budget": _NO_LIMITS,
        }
        if await has_log(call.id, self.journal):
            answers = () if answer is None else (answer,)
            return await resume(call.id, agent, journal=self.journal, answers=answers, **options)
        request = Request(f"{call.name} for {self.owner}", run_id=call.id)
        attributes = self.owner.attributes
        return await run(agent, request, journal=self.journal, attributes=attributes, **options)

    async def _answer(
        self, run_id: str, item: PendingApproval, elicit: Elicit | None, wait_s: float
    ) -> Approve | Deny | None:
        """Wait for an answer at the client or in the inbox, whichever comes first."""
        waits = [asyncio.create_task(self._inbox_answer(run_id))]
        if elicit is not None and item.audience == "user":
            waits.append(asyncio.ensure_future(cast("Any", elicit(item))))
        try:
            open_ = set[asyncio.Task[Any]](waits)
            until = asyncio.get_running_loop().time() + max(wait_s, 0.0)
            while open_:
                left = until - asyncio.get_running_loop().time()
                done, open_ = await asyncio.wait(
                    open_, timeout=max(left, 0.0), return_when=asyncio.FIRST_COMPLETED
                )
                if not done or waits[0] in done:
                    return None
                for one in done:
                    if (answer := one.result()) is not None:
                        return answer
            return None
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _inbox_answer(self, run_id: str) -> None:
        """Wait until the question was answered in the inbox."""
        with watch(self.journal, placed_answers_topic(run_id)) as changes:
            while not await self._is_answered(run_id):
                await changes.changed(1.0)

    async def _is_answered(self, run_id: str) -> bool:
        """Whether the question was answered in the inbox, by all users that it needs."""
        placed = await needs_shared(self.journal).placed_answers(run_id)
        return any(not one.part for one in placed)

    # -- results

    def to_result(self, outcome: ToolOutcome, ticket: Ticket) -> JsonObject:
        """Return an outcome as the client's result; the session masks it.

        Raises:
            MCPError: The server refused the call, so that it was not made.
        """
        facts = {name: getattr(outcome, name, None) for name in _TOLD}
        meta = {
            name: cast("Json", msgspec.to_builtins(value)) for name, value in facts.items() if value
        }
        if ticket.error is not None and outcome.effect is Effect.NONE:
            raise ticket.error
        is_success = isinstance(outcome, ToolExecutionResult)
        if ticket.result is not None and (is_success or outcome.effect is not Effect.UNKNOWN):
            return ticket.result
        if is_success:
            return _repeated(outcome, meta)
        return error_result(outcome_to_model_content(outcome, rich=True), meta)

    def mask(self, value: Any) -> Any:
        """*value* without secrets."""
        return value if self.masks is None or value is None else self.masks.mask(value)


_TOLD = ("kind", "effect", "reason", "code", "repeats", "settled")


async def ask(
    link: Link, context: Context, method: str, params: Params, request_id: Id | None = None
) -> dict[str, Any]:
    """Forward a client's request to a server, and its progress back."""
    link.in_flight.append(context)
    try:
        return await link.request(method, params, context.progress, request_id=request_id)
    finally:
        link.in_flight.remove(context)


def error_result(text: str, meta: Mapping[str, Json] | None = None) -> dict[str, Any]:
    """Return the result of a call that failed or was not made, with a text for the model."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    return {**result, "_meta": {META: dict(meta)}} if meta else result


def _repeated(outcome: ToolExecutionResult, first_result: JsonObject) -> JsonObject:
    """The result of an earlier call, with one line that says so."""
    result: JsonObject = dict(outcome.output)
    first = outcome.repeats
    at = "" if first is None or first.at is None else f" at {first.at.isoformat()}"
    note: Json = {"type": "text", "text": f"This was done before{at}, and not again."}
    content = result.get("content")
    result["content"] = [*(content if isinstance(content, list) else []), note]
    meta = result.get("_meta")
    return {**result, "_meta": {**(meta if isinstance(meta, dict) else {}), META: first_result}}


def _waiting(run_id: str, item: PendingApproval) -> JsonObject:
    why = f" ({item.reason})" if item.reason else ""
    text = (
        f"{item.tool_name} was not called yet: it waits for a person to approve it{why}. The "
        f"question is {run_id}, in the inbox. Make the same call again to continue, "
        "and tell the user that it waits."
    )
    return error_result(text, {"kind": "waiting", "question": run_id})


def _open_item(result: AgentResult[Any]) -> PendingApproval | None:
    """Return the run's open question, or None if it has ended."""
    return next((one for one in result.pending if isinstance(one, PendingApproval)), None)


def _text_of(result: JsonObject) -> str:
    blocks = cast("list[JsonObject]", result.get("content") or [])
    return "\n".join(str(one["text"]) for one in blocks if "text" in one)


@asynccontextmanager
async def _telling(context: Context, run_id: str) -> AsyncGenerator[None]:
    """Report to the client, while the block runs, that its call waits."""

    async def tell() -> None:
        count, message = 0, f"waits for approval: {run_id}"
        while True:
            count += 1
            await context.progress({"progress": count, "message": message})
            await asyncio.sleep(_TELL_S)

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(task, return_exceptions=True)


# -- elicitation


def form_of(item: PendingApproval) -> JsonObject:
    """Return the elicitation form of a question."""
    decision: Json = {"type": "string", "enum": ["approve", "deny"], "title": "Decision"}
    reason: Json = {"type": "string", "title": "Why not"}
    schema: Json = {
        "type": "object",
        "properties": {"decision": decision, "reason": reason},
        "required": ["decision"],
    }
    return {"message": approval_question(item), "requestedSchema": schema}


def answer_in(item: PendingApproval, reply: object, by: str) -> Approve | Deny | None:
    """Return a person's answer in a form, or None if they closed it."""
    fields = cast("JsonObject", reply) if isinstance(reply, dict) else {}
    action, content = fields.get("action"), fields.get("content")
    given = content if isinstance(content, dict) else {}
    if action == "accept" and given.get("decision") == "approve":
        return item.approve(by=by)
    if action == "decline" or given.get("decision") == "deny":
        return item.deny(str(given.get("reason") or ""), by=by)
    return None


def can_elicit(capabilities: object) -> bool:
    """Whether a client with these capabilities can show a form."""
    declared = cast("JsonObject", capabilities) if isinstance(capabilities, dict) else {}
    able = declared.get("elicitation")
    # An empty object is from a client that knows only forms.
    return isinstance(able, dict) and ("form" in able or "url" not in able)


def envelope_of(params: Params) -> JsonObject:
    """Return the envelope of a request; empty for a client with a handshake."""
    meta = (params or {}).get("_meta")
    found = cast("JsonObject", meta) if isinstance(meta, dict) else {}
    return found if PROTOCOL_VERSION_META_KEY in found else {}
