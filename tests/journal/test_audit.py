"""The audit and the web sessions of each journal: one row an act, with it or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import (
    Agent,
    Misuse,
    Outdated,
    PendingApproval,
    ScriptedModel,
    Settlement,
    Taken,
    ToolCall,
    answer,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.effects.settling import settle
from upshot.errors import JournalError
from upshot.journal.audit import (
    Actor,
    WebSession,
    acting,
    condition_of,
    needs_audit,
    row_of,
)
from upshot.journal.postgres.postgres_journal import PostgresJournal
from upshot.journal.sqlite.salvage import salvage_file
from upshot.journal.sqlite.tables import USER_VERSION
from upshot.journal.watching import watch

AT = datetime(2026, 11, 29, 8, tzinfo=UTC)
SECRET = "hunter2-hunter2"
PAID: list[str] = []


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    where = "memory:"
    if request.param == "sqlite":
        where = str(tmp_path / "j.db")
    elif request.param == "postgres":
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


@tool(effect="write", approval=True)
def refund(order: int, amount: int, code: str = "") -> str:
    """Pay money back."""
    PAID.append(code)
    return "paid"


@tool(effect="write", once="order")
def mail(order: int) -> str:
    """Send a mail; nobody knows whether it is sent."""
    raise TimeoutError("the server did not answer")


def desk(*amounts: int) -> Agent[Any]:
    calls = [
        ToolCall(f"r{amount}", "refund", {"order": 7, "amount": amount, "code": SECRET})
        for amount in amounts
    ]
    return Agent("desk", model=ScriptedModel([[*calls], "Done."]), tools=[refund, mail])


async def waiting(journal: Any, *amounts: int, agent: Agent[Any] | None = None) -> Any:
    attributes = {"user": "ann", "tenant": "acme"}
    return await run(
        agent or desk(*amounts),
        "Refund it.",
        journal=journal,
        attributes=attributes,
        conversation="c-1",
        secrets=[SECRET],
    )


def facts(rows: Any) -> list[tuple[str, str, str, str]]:
    return [(row.user, row.action, row.subject, row.tool) for row in rows]


async def test_an_answer_has_its_row_with_what_was_shown(journal: Any) -> None:
    result = await waiting(journal, 120, 80)
    first, second = result.pending
    assert isinstance(first, PendingApproval) and isinstance(second, PendingApproval)
    await answer(result.run_id, [first.approve(by="sue")], journal=journal)
    with acting(Actor("sam", "acme", "console", "s1", "10.0.0.7")):
        denied = second.deny("too late", by="sam")
        await answer(result.run_id, [denied], journal=journal, secrets=[SECRET])
        # A repeated answer changes nothing.
        await answer(result.run_id, [denied], journal=journal, secrets=[SECRET])
    denial, approval = (await needs_audit(journal).audit()).rows
    assert facts([approval, denial]) == [
        ("sue", "approve", "r120", "refund"),
        ("sam", "deny", "r80", "refund"),
    ]
    assert (approval.kind, approval.door, approval.digest) == ("answered", "api", first.digest)
    assert approval.arguments == dict(first.arguments)
    assert (approval.arguments or {})["amount"] == 120 and SECRET not in str(approval)
    assert (denial.door, denial.session, denial.address) == ("console", "s1", "10.0.0.7")
    assert (denial.tenant, denial.run_tenant, denial.detail) == ("acme", "acme", "too late")
    assert approval.run_id == result.run_id and approval.no < denial.no


async def test_answers_that_come_with_a_resume_have_rows_too(journal: Any) -> None:
    result = await waiting(journal, 120)
    edited = result.pending[0].edit({"order": 7, "amount": 100}, by="sue")
    agent = Agent("desk", model=ScriptedModel(["Done."]), tools=[refund, mail])
    await resume(result.run_id, agent, answers=[edited], journal=journal, secrets=[SECRET])
    (row,) = (await journal.audit()).rows
    assert facts([row]) == [("sue", "edit", "r120", "refund")]
    assert row.arguments == {"order": 7, "amount": 100}


@pytest.mark.parametrize("known", [True, False])
async def test_no_row_has_a_secret_that_a_user_typed(journal: Any, known: bool) -> None:
    result = await waiting(journal, 120, 80)
    first, second = result.pending
    assert isinstance(first, PendingApproval) and isinstance(second, PendingApproval)
    edit = first.edit({"order": 7, "amount": 100, "code": SECRET}, by="sue")
    deny = second.deny(f"not with {SECRET}", by="sue")
    secrets = [SECRET] if known else []
    for one in (edit, deny, edit):
        (taken,) = await answer(result.run_id, [one], journal=journal, secrets=secrets)
        assert isinstance(taken, Taken)
    (late,) = await answer(
        result.run_id, [first.approve(by="sam")], journal=journal, secrets=secrets
    )
    assert isinstance(late, Outdated) and SECRET not in str(late)
    denial, edition = (await journal.audit()).rows
    assert (edition.arguments["order"], edition.arguments["code"]) == (7, "***")
    assert edition.arguments["amount"] == (100 if known else "***")
    assert denial.detail == ("not with ***" if known else "***")
    assert (SECRET in str(await journal.placed_answers(result.run_id))) is not known
    PAID.clear()
    agent = Agent("desk", model=ScriptedModel(["Done."]), tools=[refund, mail])
    await resume(result.run_id, agent, journal=journal, secrets=[SECRET])
    assert PAID == [SECRET]


async def test_a_settlement_has_its_row_once(journal: Any) -> None:
    agent = Agent("desk", model=ScriptedModel([ToolCall("m", "mail", {"order": 7}), "Done."]))
    await run(agent, "Mail.", journal=journal, tools=[mail], attributes={"user": "ann"})
    (effect,) = await journal.effects(state="unknown")
    for applied, by in ((True, "sue"), (False, "sam")):
        await settle(journal, effect.id, applied=applied, by=by, note="re_123")
    (row,) = (await journal.audit()).rows
    assert facts([row]) == [("sue", "settle", effect.id, "mail")]
    assert (row.kind, row.detail, row.run_id) == ("settled", "applied: re_123", effect.run_id)


async def test_a_settlement_may_name_its_effect_as_text(journal: Any) -> None:
    agent = Agent("desk", model=ScriptedModel([ToolCall("m", "mail", {"order": 7}), "Done."]))
    await run(agent, "Mail.", journal=journal, tools=[mail], attributes={"user": "ann"})
    (effect,) = await journal.effects(state="unknown")
    await journal.settle_effect(effect.id, Settlement(effect="none", by="sue"))
    (row,) = (await journal.audit()).rows
    assert (row.action, row.detail) == ("settle", "none")
    unknown: Any = "done"
    with pytest.raises(Misuse, match="there is no effect 'done': give one of read, write"):
        Settlement(effect=unknown)


async def test_who_approved_refunds_over_100_is_one_question(journal: Any) -> None:
    result = await waiting(journal, 80, 120, 250)
    for asked, by in zip(result.pending, ("sue", "sam", "sue"), strict=True):
        await answer(result.run_id, [asked.approve(by=by)], journal=journal)
    found = await journal.audit(tool="refund", action="approve", argument="amount>100")
    assert [(row.user, row.arguments["amount"]) for row in found.rows] == [
        ("sue", 250),
        ("sam", 120),
    ]
    assert found.next is None


async def test_a_call_that_passes_on_a_standing_approval_has_its_row(journal: Any) -> None:
    def spending() -> Agent[Any]:
        calls = [
            ToolCall(f"r{amount}", "refund", {"order": 7, "amount": amount, "code": SECRET})
            for amount in (5, 9000)
        ]
        return Agent("desk", model=ScriptedModel([*calls, "Done."]), tools=[refund])

    result = await run(spending(), "Refund.", journal=journal, secrets=[SECRET])
    (asked,) = result.pending
    assert isinstance(asked, PendingApproval)
    yes = asked.approve(by="sue", always="tool")
    more: Any = {"journal": journal, "secrets": [SECRET]}
    await resume(result.run_id, spending(), answers=[yes], **more)
    (row,) = (await journal.audit(tool="refund", argument="amount>100")).rows
    assert facts([row]) == [("sue", "approve", "r9000", "refund")]
    assert (row.detail, row.arguments["code"]) == ("standing approval: tool", "***")
    # An answer has one row.
    (first,) = (await journal.audit(subject="r5")).rows
    assert first.detail == "always: tool"


async def test_an_approval_by_code_has_its_row(journal: Any) -> None:
    result = await run(desk(120), "Refund.", journal=journal, approve=lambda _: True)
    (row,) = (await journal.audit(argument="amount>100")).rows
    assert facts([row]) == [("approve", "approve", "r120", "refund")]
    assert (row.kind, row.detail, row.run_id) == ("answered", "by code", result.run_id)


async def test_erasing_leaves_who_when_and_what_but_no_content(journal: Any) -> None:
    result = await waiting(journal, 120)
    denied = result.pending[0].deny("Ann asked for it", by="sue")
    agent = Agent("desk", model=ScriptedModel(["Done."]), tools=[refund, mail])
    await resume(result.run_id, agent, answers=[denied], journal=journal, secrets=[SECRET])
    with acting(Actor("dora", "", "cli")):
        await journal.redact(conversation="c-1")
    redaction, row = (await journal.audit()).rows
    assert (row.user, row.action, row.tool) == ("sue", "deny", "refund")
    assert row.digest == denied.digest
    assert (row.arguments, row.detail) == (None, "")
    assert (redaction.user, redaction.action, redaction.subject) == ("dora", "redact", "c-1")
    assert (redaction.door, redaction.detail) == ("cli", "1 runs")


async def test_removing_runs_leaves_their_rows_without_content(journal: Any) -> None:
    result = await waiting(journal, 120)
    await answer(result.run_id, [result.pending[0].approve(by="sue")], journal=journal)
    await journal.remove_runs([result.run_id], dry_run=True)
    assert (await journal.audit()).rows[0].arguments is not None
    with acting(Actor("dora", "", "cli")):
        await journal.remove_runs([result.run_id])
    removal, row = (await journal.audit()).rows
    assert (row.user, row.run_id, row.arguments) == ("sue", result.run_id, None)
    assert (removal.user, removal.action) == ("dora", "prune")
    assert removal.detail == f"1 runs: {result.run_id}"


async def test_a_marked_row_is_added_once(journal: Any) -> None:
    for mark in ("ann run-1 8", "ann run-1 8", "ann run-1 9", "", ""):
        await journal.add_audit(row_of("see", user="ann", run_id="run-1"), once=mark)
    assert len((await journal.audit()).rows) == 4


async def test_rows_are_found_by_each_filter_and_in_pages(journal: Any) -> None:
    users = [("ann", "acme"), ("ben", ""), ("cid", "blue")]
    for number in range(9):
        user, tenant = users[number % 3]
        with acting(Actor(user, tenant)):
            await journal.add_audit(
                row_of("cancel" if number % 2 else "see", run_id=f"r{number}", subject="x\0y")
            )
    everything = (await journal.audit()).rows
    assert [row.run_id for row in everything] == [f"r{number}" for number in range(8, -1, -1)]
    wanted: list[tuple[dict[str, Any], list[int]]] = [
        ({"user": "ben"}, [7, 4, 1]),
        ({"tenant": "blue"}, [8, 5, 2]),
        ({"kind": "saw", "user": "ann"}, [6, 0]),
        ({"action": "cancel"}, [7, 5, 3, 1]),
        ({"run_id": "r4"}, [4]),
        ({"since": everything[2].at, "until": everything[0].at}, [7, 6]),
        ({"until": datetime(2000, 1, 1, tzinfo=UTC)}, []),
    ]
    for filters, numbers in wanted:
        found = (await journal.audit(**filters)).rows
        assert [row.run_id for row in found] == [f"r{number}" for number in numbers], filters
    first = await journal.audit(limit=4)
    second = await journal.audit(limit=4, before=first.next)
    last = await journal.audit(limit=4, before=second.next)
    assert (*first.rows, *second.rows, *last.rows) == everything
    assert last.next is None


async def test_old_rows_are_removed_and_that_is_a_row(journal: Any) -> None:
    await journal.add_audit(row_of("see", user="ann", run_id="r"))
    with acting(Actor("dora", "", "cli")):
        assert await journal.remove_audit(datetime.now(UTC) + timedelta(seconds=9)) == 1
    (row,) = (await journal.audit()).rows
    assert (row.user, row.action) == ("dora", "remove_audit")
    assert row.detail.startswith("1 rows before 20")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 5_000}, "limit"),
        ({"kind": "looked"}, "give one of saw, answered, settled, operated, signed"),
        ({"since": AT.replace(tzinfo=None)}, "since .* give an aware moment"),
        ({"argument": "amount"}, "give a condition, such as amount>100"),
        ({"argument": "amount>many"}, "> compares numbers"),
    ],
    ids=str,
)
async def test_wrong_filters_are_refused(filters: dict[str, Any], message: str) -> None:
    async with open_journal("memory:") as journal:
        with pytest.raises(Misuse, match=message):
            await needs_audit(journal).audit(**filters)


@pytest.mark.parametrize(
    ("condition", "arguments", "holds"),
    [
        ("amount>100", {"amount": 120}, True),
        ("amount > 100", {"amount": "120.50"}, True),
        ("amount>100", {"amount": 100}, False),
        ("amount>=100", {"amount": 100.0}, True),
        ("amount<100", {"amount": True}, False),
        ("amount<100", {}, False),
        ("amount!=100", {}, False),
        ("amount>100", None, False),
        ("order=7", {"order": "7"}, True),
        ("order=7.0", {"order": 7}, True),
        ("to=ann=b", {"to": "ann=b"}, True),
        ("to!=ann", {"to": "ben"}, True),
        ("ok=true", {"ok": True}, True),
        ("customer.id=7", {"customer": {"id": 7}}, True),
        ("customer.id=7", {"customer": [7]}, False),
        ("n>1", {"n": float("1e300")}, True),
    ],
)
def test_a_condition_compares_arguments(
    condition: str, arguments: dict[str, Any] | None, holds: bool
) -> None:
    assert condition_of(condition)(arguments) is holds


@given(
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=5), st.none() | st.floats() | st.text(), max_size=3),
)
def test_a_condition_is_refused_or_compares(text: str, arguments: dict[str, Any]) -> None:
    try:
        meets = condition_of(text)
    except Misuse:
        return
    assert meets(arguments) in (True, False)


def session(id: str, user: str = "ann", **facts: Any) -> WebSession:
    given: dict[str, Any] = {"until": AT + timedelta(hours=12), "seen_at": AT, **facts}
    return WebSession(id=id, user=user, started_at=AT, **given)


async def test_a_session_is_found_by_its_key_until_it_is_ended(journal: Any) -> None:
    await journal.open_session("k1", session("s1", subject="https://op 1"))
    await journal.touch_session("k1", AT + timedelta(minutes=5))
    await journal.touch_session("k1", AT)
    found = await journal.session("k1")
    assert (found.id, found.user, found.seen_at) == ("s1", "ann", AT + timedelta(minutes=5))
    assert await journal.session("s1") is None
    with watch(journal, "sessions") as changes:
        row = row_of("end_session", user="sam")
        assert [one.id for one in await journal.end_sessions(row, id="s1")] == ["s1"]
        assert await changes.changed(5)
    assert await journal.session("k1") is None
    assert await journal.end_sessions(row, id="s1") == []
    ended, began = (await journal.audit()).rows
    assert (began.action, began.subject) == ("sign_in", "s1")
    assert (ended.action, ended.subject, ended.detail) == ("end_session", "s1", "of ann")


async def test_sessions_are_ended_by_account_user_tenant_and_provider(journal: Any) -> None:
    for number, (user, tenant) in enumerate([("ann", ""), ("ann", ""), ("ann", "acme"), ("b", "")]):
        one = session(
            f"s{number}", user, tenant=tenant, subject=f"op {user}", provider_session=f"p{number}"
        )
        await journal.open_session(f"k{number}", one)
    assert len(await journal.sessions()) == 4
    assert {one.id for one in await journal.sessions(user="ann")} == {"s0", "s1"}
    assert {one.id for one in await journal.sessions(tenant="acme")} == {"s2"}
    row = row_of("sign_out")
    for filters, gone in [
        ({"provider_session": "p0", "subject": "op ann"}, {"s0"}),
        ({"user": "ann"}, {"s1"}),
        ({"subject": "op ann"}, {"s2"}),
        ({}, {"s3"}),
    ]:
        assert {one.id for one in await journal.end_sessions(row, **filters)} == gone


async def test_a_new_sign_in_changes_the_groups_of_the_account(journal: Any) -> None:
    await journal.open_session("k1", session("s1", subject="op 1", groups=("ops",)))
    await journal.open_session("k2", session("s2", subject="op 2", groups=("ops",)))
    with watch(journal, "sessions") as changes:
        await journal.open_session("k3", session("s3", subject="op 1", groups=()))
        assert await changes.changed(5)
    assert [(await journal.session(key)).groups for key in ("k1", "k2", "k3")] == [
        (),
        ("ops",),
        (),
    ]


async def test_sessions_that_are_over_are_dropped(journal: Any) -> None:
    await journal.open_session("k1", session("s1"))
    await journal.open_session("k2", session("s2", until=AT))
    await journal.open_session("k3", session("s3", seen_at=AT - timedelta(hours=3)))
    await journal.drop_sessions(unseen_since=AT - timedelta(hours=2), now=AT)
    assert [one.id for one in await journal.sessions()] == ["s1"]


async def test_a_file_of_before_gets_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with open_journal(path) as journal:
        await waiting(journal, 120)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE audit")
        connection.execute("DROP TABLE web_sessions")
        connection.execute("DROP TRIGGER answers_are_audited")
        for name in ("ends_are_counted", "removals_are_counted"):
            connection.execute(f"DROP TRIGGER {name}")
            guard = f"CREATE TRIGGER {name} BEFORE DELETE ON runs BEGIN SELECT of_version_3(); END"
            connection.execute(guard)
        connection.execute(f"PRAGMA user_version = {USER_VERSION - 1}")
    async with open_journal(path) as journal:
        (run_,) = await journal.runs()
        await needs_audit(journal).add_audit(row_of("see", user="ann", run_id=run_.run_id))
        (row,) = (await needs_audit(journal).audit()).rows
        assert (row.user, row.run_tenant) == ("ann", "acme")
        await journal.remove_runs([run_.run_id])


async def test_code_that_has_older_tables_open_can_store_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with open_journal(path):
        pass
    with closing(sqlite3.connect(path)) as old:
        needed = "no such function: this_journal_needs_an_upshot_that_knows_tables_of_version_4"
        with pytest.raises(sqlite3.OperationalError, match=needed):
            old.execute("INSERT INTO wishes VALUES ('r', 'i', 'b')")


async def test_tables_without_an_audit_are_upgraded_and_not_used(postgres: Any) -> None:
    database = postgres.new_journal()
    url = postgres.url(database)
    async with aclosing(await PostgresJournal.open(url)):
        pass
    postgres.do("DROP TABLE audit, web_sessions", database)
    postgres.do("UPDATE journal SET version = 3", database)
    with pytest.raises(JournalError, match=r"of version 3, .* run `upshot journal init URL` once"):
        await PostgresJournal.open(url)
    async with aclosing(await PostgresJournal.open(url, upgrade=True)) as journal:
        await journal.add_audit(row_of("see", user="ann"))
        assert len((await journal.audit()).rows) == 1


async def test_salvage_keeps_the_audit(tmp_path: Path) -> None:
    path, saved = str(tmp_path / "j.db"), str(tmp_path / "saved.db")
    async with open_journal(path) as journal:
        result = await waiting(journal, 120)
        await answer(result.run_id, [result.pending[0].approve(by="sue")], journal=path)
        await needs_audit(journal).add_audit(row_of("see", user="ann"), once="a mark")
        before = await needs_audit(journal).audit()
    salvage_file(path, saved)
    async with open_journal(saved) as journal:
        assert await needs_audit(journal).audit() == before
