"""A small git repository of a few known files, and the example that surveys it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SURVEY = ROOT / "examples" / "survey"

FILES = {
    "README.md": "# Garden\n\nPlants that grow.\n",
    "garden/plants.py": "class Plant:\n    def grow(self):\n        ...\n\n\ndef sow():\n    ...\n",
    "garden/tools.rb": "def dig\nend\n",
    "notes.txt": "water on Monday\n",
}
GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(folder: Path, *arguments: str, day: str = "2025-03-01", who: str = "ada") -> None:
    if shutil.which("git") is None:
        pytest.skip("git is absent")
    moment = f"{day}T12:00:00+0000"
    people = {"GIT_AUTHOR_EMAIL": f"{who}@example.org"}
    dates = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
    environment = {**os.environ, **GIT, **people, **dates}
    subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """A repository with four files, three commits on two days and two authors."""
    root = tmp_path / "garden-project"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    git(root, "init", "-q")
    # `init -b` is too new for some machines.
    git(root, "symbolic-ref", "HEAD", "refs/heads/trunk")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Sow", day="2025-02-20")
    git(root, "commit", "-q", "--allow-empty", "-m", "Water")
    git(root, "commit", "-q", "--allow-empty", "-m", "Weed", who="bob")
    return root


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests import the example's files as its own script does."""
    monkeypatch.syspath_prepend(str(SURVEY))
    monkeypatch.delenv("DEMO_REPO", raising=False)
