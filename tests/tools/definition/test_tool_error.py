"""What went wrong, in one line."""

import traceback
from contextlib import suppress

import pytest

from upshot.tools.definition.tool_error import named, one_line, without_traceback


def trace_of(error: BaseException, cause: BaseException | None = None) -> str:
    for one in (error, cause or error):
        # Raised once, each has a frame.
        with suppress(type(one)):
            raise one
    error.__cause__ = cause
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("before", ["", "it broke: "])
@pytest.mark.parametrize("cause", [None, KeyError("first")])
def test_of_a_traceback_only_what_was_raised_is_kept(
    cause: BaseException | None, before: str, joined: bool
):
    text = before + trace_of(ValueError("bad name"), cause)
    text = " ".join(text.split()) if joined else text
    assert one_line(text) == f"{before}ValueError: bad name"


def test_of_a_group_the_last_that_was_raised_is_kept():
    error = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    said = one_line(trace_of(error))
    assert "File" not in said
    assert "Traceback" not in said
    assert said.endswith("KeyError: 'b'")


def test_a_syntax_error_loses_its_place():
    try:
        compile("x =", "f.py", "exec")
    except SyntaxError:
        assert one_line(traceback.format_exc()) == "SyntaxError: invalid syntax"


def test_other_text_stays_as_it_is():
    assert without_traceback("no\nTraceback here") == "no\nTraceback here"
    assert one_line("a\n  b") == "a b"


def test_a_traceback_without_an_end_leaves_nothing_of_its_frames():
    text = 'Traceback (most recent call last):\n  File "/home/a/b.py", line 3, in f\n    boom()'
    assert "File" not in one_line(text)


@pytest.mark.parametrize(
    ("error", "said"), [(TimeoutError(), "TimeoutError"), (ValueError("x"), "ValueError: x")]
)
def test_an_error_without_words_ends_in_no_colon(error: Exception, said: str):
    assert named(error) == said
