"""Interrupt: a wish that a run stop."""

from enum import Enum
from typing import Any

import pytest

from upshot.contract import Interrupt, InterruptCause


def test_a_cause_given_as_text_becomes_a_word() -> None:
    known: Any = "user_cancel"
    mine: Any = "tea_time"
    assert Interrupt(known).cause is InterruptCause.USER_CANCEL
    assert isinstance(Interrupt(mine).cause, InterruptCause)
    assert Interrupt(mine, "four o'clock").detail == "four o'clock"


class Word(str, Enum):  # noqa: UP042  # its str() is another than its value
    USER = "user_cancel"


class Plain(Enum):
    USER = "user_cancel"


class Text(str): ...


@pytest.mark.parametrize("given", [Word.USER, Plain.USER, Text("user_cancel")], ids=type)
def test_a_word_of_the_callers_own_enum_is_its_value(given: Any) -> None:
    assert Interrupt(given).cause is InterruptCause.USER_CANCEL
    detail = Interrupt("custom", given).detail
    assert (type(detail), detail) == (str, "user_cancel")


def test_an_interrupt_is_truthy_even_without_a_cause() -> None:
    assert Interrupt()
