"""The writer and the critic."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.examples.conftest import ROOT
from tests.processes import run_python

FOLDER = ROOT / "examples" / "writer"
TEXT = "One thing is said here in ten words or even less. " * 12


@pytest.fixture(autouse=True)
def writer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's own module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import writer

    return writer


async def test_a_draft_is_done_again_until_the_critic_is_content(writer: Any) -> None:
    result, critic = await writer.summarise(TEXT)
    words = [len(line.content.split()) for line in result.attempt_log]
    assert words == sorted(words, reverse=True)
    assert words[-1] <= writer.MOST_WORDS < words[-2]
    assert [verdict.score for verdict in critic.verdicts][-1] == 10
    assert (result.attempts, result.committed) == (3, True)


async def test_the_log_says_why_each_draft_was_done_again(writer: Any) -> None:
    result, _ = await writer.summarise(TEXT)
    first, second, last = result.attempt_log
    assert "empty words: very, really" in second_of(first.feedback)
    assert "to at most 50 words" in second_of(second.feedback)
    assert (first.revise_reason, last.revise_reason) == ("score 3 of 10", "")


def second_of(feedback: str) -> str:
    return feedback.partition("Change this:")[2]


async def test_without_time_the_last_draft_stays(writer: Any) -> None:
    result, _ = await writer.summarise(TEXT, attempts=1)
    assert result.success
    assert result.state["revise_exhausted"]


def test_the_example_shows_its_drafts_within_80_columns() -> None:
    done = run_python("-W", "error", FOLDER / "writer.py", said="", text=True, check=True)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.endswith("Accepted after 3 drafts.\n")


def test_a_file_that_is_not_there_is_told_in_one_line(
    writer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["writer.py", "nowhere.md"])
    with pytest.raises(SystemExit) as ended:
        writer.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "nowhere.md: No such file or directory: give a text file" in told
    assert "Traceback" not in told
