"""SessionTelemetry: the spans and metrics of one session of a run, created from its events.

    invoke_agent NAME          a session
      chat MODEL               a try of a model call
      execute_tool TOOL        a tool call whose body ran
        invoke_agent NAME      a child run

Source:
    OpenTelemetry semantic conventions for generative AI, spans and agent spans.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import RunEvent
from upshot.contract.error import AgentError
from upshot.contract.events import (
    Event,
    RunReleased,
    RunResumed,
    RunSettled,
    RunStarted,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    name_of,
)
from upshot.contract.protocols import AnyResult
from upshot.contract.tool_calls import ToolDenied
from upshot.contract.usage import Usage
from upshot.runs.plan import LAB_ATTRIBUTE, Plan
from upshot.telemetry.attributes import Attributes, Content, Source, error_type_of, source_of
from upshot.telemetry.metrics import Instruments

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# A run that the user or the host stopped did not fail.
_FAILURES = (Status.FAILED, Status.ABORTED)
_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}


class _Open(NamedTuple):
    """An open span, its start in nanoseconds, the context around it, and the model of a call."""

    span: Span
    began: int
    outside: Context
    model: str = ""


class SessionTelemetry:
    """Follows one session from its first event to its last.

    A span becomes the current span of the task that emits its first event, so that the task's next
    action, such as an HTTP request or a child run, nests in it. Without *content* no texts are
    recorded.
    """

    def __init__(
        self, plan: Plan, tracer: Tracer, meters: Instruments, content: Content | None
    ) -> None:
        self._plan = plan
        self._tracer = tracer
        self._meters = meters
        self._content = content
        self._run: _Open | None = None
        self._calls: dict[tuple[int, int], _Open] = {}
        self._tools: dict[str, _Open] = {}
        self._model = "" if plan.model is None else name_of(plan.model)
        self._takes: dict[type[object], Callable[[Any], None]] = {
            RunStarted: self._start_run,
            RunResumed: self._start_run,
            ModelStarted: self._start_call,
            ModelRetried: self._retry_call,
            ModelReplied: self._end_call,
            ToolStarted: self._start_tool,
            ToolSettled: self._end_tool,
            RunReleased: self._release_run,
            RunSettled: self._settle_run,
        }

    def process(self, fact: Event | ModelResponse) -> None:
        """Process the next event, or a model call that an engine reported."""
        if isinstance(fact, ModelResponse):
            source = source_of("", fact.provider_data)
            self._meters.reply(fact, source, agent_id=self._plan.agent.id)
            return
        taken = self._takes.get(type(fact))
        if taken is not None:
            taken(fact)

    # -- the run

    def _start_run(self, event: RunStarted | RunResumed) -> None:
        agent, request = self._plan.agent, self._plan.request
        name = agent.name or agent.id
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": agent.id,
            "gen_ai.agent.name": name,
            "gen_ai.output.type": "text" if self._plan.output.is_text else "json",
            "upshot.run.id": self._plan.run_id,
            **source_of(self._model).conventional(),
        }
        if agent.card is not None and agent.card.description:
            attributes["gen_ai.agent.description"] = agent.card.description
        if request.context_id:
            attributes["gen_ai.conversation.id"] = request.context_id
        if self._plan.parent_run_id:
            attributes["upshot.run.parent_id"] = self._plan.parent_run_id
        tried = self._plan.attributes.get(LAB_ATTRIBUTE)
        if isinstance(tried, dict):
            attributes |= {f"upshot.lab.{name}": str(value) for name, value in tried.items()}
        if self._content is not None and isinstance(event, RunStarted):
            attributes["gen_ai.input.messages"] = self._content.messages(request.to_message())
            if isinstance(agent.instructions, str):
                instructions = self._content.instructions(agent.instructions)
                attributes["gen_ai.system_instructions"] = instructions
        self._run = self._open(f"invoke_agent {name}", _moment(event), attributes)

    def _settle_run(self, event: RunSettled) -> None:
        result, ended = event.result, _moment(event)
        self._close_open(ended, "" if result.error is None else str(result.error.code))
        self._end_run(result, ended)

    def _release_run(self, event: RunReleased) -> None:
        ended = _moment(event)
        self._close_open(ended, "interrupted")
        if self._run is not None:
            self._run.span.set_attribute("upshot.run.released", event.reason)
            self._close(self._run, ended)
            self._run = None

    def _close_open(self, ended: int, why: str) -> None:
        """Close the calls that have not ended."""
        for call in self._calls.values():
            if call.began <= ended:
                # The reply never arrived. A waiting retry has not started and is not closed.
                self._close_call(call, ended, source_of(call.model), why)
        for tool in self._tools.values():
            tool.span.set_attribute("error.type", why or "interrupted")
            self._close(tool, ended)

    def _end_run(self, result: AnyResult, ended: int) -> None:
        run, self._run = self._run, None
        source = source_of(self._model, result.provider_data)
        began = ended if run is None else run.began
        self._meters.execution(
            result.status,
            result.error,
            source,
            agent_id=self._plan.agent.id,
            took_ms=max(0, ended - began) / 1e6,
        )
        if run is None:
            return
        span = run.span
        span.set_attribute("upshot.run.status", str(result.status))
        span.set_attribute("upshot.run.attempts", result.attempts)
        span.set_attribute("upshot.run.effect", str(result.effect))
        span.set_attributes({**source.conventional(), **_usage_of(result.usage)})
        if result.handoff is not None:
            span.set_attribute("upshot.handoff.to_agent_id", result.handoff.to_agent_id)
        if self._content is not None and result.content is not None:
            answer = ModelResponse(content=result.content, finish_reason=result.finish_reason)
            span.set_attribute("gen_ai.output.messages", self._content.reply(answer))
        if result.error is not None and result.status in _FAILURES:
            self._fail(span, result.error)
        self._close(run, ended)

    # -- model calls

    def _start_call(self, event: ModelStarted) -> None:
        self._model = event.model
        self._open_call(event, _moment(event))

    def _retry_call(self, event: ModelRetried) -> None:
        self._finish_call(event)
        # No event marks the start of the next try, so its span starts at the end of the wait.
        following = ModelStarted(
            model=event.next_model or event.model, turn=event.turn, attempt=event.attempt
        )
        self._open_call(following, _moment(event) + round(event.wait_s * 1e6) * 1000)

    def _end_call(self, event: ModelReplied) -> None:
        self._model = event.model
        self._finish_call(event)

    def _open_call(self, event: ModelStarted, began: int) -> None:
        source = source_of(event.model)
        attributes: Attributes = {"gen_ai.operation.name": "chat", **source.conventional()}
        if self._plan.request.context_id:
            attributes["gen_ai.conversation.id"] = self._plan.request.context_id
        call = self._open(f"chat {source.model}".strip(), began, attributes, kind=SpanKind.CLIENT)
        self._calls[event.attempt, event.turn] = call._replace(model=event.model)

    def _finish_call(self, event: ModelRetried | ModelReplied) -> None:
        response, ended = event.response, _moment(event)
        source = source_of(event.model, response.provider_data)
        self._meters.reply(response, source, agent_id=self._plan.agent.id)
        if (event.attempt, event.turn) not in self._calls:
            # An engine that calls models itself may report only the reply.
            started = ModelStarted(model=event.model, turn=event.turn, attempt=event.attempt)
            self._open_call(started, ended - response.duration_ms * 1_000_000)
        call = self._calls.pop((event.attempt, event.turn))
        span = call.span
        span.set_attributes({**source.conventional(), **_usage_of(response.usage)})
        finish = response.provider_data.get("finish_raw") or response.finish_reason
        if finish is not None:
            span.set_attribute("gen_ai.response.finish_reasons", (str(finish),))
        if self._content is not None:
            span.set_attribute("gen_ai.output.messages", self._content.reply(response))
        error = response.error
        if error is not None:
            self._fail(span, error)
        self._close_call(call, ended, source, "" if error is None else str(error.code))

    def _close_call(self, call: _Open, ended: int, source: Source, why: str) -> None:
        if why:
            call.span.set_attribute("error.type", why)
        took_s = max(0, ended - call.began) / 1e9
        self._meters.operation(source, took_s=took_s, error_type=why)
        self._close(call, ended)

    # -- tools

    def _start_tool(self, event: ToolStarted) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.call.name,
            "gen_ai.tool.call.id": event.call.id,
            "gen_ai.tool.type": "function",
        }
        if self._content is not None:
            attributes["gen_ai.tool.call.arguments"] = self._content.json(event.arguments)
        name = f"execute_tool {event.call.name}"
        self._tools[event.call.id] = self._open(name, _moment(event), attributes)

    def _end_tool(self, event: ToolSettled) -> None:
        record = event.record
        tool = self._tools.pop(record.call_id, None)
        why = error_type_of(record.outcome)
        if tool is None:
            if self._run is not None and isinstance(record.outcome, ToolDenied):
                # The tool never ran, so there is no span for it.
                facts: Attributes = {"gen_ai.tool.name": record.tool_name, "reason": why}
                self._run.span.add_event("upshot.tool_denied", facts, _moment(event))
            return
        if why:
            tool.span.set_attribute("error.type", why)
            text = getattr(record.outcome, "error", "") if self._content is not None else ""
            shown = self._content.text(text) if self._content is not None and text else why
            tool.span.set_status(StatusCode.ERROR, shown)
        elif self._content is not None:
            shown = self._content.result(record.outcome)
            tool.span.set_attribute("gen_ai.tool.call.result", shown)
        self._close(tool, _moment(event))

    # -- spans

    def _open(
        self, name: str, began: int, attributes: Attributes, *, kind: SpanKind = SpanKind.INTERNAL
    ) -> _Open:
        outside = get_current()
        span = self._tracer.start_span(
            name, outside, kind=kind, attributes=attributes, start_time=began
        )
        attach(trace.set_span_in_context(span, outside))
        return _Open(span, began, outside)

    def _close(self, opened: _Open, ended: int) -> None:
        opened.span.end(max(opened.began, ended))
        # If another task emits the last event, its own current span must not change.
        if trace.get_current_span() is opened.span:
            attach(opened.outside)

    def _fail(self, span: Span, error: AgentError) -> None:
        span.set_attribute("error.type", str(error.code))
        text = str(error.code) if self._content is None else self._content.text(error.message)
        span.set_status(StatusCode.ERROR, text)


def _moment(event: RunEvent) -> int:
    """Return the time of the event in nanoseconds since 1970."""
    time = datetime.now(UTC) if event.time is None else event.time
    return (time - _EPOCH) // _MICROSECOND * 1000


def _usage_of(usage: Usage) -> Attributes:
    """Return the known counts."""
    counts: dict[str, int | None] = {name: getattr(usage, field) for field, name in _USAGE.items()}
    return {name: count for name, count in counts.items() if count is not None}
