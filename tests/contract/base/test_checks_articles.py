"""What a value is, in words of a message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract.base.checks import kind_of, with_article


@pytest.mark.parametrize(
    "said",
    [
        "an int", "a list", "a str", "an Agent", "an object", "a function", "a bool", "an H", "a B",
        "an HTTPModel", "a URL", "an MCPTools", "a Usage", "a User", "an Update", "a uuid",
        "an Engine", "a Union", "an Unknown", "a _Private", "an _Inner", "an X1", "a Host",
    ],
)  # fmt: skip
def test_the_article_is_that_of_the_sound(said: str) -> None:
    assert with_article(said.partition(" ")[2]) == said


@pytest.mark.parametrize(
    ("value", "said"), [(3, "an int"), ([], "a list"), (None, "None"), (b"", "bytes")]
)
def test_a_value_is_called_by_its_type(value: Any, said: str) -> None:
    assert kind_of(value) == said


@given(st.text())
def test_any_word_gets_an_article(word: str) -> None:
    assert with_article(word) in (f"a {word}", f"an {word}")
