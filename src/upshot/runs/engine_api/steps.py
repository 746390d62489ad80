"""Keyed steps that are done once, and work that its waiters share."""

from __future__ import annotations

import asyncio
import builtins
import copy
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any, Generic, NoReturn, TypeVar

from msgspec.structs import replace

from upshot.contract.base.enums import Effect, ErrorCode, Origin
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError
from upshot.contract.events import StepSettled, StepStarted
from upshot.runs.callbacks import blame, call, origin_of
from upshot.runs.ending import error_of
from upshot.runs.engine_api.exceptions import Failed, Parked, signal_of
from upshot.runs.recorder import Recorder
from upshot.runs.run_context import CurrentStep, current_body
from upshot.state.run_state import RunState

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Pieces of work, each in a task of its own while anybody waits for it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}
        self._waiting: dict[asyncio.Task[T], int] = {}

    async def do(self, key: str, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do *body*, or wait for what is being done under *key*.

        Who is cancelled only stops waiting; the last one cancels the work and waits for its end.
        Who comes while it is being cancelled waits for that too, and has it done anew.

        Returns:
            What the work returned.

        Raises:
            BaseException: Whatever it raised, to everybody who waits.
        """
        task = self._tasks.get(key)
        try:
            if task is not None and task not in self._waiting and not task.done():
                # Its last waiter left it: its cancel is nobody's who comes now.
                await asyncio.wait({task})
                return await self.do(key, body) if task.cancelled() else task.result()
            if task is None or task.done():
                task = self._tasks[key] = asyncio.get_running_loop().create_task(body())
                self._waiting[task] = 0
            self._waiting[task] += 1
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                await self._leave(task)
                raise
            finally:
                self._let_go(key, task)
        finally:
            # What it raised leads to this frame, and must not lead back from here.
            del task

    async def _leave(self, task: asyncio.Task[T]) -> None:
        """Cancel *task* and wait for its end, where nobody else waits for it."""
        if self._waiting[task] > 1 or task.done():
            return
        del self._waiting[task]
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            # Nobody else need ask how it ended.
            task.exception()

    def _let_go(self, key: str, task: asyncio.Task[T]) -> None:
        """Count one waiter of *task* less; what nobody waits for and is done is forgotten."""
        left = self._waiting.get(task, 1) - 1
        if left:
            self._waiting[task] = left
            return
        self._waiting.pop(task, None)
        if task.done() and self._tasks.get(key) is task:
            del self._tasks[key]


# In the details of a logged error: where its class is, if that is no built-in.
_MODULE = "module"


class Steps:
    """Runs keyed steps once, and hands back what the log says of those that are done.

    Args:
        state: What the log says of the steps; what is done is folded into it.

    Attributes:
        settled: The last settlement by key.
        on_miss: Called instead of a body whose step is not settled; None runs it.
        writes_in_hand: The steps whose bodies run and may not run again, by key.
    """

    _raised: dict[str, Exception] | None = None

    def __init__(self, state: RunState) -> None:
        self.settled: dict[str, StepSettled] = state.steps_settled
        # Only of earlier sessions: a step that began in this one may still be under way.
        self._began: dict[str, Effect] = state.steps_started.copy()
        self.on_miss: Callable[[str], NoReturn] | None = None
        self.writes_in_hand: dict[str, CurrentStep] = {}

    async def do(
        self,
        key: str,
        effect: Effect,
        body: Callable[[], Awaitable[Any] | Any],
        recorder: Recorder,
        *,
        idempotent: bool,
        who: str = "",
    ) -> Json:
        """Do *body* and log what came of it.

        What came of one that may not run again is on disk before anybody hears of it.

        Args:
            key: Of the step, which is not settled.
            effect: What it may do.
            body: Sync or async; gives a JSON value.
            recorder: The log.
            idempotent: Whether it may run again where nobody knows what came of it.
            who: Whose it is if it raises, "" where its caller knows better.

        Raises:
            Failed: It began in an earlier session and what came of it is unknown.
            Exception: Whatever *body* raises.
        """
        if self.on_miss is not None:
            self.on_miss(f"a step {key!r}")
        # What may not run again: it would be unknown if its end were lost with the process.
        is_single = effect is not Effect.READ and not idempotent
        if key in self._began and is_single:
            raise Failed(
                ErrorCode.INTERRUPTED,
                f"step {key!r} began before the process ended and what came of it is unknown: "
                "make it idempotent, or look what it did and resume with another key",
            )
        await _begin(key, effect, recorder)
        step = CurrentStep(recorder.run_id, recorder.attempt, key, is_single=is_single)
        token = current_body.set(step)
        if is_single:
            self.writes_in_hand[key] = step
        try:
            value, lossy = to_free_json(await call(body))
        except Exception as error:
            said = signal_of(error)
            if isinstance(said, Parked) and is_single:
                # It did not break off: it says itself that there is more to do.
                recorder.emit(_put_off(key, said))
            if said is not None:
                raise
            if who:
                blame(error, who, recorder.run_id)
            # The log must say what came of a step, whatever it raised.
            failure = _logged(error)
            recorder.emit(StepSettled(key=key, effect=Effect.UNKNOWN, error=failure))
            self._keep(key, error)
            if is_single:
                await recorder.barrier()
            raise
        finally:
            current_body.reset(token)
            self.writes_in_hand.pop(key, None)
        applied = Effect.NONE if effect is Effect.READ else Effect.APPLIED
        recorder.warn_of_losses(f"step {key!r}", lossy)
        recorder.emit(StepSettled(key=key, effect=applied, value=value))
        if is_single:
            await recorder.barrier()
        return value

    def recall(self, settled: StepSettled) -> Json:
        """What came of a step that is settled.

        Raises:
            Exception: The like of what its body raised; see ``raised``.
        """
        if settled.error is not None:
            raise self.raised(settled.key, settled.error)
        return settled.value

    def hand_back(self, settled: StepSettled) -> Json:
        """What ``recall`` gives, with all that an engine had done in a step of its own."""
        return self.recall(settled)

    def _keep(self, key: str, error: Exception) -> None:
        """Remember what the body of a step raised, to raise its like when it is asked for again."""
        kept = _copy(error)
        if kept is not None:
            self._raised = self._raised or {}
            self._raised[key] = kept

    def raised(self, key: str, error: AgentError) -> Exception:
        """What to raise for a step that failed.

        Args:
            key: Of the step.
            error: What the log says that its body raised.

        Returns:
            Its like, where it was raised in this process; else a Failed that is an error of the
            same built-in class too, where it was of one.
        """
        kept = None if self._raised is None else self._raised.get(key)
        made = None if kept is None else _copy(kept)
        return _recalled(error) if made is None else made


async def _begin(key: str, effect: Effect, recorder: Recorder) -> None:
    """Log the intent of a step, and wait until it is on disk where the step may write."""
    recorder.check_open()
    if recorder.held is not None:
        await recorder.held.wait()
    recorder.emit(StepStarted(key=key, effect=effect))
    # Intent before effect: after a crash the log has to say that this may have happened.
    if effect is not Effect.READ:
        await recorder.barrier()


def _put_off(key: str, parked: Parked) -> StepSettled:
    """What the log keeps of a step that waits for people, and is done anew once they answered."""
    error = AgentError(ErrorCode.INPUT_REQUIRED, str(parked), origin=Origin.HOST)
    return StepSettled(key=key, effect=Effect.UNKNOWN, error=error)


def _logged(error: Exception) -> AgentError:
    """What the log keeps of what the body of a step raised."""
    failure, kind = error_of(error, Origin.ENGINE), type(origin_of(error))
    if kind.__module__ == builtins.__name__:
        return failure
    return replace(failure, details={**failure.details, _MODULE: kind.__module__})


def _copy(error: Exception) -> Exception | None:
    """Another like *error*, whose traceback holds nothing; None where there can be none."""
    try:
        made = copy.copy(error)
    except Exception:
        # Classes of users may be made of something else than what they hold.
        return None
    return made if type(made) is type(error) else None


def _recalled(error: AgentError) -> Failed:
    # A class of the user's may have the name of a built-in one.
    kind = None if _MODULE in error.details else getattr(builtins, error.type, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        # Some, such as UnicodeDecodeError, cannot be made of a message.
        try:
            return _both(kind)(error)
        except TypeError:
            pass
    return Failed(error)


@cache
def _both(kind: type[Exception]) -> type[Failed]:
    """A Failed that an ``except`` for *kind* catches."""
    return type(kind.__name__, (Failed, kind), {"__module__": __name__})
