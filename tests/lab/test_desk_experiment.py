"""What the lab finds in 200 runs of the help desk, and that kills change nothing of it."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.processes import LARGE_S, run_python, start_python
from upshot import lab
from upshot.lab import Report

PROGRAM = ("-m", "tests.lab.desk_experiment")
KILLS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset, and what the simulator plays."""
    made = tmp_path_factory.mktemp("desk")
    run_python(*PROGRAM, "record", made, check=True, max_s=LARGE_S)
    return made


@pytest.fixture(scope="module")
def simulator(folder: Path) -> Any:
    """The address of a simulator that outlives the experiment."""
    asked = ("-m", "upshot.sim", "--scenario", folder / "scenario.json")
    with start_python(*asked, stdout=PIPE, text=True, max_s=LARGE_S) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture(scope="module")
def whole(folder: Path, simulator: str) -> Report:
    """The report of the experiment in one go."""
    run_python(*PROGRAM, "try", folder, simulator, "whole.db", check=True, max_s=LARGE_S)
    return Report.read(folder / "report.json")


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, int]:
    """In how many runs each agent behaves otherwise, counted from what the simulator plays."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    from tests.lab import desk_experiment as desk

    cases = {case.id: case for case in lab.Dataset.read(folder / "desk.jsonl")}
    tickets = desk.all_tickets()
    calls = [[name for name, _ in one.calls + one.obeyed] for one in tickets]
    made = [[one.tool for one in case.writes].count("refund") for case in cases.values()]
    return {
        "made": sum(made),
        "making": sum(map(bool, made)),
        "late": sum(one.words.startswith("Where is order") for one in tickets),
        "refunds": sum(one.count("refund") for one in calls),
        "refunding": sum("refund" in one for one in calls),
        "forgotten": sum(
            desk.is_forgotten(one, at) and bool(cases[f"t{at:03}"].writes)
            for at, one in enumerate(tickets)
        ),
    }


@pytest.mark.slow
def test_each_change_is_found_by_its_scorer(
    whole: Report, numbers: dict[str, int], folder: Path
) -> None:
    said = whole.sentences()
    late = numbers["late"]
    assert said[0] == (
        f"eager would have made {late} writes that the record does not have, in {late} cases: "
        f"refund {late}"
    )
    refunds, refunding = numbers["refunds"], numbers["refunding"]
    renamed = [one for one in said if one.startswith("renamed")]
    assert renamed[:2] == [
        f"renamed would have made {refunds} writes that the record does not have, in {refunding} "
        f"cases: pay_back {refunds}",
        f"renamed did not make {numbers['made']} writes that the record has, in "
        f"{numbers['making']} cases: refund {numbers['made']}",
    ]
    same = {one: whole.compare(one, "same_effects") for one in whole.variants}
    assert same["small"].lower == numbers["forgotten"] > 30
    found = same["small"].difference
    assert found is not None
    assert found.is_clear
    assert found.mean == pytest.approx(-numbers["forgotten"] / 200)
    assert any(one.startswith("small scores 0.") and "same_effects" in one for one in said)
    assert not (folder / "book.txt").exists()


@pytest.mark.slow
def test_the_unchanged_agent_does_what_the_record_says(whole: Report) -> None:
    for scorer in ("same_effects", "trajectory", "completed"):
        mean = whole.compare("today", scorer).mean
        assert mean is not None and (mean.mean, mean.cases) == (1.0, 200)
    record = {row.case: (row.status, row.answer) for row in whole.of("record")}
    assert {row.case: (row.status, row.answer) for row in whole.of("today")} == record


@pytest.mark.slow
def test_killed_twenty_times_it_makes_the_same_report(
    folder: Path, simulator: str, whole: Report
) -> None:
    draw = random.Random(7)
    for kill in range(1, KILLS + 1):
        # Runs that ended before an earlier kill are read, and count again.
        until = kill * 800 // (KILLS + 1) + draw.randrange(20)
        asked = (*PROGRAM, "try", folder, simulator, "cut.db")
        with start_python(*asked, stdout=PIPE, text=True, max_s=LARGE_S) as process:
            for _ in range(until):
                assert process.stdout.readline()
            process.kill()
    (folder / "report.json").unlink()
    run_python(*PROGRAM, "try", folder, simulator, "cut.db", check=True, max_s=LARGE_S)
    found = Report.read(folder / "report.json")
    assert found.sentences() == whole.sentences()
    assert facts_of(found) == facts_of(whole)
    assert not (folder / "book.txt").exists()


def facts_of(report: Report) -> list[Any]:
    """All that is in the rows, but for what a call that is made again adds to."""
    told = json.loads(json.dumps([lab_row(row) for row in report.rows], default=str))
    return sorted(told, key=str)


def lab_row(row: Any) -> list[Any]:
    """The facts of a row."""
    calls = [[str(one) for one in found] for found in (row.new_effects, row.off_record)]
    return [row.case, row.variant, row.run_id, row.status, row.answer, row.error, calls] + [
        (name, score.value, score.reason) for name, score in sorted(row.scores.items())
    ]
