import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.contract.strategies import events
from tests.searching import examples
from upshot.contract import (
    DELTAS,
    AgentResult,
    AgentSpec,
    ArtifactStored,
    Event,
    Request,
    RunResumed,
    RunSettled,
    RunStarted,
    ToolCall,
    ToolStarted,
    Unknown,
)
from upshot.contract.base.structs import set_field
from upshot.errors import JournalError, Misuse
from upshot.journal import SqliteJournal, open_journal
from upshot.journal.event_codec import to_entry
from upshot.journal.sql.writer import Writer
from upshot.journal.sqlite.sqlite_journal import FileCommitter
from upshot.journal.sqlite.tables import open_database


def started(run_id: str, seq: int = 1) -> Event:
    return RunStarted(run_id=run_id, seq=seq)


def count_rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM events").fetchone()
    connection.close()
    return count


def stamped(event: Event, run_id: str, seq: int) -> Event:
    """*event* as a durable one of the run."""
    if isinstance(event, Unknown):
        return Unknown(raw={**event.raw, "kind": "not_known_yet", "run_id": run_id, "seq": seq})
    set_field(event, "run_id", run_id)
    set_field(event, "seq", seq)
    return event


@examples(40)
@given(
    st.lists(events().filter(lambda event: not isinstance(event, DELTAS)), min_size=1, max_size=8)
)
def test_any_events_come_back_equal_from_a_file_opened_anew(
    tmp_path_factory: pytest.TempPathFactory, told: list[Event]
):
    path = tmp_path_factory.mktemp("any") / "runs.db"
    told = [stamped(event, "r", seq) for seq, event in enumerate(told, 1)]

    async def round_trip() -> None:
        journal = await SqliteJournal.open(path)
        for event in told:
            journal.append(event)
        await journal.aclose()
        journal = await SqliteJournal.open(path)
        read = [event async for event in journal.events("r")]
        await journal.aclose()
        assert read == told

    asyncio.run(round_trip())


async def test_a_barrier_is_on_disk_when_it_returns(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    for seq in range(1, 11):
        journal.append(started("r", seq))
    await journal.durable("r", 10)
    assert count_rows(tmp_path / "runs.db") == 10
    await journal.aclose()


async def test_what_nobody_waits_for_is_written_soon(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(started("r"))
    async with asyncio.timeout(60):
        while not count_rows(tmp_path / "runs.db"):
            await asyncio.sleep(0.01)
    await journal.aclose()


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_a_writer_that_has_nothing_to_do_is_called_for_more(
    tmp_path: Path, *, is_awaited: bool
):
    path = str(tmp_path / "runs.db")
    writer = Writer(path)
    await writer.open(lambda: FileCommitter(open_database(path), writer.lease, writer.report_held))
    async with asyncio.timeout(60):
        for seq in (1, 2, 3):
            while not writer.asleep:
                await asyncio.sleep(0.01)
            writer.put(to_entry(started("r", seq), "r", seq, 0))
            if is_awaited:
                await writer.flush()
            while writer.written.get("r") != seq:
                await asyncio.sleep(0.01)
        while not writer.asleep:
            await asyncio.sleep(0.01)
        await writer.aclose()


async def test_a_thread_does_not_sleep_over_what_was_queued_just_before(tmp_path: Path):
    path = str(tmp_path / "runs.db")
    writer = Writer(path)
    committer = FileCommitter(open_database(path), writer.lease, writer.report_held)
    # Nobody is called for it, as the thread is not asleep yet.
    writer.put(to_entry(started("r", 1), "r", 1, 0))
    thread = threading.Thread(target=writer._sleep, args=(committer,), daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    committer.close()


async def test_closing_writes_what_is_queued(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(started("r"))
    await journal.aclose()
    assert count_rows(tmp_path / "runs.db") == 1


async def test_barriers_of_many_runs_share_commits(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    connection = sqlite3.connect(tmp_path / "runs.db")

    async def step(run_id: str) -> None:
        journal.append(started(run_id))
        await journal.durable(run_id, 1)

    def commits() -> int:
        return connection.execute("PRAGMA data_version").fetchone()[0]

    before = commits()
    await asyncio.gather(*(step(f"r{n}") for n in range(200)))
    assert count_rows(tmp_path / "runs.db") == 200
    # How many there are hangs on the machine; without sharing there would be 200.
    assert commits() - before <= 100
    connection.close()
    await journal.aclose()


async def test_a_cancelled_wait_disturbs_nobody(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(started("r"))
    waits = [asyncio.create_task(journal.durable("r", 1)) for _ in range(3)]
    await asyncio.sleep(0)
    waits[1].cancel()
    done = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(result) for result in done] == [type(None), asyncio.CancelledError, type(None)]
    await journal.aclose()


async def test_a_claim_in_another_process_ends_this_holder(tmp_path: Path):
    ours = await SqliteJournal.open(tmp_path / "runs.db")
    theirs = await SqliteJournal.open(tmp_path / "runs.db")
    old = await ours.claim("r")
    ours.append(started("r"), epoch=old)
    await ours.durable("r", 1)
    new = await theirs.claim("r")
    theirs.append(started("r", 2), epoch=new)
    ours.append(started("r", 2), epoch=old)
    with pytest.raises(JournalError, match=f"run r is no longer held with epoch {old}"):
        await ours.durable("r", 2)
    with pytest.raises(JournalError, match="no longer held") as told:
        ours.append(started("r", 3), epoch=old)
    assert told.value.run_id == "r"
    await theirs.durable("r", 2)
    assert [event.seq async for event in theirs.events("r")] == [1, 2]  # pyright: ignore
    await ours.aclose()
    await theirs.aclose()


async def test_a_lost_run_does_not_disturb_the_others(tmp_path: Path):
    ours = await SqliteJournal.open(tmp_path / "runs.db")
    theirs = await SqliteJournal.open(tmp_path / "runs.db")
    epoch = await ours.claim("lost")
    await theirs.claim("lost")
    ours.append(started("lost"), epoch=epoch)
    ours.append(started("kept"))
    await ours.durable("kept", 1)
    with pytest.raises(JournalError):
        await ours.durable("lost", 1)
    await ours.aclose()
    await theirs.aclose()


async def test_a_run_claimed_back_can_be_written_again(tmp_path: Path):
    ours = await SqliteJournal.open(tmp_path / "runs.db")
    theirs = await SqliteJournal.open(tmp_path / "runs.db")
    epoch = await ours.claim("r")
    await theirs.claim("r")
    ours.append(started("r"), epoch=epoch)
    with pytest.raises(JournalError):
        await ours.durable("r", 1)
    ours.append(started("r"), epoch=await ours.claim("r"))
    await ours.durable("r", 1)
    await ours.aclose()
    await theirs.aclose()


async def test_a_run_that_was_never_claimed_is_fenced_by_the_first_claim(tmp_path: Path):
    ours = await SqliteJournal.open(tmp_path / "runs.db")
    theirs = await SqliteJournal.open(tmp_path / "runs.db")
    ours.append(started("r"))
    await ours.durable("r", 1)
    assert await theirs.claim("r") == 1
    ours.append(started("r", 2))
    with pytest.raises(JournalError):
        await ours.durable("r", 2)
    await ours.aclose()
    await theirs.aclose()


async def test_a_seq_that_the_file_has_already_is_refused(tmp_path: Path):
    first = await SqliteJournal.open(tmp_path / "runs.db")
    first.append(started("r"))
    await first.aclose()
    second = await SqliteJournal.open(tmp_path / "runs.db")
    second.append(started("r"))
    with pytest.raises(JournalError, match="its next event is 2"):
        await second.durable("r", 1 + 1)
    await second.aclose()


async def test_a_run_goes_on_after_it_settled(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(started("r"))
    journal.append(RunSettled(run_id="r", seq=2, result=AgentResult(run_id="r")))
    await journal.durable("r", 2)
    epoch = await journal.claim("r")
    journal.append(RunResumed(run_id="r", seq=3), epoch=epoch)
    await journal.durable("r", 3)
    (run,) = await journal.runs()
    assert (run.status, run.events) == ("running", 3)
    await journal.aclose()


async def test_who_claimed_a_run_may_write_after_it_settled(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    epoch = await journal.claim("r")
    journal.append(started("r"), epoch=epoch)
    journal.append(RunSettled(run_id="r", seq=2, result=AgentResult(run_id="r")), epoch=epoch)
    await journal.durable("r", 2)
    journal.append(RunResumed(run_id="r", seq=3), epoch=epoch)
    await journal.durable("r", 3)
    await journal.claim("r")
    with pytest.raises(JournalError, match="no longer held"):
        journal.append(RunResumed(run_id="r", seq=4), epoch=epoch)
    await journal.aclose()


async def test_the_rows_name_the_kind(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(ArtifactStored(run_id="r", seq=1, call_id="c1"))
    journal.append(Unknown(raw={"kind": "of_later", "run_id": "r", "seq": 2}))
    await journal.aclose()
    connection = sqlite3.connect(tmp_path / "runs.db")
    assert connection.execute("SELECT kind FROM events").fetchall() == [
        ("artifact_stored",),
        ("of_later",),
    ]
    connection.close()


async def test_lone_surrogates_cannot_stop_the_writing(tmp_path: Path):
    odd = RunStarted(
        run_id="r", seq=1, agent=AgentSpec(id="a\ud800"), request=Request("Where\udfff?")
    )
    async with open_journal(tmp_path / "runs.db") as journal:
        journal.append(odd)
        journal.append(ToolStarted(run_id="r", seq=2, call=ToolCall("c\ud800", "look")))
        await journal.durable("r", 2)
        (run,) = await journal.runs()
    assert (run.agent_id, run.request) == ("a\ufffd", "Where\ufffd?")


@pytest.mark.parametrize(
    "event", [RunStarted(seq=1), Unknown(raw={"kind": "of_later"})], ids=["known", "unknown"]
)
async def test_an_event_of_no_run_is_misuse(event: Event, tmp_path: Path):
    async with open_journal(tmp_path / "runs.db") as journal:
        with pytest.raises(Misuse, match="no run_id"):
            journal.append(event)


@pytest.mark.parametrize("where", ["memory:", "runs.db"])
@pytest.mark.parametrize(
    "event",
    [started("r", 2), Unknown(raw={"kind": "of_later", "run_id": "r", "seq": 2})],
    ids=["known", "unknown"],
)
async def test_a_run_begins_with_its_first_event(where: str, event: Event, tmp_path: Path):
    async with open_journal(where if where == "memory:" else tmp_path / where) as journal:
        with pytest.raises(JournalError, match="its next event is 1"):
            journal.append(event)
            await journal.durable("r", 2)
        assert [one async for one in journal.events("r")] == []


@pytest.mark.parametrize("where", ["memory:", "runs.db"])
async def test_events_of_later_versions_are_fenced_too(where: str, tmp_path: Path):
    async with open_journal(where if where == "memory:" else tmp_path / where) as journal:
        old = await journal.claim("r")
        await journal.claim("r")
        with pytest.raises(JournalError, match=f"no longer held with epoch {old}"):
            journal.append(Unknown(raw={"kind": "of_later", "run_id": "r", "seq": 1}), epoch=old)


async def test_an_id_that_is_no_text_is_misuse(tmp_path: Path):
    async with open_journal(tmp_path / "runs.db") as journal:
        with pytest.raises(Misuse, match="lone surrogates"):
            journal.append(started("r\ud800"))


def test_a_disk_that_is_full_is_told_and_leaves_an_exact_prefix(tmp_path: Path):
    code = """
import asyncio, resource, sys
from upshot.contract import RunStarted
from upshot.errors import JournalError, Misuse
from upshot.journal import SqliteJournal, open_journal

async def main(path):
    journal = await SqliteJournal.open(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    safe = 0
    try:
        for seq in range(1, 1000):
            journal.append(RunStarted(run_id="r", seq=seq, options={"text": "x" * 1000}))
            await journal.durable("r", seq)
            safe = seq
    except JournalError as error:
        assert "cannot be written" in str(error), error
    else:
        sys.exit("the disk was never full")
    try:
        journal.append(RunStarted(run_id="other", seq=1))
    except JournalError:
        print(safe)
    await journal.aclose()

asyncio.run(main(sys.argv[1]))
"""
    path = tmp_path / "runs.db"
    command = [sys.executable, "-c", code, str(path)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=env(), timeout=60)
    safe = int(ran.stdout)
    assert safe > 3

    async def read() -> list[int]:
        journal = await SqliteJournal.open(path)
        seqs = [event.seq async for event in journal.events("r")]  # pyright: ignore
        await journal.aclose()
        return seqs

    assert asyncio.run(read()) == list(range(1, safe + 1))


def env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class Holders(RuleBasedStateMachine):
    """Two journals on one file, against a model of what must be in it."""

    @initialize(folder=st.just(None))
    def begin(self, folder: None) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        path = Path(self.folder.name) / "runs.db"
        self.journals = [self.play(SqliteJournal.open(path)) for _ in range(2)]
        self.epochs = [0, 0]
        self.current = 0
        self.log: list[str] = []

    def play(self, work):  # pyright: ignore
        return self.loop.run_until_complete(work)

    @rule(who=st.sampled_from([0, 1]))
    def claim(self, who: int) -> None:
        self.epochs[who] = self.play(self.journals[who].claim("r"))
        assert self.epochs[who] > self.current
        self.current = self.epochs[who]

    @precondition(lambda self: self.current > 0)
    @rule(who=st.sampled_from([0, 1]), count=st.integers(1, 5))
    def append(self, who: int, count: int) -> None:
        seq = len(self.log)
        keys = [f"{who}.{seq + n}" for n in range(1, count + 1)]
        try:
            for n, key in enumerate(keys, 1):
                event = RunStarted(run_id="r", seq=seq + n, options={"key": key})
                self.journals[who].append(event, epoch=self.epochs[who])
            self.play(self.journals[who].durable("r", seq + count))
        except JournalError:
            assert self.epochs[who] != self.current
            return
        assert self.epochs[who] == self.current
        self.log += keys

    @invariant()
    def both_read_the_log(self) -> None:
        for journal in getattr(self, "journals", []):

            async def read(journal: SqliteJournal = journal) -> list[object]:
                return [event.options["key"] async for event in journal.events("r")]  # pyright: ignore

            assert self.play(read()) == self.log

    def teardown(self) -> None:
        for journal in getattr(self, "journals", []):
            self.play(journal.aclose())
        if hasattr(self, "loop"):
            self.loop.close()
            self.folder.cleanup()


TestHolders = Holders.TestCase
TestHolders.settings = examples(15, stateful_step_count=15)


async def test_a_job_for_which_the_disk_has_no_room_is_told_so(tmp_path: Path) -> None:
    def fill(connection: Any) -> None:
        (count,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {count + 2}")
        connection.execute("CREATE TABLE large (body BLOB)")
        connection.execute("INSERT INTO large VALUES (zeroblob(1000000))")

    async with open_journal(str(tmp_path / "j.db")) as journal:
        assert isinstance(journal, SqliteJournal)
        with pytest.raises(JournalError, match="cannot be written: database or disk is full"):
            await journal.write(fill)
