"""Steps: what the log of earlier sittings says of keyed steps and questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..contract import Effect, Json, StepSettled

__all__ = ["Steps"]


class Steps:
    """What the log of earlier sittings says of keyed steps and questions.

    Attributes:
        settled: The last settlement by key.
        started: Effects of steps that began and have no settlement, by key.
        answers: Answers by question id.
        on_miss: Called instead of a body whose step is not settled; None runs it.
    """

    def __init__(self) -> None:
        self.settled: dict[str, StepSettled] = {}
        self.started: dict[str, Effect] = {}
        self.answers: dict[str, Json] = {}
        self.on_miss: Callable[[str], NoReturn] | None = None
