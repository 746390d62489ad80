"""The timeline: rows and bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cli.made_up import a_whole_run, activity_of, began_call, started
from upshot.cli.terminal import Glyphs, glyphs_for
from upshot.cli.timeline import bar, fit, timeline
from upshot.contract import RunResumed
from upshot.state.activity import Ended, Step

GLYPHS = Glyphs()


def drawn(width: int = 80) -> list[str]:
    lines = timeline(activity_of(a_whole_run()), width=width, glyphs=GLYPHS)
    return [line.plain.rstrip() for line in lines]


def test_a_run_is_drawn_to_scale_in_80_columns() -> None:
    assert drawn() == [
        "      at     took step          0                     4.0 s outcome",
        "  0.00 s   200 ms model 1       █░░░░░░                     429 rate_limit",
        "                    next try in 800 ms",
        "  1.00 s   500 ms model 1 again       ████                  3 calls",
        "  1.50 s   400 ms count                   ███               result",
        "  1.50 s     0 ms count                   █                 denied: validation",
        "                    no number",
        "  1.50 s    1.5 s wait                    ██████████        timeout, over 1.5 s",
        "  3.00 s    1.0 s model 2                           ███████ answer",
    ]


@pytest.mark.parametrize("width", [40, 50, 56, 60, 70, 80, 100, 120])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(map(cell_len, drawn(width))) <= width


def test_a_narrow_page_has_no_bars_and_then_no_moments() -> None:
    assert drawn(60)[0].split() == ["at", "took", "step", "outcome"]
    assert drawn(40)[:4] == [
        "    took step          outcome",
        "  200 ms model 1       429 rate_limit",
        "           next try in 800 ms",
        "  500 ms model 1 again 3 calls",
    ]


def test_a_run_without_steps_has_no_timeline() -> None:
    assert not list(timeline(activity_of([(0, started())]), width=80, glyphs=GLYPHS))


def test_a_step_whose_process_died_has_no_outcome() -> None:
    activity = activity_of([(0, started()), (0, began_call("c0")), (1, RunResumed())])
    lines = [line.plain for line in timeline(activity, width=80, glyphs=GLYPHS)]
    assert "no outcome" in lines[1]
    assert "its process ended" in lines[2]


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (Step("tool", "a", 0, end_s=4), "##########"),
        (Step("tool", "a", 2, end_s=3), "     ###  "),
        (Step("tool", "a", 2, end_s=2), "     #    "),
        (Step("tool", "a", 4, end_s=4), "         #"),
        (Step("tool", "a", 2), "     #####"),
        (Step("model", "a", 0, end_s=1, wait_s=2), "##......  "),
        (Step("mark", "a", 2, end_s=2, ended=Ended()), "     |    "),
    ],
    ids=["whole", "middle", "no time", "last moment", "under way", "waiting", "mark"],
)
def test_a_bar_lies_where_its_time_lies(step: Step, line: str) -> None:
    assert bar(step, length_s=4, width=10, glyphs=glyphs_for("ascii")) == line


@given(
    st.floats(0, 1e9),
    st.floats(0, 1e9) | st.none(),
    st.floats(0, 1e6),
    st.floats(0, 1e9),
    st.integers(1, 200),
)
def test_a_bar_is_exactly_as_wide_as_its_place(
    start_s: float, end_s: float | None, wait_s: float, length_s: float, width: int
) -> None:
    step = Step("model", "m", start_s, end_s=end_s, wait_s=wait_s)
    line = bar(step, length_s=length_s, width=width, glyphs=GLYPHS)
    assert len(line) == width
    assert line.strip()


@given(st.text(st.characters(exclude_categories=["C", "M"])), st.integers(1, 30))
def test_a_text_is_fitted_to_its_columns(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width


def test_a_stream_without_the_glyphs_gets_plain_ones() -> None:
    assert glyphs_for("ascii").work == "#"
    assert glyphs_for("utf-8").work == "█"
    assert glyphs_for("no such encoding").work == "#"
