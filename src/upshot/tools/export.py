"""Tools as native tools of other agent frameworks.

A ``Desk`` makes the calls: for a Toolbox, which lives as long as this process, or for
``upshot.guard``, which logs them in a journal. All differences between frameworks are here.

Source:
    pydantic-ai 2 (``Tool.from_schema``, ``ApprovalRequired``), openai-agents 0.20
    (``FunctionTool``), langchain-core 1 (``BaseTool``), langgraph 1 (``interrupt``), read in 2026.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from upshot.contract.base.enums import FinishReason
from upshot.contract.base.structs import JsonObject
from upshot.contract.pending import EARLIER, Approve, Deny, Edit, PendingApproval, TaintOrigin
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolSpec,
    ToolTimeout,
)
from upshot.errors import Misuse
from upshot.native.langchain_messages import read_langchain_message
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.locks import Claim, Locks
from upshot.wire.accumulator import mark_cut

_WAITS = '{"error":"Blocked: it waits for the approval of a person","blocked":true}'
_CALL_ID: ContextVar[str] = ContextVar("upshot_langchain_call_id", default="")


class Conversation(NamedTuple):
    """What a framework knows of the conversation in which a call was made.

    Attributes:
        id: The framework's id of it, "" if it has none.
        user_text: The user's last message, "" for none.
        turn: How many messages the user has written.
        replies: The calls of each reply of the model, including the last one; None if the
            framework does not expose them.
        reply: Identifies the last reply among those of all conversations; None if the framework
            does not expose it.
    """

    id: str = ""
    user_text: str = ""
    turn: int = 0
    replies: tuple[tuple[ToolCall, ...], ...] | None = None
    reply: object = None


class Decision(NamedTuple):
    """A person's decision about a call, as the framework obtained it.

    Attributes:
        is_yes: Whether the call may be made.
        reason: Why not, "" for no reason.
        by: The source of the approval: the framework's name.
    """

    is_yes: bool
    reason: str = ""
    by: str = ""


async def _has_no_foreign() -> bool:
    return False


class ForeignCall(NamedTuple):
    """A call as a framework makes it.

    Attributes:
        call: Its id, tool and arguments.
        decision: A person's decision about it; None if it was not asked for yet.
        context: The framework's own context object, for naming runs by it.
        conversation: Reads the conversation.
        has_foreign: Finds out whether an assistant or tool message in the conversation was made
            elsewhere, so that it is unknown what was read before it.
    """

    call: ToolCall
    decision: Decision | None = None
    context: object = None
    conversation: Callable[[], Conversation] = Conversation
    has_foreign: Callable[[], Awaitable[bool]] = _has_no_foreign


class Handed(NamedTuple):
    """The result of a call.

    Attributes:
        outcome: Its outcome; None while it waits for approval.
        content: The text for the model.
        pending: The question to a person; None once there is an outcome.
    """

    outcome: ToolOutcome | None
    content: str = _WAITS
    pending: PendingApproval | None = None


class Desk(Protocol):
    """Makes the calls of a framework.

    Attributes:
        is_durable: Whether its calls outlive this process. Then a waiting call parks the
            framework's run in the framework's own way, outcomes are passed as JSON, and calls may
            come from any event loop.
    """

    @property
    def is_durable(self) -> bool: ...

    def schemas(self) -> Sequence[ToolSpec]:
        """Return the offered tools."""
        ...

    def find(self, name: str) -> Tool | None:
        """Return the tool called *name*, or None."""
        ...

    async def make(self, asked: ForeignCall) -> Handed:
        """Make a call, or say that it waits for approval."""
        ...


class Box(Protocol):
    """The part of a Toolbox that is needed here."""

    @property
    def tainted(self) -> TaintOrigin | None:
        """What brought untrusted content into the context."""
        ...

    @property
    def asks_after_taint(self) -> bool:
        """Whether untrusted content changes what needs approval."""
        ...

    def distrust(self, origin: TaintOrigin) -> None:
        """Mark the context as containing untrusted content."""
        ...

    def schemas(self) -> Sequence[ToolSpec]:
        """Return the offered tools."""
        ...

    def content_of(self, outcome: ToolOutcome) -> str:
        """Return the content of the tool message for an outcome."""
        ...

    def find(self, name: str) -> Tool | None:
        """Return the tool called *name*, or None."""
        ...

    def question_about(self, call_id: str) -> PendingApproval | None:
        """Return the question to the user about a waiting call, or None."""
        ...

    async def dispatch(
        self, calls: Sequence[ToolCall], *, turn: int = 0, reply: object = None
    ) -> list[ToolOutcome]:
        """Run calls."""
        ...

    async def answer(self, answers: Iterable[Approve | Deny | Edit]) -> list[ToolOutcome]:
        """Resume parked calls with their answers."""
        ...


def to_pydantic_ai(desk: Desk) -> list[Any]:
    """Make Pydantic AI tools; a call that needs approval becomes one of its deferred calls.

    Raises:
        Misuse: The package is not installed.
    """
    native = _load("pydantic_ai", "pydantic-ai-slim")

    def make(spec: ToolSpec) -> object:
        async def call(context: Any, /, **arguments: Any) -> object:
            # A denial is delivered only to a toolset that runs the tool itself, not to a tool.
            is_yes = bool(context.tool_call_approved)
            asked = ForeignCall(
                ToolCall(context.tool_call_id or _new_id(), spec.name, arguments),
                Decision(is_yes=True, by="pydantic-ai") if is_yes else None,
                context,
                lambda: _pydantic_conversation(context),
                lambda: _has_foreign_pydantic(context),
            )
            handed = await desk.make(asked)
            if handed.outcome is None:
                raise native.ApprovalRequired(metadata=_pending_to_dict(handed.pending))
            return native.ToolReturn(handed.content, metadata=_to_builtins(handed.outcome))

        return native.Tool.from_schema(
            call, spec.name, spec.description, dict(spec.parameters), takes_ctx=True
        )

    return [make(spec) for spec in desk.schemas()]


def _pending_to_dict(pending: PendingApproval | None) -> dict[str, Any]:
    return {} if pending is None else msgspec.to_builtins(pending)


def _pydantic_conversation(context: Any) -> Conversation:
    texts: list[str] = []
    replies: list[tuple[ToolCall, ...]] = []
    when: object = None
    for message in context.messages:
        parts = message.parts
        if message.kind == "response":
            called = [one for one in parts if one.part_kind == "tool-call"]
            calls = [
                ToolCall(one.tool_call_id, one.tool_name, one.args_as_dict()) for one in called
            ]
            replies.append(_mark_cut_calls(calls, message.finish_reason))
            when = message.timestamp
        else:
            texts += [str(one.content) for one in parts if one.part_kind == "user-prompt"]
    last, id = texts[-1] if texts else "", context.conversation_id or ""
    reply = (id, len(replies), when) if replies else None
    return Conversation(id, last, len(texts), tuple(replies), reply)


async def _has_foreign_pydantic(context: Any) -> bool:
    """Whether a reply or a tool's return belongs to another conversation, or to none.

    The framework marks each message with its conversation, and merges consecutive requests. So the
    return of a tool is judged by the reply that requested it.
    """
    own: set[str] = set()
    for message in context.messages:
        is_own = message.conversation_id == context.conversation_id
        if message.kind == "response":
            if not is_own:
                return True
            own.update(one.tool_call_id for one in message.parts if one.part_kind == "tool-call")
        elif any(
            part.tool_call_id not in own if part.part_kind == "tool-return" else not is_own
            for part in message.parts
            if part.part_kind not in ("user-prompt", "system-prompt")
        ):
            return True
    return False


def _mark_cut_calls(calls: Sequence[ToolCall], finish: str | None) -> tuple[ToolCall, ...]:
    """Return the calls of a reply, marked as cut if it was cut off."""
    if finish not in (FinishReason.CONTENT_FILTER, FinishReason.LENGTH):
        return tuple(calls)
    marked = mark_cut(tuple(calls), fails=finish == FinishReason.CONTENT_FILTER)
    return cast("tuple[ToolCall, ...]", marked)


def to_openai_agents(desk: Desk) -> list[Any]:
    """Make OpenAI Agents SDK tools; one that always needs approval interrupts the SDK's run.

    Raises:
        Misuse: The package is not installed.
    """
    native = _load("agents", "openai-agents")

    def make(spec: ToolSpec) -> object:
        found = desk.find(spec.name)
        asks = found is not None and found.always_asks

        async def invoke(context: Any, arguments: str) -> str:
            # The SDK invokes a tool that needs approval only after it was approved.
            yes = Decision(is_yes=True, by="openai-agents") if asks else None
            call = ToolCall(context.tool_call_id, spec.name, arguments)
            return (await desk.make(ForeignCall(call, yes, context))).content

        return native.FunctionTool(
            name=spec.name,
            description=spec.description,
            params_json_schema=dict(spec.parameters),
            on_invoke_tool=invoke,
            strict_json_schema=False,
            needs_approval=asks,
        )

    return [make(spec) for spec in desk.schemas()]


def to_langchain(desk: Desk) -> list[Any]:
    """Make LangChain tools; the outcome is the ``artifact`` of the message.

    At a durable desk, a waiting call is an ``interrupt`` of a LangGraph graph. At others, the model
    reads that the call waits, and the tools support only async calls.

    Raises:
        Misuse: The package is not installed.
    """
    native = _load("langchain_core.tools", "langchain-core")
    # A program that runs a graph has langgraph installed.
    types = _load("langgraph.types", "langgraph") if desk.is_durable else None

    async def call(name: str, arguments: JsonObject, *, in_loop: bool = True) -> tuple[str, object]:
        config = _langchain_config()
        asked = ForeignCall(
            ToolCall(_CALL_ID.get() or _new_id(), name, arguments),
            None,
            config,
            lambda: _langgraph_conversation(config),
            lambda: _has_foreign_langgraph(config, in_loop=in_loop),
        )
        handed = await desk.make(asked)
        while handed.outcome is None and types is not None and _is_in_graph(config):
            # This raises, which parks the graph, until the graph is resumed with a value.
            answer = types.interrupt(_pending_to_dict(handed.pending))
            decision = _read_decision(answer, asked.call.id, config)
            handed = await desk.make(asked._replace(decision=decision))
        outcome = handed.outcome
        return handed.content, None if outcome is None else _to_builtins(outcome)

    kind = _make_langchain_kind(native.BaseTool, call, is_durable=desk.is_durable)
    return [
        kind(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),
            response_format="content_and_artifact",
        )
        for spec in desk.schemas()
    ]


def _langchain_config() -> Mapping[str, Any]:
    return import_module("langchain_core.runnables.config").ensure_config()


def _is_in_graph(config: Mapping[str, Any]) -> bool:
    return "__pregel_scratchpad" in config.get("configurable", {})


def _langgraph_messages(config: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages of a graph as they were when the current step started."""
    read = config.get("configurable", {}).get("__pregel_read")
    try:
        messages: Any = None if read is None else read("messages")
    except Exception:  # the state has another form, so there are no messages to find
        return None
    return cast("list[Any]", messages) if isinstance(messages, list) else None


def _langgraph_conversation(config: Mapping[str, Any]) -> Conversation:
    thread = str(config.get("configurable", {}).get("thread_id", ""))
    messages = _langgraph_messages(config)
    if messages is None:
        return Conversation(thread)
    texts: list[str] = []
    replies: list[tuple[ToolCall, ...]] = []
    reply: object = None
    for message in messages:
        kind = getattr(message, "type", "")
        if kind == "human":
            texts.append(str(message.content))
        elif kind == "ai":
            calls = message.tool_calls
            made = [ToolCall(one["id"], one["name"], one["args"]) for one in calls]
            replies.append(_mark_cut_calls(made, read_langchain_message(message).finish_reason))
            # Messages of a graph have ids; those in a custom state may not.
            reply = (thread, len(replies), message.id) if message.id else None
    return Conversation(thread, texts[-1] if texts else "", len(texts), tuple(replies), reply)


async def _has_foreign_langgraph(config: Mapping[str, Any], *, in_loop: bool) -> bool:
    """Whether a reply or a tool's output came into the graph from outside.

    Its messages do not say where they were made, but its checkpoints have the inputs it was invoked
    with. If some are missing, anything before the user's last message may be from outside.
    """
    messages, metadata = _langgraph_messages(config), config.get("metadata", {})
    if messages is None:
        return False
    kinds = [getattr(message, "type", "") for message in messages]
    users = [at for at, kind in enumerate(kinds) if kind == "human"]
    since = users[-1] + 1 if users else 0
    is_inner = "|" in str(metadata.get("langgraph_checkpoint_ns", ""))
    # Each earlier step may have made one reply; the steps of an outer graph are not known here.
    if not is_inner and kinds[since:].count("ai") >= metadata.get("langgraph_step", 0):
        return True
    if _USERS.issuperset(kinds[:since]):
        return False
    taken = await _inputs_of(config, in_loop=in_loop)
    if not any(one.metadata.get("step") == -1 for one in taken):
        return True
    convert = import_module("langchain_core.messages").convert_to_messages
    for one in taken:
        values: Mapping[str, Any] = one.checkpoint["channel_values"]
        given: object = values.get("__start__")
        if not isinstance(given, dict):
            continue
        new: Any = cast("dict[str, Any]", given).get("messages", ())
        known: Any = values.get("messages") or ()
        found = convert(new if isinstance(new, list) else [new])
        if any(message.type not in _USERS and message not in known for message in found):
            return True
    return False


# The types of messages that neither a model nor a tool has made.
_USERS = {"human", "system", "remove"}


async def _inputs_of(config: Mapping[str, Any], *, in_loop: bool) -> list[Any]:
    """Return the checkpoints of the inputs that a thread was invoked with."""
    placed = config.get("configurable", {})
    saver: Any = placed.get("__pregel_checkpointer")
    if saver is None:
        return []
    thread = {"configurable": {"thread_id": placed.get("thread_id"), "checkpoint_ns": ""}}
    inputs = {"source": "input"}
    if in_loop:
        return [one async for one in saver.alist(thread, filter=inputs)]
    return list(saver.list(thread, filter=inputs))


INBOX = "inbox"
"""The value to resume a graph with if the answer is in the journal."""
_FORMS = (
    f'True, False, {{"approved": False, "reason": "..."}}, {INBOX!r} for the answer in the '
    "journal, or a dict of these by call id"
)


def _read_decision(decision: object, call_id: str, config: Mapping[str, Any]) -> Decision | None:
    """Return the decision for one call from a graph's resume value; None if it has none.

    Raises:
        Misuse: The value has another form, or does not say which of several calls it is for.
    """
    given = cast("Mapping[str, object]", decision) if isinstance(decision, Mapping) else None
    if given is not None and "approved" not in given:
        if call_id not in given:
            return None
        decision = given[call_id]
    elif decision != INBOX and _are_several(config):
        # The framework assigns the values of one step in the order in which its calls ask.
        raise Misuse(
            f"several calls of one step may wait, and {decision!r:.60} does not say which it is "
            f"for: resume with Command(resume={{{call_id!r}: True, ...}})"
        )
    if decision == INBOX:
        return None
    reason = ""
    if isinstance(decision, Mapping):
        verdict = cast("Mapping[str, object]", decision)
        decision, reason = verdict.get("approved"), str(verdict.get("reason", ""))
    if not isinstance(decision, bool):
        raise Misuse(f"the graph was resumed with {decision!r:.60}: give {_FORMS}")
    return Decision(decision, reason, by="langgraph")


def _are_several(config: Mapping[str, Any]) -> bool:
    """Whether the step may run other calls too: it was not sent this call alone."""
    path = config.get("metadata", {}).get("langgraph_path") or ("",)
    replies = _langgraph_conversation(config).replies
    return path[0] == "__pregel_pull" and bool(replies) and len(replies[-1]) > 1


class BoxDesk:
    """Makes the calls of a framework with a Toolbox, as long as that exists.

    Args:
        box: The Toolbox.

    Attributes:
        is_durable: Whether its calls outlive this process.
    """

    is_durable: bool = False

    def __init__(self, box: Box) -> None:
        self._box = box
        self._counter = Counter(box)
        # The running calls whose reply the framework does not expose.
        self._unplaced: list[tuple[ToolCall, object]] = []

    def schemas(self) -> Sequence[ToolSpec]:
        """Return the offered tools."""
        return self._box.schemas()

    def find(self, name: str) -> Tool | None:
        """Return the tool called *name*, or None."""
        return self._box.find(name)

    async def make(self, asked: ForeignCall) -> Handed:
        """Make a call, or say that it waits for approval."""
        conversation = asked.conversation()
        call = mark_if_cut(asked.call, conversation)
        if conversation.reply is not None:
            return await self._make(asked, call, conversation.reply)
        placed = call, self._reply_of(call)
        self._unplaced.append(placed)
        try:
            # The calls of one reply are made concurrently: the others start before this one ends.
            await asyncio.sleep(0)
            return await self._make(asked, call, placed[1])
        finally:
            self._unplaced.remove(placed)

    async def _make(self, asked: ForeignCall, call: ToolCall, reply: object) -> Handed:
        if await brings_taint(asked, self._box):
            self._box.distrust(EARLIER)
        return await self._counter.serve(call, asked.decision, reply=reply)

    def _reply_of(self, call: ToolCall) -> object:
        """Return the reply of an equal running call, otherwise a new one."""
        for other, reply in self._unplaced:
            if (other.name, other.arguments) == (call.name, call.arguments):
                return reply
        return object()


def mark_if_cut(call: ToolCall, conversation: Conversation) -> ToolCall:
    """Mark *call* as cut if the last reply was cut off in it, so that it is not made."""
    last = conversation.replies[-1] if conversation.replies else ()
    is_cut = any(one.cut and one.id == call.id for one in last)
    return msgspec.structs.replace(call, cut=True) if is_cut else call


async def brings_taint(asked: ForeignCall, box: Box) -> bool:
    """Whether a call follows messages from elsewhere, so that it is unknown what was read."""
    return box.asks_after_taint and box.tainted is None and await asked.has_foreign()


class Counter:
    """Makes calls that arrive one by one, with the locks of a batch.

    Args:
        box: The Toolbox; it lives as long as this object.
    """

    def __init__(self, box: Box) -> None:
        self._box = box
        self._locks = Locks()
        # The arguments of waiting calls, by id.
        self._asked: dict[str, JsonObject | str] = {}

    async def serve(
        self,
        call: ToolCall,
        decision: Decision | None,
        *,
        edited: bool = False,
        turn: int = 0,
        reply: object = None,
    ) -> Handed:
        """Make a call, or apply a person's decision to a waiting one.

        Args:
            call: The call, with the arguments that the framework passes now.
            decision: A person's decision; None if it was not asked for.
            edited: Whether the arguments differ from those that were shown.
            turn: A label for its record.
            reply: The same for the calls of one reply; None if a run numbers them.
        """
        claim = _claim_of(self._box.find(call.name), call.arguments)
        self._locks.enter(claim)
        try:
            await self._locks.wait(claim)
            outcomes: list[ToolOutcome] = []
            pending = self._box.question_about(call.id)
            if pending is None or (
                pending.call_id != call.id and self._is_edited(call, edited=edited)
            ):
                self._asked[call.id] = call.arguments
                outcomes = await self._box.dispatch([call], turn=turn, reply=reply)
                pending = self._box.question_about(call.id)
            if decision is not None and pending is not None and _counts(decision, pending):
                given = call.arguments if self._is_edited(call, edited=edited) else None
                answer = _answer_of(decision, pending, given)
                outcomes = await self._box.answer([answer])
                pending = self._box.question_about(call.id)
        finally:
            self._locks.leave(claim)
        # An answer about a call is one about its equals too.
        made = next((one for one in outcomes if one.call_id == call.id), None)
        if made is None:
            return Handed(None, pending=pending)
        return Handed(made, self._box.content_of(made))

    def _is_edited(self, call: ToolCall, *, edited: bool) -> bool:
        return edited or self._asked.get(call.id, call.arguments) != call.arguments


def _counts(decision: Decision, pending: PendingApproval) -> bool:
    """Whether a decision settles the question: a framework does not say which user approved."""
    return not decision.is_yes or pending.approvals == 1


def _answer_of(
    decision: Decision, pending: PendingApproval, edited: JsonObject | str | None
) -> Approve | Deny | Edit:
    if not decision.is_yes:
        return pending.deny(decision.reason, by=decision.by)
    if isinstance(edited, dict):
        return pending.edit(edited, by=decision.by)
    return pending.approve(by=decision.by)


def _claim_of(tool: Tool | None, arguments: JsonObject | str) -> Claim:
    if tool is None:
        return Claim(writes=False, resources=frozenset())
    if isinstance(arguments, str):
        # Unparsed arguments: if the tool's resources depend on them, the call may touch anything.
        resources = None if callable(tool.resources) else tool.resources_of({})
    else:
        resources = tool.touched_by(arguments)
    return Claim(writes=tool.may_write, resources=resources)


def _make_langchain_kind(
    base: type[Any],
    call: Callable[..., Coroutine[Any, Any, object]],
    *,
    is_durable: bool,
) -> Callable[..., object]:
    # The framework's own method passes the call's id only to the message that it makes.
    async def arun(
        self: Any, tool_input: Any, *args: Any, tool_call_id: Any = None, **kwargs: Any
    ) -> object:
        _CALL_ID.set(tool_call_id or "")
        return _mark_error(
            await base.arun(self, tool_input, *args, tool_call_id=tool_call_id, **kwargs)
        )

    def run(
        self: Any, tool_input: Any, *args: Any, tool_call_id: Any = None, **kwargs: Any
    ) -> object:
        _CALL_ID.set(tool_call_id or "")
        return _mark_error(base.run(self, tool_input, *args, tool_call_id=tool_call_id, **kwargs))

    async def work(self: Any, config: Any = None, run_manager: Any = None, **arguments: Any) -> Any:
        return await call(self.name, arguments)

    def work_here(self: Any, config: Any = None, run_manager: Any = None, **arguments: Any) -> Any:
        if not is_durable:
            raise NotImplementedError(f"{self.name} is async: use ainvoke")
        return asyncio.run(call(self.name, arguments, in_loop=False))

    ways = {"arun": arun, "run": run, "_arun": work, "_run": work_here}
    return type("UpshotTool", (base,), ways)


_ERRORS = {one.__struct_config__.tag for one in (ToolDenied, ToolTimeout, ToolFailure)}


def _mark_error(answer: Any) -> object:
    """Return a message with the status "error" if its outcome is one."""
    outcome = getattr(answer, "artifact", None)
    if isinstance(outcome, dict) and cast("JsonObject", outcome).get("kind") in _ERRORS:
        answer.status = "error"
    return answer


def _to_builtins(outcome: ToolOutcome) -> object:
    """Return an outcome as JSON for a framework's messages, which may be stored."""
    return msgspec.to_builtins(outcome)


def _new_id() -> str:
    return f"call-{secrets.token_hex(8)}"


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise Misuse(f"{module} is not installed: pip install {package}") from error
