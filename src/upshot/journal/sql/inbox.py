"""The inbox as rows: what each parked run asks, so that no log is read to show it.

A row belongs to the run that asks. ``root_no`` is the outermost run that waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from upshot.contract.base.enums import Status
from upshot.contract.base.json_values import clean_text, without_nul
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.pending import Pending
from upshot.journal.event_codec import to_micros
from upshot.journal.run_counts import AGES
from upshot.journal.run_list import no_such_page
from upshot.journal.shared import InboxItem, InboxQuery, Unsent, tool_of
from upshot.journal.sql.connection import NEVER, NOW_US, Connection, WriteConnection, owned_by
from upshot.journal.watching import DUE
from upshot.state.child_runs import asked_inside

_PARKED = f"status = '{Status.INPUT_REQUIRED}'"
_DROP = "DELETE FROM inbox WHERE run_no = ?"
_DROP_ITEM = """DELETE FROM inbox WHERE item = ? AND run_no =
    (SELECT run_no FROM runs WHERE run_id = ?)"""
_KEEP_ITEM = """UPDATE inbox SET body = ? WHERE item = ? AND run_no =
    (SELECT run_no FROM runs WHERE run_id = ?)"""
_ASKING = """SELECT CAST(runs.run_id AS TEXT) FROM inbox JOIN runs ON runs.run_no = inbox.run_no
    WHERE inbox.item = ?"""
_DROP_SETTLED = "DELETE FROM inbox WHERE item = ?"
_OUTER = """SELECT outside.run_no FROM runs AS inside JOIN runs AS outside
    ON outside.run_id = inside.parent_run_id WHERE inside.run_no = ? AND inside.is_inside"""
_TAKE_IN = """UPDATE inbox SET root_no = ? WHERE root_no IN (
    SELECT inside.run_no FROM runs AS inside JOIN runs AS outside
    ON inside.parent_run_id <> '' AND inside.parent_run_id = outside.run_id
    WHERE inside.is_inside AND outside.run_no = ?)"""
# The question may have an answer that is not in the log yet.
_ASK = """INSERT INTO inbox (root_no, run_no, place, item, tool, body, asked_at)
    SELECT ?, ?, ?, ?, ?, ?, CAST(? AS BIGINT) WHERE NOT EXISTS (SELECT 1 FROM wishes
        WHERE run_id = (SELECT run_id FROM runs WHERE run_no = ?) AND item = ?)"""
# A child run's items are shown only while all runs that wait for it are parked.
_SHOWN = f"""(inbox.run_no = inbox.root_no OR EXISTS (
    SELECT 1 FROM runs AS outside WHERE outside.{_PARKED} AND outside.run_id =
        (SELECT inside.parent_run_id FROM runs AS inside WHERE inside.run_no = inbox.run_no)))"""
_WANTED = (
    ("root.agent_id = ?", "agent"),
    ("root.context_id <> '' AND root.context_id = ?", "conversation"),
    ("root.run_id = ?", "run_id"),
)
_ITEM = f"""CAST(root.run_id AS TEXT), CAST(root.agent_id AS TEXT),
    CAST(root.context_id AS TEXT), CAST(root.request AS TEXT),
    CAST(root.owner AS TEXT), CAST(root.tenant AS TEXT),
    CAST((SELECT first.request FROM runs AS first
        WHERE first.context_id <> '' AND first.context_id = root.context_id
        AND first.started_at > {NEVER} ORDER BY first.started_at, first.run_no LIMIT 1) AS TEXT),
    CAST(CASE WHEN inbox.run_no = inbox.root_no THEN '' ELSE asking.run_id END AS TEXT),
    CAST(inbox.body AS TEXT)"""
_UNTOLD = f"""SELECT {_ITEM}, CAST(asking.run_id AS TEXT), inbox.run_no, CAST(inbox.item AS TEXT),
    inbox.tell_at, inbox.tries
    FROM inbox JOIN runs AS root ON root.run_no = inbox.root_no
    JOIN runs AS asking ON asking.run_no = inbox.run_no
    WHERE inbox.tell_at IS NOT NULL AND inbox.tell_at <= now_us() AND root.{_PARKED} AND {_SHOWN}
    AND root.agent_id IN ({{places}}) ORDER BY inbox.tell_at, inbox.run_no, inbox.place LIMIT ?"""
_TAKE = """UPDATE inbox SET tell_at = now_us() + ?, tries = tries + 1
    WHERE run_no = ? AND item = ? AND tell_at = ? RETURNING 1"""
_TOLD = """UPDATE inbox SET tell_at = now_us() + ? WHERE item = ?
    AND run_no = (SELECT run_no FROM runs WHERE run_id = ?)"""
_PLACE = """SELECT min(inbox.asked_at), root.run_no FROM runs AS root
    LEFT JOIN inbox ON inbox.root_no = root.run_no WHERE root.run_id = ? GROUP BY root.run_no"""
# The runs of a page. The earliest item of a run determines how long it has waited.
_ROOTS = """SELECT inbox.root_no, inbox.asked_at FROM inbox
    WHERE EXISTS (SELECT 1 FROM inbox AS one WHERE one.root_no = inbox.root_no AND {one})
    AND {wanted} AND NOT EXISTS (SELECT 1 FROM inbox AS earlier
        WHERE earlier.root_no = inbox.root_no AND (earlier.asked_at, earlier.run_no, earlier.place)
            < (inbox.asked_at, inbox.run_no, inbox.place))
    ORDER BY inbox.asked_at, inbox.root_no"""
# Looks at the items in the order of their wait, until a page is full.
_AMONG_MANY = "(SELECT {roots} FROM runs AS root WHERE root.run_no = inbox.root_no)"
# Looks at the items of the few runs that an index finds.
_AMONG_FEW = "inbox.root_no IN (SELECT root.run_no FROM runs AS root WHERE {roots})"
_PAGE = f"""SELECT {_ITEM} FROM ({{page}}) AS page JOIN runs AS root ON root.run_no = page.root_no
    JOIN inbox ON inbox.root_no = root.run_no
    JOIN runs AS asking ON asking.run_no = inbox.run_no WHERE {{shown}}
    ORDER BY page.asked_at, root.run_no, inbox.run_no, inbox.place"""
_SIZE = """SELECT count(*)
    FROM inbox JOIN runs AS root ON root.run_no = inbox.root_no WHERE {roots} AND {shown}"""

_OLDER = ", ".join(["sum(CASE WHEN inbox.asked_at <= ? THEN 1 ELSE 0 END)"] * len(AGES))
_WAITED = f"""SELECT {_OLDER}
    FROM inbox JOIN runs AS root ON root.run_no = inbox.root_no WHERE {{roots}} AND {{shown}}"""


def keep_asks(connection: WriteConnection, run_no: int, asks: Mapping[str, Pending]) -> None:
    """Replace a run's items in the inbox with its open questions."""
    connection.execute(_DROP, (run_no,))
    if not asks:
        return
    root_no = _root_of(connection, run_no)
    rows: list[tuple[object, ...]] = []
    for place, (id, one) in enumerate(asks.items()):
        item = _text(id)
        what = (item, _text(tool_of(one)), encode(one).decode(), to_micros(one.asked_at) or 0)
        rows.append((root_no, run_no, place, *what, run_no, item))
    connection.executemany(_ASK, rows)


def _root_of(connection: Connection, run_no: int) -> int:
    """Return the outermost run that waits for a run."""
    while (row := connection.execute(_OUTER, (run_no,)).fetchone()) is not None:
        (run_no,) = row
    return run_no


def _text(name: str) -> str:
    return without_nul(clean_text(name))


def drop_item(connection: WriteConnection, run_id: str, item: str) -> None:
    """Remove an answered question from the inbox."""
    connection.execute(_DROP_ITEM, (item, run_id))


def keep_item(connection: WriteConnection, run_id: str, item: str, asked: Pending) -> None:
    """Store a question of the inbox as it is now."""
    connection.execute(_KEEP_ITEM, (encode(asked).decode(), item, run_id))
    connection.topics.add(DUE)


def remove_settled_questions(connection: WriteConnection, effect_id: str) -> list[str]:
    """Remove the questions about an effect from the inbox; returns the runs that ask them."""
    rows = connection.execute(_ASKING, (effect_id,)).fetchall()
    connection.execute(_DROP_SETTLED, (effect_id,))
    return [run_id for (run_id,) in rows]


def move_child_items(connection: WriteConnection, run_no: int) -> None:
    """Move the items of child runs of a newly stored run under its root."""
    connection.execute(_TAKE_IN, (_root_of(connection, run_no), run_no))


def read_inbox(connection: Connection, wanted: InboxQuery) -> tuple[InboxItem, ...]:
    """Return the open questions, longest wait first; see ``SharedJournal.inbox``."""
    roots, values = _root_condition(wanted)
    is_of_few = wanted.run_id or wanted.conversation or wanted.owner
    found = (_AMONG_FEW if is_of_few else _AMONG_MANY).format(roots=roots)
    if wanted.before:
        place = connection.execute(_PLACE, (wanted.before,)).fetchone()
        if place is None:
            raise no_such_page(wanted.before)
        # A run that has stopped waiting has no place: the listing restarts and omits nothing.
        found += " AND (inbox.asked_at, inbox.root_no) > (?, ?)"
        values += (place[0] or 0, place[1])
    shown, of_items = _item_condition(wanted)
    page = _ROOTS.format(wanted=found, one=shown.replace("inbox.", "one."))
    values = [*of_items, *values]
    if wanted.limit is not None:
        page += " LIMIT ?"
        values.append(wanted.limit)
    page = _PAGE.format(page=page, shown=shown)
    return tuple(_item(row) for row in connection.execute(page, values + of_items).fetchall())


def inbox_size(connection: Connection, wanted: InboxQuery) -> int:
    """Return how many items there are; see ``SharedJournal.inbox_size``."""
    roots, values = _root_condition(wanted)
    shown, of_tool = _item_condition(wanted)
    (found,) = connection.execute(
        _SIZE.format(roots=roots, shown=shown), values + of_tool
    ).fetchone()
    return int(found)


def count_waits(connection: Connection, wanted: InboxQuery) -> tuple[int, ...]:
    """Return how many items have waited for at least each of ``AGES``."""
    roots, values = _root_condition(wanted)
    since = before_ages(connection)
    found = connection.execute(_WAITED.format(roots=roots, shown=_SHOWN), [*since, *values])
    return tuple(int(one or 0) for one in found.fetchone())


def before_ages(connection: Connection) -> list[int]:
    """Return the moments that are as long ago as ``AGES``, by the database's clock."""
    (now,) = connection.execute(f"SELECT {NOW_US}").fetchone()
    return [now - int(age.total_seconds() * 1_000_000) for age in AGES]


def _root_condition(wanted: InboxQuery) -> tuple[str, list[object]]:
    """Return the condition for the runs with wanted items, without paging, and its values."""
    roots, values = f"root.{_PARKED}", list[object]()
    for condition, name in _WANTED:
        if value := getattr(wanted, name):
            roots += f" AND {condition}"
            values.append(value)
    for condition, *given in owned_by(wanted.owner, wanted.tenant, of="root.", few=True):
        roots, values = f"{roots} AND {condition}", [*values, *given]
    return roots, values


def _item_condition(wanted: InboxQuery) -> tuple[str, list[object]]:
    """Return the condition for the wanted items, and its values."""
    given = (
        ("inbox.tool = ?", wanted.tool),
        ("inbox.asked_at >= ?", _micros(wanted.since)),
        ("inbox.asked_at < ?", _micros(wanted.until)),
    )
    used = [(condition, value) for condition, value in given if value not in ("", None)]
    conditions = [*(condition for condition, _ in used), _SHOWN]
    return " AND ".join(conditions), [value for _, value in used]


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment.astimezone(UTC))


def pop_unsent(
    connection: WriteConnection, agent_ids: Collection[str], limit: int, for_s: float
) -> list[Unsent]:
    """Claim items for notification; see ``SharedJournal.pop_unsent``."""
    taken: list[Unsent] = []
    for *row, asking, run_no, item, tell_at, tries in _read_untold(connection, agent_ids, limit):
        given = (int(for_s * 1_000_000), run_no, item, tell_at)
        # Another process may have been faster.
        if connection.execute(_TAKE, given).fetchone() is not None:
            taken.append(Unsent(_item(row), asking, item, tries))
    return taken


def has_untold(connection: Connection, agent_ids: Collection[str]) -> bool:
    """Whether an item needs a notification."""
    return bool(_read_untold(connection, agent_ids, 1))


def _read_untold(connection: Connection, agent_ids: Collection[str], limit: int) -> list[Any]:
    places = ", ".join("?" * len(agent_ids))
    query = _UNTOLD.format(places=places)
    return connection.execute(query, (*agent_ids, limit)).fetchall()


def mark_sent(connection: WriteConnection, one: Unsent, again_s: float | None) -> None:
    """Record that an item's notification was sent, or when to retry."""
    again = None if again_s is None else int(again_s * 1_000_000)
    connection.execute(_TOLD, (again, one.question, one.asking))


def _item(row: Sequence[str]) -> InboxItem:
    run_id, agent_id, conversation, request, owner, tenant, title, asking, body = row
    pending = decode(body, _decoder())
    return InboxItem(
        run_id=run_id,
        agent_id=agent_id,
        conversation=conversation,
        request=request,
        owner=owner,
        tenant=tenant,
        title=title or "",
        pending=asked_inside(asking, pending) if asking else pending,
    )


@cache
def _decoder() -> msgspec.json.Decoder[Pending]:
    return decoder_of(Pending)
