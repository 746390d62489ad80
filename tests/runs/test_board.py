"""The board: channels, variables, what was seeded and what was produced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import say
from upshot import Board, BoardChanged, Message, Misuse
from upshot.runs.seed import changes_of

CHANNELS = st.sampled_from(["main", "notes", "drafts"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), CHANNELS, st.sampled_from("abc")),
        st.tuples(st.just("set"), st.sampled_from("xyz"), st.integers()),
        st.tuples(st.just("seed")),
    ),
    max_size=20,
)


def make(changes: Any, board: Board) -> Board:
    for change in changes:
        match change:
            case ("say", channel, text):
                board.append(say(text), channel)
            case ("set", name, value):
                board.set(name, value)
            case _:
                board.mark_seeded()
    return board


@given(CHANGES)
def test_a_restored_snapshot_is_an_equal_board(changes: Any) -> None:
    board = make(changes, Board())
    again = Board.restore(board.snapshot())
    assert again == board
    assert sorted(m.text for m in again.produced()) == sorted(m.text for m in board.produced())


@given(CHANGES)
def test_the_changes_of_a_board_make_an_equal_board(changes: Any) -> None:
    board = make(changes, Board())
    again = Board()
    for change in changes_of(board):
        again.apply(change)
        if change.seeded:
            again.mark_seeded()
    assert again.snapshot().variables == board.variables()
    for channel in board.channels():
        assert list(again.messages(channel)) == list(board.messages(channel))
        assert again.seeded(channel) == board.seeded(channel)


@given(CHANGES)
def test_every_change_is_told_and_makes_the_same_board(changes: Any) -> None:
    told: list[BoardChanged] = []
    board = make([one for one in changes if one[0] != "seed"], Board(on_change=told.append))
    again = Board()
    for change in told:
        again.apply(change)
    assert again == board


def test_a_snapshot_does_not_see_later_changes() -> None:
    board = Board()
    board.append(say("one"))
    snapshot = board.snapshot()
    board.append(say("two"))
    board.set("x", 1)
    assert (len(snapshot.channels["main"]), snapshot.variables) == (1, {})


def test_the_answer_is_the_last_assistant_message_on_the_main_channel() -> None:
    board = Board()
    board.append(say("seeded"))
    board.mark_seeded()
    assert board.answer() is None
    board.append(say("first"))
    board.append(Message("user", "no"))
    board.append(say("aside"), "notes")
    assert board.answer() == "first"


@pytest.mark.parametrize("message", ["text", None, {"role": "user"}])
def test_what_is_no_message_is_misuse(message: Any) -> None:
    with pytest.raises(Misuse, match="takes Message values"):
        Board().append(message)


def test_a_board_is_a_default_for_what_was_never_set() -> None:
    board = Board()
    assert (board.get("x"), board.get("x", 1), board.variables()) == (None, 1, {})


def test_adopting_a_board_takes_what_it_has_more() -> None:
    board, other = Board(), Board()
    for one in (board, other):
        one.append(say("same"))
    board.mark_seeded()
    other.append(say("more"))
    other.set("x", 1)
    board.adopt(other)
    assert ([m.text for m in board.produced()], board.get("x")) == (["more"], 1)
