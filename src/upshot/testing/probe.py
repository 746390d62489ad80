"""What EngineContract puts round an engine: hosts that wish and keep, and a run that ends it."""

from __future__ import annotations

from typing import Any, cast

from ..contract import (
    Checkpoint,
    Engine,
    Interrupt,
    InterruptCause,
    ModelReplied,
    ModelStarted,
    StepSettled,
    StepStarted,
    ToolSettled,
    ToolStarted,
)
from ..runs import Parked
from .stage import PlainModel

__all__ = ["Keep", "Person", "Probe", "Stop"]

# Who has begun more steps under a wish to stop goes on for ever.
_FAR = 20


class Person:
    """A host that has an answer to every question."""

    def ask_user(self, question: str) -> str:
        """Say yes."""
        return "yes"


class Stop(Person):
    """A host that wants the run to stop, and watches what is begun all the same.

    Steps are what the log has: model calls, tool calls, keyed steps and runs inside. What is
    begun within one, or beside one, belongs to it.

    Args:
        model: The run's model; what is asked of it beside the log counts too.
        late: Whether the wish comes when the first step has begun, and not before the start.

    Attributes:
        wish: What is wished.
        was_told_first: Whether the engine heard of the wish before it had done anything.
        second: The step that was begun after another had ended, "" for none.
    """

    def __init__(self, model: PlainModel, *, late: bool) -> None:
        self.wish: Interrupt = Interrupt(InterruptCause.HOST_SHUTDOWN, "good night")
        self.was_told_first: bool = False
        self.second: str = ""
        self._model = model
        self._late = late
        self._open: list[str] = []
        self._begun = 0

    def interrupts(self) -> Interrupt | None:
        """The wish, as soon as there is one."""
        has_begun = self._begun > 0 or self._model.calls > 0
        if self._late and not has_begun:
            return None
        self.was_told_first = self.was_told_first or not has_begun
        return self.wish

    def publish(self, event: object) -> None:
        """Count what begins and ends."""
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
        """Whether so many steps were begun that it will not look any more."""
        return self._begun > _FAR

    def settle(self) -> None:
        """Take in what was asked of the model beside the log."""
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
    """An engine whose run raises a signal when it is asked for anything.

    Attributes:
        has_raised: Whether it was asked.
    """

    def __init__(self, engine: Engine, signal: Exception) -> None:
        self.has_raised: bool = False
        self._engine = cast("Any", engine)
        self._signal = signal

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        """Have the engine work on a run that ends."""
        return await self._engine.execute(_Raising(run, self), _Asking(host, self), board)

    def end(self) -> Exception:
        """What is raised."""
        self.has_raised = True
        return self._signal

    @property
    def parks(self) -> bool:
        """Whether what is raised is what a question raises that nobody answers now."""
        return isinstance(self._signal, Parked)


class _Shown:
    """What an engine is given, as it is."""

    def __init__(self, shown: Any, probe: Probe) -> None:
        object.__setattr__(self, "_shown", shown)
        object.__setattr__(self, "_probe", probe)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._shown, name, value)


class _Asking(_Shown):
    """A host as it is, but that a question may park the run."""

    async def ask_user(self, *question: Any, **how: Any) -> Any:
        if self._probe.parks:
            raise self._probe.end()
        return await self._shown.ask_user(*question, **how)


class _Raising(_Shown):
    """A run as it is, but that models and children end it."""

    async def call_model(self, *_: Any, **__: Any) -> Any:
        raise self._probe.end()

    async def child(self, *_: Any, **__: Any) -> Any:
        raise self._probe.end()
