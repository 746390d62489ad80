import hashlib
import sqlite3
from pathlib import Path

import pytest

from upshot.contract import RunStarted
from upshot.errors import JournalError
from upshot.journal import MemoryArtifactStore, MemoryJournal, SqliteJournal, artifacts

TEXT = "first line\nsecond line\nthird\n"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "memory":
        yield MemoryArtifactStore()
        return
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    yield journal.artifacts
    await journal.aclose()


async def test_what_was_put_is_described(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", TEXT.encode(), "text/plain")
    assert file.id.startswith("art-")
    assert (file.media_type, file.size_bytes, file.lines) == ("text/plain", len(TEXT), 3)
    assert file.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert file.summary == "first line second line third"


async def test_ids_are_never_the_same(store: MemoryArtifactStore):
    ids = {(await store.put("r", "call-1", b"same", "text/plain")).id for _ in range(50)}
    assert len(ids) == 50


async def test_bytes_that_are_no_text_have_no_lines(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", b"\xff\xfe\x00", "image/png")
    assert file.lines is None
    assert file.summary == "image/png, 3 bytes"
    assert (await store.read(file.id, run_id="r"))["text"] == "\ufffd\ufffd\x00"


async def test_a_page_is_read_back(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", TEXT.encode(), "text/plain")
    assert await store.read(file.id, run_id="r") == {"text": TEXT, "next_offset": None}
    page = await store.read(file.id, run_id="r", offset=6, limit=4)
    assert page == {"text": "line", "next_offset": 10}


async def test_lines_are_searched(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", TEXT.encode(), "text/plain")
    page = await store.read(file.id, run_id="r", pattern=r"\bs\w+ line")
    assert page["text"] == "2: second line"


async def test_another_runs_id_and_an_unknown_one_give_the_same_answer(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", b"x", "text/plain")
    with pytest.raises(KeyError) as theirs:
        await store.read(file.id, run_id="other")
    with pytest.raises(KeyError) as unknown:
        await store.read("art-unknown", run_id="r")
    assert str(theirs.value).replace(file.id, "ID") == str(unknown.value).replace(
        "art-unknown", "ID"
    )


async def test_an_invalid_pattern_is_a_value_error(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", b"x", "text/plain")
    with pytest.raises(ValueError, match="not valid"):
        await store.read(file.id, run_id="r", pattern="(")


async def test_large_data_are_kept_whole(store: MemoryArtifactStore):
    data = b"0123456789" * 200_000
    file = await store.put("r", "call-1", data, "text/plain")
    assert file.sha256 == hashlib.sha256(data).hexdigest()
    page = await store.read(file.id, run_id="r", offset=1_999_990)
    assert page == {"text": "0123456789", "next_offset": None}


async def test_too_large_data_are_refused(
    store: MemoryArtifactStore, monkeypatch: pytest.MonkeyPatch
):
    class Huge(bytes):
        def __len__(self) -> int:
            return artifacts.MAX_BYTES + 1

    with pytest.raises(OSError, match="too large"):
        await store.put("r", "call-1", Huge(), "text/plain")


async def test_an_artifact_is_safe_before_the_event_that_names_it(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    file = await journal.artifacts.put("r", "call-1", b"data", "text/plain")
    journal.append(RunStarted(run_id="r", seq=1))
    await journal.durable("r", 1)
    connection = sqlite3.connect(tmp_path / "runs.db")
    rows = connection.execute("SELECT id, run_id, call_id, data FROM artifacts").fetchall()
    assert rows == [(file.id, "r", "call-1", b"data")]
    connection.close()
    await journal.aclose()


async def test_a_closed_journal_stores_nothing(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    await journal.aclose()
    with pytest.raises(OSError, match="closed"):
        await journal.artifacts.put("r", "call-1", b"data", "text/plain")


async def test_damaged_data_are_an_error(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    file = await journal.artifacts.put("r", "call-1", b"data", "text/plain")
    await journal.runs()
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE artifacts SET data = x'00'")
    connection.close()
    with pytest.raises(JournalError, match="is damaged"):
        await journal.artifacts.read(file.id, run_id="r")
    await journal.aclose()


async def test_artifacts_go_with_an_exported_run(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(RunStarted(run_id="r", seq=1))
    file = await journal.artifacts.put("r", "call-1", b"\x00data", "text/plain")
    await journal.artifacts.put("other", "call-1", b"not this one", "text/plain")
    await journal.export("r", tmp_path / "run.jsonl")
    await journal.aclose()
    memory = MemoryJournal()
    await memory.import_(tmp_path / "run.jsonl")
    assert (await memory.artifacts.read(file.id, run_id="r"))["text"] == "\x00data"
    await memory.export("r", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "run.jsonl").read_bytes()
