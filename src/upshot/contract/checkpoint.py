"""Checkpoint: a point of a run to go on from, with the board as it was."""

from __future__ import annotations

from datetime import datetime

from ..errors import Misuse
from .article import kind_of
from .message import Message
from .value import Json, JsonObject, Root, Value, set_field, settle_moments, written

__all__ = ["SPEC_VERSION", "BoardSnapshot", "Checkpoint"]

SPEC_VERSION = "upshot.checkpoint/1"


class BoardSnapshot(Value, frozen=True, kw_only=True):
    """A board as it was at one moment.

    Attributes:
        channels: Messages in order, by channel name.
        variables: JSON values by name.
        seeded: How many messages of each channel were there before the engine started.
    """

    channels: dict[str, tuple[Message, ...]] = {}
    variables: JsonObject = {}
    seeded: dict[str, int] = {}


class _Point(Root, frozen=True, kw_only=False):
    exec_id: str
    step: str
    board: BoardSnapshot = BoardSnapshot()


class Checkpoint(_Point, frozen=True, kw_only=True):
    """A point of a run to go on from.

    Attributes:
        exec_id: The run that it is of.
        step: The engine's name for the point.
        board: The board at that point; of a Board that is given, its snapshot is taken.
        iteration: How many steps the engine had made.
        payload: What the engine needs besides.
        attributes: The run's attributes.
        timestamp: When it was taken.
        original_started_at: When the run started first; kept over resumes.
        spec_version: The form of the payload; written, and checked when read.
    """

    iteration: int = 0
    payload: Json = None
    attributes: JsonObject = {}
    timestamp: datetime | None = None
    original_started_at: datetime | None = None
    spec_version: str = written(SPEC_VERSION)

    def __post_init__(self) -> None:
        settle_moments(self, "timestamp", "original_started_at")
        if not isinstance(self.board, BoardSnapshot):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            set_field(self, "board", _snapshot_of(self.board))


def _snapshot_of(board: object) -> BoardSnapshot:
    taken = None if isinstance(board, type) else getattr(board, "snapshot", None)
    made: object = taken() if callable(taken) else None
    if isinstance(made, BoardSnapshot):
        return made
    raise Misuse(f"the board of a checkpoint is {kind_of(board)}: give board.snapshot()")
