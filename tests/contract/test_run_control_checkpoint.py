"""Checkpoint: a point of a run to go on from."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from upshot.contract import SPEC_VERSION, BoardSnapshot, Checkpoint, Message, decode, encode
from upshot.errors import Misuse
from upshot.state.board import Board


def test_a_checkpoint_is_made_of_run_step_and_board() -> None:
    board = BoardSnapshot(channels={"main": (Message("user", "Hi"),)}, variables={"n": 1})
    point = Checkpoint("run-1", "after look", board)
    assert (point.exec_id, point.step, point.board) == ("run-1", "after look", board)


def test_the_form_of_its_payload_is_always_written() -> None:
    assert f'"spec_version":"{SPEC_VERSION}"'.encode() in encode(Checkpoint("run-1", "s"))


def test_another_form_is_kept_for_who_goes_on_to_check() -> None:
    point = decode(encode(Checkpoint("run-1", "s", spec_version="upshot.checkpoint/9")))
    assert isinstance(point, Checkpoint)
    assert point.spec_version == "upshot.checkpoint/9"


def test_its_moments_are_utc() -> None:
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    point = Checkpoint("run-1", "s", timestamp=east, original_started_at=east)
    assert point.timestamp == point.original_started_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert b"2026-01-01T00:00:00Z" in encode(point)


def test_a_board_that_is_given_is_kept_as_it_was() -> None:
    board = Board()
    board.set("x", 1)
    point = Checkpoint("run-1", "s", board)  # pyright: ignore[reportArgumentType]
    board.set("x", 2)
    assert point.board == BoardSnapshot(variables={"x": 1})
    assert decode(encode(point)) == point


@pytest.mark.parametrize("board", [None, {"variables": {}}, Board])
def test_what_is_no_board_makes_no_checkpoint(board: Any) -> None:
    with pytest.raises(Misuse, match=r"give board\.snapshot\(\)"):
        Checkpoint("run-1", "s", board)
