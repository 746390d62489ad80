"""Taking: a claim under way, and what is appended to its run in the meantime."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ..errors import JournalError
from .claim import Claim
from .entry import Entry, epoch_error

__all__ = ["Taking"]


@dataclass(slots=True, eq=False)
class Taking:
    """A claim whose outcome is not known yet; it belongs to the event loop.

    What is appended until then is kept here: behind the claim in the queue it would be refused
    for its epoch, although it was taken, and ahead of it is no room any more.

    Attributes:
        kept: What was appended, in order; with the epoch of who had the run until now.
        ended: Set when the outcome is known and what was kept is queued or refused.
    """

    kept: list[Entry] = field(default_factory=list[Entry])
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _refusal: JournalError | None = None

    def hand_over(self, claim: Claim) -> list[Entry]:
        """What was kept, as the first entries under the new epoch; nothing where it is refused.

        ``durable`` is not told who waits. So whatever was taken before the claim has the run is
        in its log, and only where somebody else had it in between there is no place for it.
        """
        if not self.kept:
            return []
        first = self.kept[0]
        if (claim.epoch, claim.last_seq) != (first.epoch + 1, first.seq - 1):
            self._refusal = epoch_error(first.run_id, first.epoch, claim.epoch, claim.last_seq)
            return []
        return [entry._replace(epoch=claim.epoch) for entry in self.kept]

    async def wait(self) -> None:
        """Wait for the outcome.

        Raises:
            JournalError: What was kept is refused.
        """
        await self.ended.wait()
        refusal = self._refusal
        if refusal is not None:
            raise JournalError(str(refusal), run_id=refusal.run_id, seq=refusal.seq)
