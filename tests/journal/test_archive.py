"""Ended runs move into an archive; a process that is killed anywhere loses none."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from upshot import (
    Agent,
    Effect,
    JournalError,
    Misuse,
    Request,
    ScriptedModel,
    ToolCall,
    answer,
    note,
    resume,
    run,
    tool,
)
from upshot.contract.protocols import Note
from upshot.contract.tool_calls import Settlement
from upshot.entry.run_handle import RunHandle
from upshot.journal import open_journal
from upshot.journal.archive import ArchivedRuns, ArchiveFiles, archive_runs, restore_file
from upshot.journal.shared import Stop

LATER = datetime.now(UTC) + timedelta(days=1)


@tool(effect="read")
def look() -> str:
    """Look."""
    return "x" * 50_000


@tool(effect="write", approval=True)
def send() -> str:
    """Send."""
    return "sent"


def agent(*replies: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([*replies]), tools=[look, send])


async def fill(where: str, count: int = 3) -> list[str]:
    """Runs that ended, each with a stored output and a note, and one that waits; their ids."""
    found: list[str] = []
    async with open_journal(where) as journal:
        for _ in range(count):
            ended = await run(agent(ToolCall("l", "look"), "Done."), "?", journal=journal)
            await note(ended.run_id, "thumb", "down", by="ann", journal=journal)
            found.append(ended.run_id)
        await run(agent(ToolCall("s", "send")), "?", journal=journal)
    return found


async def archived(where: str, place: str, **options: Any) -> ArchivedRuns:
    async with open_journal(where) as journal:
        options = {"ended_before": LATER, "keep": {}, **options}
        return await archive_runs(journal, place, **options)


async def exported(where: str, run_id: str, path: Path) -> bytes:
    async with open_journal(where) as journal:
        await journal.export(run_id, path)
    return path.read_bytes()


async def events_of(where: str, run_id: str) -> list[Any]:
    async with open_journal(where) as journal:
        return [event async for event in journal.events(run_id)]


async def ids_in(where: str) -> set[str]:
    async with open_journal(where) as journal:
        return {one.run_id for one in await journal.runs("ended")}


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"folder": str(tmp_path / "kept"), "memory": f"memory://{tmp_path.name}"}[request.param]


async def test_a_run_is_in_the_archive_as_it_was_in_the_journal(tmp_path: Path, place: str) -> None:
    where = str(tmp_path / "runs.db")
    run_ids = await fill(where)
    sizes = [len(await exported(where, one, tmp_path / "one")) for one in run_ids]
    before = [await events_of(where, one) for one in run_ids]
    found = await archived(where, place)
    assert set(found.run_ids) == set(run_ids)
    assert found.size_bytes == sum(sizes)
    assert await ids_in(where) == set()
    assert await ids_in(f"archive:{place}") == set(run_ids)
    assert [await events_of(f"archive:{place}", one) for one in run_ids] == before
    async with open_journal(f"archive:{place}") as archive:
        result = await RunHandle(run_ids[0], archive).result(0)
        assert result is not None and result.content == "Done."
        (kept,) = await archive.notes(run_ids[0])
        assert (kept.name, kept.value) == ("thumb", "down")


async def test_a_dry_run_moves_nothing(tmp_path: Path) -> None:
    where = str(tmp_path / "runs.db")
    run_ids = await fill(where)
    found = await archived(where, str(tmp_path / "kept"), dry_run=True)
    assert set(found.run_ids) == set(run_ids) == await ids_in(where)
    assert not (tmp_path / "kept").exists()


async def test_only_the_file_of_a_run_that_is_read_is_loaded(tmp_path: Path) -> None:
    where, place = str(tmp_path / "runs.db"), tmp_path / "kept"
    first, second, _ = await fill(where)
    await archived(where, str(place))
    (damaged,) = place.glob(f"runs/{second}*")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    async with open_journal(f"archive:{place}") as archive:
        assert [one.run_id for one in await archive.runs(run_id=first)] == [first]
        assert [one.run_id for one in await archive.runs(prefix=first[:-1])] == [first]
        with pytest.raises(JournalError, match="line"):
            await archive.runs()


async def test_an_archive_is_only_read(tmp_path: Path) -> None:
    where, place = str(tmp_path / "runs.db"), str(tmp_path / "kept")
    run_ids = await fill(where, 1)
    await archived(where, place)
    with pytest.raises(Misuse, match="is an archive, which is only read"):
        await run(agent("Done."), "?", journal=f"archive:{place}")
    async with open_journal(f"archive:{place}") as archive:
        with pytest.raises(Misuse, match="only read"):
            await archive.claim(run_ids[0])


async def _two_with_one_id(tmp_path: Path) -> tuple[str, str]:
    """Archive a run in a place, and run another with its id; returns journal and place."""
    where, place = str(tmp_path / "runs.db"), str(tmp_path / "kept")
    for words in ("FIRST", "SECOND"):
        async with open_journal(where) as journal:
            await run(agent(words), Request("?", run_id="order-7"), journal=journal)
            if words == "FIRST":
                await archive_runs(journal, place, ended_before=LATER, keep={})
    return where, place


async def test_a_run_with_the_id_of_an_archived_one_stays(tmp_path: Path) -> None:
    where, place = await _two_with_one_id(tmp_path)
    found = await archived(where, place)
    assert (found.run_ids, found.conflicts) == ((), ("order-7",))
    assert "has another run order-7" in found.kept["order-7"]
    async with open_journal(f"archive:{place}") as archive, open_journal(where) as journal:
        first = await RunHandle("order-7", archive).result(0)
        second = await RunHandle("order-7", journal).result(0)
    assert first is not None and first.content == "FIRST"
    assert second is not None and second.content == "SECOND"


async def test_a_run_that_came_back_and_was_noted_is_archived_again(tmp_path: Path) -> None:
    where, place = str(tmp_path / "runs.db"), str(tmp_path / "kept")
    (run_id,) = await fill(where, 1)
    await archived(where, place)
    files = ArchiveFiles(place)
    async with open_journal(where) as journal:
        await restore_file(files, files.path_of(run_id), journal)
        await note(run_id, "thumb", "up", by="ann", journal=journal)
    assert (await archived(where, place)).run_ids == (run_id,)
    async with open_journal(f"archive:{place}") as archive:
        assert [one.value for one in await archive.notes(run_id)] == ["up"]


@pytest.fixture(params=["memory", "file", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    where = {"memory": "memory:", "file": str(tmp_path / "j.db")}.get(request.param)
    if where is None:
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


async def test_a_run_that_changes_while_it_is_archived_stays(journal: Any) -> None:
    noted = (await run(agent("Done."), "?", journal=journal)).run_id
    redacted = (await run(agent("Done."), "?", journal=journal, conversation="c")).run_id
    same, late = [(await run(agent("Done."), "?", journal=journal)).run_id for _ in range(2)]
    found = {one: await journal.fingerprint(one) for one in (noted, redacted, same)}
    await note(noted, "thumb", "down", by="ann", journal=journal)
    await journal.redact(conversation="c", by="dpo")
    removed = await journal.remove_runs(ended_before=LATER, archived=found)
    changed = "it changed while it was archived"
    assert removed.run_ids == (same,)
    assert removed.kept == {
        noted: changed,
        redacted: changed,
        late: "it is not in the archive",
    }


async def test_a_note_on_a_run_that_is_gone_is_refused(journal: Any) -> None:
    run_id = (await run(agent("Done."), "?", journal=journal)).run_id
    await journal.remove_runs([run_id])
    late = Note(run_id=run_id, name="thumb", value="down", by="ann", at=LATER)
    with pytest.raises(Misuse, match=f"the journal has no run '{run_id}'"):
        await journal.keep_note(late)
    assert await journal.notes(run_id) == []


async def test_archiving_keeps_the_arguments_of_the_audit(journal: Any, tmp_path: Path) -> None:
    parked: Any = await run(agent(ToolCall("s", "send"), "Done."), "?", journal=journal)
    answers = [one.approve(by="sue") for one in parked.pending]
    await answer(parked.run_id, answers, journal=journal)
    again = agent(ToolCall("s", "send"), "Done.")
    await resume(parked.run_id, again, journal=journal)
    (before,) = (await journal.audit(action="approve")).rows
    assert before.arguments == {}
    place = str(tmp_path / "kept")
    found = await archive_runs(journal, place, ended_before=LATER, keep={})
    assert found.run_ids == (parked.run_id,)
    await archive_runs(journal, place, ended_before=LATER, keep={})
    assert (await journal.audit(action="approve")).rows == (before,)
    # The second time there was nothing to do.
    (act,) = (await journal.audit(action="archive")).rows
    assert act.detail.startswith("1 runs, which ended before")
    assert (await journal.audit(action="prune")).rows == ()


async def test_a_run_with_an_unknown_effect_is_not_archived(journal: Any, tmp_path: Path) -> None:
    @tool(effect="write")
    def pay() -> str:
        """Pay."""
        raise TimeoutError("?")

    model = ScriptedModel([ToolCall("p", "pay"), "Done."])
    ended = await run(Agent("desk", model=model, tools=[pay]), "?", journal=journal)
    (effect,) = await journal.effects(state="unknown")
    found = await archive_runs(journal, str(tmp_path / "kept"), ended_before=LATER, keep={})
    assert found.run_ids == ()
    assert found.kept == {ended.run_id: f"effect {effect.id} of it is unknown: settle it first"}


async def _archived_turns(journal: Any, place: str) -> list[str]:
    """Archive a conversation of two turns; returns their runs."""
    turns = [
        (await run(agent(words), words, journal=journal, conversation="c")).run_id
        for words in ("one", "two")
    ]
    assert (await archive_runs(journal, place, ended_before=LATER, keep={})).run_ids
    return turns


@pytest.mark.parametrize("first_read", [0, 1, None])
async def test_a_conversation_in_an_archive_is_in_order(
    tmp_path: Path, first_read: int | None
) -> None:
    place = str(tmp_path / "kept")
    async with open_journal("memory:") as source:
        turns = await _archived_turns(source, place)
    async with open_journal(f"archive:{place}") as archive:
        if first_read is not None:
            await archive.runs(run_id=turns[first_read])
        found = await archive.conversation("c")
        assert [one.text for one in found.messages] == ["one", "one", "two", "two"]
        assert [one.revision for one in await archive.runs()] == [2, 1]


async def test_turns_come_back_oldest_first(journal: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "kept")
    first, second = await _archived_turns(journal, place)
    files = ArchiveFiles(place)
    live = await run(agent("three"), "three", journal=journal, conversation="c")
    with pytest.raises(JournalError, match=f"run {second} is an earlier turn .* {live.run_id}"):
        await restore_file(files, files.path_of(second), journal)
    assert [one.run_id for one in await journal.runs()] == [live.run_id]
    await journal.remove_runs([live.run_id])
    lacks = f"run {second} is turn 2 of conversation 'c', and the journal lacks 1 earlier turn of"
    with pytest.raises(JournalError, match=f"{lacks} it: bring the turns back oldest first"):
        await restore_file(files, files.path_of(second), journal, in_order=True)
    assert not await journal.runs()
    for run_id in (first, second):
        await restore_file(files, files.path_of(run_id), journal, in_order=True)
    found = await journal.conversation("c")
    assert [one.text for one in found.messages] == ["one", "one", "two", "two"]


async def test_every_write_of_an_archive_is_refused(tmp_path: Path) -> None:
    where, place = str(tmp_path / "runs.db"), str(tmp_path / "kept")
    (run_id,) = await fill(where, 1)
    await archived(where, place)
    known = Settlement(effect=Effect.NONE, by="ann", at=LATER)
    async with open_journal(f"archive:{place}") as archive:
        late = Note(run_id=run_id, name="thumb", value="up", by="ann", at=LATER)
        for attempt in (
            lambda: archive.keep_note(late),
            lambda: archive.remove_runs([run_id]),
            lambda: archive.remove_runs(ended_before=LATER),
            lambda: archive.redact(conversation="c"),
            lambda: archive.settle_effect("e", known),
            lambda: archive.place_stop(Stop(run_id=run_id, kind="cancel", at=LATER)),
            lambda: archive.import_("x"),
            lambda: archive.make_due(run_id, "resumed"),
        ):
            with pytest.raises(Misuse, match="is an archive, which is only read"):
                await attempt()


async def test_a_run_that_is_kept_stays_with_the_reason(tmp_path: Path) -> None:
    where, place = str(tmp_path / "runs.db"), str(tmp_path / "kept")
    first, *rest = await fill(where)
    found = await archived(where, place, keep={first: "it is of interest"})
    assert set(found.run_ids) == set(rest)
    assert found.kept == {first: "it is of interest"}
    assert await ids_in(f"archive:{place}") == set(rest)


@pytest.mark.parametrize("place", ["", "nowhere://bucket"])
async def test_a_place_that_is_none_is_misuse(tmp_path: Path, place: str) -> None:
    where = str(tmp_path / "runs.db")
    run_ids = await fill(where, 1)
    with pytest.raises(Misuse, match="archive"):
        await archived(where, place)
    assert await ids_in(where) == set(run_ids)


async def test_a_place_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    where = str(tmp_path / "runs.db")
    run_ids = await fill(where, 1)
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot be written"):
        await archived(where, str(tmp_path / "file" / "kept"))
    assert await ids_in(where) == set(run_ids)


# Its store kills the process at its n-th touch, before or after what it asks for.
KILLED = """
import asyncio, os, signal, sys
from datetime import UTC, datetime, timedelta
import fsspec
from fsspec.implementations.local import LocalFileSystem
from upshot.journal import open_journal
from upshot.journal.archive import archive_runs

where, place, left, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

class Deadly(LocalFileSystem):
    protocol = "deadly"

    def touch_store(self, work):
        global left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return work()
        finally:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _open(self, path, mode="rb", **options):
        return self.touch_store(lambda: super(Deadly, self)._open(path, mode, **options))

    def makedirs(self, path, exist_ok=False):
        return self.touch_store(lambda: super(Deadly, self).makedirs(path, exist_ok=exist_ok))

    def end_transaction(self):
        return self.touch_store(lambda: super(Deadly, self).end_transaction())

fsspec.register_implementation("deadly", Deadly)

async def main():
    async with open_journal(where) as journal:
        later = datetime.now(UTC) + timedelta(days=1)
        await archive_runs(journal, f"deadly://{place}", ended_before=later, keep={})

asyncio.run(main())
"""


async def _kill_at(number: int, when: str, tmp_path: Path, check: Callable[..., Any]) -> bool:
    """Archive in a process that is killed; returns whether it was."""
    folder = tmp_path / f"{number}-{when}"
    folder.mkdir()
    where, place = str(folder / "runs.db"), str(folder / "kept")
    run_ids = await fill(where, 2)
    (folder / "killed.py").write_text(KILLED, "utf-8")
    done = run_python(folder / "killed.py", where, place, number, when)
    await check(where, place, set(run_ids))
    return done.returncode == -signal.SIGKILL


async def _nothing_is_lost(where: str, place: str, run_ids: set[str]) -> None:
    whole = {one async for one in _readable(place)}
    assert await ids_in(where) | whole == run_ids
    # The next try completes it.
    await archived(where, place)
    assert (await ids_in(where), await ids_in(f"archive:{place}")) == (set(), run_ids)


async def _readable(place: str) -> AsyncGenerator[str]:
    """The runs whose files can be read."""
    async with open_journal(f"archive:{place}") as archive:
        for path in sorted(Path(place).glob("runs/*.jsonl")):
            run_id = path.name.removesuffix(".jsonl")
            assert await archive.runs(run_id=run_id)
            yield run_id


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])
async def test_a_kill_anywhere_loses_nothing(tmp_path: Path, when: str) -> None:
    number = 1
    while await _kill_at(number, when, tmp_path, _nothing_is_lost):
        number += 1
    # Each run is looked for, stored in three steps, and read back.
    assert number > 2 * 4
