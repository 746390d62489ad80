"""The table of a journal's runs."""

from __future__ import annotations

import pytest

from tests.cli.made_up import BEGAN
from upshot.cli.listing import runs_table
from upshot.cli.lookup import left_behind
from upshot.cli.terminal import Glyphs
from upshot.contract import RunSummary
from upshot.journal import LeaseHolder
from upshot.journal.lease_holder import this_process


def rows_of(
    *runs: RunSummary, width: int | None = 80, holders: dict[str, LeaseHolder] | None = None
) -> list[str]:
    left = left_behind(runs)
    rows = runs_table(runs, width=width, glyphs=Glyphs(), left=left, holders=holders)
    return [line.plain for line in rows]


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
        "run-0123456789abcdef running or died support 2025-03-01 12:00 Where is order 7?…"
    )
    assert len(row) <= 80


def test_a_request_cannot_steer_the_terminal() -> None:
    row = rows_of(RunSummary(run_id="r", request="\x1b[2J\nboo"), width=100)[1]
    assert "\x1b" not in row
    assert row.endswith("[2J boo")


def test_no_runs_are_no_table() -> None:
    assert rows_of() == []


ASKED = RunSummary(
    run_id="run-0123456789abcdef",
    agent_id="support",
    status="input_required",
    started_at=BEGAN,
    request="Where is order 7? " * 9,
)


def test_a_request_is_whole_where_nobody_said_how_wide_the_page_is() -> None:
    assert rows_of(ASKED, width=None)[1].endswith(ASKED.request.strip())


@pytest.mark.parametrize("width", [38, 40, 50, 60, 70, 80])
def test_a_row_is_one_line_on_a_narrow_page(width: int) -> None:
    rows = rows_of(ASKED, width=width)
    assert max(map(len, rows)) <= width
    assert rows[1].startswith("run-0123456789abcdef input_required")


@pytest.mark.parametrize("width", [38, 40])
def test_a_request_without_room_has_a_line_of_its_own(width: int) -> None:
    rows = rows_of(ASKED, width=width)
    assert rows[2].startswith("  Where is order 7?")
    assert max(map(len, rows)) <= width


def test_a_run_inside_stands_below_the_one_that_started_it() -> None:
    parents = {"in": "out", "out": "", "one": "", "orphan": "gone"}
    runs = [RunSummary(run_id=id, parent_run_id=parent) for id, parent in parents.items()]
    rows = rows_of(*runs)
    names = [row.partition("running")[0].rstrip() for row in rows[1:]]
    assert names == ["out", "└ in", "one", "└ orphan"]


def asked_inside(id: str, parent: str, status: str = "input_required") -> RunSummary:
    return RunSummary(run_id=id, parent_run_id=parent, status=status)


def test_an_open_run_whose_outer_run_has_ended_is_left_behind() -> None:
    root = RunSummary(run_id="out", status="completed")
    rows = rows_of(root, asked_inside("in", "out"), asked_inside("deep", "in", "running"))
    assert [row.split()[-2:] for row in rows[2:]] == [["left", "behind"]] * 2


def test_an_open_run_whose_outer_run_is_open_waits_as_any_other() -> None:
    root = RunSummary(run_id="out", status="input_required")
    assert rows_of(root, asked_inside("in", "out"))[2].split()[-1] == "input_required"


def test_a_run_that_ended_before_its_outer_run_was_not_left_behind() -> None:
    root = RunSummary(run_id="out", status="failed")
    assert rows_of(root, asked_inside("in", "out", "completed"))[2].split()[-1] == "completed"


def test_a_run_that_was_left_behind_and_that_somebody_works_on_says_so() -> None:
    root = RunSummary(run_id="out", status="completed")
    rows = rows_of(root, asked_inside("in", "out", "running"), holders={"in": this_process()})
    assert "running (process" in rows[2]


def test_runs_that_name_each_other_are_listed() -> None:
    assert left_behind([asked_inside("a", "b"), asked_inside("b", "a")]) == frozenset()
