"""Run: what an engine sees of the run that it drives."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ..contract import (
    Agent,
    AgentResult,
    Budget,
    Checkpoint,
    Engine,
    HandoffEvent,
    Json,
    Model,
    ModelInput,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Origin,
    PendingApproval,
    Request,
    RunInfo,
    RunWarning,
    Status,
    ToolOutcome,
    ToolStarted,
)
from ..errors import Misuse
from ..tools import Toolbox
from .again import Again, ToolsAgain
from .board import Board
from .box import Box
from .calls import ModelCaller
from .jobs import Jobs
from .kin import child_id, origins_of, pending_in
from .output import OutputType
from .past import CallAnswer, Past
from .plan import Plan

__all__ = ["Run"]

_DIVERGED = RunWarning(
    code="replay_diverged",
    message="the engine asked another model than before the run was taken up: it is asked anew",
    origin=Origin.ENGINE,
)


class Run:
    """The run that an engine drives; read-only but for what it does through it.

    Attributes:
        id: The run's id.
        identity: Agent, run, task and context; attributes cannot forge it.
        parent_run_id: The run that started this one, "" for a root run.
        started_at: When it began, in its first sitting.
        depth: 0 for a root run.
        agent: The agent that it is a run of.
        request: What was asked.
        attempt: Which pass of the engine this is, from 1.
        feedback: What the decider that asked for this attempt wants changed.
        instructions: The agent's, as asked at the start of this attempt; None for none.
        settings: How the model is asked.
        output: What the answer shall be.
        dependencies: The caller's one object for tools and engines.
        budget: The limits.
        resume_from: Where to go on from, None for a fresh start, as any but the first attempt is.
        settled: Outcomes by call id that an earlier sitting logged and the board does not show.
        unsettled: Calls by id that an earlier sitting started and that have no outcome.
        reply: A model reply that an earlier sitting logged and the board does not show.
        asked: What people were asked about calls in it, by call id.
        answers: What they have answered since, by call id.
    """

    id: str
    identity: RunInfo
    parent_run_id: str
    started_at: datetime
    depth: int
    agent: Agent[Any]
    request: Request
    attempt: int
    feedback: str
    instructions: str | None
    settings: ModelSettings | None
    output: OutputType
    dependencies: object
    budget: Budget
    resume_from: Checkpoint | None
    settled: dict[str, ToolOutcome]
    unsettled: dict[str, ToolStarted]
    reply: ModelResponse | None
    asked: dict[str, PendingApproval]
    answers: dict[str, CallAnswer]
    _plan: Plan
    _box: Box
    _caller: ModelCaller
    _log: Past | None
    _past: Past | None
    _again: Again | None
    _children: dict[str, AgentResult[Any]]
    _running: Jobs[AgentResult[Any]]

    def __init__(
        self,
        plan: Plan,
        *,
        info: RunInfo,
        depth: int,
        started_at: datetime,
        box: Box,
        caller: ModelCaller,
        past: Past | None,
    ) -> None:
        # Past __setattr__, which looks at every name.
        vars(self).update(
            id=info.run_id,
            identity=info,
            parent_run_id=plan.parent_run_id,
            started_at=started_at,
            depth=depth,
            agent=plan.agent,
            request=plan.request,
            attempt=1,
            feedback="",
            instructions=None,
            settings=plan.settings,
            output=plan.output,
            dependencies=plan.dependencies,
            budget=plan.budget,
            resume_from=plan.resume_from,
            settled={},
            unsettled={},
            reply=None,
            asked={},
            answers={},
            _plan=plan,
            _box=box,
            _caller=caller,
            _log=past,
            _past=None,
            _again=None,
            _children={},
            _running=Jobs(),
        )

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name in _FIXED:
                raise Misuse(f"run.{name} cannot be set: engines only read it")
            super().__setattr__(name, value)

    def begin_attempt(self, number: int, feedback: str) -> None:
        """Show that the engine is called for the attempt *number*, asked for with *feedback*."""
        vars(self).update(attempt=number, feedback=feedback)
        if number > 1:
            vars(self).update(resume_from=None)

    def instruct(self, instructions: str | None) -> None:
        """Show what the agent says about itself in this attempt."""
        vars(self).update(instructions=instructions)

    @property
    def tools(self) -> Toolbox:
        """The tools on offer, and the way to call them."""
        if self._again is not None:
            return cast("Toolbox", ToolsAgain(self._box.tools, self._again))
        return self._box.tools

    @property
    def attributes(self) -> Mapping[str, Json]:
        """Free JSON of the caller."""
        return MappingProxyType(self._plan.attributes)

    @property
    def handoff(self) -> HandoffEvent | None:
        """The hand-off that was made in this attempt, which ends it; None for none."""
        return self._caller.recorder.handoff

    @property
    def engine(self) -> Engine:
        """Who drives the run."""
        return self._plan.engine

    @property
    def model(self) -> Model:
        """The model of the run.

        Raises:
            Misuse: Neither agent nor call named one.
        """
        if self._plan.model is None:
            raise Misuse(
                f"agent {self.agent.id!r} has no model: give Agent(model=) or run(..., model=)"
            )
        return self._plan.model

    async def call_model(self, request: ModelInput, *, model: Model | None = None) -> ModelResponse:
        """Ask a model through deciders, log, retry, budget and accounting.

        Args:
            request: What to send: a request, messages or a text.
            model: Another than the run's own.

        Returns:
            What came of it; an error is a value here too.

        Raises:
            Failed: A budget is spent; let it through.
            Misuse: The request is none.
        """
        request = ModelRequest.of(request)
        model = model or self.model
        again, turn = self._again, None
        if again is not None:
            turn = again.turn(model.name)
            if again.diverged:
                again.diverged = False
                self._caller.recorder.warn(_DIVERGED)
            reply = None if turn is None else again.reply(turn)
            if reply is not None:
                return reply
        return await self._caller.call(model, request, turn=turn)

    def take_up(self, past: Past | None) -> None:
        """Show the engine what the log has of its attempt; None is a new one."""
        self._past, self._again = past, None
        self.settled, self.unsettled, self.reply = {}, {}, None
        if past is not None:
            self.settled = {key: record.outcome for key, record in past.settled.items()}
            self.unsettled = dict(past.unsettled)
            self.reply = past.reply
            self.asked, self.answers = dict(past.asked), dict(past.answers)

    def hand_back(self, board: Board) -> None:
        """Give what the log has of this attempt instead of asking anew, from now on.

        For an engine that is called again from its top when a run goes on: its model calls get
        the logged replies in the order in which they were made, its tool calls their outcomes by
        call id, and a message that stands on the board already is not appended twice. Nothing
        changes in a run that is new.

        Args:
            board: That of the attempt.
        """
        if self._past is not None:
            self._again, self._past = Again(self._past), None
            board.begin_again()

    @property
    def is_again(self) -> bool:
        """Whether the engine was called again from its top and is handed back what it did."""
        return self._again is not None

    async def child(
        self,
        agent: Agent[Any],
        request: Request | str,
        *,
        key: str | None = None,
        **options: Any,
    ) -> AgentResult[Any]:
        """Run another agent inside this run; it shares budget, log and deadline.

        Args:
            agent: Who works on it.
            request: What is asked.
            key: Names the child, unique in the run, over all its attempts and sittings. One that
                has ended hands back its result and is not run again; one that was cut off or is
                parked goes on from its log. None starts another child each time.
            options: As for ``run``.

        Returns:
            The child's AgentResult.

        Raises:
            Misuse: An argument is wrong, or the request of a child with a key names a run_id.
        """
        start = self._plan.child
        if start is None:
            raise Misuse("this run was not started by upshot.run, so it cannot start children")
        if key is None:
            return _shown(await start(agent, request, **options))
        if key in self._children:
            return self._children[key]
        asked = _named(request, self._child_id(key))

        async def work() -> AgentResult[Any]:
            result = _shown(await start(agent, asked, again=True, **options))
            if result.status is not Status.INPUT_REQUIRED:
                # Of a parked one there is more to come once people have answered.
                self._children[key] = result
            return result

        return await self._running.do(key, work)

    def _child_id(self, key: str) -> str:
        """The id of a child; one that had ended in a run that this one was forked from is it."""
        past = self._log
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


# What an engine may take up and put down is the rest.
# What the lifecycle and resumed engines hand on to one another.
_HANDED_ON = frozenset({"settled", "unsettled", "reply", "asked", "answers"})
_FIXED = frozenset(name for name in Run.__annotations__ if name[0] != "_") - _HANDED_ON
