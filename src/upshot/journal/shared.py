"""What several processes do with one journal: wishes, and runs that somebody has to take up.

A wish is an answer that somebody gives who does not work on the run. It is a row beside the log,
which only the run's holder may append to. The first one for a question stands, whoever comes later
is told of it. Whoever goes on with the run copies the wishes for its open questions into the log;
the answer that is logged there is the mark that a wish was taken.

A run is due when somebody has to take it up: it was submitted, or answered while it was parked.
That it is due stands in its row in the list of runs. A claim takes it away, for the row names the
holder from then on, who is known to be dead if it dies.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from threading import Lock
from typing import Literal, Protocol, TypeVar, cast

from upshot.contract.base.structs import JsonObject, Moment, Value
from upshot.contract.events import Event
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import Journal
from upshot.errors import Misuse
from upshot.journal.watching import Watcher

T = TypeVar("T")

QUEUED = "queued"
"""The status of a run that was submitted and has no log yet."""

KEY_LIFE = timedelta(days=30)
"""So long after the end of its run the key of a submission is still known."""


class Wish(Value, frozen=True, kw_only=True):
    """An answer to a question of a run.

    Attributes:
        run_id: The run that asks.
        item: The question: the digest of a request for approval; the id of another one, and how
            often it had been answered before.
        answer: The answer; its secrets are masked.
        at: When it was given.
    """

    run_id: str
    item: str
    answer: AnyAnswer
    at: Moment


class Stop(Value, frozen=True, kw_only=True):
    """The wish that a run stop; it holds until the run has ended.

    Attributes:
        run_id: The run.
        kind: "interrupt" stops it at its next safe point, "cancel" at once.
        cause: Why it is interrupted, a word of ``InterruptCause`` or another one.
        detail: More of it, for people.
        at: When it was said.
    """

    run_id: str
    kind: Literal["interrupt", "cancel"]
    cause: str = ""
    detail: str = ""
    at: Moment


class Submission(Value, frozen=True, kw_only=True):
    """A run to be begun by whoever takes it up.

    Attributes:
        run_id: The run.
        agent_id: Its agent.
        request: What is asked; its secrets are masked.
        options: Options of the run, as JSON.
        priority: Runs with a larger one are taken up first.
        at: From when on it is due; None is at once.
        key: What names it for the caller, "" for none.
        digest: Of agent, request and options, so that a key is not used for another request.
        marks: Which marks stand for secrets, as ``run_started`` notes it.
        version: The code that submitted it.
    """

    run_id: str
    agent_id: str
    request: Request
    options: JsonObject = {}
    priority: int = 0
    at: Moment | None = None
    key: str = ""
    digest: str = ""
    marks: JsonObject = {}
    version: str = ""


class DueRun(Value, frozen=True, kw_only=True):
    """A run that somebody has to take up.

    Attributes:
        run_id: The run.
        agent_id: Its agent.
        conversation: Its conversation, "" for none.
        reason: Why: "submitted", "answered", "interrupt", "cancel", "released", "died" and others.
        priority: Those with a larger one come first.
        at: Since when; None of one whose holder died.
        has_begun: Whether it has a log.
        epoch: How often it was taken up before.
    """

    run_id: str
    agent_id: str
    conversation: str = ""
    reason: str = ""
    priority: int = 0
    at: Moment | None = None
    has_begun: bool = False
    epoch: int = 0


class SharedValues(Protocol):
    """Small texts by name that several processes change, within a transaction.

    Attributes:
        now_us: The moment by the journal's clock, in microseconds since 1970.
    """

    @property
    def now_us(self) -> int: ...

    def read(self, name: str) -> str:
        """The text, "" where there is none; nobody else changes it until the transaction ends."""
        ...

    def write(self, name: str, body: str) -> None:
        """Replace a text that was read."""
        ...

    def forget(self, first: str, end: str) -> None:
        """Drop those whose names come from *first* on and before *end*."""
        ...


class MemoryValues:
    """The values of one process; plays the role SharedValues."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lock = Lock()

    def change(self, change: Callable[[SharedValues], T]) -> T:
        """Do *change*, by one thread at a time; where it raises, nothing is changed."""
        with self._lock:
            before = self._texts.copy()
            try:
                return change(self)
            except BaseException:
                self._texts = before
                raise

    @property
    def now_us(self) -> int:
        """The moment by this machine's clock."""
        return time.time_ns() // 1_000

    def read(self, name: str) -> str:
        """See ``SharedValues.read``."""
        return self._texts.get(name, "")

    def write(self, name: str, body: str) -> None:
        """See ``SharedValues.write``."""
        self._texts[name] = body

    def forget(self, first: str, end: str) -> None:
        """See ``SharedValues.forget``."""
        for name in [name for name in self._texts if first <= name < end]:
            del self._texts[name]


class SharedJournal(Protocol):
    """A journal through which processes that do not work on a run reach it."""

    def watch(self, *topics: str) -> Watcher:
        """Begin to wait for changes; to be used as a context manager.

        Args:
            topics: Of what: ``DUE``, or what ``of_run`` and ``wishes_of`` of ``watching`` and
                ``pieces_of`` of ``pieces`` give.
        """
        ...

    def is_shown(self, run_id: str) -> bool:
        """Whether anybody watches the pieces of a run's replies, as of its last commit."""
        ...

    def show(self, event: Event) -> None:
        """Take an event of a run that is worked on here; pieces are handed on to who watches."""
        ...

    def pieces(self, run_id: str, seq: int, part: int) -> Sequence[Event]:
        """The pieces after the event *seq*, and of those the ones after *part*.

        They come only while the topic of the run's pieces is watched.
        """
        ...

    async def place_wish(self, wish: Wish, *, seq: int = 0) -> Wish | None:
        """Keep *wish*, unless there is one for the same question; the root run becomes due.

        Args:
            wish: What is wanted.
            seq: The last event of the run's log as the caller knows it; 0 of the run's holder,
                and then nothing becomes due.

        Returns:
            The wish that stands for the question. None if *seq* is given, and the run is being
            worked on or its log ends with another event; then nothing was kept.
        """
        ...

    async def wishes(self, run_id: str) -> Sequence[Wish]:
        """All that were kept for a run."""
        ...

    async def place_stop(self, stop: Stop) -> None:
        """Keep *stop*, unless there is one of its kind, and have a root run that has not ended
        taken up for it.
        """
        ...

    async def stops(self, run_ids: Sequence[str]) -> Sequence[Stop]:
        """Those that were kept for runs, and not dropped since."""
        ...

    async def drop_stops(self, run_id: str) -> None:
        """Forget those of a run that goes on although it was stopped."""
        ...

    async def submit(self, new: Submission) -> Submission:
        """Keep a run that is to be begun.

        Returns:
            *new*; or the one that has its key, and then nothing was kept.

        Raises:
            Misuse: The journal has another run of that id.
        """
        ...

    async def submission(self, run_id: str) -> Submission | None:
        """How a run was submitted; None for one that was not."""
        ...

    async def due_runs(
        self,
        agent_ids: Collection[str] | None = None,
        *,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[DueRun]:
        """The root runs that somebody has to take up now and nobody works on.

        Args:
            agent_ids: Only those of these agents; None is all.
            run_id: Only this run, if it is due; None is all.
            limit: The most that are due; those whose holder died come beside them.

        Returns:
            Larger priorities first, then those that have waited longest; at the end those whose
            holder died.
        """
        ...

    async def make_due(self, run_id: str, reason: str, *, delay_s: float = 0) -> None:
        """Have a run that nobody works on taken up, or a due one only after *delay_s* seconds."""
        ...

    async def change_values(self, change: Callable[[SharedValues], T]) -> T:
        """Change values in a transaction; returns what *change* gave once that is committed.

        *change* may be called again where a connection is lost, and in any thread.
        """
        ...

    async def settle_claim(self, run_id: str) -> None:
        """Wait until a claim of the run that is under way has ended."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Have what is appended and begun within the block written in one transaction.

        No claim of the run may be under way, and nothing is awaited within.
        """
        ...

    def begin_change(self, change: Callable[[SharedValues], T]) -> Awaitable[T]:
        """Begin what ``change_values`` does, after all that was appended; returns at once."""
        ...


def shared_journal(journal: Journal) -> SharedJournal | None:
    """*journal*, if it is one through which others reach a run."""
    has = all(hasattr(journal, name) for name in _METHODS)
    return cast("SharedJournal", journal) if has else None


def needs_shared(journal: Journal) -> SharedJournal:
    """*journal*, through which others have to reach a run.

    Raises:
        Misuse: They do not.
    """
    shared = shared_journal(journal)
    if shared is None:
        missing = next(name for name in _METHODS if not hasattr(journal, name))
        raise Misuse(
            f"{type(journal).__name__} keeps nothing for other processes, since it has no "
            f"{missing}(): give the path of a journal, or go on with the run itself by resume"
        )
    return shared


_METHODS = [name for name in vars(SharedJournal) if not name.startswith("_")]


def is_past_key(ended_at: datetime | None, now: datetime) -> bool:
    """Whether the key of a run that ended then is no longer known."""
    return ended_at is not None and ended_at + KEY_LIFE < now


def taken_id(run_id: str) -> Misuse:
    """The exception for a submission under the id of another run."""
    return Misuse(
        f"the journal has a run {run_id!r} already: leave the run_id of the request empty, or "
        "give key= so that the same request is submitted once"
    )
