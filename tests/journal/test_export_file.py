import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naming import name_of
from upshot.contract import RunStarted, StepSettled
from upshot.errors import JournalError, Misuse, UpshotError
from upshot.journal import MemoryJournal, open_journal
from upshot.journal.event_codec import FORMAT
from upshot.journal.export_file import read_lines


@pytest.fixture
async def exported(tmp_path: Path) -> Path:
    journal = MemoryJournal()
    journal.append(RunStarted(run_id="r", seq=1))
    journal.append(StepSettled(run_id="r", seq=2, key="a", value="line\nbreak"))
    await journal.artifacts.put("r", "call-1", b"data", "text/plain")
    await journal.export("r", tmp_path / "run.jsonl")
    return tmp_path / "run.jsonl"


def test_the_first_line_says_what_the_file_is(exported: Path):
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert lines[0] == {
        "format": "upshot.journal",
        "version": FORMAT,
        "run_id": "r",
        "events": 2,
        "artifacts": 1,
    }
    assert [line["kind"] for line in lines[1:]] == [
        "run_started",
        "step_settled",
        "stored_artifact",
    ]


@pytest.mark.parametrize("where", ["memory:", "runs.db"])
async def test_a_long_run_is_imported_whole(where: str, tmp_path: Path):
    journal = MemoryJournal()
    for seq in range(1, 451):
        journal.append(StepSettled(run_id="r", seq=seq, key=f"{seq}"))
    await journal.export("r", tmp_path / "run.jsonl")
    async with open_journal(where if where == "memory:" else tmp_path / where) as other:
        await other.import_(tmp_path / "run.jsonl")
        found = [event.key async for event in other.events("r")]  # type: ignore[union-attr]
    assert found == [f"{seq}" for seq in range(1, 451)]


@pytest.mark.parametrize("where", ["memory:", "runs.db"])
async def test_who_claimed_a_run_before_its_import_has_it_no_more_after_the_next_claim(
    where: str, exported: Path, tmp_path: Path
):
    async with open_journal(where if where == "memory:" else tmp_path / where) as journal:
        before = await journal.claim("r")
        await journal.import_(exported)
        assert await journal.claim("r") == before + 1
        with pytest.raises(JournalError):
            journal.append(RunStarted(run_id="r", seq=3), epoch=before)


@pytest.mark.parametrize(
    ("line", "change", "said"),
    [
        (1, lambda _: "{}", "line 1: this is not an exported run"),
        (
            1,
            lambda text: text.replace(f'"version":{FORMAT}', '"version":9'),
            "line 1: the run was exported in format 9",
        ),
        (2, lambda text: text[:20], "line 2: this is not JSON"),
        (2, lambda text: text.replace('"r"', '"other"'), "line 2: an event of run other"),
        (
            3,
            lambda text: text.replace('"seq":2', '"seq":3'),
            "line 3: expected event 2, got event 3",
        ),
        (3, lambda _: '{"kind":"text_delta","run_id":"r","seq":1}', "line 3: text_delta is for"),
        (4, lambda text: text.replace('"r"', '"other"'), "line 4: an artifact of run other"),
        (4, lambda text: text.replace("ZGF0YQ", "ZGF0ZQ"), "line 4: the data of artifact"),
        (4, lambda _: "", "line 4: the file ends after 2 events and 0 artifacts"),
    ],
    ids=name_of,
)
def test_a_damaged_line_is_named(exported: Path, line: int, change, said: str):  # pyright: ignore
    lines = exported.read_text().splitlines()
    lines[line - 1] = change(lines[line - 1])
    exported.write_text("\n".join(text for text in lines if text) + "\n")
    with pytest.raises(JournalError, match=said):
        list(read_lines(str(exported)))


def test_an_empty_file_is_named(tmp_path: Path):
    (tmp_path / "empty").touch()
    with pytest.raises(JournalError, match="line 1: the file is empty"):
        list(read_lines(str(tmp_path / "empty")))


def test_a_file_that_is_not_there_is_misuse(tmp_path: Path):
    with pytest.raises(Misuse, match="cannot be read"):
        list(read_lines(str(tmp_path / "missing")))


async def test_an_export_to_no_folder_is_misuse(tmp_path: Path):
    journal = MemoryJournal()
    journal.append(RunStarted(run_id="r", seq=1))
    with pytest.raises(Misuse, match="cannot be written"):
        await journal.export("r", tmp_path / "missing" / "run.jsonl")


@given(st.data())
def test_any_bytes_are_a_run_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    header = b'{"format":"upshot.journal","version":3,"run_id":"r","events":1}\n'
    event = b'{"kind":"run_started","run_id":"r","seq":1}\n'
    content = bytearray(data.draw(st.sampled_from([b"", header, header + event])))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("any") / "run.jsonl"
    path.write_bytes(content)
    with contextlib.suppress(UpshotError):
        assert list(read_lines(str(path)))
