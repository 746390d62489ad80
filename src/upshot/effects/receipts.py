"""Receipts: the effects of a ledger as lines of JSON, chained by digests.

The first line is a header with the query. Each following line has an effect, the digest of the
previous line (``after``) and its own (``digest``): SHA-256 over the canonical JSON of the line
without its digest. The last line has the digest of the previous line, which is the head, and the
number of effects. If you keep the head elsewhere, you can detect that the end was cut off or that
the lines were rewritten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, cast

from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import encode
from upshot.contract.effects import EffectEntry

_FORMAT = 1


class Head(NamedTuple):
    """The end of a chain of receipts.

    Attributes:
        digest: SHA-256 of the last receipt, in hexadecimal.
        total: The number of effects.
    """

    digest: str
    total: int


class BrokenReceipts(Exception):
    """Receipts were altered; the message says where, and how that shows."""


def receipts(
    entries: Iterable[EffectEntry], *, at: datetime, since: datetime | None = None
) -> Iterator[JsonObject]:
    """Yield the lines for effects: the header, each effect, and the head.

    Args:
        entries: The effects; they are sorted by start.
        at: When they were read.
        since: The earliest start of the requested effects, None for all.
    """
    started = sorted(entries, key=_place)
    line: JsonObject = {"receipts": _FORMAT, "at": at.isoformat(), "since": _moment(since)}
    digest = _digest(line)
    yield {**line, "digest": digest}
    for entry in started:
        line = {"effect": json.loads(encode(entry)), "after": digest}
        digest = _digest(line)
        yield {**line, "digest": digest}
    yield _end(Head(digest, len(started)))


def check_receipts(lines: Iterable[str]) -> Head:
    """Check receipts and return their head.

    Args:
        lines: The lines of a file written by ``receipts``.

    Raises:
        BrokenReceipts: A line was changed, moved, removed or inserted, or the end is missing.
    """
    before, count, number, head = "", 0, 0, None
    for number, text in enumerate(lines, start=1):
        line = _read(text, number)
        if head is not None:
            raise BrokenReceipts(f"line {number} comes after the end")
        if "head" in line:
            head = Head(before, count)
            if line != _end(head):
                raise BrokenReceipts(f"line {number} is the end of other receipts")
            continue
        stored, digest = line.pop("digest", None), _digest(line)
        if digest != stored:
            raise BrokenReceipts(f"line {number} was changed: its digest does not match")
        if line.get("after", "") != before:
            raise BrokenReceipts(
                f"line {number} does not follow the line before it: one was moved, removed or "
                "inserted"
            )
        before, count = digest, count + ("effect" in line)
    if head is None:
        raise BrokenReceipts(f"the end is missing: line {number} is the last one, and not the head")
    return head


def _read(text: str, number: int) -> JsonObject:
    try:
        line = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise BrokenReceipts(f"line {number} is not a receipt: it must be a JSON object")
    return cast("JsonObject", line)


def _object(pairs: list[tuple[str, Json]]) -> JsonObject:
    made = dict(pairs)
    if len(made) < len(pairs):
        # One program would read the first value, another the last.
        raise ValueError("a name appears twice")
    return made


def _digest(line: JsonObject) -> str:
    try:
        return hashlib.sha256(canonical_json(line)).hexdigest()
    except (ValueError, OverflowError, RecursionError):
        # No receipt contains a value that cannot be encoded.
        return ""


def _end(head: Head) -> JsonObject:
    return {"head": head.digest, "count": head.total}


def _place(entry: EffectEntry) -> tuple[bool, str, str]:
    return entry.started_at is not None, _moment(entry.started_at) or "", entry.id


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
