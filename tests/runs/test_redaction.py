"""Redaction: secrets of a run, from the log and the result to what people watch."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upshot.contract import (
    BoardChanged,
    Message,
    RunStarted,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    decode,
    encode,
)
from upshot.contract.base.secrets import MARKS_OPTION
from upshot.runs.redaction import COUNT_OPTION, Redaction, lift

SECRET = 'hunter2"\n'
NAME = "5f3a"
STARTED = RunStarted(options={MARKS_OPTION: NAME})


def change(text: str) -> BoardChanged:
    call = ToolCall("c1", "login", msgspec.json.encode({"password": text}).decode())
    return BoardChanged(messages=(Message("assistant", f"I try {text}", tool_calls=(call,)),))


@pytest.mark.parametrize("secret", ["hunter2", SECRET, "pässwort", "\\n"])
def test_what_is_written_holds_no_secret_and_is_read_back_whole(secret: str):
    event = change(secret)
    written = Redaction([secret], name=NAME).write(event)
    restore = lift([secret], STARTED)
    assert restore is not None
    assert secret.encode() not in encode(written)
    assert restore.mask(decode(encode(written), BoardChanged)) == event


def test_what_is_shown_cannot_be_read_back():
    shown = Redaction(["hunter2"], name=NAME).show(change("hunter2"))
    assert b"hunter2" not in encode(shown)
    assert NAME.encode() not in encode(shown)


@pytest.mark.parametrize(
    ("texts", "started"),
    [([], STARTED), (["hunter2"], RunStarted())],
    ids=["no secrets now", "none then"],
)
def test_without_marks_or_secrets_there_is_nothing_to_read_back(texts, started):
    assert lift(texts, started) is None


def test_the_order_in_which_secrets_are_named_is_nothing_that_a_log_depends_on():
    event = change("abc and ab and xy")
    written = Redaction(["ab", "xy", "abc"], name=NAME).write(event)
    assert written == Redaction(["xy", "abc", "ab", "xy"], name=NAME).write(event)
    restore = lift(["abc", "xy", "ab"], STARTED)
    assert restore is not None
    assert restore.mask(written) == event


def test_a_log_of_fewer_secrets_is_not_read_with_more():
    started = RunStarted(options={MARKS_OPTION: NAME, COUNT_OPTION: 1})
    assert lift(["hunter2"], started) is not None
    assert lift(["hunter2", "another"], started) is None


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=5), max_size=8),
)
@example(["b", "aaaa"], ["aa", "aa"])
@example(["aab", "bbbb"], ["a", "ab", "bbb"])
def test_no_cut_between_pieces_shows_a_secret(secrets: list[str], pieces: list[str]):
    redaction = Redaction(secrets, name=NAME)
    held = [redaction.hold(TextDelta(text=piece)) for piece in pieces]
    deltas = [*filter(None, held), *redaction.release()]
    shown = "".join(redaction.show(delta).text for delta in deltas if isinstance(delta, TextDelta))
    assert not any(secret in shown for secret in secrets)


@given(st.lists(st.text("hunter2 ", max_size=5), max_size=8))
def test_pieces_without_a_secret_come_whole(pieces: list[str]):
    redaction = Redaction(["xyz"], name=NAME)
    held = [redaction.hold(TextDelta(text=piece)) for piece in pieces]
    deltas = [*filter(None, held), *redaction.release()]
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == "".join(pieces)


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=5), max_size=8),
)
def test_a_reply_that_breaks_off_ends_where_its_pieces_were_shown_to(
    secrets: list[str], pieces: list[str]
):
    redaction = Redaction(secrets, name=NAME)
    held = [redaction.hold(TextDelta(text=piece)) for piece in pieces]
    shown = "".join(delta.text for delta in held if isinstance(delta, TextDelta))
    assert redaction.break_off("".join(pieces)) == shown
    assert not list(redaction.release())


def test_pieces_of_two_calls_are_kept_apart():
    redaction = Redaction(["hunter2"], name=NAME)
    assert redaction.hold(ToolCallDelta(index=0, arguments="hun")) is None
    assert redaction.hold(ToolCallDelta(index=1, arguments="ter2")) == ToolCallDelta(
        index=1, arguments="ter2"
    )
    assert list(redaction.release()) == [ToolCallDelta(index=0, arguments="hun")]
