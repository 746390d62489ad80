"""MachineEngine: drives a run by a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, ClassVar

from upshot.contract.agent import Agent
from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Role
from upshot.contract.base.structs import JsonObject
from upshot.contract.message import MAIN_CHANNEL
from upshot.contract.protocols import Clock
from upshot.contract.result import OUTPUT_VAR
from upshot.contract.run_control import Checkpoint
from upshot.engines.common import asked_in, hand_over
from upshot.engines.machine.machine import Machine
from upshot.engines.machine.machine_hooks import MachineHooks
from upshot.engines.machine.machine_walk import MachineWalk
from upshot.engines.machine.resolver import MachineAgent, Resolver
from upshot.engines.machine.state_outcome import Unhandled
from upshot.engines.walk import Walk
from upshot.errors import Misuse
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board


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

    # It finds its place by the log, so that it is not asked whether it can go on.
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
        self._resolver = Resolver(
            machine, agents=agents or {}, functions=functions or {}, tools=tools
        )
        self._hooks = MachineHooks(hooks)
        self._clock = clock

    def __repr__(self) -> str:
        return f"MachineEngine({self.machine!r})"

    @property
    def agents(self) -> tuple[Agent[Any], ...]:
        """The agents of its states that ask a model, each once."""
        return self._resolver.agents

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is named after a state; the machine is then entered there."""
        return checkpoint.step in self.machine.states

    def check_models(self, *, has_model: bool) -> None:
        """Check that all its agents have a model, before anything begins.

        Args:
            has_model: Whether the run has one that agents without one may use.

        Raises:
            Misuse: One has none; all are named.
        """
        self._resolver.check_models(has_model=has_model)

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Go through the machine from its initial state, or from the one a checkpoint names.

        Raises:
            Interrupted: The run was asked to stop, between states or in an agent.
            Aborted: An agent was aborted, and no state leads on from that.
            Failed: A failure that nothing leads on from, a dead end, the step limit, a broken
                expression, or a hook that raised.
            Parked: The user is asked.
        """
        walk, machine = Walk(run, host, board, "machine"), self.machine
        first = await walk.begin(machine.initial, machine.digest)
        variables = first.variables()
        whole = MachineWalk(
            walk,
            machine,
            resolver=self._resolver,
            hooks=self._hooks,
            clock=self._clock,
            key=walk.key,
            given=_given(run, first, variables),
            context={**deepcopy(machine.context), **variables},
        )
        try:
            outcome = await whole.go(walk.start, walk.commit)
        except Unhandled as unhandled:
            raise unhandled.ending from unhandled.ending.__cause__
        finally:
            # What was done stays in the result, whatever ended the walk.
            walk.flush()
        if outcome.payload is not None:
            board.set(OUTPUT_VAR, outcome.payload)
        await hand_over(run, host, outcome.handoff)
        return board


def _given(run: Run, board: Board, variables: JsonObject) -> JsonObject:
    """What expressions see as ``input``: what the request names, and its text as message."""
    asked = [message for message in board.messages(MAIN_CHANNEL) if message.role is Role.USER]
    text = asked_in(asked, run.feedback, otherwise=run.request.to_message().text)
    return {"message": text, **run.request.inputs}
