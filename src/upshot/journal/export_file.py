"""Exported runs: a file of JSON lines with the events, then the artifacts and notes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from upshot.contract.base.structs import Value, written
from upshot.contract.codec import encode
from upshot.contract.events import Event
from upshot.contract.protocols import Note
from upshot.errors import JournalError, Misuse
from upshot.journal.artifact_store import StoredArtifact
from upshot.journal.event_codec import FORMAT, Entry, parse_line

_NAME = "upshot.journal"
_FILE_MODE = 0o600
_ARTIFACT_MARK = b'{"kind":"stored_artifact"'
_NOTE_MARK = b'{"kind":"note"'

# What msgspec raises for malformed input.
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)

_artifacts = msgspec.json.Decoder(StoredArtifact)


class _NoteLine(Note, frozen=True, kw_only=True, tag_field="kind", tag="note"):
    """A note as a line, with its kind."""


_notes = msgspec.json.Decoder(_NoteLine)


class ExportedEvent(NamedTuple):
    """A line with an event."""

    entry: Entry
    event: Event


Line: TypeAlias = ExportedEvent | StoredArtifact | Note


class Header(Value, frozen=True, kw_only=True):
    """The first line."""

    format: Literal["upshot.journal"] = written(_NAME)
    version: int = written(FORMAT)
    run_id: str
    events: int
    artifacts: int = 0
    notes: int = 0


_headers = msgspec.json.Decoder(Header)


class ExportedRun(NamedTuple):
    """What is exported of a run.

    Attributes:
        run_id: The run.
        events: How many events there are.
        lines: The events as JSON.
        artifact_count: How many artifacts there are.
        artifacts: The artifacts.
        notes: The notes on it.
    """

    run_id: str
    events: int
    lines: Iterable[bytes]
    artifact_count: int
    artifacts: Iterable[StoredArtifact]
    notes: Sequence[Note] = ()


def write_lines(path: str, run: ExportedRun) -> int:
    """Write a run to *path*, either completely or not at all.

    Returns:
        How many events it has.

    Raises:
        Misuse: The run has no events, or *path* cannot be written.
    """
    if not run.events:
        raise Misuse(f"the journal has no run {run.run_id!r}")
    header = Header(run_id=run.run_id, events=run.events, artifacts=run.artifact_count)
    header = replace(header, notes=len(run.notes))
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb", opener=_open_private) as file:
            file.write(encode(header) + b"\n")
            for line in run.lines:
                file.write(line + b"\n")
            for more in chain(run.artifacts, (_NoteLine(**asdict(one)) for one in run.notes)):
                file.write(encode(more) + b"\n")
        os.replace(part, path)
    except OSError as error:
        raise Misuse(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
    return run.events


def read_lines(path: str) -> Iterator[Line]:
    """Read what ``write_lines`` wrote: the events in order, then the artifacts and the notes.

    Raises:
        Misuse: *path* cannot be read.
        JournalError: A line is damaged or missing, or the format differs; the message has the
            number of the line, from 1.
    """
    try:
        with open(path, "rb") as file:
            yield from _read(path, file)
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}") from error


def _read(path: str, file: Iterable[bytes]) -> Iterator[Line]:
    header: Header | None = None
    number = events = artifacts = notes = 0
    for number, line in enumerate(file, 1):
        try:
            if header is None:
                header = read_header(line)
            elif line.startswith(_ARTIFACT_MARK):
                artifacts += 1
                yield _read_artifact(line, header)
            elif line.startswith(_NOTE_MARK):
                notes += 1
                yield _read_note(line, header)
            else:
                events += 1
                yield _read_event(line, header, events)
        except (Misuse, *_UNREADABLE) as error:
            raise JournalError(f"{path}, line {number}: {error}") from error
    if header is None:
        raise JournalError(f"{path}, line 1: the file is empty")
    if (events, artifacts, notes) != (header.events, header.artifacts, header.notes):
        raise JournalError(
            f"{path}, line {number + 1}: the file ends after {events} events and {artifacts} "
            f"artifacts, with {notes} notes; it should have {header.events}, {header.artifacts} "
            f"and {header.notes}"
        )


def read_header(line: bytes) -> Header:
    """Read the first line; raises Misuse if it is none."""
    try:
        header = _headers.decode(line)
    except _UNREADABLE as error:
        raise Misuse("this is not an exported run") from error
    if header.version != FORMAT:
        raise Misuse(
            f"the run was exported in format {header.version}, and this version of upshot reads "
            f"format {FORMAT}: import it with the version that wrote it"
        )
    if not header.run_id or header.events < 1:
        raise Misuse("the export has no run")
    return header


def _read_event(line: bytes, header: Header, seq: int) -> ExportedEvent:
    entry, event = parse_line(line.rstrip(b"\r\n"))
    if entry.run_id != header.run_id:
        raise Misuse(f"an event of run {entry.run_id} in the export of run {header.run_id}")
    if entry.seq != seq:
        raise Misuse(f"expected event {seq}, got event {entry.seq}")
    return ExportedEvent(entry, event)


def _read_artifact(line: bytes, header: Header) -> StoredArtifact:
    artifact = _artifacts.decode(line)
    if artifact.run_id != header.run_id:
        raise Misuse(f"an artifact of run {artifact.run_id} in the export of run {header.run_id}")
    if hashlib.sha256(artifact.data).hexdigest() != artifact.sha256:
        raise Misuse(f"the data of artifact {artifact.id} does not match its sha256")
    return artifact


def _read_note(line: bytes, header: Header) -> Note:
    note = _notes.decode(line)
    if note.run_id != header.run_id:
        raise Misuse(f"a note on run {note.run_id} in the export of run {header.run_id}")
    return Note(**asdict(note))


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _FILE_MODE)
