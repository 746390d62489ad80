"""The Toolbox of a run: made when it is first needed, its events logged and counted."""

from __future__ import annotations

from functools import partial

import msgspec

from upshot.contract.base.enums import DeniedReason
from upshot.contract.base.structs import JsonObject
from upshot.contract.events import Event, ToolSettled, ToolStarted, Warned
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.errors import Misuse
from upshot.journal.shared import withdrawn_in
from upshot.runs.plan import Plan
from upshot.runs.resumption import restore
from upshot.runs.run_context import RunContext, body_of
from upshot.runs.services.model_caller import call_model
from upshot.runs.services.unknown_effects import judge_unknown
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.turns import Turn
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.gates.pipeline import Denial
from upshot.tools.provenance.call_judge import sayings_of
from upshot.tools.provenance.saying import Saying
from upshot.tools.toolbox import Toolbox


def toolbox_of(context: RunContext) -> Toolbox:
    """The tools of a run, made at the first call."""
    tools = context.toolbox
    if tools is None:
        tools = context.toolbox = _make(context)
        # Both may have come before there was a toolbox that could be told.
        if context.interrupt is not None:
            tools.cancel(running=False)
        tools.hold(context.recorder.held)
        if context.state.taint is not None:
            tools.distrust(context.state.taint)
    return tools


def _make(context: RunContext) -> Toolbox:
    plan, budget, recording = context.plan, context.budget, context.recording
    log, has_handoffs = _RunLog(context), bool(plan.handoffs)
    has_judgement = has_handoffs or budget.limits_tools or recording is not None
    is_filtered = has_handoffs and context.handoffs.are_filtered
    tools = Toolbox(
        plan.tools,
        budget=plan.budget,
        policy=plan.policy,
        approve=plan.approve,
        on_pre_tool_use=plan.on_pre_tool_use,
        gates=plan.gates,
        artifacts=plan.artifact_store,
        ledger=plan.journal,
        secrets=plan.secrets,
        clock=context.supervisor.interruptible_clock,
        identity=context.info,
        parent_run_id=plan.parent_run_id,
        attempt=log.attempt,
        step=log.step,
        deadline=budget.deadline,
        working=budget.working,
        dependencies=context.dependencies,
        emit=log.emit,
        barrier=context.recorder.barrier,
        # Without a filter nothing is ever hidden, and nothing has to be asked at each call.
        offered=context.handoffs.offered if is_filtered else None,
        at_start=log.judge if has_judgement else None,
        repair=log.repair if any(tool.repair for tool in plan.tools) else None,
        spent=log.spent,
        known_outcomes=None if recording is None else recording.known_outcomes(),
        earlier_may_work=plan.earlier_may_work,
        said=log.said,
        declared=context.state.declared,
        acts=context.acts,
        earlier_calls=() if plan.turn is None else _earlier_calls(plan.turn),
        unknown=partial(judge_unknown, context),
        is_checked=True,
    )
    if plan.journal is not None:
        tools.heed(partial(withdrawn_in, plan.journal, context.info.run_id))
    return tools


def said_in(context: RunContext) -> tuple[Saying, ...]:
    """What the user said to a run: the request of the root run, what was asked in earlier turns of
    its conversation, and answers to questions.

    What a child run is asked was most often worded by a model.
    """
    state, plan = context.state, context.plan
    today = None if state.started_at is None else state.started_at.date()
    said: tuple[Saying, ...] = ()
    if context.parent is not None:
        said = said_in(context.parent.context)
    elif context.depth == 0 and _is_of_user(plan):
        said = sayings_of(plan.request.to_message(), "request", today)
        for message in plan.asked:
            # Nobody says on which day that was.
            said += sayings_of(message, "an earlier turn", None)
    for id, value in state.typed.items():
        said += sayings_of(value, f"answer {id}", today)
    return said


def _is_of_user(plan: Plan) -> bool:
    """Whether the request is the user's own, which a run that it was handed to has too."""
    parent = plan.parent_run_id
    return not parent or plan.run_id == child_id(CHAIN_OPTION, parent)


def _earlier_calls(turn: Turn) -> list[tuple[str, JsonObject, str]]:
    """What turns before it wrote, or want to write, and the conversation's messages do not say."""
    return [(one.tool_name, one.arguments, one.state) for one in turn.earlier]


class _RunLog:
    """What a Toolbox is given of its run.

    Args:
        context: Of the run.
    """

    __slots__ = ("_context",)

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def attempt(self) -> int:
        """Which attempt the run is in."""
        return self._context.recorder.attempt

    def step(self) -> str:
        """The key of the step in whose body a call is made, "" for none."""
        body = body_of(self._context.plan.run_id)
        return "" if body is None else body.key

    def said(self) -> tuple[Saying, ...]:
        """What the user has said so far."""
        return said_in(self._context)

    def judge(self, case: CallState) -> Denial | None:
        """Deny a body at its start: a further hand-off, or one over a limit shared with others."""
        context = self._context
        if context.recording is not None:
            # However an engine calls a tool: nothing outside is touched.
            return Denial(DeniedReason.POLICY, "a run that is replayed calls no tool")
        is_reader = case.tool_name == READER_NAME
        spent = "" if is_reader else context.budget.tools_spent(case.tool_name)
        if spent:
            return Denial(DeniedReason.BUDGET, spent)
        return context.handoffs.judge(case)

    def spent(self) -> str:
        """Why no call may be made any more, such as a limit; "" for nothing."""
        if self._context.recorder.is_settled:
            return "the run has ended"
        # Turns are the engine's business: a call needs none.
        error = self._context.budget.spent_by_children()
        return "" if error is None else error.message

    async def repair(self, request: ModelRequest) -> ModelResponse:
        """Have the run's own model correct arguments; it counts like any call of it.

        Raises:
            Misuse: It has none.
        """
        plan = self._context.plan
        if plan.model is None:
            raise Misuse("the run has no model that could correct arguments")
        if plan.settings is not None:
            # Of the settings all but what concerns tools: none are offered here.
            settings = msgspec.structs.replace(
                plan.settings, tool_choice=None, parallel_tool_calls=None
            )
            request = msgspec.structs.replace(request, settings=settings)
        return await call_model(self._context, plan.model, request, purpose="repair")

    def emit(self, event: Event) -> None:
        """Log what happened to a call, and count it."""
        context = self._context
        if isinstance(event, Warned):
            # An earlier session has told what is told once in a run.
            warning = event.warning
            if warning.code == "undeclared_effect" and warning in context.state.warnings:
                return
        context.recorder.emit(event)
        # What was paid for already can be read to its end.
        if isinstance(event, ToolStarted) and event.call.name != READER_NAME:
            context.budget.count_tool(event.call.name)
        if context.plan.handoffs and isinstance(event, ToolSettled):
            context.handoffs.note(event.record)


def take_up(context: RunContext) -> None:
    """Go on with the budget and the tools where earlier sessions left them."""
    plan, state, budget = context.plan, context.state, context.budget
    # Who has this run inside has counted what it used until now.
    budget.is_known = plan.is_known
    # The user's host was told in those sessions.
    tell, budget.tell = budget.tell, None
    restore(budget, state)
    budget.is_known, budget.tell = False, tell
    context.recorder.attempt = state.attempt
    context.lost_before = state.lost_calls
    if state.records:
        tools = toolbox_of(context)
        if earlier := tuple(state.records[: state.records_before]):
            tools.restore(earlier)
        tools.new_turn()
        if later := tuple(state.records[state.records_before :]):
            tools.restore(later)
    # A script has a place; it goes on after the replies that the log holds.
    go_on_after = getattr(plan.model, "go_on_after", None)
    if callable(go_on_after):
        go_on_after(state.responses, conversation=state.board.messages())
