"""Tally: what an engine used by ways of its own, counted once and held against the budget."""

from __future__ import annotations

from ..contract import AgentError, ModelResponse
from .kin import child_of, reported_step, spent_of
from .ledger import Ledger
from .past import Past
from .recorder import Recorder
from .run import Run
from .scope import Scope

__all__ = ["Tally"]


class Tally:
    """Takes what foreign engines report of their model calls.

    Args:
        run: The run.
        recorder: Its log.
        ledger: Its account.
        scope: Where its engine works.
        past: What earlier sittings logged; None for a new run.

    Attributes:
        overrun: The limit that the engine went on beyond by ways of its own, None for none.
    """

    def __init__(
        self, run: Run, *, recorder: Recorder, ledger: Ledger, scope: Scope, past: Past | None
    ) -> None:
        self.overrun: AgentError | None = None
        self._run = run
        self._recorder = recorder
        self._ledger = ledger
        self._scope = scope
        self._past = past
        self._reports: dict[int, int] = {}

    def count(self, response: ModelResponse) -> bool:
        """Count what an engine used by ways of its own; the second time beyond a limit ends it.

        Returns:
            Whether it is new, and not what an engine that is called again from its top reported
            in an earlier sitting.
        """
        if not self._log(response):
            return False
        spent = self._ledger.spent_by_children()
        self._ledger.note(response)
        if spent is not None and not self._scope.stop and not self._scope.is_final:
            self.overrun = spent
            self._scope.end("budget")
        return True

    def _log(self, response: ModelResponse) -> bool:
        attempt, known = self._recorder.attempt, self._past.children if self._past else {}
        while True:
            number = self._reports[attempt] = self._reports.get(attempt, 0) + 1
            step = reported_step(attempt, number, response)
            logged = known.get(child_of(step.key) or "")
            if logged is None:
                self._recorder.emit(step)
                return True
            if self._run.is_again and logged == spent_of(step.value):
                return False
