"""The gate on repetitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeAlias

from ...contract import DeniedReason
from ..case import Case
from ..gate import Denial, Following

__all__ = ["ReplayGate"]

_Verdict: TypeAlias = Denial | Following | None


class ReplayGate:
    """A call of an idempotent tool that succeeded is not made again."""

    name = "replay"

    def check(self, case: Case) -> _Verdict | Awaitable[_Verdict]:
        """Deny a repetition; a call whose twin is under way, or parked, waits for it."""
        tool = case.known_tool
        if not tool.idempotent or tool.repeatable:
            return None
        if case.dry:
            done = case.turn.replay.done_by(case.digest)
            return None if done is None else _duplicate(done)
        found = self._enter(case)
        return self._wait(case, found) if isinstance(found, asyncio.Future) else found

    async def _wait(self, case: Case, twin: asyncio.Future[None]) -> _Verdict:
        found: _Verdict | asyncio.Future[None] = twin
        while isinstance(found, asyncio.Future):
            # Shielded: others wait for the same twin.
            await asyncio.shield(found)
            found = self._enter(case)
        return found

    def _enter(self, case: Case) -> _Verdict | asyncio.Future[None]:
        key, turn = case.digest, case.turn
        leader = turn.parked.get(key)
        if leader is not None:
            # People are asked once; what they say of the first decides about the others.
            return Following(leader)
        found = turn.replay.enter(key, case.resources)
        if isinstance(found, str):
            return _duplicate(found)
        if isinstance(found, asyncio.Future):
            return found
        case.held = found
        return None


def _duplicate(call_id: str) -> Denial:
    return Denial(DeniedReason.DUPLICATE, f"it was done already, as call {call_id}")
