"""Interrupt: a wish that a run stop at its next safe point."""

from __future__ import annotations

from enum import Enum
from typing import cast

from .free_json import clean_fields
from .value import Value, set_field
from .word_field import CauseField, word
from .words import InterruptCause

__all__ = ["Interrupt"]


class Interrupt(Value, frozen=True, kw_only=False):
    """Why a run shall stop.

    Attributes:
        cause: user_cancel, user_input, host_shutdown, deadline, custom, or a word of your own.
        detail: What else is to be said.
    """

    cause: CauseField = word(InterruptCause.NONE)
    detail: str = ""

    def __post_init__(self) -> None:
        # Whoever stops a run is not to lose that over a word: what is no text is written as one.
        cause, detail = cast("tuple[object, object]", (self.cause, self.detail))
        if type(cause) is not InterruptCause:
            set_field(self, "cause", InterruptCause(_text(cause)))
        if type(detail) is not str:
            set_field(self, "detail", _text(detail))
        clean_fields(self, "detail")


def _text(given: object) -> str:
    # The word of an enum of the caller's is its value; str() would give "Why.USER".
    value: object = given.value if isinstance(given, Enum) else given
    if isinstance(value, str):
        return str.__str__(value)
    return "" if value is None else str(value)
