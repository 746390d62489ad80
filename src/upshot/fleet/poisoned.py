"""Runs at which their process dies again and again.

A death counts only where the process is known to have ended, and the run has ended no step since
the death before. After the second one the run is worked on alone, in a process of its own, so that
those beside it are spared. A further death there sets it aside.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.structs import Value
from upshot.contract.codec import decode, encode
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.entry.resume import read_begun
from upshot.entry.session_setup import begin_to_end, go_on, run_child
from upshot.journal.lease_holder import LeaseHolder, RunHeld
from upshot.journal.shared import SharedValues, needs_shared
from upshot.runs.engine_api.exceptions import Failed

ALONE_AFTER = 2
"""After so many deaths in one place a run is worked on alone."""


class Deaths(Value, frozen=True, kw_only=True):
    """How often the process of a run died in one place.

    Attributes:
        count: How often.
        steps: How many steps the run had ended then.
        holder: The process that died last.
        alone: Whether it is worked on alone from then on.
    """

    count: int = 0
    steps: int = 0
    holder: str = ""
    alone: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether it died when it was worked on alone, too."""
        return self.count > ALONE_AFTER and self.alone


async def count_death(run_id: str, holder: LeaseHolder, journal: Journal) -> Deaths:
    """Count the death of *holder*, once, whoever tells of it."""
    past = await read_begun(run_id, journal)
    steps = past.turns + len(past.records) + len(past.steps_settled)
    name, dead = _name_of(run_id), f"{holder.boot} {holder.space} {holder.pid} {holder.started}"

    def count(values: SharedValues) -> Deaths:
        body = values.read(name)
        known = decode(body, Deaths) if body else Deaths()
        if known.holder == dead:
            return known
        if known.steps != steps:
            known = Deaths()
        known = replace(known, count=known.count + 1, steps=steps, holder=dead)
        values.write(name, encode(known).decode())
        return known

    return await needs_shared(journal).change_values(count)


async def note_alone(run_id: str, journal: Journal) -> None:
    """Note that a run is worked on alone from now on."""
    name = _name_of(run_id)

    def note(values: SharedValues) -> None:
        known = decode(values.read(name), Deaths)
        values.write(name, encode(replace(known, alone=True)).decode())

    await needs_shared(journal).change_values(note)


async def forget_deaths(run_id: str, journal: Journal) -> None:
    """Forget the deaths of a run that has ended or waits."""
    name = _name_of(run_id)
    await needs_shared(journal).change_values(lambda values: values.forget(name, f"{name} "))


async def set_aside(run_id: str, journal: Journal) -> AgentResult[Any] | None:
    """End a run as failed, without its agent; None where another process works on it."""
    past = await read_begun(run_id, journal)
    agent = Agent[Any](past.agent.id or run_id, engine=_Lost())
    new = await needs_shared(journal).submission(run_id) if past.started is None else None
    going = go_on(run_id, agent, journal, (), {}, watch=False, child=run_child)
    try:
        async with going if new is None else begin_to_end(new, journal, _Lost()) as live:
            return live if isinstance(live, AgentResult) else await live.finish()
    except RunHeld:
        return None


class _Lost:
    """The engine of a run that is only to end."""

    async def execute(self, run: object, host: object, board: object) -> None:
        """Say why it is."""
        raise Failed(
            ErrorCode.WORKER_LOST,
            "the process that worked on the run died three times in one place, at last in a "
            "process of the run's own: see what it does there, and fork it before that",
        )


def _name_of(run_id: str) -> str:
    return f"deaths {run_id}"
