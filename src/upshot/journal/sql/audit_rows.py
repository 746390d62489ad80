"""The audit and the web sessions as rows; see ``journal.audit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from upshot.contract.base.json_values import clean_text, without_nul
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.pending import Pending
from upshot.journal.audit import (
    MOST_LOOKED_AT,
    SESSIONS,
    AuditFilters,
    AuditPage,
    AuditQuery,
    AuditRow,
    SessionFilters,
    WebSession,
    condition_of,
    detail_of_ending,
    row_of,
    with_question,
)
from upshot.journal.event_codec import from_micros, to_micros
from upshot.journal.shared import PlacedAnswer
from upshot.journal.sql.connection import NOW_US, Connection, WriteConnection, among

T = TypeVar("T")
# The texts of a row, in the order of the columns.
_TEXTS = (
    "user", "tenant", "kind", "action", "run_id", "run_tenant", "subject", "tool", "digest",
    "detail", "door", "session", "address",
)  # fmt: skip
_NAMES = ", ".join("person" if name == "user" else name for name in _TEXTS)
_ADD = f"""INSERT INTO audit (at, {_NAMES}, arguments, once)
    VALUES ({NOW_US}, {", ".join("?" * len(_TEXTS))}, ?, ?) ON CONFLICT DO NOTHING"""
_READ = ", ".join(f"CAST({name} AS TEXT)" for name in (*_NAMES.split(", "), "arguments"))
_SELECT = (
    f"SELECT audit_no, at, {_READ} FROM audit WHERE {{wanted}} ORDER BY at DESC, audit_no DESC"
)
_ASKED = """SELECT CAST(inbox.body AS TEXT), CAST(runs.tenant AS TEXT) FROM runs
    LEFT JOIN inbox ON inbox.run_no = runs.run_no AND inbox.item = ? WHERE runs.run_id = ?"""
_TENANT = "SELECT CAST(tenant AS TEXT) FROM runs WHERE run_id = ?"
_BLANK = "UPDATE audit SET arguments = NULL, detail = '' WHERE run_id <> '' AND"
_COUNT_OLD = "SELECT count(*) FROM audit WHERE at < ?"
_REMOVE_OLD = "DELETE FROM audit WHERE at < ?"
# Rows of a condition are compared in Python, so many of them must not be in memory at once.
_STEP = 1_000

_OPEN = """INSERT INTO web_sessions
    (key, id, person, tenant, subject, provider_session, seen_at, until, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_SESSION = "SELECT CAST(body AS TEXT), seen_at FROM web_sessions"
_TOUCH = "UPDATE web_sessions SET seen_at = ? WHERE key = ? AND seen_at < ?"
_SET_GROUPS = "UPDATE web_sessions SET body = ? WHERE id = ?"
_END = "DELETE FROM web_sessions WHERE id = ?"
_DROP = "DELETE FROM web_sessions WHERE until <= ? OR seen_at < ?"


class SqlAudit:
    """The audit of a journal in an SQL database; implements AuditLog."""

    if TYPE_CHECKING:

        async def read(self, work: Callable[[Connection], T]) -> T: ...
        async def write(self, work: Callable[[WriteConnection], T]) -> T: ...

    async def add_audit(self, row: AuditRow, *, once: str = "") -> None:
        """See ``AuditLog.add_audit``."""
        await self.write(lambda connection: add_row(connection, row, once))

    async def audit(self, **filters: Unpack[AuditFilters]) -> AuditPage:
        """See ``AuditLog.audit``."""
        wanted = AuditQuery(**filters)
        wanted.check()
        return await self.read(lambda connection: _read_page(connection, wanted))

    async def remove_audit(self, before: datetime) -> int:
        """See ``AuditLog.remove_audit``."""
        row = row_of("remove_audit", detail=f"before {before.isoformat()}")
        return await self.write(lambda connection: _remove(connection, before, row))

    async def open_session(self, key: str, session: WebSession) -> None:
        """See ``AuditLog.open_session``."""
        row = row_of("sign_in", subject=session.id)
        await self.write(lambda connection: _open(connection, key, session, row))

    async def session(self, key: str) -> WebSession | None:
        """See ``AuditLog.session``."""
        found = await self.read(lambda connection: _sessions(connection, "key = ?", key))
        return found[0] if found else None

    async def touch_session(self, key: str, at: datetime) -> None:
        """See ``AuditLog.touch_session``."""
        micros = to_micros(at)
        await self.write(lambda connection: connection.execute(_TOUCH, (micros, key, micros)))

    async def sessions(self, **filters: Unpack[SessionFilters]) -> Sequence[WebSession]:
        """See ``AuditLog.sessions``."""
        return await self.read(lambda connection: _find_sessions(connection, filters))

    async def end_sessions(
        self, row: AuditRow, **filters: Unpack[SessionFilters]
    ) -> Sequence[WebSession]:
        """See ``AuditLog.end_sessions``."""
        return await self.write(lambda connection: _end(connection, row, filters))

    async def drop_sessions(self, *, unseen_since: datetime, now: datetime) -> None:
        """See ``AuditLog.drop_sessions``."""
        values = (to_micros(now), to_micros(unseen_since))
        await self.write(lambda connection: connection.execute(_DROP, values))


def add_row(connection: WriteConnection, row: AuditRow, once: str = "") -> None:
    """Add a row to the audit."""
    if row.run_id and not row.run_tenant:
        found = connection.execute(_TENANT, (row.run_id,)).fetchone()
        row = row if found is None else replace(row, run_tenant=found[0])
    texts = [_text(getattr(row, name)) for name in _TEXTS]
    arguments = None if row.arguments is None else encode(row.arguments).decode()
    connection.execute(_ADD, (*texts, arguments, _text(once) or None))


def add_answer(connection: WriteConnection, placed: PlacedAnswer, row: AuditRow) -> None:
    """Add the row of an answer, before its question leaves the inbox."""
    found = connection.execute(_ASKED, (placed.item, placed.run_id)).fetchone()
    body, tenant = (None, "") if found is None else found
    asked = None if body is None else decode(body, decoder_of(Pending))
    add_row(connection, with_question(row, asked, tenant))


def blank_rows(connection: WriteConnection, run_ids: Sequence[str]) -> None:
    """Remove the content from the rows of runs, at most a page of them."""
    connection.execute(f"{_BLANK} {among('run_id', run_ids)}", run_ids)


def _text(text: str) -> str:
    return without_nul(clean_text(text))


def _conditions(wanted: AuditQuery) -> Iterator[tuple[str, tuple[object, ...]]]:
    for name in ("kind", "action", "subject"):
        if value := getattr(wanted, name):
            yield f"{name} = ?", (value,)
    if wanted.user:
        yield "person = ?", (wanted.user,)
    for name in ("run_id", "tool"):
        if value := getattr(wanted, name):
            # As the partial index says it.
            yield f"{name} <> '' AND {name} = ?", (value,)
    if wanted.tenant:
        yield "(tenant = ? OR run_tenant = ?)", (wanted.tenant, wanted.tenant)
    if wanted.argument:
        yield "arguments IS NOT NULL", ()
    for sign, at in ((">=", wanted.since), ("<", wanted.until)):
        if at is not None:
            yield f"at {sign} ?", (_micros(at),)


def _micros(at: datetime) -> int:
    return to_micros(at.astimezone(UTC)) or 0


def _read_page(connection: Connection, wanted: AuditQuery) -> AuditPage:
    meets = condition_of(wanted.argument) if wanted.argument else None
    rows: list[AuditRow] = []
    before, looked_at = wanted.before, 0
    while looked_at < MOST_LOOKED_AT:
        step = _STEP if meets else wanted.limit
        found = _read_rows(connection, wanted, before, step)
        for no, at, *texts, text in found:
            before, looked_at = no, looked_at + 1
            arguments = None if text is None else msgspec.json.decode(text)
            if meets is None or meets(arguments):
                rows.append(_row(no, at, texts, arguments))
                if len(rows) == wanted.limit:
                    return AuditPage(rows=tuple(rows), next=before)
        if len(found) < step:
            return AuditPage(rows=tuple(rows))
    return AuditPage(rows=tuple(rows), next=before)


def _read_rows(
    connection: Connection, wanted: AuditQuery, before: int, limit: int
) -> list[tuple[Any, ...]]:
    conditions = [*_conditions(wanted)]
    if before:
        place = "(at, audit_no) < (SELECT at, audit_no FROM audit WHERE audit_no = ?)"
        conditions.append((place, (before,)))
    words = " AND ".join(text for text, _ in conditions) or "1 = 1"
    values = [value for _, given in conditions for value in given]
    statement = f"{_SELECT.format(wanted=words)} LIMIT {limit:d}"
    return connection.execute(statement, values).fetchall()


def _row(no: int, at: int, texts: Sequence[str], arguments: JsonObject | None) -> AuditRow:
    given: dict[str, Any] = dict(zip(_TEXTS, texts, strict=True))
    return AuditRow(no=no, at=from_micros(at), arguments=arguments, **given)


def _remove(connection: WriteConnection, before: datetime, row: AuditRow) -> int:
    (count,) = connection.execute(_COUNT_OLD, (_micros(before),)).fetchone()
    connection.execute(_REMOVE_OLD, (_micros(before),))
    add_row(connection, replace(row, detail=f"{count} rows {row.detail}"))
    return count


# -- sessions


def _open(connection: WriteConnection, key: str, session: WebSession, row: AuditRow) -> None:
    for other in _sessions(connection, "subject = ?", session.subject) if session.subject else ():
        if other.groups != session.groups:
            body = encode(replace(other, groups=session.groups)).decode()
            connection.execute(_SET_GROUPS, (body, other.id))
            connection.topics.add(SESSIONS)
    values = (
        key,
        session.id,
        session.user,
        session.tenant,
        session.subject,
        session.provider_session,
        to_micros(session.seen_at),
        to_micros(session.until),
        encode(session).decode(),
    )
    connection.execute(_OPEN, values)
    add_row(connection, row)


def _sessions(connection: Connection, words: str, *values: str) -> list[WebSession]:
    statement = f"{_SESSION} WHERE {words} ORDER BY seen_at DESC, id"
    return [
        replace(decode(body, WebSession), seen_at=from_micros(seen_at))
        for body, seen_at in connection.execute(statement, values).fetchall()
    ]


def _find_sessions(connection: Connection, filters: SessionFilters) -> list[WebSession]:
    columns = {"user": "person"}
    given = {name: str(value) for name, value in filters.items() if value}
    if given.get("user"):
        # Together they name a user: without a tenant, the one who has none.
        given.setdefault("tenant", "")
    words = " AND ".join(f"{columns.get(name, name)} = ?" for name in given)
    return _sessions(connection, words or "1 = 1", *given.values())


def _end(connection: WriteConnection, row: AuditRow, filters: SessionFilters) -> list[WebSession]:
    found = _find_sessions(connection, filters)
    for one in found:
        connection.execute(_END, (one.id,))
        add_row(connection, replace(row, subject=one.id, detail=detail_of_ending(one, row)))
    if found:
        connection.topics.add(SESSIONS)
    return found
