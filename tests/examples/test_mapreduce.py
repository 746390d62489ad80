"""The map-reduce example: over the project's own documents, and over a few known pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.conftest import ROOT
from tests.processes import run_python

FOLDER = ROOT / "examples" / "mapreduce"


@pytest.fixture(autouse=True)
def importable_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests import the example's file."""
    monkeypatch.syspath_prepend(str(FOLDER))


async def test_words_are_counted_over_all_pages(tmp_path: Path) -> None:
    from mapreduce import report

    (tmp_path / "one.md").write_text("Apple apple plums. Grape")
    (tmp_path / "two.md").write_text("apple grape, lemon")
    (tmp_path / "three.txt").write_text("apple")
    result = await report(tmp_path)
    assert result.unwrap() == (
        "# What the pages share\n\n2 pages, 7 words. In every page: apple (3), grape (2)."
    )


async def test_a_folder_without_pages_is_told(tmp_path: Path) -> None:
    from mapreduce import report

    assert (await report(tmp_path)).content == f"There are no pages in {tmp_path.as_posix()}."


async def test_another_model_may_word_the_report(tmp_path: Path) -> None:
    from mapreduce import report

    (tmp_path / "one.md").write_text("apple")
    (tmp_path / "words.json").write_text('["Apples, mostly."]')
    result = await report(tmp_path, model=f"scripted:{tmp_path / 'words.json'}")
    assert result.unwrap() == "Apples, mostly."


def test_the_example_reads_the_documents_of_the_project(tmp_path: Path) -> None:
    program = ["-W", "error", FOLDER / "mapreduce.py", "--journal", "runs.db"]
    done = run_python(*program, cwd=tmp_path, text=True, check=True)
    pages = len(list((ROOT / "docs").glob("*.md")))
    assert f"{pages} pages," in done.stdout
    assert "upshot (" in done.stdout
