"""The tools of the survey: what they find, and what they must not see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.examples.conftest import git
from upshot.tools import Toolbox


def call(garden: Path, name: str, **arguments: Any) -> upshot.ToolOutcome:
    """What comes of one call, through all the gates."""
    from repository import Repository
    from survey_tools import Survey

    toolbox = Toolbox(Survey(Repository(garden.resolve())).tools)
    (outcome,) = asyncio.run(toolbox.dispatch([upshot.ToolCall("c1", name, arguments)]))
    return outcome


def output(garden: Path, name: str, **arguments: Any) -> dict[str, Any]:
    outcome = call(garden, name, **arguments)
    assert isinstance(outcome, upshot.ToolExecutionResult), outcome
    return outcome.output


def test_the_history_is_counted(garden: Path) -> None:
    assert output(garden, "git_facts") == {
        "name": "garden-project",
        "branch": "trunk",
        "commits": 3,
        "authors": 2,
        "first_day": "2025-02-20",
        "last_day": "2025-03-01",
        "tags": 0,
        "history": "whole",
    }


def test_languages_are_counted_with_the_longest_files(garden: Path) -> None:
    found = output(garden, "count_by_language", limit=1)
    assert (found["files"], found["lines"]) == (4, 13)
    assert found["languages"][0] == {
        "language": "Python",
        "files": 1,
        "lines": 7,
        "share": "53.8 %",
    }
    assert found["longest"] == [{"file": "garden/plants.py", "language": "Python", "lines": 7}]


def test_files_are_listed_by_size_and_pattern(garden: Path) -> None:
    found = output(garden, "list_files", pattern="garden/*", limit=1)
    assert found["files"] == 2
    assert [row["file"] for row in found["largest"]] == ["garden/plants.py"]


def test_matches_are_counted_by_file(garden: Path) -> None:
    assert output(garden, "grep", pattern="^ *def ", limit=1) == {
        "matches": 3,
        "files": 2,
        "most": [{"file": "garden/plants.py", "matches": 2}],
    }
    assert output(garden, "grep", pattern="no such thing")["matches"] == 0


def test_a_part_of_a_file_is_read(garden: Path) -> None:
    found = output(garden, "read_file", path="garden/plants.py", first_line=2, lines=1)
    assert (found["text"], found["lines_in_all"]) == ("    def grow(self):", 7)


def test_a_year_of_commits_is_large_and_its_lines_are_alike(garden: Path) -> None:
    from repository import Repository
    from survey_tools import CALENDAR_LINE_CHARS, Survey

    calendar = Survey(Repository(garden.resolve())).commit_calendar(days=365)
    assert isinstance(calendar, str)
    lines = calendar.splitlines(keepends=True)
    assert lines[0] == "2025-03-01 Sat  commits     2  authors    2\n"
    assert lines[9] == "2025-02-20 Thu  commits     1  authors    1\n"
    assert {len(line) for line in lines} == {CALENDAR_LINE_CHARS}
    assert isinstance(call(garden, "commit_calendar"), upshot.ToolArtifactReference)


def test_waiting_for_a_commit_ends_with_its_deadline(garden: Path) -> None:
    outcome = call(garden, "wait_for_commit")
    assert isinstance(outcome, upshot.ToolTimeout)
    assert (outcome.stopped, outcome.effect) == (True, "none")


def test_a_commit_that_comes_is_seen(garden: Path) -> None:
    from repository import Repository
    from survey_tools import Survey

    survey = Survey(Repository(garden.resolve()))

    async def both() -> upshot.ToolOutcome:
        toolbox = Toolbox([survey.wait_for_commit.but(timeout_s=20)])
        waiting = asyncio.create_task(
            toolbox.dispatch([upshot.ToolCall("c1", "wait_for_commit", {})])
        )
        # Again and again, since the first may come before the tool has looked.
        while not waiting.done():
            await asyncio.to_thread(git, garden, "commit", "-q", "--allow-empty", "-m", "Now")
        return (await waiting)[0]

    outcome = asyncio.run(both())
    assert isinstance(outcome, upshot.ToolExecutionResult)
    assert outcome.output["commit"] != outcome.output["before"]


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "/etc/passwd", ".git/config", "untracked.txt", "way-out", "garden", "~"],
)
def test_nothing_outside_or_untracked_is_read(path: str, garden: Path) -> None:
    (garden.parent / "secret.txt").write_text("secret", "utf-8")
    (garden / "untracked.txt").write_text("secret", "utf-8")
    (garden / "way-out").symlink_to(garden.parent / "secret.txt")
    git(garden, "add", "way-out")
    outcome = call(garden, "read_file", path=path)
    assert isinstance(outcome, upshot.ToolFailure)
    assert "tracks no file" in outcome.error


@pytest.mark.parametrize("files", ["../*", ":(top,glob)../**", "--no-index"])
def test_a_search_stays_in_the_repository(files: str, garden: Path) -> None:
    (garden.parent / "secret.txt").write_text("def secret\n", "utf-8")
    outcome = call(garden, "grep", pattern="def", files=files)
    assert "secret" not in upshot.encode(outcome).decode()


def test_a_binary_file_is_not_read(garden: Path) -> None:
    (garden / "picture.png").write_bytes(b"\x89PNG\0\0")
    git(garden, "add", "picture.png")
    outcome = call(garden, "read_file", path="picture.png")
    assert isinstance(outcome, upshot.ToolFailure)
    assert not outcome.retryable


def test_a_broken_expression_is_a_failure_that_says_so(garden: Path) -> None:
    outcome = call(garden, "grep", pattern="(")
    assert isinstance(outcome, upshot.ToolFailure)
    assert "Unmatched" in outcome.error


@pytest.mark.parametrize("kind", ["missing", "plain", "empty"])
def test_what_is_no_repository_with_commits_is_told(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repository import find_repository

    folder = tmp_path / kind
    if kind != "missing":
        folder.mkdir()
        git(folder, "--version")
    if kind == "empty":
        git(folder, "init", "-q")
    monkeypatch.setenv("DEMO_REPO", str(folder))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(upshot.Misuse, match=r"is no git repository|has no commits yet"):
        find_repository()


def test_the_repository_round_the_current_folder_is_taken(
    garden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repository import find_repository

    monkeypatch.chdir(garden / "garden")
    assert find_repository().name == "garden-project"
