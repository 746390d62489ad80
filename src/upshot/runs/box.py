"""Box: a run's way to models and tools, made when something first needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import cast

from ..contract import (
    Artifact,
    ModelRequest,
    RunInfo,
    ToolRecord,
)
from ..tools import Toolbox
from .calls import ModelCaller
from .clerk import Clerk
from .handoff import Handoffs
from .hooks import Hooks
from .ledger import Ledger
from .plan import Plan
from .recorded_tools import RecordedTools
from .recorder import Recorder
from .recording import Recording
from .scope import Scope

__all__ = ["Box"]


class Box:
    """The models and tools of a run, which a script may never need.

    Args:
        plan: The run.
        info: Its identity.
        recorder: Its log.
        ledger: Its account, whose time is the tools' too.
        scope: Where its engine works.
        hooks: Those of its deciders are asked before a model is.
        handoffs: Those that it may make.
        record: What stands for models and the bodies of tools where a run is replayed; None is the
            world.

    Attributes:
        recorder: Its log.
        stored: Large outputs that were stored.
    """

    _caller: ModelCaller | None = None
    _made: Toolbox | None = None
    _is_cancelled: bool = False
    _source: str = ""

    def __init__(
        self,
        plan: Plan,
        *,
        info: RunInfo,
        recorder: Recorder,
        ledger: Ledger,
        scope: Scope,
        hooks: Hooks,
        handoffs: Handoffs,
        record: Recording | None = None,
    ) -> None:
        self.recorder: Recorder = recorder
        self.stored: list[Artifact] = []
        self._plan = plan
        self._info = info
        self._ledger = ledger
        self._scope = scope
        self._hooks = hooks
        self._handoffs = handoffs
        self._record = record

    @property
    def caller(self) -> ModelCaller:
        """The way to models."""
        if self._caller is None:
            self._caller = ModelCaller(
                recorder=self.recorder,
                ledger=self._ledger,
                hooks=self._hooks,
                retry=self._plan.retry,
                clock=self._plan.clock,
                is_stopped=self._scope.is_stopped,
                record=self._record,
            )
        return self._caller

    @property
    def cut(self) -> Sequence[str]:
        """Texts of replies that were shown as they came, until the run was stopped."""
        return () if self._caller is None else self._caller.cut

    @property
    def tools(self) -> Toolbox:
        """The Toolbox itself."""
        if self._made is None:
            self._made = self._make()
            if self._is_cancelled:
                self._made.cancel(running=False)
            if self._source:
                self._made.distrust(self._source)
        if self._record is not None:
            return cast("Toolbox", RecordedTools(self._made, self._record, self._clerk.emit))
        return self._made

    @property
    def records(self) -> Sequence[ToolRecord]:
        """One record for every settled call, in order."""
        return () if self._made is None else self._made.records

    @property
    def tainted(self) -> str:
        """Whose untrusted words are in the context, "" for nobody's."""
        return self._source if self._made is None else self._made.tainted

    def distrust(self, source: str) -> None:
        """Tell that untrusted words of *source* are in the context."""
        self._source = self._source or source
        if self._made is not None:
            self._made.distrust(source)

    async def before_model(self, info: RunInfo, request: ModelRequest) -> ModelRequest:
        """Have the deciders of this run say what the run *info*, inside it, may send.

        Raises:
            Failed: A decider raised, or gave something else.
        """
        return await self._hooks.before_model(request, info=info)

    def restore(self, records: Iterable[ToolRecord]) -> None:
        """Take in what the log says of earlier calls of this turn."""
        earlier = tuple(records)
        if earlier:
            self.tools.restore(earlier)

    def new_turn(self) -> None:
        """Begin a tool turn."""
        self._is_cancelled = False
        if self._made is not None:
            self._made.new_turn()

    def cancel(self) -> None:
        """Deny what has not started; running bodies may end."""
        self._is_cancelled = True
        if self._made is not None:
            self._made.cancel(running=False)

    def cancel_call(self, call_id: str) -> bool:
        """End one tool call; returns whether there was one under way."""
        return self._made is not None and self._made.cancel_call(call_id)

    def warn_of_leftovers(self) -> None:
        """Tell which bodies go on though nobody waits for them."""
        if self._made is not None:
            self._made.warn_of_leftovers()

    @cached_property
    def _clerk(self) -> Clerk:
        return Clerk(
            self._plan,
            caller=self.caller,
            handoffs=self._handoffs,
            stored=self.stored,
            record=self._record,
        )

    def _make(self) -> Toolbox:
        plan, ledger, handoffs, clerk = self._plan, self._ledger, self._handoffs, self._clerk
        return Toolbox(
            plan.tools,
            budget=plan.budget,
            policy=plan.policy,
            approve=plan.approve,
            artifacts=plan.artifact_store,
            secrets=plan.secrets,
            clock=plan.clock,
            identity=self._info,
            parent_run_id=plan.parent_run_id,
            attempt=clerk.attempt,
            deadline=ledger.deadline,
            working=ledger.working,
            dependencies=plan.dependencies,
            emit=clerk.emit,
            barrier=self.recorder.barrier,
            offered=handoffs.offered if handoffs.are_filtered else None,
            at_start=clerk.judge if clerk.has_judgement else None,
            repair=clerk.repair if any(tool.repair for tool in plan.tools) else None,
            spent=clerk.spent,
        )
