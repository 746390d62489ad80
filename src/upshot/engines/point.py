"""Point: the checkpoints that engines make where the user's host keeps them."""

from __future__ import annotations

from ..contract import Checkpoint
from ..runs import Board, Run, RunHost

__all__ = ["keeps_points", "save_point"]


def keeps_points(host: RunHost) -> bool:
    """Whether somebody keeps checkpoints; hosts other than the run's own are not asked."""
    return bool(getattr(host, "keeps_checkpoints", False))


async def save_point(run: Run, host: RunHost, board: Board, *, step: str, iteration: int) -> None:
    """Give the host a checkpoint of *board* as it is now.

    Args:
        run: The run.
        host: Its host, which keeps checkpoints.
        board: What is on it is copied.
        step: Where the engine goes on from there, in its own words.
        iteration: How many steps it has made.
    """
    await host.checkpoint(Checkpoint(run.id, step, board.snapshot(), iteration=iteration))
