"""Which tests ``make quick`` picks, and that it stops in time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.quick import ROOT, nearest_tests


def test_the_nearest_tests_come_first() -> None:
    found = nearest_tests(["src/upshot/entry/stops.py", "tests/sim/test_scenario.py"])
    assert found[0] == "tests/sim/test_scenario.py"
    assert "tests/fleet/test_chains.py" in found[:5]
    assert not any("_real/" in one for one in found)


def test_a_page_concerns_no_test() -> None:
    assert nearest_tests(["docs/serve.md"]) == []


@pytest.mark.slow
def test_it_stops_when_its_time_is_over() -> None:
    code = (
        "import sys; from tests import quick; quick.LIMIT_S = 0.0;"
        "sys.exit(quick.main(['src/upshot/tools/gates/pipeline.py']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout and "did not fit" in done.stdout
