"""Reads conversations: the runs of one, and the logs of those whose messages it has."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

from upshot.contract.codec import decode, encode
from upshot.contract.conversation import ConversationSummary
from upshot.contract.events import BoardChanged, Event
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import Cost, Usage
from upshot.journal.event_codec import Entry, damage_error, line_of, read_event
from upshot.journal.run_list import RunQuery
from upshot.journal.sql.connection import Connection, WriteConnection
from upshot.journal.sql.queries import (
    read_entries,
    read_latest,
    read_page,
    read_summaries,
    scan_run,
)
from upshot.state.run_state import RunState
from upshot.state.stored_events import with_messages
from upshot.state.turns import (
    CommittedTurns,
    ConversationState,
    KeptTurns,
    Lift,
    TurnsBlock,
    committed_turns,
    folded,
    read_conversation,
    summarised,
    used_in_all,
)

_PAGE_EVENTS = 256
_STORED = "SELECT number, body, crc FROM turn_blocks WHERE context_id = ? ORDER BY number"
_STORE = """INSERT INTO turn_blocks (context_id, number, body, crc) VALUES (?, ?, ?, ?)
    ON CONFLICT (context_id, number) DO UPDATE SET body = excluded.body, crc = excluded.crc"""


def read_turns(
    connection: Connection,
    id: str,
    read: Callable[[], Lift] | None,
    kept: KeptTurns,
    *,
    without: str,
) -> tuple[ConversationState, dict[int, bytes]]:
    """Fold the runs of a conversation, as they were when the transaction began; with the blocks of
    its turns that are to be stored, by their numbers.
    """
    runs = _runs_of(connection, id)
    # What was kept has marks in the place of secrets.
    turns = CommittedTurns() if read is not None else _kept(connection, id, kept)
    found = read_conversation(id, runs, _reader(connection, read), turns, without=without)
    blocks = turns.pop_blocks() if without and read is None else {}
    return found, {number: encode(block) for number, block in blocks.items()}


def store_blocks(connection: WriteConnection, id: str, blocks: dict[int, bytes]) -> None:
    """Store what ``read_turns`` gave."""
    for number, body in blocks.items():
        connection.execute(_STORE, (id, number, body, zlib.crc32(body)))


def _kept(connection: Connection, id: str, kept: KeptTurns) -> CommittedTurns:
    """The committed turns, as far as they were read before, here or by others."""
    turns = kept.of(id)
    rows = () if turns.revision else connection.execute(_STORED, (id,)).fetchall()
    turns.restore(_sound_blocks(rows))
    return turns


def _sound_blocks(rows: Iterable[tuple[int, bytes, int]]) -> Iterator[TurnsBlock]:
    """The blocks in *rows* up to the first that is missing or damaged; logs have the rest."""
    for place, (number, body, crc) in enumerate(rows):
        if number != place or zlib.crc32(body) != crc:
            return
        yield decode(body, TurnsBlock)


def used_elsewhere(connection: Connection, id: str, *, without: str) -> tuple[Usage, Cost | None]:
    """What the runs of a conversation used but one."""
    return used_in_all(_runs_of(connection, id), _reader(connection), without=without)


def committed_of(connection: Connection, id: str, kept: KeptTurns) -> CommittedTurns:
    """The committed turns of a conversation."""
    turns = _kept(connection, id, kept)
    return committed_turns(_runs_of(connection, id), _reader(connection), turns)


def list_conversations(
    connection: Connection, wanted: RunQuery, *, newest_first: bool
) -> list[ConversationSummary]:
    """The conversations, by the time at which their last run began."""
    found: dict[str, list[RunSummary]] = {}
    for run in read_latest(connection, wanted, newest_first=newest_first):
        found.setdefault(run.context_id, []).append(run)
    listed = [summarised(id, runs[::-1]) for id, runs in found.items()]
    return listed if newest_first else listed[::-1]


def exported_lines(connection: Connection, run_id: str, kept: KeptTurns) -> Iterator[bytes]:
    """The events of a run as JSON, with the messages that its log names of a conversation."""
    for entry in read_entries(connection, run_id):
        yield _whole_line(connection, entry, kept)


def _whole_line(connection: Connection, entry: Entry, kept: KeptTurns) -> bytes:
    if b'"seed":' not in entry.body:
        return line_of(entry)
    event = read_event(entry)
    if not isinstance(event, BoardChanged) or (seed := event.seed) is None:
        return line_of(entry)
    committed = committed_of(connection, seed.conversation, kept)
    return encode(with_messages(event, committed.at(seed.revision)))


def _runs_of(connection: Connection, id: str) -> list[RunSummary]:
    return read_summaries(connection, RunQuery(context_id=id))[::-1] if id else []


def _reader(
    connection: Connection, read: Callable[[], Lift] | None = None
) -> Callable[[str], RunState]:
    def state_of(run_id: str) -> RunState:
        return folded(_events(connection, run_id), None if read is None else read())

    return state_of


def _events(connection: Connection, run_id: str) -> Iterator[Event]:
    """The sound events of a run; those before a damaged end, as in ``journal.events``."""
    last, more = 0, True
    while more:
        page = read_page(connection, run_id, last, _PAGE_EVENTS)
        last, more = page.last, page.more
        yield from map(read_event, page.entries)
        if page.fault:
            damage = scan_run(connection, run_id).damage
            if damage is not None and not damage.tail:
                raise damage_error(damage)
