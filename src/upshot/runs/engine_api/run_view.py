"""Run: what an engine sees of the run that it drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import HandoffEvent, RunInfo
from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import ToolStarted
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, Request, name_of
from upshot.contract.pending import PendingApproval
from upshot.contract.protocols import Engine, Model
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.settings import Budget, ModelSettings, Retry
from upshot.contract.tool_calls import ToolCall, ToolOutcome, ToolRecord, ToolSpec
from upshot.errors import Misuse
from upshot.runs.dependencies import hold_inside
from upshot.runs.engine_api.steps import SharedWork
from upshot.runs.plan import OutputType
from upshot.runs.resumption import LoggedCalls, is_asked, point_of
from upshot.runs.run_context import ChildKeys, RunContext, body_of
from upshot.runs.services.compaction import compact
from upshot.runs.services.model_caller import call_model
from upshot.runs.services.run_tools import toolbox_of
from upshot.state.board import Board
from upshot.state.child_runs import child_id, origins_of, pending_in
from upshot.state.run_state import CallAnswer
from upshot.tools.call_resumption import EarlierCalls, KnownCall, KnownOutcomes
from upshot.tools.catalog import catalog_of
from upshot.tools.toolbox import Toolbox

T = TypeVar("T")

# What an earlier session left; an engine that has processed a field empties it.
_LEFT_OVER = frozenset({"answers", "asked", "reply", "settled", "unsettled"})
_NO_CHILDREN = frozenset[str]()


class _ReadOnly(Misuse, AttributeError):
    """Raised when an engine sets a read-only attribute."""


class Run:
    """The run that an engine drives: its facts, and access to models, tools and child runs.

    Attributes:
        id: The run's id.
        identity: Agent, run, task and context. Attributes cannot forge it.
        parent_run_id: The run that started this one, "" for a root run.
        started_at: When it started, in its first session.
        depth: Its nesting depth, 0 for a root run.
        agent: The agent of the run.
        request: The request.
        attempt: The number of the attempt, from 1.
        feedback: What the decider that asked for this attempt wants changed.
        instructions: The agent's instructions for this attempt; None for none.
        settings: The model settings.
        retry: How failed model calls are retried, None for no retries.
        is_retry_given: Whether the call set ``retry``; then it holds for nested agents too.
        output: The type of the answer.
        dependencies: The caller's object for tools and engines.
        attributes: Free JSON from the caller.
        budget: The limits at its start: its own, or what its parents had left if that was less.
            The turns are always its own.
        engine: The engine that drives the run.
        settled: Outcomes by call id that an earlier session logged and the board lacks.
        unsettled: Calls by id that an earlier session started and that have no outcome.
        reply: A model reply that an earlier session logged and the board lacks.
        asked: What the user was asked about calls in that reply, by call id.
        answers: The answers so far, by call id.
        has_looked_back: Whether the engine has read ``resume_from``.
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
    instructions: str | None = None
    settings: ModelSettings | None
    retry: Retry | None
    is_retry_given: bool
    output: OutputType
    dependencies: object
    attributes: Mapping[str, Json]
    budget: Budget
    engine: Engine
    settled: dict[str, ToolOutcome]
    unsettled: dict[str, ToolStarted]
    reply: ModelResponse | None = None
    asked: dict[str, PendingApproval]
    answers: dict[str, CallAnswer]
    has_looked_back: bool = False
    _context: RunContext
    _logged: LoggedCalls | None = None
    _known: KnownOutcomes | None = None
    _point: Checkpoint | None = None
    _earlier_records: tuple[ToolRecord, ...] = ()
    _running: SharedWork[AgentResult[Any]] | None = None
    _children: dict[str, AgentResult[Any]]
    _known_children: frozenset[str]
    _keys: ChildKeys | None = None
    _is_at_top: bool = False
    _is_handed_back: bool = False

    def __init__(self, context: RunContext, *, is_resumed: bool) -> None:
        plan, state = context.plan, context.state
        # Engines only read, so attributes are not set in the usual way: see ``__setattr__``.
        vars(self).update(
            id=plan.run_id,
            identity=context.info,
            parent_run_id=plan.parent_run_id,
            depth=context.depth,
            agent=plan.agent,
            request=plan.request,
            settings=plan.settings,
            retry=plan.retry,
            is_retry_given=plan.is_retry_given,
            output=plan.output,
            dependencies=context.dependencies,
            attributes=MappingProxyType(plan.attributes),
            budget=context.budget.allowed,
            engine=plan.engine,
            _context=context,
            _children={},
            # Child runs that an earlier session started.
            _known_children=frozenset(state.children) if is_resumed else _NO_CHILDREN,
        )

    def __setattr__(self, name: str, value: object) -> None:
        if name in _LEFT_OVER:
            object.__setattr__(self, name, value)
            return
        raise _ReadOnly(f"run.{name} cannot be set: engines only read it")

    def __delattr__(self, name: str) -> None:
        raise _ReadOnly(f"run.{name} cannot be deleted: engines only read it")

    def depend_on(self, dependencies: object) -> None:
        """Give the engine the dependencies that a factory made."""
        vars(self)["dependencies"] = dependencies

    def begin_attempt(self, number: int, feedback: str) -> None:
        """Set the fields for the attempt *number*, which a decider asked for with *feedback*."""
        state = self._context.state
        vars(self).update(
            attempt=number,
            feedback=feedback,
            started_at=state.started_at or self._context.plan.clock.now(),
            settled={},
            unsettled={},
            asked={},
            answers={},
        )
        if number > 1:
            for name in (
                "reply",
                "_logged",
                "_known",
                "_point",
                "_keys",
                "_is_handed_back",
                "_is_at_top",
                "_earlier_records",
            ):
                vars(self).pop(name, None)

    def restore_progress(self) -> None:
        """Give the engine what the log has of this attempt, which an earlier session started."""
        state, redaction = self._context.state, self._context.redaction
        vars(self).update(
            settled={key: record.outcome for key, record in state.settled.items()},
            unsettled=dict(state.unsettled),
            reply=state.reply,
            asked=dict(state.asked),
            answers=dict(state.answers),
            _is_at_top=True,
            _earlier_records=tuple(state.records[state.before.records :]),
            _logged=LoggedCalls(state, _unchanged if redaction is None else redaction.show),
            _known=KnownOutcomes(self._find_call),
        )
        if is_asked(self.engine):
            vars(self)["_point"] = point_of(state)

    @property
    def cut_off(self) -> Sequence[ToolStarted]:
        """The calls that had no outcome when the previous session ended."""
        return () if self._logged is None else self._logged.cut_off

    @property
    def earlier_records(self) -> Sequence[ToolRecord]:
        """The calls of this attempt that earlier sessions settled, in order."""
        return self._earlier_records

    @property
    def earlier_replies(self) -> Sequence[ModelResponse]:
        """The replies of this attempt that earlier sessions got, in order."""
        return () if self._logged is None else self._logged.replies

    @property
    def has_repeated_ids(self) -> bool:
        """Whether two calls of the last reply have the same id, as logs of earlier versions may."""
        if self._logged is None:
            return False
        ids = [call.id for call in self._context.state.reply_calls]
        return len({*ids}) < len(ids)

    def pop_left_over(self) -> tuple[dict[str, ToolOutcome], EarlierCalls]:
        """Return ``settled``, and ``unsettled``, ``asked`` and ``answers``, and empty them."""
        settled = self.settled
        earlier = EarlierCalls(self.unsettled, self.asked, self.answers)
        if settled or any(earlier):
            vars(self).update(settled={}, unsettled={}, asked={}, answers={})
        return settled, earlier

    def instruct(self, instructions: str | None) -> None:
        """Set the agent's instructions for this attempt."""
        vars(self)["instructions"] = instructions

    @property
    def resume_from(self) -> Checkpoint | None:
        """The checkpoint to resume from; None for a fresh start, and after the first attempt.

        In a resumed run, an engine with ``can_resume`` gets the checkpoint it was asked about.
        """
        vars(self)["has_looked_back"] = True
        if self._point is not None:
            return self._point
        return self._context.plan.resume_from if self.attempt == 1 else None

    @property
    def tools(self) -> Toolbox:
        """The tools on offer, for calling them."""
        context, tools = self._context, toolbox_of(self._context)
        if context.recording is None:
            tools.known_outcomes = self._known
        return tools

    @property
    def schemas(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; cheaper than ``tools.schemas()``, as it needs no Toolbox."""
        context = self._context
        is_filtered = bool(context.plan.handoffs) and context.handoffs.are_filtered
        if context.toolbox is None and not is_filtered:
            return catalog_of(context.plan.tools).specs
        return toolbox_of(context).schemas()

    @property
    def handoff(self) -> HandoffEvent | None:
        """The handoff that ends this attempt; None for none."""
        return self._context.state.handoff

    @property
    def model(self) -> Model:
        """The model of the run.

        Raises:
            Misuse: Neither agent nor call named one.
        """
        model = self._context.plan.model
        if model is None:
            raise Misuse(
                f"agent {self.agent.id!r} has no model: give Agent(model=) or run(..., model=)"
            )
        return model

    @property
    def is_watched(self) -> bool:
        """Whether anything watches replies as they stream, so that pieces are worth making."""
        return self._context.recorder.watched

    async def ask_filters(self) -> None:
        """Call the async filters of handoffs, to update which are on offer.

        They are called when an attempt starts. An engine with turns calls them before each turn.
        """
        if self._context.plan.handoffs:
            await self._context.handoffs.ask_filters()

    async def call_model(self, request: ModelInput, *, model: Model | None = None) -> ModelResponse:
        """Call a model through deciders, log, retry, budget and accounting.

        Args:
            request: What to send: a request, messages or a text.
            model: Another model than the run's own.

        Returns:
            The response; errors are values in it.

        Raises:
            Failed: A budget is spent. Do not catch it.
            Interrupted: A request to stop came while the reply streamed to a watcher, or before a
                retry. Do not catch it.
            Misuse: The request or the model has a wrong type.
        """
        request = ModelRequest.of(request)
        if model is None:
            model = self.model
        elif not callable(getattr(model, "call", None)):
            raise Misuse(
                f"call_model was given a model of type {type(model).__name__}: give a Model"
            )
        turn, (logged, step) = None, self._calls_of_body()
        if logged is not None:
            turn = logged.turn(name_of(model), step)
            self._warn_if_diverged(logged)
            reply = None if turn is None else logged.reply(turn)
            if reply is not None:
                return reply
        return await call_model(self._context, model, request, turn=turn, step=step)

    def may_compact(self, error: AgentError) -> bool:
        """Whether *error* says that a request was too long, and the agent has compaction."""
        return error.code is ErrorCode.CONTEXT_LENGTH and self.agent.compaction is not None

    async def compact(self, error: AgentError | None = None) -> bool:
        """Compact the messages that the model is sent, if the agent has compaction and it is time.

        Args:
            error: The error of a request with ``board.sent()``; None before it is sent.

        Returns:
            Whether messages were replaced; then ``board.sent()`` has changed.

        Raises:
            Failed: A budget is spent. Do not catch it.
            Interrupted: A request to stop came. Do not catch it.
        """
        compaction, is_again = self.agent.compaction, self._context.state.board.is_again
        if compaction is None or is_again or not (error is None or self.may_compact(error)):
            return False
        return await compact(self._context, compaction, is_too_long=error is not None)

    def _calls_of_body(self) -> tuple[LoggedCalls | None, str]:
        """Return the logged calls that may answer calls from here, and the current step.

        The body of a step runs again from the top with any engine.
        """
        body = body_of(self.id)
        if body is not None:
            return self._logged, body.key
        return (self._logged if self._is_handed_back else None), ""

    def _find_call(self, call: ToolCall) -> KnownCall | None:
        """Return what the log has of a tool call that is made again."""
        logged, step = self._calls_of_body()
        if logged is None:
            return None
        known = logged.call(call, step)
        self._warn_if_diverged(logged)
        return known

    def _warn_if_diverged(self, logged: LoggedCalls) -> None:
        if logged.diverged:
            message, logged.diverged = f"the engine {logged.diverged}", ""
            self._context.recorder.warn(
                RunWarning(code="replay_diverged", message=message, origin=Origin.ENGINE)
            )

    def hand_back(self, board: Board) -> None:
        """From now on, answer calls from the log of this attempt if it has them.

        For an engine that runs again from the top when a run is resumed. Its model calls get the
        logged replies in the order in which they were made, its tool calls their outcomes by call
        id and arguments, and child runs without a key their results by request. Messages that are
        already on the board are not appended again. In a new run, call it too: nothing changes
        except that child runs get ids by which they can be found again. Calls in the body of a step
        that runs again are answered with any engine.

        Args:
            board: The board of the attempt.
        """
        vars(self)["_is_handed_back"] = True
        if self._is_at_top:
            vars(self).update(_point=None, _is_at_top=False)
            board.begin_again()

    @property
    def is_at_top(self) -> bool:
        """Whether the engine was called again and has not called ``hand_back``."""
        return self._is_at_top

    @property
    def is_again(self) -> bool:
        """Whether the engine runs again from the top and its calls are answered from the log."""
        return self._is_handed_back and self._logged is not None

    async def child(
        self,
        agent: Agent[T],
        request: Request | str,
        *,
        key: str | None = None,
        **options: Any,
    ) -> AgentResult[T]:
        """Run another agent as a child run; it shares budget, log and deadline.

        Args:
            agent: The agent.
            request: Its request.
            key: Names the child, unique in the run over all attempts and sessions. A child that has
                ended returns its result and does not run again; one that was interrupted or is
                parked resumes from its log. None starts a new child each time. But in the body of a
                step, and in an engine that calls ``hand_back`` such as a script, the nth child with
                the same agent and request is the nth such child again.
            options: As for ``run``. Without ``model`` or ``dependencies``, it uses this run's
                if the call gave them or the agent has none.

        Returns:
            The child's AgentResult.

        Raises:
            Misuse: An argument is wrong, or the request of a child with a key has a run_id.
        """
        start = self._context.plan.child
        if start is None:
            raise Misuse("this run was not started by upshot.run, so it cannot start children")
        if options.get("model") is None and (model := self._lent_model(agent)) is not None:
            options["model"] = model
        if options.get("dependencies") is None and self._lends_dependencies(agent):
            options["dependencies"] = self.dependencies
        if key is None:
            placed, may_have_begun = self._request_with_id(agent, request)
            return _as_seen_by_parent(
                await start(agent, placed, may_have_begun=may_have_begun, **options)
            )
        if key in self._children:
            return self._children[key]
        asked = _with_run_id(request, self._child_id(key))

        async def work() -> AgentResult[Any]:
            result = _as_seen_by_parent(await start(agent, asked, may_have_begun=True, **options))
            if result.status is not Status.INPUT_REQUIRED:
                # A parked child continues after the answers, so its result is not final.
                self._children[key] = result
            return result

        # Two tasks that use the same key at the same time share one run.
        if (running := self._running) is None:
            running = vars(self)["_running"] = SharedWork[AgentResult[Any]]()
        return await running.do(key, work)

    def _lent_model(self, agent: Agent[Any]) -> Model | None:
        """Return the run's model if the call named it or *agent* has none of its own, else None."""
        model, own = self._context.plan.model, self.agent.model
        has_own = any(getattr(agent, name, None) is not None for name in ("model", "engine"))
        if model is None or not has_own:
            return model
        is_own = model is own or (isinstance(own, str) and name_of(model) == own)
        return None if is_own else model

    def _lends_dependencies(self, agent: Agent[Any]) -> bool:
        has_own = getattr(agent, "dependencies", None) is not None
        return self.dependencies is not None and (not has_own or hold_inside(self._context))

    def _request_with_id(
        self, agent: Agent[Any], request: Request | str
    ) -> tuple[Request | str, bool]:
        """Return the request of a child without a key, and whether it may have started before."""
        body, redaction = body_of(self.id), self._context.redaction
        if body is None and not self._is_handed_back:
            return request, False
        again = self._logged is not None
        asked = request if isinstance(request, Request) else Request(request)
        if asked.run_id:
            return asked, again and asked.run_id in self._known_children
        keys = self._keys if body is None else body.places
        if keys is None:
            keys = vars(self)["_keys"] = ChildKeys(self.attempt)
        # Masked, so that the id neither depends on a secret nor reveals it.
        shown = asked if redaction is None else redaction.show(asked)
        key = keys.key(getattr(agent, "id", ""), shown)
        return replace(asked, run_id=self._child_id(key)), again

    def _child_id(self, key: str) -> str:
        """Return a child's id. One that ended in the run this was forked from keeps its id."""
        state = self._context.state
        if self._known_children and state.started is not None:
            for origin in origins_of(state.started.options):
                run_id = child_id(origin, key)
                spent = state.children.get(run_id)
                if spent is not None and spent.is_final:
                    return run_id
        return child_id(self.id, key)


def _unchanged(value: Json) -> Json:
    return value


def _as_seen_by_parent(result: AgentResult[Any]) -> AgentResult[Any]:
    """Return a child's result for its parent: pending items say which run asks."""
    if not result.pending:
        return result
    return replace(result, pending=pending_in(result.run_id, result.pending))


def _with_run_id(request: Request | str, run_id: str) -> Request:
    asked = request if isinstance(request, Request) else Request(request)
    if asked.run_id:
        raise Misuse(
            f"a child with a key cannot have the id {asked.run_id!r}: its key determines its id"
        )
    return replace(asked, run_id=run_id)
