"""What steps of the log are called for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.state.activity import step_title


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("machine-1/draft#1", "draft"),
        ("machine-2/draft#3", "draft 3"),
        ("graph-1/fetch#1~2", "fetch, try 2"),
        ("graph-1/fetch#2~2", "fetch 2, try 2"),
        ("machine-1/both#1/left", "both/left"),
        ("machine-1/inner#1/draft#2", "inner/draft 2"),
        ("machine-1/start", ""),
        ("machine-1/machine", ""),
        ("machine-1/draft#1:enter", ""),
        ("graph-1/question-1", ""),
        ("graph-1/fetch#1~failed-1", ""),
        ("wait:approval#1", ""),
        ("child:run-b5b71a73226f0000", "run-b5b71a73226f0000"),
        ("child:reported-1-2", "reported usage"),
        ("plan", "plan"),
        ("fetch#1", "fetch#1"),
        ("", ""),
    ],
)
def test_a_step_is_called_what_its_author_called_it(key: str, title: str) -> None:
    assert step_title(key) == title


@given(key=st.text() | st.from_regex(r"(machine|graph)-1/.*"))
def test_any_key_has_a_title_that_is_no_longer(key: str) -> None:
    assert len(step_title(key)) <= len(key) + len(", try ")
