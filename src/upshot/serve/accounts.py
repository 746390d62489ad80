"""The JSON of the pages Audit and Sessions: who did what, and who is signed in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import StreamingResponse

from upshot.contract.codec import decode, encode
from upshot.contract.user import User
from upshot.journal.audit import (
    MOST_ROWS,
    SESSIONS,
    AuditKind,
    AuditLog,
    SessionFilters,
    WebSession,
    needs_audit,
    row_of,
)
from upshot.journal.shared import needs_shared
from upshot.serve import replies
from upshot.serve.guard import SESSION
from upshot.serve.permissions import Missing, Refused, may_audit, may_end_sessions
from upshot.serve.site import Site, read_query

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

# A file says with any commit that sessions may have changed.
_REST_S = 0.5
_AUDIT_ROLE = "the audit needs the role 'audit' or 'owner'"


class _Audit(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The filters of the audit, as query parameters; see ``AuditFilters``."""

    user: str = ""
    kind: AuditKind | None = None
    action: str = ""
    run_id: str = ""
    subject: str = ""
    tool: str = ""
    argument: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before: int = 0


class _End(msgspec.Struct, forbid_unknown_fields=True):
    """Which sessions to end: one, or all of a user."""

    id: str = ""
    user: str = ""
    tenant: str = ""


def routes(site: Site) -> list[BaseRoute]:
    """Return the routes of the pages' JSON."""
    accounts = _Accounts(site)
    return site.console_routes(
        ("GET", "/api/audit", accounts.audit),
        ("GET", "/api/audit/lines", accounts.lines),
        ("GET", "/api/sessions", accounts.sessions),
        ("POST", "/api/sessions/end", accounts.end),
    )


@asynccontextmanager
async def lifespan(site: Site) -> AsyncGenerator[None]:
    """Wake the streams of users whose sessions may have changed, in any process."""
    journal = needs_shared(await site.app.open())

    async def follow() -> None:
        with journal.watch(SESSIONS) as changes:
            while True:
                await changes.changed()
                site.changes.notify()
                await asyncio.sleep(_REST_S)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Accounts:
    """The handlers of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def _journal(self) -> AuditLog:
        return needs_audit(await self._site.app.open())

    async def audit(self, request: Request, user: User) -> object:
        """Return rows of the audit; users with a tenant read what concerns it."""
        return await (await self._journal()).audit(**_filters(request, user))

    async def lines(self, request: Request, user: User) -> object:
        """Return all rows that the filters leave, a line of JSON each; that is an act itself."""
        filters, journal = _filters(request, user), await self._journal()
        await self._site.note(user, "export", subject="audit")

        async def lines() -> AsyncGenerator[bytes]:
            place: int | None = filters.pop("before", 0)
            while place is not None:
                page = await journal.audit(**filters, before=place, limit=MOST_ROWS)
                yield b"".join(encode(row) + b"\n" for row in page.rows)
                place = page.next

        headers = {"content-disposition": 'attachment; filename="audit.jsonl"'}
        return StreamingResponse(lines(), media_type="application/jsonl", headers=headers)

    async def sessions(self, request: Request, user: User) -> object:
        """Return the user's own sessions; for operators all of them, or those of the tenant."""
        found = await (await self._journal()).sessions(**_of(user))
        own: str = request.scope.get(SESSION, "")
        lines = [msgspec.convert(one, replies.SessionLine, from_attributes=True) for one in found]
        shown = [msgspec.structs.replace(one, here=one.id == own) for one in lines]
        return replies.SessionList(sessions=tuple(shown))

    async def end(self, request: Request, user: User) -> object:
        """End one session, or all of a user."""
        given = decode(await request.body(), _End)
        if bool(given.id) == bool(given.user):
            raise Refused("name a session by id, or all sessions of a user by user")
        wanted: SessionFilters = {"id": given.id, "user": given.user, "tenant": given.tenant}
        journal = await self._journal()
        theirs = {one.id for one in await journal.sessions(**_of(user))}
        found = [one for one in await journal.sessions(**wanted) if one.id in theirs]
        if not found:
            raise Missing("there is no such session: it may have ended")
        ended = list[WebSession]()
        for one in found:
            ended += await journal.end_sessions(row_of("end_session"), id=one.id)
        return replies.SessionsEnded(ended=len(ended))


def _of(user: User) -> SessionFilters:
    """Return the filters that leave the sessions that a user may see and end."""
    if may_end_sessions(user):
        return {"tenant": user.tenant}
    return {"user": user.id, "tenant": user.tenant}


def _filters(request: Request, user: User) -> dict[str, Any]:
    if not may_audit(user):
        raise Refused(_AUDIT_ROLE)
    given = msgspec.structs.asdict(read_query(request, _Audit))
    return {**given, "tenant": user.tenant}
