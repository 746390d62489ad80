"""A Toolbox's tools as native tools of other agent frameworks.

Source:
    pydantic-ai 2 (``Tool.from_schema``, ``ApprovalRequired``), openai-agents 0.20
    (``FunctionTool``), langchain-core 1 (``BaseTool``), read in 2026.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Protocol

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.pending import Approve, PendingApproval
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolSpec,
    ToolTimeout,
)
from upshot.errors import Misuse
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.locks import Claim, Locks

_WAITS = '{"error":"Blocked: it waits for the approval of a person","blocked":true}'
_CALL_ID: ContextVar[str] = ContextVar("upshot_langchain_call_id", default="")


class Box(Protocol):
    """What is needed of a Toolbox."""

    @property
    def pending(self) -> Sequence[PendingApproval]:
        """Calls that wait for the user."""
        ...

    def schemas(self) -> Sequence[ToolSpec]:
        """The tools on offer."""
        ...

    def content_of(self, outcome: ToolOutcome) -> str:
        """What a tool message holds of an outcome."""
        ...

    def find(self, name: str) -> Tool | None:
        """The tool called *name*."""
        ...

    async def dispatch(self, calls: Sequence[ToolCall]) -> list[ToolOutcome]:
        """Run calls."""
        ...

    async def answer(self, answers: Iterable[Approve]) -> list[ToolOutcome]:
        """Go on with parked calls."""
        ...


def to_pydantic_ai(box: Box) -> list[Any]:
    """Pydantic AI's tools; a call that needs approval becomes a deferred one of its own.

    Raises:
        Misuse: The package is not installed.
    """
    native = _load("pydantic_ai", "pydantic-ai-slim")
    desk = _Desk(box)

    def make(spec: ToolSpec) -> object:
        async def call(context: Any, /, **arguments: Any) -> object:
            call_id = context.tool_call_id or _new_id()
            approved = bool(context.tool_call_approved)
            outcome = await desk.run(call_id, spec.name, arguments, approved=approved)
            if outcome is None:
                raise native.ApprovalRequired
            return native.ToolReturn(box.content_of(outcome), metadata=outcome)

        return native.Tool.from_schema(
            call, spec.name, spec.description, dict(spec.parameters), takes_ctx=True
        )

    return [make(spec) for spec in box.schemas()]


def to_openai_agents(box: Box) -> list[Any]:
    """The OpenAI Agents SDK's tools; one that always needs approval interrupts the SDK's run.

    Raises:
        Misuse: The package is not installed.
    """
    native = _load("agents", "openai-agents")
    desk = _Desk(box)

    def make(spec: ToolSpec) -> object:
        asks = _always_asks(box.find(spec.name))

        async def invoke(context: Any, arguments: str) -> str:
            # The SDK comes here with a call that needs approval only once it was given.
            outcome = await desk.run(context.tool_call_id, spec.name, arguments, approved=asks)
            return _WAITS if outcome is None else box.content_of(outcome)

        return native.FunctionTool(
            name=spec.name,
            description=spec.description,
            params_json_schema=dict(spec.parameters),
            on_invoke_tool=invoke,
            strict_json_schema=False,
            needs_approval=asks,
        )

    return [make(spec) for spec in box.schemas()]


def to_langchain(box: Box) -> list[Any]:
    """LangChain's tools, for its async calls; the outcome is the ``artifact`` of the message.

    Raises:
        Misuse: The package is not installed.
    """
    native = _load("langchain_core.tools", "langchain-core")
    desk = _Desk(box)

    async def call(name: str, arguments: JsonObject) -> tuple[str, ToolOutcome | None]:
        outcome = await desk.run(_CALL_ID.get() or _new_id(), name, arguments)
        return _WAITS if outcome is None else box.content_of(outcome), outcome

    kind = _make_langchain_kind(native.BaseTool, call)
    return [
        kind(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),
            response_format="content_and_artifact",
        )
        for spec in box.schemas()
    ]


class _Desk:
    """Runs calls that come one by one, with the locks that one batch of them would have."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._locks = Locks()

    async def run(
        self, call_id: str, name: str, arguments: JsonObject | str, *, approved: bool = False
    ) -> ToolOutcome | None:
        """The outcome of a call, None while it waits for the user.

        Args:
            call_id: The framework's id of it.
            name: The tool.
            arguments: As the framework gave them.
            approved: Whether the framework has had it approved.
        """
        claim = _claim_of(self._box.find(name), arguments)
        self._locks.enter(claim)
        try:
            await self._locks.wait(claim)
            outcomes: list[ToolOutcome] = []
            if not self._waits(call_id):
                outcomes = await self._box.dispatch([ToolCall(call_id, name, arguments)])
            if approved and self._waits(call_id):
                # The framework asks by id; it holds for what waits under that.
                waiting = [one for one in self._box.pending if one.call_id == call_id]
                outcomes = await self._box.answer([one.approve() for one in waiting])
        finally:
            self._locks.leave(claim)
        return outcomes[0] if outcomes else None

    def _waits(self, call_id: str) -> bool:
        return any(one.call_id == call_id for one in self._box.pending)


def _claim_of(tool: Tool | None, arguments: JsonObject | str) -> Claim:
    if tool is None:
        return Claim(writes=False, resources=frozenset())
    resources = None
    # Arguments that are still text were not read: such a call may touch anything.
    if not (isinstance(arguments, str) and callable(tool.resources)):
        with suppress(Exception):  # its own function may not take arguments that were not checked
            resources = tool.resources_of({} if isinstance(arguments, str) else arguments)
    return Claim(writes=tool.may_write, resources=resources)


def _always_asks(tool: Tool | None) -> bool:
    if tool is None:
        return False
    destroys = tool.declared_effect is Effect.DESTRUCTIVE
    return destroys if tool.approval is None else tool.approval


def _make_langchain_kind(
    base: type[Any], call: Callable[[str, JsonObject], Awaitable[object]]
) -> Callable[..., object]:
    async def arun(
        self: Any, tool_input: Any, *args: Any, tool_call_id: Any = None, **kwargs: Any
    ) -> object:
        # Its own way hands the call's id only to the message that it makes.
        _CALL_ID.set(tool_call_id or "")
        answer = await base.arun(self, tool_input, *args, tool_call_id=tool_call_id, **kwargs)
        outcome = getattr(answer, "artifact", None)
        if isinstance(outcome, ToolDenied | ToolTimeout | ToolFailure):
            answer.status = "error"
        return answer

    async def work(self: Any, config: Any = None, run_manager: Any = None, **arguments: Any) -> Any:
        return await call(self.name, arguments)

    def run(self: Any, **arguments: Any) -> object:
        raise NotImplementedError(f"{self.name} is async: use ainvoke")

    return type("UpshotTool", (base,), {"arun": arun, "_arun": work, "_run": run})


def _new_id() -> str:
    return f"call-{secrets.token_hex(8)}"


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise Misuse(f"{module} is not installed: pip install {package}") from error
