"""Shared by engines whose agent is called again from its top when the run is resumed.

The agent works as usual: its own instructions, tools and output. Its model is wrapped by one that
asks through the run, and each of its tools by one that calls through the run. When the run is
resumed, replies and outcomes come from the log, so the agent gets to where it was without repeating
a call.

A call that waits for people does not stop the agent: it reads a placeholder, finishes the other
calls of the reply, and the run parks when it asks its model again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, ClassVar, Final, TypeVar

from upshot.adapters.engine_calls import DEFERRALS, Call, EngineCalls, Stream
from upshot.adapters.findings import Findings
from upshot.contract.base.enums import ErrorCode, Origin, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.pending import Pending
from upshot.contract.tool_calls import (
    ToolCall,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolSpec,
)
from upshot.contract.usage import Usage
from upshot.errors import Misuse
from upshot.models.prices import Prices
from upshot.native.objects import as_items, as_json, as_text, look_up
from upshot.runs.engine_api.exceptions import Failed, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board
from upshot.tools.definition.tool_error import ToolError
from upshot.wire.pricing import Price

W = TypeVar("W", bound="AgentWork")

_WAITS: Final = "The call waits for an approval."
_YES: Final = ("approve", "deny")


class AgentEngine:
    """Runs an agent of another library as an engine; made by ``as_engine``.

    Args:
        agent: The agent, with a model of its own.
        reads: The names of its own tools that only read.
        prices: The prices of its models, which win over the public table.

    Attributes:
        tool_versions: The versions of the agent's own tools that were called, by name.
        library: The name of the library, for messages.
        work: One call of its agents.
    """

    # When the agent is called again from its top, it gets what the log has.
    goes_on_by_log: ClassVar[bool] = True
    library: ClassVar[str] = ""
    work: ClassVar[type[AgentWork]]

    def __init__(
        self,
        agent: Any,
        *,
        reads: Collection[str] = (),
        prices: Prices | Mapping[str, Price] | None = None,
    ) -> None:
        self._agent = agent
        self.tool_versions: dict[str, str] = {}
        self._options: dict[str, Any] = {
            "library": self.library,
            "reads": reads,
            "prices": prices,
            "tool_versions": self.tool_versions,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._agent!r})"

    async def execute(self, run: Run, host: RunHost, board: Board) -> object:
        """Run the agent on the messages of *board*.

        Returns:
            Its output; None if that is the text on the board.

        Raises:
            Failed: The agent failed, or a budget is spent.
            Interrupted: The run was asked to stop.
            Parked: A call waits for people.
        """
        if run.engine is self:
            run.hand_back(board)
        work = self.work(run, host, board, EngineCalls(run, host, **self._options))
        work.set_up()
        output = await work.calls.finish(work.run_agent(self._agent), work.to_failure)
        return work.close(output)


class AgentWork:
    """One call of the agent.

    Attributes:
        calls: Its model and tool calls.
        to_failure: Reads what the library raised.
        tries_once: Whether the library's requests cannot be sent a second time.
    """

    to_failure: Callable[[BaseException], Findings]
    tries_once: ClassVar[bool] = False

    def __init__(self, run: Run, host: RunHost, board: Board, calls: EngineCalls) -> None:
        self.calls: EngineCalls = calls
        self._run = run
        self._host = host
        self._board = board
        self._usage = Usage()
        # The outcomes of the last reply's calls, which reach the board in the order of the calls.
        self._asked: list[ToolCall] = []
        self._outcomes: dict[str, ToolOutcome] = {}
        # Calls that only asked a question so far; with its answer they are made again.
        self._deferred: set[str] = set()
        # Calls that write take turns, as in a reply of the run's own model.
        self._writing = asyncio.Lock()

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""

    async def run_agent(self, agent: Any) -> object:
        """Run *agent*; return its output, None if that is the text on the board."""
        raise NotImplementedError

    def may_recover(self, error: Exception) -> bool:
        """Whether the library gets the *error* of a model call, because it may recover from it."""
        return True

    def close(self, output: object) -> object:
        """Return the *output* of an agent that is done.

        Raises:
            Parked: A call waits for people.
            Failed: The agent ended without an answer.
        """
        self._show_outcomes()
        if self._run.tools.pending:
            raise self.calls.end(Parked(*self._run.tools.pending))
        is_text = output is None or isinstance(output, str)
        is_done = self._run.handoff is not None or self._run.agent.allow_empty
        if is_text and not is_done and not (self._board.answer() or "").strip():
            text = f"the agent of {self.calls.library} ended with an empty reply"
            raise Failed(AgentError(ErrorCode.EMPTY_REPLY, text, origin=Origin.MODEL))
        return None if is_text else as_json(output)

    # Models

    async def ask(
        self, name: str, request: ModelRequest, call: Call, stream: Stream | None = None
    ) -> ModelResponse:
        """Call the agent's model *name* through the run; the arguments are those of ``ask``.

        Returns:
            The reply; ``raw`` is the native one, None if it came from the log.

        Raises:
            Signal: What ends the run.
            Exception: The native error.
        """
        self._show_outcomes()
        if self._run.tools.pending:
            raise self.calls.end(Parked(*self._run.tools.pending))
        response = await self.calls.ask(name, request, call, stream, tries_once=self.tries_once)
        if response.error is not None:
            raised = response.raw
            if isinstance(raised, Exception) and self.may_recover(raised):
                raise raised
            raise self.calls.fail(response, response.error)
        self._usage += response.usage
        self._board.append(response.to_message())
        self._asked = list(response.tool_calls)
        return response

    def report_rest(self, usage: Usage) -> None:
        """Report the *usage* of the whole run of the agent, beyond the calls that were seen."""
        seen, more = self._usage, usage.api_calls - self._usage.api_calls
        if more <= 0:
            return
        given, made = (
            max((getattr(usage, name) or 0) - (getattr(seen, name) or 0), 0)
            for name in ("input_tokens", "output_tokens")
        )
        self._host.report_usage(Usage(input_tokens=given, output_tokens=made, api_calls=more))

    # Tools

    async def call_own(self, call: ToolCall, about: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Call one of the agent's own tools through the run.

        Args:
            call: The call.
            about: The tool's description.
            work: Makes the call; a ``ToolError`` that it raises says itself what the outcome is.

        Returns:
            What it returned, from the log as JSON; for a call that was not made, what
            ``to_unmade`` says.

        Raises:
            Signal: What ends the run.
            Exception: What the tool raised.
        """
        returned, raised = list[Any](), list[Exception]()

        async def made() -> Json:
            try:
                returned.append(await work())
            # The outcome describes it; the library gets it unchanged.
            except Exception as error:
                raised.append(error)
                if isinstance(error, ToolError):
                    raise
                text = f"{type(error).__name__}: {error}"
                raise ToolError(text, retryable=False) from error
            return as_json(returned[0])

        is_new = call.id not in self._deferred
        outcome = await self.calls.call_tool(call, about, made, repeats=is_new)
        if not raised and _is_deferred(outcome):
            # It did nothing in an earlier session but ask; now there may be an answer.
            outcome = await self.calls.call_tool(call, about, made, repeats=False)
        if _is_deferred(outcome):
            self._deferred.add(call.id)
        if outcome is not None:
            self._outcomes[call.id] = outcome
        if raised:
            raise raised[0]
        if isinstance(outcome, ToolExecutionResult):
            return returned[0] if returned else _unpacked(outcome.output)
        return self.to_unmade(outcome)

    def to_unmade(self, outcome: ToolOutcome | None) -> Any:
        """Return what the library reads of a call that was not made; None if it awaits approval."""
        return _WAITS if outcome is None else self._run.tools.content_of(outcome)

    async def call_ours(self, call: ToolCall) -> str:
        """Call one of the run's tools; return what the model reads."""
        tool = self._run.tools.find(call.name)
        async with self._writing if tool is not None and tool.may_write else nullcontext():
            await self.calls.pause()
            outcomes = await self.calls.dispatch(call)
        if not outcomes:
            return _WAITS
        self._outcomes[call.id] = outcomes[0]
        return self._run.tools.content_of(outcomes[0])

    async def ask_approvals(self, calls: Mapping[str, ToolCall]) -> dict[str, bool]:
        """Ask people about calls that wait in the library's own way; return who said yes, by key.

        Raises:
            Parked: Some are unanswered.
        """
        waits: list[Pending] = [*self._run.tools.pending]
        answers: dict[str, bool] = {}
        for key, call in calls.items():
            form = call.arguments
            text = form if isinstance(form, str) else encode_text(form)
            question = f"May {call.name} be called with {text}?"
            try:
                answer = await self._host.ask_user(question, choices=_YES, key=key)
                answers[key] = answer == _YES[0]
            except Parked as parked:
                waits += parked.pending
        if waits:
            raise self.calls.end(Parked(*waits))
        return answers

    def _show_outcomes(self) -> None:
        """Add the outcomes of the last reply's calls to the board, in the order of the calls."""
        asked, self._asked = self._asked, []
        for call in asked:
            outcome = self._outcomes.pop(call.id, None)
            if outcome is not None:
                text = self._run.tools.content_of(outcome)
                self._board.append(Message(Role.TOOL, text, tool_call_id=call.id, name=call.name))


def encode_text(value: object) -> str:
    """Return *value* as JSON text, unless it is text already."""
    from upshot.wire.decoding import encode_json

    return value if isinstance(value, str) else encode_json(as_json(value)).decode()


def load(module: str, package: str) -> Any:
    """Import a *module* of the library, which *package* installs.

    Raises:
        Misuse: It is missing, or too old.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise Misuse(f"{module} cannot be imported: pip install -U {package}") from error


def to_specs(tools: object, *, schema: str) -> tuple[ToolSpec, ...]:
    """Return *tools* as they are offered to a model; their schema is under the name *schema*."""
    return tuple(
        ToolSpec(
            name=as_text(look_up(tool, "name")),
            description=as_text(look_up(tool, "description")),
            parameters=to_schema(look_up(tool, schema)),
        )
        for tool in as_items(tools)
    )


def to_function_specs(tools: object) -> tuple[ToolSpec, ...]:
    """Return *tools* in the form of OpenAI as they are offered to a model."""
    functions = [look_up(tool, "function") for tool in as_items(tools)]
    return to_specs([one for one in functions if one is not None], schema="parameters")


def to_function_call(call: ToolCall) -> dict[str, Any]:
    """Return *call* in the form of OpenAI."""
    function = {"name": call.name, "arguments": encode_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def to_request(messages: Sequence[Message], tools: tuple[ToolSpec, ...]) -> ModelRequest:
    """Return what an agent sends, for the log and for deciders; system messages apart."""
    system = [message.text for message in messages if message.role is Role.SYSTEM]
    return ModelRequest(
        [message for message in messages if message.role is not Role.SYSTEM],
        system="\n\n".join(system) or None,
        tools=tools,
    )


def to_schema(value: object) -> JsonObject:
    """Return *value* as a JSON Schema; an empty one for anything but an object."""
    form = as_json(value)
    return form if isinstance(form, dict) else {}


def _is_deferred(outcome: ToolOutcome | None) -> bool:
    return isinstance(outcome, ToolFailure) and str(outcome.code) in DEFERRALS


def _unpacked(output: JsonObject) -> Json:
    """Return what a tool returned: a value that is not an object is under "result"."""
    return output["result"] if output.keys() == {"result"} else dict(output)
