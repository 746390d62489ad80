"""RunHost: the engine's access to events, interrupts, questions, steps and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
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
from upshot.contract.pending import Answer, PendingExternal, PendingQuestion
from upshot.contract.run_control import Checkpoint, Interrupt
from upshot.contract.usage import Usage
from upshot.errors import Misuse
from upshot.journal.shared import shared_journal
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
from upshot.state.run_state import RunState, item_of
from upshot.state.signals import EXPIRED, check_signal_name, wait_id


def _late(pending: PendingExternal) -> Failed:
    """Return the failure of a wait whose time is up."""
    what = f"the {'signal' if pending.signal else 'result'} {pending.signal or pending.id!r}"
    return Failed(ErrorCode.TIMEOUT, f"{what} did not come in time")


def interrupt_of(asked: object) -> Interrupt:
    """Convert what a user's host returned for a request to stop to an Interrupt.

    Args:
        asked: An Interrupt or an Interrupted; a string, which is the cause; True, for no cause; a
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
    """``await host.interrupts()`` asks whether the run must stop; ``if host.interrupts:`` looks.

    Looking never waits, so it skips an async method of the user's host.

    Args:
        look: Returns the request that is known now, None for none.
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
        """Ask for the request to stop, None for none."""
        return self._ask()

    def __await__(self) -> Generator[object, None, Interrupt | None]:
        return self._ask().__await__()

    def __bool__(self) -> bool:
        return self._look() is not None

    @property
    def cause(self) -> InterruptCause:
        """Why the run must stop, "" if it need not."""
        interrupt = self._look()
        return InterruptCause.NONE if interrupt is None else interrupt.cause

    @property
    def detail(self) -> str:
        """More about the cause, "" for nothing."""
        interrupt = self._look()
        return "" if interrupt is None else interrupt.detail


# Events that only the run itself logs. If an engine could publish them, the log would say what
# never happened.
_RUN_EVENTS = (
    *(RunStarted, RunResumed, AttemptStarted, AttemptEnded, Committed, RunSettled),
    *(BoardChanged, Decided, Tainted, UsageReported),
    *(ApprovalRequested, ApprovalAnswered, QuestionAsked, QuestionAnswered),
)
# Calls that a foreign engine may show. They are not logged, because the run did not make them.
_SHOWN_ONLY = (ModelStarted, ModelRetried, ModelReplied, ToolStarted, ToolSettled, ArtifactStored)
# A log with an event of another kind could not be resumed, nor its result be read.
_KNOWN = frozenset[type](get_args(Event)) - {Unknown}


class RunHost:
    """The host that an engine gets: never fails a run, logs what must be durable.

    Any other attribute comes from the user's host, so that an engine written for a host can use
    that host's other methods. Those are called directly: an exception reaches the engine, and
    nothing is logged.

    Args:
        context: The run. The user's host in its plan is any object with some of the methods of
            ``Host``.
        run: The engine's view of it.

    Attributes:
        overrun: The limit that the engine exceeded with calls of its own, None for none.
    """

    overrun: AgentError | None = None
    _running: SharedWork[Json] | None = None
    _event_subscriber: Subscriber | None = None
    _usage_subscriber: Subscriber | None = None
    # Warnings already emitted: a host that is called often must not warn as often.
    _warned_of: frozenset[tuple[str, str]] = frozenset()

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._user = context.plan.host
        self._recorder: Recorder = context.recorder
        if self._user is None:
            return
        self._event_subscriber = self._subscriber_for("publish")
        self._usage_subscriber = self._subscriber_for("report_usage")
        if self._event_subscriber is not None:
            self._recorder.watch(self._event_subscriber.notify)

    if not TYPE_CHECKING:  # A mistyped name is still found where the class is known.

        def __getattr__(self, name: str) -> Any:
            user = None if name.startswith("_") else self._user
            if user is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(user, name)

    @cached_property
    def _reports(self) -> dict[int, int]:
        """How many times each attempt has reported usage."""
        return {}

    @cached_property
    def _answers(self) -> dict[str, Json]:
        """The known answers, by question id."""
        return self._past.answers_given

    @property
    def _past(self) -> RunState:
        """The state of the run, or of the one that is replayed."""
        recording = self._context.recording
        return self._context.state if recording is None else recording.past

    @cached_property
    def _questions(self) -> Questions:
        return Questions(self._context, self._answers)

    @cached_property
    def _steps(self) -> Steps:
        """The keyed steps of earlier sessions, or of the run that is replayed."""
        recording = self._context.recording
        return Steps(self._context.state) if recording is None else recording.steps

    @property
    def questions(self) -> list[PendingQuestion]:
        """The questions that were asked in this attempt and are not answered."""
        return self._questions.open

    def publish(self, event: Event) -> Awaitable[None]:
        """Log an event of the engine and notify watchers; never fails a run.

        Model and tool calls that the engine made without upshot are shown and not logged. Only
        ``run.call_model``, ``run.tools`` and ``report_usage`` count.

        Returns:
            An awaitable that is done; awaiting it is optional.
        """
        if isinstance(event, _RUN_EVENTS) or child_of(str(getattr(event, "key", ""))) is not None:
            message = f"an engine cannot publish {event.kind}: the run itself does"
            self._recorder.warn(
                RunWarning(code="event_refused", message=message, origin=Origin.ENGINE)
            )
        elif isinstance(event, _SHOWN_ONLY):
            self._recorder.show(msgspec.structs.replace(event, part=0))
        elif type(event) in _KNOWN:
            self._publish_known(event)
        else:
            self._warn_of_non_event(event)
        return _DoneAwaitable()

    def _publish_known(self, event: Event) -> None:
        """Log a durable event, unless a field has a wrong type and could not be read back."""
        try:
            check_types(event)
        except Misuse as error:
            self._recorder.warn(
                RunWarning(code="event_refused", message=str(error), origin=Origin.ENGINE)
            )
            return
        # A copy, because it gets stamped and the engine may publish the same object twice.
        self._recorder.emit(msgspec.structs.replace(event, part=0))

    def _warn_of_non_event(self, event: object) -> None:
        """Warn that a published value is not an event, once for each type."""
        kind = type(event).__name__
        if self._is_first("publish", f"a {kind}"):
            message = (
                f"host.publish was given a value of type {kind}, which is not an event: give one "
                "of upshot's, such as TextDelta(text=...) or StepStarted(key=...)"
            )
            self._recorder.warn(
                RunWarning(code="event_refused", message=message, origin=Origin.ENGINE)
            )

    @property
    def interrupts(self) -> StopRequest:
        """Whether the run must stop: ``await host.interrupts()`` returns why, or None.

        ``if host.interrupts:`` only looks, and skips an async method of the user's host.
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
        """Return why the run or its parent must stop, or None. Skips async methods."""
        if self._context.interrupt is None and self._user is not None:
            asked = attribute(self._user, "interrupts")
            if callable(asked):
                try:
                    # Skip an async method; the next await of host.interrupts() calls it.
                    asked = None if is_async(asked) else answer_at_once(asked)
                except Exception as error:
                    # The user's host never fails a run.
                    self._warn("interrupts", error)
                    asked = None
            self._read_interrupt(asked)
        if self._context.parent is not None:
            self._follow_parent()
        return self._context.interrupt

    def writes_in_hand(self) -> tuple[str, ...]:
        """Return the writes under way here and in child runs, as texts. Callable from any thread.

        A tool call or step that waits for a child run is not listed: it writes nothing itself now.
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
        """Stop if the parent run must stop."""
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
            # The user's host never fails a run; an unreadable value is not a request.
            self._warn("interrupts", error)

    async def ask_user(
        self, question: str, *, choices: tuple[str, ...] = (), key: str | None = None
    ) -> Json:
        """Ask a person.

        Args:
            question: The question.
            choices: The allowed answers; empty for any. If the user's host returns another answer,
                the question stays open, and ``resume`` refuses other answers.
            key: Names the question, unique in the run, so that its answer is found in every
                session and attempt whatever else is asked. It is the ``id`` of an ``Answer``. None
                numbers the questions of an attempt; use it if the engine always asks them in the
                same order.

        Returns:
            The answer; from the log if an earlier session has it.

        Raises:
            Parked: No one can answer now. Do not catch it.
        """
        return await self._questions.ask(question, choices, key, self._warn)

    async def wait_for(
        self, id: str, description: str = "", *, expires_at: datetime | None = None
    ) -> Json:
        """Wait for a result that comes from outside, such as a webhook or another system.

        Args:
            id: Names it, unique in the run. It is the ``id`` of the ``Answer`` passed to
                ``resume``.
            description: What the run waits for, for people.
            expires_at: The time, timezone-aware, after which the wait fails; None for never.

        Returns:
            The delivered value.

        Raises:
            Parked: It has not arrived yet. Do not catch it.
            Failed: It did not come in time, code timeout.
        """
        if id in self._answers:
            return self._answers[id]
        raise self._park(self._external(id, description, expires_at))

    def look_again(self, id: str, description: str = "", *, after_s: float) -> Parked:
        """Log that the run looks again later, and return the signal that parks it.

        For another system that has to be asked, and sends no answer. A worker resumes the run after
        *after_s*; every session before then may look too.

        Args:
            id: Names what the run waits for, unique in the run.
            description: What the run waits for, for people.
            after_s: Seconds until a worker resumes the run.
        """
        at = self._recorder.now() + timedelta(seconds=after_s)
        return self._park(self._external(id, description, at))

    async def wait_signal(
        self,
        name: str,
        description: str = "",
        *,
        expires_at: datetime | None = None,
        key: str | None = None,
    ) -> Json:
        """Wait for a signal that ``RunHandle.signal`` sends to this run, now or earlier.

        Each wait takes one signal: the first wait for a name gets the first signal sent under it.
        An engine that runs again gets the same signals in the same places.

        Args:
            name: The name of the signal, without "#" and "@".
            description: What the run waits for, for people.
            expires_at: The time, timezone-aware, after which the wait fails; None for never.
            key: Names the wait, unique in the run, so that every session finds it whatever else
                waits. None numbers the waits; use it if the engine always waits in the same order.

        Returns:
            The value that was sent.

        Raises:
            Parked: It has not arrived yet. Do not catch it.
            Failed: It did not come in time, code timeout. A later wait gets it if it comes.
            Misuse: The name is empty, or contains "#" or "@".
        """
        check_signal_name(name)
        place = self._questions.next_place() if key is None else f"={key}"
        waits, answers = self._past.waits, self._answers
        failed = {id for id, value in answers.items() if value == EXPIRED}
        id = wait_id(name, place, (*answers, *waits), failed)
        pending = self._external(id, description, expires_at, signal=name)
        if id in failed:
            raise _late(pending)
        if id in answers:
            return answers[id]
        journal = None if self._context.recording else self._context.plan.journal
        shared = None if journal is None else shared_journal(journal)
        item = item_of(self._context.state, pending)
        for placed in () if shared is None else await shared.placed_answers(self._run.id):
            is_in_time = expires_at is None or placed.at <= expires_at
            if placed.item == item and isinstance(placed.answer, Answer) and is_in_time:
                return self._log_signal(pending, placed.answer.value)
        if expires_at is not None and self._recorder.now() >= expires_at:
            # Logged, so that a later session fails here too, whatever arrives in between.
            self._log_signal(pending, EXPIRED)
            raise _late(pending)
        raise self._park(pending)

    def _log_signal(self, pending: PendingExternal, value: Json) -> Json:
        self._recorder.emit(QuestionAsked(pending=pending))
        self._recorder.emit(QuestionAnswered(id=pending.id, value=value))
        return self._answers.setdefault(pending.id, value)

    def _external(
        self, id: str, description: str, expires_at: datetime | None, signal: str = ""
    ) -> PendingExternal:
        """Make what the run waits for; resuming does not restart the wait."""
        asked = self._past.waits.get(id)
        return PendingExternal(
            id=id,
            description=description,
            asked_at=self._recorder.now() if asked is None else asked.asked_at,
            expires_at=expires_at,
            signal=signal,
        )

    def _park(self, pending: PendingExternal) -> Parked:
        """Log that the run waits, and return the signal that parks it; fail if the time is up."""
        if pending.expires_at is not None and self._recorder.now() >= pending.expires_at:
            raise _late(pending)
        self._recorder.emit(QuestionAsked(pending=pending))
        return Parked(pending)

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the user's host takes checkpoints; if not, an engine need not make them."""
        return self._user is not None and method(self._user, "checkpoint") is not None

    def is_settled(self, key: str) -> bool:
        """Whether the log has the outcome of a step."""
        return key in self._steps.settled

    async def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Log this point under a name; the user's host gets the whole checkpoint.

        Missing fields are filled in: the time, the start of the run, the agent, and the attributes
        of the run. The host gets the payload as the engine made it; the log has it as JSON.

        Raises:
            Misuse: It is no Checkpoint, or its payload or attributes have no JSON form.
        """
        if not isinstance(checkpoint, Checkpoint):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            kind = type(checkpoint).__name__
            raise Misuse(
                f"host.checkpoint was given a value of type {kind}: give a "
                "Checkpoint(run.id, step, board.snapshot())"
            )
        saved = self._as_json(checkpoint)
        # Log first, so that a host that fails to store the checkpoint does not lose the point.
        self._recorder.emit(
            CheckpointSaved(step=saved.step, iteration=saved.iteration, payload=saved.payload)
        )
        if self.keeps_checkpoints:
            given = msgspec.structs.replace(saved, payload=checkpoint.payload)
            await self._ask("checkpoint", self._with_defaults(given))

    def _as_json(self, point: Checkpoint) -> Checkpoint:
        """Return *point* with payload and attributes as JSON; warns of what JSON cannot represent.

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

    def _with_defaults(self, point: Checkpoint) -> Checkpoint:
        return msgspec.structs.replace(
            point,
            attributes=point.attributes or dict(self._run.attributes),
            timestamp=point.timestamp or self._context.plan.clock.now(),
            original_started_at=point.original_started_at or self._run.started_at,
            agent_id=point.agent_id or self._context.info.agent_id,
        )

    def report_usage(self, delta: ModelResponse | Usage) -> Awaitable[None]:
        """Add usage of a foreign engine. Further usage after the budget is spent ends the engine.

        Args:
            delta: The response of a model call, or only its usage.

        Returns:
            An awaitable that is done; awaiting it is optional.

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
        return _DoneAwaitable()

    def _log_usage(self, response: ModelResponse) -> bool:
        """Log reported usage. Returns False if an earlier session has logged this report."""
        state, attempt = self._context.state, self._recorder.attempt
        # Including the call itself: later sessions count only what is logged.
        usage = counted(response).usage
        logged = {event.number: event.response for event in state.reported[state.before.reported :]}
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
            # An engine that runs again from the top repeats its reports; any other report is new.
            if self._run.is_again and (known.usage, known.cost) == (usage, response.cost):
                return False

    def _count_usage(self, response: ModelResponse) -> None:
        """Count usage of a foreign engine, and end the engine if the budget was spent before."""
        context = self._context
        # Before counting: one report may pass the limit, and only the next one ends the run.
        spent = context.budget.spent_by_children()
        context.budget.add(response)
        if spent is not None and not context.supervisor.stop and not context.supervisor.is_final:
            self.overrun = spent
            context.supervisor.end("budget")

    def usage_listener(self) -> Callable[[Usage], None] | None:
        """Return what to call with the usage of each model call, in any thread; None if the user's
        host has no ``report_usage``.
        """
        subscriber = self._usage_subscriber
        return (
            None
            if subscriber is None
            else partial(_call_in_loop, asyncio.get_running_loop(), subscriber.notify)
        )

    async def drain_host(self, wait: Wait) -> None:
        """Wait until the user's host has processed all events so far, within the limits of the run,
        and warn of what it raised.
        """
        for name, audience in (
            ("publish", self._event_subscriber),
            ("report_usage", self._usage_subscriber),
        ):
            if audience is None or not audience.is_busy:
                continue
            try:
                await wait(audience.drain())
            except TimeoutError as error:
                self._warn(name, error)
                # It will not process the rest later either.
                audience.close()

    async def drain(self, wait: Wait) -> None:
        """Wait for the user's host to process the remaining events, then drop the others."""
        try:
            await self.drain_host(wait)
        finally:
            for audience in filter(None, (self._event_subscriber, self._usage_subscriber)):
                audience.close()

    async def once(
        self,
        key: str,
        effect: Effect | str,
        body: Callable[[], Awaitable[Any] | Any],
        *,
        idempotent: bool = False,
    ) -> Json:
        """Run *body*, or return its logged outcome if it has run before.

        It runs in its own task as long as something waits for it.

        Args:
            key: Unique in the run, not empty.
            effect: "read", "write" or "destructive".
            body: Sync or async; returns a JSON value. If it asks a person and parks, it runs again
                from the top after the answer.
            idempotent: Whether it may run again if its outcome is unknown.

        Returns:
            The value, new or from the log.

        Raises:
            Exception: What the body raised, each time that the key is used. A later session only
                has the log: there it is a Failed that ``except`` for the same built-in class
                catches (``except ValueError``). For a class of your own, ``error.type`` has its
                name and ``error.details["module"]`` its module.
            Failed: It started in an earlier session and its outcome is unknown.
            Misuse: The key is not a string or is empty, or the effect is invalid.
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

        # If two tasks use the same key, the second waits for the body of the first.
        return await self._running.do(key, work)

    async def step(
        self,
        key: str,
        effect: Effect,
        body: Callable[[], Awaitable[Any] | Any],
        *,
        idempotent: bool = False,
    ) -> Json:
        """Do the same as ``once``, for an engine whose keys are used by nothing else.

        It runs in the caller's task, which costs half as much, and is cancelled with it.
        """
        known = self._steps.settled.get(key)
        if known is not None:
            return self._steps.hand_back(known)
        return await self._steps.do(key, effect, body, self._recorder, idempotent=idempotent)

    async def _ask(self, name: str, *arguments: object) -> Any:
        """Call a method of the user's host, if it has it. An exception becomes a warning."""
        asked = method(self._user, name)
        if asked is None:
            return None
        try:
            return await call(asked, *arguments)
        except Exception as error:
            # The user's host never fails a run.
            self._warn(name, error)
            return None

    def _subscriber_for(self, name: str) -> Subscriber | None:
        found = method(self._user, name)
        return None if found is None else Subscriber(found, lambda error: self._warn(name, error))

    def _warn(self, name: str, error: BaseException) -> None:
        """Warn of an exception of the user's host, once for each method and exception type."""
        if self._is_first(name, kind_of(error)):
            message = raised(f"host.{name}", error)
            self._recorder.warn(RunWarning(code="host_failed", message=message, origin=Origin.HOST))

    def _is_first(self, name: str, kind: str) -> bool:
        is_news = (name, kind) not in self._warned_of
        self._warned_of |= {(name, kind)}
        return is_news


class _DoneAwaitable:
    """An awaitable that is done."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _call_in_loop(
    loop: asyncio.AbstractEventLoop, tell: Callable[[Usage], None], usage: Usage
) -> None:
    """Call *tell* in *loop*, also from a child run in another thread's loop."""
    # If that loop has closed, nothing is left to notify.
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            tell(usage)
        else:
            loop.call_soon_threadsafe(tell, usage)
