"""Three changes to a support desk, tried on a hundred bad runs."""

from __future__ import annotations

from pathlib import Path

from tests.examples.conftest import ROOT
from tests.processes import run_python
from upshot import lab

PROGRAM = ROOT / "examples" / "lab" / "try_changes.py"


def test_each_change_is_found_out_and_nothing_is_paid(tmp_path: Path) -> None:
    done = run_python(PROGRAM, tmp_path, text=True)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "100 cases of bad, each run once"
    assert "- tracking asked for 25 reads that the record does not have: track_parcel 25" in lines
    assert lines[2].startswith("- generous would have made 75 writes")
    (small,) = [line for line in lines if "small model scores 0.05 lower on same_effects" in line]
    assert "95 %" in small
    assert lines[-1] == "red: generous"
    assert len(lab.Dataset.read(tmp_path / "bad.jsonl")) == 100
    assert "Three changes to the desk" in (tmp_path / "report.html").read_text("utf-8")
