"""RunContext: what all parts of a session share; the run and the step in which code runs.

What has no key of its own is found again by its number: the second question, the third reply. The
body of a step is not run again once that is settled, so each counts for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, Final

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
    from upshot.runs.replay.recording import Recording
    from upshot.runs.waits import Parking

HOLD = Interrupt("hold")
"""Tells a child run to begin nothing any more, since its parent is left to another session."""
CUT = Interrupt("cut")
"""Tells it to end without a word, and to go on there."""


class ParentLink(msgspec.Struct, frozen=True, eq=False):
    """The run that surrounds whatever is started here; it may live in another thread's loop.

    Attributes:
        context: Of that run.
        loop: The event loop in which it lives.
        is_hooks: Whether its hooks start things here, and not its engine.
    """

    context: RunContext
    loop: asyncio.AbstractEventLoop
    is_hooks: bool = False

    @property
    def is_near(self) -> bool:
        """Whether that run lives in the event loop that runs now."""
        return self.loop is asyncio.get_running_loop()

    def parking_for(self, request: Request) -> Parking | None:
        """What leaves the root run where all waits, for a child run that will be found again.

        That has an id of its own, and neither is a hook's nor lives in another thread.
        """
        is_found = bool(request.run_id) and not self.is_hooks and self.is_near
        return self.context.supervisor.parking if is_found else None

    def tell(self, event: Event) -> None:
        """Log *event* in that run; a lost log or a closed loop is that run's own concern."""
        emit = self.context.recorder.emit
        with contextlib.suppress(JournalError, RuntimeError):
            if self.is_near:
                emit(event)
            else:
                self.loop.call_soon_threadsafe(emit, event)

    def show(self, event: Event) -> None:
        """Show *event* of a child run to who watches that run; never raises and never waits."""
        tell = self.context.recorder.tell_inside
        if self.is_near:
            tell(event)
        else:
            # Its loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(tell, event)

    def distrust(self, origin: TaintOrigin) -> None:
        """Tell that run that untrusted content has reached it from here."""
        context = self.context
        # At once, for the call in whose body this is: its result is untrusted too.
        if context.toolbox is not None:
            context.toolbox.distrust(origin)
        if context.state.taint is None:
            self.tell(Tainted(origin=origin))

    def note_effect(self, effect: Effect) -> None:
        """Tell the call in whose body this is what a run that it started did."""
        if effect is not Effect.NONE and self.context.toolbox is not None:
            self.context.toolbox.note_effect(effect)

    def follow(
        self,
        interrupt: Callable[[Interrupt], None],
        writes_in_hand: Callable[[], tuple[str, ...]],
    ) -> Callable[[], None]:
        """Have *interrupt* called when that run shall stop, at once if it shall already.

        Args:
            interrupt: Stops the child run.
            writes_in_hand: What is being written there.

        Returns:
            Ends that.
        """
        own = asyncio.get_running_loop()

        def in_own_loop(asked: Interrupt) -> None:
            # The loop of the child run may have ended by now.
            with contextlib.suppress(RuntimeError):
                own.call_soon_threadsafe(interrupt, asked)

        hear = interrupt if self.is_near else in_own_loop

        def look() -> None:
            if (asked := self.context.look_for_interrupt()) is not None:
                hear(asked)

        # Bodies of this run or of one round it, in which the child run is waited for.
        within = (running_call.get(), body_of(self.context.info.run_id))
        leave = self.context.supervisor.admit(ChildRun(hear, writes_in_hand, within))
        if self.context.recorder.held is not None:
            hear(HOLD)
        if self.is_near:
            look()
        else:
            # Its host belongs to its own loop, which may be gone by now.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(look)
        return leave


current_run: ContextVar[ParentLink | None] = ContextVar("upshot_run", default=None)


class ChildKeys:
    """Tells the children of one attempt apart by whom they ask what, and how often before.

    An engine that is called again from its top asks the same again, and not always in the same
    order, for what it does side by side has an order of its own each time.

    Args:
        attempt: Which pass of the engine this is, from 1.
        step: The key of the step in whose body they are, "" for none.
    """

    def __init__(self, attempt: int, step: str = "") -> None:
        self._within = f"\n{attempt}\n{len(step)}\n{step}\n"
        self._asked: Counter[bytes] = Counter()

    def key(self, agent_id: str, request: Request) -> str:
        """The key of the next child that asks an agent something; no user's begins like it.

        Args:
            agent_id: Whom it asks.
            request: What it asks, without secrets: the key must not tell of them.
        """
        said = f"{self._within}{agent_id}\n".encode(errors="surrogatepass")
        digest = hashlib.sha256(said + encode(request)).digest()
        self._asked[digest] += 1
        return f"\n{digest.hex()}\n{self._asked[digest]}"


class CurrentStep:
    """The body of a step that is being run; it may be run again when the run goes on.

    Args:
        run_id: Whose it is.
        attempt: Of the engine.
        key: Of the step.
        is_single: Whether it may not be run again.

    Attributes:
        run_id: As given.
        key: As given.
        is_single: As given.
        outer: The body in which this one is run, None for none.
        questions: How many it has asked that have no key.
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
        """Tells the children that it starts without a key apart."""
        if self._places is None:
            self._places = ChildKeys(self._attempt, self.key)
        return self._places


current_body: ContextVar[CurrentStep | None] = ContextVar("upshot_body", default=None)
"""The innermost body that this task works in; it may be that of a run around the current one."""


def body_of(run_id: str) -> CurrentStep | None:
    """The body of the run's step in which this is asked, None outside of any."""
    body = current_body.get()
    return body if body is not None and body.run_id == run_id else None


class RunContext:
    """The parts of one session, made once.

    Args:
        plan: What to do.
        past: What earlier sessions logged; None for a new run.
        epoch: Under which the log was claimed, None without a log.
        recording: What stands for the world outside where a run is replayed; None is the world.

    Attributes:
        plan: As given.
        recording: As given.
        parent: The run that started this one, None for a root run.
        info: Whose run it is.
        depth: How deep the run is, 0 for a root run.
        state: What the log says, up to the last event; its board is the engine's.
        redaction: What keeps its secrets out of log and result, None without any.
        recorder: The way of every event.
        budget: What it has used, against its limits.
        supervisor: The task in which its engine works.
        facts: What deciders said, the result's ``state``.
        interrupt: The first request that the run stop, None without one.
        on_interrupt: Told of it, while the run is under way.
        look_for_interrupt: Looks whether the run shall stop; asks no async method of a host.
        cut: Texts of replies that were shown as they came, until the run was stopped.
        provider: Who answered last, "" before the first reply.
        acts: The writes that a policy judged in the tree of its root run: their places, each
            beginning with its run, by what names the act.
        toolbox: Its tools, None until they are first needed.
        dependencies: What its tools and its engine are given, None until a factory has made them.
        opened: What that factory opened, and is left at the end of the session; None before.
        release: Why the run is left to another session, None if it is not.
        is_left: Whether it was.
        is_taken_over: Whether another session has claimed the run.
        end_grace: Ends the time that steps in hand have.
        lost_before: How many models earlier sessions asked in vain.
        digester: Makes the digests of its requests, None until one is needed.
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
    toolbox: Toolbox | None = None
    _handoffs: Handoffs | None = None

    def __init__(
        self, plan: Plan, past: RunState | None, epoch: int | None, recording: Recording | None
    ) -> None:
        request, clock, budget, parent = plan.request, plan.clock, plan.budget, current_run.get()
        outer = None if parent is None else parent.context
        started = None if past is None else past.started
        self.plan: Final = plan
        self.recording: Final = recording
        self.parent: Final = parent
        self.info: Final = RunInfo(
            agent_id=plan.agent.id,
            run_id=plan.run_id,
            task_id=request.task_id,
            context_id=request.context_id,
            # Hooks and tools may change what they are shown.
            attributes=deepcopy(plan.attributes) if plan.attributes else {},
            resumed=past is not None,
        )
        depth = 0 if outer is None else outer.depth + 1
        self.depth: int = depth if started is None else started.depth
        self.redaction: Final = _redaction(plan, started) if plan.secrets else None
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
        # How long ago the run began when this session did.
        self._earlier_ms = 0 if first is None else _milliseconds(clock.now() - first)
        self._monotonic, self._began = clock.monotonic, clock.monotonic()
        self.facts: JsonObject = dict(self.state.state)
        self.look_for_interrupt: Callable[[], Interrupt | None] = _nobody_asks
        self.cut: list[str] = []
        self.dependencies: object = plan.dependencies
        self.acts: Final[dict[str, set[str]]] = {} if outer is None else outer.acts
        for act, places in () if past is None else acts_in(past).items():
            self.acts.setdefault(act, set()).update(places)

    @property
    def handoffs(self) -> Handoffs:
        """Those that the run may make."""
        if self._handoffs is None:
            self._handoffs = Handoffs(
                self.plan.handoffs, self.info, self.recorder, self.dependencies
            )
        return self._handoffs

    def link(self, *, is_hooks: bool = False) -> ParentLink:
        """What runs that are started inside this one inherit."""
        return ParentLink(self, asyncio.get_running_loop(), is_hooks)

    def duration_ms(self) -> int:
        """Milliseconds since the run began, those between its sessions included."""
        return max(0, self._earlier_ms + round((self._monotonic() - self._began) * 1000))

    def ask_to_stop(self, interrupt: Interrupt) -> None:
        """Take the request that the run stop, unless there is one already."""
        if self.interrupt is None:
            self.interrupt = interrupt
            if self.on_interrupt is not None:
                self.on_interrupt(interrupt)

    def distrust(self, origin: TaintOrigin) -> None:
        """Log that untrusted content is among the run's messages, and tell its tools.

        Args:
            origin: Where it came from, as this run has it.
        """
        if self.toolbox is not None:
            self.toolbox.distrust(origin)
        if self.state.taint is None:
            self.recorder.emit(Tainted(origin=origin))

    def change_board(self, event: BoardChanged) -> None:
        """Log a change of the board, whose messages may come from another run."""
        if self.state.taint is None and any_untrusted(event.messages):
            self.distrust(EARLIER)
        self.recorder.emit(event)

    def close(self) -> None:
        """Let go of what leads back here, so that nothing is left to the garbage collector."""
        self.on_interrupt, self.look_for_interrupt = None, _nobody_asks
        self.budget.look_elsewhere = None
        self.supervisor.close()
        self.toolbox = None
        self.state.board.watch(None)


def _milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


def _nobody_asks() -> Interrupt | None:
    return None


def _redaction(plan: Plan, started: RunStarted | None) -> Redaction:
    name = plan.secret_marks if started is None else marks_for(plan.secrets, started)
    # A log never has one mark for two secrets.
    return Redaction(plan.secrets, name=name or name_marks())


def inherit_taint(context: RunContext) -> None:
    """Distrust what the parent run has read, whose words may be in the request, and what untrusted
    sources say of the tools that they offer.
    """
    if context.parent is not None:
        outer = context.parent.context
        if (taint := outer.state.taint) is not None:
            context.distrust(taint.seen_from(outer.info.run_id))
    tools = context.plan.tools
    if tools and (taint := catalog_of(tools).taint) is not None:
        context.distrust(taint)
