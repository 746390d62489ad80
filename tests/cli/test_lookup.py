"""Finding a journal, and a run in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from upshot.cli.lookup import existing_journal, find_run, new_journal
from upshot.contract import Request, RunStarted
from upshot.errors import Misuse
from upshot.journal import open_journal


async def found(wanted: str, ids: Sequence[str] = ("run-aa11", "run-aa22", "run-bb33")) -> str:
    async with open_journal("memory:") as journal:
        for place, run_id in enumerate(ids):
            await journal.claim(run_id)
            journal.append(RunStarted(run_id=run_id, seq=1, request=Request(str(place)), time=None))
            await journal.durable(run_id, 1)
        return await find_run(journal, wanted)


@pytest.mark.parametrize(
    ("wanted", "run_id"),
    [
        ("run-aa11", "run-aa11"),
        ("run-aa2", "run-aa22"),
        ("bb", "run-bb33"),
        ("last", "run-bb33"),
    ],
    ids=["its id", "a beginning", "a beginning without run-", "last"],
)
async def test_a_run_is_found(wanted: str, run_id: str) -> None:
    assert await found(wanted) == run_id


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("run-aa", "several runs begin with run-aa: run-aa"),
        ("run-bb34", "the journal has no run 'run-bb34': did you mean run-bb33"),
        ("zzz", "the journal has no run 'zzz': there are run-"),
        ("", "the journal has no run"),
    ],
)
async def test_a_run_that_is_not_there_is_told_with_the_nearest(wanted: str, sentence: str) -> None:
    with pytest.raises(Misuse) as caught:
        await found(wanted)
    assert str(caught.value).startswith(sentence)


async def test_the_last_run_is_none_that_another_has_started() -> None:
    async with open_journal("memory:") as journal:
        for run_id, parent in (("run-a", ""), ("run-b", "run-a")):
            await journal.claim(run_id)
            journal.append(RunStarted(run_id=run_id, seq=1, parent_run_id=parent))
            await journal.durable(run_id, 1)
        assert await find_run(journal, "last") == "run-a"


async def test_an_empty_journal_is_told() -> None:
    with pytest.raises(Misuse, match="has no runs yet"):
        await found("last", [])


async def test_a_run_named_last_wins_over_the_last_run() -> None:
    assert await found("last", ["last", "run-1"]) == "last"


def test_the_default_journal_is_kept_out_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_journal(".upshot/runs.db") == str(tmp_path / ".upshot" / "runs.db")
    assert (tmp_path / ".upshot" / ".gitignore").read_text("utf-8") == "*\n"


@pytest.mark.parametrize("where", ["memory:", "postgresql://host/db"])
def test_a_journal_that_is_no_file_is_left_as_it_is(where: str) -> None:
    assert new_journal(where) == where


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("nowhere.db", "there is no journal nowhere.db"),
        (".", "is a folder"),
        ("memory:", "keeps nothing"),
    ],
)
def test_a_journal_that_is_not_there_is_told(
    where: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match=sentence):
        existing_journal(where)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".upshot").write_text("a file")
    with pytest.raises(Misuse, match=r"folder \.upshot .* cannot be made: File exists: give --jou"):
        new_journal(".upshot/runs.db")
