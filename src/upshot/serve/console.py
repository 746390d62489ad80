"""The console: its pages, and the JSON behind them."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Json, RunEvent
from upshot.contract.codec import decode, encode
from upshot.contract.effects import EffectEntry, EffectState
from upshot.contract.events import Event, ToolSettled
from upshot.contract.message import Unknown
from upshot.contract.model_calls import ModelStarted
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import Note, RunSummary
from upshot.contract.tool_calls import outcome_to_model_content
from upshot.contract.user import User
from upshot.effects.settling import needs_ledger
from upshot.entry.resume import fork_run
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.journal.shared import needs_shared
from upshot.journal.watching import DUE
from upshot.serve import replies
from upshot.serve.bulk_runs import Bulk, act_on_runs, cancel_run, resume_run
from upshot.serve.inbox import AgedFilters, Inbox
from upshot.serve.overview import Period, drain, list_workers, read_overview, read_tools
from upshot.serve.permissions import Missing, Need, list_filters, may_audit, may_start, may_use_lab
from upshot.serve.run_details import RunDetails, stored_events, viewed
from upshot.serve.run_search import search_runs
from upshot.serve.site import ServerSentEvent, Site, read_query, sse, to_json
from upshot.state.run_page import run_page
from upshot.state.run_view import Head, RunView, RunViewer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

_PAGE = 100
# How many of the runs that are due are looked at for those that were answered.
_DUE = 500
_ANSWERED = ("answered", "settled")
# How often the list of runs is read while it is watched, and the shortest time between two reads.
_LOOK_S = 2.0
_REST_S = 0.2
_PACE_S = 0.05
# A log of so many events takes longer to read than a person notices.
_LONG = 500
_STATIC = files("upshot.serve").joinpath("static")
_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}


class _New(msgspec.Struct, forbid_unknown_fields=True):
    agent: str
    text: str
    conversation: str = ""
    key: str | None = None


class _Answers(msgspec.Struct, forbid_unknown_fields=True):
    answers: list[AnyAnswer]


class _Stop(msgspec.Struct, forbid_unknown_fields=True):
    detail: str = ""


class _Fork(msgspec.Struct, forbid_unknown_fields=True):
    at: int
    draft: bool = True


class _Settle(msgspec.Struct, forbid_unknown_fields=True):
    applied: bool
    note: str = ""


class _Note(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: Json


class _Periods(msgspec.Struct, forbid_unknown_fields=True):
    """What the overview and the list of tools are of, as a query parameter."""

    period: Period = "day"


class _Effects(AgedFilters):
    """The filters of the list of effects, as query parameters; see ``App.effects``."""

    state: EffectState | None = None
    tool: str = ""
    key: str = ""
    run_id: str = ""
    since: datetime | None = None
    after: str = ""


_PAGES = (
    *("/", "/runs", "/runs/{run}", "/runs/{run}/compare/{other}"),
    *("/inbox", "/effects", "/tools", "/workers"),
    *("/conversations", "/conversations/{id:path}", "/chat/{agent}"),
    *("/lab", "/lab/{name:path}", "/audit", "/sessions"),
)


def routes(site: Site) -> list[BaseRoute]:
    """Return the routes of the pages and of their JSON."""
    console = _Console(site)
    found = site.console_routes(
        ("GET", "/api/me", console.me),
        ("GET", "/api/live", console.live),
        ("GET", "/api/counts", console.counts),
        ("GET", "/api/overview", console.overview),
        ("GET", "/api/tools", console.tools),
        ("GET", "/api/workers", console.workers),
        ("POST", "/api/workers/{id}/drain", console.drain),
        ("GET", "/api/runs", console.runs),
        ("POST", "/api/runs", console.submit),
        ("POST", "/api/bulk", console.bulk),
        ("GET", "/api/runs/{run}", console.run),
        ("GET", "/api/runs/{run}/view", console.view),
        ("GET", "/api/runs/{run}/events", console.events),
        ("GET", "/api/runs/{run}/events/{seq:int}", console.event),
        ("POST", "/api/runs/{run}/answer", console.answer),
        ("POST", "/api/runs/{run}/interrupt", console.interrupt),
        ("POST", "/api/runs/{run}/cancel", console.cancel),
        ("POST", "/api/runs/{run}/resume", console.resume),
        ("POST", "/api/runs/{run}/fork", console.fork),
        ("POST", "/api/runs/{run}/replay", console.replay),
        ("GET", "/api/runs/{run}/export", console.export),
        ("POST", "/api/runs/{run}/note", console.note),
        ("GET", "/api/runs/{run}/notes", console.notes),
        ("GET", "/api/grants", console.grants),
        ("DELETE", "/api/grants/{id:path}", console.withdraw),
        ("GET", "/api/effects", console.effects),
        ("POST", "/api/effects/{id}", console.settle),
        ("POST", "/api/effects/{id}/check", console.check),
        ("GET", "/api/lab", console.lab),
        ("GET", "/api/lab/{name:path}/file", console.report_file),
        ("GET", "/api/lab/{name:path}", console.report),
        ("GET", "/api/datasets/{name}", console.dataset),
        ("POST", "/api/datasets/{name}", console.collect),
        ("GET", "/api/conversations", console.conversations),
        ("GET", "/api/conversations/{id:path}", console.conversation),
        *RunDetails(site).routes(),
        *Inbox(site).routes(),
    )
    return [*found, Route("/static/{name}", _static), *(Route(path, _page) for path in _PAGES)]


class _Console:
    """The handlers of one site: each takes the request and its user, and returns a response or a
    value."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._app = site.app
        self._feeds = Feeds()

    async def me(self, _: Request, user: User) -> object:
        return replies.Me(
            user=user,
            agents=tuple(
                replies.AgentLine(
                    id=agent.id, description=agent.card.description if agent.card else ""
                )
                for agent in self._app.agents.values()
                if may_start(user, agent.id)
            ),
            version=self._app.version,
            waits=await self._site.inbox_size_of(user),
            trace_url=self._site.trace_url,
            lab=self._site.lab.is_shown_to(user),
            workers=may_use_lab(user),
            datasets=self._site.lab.is_shown_to(user) and self._site.lab.keeps_datasets,
            audit=may_audit(user),
            sessions=self._site.has_sessions,
        )

    async def runs(self, request: Request, user: User) -> object:
        status, given = _filters(request)
        asked = read_query(request, _Filters)
        if asked.find:
            hit = await search_runs(self._site, user, asked.find, status, given, limit=_PAGE)
            found, last = hit.runs, hit.last
            more = replies.RunList(
                runs=tuple(found),
                next=last and last.run_id,
                searched=hit.searched,
                back_to=last and last.started_at,
            )
        else:
            found = await self._site.runs_of(user, status, limit=_PAGE, **given)
            after = found[-1].run_id if len(found) == _PAGE else None
            more = replies.RunList(runs=tuple(found), next=after)
        notes: dict[str, tuple[Note, ...]] = {}
        if asked.notes:
            journal = needs_shared(await self._app.open())
            for run in found:
                if kept := await journal.notes(run.run_id):
                    notes[run.run_id] = tuple(kept)
        return msgspec.structs.replace(more, notes=notes, answered=await self._answered(found))

    async def _answered(self, runs: Sequence[RunSummary]) -> tuple[str, ...]:
        """Return those runs whose every question was answered and that wait for a worker."""
        parked = {run.run_id for run in runs if run.status == Status.INPUT_REQUIRED}
        journal = needs_shared(await self._app.open())
        due = await journal.due_runs(limit=_DUE) if parked else ()
        ids = [one.run_id for one in due if one.run_id in parked and one.reason in _ANSWERED]
        return tuple([id for id in ids if not await journal.inbox_size(run_id=id)])

    async def counts(self, request: Request, user: User) -> object:
        if read_query(request, _Filters).find:
            raise Misuse("counts take no find=: a search reads only some of the runs")
        status, given = _filters(request)
        return await self._site.counts_of(user, status, **given)

    async def overview(self, request: Request, user: User) -> object:
        return await read_overview(self._site, user, read_query(request, _Periods).period)

    async def tools(self, request: Request, user: User) -> object:
        return await read_tools(self._site, user, read_query(request, _Periods).period)

    async def workers(self, _: Request, user: User) -> object:
        return await list_workers(self._site, user)

    async def drain(self, request: Request, user: User) -> object:
        """Keep a worker from taking more runs."""
        return await drain(self._site, user, request.path_params["id"])

    async def live(self, _: Request, user: User) -> object:
        """Send an event whenever the list of runs or the inbox may have changed."""
        journal, waits = needs_shared(await self._app.open()), 0
        whose = list_filters(user)

        async def looks() -> AsyncGenerator[None]:
            nonlocal waits
            before = b""
            with journal.watch(DUE) as changes:
                while True:
                    newest = await self._site.runs_of(user, limit=_PAGE)
                    waits = await self._site.inbox_size_of(user)
                    # An approval of several changes an item, and nothing else.
                    items = await self._app.inbox(limit=_PAGE, **whose) if waits else ()
                    given = [getattr(one.pending, "approved_by", ()) for one in items]
                    now = encode([*newest, waits, *given])
                    if now != before:
                        before = now
                        yield
                    await changes.changed(_LOOK_S)
                    await asyncio.sleep(_REST_S)

        def part(mark: int) -> Part:
            return Part(ServerSentEvent(encode(replies.Live(waits=waits)).decode()), mark)

        # Users who may see the same runs share one feed.
        key = "live", *list_filters(user).items()
        return sse(self._feeds.watch(key, lambda: Feed(looks(), part)))

    async def submit(self, request: Request, user: User) -> object:
        new = decode(await request.body(), _New)
        named = new.conversation
        conversation = await self._site.conversation_of(user, named) if named else ""
        run = await self._site.submit(
            user, new.agent, new.text, conversation=conversation or None, key=new.key
        )
        return to_json(replies.Begun(run_id=run.id, conversation=conversation), 201)

    async def run(self, request: Request, user: User) -> object:
        run = await self._site.run_of(user, request.path_params["run"])
        return await viewed(run)

    async def view(self, request: Request, user: User) -> object:
        """Send the page of a run, and then its changes."""
        run = await self._site.run_of(user, request.path_params["run"])
        summary, viewer = await run.summary(), RunViewer()
        end = summary.events

        async def changes() -> AsyncGenerator[None]:
            if not end:
                # The run is queued: its first event may take long.
                yield
            async with aclosing(_in_batches(_own_events(run), end)) as batches:
                async for events in batches:
                    for event in events:
                        viewer.add(event)
                    yield

        def part(mark: int) -> Part:
            view = viewer.view(mark)
            event = ServerSentEvent(encode(view).decode(), id=str(view.head.seq))
            return Part(event, view.revision)

        async def sent_events() -> AsyncGenerator[ServerSentEvent]:
            if end > _LONG:
                # Reading the log takes a moment; what the list of runs knows is there at once.
                yield ServerSentEvent(encode(_early_view(summary)).decode())
            watched = self._feeds.watch(("view", run.id), lambda: Feed(changes(), part))
            async with aclosing(watched) as parts:
                async for one in parts:
                    yield one
            yield ServerSentEvent("{}", event="end")

        return sse(sent_events())

    async def events(self, request: Request, user: User) -> object:
        run = await self._site.run_of(user, request.path_params["run"])
        after: str = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        # A stream cannot be refused once it has started.
        await run.check_place(after)

        async def sent_events() -> AsyncGenerator[ServerSentEvent]:
            async for event in run.events(after=after, deltas=True):
                part = 0 if isinstance(event, Unknown) else event.part
                place = f"{event.run_id}/{event.seq}.{part}"
                yield ServerSentEvent(encode(event).decode(), id=place)

        return sse(sent_events())

    async def event(self, request: Request, user: User) -> object:
        seq: int = request.path_params["seq"]
        run = await self._site.run_of(user, request.path_params["run"])
        if 0 < seq <= (await run.state()).seq:
            async with aclosing(run.events(after=seq - 1)) as events:
                return await anext(events)
        raise Missing(f"there is no event {seq}")

    async def answer(self, request: Request, user: User) -> object:
        given = decode(await request.body(), _Answers)
        return await self._site.answer(user, request.path_params["run"], given.answers)

    async def interrupt(self, request: Request, user: User) -> object:
        given = decode(await request.body() or b"{}", _Stop)
        why = "there is nothing to interrupt"
        run = await self._run_of(request, user, "operate", "interrupt", unless_ended=why)
        await run.interrupt(detail=given.detail or f"by {user.id}")
        return {}

    async def cancel(self, request: Request, user: User) -> object:
        await cancel_run(self._site, user, request.path_params["run"])
        return {}

    async def resume(self, request: Request, user: User) -> object:
        """Make a run due that has not ended, such as one whose process died."""
        await resume_run(self._site, user, request.path_params["run"])
        return {}

    async def bulk(self, request: Request, user: User) -> object:
        """Do the same with several runs; the reply has the outcome of each."""
        return await act_on_runs(self._site, user, decode(await request.body(), Bulk))

    async def _run_of(
        self, request: Request, user: User, need: Need, act: str, *, unless_ended: str = ""
    ) -> RunHandle:
        run_id: str = request.path_params["run"]
        return await self._site.run_of(user, run_id, need, act=act, unless_ended=unless_ended)

    async def fork(self, request: Request, user: User) -> object:
        """Return what a fork would repeat, or make the fork, which workers then run."""
        given = decode(await request.body(), _Fork)
        run = await self._run_of(request, user, "fork", "fork")
        if given.draft:
            return replies.ForkDraft(again=await self._calls_after(run, given.at))
        journal = await self._app.open()
        new = await fork_run(run.id, at=given.at, journal=journal, ask_writes=True)
        await needs_shared(journal).make_due(new, "forked")
        return to_json(replies.Begun(run_id=new), 201)

    async def _calls_after(self, run: RunHandle, at: int) -> tuple[replies.CallAgain, ...]:
        """Return the calls of a run after an event, which a fork there would repeat."""
        state = await run.state()
        if not 1 <= at <= state.seq:
            raise Misuse(f"run {run.id} has no event {at}: give one from 1 to {state.seq}")
        again: list[replies.CallAgain] = []
        async for event in stored_events(run, state.seq, after=at):
            if isinstance(event, ToolSettled):
                tool, call = event.record.tool_name, event.record.call_id
                again.append(replies.CallAgain(seq=event.seq, tool=tool, call=call))
            elif isinstance(event, ModelStarted):
                again.append(replies.CallAgain(seq=event.seq, model=event.model))
        return tuple(again)

    async def replay(self, request: Request, user: User) -> object:
        """Whether a run would do the same today as its log says; nothing is called or written."""
        run = await self._run_of(request, user, "operate", "replay")
        replayed = await self._app.replay(run.id)
        same, compared, difference = replayed.same, replayed.compared, replayed.difference
        return replies.Replayed(same=same, compared=compared, difference=difference)

    async def export(self, request: Request, user: User) -> object:
        """Return the page of a run as one file."""
        run = await self._run_of(request, user, "see", "export")
        page = run_page(await viewed(run)).encode(errors="replace")
        return _download(page, "run.html")

    async def conversations(self, _: Request, user: User) -> object:
        found = await self._site.conversations_of(user, _PAGE)
        return replies.ConversationList(conversations=tuple(found))

    async def conversation(self, request: Request, user: User) -> object:
        id = await self._site.conversation_of(user, request.path_params["id"])
        if not await self._site.runs_of(user, conversation=id, limit=1):
            raise Missing(f"there is no conversation {id[:80]!r}")
        await self._site.note(user, "see", subject=id)
        talk = await self._app.conversation(id)
        return replies.ConversationPage(
            id=id, runs=talk.runs, messages=talk.messages, revision=talk.revision
        )

    async def note(self, request: Request, user: User) -> object:
        given = decode(await request.body(), _Note)
        run = await self._run_of(request, user, "note", "note")
        await self._app.note(run.id, given.name, given.value, by=user.id)
        return {}

    async def notes(self, request: Request, user: User) -> object:
        run = await self._site.run_of(user, request.path_params["run"])
        return replies.NoteList(notes=tuple(await run.notes()))

    async def grants(self, _: Request, user: User) -> object:
        return replies.GrantList(grants=tuple(await self._site.grants_of(user)))

    async def withdraw(self, request: Request, user: User) -> object:
        """Withdraw a standing approval."""
        await self._site.withdraw(user, request.path_params["id"])
        return {}

    async def effects(self, request: Request, user: User) -> object:
        given = read_query(request, _Effects).to_filters()
        found = await self._site.effects_of(user, limit=_PAGE, **given)
        lines = [await self._effect_line(user, entry) for entry in found]
        after = found[-1].id if len(found) == _PAGE else None
        return replies.EffectPage(effects=tuple(lines), next=after)

    async def settle(self, request: Request, user: User) -> object:
        """Settle an unknown effect; the reply has the settlement that won."""
        given = decode(await request.body(), _Settle)
        id = request.path_params["id"]
        known = await self._site.settle(user, id, applied=given.applied, note=given.note)
        return await self._effect_line(user, known)

    async def check(self, request: Request, user: User) -> object:
        """Call ``verify`` about an unknown effect now."""
        found = await self._site.check(user, request.path_params["id"])
        line = await self._effect_line(user, found.effect)
        return replies.EffectChecked(effect=line, said=found.said, seen=found.seen)

    async def lab(self, _: Request, user: User) -> object:
        return await self._site.lab.overview(user)

    async def report(self, request: Request, user: User) -> object:
        """Return a part of a report."""
        after = read_query(request, _Place).after
        return await self._site.lab.part(user, request.path_params["name"], after)

    async def report_file(self, request: Request, user: User) -> object:
        """Return a report as one file."""
        page = await self._site.lab.file(user, request.path_params["name"])
        return _download(page.encode(errors="replace"), "report.html")

    async def dataset(self, request: Request, user: User) -> object:
        name = request.path_params["name"]
        return _download(self._site.lab.read(user, name), "dataset.jsonl")

    async def collect(self, request: Request, user: User) -> object:
        """Add runs to a dataset: those named, or those that the filters of the list fit."""
        given, lab = decode(await request.body(), _Collect), self._site.lab
        lab.check(user)
        for run_id in given.runs:
            await self._site.run_of(user, run_id)
        if given.filters.find:
            raise Misuse("a dataset takes no runs by find=: choose them on the list of runs")
        filters = msgspec.structs.asdict(given.filters)
        for own, name in (("agent_id", "agent"), ("context_id", "conversation")):
            filters[own] = filters.pop(name)
        filters["status"] = filters["status"] or "ended"
        filters = {name: value for name, value in filters.items() if value}
        for name in ("sort", "before", "notes"):
            filters.pop(name, None)
        journal = await self._app.open()
        return await lab.add(user, request.path_params["name"], journal, given.runs, filters)

    async def _effect_line(self, user: User, entry: EffectEntry) -> replies.EffectLine:
        outcome = None
        if entry.state == "unknown":
            outcome = await needs_ledger(await self._app.open()).effect_outcome(entry)
        return replies.EffectLine(
            **msgspec.structs.asdict(entry),
            said="" if outcome is None else outcome_to_model_content(outcome),
            settleable=self._site.may_settle(user, entry),
            lookup=self._site.lookup_of(entry.tool_name),
        )


# -- feeds: what many pages watch is read, folded and encoded once for all of them


class Part(NamedTuple):
    """One message to a watcher.

    Attributes:
        event: The event to send.
        mark: Where it ends; the next part starts there.
    """

    event: ServerSentEvent
    mark: int


class Feed:
    """A source that one task follows for all its watchers.

    A slow watcher gets all changes since its last part in one part, so no one waits for it and
    nothing is buffered for it.

    Args:
        changes: Yields whenever there is something new; closed when the last watcher leaves.
        part: Returns what is new since a mark, 0 for all; a watcher's first part is all.
    """

    def __init__(self, changes: AsyncGenerator[None], part: Callable[[int], Part]) -> None:
        self._part = part
        self._count = 0
        self._made: dict[int, Part] = {}
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self._is_over = False
        self.watchers: int = 0
        self._task = asyncio.create_task(self._follow(changes))

    async def parts(self) -> AsyncGenerator[ServerSentEvent]:
        """Yield each part as it arrives, until the source ends."""
        count = mark = 0
        while True:
            changed, is_over = self._changed, self._is_over
            if count != self._count:
                count = self._count
                made = self._made.get(mark)
                if made is None:
                    made = self._made[mark] = self._part(mark)
                mark = made.mark
                yield made.event
            elif self._failure is not None:
                raise self._failure
            elif is_over:
                return
            else:
                await changed.wait()

    async def aclose(self) -> None:
        """End the task."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self, changes: AsyncGenerator[None]) -> None:
        try:
            async with aclosing(changes):
                async for _ in changes:
                    self._count += 1
                    self._made.clear()
                    self._notify_watchers()
        # Boundary: whatever ends the feed is raised to each of its watchers.
        except Exception as error:
            self._failure = error
        self._is_over = True
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Feeds:
    """The feeds with watchers, by key."""

    def __init__(self) -> None:
        self._open: dict[Hashable, Feed] = {}

    async def watch(
        self, key: Hashable, begin: Callable[[], Feed]
    ) -> AsyncGenerator[ServerSentEvent]:
        """Yield the parts of a feed; *begin* creates it for its first watcher."""
        feed = self._open.get(key)
        if feed is None:
            feed = self._open[key] = begin()
        feed.watchers += 1
        try:
            async with aclosing(feed.parts()) as parts:
                async for part in parts:
                    yield part
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                if self._open.get(key) is feed:
                    del self._open[key]
                await feed.aclose()


# -- events


def _early_view(summary: RunSummary) -> RunView:
    """Return what the list of runs knows of a run; its revision is 0, and it has no steps."""
    return RunView(
        head=Head(
            run_id=summary.run_id,
            agent=summary.agent_id,
            status=summary.status,
            request=summary.request,
            conversation=summary.context_id,
            parent_run_id=summary.parent_run_id,
            owner=summary.owner,
            tenant=summary.tenant,
            started_at=summary.started_at,
            took_s=summary.took_s,
            usage=summary.usage,
            cost=summary.cost,
            effect=summary.effect,
            has_ended=summary.ended,
        )
    )


async def _own_events(run: RunHandle) -> AsyncGenerator[Event]:
    """Yield the events of a run as they arrive, without those of other runs."""
    async with aclosing(run.events(deltas=True)) as events:
        async for event in events:
            if isinstance(event, RunEvent) and not event.path:
                if event.run_id != run.id:
                    return
                yield event


async def _in_batches(events: AsyncGenerator[Event], end: int) -> AsyncGenerator[list[Event]]:
    """Yield events in batches: the stored ones up to *end*, then what each interval brings."""
    batch: list[Event] = []
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while (event := await coming) is not None:
            batch.append(event)
            coming = asyncio.ensure_future(anext(events, None))
            if event.seq < end:
                continue
            await asyncio.wait([coming], timeout=0)
            if not coming.done():
                yield batch
                batch = []
                await asyncio.sleep(_PACE_S)
        if batch:
            yield batch
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError):
            await coming


class _Filters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The filters of the list of runs, as query parameters; see ``App.runs``."""

    status: str = ""
    agent: str = ""
    conversation: str = ""
    owner: str = ""
    tenant: str = ""
    tool: str = ""
    model: str = ""
    text: str = ""
    effect: str = ""
    error_code: str = ""
    since: datetime | None = None
    until: datetime | None = None
    currency: str = ""
    sort: str = ""
    before: str = ""
    notes: bool = False
    find: str = ""


class _Collect(msgspec.Struct, forbid_unknown_fields=True):
    """Runs to add to a dataset: those named, or else those of the list."""

    runs: list[str] = []
    filters: _Filters = _Filters()


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    after: Annotated[int, msgspec.Meta(ge=0)] = 0


def _download(body: bytes, name: str) -> Response:
    """Return a file that browsers store and do not display."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type="application/octet-stream", headers=headers)


def _filters(request: Request) -> tuple[str | None, dict[str, Any]]:
    """Return the status and the other filters in a URL."""
    given = msgspec.structs.asdict(read_query(request, _Filters))
    del given["notes"], given["find"]
    return given.pop("status") or None, given


async def _static(request: Request) -> Response:
    return _file(request, request.path_params["name"])


async def _page(request: Request) -> Response:
    return _file(request, "index.html")


async def no_such_page(request: Request) -> Response | None:
    """Return the page for unknown addresses; None for a client that is not a browser."""
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return None
    return _file(request, "index.html", 404)


class _File(NamedTuple):
    """A static file, ready to send."""

    body: bytes
    packed: bytes
    tag: str
    media_type: str


@lru_cache(maxsize=64)
def _read_file(name: str, base: str) -> _File | None:
    """Return a static file, or None; paths in it start with *base*, where the site is mounted."""
    # What a report looks like belongs to the lab, whose files need it too.
    folder = files("upshot.lab") if name == "report.css" else _STATIC
    found = folder.joinpath(name)
    kind = _TYPES.get(name.rpartition(".")[2])
    if "/" in name or kind is None or not found.is_file():
        return None
    body = found.read_bytes()
    if base:
        body = body.replace(b'"/static/', f'"{base}/static/'.encode())
    tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    return _File(body, gzip.compress(body, mtime=0), tag, kind)


def _file(request: Request, name: str, status: int = 200) -> Response:
    """Return a static file: compressed if the client accepts that, 304 if it has the file."""
    found = _read_file(name, request.scope.get("root_path", ""))
    if found is None:
        raise Missing(f"there is no {name[:80]!r}")
    headers = {"cache-control": "no-cache", "etag": found.tag, "vary": "accept-encoding"}
    if status == 200 and found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.body, status, headers, found.media_type)
    return Response(found.packed, status, {**headers, "content-encoding": "gzip"}, found.media_type)
