"""Keyed steps that run once, and work that several tasks wait for."""

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
    """Pieces of work. Each runs in its own task as long as something waits for it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}
        self._waiting: dict[asyncio.Task[T], int] = {}

    async def do(self, key: str, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run *body*, or wait for the work already running under *key*.

        A caller that is cancelled only stops waiting; the last one cancels the work and waits for
        its end. A caller that comes during that waits too, and then starts the work again.

        Returns:
            What the work returned.

        Raises:
            BaseException: Whatever it raised, in every caller.
        """
        task = self._tasks.get(key)
        try:
            if task is not None and task not in self._waiting and not task.done():
                # Its last waiter left and cancelled it; that cancel must not reach this caller.
                await asyncio.wait({task})
                return await self.do(key, body) if task.cancelled() else task.result()
            if task is None or task.done():
                task = self._tasks[key] = asyncio.get_running_loop().create_task(body())
                self._waiting[task] = 0
            self._waiting[task] += 1
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                await self._cancel_if_last(task)
                raise
            finally:
                self._drop_waiter(key, task)
        finally:
            # The exception refers to this frame; break the cycle.
            del task

    async def _cancel_if_last(self, task: asyncio.Task[T]) -> None:
        """Cancel *task* and wait for its end, unless something else waits for it."""
        if self._waiting[task] > 1 or task.done():
            return
        del self._waiting[task]
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            # Mark the exception as retrieved.
            task.exception()

    def _drop_waiter(self, key: str, task: asyncio.Task[T]) -> None:
        """Remove one waiter of *task*. Forget the task when it has none and is done."""
        left = self._waiting.get(task, 1) - 1
        if left:
            self._waiting[task] = left
            return
        self._waiting.pop(task, None)
        if task.done() and self._tasks.get(key) is task:
            del self._tasks[key]


# In the details of a logged error: the module of its class, if it is not a built-in.
_MODULE = "module"


class Steps:
    """Runs keyed steps once, and returns the logged outcome of settled ones.

    Args:
        state: The state folded from the log; new outcomes are folded into it.

    Attributes:
        settled: The last settlement by key.
        on_miss: Called instead of a body whose step is not settled; None runs the body.
        writes_in_hand: The running steps that may not run again, by key.
    """

    _raised: dict[str, Exception] | None = None

    def __init__(self, state: RunState) -> None:
        self.settled: dict[str, StepSettled] = state.steps_settled
        # Only steps of earlier sessions: a step started in this one may still be running.
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
        """Run *body* and log its outcome.

        If it may not run again, its outcome is on disk before it is returned.

        Args:
            key: The key of the step, which is not settled.
            effect: What it may do.
            body: Sync or async; returns a JSON value.
            recorder: The recorder of the run.
            idempotent: Whether it may run again if its outcome is unknown.
            who: What to blame if it raises, "" if the caller does that.

        Raises:
            Failed: It started in an earlier session and its outcome is unknown.
            Exception: Whatever *body* raises.
        """
        if self.on_miss is not None:
            self.on_miss(f"a step {key!r}")
        # May not run again: if the process died before the end was logged, it would be unknown.
        is_single = effect is not Effect.READ and not idempotent
        if key in self._began and is_single:
            raise Failed(
                ErrorCode.INTERRUPTED,
                f"step {key!r} started before the process died, and its outcome is unknown: "
                "make it idempotent, or check what it did and resume with another key",
            )
        await _log_start(key, effect, recorder)
        step = CurrentStep(recorder.run_id, recorder.attempt, key, is_single=is_single)
        token = current_body.set(step)
        if is_single:
            self.writes_in_hand[key] = step
        try:
            value, lossy = to_free_json(await call(body))
        except Exception as error:
            signal = signal_of(error)
            if isinstance(signal, Parked) and is_single:
                # It was not interrupted: it says itself that there is more to do.
                recorder.emit(_postponed_outcome(key, signal))
            if signal is not None:
                raise
            if who:
                blame(error, who, recorder.run_id)
            # The log must have an outcome for the step, whatever was raised.
            failure = _to_logged_error(error)
            recorder.emit(StepSettled(key=key, effect=Effect.UNKNOWN, error=failure))
            self._keep_exception(key, error)
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
        """Return the value of a settled step.

        Raises:
            Exception: A copy of what its body raised; see ``raised``.
        """
        if settled.error is not None:
            raise self.raised(settled.key, settled.error)
        return settled.value

    def hand_back(self, settled: StepSettled) -> Json:
        """Do the same as ``recall``, for a whole step of an engine."""
        return self.recall(settled)

    def _keep_exception(self, key: str, error: Exception) -> None:
        """Keep a copy of what a step's body raised, to raise it again."""
        kept = _copy_exception(error)
        if kept is not None:
            self._raised = self._raised or {}
            self._raised[key] = kept

    def raised(self, key: str, error: AgentError) -> Exception:
        """Return the exception to raise for a step that failed.

        Args:
            key: The key of the step.
            error: The logged error.

        Returns:
            A copy of the exception if it was raised in this process. Otherwise a Failed; if the
            exception was of a built-in class, ``except`` for that class catches it too.
        """
        kept = None if self._raised is None else self._raised.get(key)
        made = None if kept is None else _copy_exception(kept)
        return _to_exception(error) if made is None else made


async def _log_start(key: str, effect: Effect, recorder: Recorder) -> None:
    """Log the start of a step; if it may write, wait until that is on disk."""
    recorder.check_open()
    if recorder.held is not None:
        await recorder.held.wait()
    recorder.emit(StepStarted(key=key, effect=effect))
    # Intent before effect: after a crash the log must say that this may have happened.
    if effect is not Effect.READ:
        await recorder.barrier()


def _postponed_outcome(key: str, parked: Parked) -> StepSettled:
    """Return the logged outcome of a step that waits for people and will run again."""
    error = AgentError(ErrorCode.INPUT_REQUIRED, str(parked), origin=Origin.HOST)
    return StepSettled(key=key, effect=Effect.UNKNOWN, error=error)


def _to_logged_error(error: Exception) -> AgentError:
    """Return the logged error for what the body of a step raised."""
    failure, kind = error_of(error, Origin.ENGINE), type(origin_of(error))
    if kind.__module__ == builtins.__name__:
        return failure
    return replace(failure, details={**failure.details, _MODULE: kind.__module__})


def _copy_exception(error: Exception) -> Exception | None:
    """Return a copy of *error* without traceback; None if it cannot be copied."""
    try:
        made = copy.copy(error)
    except Exception:
        # Exceptions of users may need other constructor arguments than they keep.
        return None
    return made if type(made) is type(error) else None


def _to_exception(error: AgentError) -> Failed:
    # A class of the user may have the name of a built-in one.
    kind = None if _MODULE in error.details else getattr(builtins, error.type, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        # Some, such as UnicodeDecodeError, cannot be made from a message alone.
        try:
            return _failed_subclass(kind)(error)
        except TypeError:
            pass
    return Failed(error)


@cache
def _failed_subclass(kind: type[Exception]) -> type[Failed]:
    """Return a subclass of Failed that an ``except`` for *kind* catches."""
    return type(kind.__name__, (Failed, kind), {"__module__": __name__})
