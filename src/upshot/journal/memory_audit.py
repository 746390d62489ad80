"""The audit and the web sessions of a MemoryJournal; see ``journal.audit``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import replace

from upshot.contract.pending import AnyAnswer, Pending
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
    row_of_answer,
    with_question,
)
from upshot.journal.shared import PlacedAnswer

if TYPE_CHECKING:
    from upshot.journal.memory_log import MemoryLog
    from upshot.journal.watching import Changes


class MemoryAudit:
    """The audit of a journal in memory; implements AuditLog."""

    def __init__(self) -> None:
        self._audit_rows: list[AuditRow] = []
        self._audit_marks: set[str] = set()
        self._web_sessions: dict[str, WebSession] = {}

    if TYPE_CHECKING:
        _changes: Changes
        _logs: dict[str, MemoryLog]

        def _open(self) -> dict[str, MemoryLog]: ...

    async def add_audit(self, row: AuditRow, *, once: str = "") -> None:
        """See ``AuditLog.add_audit``."""
        self._open()
        if once and once in self._audit_marks:
            return
        self._audit_marks |= {once} if once else set()
        self._add_row(row)

    async def audit(self, **filters: Unpack[AuditFilters]) -> AuditPage:
        """See ``AuditLog.audit``."""
        self._open()
        wanted = AuditQuery(**filters)
        wanted.check()
        meets = condition_of(wanted.argument) if wanted.argument else None
        rows: list[AuditRow] = []
        looked_at = 0
        for row in reversed(self._audit_rows):
            if not wanted.holds(row) or (wanted.before and row.no >= wanted.before):
                continue
            looked_at += 1
            if meets is None or meets(row.arguments):
                rows.append(row)
            if len(rows) == wanted.limit or looked_at == MOST_LOOKED_AT:
                return AuditPage(rows=tuple(rows), next=row.no)
        return AuditPage(rows=tuple(rows))

    async def remove_audit(self, before: datetime) -> int:
        """See ``AuditLog.remove_audit``."""
        self._open()
        left = [row for row in self._audit_rows if row.at is None or row.at >= before]
        count, self._audit_rows = len(self._audit_rows) - len(left), left
        self._add_row(row_of("remove_audit", detail=f"{count} rows before {before.isoformat()}"))
        return count

    async def open_session(self, key: str, session: WebSession) -> None:
        """See ``AuditLog.open_session``."""
        self._open()
        for other, one in self._web_sessions.items():
            is_same = session.subject and one.subject == session.subject
            if is_same and one.groups != session.groups:
                self._web_sessions[other] = replace(one, groups=session.groups)
                self._changes.notify([SESSIONS])
        self._web_sessions[key] = session
        self._add_row(row_of("sign_in", subject=session.id))

    async def session(self, key: str) -> WebSession | None:
        """See ``AuditLog.session``."""
        self._open()
        return self._web_sessions.get(key)

    async def touch_session(self, key: str, at: datetime) -> None:
        """See ``AuditLog.touch_session``."""
        if (one := self._web_sessions.get(key)) is not None and one.seen_at < at:
            self._web_sessions[key] = replace(one, seen_at=at)

    async def sessions(self, **filters: Unpack[SessionFilters]) -> Sequence[WebSession]:
        """See ``AuditLog.sessions``."""
        self._open()
        return sorted(
            (self._web_sessions[key] for key in self._keys_of_sessions(filters)),
            key=lambda one: one.seen_at,
            reverse=True,
        )

    async def end_sessions(
        self, row: AuditRow, **filters: Unpack[SessionFilters]
    ) -> Sequence[WebSession]:
        """See ``AuditLog.end_sessions``."""
        self._open()
        ended = [self._web_sessions.pop(key) for key in self._keys_of_sessions(filters)]
        for one in ended:
            self._add_row(replace(row, subject=one.id, detail=detail_of_ending(one, row)))
        if ended:
            self._changes.notify([SESSIONS])
        return ended

    async def drop_sessions(self, *, unseen_since: datetime, now: datetime) -> None:
        """See ``AuditLog.drop_sessions``."""
        for key, one in [*self._web_sessions.items()]:
            if one.until <= now or one.seen_at < unseen_since:
                del self._web_sessions[key]

    def _keys_of_sessions(self, filters: SessionFilters) -> list[str]:
        given = {name: value for name, value in filters.items() if value}
        if given.get("user"):
            given.setdefault("tenant", "")
        return [
            key
            for key, one in self._web_sessions.items()
            if all(getattr(one, name) == value for name, value in given.items())
        ]

    def _add_row(self, row: AuditRow) -> None:
        log = self._logs.get(row.run_id)
        if log is not None and not row.run_tenant:
            row = replace(row, run_tenant=log.summary(row.run_id).tenant)
        no = self._audit_rows[-1].no + 1 if self._audit_rows else 1
        self._audit_rows.append(replace(row, no=no, at=datetime.now(UTC)))

    def _add_answer(
        self, placed: PlacedAnswer, shown: AnyAnswer | None, asked: Pending | None
    ) -> None:
        if (row := row_of_answer(placed, shown)) is not None:
            self._add_row(with_question(row, asked, ""))

    def _blank_rows(self, run_ids: Iterable[str]) -> None:
        """Remove the content from the rows of runs."""
        gone = {*run_ids}
        self._audit_rows = [
            replace(row, arguments=None, detail="") if row.run_id in gone else row
            for row in self._audit_rows
        ]
