"""An agent of Pydantic AI as the engine of a run.

The agent works as usual: its own instructions, tools, output type and capabilities. Our capability
is the innermost: it wraps the model that serves a request, wraps the execution of the agent's
tools, and answers deferred calls.

When the run is resumed, the agent is called again from its top. Replies and outcomes come from the
log, so it gets to where it was without repeating a call.

Source:
    pydantic-ai 2.68 (``capabilities/abstract.py``, ``models/wrapper.py``, ``_agent_graph.py``),
    read in 2026.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, ClassVar, Final

from upshot.adapters.agent_engine import AgentEngine, AgentWork, encode_text, to_specs
from upshot.adapters.engine_calls import (
    APPROVAL,
    DEFERRED,
    failed_reply,
)
from upshot.adapters.pydantic_ai import read_messages, read_response, to_failure, usage_of
from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json
from upshot.contract.message import Audio, Data, File, Image, Message, Reasoning, Text
from upshot.contract.model_calls import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.pending import Pending
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
)
from upshot.contract.usage import Usage
from upshot.errors import Misuse
from upshot.native.objects import as_arguments, as_count, as_items, as_json, as_text, look_up
from upshot.runs.engine_api.exceptions import Parked
from upshot.tools.definition.tool_error import ToolError
from upshot.wire.decoding import encode_json

# What a tool raises to be called again, which the library may have wrapped already.
_AGAIN: Final = ("ModelRetry", "ToolRetryError")
_YES: Final = ("approve", "deny")


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._native = import_module("pydantic_ai")
        self._messages = import_module("pydantic_ai.messages")
        # How many native messages are on the board, and how many replies after them.
        self._shown = 0
        self._ahead = 0
        self._ours = frozenset(spec.name for spec in self._run.tools.schemas())

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        run = self._run
        toolsets = import_module("pydantic_ai.toolsets")
        capabilities = import_module("pydantic_ai.capabilities")
        prompt, history = self._prompt_of(self._board.seeded())
        self._shown = len(history) + (prompt is not None)
        tools = run.tools.for_pydantic_ai()
        result = await agent.run(
            prompt,
            message_history=history or None,
            deps=run.dependencies,
            instructions=run.instructions,
            toolsets=[toolsets.FunctionToolset(tools)] if tools else None,
            capabilities=[
                # Of earlier turns only the messages are known.
                capabilities.ReinjectSystemPrompt(),
                self._capability(capabilities.AbstractCapability),
            ],
        )
        self._add_to_board(result.all_messages())
        usage = usage_of(result)
        self.report_rest(
            Usage(
                input_tokens=as_count(look_up(usage, "input_tokens")),
                output_tokens=as_count(look_up(usage, "output_tokens")),
                api_calls=as_count(look_up(usage, "requests")) or 0,
            )
        )
        return result.output

    # What is on the board

    def _prompt_of(self, seeded: Sequence[Message]) -> tuple[object, list[Any]]:
        """Return the prompt (None if there is none), and the messages before it, in native form."""
        if seeded and seeded[-1].role is Role.USER:
            return self._content(seeded[-1]), self._to_native(seeded[:-1])
        return None, self._to_native(seeded)

    def _to_native(self, messages: Iterable[Message]) -> list[Any]:
        native, made, parts = self._messages, list[Any](), list[Any]()
        for message in messages:
            if message.role is Role.ASSISTANT:
                if parts:
                    made.append(native.ModelRequest(parts=parts))
                parts = []
                made.append(native.ModelResponse(parts=self._reply_parts(message.parts)))
            elif message.role is Role.TOOL:
                name, ident = message.name or "", message.tool_call_id or ""
                parts.append(native.ToolReturnPart(name, message.text, tool_call_id=ident))
            elif message.role is Role.SYSTEM:
                parts.append(native.SystemPromptPart(message.text))
            else:
                parts.append(native.UserPromptPart(self._content(message)))
        return [*made, native.ModelRequest(parts=parts)] if parts else made

    def _content(self, message: Message) -> object:
        parts = message.parts
        if all(isinstance(part, Text) for part in parts):
            return message.text
        return [made for part in parts if (made := self._content_part(part)) is not None]

    def _content_part(self, part: object) -> object:
        native = self._messages
        match part:
            case Text(text=text):
                return text
            case Data(data=data):
                return encode_json(as_json(data)).decode()
            case Image() | File() | Audio():
                url, data = look_up(part, "url"), look_up(part, "data")
                if isinstance(data, bytes) and data:
                    return native.BinaryContent(data, media_type=part.media_type)
                made = native.ImageUrl if isinstance(part, Image) else native.DocumentUrl
                return made(url) if url else None
            case _:
                return None

    def _reply_parts(self, parts: Iterable[object]) -> list[Any]:
        native, made = self._messages, list[Any]()
        for part in parts:
            match part:
                case Text(text=text):
                    made.append(native.TextPart(text))
                case Reasoning():
                    made.append(
                        native.ThinkingPart(
                            part.text,
                            id=part.id or None,
                            signature=part.signature,
                            provider_name=part.provider or None,
                        )
                    )
                case ToolCall():
                    made.append(native.ToolCallPart(part.name, part.arguments, part.id))
                case _:
                    pass
        return made

    def _show_outcomes(self) -> None:
        """The agent's messages have them."""

    def _add_to_board(self, messages: Sequence[object]) -> None:
        """Add the agent's messages that the board lacks."""
        fresh, self._shown = messages[self._shown :], max(self._shown, len(messages))
        for message in fresh:
            if look_up(message, "kind") == "response" and self._ahead:
                self._ahead -= 1
            else:
                self._board.extend(read_messages([message]))

    # Hooks

    def _capability(self, base: type[Any]) -> object:
        """Return the capability that routes model and tool calls through the run."""
        work = self
        ordering = import_module("pydantic_ai.capabilities.abstract").CapabilityOrdering
        wrapper = self._model_wrapper()

        def get_ordering(self: Any) -> Any:
            return ordering(position="innermost")

        def wrap_model(self: Any, model: Any) -> Any:
            return wrapper(model)

        async def before(self: Any, ctx: Any, request_context: Any) -> Any:
            work._add_to_board(ctx.messages)
            return request_context

        async def wrap_tool(
            self: Any, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
        ) -> Any:
            if call.tool_name in work._ours and not work.calls.is_cut(call.tool_call_id):
                await work.calls.pause()
                return await handler(args)
            return await work.run_tool(call, tool_def, args, handler)

        async def answer(self: Any, ctx: Any, *, requests: Any) -> Any:
            return await work.answer(requests)

        return type(
            "Upshot",
            (base,),
            {
                "get_ordering": get_ordering,
                "get_wrapper_model": wrap_model,
                "before_model_request": before,
                "wrap_tool_execute": wrap_tool,
                "handle_deferred_tool_calls": answer,
            },
        )()

    def _model_wrapper(self) -> type[Any]:
        work = self
        models = import_module("pydantic_ai.models")
        base = import_module("pydantic_ai.models.wrapper").WrapperModel

        async def request(self: Any, messages: Any, settings: Any, parameters: Any) -> Any:
            return await work.request(self.wrapped, messages, settings, parameters)

        @asynccontextmanager
        async def request_stream(
            self: Any, messages: Any, settings: Any, parameters: Any, run_context: Any = None
        ) -> AsyncGenerator[Any]:
            # The run's watchers see the reply as it streams; the library gets it as a whole.
            reply = await work.request(self.wrapped, messages, settings, parameters)
            yield models.CompletedStreamedResponse(
                reply, model_request_parameters=parameters, replay_events=True
            )

        names = {"request": request, "request_stream": request_stream}
        return type("UpshotModel", (base,), names)

    # Models

    async def request(self, model: Any, messages: Any, settings: Any, parameters: Any) -> Any:
        """Call *model* through the run.

        Returns:
            The native reply.

        Raises:
            Signal: What ends the run.
            Exception: The native error.
        """
        given = (messages, settings, parameters)

        async def call() -> ModelResponse:
            try:
                return read_response(await model.request(*given))
            # Whatever the client raises is the reply's error; the library gets it unchanged.
            except Exception as error:
                return failed_reply(to_failure(error), error)

        response = await self.ask(
            _name_of(model), _to_request(messages, parameters), call, _stream_of(model, given, call)
        )
        self._ahead += 1
        return response.raw if response.raw is not None else self._to_reply(model, response)

    def _to_reply(self, model: Any, response: ModelResponse) -> Any:
        """Return the native form of a reply that came from the log."""
        usage, facts = response.usage, response.provider_data
        counts = {
            name: count
            for name in (
                "input_tokens",
                "output_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
            )
            if (count := getattr(usage, name)) is not None
        }
        return self._messages.ModelResponse(
            parts=self._reply_parts(response.parts),
            usage=import_module("pydantic_ai.usage").RequestUsage(**counts),
            model_name=as_text(facts.get("model")) or model.model_name,
            provider_name=as_text(facts.get("provider")) or None,
            provider_response_id=as_text(facts.get("response_id")) or None,
        )

    # Tools

    async def run_tool(self, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Call one of the agent's own tools through the run.

        Returns:
            What it returned; from the log as JSON.

        Raises:
            Signal: What ends the run.
            Exception: What the tool raised, or the library's own exception for a failed call.
        """
        returned, raised = list[Any](), list[Exception]()

        async def work() -> Json:
            try:
                returned.append(await handler(args))
            # The outcome describes it; the library gets it unchanged.
            except Exception as error:
                raised.append(error)
                raise self._tool_error(error) from error
            return as_json(self._value_of(returned[0]))

        asked = ToolCall(call.tool_call_id, call.tool_name, as_arguments(call.args))
        try:
            value = await self.call_own(asked, tool_def.description or "", work)
        except ToolError:
            raise raised[0] from None
        is_rich = returned and isinstance(returned[0], self._messages.ToolReturn)
        return returned[0] if is_rich else value

    def _value_of(self, returned: Any) -> Any:
        rich = isinstance(returned, self._messages.ToolReturn)
        return returned.return_value if rich else returned

    def _tool_error(self, error: Exception) -> ToolError:
        native = self._native
        if isinstance(error, native.ApprovalRequired | native.CallDeferred):
            waits = APPROVAL if isinstance(error, native.ApprovalRequired) else DEFERRED
            return ToolError("it waits for an answer", code=waits, effect="none")
        name = type(error).__name__
        if name in _AGAIN:
            # The tool itself says that it did nothing, and asks to be called again.
            return ToolError(str(error) or name, effect="none")
        return ToolError(f"{name}: {error}", retryable=False)

    def to_unmade(self, outcome: ToolOutcome | None) -> Any:
        """Return or raise the native form of an outcome without a result."""
        native = self._native
        if outcome is None:
            raise native.ApprovalRequired
        text = self._run.tools.content_of(outcome)
        if isinstance(outcome, ToolFailure):
            if str(outcome.code) == APPROVAL:
                raise native.ApprovalRequired
            if str(outcome.code) == DEFERRED:
                raise native.CallDeferred
            if outcome.retryable:
                raise native.ModelRetry(outcome.error)
        if isinstance(outcome, ToolFailure | ToolDenied):
            raise import_module("pydantic_ai.exceptions").ToolFailed(text)
        return text

    async def answer(self, requests: Any) -> Any:
        """Answer deferred calls with people's answers.

        Raises:
            Parked: Some are unanswered.
        """
        waits: list[Pending] = [*self._run.tools.pending]
        approvals: dict[str, object] = {}
        results: dict[str, object] = {}
        for call in requests.approvals:
            if self._run.tools.is_waiting(call.tool_call_id):
                continue
            try:
                approvals[call.tool_call_id] = await self._is_approved(call)
            except Parked as parked:
                waits += parked.pending
        for call in requests.calls:
            try:
                results[call.tool_call_id] = await self._host.wait_for(
                    call.tool_call_id, call.tool_name
                )
            except Parked as parked:
                waits += parked.pending
        if waits:
            raise self.calls.end(Parked(*waits))
        return requests.build_results(approvals=approvals, calls=results)

    async def _is_approved(self, call: Any) -> object:
        question = f"May {call.tool_name} be called with {encode_text(call.args_as_dict())}?"
        answer = await self._host.ask_user(question, choices=_YES, key=call.tool_call_id)
        return answer == _YES[0]


class PydanticAIEngine(AgentEngine):
    """Runs an agent of Pydantic AI as an engine; made by ``as_engine``.

    Raises:
        Misuse: The package is too old.
    """

    library: ClassVar[str] = "Pydantic AI"
    work: ClassVar[type[AgentWork]] = _Work

    def __init__(self, agent: Any, **options: Any) -> None:
        base = import_module("pydantic_ai.capabilities").AbstractCapability
        if not hasattr(base, "get_wrapper_model"):
            raise Misuse("this Pydantic AI is too old: pip install -U 'pydantic-ai-slim>=2.68'")
        super().__init__(agent, **options)


def _stream_of(model: Any, given: tuple[Any, Any, Any], call: Any) -> Any:
    async def stream() -> AsyncIterator[StreamItem]:
        begun = False
        try:
            async with model.request_stream(*given) as reply:
                async for event in reply:
                    for delta in _deltas(event):
                        begun = True
                        yield delta
                yield read_response(reply.get())
        except (NotImplementedError, AssertionError) as error:
            # Models that cannot stream raise these.
            yield failed_reply(to_failure(error), error) if begun else await call()
        # Whatever the client raises is the reply's error; the library gets it unchanged.
        except Exception as error:
            yield failed_reply(to_failure(error), error)

    return stream


def _deltas(event: object) -> list[StreamItem]:
    """Return the pieces of a reply in an event of the library's stream."""
    index, delta = as_count(look_up(event, "index")) or 0, look_up(event, "delta")
    if look_up(event, "event_kind") == "part_start":
        part = look_up(event, "part")
        match look_up(part, "part_kind"):
            case "text":
                return _text(TextDelta, look_up(part, "content"))
            case "thinking":
                return _text(ReasoningDelta, look_up(part, "content"))
            case "tool-call":
                return [
                    ToolCallDelta(
                        index=index,
                        call_id=as_text(look_up(part, "tool_call_id")),
                        name=as_text(look_up(part, "tool_name")),
                        arguments=_written(look_up(part, "args")),
                    )
                ]
            case _:
                return []
    match look_up(delta, "part_delta_kind"):
        case "text":
            return _text(TextDelta, look_up(delta, "content_delta"))
        case "thinking":
            return _text(ReasoningDelta, look_up(delta, "content_delta"))
        case "tool_call":
            return [ToolCallDelta(index=index, arguments=_written(look_up(delta, "args_delta")))]
        case _:
            return []


def _text(kind: type[TextDelta] | type[ReasoningDelta], piece: object) -> list[StreamItem]:
    text = as_text(piece)
    return [kind(text=text)] if text else []


def _written(arguments: object) -> str:
    given = as_arguments(arguments)
    return given if isinstance(given, str) else encode_json(given).decode() if given else ""


def _name_of(model: Any) -> str:
    ident = as_text(look_up(model, "model_id"))
    return ident if ":" in ident else f"{model.system}:{model.model_name}"


def _to_request(messages: Sequence[object], parameters: object) -> ModelRequest:
    """Return what the library sends, for the log and for deciders."""
    instructions = [
        text
        for part in as_items(look_up(parameters, "instruction_parts"))
        if (text := as_text(look_up(part, "content")))
    ]
    return ModelRequest(
        read_messages(messages),
        system="\n\n".join(instructions) or None,
        tools=tuple(
            spec
            for kind in ("function_tools", "output_tools")
            for spec in to_specs(look_up(parameters, kind), schema="parameters_json_schema")
        ),
    )
