"""Recorder: stamps the events of one sitting, logs them, and tells watchers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from msgspec.structs import force_setattr

from ..contract import (
    DELTAS,
    Clock,
    Event,
    HandoffEvent,
    Journal,
    ModelResponse,
    Origin,
    RunEvent,
    RunSettled,
    RunWarning,
    Warned,
)
from ..errors import JournalError
from .audience import Audience
from .callback import raised
from .listeners import Listener
from .veil import Veil

__all__ = ["Recorder"]

_DELTAS = frozenset(DELTAS)
_KEPT = frozenset({RunSettled, Warned, HandoffEvent})
# Bound once: this runs for every event of every run.
_set = force_setattr


class Recorder:
    """The one way from a run to its log and its watchers.

    Attributes:
        run_id: The run.
        attempt: Stamped on every event; set by the lifecycle.
        seq: Of the last durable event.
        warnings: All that were told, in order.
        handoff: The first hand-off of the attempt, None before one.
        watched: Whether anybody looks, so that deltas are worth making.
        is_lost: Whether the log could not be written; others may raise JournalError too.
        is_settled: Whether the last event of the sitting was emitted; none comes after it.
    """

    def __init__(
        self,
        run_id: str,
        *,
        clock: Clock,
        journal: Journal | None = None,
        epoch: int | None = None,
        seq: int = 0,
        veil: Veil | None = None,
    ) -> None:
        self.run_id = run_id
        self.attempt = 0
        self.seq: int = seq
        self.warnings: list[RunWarning] = []
        self.handoff: HandoffEvent | None = None
        self.watched: bool = False
        self.is_settled: bool = False
        self.is_lost: bool = False
        self._part = 0
        self._clock = clock
        self._journal = journal
        self._epoch = epoch
        self._veil = veil
        self._watchers: list[Callable[[Event], None]] = []
        self._untold: deque[Event] = deque()
        self._listeners: list[Audience] = []

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Call *watcher* with every event from now on; it must not raise."""
        self._watchers.append(watcher)
        self.watched = True

    def listen(self, listener: Listener) -> None:
        """Tell *listener* every event from now on, and what is reported; it may raise once."""
        audience = Audience(listener, self._warn_of_listener)
        self._watchers.append(audience.tell)
        self._listeners.append(audience)

    def report(self, response: ModelResponse) -> None:
        """Tell listeners of a model call that is no event, since an engine made it otherwise."""
        shown = response if self._veil is None else self._veil.show(response)
        for listener in self._listeners:
            listener.tell(shown)

    def emit(self, event: Event) -> None:
        """Stamp *event*, which nobody else may hold yet, log it if durable, and tell watchers.

        Raises:
            JournalError: The log no longer belongs to this process, or is closed.
        """
        if self.is_settled or not isinstance(event, RunEvent):
            return
        kind, journal = type(event), self._journal
        durable = kind not in _DELTAS
        if self._veil is not None and self._watchers:
            if durable:
                self._release(self._veil)
            elif (shown := self._veil.hold(event)) is not None:
                event = shown
            else:
                return
        seq = self.seq + durable
        part = 0 if durable else self._part + 1
        # Nobody can have seen an event that is neither logged nor watched nor in the result.
        if journal is not None or self._watchers or kind is HandoffEvent:
            self._stamp(event, seq, part)
            if durable and journal is not None:
                written = event if self._veil is None else self._veil.write(event)
                try:
                    journal.append(written, epoch=self._epoch)
                except JournalError:
                    self.is_lost = True
                    raise
        self.seq, self._part = seq, part
        if kind in _KEPT:
            self._keep(event)
        if self._watchers:
            self._tell(event)

    def _stamp(self, event: Event, seq: int, part: int) -> None:
        _set(event, "run_id", self.run_id)
        _set(event, "attempt", self.attempt)
        _set(event, "time", self._clock.now())
        _set(event, "seq", seq)
        _set(event, "part", part)

    def _release(self, veil: Veil) -> None:
        """Show what was kept back of the pieces before a durable event."""
        for piece in veil.release():
            self._part += 1
            self._stamp(piece, self.seq, self._part)
            self._tell(piece)

    def _tell(self, event: Event) -> None:
        untold = self._untold
        untold.append(event if self._veil is None else self._veil.show(event))
        if len(untold) > 1:
            # One who is told an event caused another: all others hear of the first one first.
            return
        while untold:
            try:
                for watcher in self._watchers:
                    watcher(untold[0])
            finally:
                untold.popleft()

    def _keep(self, event: Event) -> None:
        """Take from *event* what the run itself has to know."""
        match event:
            case RunSettled():
                self.is_settled = True
            case Warned():
                told = event.warning if self._veil is None else self._veil.show(event.warning)
                self.warnings.append(told)
            case HandoffEvent() if self.handoff is None:
                self.handoff = event
            case _:
                pass

    def leave_journal(self) -> None:
        """Log nothing more, since the log cannot be written; watchers are still told."""
        self._journal = None

    def warn(self, warning: RunWarning) -> None:
        """Log a warning and keep it for the result."""
        self.emit(Warned(warning=warning))

    def warn_of_losses(self, name: str, paths: Iterable[str]) -> None:
        """Tell which parts of a value of the engine's JSON cannot hold, by their paths in it."""
        for path in paths:
            message = f"{name}{path} holds what JSON cannot: it was replaced"
            self.warn(RunWarning(code="lossy_value", message=message, origin=Origin.ENGINE))

    def _warn_of_listener(self, error: BaseException) -> None:
        message = raised("a listener of all runs", error)
        self.warn(RunWarning(code="listener_failed", message=message, origin=Origin.OBSERVER))

    async def barrier(self) -> None:
        """Wait until everything that was emitted is safe."""
        if self._journal is None:
            return
        try:
            await self._journal.durable(self.run_id, self.seq)
        except JournalError:
            self.is_lost = True
            raise
