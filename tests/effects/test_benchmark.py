"""The benchmark of effects: what it prints of those that need no other package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAYS = "3,10,14"


@pytest.mark.slow
def test_the_table_of_those_that_need_no_other_package() -> None:
    command = [sys.executable, "-m", "bench.effects", "--only", "python,once,upshot"]
    done = subprocess.run(
        [*command, "--ways", WAYS, "--runs", "1"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=300,
    )
    cells = {
        line.split(".")[0].strip(): line.split()[-3:]
        for line in done.stdout.splitlines()
        if re.match(r" *\d+\. .* (once|twice|lost|unknown)$", line)
    }
    assert cells == {
        "3": ["twice", "once", "once"],
        "10": ["twice", "unknown", "unknown"],
        "14": ["once", "once", "once"],
    }
    assert done.stdout.splitlines()[-1].split()[-3:] == ["1/3", "3/3", "3/3"]
