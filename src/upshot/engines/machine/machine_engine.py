"""MachineEngine: goes from state to state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Effect, ErrorCode, Origin, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.events import Warned
from upshot.contract.message import MAIN_CHANNEL
from upshot.contract.protocols import Clock
from upshot.contract.result import OUTPUT_VAR, AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.engines.common import asked_in, hand_over, warn_of_unread
from upshot.engines.graph.branches import Change
from upshot.engines.graph.graph_run import GraphRun
from upshot.engines.machine.cel import Variables
from upshot.engines.machine.machine import Machine, State
from upshot.engines.machine.resolver import MachineAgent, Resolver
from upshot.engines.machine.state_execution import Done, MachineContext, MachineHooks, Visit
from upshot.engines.machine.state_outcome import NOTHING, Outcome, Unhandled, summed
from upshot.engines.machine.state_work import Worker
from upshot.errors import Misuse
from upshot.runs.engine_api.exceptions import Failed
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board

__all__ = ["MachineEngine", "Surroundings", "walk_machine"]


class Surroundings(NamedTuple):
    """What all machines of one run share.

    Attributes:
        trip: The run, its host and its log.
        crew: Agents and functions.
        hooks: The user's.
        clock: What retries wait on, None for the run's.
    """

    trip: GraphRun
    crew: Resolver
    hooks: MachineHooks
    clock: Clock | None


async def walk_machine(
    around: Surroundings,
    machine: Machine,
    *,
    key: str,
    given: JsonObject,
    context: JsonObject,
    prefix: str = "",
    commit: Callable[[Sequence[Change]], None] | None = None,
    start: str = "",
) -> Outcome:
    """Go through *machine* from its initial state until it ends.

    Args:
        around: What is shared.
        machine: What is gone through.
        key: What the keys of its steps begin with.
        given: What expressions see as ``input``.
        context: What the context begins with.
        prefix: The sub-machines that it stands in, for the names of states.
        commit: Told what each state changed.
        start: Another state to start at.

    Returns:
        What it gives; its result holds what all states used.

    Raises:
        Failed: A failure that nothing leads on from, a dead end, the step limit, a broken
            expression, or a hook that raised.
        Unhandled: An agent was aborted or followed a wish to stop, and no state leads on from that.
        Interrupted: A wish to stop was followed between states.
        Parked: People are waited for.
    """
    walk = _Walk(around, machine, key=key, given=given, context=context, prefix=prefix)
    return await walk.go(start or machine.initial, commit)


class _Walk:
    def __init__(
        self,
        around: Surroundings,
        machine: Machine,
        *,
        key: str,
        given: JsonObject,
        context: JsonObject,
        prefix: str,
    ) -> None:
        self._around = around
        self._machine = machine
        self._key = key
        self._prefix = prefix
        self._given = given
        self._context = MachineContext(context)
        self._last: Outcome = NOTHING
        # The state whose agent handed over, while nothing has looked at that.
        self._unread = ""
        self._visits: dict[str, int] = {}
        self._worker = Worker(
            around.trip,
            around.crew,
            self._descend,
            given=given,
            context=self._context.values,
            prefix=prefix,
            clock=around.clock,
        )
        limit, most = machine.max_steps, around.trip.run.budget.max_turns
        if limit is None and most is not None:
            # The budget counts calls of models. A machine that goes through each state once is no
            # runaway, however many it has.
            limit = max(most, len(machine.states))
        self._limit = limit

    async def go(self, start: str, commit: Callable[[Sequence[Change]], None] | None) -> Outcome:
        name, steps, said = start, 0, ""
        outcomes: list[Outcome] = []
        while True:
            trip = self._around.trip
            await trip.stop_if_asked()
            # A run can begin again at a state of the outermost machine only.
            if self._key == trip.key:
                visit = self._visits.get(name, 0) + 1
                await trip.name_point(name, f"{self._key}{name}#{visit}", steps)
            steps += 1
            self._check_limit(steps, name)
            state = self._state(name)
            if self._unread:
                await self._look_for_reader(state)
            done = await self._visit(state)
            if done.outcome is not self._last:
                is_open = done.outcome.handoff is not None and not self._may_read(state)
                self._unread = done.change.node if is_open else ""
            if commit is not None:
                commit((done.change,))
            if done.outcome is not self._last and done.outcome.spent is not None:
                outcomes.append(done.outcome)
            # What the last agent said is the content of the whole, whatever states come after it.
            said = next((m.text for _, added in done.change.messages for m in added), said)
            self._last = done.outcome
            if not done.to:
                return _whole(done.answer, said, outcomes, done.outcome.handoff)
            name = done.to

    async def _look_for_reader(self, state: State) -> None:
        """Warn where others work after a hand-off that nothing has looked at."""
        handoff, host = self._last.handoff, self._around.trip.host
        if self._may_read(state) or handoff is None:
            self._unread = ""
        elif state.works:
            visit = self._visits.get(state.name, 0) + 1
            # A session that walks over what is done already has told of it then.
            if not host.is_settled(f"{self._key}{state.name}#{visit}"):
                how = "a condition can look at result.handoff"
                place = f"the state {self._unread!r}"
                await warn_of_unread(host, place, handoff.to_agent_id, how)
            self._unread = ""

    def _may_read(self, state: State) -> bool:
        hooks = self._around.hooks
        return state.reads_handoff or hooks.has("on_state_exit") or hooks.has("on_transition")

    async def _visit(self, state: State) -> Done:
        visit = self._visits[state.name] = self._visits.get(state.name, 0) + 1
        around, last = self._around, self._last

        def work(state: State, key: str, scope: Variables) -> Any:
            return self._worker.work(state, key, scope, last)

        return await Visit(
            around.trip,
            around.hooks,
            machine=self._machine,
            state=state,
            key=f"{self._key}{state.name}#{visit}",
            name=self._prefix + state.name,
            context=self._context,
            given=self._given,
            last=last,
        ).take(work)

    def _state(self, name: str) -> State:
        state = self._machine.states.get(name)
        if state is None:
            # The log is of another machine: one that has changed since.
            there = ", ".join(self._machine.states)
            message = f"the machine has no state {name!r} any more: there are {there}"
            raise Failed(ErrorCode.DEAD_END, message, details={"state": name})
        return state

    async def _descend(self, machine: Machine, key: str, prefix: str, given: JsonObject) -> Outcome:
        try:
            return await walk_machine(
                self._around,
                machine,
                key=key,
                given=given,
                # States change it, and the machine may be gone through again, at the same time too.
                context=deepcopy(machine.context),
                prefix=prefix,
            )
        except Failed as failure:
            # A sub-machine's failure is that of the state that it is in.
            return Outcome.failed(failure)

    def _check_limit(self, steps: int, name: str) -> None:
        limit = self._limit
        if limit is not None and steps > limit:
            raise Failed(
                ErrorCode.MAX_TURNS,
                f"The limit of {limit} steps is reached before the state "
                f"{self._prefix + name!r}: raise settings.max_steps or Budget(max_turns=).",
                details={"dimension": "steps", "limit": limit, "used": limit},
            )


def _whole(
    answer: Json, said: str, outcomes: Sequence[Outcome], handoff: HandoffEvent | None
) -> Outcome:
    """What a machine gives, with what its states used and what the last agent handed over."""
    spent = summed(outcomes)
    if spent is None and not said:
        return Outcome(answer)
    usage, cost = spent or (None, None)
    used: dict[str, Any] = {} if usage is None else {"usage": usage, "cost": cost}
    result = AgentResult[Any](output=answer, content=said or None, handoff=handoff, **used)
    return Outcome(answer, result, say=said)


class MachineEngine:
    """Goes through *machine*; each state is a step of the log, and is not entered again on resume.

    The context begins with what the machine says, under what is on the board: the inputs of the
    request. Its variables are those of the board. The answer is the ``output`` of the final
    state, or what came of the last state that did something.

    Args:
        machine: As ``load_machine`` gives it.
        agents: By name, over those that the machine describes itself: Agents, Engines, or
            objects with ``async execute(input, context)``, whose return goes through
            ``coerce_result``.
        functions: By name, sync or async; they get the state's input as keywords.
        hooks: Any object with some of on_state_enter, on_state_exit, on_transition, on_error,
            sync or async.
        clock: What retries wait on; None is the run's clock.
        tools: What agents name that the machine describes.

    Raises:
        Misuse: An agent or function is missing; all that are missing are named.
    """

    # It finds its place by the log: nobody has to ask it whether it can go on.
    goes_on_by_log: ClassVar[bool] = True

    def __init__(
        self,
        machine: Machine,
        *,
        agents: Mapping[str, MachineAgent] | None = None,
        functions: Mapping[str, Callable[..., object]] | None = None,
        hooks: object = None,
        clock: Clock | None = None,
        tools: Iterable[object] = (),
    ) -> None:
        if not isinstance(machine, Machine):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            found = kind_of(machine)
            raise Misuse(f"a MachineEngine drives a Machine, not {found}: load_machine(path)")
        self.machine = machine
        self._crew = Resolver(machine, agents=agents or {}, functions=functions or {}, tools=tools)
        self._hooks = MachineHooks(hooks)
        self._clock = clock

    def __repr__(self) -> str:
        return f"MachineEngine({self.machine!r})"

    @property
    def agents(self) -> tuple[Agent[Any], ...]:
        """The agents of its states that ask a model, each once."""
        return self._crew.agents

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is named after a state; the machine is then entered there."""
        return checkpoint.step in self.machine.states

    def check_models(self, *, has_model: bool) -> None:
        """Look whether all its agents have a model, before anything begins.

        Args:
            has_model: Whether the run has one, which it lends.

        Raises:
            Misuse: One has none; all are named.
        """
        self._crew.check_models(has_model=has_model)

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Go through the machine from its initial state, or from the one a checkpoint names.

        Raises:
            Interrupted: A wish to stop was followed between states, or by an agent in one.
            Aborted: An agent was aborted, and no state leads on from that.
            Failed: A failure that nothing leads on from, a dead end, the step limit, a broken
                expression, or a hook that raised.
            Parked: People are waited for.
        """
        trip = GraphRun(run, host, board, name="machine")
        first = await trip.begin()
        await self._tell_of_change(host, trip.key)
        point = run.resume_from if run.attempt == 1 else None
        variables = first.variables()
        around = Surroundings(trip, self._crew, self._hooks, self._clock)
        try:
            outcome = await walk_machine(
                around,
                self.machine,
                key=trip.key,
                given=_given(run, first, variables),
                context={**deepcopy(self.machine.context), **variables},
                commit=trip.commit,
                start="" if point is None else point.step,
            )
        except Unhandled as unhandled:
            raise unhandled.ending from unhandled.ending.__cause__
        finally:
            # What was done stays in the result, whatever ended the walk.
            trip.flush()
        if outcome.payload is not None:
            board.set(OUTPUT_VAR, outcome.payload)
        await hand_over(run, host, outcome.handoff)
        return board

    async def _tell_of_change(self, host: RunHost, key: str) -> None:
        """Warn where the run began with another machine."""
        digest = self.machine.digest
        if await host.step(f"{key}machine", Effect.READ, lambda: digest) != digest:
            message = f"the machine {self.machine.name!r} has changed since the run began"
            warning = RunWarning(code="machine_changed", message=message, origin=Origin.CALLER)
            await host.publish(Warned(warning=warning))


def _given(run: Run, board: Board, variables: JsonObject) -> JsonObject:
    """What expressions see as ``input``: what the request names, and its text as message."""
    asked = [message for message in board.messages(MAIN_CHANNEL) if message.role is Role.USER]
    text = asked_in(asked, run.feedback, otherwise=run.request.to_message().text)
    return {"message": text, **run.request.inputs}
