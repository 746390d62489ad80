"""Run: what an engine sees of the run that it drives."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import HandoffEvent, RunInfo
from upshot.contract.base.enums import Origin, Status
from upshot.contract.base.structs import Json
from upshot.contract.error import RunWarning
from upshot.contract.events import ToolStarted
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, Request
from upshot.contract.pending import PendingApproval
from upshot.contract.protocols import Engine, Model
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.settings import Budget, ModelSettings, Retry
from upshot.contract.tool_calls import ToolOutcome, ToolSpec
from upshot.errors import Misuse
from upshot.models.registry import name_of
from upshot.runs.engine_api.steps import ChildKeys, SharedWork, body_of
from upshot.runs.plan import OutputType
from upshot.runs.result_builder import Report
from upshot.runs.resumption import LoggedCalls, is_asked, point_of
from upshot.runs.run_context import RunContext
from upshot.runs.services.run_services import Box
from upshot.state.board import Board
from upshot.state.child_runs import child_id, origins_of, pending_in
from upshot.state.run_state import CallAnswer, RunState
from upshot.tools.toolbox import Toolbox

__all__ = ["Run"]

T = TypeVar("T")

_DIVERGED = RunWarning(
    code="replay_diverged",
    message="the engine asked another model than before the run was taken up: it is asked anew",
    origin=Origin.ENGINE,
)


class _ReadOnly(Misuse, AttributeError):
    """An engine sets what it can only read."""


if TYPE_CHECKING:
    _fact = property
else:

    class _fact(property):  # used as property is
        """What an engine can read of its run and not set."""

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __set__(self, run: object, value: object) -> None:
            raise _ReadOnly(f"run.{self._name} cannot be set: engines only read it")

        def __delete__(self, run: object) -> None:
            raise _ReadOnly(f"run.{self._name} cannot be deleted: engines only read it")


class Run:
    """The run that an engine drives; read-only but for what it does through it.

    Attributes:
        settled: Outcomes by call id that an earlier session logged and the board does not show.
        unsettled: Calls by id that an earlier session started and that have no outcome.
        reply: A model reply that an earlier session logged and the board does not show.
        asked: What people were asked about calls in it, by call id.
        answers: What they have answered since, by call id.
        has_looked_back: Whether the engine has looked at ``resume_from``.
    """

    has_looked_back: bool = False
    reply: ModelResponse | None = None
    _attempt: int = 1
    _feedback: str = ""
    _instructions: str | None = None
    _again: LoggedCalls | None = None
    _point: Checkpoint | None = None
    _running: SharedWork[AgentResult[Any]] | None = None
    _places: ChildKeys | None = None
    _is_handed_back: bool = False

    def __init__(self, ground: RunContext, report: Report, box: Box) -> None:
        self.settled: dict[str, ToolOutcome] = {}
        self.unsettled: dict[str, ToolStarted] = {}
        self.asked: dict[str, PendingApproval] = {}
        self.answers: dict[str, CallAnswer] = {}
        self._ground = ground
        self._report = report
        self._box = box
        self._past: RunState | None = None
        self._children: dict[str, AgentResult[Any]] = {}

    @_fact
    def id(self) -> str:
        """The run's id."""
        return self._ground.info.run_id

    @_fact
    def identity(self) -> RunInfo:
        """Agent, run, task and context; attributes cannot forge it."""
        return self._ground.info

    @_fact
    def parent_run_id(self) -> str:
        """The run that started this one, "" for a root run."""
        return self._ground.plan.parent_run_id

    @_fact
    def started_at(self) -> datetime:
        """When it began, in its first session."""
        return self._report.started_at or self._ground.plan.clock.now()

    @_fact
    def depth(self) -> int:
        """How deep it is inside others, 0 for a root run."""
        return self._ground.depth

    @_fact
    def agent(self) -> Agent[Any]:
        """The agent that it is a run of."""
        return self._ground.plan.agent

    @_fact
    def request(self) -> Request:
        """What was asked."""
        return self._ground.plan.request

    @_fact
    def attempt(self) -> int:
        """Which pass of the engine this is, from 1."""
        return self._attempt

    @_fact
    def feedback(self) -> str:
        """What the decider that asked for this attempt wants changed."""
        return self._feedback

    @_fact
    def instructions(self) -> str | None:
        """The agent's, as asked at the start of this attempt; None for none."""
        return self._instructions

    @_fact
    def settings(self) -> ModelSettings | None:
        """How the model is asked."""
        return self._ground.plan.settings

    @_fact
    def retry(self) -> Retry | None:
        """How its failed model calls are tried again, None for not at all."""
        return self._ground.plan.retry

    @_fact
    def is_retry_given(self) -> bool:
        """Whether that is what the call said, and so holds for agents inside of it too."""
        return self._ground.plan.is_retry_given

    @_fact
    def output(self) -> OutputType:
        """What the answer shall be."""
        return self._ground.plan.output

    @_fact
    def dependencies(self) -> object:
        """The caller's one object for tools and engines."""
        return self._ground.plan.dependencies

    @_fact
    def budget(self) -> Budget:
        """The limits from its start on: its own, or what was left of those round it where less.

        The turns are its own.
        """
        return self._ground.ledger.allowed

    @_fact
    def resume_from(self) -> Checkpoint | None:
        """Where to go on from; None for a fresh start, as any but the first attempt is.

        In a run that goes on, an engine with ``can_resume`` finds there what it was asked about.
        """
        self.has_looked_back = True
        if self._point is not None:
            return self._point
        return self._ground.plan.resume_from if self._attempt == 1 else None

    @_fact
    def tools(self) -> Toolbox:
        """The tools on offer, and the way to call them."""
        tools = self._box.tools
        if self._ground.record is None:
            tools.known_outcomes = None if self._again is None else self._again.known_outcomes()
        return tools

    @_fact
    def schemas(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; cheaper than ``tools.schemas()``, as it needs no Toolbox."""
        return self._box.schemas()

    @_fact
    def attributes(self) -> Mapping[str, Json]:
        """Free JSON of the caller."""
        return MappingProxyType(self._ground.plan.attributes)

    @_fact
    def handoff(self) -> HandoffEvent | None:
        """The hand-off that was made in this attempt, which ends it; None for none."""
        return self._box.recorder.handoff

    @_fact
    def engine(self) -> Engine:
        """Who drives the run."""
        return self._ground.plan.engine

    @_fact
    def model(self) -> Model:
        """The model of the run.

        Raises:
            Misuse: Neither agent nor call named one.
        """
        if self._ground.plan.model is None:
            raise Misuse(
                f"agent {self.agent.id!r} has no model: give Agent(model=) or run(..., model=)"
            )
        return self._ground.plan.model

    def begin_attempt(self, number: int, feedback: str) -> None:
        """Show that the engine is called for the attempt *number*, asked for with *feedback*."""
        self._attempt, self._feedback = number, feedback
        self._places, self._is_handed_back = None, False

    def instruct(self, instructions: str | None) -> None:
        """Show what the agent says about itself in this attempt."""
        self._instructions = instructions

    async def ask_filters(self) -> None:
        """Ask the async filters of hand-offs which of them are on offer now.

        They are asked when an attempt begins; an engine with turns asks them before each.
        """
        await self._box.ask_filters()

    async def call_model(self, request: ModelInput, *, model: Model | None = None) -> ModelResponse:
        """Ask a model through deciders, log, retry, budget and accounting.

        Args:
            request: What to send: a request, messages or a text.
            model: Another than the run's own.

        Returns:
            What came of it; an error is a value here too.

        Raises:
            Failed: A budget is spent; let it through.
            Interrupted: A wish to stop came while somebody watched the reply come, or before
                another try; let it through.
            Misuse: The request or the model is none.
        """
        request = ModelRequest.of(request)
        model = model or self.model
        if not callable(getattr(model, "call", None)):
            raise Misuse(
                f"call_model was given a model of type {type(model).__name__}: give a Model"
            )
        again, turn, body = self._again, None, body_of(self.id)
        step = "" if body is None else body.key
        if again is not None:
            turn = again.turn(name_of(model), step)
            if again.diverged:
                again.diverged = False
                self._box.recorder.warn(_DIVERGED)
            reply = None if turn is None else again.reply(turn)
            if reply is not None:
                return reply
        response = await self._box.caller.call(model, request, turn=turn, step=step)
        self._box.begin_reply()
        return response

    def take_up(self, past: RunState | None) -> None:
        """Show the engine what the log has of its attempt; None is a new one."""
        self._past, self._again, self._point = past, None, None
        self.settled, self.unsettled, self.reply = {}, {}, None
        self.asked, self.answers = {}, {}
        if past is not None:
            self.settled = {key: record.outcome for key, record in past.settled.items()}
            self.unsettled = dict(past.unsettled)
            self.reply = past.reply
            if is_asked(self._ground.plan.engine):
                self._point = point_of(past)
            self.asked, self.answers = dict(past.asked), dict(past.answers)

    def hand_back(self, board: Board) -> None:
        """Give what the log has of this attempt instead of asking anew, from now on.

        For an engine that is called again from its top when a run goes on: its model calls get
        the logged replies in the order in which they were made, its tool calls their outcomes by
        call id, children without a key their results by what they were asked, and a message that
        stands on the board already is not appended twice. Nothing changes in a run that is new;
        it is called there too, so that children get ids that are found again.

        Args:
            board: That of the attempt.
        """
        self._is_handed_back = True
        if self._past is not None:
            self._again, self._past, self._point = LoggedCalls(self._past), None, None
            board.begin_again()

    @property
    def is_at_top(self) -> bool:
        """Whether the engine was called again and has asked for nothing to be handed back."""
        return self._past is not None

    @property
    def is_again(self) -> bool:
        """Whether the engine was called again from its top and is handed back what it did."""
        return self._again is not None

    async def child(
        self,
        agent: Agent[T],
        request: Request | str,
        *,
        key: str | None = None,
        **options: Any,
    ) -> AgentResult[T]:
        """Run another agent inside this run; it shares budget, log and deadline.

        Args:
            agent: Who works on it.
            request: What is asked.
            key: Names the child, unique in the run, over all its attempts and sessions. One that
                has ended hands back its result and is not run again; one that was cut off or is
                parked goes on from its log. None starts another child each time; in an engine
                that is handed back what it did, as a script is, the first, second, ... child of
                an attempt that asks an agent the same is the first, second, ... of them again.
            options: As for ``run``.

        Returns:
            The child's AgentResult.

        Raises:
            Misuse: An argument is wrong, or the request of a child with a key names a run_id.
        """
        start = self._ground.plan.child
        if start is None:
            raise Misuse("this run was not started by upshot.run, so it cannot start children")
        if key is None:
            placed, again = self._placed(agent, request)
            return _shown(await start(agent, placed, again=again, **options))
        if key in self._children:
            return self._children[key]
        asked = _named(request, self._child_id(key))

        async def work() -> AgentResult[Any]:
            result = _shown(await start(agent, asked, again=True, **options))
            if result.status is not Status.INPUT_REQUIRED:
                # Of a parked one there is more to come once people have answered.
                self._children[key] = result
            return result

        # Two who ask for one key at the same time share one run.
        if self._running is None:
            self._running = SharedWork()
        return await self._running.do(key, work)

    def _placed(self, agent: Agent[Any], request: Request | str) -> tuple[Request | str, bool]:
        """What a child without a key is asked, and whether it may have begun before."""
        if not self._is_handed_back:
            return request, False
        asked = request if isinstance(request, Request) else Request(request)
        if asked.run_id:
            past = self._ground.past
            return asked, self.is_again and past is not None and asked.run_id in past.children
        if self._places is None:
            self._places = ChildKeys(self._attempt)
        body, redaction = body_of(self.id), self._ground.redaction
        places = self._places if body is None else body.places
        # Masked, so that an id does not depend on a secret, nor tell of it.
        shown = asked if redaction is None else redaction.show(asked)
        key = places.key(getattr(agent, "id", ""), shown)
        return replace(asked, run_id=self._child_id(key)), self.is_again

    def _child_id(self, key: str) -> str:
        """The id of a child; one that had ended in a run that this one was forked from is it."""
        past = self._ground.past
        if past is not None and past.started is not None:
            for origin in origins_of(past.started.options):
                run_id = child_id(origin, key)
                spent = past.children.get(run_id)
                if spent is not None and spent.is_final:
                    return run_id
        return child_id(self.id, key)


def _shown(result: AgentResult[Any]) -> AgentResult[Any]:
    """A child's result as its parent sees it: what it waits for says who asks."""
    if not result.pending:
        return result
    return replace(result, pending=pending_in(result.run_id, result.pending))


def _named(request: Request | str, run_id: str) -> Request:
    asked = request if isinstance(request, Request) else Request(request)
    if asked.run_id:
        raise Misuse(f"a child with a key cannot be called {asked.run_id!r}: its id is of its key")
    return replace(asked, run_id=run_id)
