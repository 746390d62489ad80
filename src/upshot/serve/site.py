"""Site: what all doors of an App share."""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

import msgspec
from msgspec.structs import replace
from sse_starlette import EventSourceResponse
from sse_starlette import ServerSentEvent as AnyServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import HTTPConnection
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from upshot.contract.base.checks import Allowed, check_argument, check_whole
from upshot.contract.codec import encode
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Edit, Outdated, Pending, Taken
from upshot.contract.protocols import RunCounts, RunSummary
from upshot.contract.user import User, UserOf
from upshot.effects.settling import needs_ledger
from upshot.entry.answers import NotAsked
from upshot.entry.run_handle import RunHandle
from upshot.errors import JournalError, Misuse
from upshot.fleet.answer_links import LinkClaim, use_link
from upshot.fleet.app import App
from upshot.fleet.status import Status
from upshot.fleet.submission import SubmitOptions
from upshot.fleet.worker import Worker
from upshot.journal.audit import Actor, acting, add_act, current_actor, set_actor
from upshot.journal.effects import no_such_effect
from upshot.journal.run_list import no_such_page
from upshot.journal.shared import InboxItem, OtherUser, needs_shared, tool_of
from upshot.runs.plan import Where
from upshot.serve import doors, permissions
from upshot.serve.experiments import SiteLab
from upshot.serve.guard import (
    WATCHING,
    ErrorForm,
    Guard,
    RateCounter,
    StreamGuard,
    UserChanges,
    actor_of,
    refusal,
)
from upshot.serve.permissions import (
    Asked,
    Differs,
    Missing,
    Need,
    NoUser,
    Owner,
    Refused,
    TooMany,
    from_scoped,
    owner_of,
    to_scoped,
)
from upshot.tools.definition.lookup import Lookup

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from upshot.contract.conversation import ConversationSummary
    from upshot.contract.effects import EffectCheck, EffectEntry
    from upshot.contract.message import Message
    from upshot.entry.annotations import Grant


_USER_OF = Allowed("a function of the request that gives a User or None", methods=("__call__",))
_TEXT = Allowed("a text", (str,))
RUN_IN_URL = "{run_id}"
"""The placeholder of the run id in the address of its spans."""
_NAMES = Allowed("a list of texts", items=Allowed("a text", (str,)))
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NoUser, 401),
    (Missing, 404),
    (Refused, 403),
    (TooMany, 429),
    (Differs, 409),
    (Misuse, 400),
    (msgspec.ValidationError, 400),
    (msgspec.DecodeError, 400),
    (JournalError, 503),
)
Q = TypeVar("Q", bound=msgspec.Struct)

Handler: TypeAlias = "Callable[[HttpRequest, User], Awaitable[object]]"
"""Answers a request of a user, with a response or a value."""

_MOST_KNOWN = 100_000
# Keys in the scope of a request: its user, and whether it is within the rate.
_FOUND, _COUNTED = "upshot.found", "upshot.is_within"
# How long an answer waits for a run that is being worked on.
_PARKING_S = 30
# A comment this often keeps proxies from closing a silent stream.
_PING_S = 15


class Site:
    """An App with users: it knows the owner of each run, who may answer, and its doors.

    Args:
        app: The App.
        user: Returns the sender of a request; plain or async.
        hosts: The host names by which it is reached, besides those of this machine.
        origins: Origins of other sites whose pages may send requests.
        work: Whether this process also works on runs while it serves.
        max_body: The maximum size of a request in bytes.
        rate: How many requests one user may send within ten seconds, and how many may come from
            one client address without a known user.
        lab: The journal of experiments that it shows, if any.
        datasets: The folder of the datasets that its users collect, if any.

    Attributes:
        app: The App.
        changes: Tells when users may have been signed out.
        lab: What it shows of the lab.
        status: What monitors are told of it.

    Raises:
        Misuse: An argument is wrong.
    """

    def __init__(
        self,
        app: App,
        *,
        user: UserOf,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        work: bool = True,
        max_body: int = 1_000_000,
        rate: int = 1_000,
        trace_url: str = "",
        lab: Where | None = None,
        datasets: str | PathLike[str] | None = None,
    ) -> None:
        check_argument("user", user, _USER_OF)
        check_argument("hosts", hosts, _NAMES)
        check_argument("origins", origins, _NAMES)
        check_whole("max_body", max_body, least=1)
        check_whole("rate", rate, least=1)
        check_argument("trace_url", trace_url, _TEXT)
        is_web = trace_url.startswith(("http://", "https://"))
        if trace_url and not (is_web and RUN_IN_URL in trace_url):
            raise Misuse(
                f"trace_url is {trace_url[:200]!r}: give an address of http or https that has "
                f"{RUN_IN_URL} where the id of a run goes"
            )
        self.app = app
        self._user_of = user
        self._counter = RateCounter(rate)
        self._guard: dict[str, Any] = {
            "hosts": [*hosts],
            "origins": [*origins],
            "counter": self._counter,
            "is_known": self._is_known,
        }
        self._is_working = work
        self._max_body = max_body
        self.trace_url = trace_url
        self.lab: SiteLab = SiteLab(lab, datasets)
        self.status: Status = Status(app.open, app)
        # The owner and the agent of a run never change.
        self._known: dict[str, tuple[Owner, str]] = {}
        # What users saw within the hour, so that the journal is asked once.
        self._seen: set[tuple[str | int, ...]] = set()
        self.changes: UserChanges = UserChanges()

    def asgi(self) -> Starlette:
        """Return the ASGI application with all doors."""
        from upshot.serve import accounts, answer_page, console

        found = [accounts, console, answer_page, *_doors()]
        signs_in = getattr(self._user_of, "routes", None)
        own: list[BaseRoute] = [] if signs_in is None else signs_in(self)
        taken = [*own, *(route for door in found for route in door.routes(self))]

        forms: dict[str, ErrorForm] = {}
        for door in found:
            forms.update(getattr(door, "REFUSALS", {}))

        async def too_many_requests(request: HTTPConnection, error: Exception) -> Response:
            return refusal(forms, request.scope, status_of(error), str(error))

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncGenerator[None]:
            async with AsyncExitStack() as stack:
                await self.app.open()
                stack.push_async_callback(self.app.aclose)
                stack.push_async_callback(self.lab.aclose)
                if self._is_working:
                    self.status.worker = await stack.enter_async_context(working(self.app))
                for door in found:
                    if (opened := getattr(door, "lifespan", None)) is not None:
                        await stack.enter_async_context(opened(self))
                yield

        return Starlette(
            routes=taken,
            middleware=[
                Middleware(Guard, **self._guard, max_body=self._max_body, forms=forms),
                Middleware(StreamGuard, is_current=self._is_current, changed=self.changes.wait),
                # For a body without a content length.
                Middleware(RequestBodyLimitMiddleware, max_body_size=self._max_body),
            ],
            exception_handlers={
                HTTPException: _error_response,
                404: _missing_response,
                **dict.fromkeys(ERRORS, _error_response),
                TooMany: too_many_requests,
            },
            lifespan=lifespan,
        )

    @property
    def has_sessions(self) -> bool:
        """Whether its users sign in to sessions, which they and operators can end."""
        return hasattr(self._user_of, "sign_in")

    async def user(self, request: HTTPConnection) -> User:
        """Return the sender of a request.

        Raises:
            NoUser: The sender is unknown.
            TooMany: The user has sent too many requests.
        """
        found = await self._look_up_user(request)
        if found is None:
            raise NoUser("nobody is signed in", getattr(self._user_of, "sign_in", ""))
        set_actor(actor_of(found, request))
        if _COUNTED not in request.scope:
            request.scope[_COUNTED] = self._counter.is_within(owner_of(found))
        if not request.scope[_COUNTED]:
            raise TooMany(self._counter.refusal)
        return found

    async def _is_known(self, scope: Scope) -> bool:
        """Whether a known user sent a request."""
        return await self._look_up_user(HTTPConnection(scope)) is not None

    def console_routes(self, *table: tuple[str, str, Handler]) -> list[BaseRoute]:
        """Return the routes of handlers of the console by method and path.

        They are for signed-in users with a role. A handler takes the request and its user, and
        returns a response or a value; one that is not for GET changes something.
        """
        return [
            Route(path, self._for_user(handler, writes=method != "GET"), methods=[method])
            for method, path, handler in table
        ]

    def _for_user(
        self, handler: Handler, *, writes: bool
    ) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Return a handler for signed-in users with a role; see ``console_routes``."""

        async def route(request: HttpRequest) -> Response:
            user = await self.user(request)
            if not user.roles:
                raise Refused("the console needs a role: 'own' for your own runs, 'view' for all")
            # A page of another site can submit a form, but cannot send this header.
            if writes and "x-upshot" not in request.headers:
                raise Refused("a request that changes something needs the header X-Upshot: 1")
            found = await handler(request, user)
            return found if isinstance(found, Response) else to_json(found)

        return route

    async def _is_current(self, scope: Scope) -> bool:
        """Whether the sender of a request whose stream is open is still the same user."""
        if _FOUND not in scope:
            return True
        again = {name: value for name, value in scope.items() if name not in (_FOUND, _COUNTED)}
        return await self._look_up_user(HTTPConnection({**again, WATCHING: True})) == scope[_FOUND]

    async def _look_up_user(self, request: HTTPConnection) -> User | None:
        """Return the sender of a request, asking once per request."""
        if _FOUND not in request.scope:
            found = self._user_of(request)
            request.scope[_FOUND] = await found if inspect.isawaitable(found) else found
        return request.scope[_FOUND]

    async def submit(
        self,
        user: User,
        agent_id: str,
        request: Request | Message | str,
        *,
        conversation: str | None = None,
        key: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> RunHandle:
        """Submit a run for a user.

        Args:
            user: The user.
            agent_id: The agent.
            request: The user's request.
            conversation: The user's name for the conversation that it is a turn of.
            key: The user's name for the request; see ``App.submit``.
            options: Those of ``App.submit``; ``attributes`` are replaced by the owner.

        Raises:
            Refused: The user may not start the agent, or may only see that conversation.
            Misuse: As for ``App.submit``.
        """
        _check_start(user, agent_id)
        owner = owner_of(user)
        if conversation:
            conversation, owner = await self._find_conversation(user, conversation)
            if not permissions.may_operate(user, owner):
                raise _needs_operate(user)
        named = {"user": owner[0], "tenant": owner[1]}
        if not permissions.owns(user, owner):
            named["by"] = user.id
        options["attributes"] = {name: value for name, value in named.items() if value}
        try:
            return await self.app.submit(
                agent_id,
                request,
                conversation=conversation,
                key=None if key is None else to_scoped(owner_of(user), key),
                **options,
            )
        except OtherUser:
            # The App itself started it for another user a moment ago.
            raise Missing(f"there is no conversation {(conversation or '')[:80]!r}") from None

    async def conversation_of(self, user: User, name: str) -> str:
        """Return the id in the journal of a user's name for a conversation.

        It is the user's own conversation with that name, or one with exactly that id that the user
        may see; else a new one of the user's. So the result reveals nothing about other users.
        """
        return (await self._find_conversation(user, name))[0]

    async def _find_conversation(self, user: User, name: str) -> tuple[str, Owner]:
        """See ``conversation_of``; return the owner too."""
        own, scoped = owner_of(user), to_scoped(owner_of(user), name)
        if from_scoped(own, name) != name:
            # It is the id in the journal already.
            return name, own
        journal = await self.app.open()
        mine: dict[str, Any] = {"limit": 1, "owner": user.id, "tenant": user.tenant}
        if await journal.runs(context_id=scoped, **mine):
            return scoped, own
        if await journal.runs(context_id=name, **mine):
            return name, own
        for run in await journal.runs(context_id=name, limit=1) if user.may("view") else ():
            if permissions.may_see(user, (run.owner, run.tenant)):
                return name, (run.owner, run.tenant)
        return scoped, own

    async def conversations_of(self, user: User, limit: int) -> Sequence[ConversationSummary]:
        """Return the conversations that a user may see, newest first."""
        journal: Any = await self.app.open()
        return await journal.conversations(limit=limit, **permissions.list_filters(user))

    async def inbox_of(self, user: User, **filters: Any) -> Sequence[InboxItem]:
        """Return what waits in runs that a user may see, without what the user snoozed."""
        return await self.app.inbox(user=_snooze_name(user), **await self._restrict(user, filters))

    async def inbox_size_of(self, user: User, **filters: Any) -> int:
        """Return how many items wait in runs that a user may see, snoozed ones included."""
        return await self.app.inbox_size(**await self._restrict(user, filters))

    async def later(self, user: User, run_id: str, id: str, until: datetime | None) -> None:
        """Snooze an inbox item for this user.

        Raises:
            Missing: There is no such run, or it belongs to another user.
            Refused: The user may see it but not do this.
            Misuse: As for ``App.later``.
        """
        await self.run_of(user, run_id, "note", act="snooze")
        await self.app.later(run_id, id, until=until, by=_snooze_name(user))

    async def assign(self, user: User, run_id: str, id: str, to: str) -> None:
        """Assign an inbox item; the user needs the permission to answer it.

        Raises:
            Missing: There is no such run or item, or it belongs to another user.
            Refused: The user may not answer it.
            Misuse: As for ``App.assign``.
        """
        await self._permitted(user, run_id)
        items = await self.app.inbox(run_id=run_id, limit=None)
        item = next((one for one in items if one.pending.id == id), None)
        if item is None:
            raise Missing(f"nothing waits under {id[:80]!r}; it may have been answered")
        if not await self.is_answerable(user, item):
            raise Refused("that takes the role 'answer' for this agent and tool")
        await self.note(user, "assign", run_id=run_id, subject=id)
        await self.app.assign(run_id, id, to=to, by=user.id)

    async def grants_of(self, user: User) -> Sequence[Grant]:
        """Return the standing approvals of runs that a user may see."""
        return await self.app.grants(**permissions.list_filters(user))

    async def withdraw(self, user: User, id: str) -> None:
        """Withdraw a standing approval; for the owner of its run, and users who may answer the
        call.

        Raises:
            Missing: There is none with that id, or its run belongs to another user.
            Refused: The user may see it but not do this.
        """
        for one in await self.grants_of(user):
            if one.id == id:
                owner, _ = await self._run(one.run_id)
                asked = Asked(owner, one.agent_id, one.tool_name, "user")
                if not permissions.may_answer(user, asked):
                    raise Refused("that takes the role 'answer' for this agent and tool")
                await self.note(user, "withdraw", run_id=one.run_id, subject=id)
                return await self.app.withdraw(id, by=user.id)
        raise Missing(f"there is no standing approval {id[:80]!r}")

    async def effects_of(self, user: User, **filters: Any) -> Sequence[EffectEntry]:
        """Return the effects of runs that a user may see; see ``App.effects``."""
        given: dict[str, Any] = {**permissions.list_filters(user)}
        if after := filters.get("after"):
            entry = await needs_ledger(await self.app.open()).effect(after)
            if entry is None or not permissions.may_see(user, (entry.user, entry.tenant)):
                raise no_such_effect(after)
        return await self.app.effects(**filters, user=given.pop("owner", ""), **given)

    async def settle(self, user: User, id: str, *, applied: bool, note: str) -> EffectEntry:
        """Settle an unknown effect as a user; the first settlement wins.

        Raises:
            Missing: There is no such effect, or its run belongs to another user.
            Refused: The user may see it but not settle it.
            Misuse: As for ``App.settle``.
        """
        await self._settleable(user, id)
        return await self.app.settle(id, applied=applied, by=user.id, note=note)

    async def check(self, user: User, id: str) -> EffectCheck:
        """Call ``verify`` about an unknown effect, for a user who may settle it.

        Raises:
            Missing: There is no such effect, or its run belongs to another user.
            Refused: The user may see it but not settle it.
        """
        await self._settleable(user, id)
        return await self.app.check(id)

    async def _settleable(self, user: User, id: str) -> None:
        entry = await needs_ledger(await self.app.open()).effect(id)
        if entry is None or not permissions.may_see(user, (entry.user, entry.tenant)):
            raise Missing(f"there is no effect {id[:80]!r}")
        if not self.may_settle(user, entry):
            raise Refused("that takes the role 'answer' for this agent and tool, or 'operate'")

    def lookup_of(self, tool_name: str) -> str:
        """Return what can be asked whether a call of a tool happened; see ``EffectLine.lookup``."""
        for agent_id in self.app.agents:
            for tool in self.app.each_tool(agent_id):
                if tool.name == tool_name and tool.verify is not None:
                    return tool.verify.tool if isinstance(tool.verify, Lookup) else "verify"
        return ""

    def may_settle(self, user: User, entry: EffectEntry) -> bool:
        """Whether a user may settle an effect, once it is unknown."""
        owner = (entry.user, entry.tenant)
        return permissions.may_settle(user, owner, entry.agent_id, entry.tool_name)

    async def runs_of(
        self, user: User, status: str | None = None, *, limit: int | None = None, **filters: Any
    ) -> Sequence[RunSummary]:
        """Return the runs that a user may see, newest first; see ``App.runs``."""
        return await self.app.runs(status, limit=limit, **await self._restrict(user, filters))

    async def counts_of(self, user: User, status: str | None = None, **filters: Any) -> RunCounts:
        """Count the runs that a user may see; the filters are those of ``App.runs``."""
        return await self.app.counts(status, **await self._restrict_journal(user, filters))

    async def candidates_of(
        self, user: User, find: str, status: str | None = None, **filters: Any
    ) -> Sequence[RunSummary]:
        """Return the runs that a user may see and whose logs may contain *find*, newest first.

        The filters are those of ``App.runs``.
        """
        journal = needs_shared(await self.app.open())
        given = await self._restrict_journal(user, filters)
        return await journal.candidates(find, status, **given)

    async def _restrict_journal(self, user: User, filters: dict[str, Any]) -> dict[str, Any]:
        """Return list filters as ``_restrict`` does, under the names that the journal has."""
        given = await self._restrict(user, filters)
        for name, own in (("agent", "agent_id"), ("conversation", "context_id")):
            given[own] = given.pop(name, "")
        return given

    async def _restrict(self, user: User, filters: dict[str, Any]) -> dict[str, Any]:
        """Return list filters restricted to what a user may see."""
        if name := filters.get("conversation"):
            filters["conversation"] = await self.conversation_of(user, name)
        if (before := filters.get("before")) and not await self.sees(user, before):
            raise no_such_page(before)
        return {**filters, **permissions.list_filters(user)}

    async def run_of(
        self,
        user: User,
        run_id: str,
        need: Need = "see",
        *,
        act: str = "",
        unless_ended: str = "",
    ) -> RunHandle:
        """Return the handle of a run that a user may see, operate, fork or annotate.

        This is noted in the audit, before it is done; of users' own runs only if *act* is given.

        Args:
            user: The user.
            run_id: The run.
            need: What the user wants to do.
            act: The word for it in the audit; "" is *need*.
            unless_ended: Why this is refused once the run has ended, and with it those that its
                request was handed over to; "" allows it.

        Raises:
            Missing: There is no such run, or it belongs to another user.
            Refused: The user may see it but not do this.
            Misuse: It has ended, and *unless_ended* is given.
        """
        handle, owner = await self._permitted(user, run_id, need)
        if unless_ended and (await (await handle.last_run()).state()).ended:
            raise Misuse(f"run {handle.id} has ended: {unless_ended}")
        if owner is not None and (act or not permissions.owns(user, owner)):
            await self.note(user, act or need, run_id=run_id)
        return handle

    async def _permitted(
        self, user: User, run_id: str, need: Need = "see"
    ) -> tuple[RunHandle, Owner | None]:
        """Return a run that a user may see, operate, fork or annotate, and its owner.

        The owner of a run of the lab is None.
        """
        owner, agent = await self._run(run_id)
        if owner is None and (found := await self.lab.run_of(user, run_id, need)) is not None:
            return found, None
        if not permissions.may_see(user, owner):
            raise Missing(f"there is no run {run_id[:80]!r}")
        if need in ("operate", "fork") and not permissions.may_operate(user, owner):
            raise _needs_operate(user)
        if need == "fork":
            _check_start(user, agent)
        if need == "note" and not permissions.may_note(user, owner, agent):
            raise Refused(f"that takes the role 'answer' or 'operate', which {user.id!r} lacks")
        return await self.app.run(run_id), owner

    async def note(self, user: User, act: str, *, run_id: str = "", subject: str = "") -> None:
        """Add an act of a user to the audit; a "see" once an hour."""
        journal, actor = await self.app.open(), current_actor()
        if actor.user != user.id:
            actor = Actor(user.id, user.tenant)
        if act == "see":
            seen = (*actor[:2], run_id, subject, int(time.time() / 3600))
            if seen in self._seen:
                return
            if len(self._seen) >= _MOST_KNOWN:
                self._seen.clear()
            self._seen.add(seen)
        with acting(actor):
            await add_act(journal, act, run_id=run_id, subject=subject)

    async def answer(
        self, user: User, run_id: str, answers: Sequence[AnyAnswer], *, door: str = ""
    ) -> tuple[Taken | Outdated, ...]:
        """Answer what a run waits for, as a user.

        The permission to answer is checked against what the run waits for at the moment the answer
        is stored.

        Args:
            user: The user; replaces the ``by`` of the answers.
            run_id: The run.
            answers: The answers.
            door: The protocol that they came through; "" for the console. What waits for staff can
                be answered in the console only.

        Raises:
            Missing: There is no such run, or it belongs to another user.
            Refused: The user may not answer it.
            Misuse: As for ``App.answer``.
        """
        # The answer is noted in the audit as it is stored.
        handle, owner = await self._permitted(user, run_id)

        def allow(agent: str, pending: Pending | None, answer: AnyAnswer) -> None:
            if pending is None:
                # It is closed: the reply can only say who closed it and how.
                if door or not user.may("answer"):
                    raise _nothing_waits(answer)
                return
            asked = Asked(owner, agent, tool_of(pending), pending.audience)
            if not permissions.may_answer(user, asked, door=door):
                raise Refused("that waits for staff, and is not yours to answer")
            if isinstance(answer, Edit) and not permissions.may_operate(user, owner):
                raise _needs_operate(user)

        given = [replace(one, by=user.id) for one in answers]
        try:
            return await handle.answer_if(allow, given)
        except Refused:
            raise
        except (JournalError, Misuse) as error:
            if isinstance(error, NotAsked) and (door or not user.may("answer")):
                raise _nothing_waits(answers[0]) from None
            if await handle.result(0) is not None:
                raise
            # The run works on after another answer; it accepts more when it has parked.
            await handle.result(_PARKING_S)
            return await handle.answer_if(allow, given)

    async def answer_by_link(self, claim: LinkClaim, answer: AnyAnswer) -> Taken | Outdated:
        """Answer by a link, once; the link itself is the permission.

        Raises:
            LinkRefused: It was used for another answer.
            Misuse: As for ``App.answer``.
        """
        await use_link(claim, answer, await self.app.open())
        try:
            (receipt,) = await self.app.answer(claim.run_id, answer)
        except JournalError:
            handle = await self.app.run(claim.run_id)
            if await handle.result(0) is not None:
                raise
            await handle.result(_PARKING_S)
            (receipt,) = await self.app.answer(claim.run_id, answer)
        return receipt

    async def answer_in_time(
        self, user: User, run_id: str, answers: Sequence[AnyAnswer], *, door: str
    ) -> None:
        """Answer through a door, as ``answer`` does.

        Raises:
            Differs: An answer came too late.
        """
        for receipt in await self.answer(user, run_id, answers, door=door) if answers else ():
            if isinstance(receipt, Outdated):
                raise Differs(f"the answer came too late: {receipt.reason}")

    async def summary(self, run_id: str) -> RunSummary:
        """Return the line of a run that exists in the list of runs."""
        (summary,) = await (await self.app.open()).runs(run_id=run_id)
        return summary

    async def is_answerable(self, user: User, item: InboxItem) -> bool:
        """Whether a user may answer an item of the inbox in the console."""
        owner, _ = await self._run(item.run_id)
        asked = Asked(owner, item.agent_id, tool_of(item.pending), item.audience)
        return permissions.may_answer(user, asked)

    async def sees(self, user: User, run_id: str) -> bool:
        """Whether a run exists that a user may see."""
        return permissions.may_see(user, (await self._run(run_id))[0])

    async def _run(self, run_id: str) -> tuple[Owner | None, str]:
        """Return the owner and the agent of a run; None and "" if there is no such run."""
        found = self._known.get(run_id)
        if found is None:
            journal = await self.app.open()
            for run in await journal.runs(run_id=run_id):
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                found = self._known[run_id] = ((run.owner, run.tenant), run.agent_id)
        return found or (None, "")


ERRORS = tuple(kind for kind, _ in _STATUS)
"""The errors that a response reports."""


def _snooze_name(user: User) -> str:
    """Return the name under which the journal stores what a user snoozed."""
    return to_scoped(owner_of(user), "")


def _check_start(user: User, agent_id: str) -> None:
    if not permissions.may_start(user, agent_id):
        raise Refused(f"you may not start runs of {agent_id[:80]!r}")


def _needs_operate(user: User) -> Refused:
    return Refused(f"that takes the role 'operate', which {user.id!r} does not have")


def _nothing_waits(answer: AnyAnswer) -> Refused:
    id: str = getattr(answer, "call_id", "") or getattr(answer, "id", "")
    return Refused(f"nothing waits under {id[:80]!r} for you; it may have been answered")


def _doors() -> list[ModuleType]:
    """Return the modules of the protocols whose libraries are installed."""
    found: list[ModuleType] = []
    for module in pkgutil.iter_modules(doors.__path__):
        try:
            found.append(import_module(f"{doors.__name__}.{module.name}"))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("upshot"):
                raise
    return found


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncGenerator[Worker]:
    """Work on the runs of an App inside the block; at its end they are left to other workers.

    Args:
        app: The App.
        options: Those of ``Worker``.
    """
    worker = Worker(app, **options)
    task: asyncio.Task[bool] = asyncio.create_task(worker.work())
    try:
        yield worker
    finally:
        worker.stop()
        await task


def from_json(body: bytes) -> Any:
    """Return the JSON in the body of a request.

    Raises:
        Misuse: It is not JSON, is nested too deeply, or has text that UTF-8 cannot encode.
    """
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise Misuse("the body of the request is not JSON") from None


def read_query(request: HttpRequest, kind: type[Q]) -> Q:
    """Return the parameters in a URL.

    Raises:
        msgspec.ValidationError: One is not known, or its value is not valid.
    """
    named = {name: value for name, value in request.query_params.items() if value}
    return msgspec.convert(named, kind, strict=False)


def to_json(value: object, status: int = 200) -> Response:
    """Return a response with a value of the contract, or a container of them, as JSON."""
    return Response(encode(value), status, media_type="application/json")


class ServerSentEvent(AnyServerSentEvent):
    """A server-sent event with the only line ending that AG-UI's client accepts."""

    DEFAULT_SEPARATOR = "\n"


def sse(events: AsyncIterable[ServerSentEvent]) -> EventSourceResponse:
    """Return a stream of server-sent events, which ends when the client disconnects."""
    headers = {"cache-control": "no-store"}
    return EventSourceResponse(events, ping=_PING_S, sep="\n", headers=headers)


async def _error_response(_: HTTPConnection, error: Exception) -> Response:
    """Return an error as one sentence."""
    message = error.detail if isinstance(error, HTTPException) else str(error)
    body = {"error": message}
    if isinstance(error, NoUser) and error.sign_in:
        body["sign_in"] = error.sign_in
    return to_json(body, status_of(error))


async def _missing_response(request: HTTPConnection, error: Exception) -> Response:
    """Report that there is no such route; to a browser as a page."""
    from upshot.serve import console

    page = await console.no_such_page(request) if isinstance(request, HttpRequest) else None
    return page or await _error_response(request, error)


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error of ``ERRORS``, or of an ``HTTPException``."""
    if isinstance(error, HTTPException):
        return error.status_code
    return next(status for kind, status in _STATUS if isinstance(error, kind))
