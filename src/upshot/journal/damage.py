"""Damage: what is wrong with the stored log of one run."""

from __future__ import annotations

import logging

from ..contract.value import Value
from ..errors import JournalError

__all__ = ["Damage", "damage_error", "logger"]

logger: logging.Logger = logging.getLogger("upshot.journal")


class Damage(Value, frozen=True, kw_only=True):
    """A run's log is not whole.

    Attributes:
        run_id: The run.
        sound_to: Seq of the last event before the damage; 0 if the first is damaged.
        lost: How many events there were after it, as far as that can be told.
        reason: What was found.
        tail: Whether nothing sound stands after the damage, so that cutting loses nothing more.
        cut: Whether what came after *sound_to* has been cut off.
    """

    run_id: str = ""
    sound_to: int = 0
    lost: int = 0
    reason: str = ""
    tail: bool = True
    cut: bool = False

    def __str__(self) -> str:
        place = f"run {self.run_id} is damaged after event {self.sound_to}: {self.reason}"
        if self.cut:
            return f"{place}; {self.lost} events were cut off"
        if self.tail:
            return f"{place}; {self.lost} events are lost"
        return f"{place}; sound events stand after it, and only claim(..., cut=True) drops them"


def damage_error(damage: Damage) -> JournalError:
    """The exception that tells of *damage*."""
    return JournalError(str(damage), run_id=damage.run_id, seq=damage.sound_to)
