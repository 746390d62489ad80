"""Seeding: what stands on the board before the engine starts."""

from __future__ import annotations

from ..contract import Message, RunInfo, to_free_json
from .board import Board
from .callback import call
from .plan import Plan

__all__ = ["seed_board"]


async def seed_board(plan: Plan, info: RunInfo, *, feedback: str) -> Board:
    """Prepare a fresh board: the user's seeder, or history, request and inputs.

    Args:
        plan: The run.
        info: Its identity.
        feedback: What the decider that asked for this attempt wants changed, "" for the first.

    Returns:
        The board, its content marked as seeded.

    Raises:
        ValueError: The seeder gave no board.
        Exception: Whatever the seeder raised.
    """
    if plan.prepare is not None:
        made = await call(plan.prepare, info, plan.request)
        if made is None:
            raise ValueError(
                "prepare returned None: return the Board that the run shall start with"
            )
        board = made if isinstance(made, Board) else Board.restore(made.snapshot())
    else:
        board = Board()
        board.extend(plan.history)
        board.append(plan.request.to_message())
        for name, value in plan.request.inputs.items():
            board.set(name, to_free_json(value)[0])
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board
