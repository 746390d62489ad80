"""Pieces of replies under way, for watchers of a run that another process works on.

They are in no log. A session passes its pieces on only while they are watched. A thread merges
the pieces of each 100 ms and writes them to a store beside the log, where the watchers' processes
read them. The next durable event of the run makes them void, because it includes them.

The place of a piece is the ``seq`` of the durable event before it and its ``part``.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from upshot.contract.base.structs import RunEvent
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.events import Event
from upshot.contract.model_calls import ReasoningDelta, TextDelta
from upshot.errors import Misuse
from upshot.journal.watching import Changes

# Digits enough for any number in a database.
_CURSOR = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?")
# Pieces of this many seconds are merged.
_TOGETHER_S = 0.1


class PieceRow(NamedTuple):
    """Some pieces of a run as they are stored.

    Attributes:
        run_id: The run.
        seq: The seq of the durable event before them.
        part: The part of the last of them; 0 if there are no pieces yet.
        body: The pieces as JSON, b"" for none.
    """

    run_id: str
    seq: int
    part: int
    body: bytes


class PieceStore(Protocol):
    """Keeps pieces where other processes find them; belongs to one thread."""

    def put(self, rows: Sequence[PieceRow]) -> None:
        """Store *rows*, drop earlier seqs of the same runs, and notify watchers. Never raises."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


Keep: TypeAlias = Callable[[Iterable[PieceRow]], None]


def pieces_of(run_id: str) -> str:
    """Topic: the pieces of a run's replies."""
    return f"show:{run_id}"


def run_of_topic(topic: str) -> str | None:
    """Return the run of a topic of pieces, None for another topic."""
    kind, _, run_id = topic.partition(":")
    return run_id if kind == "show" else None


class Pieces:
    """The pieces of the runs that this process works on or watches.

    Args:
        changes: The waiters for pieces.
        open_store: Opens the store, in the thread; None if only this process has the journal.

    Attributes:
        wanted: Runs whose pieces other processes were watching at the runs' last commit.
    """

    def __init__(self, changes: Changes, open_store: Callable[[], PieceStore] | None) -> None:
        self.wanted: frozenset[str] = frozenset()
        self._changes = changes
        self._open_store = open_store
        # By run; all pieces of a run have one seq. Lists are replaced, not changed.
        self._kept: dict[str, list[Event]] = {}
        # Runs with stored pieces.
        self._begun: set[str] = set()
        self._queue: deque[tuple[str, Event]] = deque()
        self._bell = threading.Event()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def note_commit(self, written: AbstractSet[str], shown: AbstractSet[str]) -> None:
        """Record what a commit reported: the runs it wrote, and which of them have watchers."""
        # Replaced, never changed: another thread may be reading it.
        self.wanted = (self.wanted - written) | shown
        if self.wanted:
            # Start early, so that the store is connected when the first piece arrives.
            self._begin()

    def is_watched(self, run_id: str) -> bool:
        """Whether the pieces of a run are watched."""
        return run_id in self.wanted or pieces_of(run_id) in self._changes.watches

    def show(self, event: Event) -> None:
        """Accept an event of a run that this process works on; returns at once."""
        if not isinstance(event, RunEvent):
            return
        if not event.part:
            self._kept.pop(event.run_id, None)
            if event.run_id not in self._begun:
                return
        elif self._open_store is None:
            self._add_pieces(event.run_id, [event])
            return
        else:
            self._begun.add(event.run_id)
        self._queue.append((event.run_id, event))
        self._begin()
        self._bell.set()

    def keep(self, rows: Iterable[PieceRow]) -> None:
        """Keep pieces that another process stored."""
        for row in rows:
            if pieces_of(row.run_id) in self._changes.watches:
                self._add_pieces(row.run_id, decode(row.body, _decoder))
        for run_id in [*self._kept]:
            if run_id not in self._begun and pieces_of(run_id) not in self._changes.watches:
                self._kept.pop(run_id, None)

    def after(self, run_id: str, seq: int, part: int) -> list[Event]:
        """Return the pieces after the event *seq*, starting after piece number *part*."""
        kept = self._kept.get(run_id, [])
        return [one for one in kept if _place(one)[0] == seq and _place(one)[1] > part]

    def close(self) -> None:
        """Store the remaining pieces, and end the thread."""
        with self._lock:
            self._end.set()
            self._bell.set()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._end.is_set():
                self._thread = threading.Thread(target=self._run, name="upshot-pieces", daemon=True)
                self._thread.start()

    def _add_pieces(self, run_id: str, events: Sequence[Event]) -> None:
        before = self._kept.get(run_id, [])
        if before and _place(before[0])[0] != _place(events[0])[0]:
            before = []
        # A process that starts to watch its own run reads pieces back that it stored itself.
        last = _place(before[-1]) if before else (0, 0)
        self._kept[run_id] = [*before, *(one for one in events if _place(one) > last)]
        self._changes.notify([pieces_of(run_id)])

    def _run(self) -> None:
        assert self._open_store is not None
        store = self._open_store()
        try:
            while not self._end.is_set():
                self._bell.wait()
                self._bell.clear()
                self._flush(store)
                self._end.wait(_TOGETHER_S)
            self._flush(store)
        finally:
            store.close()

    def _flush(self, store: PieceStore) -> None:
        """Merge and store the queued pieces."""
        by_run: dict[str, list[Event]] = {}
        while self._queue:
            run_id, event = self._queue.popleft()
            by_run.setdefault(run_id, []).append(event)
        rows: list[PieceRow] = []
        for run_id, events in by_run.items():
            seq, part = _place(events[-1])
            pieces = together(one for one in events if _place(one)[0] == seq and _place(one)[1])
            if pieces:
                self._add_pieces(run_id, pieces)
            else:
                self._begun.discard(run_id)
            body = encode(pieces) if pieces else b""
            rows.append(PieceRow(run_id, seq, part, body))
        if rows:
            store.put(rows)


_decoder = decoder_of(list[Event])


def _place(event: Event) -> tuple[int, int]:
    return (event.seq, event.part) if isinstance(event, RunEvent) else (0, 0)


def together(pieces: Iterable[Event]) -> list[Event]:
    """Join consecutive texts of one kind into one piece, at the place of the last of them."""
    found: list[Event] = []
    for _, group in groupby(pieces, type):
        same = [*group]
        last = same[-1]
        if isinstance(last, TextDelta | ReasoningDelta):
            text = "".join(one.text for one in same if isinstance(one, TextDelta | ReasoningDelta))
            same = [replace(last, text=text)]
        found += same
    return found


def parse_cursor(after: int | str) -> tuple[int, int]:
    """Parse the place of an event: its ``seq``, or ``"seq.part"``.

    Raises:
        Misuse: It is not a place.
    """
    is_place = isinstance(after, int | str) and not isinstance(after, bool)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
    found = _CURSOR.fullmatch(str(after)) if is_place else None
    if found is None:
        raise Misuse(
            "after must be the seq of an event, from 0, or the 'seq.part' of a piece, "
            f"got {after!r:.80}"
        )
    return int(found[1]), int(found[2] or 0)
