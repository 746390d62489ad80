"""Interrupt: a wish that a run stop."""

from typing import Any

from upshot.contract import Interrupt, InterruptCause


def test_a_cause_given_as_text_becomes_a_word() -> None:
    known: Any = "user_cancel"
    mine: Any = "tea_time"
    assert Interrupt(known).cause is InterruptCause.USER_CANCEL
    assert isinstance(Interrupt(mine).cause, InterruptCause)
    assert Interrupt(mine, "four o'clock").detail == "four o'clock"


def test_an_interrupt_is_truthy_even_without_a_cause() -> None:
    assert Interrupt()
