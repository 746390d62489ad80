import hashlib
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import upshot.journal.artifact_store as artifacts
from upshot.contract import AgentError, AgentResult, RunSettled, RunStarted, Status
from upshot.errors import JournalError, Misuse
from upshot.journal import MemoryArtifactStore, MemoryJournal, Pruned, SqliteJournal

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


async def test_all_bytes_are_loaded_as_they_were_put(store: MemoryArtifactStore):
    data = bytes(range(256)) * 1_000
    file = await store.put("r", "call-1", data, "image/png")
    assert await store.load(file.id, run_id="r") == data
    for id, run_id in ((file.id, "another"), ("art-none", "r")):
        with pytest.raises(KeyError, match="this run has no artifact"):
            await store.load(id, run_id=run_id)


async def test_a_page_is_read_back(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", TEXT.encode(), "text/plain")
    assert await store.read(file.id, run_id="r") == {"text": TEXT, "next_offset": None}
    page = await store.read(file.id, run_id="r", offset=6, limit=4)
    assert page == {"text": "line", "next_offset": 10}


async def test_lines_are_searched(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", TEXT.encode(), "text/plain")
    page = await store.read(file.id, run_id="r", pattern="S*D LINE")
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


async def test_a_pattern_that_is_too_long_is_a_value_error(store: MemoryArtifactStore):
    file = await store.put("r", "call-1", b"x", "text/plain")
    with pytest.raises(ValueError, match="at most 1000"):
        await store.read(file.id, run_id="r", pattern="x" * 1_001)


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


LATER = datetime.now(UTC) + timedelta(hours=2)


async def put(store: MemoryArtifactStore, *sizes: int, run_id: str = "r") -> list[str]:
    return [(await store.put(run_id, "call-1", b"x" * size, "text/plain")).id for size in sizes]


async def there(store: MemoryArtifactStore, ids: list[str], run_id: str = "r") -> list[bool]:
    found: list[bool] = []
    for id in ids:
        try:
            await store.read(id, run_id=run_id, limit=1)
        except KeyError:
            found.append(False)
        else:
            found.append(True)
    return found


async def test_what_is_old_goes(store: MemoryArtifactStore):
    ids = await put(store, 10, 20)
    assert await store.prune(max_age_s=3 * 3600, now=LATER) == Pruned()
    assert await there(store, ids) == [True, True]
    assert await store.prune(max_age_s=3600, now=LATER) == Pruned(count=2, size_bytes=30)
    assert await there(store, ids) == [False, False]


async def test_the_oldest_go_until_the_rest_fits(store: MemoryArtifactStore):
    ids = await put(store, 10, 20, 30)
    assert await store.prune(max_bytes=50) == Pruned(count=1, size_bytes=10)
    assert await there(store, ids) == [False, True, True]


async def test_only_one_run_can_be_pruned(store: MemoryArtifactStore):
    mine, others = await put(store, 10), await put(store, 10, run_id="other")
    await store.prune(max_bytes=0, run_id="r")
    assert (await there(store, mine), await there(store, others, "other")) == ([False], [True])


@pytest.mark.parametrize("limits", [{}, {"max_bytes": -1}, {"max_age_s": float("nan")}], ids=str)
async def test_a_limit_that_cannot_be_kept_is_misuse(
    store: MemoryArtifactStore, limits: dict[str, float]
):
    with pytest.raises(Misuse):
        await store.prune(**limits)  # type: ignore[arg-type]


async def test_what_a_run_that_goes_on_has_stored_stays(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    journal.append(RunStarted(run_id="r", seq=1, time=LATER))
    ids = await put(journal.artifacts, 10)  # type: ignore[arg-type]
    assert await journal.artifacts.prune(max_bytes=0) == Pruned()
    journal.append(RunSettled(run_id="r", seq=2, time=LATER, result=AgentResult(run_id="r")))
    assert (await journal.artifacts.prune(max_bytes=0)).count == len(ids)
    await journal.aclose()


def begun(run_id: str, parent: str = "") -> RunStarted:
    return RunStarted(run_id=run_id, seq=1, time=LATER, parent_run_id=parent)


def over(run_id: str, *, is_parked: bool = False) -> RunSettled:
    result = AgentResult[Any](run_id=run_id)
    if is_parked:
        error = AgentError("input_required", "It waits.")
        result = AgentResult[Any](run_id=run_id, status=Status.INPUT_REQUIRED, error=error)
    return RunSettled(run_id=run_id, seq=2, time=LATER, result=result)


@pytest.mark.parametrize("is_ended", [True, False], ids=["ended", "waits"])
async def test_what_a_run_that_is_left_behind_has_stored_goes_only_if_that_is_wished(
    tmp_path: Path, *, is_ended: bool
):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    # One waits inside of one that waits; another is at work.
    for run_id, parent in (("r", ""), ("mid", "r"), ("deep", "mid"), ("busy", "r"), ("alone", "")):
        journal.append(begun(run_id, parent))
    for run_id in ("mid", "deep", "alone"):
        journal.append(over(run_id, is_parked=True))
    journal.append(over("r", is_parked=not is_ended))
    store: Any = journal.artifacts
    for run_id in ("mid", "deep", "busy", "alone"):
        await put(store, 10, run_id=run_id)
    assert await store.prune(max_bytes=0) == Pruned()
    gone = await store.prune(max_bytes=0, left_behind=True, run_id="deep")
    assert gone.count == int(is_ended)
    gone = await store.prune(max_bytes=0, left_behind=True)
    assert gone.count == int(is_ended)
    await journal.aclose()


async def test_runs_that_stand_round_one_another_are_looked_at_once(tmp_path: Path):
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    for run_id, parent in (("a", "b"), ("b", "a")):
        journal.append(begun(run_id, parent))
        journal.append(over(run_id, is_parked=True))
    await put(journal.artifacts, 10, run_id="a")  # type: ignore[arg-type]
    assert await journal.artifacts.prune(max_bytes=0, left_behind=True) == Pruned()
    await journal.aclose()


async def test_memory_has_an_end():
    store = MemoryArtifactStore(max_bytes=100)
    first = await put(store, 40, 40, run_id="old")
    await put(store, 50)
    assert await there(store, first, "old") == [False, True]
    with pytest.raises(OSError, match="full"):
        await put(store, 60)


@pytest.mark.parametrize("limit", [1e9, float("inf")])
async def test_a_limit_in_bytes_may_be_a_float(store: MemoryArtifactStore, limit: float):
    await store.put("r", "call-1", b"text", "text/plain")
    assert await store.prune(max_bytes=limit) == Pruned()


@pytest.mark.parametrize("limit", [1e9, float("inf"), None])
async def test_a_store_in_memory_may_keep_all(limit: float | None):
    store = MemoryArtifactStore(max_bytes=limit)
    file = await store.put("r", "call-1", b"text", "text/plain")
    assert (await store.read(file.id, run_id="r"))["text"] == "text"
