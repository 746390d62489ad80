"""What the start page says of the examples: each is there, and takes its options alike."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.examples.conftest import ROOT

NAMED = re.findall(r"`\.venv/bin/python (examples/\S+\.py)`", (ROOT / "README.md").read_text())
WITHOUT_MODEL = {"examples/waiting/waiting.py"}


def test_all_examples_are_named() -> None:
    folders = {path.name for path in (ROOT / "examples").iterdir() if any(path.glob("*.py"))}
    # The survey is what `make demo` runs.
    assert {name.split("/")[1] for name in NAMED} == folders - {"survey"}


@pytest.mark.parametrize("name", [*NAMED, "examples/survey/demo.py"])
def test_an_example_tells_its_options_and_takes_a_model_where_one_can_be_chosen(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / name, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ("--model" in done.stdout) is (name not in WITHOUT_MODEL)
