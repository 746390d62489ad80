"""Columns of events as arrays in PostgreSQL's binary form.

All events of a commit go to the server as one array a column, so that a statement and a round trip
serve any number of them. The driver's own lists would be looked at element by element.

Source:
    ``array_send`` of PostgreSQL, src/backend/utils/adt/arrayfuncs.c (read 2026-11).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from psycopg.adapt import Dumper
from psycopg.pq import Format

from upshot.journal.event_codec import Entry, checksum
from upshot.journal.sql.connection import SEQ_BITS

_HEAD = struct.Struct("!iiiii")
_NUMBER = struct.Struct("!iq")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
_INT8, _TEXT, _BYTEA = 20, 25, 17
NUMBERS_OID, _TEXTS_OID, _BYTES_OID = 1016, 1009, 1001


class NumberArray(bytes):
    """A bigint[]."""


class TextArray(bytes):
    """A text[]."""


class BytesArray(bytes):
    """A bytea[]."""


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _NumberDumper(_ArrayDumper):
    oid = NUMBERS_OID


class _TextDumper(_ArrayDumper):
    oid = _TEXTS_OID


class _BytesDumper(_ArrayDumper):
    oid = _BYTES_OID


ARRAYS: tuple[tuple[type, type[Dumper]], ...] = (
    (NumberArray, _NumberDumper),
    (TextArray, _TextDumper),
    (BytesArray, _BytesDumper),
)

COLUMN_OIDS = (NUMBERS_OID, NUMBERS_OID, _TEXTS_OID, NUMBERS_OID, _BYTES_OID, NUMBERS_OID)
ROWS = """unnest(%b, %b, %b, %b, %b, %b) AS e(id, epoch, kind, time, body, crc)"""
INSERT: str = f"""INSERT INTO upshot.events (id, epoch, kind, time, body, crc)
    SELECT e.* FROM {ROWS}"""


def numbers(values: Sequence[int | None]) -> NumberArray:
    """A bigint[] of *values*."""
    pack = _NUMBER.pack
    packed = [_NULL if value is None else pack(8, value) for value in values]
    return NumberArray(_HEAD.pack(1, 1, _INT8, len(packed), 1) + b"".join(packed))


def _joined(values: Sequence[bytes]) -> bytes:
    pack = _LENGTH.pack
    return b"".join([part for value in values for part in (pack(len(value)), value)])


def columns_of(rows: Iterable[tuple[int, Entry]]) -> tuple[bytes, ...]:
    """The columns of ``ROWS`` for events of runs, each given with the run's number."""
    ids: list[int] = []
    epochs: list[int] = []
    kinds: list[bytes] = []
    times: list[int | None] = []
    bodies: list[bytes] = []
    sums: list[int] = []
    for run_no, entry in rows:
        ids.append(run_no << SEQ_BITS | entry.seq)
        epochs.append(entry.epoch)
        kinds.append(entry.kind.encode())
        times.append(entry.time)
        bodies.append(entry.body)
        sums.append(checksum(entry))
    count = len(ids)
    return (
        numbers(ids),
        numbers(epochs),
        TextArray(_HEAD.pack(1, 0, _TEXT, count, 1) + _joined(kinds)),
        numbers(times),
        BytesArray(_HEAD.pack(1, 0, _BYTEA, count, 1) + _joined(bodies)),
        numbers(sums),
    )
