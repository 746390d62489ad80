"""What the start page says of the examples: each is there, and takes its options alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.examples.conftest import ROOT
from tests.processes import run_python

NAMED = re.findall(r"`\.venv/bin/python (examples/\S+\.py)`", (ROOT / "README.md").read_text())
WITHOUT_MODEL = {"examples/waiting/waiting.py", "examples/lab/try_changes.py"}


def test_all_examples_are_named() -> None:
    folders = {path.name for path in (ROOT / "examples").iterdir() if any(path.glob("*.py"))}
    # The survey is what `make demo` runs; the fleet needs what `make restate` installs, and the
    # desks beside other frameworks what `make adapters` does.
    assert {name.split("/")[1] for name in NAMED} == folders - {"survey", "fleet", "beside"}


@pytest.mark.parametrize("name", [*NAMED, "examples/survey/demo.py"])
def test_an_example_tells_its_options_and_takes_a_model_where_one_can_be_chosen(name: str) -> None:
    done = run_python("-W", "error", ROOT / name, "--help", text=True, check=True)
    assert ("--model" in done.stdout) is (name not in WITHOUT_MODEL)


@pytest.mark.parametrize("name", [name for name in NAMED if name not in WITHOUT_MODEL])
def test_a_model_that_is_none_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("A page.\n")
    done = started(name, "--model", "gpt-5", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        'error: \'gpt-5\' names no model: write "provider:model", such as "openai:gpt-5" or '
        '"anthropic:claude-sonnet-4-5"'
    )


def test_a_folder_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    done = started("examples/mapreduce/mapreduce.py", "nowhere", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("error: nowhere is no folder: give one with Markdown pages\n")


def test_a_desk_that_answers_nobody_fails(tmp_path: Path) -> None:
    script = tmp_path / "none.json"
    script.write_text("[]")
    done = started("examples/triage/triage.py", "--model", f"scripted:{script}", folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("0 of 5 tickets, ")


def started(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_python("-W", "error", ROOT / name, *arguments, said="", cwd=folder, text=True)
