"""An agent of the OpenAI Agents SDK as the engine of a run.

A copy of the agent, and of the agents that it hands off to, gets our model and our tools; the
agent itself is not changed. ``agent_engine`` says how it is resumed.

Source:
    openai-agents 0.24 (``models/interface.py``, ``tool.py``, ``agent.py``, ``run_internal``), read
    in 2026.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, ClassVar, Final

from upshot.adapters.agent_engine import AgentEngine, AgentWork, encode_text, load, to_specs
from upshot.adapters.engine_calls import Stream, failed_reply
from upshot.adapters.openai_agents import read_call, read_reply, to_failure, usage_of
from upshot.contract.base.enums import Role
from upshot.contract.message import Image, Message
from upshot.contract.model_calls import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall
from upshot.native.objects import as_count, as_items, as_text, look_up

_PACKAGE: Final = "openai-agents"
# What a model is called with, in order.
_ARGUMENTS: Final = (
    "system_instructions",
    "input",
    "model_settings",
    "tools",
    "output_schema",
    "handoffs",
)


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._native = load("agents", _PACKAGE)
        self._config = self._native.RunConfig()
        # The copies of agents that may hand off to each other, by the id of the original.
        self._copies: dict[int, Any] = {}

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output."""
        first, given = self._copy(agent, is_first=True), _to_items(self._board.seeded())
        options = {
            "context": self._run.dependencies,
            # The budget of the run limits its turns.
            "max_turns": sys.maxsize,
            "run_config": self._config,
        }
        result = await self._native.Runner.run(first, given, **options)
        while waiting := as_items(look_up(result, "interruptions")):
            state = result.to_state()
            asked = [read_call(look_up(item, "raw_item")) for item in waiting]
            answers = await self.ask_approvals({call.id: call for call in asked})
            for call, item in zip(asked, waiting, strict=True):
                (state.approve if answers[call.id] else state.reject)(item)
            result = await self._native.Runner.run(
                first, state, max_turns=sys.maxsize, run_config=self._config
            )
        usage = look_up(result, "context_wrapper", "usage")
        self.report_rest(usage_of(usage, calls=as_count(look_up(usage, "requests")) or 0))
        return result.final_output

    # Copies

    def _copy(self, agent: Any, *, is_first: bool = False) -> Any:
        """Return a copy of *agent* whose calls go through the run."""
        if id(agent) in self._copies:
            return self._copies[id(agent)]
        ours = [self._make_ours(spec) for spec in self._run.tools.schemas()] if is_first else []
        made = agent.clone(model=self._wrap_model(agent.model), tools=[])
        # Before its own handoffs are copied, because they may lead back to it.
        self._copies[id(agent)] = made
        made.tools = [*map(self._wrap_tool, agent.tools), *ours]
        made.handoffs = [*map(self._wrap_handoff, agent.handoffs)]
        if is_first and self._run.instructions is not None:
            made.instructions = _joined(agent.instructions, self._run.instructions)
        if agent.mcp_servers:

            async def get_mcp_tools(context: Any) -> list[Any]:
                return [self._wrap_tool(tool) for tool in await agent.get_mcp_tools(context)]

            made.get_mcp_tools = get_mcp_tools
        return made

    def _wrap_handoff(self, handoff: Any) -> Any:
        if not isinstance(handoff, self._native.Handoff):
            return self._copy(handoff)
        made, invoke = copy.copy(handoff), handoff.on_invoke_handoff

        async def on_invoke(context: Any, arguments: str) -> Any:
            return self._copy(await invoke(context, arguments))

        made.on_invoke_handoff = on_invoke
        return made

    def _wrap_model(self, model: Any) -> Any:
        if not isinstance(model, self._native.Model):
            model = self._config.model_provider.get_model(model)
        work = self

        async def get_response(self: Any, *given: Any, **more: Any) -> Any:
            return await work.request(model, {**dict(zip(_ARGUMENTS, given, strict=False)), **more})

        def stream_response(self: Any, *given: Any, **more: Any) -> Any:
            raise NotImplementedError

        names = {"get_response": get_response, "stream_response": stream_response}
        return type("UpshotModel", (self._native.Model,), names)()

    def _make_ours(self, spec: Any) -> Any:
        async def invoke(context: Any, arguments: str) -> str:
            return await self.call_ours(ToolCall(context.tool_call_id, spec.name, arguments))

        return self._native.FunctionTool(
            name=spec.name,
            description=spec.description,
            params_json_schema=dict(spec.parameters),
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )

    def _wrap_tool(self, tool: Any) -> Any:
        """Return a copy of one of the agent's own tools; a hosted one is the provider's."""
        if not isinstance(tool, self._native.FunctionTool):
            return tool
        module = load("agents.tool", _PACKAGE)
        inner, made = copy.copy(tool), copy.copy(tool)
        # It raises, so that the run knows; the tool's own function says what the model reads.
        module.set_function_tool_failure_error_function(inner, None)

        async def invoke(context: Any, arguments: str) -> Any:
            call = ToolCall(context.tool_call_id, tool.name, arguments)
            try:
                return await self.call_own(
                    call, tool.description, lambda: inner.on_invoke_tool(context, arguments)
                )
            # Foreign code: whatever the tool raised, the SDK's rule for it holds.
            except Exception as error:
                if self.calls.stop is not None:
                    raise
                text = await module.maybe_invoke_function_tool_failure_error_function(
                    function_tool=tool, context=context, error=error
                )
                if text is None:
                    raise
                return text

        made.on_invoke_tool = invoke
        return made

    # Models

    async def request(self, model: Any, sent: dict[str, Any]) -> Any:
        """Call *model* through the run with what is *sent* to it; return the native reply."""

        async def call() -> ModelResponse:
            inner, ended = _listened(model)
            try:
                native = await inner.get_response(**sent)
                return read_reply(native, self._name(model), *ended[-1:])
            # Whatever the client raises is the reply's error; the SDK gets it unchanged.
            except Exception as error:
                return failed_reply(to_failure(error), error)

        request = _to_request(sent)
        stream = self._stream_of(model, sent)
        response = await self.ask(f"openai:{self._name(model)}", request, call, stream)
        return response.raw if response.raw is not None else self._to_native(response)

    def _name(self, model: Any) -> str:
        return as_text(look_up(model, "model")) or type(model).__name__

    def _stream_of(self, model: Any, sent: dict[str, Any]) -> Stream:
        async def stream() -> AsyncIterator[StreamItem]:
            last, (inner, ended) = None, _listened(model)
            try:
                async for event in inner.stream_response(**self._with_usage(sent)):
                    for delta in _deltas(event):
                        yield delta
                    last = look_up(event, "response") or last
                yield read_reply(self._of_stream(last), self._name(model), *ended[-1:])
            # Whatever the client raises is the reply's error; the SDK gets it unchanged.
            except Exception as error:
                yield failed_reply(to_failure(error), error)

        return stream

    def _with_usage(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Return what is *sent*, asking a model to tell the tokens of a streamed reply."""
        settings = sent["model_settings"]
        if settings.include_usage is not None:
            return sent
        settings = settings.resolve(self._native.ModelSettings(include_usage=True))
        return {**sent, "model_settings": settings}

    def _of_stream(self, response: Any) -> Any:
        usage = look_up(response, "usage")
        counts: dict[str, Any] = {"requests": 1}
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            counts[name] = as_count(look_up(usage, name)) or 0
        for name in ("input_tokens_details", "output_tokens_details"):
            if (details := look_up(usage, name)) is not None:
                counts[name] = details
        return self._native.ModelResponse(
            output=response.output, usage=self._native.Usage(**counts), response_id=response.id
        )

    def _to_native(self, response: ModelResponse) -> Any:
        """Return the native form of a reply that came from the log."""
        types = load("openai.types.responses", "openai")
        output: list[Any] = []
        if response.content:
            part = types.ResponseOutputText(
                text=response.content, type="output_text", annotations=[]
            )
            output.append(
                types.ResponseOutputMessage(
                    id=f"msg_{len(self._board.messages())}",
                    type="message",
                    role="assistant",
                    status="completed",
                    content=[part],
                )
            )
        output += [
            types.ResponseFunctionToolCall(
                type="function_call",
                call_id=call.id,
                name=call.name,
                arguments=encode_text(call.arguments),
            )
            for call in response.tool_calls
        ]
        usage = self._native.Usage(
            requests=1,
            input_tokens=response.usage.input_tokens or 0,
            output_tokens=response.usage.output_tokens or 0,
            total_tokens=response.usage.total_tokens or 0,
        )
        ident = as_text(response.provider_data.get("response_id")) or None
        return self._native.ModelResponse(output=output, usage=usage, response_id=ident)


class OpenAIAgentsEngine(AgentEngine):
    """Runs an agent of the OpenAI Agents SDK as an engine; made by ``as_engine``."""

    library: ClassVar[str] = "OpenAI Agents"
    work: ClassVar[type[AgentWork]] = _Work


def _listened(model: Any) -> tuple[Any, list[str]]:
    """Return a copy of *model*, and a list that gets why its reply ended.

    A model of the Chat Completions API drops that. One of the Responses API fails if its reply was
    cut off; others have no such method, and the list stays empty.
    """
    ended: list[str] = []
    fetch = getattr(model, "_fetch_response", None)
    if fetch is None:
        return model, ended

    async def listen(*given: Any, **options: Any) -> Any:
        fetched: Any = await fetch(*given, **options)
        if options.get("stream"):
            return fetched[0], _Listener(fetched[1], ended)
        ended.extend(_ends(fetched))
        return fetched

    made = copy.copy(model)
    made._fetch_response = listen
    return made, ended


class _Listener:
    """A stream of chunks that adds why the reply ended to a list."""

    def __init__(self, chunks: Any, ended: list[str]) -> None:
        self._chunks, self._ended = chunks, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self._chunks:
            self._ended.extend(_ends(chunk))
            yield chunk


def _ends(completion: Any) -> list[str]:
    """Return why the choices of a completion or of a chunk ended."""
    choices = as_items(look_up(completion, "choices"))
    return [why for one in choices if (why := as_text(look_up(one, "finish_reason")))]


def _joined(own: Any, more: str) -> Any:
    """Return the agent's own instructions with *more* after them."""
    if not callable(own):
        return f"{own}\n\n{more}" if own else more

    async def instructions(context: Any, agent: Any) -> str:
        text = own(context, agent)
        text = await text if inspect.isawaitable(text) else text
        return f"{text}\n\n{more}"

    return instructions


def _to_request(sent: dict[str, Any]) -> ModelRequest:
    """Return what the SDK sends, for the log and for deciders."""
    tools = as_items(sent.get("tools"))
    specs = [tool for tool in tools if look_up(tool, "params_json_schema") is not None]
    offered = [
        {
            "name": look_up(handoff, "tool_name"),
            "description": look_up(handoff, "tool_description"),
            "input_json_schema": look_up(handoff, "input_json_schema"),
        }
        for handoff in as_items(sent.get("handoffs"))
    ]
    return ModelRequest(
        _read_items(sent.get("input")),
        system=as_text(sent.get("system_instructions")) or None,
        tools=(
            *to_specs(specs, schema="params_json_schema"),
            *to_specs(offered, schema="input_json_schema"),
        ),
    )


def _read_items(given: Any) -> list[Message]:
    """Read the items that the SDK sends."""
    if isinstance(given, str):
        return [Message(Role.USER, given)]
    messages: list[Message] = []
    for item in as_items(given):
        kind, role = as_text(look_up(item, "type")), as_text(look_up(item, "role"))
        if kind == "function_call":
            messages.append(Message(Role.ASSISTANT, "", tool_calls=(read_call(item),)))
        elif kind == "function_call_output":
            ident = as_text(look_up(item, "call_id"))
            text = encode_text(look_up(item, "output"))
            messages.append(Message(Role.TOOL, text, tool_call_id=ident))
        elif role:
            known = Role(role) if role in list(Role) else Role.SYSTEM
            content = look_up(item, "content")
            parts = as_items(content)
            text = "".join(as_text(look_up(part, "text")) for part in parts)
            messages.append(Message(known, as_text(content) or text))
    return messages


def _to_items(messages: Sequence[Message]) -> list[Any]:
    """Return *messages* as the items that the SDK takes."""
    items: list[Any] = []
    for message in messages:
        if message.role is Role.TOOL:
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.tool_call_id or "",
                    "output": message.text,
                }
            )
            continue
        if message.text or not message.tool_calls:
            items.append({"role": str(message.role), "content": _content(message)})
        items += [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": encode_text(call.arguments),
            }
            for call in message.tool_calls
        ]
    return items


def _content(message: Message) -> Any:
    pictures = [part for part in message.parts if isinstance(part, Image) and part.url]
    if not pictures or message.role is not Role.USER:
        return message.text
    return [
        {"type": "input_text", "text": message.text},
        *({"type": "input_image", "image_url": one.url, "detail": "auto"} for one in pictures),
    ]


def _deltas(event: Any) -> Iterable[StreamItem]:
    """Yield the pieces of a reply in an event of the SDK's stream."""
    kind, delta = as_text(look_up(event, "type")), as_text(look_up(event, "delta"))
    index = as_count(look_up(event, "output_index")) or 0
    if kind == "response.output_text.delta" and delta:
        yield TextDelta(text=delta)
    elif kind.startswith("response.reasoning") and kind.endswith(".delta") and delta:
        yield ReasoningDelta(text=delta)
    elif kind == "response.function_call_arguments.delta" and delta:
        yield ToolCallDelta(index=index, arguments=delta)
    elif kind == "response.output_item.added":
        item = look_up(event, "item")
        if look_up(item, "type") == "function_call":
            yield ToolCallDelta(
                index=index,
                call_id=as_text(look_up(item, "call_id")),
                name=as_text(look_up(item, "name")),
                arguments="",
            )
