"""The inbox of the console: what waits, earlier decisions like it, and who takes it."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from upshot.contract.base.secrets import hide_marks
from upshot.contract.codec import decode
from upshot.contract.events import RunStarted
from upshot.contract.pending import PendingApproval, PendingEffect
from upshot.entry.planning import known_of
from upshot.journal.shared import InboxItem, tool_of
from upshot.serve import replies
from upshot.serve.contradictions import Compared, compared
from upshot.serve.permissions import Missing
from upshot.serve.run_details import viewed
from upshot.serve.site import Handler, Site, read_query

if TYPE_CHECKING:
    from starlette.requests import Request

    from upshot.contract.user import User

# How many runs a page of the inbox covers.
_ITEMS = 50
# How many runs are searched for earlier decisions.
_RUNS_BEFORE = 20
# A request of so many characters may be cut in the list of runs, so its log is read.
_CUT = 200
_MOST_KNOWN = 1000

_Seconds = Annotated[int, msgspec.Meta(ge=0, le=10_000_000_000)]


class _Later(msgspec.Struct, forbid_unknown_fields=True):
    until: datetime | None = None


class _Assign(msgspec.Struct, forbid_unknown_fields=True):
    to: str


class AgedFilters(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Query parameters that filter a list by age, in seconds: *older* at least, *younger* less."""

    older: _Seconds | None = None
    younger: _Seconds | None = None

    def to_filters(self) -> dict[str, Any]:
        """Return them as the filters of a journal."""
        given = msgspec.structs.asdict(self)
        ages, now = {"until": given.pop("older"), "since": given.pop("younger")}, datetime.now(UTC)
        for name, age_s in ages.items():
            if age_s is not None:
                given[name] = now - timedelta(seconds=age_s)
        return given


class _Items(AgedFilters):
    """The filters of the inbox, as query parameters."""

    agent: str = ""
    tool: str = ""
    conversation: str = ""
    run_id: str = ""
    before: str = ""
    assignee: str = ""


class Inbox:
    """The handlers of these routes, for one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._app = site.app
        # The whole requests of runs whose line in the list is cut.
        self._requests: dict[str, str] = {}
        # By run, item, digest of the call, and the request, which an erasure removes.
        self._known: dict[tuple[str, str, str, str], Compared] = {}

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each route."""
        item = "/api/inbox/{run}/{item:path}"
        return [
            ("GET", "/api/inbox", self.inbox),
            ("GET", f"{item}/before", self.before),
            ("POST", f"{item}/later", self.later),
            ("POST", f"{item}/assign", self.assign),
        ]

    async def inbox(self, request: Request, user: User) -> object:
        """Return what waits, without snoozed items; each with its tool's description."""
        wanted = read_query(request, _Items).to_filters()
        items = await self._site.inbox_of(user, limit=_ITEMS, **wanted)
        runs = {item.run_id for item in items}
        assignee = wanted.pop("assignee")
        total = None if assignee else await self._site.inbox_size_of(user, **wanted)
        return replies.InboxPage(
            items=tuple([await self._entry_of(user, item) for item in items]),
            total=total,
            next=items[-1].run_id if len(runs) >= _ITEMS else None,
        )

    async def _entry_of(self, user: User, item: InboxItem) -> replies.InboxEntry:
        """Return an item as *user* sees it."""
        call = item.pending
        wrong, named = await self._compared(item)
        return replies.InboxEntry(
            **msgspec.structs.asdict(item),
            description=self._describe(item),
            answerable=await self._site.is_answerable(user, item),
            due_at=item.due,
            after_due=item.then,
            contradictions=wrong,
            named=named,
            lookup=self._site.lookup_of(call.tool_name) if isinstance(call, PendingEffect) else "",
        )

    async def _compared(self, item: InboxItem) -> Compared:
        """Return the arguments of a call, compared with the request; nothing for a question."""
        call = item.pending
        if not isinstance(call, PendingApproval):
            return Compared((), ())
        key = item.run_id, call.id, call.digest, item.request
        found = self._known.get(key)
        if found is None:
            found = compared(await self._request_of(item), call.tool_name, call.arguments)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    async def _request_of(self, item: InboxItem) -> str:
        """Return the whole text of the request."""
        if len(item.request) < _CUT:
            return item.request
        found = self._requests.get(item.run_id)
        if found is None:
            run = await self._app.run(item.run_id)
            async with aclosing(run.events(until="parked")) as events:
                first = await anext(events, None)
            found = item.request
            if isinstance(first, RunStarted):
                found = hide_marks(first.request.text, first.options)
            if len(self._requests) >= _MOST_KNOWN:
                self._requests.clear()
            self._requests[item.run_id] = found
        return found

    def _describe(self, item: InboxItem) -> str:
        """Return the description of the tool whose call waits; "" if it is not known."""
        agent, name = self._app.agents.get(item.agent_id), tool_of(item.pending)
        tools = () if agent is None else known_of(agent).tools or ()
        return next((tool.description for tool in tools if tool.name == name), "")

    async def before(self, request: Request, user: User) -> object:
        """Return earlier decisions about the same tool's calls, from the newest runs with any."""
        run = await self._site.run_of(user, request.path_params["run"])
        items = await self._app.inbox(run_id=run.id, limit=None)
        asked = [one.pending for one in items if one.pending.id == request.path_params["item"]]
        if not asked or not isinstance(asked[0], PendingApproval):
            raise Missing("no approval waits under that id: it may have been answered")
        wanted, found = asked[0], list[replies.EarlierDecision]()
        for one in await self._site.runs_of(user, tool=wanted.tool_name, limit=_RUNS_BEFORE):
            view = await viewed(await self._app.run(one.run_id))
            for answered in view.head.answered:
                about = answered.asked
                if isinstance(about, PendingApproval) and about.tool_name == wanted.tool_name:
                    same = about.arguments == wanted.arguments
                    facts = msgspec.structs.asdict(answered)
                    found.append(replies.EarlierDecision(**facts, run_id=one.run_id, same=same))
        # Those with the same arguments first, then the newest.
        found.sort(key=lambda one: (one.same, str(one.at)), reverse=True)
        return replies.EarlierDecisions(answered=tuple(found))

    async def later(self, request: Request, user: User) -> object:
        given = decode(await request.body(), _Later)
        run_id, item = request.path_params["run"], request.path_params["item"]
        await self._site.later(user, run_id, item, given.until)
        return {}

    async def assign(self, request: Request, user: User) -> object:
        """Assign an item; needs the permission to answer it."""
        given = decode(await request.body(), _Assign)
        run_id, item = request.path_params["run"], request.path_params["item"]
        await self._site.assign(user, run_id, item, given.to)
        return {}
