"""Seeding: what stands on the board before the engine starts."""

from __future__ import annotations

from collections.abc import Iterable

from ..contract import BoardChanged, Message, Request, RunInfo
from .board import Board
from .callback import Wait, call, method
from .options import Seeder
from .plan import Plan
from .trail import blame

__all__ = ["board_of", "seed_board"]


async def seed_board(
    plan: Plan, info: RunInfo, *, attempt: int, feedback: str, wait: Wait
) -> Board:
    """Prepare a board: of the checkpoint, by the user's seeder, or of history, request and inputs.

    Args:
        plan: The run.
        info: Its identity.
        attempt: Which attempt it is for; a checkpoint counts for the first alone.
        feedback: What the decider that asked for this attempt wants changed, "" for nothing.
        wait: Waits for an async seeder, as long as the run has patience.

    Returns:
        The board, its content marked as seeded.

    Raises:
        ValueError: The seeder gave no board.
        Exception: Whatever the seeder raised.
    """
    checkpoint = plan.resume_from
    if checkpoint is not None and attempt == 1:
        return Board.restore(checkpoint.board)
    if plan.prepare is not None:
        board = await _prepared(plan.prepare, info, plan.request, wait=wait)
    elif plan.seed and not plan.history:
        # Neither history nor what was handed over is known to who goes on with a run.
        return board_of(plan.seed, feedback)
    else:
        board = Board()
        board.extend((*plan.history, plan.request.to_message()))
        for name, value in plan.request.inputs.items():
            board.set(name, value)
    if plan.handed:
        board.extend(plan.handed)
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board


async def _prepared(prepare: Seeder, info: RunInfo, request: Request, *, wait: Wait) -> Board:
    try:
        made = await call(prepare, info, request, wait=wait)
    except Exception as error:
        blame(error, "prepare", info.run_id)
        raise
    if isinstance(made, Board):
        # A seeder may give one board for all: what is done in one attempt is not in the next.
        return made.apart() if type(made) is Board else made
    if method(made, "snapshot") is None:
        what = "None" if made is None else f"a value of type {type(made).__name__}"
        raise ValueError(f"prepare returned {what}: return the Board that the run shall start with")
    return Board.restore(made.snapshot())


def board_of(changes: Iterable[BoardChanged], feedback: str = "") -> Board:
    """A board that is seeded as the log says, and with *feedback* after that."""
    board = Board()
    for change in changes:
        board.apply(change)
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board
