"""Copies what can be read of a damaged journal into a new one.

SQLite refuses a truncated file as a whole. But each event has a checksum and is in a leaf page
under a key made of run and seq, so the pages are read one by one here: any row with the right
checksum is sound. The result is what ``claim(..., cut=True)`` leaves: for each run the events
before the first lost one.

Source:
    https://www.sqlite.org/fileformat2.html, sections 1.3, 1.6, 2.1 and 4 (read 2026-11).
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeVar

from upshot.contract.base.structs import Value
from upshot.contract.codec import decode
from upshot.errors import JournalError, Misuse
from upshot.journal.effects import EFFECT_STATES
from upshot.journal.event_codec import Damage, Entry, checksum, read_event
from upshot.journal.shared import PlacedAnswer, Stop, Submission
from upshot.journal.sql.connection import SEQ_BITS
from upshot.journal.sql.count_rows import write_counts
from upshot.journal.sql.due import make_due_soon
from upshot.journal.sql.leases import cut_run
from upshot.journal.sql.queries import number_of, read_entries, scan_run
from upshot.journal.sql.submissions import queue_run, read_submission
from upshot.journal.sql.writer import note_changes
from upshot.journal.sqlite.tables import Database, open_database, peek
from upshot.state.summary import SUMMARY_KINDS, summary_change

T = TypeVar("T")
_MAGIC = b"SQLite format 3\x00"
_LEAF = 13
_HEADER_BYTES = 100
_FRAME_BYTES = 24
_LOG_HEADER_BYTES = 32
_RUN = "INSERT OR IGNORE INTO runs (run_no, run_id, epoch) VALUES (?, ?, ?)"
_EVENT = """INSERT INTO events (id, epoch, kind, time, body, crc)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch,
    kind = excluded.kind, time = excluded.time, body = excluded.body,
    crc = excluded.crc WHERE excluded.epoch > epoch"""
_ARTIFACT = f"INSERT OR IGNORE INTO artifacts VALUES ({', '.join('?' * 10)})"
_WISH = "INSERT OR IGNORE INTO wishes VALUES (?, ?, ?)"
_SUBMISSION = "INSERT OR IGNORE INTO submissions VALUES (?, ?, ?, ?)"
_NOTE = "INSERT OR IGNORE INTO notes VALUES (?, ?, ?, ?, ?)"
# A row that was written before a column was added has fewer.
_RUN_COLUMNS = (29, 30)
_EVENT_COLUMNS, _ARTIFACT_COLUMNS, _WISH_COLUMNS = 6, 10, 3
_EFFECT = f"INSERT OR IGNORE INTO effects VALUES ({', '.join('?' * 22)})"
_EFFECT_COLUMNS = 22
_SUBMISSION_COLUMNS, _NOTE_COLUMNS = 4, 5
_NOTE_TYPES = [str, str, str, int, str]
_AUDIT_COLUMNS = 17
_AUDIT = f"INSERT OR IGNORE INTO audit VALUES ({', '.join('?' * _AUDIT_COLUMNS)})"
_AUDIT_TYPES = [int, *[str] * 13]
_STOPS = ("cancel", "interrupt")


class Salvaged(Value, frozen=True, kw_only=True):
    """What was saved of a damaged journal."""

    runs: int = 0
    events: int = 0
    artifacts: int = 0
    damages: tuple[Damage, ...] = ()


def salvage_file(path: str, new_path: str) -> Salvaged:
    """Copy what can be read of the journal at *path* into a new one; *path* is only read.

    Raises:
        Misuse: *path* cannot be read or is not an SQLite file, or *new_path* exists already.
        JournalError: *path* is in use in this process, or the new journal cannot be written.
    """
    if os.path.exists(new_path):
        raise Misuse(f"{new_path} exists already: give the path of a new file")
    try:
        head = peek(path, len(_MAGIC))
        pages = _Pages(path)
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}") from error
    if head is None:
        raise JournalError(f"the journal {path} is open here: close it before it is salvaged")
    if head != _MAGIC:
        raise Misuse(f"{path} is not a journal: it is not an SQLite database")
    with closing(open_database(new_path)) as connection:
        # In one transaction: an interrupted salvage leaves an empty journal, not half of one.
        connection.execute("BEGIN IMMEDIATE")
        _copy(connection, pages)
        salvaged = _rebuild_runs(connection)
        connection.execute("COMMIT")
    return salvaged


class _Pages:
    """The pages of a file; those in the write-ahead log replace the older ones."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._data = file.read()
        size = int.from_bytes(self._data[16:18])
        self.size = 65_536 if size == 1 else size if size >= 512 else 4096
        self.usable = self.size - (self._data[20] if len(self._data) > 20 else 0)
        self._newer: dict[int, bytes] = {}
        with suppress(FileNotFoundError), open(f"{path}-wal", "rb") as file:
            self._read_log(file.read())

    def _read_log(self, log: bytes) -> None:
        salts = log[16:24]
        step = _FRAME_BYTES + self.size
        for start in range(_LOG_HEADER_BYTES, len(log) - step + 1, step):
            # Frames from before the last checkpoint have other salts.
            if log[start + 8 : start + 16] == salts:
                number = int.from_bytes(log[start : start + 4])
                self._newer[number] = log[start + _FRAME_BYTES : start + step]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        count = -(-len(self._data) // self.size)
        for number in range(1, max([count, *self._newer]) + 1):
            yield number, self.page(number)

    def page(self, number: int) -> bytes:
        newer = self._newer.get(number)
        return newer or self._data[(number - 1) * self.size : number * self.size]


class _Row(NamedTuple):
    key: int
    values: list[Any]


def _rows(pages: _Pages) -> Iterator[_Row]:
    """Yield all rows of tables that can be read; a damaged page may yield nonsense."""
    for number, page in pages:
        start = _HEADER_BYTES if number == 1 else 0
        if len(page) <= start or page[start] != _LEAF:
            continue
        count = int.from_bytes(page[start + 3 : start + 5])
        for place in range(start + 8, start + 8 + 2 * count, 2):
            cell = int.from_bytes(page[place : place + 2])
            # Damaged cells are skipped: the next one may be sound.
            with suppress(IndexError, ValueError, UnicodeDecodeError):
                yield _row(pages, page, cell)


def _row(pages: _Pages, page: bytes, place: int) -> _Row:
    size, place = _varint(page, place)
    key, place = _varint(page, place)
    key -= (key >> 63) << 64
    largest, usable = pages.usable - 35, pages.usable
    local = size
    if size > largest:
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= largest else least
    payload = bytearray(page[place : place + local])
    # The part that does not fit on the page continues in a chain of overflow pages.
    number = int.from_bytes(page[place + local : place + local + 4]) if size > local else 0
    while len(payload) < size:
        more = pages.page(number) if number else b""
        if len(more) < usable:
            raise ValueError("the rest of the row is missing")
        payload += more[4 : min(usable, 4 + size - len(payload))]
        number = int.from_bytes(more[:4])
    return _Row(key, _values(bytes(payload)))


def _values(payload: bytes) -> list[Any]:
    end, place = _varint(payload, 0)
    kinds: list[int] = []
    while place < end:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        value, place = _value(payload, place, kind)
        values.append(value)
    return values


def _value(payload: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind >= 12:
        end = place + (kind - 12) // 2
        if end > len(payload):
            raise ValueError("the row ends within a value")
        data = payload[place:end]
        return (data.decode() if kind % 2 else data), end
    if kind == 7:
        return struct.unpack(">d", payload[place : place + 8])[0], place + 8
    size = (0, 1, 2, 3, 4, 6, 8)[kind] if kind < 7 else 0
    if kind in (8, 9):
        return kind - 8, place
    value = int.from_bytes(payload[place : place + size], signed=True)
    return (value if kind else None), place + size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = data[place]
        place += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place
    return value << 8 | data[place], place + 1


def _copy(connection: Database, pages: _Pages) -> None:
    """Copy all sound rows; the runs first, because checksums include their ids."""
    names: dict[int, str] = {}
    for key, values in _rows(pages):
        if len(values) in _RUN_COLUMNS and isinstance(values[1], str) and values[1]:
            epoch = values[4] if isinstance(values[4], int) else 0
            names.setdefault(key, values[1])
            connection.execute(_RUN, (key, values[1], epoch))
    for key, values in _rows(pages):
        if len(values) == _EVENT_COLUMNS and key >> SEQ_BITS in names:
            _copy_event(connection, names[key >> SEQ_BITS], key, values)
        elif len(values) == _ARTIFACT_COLUMNS and _is_artifact(values):
            connection.execute(_ARTIFACT, values)
        elif len(values) == _WISH_COLUMNS and _is_wish(values):
            connection.execute(_WISH, values)
        elif len(values) == _SUBMISSION_COLUMNS and _is_submission(values):
            connection.execute(_SUBMISSION, values)
        elif (statement := _numbered(values)) is not None:
            connection.execute(statement, (key, *values[1:]))
        elif len(values) == _NOTE_COLUMNS and [*map(type, values)] == _NOTE_TYPES:
            connection.execute(_NOTE, values)


def _numbered(values: list[Any]) -> str | None:
    """Return the statement that copies an effect or a row of the audit, with its number first."""
    if len(values) == _EFFECT_COLUMNS and _is_effect(values):
        return _EFFECT
    is_audit = len(values) == _AUDIT_COLUMNS and [*map(type, values[1:15])] == _AUDIT_TYPES
    return _AUDIT if is_audit else None


def _is_artifact(values: list[Any]) -> bool:
    data = values[7]
    return isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == values[5]


def _is_effect(values: list[Any]) -> bool:
    id, started_at, *_ = values[1:]
    is_one = isinstance(id, bytes) and len(id) == 16 and isinstance(started_at, int)
    return is_one and values[8] in range(len(EFFECT_STATES)) and isinstance(values[13], str)


def _is_wish(values: list[Any]) -> bool:
    if values[1] in _STOPS:
        stop = _decode_body(values[2], Stop)
        return stop is not None and [stop.run_id, stop.kind] == values[:2]
    placed = _decode_body(values[2], PlacedAnswer)
    return placed is not None and [placed.run_id, placed.item] == values[:2]


def _is_submission(values: list[Any]) -> bool:
    new = _decode_body(values[3], Submission)
    return new is not None and [new.run_id, new.key or None] == values[:2]


def _decode_body(body: object, kind: type[T]) -> T | None:
    """Decode a row's body; None if a damaged page only looks like one."""
    try:
        return decode(body, kind) if isinstance(body, str) else None
    except Misuse:
        return None


def _copy_event(connection: Database, run_id: str, key: int, values: list[Any]) -> None:
    _, epoch, kind, time, body, crc = values
    if not isinstance(epoch, int) or not isinstance(body, bytes) or not isinstance(kind, str):
        return
    entry = Entry(run_id, key & ((1 << SEQ_BITS) - 1), epoch, kind, time, body)
    # A damaged page may yield a row that looks whole: only the checksum proves it.
    if checksum(entry) == crc:
        connection.execute(_EVENT, (key, epoch, kind, time, body, crc))


def _ended_at(run: tuple[int, list[Entry], int]) -> int:
    entries = run[1]
    return entries[-1].time or 0 if entries else 0


def _rebuild_runs(connection: Database) -> Salvaged:
    """Cut each run to its sound beginning, and write its row in the list of runs."""
    damages: list[Damage] = []
    runs: list[tuple[int, list[Entry], int]] = []
    for run_no, run_id in connection.execute("SELECT run_no, run_id FROM runs").fetchall():
        scan = scan_run(connection, run_id)
        if scan.damage is not None:
            damages.append(scan.damage)
            cut_run(connection, run_id, scan.last_seq)
        if not scan.last_seq:
            connection.execute("DELETE FROM runs WHERE run_no = ?", (run_no,))
            continue
        entries = [
            entry._replace(change=summary_change(read_event(entry)))
            for entry in read_entries(connection, run_id)
            if entry.kind in SUMMARY_KINDS
        ]
        runs.append((run_no, entries, scan.last_seq))
    # The turns of a conversation are numbered in the order in which they ended.
    for run_no, entries, last_seq in sorted(runs, key=_ended_at):
        note_changes(connection, run_no, entries, last_seq)
    for (run_id,) in connection.execute("SELECT run_id FROM submissions").fetchall():
        new = read_submission(connection, run_id)
        if new is not None and number_of(connection, run_id) is None:
            queue_run(connection, new)
    for (run_id,) in connection.execute("SELECT DISTINCT run_id FROM wishes").fetchall():
        make_due_soon(connection, run_id, "answered")
    (artifacts,) = connection.execute("SELECT count(*) FROM artifacts").fetchone()
    events = sum(last_seq for _, _, last_seq in runs)
    write_counts(connection)
    return Salvaged(runs=len(runs), events=events, artifacts=artifacts, damages=tuple(damages))
