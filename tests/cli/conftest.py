"""The command as the tests call it: in this process, or as a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any, TypeAlias

import pytest

from tests.processes import start_python
from upshot.cli import main

Command: TypeAlias = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Call the command in this process, in an empty folder; returns exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def spawn(*arguments: str, folder: Path, **more: Any) -> subprocess.Popen[bytes]:
    """Start the command as a separate process with pipes."""
    more |= {"cwd": folder, "stdout": PIPE, "stderr": PIPE}
    env = {**os.environ, "COLUMNS": "80", "PYTHONUNBUFFERED": "1"}
    return start_python("-W", "error", "-m", "upshot", *arguments, env=env, **more)
