"""An agent of Microsoft Agent Framework as the engine of a run.

The framework's own middleware leads each model call and each function call through the run; the
agent itself is not changed. ``agent_engine`` says how it is resumed.

Source:
    agent-framework-core 1.23 (``_agents.py``, ``_middleware.py``, ``_tools.py``), read in 2026. Its
    function calls are tasks of their own, and what they raise is read by the model.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

from upshot.adapters.agent_engine import AgentEngine, AgentWork, encode_text, load, to_request
from upshot.adapters.agent_framework import read_call, read_messages, read_reply, to_failure
from upshot.adapters.engine_calls import failed_reply
from upshot.contract.base.enums import Role
from upshot.contract.message import Message
from upshot.contract.model_calls import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.errors import Misuse
from upshot.native.objects import as_arguments, as_items, as_json, as_text, look_up
from upshot.runs.engine_api.exceptions import Failed

_PACKAGE: Final = "agent-framework-core"
_LAYERS: Final = ("FunctionInvocationLayer", "ChatMiddlewareLayer")


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._native = load("agent_framework", _PACKAGE)
        self._ours = frozenset(spec.name for spec in self._run.tools.schemas())

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        made, run = copy.copy(agent), self._run
        # A session adds a provider of its own.
        made.context_providers = [*agent.context_providers]
        more: dict[str, Any] = {
            "session": made.create_session(),
            "client_kwargs": {"middleware": self._make_middleware()},
            "function_invocation_kwargs": {"dependencies": run.dependencies},
            "tools": [self._make_ours(spec) for spec in run.tools.schemas()],
        }
        if run.instructions is not None:
            more["options"] = {"instructions": run.instructions}
        result = await made.run(self._to_messages(self._board.seeded()), **more)
        while self.calls.stop is None and (asked := as_items(look_up(result, _REQUESTS))):
            result = await made.run(await self._answer(asked), **more)
        value = look_up(result, "value")
        return None if value is None else as_json(value)

    async def _answer(self, asked: list[Any]) -> Any:
        """Return a message with people's answers to the approvals that the agent asks for.

        Raises:
            Parked: Some are unanswered.
            Failed: It asks for something else.
        """
        if any(look_up(one, "type") != "function_approval_request" for one in asked):
            raise Failed("not_available", "the agent waits for something that is no approval")
        waits = {one.id: one for one in asked}
        answers = await self.ask_approvals(
            {key: read_call(one.function_call) for key, one in waits.items()}
        )
        return self._native.Message(
            role="user",
            contents=[
                one.to_function_approval_response(answers[key]) for key, one in waits.items()
            ],
        )

    # Tools

    def _make_ours(self, spec: ToolSpec) -> Any:
        async def stub(**arguments: Any) -> str:
            raise NotImplementedError

        return self._native.FunctionTool(
            name=spec.name,
            description=spec.description,
            input_model=dict(spec.parameters),
            func=stub,
        )

    async def _call_function(self, context: Any, proceed: Callable[[], Awaitable[None]]) -> None:
        """Make a function call through the run."""
        given = as_arguments(look_up(context, "arguments"))
        call = ToolCall(context.metadata["call_id"], context.function.name, given)
        made: list[Any] = []

        async def work() -> Any:
            await proceed()
            made.append(context.result)
            return _value_of(context.result)

        if call.name in self._ours:
            context.result = await self.call_ours(call)
            return
        value = await self.call_own(call, context.function.description or "", work)
        context.result = made[0] if made else encode_text(value)

    # Models

    def _make_middleware(self) -> list[Any]:
        work = self

        async def ask(self: Any, context: Any, proceed: Callable[[], Awaitable[None]]) -> None:
            await work._request(context, proceed)

        async def call(self: Any, context: Any, proceed: Callable[[], Awaitable[None]]) -> None:
            await work._call_function(context, proceed)

        native = self._native
        return [
            type("UpshotChat", (native.ChatMiddleware,), {"process": ask})(),
            type("UpshotFunctions", (native.FunctionMiddleware,), {"process": call})(),
        ]

    async def _request(self, context: Any, proceed: Callable[[], Awaitable[None]]) -> None:
        """Make a model call through the run; *context* gets the native reply."""
        client, options = context.client, context.options
        model = as_text(look_up(options, "model")) or as_text(look_up(client, "model"))
        name = model or type(client).__name__

        async def send(*, stream: bool) -> Any:
            context.result, context.stream = None, stream
            try:
                await proceed()
            finally:
                context.stream = False
            return context.result

        async def call() -> ModelResponse:
            try:
                return read_reply(await send(stream=False), name)
            # Whatever the client raises is the reply's error; the framework gets it unchanged.
            except Exception as error:
                return failed_reply(to_failure(error), error)

        async def stream() -> AsyncIterator[StreamItem]:
            try:
                native = await send(stream=True)
                async for update in native:
                    for delta in _deltas(update):
                        yield delta
                yield read_reply(await native.get_final_response(), name)
            # Whatever the client raises is the reply's error; the framework gets it unchanged.
            except Exception as error:
                yield failed_reply(to_failure(error), error)

        provider = as_text(look_up(client, "OTEL_PROVIDER_NAME")).partition(".")[0] or "openai"
        request = _to_request(context.messages, options)
        response = await self.ask(f"{provider}:{name}", request, call, stream)
        context.result = (
            self._to_native(response) if response.raw is None else _copied(response.raw)
        )

    def _to_native(self, response: ModelResponse) -> Any:
        """Return the native form of a reply that came from the log."""
        usage = {
            "input_token_count": response.usage.input_tokens or 0,
            "output_token_count": response.usage.output_tokens or 0,
            "total_token_count": response.usage.total_tokens or 0,
        }
        finish = response.finish_reason
        return self._native.ChatResponse(
            messages=self._to_messages([response.to_message()]),
            finish_reason=None if finish is None else str(finish),
            usage_details=usage,
        )

    def _to_messages(self, messages: Sequence[Message]) -> list[Any]:
        """Return *messages* in the form of the framework."""
        content, made = self._native.Content, list[Any]()
        for message in messages:
            parts: list[Any] = []
            if message.role is Role.TOOL:
                ident = message.tool_call_id or ""
                parts.append(content.from_function_result(ident, result=message.text))
            elif message.text:
                parts.append(content.from_text(message.text))
            parts += [
                content.from_function_call(
                    call.id, call.name, arguments=encode_text(call.arguments)
                )
                for call in message.tool_calls
            ]
            made.append(self._native.Message(role=str(message.role), contents=parts))
        return made


class AgentFrameworkEngine(AgentEngine):
    """Runs an agent of Microsoft Agent Framework as an engine; made by ``as_engine``.

    Raises:
        Misuse: Its chat client runs no middleware, so its calls cannot be routed.
    """

    library: ClassVar[str] = "Agent Framework"
    work: ClassVar[type[AgentWork]] = _Work

    def __init__(self, agent: Any, **options: Any) -> None:
        names = {kind.__name__ for kind in type(look_up(agent, "client")).__mro__}
        if missing := [name for name in _LAYERS if name not in names]:
            raise Misuse(
                f"as_engine needs an agent whose chat client has a {missing[0]}, because its calls "
                f"are routed by middleware: {type(agent).__name__} has a client of "
                f"{type(look_up(agent, 'client')).__name__}"
            )
        super().__init__(agent, **options)


_REQUESTS: Final = "user_input_requests"


def _copied(response: Any) -> Any:
    """Return a copy of a native reply: the framework adds the results of calls to it."""
    made = copy.copy(response)
    made.messages = [copy.copy(message) for message in response.messages]
    for message in made.messages:
        message.contents = [*message.contents]
    return made


def _value_of(result: Any) -> Any:
    """Return what a function returned: its text, if it returned nothing else."""
    parts = as_items(result)
    if parts and all(look_up(part, "type") == "text" for part in parts):
        return "".join(as_text(look_up(part, "text")) for part in parts)
    return as_json(parts or result)


def _to_request(messages: Any, options: Any) -> ModelRequest:
    """Return what the agent sends, for the log and for deciders."""
    tools: list[Any] = as_items(look_up(options, "tools"))
    specs = [
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters())
        for tool in tools
        if callable(look_up(tool, "parameters"))
    ]
    own = as_text(look_up(options, "instructions"))
    system = [Message(Role.SYSTEM, own)] if own else []
    return to_request([*read_messages(as_items(messages)), *system], tuple(specs))


def _deltas(update: Any) -> Iterable[StreamItem]:
    """Yield the pieces of a reply in an update of the client's stream."""
    for index, content in enumerate(as_items(look_up(update, "contents"))):
        text = as_text(look_up(content, "text"))
        match as_text(look_up(content, "type")):
            case "text" if text:
                yield TextDelta(text=text)
            case "text_reasoning" if text:
                yield ReasoningDelta(text=text)
            case "function_call":
                yield ToolCallDelta(
                    index=index,
                    call_id=as_text(look_up(content, "call_id")),
                    name=as_text(look_up(content, "name")),
                    arguments=as_text(look_up(content, "arguments")),
                )
            case _:
                pass
