"""How one event is stored: a row whose body repeats no column, its checksum, and damage to it.

A row has the columns seq, epoch, kind, time and body. The body is the event's JSON object without
what the other columns hold. An event that could not be rebuilt exactly from that (an unknown
kind, another schema version, or a time that is not UTC) is stored whole: its body then starts
with its kind.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from operator import methodcaller
from types import UnionType
from typing import Any, NamedTuple, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from upshot.contract.base.json_values import clean_text
from upshot.contract.base.structs import SCHEMA_VERSION, Local, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.events import DELTAS, Event, ToolSettled, ToolStarted
from upshot.contract.message import Unknown
from upshot.errors import JournalError, Misuse
from upshot.journal.effects import effect_event
from upshot.state.summary import SummaryChange, summary_change

logger: logging.Logger = logging.getLogger("upshot.journal")

# The format of files and exports. A draft: until the first release any change to an event's
# fields may raise it, and earlier formats cannot be read.
FORMAT = 5

_DELTAS = frozenset(DELTAS)
# The event types of this version that a journal stores.
DURABLE = frozenset[type](get_args(Event)) - _DELTAS - {Unknown}
_MAX_SEQ = (1 << 32) - 1
_WHOLE = b'{"kind":'
_EMPTY = b"{}"
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_VERSION = msgspec.Raw(str(SCHEMA_VERSION).encode())
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()
# Bound once: these run for every event.
_set = force_setattr
_copy: Callable[[Any], Any] = methodcaller("__copy__")


class Damage(Value, frozen=True, kw_only=True):
    """Damage to the log of a run.

    Attributes:
        run_id: The run.
        sound_to: Seq of the last event before the damage; 0 if the first is damaged.
        lost: How many events there were after it, as far as is known.
        reason: What was found.
        tail: Whether no sound event follows the damage, so that cutting there loses nothing more.
        cut: Whether the log has been cut off after *sound_to*.
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
        return f"{place}; sound events follow it, and only claim(..., cut=True) drops them"


class Entry(NamedTuple):
    """An event as it is stored.

    Attributes:
        run_id: The run.
        seq: The event's place in the run's log, from 1.
        epoch: The epoch of the holder who appended it.
        kind: The event's kind.
        time: Microseconds since 1970, None if the event has no time in UTC.
        body: The rest of the event as JSON.
        change: What the event changes in the list of runs, None for nothing.
        effect: The event, if it changes the ledger of effects.
    """

    run_id: str
    seq: int
    epoch: int
    kind: str
    time: int | None
    body: bytes
    change: SummaryChange | None = None
    effect: ToolStarted | ToolSettled | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it changes only the log of its run."""
        return self.change is None and self.effect is None and self.seq > 1


_make = Entry._make

# -- in


def stamp_of(event: Event) -> tuple[str, int]:
    """Return the run and the seq of a durable event."""
    if type(event) in _DELTAS:
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
    """Return *run_id* if it can be the id of a run, else raise Misuse."""
    if type(run_id) is str and run_id.isascii():
        return run_id
    if not isinstance(cast("object", run_id), str):
        raise Misuse(f"the id of a run is a text, got {run_id!r:.60}")
    if clean_text(run_id) is not run_id:
        raise Misuse(f"{run_id!r} cannot be the id of a run: it has lone surrogates")
    return run_id


def to_entry(event: Event, run_id: str, seq: int, epoch: int) -> Entry:
    """Encode *event* for storing.

    The entry can always be read back: a wrongly typed field is refused here, where the mistake
    was made, and not when the log is needed.

    Raises:
        Misuse: A field is not valid JSON, or not of the field's type.
    """
    try:
        plain = _plain_entry(event, run_id, seq, epoch)
        if plain is not None:
            return plain
        return _entry(event, run_id, seq, epoch, _readable(event, event))
    except (AttributeError, TypeError) as error:
        # A mapping instead of a struct, or bytes instead of a text: the JSON would be the same.
        raise Misuse(f"this {event.kind} cannot be stored: {error}") from error


def check_readable(event: Event) -> None:
    """Raise ``Misuse`` if *event* could not be read back from its JSON."""
    _readable(event, event)


def _plain_entry(event: Event, run_id: str, seq: int, epoch: int) -> Entry | None:
    """Return the entry of an event in the form upshot itself produces, None for any other form.

    Fields with columns are cleared before encoding, so that the body is the line without its
    head. Parsing the whole line to select fields would cost twice as much.
    """
    known = _HEADS.get(type(event))
    if known is None or isinstance(event, Unknown) or type(seq) is not int:
        return None
    time = to_micros(moment := event.time)
    if time is None and moment is not None:
        return None
    less = _copy(event)
    _set(less, "run_id", "")
    _set(less, "seq", 0)
    _set(less, "time", None)
    kind, head = known
    line = _readable(event, less)
    if not line.startswith(head):
        return None
    body = b"{%b" % line[len(head) :]
    # Positional: a call by field names would take three times as long.
    change, effect = summary_change(event), effect_event(event)
    return _make((run_id, seq, epoch, kind, time, body, change, effect))


def _readable(event: Event, less: Event) -> bytes:
    """Return the JSON of *less* (*event* or a part of it), or raise Misuse if it is unreadable."""
    line = encode(less)
    if not is_surely_readable(line):
        try:
            _decode(line)
        except Misuse as error:
            raise Misuse(f"this {event.kind} cannot be stored: {error}") from error
    return line


def parse_line(line: bytes) -> tuple[Entry, Event]:
    """Parse a line of an export into an event; its epoch is 0."""
    event = _decode(line)
    run_id, seq = stamp_of(event)
    if not 0 < seq <= _MAX_SEQ:
        raise Misuse(f"{seq} is not the place of an event")
    return _entry(event, run_id, seq, 0, line), event


def _entry(event: Event, run_id: str, seq: int, epoch: int, line: bytes) -> Entry:
    # By field name, not by position: any program may have written an imported line.
    fields = _fields.decode(line)
    moment = None if isinstance(event, Unknown) else event.time
    time = to_micros(moment)
    if (
        type(event) not in DURABLE
        or (moment is not None and time is None)
        or fields.get("schema_version") != _VERSION
    ):
        body = _whole(fields)
    else:
        for name in _COLUMNS:
            fields.pop(name, None)
        body = _encoder.encode(fields) if fields else _EMPTY
    kind = clean_text(event.kind)
    change, effect = summary_change(event), effect_event(event)
    return Entry(run_id, seq, epoch, kind, time, body, change, effect)


_COLUMNS = ("kind", "schema_version", "run_id", "seq", "time")


def _heads() -> Iterator[tuple[type, tuple[str, bytes]]]:
    for event in DURABLE:
        struct = cast("type[msgspec.Struct]", event)
        kind = str(struct.__struct_config__.tag)
        head = f'{{"kind":"{kind}","schema_version":{SCHEMA_VERSION},'
        yield event, (kind, head.encode())


# The kind of each event, and the head of its line.
_HEADS = dict(_heads())
_HEADS_BY_KIND = dict(_HEADS.values())


def _whole(fields: dict[str, msgspec.Raw]) -> bytes:
    """Encode all fields, the kind first; that marks a whole body."""
    return _encoder.encode({"kind": fields.pop("kind"), **fields})


# -- checking that it could be read back

# Reading an event runs the checks of every value in it, which costs as much as everything else a
# journal does for it. Those checks ran when the values were made, and leave only types open. So
# the JSON is decoded into structs with the same fields and types but without checks.
_bare: dict[Any, Any] = {}
# The structs take 15 ms to make. A process that logs only one short run does without them, except
# for a long event, such as a reply with thousands of calls.
_MIN_EVENTS = 100
_LONG_BYTES = 200_000
_asked = count()


def is_surely_readable(line: bytes) -> bool:
    """Whether *line* is known to decode as an event; False may also mean unchecked."""
    if next(_asked) < _MIN_EVENTS and len(line) < _LONG_BYTES:
        return False
    try:
        _decoder().decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, NotImplementedError):
        return False
    return True


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_bare_form(Event), dec_hook=_read_other)


def _bare_form(hint: Any) -> Any:
    """Return the same type with structs that have no checks."""
    origin, arguments = get_origin(hint), get_args(hint)
    struct = origin or hint
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
        if hint not in _bare:
            # A class that contains itself is not expanded again.
            _bare[hint] = Any
            _bare[hint] = _bare_struct(hint, struct)
        return _bare[hint]
    if isinstance(hint, UnionType) or origin is Union:
        return Union[tuple(map(_bare_form, arguments))]  # noqa: UP007  # made at run time
    if origin in (tuple, list, dict, frozenset):
        inner = tuple(one if one is ... else _bare_form(one) for one in arguments)
        return cast("Any", origin)[inner]
    return hint


def _bare_struct(hint: Any, struct: type[msgspec.Struct]) -> Any:
    config = cast("Any", struct).__struct_config__
    fields: list[Any] = []
    for field in msgspec.structs.fields(hint):
        kind = _bare_form(field.type)
        # The default value does not matter here.
        fields.append((field.name, kind) if field.required else (field.name, kind, None))
    return msgspec.defstruct(
        struct.__name__, fields, kw_only=True, gc=False, tag=config.tag, tag_field=config.tag_field
    )


def _read_other(kind: Any, value: object) -> object:
    if kind is Local:
        return value
    raise NotImplementedError


# -- out


def line_of(entry: Entry) -> bytes:
    """Return the event as one JSON object with all its fields."""
    body = entry.body
    if body.startswith(_WHOLE):
        return body
    head: dict[str, object] = {
        "kind": entry.kind,
        "schema_version": SCHEMA_VERSION,
        "run_id": entry.run_id,
        "seq": entry.seq,
    }
    if entry.time is not None:
        head["time"] = from_micros(entry.time)
    start = _encoder.encode(head)
    return start if body == _EMPTY else b"%b,%b" % (start[:-1], body[1:])


def read_event(entry: Entry) -> Event:
    """Decode the stored event."""
    less = _line_of_body(entry)
    try:
        event = _decode(line_of(entry) if less is None else less)
    except Misuse as error:
        raise JournalError(
            f"event {entry.seq} of run {entry.run_id} cannot be read: {error}",
            run_id=entry.run_id,
            seq=entry.seq - 1,
        ) from error
    if less is not None:
        _set(event, "run_id", entry.run_id)
        _set(event, "seq", entry.seq)
        _set(event, "time", from_micros(entry.time))
    return event


def _line_of_body(entry: Entry) -> bytes | None:
    """Return the event as one JSON object without run_id, seq and time; None if it needs them.

    That saves encoding them only to decode them again.
    """
    body = entry.body
    head = _HEADS_BY_KIND.get(entry.kind)
    if head is None or body == _EMPTY or body.startswith(_WHOLE):
        return None
    return head + body[1:]


def checksum(entry: Entry) -> int:
    """Return the CRC-32 of everything in the row of *entry*, including its run."""
    # With the run and seq: a sound row in the place of another is damage too.
    head = f"{entry.run_id}\n{entry.seq}\n{entry.epoch}\n{entry.time}\n{entry.kind}"
    return zlib.crc32(entry.body, zlib.crc32(head.encode(errors="surrogateescape")))


def to_micros(moment: datetime | None) -> int | None:
    """Return microseconds since 1970; None for no time, or one that is not in UTC."""
    if moment is None or getattr(moment, "tzinfo", None) is not UTC:
        return None
    return (moment - _EPOCH_START) // _MICROSECOND


def from_micros(micros: int | None) -> datetime | None:
    """Return a time in UTC; None if there is none, or a damaged row has an impossible one."""
    try:
        return None if micros is None else _EPOCH_START + micros * _MICROSECOND
    except OverflowError:
        return None


def _decode(line: bytes) -> Event:
    return decode(line, _event_decoder())


@cache
def _event_decoder() -> msgspec.json.Decoder[Event]:
    return decoder_of(Event)


# -- errors


def damage_error(damage: Damage) -> JournalError:
    """Return the exception for *damage*."""
    return JournalError(str(damage), run_id=damage.run_id, seq=damage.sound_to)


def gap_error(run_id: str, seq: int, last_seq: int) -> JournalError:
    """Return the exception for an event that is not the next one."""
    return JournalError(
        f"event {seq} of run {run_id} cannot be appended: its next event is {last_seq + 1}",
        run_id=run_id,
        seq=last_seq,
    )


def epoch_error(run_id: str, epoch: int, current: int, last_seq: int | None = None) -> JournalError:
    """Return the exception for a holder that has lost the run."""
    return JournalError(
        f"run {run_id} is no longer held with epoch {epoch}: epoch {current} has taken it",
        run_id=run_id,
        seq=last_seq,
        taken_over=True,
    )
