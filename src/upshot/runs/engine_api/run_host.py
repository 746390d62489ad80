"""RunHost: events, interrupts, steps, usage for an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from upshot.contract.base.enums import Effect, ErrorCode, InterruptCause, Origin
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, check_types
from upshot.contract.base.words import clean
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    CheckpointSaved,
    Committed,
    Decided,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RunResumed,
    RunSettled,
    RunStarted,
    Tainted,
    ToolSettled,
    ToolStarted,
    UsageReported,
)
from upshot.contract.message import Unknown
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    counted,
)
from upshot.contract.pending import PendingExternal, PendingQuestion
from upshot.contract.run_control import Checkpoint, Interrupt
from upshot.contract.usage import Usage
from upshot.errors import Misuse
from upshot.runs.callbacks import (
    Wait,
    answer_at_once,
    attribute,
    call,
    is_async,
    kind_of,
    method,
    raised,
)
from upshot.runs.engine_api.exceptions import Failed, Interrupted, Parked
from upshot.runs.engine_api.questions import Questions
from upshot.runs.engine_api.run_view import Run
from upshot.runs.engine_api.steps import SharedWork, Steps
from upshot.runs.recorder import Recorder, Subscriber
from upshot.runs.run_context import RunContext
from upshot.state.child_runs import child_of


def interrupt_of(asked: object) -> Interrupt:
    """What somebody's host gave for the wish that a run stop, in our words.

    Args:
        asked: An Interrupt or an Interrupted; a text, which is the cause; True, for no cause; a
            mapping, or an object with ``cause`` or ``detail``.

    Raises:
        TypeError: It is anything else, such as an event or a queue.
    """
    if isinstance(asked, Interrupt):
        return asked
    if isinstance(asked, Interrupted):
        return asked.interrupt
    if isinstance(asked, str):
        return Interrupt(asked)
    if not _is_request(asked):
        kind = type(asked).__name__
        raise TypeError(f"{kind} is not a request to stop: give an Interrupt, a text or True")
    return Interrupt(InterruptCause(_text_of(asked, "cause")), _text_of(asked, "detail"))


def _is_request(asked: object) -> bool:
    if asked is True or isinstance(asked, Mapping):
        return True
    return hasattr(asked, "cause") or hasattr(asked, "detail")


def _text_of(asked: object, name: str) -> str:
    if isinstance(asked, Mapping):
        found = cast("Mapping[object, Any]", asked).get(name)
    else:
        found = getattr(asked, name, None)
    if isinstance(found, Enum):
        found = found.value
    return "" if found is None else str(found)


class StopRequest:
    """``await host.interrupts()`` asks whether the run shall stop; ``if host.interrupts:`` looks.

    Looking asks nobody who has to be waited for, such as an async method of the user's host.

    Args:
        look: Gives the wish that is known now, None for none.
        ask: Asks the user's host too.
    """

    def __init__(
        self,
        look: Callable[[], Interrupt | None],
        ask: Callable[[], Awaitable[Interrupt | None]],
    ) -> None:
        self._look = look
        self._ask = ask

    def __call__(self) -> Awaitable[Interrupt | None]:
        """Ask for the wish, None for none."""
        return self._ask()

    def __await__(self) -> Generator[object, None, Interrupt | None]:
        return self._ask().__await__()

    def __bool__(self) -> bool:
        return self._look() is not None

    @property
    def cause(self) -> InterruptCause:
        """Why the run shall stop, "" where it shall not."""
        wish = self._look()
        return InterruptCause.NONE if wish is None else wish.cause

    @property
    def detail(self) -> str:
        """What was said about it, "" for nothing."""
        wish = self._look()
        return "" if wish is None else wish.detail


# The frame of a run's log, which is folded to resume, and what the run itself tells of a board, of
# its deciders, of people and of reported usage: from an engine the log would say what never was.
_OURS = (
    *(RunStarted, RunResumed, AttemptStarted, AttemptEnded, Committed, RunSettled),
    *(BoardChanged, Decided, Tainted, UsageReported),
    *(ApprovalRequested, ApprovalAnswered, QuestionAsked, QuestionAnswered),
)
# What a foreign engine may tell of its own calls; the log has those that the run made.
_TOLD = (ModelStarted, ModelRetried, ModelReplied, ToolStarted, ToolSettled, ArtifactStored)
# A log that holds another kind cannot be gone on with, nor its result be read.
_KNOWN = frozenset[type](get_args(Event)) - {Unknown}


class RunHost:
    """The host that an engine gets: never fails a run, logs what must be durable.

    What it does not have itself is that of the user's host, so that an engine that was written for
    a host reaches its other methods and attributes. They are called as they are: a raise is the
    engine's, and nothing is logged.

    Args:
        context: Of the run; the user's host in its plan is any object with some of the methods of
            ``Host``.
        run: What the engine sees of it.

    Attributes:
        overrun: The limit that the engine went on beyond by ways of its own, None for none.
    """

    overrun: AgentError | None = None
    _running: SharedWork[Json] | None = None
    _audience: Subscriber | None = None
    _usage: Subscriber | None = None
    # What was warned of already: a host that is asked often shall not warn as often.
    _told: frozenset[tuple[str, str]] = frozenset()

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._user = context.plan.host
        self._recorder: Recorder = context.recorder
        if self._user is None:
            return
        self._audience = self._audience_of("publish")
        self._usage = self._audience_of("report_usage")
        if self._audience is not None:
            self._recorder.watch(self._audience.tell)

    if not TYPE_CHECKING:  # A mistyped name is still found where the class is known.

        def __getattr__(self, name: str) -> Any:
            user = None if name.startswith("_") else self._user
            if user is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(user, name)

    @cached_property
    def _reports(self) -> dict[int, int]:
        """How many reports of usage each attempt has had."""
        return {}

    @cached_property
    def _answers(self) -> dict[str, Json]:
        """What is known, by question id."""
        recording = self._context.recording
        state = self._context.state if recording is None else recording.past
        return state.answers_given

    @cached_property
    def _asking(self) -> Questions:
        return Questions(self._context, self._answers)

    @cached_property
    def _steps(self) -> Steps:
        """What came of keyed steps in earlier sessions, or in the run that is replayed."""
        recording = self._context.recording
        return Steps(self._context.state) if recording is None else recording.steps

    @property
    def questions(self) -> list[PendingQuestion]:
        """Those that were asked in this attempt and that nobody could answer."""
        return self._asking.open

    def publish(self, event: Event) -> Awaitable[None]:
        """Log an event of the engine's own and tell watchers; never fails a run.

        Model and tool calls that the engine made by ways of its own are told and not logged: what
        counts comes through ``run.call_model``, ``run.tools`` and ``report_usage``.

        Returns:
            Nothing to wait for; it may be awaited or not.
        """
        if isinstance(event, _OURS) or child_of(str(getattr(event, "key", ""))) is not None:
            message = f"an engine cannot publish {event.kind}: the run itself does"
            self._recorder.warn(
                RunWarning(code="event_refused", message=message, origin=Origin.ENGINE)
            )
        elif isinstance(event, _TOLD):
            self._recorder.show(msgspec.structs.replace(event, part=0))
        elif type(event) in _KNOWN:
            self._publish_known(event)
        else:
            self._refuse(event)
        return _Done()

    def _publish_known(self, event: Event) -> None:
        """Log a durable event, unless a field of it has another type and could not be read."""
        try:
            check_types(event)
        except Misuse as error:
            self._recorder.warn(
                RunWarning(code="event_refused", message=str(error), origin=Origin.ENGINE)
            )
            return
        # A copy, for it is stamped, and the engine may publish the same one twice.
        self._recorder.emit(msgspec.structs.replace(event, part=0))

    def _refuse(self, event: object) -> None:
        """Tell that what was published is no event, once for each kind of it."""
        kind = type(event).__name__
        if self._is_news("publish", f"a {kind}"):
            message = (
                f"host.publish was given a value of type {kind}, which is not an event: give one "
                "of upshot's, such as TextDelta(text=...) or StepStarted(key=...)"
            )
            self._recorder.warn(
                RunWarning(code="event_refused", message=message, origin=Origin.ENGINE)
            )

    @property
    def interrupts(self) -> StopRequest:
        """Whether the run shall stop: ``await host.interrupts()`` gives why, None for not.

        ``if host.interrupts:`` only looks, and asks no async method of the user's host.
        """
        return StopRequest(self.look, self._ask_interrupt)

    async def _ask_interrupt(self) -> Interrupt | None:
        if self._context.interrupt is None and self._user is not None:
            asked = attribute(self._user, "interrupts")
            if callable(asked):
                asked = await self._ask("interrupts")
            self._read_interrupt(asked)
        if self._context.parent is not None:
            self._follow_parent()
        return self._context.interrupt

    def look(self) -> Interrupt | None:
        """Why the run shall stop, or its parent; None for not. Asks no async method."""
        if self._context.interrupt is None and self._user is not None:
            asked = attribute(self._user, "interrupts")
            if callable(asked):
                try:
                    # An async method cannot be asked here; the next await of host.interrupts()
                    # asks it.
                    asked = None if is_async(asked) else answer_at_once(asked)
                except Exception as error:
                    # A host looks after a run; it never fails it.
                    self._warn("interrupts", error)
                    asked = None
            self._read_interrupt(asked)
        if self._context.parent is not None:
            self._follow_parent()
        return self._context.interrupt

    def writes_in_hand(self) -> tuple[str, ...]:
        """What is being written here and in child runs, in words; may be asked in any thread.

        A tool or a step in whose body a child run works writes nothing itself meanwhile.
        """
        from upshot.state.activity import step_title

        inside = self._context.supervisor.inside_runs
        busy = {id(body) for run in inside for body in run.within}
        tools, steps = self._context.toolbox, vars(self).get("_steps")
        calls = {} if tools is None else tools.writes_in_hand()
        found = [words for call, words in calls.items() if id(call) not in busy]
        if steps is not None:
            found += [
                f"the step {clean(step_title(key), 60)}"
                for key, body in list(steps.writes_in_hand.items())
                if id(body) not in busy
            ]
        return (*found, *(words for run in inside for words in run.writes_in_hand()))

    def _follow_parent(self) -> None:
        """Stop where the parent run shall."""
        context = self._context
        parent = context.parent
        # Only in the same event loop: this may call the parent's host.
        if context.interrupt is None and parent is not None and parent.is_near:
            asked = parent.context.look_for_interrupt()
            if asked is not None:
                context.ask_to_stop(asked)

    def _read_interrupt(self, asked: object) -> None:
        try:
            if asked:
                self._context.ask_to_stop(interrupt_of(asked))
        except Exception as error:
            # A host looks after a run; what cannot be read of it is no request.
            self._warn("interrupts", error)

    async def ask_user(
        self, question: str, *, choices: tuple[str, ...] = (), key: str | None = None
    ) -> Json:
        """Ask a person.

        Args:
            question: What is asked.
            choices: What may be answered; empty for anything. Another answer of the user's host
                is no answer, and ``resume`` refuses it.
            key: Names the question, unique in the run, so that its answer is found in every
                session and attempt whatever else is asked; it is the ``id`` of an ``Answer``.
                None numbers the questions of an attempt, which is right for an engine that asks
                them in the same order again.

        Returns:
            The answer, from the log where an earlier session has it.

        Raises:
            Parked: Nobody can answer now.
        """
        return await self._asking.ask(question, choices, key, self._warn)

    async def wait_for(
        self, id: str, description: str = "", *, expires_at: datetime | None = None
    ) -> Json:
        """Wait for a result that somebody else delivers, such as a webhook or another system.

        Args:
            id: Names it, unique in the run; it is the ``id`` of the ``Answer`` that ``resume`` is
                given.
            description: What is waited for, for people.
            expires_at: After this moment, aware, it is no longer waited for; None is never.

        Returns:
            What was delivered.

        Raises:
            Parked: It is not there yet; let it through.
            Failed: It did not come in time, code timeout.
        """
        if id in self._answers:
            return self._answers[id]
        now, asked = self._recorder.now(), self._context.state.waits.get(id)
        # The wait began when the first session asked; a later one does not begin it anew.
        pending = PendingExternal(
            id=id,
            description=description,
            asked_at=now if asked is None else asked.asked_at,
            expires_at=expires_at,
        )
        if expires_at is not None and now >= expires_at:
            raise Failed(ErrorCode.TIMEOUT, f"the result {id!r} did not come in time")
        self._recorder.emit(QuestionAsked(pending=pending))
        raise Parked(pending)

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the user's host takes checkpoints; an engine need not make them else."""
        return self._user is not None and method(self._user, "checkpoint") is not None

    def is_settled(self, key: str) -> bool:
        """Whether the log has what came of a step."""
        return key in self._steps.settled

    async def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Name this point of the log; the user's host gets the whole checkpoint.

        What it does not say is filled in: when it was taken, when the run began, the agent, and the
        attributes of the run. Its payload is as the engine gave it; the log has it as JSON.

        Raises:
            Misuse: It is no Checkpoint, or its payload or attributes have no JSON form.
        """
        if not isinstance(checkpoint, Checkpoint):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            kind = type(checkpoint).__name__
            raise Misuse(
                f"host.checkpoint was given a value of type {kind}: give a "
                "Checkpoint(run.id, step, board.snapshot())"
            )
        saved = self._in_json(checkpoint)
        # Logged first: a host that fails to keep the checkpoint does not lose the point.
        self._recorder.emit(
            CheckpointSaved(step=saved.step, iteration=saved.iteration, payload=saved.payload)
        )
        if self.keeps_checkpoints:
            given = msgspec.structs.replace(saved, payload=checkpoint.payload)
            await self._ask("checkpoint", self._completed(given))

    def _in_json(self, point: Checkpoint) -> Checkpoint:
        """*point* with what JSON holds of its payload and attributes; a warning tells what is lost.

        Raises:
            Misuse: One of them has no JSON form.
        """
        name = f"checkpoint {point.step!r}"
        try:
            payload, lossy = to_free_json(point.payload)
            attributes, also_lossy = to_free_json(dict(point.attributes or {}))
        except UnserializableError as error:
            raise Misuse(f"{name} cannot be saved: {error}") from error
        self._recorder.warn_of_losses(name, (*lossy, *also_lossy))
        return msgspec.structs.replace(point, payload=payload, attributes=attributes)

    def _completed(self, point: Checkpoint) -> Checkpoint:
        return msgspec.structs.replace(
            point,
            attributes=point.attributes or dict(self._run.attributes),
            timestamp=point.timestamp or self._context.plan.clock.now(),
            original_started_at=point.original_started_at or self._run.started_at,
            agent_id=point.agent_id or self._context.info.agent_id,
        )

    def report_usage(self, delta: ModelResponse | Usage) -> Awaitable[None]:
        """Add what a foreign engine used; who uses more after its budget is spent is ended.

        Args:
            delta: What came of a model call, or only what it used.

        Returns:
            Nothing to wait for; it may be awaited or not.

        Raises:
            Misuse: It is neither, or a field of it has the wrong type.
        """
        if isinstance(delta, Usage):
            delta = ModelResponse(usage=delta)
        elif not isinstance(delta, ModelResponse):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"report_usage got a {type(delta).__name__}: give a Usage")
        check_types(delta)
        check_types(delta.usage)
        if self._log_usage(delta):
            self._count_usage(delta)
            self._recorder.report(delta)
        return _Done()

    def _log_usage(self, response: ModelResponse) -> bool:
        """Log what an engine used, unless an earlier session has logged this report of it."""
        state, attempt = self._context.state, self._recorder.attempt
        # With the call itself: later sessions count what stands there, and nothing else.
        usage = counted(response).usage
        logged = {event.number: event.response for event in state.reported[state.reported_before :]}
        while True:
            number = self._reports[attempt] = self._reports.get(attempt, 0) + 1
            known = logged.get(number)
            if known is None:
                kept = ModelResponse(
                    usage=usage,
                    cost=response.cost,
                    finish_reason=response.finish_reason,
                    rate_limit=response.rate_limit,
                    provider_data=response.provider_data,
                    error=response.error,
                )
                self._recorder.emit(UsageReported(number=number, response=kept))
                return True
            # Called again from its top, an engine reports the same again; any other report is a
            # new one.
            if self._run.is_again and (known.usage, known.cost) == (usage, response.cost):
                return False

    def _count_usage(self, response: ModelResponse) -> None:
        """Count what an engine used by ways of its own; the second time beyond a limit ends it."""
        context = self._context
        # Before it is counted: a call may pass the limit, only the one after it ends the run.
        spent = context.budget.spent_by_children()
        context.budget.add(response)
        if spent is not None and not context.supervisor.stop and not context.supervisor.is_final:
            self.overrun = spent
            context.supervisor.end("budget")

    def usage_listener(self) -> Callable[[Usage], None] | None:
        """What the user's host is told by what each model call used, from any thread; None for
        a host that does not ask for it.
        """
        told = self._usage
        return None if told is None else partial(_tell_in, asyncio.get_running_loop(), told.tell)

    async def hear_out(self, wait: Wait) -> None:
        """Wait until the user's host has taken all that it was told so far, and warn of what it
        raised; no longer than the run has patience.
        """
        for name, audience in (("publish", self._audience), ("report_usage", self._usage)):
            if audience is None or not audience.is_busy:
                continue
            try:
                await wait(audience.drain())
            except TimeoutError as error:
                self._warn(name, error)
                # What it does not take now it will not take later either.
                audience.close()

    async def drain(self, wait: Wait) -> None:
        """Have the user's host take what is left; what it does not take is dropped."""
        try:
            await self.hear_out(wait)
        finally:
            for audience in filter(None, (self._audience, self._usage)):
                audience.close()

    async def once(
        self,
        key: str,
        effect: Effect | str,
        body: Callable[[], Awaitable[Any] | Any],
        *,
        idempotent: bool = False,
    ) -> Json:
        """Run *body* now, or hand back what the log says came of it.

        It goes on while anybody waits for it, in a task of its own.

        Args:
            key: Unique in the run, not empty.
            effect: "read", "write" or "destructive".
            body: Sync or async; gives a JSON value. One that asks a person and parks is called
                again from its top once people have answered.
            idempotent: Whether it may run again where nobody knows what came of it.

        Returns:
            The value, now or from the log.

        Raises:
            Exception: What the body raises, now and each time that the key is asked for again. In a
                later session, which has only the log, it is a Failed that is caught as the same
                built-in error too (``except ValueError``); of a class of your own ``error.type``
                has the name and ``error.details["module"]`` its module.
            Failed: It began in an earlier session and what came of it is unknown.
            Misuse: The key is no text or empty, or the effect is none.
        """
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]  # scripts may be untyped
            raise Misuse(f"host.once was given the key {key!r}: give a text, unique in the run")
        known = self._steps.settled.get(key)
        if known is not None:
            return self._steps.recall(known)
        word, recorder = Effect(effect), self._recorder
        if self._running is None:
            self._running = SharedWork()

        async def work() -> Json:
            who = f"the step {key!r}"
            return await self._steps.do(key, word, body, recorder, idempotent=idempotent, who=who)

        # Of two tasks that ask for one key, the second waits for the body of the first.
        return await self._running.do(key, work)

    async def step(
        self,
        key: str,
        effect: Effect,
        body: Callable[[], Awaitable[Any] | Any],
        *,
        idempotent: bool = False,
    ) -> Json:
        """Do what ``once`` does, for an engine whose keys nobody else uses.

        It is done in the caller's own task, which costs half as much and ends with the caller.
        """
        known = self._steps.settled.get(key)
        if known is not None:
            return self._steps.hand_back(known)
        return await self._steps.do(key, effect, body, self._recorder, idempotent=idempotent)

    async def _ask(self, name: str, *arguments: object) -> Any:
        """Call a method of the user's host, if it has it; one that raises is a warning."""
        asked = method(self._user, name)
        if asked is None:
            return None
        try:
            return await call(asked, *arguments)
        except Exception as error:
            # A host looks after a run; it never fails it.
            self._warn(name, error)
            return None

    def _audience_of(self, name: str) -> Subscriber | None:
        told = method(self._user, name)
        return None if told is None else Subscriber(told, lambda error: self._warn(name, error))

    def _warn(self, name: str, error: BaseException) -> None:
        """Tell what the user's host raised, once for each of its methods and kinds of error."""
        if self._is_news(name, kind_of(error)):
            message = raised(f"host.{name}", error)
            self._recorder.warn(RunWarning(code="host_failed", message=message, origin=Origin.HOST))

    def _is_news(self, name: str, kind: str) -> bool:
        is_news = (name, kind) not in self._told
        self._told |= {(name, kind)}
        return is_news


class _Done:
    """Nothing to wait for."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _tell_in(loop: asyncio.AbstractEventLoop, tell: Callable[[Usage], None], usage: Usage) -> None:
    """Tell in *loop*, though a run inside may live in the loop of another thread."""
    # A loop that is closed has nobody left to be told.
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            tell(usage)
        else:
            loop.call_soon_threadsafe(tell, usage)
