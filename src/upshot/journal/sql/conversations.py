"""Reads conversations: their runs, and the logs with their messages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

from upshot.contract.codec import decode, encode
from upshot.contract.conversation import ConversationSummary
from upshot.contract.events import BoardChanged, Event
from upshot.contract.protocols import RunSummary
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
from upshot.state.child_runs import Spent
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
    used_in_all_measured,
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
    """Fold the runs of a conversation as of the start of the transaction.

    Returns the blocks of its turns that should be stored, too, by their numbers.
    """
    runs = _runs_of(connection, id)
    # The stored turns have marks in place of secrets.
    turns = CommittedTurns() if read is not None else _restore_turns(connection, id, kept)
    found = read_conversation(id, runs, _reader(connection, read), turns, without=without)
    blocks = turns.pop_blocks() if without and read is None else {}
    return found, {number: encode(block) for number, block in blocks.items()}


def store_blocks(connection: WriteConnection, id: str, blocks: dict[int, bytes]) -> None:
    """Store the blocks that ``read_turns`` returned."""
    for number, body in blocks.items():
        connection.execute(_STORE, (id, number, body, zlib.crc32(body)))


def _restore_turns(connection: Connection, id: str, kept: KeptTurns) -> CommittedTurns:
    """Return the committed turns, as far as this or another process has read them before."""
    turns = kept.of(id)
    rows = () if turns.revision else connection.execute(_STORED, (id,)).fetchall()
    turns.restore(_sound_blocks(rows))
    return turns


def _sound_blocks(rows: Iterable[tuple[int, bytes, int]]) -> Iterator[TurnsBlock]:
    """Decode the blocks in *rows* up to the first missing or damaged one; logs have the rest."""
    for place, (number, body, crc) in enumerate(rows):
        if number != place or zlib.crc32(body) != crc:
            return
        yield decode(body, TurnsBlock)


def used_elsewhere(connection: Connection, id: str, *, without: str, answers: bool) -> Spent:
    """Sum what the runs of a conversation used, except for one."""
    runs = _runs_of(connection, id)
    return used_in_all_measured(runs, _reader(connection), without=without, answers=answers)


def committed_of(connection: Connection, id: str, kept: KeptTurns) -> CommittedTurns:
    """Return the committed turns of a conversation."""
    turns = _restore_turns(connection, id, kept)
    return committed_turns(_runs_of(connection, id), _reader(connection), turns)


def list_conversations(
    connection: Connection, wanted: RunQuery, *, newest_first: bool
) -> list[ConversationSummary]:
    """List the conversations, by the start of their last run."""
    found: dict[str, list[RunSummary]] = {}
    for run in read_latest(connection, wanted, newest_first=newest_first):
        found.setdefault(run.context_id, []).append(run)
    listed = [summarised(id, runs[::-1]) for id, runs in found.items()]
    return listed if newest_first else listed[::-1]


def exported_lines(connection: Connection, run_id: str, kept: KeptTurns) -> Iterator[bytes]:
    """Yield the events of a run as JSON, including the messages that its log only refers to."""
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
    """Yield the sound events of a run, up to a damaged end, as ``journal.events`` does."""
    last, more = 0, True
    while more:
        page = read_page(connection, run_id, last, _PAGE_EVENTS)
        last, more = page.last, page.more
        yield from map(read_event, page.entries)
        if page.fault:
            damage = scan_run(connection, run_id).damage
            if damage is not None and not damage.tail:
                raise damage_error(damage)
