"""Box: a run's way to models and tools, made when something first needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import cast

from ..contract import (
    Artifact,
    ModelRequest,
    RunInfo,
    ToolOutcome,
    ToolRecord,
)
from ..tools import Toolbox
from .board import Board
from .calls import ModelCaller
from .clerk import Clerk
from .ground import Ground
from .handoff import Handoffs
from .hooks import Hooks
from .recorded_tools import RecordedTools
from .recorder import Recorder

__all__ = ["Box"]


class Box:
    """The models and tools of a run, which a script may never need.

    Args:
        ground: What the run stands on; the time of its account is the tools' too.

    Attributes:
        recorder: Its log.
        stored: Large outputs that were stored.
    """

    # On the class: a run that never needs a tool shall not pay for them.
    _is_cancelled: bool = False
    _source: str = ""
    _known: int = 0
    _board: Board | None = None

    def __init__(self, ground: Ground) -> None:
        self.recorder: Recorder = ground.recorder
        self.stored: list[Artifact] = []
        self._caller: ModelCaller | None = None
        self._made: Toolbox | None = None
        self._handoffs: Handoffs | None = None
        self._ground = ground

    @cached_property
    def hooks(self) -> Hooks:
        """Those of the run, of which its deciders are asked before a model is."""
        return Hooks(self._ground)

    @property
    def handoffs(self) -> Handoffs:
        """Those that the run may make."""
        if self._handoffs is None:
            board = Board() if self._board is None else self._board
            self._handoffs = Handoffs(self._ground, board)
        return self._handoffs

    def use_board(self, board: Board) -> None:
        """Have the engine work on *board* from now on."""
        self._board = board
        if self._handoffs is not None:
            self._handoffs.board = board

    @property
    def caller(self) -> ModelCaller:
        """The way to models."""
        if self._caller is None:
            self._caller = ModelCaller(
                recorder=self.recorder,
                ledger=self._ground.ledger,
                hooks=self.hooks,
                retry=self._ground.plan.retry,
                clock=self._ground.scope.patience,
                is_stopped=self._ground.scope.is_stopped,
                record=self._ground.record,
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
            # Both may have been told before there was a toolbox that could hear of it.
            if self._is_cancelled:
                self._made.cancel(running=False)
            if self._source:
                self._made.distrust(self._source)
        if self._ground.record is not None:
            return cast("Toolbox", RecordedTools(self._made, self._ground.record, self._clerk.emit))
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
        return await self.hooks.before_model(request, info=info)

    def restore(self, records: Iterable[ToolRecord]) -> None:
        """Take in what the log says of earlier calls of this turn."""
        earlier = tuple(records)
        if earlier:
            self.tools.restore(earlier)
            self.begin_reply()

    def begin_reply(self) -> None:
        """The engine's model has replied: what is settled from now on is of that reply."""
        self._known = len(self.records)

    @property
    def fresh(self) -> dict[str, ToolOutcome]:
        """What the calls of the last reply came to in this sitting, by call id."""
        return {record.call_id: record.outcome for record in self.records[self._known :]}

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

    def has_call(self, call_id: str) -> bool:
        """Whether such a call is under way; may be asked in any thread."""
        return self._made is not None and self._made.has_call(call_id)

    async def ask_filters(self) -> None:
        """Ask the async filters of hand-offs."""
        if self._handoffs:
            await self._handoffs.ask_filters()

    def warn_of_leftovers(self) -> None:
        """Tell which bodies go on though nobody waits for them."""
        if self._made is not None:
            self._made.warn_of_leftovers()

    @cached_property
    def _clerk(self) -> Clerk:
        return Clerk(
            self._ground.plan,
            caller=self.caller,
            handoffs=self.handoffs,
            stored=self.stored,
            record=self._ground.record,
        )

    def _make(self) -> Toolbox:
        plan, ledger = self._ground.plan, self._ground.ledger
        handoffs, clerk = self.handoffs, self._clerk
        return Toolbox(
            plan.tools,
            budget=plan.budget,
            policy=plan.policy,
            approve=plan.approve,
            artifacts=plan.artifact_store,
            secrets=plan.secrets,
            clock=self._ground.scope.patience,
            identity=self._ground.info,
            parent_run_id=plan.parent_run_id,
            attempt=clerk.attempt,
            deadline=ledger.deadline,
            working=ledger.working,
            dependencies=plan.dependencies,
            emit=clerk.emit,
            barrier=self.recorder.barrier,
            # Without a filter nothing is ever hidden, and nobody has to be asked at each call.
            offered=handoffs.offered if handoffs.are_filtered else None,
            at_start=clerk.judge if clerk.has_judgement else None,
            repair=clerk.repair if any(tool.repair for tool in plan.tools) else None,
            spent=clerk.spent,
        )
