"""The models and tools of a run, made when first needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import DeniedReason
from upshot.contract.error import RunWarning
from upshot.contract.events import ArtifactStored, Event, ToolSettled, ToolStarted, Warned
from upshot.contract.message import Artifact
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.tool_calls import ToolOutcome, ToolRecord, ToolSpec
from upshot.errors import Misuse
from upshot.runs.plan import Plan
from upshot.runs.recorder import Recorder
from upshot.runs.replay.recording import Recording
from upshot.runs.run_context import RunContext
from upshot.runs.services.handoffs import Handoffs
from upshot.runs.services.hooks import Hooks
from upshot.runs.services.model_caller import ModelCaller
from upshot.state.board import Board
from upshot.state.run_state import to_artifact
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.catalog import catalog_of
from upshot.tools.gates.pipeline import Denial
from upshot.tools.toolbox import Toolbox

__all__ = ["Box", "Clerk"]


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

    def judge(self, case: CallState) -> Denial | None:
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
        """Whether an earlier session has told what is told once in a run."""
        return warning.code == "undeclared_effect" and warning in self._recorder.warnings


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

    def __init__(self, ground: RunContext) -> None:
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
        return self._made

    def schemas(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; no Toolbox is made to tell them where nothing can hide any."""
        if self._made is None and not self.handoffs.are_filtered:
            return catalog_of(self._ground.plan.tools).specs
        return self.tools.schemas()

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
        """What the calls of the last reply came to in this session, by call id."""
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
        handoffs, clerk, record = self.handoffs, self._clerk, self._ground.record
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
            known_outcomes=None if record is None else record.known_outcomes(),
            is_checked=True,
        )
