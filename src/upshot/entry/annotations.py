"""What users note about runs beside the logs: notes, standing approvals that they withdraw, and
inbox items that they snooze or assign.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from upshot.contract.base.checks import Allowed, check_argument, check_whole
from upshot.contract.base.enums import Status
from upshot.contract.base.json_values import to_json
from upshot.contract.base.structs import Json, JsonObject, Moment, Value
from upshot.contract.codec import encode
from upshot.contract.protocols import Journal, Note, RunSummary
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.journal.run_list import no_such_run
from upshot.journal.shared import (
    Assigned,
    InboxFilters,
    InboxItem,
    SharedJournal,
    SharedValues,
    Withdrawal,
    needs_shared,
    withdraw,
    withdrawn_in,
)
from upshot.runs.plan import Where, check_run_id
from upshot.state.summary import RUNNING

_STRING = Allowed("a string", (str,))
_NAME_CHARS, _VALUE_BYTES = 100, 10_000


async def keep_note(run_id: str, name: str, value: Json, *, by: str, journal: Where) -> None:
    """Store a note on a run; see ``upshot.note``."""
    check_run_id(run_id)
    check_argument("name", name, _STRING)
    check_argument("by", by, _STRING)
    if not 0 < len(name) <= _NAME_CHARS:
        raise Misuse(f"name has {len(name)} characters: give from 1 to {_NAME_CHARS}")
    try:
        size = len(to_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Misuse(f"value cannot be JSON: {error}") from error
    if size > _VALUE_BYTES:
        raise Misuse(f"value is {size} bytes of JSON: give at most {_VALUE_BYTES}")
    async with open_journal(journal) as opened:
        if not await opened.runs(run_id=run_id):
            raise no_such_run(run_id)
        note = Note(run_id=run_id, name=name, value=value, by=by, at=datetime.now(UTC))
        await needs_shared(opened).keep_note(note)


_ALWAYS = "always"


class Grant(Value, frozen=True, kw_only=True):
    """A standing approval; it lasts as long as its run.

    Attributes:
        id: Its id, unique in the journal.
        run_id: The run.
        agent_id: The agent of the run.
        tool_name: The tool.
        scope: "tool" for all calls of the tool in its current version, "arguments" for calls with
            the same arguments.
        arguments: The arguments of the approved call.
        by: The person who approved it.
        at: When it was approved.
        uses: How many calls it has allowed since.
        withdrawn: Who withdrew it and when; None while it is in force.
    """

    id: str
    run_id: str
    agent_id: str
    tool_name: str
    scope: str
    arguments: JsonObject = {}
    by: str = ""
    at: Moment | None = None
    uses: int = 0
    withdrawn: Withdrawal | None = None


async def list_grants(
    journal: Journal, *, owner: str, tenant: str, limit: int, withdrawn: bool
) -> tuple[Grant, ...]:
    """Return the standing approvals of runs that have not ended; see ``App.grants``."""
    check_whole("limit", limit, least=1)
    found: list[Grant] = []
    for status in (RUNNING, Status.INPUT_REQUIRED.value):
        for run in await journal.runs(status, owner=owner, tenant=tenant, limit=limit):
            found += await _grants_of(run, journal)
    return tuple(one for one in found if withdrawn or one.withdrawn is None)


async def _grants_of(run: RunSummary, journal: Journal) -> list[Grant]:
    withdrawn = await withdrawn_in(journal, run.run_id)
    state = await RunHandle(run.run_id, journal).state()
    records = [
        (record, record.approval)
        for record in state.records
        if record.approval is not None
        and record.approval.scope
        and record.approval.key not in state.copied_approvals
    ]
    used = [
        (record.tool_name, one.scope, one.digest if one.scope == "arguments" else "")
        for record, one in records
        if one.decision == _ALWAYS
    ]
    return [
        Grant(
            id=f"{run.run_id} {one.key}",
            run_id=run.run_id,
            agent_id=run.agent_id,
            tool_name=record.tool_name,
            scope=one.scope,
            arguments=record.arguments_executed or {},
            by=one.by,
            at=one.at,
            uses=used.count(
                (record.tool_name, one.scope, one.digest if one.scope == "arguments" else "")
            ),
            withdrawn=withdrawn.get(one.key),
        )
        for record, one in records
        if one.decision not in (_ALWAYS, "denied")
    ]


async def withdraw_grant(grant_id: str, journal: Journal, by: str) -> None:
    """Withdraw a standing approval; see ``App.withdraw``."""
    check_argument("grant_id", grant_id, _STRING)
    check_argument("by", by, _STRING)
    run_id, _, key = grant_id.rpartition(" ")
    runs = await journal.runs(run_id=run_id) if run_id else ()
    known = [one for run in runs for one in await _grants_of(run, journal)]
    if not any(one.id == grant_id and one.withdrawn is None for one in known):
        raise Misuse(f"there is no standing approval {grant_id!r}: give the id of one of grants()")
    await withdraw(journal, run_id, {key: Withdrawal(by=by, at=datetime.now(UTC))})


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


async def visible_items(
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
