"""An agent of smolagents as the engine of a run.

A copy of the agent gets a copy of its model and of its tools, whose calls go through the run; the
agent itself is not changed. Its call of ``final_answer`` is the text of a reply, and no call of the
run. ``agent_engine`` says how it is resumed.

Source:
    smolagents 1.26 (``agents.py``, ``models.py``, ``tools.py``, ``memory.py``), read in 2026. What
    its models stream does not say why the reply ended, so a reply is asked for as a whole.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from upshot.adapters.agent_engine import (
    AgentEngine,
    AgentWork,
    encode_text,
    load,
    to_function_specs,
    to_request,
)
from upshot.adapters.smolagents import FINAL, to_failure
from upshot.adapters.thread_engine import ThreadWork
from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json, Local
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelResponse
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.errors import Misuse
from upshot.native.framework_messages import read_smolagents_message, read_smolagents_text
from upshot.native.objects import as_items, as_json, as_object, as_text, look_up
from upshot.runs.resumption import read_arguments

_PACKAGE: Final = "smolagents"
# Where a reply keeps the id of its call of final_answer.
_ANSWER: Final = "final_answer_id"


class _Work(ThreadWork):
    to_failure = staticmethod(to_failure)

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._models = load("smolagents.models", _PACKAGE)

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        made, memory = copy.copy(agent), load("smolagents.memory", _PACKAGE)
        made.model, made.stream_outputs, made.state = (
            self._wrap_model(agent.model),
            False,
            {**agent.state},
        )
        made.tools = {
            name: tool if name == FINAL else self._wrap_tool(tool)
            for name, tool in agent.tools.items()
        }
        made.tools |= {spec.name: self._make_ours(spec) for spec in self._run.tools.schemas()}
        if self._run.instructions is not None:
            own = (as_text(agent.instructions), self._run.instructions)
            made.instructions = "\n\n".join(part for part in own if part)
        made.memory = memory.AgentMemory(made.system_prompt)
        if hasattr(agent, "python_executor"):
            made.python_executor = made.create_python_executor()
        *earlier, last = self._board.seeded() or [Message(Role.USER, "")]
        made.memory.steps = [_to_step(message, memory) for message in earlier]
        output = await self.run_in_thread(
            lambda: made.run(last.text, reset=False, return_full_result=False)
        )
        if not isinstance(output, str):
            return None if output is None else as_json(output)
        self.answer(str(output))
        return None

    # Tools

    def _wrap_tool(self, tool: Any) -> Any:
        """Return a copy of one of the agent's own tools that calls it through the run."""
        made = copy.copy(tool)

        def forward(*given: Any, **named: Any) -> Any:
            arguments = as_object({**dict(zip(tool.inputs, given, strict=False)), **named})
            value, returned = self.call_tool(
                tool.name, arguments, tool.description, lambda: tool(*given, **named)
            )
            return returned[0] if returned else value

        # The tool itself sets itself up when it is called.
        made.forward, made.is_initialized = forward, True
        return made

    def _make_ours(self, spec: ToolSpec) -> Any:
        properties = as_object(spec.parameters.get("properties"))

        def forward(self_: Any, *given: Any, **named: Any) -> str:
            arguments = {**dict(zip(properties, given, strict=False)), **named}
            return self.call_run_tool(spec.name, as_object(arguments))

        names: dict[str, Any] = {
            "name": spec.name,
            "description": spec.description,
            "inputs": _to_inputs(spec),
            "output_type": "string",
            "skip_forward_signature_validation": True,
            "forward": forward,
        }
        return type("UpshotTool", (load("smolagents.tools", _PACKAGE).Tool,), names)()

    # Models

    def _wrap_model(self, model: Any) -> Any:
        """Return a copy of *model* whose calls go through the run."""

        def generate(messages: Any, **options: Any) -> Any:
            return self._request(model, messages, options)

        made = copy.copy(model)
        made.generate = generate
        return made

    def _request(self, model: Any, messages: Any, options: dict[str, Any]) -> Any:
        """Call *model* through the run; return the native reply."""

        def send() -> ModelResponse:
            inner = copy.copy(model)
            if (retryer := getattr(model, "retryer", None)) is not None:
                # The run retries, as it says.
                inner.retryer = copy.copy(retryer)
                inner.retryer.max_attempts = 1
            return _read_reply(inner.generate(messages, **options), model)

        tools = as_items(options.get("tools_to_call_from"))
        forms = [self._models.get_tool_json_schema(tool) for tool in tools]
        request = to_request([_read(message) for message in messages], to_function_specs(forms))
        provider = type(model).__name__.removesuffix("Model").removesuffix("Server").lower()
        name = f"{provider}:{as_text(look_up(model, 'model_id'))}"
        response = self.wait(lambda caller: self.ask_native(caller, name, request, send))
        return self._to_native(response)

    def _to_native(self, response: ModelResponse) -> Any:
        """Return the native form of a reply, in a copy: the agent changes what it gets."""
        native, usage = self._models, response.usage
        calls, text = list(response.tool_calls), response.content
        if (ident := as_text(response.provider_data.get(_ANSWER))) or response.output is not None:
            answer: Json = text if response.output is None else response.output
            calls.append(ToolCall(ident, FINAL, {"answer": answer}))
            text = None
        return native.ChatMessage(
            role=native.MessageRole.ASSISTANT,
            content=text,
            tool_calls=[
                native.ChatMessageToolCall(
                    function=native.ChatMessageToolCallFunction(
                        name=call.name, arguments=encode_text(call.arguments)
                    ),
                    id=call.id,
                    type="function",
                )
                for call in calls
            ]
            or None,
            raw=look_up(response.raw, "raw"),
            token_usage=load("smolagents.monitoring", _PACKAGE).TokenUsage(
                input_tokens=usage.input_tokens or 0, output_tokens=usage.output_tokens or 0
            ),
        )


class SmolagentsEngine(AgentEngine):
    """Runs an agent of smolagents as an engine; made by ``as_engine``.

    Raises:
        Misuse: It has managed agents, or runs its code elsewhere.
    """

    library: ClassVar[str] = "smolagents"
    work: ClassVar[type[AgentWork]] = _Work

    def __init__(self, agent: Any, **options: Any) -> None:
        if look_up(agent, "managed_agents"):
            raise Misuse(
                "as_engine cannot drive an agent of smolagents with managed_agents: give each of "
                "them an engine, and call it as a child run"
            )
        if (executor := as_text(look_up(agent, "executor_type")) or "local") != "local":
            raise Misuse(
                f"as_engine cannot drive an agent of smolagents whose code runs in {executor}, "
                "because its tools are called there: use executor_type='local'"
            )
        super().__init__(agent, **options)


def _read_reply(message: Any, model: Any) -> ModelResponse:
    """Read a ``ChatMessage``; a call of ``final_answer`` becomes its text."""
    read = read_smolagents_message(message)
    known = {"model": as_text(look_up(model, "model_id")), **read.provider_data}
    answers = [call for call in read.tool_calls if call.name == FINAL]
    if not answers:
        return replace(read, provider_data=known, local=Local(raw=message))
    answer: Any = look_up(read_arguments(answers[0].arguments), "answer")
    is_text = isinstance(answer, str)
    calls = [call for call in read.tool_calls if call.name != FINAL]
    text = Message(Role.ASSISTANT, answer if is_text else encode_text(answer))
    return replace(
        read,
        parts=(*read.reasoning, *text.parts, *calls),
        output=None if is_text else as_json(answer),
        provider_data={**known, _ANSWER: answers[0].given_id or answers[0].id},
        local=Local(raw=message),
    )


def _read(message: Any) -> Message:
    """Read a message that the agent sends to its model."""
    role = as_text(look_up(message, "role"))
    text = read_smolagents_text(look_up(message, "content"))
    known = {"system": Role.SYSTEM, "assistant": Role.ASSISTANT, "tool-call": Role.ASSISTANT}
    return Message(known.get(role, Role.USER), text)


def _to_step(message: Message, memory: Any) -> Any:
    """Return the step of the agent's memory that stands for an earlier *message*."""
    if message.role is Role.USER:
        return memory.TaskStep(task=message.text)
    timing = load("smolagents.monitoring", _PACKAGE).Timing(start_time=0.0)
    step = memory.ActionStep(step_number=0, timing=timing)
    if message.role is Role.TOOL:
        step.observations = message.text
    else:
        calls = [f"{call.name}({encode_text(call.arguments)})" for call in message.tool_calls]
        step.model_output = "\n".join([message.text, *calls]).strip()
    return step


def _to_inputs(spec: ToolSpec) -> dict[str, Any]:
    """Return the parameters of a tool as smolagents takes them: each with type and text."""
    required: Sequence[object] = as_items(spec.parameters.get("required"))
    inputs: dict[str, Any] = {}
    for key, value in as_object(spec.parameters.get("properties")).items():
        form = as_object(value)
        kind = form.get("type")
        inputs[key] = {
            **form,
            "type": kind if isinstance(kind, str) else "any",
            "description": as_text(form.get("description")) or key,
        }
        if key not in required:
            inputs[key]["nullable"] = True
    return inputs
