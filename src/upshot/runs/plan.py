"""Plan: everything a run needs, resolved and checked before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from ..clock import SYSTEM_CLOCK
from ..contract import (
    Agent,
    AgentSpec,
    ArtifactStore,
    BoardChanged,
    Budget,
    Checkpoint,
    Clock,
    Engine,
    Event,
    Handoff,
    HandoffEvent,
    Interrupt,
    Journal,
    JsonObject,
    Message,
    Model,
    ModelRequest,
    ModelSettings,
    Policy,
    Request,
    Retry,
    RunInfo,
    RunWarning,
)
from ..models import name_of
from ..tools import Tool
from .callback import method
from .ledger import Ledger
from .options import Approver, Committer, Seeder
from .output import OutputType
from .veil import MARKS_OPTION

__all__ = ["ENGINE_OPTION", "USUAL_BUDGET", "Child", "Parent", "Plan"]

# Under which the log names the class of the engine.
ENGINE_OPTION = "engine"

# One for all runs that name none, for it is frozen.
USUAL_BUDGET = Budget()

# Starts a run inside a run: (agent, request, options) to its result.
Child = Callable[..., Awaitable[Any]]


class Transfers(Protocol):
    """The hand-offs of a run, as a tool that makes one has to know them."""

    info: RunInfo

    def check_open(self) -> None:
        """Raise where one was made already.

        Raises:
            ToolError: It was.
        """
        ...

    def take(self, event: HandoffEvent) -> None:
        """Make one."""
        ...


class Context(Protocol):
    """What the runs inside a run have to know of it."""

    @property
    def tainted(self) -> str:
        """Whose untrusted words are among its messages, "" for nobody's."""
        ...

    @property
    def handoffs(self) -> Transfers:
        """Its hand-offs."""
        ...

    def distrust(self, source: str) -> None:
        """Tell that untrusted words of *source* are among them."""
        ...

    async def before_model(self, info: RunInfo, request: ModelRequest) -> ModelRequest:
        """What may be sent of *request*, which the run *info* inside wants to send.

        Raises:
            Failed: A decider raised.
        """
        ...


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A run before it begins: who works on what, with what, within which limits.

    Attributes:
        observers: The agent's first, then the call's; deciders alike.
        handed: Messages that come after the request, from who handed it over.
        noted: What else the log keeps among the options.
        warnings: Told when the sitting begins.
        spec: The agent in names only.
        seed: What the board of the first attempt was started with, in an earlier sitting.
        marks: What the marks begin with that stand for secrets in its log, "" without any.
        logged: What the log keeps of the options, where that was found out before.
        is_known: Whether the run round it has counted what its log says that it used.
        is_retry_given: Whether the call said how failed model calls are tried again.

    The others: see ``RunOptions``.
    """

    agent: Agent[Any]
    request: Request
    run_id: str
    engine: Engine
    model: Model | None
    output: OutputType
    settings: ModelSettings | None = None
    retry: Retry | None = None
    budget: Budget = USUAL_BUDGET
    tools: tuple[Tool, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    host: object = None
    observers: tuple[object, ...] = ()
    deciders: tuple[object, ...] = ()
    committers: tuple[Committer, ...] = ()
    prepare: Seeder | None = None
    history: Sequence[Message] = ()
    handed: Sequence[Message] = ()
    artifacts: tuple[str, ...] = ()
    attributes: JsonObject = {}
    parent: Parent | None = None
    parent_run_id: str = ""
    resume_from: Checkpoint | None = None
    max_attempts: int = 1
    dependencies: object = None
    journal: Journal | None = None
    approve: Approver | None = None
    artifact_store: ArtifactStore | None = None
    policy: Policy | None = None
    secrets: tuple[str, ...] = ()
    marks: str = ""
    clock: Clock = SYSTEM_CLOCK
    launch: JsonObject = {}
    noted: JsonObject = {}
    child: Child | None = None
    warnings: tuple[RunWarning, ...] = ()
    spec: AgentSpec = AgentSpec()
    is_known: bool = False
    is_retry_given: bool = False
    seed: tuple[BoardChanged, ...] = ()
    logged: JsonObject | None = None

    @property
    def near(self) -> Parent | None:
        """The run round it, where that lives in the same event loop."""
        parent = self.parent
        is_near = parent is not None and parent.loop is asyncio.get_running_loop()
        return parent if is_near else None

    @property
    def ask(self) -> Callable[..., Any] | None:
        """Asks a person: a method of the user's host, None where it has none."""
        return method(self.host, "ask_user")

    def logged_options(self) -> JsonObject:
        """What the log keeps of the options, for who goes on with the run."""
        if self.logged is not None:
            return self.logged.copy()
        options: JsonObject = {
            **self.noted,
            "max_attempts": self.max_attempts,
            ENGINE_OPTION: type(self.engine).__name__,
        }
        if self.model is not None:
            options["model"] = name_of(self.model)
        # What the agent has it brings along again.
        known = self.agent.budget or USUAL_BUDGET
        if self.budget is not known and self.budget != known:
            options["budget"] = msgspec.to_builtins(self.budget)
        if self.artifacts:
            options["artifacts"] = [*self.artifacts]
        if self.launch:
            options["launch"] = self.launch
        if self.marks:
            options[MARKS_OPTION] = self.marks
        return options


class Parent(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a run started inside a run inherits.

    Attributes:
        plan: Of the outer run.
        depth: Of the outer run.
        ledger: Its account, which the inner one adds to.
        loop: The event loop in which it lives.
        box: Its tools, which know whether strangers' words are in its context.
        tell: Logs what it has to know of the inner one.
        wish: Looks whether anybody wishes that it stop, as the inner one then does.
        admit: Has the inner one told of such a wish, until what it gives is called.
        pause: Waits so many seconds, on its clock or the one given, but not beyond such a wish.
        stand_in: Gives the results of runs inside it where it is replayed; None runs them.
        is_hooks: Whether this is what its hooks inherit, and not its engine.
    """

    plan: Plan
    depth: int
    ledger: Ledger
    loop: asyncio.AbstractEventLoop
    box: Context
    tell: Callable[[Event], None]
    wish: Callable[[], Interrupt | None]
    admit: Callable[[Callable[[Interrupt], None]], Callable[[], None]]
    pause: Callable[[float, Clock | None], Awaitable[None]]
    stand_in: Child | None = None
    is_hooks: bool = False

    @property
    def run_id(self) -> str:
        """The outer run."""
        return self.plan.run_id

    @property
    def journal(self) -> Journal | None:
        """Its log."""
        return self.plan.journal

    @property
    def clock(self) -> Clock:
        """Its time."""
        return self.plan.clock

    @property
    def policy(self) -> Policy | None:
        """Its rules on tools, None for none."""
        return self.plan.policy

    @property
    def approve(self) -> Approver | None:
        """Who is asked about its tools, None for nobody."""
        return self.plan.approve

    @property
    def ask(self) -> Callable[..., Any] | None:
        """Asks a person for it, None where its host cannot."""
        return self.plan.ask

    @property
    def secrets(self) -> tuple[str, ...]:
        """What is masked in it."""
        return self.plan.secrets
