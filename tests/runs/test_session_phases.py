"""The table of a run's life: nothing leaves it, and everything comes to its end."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.lifecycle_page import PAGE, drawn
from upshot import Status
from upshot.runs.session import (
    FINAL,
    FIRST,
    NEXT,
    ROWS,
    Cue,
    Phase,
    cue_of_ending,
    cue_of_verdict,
)

WORKING = [phase for phase in Phase if phase not in FINAL]


def cues_of(phase: Phase) -> list[Cue]:
    return [row.cue for row in ROWS if row.source is phase]


def test_a_cue_leads_to_one_phase_only() -> None:
    assert max(Counter((row.source, row.cue) for row in ROWS).values()) == 1


@pytest.mark.parametrize("phase", WORKING)
def test_a_phase_can_break_and_still_comes_to_the_end(phase: Phase) -> None:
    steps = 0
    while phase not in FINAL:
        phase, steps = NEXT[phase][Cue.BROKEN], steps + 1
    assert phase is Phase.SETTLED
    assert steps <= 3


@given(st.data())
def test_no_sequence_of_cues_leaves_the_table(data: st.DataObject) -> None:
    phase, told = FIRST, 0
    for _ in range(40):
        if phase in FINAL:
            break
        told += phase is Phase.CLOSING
        phase = NEXT[phase][data.draw(st.sampled_from(cues_of(phase)))]
    # Only deciders can have it go on for ever, and they have max_attempts against them.
    while phase not in FINAL:
        told += phase is Phase.CLOSING
        phase = NEXT[phase][next(cue for cue in cues_of(phase) if cue is not Cue.REVISED)]
    assert told == 1


def test_the_end_of_a_session_is_reached_through_its_closing_alone() -> None:
    assert {row.source for row in ROWS if row.target in FINAL} == {Phase.CLOSING}


def test_every_phase_can_be_reached() -> None:
    assert {FIRST, *(row.target for row in ROWS)} == set(Phase)


def test_every_cue_stands_in_the_table() -> None:
    assert {row.cue for row in ROWS} == set(Cue)


@pytest.mark.parametrize("status", Status)
def test_only_a_parked_run_goes_by_its_deciders(status: Status) -> None:
    phase = NEXT[Phase.ATTEMPTING][cue_of_ending(status)]
    assert phase is (Phase.ENDING if status is Status.INPUT_REQUIRED else Phase.DECIDING)


@pytest.mark.parametrize(
    ("wants", "is_last", "phase"),
    [
        (True, False, Phase.PREPARING),
        (True, True, Phase.COMMITTING),
        (False, False, Phase.COMMITTING),
        (False, True, Phase.COMMITTING),
    ],
)
def test_a_revision_needs_an_attempt_that_is_left(
    *, wants: bool, is_last: bool, phase: Phase
) -> None:
    cue = cue_of_verdict(wants_revision=wants, is_last=is_last)
    assert NEXT[Phase.DECIDING][cue] is phase


def test_the_page_shows_the_table_as_it_is() -> None:
    page = PAGE.read_text()
    assert page == drawn(page), "write it anew: python -m tests.runs.lifecycle_page"
