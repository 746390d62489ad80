"""Routes the model and tool calls of another library's agent through its run.

Each model call of the agent goes through ``run.call_model``, and each call of its own tools through
``run.tools``, so they are logged, counted, limited, retried, shown and masked like the calls of any
engine. Their results come back in the library's own form; if the agent is called again from its
top, they come from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from upshot.adapters.findings import Findings
from upshot.contract.base.enums import Effect, ErrorCode, Origin
from upshot.contract.base.structs import Json, JsonObject, Local
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import Warned
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolFailure, ToolOutcome
from upshot.contract.tool_context import ToolContext
from upshot.contract.usage import Usage
from upshot.models.prices import Prices
from upshot.runs.engine_api.exceptions import Failed, Interrupted, Signal
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.resumption import read_arguments
from upshot.tools.call_resumption import EarlierCalls
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError
from upshot.wire.pricing import Price

T = TypeVar("T")
Call: TypeAlias = Callable[[], Awaitable[ModelResponse]]
Work: TypeAlias = tuple[Json, Callable[[], Awaitable[object]]]
Stream: TypeAlias = Callable[[], AsyncIterator[StreamItem]]

APPROVAL, DEFERRED = "approval_required", "call_deferred"
DEFERRALS: Final = (APPROVAL, DEFERRED)
"""The codes of a call that did nothing, because it waits for people in the library's own way."""

# Facts that the run itself knows.
_OF_RUN: Final = frozenset({"started_at", "duration_ms", "tool_outcomes"})
# The library itself has checked the arguments of its tools.
_ANY: Final[JsonObject] = {"type": "object", "additionalProperties": True}


class HandedOver(Exception):
    """A handoff was made, which ends the run."""


class EngineCalls:
    """The calls of one agent of another library in one run.

    Args:
        run: The run.
        host: Its host.
        library: The name of the library, for messages.
        reads: The names of the agent's own tools that only read. All others count as tools that
            write: a call that started and has no outcome is not repeated.
        prices: The prices of its models, which win over the public table; None uses that alone.
        tool_versions: Where to store the versions of its own tools, by name; None for nowhere.

    Attributes:
        library: As given.
        stop: The signal that ends the run, once raised; the library may have hidden it. None
            before.
    """

    def __init__(
        self,
        run: Run,
        host: RunHost,
        *,
        library: str,
        reads: Collection[str],
        prices: Prices | Mapping[str, Price] | None,
        tool_versions: dict[str, str] | None = None,
    ) -> None:
        self.stop: Signal | None = None
        self._run = run
        self._host = host
        self.library: str = library
        self._reads = frozenset(reads)
        self._prices, self._has_own_prices = Prices.of(prices), prices is not None
        self._works: dict[str, Work] = {}
        self._tool_versions = {} if tool_versions is None else tool_versions
        self._found = Findings(raw=None)
        self._known: dict[tuple[str, str], deque[ToolOutcome]] = {}
        self._earlier = EarlierCalls()
        self._cut: dict[str, ToolCall] = {}
        # In which reply each call stands, by its id.
        self._reply_of: dict[str, int] = {}
        self._replies = 0
        self._is_handed_over = False

    async def finish(
        self, work: Awaitable[T], to_failure: Callable[[BaseException], Findings]
    ) -> T | None:
        """Return what the library's own *work* returns; None after a handoff.

        Args:
            work: Its work.
            to_failure: Reads what the library raised.

        Raises:
            Signal: What ends the run, even if the library has hidden it.
            Failed: The library raised an error that it has a name for.
            Exception: Any other error of the library, as it was raised.
        """
        try:
            returned = await work
        except Exception as error:
            if self.stop is not None:
                raise self.stop from error
            if self._is_handed_over:
                return None
            self.warn_of_unreported()
            reported = to_failure(error).error
            if reported is None or reported.code is ErrorCode.INTERNAL:
                raise
            raise Failed(reported) from error
        if self.stop is not None:
            # The library made something else of it.
            raise self.stop
        self.warn_of_unreported()
        return returned

    async def pause(self) -> None:
        """Stop the agent if the run must stop; called wherever that is safe.

        Raises:
            Signal: What ends the run.
        """
        if self.stop is not None:
            raise self.stop
        asked = await self._host.interrupts()
        if asked:
            raise self.end(Interrupted(asked.cause, asked.detail))
        if stalled := self._run.tools.stalled:
            error = AgentError(ErrorCode.NO_PROGRESS, stalled, origin=Origin.MODEL)
            raise self.end(Failed(error))

    def end(self, signal: Signal) -> Signal:
        """Store the signal that ends the run, because the library may swallow it."""
        self.stop = self.stop or signal
        return self.stop

    def hand_over(self) -> HandedOver:
        """Return what ends the agent's work after a handoff; the library may wrap it."""
        self._is_handed_over = True
        return HandedOver()

    def read_logged_calls(self) -> None:
        """Read logged calls, for an agent that finds its place itself."""
        for response in self._run.earlier_replies:
            self._record_calls(response)
        for record in self._run.earlier_records:
            key = record.call_id, record.tool_name
            self._known.setdefault(key, deque()).append(record.outcome)
        _, self._earlier = self._run.pop_left_over()

    async def ask(
        self,
        name: str,
        request: ModelRequest,
        call: Call,
        stream: Stream | None,
        *,
        tries_once: bool = False,
    ) -> ModelResponse:
        """Make a model call of the agent.

        Args:
            name: The model, "provider:name".
            request: What the library sends, as far as it is known.
            call: Sends it and reads the reply; an error is a value.
            stream: The same in pieces, the reply last; None if the library cannot stream.
            tries_once: Whether it cannot be sent a second time.

        Returns:
            The reply; ``raw`` is None if it came from the log.

        Raises:
            Signal: What ends the run, such as a spent budget.
            HandedOver: A handoff was made.
        """
        if self._run.handoff is not None:
            raise self.hand_over()
        await self.pause()
        try:
            model: Any = _NativeModel(name, request, call, stream, self)
            model.tries_once = tries_once
            response = await self._run.call_model(request, model=model)
        except Signal as signal:
            raise self.end(signal) from signal
        self._found.count(response)
        self._record_calls(response)
        return response

    def _record_calls(self, response: ModelResponse) -> None:
        """Record which reply each call is in, and which calls were cut off.

        An id may come again in a later reply.
        """
        self._replies += 1
        for call in response.tool_calls:
            id = call.given_id or call.id
            self._reply_of[id] = self._replies
            if call.cut:
                self._cut[id] = call
            else:
                self._cut.pop(id, None)

    def fail(self, response: ModelResponse, error: AgentError) -> Signal:
        """Return the signal that ends the run after a failed reply, with the reply's text."""
        signal = Failed(error)
        signal.last_text = response.content or ""
        return self.end(signal)

    def is_cut(self, call_id: str) -> bool:
        """Whether the reply was cut off in this call, so that ``dispatch`` denies it."""
        return call_id in self._cut

    async def call_tool(
        self,
        call: ToolCall,
        about: str,
        work: Callable[[], Awaitable[object]],
        *,
        repeats: bool = True,
    ) -> ToolOutcome | None:
        """Make a call of one of the agent's own tools.

        Args:
            call: The call; the library has checked its arguments.
            about: The tool's description.
            work: Makes the call, and returns a JSON value; not called if the log has its outcome.
            repeats: Whether an equal call of the same reply gets the same outcome; otherwise each
                is made.

        Returns:
            Its outcome, from the log if it was made before; None if it waits for an approval.

        Raises:
            Signal: What ends the run.
        """
        await self.pause()
        tools = self._run.tools
        if tools.find(call.name) is None:
            own = self._own_tool(call.name, about)
            tools.add([own])
            self._tool_versions[own.name] = own.version
        self._works[call.id] = read_arguments(call.arguments), work
        try:
            outcomes = await self.dispatch(call, repeats=repeats)
        finally:
            self._works.pop(call.id, None)
        return outcomes[0] if outcomes else None

    async def dispatch(self, call: ToolCall, *, repeats: bool = True) -> list[ToolOutcome]:
        """Make a call of any tool of the run, unless the log has its outcome.

        Returns:
            Its outcome; empty if it waits for an approval.
        """
        tools, known = self._run.tools, self._known.get((call.id, call.name))
        reply = self._reply_of.get(call.id, 0) if repeats else 0
        call = self._cut.get(call.id, call)
        while known:
            outcome = known.popleft()
            if not (isinstance(outcome, ToolFailure) and str(outcome.code) in DEFERRALS):
                return [outcome]
        if not any(call.id in part for part in self._earlier):
            return await tools.dispatch([call], turn=reply)
        started, asked, answers = self._earlier
        earlier = EarlierCalls(
            _only(call.id, started), _only(call.id, asked), _only(call.id, answers)
        )
        # A later call with this id is another call.
        self._earlier = EarlierCalls(
            _without(call.id, started), _without(call.id, asked), _without(call.id, answers)
        )
        return await tools.resume([call], earlier, turn=reply)

    def _own_tool(self, name: str, about: str) -> Tool:
        async def body(context: ToolContext[Any], arguments: JsonObject) -> object:
            given, work = self._works[context.call_id]
            if arguments != given:
                raise ToolError(
                    f"its arguments were edited, which a tool of {self.library} cannot be given: "
                    "it was not called",
                    retryable=False,
                )
            return await work()

        return Tool.from_schema(
            name,
            about,
            _ANY,
            body,
            effect=Effect.READ if name in self._reads else Effect.WRITE,
            error_key=None,
        )

    async def priced(self, name: str, response: ModelResponse) -> ModelResponse:
        """Return *response* of the model *name* with its cost; given prices beat an estimate."""
        reported_cost = response.cost
        if reported_cost is not None and reported_cost.estimated and self._has_own_prices:
            response = replace(response, cost=None)
        if (loading := self._prices.load(name)) is not None:
            await loading
        cost = self._prices.cost_of(response, name, at=datetime.now(UTC))
        return replace(response, cost=cost)

    def is_read(self, name: str) -> bool:
        """Whether the agent's own tool *name* only reads."""
        return name in self._reads

    def warn_of_unreported(self) -> None:
        """Warn about facts that no model call reported, once the agent is done."""
        if not self._found.usage.api_calls:
            return
        names = [name for name in self._found.gaps() if name.partition(".")[0] not in _OF_RUN]
        if names:
            message = f"{self.library} does not report: {', '.join(names)}"
            warning = RunWarning(code="not_told", message=message, origin=Origin.ENGINE)
            self._host.publish(Warned(warning=warning))


def failed_reply(found: Findings, error: BaseException) -> ModelResponse:
    """Return the reply of a model call whose client raised *error*, which was read as *found*."""
    failure = found.error or AgentError(ErrorCode.INTERNAL, str(error))
    return ModelResponse(
        error=replace(failure, origin=Origin.MODEL),
        usage=Usage(api_calls=1),
        rate_limit=found.rate_limit,
        provider_data=found.provider_data,
        local=Local(raw=error),
    )


def _only(key: str, values: Mapping[str, T]) -> dict[str, T]:
    return {key: values[key]} if key in values else {}


def _without(key: str, values: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in values.items() if name != key}


class _NativeModel:
    """One call of the agent's model, as a model of a run.

    Attributes:
        name: "provider:name".
        stream: Sends the request and yields the reply in pieces; None if the library cannot.
        tries_once: Whether it cannot be sent a second time.
    """

    tries_once: bool = False

    def __init__(
        self,
        name: str,
        request: ModelRequest,
        call: Call,
        stream: Stream | None,
        calls: EngineCalls,
    ) -> None:
        self.name: str = name
        self.stream: Callable[[ModelRequest], AsyncIterator[StreamItem]] | None = (
            None if stream is None else self._stream
        )
        self._request = request
        self._native_call = call
        self._native_stream = stream
        self._calls = calls

    async def call(self, request: ModelRequest) -> ModelResponse:
        """Send the library's own request."""
        self._check(request)
        return await self._priced(await self._native_call())

    async def _stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        self._check(request)
        assert self._native_stream is not None
        async for item in self._native_stream():
            yield await self._priced(item) if isinstance(item, ModelResponse) else item

    def _check(self, request: ModelRequest) -> None:
        """Refuse a request that a decider has changed: the library sends its own.

        Raises:
            Failed: A decider has changed something.
        """
        names = ("system", "tools", "output_schema")
        ours = self._request
        is_same = request.messages is ours.messages or [*request.messages] == [*ours.messages]
        if not is_same or any(getattr(request, name) != getattr(ours, name) for name in names):
            raise Failed(
                ErrorCode.HOOK_FAILED,
                f"a decider changed what is sent, and an agent of {self._calls.library} does "
                "not follow that: refuse it in before_model, or change it in the agent itself",
            )

    async def _priced(self, response: ModelResponse) -> ModelResponse:
        return await self._calls.priced(self.name, response)
