"""Again: what an engine that is called again from its top gets back instead of new calls."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from ..contract import ModelResponse, PendingApproval, ToolCall, ToolOutcome, ToolStarted
from ..tools import Toolbox
from .past import CallAnswer, Past

__all__ = ["Again", "ToolsAgain"]


class Again:
    """Replies and outcomes of one attempt, as earlier sittings logged them, in order.

    Attributes:
        started: Calls that had started and have no outcome, by id.
        asked: What people were asked about calls, by id.
        answers: What they have answered since, by id.
        diverged: Whether another model was asked than the log says, which ends the replies.
    """

    def __init__(self, past: Past) -> None:
        self.started: Mapping[str, ToolStarted] = past.unsettled
        self.asked: Mapping[str, PendingApproval] = past.asked
        self.answers: Mapping[str, CallAnswer] = past.answers
        self.diverged: bool = False
        self._turns: defaultdict[str, deque[tuple[int, str]]] = defaultdict(deque)
        for turn, model in past.models.items():
            self._turns[past.bodies.get(turn, "")].append((turn, model))
        self._replies = past.replies
        self._outcomes: dict[tuple[str, str], deque[ToolOutcome]] = {}
        for record in past.records[past.records_before :]:
            key = record.call_id, record.tool_name
            self._outcomes.setdefault(key, deque()).append(record.outcome)

    def turn(self, model: str, step: str) -> int | None:
        """The turn in which an earlier sitting made the next model call; None for a new one.

        Args:
            model: Who is asked.
            step: The ``host.once`` in whose body, "" for none; each has an order of its own.
        """
        turns = self._turns[step]
        if not turns:
            return None
        turn, asked = turns.popleft()
        if asked != model:
            turns.clear()
            self.diverged = True
            return None
        return turn

    def reply(self, turn: int) -> ModelResponse | None:
        """What came of the call of *turn*; None where nobody knows."""
        return self._replies.get(turn)

    def outcome(self, call: ToolCall) -> ToolOutcome | None:
        """What came of *call*, once; None where it has no outcome."""
        found = self._outcomes.get((call.id, call.name))
        return found.popleft() if found else None


class ToolsAgain:
    """A Toolbox that hands back the outcomes that the log has."""

    def __init__(self, tools: Toolbox, again: Again) -> None:
        self._tools = tools
        self._again = again

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    async def dispatch(self, calls: Sequence[ToolCall], *, turn: int = 0) -> list[ToolOutcome]:
        """See ``Toolbox.dispatch``; calls with an outcome in the log are not made again."""
        known = [self._again.outcome(call) for call in calls]
        fresh = [call for call, outcome in zip(calls, known, strict=True) if outcome is None]
        made: dict[str, deque[ToolOutcome]] = {}
        for outcome in await self._make(fresh, turn):
            made.setdefault(outcome.call_id, deque()).append(outcome)
        found: list[ToolOutcome] = []
        for call, outcome in zip(calls, known, strict=True):
            if outcome is not None:
                found.append(outcome)
            elif made.get(call.id):
                found.append(made[call.id].popleft())
        return found

    async def _make(self, calls: list[ToolCall], turn: int) -> list[ToolOutcome]:
        if not calls:
            return []
        ids, again = {call.id for call in calls}, self._again
        return await self._tools.resume(
            calls,
            {call_id: start for call_id, start in again.started.items() if call_id in ids},
            asked={call_id: asked for call_id, asked in again.asked.items() if call_id in ids},
            answers={call_id: said for call_id, said in again.answers.items() if call_id in ids},
            turn=turn,
        )
