"""Tally: what an engine used by ways of its own, counted once and held against the budget."""

from __future__ import annotations

from ..contract import AgentError, ModelResponse
from .ground import Ground
from .kin import child_of, reported_step, spent_of
from .ledger import counted_usage
from .run import Run

__all__ = ["Tally"]


class Tally:
    """Takes what foreign engines report of their model calls.

    Args:
        ground: What the run stands on.
        run: The run.

    Attributes:
        overrun: The limit that the engine went on beyond by ways of its own, None for none.
    """

    overrun: AgentError | None = None

    def __init__(self, ground: Ground, run: Run) -> None:
        self._ground = ground
        self._run = run
        self._reports: dict[int, int] = {}

    def count(self, response: ModelResponse) -> bool:
        """Count what an engine used by ways of its own; the second time beyond a limit ends it.

        Returns:
            Whether it is new, and not what an engine that is called again from its top reported
            in an earlier sitting.
        """
        if not self._log(response):
            return False
        spent = self._ground.ledger.spent_by_children()
        self._ground.ledger.note(response)
        if spent is not None and not self._ground.scope.stop and not self._ground.scope.is_final:
            self.overrun = spent
            self._ground.scope.end("budget")
        return True

    def _log(self, response: ModelResponse) -> bool:
        past, attempt = self._ground.past, self._ground.recorder.attempt
        known = {} if past is None else past.children
        # With the call itself: later sittings count what stands there, and nothing else.
        usage = counted_usage(response)
        while True:
            number = self._reports[attempt] = self._reports.get(attempt, 0) + 1
            step = reported_step(attempt, number, usage, response.cost)
            logged = known.get(child_of(step.key) or "")
            if logged is None:
                self._ground.recorder.emit(step)
                return True
            if self._run.is_again and logged == spent_of(step.value):
                return False
