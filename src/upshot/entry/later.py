"""Inbox items that a user has snoozed (a stored value per user, with times), and the users that
items are assigned to (one value for all).
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from upshot.contract.base.checks import Allowed, check_argument
from upshot.contract.codec import encode
from upshot.errors import Misuse
from upshot.journal.shared import (
    Assigned,
    InboxFilters,
    InboxItem,
    SharedJournal,
    SharedValues,
)

_USER = Allowed("the id of a user, a string", (str,))
_ASSIGNED = "assigned"
_assigned_decoder = msgspec.json.Decoder(dict[str, Assigned])
_snoozed_decoder = msgspec.json.Decoder(dict[str, float])


async def put_off(
    run_id: str, item_id: str, until: datetime | None, by: str, journal: SharedJournal
) -> None:
    """Hide an item from a user's inbox for a time; see ``App.later``."""
    check_argument("by", by, _USER)
    if not by:
        raise Misuse("by is empty: say who puts the item off")
    if until is not None and until.utcoffset() is None:
        raise Misuse("until has no time zone: give an aware moment, such as datetime.now(UTC)")
    found = await _item(run_id, item_id, journal)

    def change(values: SharedValues) -> None:
        now = values.now_us / 1_000_000
        kept = _decode_snoozed(values.read(_snooze_name(by)))
        kept[found.key] = 0.0 if until is None else until.timestamp()
        left = {key: moment for key, moment in kept.items() if moment > now}
        values.write(_snooze_name(by), encode(left).decode())

    await journal.change_values(change)


async def _item(run_id: str, item_id: str, journal: SharedJournal) -> InboxItem:
    items = await journal.inbox(run_id=run_id)
    found = next((item for item in items if item.pending.id == item_id), None)
    if found is None:
        known = ", ".join(item.pending.id for item in items) or "nothing"
        raise Misuse(f"run {run_id!r} does not wait for {item_id!r}: it waits for {known}")
    return found


async def assign_item(run_id: str, item_id: str, to: str, by: str, journal: SharedJournal) -> None:
    """Assign an item to a user; see ``App.assign``."""
    check_argument("to", to, _USER)
    check_argument("by", by, _USER)
    found = await _item(run_id, item_id, journal)
    before = _decode_assigned(await journal.value(_ASSIGNED)).keys()
    waiting = {item.key for item in await journal.inbox()} if before else set[str]()

    def change(values: SharedValues) -> None:
        kept = _decode_assigned(values.read(_ASSIGNED))
        # Drop the assignments of items that have been answered since.
        left = {key: one for key, one in kept.items() if key in waiting or key not in before}
        left.pop(found.key, None)
        if to:
            left[found.key] = Assigned(to=to, by=by, at=datetime.now(UTC))
        values.write(_ASSIGNED, encode(left).decode())

    await journal.change_values(change)


async def shown_to(
    user: str, assignee: str, journal: SharedJournal, filters: InboxFilters
) -> tuple[InboxItem, ...]:
    """Return what the inbox shows a user: without snoozed items, each with its assignee, in full
    pages.
    """
    now = datetime.now(UTC).timestamp()
    put_off = _decode_snoozed(await journal.value(_snooze_name(user))) if user else {}
    hidden = {key for key, until in put_off.items() if until > now}
    assigned = _decode_assigned(await journal.value(_ASSIGNED))
    found: dict[str, list[InboxItem]] = {}
    limit = filters.get("limit")
    wanted = InboxFilters(**filters)
    while page := await journal.inbox(**wanted):
        for item in page:
            to = assigned.get(item.key)
            if item.key not in hidden and assignee in ("", to and to.to):
                found.setdefault(item.run_id, []).append(replace(item, assigned=to))
        if limit is None or len(found) >= limit:
            break
        wanted["before"] = page[-1].run_id
    return tuple(item for some in [*found.values()][:limit] for item in some)


def _snooze_name(user: str) -> str:
    return f"later {user}"


def _decode_snoozed(text: str) -> dict[str, float]:
    return _snoozed_decoder.decode(text) if text else {}


def _decode_assigned(text: str) -> dict[str, Assigned]:
    return _assigned_decoder.decode(text) if text else {}
