"""What the page of one run reads on demand: why it ended, down to a child run, what a model was
sent, media, copies of the run, and how it differs from another run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from statistics import median
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.words import money
from upshot.contract.effects import ledger_of
from upshot.contract.events import Event
from upshot.contract.model_calls import ModelRetried, ModelStarted
from upshot.contract.pending import (
    Answer,
    Approve,
    Deny,
    Edit,
    Pending,
    PendingApproval,
    PendingEffect,
)
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import Cost
from upshot.entry.run_handle import RunHandle
from upshot.journal.shared import PlacedAnswer, needs_shared
from upshot.runs.replay.comparison import facts_of, first_difference
from upshot.serve import replies
from upshot.serve.compared_steps import compared_steps
from upshot.serve.permissions import Missing
from upshot.serve.run_copies import to_case, to_curl, to_test
from upshot.serve.sent_request import sent_request, spec_of
from upshot.serve.site import Handler, Site
from upshot.state.child_runs import bare_id
from upshot.state.run_view import RunView, RunViewer, media_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from upshot.contract.agent import Agent
    from upshot.contract.user import User

# How many runs a chain of causes has at most.
_MOST_CAUSES = 8
# With how many runs of its agent the cost of a run is compared, at least and at most; and from how
# many times their median it is much.
_LEAST_OTHERS = 5
_OTHERS = 50
_COSTLY = 3
# What an answer did with a call.
_DID: dict[type[object], str] = {Approve: "approved", Deny: "denied", Edit: "edited and approved"}
# Types that a page shows, by the first bytes; a declared type proves nothing.
_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\x1a\x45\xdf\xa3", "audio/webm"),
)
_IN_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_SEALED = "sandbox; default-src 'none'; frame-ancestors 'none'"
# A browser shows no PDF in a sandbox; its viewer runs apart from this site in any case.
_SEALED_PDF = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class RunDetails:
    """The handlers of these routes, for one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each route."""
        run = "/api/runs/{run}"
        return [
            ("GET", f"{run}/events/{{seq:int}}/sent", self.sent),
            ("GET", f"{run}/events/{{seq:int}}/media/{{at:int}}", self.media),
            ("GET", f"{run}/causes", self.causes),
            ("GET", f"{run}/unread-answers", self.unread_answers),
            ("GET", f"{run}/costly", self.costly),
            ("GET", f"{run}/compare/{{other}}", self.compare),
            ("GET", f"{run}/artifacts/{{id}}", self.artifact),
            ("GET", f"{run}/artifacts/{{id}}/shown", self.shown_artifact),
            ("GET", f"{run}/copies/case", self.copy_case),
            ("GET", f"{run}/copies/test", self.copy_test),
            ("GET", f"{run}/copies/curl/{{seq:int}}", self.copy_curl),
        ]

    async def causes(self, request: Request, user: User) -> object:
        """Return why a run ended as it did, then why the child run that caused it, and so on."""
        run = await self._site.run_of(user, request.path_params["run"])
        found: list[replies.CauseLine] = []
        next_run: RunHandle | None = run
        while next_run is not None and len(found) < _MOST_CAUSES:
            view = await viewed(next_run)
            head, cause = view.head, view.head.cause
            row = None if cause.step is None else view.rows[cause.step]
            found.append(
                replies.CauseLine(
                    run_id=head.run_id,
                    agent=head.agent,
                    status=head.status,
                    says=cause.says,
                    code="" if head.error is None else str(head.error.code),
                    step=cause.step,
                    kind="" if row is None else row.kind,
                    name="" if row is None else "child run" if row.child else row.name,
                )
            )
            next_run = None
            if cause.child:
                # A user who sees a run need not see what it started for another user.
                with suppress(Missing):
                    next_run = await self._site.run_of(user, cause.child)
        return replies.Causes(chain=tuple(found))

    async def unread_answers(self, request: Request, user: User) -> object:
        """Return the answers to what a run waits for that no session has read yet."""
        run = await self._site.run_of(user, request.path_params["run"])
        journal = await self._site.app.open()
        ledger, pending = ledger_of(journal), (await run.state()).pending
        given = {
            asking: await needs_shared(journal).placed_answers(asking)
            for asking in {one.run_id or run.id for one in pending}
        }
        found: list[replies.UnreadAnswer] = []
        for one in pending:
            if isinstance(one, PendingEffect):
                entry = None if ledger is None else await ledger.effect(one.id)
                known = None if entry is None else entry.settled
                if known is not None:
                    line = replies.UnreadAnswer(id=one.id, by=known.by, at=known.at, did="settled")
                    found.append(line)
                continue
            for given_answer in given[one.run_id or run.id]:
                if _is_for(given_answer, one):
                    line = replies.UnreadAnswer(
                        id=one.id,
                        by=given_answer.answer.by,
                        at=given_answer.at,
                        did=_DID.get(type(given_answer.answer), "answered"),
                        is_part=given_answer.part > 0,
                    )
                    found.append(line)
        return replies.UnreadAnswers(answers=tuple(found))

    async def costly(self, request: Request, user: User) -> object:
        """Whether a run cost much more than the other runs of its agent that the user may see."""
        run = await self._site.run_of(user, request.path_params["run"])
        own = await run.summary()
        others = await self._site.runs_of(user, agent=own.agent_id, limit=_OTHERS + 1)
        known = [one for one in others if one.ended and one.run_id != run.id]
        return replies.Costly(says=_costly(own, known))

    async def sent(self, request: Request, user: User) -> object:
        """Return the whole input of a model call, compared with the call before it."""
        events, seq = await self._events_up_to(request, user)
        is_whole = request.query_params.get("whole") == "1"
        return sent_request(events, seq, self._agent_of(events), is_whole=is_whole)

    async def compare(self, request: Request, user: User) -> object:
        """Return what differs between two runs, and where they differ first."""
        runs = [
            await self._site.run_of(user, request.path_params[name]) for name in ("run", "other")
        ]
        logs = [
            [event async for event in stored_events(run, (await run.state()).seq)] for run in runs
        ]
        first, second = (facts_of(log) for log in logs)
        views = [_view_of(log) for log in logs]
        return replies.Compared(
            difference=first_difference(first, second),
            heads=tuple(view.head for view in views),
            agents=tuple(_spec_of(log) for log in logs),
            steps=tuple(compared_steps(views[0], views[1])),
        )

    async def artifact(self, request: Request, user: User) -> object:
        """Return an artifact as a download that browsers do not display."""
        headers = {"content-disposition": "attachment", "content-security-policy": _SEALED}
        data = await self._artifact(request, user)
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def shown_artifact(self, request: Request, user: User) -> object:
        """Return an artifact that is an image, a sound or a PDF, for the page to show."""
        return _medium_response(await self._artifact(request, user))

    async def media(self, request: Request, user: User) -> object:
        """Return an image, a sound or a PDF of a message, as ``Said.media`` numbers them."""
        events, seq = await self._events_up_to(request, user)
        parts = media_of(events[-1]) if events[-1].seq == seq else ()
        at: int = request.path_params["at"]
        data = getattr(parts[at], "data", None) if at < len(parts) else None
        if data is None:
            raise Missing(f"event {seq} has no bytes of a medium {at}")
        return _medium_response(data)

    async def copy_case(self, request: Request, user: User) -> object:
        """Return the run as a case of a dataset."""
        run = await self._site.run_of(user, request.path_params["run"], act="export")
        return await to_case(run.id, await self._site.app.open())

    async def copy_test(self, request: Request, user: User) -> object:
        """Return the run as a test for pytest."""
        run = await self._site.run_of(user, request.path_params["run"], act="export")
        journal = await self._site.app.open()
        return await to_test(run.id, journal, self._site.app.agents)

    async def copy_curl(self, request: Request, user: User) -> object:
        """Return a model call as a command of curl."""
        events, seq = await self._events_up_to(request, user)
        return await to_curl(events, seq, self._agent_of(events))

    async def _events_up_to(self, request: Request, user: User) -> tuple[list[Event], int]:
        """Return the log of a run up to the event that the path names.

        A retry of a model call is sent what its first try was, so it stands for that one.
        """
        seq: int = request.path_params["seq"]
        run = await self._site.run_of(user, request.path_params["run"])
        if not 1 <= seq <= (await run.state()).seq:
            raise Missing(f"there is no event {seq}")
        events = [event async for event in stored_events(run, seq)]
        last = events[-1]
        if isinstance(last, ModelRetried):
            events = _up_to_first_try(events, last.turn)
        return events, events[-1].seq

    async def _artifact(self, request: Request, user: User) -> bytes:
        run = await self._site.run_of(user, request.path_params["run"])
        journal: Any = await self._site.app.open()
        await self._site.note(user, "see", run_id=run.id, subject=request.path_params["id"])
        try:
            return await journal.artifacts.load(request.path_params["id"], run_id=run.id)
        except KeyError as error:
            raise Missing(str(error.args[0])) from error

    def _agent_of(self, events: list[Event]) -> Agent[Any] | None:
        """Return the agent of a log as this process has it today; None if it has none."""
        spec = _spec_of(events)
        return None if spec is None else self._site.app.agents.get(spec.id)


def _is_for(placed: PlacedAnswer, pending: Pending) -> bool:
    """Whether a stored answer is for what a run waits for."""
    if isinstance(pending, PendingApproval):
        return placed.item == pending.digest
    return isinstance(placed.answer, Answer) and placed.answer.id == bare_id(pending)


def _costly(run: RunSummary, others: Sequence[RunSummary]) -> str:
    """Return how much more a run cost than the median of others; "" if it did not."""
    currency = "" if run.cost is None else run.cost.currency
    costs = [
        one.cost.total
        for one in others
        if one.cost is not None and one.cost.total and one.cost.currency == currency
    ]
    if run.cost is None or not run.cost.total or len(costs) < _LEAST_OTHERS:
        return ""
    typical = median(costs)
    if run.cost.total < _COSTLY * typical:
        return ""
    times = run.cost.total / typical
    middle = money(Cost(total=typical, currency=currency))
    return (
        f"It cost {times:,.0f} times the median of the {len(costs)} latest runs of "
        f"{run.agent_id} that you may see, {middle}."
    )


def _up_to_first_try(events: list[Event], turn: int) -> list[Event]:
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if isinstance(event, ModelStarted) and event.turn == turn:
            return events[: at + 1]
    return events


def _spec_of(events: list[Event]) -> AgentSpec | None:
    """Return the agent of the last session of a log; None before the run has started."""
    spec = spec_of(events)
    return spec if spec.id else None


def _view_of(events: list[Event]) -> RunView:
    viewer = RunViewer()
    for event in events:
        viewer.add(event)
    return viewer.view()


def _medium_response(data: bytes) -> Response:
    """Return bytes for a page to show, with a type by their first bytes."""
    kind = next((kind for sign, kind in _SIGNS if data.startswith(sign)), "")
    if data[:4] == b"RIFF":
        kind = _IN_RIFF.get(data[8:12], "")
    elif data[4:8] == b"ftyp":
        kind = "audio/mp4"
    if not kind:
        raise Missing("this is no image, sound or PDF that a page shows: save it as a file")
    policy = _SEALED_PDF if kind == "application/pdf" else _SEALED
    headers = {"content-security-policy": policy, "cache-control": "private, max-age=3600"}
    return Response(data, media_type=kind, headers=headers)


# -- events


async def viewed(run: RunHandle) -> RunView:
    """Return the page of a run as it is now."""
    viewer = RunViewer()
    async for event in stored_events(run, (await run.state()).seq):
        viewer.add(event)
    return viewer.view()


async def stored_events(run: RunHandle, end: int, *, after: int = 0) -> AsyncGenerator[Event]:
    """Yield the stored events of a run up to *end*."""
    if after < end:
        async with aclosing(run.events(after=after)) as events:
            async for event in events:
                yield event
                if event.seq >= end:
                    return
