"""An agent of CrewAI as the engine of a run.

A copy of the agent gets a copy of its model and of its tools, whose calls go through the run; the
agent itself is not changed. ``agent_engine`` says how it is resumed.

Source:
    crewai 1.15 (``agent/core.py``, ``agents/agent_executor.py``, ``llms/base_llm.py``,
    ``tools/base_tool.py``), read in 2026. A model tells its tokens only in its event, and returns a
    text or a list of calls in its provider's form. Its objects are models of Pydantic: a method is
    replaced in their ``__dict__``, because they refuse to have it set.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Final

from upshot.adapters.agent_engine import (
    AgentEngine,
    AgentWork,
    encode_text,
    load,
    to_function_call,
    to_function_specs,
    to_request,
)
from upshot.adapters.crewai import read_messages, to_failure, usage_of
from upshot.adapters.findings import Findings
from upshot.adapters.thread_engine import ThreadWork
from upshot.contract.base.structs import Local
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelResponse, TextDelta, ToolCallDelta
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.native.objects import (
    as_arguments,
    as_items,
    as_json,
    as_object,
    as_text,
    find_texts,
    look_up,
)
from upshot.wire.accumulator import parse_finish_reason

_PACKAGE: Final = "crewai"


class _Work(ThreadWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._utilities = load("crewai.utilities.agent_utils", _PACKAGE)
        self._metrics = load("crewai.types.usage_metrics", _PACKAGE).UsageMetrics
        # The run's tools, by the names that the library gives to the model.
        self._ours = {self._sanitize(spec.name): spec.name for spec in self._run.tools.schemas()}

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        made = copy.copy(agent)
        with_skills = made._add_skill_loader_tool
        ours = [self._make_ours(spec) for spec in self._run.tools.schemas()]

        def add_tools(tools: list[Any], *given: Any, **more: Any) -> list[Any]:
            # All its tools are here: those of skills, apps and servers too.
            return [*map(self._wrap_tool, with_skills(tools, *given, **more)), *ours]

        fields: dict[str, Any] = {
            "llm": self._wrap_model(agent.llm),
            "function_calling_llm": self._wrap_model(look_up(agent, "function_calling_llm")),
            "tools": [*(agent.tools or [])],
            "tools_handler": None,
            "agent_executor": None,
            "_add_skill_loader_tool": add_tools,
        }
        if self._run.instructions is not None:
            fields["backstory"] = f"{agent.backstory}\n\n{self._run.instructions}"
        made.__dict__.update(fields)
        given = [_to_native(message) for message in self._board.seeded()]
        result = await self.run_in_thread(lambda: made.kickoff(given))
        if (structured := look_up(result, "pydantic")) is not None:
            return as_json(structured)
        self.answer(as_text(look_up(result, "raw")))
        return None

    def _sanitize(self, name: str) -> str:
        return load("crewai.utilities.string_utils", _PACKAGE).sanitize_tool_name(name)

    # Tools

    def _wrap_tool(self, tool: Any) -> Any:
        """Return a copy of one of the agent's own tools; what it returns is not cached."""
        made, name = copy.copy(tool), self._sanitize(tool.name)

        def run(**arguments: Any) -> Any:
            value, returned = self.call_tool(
                name, as_object(arguments), tool.description, lambda: tool.run(**arguments)
            )
            return returned[0] if returned else value

        return self._with_run(made, run)

    def _make_ours(self, spec: ToolSpec) -> Any:
        schemas = load("crewai.utilities.pydantic_schema_utils", _PACKAGE)

        def run(**arguments: Any) -> str:
            return self.call_run_tool(spec.name, as_object(arguments))

        made = load("crewai.tools.base_tool", _PACKAGE).Tool(
            name=spec.name,
            description=spec.description,
            func=run,
            args_schema=schemas.create_model_from_schema(
                dict(spec.parameters), model_name=spec.name
            ),
        )
        return self._with_run(made, run)

    def _with_run(self, tool: Any, run: Callable[..., Any]) -> Any:
        def never(*given: Any) -> bool:
            return False

        tool.__dict__.update(run=run, _run=run, cache_function=never)
        return tool

    # Models

    def _wrap_model(self, model: Any) -> Any:
        """Return a copy of *model* whose calls go through the run."""
        if model is None:
            return None

        def call(messages: Any, *given: Any, **options: Any) -> Any:
            return self._request(model, messages, given, options)

        made = copy.copy(model)
        made.__dict__["call"] = call
        return made

    def _request(self, model: Any, messages: Any, given: tuple[Any, ...], options: Any) -> Any:
        """Call *model* through the run; return what it returned."""

        def send(put: Callable[[StreamItem], None] | None = None) -> ModelResponse:
            facts: dict[str, Any] = {}
            inner = _listened(model, facts, put)
            method: Any = look_up(inner.__class__, "call")
            # The run retries, as it says; the library's own retries are around the method.
            while getattr(method, "_crewai_rate_limit_wrapped", False):
                method = method.__wrapped__
            return self._read(model, facts, method(inner, messages, *given, **options))

        tools = options.get("tools") or (given[0] if given else None)
        given_messages = [{"role": "user", "content": messages}]
        read = read_messages(given_messages if isinstance(messages, str) else messages)
        request = to_request(read, to_function_specs(tools))
        name = f"{as_text(model.provider) or 'openai'}:{model.model}"
        response = self.wait(
            lambda caller: self.ask_native(caller, name, request, send, stream=send)
        )
        return response.raw if response.raw is not None else _returned(response, model, options)

    def _read(self, model: Any, facts: dict[str, Any], returned: Any) -> ModelResponse:
        """Read what *model* facts in its event, and what it returned."""
        calls = [self._read_call(call) for call in as_items(returned)]
        findings = Findings(raw=returned)
        text = "" if calls else returned
        findings.say(text if isinstance(text, str) else encode_text(text), (), calls)
        metrics = self._metrics.from_provider_dict(facts.get("usage"))
        return ModelResponse(
            parts=findings.messages[0].parts,
            usage=usage_of(metrics, calls=1),
            finish_reason=parse_finish_reason(as_text(facts.get("finish_reason"))),
            provider_data={"model": model.model, **find_texts(facts, response_id="response_id")},
            local=Local(raw=returned),
        )

    def _read_call(self, call: Any) -> ToolCall:
        ident, name, arguments = self._utilities.extract_tool_call_info(call)
        own = str(name)
        return ToolCall(ident, self._ours.get(own, own), as_arguments(arguments))


class CrewAIEngine(AgentEngine):
    """Runs an agent of CrewAI as an engine; made by ``as_engine``."""

    library: ClassVar[str] = "CrewAI"
    work: ClassVar[type[AgentWork]] = _Work


def _listened(model: Any, facts: dict[str, Any], put: Callable[[StreamItem], None] | None) -> Any:
    """Return a copy of *model* that adds what it tells in its events to *facts*.

    Args:
        model: The model.
        facts: The facts of its last event.
        put: Takes the pieces of a streamed reply; None for a whole one.
    """
    made, completed, chunk = (
        copy.copy(model),
        model._emit_call_completed_event,
        model._emit_stream_chunk_event,
    )
    seen: dict[str, int] = {}

    def on_completed(*given: Any, **event: Any) -> None:
        facts.update(event)
        completed(*given, **event)

    def on_chunk(text: str = "", *given: Any, **event: Any) -> None:
        piece = text or as_text(event.get("chunk"))
        if put is not None:
            call = event.get("tool_call")
            if call is None and piece:
                put(TextDelta(text=piece))
            elif call is not None:
                ident = as_text(look_up(call, "id"))
                is_new = ident not in seen
                index = seen.setdefault(ident, len(seen))
                name = as_text(look_up(call, "function", "name")) if is_new else ""
                put(
                    ToolCallDelta(
                        index=index, call_id=ident if is_new else "", name=name, arguments=piece
                    )
                )
        event.setdefault("chunk", text)
        chunk(*given, **event)

    listeners = {"_emit_call_completed_event": on_completed, "_emit_stream_chunk_event": on_chunk}
    made.__dict__.update(listeners)
    if put is not None:
        made.stream = True
    return made


def _returned(response: ModelResponse, model: Any, options: dict[str, Any]) -> Any:
    """Return what a model returns for a reply that came from the log."""
    if response.tool_calls:
        return [to_function_call(call) for call in response.tool_calls]
    text = response.content or ""
    for form in (options.get("response_model"), look_up(model, "response_format")):
        if isinstance(form, type):
            kind: Any = form
            return kind.model_validate_json(text)
    return text


def _to_native(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": str(message.role), "content": message.text}
    if message.tool_calls:
        made["tool_calls"] = [to_function_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        made |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return made
