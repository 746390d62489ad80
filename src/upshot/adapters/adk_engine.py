"""An agent of Google's Agent Development Kit as the engine of a run.

A copy of the agent, and of its sub-agents, gets our model and our tools, and works in a session in
memory; the agent itself is not changed. ``agent_engine`` says how it is resumed.

The kit makes up an id for a call that has none. That id would be another one when the agent is
called again, so each call gets the id that it has in the run.

Source:
    google-adk 2.13 (``models/base_llm.py``, ``tools/base_tool.py``, ``agents/llm_agent.py``,
    ``flows/llm_flows/functions.py``), read in 2026.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, ClassVar, Final

from upshot.adapters.adk import read_reply, to_failure
from upshot.adapters.agent_engine import AgentEngine, AgentWork, encode_text, load, to_schema
from upshot.adapters.engine_calls import Stream, failed_reply
from upshot.contract.base.enums import Role
from upshot.contract.message import Image, Message, Text
from upshot.contract.model_calls import ModelRequest, ModelResponse, ReasoningDelta, TextDelta
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.native.objects import as_arguments, as_items, as_text, look_up
from upshot.wire.decoding import NOT_JSON, parse_json

_PACKAGE: Final = "google-adk"
_WHO: Final = {"app_name": "upshot", "user_id": "user"}
_CONFIRMATION: Final = "adk_request_confirmation"


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._types = load("google.genai.types", _PACKAGE)
        self._models = load("google.adk.models", _PACKAGE)
        self._tools = load("google.adk.tools", _PACKAGE)
        self._toolset = load("google.adk.tools.base_toolset", _PACKAGE).BaseToolset

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        made = self._copy(agent, is_root=True)
        runner = load("google.adk.runners", _PACKAGE).InMemoryRunner(agent=made, app_name="upshot")
        try:
            session = await runner.session_service.create_session(**_WHO, session_id=self._run.id)
            *earlier, last = self._to_contents(self._board.seeded()) or [self._content("user", [])]
            event = load("google.adk.events", _PACKAGE).Event
            for content in earlier:
                author = "user" if content.role == "user" else made.name
                before = event(author=author, content=content, invocation_id="earlier")
                await runner.session_service.append_event(session, before)
            while last is not None:
                asked: list[Any] = []
                stream = runner.run_async(
                    user_id=_WHO["user_id"], session_id=session.id, new_message=last
                )
                async for each in stream:
                    asked += _confirmations(each)
                last = await self._confirm(asked)
        finally:
            await runner.close()
        if look_up(agent, "output_schema") is None:
            return None
        output = parse_json(self._board.answer() or "")
        return None if output is NOT_JSON else output

    async def _confirm(self, asked: list[Any]) -> Any:
        """Return the user's confirmations as the next message; None if none is asked for."""
        if not asked:
            return None
        calls: dict[str, ToolCall] = {}
        for one in asked:
            wanted = look_up(one, "args", "originalFunctionCall")
            name, given = as_text(look_up(wanted, "name")), as_arguments(look_up(wanted, "args"))
            calls[as_text(look_up(wanted, "id"))] = ToolCall(one.id, name, given)
        answers = await self.ask_approvals(calls)
        parts = [
            self._types.Part(
                function_response=self._types.FunctionResponse(
                    id=call.id, name=_CONFIRMATION, response={"confirmed": answers[key]}
                )
            )
            for key, call in calls.items()
        ]
        return self._content("user", parts)

    # Copies

    def _copy(self, agent: Any, *, is_root: bool = False) -> Any:
        """Return a copy of *agent* and its sub-agents, whose calls go through the run."""
        update: dict[str, Any] = {"sub_agents": [self._copy(one) for one in agent.sub_agents]}
        if hasattr(agent, "canonical_model"):
            update["model"] = self._wrap_model(agent.canonical_model)
            update["tools"] = [*map(self._wrap_tool, agent.tools)]
            if is_root:
                update["tools"] += [self._make_ours(spec) for spec in self._run.tools.schemas()]
                update["instruction"] = _joined(agent.instruction, self._run.instructions)
        return agent.clone(update=update)

    def _wrap_model(self, model: Any) -> Any:
        work = self

        async def generate(self: Any, llm_request: Any, **options: Any) -> AsyncIterator[Any]:
            yield await work.request(model, llm_request)

        names = {
            "generate_content_async": generate,
            "capabilities": property(lambda self: model.capabilities),
            "__module__": __name__,
        }
        return type("UpshotModel", (self._models.BaseLlm,), names)(model=model.model)

    def _wrap_tool(self, tool: Any) -> Any:
        """Return a copy of one of the agent's own tools, or of a set of them."""
        if isinstance(tool, self._toolset):
            made = copy.copy(tool)

            async def get_tools(context: Any = None) -> list[Any]:
                return [self._wrap_tool(one) for one in await tool.get_tools_with_prefix(context)]

            made.get_tools_with_prefix = get_tools
            return made
        if not isinstance(tool, self._tools.BaseTool):
            if not inspect.isroutine(tool):
                # An agent, or a callable object: the kit makes a tool of it itself.
                return tool
            tool = self._tools.FunctionTool(func=tool)
        made = copy.copy(tool)

        async def run_async(*, args: dict[str, Any], tool_context: Any) -> Any:
            return await self._call_own(tool, args, tool_context)

        made.run_async = run_async
        return made

    async def _call_own(self, tool: Any, args: dict[str, Any], context: Any) -> Any:
        def work() -> Any:
            return tool.run_async(args=args, tool_context=context)

        if context.tool_confirmation is None and await tool.check_require_confirmation(
            args, context
        ):
            # It only asks.
            return await work()
        call = ToolCall(context.function_call_id, tool.name, as_arguments(args))
        return await self.call_own(call, tool.description or "", work)

    def _make_ours(self, spec: ToolSpec) -> Any:
        work, types = self, self._types

        def declare(self: Any) -> Any:
            return types.FunctionDeclaration(
                name=spec.name,
                description=spec.description,
                parameters_json_schema=dict(spec.parameters),
            )

        async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
            call = ToolCall(tool_context.function_call_id, spec.name, as_arguments(args))
            return {"result": await work.call_ours(call)}

        names = {"_get_declaration": declare, "run_async": run_async}
        made = type("UpshotTool", (self._tools.BaseTool,), names)
        return made(name=spec.name, description=spec.description)

    # Models

    async def request(self, model: Any, given: Any) -> Any:
        """Call *model* through the run; return the native reply."""

        async def call() -> ModelResponse:
            try:
                replies = [one async for one in model.generate_content_async(given, stream=False)]
                return read_reply(self._merged(replies))
            # Whatever the client raises is the reply's error; the kit gets it unchanged.
            except Exception as error:
                return failed_reply(to_failure(error), error)

        name = given.model or model.model
        provider, _, rest = name.partition("/")
        name = f"{provider}:{rest}" if rest else f"google:{provider}"
        request = self._to_request(given)
        response = await self.ask(name, request, call, self._stream_of(model, given))
        native = response.raw if response.raw is not None else self._to_native(response)
        asked = [part.function_call for part in _parts_of(native) if part.function_call]
        for call_part, known in zip(asked, response.tool_calls, strict=False):
            call_part.id = known.id
        return native

    def _stream_of(self, model: Any, given: Any) -> Stream:
        async def stream() -> AsyncIterator[StreamItem]:
            replies: list[Any] = []
            try:
                async for one in model.generate_content_async(given, stream=True):
                    if not look_up(one, "partial"):
                        replies.append(one)
                        continue
                    for delta in _deltas(one):
                        yield delta
                yield read_reply(self._merged(replies))
            # Whatever the client raises is the reply's error; the kit gets it unchanged.
            except Exception as error:
                yield failed_reply(to_failure(error), error)

        return stream

    def _merged(self, replies: list[Any]) -> Any:
        """Return the parts of one reply, which some models give one by one, as one."""
        if not replies:
            return self._models.LlmResponse(content=self._content("model", []))
        last = replies[-1]
        if len(replies) > 1:
            parts = [part for reply in replies for part in _parts_of(reply)]
            used = next((one.usage_metadata for one in replies if one.usage_metadata), None)
            content = self._content("model", parts)
            last = last.model_copy(update={"content": content, "usage_metadata": used})
        return last

    def _to_native(self, response: ModelResponse) -> Any:
        """Return the native form of a reply that came from the log."""
        return self._models.LlmResponse(
            content=self._content("model", self._parts(response.to_message()))
        )

    def _to_request(self, given: Any) -> ModelRequest:
        """Return what the kit sends, for the log and for deciders."""
        messages: list[Message] = []
        for content in as_items(look_up(given, "contents")):
            messages += _read_content(content)
        declared = [
            one
            for group in as_items(look_up(given, "config", "tools"))
            for one in as_items(look_up(group, "function_declarations"))
        ]
        specs = tuple(
            ToolSpec(
                name=as_text(look_up(one, "name")),
                description=as_text(look_up(one, "description")),
                parameters=to_schema(
                    look_up(one, "parameters_json_schema") or look_up(one, "parameters")
                ),
            )
            for one in declared
        )
        system = look_up(given, "config", "system_instruction")
        return ModelRequest(messages, system=as_text(system) or None, tools=specs)

    # Contents

    def _content(self, role: str, parts: list[Any]) -> Any:
        return self._types.Content(role=role, parts=parts)

    def _to_contents(self, messages: Sequence[Message]) -> list[Any]:
        return [
            self._content(
                "model" if message.role is Role.ASSISTANT else "user", self._parts(message)
            )
            for message in messages
        ]

    def _parts(self, message: Message) -> list[Any]:
        types, parts = self._types, list[Any]()
        if message.role is Role.TOOL:
            answer = types.FunctionResponse(
                id=message.tool_call_id, name=message.name, response={"result": message.text}
            )
            return [types.Part(function_response=answer)]
        for part in message.parts:
            if isinstance(part, Text):
                parts.append(types.Part(text=part.text))
            elif isinstance(part, Image) and isinstance(part.data, bytes):
                parts.append(types.Part.from_bytes(data=part.data, mime_type=part.media_type))
            elif isinstance(part, Image) and part.url:
                parts.append(types.Part.from_uri(file_uri=part.url, mime_type=part.media_type))
        for call in message.tool_calls:
            given = parse_json(call.arguments) if isinstance(call.arguments, str) else None
            args = call.arguments if given is None else given
            wanted = types.FunctionCall(
                id=call.id, name=call.name, args=args if isinstance(args, dict) else {}
            )
            parts.append(types.Part(function_call=wanted))
        return parts


class ADKEngine(AgentEngine):
    """Runs an agent of the Agent Development Kit as an engine; made by ``as_engine``."""

    library: ClassVar[str] = "Google ADK"
    work: ClassVar[type[AgentWork]] = _Work


def _joined(own: Any, more: str | None) -> Any:
    """Return the agent's own instruction with *more* after it."""
    if more is None or not callable(own):
        return "\n\n".join(part for part in (own, more) if part) if not callable(own) else own

    async def instruction(context: Any) -> str:
        text = own(context)
        text = await text if inspect.isawaitable(text) else text
        return f"{text}\n\n{more}"

    return instruction


def _parts_of(reply: Any) -> list[Any]:
    return as_items(look_up(reply, "content", "parts"))


def _confirmations(event: Any) -> list[Any]:
    """Return the calls that the kit made up to ask for confirmations."""
    asked = (look_up(part, "function_call") for part in _parts_of(event))
    return [call for call in asked if look_up(call, "name") == _CONFIRMATION]


def _read_content(content: Any) -> Iterable[Message]:
    """Read one content that the kit sends."""
    parts = as_items(look_up(content, "parts"))
    for part in parts:
        if (answer := look_up(part, "function_response")) is not None:
            text = encode_text(look_up(answer, "response"))
            ident, name = as_text(look_up(answer, "id")), as_text(look_up(answer, "name"))
            yield Message(Role.TOOL, text, tool_call_id=ident, name=name)
    text = "".join(as_text(look_up(part, "text")) for part in parts)
    calls = [
        ToolCall(
            as_text(look_up(one, "id")),
            as_text(look_up(one, "name")),
            as_arguments(look_up(one, "args")),
        )
        for part in parts
        if (one := look_up(part, "function_call")) is not None
    ]
    is_model = look_up(content, "role") == "model"
    if text or calls:
        role = Role.ASSISTANT if is_model else Role.USER
        yield Message(role, text, tool_calls=tuple(calls))


def _deltas(reply: Any) -> Iterable[StreamItem]:
    """Yield the pieces of a reply in a partial one."""
    for part in _parts_of(reply):
        if text := as_text(look_up(part, "text")):
            yield ReasoningDelta(text=text) if part.thought else TextDelta(text=text)
