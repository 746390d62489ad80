"""Clerk: what the tools of a run ask and tell it."""

from __future__ import annotations

import msgspec

from ..contract import (
    Artifact,
    ArtifactStored,
    DeniedReason,
    Event,
    ModelRequest,
    ModelResponse,
    RunWarning,
    ToolSettled,
    ToolStarted,
    Warned,
)
from ..errors import Misuse
from ..tools import Case, Denial
from ..tools.artifacts import READER_NAME
from .calls import ModelCaller
from .handoff import Handoffs
from .past import to_artifact
from .plan import Plan
from .recording import Recording

__all__ = ["Clerk"]


class Clerk:
    """Stands between a Toolbox and its run, and knows neither, so that both go when nobody looks.

    Args:
        plan: The run.
        caller: Its way to models, with its log and its account.
        handoffs: Those that it may make.
        stored: Where large outputs are noted that were stored.
        record: What stands for the bodies of tools where a run is replayed; None is the world.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        caller: ModelCaller,
        handoffs: Handoffs,
        stored: list[Artifact],
        record: Recording | None,
    ) -> None:
        self._plan = plan
        self._caller = caller
        self._recorder = caller.recorder
        self._ledger = caller.ledger
        self._handoffs = handoffs
        self._stored = stored
        self._record = record

    @property
    def has_judgement(self) -> bool:
        """Whether a body's start depends on more than the tools know."""
        is_replay = self._record is not None
        return bool(self._handoffs) or self._ledger.limits_tools or is_replay

    def attempt(self) -> int:
        """In which attempt the run is."""
        return self._recorder.attempt

    def judge(self, case: Case) -> Denial | None:
        """Deny a body at its start: a further hand-off, or one over a limit shared with kin."""
        if self._record is not None:
            # However an engine calls a tool: nothing outside is touched.
            return Denial(DeniedReason.POLICY, "a run that is replayed calls no tool")
        is_reader = case.tool_name == READER_NAME
        spent = "" if is_reader else self._ledger.tools_spent(case.tool_name)
        if spent:
            return Denial(DeniedReason.BUDGET, spent)
        return self._handoffs.judge(case)

    def spent(self) -> str:
        """Why no call may be made any more, such as a limit; "" for nothing."""
        if self._recorder.is_settled:
            return "the run has ended"
        # Turns are the engine's business: a call needs none.
        error = self._ledger.spent_by_children()
        return "" if error is None else error.message

    async def repair(self, request: ModelRequest) -> ModelResponse:
        """Have the run's own model correct arguments; it counts like any call of it.

        Raises:
            Misuse: It has none.
        """
        plan = self._plan
        if plan.model is None:
            raise Misuse("the run has no model that could correct arguments")
        if plan.settings is not None:
            # Of what it may be told, all but what concerns tools: none are offered here.
            settings = msgspec.structs.replace(
                plan.settings, tool_choice=None, parallel_tool_calls=None
            )
            request = msgspec.structs.replace(request, settings=settings)
        return await self._caller.call(plan.model, request, purpose="repair")

    def emit(self, event: Event) -> None:
        """Log what happened to a call, and count it."""
        if isinstance(event, Warned) and self._was_told(event.warning):
            return
        if isinstance(event, ArtifactStored):
            self._stored.append(to_artifact(event))
        self._recorder.emit(event)
        # What was paid for already can be read to its end.
        if isinstance(event, ToolStarted) and event.call.name != READER_NAME:
            self._ledger.count_tool(event.call.name)
        if isinstance(event, ToolSettled):
            self._handoffs.note(event.record)

    def _was_told(self, warning: RunWarning) -> bool:
        """Whether an earlier sitting has told what is told once in a run."""
        return warning.code == "undeclared_effect" and warning in self._recorder.warnings
