"""EngineContract: what every engine must do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ..contract import (
    Agent,
    AgentError,
    Checkpoint,
    Engine,
    ErrorCode,
    Event,
    Interrupt,
    InterruptCause,
    RunEvent,
    Status,
)
from ..entry import resume, start
from ..errors import Misuse
from ..journal import MemoryJournal
from ..runs import Aborted, Failed, Interrupted, Parked
from .stage import TOKENS, PlainModel, Seen, Witness, settle, tasks_beside

__all__ = ["EngineContract"]

_AT_ONCE = 5
# What ends a run, and how the run then ends.
_SIGNALS = (
    (Interrupted("custom", "enough"), Status.INTERRUPTED, ErrorCode.INTERRUPTED),
    (Aborted("It cannot go on.", "dead_end"), Status.ABORTED, ErrorCode.DEAD_END),
    (Failed("conflict", "It is taken."), Status.FAILED, ErrorCode.CONFLICT),
    (Parked(), Status.INPUT_REQUIRED, ErrorCode.INPUT_REQUIRED),
)


class EngineContract:
    """A suite for pytest: inherit, and give a ``make`` that returns the engine.

    The engine is given a question that it can answer with one or more calls of the run's model;
    one that calls models by other ways asks ``self.model``::

        class TestMyEngine(EngineContract):
            def make(self):
                return MyEngine(self.model)

    Attributes:
        request: What is asked.
        copes: Whether it has an answer when the model is down.
        model: Answers everything with a text. Set before ``make`` is called.
    """

    request: str = "A question."
    copes: bool = False
    model: PlainModel

    def make(self) -> Engine:
        """A new engine, ready to work on ``request``."""
        raise NotImplementedError("an EngineContract gives the engine in make()")

    def test_it_answers(self) -> None:
        """It returns a board, a value, or None for the board that it was given."""
        seen = self._play()
        result = seen.result
        assert result.status is Status.COMPLETED, result.error
        assert result.output is not None or result.content, "there is no answer"

    def test_it_tells_what_it_used(self) -> None:
        """All tokens of all model calls are in the result."""
        total = self._play().result.usage.total_tokens
        assert (total or 0) == TOKENS * self.model.calls

    def test_a_run_ends_once_whatever_happens(self) -> None:
        """One end for observers and one last event, after answers, errors and cancels."""
        error = AgentError(ErrorCode.SERVER_ERROR, "It is down.")
        for model in (PlainModel(), PlainModel(error=error), PlainModel(answers=False)):
            seen = self._play(model, cancel=not model.answers)
            kinds = [event.kind for event in seen.events]
            assert (seen.ends, kinds.count("run_settled")) == (1, 1)
            assert kinds[-1] == "run_settled"

    def test_a_model_that_is_down_is_no_answer_and_no_crash(self) -> None:
        """The run fails with the model's code."""
        error = AgentError(ErrorCode.SERVER_ERROR, "It is down.")
        result = self._play(PlainModel(error=error)).result
        if self.model.calls and not self.copes:
            told = (result.status, result.error and result.error.code)
            assert told == (Status.FAILED, ErrorCode.SERVER_ERROR), result.error

    def test_a_cancel_ends_it(self) -> None:
        """While a model is silent, a cancel ends the run; the engine does not swallow it."""
        seen = self._play(PlainModel(answers=False), cancel=True)
        if self.model.calls:
            assert seen.result.status is Status.CANCELED, seen.result.status
            codes = [warning.code for warning in seen.result.warnings]
            assert "abandoned" not in codes, "it went on after its cancellation"
            raised = seen.result.raw
            assert isinstance(raised, asyncio.CancelledError), "it swallowed its cancellation"

    def test_a_wish_to_stop_ends_it(self) -> None:
        """It looks at ``host.interrupts()`` and raises Interrupted, before a second turn."""
        result = self._play(host=_Stop()).result
        assert result.status is Status.INTERRUPTED, result.status
        assert (result.cause, result.detail) == (InterruptCause.HOST_SHUTDOWN, "good night")
        assert self.model.calls <= 1

    def test_what_ends_a_run_passes_through(self) -> None:
        """Interrupted, Aborted, Failed and Parked of what it awaits reach the run as they are."""
        for signal, status, code in _SIGNALS:
            probe = _Probe(self._prepared(PlainModel()), signal)
            result = self._look(probe, self.model).result
            if probe.has_raised:
                told = (result.status, result.error and result.error.code)
                assert told == (status, code), f"{type(signal).__name__}: {told}"

    def test_it_resumes_or_says_that_it_cannot(self) -> None:
        """From its own checkpoints it goes on; from a point that it does not know it never does."""
        kept = _Keep()
        self._play(host=kept)
        unknown = Checkpoint("run-0123456789abcdef", "a step that no engine has")
        for point in (unknown, *kept.points):
            engine = self._prepared(PlainModel())
            can_resume = cast("Any", getattr(engine, "can_resume", None))
            able = can_resume(point) if callable(can_resume) else False
            assert isinstance(able, bool)
            assert not (able and point is unknown), "it resumes from a step that it does not have"
            try:
                result = self._look(engine, self.model, resume_from=point).result
            except Misuse:
                assert not able
            else:
                assert result.status is Status.COMPLETED, result.error

    def test_it_goes_on_wherever_its_log_was_cut(self) -> None:
        """A run whose process died is resumed, after whichever event that was."""
        log = self._play().events
        for length in range(1, len(log)):
            engine = self._prepared(PlainModel())
            result = asyncio.run(self._go_on(engine, log[:length]))
            assert result.status is Status.COMPLETED, (
                f"after {log[length - 1].kind}: {result.error}"
            )

    def test_one_of_it_drives_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""
        alone = self._play().said
        engine = self._prepared(PlainModel())

        async def together() -> list[Seen]:
            runs = (self._watch(engine, self.model) for _ in range(_AT_ONCE))
            return list(await asyncio.gather(*runs))

        for seen in asyncio.run(together()):
            assert seen.said == alone, seen.result.error

    def test_it_leaves_no_task_behind(self) -> None:
        """When the run has ended, nothing goes on."""
        engine = self._prepared(PlainModel())

        async def left() -> bool:
            before = tasks_beside()
            await self._watch(engine, self.model)
            return not await settle(lambda: tasks_beside() <= before)

        assert not asyncio.run(left()), "a task goes on after the end of the run"

    def _prepared(self, model: PlainModel) -> Engine:
        self.model = model
        return self.make()

    def _play(self, model: PlainModel | None = None, **options: Any) -> Seen:
        engine = self._prepared(model or PlainModel())
        return self._look(engine, self.model, **options)

    def _look(self, engine: object, model: PlainModel, **options: Any) -> Seen:
        return asyncio.run(self._watch(engine, model, **options))

    async def _watch(
        self, engine: object, model: PlainModel, *, cancel: bool = False, **options: Any
    ) -> Seen:
        witness, events = Witness(), list[RunEvent]()
        agent = Agent[Any]("contract", model=model, engine=cast("Engine", engine))
        observed = start(agent, self.request, observers=[witness], **options)
        async with observed as live:
            if cancel:
                waits = [asyncio.ensure_future(one) for one in (model.asked.wait(), live.result())]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                waits[0].cancel()
                live.cancel()
            async for event in live:
                if isinstance(event, RunEvent) and not event.part:
                    events.append(event)
            result = await live.result()
        return Seen(result, events, witness.ends)

    async def _go_on(self, engine: Engine, events: list[RunEvent]) -> Any:
        journal, run_id = MemoryJournal(), events[0].run_id
        epoch = await journal.claim(run_id)
        for event in events:
            journal.append(cast("Event", event), epoch=epoch)
        agent = Agent[Any]("contract", model=self.model, engine=engine)
        return await resume(run_id, agent, journal=journal)


class _Stop:
    """A host that wants every run to stop."""

    def interrupts(self) -> Interrupt:
        return Interrupt(InterruptCause.HOST_SHUTDOWN, "good night")


class _Keep:
    """A host that keeps checkpoints."""

    def __init__(self) -> None:
        self.points: list[Checkpoint] = []

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.points.append(checkpoint)


class _Probe:
    """An engine whose run raises a signal when it is asked for anything."""

    def __init__(self, engine: Engine, signal: Exception) -> None:
        self.has_raised = False
        self._engine = cast("Any", engine)
        self._signal = signal

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        return await self._engine.execute(_Raising(run, self), host, board)

    def end(self) -> Exception:
        """What is raised."""
        self.has_raised = True
        return self._signal


class _Raising:
    """A run as it is, but that models and children end it."""

    def __init__(self, run: Any, probe: _Probe) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_probe", probe)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._run, name, value)

    async def call_model(self, *_: Any, **__: Any) -> Any:
        raise self._probe.end()

    async def child(self, *_: Any, **__: Any) -> Any:
        raise self._probe.end()
