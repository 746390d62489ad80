"""An agent of Strands Agents as the engine of a run.

An agent of Strands keeps its conversation and does one thing at a time, so each run has an agent of
its own, made by a function. It gets our model and our tools before it starts. ``agent_engine`` says
how it is resumed.

Source:
    strands-agents 1.62 (``models/model.py``, ``types/tools.py``, ``event_loop``, ``tools``), read
    in 2026.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, ClassVar, Final

from upshot.adapters.agent_engine import AgentEngine, AgentWork, encode_text, load, to_schema
from upshot.adapters.engine_calls import DEFERRED, Stream, failed_reply
from upshot.adapters.strands import read_call, read_messages, read_reply, to_failure
from upshot.contract.base.enums import Role
from upshot.contract.message import Message
from upshot.contract.model_calls import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.pending import Pending
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.native.objects import as_count, as_items, as_json, as_text, look_up
from upshot.runs.engine_api.exceptions import Parked
from upshot.tools.definition.tool_error import ToolError
from upshot.wire.decoding import parse_json

_PACKAGE: Final = "strands-agents"
_TOO_LONG: Final = "ContextWindowOverflowException"


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)

    async def run_agent(self, agent: Any) -> object:
        """Run the agent that *agent* makes; return its output."""
        made = agent()
        registry = made.tool_registry
        for name, tool in list(registry.registry.items()):
            registry.registry[name] = self._wrap_tool(tool)
        for spec in self._run.tools.schemas():
            registry.registry[spec.name] = self._make_ours(spec)
        made.model = self._wrap_model(made.model)
        if self._run.instructions is not None:
            parts = (as_text(made.system_prompt), self._run.instructions)
            made.system_prompt = "\n\n".join(part for part in parts if part)
        *earlier, last = self._board.seeded() or [Message(Role.USER, "")]
        made.messages = [*made.messages, *_to_messages(earlier)]
        given: Any = last.text if last.role is Role.USER else None
        if given is None:
            made.messages += _to_messages([last])
        state = {"dependencies": self._run.dependencies}
        while True:
            result = await made.invoke_async(given, invocation_state=dict(state))
            waits = as_items(look_up(result, "interrupts"))
            if not waits or self.calls.stop is not None:
                break
            given = await self._answer(waits)
        structured = look_up(result, "structured_output")
        return None if structured is None else as_json(structured)

    def may_recover(self, error: Exception) -> bool:
        """Only a context that is too long: everything else is retried by the run."""
        return type(error).__name__ == _TOO_LONG

    async def _answer(self, waits: list[Any]) -> list[Any]:
        """Return the answers of people to the agent's interrupts.

        Raises:
            Parked: Some are unanswered.
        """
        pending: list[Pending] = [*self._run.tools.pending]
        answers: list[Any] = []
        for wait in waits:
            name, reason = as_text(look_up(wait, "name")), look_up(wait, "reason")
            text = name if reason is None else f"{name}: {encode_text(reason)}"
            try:
                answer = await self._host.ask_user(text, key=wait.id)
                answers.append({"interruptResponse": {"interruptId": wait.id, "response": answer}})
            except Parked as parked:
                pending += parked.pending
        if pending:
            raise self.calls.end(Parked(*pending))
        return answers

    # Tools

    def _wrap_tool(self, tool: Any) -> Any:
        """Return a tool that makes the calls of one of the agent's own *tool* through the run."""
        events = load("strands.types._events", _PACKAGE)

        async def stream(
            self_: Any, tool_use: Any, state: Any, **options: Any
        ) -> AsyncIterator[Any]:
            interrupted: list[Any] = []
            results: list[Any] = []

            async def work() -> Any:
                async for event in tool.stream(tool_use, state, **options):
                    if isinstance(event, events.ToolInterruptEvent):
                        interrupted.append(event)
                        raise ToolError("it waits for an answer", code=DEFERRED, effect="none")
                    result = getattr(event, "tool_result", None)
                    results.append(event if result is None else result)
                native: Any = results[-1] if results else None
                if look_up(native, "status") == "error":
                    raise ToolError(_text_of(native), retryable=False)
                return _value_of(native)

            call = read_call(tool_use)
            try:
                value = await self.call_own(call, tool.tool_spec.get("description", ""), work)
            except ToolError:
                yield interrupted[0] if interrupted else events.ToolResultEvent(results[-1])
                return
            is_native = results and look_up(results[-1], "toolUseId") is not None
            yield events.ToolResultEvent(
                results[-1] if is_native else _to_result(call.id, encode_text(value))
            )

        return self._make_tool(tool.tool_name, tool.tool_spec, stream)

    def _make_ours(self, spec: ToolSpec) -> Any:
        events = load("strands.types._events", _PACKAGE)

        async def stream(
            self_: Any, tool_use: Any, state: Any, **options: Any
        ) -> AsyncIterator[Any]:
            text = await self.call_ours(read_call(tool_use))
            yield events.ToolResultEvent(_to_result(tool_use["toolUseId"], text))

        form = {
            "name": spec.name,
            "description": spec.description,
            "inputSchema": {"json": dict(spec.parameters)},
        }
        return self._make_tool(spec.name, form, stream)

    def _make_tool(self, name: str, spec: Any, stream: Any) -> Any:
        base = load("strands.types.tools", _PACKAGE).AgentTool
        names = {
            "tool_name": property(lambda self: name),
            "tool_spec": property(lambda self: spec),
            "tool_type": property(lambda self: "function"),
            "stream": stream,
        }
        return type("UpshotTool", (base,), names)()

    # Models

    def _wrap_model(self, model: Any) -> Any:
        work, base = self, load("strands.models", _PACKAGE).Model

        async def stream(
            self: Any, messages: Any, tools: Any = None, system: Any = None, **options: Any
        ) -> AsyncIterator[Any]:
            for event in await work.request(model, (messages, tools, system), options):
                yield event

        def structured_output(self: Any, *given: Any, **options: Any) -> Any:
            return model.structured_output(*given, **options)

        def update_config(self: Any, **config: Any) -> None:
            model.update_config(**config)

        def get_config(self: Any) -> Any:
            return model.get_config()

        names: dict[str, Any] = {
            "stream": stream,
            "update_config": update_config,
            "get_config": get_config,
            "structured_output": structured_output,
            "stateful": property(lambda _: getattr(model, "stateful", False)),
        }
        return type("UpshotModel", (base,), names)()

    async def request(self, model: Any, given: tuple[Any, ...], options: Any) -> list[Any]:
        """Call *model* through the run; return the events of the native reply."""
        name = self._name(model)

        async def call() -> ModelResponse:
            try:
                events = [one async for one in model.stream(*given, **options)]
                return read_reply(events, name)
            # Whatever the client raises is the reply's error; the library gets it unchanged.
            except Exception as error:
                return failed_reply(to_failure(error), error)

        request = _to_request(*given)
        stream = self._stream_of(model, given, options)
        provider = type(model).__name__.removesuffix("Model").lower()
        response = await self.ask(f"{provider}:{name}", request, call, stream)
        return as_items(response.raw) or _to_events(response)

    def _name(self, model: Any) -> str:
        config = model.get_config()
        return as_text(look_up(config, "model_id")) or type(model).__name__

    def _stream_of(self, model: Any, given: tuple[Any, ...], options: Any) -> Stream:
        async def stream() -> AsyncIterator[StreamItem]:
            events: list[Any] = []
            try:
                async for event in model.stream(*given, **options):
                    events.append(event)
                    for delta in _deltas(event):
                        yield delta
                yield read_reply(events, self._name(model))
            # Whatever the client raises is the reply's error; the library gets it unchanged.
            except Exception as error:
                yield failed_reply(to_failure(error), error)

        return stream


class StrandsEngine(AgentEngine):
    """Runs agents of Strands Agents as an engine; made by ``as_engine``.

    Its agent is a function that makes one.
    """

    library: ClassVar[str] = "Strands"
    work: ClassVar[type[AgentWork]] = _Work


def _to_result(ident: str, text: str) -> dict[str, Any]:
    return {"toolUseId": ident, "status": "success", "content": [{"text": text}]}


def _text_of(result: Any) -> str:
    parts = as_items(look_up(result, "content"))
    return "".join(as_text(look_up(part, "text")) for part in parts) or encode_text(parts)


def _value_of(result: Any) -> Any:
    """Return what a tool returned: its one JSON block, its text, or whatever else it gave."""
    blocks = as_items(look_up(result, "content"))
    if look_up(result, "toolUseId") is None:
        return as_json(result)
    if len(blocks) == 1 and (value := look_up(blocks[0], "json")) is not None:
        return as_json(value)
    return _text_of(result)


def _to_request(messages: Any, tools: Any, system: Any) -> ModelRequest:
    """Return what the agent sends, for the log and for deciders."""
    return ModelRequest(
        read_messages(as_items(messages)),
        system=as_text(system) or None,
        tools=tuple(
            ToolSpec(
                name=as_text(look_up(tool, "name")),
                description=as_text(look_up(tool, "description")),
                parameters=to_schema(look_up(tool, "inputSchema", "json")),
            )
            for tool in as_items(tools)
        ),
    )


def _to_messages(messages: Sequence[Message]) -> list[Any]:
    """Return *messages* in the form of Strands, in which roles take turns."""
    made: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        content: list[Any] = [{"text": message.text}] if message.text else []
        if message.role is Role.TOOL:
            result = _to_result(message.tool_call_id or "", message.text)
            content = [{"toolResult": result}]
        content += [{"toolUse": _to_tool_use(call)} for call in message.tool_calls]
        if made and made[-1]["role"] == role:
            made[-1]["content"] += content
        elif content:
            made.append({"role": role, "content": content})
    return made


def _to_tool_use(call: ToolCall) -> dict[str, Any]:
    given = call.arguments
    form = parse_json(given) if isinstance(given, str) else given
    return {
        "toolUseId": call.id,
        "name": call.name,
        "input": form if isinstance(form, dict) else {},
    }


def _to_events(response: ModelResponse) -> list[Any]:
    """Return the native events of a reply that came from the log."""
    events: list[Any] = [{"messageStart": {"role": "assistant"}}]
    if response.content:
        events += [
            {"contentBlockStart": {"start": {}}},
            {"contentBlockDelta": {"delta": {"text": response.content}}},
            {"contentBlockStop": {}},
        ]
    for call in response.tool_calls:
        start = {"toolUse": {"name": call.name, "toolUseId": call.id}}
        events += [
            {"contentBlockStart": {"start": start}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": encode_text(call.arguments)}}}},
            {"contentBlockStop": {}},
        ]
    reason = "tool_use" if response.tool_calls else "end_turn"
    usage = {
        "inputTokens": response.usage.input_tokens or 0,
        "outputTokens": response.usage.output_tokens or 0,
        "totalTokens": response.usage.total_tokens or 0,
    }
    metadata = {"usage": usage, "metrics": {"latencyMs": 0}}
    return [*events, {"messageStop": {"stopReason": reason}}, {"metadata": metadata}]


def _deltas(event: Any) -> Iterable[StreamItem]:
    """Yield the pieces of a reply in an event of the model's stream."""
    started = look_up(event, "contentBlockStart")
    delta = look_up(event, "contentBlockDelta", "delta")
    index = as_count(look_up(event, "contentBlockStart", "contentBlockIndex")) or 0
    if (call := look_up(started, "start", "toolUse")) is not None:
        ident, name = as_text(look_up(call, "toolUseId")), as_text(look_up(call, "name"))
        yield ToolCallDelta(index=index, call_id=ident, name=name, arguments="")
    if text := as_text(look_up(delta, "text")):
        yield TextDelta(text=text)
    if thought := as_text(look_up(delta, "reasoningContent", "text")):
        yield ReasoningDelta(text=thought)
    if piece := as_text(look_up(delta, "toolUse", "input")):
        yield ToolCallDelta(index=index, arguments=piece)
