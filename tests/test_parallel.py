"""``pytest --workers``: every test runs once, whatever becomes of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFTEST = """
import pytest
from tests.parallel import Parallel

def pytest_configure(config):
    config.pluginmanager.register(Parallel(2))
"""
TESTS = """
import os
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError("too late")

@pytest.mark.parametrize("number", range(50))
def test_one(number, tmp_path):
    print("it is", number)
    with open("ran", "a") as file:
        file.write(f"{number}\\n")
    assert number != 13
    if number == 7:
        os._exit(9)
    if number == 21:
        pytest.skip("not this one")

def test_last(broken):
    pass
"""


def test_every_test_runs_once_and_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    alone = [f"-pno:{name}" for name in ("asyncio", "anyio", "cacheprovider", "hypothesispytest")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *alone, "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 48 passed, 1 skipped, 1 error in" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert "FAILED test_it.py::test_one[7] - its process ended with 9" in done.stdout
    assert "it is 13" in done.stdout and "ValueError: too late" in done.stdout
    assert sorted(map(int, (tmp_path / "ran").read_text().split())) == [*range(50)]
