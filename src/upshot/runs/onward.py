"""Onward: whether an engine finds its place in an attempt that is gone on with, or starts over."""

from __future__ import annotations

from ..contract import Checkpoint, Engine, Origin, RunWarning
from .past import Past

__all__ = [
    "is_asked",
    "is_under_way",
    "overlooking",
    "point_of",
    "reads_checkpoints",
    "starting_over",
]


def is_asked(engine: Engine) -> bool:
    """Whether *engine* is asked before it goes on; not one that goes on by the log alone."""
    return not _goes_on_by_log(engine) and callable(getattr(engine, "can_resume", None))


def reads_checkpoints(engine: Engine) -> bool:
    """Whether *engine* takes any checkpoint and looks itself what it means."""
    return bool(getattr(engine, "reads_checkpoints", False))


def is_under_way(past: Past) -> bool:
    """Whether the engine was at an attempt when the last sitting ended."""
    return past.is_seeded and past.line is None


def point_of(past: Past) -> Checkpoint:
    """Where the log of a run stands, for an engine that is asked whether it can go on there.

    Args:
        past: Of the run, which has started.

    Returns:
        The board as it was left, under the last name that the engine gave to a point of the
        attempt; the step is "" where it named none.
    """
    started, named = past.started, past.point
    return Checkpoint(
        "" if started is None else started.run_id,
        "" if named is None else named.step,
        past.board.snapshot(),
        iteration=0 if named is None else named.iteration,
        payload=None if named is None else named.payload,
        attributes={} if started is None else started.attributes,
        timestamp=None if named is None else named.time,
        original_started_at=None if started is None else started.time,
    )


def starting_over(engine: Engine) -> RunWarning | None:
    """What is told of *engine*, which was called again and took nothing from the log.

    Returns:
        None where it has a way to go on.
    """
    if _goes_on_by_log(engine) or is_asked(engine):
        return None
    message = (
        f"the engine {type(engine).__name__} cannot resume and was called again from its top, on "
        "the board as it was left: give it can_resume(checkpoint), have it call "
        "run.hand_back(board) first, or set goes_on_by_log = True where it finds its place itself"
    )
    return RunWarning(code="engine_starts_over", message=message, origin=Origin.ENGINE)


def overlooking(engine: Engine) -> RunWarning | None:
    """What is told of *engine*, which was given a checkpoint and has not looked at it.

    Returns:
        None where it had said before that it can go on from there.
    """
    if callable(getattr(engine, "can_resume", None)) or not reads_checkpoints(engine):
        return None
    message = (
        f"the engine {type(engine).__name__} was given a checkpoint and began at its top, on the "
        "board of that: have it look at run.resume_from"
    )
    return RunWarning(code="engine_starts_over", message=message, origin=Origin.ENGINE)


def _goes_on_by_log(engine: Engine) -> bool:
    return bool(getattr(engine, "goes_on_by_log", False))
