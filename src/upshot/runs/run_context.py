"""RunContext: what all parts of a session share. Also the current run and the current step.

Questions and child runs without a key are matched by their number or their content when engine code
runs again. The body of a settled step does not run again, so each step body counts for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.events import BoardChanged, Event, RunReleased, RunStarted, Tainted
from upshot.contract.message import any_untrusted
from upshot.contract.model_calls import Request
from upshot.contract.pending import EARLIER, TaintOrigin
from upshot.contract.run_control import Interrupt
from upshot.errors import JournalError
from upshot.runs.budget import RunBudget
from upshot.runs.plan import Plan
from upshot.runs.recorder import Recorder
from upshot.runs.redaction import Redaction, marks_for, name_marks
from upshot.runs.services.handoffs import Handoffs
from upshot.runs.task_supervisor import ChildRun, TaskSupervisor
from upshot.state.request_digests import RequestDigester
from upshot.state.run_state import RunState, acts_in
from upshot.tools.call_state import running_call
from upshot.tools.catalog import catalog_of
from upshot.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from upshot.contract.prompt import Prompt
    from upshot.contract.result import AgentResult
    from upshot.runs.replay.recording import Recording
    from upshot.runs.services.guardrails import Guardrails
    from upshot.runs.waits import Parking
    from upshot.tools.execution.call_log import StandIn

HOLD = Interrupt("hold")
"""Asks a child run to start nothing new, because its parent will be left to another session."""
CUT = Interrupt("cut")
"""Asks a child run to end silently; it continues in that other session."""


StartChild: TypeAlias = "Callable[..., Awaitable[AgentResult[Any]]]"


class ParentLink(msgspec.Struct, frozen=True, eq=False):
    """The run that is the parent of runs started here. It may be in another thread's event loop.

    Attributes:
        context: The context of that run.
        loop: The event loop in which it runs.
        is_hooks: Whether its hooks, and not its engine, start runs here.
        child: Starts a child run of it; None in hooks.
    """

    context: RunContext
    loop: asyncio.AbstractEventLoop
    is_hooks: bool = False
    child: StartChild | None = None

    @property
    def is_near(self) -> bool:
        """Whether that run is in the event loop that is running now."""
        return self.loop is asyncio.get_running_loop()

    def parking_for(self, request: Request) -> Parking | None:
        """Return how a child run parks the root run while everything waits; None if it cannot.

        It can only if the child run will be found again: it has an id of its own, was not started
        by a hook, and is not in another thread.
        """
        is_found = bool(request.run_id) and not self.is_hooks and self.is_near
        return self.context.supervisor.parking if is_found else None

    def log(self, event: Event) -> None:
        """Log *event* in that run. Ignores a lost log or a closed loop; that run handles those."""
        emit = self.context.recorder.emit
        with contextlib.suppress(JournalError, RuntimeError):
            if self.is_near:
                emit(event)
            else:
                self.loop.call_soon_threadsafe(emit, event)

    def show(self, event: Event) -> None:
        """Pass *event* of a child run to watchers of that run. Never raises, never waits."""
        tell = self.context.recorder.notify_child_runs
        if self.is_near:
            tell(event)
        else:
            # Its loop may have closed.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(tell, event)

    def distrust(self, origin: TaintOrigin) -> None:
        """Mark that run as tainted by untrusted content from here."""
        context = self.context
        # At once, because the result of the call whose body this is must be untrusted too.
        if context.toolbox is not None:
            context.toolbox.distrust(origin)
        if context.state.taint is None:
            self.log(Tainted(origin=origin))

    def note_effect(self, effect: Effect) -> None:
        """Add the effect of a child run to the tool call whose body started it."""
        if effect is not Effect.NONE and self.context.toolbox is not None:
            self.context.toolbox.note_effect(effect)

    def follow(
        self,
        interrupt: Callable[[Interrupt], None],
        writes_in_hand: Callable[[], tuple[str, ...]],
    ) -> Callable[[], None]:
        """Call *interrupt* when that run must stop; immediately if it already must.

        Args:
            interrupt: Stops the child run.
            writes_in_hand: Returns the writes under way in the child run.

        Returns:
            A function that ends the subscription.
        """
        own = asyncio.get_running_loop()

        def in_own_loop(asked: Interrupt) -> None:
            # The child run's loop may have ended.
            with contextlib.suppress(RuntimeError):
                own.call_soon_threadsafe(interrupt, asked)

        handle_parent_signal = interrupt if self.is_near else in_own_loop

        def look() -> None:
            if (asked := self.context.look_for_interrupt()) is not None:
                handle_parent_signal(asked)

        # The call and the step of this run, or of an outer one, that wait for the child run.
        within = (running_call.get(), body_of(self.context.info.run_id))
        leave = self.context.supervisor.admit(
            ChildRun(handle_parent_signal, writes_in_hand, within)
        )
        if self.context.recorder.held is not None:
            handle_parent_signal(HOLD)
        if self.is_near:
            look()
        else:
            # Its host belongs to its own loop, which may have closed.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(look)
        return leave


current_run: ContextVar[ParentLink | None] = ContextVar("upshot_run", default=None)


stand_ins: ContextVar[Callable[..., StandIn] | None] = ContextVar("upshot_stand_ins", default=None)
"""Makes what answers the tool calls of each run that starts here, in place of their bodies. Such
runs call no observers and no committers either."""


class ChildKeys:
    """Makes keys for the child runs of one attempt: from agent, request and a count of equals.

    An engine that runs again from the top makes the same requests, though not always in order:
    work that runs in parallel is ordered differently each time.

    Args:
        attempt: The number of the attempt, from 1.
        step: The key of the step whose body starts them, "" for none.
    """

    def __init__(self, attempt: int, step: str = "") -> None:
        self._within = f"\n{attempt}\n{len(step)}\n{step}\n"
        self._asked: Counter[bytes] = Counter()

    def key(self, agent_id: str, request: Request) -> str:
        """Return the key of the next child run with this agent and request.

        It starts with a newline, which keys given by users do not.

        Args:
            agent_id: The agent.
            request: The request with its secrets masked, because the key must not reveal them.
        """
        seed = f"{self._within}{agent_id}\n".encode(errors="surrogatepass")
        digest = hashlib.sha256(seed + encode(request)).digest()
        self._asked[digest] += 1
        return f"\n{digest.hex()}\n{self._asked[digest]}"


class CurrentStep:
    """The running body of a step. It may run again when the run is resumed.

    Args:
        run_id: The run of the step.
        attempt: The attempt of the engine.
        key: The key of the step.
        is_single: Whether it may not run again.

    Attributes:
        run_id: As given.
        key: As given.
        is_single: As given.
        outer: The step body that this one runs in, None for none.
        questions: How many questions without a key it has asked.
    """

    __slots__ = ("_attempt", "_places", "is_single", "key", "outer", "questions", "run_id")

    def __init__(self, run_id: str, attempt: int, key: str, *, is_single: bool) -> None:
        self.run_id: Final = run_id
        self.key: Final = key
        self.is_single: Final = is_single
        self.outer: Final = current_body.get()
        self.questions: int = 0
        self._attempt = attempt
        self._places: ChildKeys | None = None

    @property
    def places(self) -> ChildKeys:
        """Makes keys for the child runs that it starts without one."""
        if self._places is None:
            self._places = ChildKeys(self._attempt, self.key)
        return self._places


current_body: ContextVar[CurrentStep | None] = ContextVar("upshot_body", default=None)
"""The innermost step body of this task. It may belong to a run around the current one."""


def body_of(run_id: str) -> CurrentStep | None:
    """Return the current step body if it belongs to this run, else None."""
    body = current_body.get()
    return body if body is not None and body.run_id == run_id else None


class RunContext:
    """The parts of one session, made once.

    Args:
        plan: What to run, and with what.
        past: The state folded from earlier sessions; None for a new run.
        epoch: The epoch under which the log was claimed; None without a log.
        recording: Replaces models, tools and users in a replay; None for a real run.

    Attributes:
        plan: As given.
        recording: As given.
        parent: The run that started this one, None for a root run.
        info: The identity of the run.
        depth: The nesting depth, 0 for a root run.
        state: The fold of the log up to the last event; its board is the engine's.
        redaction: Masks secrets in log and result; None without secrets.
        recorder: Stamps, logs and publishes every event.
        budget: What the run has used, and its limits.
        supervisor: Runs and ends the engine's task.
        facts: What deciders reported: the result's ``state``.
        interrupt: The first request to stop, None without one.
        on_interrupt: Called with that request, while the run is under way.
        look_for_interrupt: Returns the host's request to stop, if any; skips async host methods.
        cut: Texts of replies that streamed until the run was stopped.
        provider: The provider that replied last, "" before the first reply.
        acts: The writes that a policy judged in the whole tree of the root run: for each act, the
            places where it was made, each starting with its run id.
        guardrails: The checks of the request; None if there are none, or all have passed.
        prompt: The prompt file that the instructions come from; None for none.
        toolbox: The run's tools, None until first needed.
        dependencies: The object given to tools and engine; None until a factory has made it.
        opened: The contexts which that factory opened, closed when the session ends; None before.
        release: Why the run will be left to another session, None if it will not.
        is_left: Whether it was left.
        is_taken_over: Whether another session has claimed the run.
        end_grace: Ends the grace period of steps under way.
        lost_before: How many model calls of earlier sessions got no reply.
        digester: Makes the digests of requests, None until needed.
    """

    release: RunReleased | None = None
    is_left: bool = False
    is_taken_over: bool = False
    end_grace: Callable[[], None] | None = None
    lost_before: int = 0
    digester: RequestDigester | None = None
    opened: contextlib.AsyncExitStack | None = None
    interrupt: Interrupt | None = None
    on_interrupt: Callable[[Interrupt], None] | None = None
    provider: str = ""
    guardrails: Guardrails | None = None
    prompt: Prompt | None = None
    toolbox: Toolbox | None = None
    _handoffs: Handoffs | None = None

    def __init__(
        self, plan: Plan, past: RunState | None, epoch: int | None, recording: Recording | None
    ) -> None:
        request, clock, budget, parent = plan.request, plan.clock, plan.budget, current_run.get()
        outer, started = parent and parent.context, past and past.started
        self.plan: Final = plan
        self.recording: Final = recording
        self.parent: Final = parent
        self.info: Final = RunInfo(
            agent_id=plan.agent.id,
            run_id=plan.run_id,
            task_id=request.task_id,
            context_id=request.context_id,
            # A copy, because hooks and tools may change what they get.
            attributes=deepcopy(plan.attributes) if plan.attributes else {},
            resumed=past is not None,
        )
        depth = 0 if outer is None else outer.depth + 1
        self.depth: int = depth if started is None else started.depth
        self.redaction: Final = _make_redaction(plan, started) if plan.secrets else None
        self.state: Final = RunState() if past is None else past
        self.state.is_live = True
        self.state.show = None if self.redaction is None else self.redaction.show
        self.recorder: Final = Recorder(
            plan.run_id,
            clock=clock,
            state=self.state,
            journal=plan.journal,
            epoch=epoch,
            redaction=self.redaction,
        )
        if parent is not None and outer is not None and outer.recorder.is_watched_inside:
            self.recorder.watch(parent.show, inside=True)
        self.budget: Final = RunBudget(
            budget,
            clock=clock,
            parent=None if outer is None else outer.budget,
            spent_s=self.state.time.spent_until(clock.now()) if past is not None else 0.0,
        )
        if recording is not None:
            recording.budget = self.budget
        own_time = None if budget.working_s is None else self.budget.working
        self.supervisor: Final = TaskSupervisor(
            clock, self.budget.deadline, working=own_time, write_grace_s=plan.write_grace_s
        )
        self.supervisor.parking = None if parent is None else parent.parking_for(request)
        if started is None and plan.resume_from is not None:
            self.state.started_at = plan.resume_from.original_started_at
        first = self.state.started_at
        # Milliseconds from the start of the run to the start of this session.
        earlier_s = 0.0 if first is None else (clock.now() - first).total_seconds()
        self._earlier_ms = round(earlier_s * 1000)
        self._monotonic, self._started_monotonic = clock.monotonic, clock.monotonic()
        self.facts: JsonObject = dict(self.state.state)
        self.look_for_interrupt: Callable[[], Interrupt | None] = _no_interrupt
        self.cut: list[str] = []
        self.dependencies: object = plan.dependencies
        self.acts: Final[dict[str, set[str]]] = {} if outer is None else outer.acts
        for act, places in () if past is None else acts_in(past).items():
            self.acts.setdefault(act, set()).update(places)

    @property
    def handoffs(self) -> Handoffs:
        """The handoffs that the run may make."""
        if self._handoffs is None:
            self._handoffs = Handoffs(
                self.plan.handoffs, self.info, self.recorder, self.dependencies
            )
        return self._handoffs

    def link(self, *, is_hooks: bool = False, child: StartChild | None = None) -> ParentLink:
        """Return the link that runs started inside this one inherit."""
        return ParentLink(self, asyncio.get_running_loop(), is_hooks, child)

    def duration_ms(self) -> int:
        """Return the milliseconds since the run started, including the time between sessions."""
        return max(
            0, self._earlier_ms + round((self._monotonic() - self._started_monotonic) * 1000)
        )

    def ask_to_stop(self, interrupt: Interrupt) -> None:
        """Request that the run stop. Only the first request counts."""
        if self.interrupt is None:
            self.interrupt = interrupt
            if self.on_interrupt is not None:
                self.on_interrupt(interrupt)

    def distrust(self, origin: TaintOrigin) -> None:
        """Log that the run's messages contain untrusted content, and tell its tools.

        Args:
            origin: Where the content came from, as seen from this run.
        """
        if self.toolbox is not None:
            self.toolbox.distrust(origin)
        if self.state.taint is None:
            self.recorder.emit(Tainted(origin=origin))

    def change_board(self, event: BoardChanged) -> None:
        """Log a change of the board. Its messages may be untrusted, coming from another run."""
        if self.state.taint is None and any_untrusted(event.messages):
            self.distrust(EARLIER)
        self.recorder.emit(event)

    def close(self) -> None:
        """Break reference cycles, so that nothing is left to the garbage collector."""
        self.on_interrupt, self.look_for_interrupt = None, _no_interrupt
        self.budget.look_elsewhere = None
        self.supervisor.close()
        self.toolbox = None
        self.state.board.watch(None)


def _no_interrupt() -> Interrupt | None:
    return None


def _make_redaction(plan: Plan, started: RunStarted | None) -> Redaction:
    name = plan.secret_marks if started is None else marks_for(plan.secrets, started)
    # Two secrets never share a mark within one log.
    return Redaction(plan.secrets, name=name or name_marks())


def inherit_taint(context: RunContext) -> None:
    """Taint the run if its parent is tainted, because the request may contain untrusted text, or
    if its tools have descriptions from untrusted sources.
    """
    if context.parent is not None:
        outer = context.parent.context
        if (taint := outer.state.taint) is not None:
            context.distrust(taint.seen_from(outer.info.run_id))
    tools = context.plan.tools
    if tools and (taint := catalog_of(tools).taint) is not None:
        context.distrust(taint)
