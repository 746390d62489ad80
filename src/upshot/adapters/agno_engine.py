"""An agent of Agno as the engine of a run.

A copy of the agent gets a copy of its model, which asks and calls functions through the run; the
agent itself is not changed. ``agent_engine`` says how it is resumed.

Source:
    agno 3.1 (``models/base.py``, ``tools/function.py``, ``agent``), read in 2026. Its agent returns
    what was raised inside it as the content of its output.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, ClassVar, Final, cast

from upshot.adapters.agent_engine import (
    AgentEngine,
    AgentWork,
    encode_text,
    load,
    to_function_call,
    to_function_specs,
    to_request,
)
from upshot.adapters.agno import read_messages, read_reply, to_failure, to_findings
from upshot.adapters.engine_calls import failed_reply
from upshot.contract.base.enums import Role
from upshot.contract.message import Message
from upshot.contract.model_calls import (
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.native.objects import as_arguments, as_count, as_items, as_json, as_text, look_up
from upshot.runs.engine_api.exceptions import Failed
from upshot.tools.definition.tool_error import ToolError

_PACKAGE: Final = "agno"


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._function = load("agno.tools.function", _PACKAGE)
        self._ours = frozenset(spec.name for spec in self._run.tools.schemas())

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        run = self._run
        ours = [self._make_ours(spec) for spec in run.tools.schemas()]
        # What it keeps is in the run's log.
        update: dict[str, Any] = {"model": self._wrap_model(agent.model), "db": None}
        if ours:
            update["tools"] = [*as_items(agent.tools), *ours]
        if run.instructions is not None:
            own = (as_text(agent.additional_context), run.instructions)
            update["additional_context"] = "\n\n".join(part for part in own if part)
        made = agent.deep_copy(update=update)
        given = _to_messages(self._board.seeded(), load("agno.models.message", _PACKAGE).Message)
        result = await made.arun(given, run_id=run.id, dependencies=run.dependencies)
        while self.calls.stop is None and look_up(result, "is_paused") is True:
            await self._answer(result)
            result = await made.acontinue_run(run_response=result)
        found = to_findings(result)
        if self.calls.stop is None and found.error is not None and run.handoff is None:
            raise Failed(found.error)
        return None if found.output is None else as_json(found.output)

    def may_recover(self, error: Exception) -> bool:
        """The agent would make a text of any error."""
        return False

    async def _answer(self, result: Any) -> None:
        """Answer the confirmations that the agent asks for.

        Raises:
            Parked: Some are unanswered.
            Failed: It asks for something else.
        """
        tools: list[Any] = [
            tool
            for tool in as_items(look_up(result, "tools"))
            if look_up(tool, "requires_confirmation") and look_up(tool, "confirmed") is None
        ]
        if not tools:
            raise Failed("not_available", "the agent waits for something that is no confirmation")
        calls = [
            ToolCall(tool.tool_call_id, tool.tool_name, as_arguments(tool.tool_args))
            for tool in tools
        ]
        answers = await self.ask_approvals({call.id: call for call in calls})
        for tool in tools:
            tool.confirmed = answers[tool.tool_call_id]

    # Models and tools

    def _make_ours(self, spec: ToolSpec) -> Any:
        async def entrypoint(**arguments: Any) -> str:
            raise NotImplementedError

        return self._function.Function(
            name=spec.name,
            description=spec.description,
            parameters=dict(spec.parameters),
            entrypoint=entrypoint,
            skip_entrypoint_processing=True,
        )

    def _wrap_model(self, model: Any) -> Any:
        """Return a copy of *model* whose calls go through the run."""
        work, made = self, copy.copy(model)
        base = cast("type[Any]", type(model))

        async def ainvoke(self: Any, **given: Any) -> Any:
            return await work.request(model, given)

        async def arun_function_call(self: Any, function_call: Any) -> Any:
            return await work.call_function(model, function_call)

        names = {"ainvoke": ainvoke, "arun_function_call": arun_function_call}
        made.__class__ = type(base.__name__, (base,), names)
        return made

    async def request(self, model: Any, given: dict[str, Any]) -> Any:
        """Call *model* through the run; return the native reply."""

        async def call() -> ModelResponse:
            inner, ended = _listened(model)
            try:
                return read_reply(await inner.ainvoke(**given), model.id, *ended[-1:])
            # Whatever the client raises is the reply's error.
            except Exception as error:
                return failed_reply(to_failure(error), error)

        async def stream() -> AsyncIterator[StreamItem]:
            inner, ended = _listened(model)
            pieces: list[Any] = []
            try:
                async for piece in inner.ainvoke_stream(**given):
                    pieces.append(piece)
                    for delta in _deltas(piece):
                        yield delta
                yield read_reply(_whole(pieces, model), model.id, *ended[-1:])
            # Whatever the client raises is the reply's error.
            except Exception as error:
                yield failed_reply(to_failure(error), error)

        name = f"{as_text(look_up(model, 'provider')).partition(' ')[0].lower()}:{model.id}"
        messages = read_messages(as_items(given.get("messages")))
        request = to_request(messages, to_function_specs(given.get("tools")))
        response = await self.ask(name, request, call, stream)
        return response.raw if response.raw is not None else self._to_native(response)

    async def call_function(self, model: Any, function_call: Any) -> Any:
        """Make a call of a function through the run; return what the model's own method would."""
        function: Any = function_call.function
        given = as_arguments(function_call.arguments)
        call = ToolCall(function_call.call_id, function.name, given)
        timer, made = load("agno.utils.timer", _PACKAGE).Timer(), list[Any]()
        timer.start()

        async def work() -> Any:
            made.append(await model.arun_function_call(function_call))
            success, _, _, result = made[0]
            if success is not True:
                text = as_text(look_up(result, "error")) or str(success)
                raise ToolError(text, retryable=False)
            return result.result

        if function.name in self._ours:
            value: Any = await self.call_ours(call)
        else:
            try:
                value = await self.call_own(call, function.description or "", work)
            except ToolError:
                return made[0]
        if made:
            return made[0]
        timer.stop()
        function_call.result = encode_text(value)
        result = self._function.FunctionExecutionResult(
            status="success", result=function_call.result
        )
        return True, timer, function_call, result

    def _to_native(self, response: ModelResponse) -> Any:
        """Return the native form of a reply that came from the log."""
        calls = [to_function_call(call) for call in response.tool_calls]
        metrics = load("agno.metrics", _PACKAGE).MessageMetrics(
            input_tokens=response.usage.input_tokens or 0,
            output_tokens=response.usage.output_tokens or 0,
            total_tokens=response.usage.total_tokens or 0,
        )
        return load("agno.models.response", _PACKAGE).ModelResponse(
            role="assistant",
            content=response.content or None,
            tool_calls=calls,
            response_usage=metrics,
        )


class AgnoEngine(AgentEngine):
    """Runs an agent of Agno as an engine; made by ``as_engine``."""

    library: ClassVar[str] = "Agno"
    work: ClassVar[type[AgentWork]] = _Work


def _listened(model: Any) -> tuple[Any, list[str]]:
    """Return a copy of *model*, and a list that gets why its reply ended, which the model drops."""
    made, ended = copy.copy(model), list[str]()

    def listen(parse: Any) -> Any:
        def parsed(native: Any, *given: Any, **options: Any) -> Any:
            ended.extend(why for path in _ENDS if (why := _find_end(native, path)))
            return parse(native, *given, **options)

        return parsed

    for name in ("_parse_provider_response", "_parse_provider_response_delta"):
        setattr(made, name, listen(getattr(model, name)))
    for name in ("get_client", "get_async_client"):
        # The client that the model keeps.
        if hasattr(model, name):
            setattr(made, name, getattr(model, name))
    return made, ended


# Where the native replies of providers say why they ended, and their pieces.
_ENDS: Final = (
    "choices.finish_reason",
    "candidates.finish_reason",
    "stop_reason",
    "delta.stop_reason",
    "stopReason",
    "messageStop.stopReason",
    "done_reason",
    "incomplete_details.reason",
    "response.incomplete_details.reason",
)


def _find_end(native: Any, path: str) -> str:
    head, *rest = path.split(".")
    found = look_up(native, head)
    items = as_items(found)
    found = look_up(items[0] if items else found, *rest) if rest else found
    # Some are enums.
    return as_text(getattr(found, "value", found))


def _deltas(piece: Any) -> Iterable[StreamItem]:
    """Yield what a piece of a streamed reply adds."""
    if thought := as_text(look_up(piece, "reasoning_content")):
        yield ReasoningDelta(text=thought)
    if text := as_text(look_up(piece, "content")):
        yield TextDelta(text=text)
    for place, call in enumerate(as_items(look_up(piece, "tool_calls"))):
        index = as_count(look_up(call, "index"))
        yield ToolCallDelta(
            index=place if index is None else index,
            call_id=as_text(look_up(call, "id")),
            name=as_text(look_up(call, "function", "name")),
            arguments=as_text(look_up(call, "function", "arguments")),
        )


def _whole(pieces: Sequence[Any], model: Any) -> Any:
    """Return the native reply that was streamed in *pieces*."""
    whole: Any = load("agno.models.response", _PACKAGE).ModelResponse(role="assistant")
    calls: list[Any] = []
    known: dict[str, Any] = {}
    for piece in pieces:
        calls += piece.tool_calls or []
        for name in ("content", "reasoning_content", "redacted_reasoning_content"):
            if isinstance(part := getattr(piece, name), str):
                setattr(whole, name, (getattr(whole, name) or "") + part)
        for name in ("response_usage", "citations", "parsed", "audio", "images", "files", "extra"):
            if (value := getattr(piece, name)) is not None:
                setattr(whole, name, value)
        known |= piece.provider_data or {}
    whole.provider_data = known or None
    whole.tool_calls = model.parse_tool_calls(calls) if calls else []
    return whole


def _to_messages(messages: Sequence[Message], native: Any) -> list[Any]:
    """Return *messages* in the form of Agno."""
    made: list[Any] = []
    for message in messages:
        fields: dict[str, Any] = {"role": str(message.role), "content": message.text}
        if message.role is Role.TOOL:
            fields |= {"tool_call_id": message.tool_call_id, "tool_name": message.name}
        if message.tool_calls:
            fields["tool_calls"] = [to_function_call(call) for call in message.tool_calls]
        made.append(native(**fields))
    return made
