"""The table of a journal's runs."""

from __future__ import annotations

from tests.cli.made_up import BEGAN
from upshot.cli.runs_table import runs_table
from upshot.contract import RunSummary


def rows_of(*runs: RunSummary, width: int = 80) -> list[str]:
    return [line.plain for line in runs_table(runs, width=width)]


def test_a_run_is_one_row_within_80_columns() -> None:
    run = RunSummary(
        run_id="run-0123456789abcdef",
        agent_id="support",
        status="running",
        started_at=BEGAN,
        request="Where is order 7? " * 9,
    )
    heading, row = rows_of(run)
    assert heading.split() == ["run", "status", "agent", "started", "(UTC)", "request"]
    assert row == (
        "run-0123456789abcdef running or died support 2025-03-01 12:00 Where is order 7…"
    )
    assert len(row) <= 80


def test_a_request_cannot_steer_the_terminal() -> None:
    row = rows_of(RunSummary(run_id="r", request="\x1b[2J\nboo"), width=100)[1]
    assert "\x1b" not in row
    assert row.endswith("[2J boo")


def test_no_runs_are_no_table() -> None:
    assert rows_of() == []
