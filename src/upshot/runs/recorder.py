"""Stamps and logs events, and notifies subscribers."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from operator import methodcaller
from typing import Any, TypeAlias, get_args

from msgspec.structs import force_setattr

from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.enums import Origin
from upshot.contract.base.structs import RunEvent, path_of
from upshot.contract.error import RunWarning
from upshot.contract.events import (
    DELTAS,
    AttemptEnded,
    Event,
    RunReleased,
    RunSettled,
    Warned,
)
from upshot.contract.message import Unknown
from upshot.contract.model_calls import ModelResponse
from upshot.contract.protocols import (
    Clock,
    Journal,
    LeasingJournal,
    as_leasing,
    is_safe_at_append,
    until_safe,
)
from upshot.errors import JournalError, Misuse
from upshot.journal.lease_holder import boot_s
from upshot.runs.callbacks import is_closing, raised
from upshot.runs.plan import Plan
from upshot.runs.redaction import Redaction
from upshot.state.run_state import FOLDS, RunState
from upshot.state.stored_events import to_stored


class Subscriber:
    """Calls a method with every fact, in order. If it raises, only that fact is lost.

    Args:
        method: Sync or async.
        on_failure: Called with the exception, once for each type of exception.
        needs_all: Whether it gets no more facts after it has raised.
    """

    def __init__(
        self,
        method: Callable[[Any], object],
        on_failure: Callable[[BaseException], None],
        *,
        needs_all: bool = False,
    ) -> None:
        self._method = method
        self._needs_all = needs_all
        self._on_failure = on_failure
        self._waiting: deque[Awaitable[object]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._kinds: set[str] = set()

    def notify(self, fact: object) -> None:
        """Pass *fact* to the method; never raises and never waits."""
        if self._is_closed:
            return
        try:
            returned = self._method(fact)
        except BaseException as error:
            # A subscriber never fails a run. Nothing here awaits, so no cancellation is lost.
            self._handle_failure(error)
            return
        if inspect.isawaitable(returned):
            self._waiting.append(returned)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._await_all())

    @property
    def is_busy(self) -> bool:
        """Whether it is still processing facts."""
        return self._task is not None and not self._task.done()

    async def drain(self) -> None:
        """Wait until all facts have been processed."""
        if self._task is not None:
            await self._task

    def close(self) -> None:
        """Drop the facts that were not processed."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            # The task's context refers to the run, and the run refers to this.
            self._task = None
        for waiting in self._waiting:
            if inspect.iscoroutine(waiting):
                waiting.close()
        self._waiting.clear()
        # Later failures concern no one, and the object to notify may be freed.
        self._on_failure = _ignore

    async def _await_all(self) -> None:
        while self._waiting:
            try:
                await self._waiting.popleft()
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError | GeneratorExit):
                    task = None if is_closing() else asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                # A subscriber never fails a run.
                self._handle_failure(error)

    def _handle_failure(self, error: BaseException) -> None:
        # Before on_failure, which emits a warning that would come here again.
        self._is_closed = self._is_closed or self._needs_all
        if (kind := type(error).__name__) not in self._kinds:
            self._kinds.add(kind)
            self._on_failure(error)


def _ignore(_: BaseException) -> None:
    """Ignore a failure after the end."""


# Gets events, and model calls that engines report but did not make through upshot. Must not wait.
Listener: TypeAlias = Callable[[Event | ModelResponse], None]
# Called at each session, in the context of its caller. None: no interest. Must not raise.
Opener: TypeAlias = Callable[[Plan], Listener | None]

# Replaced, never mutated, so that threads read a consistent value.
_openers: tuple[Opener, ...] = ()


def listen(opener: Opener) -> Callable[[], None]:
    """Ask *opener* for a listener at every session that starts from now on.

    A listener that raises gets nothing more of that session, and the session gets a warning.

    Returns:
        A function that undoes this; sessions under way keep their listeners.
    """
    global _openers  # noqa: PLW0603  # the one list of a process
    _openers = (*_openers, opener)

    def end() -> None:
        global _openers  # noqa: PLW0603
        _openers = tuple(known for known in _openers if known is not opener)

    return end


def anybody_listens() -> bool:
    """Whether any opener is set."""
    return bool(_openers)


def listeners_of(plan: Plan) -> Iterator[Listener]:
    """Return the listeners for a session that is about to start."""
    for opener in _openers:
        listener = opener(plan)
        if listener is not None:
            yield listener


_DELTAS = frozenset(DELTAS)
_ENDS = frozenset({AttemptEnded, RunSettled})
# Without watchers, these only have to be logged and folded. A handoff is not among them, because
# the result shows it with its run and its time.
_LAST = frozenset[type]({RunSettled, RunReleased})
_PLAIN = frozenset[type](get_args(Event)) - _DELTAS - _LAST - {HandoffEvent, Unknown}
_NONE = frozenset[type]()
# Bound once: these run for every event of every run.
_set = force_setattr
_copy: Callable[[Any], Any] = methodcaller("__copy__")


def _without_local(event: RunSettled) -> RunSettled:
    """Return *event* without process-local values, which a log in memory would keep alive."""
    kept, result = _copy(event), _copy(event.result)
    _set(result, "local", None)
    _set(kept, "result", result)
    return kept


class Recorder:
    """Stamps an event, appends it to the log, folds it and notifies subscribers, in this order.

    Attributes:
        run_id: The run.
        now: Returns the time that events are stamped with.
        state: The fold of the log; every durable event is folded into it.
        attempt: Stamped on every event; set by the session.
        seq: Of the last durable event.
        watched: Whether anything watches, so that deltas are worth making.
        is_fed: Whether the journal watches, for other processes.
        is_heard: Whether events are logged or watched.
        is_lost: Whether the log could not be written; others may raise JournalError too.
        is_settled: Whether the last event of the session was emitted. No event follows it.
        only: Says which events to accept while the run is left to another session; None: all.
        held: An event that is never set. If present, every new step must wait for it.
    """

    attempt: int = 0
    watched: bool = False
    is_fed: bool = False
    is_heard: bool = False
    is_settled: bool = False
    is_lost: bool = False
    only: Callable[[Event], bool] | None = None
    held: asyncio.Event | None = None
    _leasing: LeasingJournal | None = None
    _part: int = 0
    # Events that wait to be handed out, in order.
    _unsent: deque[Event] | None = None
    _watchers: tuple[Callable[[Event], None], ...] = ()
    # The watchers that also get events of child runs.
    _watchers_inside: tuple[Callable[[Event], None], ...] = ()
    _subscribers: tuple[Subscriber, ...] = ()

    def __init__(
        self,
        run_id: str,
        *,
        clock: Clock,
        state: RunState,
        journal: Journal | None = None,
        epoch: int | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self.run_id = run_id
        self.state = state
        self.seq: int = state.seq
        self.now: Callable[[], datetime] = clock.now
        self._journal = journal
        self._append = None
        if journal is not None:
            self._append, self.is_heard = journal.append, True
            if epoch is not None:
                self._leasing = as_leasing(journal)
        self._is_safe_at_append: bool = journal is not None and is_safe_at_append(journal)
        self._epoch = epoch
        self._redaction = redaction
        self._plain = _PLAIN if redaction is None else _NONE

    def watch(self, watcher: Callable[[Event], None], *, inside: bool = False) -> None:
        """Call *watcher* with every event from now on; it must not raise.

        Args:
            watcher: The function to call.
            inside: Whether it also gets the events of child runs, with their path.
        """
        self._watchers += (watcher,)
        if inside:
            self._watchers_inside += (watcher,)
        self.watched = self.is_heard = True
        self._plain = _NONE

    def unwatch(self, watcher: Callable[[Event], None]) -> None:
        """Stop calling *watcher*."""
        self._watchers = tuple(one for one in self._watchers if one != watcher)
        self._watchers_inside = tuple(one for one in self._watchers_inside if one != watcher)

    def listen(self, listener: Listener) -> None:
        """Pass *listener* every event and report from now on, until it raises."""

        # A listener that missed an event would draw wrong conclusions, such as a span without end.
        subscriber = Subscriber(listener, self._warn_of_listener, needs_all=True)
        self._watchers += (subscriber.notify,)
        self.is_heard, self._plain = True, _NONE
        self._subscribers += (subscriber,)

    def report(self, response: ModelResponse) -> None:
        """Pass listeners a model call that an engine made without upshot; it is not an event."""
        shown = response if self._redaction is None else self._redaction.show(response)
        for subscriber in self._subscribers:
            subscriber.notify(shown)

    def emit(self, event: Event) -> None:
        """Stamp *event*, log it if durable, and notify watchers. The caller must not keep *event*.

        Raises:
            JournalError: The run was claimed by another process, or the journal is closed.
        """
        kind = type(event)
        is_plain = kind in self._plain
        if not is_plain and not self._accepts(event):
            return
        if (append := self._append) is None:
            # Without log and watchers, nothing reads the stamp.
            if not is_plain:
                self._stamp(event, self.seq + 1)
        else:
            self._stamp(event, self.seq + 1)
            try:
                append(self._to_logged(event), epoch=self._epoch)
            except JournalError:
                self.is_lost = True
                raise
        # Only now: an event that the journal refused has no place in the log.
        self.seq += 1
        if (fold := FOLDS.get(kind)) is not None:
            fold(self.state, event)
        if not is_plain:
            self._part = 0
            if kind in _LAST:
                self.is_settled, self._plain = True, _NONE
            if self._watchers:
                self._notify(event)

    def _to_logged(self, event: Event) -> Event:
        """Return *event* as it is logged."""
        if type(event) is RunSettled and event.result.local is not None:
            event = _without_local(event)
        event = to_stored(self.state, event)
        return event if self._redaction is None else self._redaction.write(event)

    def _stamp(self, event: Event, seq: int) -> None:
        _set(event, "run_id", self.run_id)
        _set(event, "attempt", self.attempt)
        _set(event, "time", self.now())
        _set(event, "seq", seq)

    def accept_only(self, only: Callable[[Event], bool] | None) -> None:
        """Accept only events for which *only* returns true; None accepts all again."""
        self.only, self._plain = only, _NONE

    def _accepts(self, event: Event) -> bool:
        """Whether *event* is durable and not too late. A delta is shown at once."""
        if self.is_settled or not isinstance(event, RunEvent):
            return False
        if self.only is not None and not self.only(event):
            return False
        if type(event) in _DELTAS:
            self.show(event)
            return False
        if self._redaction is not None and type(event) in _ENDS:
            # These also end the pieces of a foreign engine, which does not report replies.
            self.end_pieces()
        return True

    def end_pieces(self, reply: object = None) -> None:
        """Show the withheld pieces of *reply*, which is complete; None means all replies."""
        if self._redaction is not None and self._watchers:
            for piece in self._redaction.release(reply):
                self._show_piece(piece)

    def break_off(self, text: str, reply: object) -> str:
        """Return the part of *text*, of an abandoned *reply*, that watchers have seen.

        A withheld end, in which a secret might start, is dropped.
        """
        return text if self._redaction is None else self._redaction.break_off(text, reply)

    def show(self, delta: Event, reply: object = None) -> None:
        """Pass watchers an event that is not logged. Withholds text in which a secret may start.

        Args:
            delta: The event; the caller must not keep it.
            reply: The reply it belongs to; pass that to ``end_pieces`` or ``break_off``.
        """
        # Models and engines of users may pass anything.
        if not self._watchers or self.is_settled or not isinstance(delta, RunEvent):
            return
        shown = delta if self._redaction is None else self._redaction.hold(delta, reply)
        if shown is not None:
            self._show_piece(shown)

    def _show_piece(self, piece: Event) -> None:
        self._part += 1
        self._stamp(piece, self.seq)
        _set(piece, "part", self._part)
        self._notify(piece)

    @property
    def is_watched_inside(self) -> bool:
        """Whether any watcher gets the events of child runs."""
        return bool(self._watchers_inside)

    def notify_child_runs(self, event: Event) -> None:
        """Pass on an event of a child run, which has masked this run's secrets too."""
        if self._watchers_inside:
            shown = _copy(event)
            _set(shown, "path", (self.run_id, *path_of(event)))
            self._hand_out(shown)

    def _notify(self, event: Event) -> None:
        self._hand_out(event if self._redaction is None else self._redaction.show(event))

    def _hand_out(self, event: Event) -> None:
        if (untold := self._unsent) is None:
            untold = self._unsent = deque()
        untold.append(event)
        if len(untold) > 1:
            # A watcher caused this event: all other watchers must get the earlier one first.
            return
        while untold:
            try:
                event = untold[0]
                for watcher in self._watchers_inside if path_of(event) else self._watchers:
                    watcher(event)
            finally:
                untold.popleft()
        if self.is_settled:
            # No event follows; break the references between the run and its watchers.
            self._watchers, self._watchers_inside, self._subscribers = (), (), ()

    def check_open(self) -> None:
        """Check that what is about to be done can still be logged.

        Raises:
            Misuse: The run has ended; an engine's task was abandoned, or ignored its cancel.
        """
        if self.is_settled:
            raise Misuse(f"run {self.run_id!r} has ended: nothing more can be done in it")

    def leave_journal(self) -> None:
        """Stop logging, because the log cannot be written. Watchers are still notified."""
        self._journal = self._append = None

    def warn(self, warning: RunWarning) -> None:
        """Log a warning, which also adds it to the result."""
        self.emit(Warned(warning=warning))

    def warn_of_losses(self, name: str, paths: Iterable[str]) -> None:
        """Warn of parts of an engine's value that JSON cannot represent, given by their paths."""
        for path in paths:
            message = f"{name}{path} has no JSON form: it was replaced"
            self.warn(RunWarning(code="lossy_value", message=message, origin=Origin.ENGINE))

    def _warn_of_listener(self, error: BaseException) -> None:
        message = raised("a listener of all runs", error)
        self.warn(RunWarning(code="listener_failed", message=message, origin=Origin.OBSERVER))

    async def barrier(self) -> None:
        """Wait until every emitted event is safe and the lease on the run is valid."""
        if self._journal is None or self._is_safe_at_append:
            return
        try:
            await until_safe(self._journal, self.run_id, self.seq, epoch=self._epoch)
            # Only now, because the wait for the disk may have outlasted the lease.
            if self._leasing is not None and boot_s() > self._leasing.lease.safe_until:
                await self._leasing.renew_lease(self.run_id)
        except JournalError:
            self.is_lost = True
            raise
