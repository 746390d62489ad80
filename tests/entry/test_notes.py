"""What people note of a run, in each journal: kept beside the log, exported and removed with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    App,
    Misuse,
    PendingApproval,
    PendingQuestion,
    Request,
    ScriptedModel,
    ToolCall,
    attach,
    fork,
    note,
    open_journal,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.journal.shared import InboxItem
from upshot.journal.sqlite.salvage import salvage_file


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncGenerator[Any]:
    where: Any = {"memory": "memory:", "sqlite": tmp_path / "runs.db"}.get(request.param)
    if where is None:
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


@tool(effect="write", approval=True)
def send(to: str) -> str:
    """Send."""
    return "sent"


def sender() -> Agent[Any]:
    calls = [ToolCall("a", "send", {"to": "ann"}), ToolCall("b", "send", {"to": "bob"})]
    return Agent("sender", model=ScriptedModel([calls, "Sent."]), tools=[send])


def talker() -> Agent[Any]:
    return Agent("talker", model=ScriptedModel(["Hm."]))


async def noted(run_id: str, journal: Any) -> list[tuple[str, Any, str]]:
    async with attach(run_id, journal=journal) as handle:
        return [(one.name, one.value, one.by) for one in await handle.notes()]


async def test_the_last_note_of_a_name_and_a_person_stands(journal: Any) -> None:
    run_id = (await run(talker(), Request("?"), journal=journal)).run_id
    before = [event async for event in journal.events(run_id)]
    await note(run_id, "thumb", "down", by="ann", journal=journal)
    await App([talker()], journal=journal).note(run_id, "labels", ["x", {"y": 1}], by="bob")
    await note(run_id, "thumb", "up", by="bob", journal=journal)
    await note(run_id, "thumb", "up", by="ann", journal=journal)
    expected = [("labels", ["x", {"y": 1}], "bob"), ("thumb", "up", "bob"), ("thumb", "up", "ann")]
    assert await noted(run_id, journal) == expected
    await note(run_id, "thumb", None, by="bob", journal=journal)
    assert await noted(run_id, journal) == [expected[0], expected[2]]
    assert [event async for event in journal.events(run_id)] == before


async def test_notes_go_with_the_run(journal: Any, tmp_path: Path) -> None:
    run_id = (await run(talker(), Request("?"), journal=journal)).run_id
    await note(run_id, "thumb", "up", by="ann", journal=journal)
    forked = await fork(run_id, at=2, journal=journal)
    assert await noted(forked, journal) == []
    await journal.export(run_id, str(tmp_path / "run.jsonl"))
    other = MemoryJournal()
    await other.import_(str(tmp_path / "run.jsonl"))
    assert await other.notes(run_id) == await journal.notes(run_id) != []
    await journal.remove_runs([run_id])
    await journal.import_(str(tmp_path / "run.jsonl"))
    assert await noted(run_id, journal) == [("thumb", "up", "ann")]
    await journal.remove_runs([run_id])
    assert await journal.notes(run_id) == []


async def test_notes_are_salvaged(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    run_id = (await run(talker(), "?", journal=old)).run_id
    await note(run_id, "thumb", "up", by="ann", journal=old)
    salvage_file(str(old), str(new))
    async with open_journal(new) as journal:
        assert await noted(run_id, journal) == [("thumb", "up", "ann")]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"run_id": "none"}, "the journal has no run 'none'"),
        ({"name": ""}, "name has 0 characters: give from 1 to 100"),
        ({"value": "x" * 10_000}, "value is 10002 bytes of JSON: give at most 10000"),
        ({"value": object()}, "value cannot be JSON"),
        ({"by": 7}, "by must be a string"),
    ],
    ids=["run", "name", "long", "object", "by"],
)
async def test_what_cannot_be_noted_is_refused(given: dict[str, Any], told: str) -> None:
    journal = MemoryJournal()
    await run(talker(), Request("?", run_id="r"), journal=journal)
    right: dict[str, Any] = {"run_id": "r", "name": "thumb", "value": "up"}
    with pytest.raises(Misuse, match=told):
        await note(**right | given, journal=journal)


async def test_what_a_user_puts_off_is_hidden_from_that_user_until_then(journal: Any) -> None:
    app = App([sender()], journal=journal)
    first = await run(sender(), "?", journal=journal)
    second = await run(sender(), "?", journal=journal)
    soon = datetime.now(UTC) + timedelta(hours=1)
    for item in second.pending:
        await app.later(second.run_id, item.id, until=soon, by="ann")
    await app.later(first.run_id, first.pending[0].id, until=soon, by="ann")

    async def shown(user: str, **filters: Any) -> list[tuple[str, str]]:
        return [(one.run_id, one.pending.id) for one in await app.inbox(user=user, **filters)]

    # Full pages, though the newest run is left out.
    assert await shown("ann", limit=1) == [(first.run_id, first.pending[1].id)]
    assert len(await shown("bob")) == len(await shown("")) == 4
    await app.later(first.run_id, first.pending[0].id, until=None, by="ann")
    assert len(await shown("ann")) == 2
    # It is over as soon as its moment is.
    past = datetime.now(UTC) - timedelta(seconds=1)
    await app.later(second.run_id, second.pending[0].id, until=past, by="ann")
    assert len(await shown("ann", conversation="")) == 3


async def test_what_cannot_be_put_off_is_refused(journal: Any) -> None:
    app = App([sender()], journal=journal)
    parked = await run(sender(), "?", journal=journal)
    soon = datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(Misuse, match="does not wait for 'none': it waits for a, b"):
        await app.later(parked.run_id, "none", until=soon, by="ann")
    with pytest.raises(Misuse, match="until has no time zone"):
        await app.later(parked.run_id, "a", until=soon.replace(tzinfo=None), by="ann")
    with pytest.raises(Misuse, match="by is empty"):
        await app.later(parked.run_id, "a", until=soon, by="")


async def test_an_item_is_assigned_to_somebody_who_finds_it(journal: Any) -> None:
    app = App([sender()], journal=journal)
    first = await run(sender(), "?", journal=journal)
    second = await run(sender(), "?", journal=journal)
    await app.assign(first.run_id, "a", to="ann", by="sam")
    await app.assign(second.run_id, "b", to="bob", by="sam")
    [item] = await app.inbox(assignee="ann", limit=1)
    assert (item.run_id, item.pending.id) == (first.run_id, "a")
    assert item.assigned is not None
    assert (item.assigned.to, item.assigned.by) == ("ann", "sam")
    given = [one.assigned and one.assigned.to for one in await app.inbox()]
    assert given == ["ann", None, None, "bob"]
    await app.assign(first.run_id, "a", to="", by="sam")
    assert await app.inbox(assignee="ann") == ()
    with pytest.raises(Misuse, match="does not wait for 'none'"):
        await app.assign(first.run_id, "none", to="ann", by="sam")


async def test_what_was_answered_is_assigned_to_nobody_any_more(journal: Any) -> None:
    app = App([sender()], journal=journal)
    first = await run(sender(), "?", journal=journal)
    await app.assign(first.run_id, "a", to="ann", by="sam")
    waiting: Any = first.pending[0]
    await app.answer(first.run_id, waiting.deny("No."))
    await app.assign(first.run_id, "b", to="bob", by="sam")
    kept = await journal.value("assigned")
    assert "bob" in kept and "ann" not in kept


def test_an_item_says_what_happens_where_nobody_answers_in_time() -> None:
    soon = datetime.now(UTC)
    for pending, then in (
        (PendingApproval(call_id="a", tool_name="t", expires_at=soon), "asked_anew"),
        (PendingQuestion(id="q", question="?", expires_at=soon), "goes_on"),
        (PendingQuestion(id="q", question="?"), ""),
    ):
        item = InboxItem(run_id="r", agent_id="a", pending=pending)
        assert (item.due, item.then) == (pending.expires_at, then)
