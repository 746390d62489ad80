"""Site: what all doors of an App share."""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import msgspec
from msgspec.structs import replace
from sse_starlette import EventSourceResponse
from sse_starlette import ServerSentEvent as AnyServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.responses import Response

from upshot.contract.base.checks import Allowed, check_argument, check_whole
from upshot.contract.codec import encode
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import RunCounts, RunSummary
from upshot.entry.run_handle import RunHandle
from upshot.errors import JournalError, Misuse
from upshot.fleet.app import App
from upshot.fleet.submission import SubmitOptions
from upshot.fleet.worker import Worker
from upshot.journal.shared import InboxItem, OtherUser, tool_of
from upshot.serve import doors
from upshot.serve.guard import ErrorForm, Guard
from upshot.serve.users import Missing, NoUser, Refused, User, UserOf
from upshot.state.child_runs import bare_id

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute

    from upshot.contract.conversation import ConversationSummary
    from upshot.contract.message import Message
    from upshot.entry.grants import Grant


_USER_OF = Allowed("a function of the request that gives a User or None", methods=("__call__",))
_TEXT = Allowed("a text", (str,))
RUN_IN_URL = "{run_id}"
"""In the place of the id of a run in the address of its spans."""
_NAMES = Allowed("a list of texts", items=Allowed("a text", (str,)))
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NoUser, 401),
    (Missing, 404),
    (Refused, 403),
    (Misuse, 400),
    (msgspec.ValidationError, 400),
    (msgspec.DecodeError, 400),
    (JournalError, 503),
)
# The user and the tenant of a run.
_Owner: TypeAlias = tuple[str, str]
_MOST_KNOWN = 100_000
# A comment so often keeps what is between from ending a stream that is silent.
# So long an answer waits for a run that is being worked on.
_PARKING_S = 30
_PING_S = 15


class Site:
    """An App with users: whose a run is, who may answer, and what its doors are.

    Args:
        app: The App.
        user: Says who sent a request; plain or async.
        hosts: The names under which it is reached, beside those of this machine.
        origins: Origins of other sites whose pages may send requests.
        work: Whether runs are worked on in this process too, while it serves.
        max_body: How many bytes a request may have.
        rate: How many requests one client address may send within ten seconds.

    Attributes:
        app: The App.

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
        self._guard: dict[str, Any] = {"hosts": [*hosts], "origins": [*origins], "rate": rate}
        self._is_working = work
        self._max_body = max_body
        self.trace_url = trace_url
        # Whose a run is never changes.
        self._owners: dict[str, _Owner] = {}

    def asgi(self, routes: Iterable[BaseRoute] = ()) -> Starlette:
        """The ASGI application with all doors, and further routes."""
        from upshot.serve import console

        found = [console, *_doors()]
        taken = [*routes, *(route for door in found for route in door.routes(self))]

        forms: dict[str, ErrorForm] = {}
        for door in found:
            forms.update(getattr(door, "REFUSALS", {}))

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncGenerator[None]:
            async with AsyncExitStack() as stack:
                await self.app.open()
                stack.push_async_callback(self.app.aclose)
                if self._is_working:
                    await stack.enter_async_context(working(self.app))
                for door in found:
                    if (opened := getattr(door, "lifespan", None)) is not None:
                        await stack.enter_async_context(opened(self))
                yield

        return Starlette(
            routes=taken,
            middleware=[
                Middleware(Guard, **self._guard, max_body=self._max_body, forms=forms),
                # For a body that does not say how long it is.
                Middleware(RequestBodyLimitMiddleware, max_body_size=self._max_body),
            ],
            exception_handlers={HTTPException: _told, **dict.fromkeys(ERRORS, _told)},
            lifespan=lifespan,
        )

    async def user(self, request: HTTPConnection) -> User:
        """Who sent a request.

        Raises:
            NoUser: Nobody who is known.
        """
        found = self._user_of(request)
        found = await found if inspect.isawaitable(found) else found
        if found is None:
            raise NoUser("nobody is signed in")
        return found

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
        """Submit a run of a user's.

        Args:
            user: Whose it is.
            agent_id: The agent.
            request: What is asked.
            conversation: The conversation of which it is a turn, which must be the user's.
            key: Names the request for this user; see ``App.submit``.
            options: Those of ``App.submit``; ``attributes`` say whose it is, and nothing else.

        Raises:
            Missing: The conversation is another's.
            Refused: The user may see that conversation and no more.
            Misuse: As of ``App.submit``.
        """
        owner = user.id, user.tenant
        if conversation:
            owner = await self._owner_of_talk(user, conversation) or owner
        named = {"user": owner[0], "tenant": owner[1]}
        if owner != (user.id, user.tenant):
            named["by"] = user.id
        options["attributes"] = {name: value for name, value in named.items() if value}
        try:
            return await self.app.submit(
                agent_id,
                request,
                conversation=conversation,
                key=None if key is None else f"{user.tenant}/{user.id}/{key}",
                **options,
            )
        except OtherUser:
            # Begun a moment ago.
            raise _no_conversation(conversation) from None

    async def _owner_of_talk(self, user: User, conversation: str) -> _Owner | None:
        """Whose a conversation is in which a user wants to say something; None for a new one."""
        journal = await self.app.open()
        runs = await journal.runs(
            context_id=conversation, limit=1, owner=user.id, tenant=user.tenant
        )
        for run in runs or await journal.runs(context_id=conversation, limit=1):
            owner = run.owner, run.tenant
            if not _may_see(user, owner):
                raise _no_conversation(conversation)
            if not (_is_of(owner, user) or user.may("operate")):
                raise _needs_operate(user)
            return owner
        return None

    async def conversations_of(self, user: User, limit: int) -> Sequence[ConversationSummary]:
        """The conversations that a user may see, newest first."""
        journal: Any = await self.app.open()
        return await journal.conversations(limit=limit, **_of(user, {}))

    async def inbox_of(self, user: User, **filters: Any) -> Sequence[InboxItem]:
        """What waits in runs that a user may see, without what the user put off."""
        return await self.app.inbox(user=user.id, **_of(user, filters))

    def seen_by(self, user: User) -> dict[str, Any]:
        """The filters of the runs that a user may see."""
        return _of(user, {})

    async def waits_of(self, user: User) -> int:
        """How much waits in runs that a user may see."""
        return await self.app.inbox_size(**_of(user, {}))

    async def grants_of(self, user: User) -> Sequence[Grant]:
        """The standing approvals of runs that a user may see."""
        return await self.app.grants(**_of(user, {}))

    async def runs_of(
        self, user: User, status: str | None = None, *, limit: int | None = None, **filters: Any
    ) -> Sequence[RunSummary]:
        """The runs that a user may see, newest first; see ``App.runs``."""
        return await self.app.runs(status, limit=limit, **_of(user, filters))

    async def counts_of(self, user: User, status: str | None = None, **filters: Any) -> RunCounts:
        """How many there are of the runs that a user may see; the filters are those of ``runs``."""
        given = _of(user, filters)
        for name, own in (("agent", "agent_id"), ("conversation", "context_id")):
            given[own] = given.pop(name, "")
        return await self.app.counts(status, **given)

    async def run_of(
        self, user: User, run_id: str, need: Literal["see", "operate"] = "see"
    ) -> RunHandle:
        """The handle of a run that a user may see, or operate too.

        Raises:
            Missing: There is no such run, or it is another's.
            Refused: The user may see it and no more.
        """
        if not await self.sees(user, run_id):
            raise Missing(f"there is no run {run_id[:80]!r}")
        is_his = _is_of(await self._owner(run_id), user)
        if need == "operate" and not (is_his or user.may("operate")):
            raise _needs_operate(user)
        return await self.app.run(run_id)

    async def answer(
        self, user: User, run_id: str, answers: Sequence[AnyAnswer], *, door: str = ""
    ) -> tuple[Taken | Outdated, ...]:
        """Answer what a run waits for, as a user.

        Args:
            user: Who answers; it stands as ``by`` in place of what the answers say.
            run_id: The run.
            answers: The answers.
            door: The protocol over which they came, "" for the console. What waits for staff is
                answered in the console alone.

        Raises:
            Missing: There is no such run, or it is another's.
            Refused: It is not the user's to answer.
            Misuse: As of ``App.answer``.
        """
        handle = await self.run_of(user, run_id)
        items = await self.app.inbox(run_id=run_id, limit=None)
        for answer in answers:
            id: str = getattr(answer, "call_id", "") or getattr(answer, "id", "")
            # That of a child run is named by the id that it has there, too.
            meant = [one for one in items if one.pending.id == id or bare_id(one.pending) == id]
            if all(self.is_answerable(user, item, door=door) for item in meant) and (
                meant or (not door and user.may("answer"))
            ):
                continue
            raise Refused(
                "that waits for staff, and is not yours to answer"
                if meant
                else f"nothing waits under {id[:80]!r}; it may have been answered"
            )
        given = [replace(one, by=user.id) for one in answers]
        try:
            return await handle.answer(*given)
        except (JournalError, Misuse):
            if await handle.result(0) is not None:
                raise
            # Something else was answered, and the run works on: it takes more when it has parked.
            await handle.result(_PARKING_S)
            return await handle.answer(*given)

    def is_answerable(self, user: User, item: InboxItem, *, door: str = "") -> bool:
        """Whether a user may answer an item of a run that he may see."""
        for_staff = not door and user.may_answer(item.agent_id, tool_of(item.pending))
        return item.audience == "user" or for_staff

    async def sees(self, user: User, run_id: str) -> bool:
        """Whether a run is there that a user may see."""
        return _may_see(user, await self._owner(run_id))

    async def _owner(self, run_id: str) -> _Owner | None:
        """The user and the tenant of a run, None where there is no such run."""
        found = self._owners.get(run_id)
        if found is None:
            journal = await self.app.open()
            for run in await journal.runs(run_id=run_id):
                if len(self._owners) >= _MOST_KNOWN:
                    self._owners.clear()
                found = self._owners[run_id] = (run.owner, run.tenant)
        return found


ERRORS = tuple(kind for kind, _ in _STATUS)
"""The errors that a response tells of."""


def _of(user: User, filters: dict[str, Any]) -> dict[str, Any]:
    """Filters of runs, with those of what a user may see."""
    if user.tenant:
        filters["tenant"] = user.tenant
    if not user.may("view"):
        filters["owner"] = user.id
    return filters


def _no_conversation(id: str | None) -> Missing:
    return Missing(f"there is no conversation {(id or '')[:80]!r}")


def _needs_operate(user: User) -> Refused:
    return Refused(f"that takes the role 'operate', which {user.id!r} does not have")


def _is_of(owner: _Owner | None, user: User) -> bool:
    return owner == (user.id, user.tenant)


def _may_see(user: User, owner: _Owner | None) -> bool:
    is_theirs = owner is not None and user.tenant in ("", owner[1])
    return _is_of(owner, user) or (user.may("view") and is_theirs)


def _doors() -> list[ModuleType]:
    """The modules of the protocols of which the libraries are there."""
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
    """Work on the runs of an App meanwhile; at the end they are left to others.

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
    """The JSON in the body of a request.

    Raises:
        Misuse: It is no JSON, goes too deep, or has text that UTF-8 cannot hold.
    """
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise Misuse("the body of the request is not JSON") from None


def to_json(value: object, status: int = 200) -> Response:
    """A response with a value of the contract, or a container of them, as JSON."""
    return Response(encode(value), status, media_type="application/json")


class ServerSentEvent(AnyServerSentEvent):
    """A server-sent event, with the only ends of lines that the client of AG-UI knows."""

    DEFAULT_SEPARATOR = "\n"


def sse(events: AsyncIterable[ServerSentEvent]) -> EventSourceResponse:
    """A stream of server-sent events, which ends when the client goes."""
    headers = {"cache-control": "no-store"}
    return EventSourceResponse(events, ping=_PING_S, sep="\n", headers=headers)


async def _told(_: HTTPConnection, error: Exception) -> Response:
    """An error as one sentence."""
    said = error.detail if isinstance(error, HTTPException) else str(error)
    return to_json({"error": said}, status_of(error))


def status_of(error: Exception) -> int:
    """The HTTP status of an error of ``ERRORS``, or an ``HTTPException``."""
    if isinstance(error, HTTPException):
        return error.status_code
    return next(status for kind, status in _STATUS if isinstance(error, kind))
