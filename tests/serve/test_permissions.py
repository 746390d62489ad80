"""Every route, for every kind of user, against runs of four owners that are easily mixed up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import upshot
from tests.serve.permission_table import NEEDS, ROWS, Row
from upshot import Agent, App, PendingApproval, ScriptedModel, ToolCall
from upshot.serve import User
from upshot.serve.permissions import Refused, from_scoped, to_scoped
from upshot.serve.site import Site

OWNERS = [("ann", "acme"), ("ann", ""), ("ann", "blue"), ("ben", "acme")]
# What each user is to the runs of these owners.
USERS: dict[str, tuple[User | None, tuple[str, ...]]] = {
    "nobody": (None, ("", "", "", "")),
    "owner": (User("ann", ("own",), "acme"), ("own", "", "", "")),
    "namesake without tenant": (User("ann", ("own",)), ("", "own", "", "")),
    "namesake elsewhere": (User("ann", ("own",), "blue"), ("", "", "own", "")),
    "customer": (User("ann", (), "acme"), ("own", "", "", "")),
    "stranger": (User("cid", ("own",), "acme"), ("", "", "", "")),
    "view": (User("vic", ("view",), "acme"), ("see", "", "", "see")),
    "view of all": (User("vic", ("view",)), ("see", "see", "see", "see")),
    "view elsewhere": (User("vic", ("view",), "red"), ("", "", "", "")),
    "answer": (
        User("sue", ("view", "answer"), "acme", agents=("desk",)),
        ("answer", "", "", "answer"),
    ),
    "answer for another agent": (
        User("sue", ("view", "answer"), "acme", agents=("echo",)),
        ("see", "", "", "see"),
    ),
    "operate": (User("oda", ("view", "operate"), "acme"), ("operate", "", "", "operate")),
    "staff": (User("sam", ("owner",), "acme"), ("staff", "", "", "staff")),
    "staff of all": (User("sam", ("owner",)), ("staff",) * 4),
    "starts nothing": (User("tom", ("owner",), may_start=()), ("staff",) * 4),
}
HEADERS = {
    "host": "localhost",
    "x-upshot": "1",
    "a2a-version": "1.0",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "upshot_continue",
}


@upshot.tool(effect="write", approval=True, ask="user")
def pay(order: int) -> str:
    """Pay an order."""
    return "paid"


@upshot.tool(effect="write", approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    return "refunded"


@upshot.tool(effect="write", approval=True)
def mail(to: str) -> str:
    """Send a mail; nobody knows whether it is sent."""
    raise TimeoutError("the server did not answer")


class Waiting(NamedTuple):
    """A run that waits for its user and for staff."""

    run: str
    chat: str
    grant: str
    effect: str
    p: str
    r: str
    token: str


class Desk:
    """An App without workers, and its runs."""

    def __init__(self) -> None:
        calls = [ToolCall("p", "pay", {"order": 1}), ToolCall("r", "refund", {"order": 1})]
        model = ScriptedModel([ToolCall("m", "mail", {"to": "ann"}), calls] * 999)
        desk = Agent("desk", model=model, tools=[pay, refund, mail])
        echo = Agent("echo", model=ScriptedModel(["Hello."] * 999))
        self.app = App([desk, echo], journal="memory:", version="1")
        self.user: User | None = None
        self.folder = TemporaryDirectory()
        self.site = Site(
            self.app,
            user=lambda _: self.user,
            work=False,
            rate=1_000_000,
            lab="memory:",
            datasets=self.folder.name,
        )
        self.asgi = self.site.asgi()
        self.count = 0

    async def begin(self, owner: tuple[str, str]) -> Waiting:
        """A run of an owner; what it is asked names the owner."""
        user, token = User(owner[0], (), owner[1]), f"order of {owner[0]} at {owner[1] or 'none'}."
        self.count += 1
        chat = await self.site.conversation_of(user, f"chat-{self.count}")
        handle = await self.site.submit(user, "desk", token, conversation=chat)
        await self.app.activate(handle.id)
        # The inbox of many runs would be read for longer than all the rest takes.
        [first] = (await handle.state()).pending
        assert isinstance(first, PendingApproval)
        await handle.answer(first.approve(always="tool", by="sam"))
        await self.app.activate(handle.id)
        asked = {one.id: one for one in (await handle.state()).pending}
        digests = {id: getattr(one, "digest", "") for id, one in asked.items()}
        [grant] = [one.id for one in await self.app.grants(limit=1) if one.run_id == handle.id]
        [effect] = [one.id for one in await self.app.effects(run_id=handle.id)]
        return Waiting(handle.id, chat, grant, effect, digests["p"], digests["r"], token)

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, str]:
        """The status and the text of a response; of a stream only the status."""
        sent = [{"type": "http.request", "body": b"" if body is None else body}]
        got: list[Any] = []
        is_told = asyncio.Event()
        named = {**HEADERS, **{name.replace("_", "-"): one for name, one in headers.items()}}
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "app": self.asgi,
        }

        async def receive() -> Any:
            if not sent:
                await asyncio.Event().wait()
            return sent.pop()

        async def send(message: Any) -> None:
            got.append(message)
            is_stream = any(b"text/event-stream" in value for _, value in got[0]["headers"])
            if is_stream or not message.get("more_body", message is got[0]):
                is_told.set()

        task = asyncio.create_task(self.asgi(scope, receive, send))
        waiting = asyncio.create_task(is_told.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        text = b"".join(one.get("body", b"") for one in got[1:])
        return got[0]["status"], text.decode(errors="replace")


@asynccontextmanager
async def desk() -> AsyncGenerator[Desk]:
    site = Desk()
    async with site.asgi.router.lifespan_context(site.asgi):
        with site.folder:
            yield site


def filled(row: Row, run: Waiting) -> tuple[str, str, bytes | None]:
    """The request of a row for a run."""
    path = row.path
    named = {
        "{id:path}": run.grant if "grants" in path else run.chat,
        "{seq:int}": "1",
        "{at:int}": "0",
    }
    named |= {"{item:path}": "p", "{other}": run.run, "{agent}": "desk", "{chat}": run.chat}
    named |= {"{name}": "console.js", "{run}": run.run}
    ids = {"artifacts": "a", "effects": run.effect}
    named["{id}"] = next((one for part, one in ids.items() if part in path), run.run)
    for place, value in named.items():
        path = path.replace(place, value)
    if row.body is None:
        return row.method, path, None
    text = json.dumps(row.body)
    for name, value in run._asdict().items():
        text = text.replace(f"{{{name}}}", value)
    return ("POST" if row.method == "*" else row.method), path, text.encode()


def outcome_of(row: Row, status: int, text: str) -> str:
    """What became of a request."""
    if status == 401:
        return "nobody"
    if status == 403 or any(one in text for one in ("takes the role", "not yours")):
        return "refused"
    if status in (200, 404) and any(f"there is no {one}" in text for one in NAMES):
        return "missing"
    return "done" if status in row.ok else f"{status} {text[:200]}"


NAMES = ("run ", "task ", "response ", "conversation ", "standing ", "effect ")


def expected(row: Row, user: User | None, relation: str) -> str:
    """What is to become of the request of a row."""
    may, _ = NEEDS[row.need]
    if row.need in ("anyone", "link"):
        return "done"
    if user is None:
        return "nobody"
    if row.path.startswith("/api") and not user.roles:
        return "refused"
    if row.need in ("start", "fork") and user.may_start is not None and relation:
        return "refused"
    if row.need == "lab":
        return "done" if user.may("view") and not user.tenant else "refused"
    if row.need == "drain":
        may_all = user.may("view") and user.may("operate") and not user.tenant
        return "done" if may_all else "refused"
    if row.need == "audit":
        return "done" if user.may("audit") else "refused"
    if row.need in ("user", "list", "own", "start"):
        return "done"
    return "missing" if not relation else "done" if relation in may else "refused"


async def test_every_route_has_its_row() -> None:
    async with desk() as site:
        routes: set[tuple[str, str]] = set()
        for route in site.asgi.routes:
            methods = getattr(route, "methods", None) or {"*"}
            routes |= {(one, getattr(route, "path", "")) for one in methods if one != "HEAD"}
    assert {(row.method, row.path) for row in ROWS} == routes


@pytest.mark.slow("every run")
@pytest.mark.parametrize("of_every_run", [False, True], ids=["one run of a kind", "every run"])
async def test_each_user_may_do_on_each_route_what_the_table_says(*, of_every_run: bool) -> None:
    wrong: list[str] = []
    # What only reads leaves the runs to the next row.
    reading = [row for row in ROWS if row.method == "GET"]
    for rows in (reading, *([row] for row in ROWS if row.method != "GET")):
        async with desk() as site:
            runs = [await site.begin(owner) for owner in OWNERS]
            for row in rows:
                wrong += await faults_of(row, site, runs, of_every_run=of_every_run)
    assert not wrong, "\n".join(wrong)


def places_of(row: Row, kind: str, relations: Sequence[str]) -> list[tuple[int, str]]:
    """For each relation of a user, one of the runs to which they have it; another on each route."""
    turn = ROWS.index(row) + [*USERS].index(kind)
    found: list[tuple[int, str]] = []
    for relation in dict.fromkeys(relations):
        places = [place for place, one in enumerate(relations) if one == relation]
        found.append((places[turn % len(places)], relation))
    return found


def is_tried(row: Row, kind: str) -> bool:
    """Whether what a user may do on a route is done too: of what changes a run, one in three."""
    turn = ROWS.index(row) + [*USERS].index(kind)
    return row.method == "GET" or row.need not in NAMED or turn % 3 == 0


async def faults_of(row: Row, site: Desk, runs: list[Waiting], *, of_every_run: bool) -> list[str]:
    wrong: list[str] = []
    is_of_run = row.need in NAMED or row.path == "/ui/{agent}/{chat}"
    for kind, (user, relations) in USERS.items():
        site.user = user
        places = [*enumerate(relations)] if of_every_run else places_of(row, kind, relations)
        for place, relation in places if is_of_run else [(0, "any")]:
            wanted = expected(row, user, relation)
            if wanted == "done" and not of_every_run and not is_tried(row, kind):
                continue
            run = runs[place]
            status, text = await site.ask(*filled(row, run))
            found = outcome_of(row, status, text)
            case = f"{row.method} {row.path} {row.act}: {kind}, run of {OWNERS[place]}"
            if found != wanted:
                wrong.append(f"{case}: {found}, not {wanted}")
            wrong += leaks(row, runs, relations, text, case, is_done=found == "done")
            if found == "done" and row.need in NAMED and row.method != "GET":
                runs[place] = await site.begin(OWNERS[place])
    return wrong


# The needs of what is done to one run, and the lists that say what each run is about.
NAMED = (
    "see",
    "operate",
    "fork",
    "note",
    "answer",
    "settle",
    "answer for staff",
    "answer over a door",
)
LISTS = ("/api/runs", "/api/inbox", "/api/conversations", "/api/effects")


def leaks(
    row: Row,
    runs: Sequence[Waiting],
    relations: Sequence[str],
    text: str,
    case: str,
    *,
    is_done: bool,
) -> Iterator[str]:
    """What a response tells of runs that the user may not see, or a list leaves out."""
    for run, relation in zip(runs, relations, strict=True):
        is_told = run.token in text or (row.path == "/api/effects" and run.run in text)
        if is_told and not relation:
            yield f"{case}: it tells of {run.token}"
        if row.need == "own" and is_told and relation != "own":
            yield f"{case}: it tells of {run.token}"
        if row.method == "GET" and row.path in LISTS and is_done and is_told != bool(relation):
            yield f"{case}: the list lacks {run.token}"


async def test_a_place_in_a_list_that_is_anothers_is_as_good_as_none() -> None:
    async with desk() as site:
        own, other = [await site.begin(OWNERS[place]) for place in (0, 2)]
        site.user = User("ann", ("view",), "acme")
        for path, theirs, mine in [
            ("/api/runs?before=", other.run, own.run),
            ("/api/effects?after=", other.effect, own.effect),
        ]:
            told = await site.ask("GET", path + theirs)
            unknown = await site.ask("GET", path + "x" * len(theirs))
            assert told == (400, unknown[1].replace("x" * len(theirs), theirs))
            assert (await site.ask("GET", path + mine))[0] == 200


async def test_a_name_that_is_anothers_is_as_good_as_a_free_one() -> None:
    """Of chats, threads, contexts, conversations and keys, for a namesake without a tenant too."""
    async with desk() as site:
        for user in (User("ann", ("own",), "acme"), User("ann", ("own",)), User("bob", ("own",))):
            site.user = user
            for row in ROWS:
                if row.need == "start" or "Stream" in str(row.body):
                    status, text = await site.ask(*filled(row, NOTHING))
                    assert status in row.ok or "there is no task" in text, (row, text)
            said = {"agent": "echo", "text": user.tenant + user.id, "conversation": "c", "key": "k"}
            status, text = await site.ask("POST", "/api/runs", json.dumps(said).encode())
            assert status == 201, text
            sent = {"model": "echo", "input": user.tenant + user.id, "conversation": "t"}
            body = json.dumps({**sent, "background": True}).encode()
            status, text = await site.ask("POST", "/v1/responses", body, idempotency_key="l")
            assert (status, json.loads(text)["conversation"]) == (200, {"id": "t"}), text


NOTHING = Waiting("run-0000000000000000", "chat", "g", "e", "p", "r", "")
TEXTS = st.text(st.sampled_from("ab/~%"), min_size=1, max_size=4)
OWNERS_OF = st.tuples(TEXTS, st.text(st.sampled_from("ab/~%"), max_size=3))


@given(OWNERS_OF, OWNERS_OF, TEXTS, TEXTS)
def test_names_of_different_users_never_meet(
    one: tuple[str, str], other: tuple[str, str], name: str, second: str
) -> None:
    assert from_scoped(one, to_scoped(one, name)) == name
    if one != other:
        assert to_scoped(one, name) != to_scoped(other, second)
        scoped = to_scoped(one, name)
        assert from_scoped(other, scoped) == scoped


async def test_what_may_be_answered_is_asked_again_after_a_wait() -> None:
    """Staff for one agent answers what a run of another agent will ask once it parks."""
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def ask(run: upshot.Run, host: upshot.RunHost, board: upshot.Board) -> str:
        began.set()
        await goes_on.wait()
        return str(await host.wait_for("webhook", "the bank's word"))

    bank = Agent("bank", engine=upshot.ScriptEngine(ask))
    app = App([bank], journal="memory:", version="1")
    sue = User("sue", ("view", "answer"), agents=("desk",))
    site = Site(app, user=lambda _: sue)
    async with app:
        handle = await site.submit(User("ann"), "bank", "Pay.")
        work = asyncio.create_task(app.activate(handle.id))
        await began.wait()
        forged = [upshot.Answer("webhook", "paid")]
        answer = asyncio.create_task(site.answer(sue, handle.id, forged))
        await asyncio.sleep(0)
        goes_on.set()
        await work
        [told] = await asyncio.gather(answer, return_exceptions=True)
        assert isinstance(told, Refused), told
        assert len(await app.inbox(run_id=handle.id)) == 1
