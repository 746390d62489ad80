"""Progress: what a run is doing now."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from tests.cli.made_up import RUN_ID, a_whole_run, activity_of, began_call, stamped, started
from upshot.cli.terminal import Glyphs, Terminal
from upshot.cli.timeline import Mode, Progress, choose_mode, picture, settled_line
from upshot.contract import ModelStarted, TextDelta
from upshot.state.activity import Activity


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(*, tty: bool = False) -> Terminal:
    return Terminal(out=io.StringIO(), err=Tty() if tty else io.StringIO())


@pytest.mark.parametrize(
    ("wished", "tty", "streaming", "mode"),
    [
        ("auto", False, False, "none"),
        ("auto", True, False, "live"),
        ("auto", True, True, "lines"),
        ("live", False, False, "lines"),
        ("lines", True, False, "lines"),
        ("none", True, False, "none"),
    ],
)
def test_progress_is_quiet_in_a_pipe_and_moves_on_a_terminal(
    wished: str, tty: bool, streaming: bool, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert choose_mode(wished, terminal(tty=tty), streaming=streaming) == mode


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert choose_mode("auto", terminal(tty=True), streaming=False) == "lines"


async def test_each_step_is_told_once_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen = terminal()
    async with Progress(Activity(), screen, "lines") as progress:
        for event in stamped(a_whole_run()):
            progress.add(event)
    assert isinstance(screen.err.file, io.StringIO)
    assert screen.err.file.getvalue().splitlines() == [
        f" {RUN_ID}",
        " ✗ model 1                   200 ms  429 rate_limit  next try in 800 ms",
        " ✓ model 1 again             500 ms  3 calls",
        " ! count                       0 ms  denied: validation  no number",
        " ✓ count                     400 ms  result",
        " ✗ wait                       1.5 s  timeout  over 1.5 s",
        " ✓ model 2                    1.0 s  answer",
    ]


async def test_no_progress_writes_nothing_and_still_tells_the_story() -> None:
    screen, activity = terminal(), Activity()
    async with Progress(activity, screen, "none") as progress:
        for event in stamped(a_whole_run()):
            progress.add(event)
    assert isinstance(screen.err.file, io.StringIO)
    assert screen.err.file.getvalue() == ""
    assert activity.status == "completed"


async def test_a_moving_picture_leaves_only_the_steps_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = terminal(tty=True)
    async with Progress(Activity(), screen, "live") as progress:
        for event in stamped(a_whole_run()):
            progress.add(event)
    assert isinstance(screen.err.file, io.StringIO)
    assert "429 rate_limit" in screen.err.file.getvalue()


def pictured(*events: tuple[float, object], now_s: float, width: int = 80) -> list[str]:
    activity = activity_of(events)  # type: ignore[arg-type]
    return [line.plain for line in picture(activity, now_s=now_s, width=width, glyphs=Glyphs())]


def test_the_picture_shows_what_runs_and_what_was_used() -> None:
    lines = pictured(*a_whole_run()[:8], now_s=2.5)
    assert lines == [
        " | wait                       1.0 s  ",
        " 2.5 s · 110 tokens · cost unknown · 2 tool calls",
    ]


def test_the_picture_shows_that_a_reply_is_being_written() -> None:
    lines = pictured((0.0, ModelStarted(turn=1)), (0.5, TextDelta(text="Hello")), now_s=0.75)
    assert lines[0] == " | model 1                   750 ms  writes, 5 characters"


def test_the_picture_counts_a_wait_down() -> None:
    lines = pictured(*a_whole_run()[:3], now_s=0.4)
    assert "waits 600 ms" in lines[0]


def test_many_steps_at_once_do_not_fill_the_screen() -> None:
    calls = [(0.0, began_call(f"c{n}")) for n in range(20)]
    lines = pictured((0.0, started()), *calls, now_s=1.0)
    assert len(lines) == 8
    assert lines[6].strip() == "and 14 more"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_picture_is_no_wider_than_the_terminal(width: int) -> None:
    activity = activity_of([(0, began_call("c0", "a_tool_with_quite_a_long_name_" * 3))])
    lines = picture(activity, now_s=1, width=width, glyphs=Glyphs())
    assert all(cell_len(line.plain) < width for line in lines)


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_a_settled_step_is_one_line_that_says_what_came_of_it(width: int) -> None:
    for step in activity_of(a_whole_run()).ended:
        line = settled_line(step, width, Glyphs()).plain
        assert cell_len(line) <= width
        assert step.ended is not None
        assert step.ended.word[:5] in line
