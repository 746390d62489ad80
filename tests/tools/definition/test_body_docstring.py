"""What a docstring says, whatever style it is written in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.tools.definition.body import parse_docstring

GOOGLE = """Look it up.

    In two paragraphs.

    Args:
        a: The a
            in two lines.
        b (int): The b.

    Returns:
        Nothing of interest.
    """
NUMPY = """Look it up.

    Parameters
    ----------
    a : int
        The a.
    """
SPHINX = """Look it up.

    :param a: The a.
    :returns: Nothing.
    """


def test_google_sections_are_told_apart():
    text, described = parse_docstring(GOOGLE)
    assert text == "Look it up.\n\nIn two paragraphs."
    assert described == {"a": "The a in two lines.", "b": "The b."}


@pytest.mark.parametrize("docstring", [NUMPY, SPHINX], ids=["numpy", "sphinx"])
def test_other_styles_are_read_too(docstring: str):
    assert parse_docstring(docstring) == ("Look it up.", {"a": "The a."})


@pytest.mark.parametrize("docstring", [None, ""])
def test_nothing_gives_nothing(docstring: str | None):
    assert parse_docstring(docstring) == ("", {})


def test_text_without_sections_is_kept_as_it_is():
    assert parse_docstring("One.\n\n    Two: not a section.\n    ")[0] == (
        "One.\n\nTwo: not a section."
    )


def test_nothing_is_printed_about_types_that_the_docstring_lacks(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    parse_docstring(GOOGLE)
    assert not capfd.readouterr().err
    assert not caplog.records


@given(st.lists(st.sampled_from(["Args:", "  a: b", "---", ":param x: y", "", "Text", "a : int"])))
def test_no_text_makes_it_raise(lines: list[str]):
    parse_docstring("\n".join(lines))
