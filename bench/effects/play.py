"""A model's script, which the model of any framework can play."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Play", "Wanted"]

ORDER: Mapping[str, Any] = {"order_id": "7", "cents": 900}


@dataclass(frozen=True)
class Wanted:
    """A call that the model wants."""

    id: str
    arguments: dict[str, Any]


@dataclass
class Play:
    """Requests the refund in a number of replies, whatever it reads, and then says "done".

    Attributes:
        replies: The calls of each reply, each by the arguments that differ from those of order 7.
        tool: The name of the tool.
        told: What was read about each call, by its id, in the order of the calls.
    """

    replies: Sequence[Sequence[Mapping[str, Any]]]
    tool: str = "refund"
    told: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left = [
            [Wanted(f"call_{secrets.token_hex(6)}", {**ORDER, **one}) for one in reply]
            for reply in self.replies
        ]

    def next(self) -> list[Wanted]:
        """Return the calls of the next reply, [] for the last one."""
        calls = self._left.pop(0) if self._left else []
        for one in calls:
            self.told[one.id] = ""
        return calls

    @property
    def is_over(self) -> bool:
        """Whether all calls were requested."""
        return not self._left

    def read(self, id: str, text: object) -> None:
        """Record what the model reads about a call; calls outside the script are ignored."""
        if id in self.told:
            self.told[id] = str(text)

    def read_error(self, error: BaseException) -> None:
        """Record an exception that the caller got instead of an answer."""
        for id, text in self.told.items():
            if not text:
                self.told[id] = f"{type(error).__name__}: {error}"
