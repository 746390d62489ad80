"""The rate-limit-aware machine: it waits, parks and asks another provider as the windows say."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from tests.examples.conftest import ROOT
from tests.processes import run_python
from upshot import load_machine
from upshot.engines import machine_schema
from upshot.testing import FakeClock

FOLDER = ROOT / "examples" / "waiting"


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's own module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import waiting

    return waiting


async def test_every_question_is_answered_by_all_three_ways(waiting: Any) -> None:
    clock = FakeClock()
    result, parked_s = await waiting.ask_all(clock)
    trail = result.output["trail"]
    assert len(result.output["answers"]) == len(waiting.QUESTIONS)
    assert {"main refuses", "main", "spare", "waits 30 s"} <= set(trail)
    assert parked_s == [60]


async def test_nobody_is_asked_before_the_windows_allow_it(waiting: Any) -> None:
    clock = FakeClock()
    result, _ = await waiting.ask_all(clock)
    # All refusals but the first, which nobody could know of, were foreseen.
    assert [step for step in result.output["trail"] if "refuses" in step] == ["main refuses"]
    assert sum(clock.sleeps) == pytest.approx(90, abs=1)


async def test_where_nothing_is_asked_nobody_waits(waiting: Any) -> None:
    clock = FakeClock()
    result, parked_s = await waiting.ask_all(clock, [])
    assert (result.output, parked_s, clock.sleeps) == ({"answers": [], "trail": []}, [], [])


def test_the_machine_fits_its_schema_and_has_no_fault() -> None:
    machine = load_machine(FOLDER / "patient.yml")
    jsonschema_rs.validate(machine_schema(), machine.data)
    assert not machine.warnings


def test_without_the_extra_it_says_in_one_sentence_what_to_install() -> None:
    start = "import runpy, sys; sys.modules['yaml'] = None; sys.argv = sys.argv[1:]; "
    program = f"{start}runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run_python("-c", program, FOLDER / "waiting.py", text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "or in a clone pip install -e '.[machine]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_takes_no_time() -> None:
    done = run_python("-W", "error", FOLDER / "waiting.py", text=True, check=True)
    assert done.stdout.endswith("5 answers; parked for 60 s\n")
