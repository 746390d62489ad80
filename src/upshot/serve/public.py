"""What a run shows its user, as one stream that every door maps to its own form."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.events import (
    ApprovalAnswered,
    Event,
    QuestionAnswered,
    RunSettled,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.forms.public_form import to_public_event
from upshot.contract.message import Unknown
from upshot.contract.pending import Deny, Pending, PendingApproval, PendingEffect, PendingQuestion
from upshot.contract.protocols import Journal
from upshot.contract.user import User
from upshot.entry.run_handle import RunHandle
from upshot.fleet.app import App
from upshot.runs.redaction import lift_secrets
from upshot.serve.permissions import Missing, Need
from upshot.state.child_runs import bare_id
from upshot.state.stored_events import seeds_of, states

if TYPE_CHECKING:
    from upshot.serve.site import Site

PublicEvent: TypeAlias = JsonObject
"""The result of ``to_public_event`` with ``cursor``, its place."""

Stream: TypeAlias = Literal["checked", "live"]
# The kinds that may be void once the deciders have decided.
_HELD = ("text", "message", "reset")
# What an end has of the answer.
_SAID = ("text", "files")


class _View(NamedTuple):
    """What the user of an agent's runs sees."""

    names: Mapping[str, str]
    shown: Mapping[str, Callable[[JsonObject], JsonObject]]
    is_held: bool


async def public_events(
    app: App, handle: RunHandle, *, after: str = "", stream: Stream = "checked"
) -> AsyncGenerator[PublicEvent]:
    """Yield the public events of a run and of the runs that follow it, with one end.

    Args:
        app: The App of the run.
        handle: The run.
        after: Only events after this place, the ``cursor`` of an earlier one. If a reply is still
            in progress there, its text so far comes first.
        stream: "checked" withholds what an agent with deciders says until they have decided: its
            answer comes with the end. "live" shows it at once, and resets what is revised.

    Yields:
        One event at a time until the run ends, across any parks; see ``to_public_event`` for the
        kinds. A tool that has started also has ``arguments`` if its ``public`` returns any. The
        kind answered has the ``id`` of a question that was yielded before, and ``approved``, or the
        ``value`` of the answer. What a child run asked is answered, and its call ends, when the
        call of its agent ends.

    Raises:
        Misuse: There is no such run, or *after* is not a place in it.
        JournalError: The log is damaged or cannot be read.
    """
    views: dict[str, _View] = {}
    asked: set[str] = set()
    inner = _InnerCalls()
    # The end of a run that handed its request over, until another run follows.
    end: PublicEvent | None = None
    is_unsaid = False
    async for event, place in _read(app, handle, after, inner, asked):
        if event is None:
            yield place
            continue
        if end is not None:
            if is_unsaid and (answer := {name: end[name] for name in _SAID if name in end}):
                yield {"kind": "message", "text": "", **answer, "cursor": end["cursor"]}
            end = None
        if (view := views.get(event.run_id)) is None:
            view = views[event.run_id] = await _view_of(app, event, stream)
        shown = _to_answered(event, asked) or to_public_event(event, tools=view.names)
        if shown is None or (view.is_held and shown["kind"] in _HELD):
            continue
        asked.update(cast("str", one["id"]) for one in questions_in(shown))
        if isinstance(event, ToolStarted) and (choose := view.shown.get(event.call.name)):
            shown["arguments"] = _shown_arguments(choose, event)
        shown |= place
        inner.add(event, shown)
        if isinstance(event, RunSettled) and event.result.success and event.result.handoff:
            end, is_unsaid = shown, view.is_held
        else:
            yield shown
    if end is not None:
        yield end


def questions_in(event: PublicEvent) -> list[JsonObject]:
    """Return what an event asks the user of the run; only the end of a session asks anything."""
    return cast("list[JsonObject]", event.get("questions", []))


async def public_run(site: Site, user: User, run_id: str, need: Need = "see") -> RunHandle:
    """Return the run that a client of a protocol names, unless it is a child run.

    Raises:
        Missing: There is no such run, or it is a child run or belongs to another user.
        Refused: The user may see the run but not do this.
    """
    handle = await site.run_of(user, run_id, need)
    for run in await (await site.app.open()).runs(run_id=run_id):
        if run.parent_run_id:
            raise Missing(f"there is no run {run_id[:80]!r}")
    return handle


def asked_of_user(pending: Iterable[Pending]) -> list[PendingApproval | PendingQuestion]:
    """Return what the run's user may see and answer; an unknown effect is a question too."""
    return [
        item
        for item in pending
        if isinstance(item, PendingApproval | PendingQuestion) and item.audience == "user"
    ]


def files_in(event: PublicEvent) -> list[JsonObject]:
    """Return the images, sounds and documents of a message or an answer."""
    return cast("list[JsonObject]", event.get("files", []))


def url_of(file: JsonObject) -> str:
    """Return the address of a file of an event, which contains its data if it has any."""
    url = file.get("url")
    return str(url) if url else f"data:{file['media_type']};base64,{file['data']}"


def digest_of(item: Pending) -> str:
    """Return the digest of the call or attempt that is asked about; "" for a plain question."""
    return item.digest if isinstance(item, PendingApproval | PendingEffect) else ""


def _to_answered(event: Event, asked: Container[str]) -> PublicEvent | None:
    """Return the answer to what the user was asked; answers to staff's questions are not shown."""
    match event:
        case ApprovalAnswered(answer=answer):
            bare, answer_form = event.call_id, {"approved": not isinstance(answer, Deny)}
        case QuestionAnswered(id=bare, value=value):
            answer_form = {"value": value}
        case _:
            return None
    # A child run's question may have been asked under its longer id.
    known = [id for id in (bare, f"{event.run_id}/{bare}") if id in asked]
    return {"kind": "answered", "id": known[0], **answer_form} if known else None


async def _read(
    app: App, handle: RunHandle, after: str, inner: _InnerCalls, asked: Container[str]
) -> AsyncGenerator[tuple[Event | None, PublicEvent]]:
    """Yield the events of a run with their cursors, and public events of child runs."""
    cursor = f"{handle.id}/0"
    async for event in handle.events(after=after or 0, deltas=True):
        if isinstance(event, Unknown):
            continue
        if isinstance(event, ToolSettled | RunSettled):
            async for found in inner.events(await app.open(), asked):
                yield None, {**found, "cursor": cursor}
        part = f".{event.part}" if event.part else ""
        cursor = f"{event.run_id}/{event.seq}{part}"
        yield event, {"cursor": cursor}


class _InnerCalls:
    """The calls of child runs that the user was asked about, until they end."""

    def __init__(self) -> None:
        # By the id of the child run: the ids and names by which its calls were shown.
        self._calls: dict[str, dict[str, tuple[str, str]]] = {}
        self._places: dict[str, int] = {}

    def add(self, event: Event, shown: PublicEvent) -> None:
        """Note the calls of child runs about which the end of a session asks."""
        names = {one["id"]: str(one.get("tool", "")) for one in questions_in(shown)}
        for one in event.result.pending if isinstance(event, RunSettled) else ():
            if one.run_id and one.id in names:
                calls = self._calls.setdefault(one.run_id, {})
                calls[bare_id(one)] = one.id, names[one.id]

    async def events(self, journal: Journal, asked: Container[str]) -> AsyncGenerator[PublicEvent]:
        """Yield what happened to them since the last time."""
        for run_id, calls in self._calls.items():
            place = self._places.get(run_id, 0)
            logged, seeds = journal.events(run_id), seeds_of(journal)
            async for event, _ in states(logged, read=lift_secrets(), seeds=seeds):
                if isinstance(event, Unknown) or event.seq <= place:
                    continue
                self._places[run_id] = event.seq
                if (answered := _to_answered(event, asked)) is not None:
                    yield answered
                elif isinstance(event, ToolSettled) and (call := calls.get(event.record.call_id)):
                    names = {event.record.tool_name: call[1]}
                    settled = to_public_event(event, tools=names)
                    yield {**cast("PublicEvent", settled), "id": call[0]}


async def _view_of(app: App, event: Event, stream: Stream) -> _View:
    """Return what is shown of the run of an event."""
    journal = await app.open()
    runs = await journal.runs(run_id=event.run_id)
    agent_id = runs[0].agent_id if runs else ""
    # A user who is asked about a call also sees its outcome.
    found = app.each_tool(agent_id)
    tools = [tool for tool in found if tool.public or tool.ask == "user"]
    return _View(
        {tool.name: tool.public_name or tool.name for tool in tools},
        {tool.name: tool.public for tool in tools if not isinstance(tool.public, bool)},
        stream == "checked" and app.has_deciders(agent_id),
    )


def _shown_arguments(choose: Callable[[JsonObject], JsonObject], event: ToolStarted) -> Json:
    """Return the arguments that a tool shows."""
    try:
        return choose(cast("JsonObject", event.call.arguments))
    except Exception:
        # The tool's own function failed; watching the run must not fail with it.
        return {}
