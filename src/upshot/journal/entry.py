"""Entry: an event in the form in which it is stored."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast, get_args

from ..contract import (
    DELTAS,
    Event,
    RunResumed,
    RunSettled,
    RunStarted,
    RunSummary,
    Unknown,
    clean_text,
    decode,
    encode,
)
from ..errors import JournalError, Misuse

__all__ = [
    "DURABLE",
    "NOTED",
    "RUNNING",
    "Entry",
    "Note",
    "checked_id",
    "checksum",
    "decode_event",
    "noted",
    "stamp_of",
    "to_entry",
]

RUNNING = RunSummary().status
_REQUEST_CHARS = 200
_DELTAS = frozenset(DELTAS)
# Types of events that a journal keeps and that this version knows.
DURABLE = frozenset[type](get_args(Event)) - _DELTAS - {Unknown}
# Those that change the list of runs.
NOTED = frozenset[type]({RunStarted, RunResumed, RunSettled})
# What is looked up of a type once: its kind, and whether it names a call.
_traits: dict[type, tuple[str, bool]] = {}


class Note(NamedTuple):
    """What an event changes in the list of runs; None leaves a field as it is."""

    status: str
    agent_id: str | None = None
    started_at: float | None = None
    request: str | None = None
    parent_run_id: str | None = None


class Entry(NamedTuple):
    """An event, encoded, with what is stored beside its body.

    Attributes:
        run_id: The run that it is of.
        seq: Its place in the run's log, from 1.
        epoch: That of the holder who appended it.
        kind: The event's kind.
        time: Unix seconds, None where the event has no time.
        call_id: The call that it is about, "" if none.
        body: The event as JSON.
        note: What it changes in the list of runs, None if nothing.
    """

    run_id: str
    seq: int
    epoch: int
    kind: str
    time: float | None
    call_id: str
    body: bytes
    note: Note | None


def stamp_of(event: Event) -> tuple[str, int]:
    """The run and the seq of a durable event.

    Raises:
        Misuse: It is a delta, or no event of a run, or the run's id is no text.
    """
    kind = type(event)
    if kind in _DELTAS:
        raise Misuse(f"{event.kind} is for watchers and is not stored in a journal")
    if isinstance(event, Unknown):
        run_id, seq = event.raw.get("run_id"), event.raw.get("seq")
        if not isinstance(run_id, str) or not isinstance(seq, int):
            raise Misuse(f"the unknown event {event.kind!r} has no run_id and seq")
    else:
        run_id, seq = event.run_id, event.seq
    if not run_id:
        raise Misuse(f"{event.kind} has no run_id")
    return checked_id(run_id), seq


def checked_id(run_id: str) -> str:
    """*run_id*, which can be the id of a run.

    Raises:
        Misuse: It is no text.
    """
    if clean_text(run_id) is not run_id:
        raise Misuse(f"{run_id!r} cannot be the id of a run: it holds lone surrogates")
    return run_id


def to_entry(event: Event, run_id: str, seq: int, epoch: int) -> Entry:
    """Encode *event* for storing.

    Raises:
        Misuse: It holds something that is no JSON.
    """
    return _entry(event, run_id, seq, epoch, encode(event))


def decode_entry(body: bytes) -> Entry:
    """Make the entry of a *body* that comes from elsewhere; its epoch is 0.

    Raises:
        Misuse: It is no durable event.
    """
    event = decode_event(body)
    run_id, seq = stamp_of(event)
    return _entry(event, run_id, seq, 0, body)


def decode_event(body: bytes) -> Event:
    """Read an event.

    Raises:
        Misuse: It is no event.
    """
    return cast("Event", decode(body, cast("Any", Event)))


def noted(event: Event) -> Note | None:
    """What *event* changes in the list of runs."""
    match event:
        case RunStarted():
            return Note(
                RUNNING,
                agent_id=clean_text(event.agent.id),
                started_at=_unix(event.time),
                request=clean_text(event.request.text[:_REQUEST_CHARS]),
                parent_run_id=clean_text(event.parent_run_id),
            )
        case RunResumed():
            return Note(RUNNING)
        case RunSettled():
            return Note(str(event.result.status.value))
        case _:
            return None


def checksum(run_id: str, seq: int, epoch: int, body: bytes) -> int:
    """CRC-32 over all that cannot be told from the rest of the row."""
    return zlib.crc32(body, zlib.crc32(f"{run_id}\n{seq}\n{epoch}\n".encode()))


def from_unix(moment: float | None) -> datetime | None:
    """Unix seconds as an aware moment in UTC; None where there is no such moment."""
    try:
        return None if moment is None else datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def gap_error(run_id: str, seq: int, last_seq: int) -> JournalError:
    """The exception for an event that is not the next one."""
    return JournalError(
        f"event {seq} of run {run_id} cannot be appended: its next event is {last_seq + 1}",
        run_id=run_id,
        seq=last_seq,
    )


def epoch_error(run_id: str, epoch: int, current: int, last_seq: int | None = None) -> JournalError:
    """The exception for a holder who no longer owns the run."""
    return JournalError(
        f"run {run_id} is no longer held with epoch {epoch}: epoch {current} has taken it",
        run_id=run_id,
        seq=last_seq,
    )


def _entry(event: Event, run_id: str, seq: int, epoch: int, body: bytes) -> Entry:
    known = _traits.get(type(event))
    if known is None:
        known = _traits[type(event)] = _read_traits(event)
    kind, has_call = known
    moment: datetime | None = getattr(event, "time", None)
    # SQLite takes no lone surrogates, and a model may write anything.
    call_id = clean_text(getattr(event, "call_id", "")) if has_call else ""
    note = noted(event) if type(event) in NOTED else None
    return Entry(
        run_id, seq, epoch, kind or clean_text(event.kind), _unix(moment), call_id, body, note
    )


def _read_traits(event: Event) -> tuple[str, bool]:
    # An unknown event has another kind each time.
    kind = "" if isinstance(event, Unknown) else event.kind
    return kind, hasattr(type(event), "call_id")


def _unix(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
