"""Giving answers based on what a parked run shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from upshot import Outdated, PendingApproval, answer, open_journal
from upshot.contract import Answer, AnyAnswer
from upshot.entry.resume import read_past
from upshot.errors import Misuse
from upshot.state.stored_events import result_of

__all__ = ["keep_answers"]


async def keep_answers(run_id: str, answers: Sequence[AnyAnswer], *, journal: Any) -> None:
    """Answer, with the digests of the run's questions, without resuming it.

    Raises:
        Misuse: An answer is refused, or comes too late.
    """
    async with open_journal(journal) as opened:
        result = result_of(await read_past(run_id, opened))
        pending = () if result is None else result.pending
        shown = {one.id: one.digest for one in pending if isinstance(one, PendingApproval)}
        bound = [
            one
            if isinstance(one, Answer) or one.digest
            else replace(one, digest=shown.get(one.call_id, "of nothing"))
            for one in answers
        ]
        told = await answer(run_id, bound, journal=opened)
    if late := [one.reason for one in told if isinstance(one, Outdated)]:
        raise Misuse("; ".join(late))
