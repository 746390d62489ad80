"""EngineContract: what every engine must do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from unittest import SkipTest

from upshot.contract.agent import Agent
from upshot.contract.base.enums import Effect, ErrorCode, InterruptCause, Status
from upshot.contract.base.structs import RunEvent
from upshot.contract.error import AgentError
from upshot.contract.events import Event, StepSettled, StepStarted, ToolSettled, ToolStarted
from upshot.contract.model_calls import ModelReplied, ModelStarted
from upshot.contract.protocols import Engine
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint, Interrupt
from upshot.entry.api import resume, start
from upshot.errors import Misuse
from upshot.journal.memory_journal import MemoryJournal
from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked
from upshot.testing.suite import (
    TOKENS,
    PlainModel,
    Role,
    Seen,
    Suite,
    Witness,
    ending,
    settle,
    tasks_beside,
)

# An engine that starts more steps than this after a stop request will never stop.
_FAR = 20


class Person:
    """A host that answers every question."""

    def ask_user(self, question: str) -> str:
        """Say yes."""
        return "yes"


class Stop(Person):
    """A host that requests a stop, and watches which steps start afterwards.

    Steps are what the log has: model calls, tool calls, keyed steps and child runs. A step that
    starts within another one, or at the same time, belongs to it.
    """

    def __init__(self, model: PlainModel, *, late: bool) -> None:
        self.request: Interrupt = Interrupt(InterruptCause.HOST_SHUTDOWN, "good night")
        self.was_told_first: bool = False
        self.second: str = ""
        self._model = model
        self._late = late
        self._open: list[str] = []
        self._begun = 0

    def interrupts(self) -> Interrupt | None:
        """Return the stop request, as soon as there is one."""
        has_begun = self._begun > 0 or self._model.calls > 0
        if self._late and not has_begun:
            return None
        self.was_told_first = self.was_told_first or not has_begun
        return self.request

    def publish(self, event: object) -> None:
        """Count the steps that start and end."""
        match event:
            case ModelStarted():
                self._begin("a model call")
            case ModelReplied():
                self._end("a model call")
            case ToolStarted(call=call):
                self._begin(f"the tool call {call.id}")
            case ToolSettled(record=record):
                self._end(f"the tool call {record.call_id}")
            case StepStarted(key=key):
                self._begin(f"the step {key}")
            case StepSettled(key=key):
                self._end(f"the step {key}")
            case _:
                pass

    def runs_away(self) -> bool:
        """Whether so many steps have started that the engine will not stop."""
        return self._begun > _FAR

    def settle(self) -> None:
        """Count a model call that the log does not have."""
        if not self._begun and self._model.later_calls:
            self.second = "a model call"

    def _begin(self, name: str) -> None:
        if self._begun and not self._open:
            self.second = self.second or name
        self._begun += 1
        self._open.append(name)

    def _end(self, name: str) -> None:
        if name in self._open:
            self._open.remove(name)


class Keep(Person):
    """A host that keeps checkpoints."""

    def __init__(self) -> None:
        self.points: list[Checkpoint] = []

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep one."""
        self.points.append(checkpoint)


class Probe:
    """An engine whose run raises a signal when it is asked for anything."""

    def __init__(self, engine: Engine, signal: Exception) -> None:
        self.has_raised: bool = False
        self._engine = cast("Any", engine)
        self._signal = signal

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        """Run the engine on a run that ends with the signal."""
        return await self._engine.execute(_Raising(run, self), _Asking(host, self), board)

    def end(self) -> Exception:
        """Return the signal to raise."""
        self.has_raised = True
        return self._signal

    @property
    def parks(self) -> bool:
        """Whether it raises Parked, as an unanswered question does."""
        return isinstance(self._signal, Parked)


class _Shown:
    """Forwards to an object that an engine is given."""

    def __init__(self, shown: Any, probe: Probe) -> None:
        object.__setattr__(self, "_shown", shown)
        object.__setattr__(self, "_probe", probe)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._shown, name, value)


class _Asking(_Shown):
    """A host whose questions may park the run."""

    async def ask_user(self, *question: Any, **how: Any) -> Any:
        if self._probe.parks:
            raise self._probe.end()
        return await self._shown.ask_user(*question, **how)


class _Raising(_Shown):
    """A run whose model calls and child runs end it."""

    async def call_model(self, *_: Any, **__: Any) -> Any:
        raise self._probe.end()

    async def child(self, *_: Any, **__: Any) -> Any:
        raise self._probe.end()


_AT_ONCE = 5
_DOWN = AgentError(ErrorCode.SERVER_ERROR, "It is down.")
# What ends a run, and how the run then ends.
_SIGNALS = (
    (Interrupted("custom", "enough"), Status.INTERRUPTED, ErrorCode.INTERRUPTED),
    (Aborted("It cannot go on.", "dead_end"), Status.ABORTED, ErrorCode.DEAD_END),
    (Failed("conflict", "It is taken."), Status.FAILED, ErrorCode.CONFLICT),
    (Parked(), Status.INPUT_REQUIRED, ErrorCode.INPUT_REQUIRED),
)


class EngineContract(Suite[Engine]):
    """A suite for pytest: inherit, and define a ``make`` that returns a new engine.

    The engine gets a question that it can answer with one or more calls of the run's model; an
    engine that calls models in other ways calls ``self.model``. The host answers "yes" to
    ``ask_user``::

        class TestMyEngine(EngineContract):
            def make(self):
                return MyEngine(self.model)

    Attributes:
        request: The request.
        copes: Whether the engine has an answer when the model is down.
        model: Answers everything with a text. Set before ``make`` is called.
    """

    request: str = "A question."
    copes: bool = False
    model: PlainModel
    _role: Role = Role("an engine", ("execute",))

    async def test_it_answers(self) -> None:
        """It returns a board, a value, or None, which means the board that it was given."""
        result = (await self._play()).result
        assert result.status is Status.COMPLETED, ending(result)
        if result.output is None and not result.content:
            raise SkipTest("it gives no answer, which is allowed: its work is on its board")

    async def test_it_reports_what_it_used(self) -> None:
        """The result has the tokens of all model calls."""
        result = (await self._play()).result
        reported, used = result.usage.total_tokens or 0, TOKENS * self.model.calls
        if reported and not used:
            raise SkipTest(
                f"it asked no model of the suite; the {reported} tokens that it reports are its own"
            )
        assert reported == used, f"{used} tokens were used and {reported} are in the result"

    async def test_a_run_ends_once_whatever_happens(self) -> None:
        """Observers see one end, and the log one last event: after answers, errors and cancels."""
        for model in (PlainModel(), PlainModel(error=_DOWN), PlainModel(answers=False)):
            seen = await self._play(model, cancel=not model.answers)
            kinds = [event.kind for event in seen.events]
            ends = kinds.count("run_settled")
            assert seen.ends == 1, f"observers got {seen.ends} ends; {ending(seen.result)}"
            assert ends == 1, f"the log has {ends} ends; {ending(seen.result)}"
            assert kinds[-1] == "run_settled", f"{kinds[-1]} came after the end"

    async def test_a_model_that_is_down_is_no_answer_and_no_crash(self) -> None:
        """The run fails with the model's code; with ``copes`` there is an answer."""
        result = (await self._play(PlainModel(error=_DOWN))).result
        if not self.model.calls:
            raise SkipTest("it asked no model that could be down")
        if self.copes:
            assert result.status is Status.COMPLETED, f"it copes, and {ending(result)}"
            return
        actual = (result.status, result.error and result.error.code)
        expected = (Status.FAILED, ErrorCode.SERVER_ERROR)
        assert actual == expected, f"the model failed with server_error, and {ending(result)}"

    async def test_a_cancel_ends_it(self) -> None:
        """A cancel ends the run while a model is silent; the engine does not swallow it."""
        result = (await self._play(PlainModel(answers=False), cancel=True)).result
        if not self.model.calls:
            raise SkipTest("it asked no model that could be silent")
        assert result.status is Status.CANCELED, f"it was cancelled, and {ending(result)}"
        codes = [warning.code for warning in result.warnings]
        assert "abandoned" not in codes, "it went on after its cancellation"
        raised = result.raw
        assert isinstance(raised, asyncio.CancelledError), (
            f"it swallowed its cancellation, and ended with {raised!r}"
        )

    async def test_a_stop_request_ends_it(self) -> None:
        """It checks ``host.interrupts()``, and raises Interrupted before a second step."""
        for late in (False, True):
            async with self._engine() as engine:
                host = Stop(self.model, late=late)
                seen = await self._watch(engine, host=host, until=host.runs_away)
            host.settle()
            _check_stopped(seen.result, host, late=late)
            assert not self.model.later_calls, "it asked the model again before it looked"

    async def test_what_ends_a_run_passes_through(self) -> None:
        """Interrupted, Aborted, Failed and Parked from what it awaits reach the run unchanged."""
        was_tried = False
        for signal, status, code in _SIGNALS:
            async with self._engine() as engine:
                probe = Probe(engine, signal)
                result = (await self._watch(probe)).result
            if probe.has_raised:
                was_tried = True
                actual = (result.status, result.error and result.error.code)
                name = type(signal).__name__
                assert actual == (status, code), f"{name} was raised, and {ending(result)}"
        if not was_tried:
            raise SkipTest(
                "it awaits no run.call_model, run.child or host.ask_user, which could raise them"
            )

    async def test_it_resumes_or_says_that_it_cannot(self) -> None:
        """It continues from its own checkpoints, and never from an unknown point."""
        kept = Keep()
        await self._play(host=kept)
        unknown = Checkpoint("run-0123456789abcdef", "a step that no engine has")
        for point in (unknown, *kept.points):
            async with self._engine() as engine:
                can_resume = cast("Any", getattr(engine, "can_resume", None))
                able = can_resume(point) if callable(can_resume) else False
                if inspect.isawaitable(able):
                    able = await able
                kind = type(able).__name__
                assert isinstance(able, bool), f"can_resume() gave a {kind} and no bool"
                assert not (able and point is unknown), "it resumes from a step it does not have"
                try:
                    result = (await self._watch(engine, resume_from=point)).result
                except Misuse as error:
                    assert not able, f"it can resume from {point.step!r}, and {error}"
                    continue
                # An engine that reads checkpoints itself may refuse in any way it likes.
                if able or point is not unknown:
                    problem = f"from its checkpoint {point.step!r} {ending(result)}"
                    assert result.status is Status.COMPLETED, problem

    async def test_it_goes_on_wherever_its_log_was_cut(self) -> None:
        """A run whose process died after any event is resumed, or the engine refuses."""
        log = (await self._play()).events
        for length in range(1, len(log)):
            async with self._engine() as engine:
                try:
                    result = await self._resume(engine, log[:length])
                except Misuse:
                    if not callable(getattr(engine, "can_resume", None)):
                        raise
                    # The engine itself refuses to continue from there.
                    continue
            if result.error is not None and _is_in_doubt(log[:length]):
                # The effect of its step is unknown, and the run says so.
                assert result.error.code is ErrorCode.INTERRUPTED, ending(result)
                continue
            problem = f"cut after {log[length - 1].kind}, {ending(result)}"
            assert result.status is Status.COMPLETED, problem

    async def test_one_of_it_drives_many_runs_at_once(self) -> None:
        """None of its state belongs to one run only."""
        first = await self._play()
        assert first.result.status is Status.COMPLETED, f"alone, {ending(first.result)}"
        alone = first.reported
        async with self._engine() as engine:
            runs = [self._watch(engine) for _ in range(_AT_ONCE)]
            for seen in await asyncio.gather(*runs):
                problem = (
                    f"alone it gave {alone}, beside others {seen.reported}; {ending(seen.result)}"
                )
                assert seen.reported == alone, problem

    async def test_it_leaves_no_task_behind(self) -> None:
        """When the run has ended, no task is left."""
        async with self._engine() as engine:
            before = tasks_beside()
            await self._watch(engine)
            await settle(lambda: tasks_beside() <= before)
            left = [_name_of(task) for task in tasks_beside() - before]
        assert not left, f"still running after the end of the run: {', '.join(left)}"

    @asynccontextmanager
    async def _engine(self, model: PlainModel | None = None) -> AsyncGenerator[Engine]:
        self.model = model or PlainModel()
        async with self._made() as engine:
            yield engine

    async def _play(self, model: PlainModel | None = None, **options: Any) -> Seen:
        async with self._engine(model) as engine:
            return await self._watch(engine, **options)

    async def _watch(
        self,
        engine: object,
        *,
        cancel: bool = False,
        until: Callable[[], bool] | None = None,
        **options: Any,
    ) -> Seen:
        """Run once; with *cancel*, end it while its model is silent, else when *until* holds."""
        witness, events, model = Witness(), list[RunEvent](), self.model
        agent = Agent[Any]("contract", model=model, engine=cast("Engine", engine))
        options.setdefault("host", Person())
        observed = start(agent, self.request, observers=[witness], **options)
        async with observed as live:
            if cancel:
                waits = [asyncio.ensure_future(one) for one in (model.asked.wait(), live.result())]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                waits[0].cancel()
                live.cancel()
            async for event in live:
                if isinstance(event, RunEvent) and not event.part and not event.path:
                    events.append(event)
                if until is not None and until():
                    live.cancel()
            result = await live.result()
        return Seen(result, events, witness.ends)

    async def _resume(self, engine: Engine, events: list[RunEvent]) -> AgentResult[Any]:
        journal, run_id = MemoryJournal(), events[0].run_id
        epoch = await journal.claim(run_id)
        for event in events:
            journal.append(cast("Event", event), epoch=epoch)
        agent = Agent[Any]("contract", model=self.model, engine=engine)
        return await resume(run_id, agent, journal=journal, host=Person())


def _check_stopped(result: AgentResult[Any], host: Stop, *, late: bool) -> None:
    """Check how a run ended that was asked to stop.

    An engine without a second step need not have looked; then its answer is fine too.
    """
    when = "when its first step had started" if late else "before it started"
    came = f"the stop request came {when}"
    if result.status is Status.INTERRUPTED:
        actual, wanted = (
            (result.cause, result.detail),
            (host.request.cause, host.request.detail),
        )
        assert actual == wanted, (
            f"the stop request was {wanted}, and it was interrupted with {actual}"
        )
    else:
        ignored = f"{came}; it began {host.second} all the same, and {ending(result)}"
        assert not host.second, ignored
        assert result.status is Status.COMPLETED, f"{came}, and {ending(result)}"
        assert not host.was_told_first, f"it got the stop request, and {ending(result)}"


def _is_in_doubt(log: list[RunEvent]) -> bool:
    """Whether the log ends during a writing step that may not be repeated."""
    writing = {
        event.key: event.effect in (Effect.WRITE, Effect.DESTRUCTIVE)
        for event in log
        if isinstance(event, StepStarted)
    }
    settled = {event.key for event in log if isinstance(event, StepSettled)}
    return any(writes and key not in settled for key, writes in writing.items())


def _name_of(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__qualname__", task))
