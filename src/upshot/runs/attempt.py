"""Attempt: one pass of the engine: the board that it starts with, its work, and how it ended."""

from __future__ import annotations

import inspect
from typing import Any

from ..contract.article import kind_of
from ..tools.fence import is_fenced
from .callback import call
from .ending import COMPLETED, Ending, classify
from .equipment import Equipment
from .onward import overlooking, starting_over
from .scope import current_run
from .seed import board_of, seed_board
from .signals import Failed, signal_of
from .trail import blame

__all__ = ["ending_of", "seed", "work_on"]


async def seed(parts: Equipment, attempt: int, feedback: str) -> None:
    """Prepare the board of an attempt, and log what stands on it.

    Args:
        parts: Of the run.
        attempt: Its number.
        feedback: What the decider that asked for it wants changed, "" for nothing.

    Raises:
        Exception: Whatever the user's seeder raised.
    """
    if attempt > 1:
        parts.run.take_up(None)
    if parts.record is None:
        wait = parts.scope.wait
        board = await seed_board(
            parts.plan, parts.info, attempt=attempt, feedback=feedback, wait=wait
        )
    else:
        board = board_of(parts.record.begin(attempt))
    for change in board.facts():
        parts.recorder.emit(change)
    parts.box.new_turn()
    if any(map(is_fenced, board.messages())):
        parts.box.distrust("an earlier run")
    parts.use_board(board)


async def work_on(parts: Equipment) -> None:
    """Have the engine work on the board, and take what it returns.

    Raises:
        BaseException: Whatever it raised.
    """
    current_run.set(parts.parent())
    if parts.plan.agent.instructions is not None:
        parts.run.instruct(await _instructions(parts))
    if parts.plan.handoffs:
        await parts.box.handoffs.ask_filters()
    engine: Any = parts.plan.engine
    try:
        made = engine.execute(parts.run, parts.host, parts.board)
        returned = await made if inspect.isawaitable(made) else made
    except Exception as error:
        blame(error, f"the engine {type(engine).__name__}", parts.info.run_id)
        _warn_of_lost(parts, error)
        raise
    finally:
        # Only now is it known that it did not ask for what the log has.
        warning = starting_over(engine) if parts.run.is_at_top else None
        is_first = parts.run.attempt == 1
        if parts.plan.resume_from is not None and is_first and not parts.run.has_looked_back:
            warning = overlooking(engine)
        if warning is not None and not parts.recorder.is_lost:
            parts.recorder.warn(warning)
    parts.take_returned(returned)


def ending_of(parts: Equipment, error: BaseException | None) -> Ending:
    """How a pass of the engine ended, or the run where it stands.

    Args:
        parts: Of the run.
        error: What was raised, None for a clean return.
    """
    if error is None and not parts.scope.was_cut:
        return COMPLETED
    return classify(
        error,
        stop=parts.scope.stop,
        was_cut=parts.scope.was_cut,
        interrupt=parts.host.interrupt,
        limit=parts.host.overrun or parts.ledger.time_error(parts.scope.stop),
        questions=parts.host.questions,
    )


def _warn_of_lost(parts: Equipment, error: Exception) -> None:
    """Tell what of a failure's details JSON cannot hold."""
    # In a frame that ends here: one that keeps the error, which has it, is left to the collector.
    told = signal_of(error)
    if isinstance(told, Failed) and not parts.recorder.is_lost:
        parts.recorder.warn_of_losses("details", told.lost)


async def _instructions(parts: Equipment) -> str | None:
    asked = parts.plan.agent.instructions
    try:
        told = await call(asked, parts.run) if callable(asked) else asked
        if not isinstance(told, str | None):
            given = kind_of(told)
            raise TypeError(f"the agent's instructions gave {given}, not a text")
    except Exception as error:
        blame(error, "the agent's instructions", parts.info.run_id)
        raise
    return told
