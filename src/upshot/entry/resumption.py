"""Resumption: whether an engine can go on where a checkpoint or a log stands."""

from __future__ import annotations

from typing import Any, cast

from ..contract import SPEC_VERSION, Checkpoint, Engine
from ..errors import Misuse
from ..runs import Past, Plan
from ..runs.callback import call, raised
from ..runs.onward import is_asked, is_under_way, point_of, reads_checkpoints

__all__ = ["check_checkpoint", "check_onward"]


async def check_checkpoint(checkpoint: Checkpoint | None, engine: Engine) -> None:
    """Ask an engine whether it can begin at a checkpoint.

    Args:
        checkpoint: What ``resume_from`` gave, None for nothing.
        engine: Of the run that is about to begin.

    Raises:
        Misuse: It says that it cannot, or gives no word; or the checkpoint is of another form.
    """
    if checkpoint is None:
        return
    name = type(engine).__name__
    if checkpoint.spec_version != SPEC_VERSION:
        raise Misuse(
            f"the checkpoint is of the form {checkpoint.spec_version!r}, and this version reads "
            f"{SPEC_VERSION!r}"
        )
    if not callable(getattr(engine, "can_resume", None)):
        if reads_checkpoints(engine):
            return
        raise Misuse(f"{name} cannot resume: it has no can_resume(checkpoint)")
    if not await _can_resume(engine, checkpoint):
        raise Misuse(f"{name} cannot resume from the checkpoint at step {checkpoint.step!r}")


async def check_onward(past: Past, plan: Plan) -> None:
    """Ask an engine whether it can go on where the log of its run stands.

    Args:
        past: What the log says.
        plan: Of the sitting that is about to begin.

    Raises:
        Misuse: It says that it cannot, or gives no word.
    """
    engine = plan.engine
    if not is_under_way(past) or not is_asked(engine):
        return
    point = point_of(past)
    if not await _can_resume(engine, point):
        name = type(engine).__name__
        place = f"at step {point.step!r}" if point.step else "where no checkpoint was made"
        raise Misuse(
            f"{name} cannot go on with run {plan.run_id!r}, which stands {place}: begin another "
            "run, or have its can_resume(checkpoint) say that it can"
        )


async def _can_resume(engine: Engine, checkpoint: Checkpoint) -> bool:
    """What an engine says that has ``can_resume``.

    Raises:
        Misuse: It raises.
    """
    name = type(engine).__name__
    try:
        return bool(await call(cast("Any", engine).can_resume, checkpoint))
    except Exception as error:
        # The caller's engine; nothing has begun.
        raise Misuse(raised(f"{name}.can_resume", error)) from error
