"""Links by which users answer without signing in."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple

import aiohttp
import pytest
from msgspec.structs import replace

from tests.processes import start_python
from tests.serve.kit import Client, served
from upshot import (
    Agent,
    AnswerLinks,
    App,
    InboxItem,
    Misuse,
    PendingApproval,
    RunHost,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    open_journal,
    tool,
)
from upshot.fleet.answer_links import LinkRefused, use_link
from upshot.journal.audit import needs_audit

KEY = "0123456789abcdef0123456789abcdef"
EVIL = "<script>alert(1)</script> \u202e gnp.exe"
USERS = ["ann", "bob"]


class Sent(NamedTuple):
    """An App, and the items of which it has notified."""

    app: App
    items: list[InboxItem]
    paid: list[int]

    def link(self, user: str) -> str:
        """The path of the newest link of a user."""
        return next(
            one.url.removeprefix("https://ops.example")
            for item in reversed(self.items)
            for one in item.links
            if one.user == user
        )


def make(place: Any, *, approvals: int = 1, **options: Any) -> Sent:
    items: list[InboxItem] = []
    paid: list[int] = []

    @tool(effect="destructive", approvals=approvals)
    def pay(cents: int, note: str) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    def notify(found: Sequence[InboxItem]) -> None:
        items.extend(found)

    async def ask(run: Any, host: RunHost, board: Any) -> Any:
        return await host.ask_user("Which address?", choices=("home", "work"))

    model = ScriptedModel([[ToolCall("p", "pay", {"cents": 5, "note": EVIL})], "Paid."])
    agents = [
        Agent[Any]("desk", model=model, tools=[pay]),
        Agent[Any]("asker", engine=ScriptEngine(ask)),
    ]
    given: dict[str, Any] = {"key": KEY, "url": "https://ops.example", "users": USERS, **options}
    links = AnswerLinks(**given)
    app = App(agents, journal=place, notify=notify, answer_links=links)
    return Sent(app, items, paid)


@asynccontextmanager
async def waiting(
    place: Any, agent: str = "desk", **options: Any
) -> AsyncGenerator[tuple[Sent, Client, str]]:
    """A site with a run that waits, and the id of the run."""
    sent = make(str(place), **options)
    async with served(sent.app) as client:
        run = await sent.app.submit(agent, "Pay my bill, please.")
        await run.result(60)
        while not sent.items:
            await client.get("/health")
        yield sent, client, run.id


async def send(client: Client, path: str, **fields: str) -> tuple[int, str]:
    """Send the form of a page."""
    async with client.session.post(client.url + path, data=fields) as reply:
        return reply.status, await reply.text()


async def inbox(sent: Sent) -> list[InboxItem]:
    return [*await sent.app.inbox()]


async def test_a_notification_has_a_link_for_each_user(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, _, _run):
        ((item),) = sent.items
        assert [one.user for one in item.links] == USERS
        assert all(one.url.startswith("https://ops.example/answer/") for one in item.links)
        assert len({one.url for one in item.links}) == 2
        assert (await inbox(sent))[0].links == ()


async def test_opening_a_link_shows_the_item_alone_and_changes_nothing(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, client, run):
        text = ""
        for method in ("GET", "GET", "HEAD"):
            async with client.session.request(method, client.url + sent.link("ann")) as reply:
                assert reply.status == 200
                text = await reply.text() or text
                assert reply.headers["cache-control"] == "no-store"
                policy = reply.headers["content-security-policy"]
                assert "default-src 'none'" in policy and "script" not in policy
        assert "May pay be called?" in text and "cannot be undone" in text
        # What a model wrote is text, with every character visible.
        assert "&lt;script&gt;" in text and "<script" not in text and "\\u202e" in text
        assert "Pay my bill" not in text and run not in text
        assert (sent.paid, len(await inbox(sent))) == ([], 1)


async def test_the_form_answers_once_as_the_user_of_the_link(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, client, run):
        status, text = await send(client, sent.link("ann"), answer="approve")
        assert (status, "Your answer is stored" in text) == (200, True)
        result = await (await sent.app.run(run)).result(60)
        assert result is not None
        approval = result.tool_records[0].approval
        assert approval is not None
        assert (sent.paid, approval.by) == ([5], "ann")
        for user in USERS:
            for fields in ({"answer": "approve"}, {"answer": "deny"}):
                status, text = await send(client, sent.link(user), **fields)
                assert (status, "It no longer waits" in text) == (410, True)
        assert sent.paid == [5]
        (row, *_) = (await needs_audit(await sent.app.open()).audit(kind="answered")).rows
        assert (row.user, row.door, row.action) == ("ann", "answer_link", "approve")


async def test_a_denial_has_its_reason(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, client, run):
        status, _ = await send(client, sent.link("bob"), answer="deny", note="Too much.")
        result = await (await sent.app.run(run)).result(60)
        assert result is not None
        assert (status, sent.paid) == (200, [])
        assert "Too much." in str(result.tool_outcomes[0])


async def test_a_question_is_answered_with_one_of_its_choices(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db", "asker") as (sent, client, run):
        status, _ = await send(client, sent.link("ann"), answer="nowhere")
        assert status == 400
        status, _ = await send(client, sent.link("ann"), answer="home")
        result = await (await sent.app.run(run)).result(60)
        assert result is not None
        assert (status, result.output) == (200, "home")


async def test_a_forged_or_changed_link_opens_nothing(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, client, _):
        path = sent.link("ann")
        body, signature = path.removeprefix("/answer/").split(".")
        other = sent.link("bob").removeprefix("/answer/").split(".")
        wrong = [
            f"{body}.{other[1]}",
            f"{other[0]}.{signature}",
            body,
            f".{signature}",
            f"{body}.",
            "é.é",
            "x" * 5_000,
        ]
        for token in wrong:
            status, text = await send(client, f"/answer/{token}", answer="approve")
            assert (status, "May pay" in text) == (404, False), token
        assert len(await inbox(sent)) == 1
    other_key = AnswerLinks(key=KEY[::-1], url="https://ops.example", users=USERS)
    with pytest.raises(LinkRefused, match="not valid"):
        other_key.read(path.removeprefix("/answer/"))


async def test_a_link_expires(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, client, _):
        links = sent.app.answer_links
        assert links is not None
        long_ago = datetime.now(UTC) - timedelta(days=2, seconds=1)
        (old, _other) = links.links_of(sent.items[0], now=long_ago)
        path = old.url.removeprefix("https://ops.example")
        status, text = await send(client, path, answer="approve")
        assert (status, "This link has expired" in text) == (410, True)
        assert sent.paid == [] and len(await inbox(sent)) == 1
        # An item that is asked again earlier than that ends its links.
        due = datetime.now(UTC) + timedelta(minutes=1)
        item = sent.items[0]
        pending = item.pending
        assert isinstance(pending, PendingApproval)
        soon = links.links_of(replace(item, pending=replace(pending, expires_at=due)))
        assert soon[0].expires_at <= due


async def test_a_link_counts_as_its_user_where_several_must_approve(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db", approvals=2) as (sent, client, run):
        status, text = await send(client, sent.link("ann"), answer="approve")
        assert (status, "1 more user must approve it" in text) == (200, True)
        # Its link is used: neither a second approval nor a denial comes of it.
        status, text = await send(client, sent.link("ann"), answer="deny")
        assert (status, "was used for another answer" in text) == (410, True)
        status, text = await send(client, sent.link("ann"), answer="approve")
        assert (status, "ann has approved call p already" in text) == (409, True)
        _, text = await client.get(sent.link("ann"))
        assert "You have approved it" in text and "<form" not in text
        assert sent.paid == []
        status, _ = await send(client, sent.link("bob"), answer="approve")
        await (await sent.app.run(run)).result(60)
        assert (status, sent.paid) == (200, [5])


async def test_of_two_answers_by_one_link_at_once_one_counts(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db", approvals=2) as (sent, client, _):
        other = make(str(tmp_path / "runs.db"), approvals=2)
        async with served(other.app, work=False) as second:
            path = sent.link("ann")
            replies = await asyncio.gather(
                send(client, path, answer="approve"), send(second, path, answer="deny")
            )
            assert sorted(status for status, _ in replies)[0] == 200
            assert sorted(status for status, _ in replies)[1] in (409, 410)


SERVER = """
import asyncio, sys
from tests.serve.test_answer_links import make
from tests.serve.kit import served
async def main(place):
    sent = make(place, approvals=2)
    async with served(sent.app, work=False) as client:
        print(client.url, flush=True)
        await asyncio.Event().wait()
asyncio.run(main(sys.argv[1]))
"""


async def test_a_used_link_stays_used_when_the_server_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    async with waiting(place, approvals=2) as (sent, _, _run):
        path = sent.link("ann")
    for fields, expected in (("approve", 200), ("deny", 410)):
        process = start_python("-c", SERVER, str(place), stdout=PIPE)
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        async with aiohttp.ClientSession() as session:
            status, _text = await send(Client(session, url), path, answer=fields)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert status == expected


async def test_the_same_answer_again_finishes_what_a_dead_process_began(tmp_path: Path) -> None:
    async with waiting(tmp_path / "runs.db") as (sent, client, run):
        links, item = sent.app.answer_links, sent.items[0]
        assert links is not None
        path = sent.link("ann")
        claim = links.read(path.removeprefix("/answer/"))
        assert isinstance(item.pending, PendingApproval)
        # A process has died after this, and before it gave the answer.
        async with open_journal(str(tmp_path / "runs.db")) as journal:
            await use_link(claim, item.pending.approve(by="ann"), journal)
        status, _ = await send(client, path, answer="deny")
        assert (status, len(await inbox(sent))) == (410, 1)
        status, _ = await send(client, path, answer="approve")
        await (await sent.app.run(run)).result(60)
        assert (status, sent.paid) == (200, [5])


@pytest.mark.parametrize("name", ["memory:", "runs.db"])
async def test_what_was_used_goes_with_the_run(tmp_path: Path, name: str) -> None:
    place = name if name == "memory:" else str(tmp_path / name)
    async with open_journal(place) as opened:
        journal: Any = opened
        sent = make(journal)
        run = await sent.app.submit("desk", "Pay.")
        await sent.app.activate(run.id)
        links, item = sent.app.answer_links, sent.items[0]
        assert links is not None and isinstance(item.pending, PendingApproval)
        token = re.sub(".*/", "", item.links[0].url)
        await use_link(links.read(token), item.pending.approve(by="ann"), journal)
        assert await journal.value(f"links {run.id}")
        await run.cancel()
        await journal.remove_runs([run.id])
        assert await journal.value(f"links {run.id}") == ""


async def test_a_site_without_links_has_no_such_page(tmp_path: Path) -> None:
    app = App([Agent("desk", model=ScriptedModel([]))], journal=str(tmp_path / "runs.db"))
    async with served(app) as client:
        assert (await client.get("/answer/x.y"))[0] == 404


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"key": "short"}, "at least 32 characters"),
        ({"url": "ops.example"}, "give an address that begins with https://"),
        ({"users": "ann"}, "a list of user ids"),
        ({"life": timedelta()}, "give a timedelta above 0"),
    ],
)
def test_wrong_links_are_misuse(given: dict[str, Any], says: str) -> None:
    options: dict[str, Any] = {"key": KEY, "url": "https://a.example", "users": ["ann"], **given}
    with pytest.raises(Misuse, match=says):
        AnswerLinks(**options)


async def test_the_function_of_users_chooses_by_the_item(tmp_path: Path) -> None:
    def users(item: InboxItem) -> list[str]:
        return ["boss"] if item.agent_id == "desk" else []

    async with waiting(tmp_path / "runs.db", users=users) as (sent, _, _run):
        assert [one.user for one in sent.items[0].links] == ["boss"]
