"""Steps: what came of keyed steps and questions, in this sitting and by the log of earlier ones."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable
from functools import cache
from typing import NoReturn

from ..contract import AgentError, Effect, Json, StepSettled
from .signals import Failed

__all__ = ["Steps"]


class Steps:
    """What came of keyed steps and questions.

    Attributes:
        settled: The last settlement by key.
        started: Effects of steps that began and have no settlement, by key.
        answers: Answers by question id.
        on_miss: Called instead of a body whose step is not settled; None runs it.
    """

    _raised: dict[str, Exception] | None = None

    def __init__(self) -> None:
        self.settled: dict[str, StepSettled] = {}
        self.started: dict[str, Effect] = {}
        self.answers: dict[str, Json] = {}
        self.on_miss: Callable[[str], NoReturn] | None = None

    def keep(self, key: str, error: Exception) -> None:
        """Remember what the body of a step raised, to raise its like when it is asked for again."""
        kept = _copy(error)
        if kept is not None:
            self._raised = self._raised or {}
            self._raised[key] = kept

    def raised(self, key: str, error: AgentError) -> Exception:
        """What to raise for a step that failed.

        Args:
            key: Of the step.
            error: What the log says that its body raised.

        Returns:
            Its like, where it was raised in this process; else a Failed that is an error of the
            same built-in class too, where it was of one.
        """
        kept = None if self._raised is None else self._raised.get(key)
        made = None if kept is None else _copy(kept)
        return _recalled(error) if made is None else made


def _copy(error: Exception) -> Exception | None:
    """Another like *error*, whose traceback holds nothing; None where there can be none."""
    try:
        made = copy.copy(error)
    except Exception:
        # Classes of users may be made of something else than what they hold.
        return None
    return made if type(made) is type(error) else None


def _recalled(error: AgentError) -> Failed:
    kind = getattr(builtins, error.type, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        # Some, such as UnicodeDecodeError, cannot be made of a message.
        try:
            return _both(kind)(error)
        except TypeError:
            pass
    return Failed(error)


@cache
def _both(kind: type[Exception]) -> type[Failed]:
    """A Failed that an ``except`` for *kind* catches."""
    return type(kind.__name__, (Failed, kind), {"__module__": __name__})
