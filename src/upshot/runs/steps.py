"""Steps: what came of keyed steps and questions, in this sitting and by the log of earlier ones."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NoReturn

from msgspec.structs import replace

from ..contract import (
    AgentError,
    Effect,
    ErrorCode,
    Json,
    Origin,
    StepSettled,
    StepStarted,
    to_free_json,
)
from .callback import call, origin_of
from .ending import internal_error
from .recorder import Recorder
from .signals import Failed, Parked, signal_of
from .trail import blame

__all__ = ["Steps"]

# In the details of a logged error: where its class is, if that is no built-in.
_MODULE = "module"


class Steps:
    """What came of keyed steps and questions.

    Attributes:
        settled: The last settlement by key.
        started: Effects of steps that began and of whose end the log has nothing, by key.
        answers: Answers by question id.
        on_miss: Called instead of a body whose step is not settled; None runs it.
    """

    _raised: dict[str, Exception] | None = None

    def __init__(self) -> None:
        self.settled: dict[str, StepSettled] = {}
        self.started: dict[str, Effect] = {}
        self.answers: dict[str, Json] = {}
        self.on_miss: Callable[[str], NoReturn] | None = None

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
            Failed: It began in an earlier sitting and what came of it is unknown.
            Exception: Whatever *body* raises.
        """
        if self.on_miss is not None:
            self.on_miss(f"a step {key!r}")
        # What may not run again: it would be unknown if its end were lost with the process.
        is_single = effect is not Effect.READ and not idempotent
        if key in self.started and is_single:
            raise Failed(
                ErrorCode.INTERRUPTED,
                f"step {key!r} began before the process ended and what came of it is unknown: "
                "make it idempotent, or look what it did and resume with another key",
            )
        recorder.check_open()
        recorder.emit(StepStarted(key=key, effect=effect))
        # Intent before effect: after a crash the log has to say that this may have happened.
        if effect is not Effect.READ:
            await recorder.barrier()
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
            self._settle(StepSettled(key=key, effect=Effect.UNKNOWN, error=failure), recorder)
            self._keep(key, error)
            if is_single:
                await recorder.barrier()
            raise
        applied = Effect.NONE if effect is Effect.READ else Effect.APPLIED
        recorder.warn_of_losses(f"step {key!r}", lossy)
        self._settle(StepSettled(key=key, effect=applied, value=value), recorder)
        if is_single:
            await recorder.barrier()
        return value

    def take(self, settled: StepSettled) -> None:
        """Take in what the log says of the end of a step."""
        self.started.pop(settled.key, None)
        # One that was put off, to ask a person, is done anew.
        if settled.error is None or settled.error.code is not ErrorCode.INPUT_REQUIRED:
            self.settled[settled.key] = settled

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

    def _settle(self, settled: StepSettled, recorder: Recorder) -> None:
        recorder.emit(settled)
        self.settled[settled.key] = settled

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


def _put_off(key: str, parked: Parked) -> StepSettled:
    """What the log keeps of a step that waits for people, and is done anew once they answered."""
    error = AgentError(ErrorCode.INPUT_REQUIRED, str(parked), origin=Origin.HOST)
    return StepSettled(key=key, effect=Effect.UNKNOWN, error=error)


def _logged(error: Exception) -> AgentError:
    """What the log keeps of what the body of a step raised."""
    failure, kind = internal_error(error, Origin.ENGINE), type(origin_of(error))
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
