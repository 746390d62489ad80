"""Stamps and logs events, and tells subscribers."""

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
    """Tells a method every fact in order; where it raises, that one fact is lost.

    Args:
        method: Sync or async.
        on_failure: Called with what it raised, once for each kind of error.
        needs_all: Whether it is told nothing more once it has raised.
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

    def tell(self, fact: object) -> None:
        """Hand *fact* on; never raises and never waits."""
        if self._is_closed:
            return
        try:
            told = self._method(fact)
        except BaseException as error:
            # A host looks on; it never fails a run. Nothing waits here that could be cancelled.
            self._fail(error)
            return
        if inspect.isawaitable(told):
            self._waiting.append(told)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work_off())

    @property
    def is_busy(self) -> bool:
        """Whether it has not taken all that it was told."""
        return self._task is not None and not self._task.done()

    async def drain(self) -> None:
        """Wait until all that was told has been taken."""
        if self._task is not None:
            await self._task

    def close(self) -> None:
        """Drop what was not taken."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            # Its context leads to the run, and that back here.
            self._task = None
        for told in self._waiting:
            if inspect.iscoroutine(told):
                told.close()
        self._waiting.clear()
        # What fails from now on concerns nobody, and who was to hear of it may go.
        self._on_failure = _forget

    async def _work_off(self) -> None:
        while self._waiting:
            try:
                await self._waiting.popleft()
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError | GeneratorExit):
                    task = None if is_closing() else asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                # A host looks on; it never fails a run.
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        # First, for the warning that it becomes is an event too.
        self._is_closed = self._is_closed or self._needs_all
        if (kind := type(error).__name__) not in self._kinds:
            self._kinds.add(kind)
            self._on_failure(error)


def _forget(_: BaseException) -> None:
    """Nobody hears of a failure any more."""


# Takes events, and what engines report that called a model by other ways; it must not wait.
Listener: TypeAlias = Callable[[Event | ModelResponse], None]
# Asked at each session, in the context of who runs it; None is no interest. It must not raise.
Opener: TypeAlias = Callable[[Plan], Listener | None]

# Replaced and never changed, so that runs of other threads read it whole.
_openers: tuple[Opener, ...] = ()


def listen(opener: Opener) -> Callable[[], None]:
    """Ask *opener* for a listener at every session that begins from now on.

    A listener that raises is told nothing more of that session, which gets a warning.

    Returns:
        Ends that; sessions under way are listened to until their end.
    """
    global _openers  # noqa: PLW0603  # the one list of a process
    _openers = (*_openers, opener)

    def end() -> None:
        global _openers  # noqa: PLW0603
        _openers = tuple(known for known in _openers if known is not opener)

    return end


def anybody_listens() -> bool:
    """Whether anybody is asked at each session."""
    return bool(_openers)


def listeners_of(plan: Plan) -> Iterator[Listener]:
    """Who wants to be told of a session that is about to begin."""
    for opener in _openers:
        listener = opener(plan)
        if listener is not None:
            yield listener


_DELTAS = frozenset(DELTAS)
_ENDS = frozenset({AttemptEnded, RunSettled})
# Those that need nothing but to be logged and folded, while nobody watches; a hand-off is shown
# in the result, with its run and its time.
_LAST = frozenset[type]({RunSettled, RunReleased})
_PLAIN = frozenset[type](get_args(Event)) - _DELTAS - _LAST - {HandoffEvent, Unknown}
_NONE = frozenset[type]()
# Bound once: this runs for every event of every run.
_set = force_setattr
_copy: Callable[[Any], Any] = methodcaller("__copy__")


def _without_local(event: RunSettled) -> RunSettled:
    """*event* without what lives in this process only, which a log in memory would keep alive."""
    kept, result = _copy(event), _copy(event.result)
    _set(result, "local", None)
    _set(kept, "result", result)
    return kept


class Recorder:
    """Stamps an event, appends it to the log, folds it, and tells subscribers, in this order.

    Attributes:
        run_id: The run.
        now: Tells the moment by which events are stamped.
        state: What the log says; every durable event is folded into it.
        attempt: Stamped on every event; set by the session.
        seq: Of the last durable event.
        watched: Whether anybody watches, so that deltas are worth making.
        is_fed: Whether the journal is among them, for other processes.
        is_heard: Whether events are logged, or told to anybody.
        is_lost: Whether the log could not be written; others may raise JournalError too.
        is_settled: Whether the last event of the session was emitted; none comes after it.
        only: Says which events are taken of a run that is left to another session; None is all.
        held: Never set; where it is there, what would begin a step waits for it.
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
    # Those that wait to be told, one after another.
    _untold: deque[Event] | None = None
    _watchers: tuple[Callable[[Event], None], ...] = ()
    # Those of them that are told what child runs tell, too.
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
            watcher: Who watches.
            inside: Whether it is told the events of child runs too, with their path.
        """
        self._watchers += (watcher,)
        if inside:
            self._watchers_inside += (watcher,)
        self.watched = self.is_heard = True
        self._plain = _NONE

    def unwatch(self, watcher: Callable[[Event], None]) -> None:
        """Call *watcher* no more."""
        self._watchers = tuple(one for one in self._watchers if one != watcher)
        self._watchers_inside = tuple(one for one in self._watchers_inside if one != watcher)

    def listen(self, listener: Listener) -> None:
        """Tell *listener* every event from now on, and what is reported; it may raise once."""

        # What it makes of the events would lack one, such as the end of a span.
        subscriber = Subscriber(listener, self._warn_of_listener, needs_all=True)
        self._watchers += (subscriber.tell,)
        self.is_heard, self._plain = True, _NONE
        self._subscribers += (subscriber,)

    def report(self, response: ModelResponse) -> None:
        """Tell listeners of a model call that is no event, since an engine made it otherwise."""
        shown = response if self._redaction is None else self._redaction.show(response)
        for subscriber in self._subscribers:
            subscriber.tell(shown)

    def emit(self, event: Event) -> None:
        """Stamp *event*, which nobody else may hold yet, log it if durable, and tell watchers.

        Raises:
            JournalError: The log no longer belongs to this process, or is closed.
        """
        kind = type(event)
        is_plain = kind in self._plain
        if not is_plain and not self._takes(event):
            return
        if (append := self._append) is None:
            # Without a log and watchers nobody asks when an event was, nor which one it is.
            if not is_plain:
                self._stamp(event, self.seq + 1)
        else:
            self._stamp(event, self.seq + 1)
            try:
                append(self._written(event), epoch=self._epoch)
            except JournalError:
                self.is_lost = True
                raise
        # Only now: an event that the log did not take has no place in it.
        self.seq += 1
        if (fold := FOLDS.get(kind)) is not None:
            fold(self.state, event)
        if not is_plain:
            self._part = 0
            if kind in _LAST:
                self.is_settled, self._plain = True, _NONE
            if self._watchers:
                self._tell(event)

    def _written(self, event: Event) -> Event:
        """*event* as it is logged."""
        if type(event) is RunSettled and event.result.local is not None:
            event = _without_local(event)
        event = to_stored(self.state, event)
        return event if self._redaction is None else self._redaction.write(event)

    def _stamp(self, event: Event, seq: int) -> None:
        _set(event, "run_id", self.run_id)
        _set(event, "attempt", self.attempt)
        _set(event, "time", self.now())
        _set(event, "seq", seq)

    def take_only(self, only: Callable[[Event], bool] | None) -> None:
        """Take nothing but what *only* says; None takes all again."""
        self.only, self._plain = only, _NONE

    def _takes(self, event: Event) -> bool:
        """Whether *event* is durable and comes in time; a delta is shown at once."""
        if self.is_settled or not isinstance(event, RunEvent):
            return False
        if self.only is not None and not self.only(event):
            return False
        if type(event) in _DELTAS:
            self.show(event)
            return False
        if self._redaction is not None and type(event) in _ENDS:
            # By these the pieces of a foreign engine have ended too, which tells of no reply.
            self.end_pieces()
        return True

    def end_pieces(self, reply: object = None) -> None:
        """Show what was kept back of the pieces of *reply*, None for all: no more of it comes."""
        if self._redaction is not None and self._watchers:
            for piece in self._redaction.release(reply):
                self._show_piece(piece)

    def break_off(self, text: str, reply: object) -> str:
        """The part of *text*, of an abandoned *reply*, that watchers have seen.

        An end that was kept back, since a secret may begin in it, is not shown any more.
        """
        return text if self._redaction is None else self._redaction.break_off(text, reply)

    def show(self, delta: Event, reply: object = None) -> None:
        """Tell watchers of what is not logged, as far as it is clear that no secret begins in it.

        Args:
            delta: Which nobody else may hold yet.
            reply: What it is a piece of, which ``end_pieces`` or ``break_off`` are told to end.
        """
        # Models and engines of users may give anything.
        if not self._watchers or self.is_settled or not isinstance(delta, RunEvent):
            return
        shown = delta if self._redaction is None else self._redaction.hold(delta, reply)
        if shown is not None:
            self._show_piece(shown)

    def _show_piece(self, piece: Event) -> None:
        self._part += 1
        self._stamp(piece, self.seq)
        _set(piece, "part", self._part)
        self._tell(piece)

    @property
    def is_watched_inside(self) -> bool:
        """Whether anybody is told what child runs tell."""
        return bool(self._watchers_inside)

    def tell_inside(self, event: Event) -> None:
        """Tell an event of a child run, which has masked this run's secrets too."""
        if self._watchers_inside:
            shown = _copy(event)
            _set(shown, "path", (self.run_id, *path_of(event)))
            self._hand_out(shown)

    def _tell(self, event: Event) -> None:
        self._hand_out(event if self._redaction is None else self._redaction.show(event))

    def _hand_out(self, event: Event) -> None:
        if (untold := self._untold) is None:
            untold = self._untold = deque()
        untold.append(event)
        if len(untold) > 1:
            # One who is told an event caused another: all others hear of the first one first.
            return
        while untold:
            try:
                event = untold[0]
                for watcher in self._watchers_inside if path_of(event) else self._watchers:
                    watcher(event)
            finally:
                untold.popleft()
        if self.is_settled:
            # Nothing comes any more, and who watched need not keep the run, nor it them.
            self._watchers, self._watchers_inside, self._subscribers = (), (), ()

    def check_open(self) -> None:
        """See that what is about to be done will be in the log.

        Raises:
            Misuse: The run has ended; an engine's task was left behind, or ignored its cancel.
        """
        if self.is_settled:
            raise Misuse(f"run {self.run_id!r} has ended: nothing is done in it any more")

    def leave_journal(self) -> None:
        """Log nothing more, since the log cannot be written; watchers are still told."""
        self._journal = self._append = None

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
        """Wait until everything that was emitted is safe, and the lease on the run holds."""
        if self._journal is None or self._is_safe_at_append:
            return
        try:
            await until_safe(self._journal, self.run_id, self.seq, epoch=self._epoch)
            # Only now: the wait for the disk may have been longer than the lease.
            if self._leasing is not None and boot_s() > self._leasing.lease.safe_until:
                await self._leasing.renew_lease(self.run_id)
        except JournalError:
            self.is_lost = True
            raise
