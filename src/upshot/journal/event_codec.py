"""Stored forms of events: rows and JSON lines, and damage to them."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import msgspec

from upshot.contract.base.json_values import clean_text
from upshot.contract.base.structs import Value, written
from upshot.contract.codec import decode, encode
from upshot.contract.events import DELTAS, Event, RunResumed, RunSettled, RunStarted
from upshot.contract.message import Unknown
from upshot.contract.protocols import RunSummary
from upshot.errors import JournalError, Misuse
from upshot.journal.artifact_store import StoredArtifact

__all__ = [
    "DURABLE",
    "Damage",
    "Entry",
    "FORMAT",
    "FORMAT_VERSION",
    "Line",
    "NOTED",
    "Note",
    "RUNNING",
    "checked_id",
    "checksum",
    "damage_error",
    "decode_event",
    "logger",
    "noted",
    "read_lines",
    "stamp_of",
    "to_entry",
    "write_lines",
]

logger: logging.Logger = logging.getLogger("upshot.journal")


class Damage(Value, frozen=True, kw_only=True):
    """A run's log is not whole.

    Attributes:
        run_id: The run.
        sound_to: Seq of the last event before the damage; 0 if the first is damaged.
        lost: How many events there were after it, as far as that can be told.
        reason: What was found.
        tail: Whether nothing sound stands after the damage, so that cutting loses nothing more.
        cut: Whether what came after *sound_to* has been cut off.
    """

    run_id: str = ""
    sound_to: int = 0
    lost: int = 0
    reason: str = ""
    tail: bool = True
    cut: bool = False

    def __str__(self) -> str:
        place = f"run {self.run_id} is damaged after event {self.sound_to}: {self.reason}"
        if self.cut:
            return f"{place}; {self.lost} events were cut off"
        if self.tail:
            return f"{place}; {self.lost} events are lost"
        return f"{place}; sound events stand after it, and only claim(..., cut=True) drops them"


def damage_error(damage: Damage) -> JournalError:
    """The exception that tells of *damage*."""
    return JournalError(str(damage), run_id=damage.run_id, seq=damage.sound_to)


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


FORMAT = "upshot.journal"
FORMAT_VERSION = 1
_FILE_MODE = 0o600
_ARTIFACT_MARK = b'{"kind":"stored_artifact"'

# What msgspec raises of bytes that are not what they should be.
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)

_artifacts = msgspec.json.Decoder(StoredArtifact)

Line: TypeAlias = Entry | StoredArtifact


class Header(Value, frozen=True, kw_only=True):
    """The first line.

    Attributes:
        format: What the file is.
        version: Of its form.
        run_id: The run.
        events: How many events follow.
        artifacts: How many artifacts follow after them.
    """

    format: Literal["upshot.journal"] = written(FORMAT)
    version: int = written(FORMAT_VERSION)
    run_id: str
    events: int
    artifacts: int = 0


_headers = msgspec.json.Decoder(Header)


class Exported(NamedTuple):
    """What of a run goes into a file.

    Attributes:
        run_id: The run.
        events: How many there are.
        bodies: They themselves, as JSON.
        artifact_count: How many artifacts there are.
        artifacts: They themselves.
    """

    run_id: str
    events: int
    bodies: Iterable[bytes]
    artifact_count: int
    artifacts: Iterable[StoredArtifact]


def write_lines(path: str, run: Exported) -> int:
    """Write a run to *path*, which is there whole or not at all.

    Returns:
        How many events it has.

    Raises:
        Misuse: The run has no events, or *path* cannot be written.
    """
    if not run.events:
        raise Misuse(f"the journal has no run {run.run_id!r}")
    header = Header(run_id=run.run_id, events=run.events, artifacts=run.artifact_count)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb", opener=_open_private) as file:
            file.write(encode(header) + b"\n")
            for body in run.bodies:
                file.write(body + b"\n")
            for artifact in run.artifacts:
                file.write(encode(artifact) + b"\n")
        os.replace(part, path)
    except OSError as error:
        raise Misuse(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
    return run.events


def read_lines(path: str) -> Iterator[Line]:
    """Read what ``write_lines`` wrote: the events in order, then the artifacts.

    Raises:
        Misuse: *path* cannot be read.
        JournalError: A line is damaged or missing; its number, from 1, is named.
    """
    try:
        with open(path, "rb") as file:
            yield from _read(path, file)
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}") from error


def _read(path: str, file: Iterable[bytes]) -> Iterator[Line]:
    header: Header | None = None
    number = events = artifacts = 0
    for number, line in enumerate(file, 1):
        try:
            if header is None:
                header = _read_header(line)
            elif line.startswith(_ARTIFACT_MARK):
                artifacts += 1
                yield _read_artifact(line, header)
            else:
                events += 1
                yield _read_event(line, header, events)
        except (Misuse, *_UNREADABLE) as error:
            raise JournalError(f"{path}, line {number}: {error}") from error
    if header is None:
        raise JournalError(f"{path}, line 1: the file is empty")
    if (events, artifacts) != (header.events, header.artifacts):
        raise JournalError(
            f"{path}, line {number + 1}: the file ends after {events} events and {artifacts} "
            f"artifacts; it should have {header.events} and {header.artifacts}"
        )


def _read_header(line: bytes) -> Header:
    try:
        header = _headers.decode(line)
    except _UNREADABLE as error:
        raise Misuse("this is no exported run") from error
    if header.version > FORMAT_VERSION:
        raise Misuse(f"it was exported by a newer version of upshot, in form {header.version}")
    if not header.run_id or header.events < 1:
        raise Misuse("it is the export of no run")
    return header


def _read_event(line: bytes, header: Header, seq: int) -> Entry:
    entry = decode_entry(line.rstrip(b"\r\n"))
    if entry.run_id != header.run_id:
        raise Misuse(f"an event of run {entry.run_id} among those of {header.run_id}")
    if entry.seq != seq:
        raise Misuse(f"event {entry.seq} stands where event {seq} should be")
    return entry


def _read_artifact(line: bytes, header: Header) -> StoredArtifact:
    artifact = _artifacts.decode(line)
    if artifact.run_id != header.run_id:
        raise Misuse(f"an artifact of run {artifact.run_id} among those of {header.run_id}")
    if hashlib.sha256(artifact.data).hexdigest() != artifact.sha256:
        raise Misuse(f"the data of artifact {artifact.id} do not have its sha256")
    return artifact


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _FILE_MODE)
