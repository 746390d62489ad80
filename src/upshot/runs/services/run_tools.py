"""The Toolbox of a run: made when first needed; its events are logged and counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from functools import partial

import msgspec

from upshot.contract.base.enums import DeniedReason, Effect, Origin
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.events import (
    Event,
    QuestionAnswered,
    QuestionAsked,
    ToolSettled,
    ToolStarted,
    Warned,
)
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.pending import PendingQuestion
from upshot.contract.protocols import Journal
from upshot.contract.tool_calls import ToolCall
from upshot.errors import Misuse
from upshot.journal.audit import add_approval
from upshot.journal.shared import shared_journal, withdrawn_in
from upshot.runs.callbacks import call, method
from upshot.runs.engine_api.exceptions import signal_of
from upshot.runs.plan import Plan
from upshot.runs.resumption import restore
from upshot.runs.run_context import RunContext, body_of, stand_ins
from upshot.runs.services.model_caller import call_model
from upshot.runs.services.unknown_effects import judge_unknown
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.run_effects import effect_of_child
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.execution.call_log import StandIn
from upshot.tools.gates.pipeline import Denial
from upshot.tools.gates.standard_gates import EarlierTurnCalls
from upshot.tools.provenance.call_judge import sayings_of
from upshot.tools.provenance.saying import Saying
from upshot.tools.toolbox import Toolbox


def toolbox_of(context: RunContext) -> Toolbox:
    """Return the tools of a run, made at the first call."""
    tools = context.toolbox
    if tools is None:
        tools = context.toolbox = _make_toolbox(context)
        # An interrupt or a release may have come before the toolbox existed.
        if context.interrupt is not None:
            tools.cancel(running=False)
        tools.wait_before_start(context.recorder.held)
        if context.state.taint is not None:
            tools.distrust(context.state.taint)
    return tools


def _make_toolbox(context: RunContext) -> Toolbox:
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
        # An effect that nothing makes must not be claimed.
        ledger=plan.journal if log.stand_in is None else None,
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
        # Without a filter nothing is ever hidden, so skip the check at each call.
        offered=context.handoffs.offered if is_filtered else None,
        withheld=log.withheld if plan.deciders or context.parent is not None else None,
        at_start=log.judge if has_judgement else None,
        repair=log.repair if any(tool.repair for tool in plan.tools) else None,
        spent=log.spent,
        run_calls=log,
        known_outcomes=None if recording is None else recording.known_outcomes(),
        earlier_may_work=plan.earlier_may_work,
        said=log.sayings,
        declared=context.state.declared,
        acts=context.acts,
        earlier_calls=_earlier_calls(context),
        unknown=partial(judge_unknown, context),
        is_checked=True,
    )
    if plan.journal is not None:
        tools.recheck_approvals_with(partial(_void_approvals, context, plan.journal))
    return tools


async def _void_approvals(context: RunContext, journal: Journal) -> Collection[str]:
    """Return the keys of the standing approvals that do not count in a run."""
    withdrawn = await withdrawn_in(journal, context.info.run_id)
    return {*withdrawn, *context.state.copied_approvals}


def user_sayings(context: RunContext) -> tuple[Saying, ...]:
    """Return what the user said to a run: the request of the root run, requests in earlier turns of
    its conversation, and answers to questions.

    The request of a child run does not count, because most often a model wrote it.
    """
    state, plan = context.state, context.plan
    today = None if state.started_at is None else state.started_at.date()
    sayings: tuple[Saying, ...] = ()
    if context.parent is not None:
        sayings = user_sayings(context.parent.context)
    elif context.depth == 0 and _is_of_user(plan):
        sayings = sayings_of(plan.request.to_message(), "request", today)
        for message in plan.asked:
            # The date of an earlier turn is unknown here.
            sayings += sayings_of(message, "an earlier turn", None)
    for id, value in state.typed.items():
        sayings += sayings_of(value, f"answer {id}", today)
    return sayings


def _is_of_user(plan: Plan) -> bool:
    """Whether the request comes from the user; a run it was handed over to has the same request."""
    parent = plan.parent_run_id
    return not parent or plan.run_id == child_id(CHAIN_OPTION, parent)


def _earlier_calls(context: RunContext) -> EarlierTurnCalls:
    """Return the writes of earlier turns that the conversation's messages do not contain.

    Child runs do not repeat them either.
    """
    turn, parent = context.plan.turn, context.parent
    own = () if turn is None else turn.earlier
    calls = tuple((one.tool_name, one.arguments, one.state) for one in own)
    return calls if parent is None else (*calls, *_earlier_calls(parent.context))


class _RunLog:
    """The functions of a run that its Toolbox calls.

    Args:
        context: The run.
    """

    __slots__ = ("_context", "stand_in")

    def __init__(self, context: RunContext) -> None:
        self._context = context
        make = stand_ins.get()
        self.stand_in: StandIn | None = None if make is None else make(context)

    def attempt(self) -> int:
        """Return the number of the run's current attempt."""
        return self._context.recorder.attempt

    def step(self) -> str:
        """Return the key of the step whose body makes a call, "" for none."""
        body = body_of(self._context.plan.run_id)
        return "" if body is None else body.key

    def sayings(self) -> tuple[Saying, ...]:
        """Return what the user has said so far."""
        return user_sayings(self._context)

    def judge(self, case: CallState) -> Denial | None:
        """Deny a body before it starts: a second handoff, or a call over a shared limit."""
        context = self._context
        if context.recording is not None:
            # A replay touches nothing outside, however the engine calls a tool.
            return Denial(DeniedReason.POLICY, "a run that is replayed calls no tool")
        is_reader = case.tool_name == READER_NAME
        spent = "" if is_reader else context.budget.tools_spent(case.tool_name)
        if spent:
            return Denial(DeniedReason.BUDGET, spent)
        return context.handoffs.judge(case)

    def withheld(self, call: ToolCall) -> tuple[str, ...]:
        """Return the tools that the model was not offered when it made *call*.

        A call that is not of the last reply is the engine's own.
        """
        state = self._context.state
        if not state.models or all(one.id != call.id for one in state.reply_calls):
            return ()
        return next(reversed(state.models.values())).withheld

    def is_copied(self, started: ToolStarted) -> bool:
        """Return whether this start is of the run that the run is a fork of."""
        return self._context.state.is_copied(started)

    async def note_approval(self, call: CallState, arguments: JsonObject) -> None:
        """Add the row of a standing approval, or of one given by code, to the audit.

        That of a user's answer is in the audit already. A framework's is logged as one, but the
        journal was not asked to place it.
        """
        context, approval = self._context, call.approval
        journal = None if context.recording else context.plan.journal
        if journal is None or approval is None:
            return
        shared = shared_journal(journal) if call.call_id in context.state.answers else None
        placed = () if shared is None else await shared.placed_answers(context.info.run_id)
        if any(getattr(one.answer, "call_id", "") == call.call_id for one in placed):
            return
        redaction = context.redaction
        await add_approval(
            journal,
            approval,
            run_id=context.info.run_id,
            call_id=call.call_id,
            tool=call.tool_name,
            arguments=arguments if redaction is None else redaction.show(arguments),
        )

    def agent_effect(self, key: str) -> Effect | None:
        """Return the worst effect of the child run with *key*, None if it never started."""
        return effect_of_child(self._context.state, self._context.info.run_id, key)

    @property
    def answers(self) -> Mapping[str, Json]:
        """The answers to questions, by the id of the question."""
        return self._context.state.answers_given

    def saved(self, key: str) -> Json:
        """Return what the body of the call with *key* saved, None for nothing."""
        return self._context.state.saved.get(key)

    async def ask_live(self, question: PendingQuestion) -> bool:
        """Ask the user's host; returns whether it answered."""
        context = self._context
        ask, working = method(context.plan.host, "ask_user"), context.budget.working
        if ask is None:
            return False
        try:
            with nullcontext() if working is None else working.asking():
                answer, _ = to_free_json(await call(ask, question.question))
        except Exception as error:
            # A host that cannot ask fails no call: the question stays open.
            if signal_of(error) is None:
                message = f"host.ask_user raised {type(error).__name__}: {error}"
                warning = RunWarning(code="host_failed", message=message, origin=Origin.HOST)
                context.recorder.warn(warning)
            return False
        # Together, so that a question that nobody answers is not open.
        context.recorder.emit(QuestionAsked(pending=question))
        context.recorder.emit(QuestionAnswered(id=question.id, value=answer))
        return True

    async def ask_model(self, request: ModelRequest) -> ModelResponse:
        """Ask the run's own model for an MCP server. Counts like any of its calls.

        Raises:
            Misuse: The run has no model.
        """
        plan = self._context.plan
        if plan.model is None:
            raise Misuse("the run has no model")
        return await call_model(self._context, plan.model, request, purpose="sampling")

    def spent(self) -> str:
        """Return why no more calls may be made, such as a limit; "" if they may."""
        if self._context.recorder.is_settled:
            return "the run has ended"
        # A tool call needs no turn; the engine checks the limit on turns.
        error = self._context.budget.spent_by_children()
        return "" if error is None else error.message

    async def repair(self, request: ModelRequest) -> ModelResponse:
        """Ask the run's own model to correct arguments. Counts like any of its calls.

        Raises:
            Misuse: The run has no model.
        """
        plan = self._context.plan
        if plan.model is None:
            raise Misuse("the run has no model that could correct arguments")
        if plan.settings is not None:
            # Without the settings for tools, because the request offers none.
            settings = msgspec.structs.replace(
                plan.settings, tool_choice=None, parallel_tool_calls=None
            )
            request = msgspec.structs.replace(request, settings=settings)
        return await call_model(self._context, plan.model, request, purpose="repair")

    def emit(self, event: Event) -> None:
        """Log an event of a call, and count it."""
        context = self._context
        if isinstance(event, Warned):
            # Emitted once a run; an earlier session may have logged it.
            warning = event.warning
            if warning.code == "undeclared_effect" and warning in context.state.warnings:
                return
        context.recorder.emit(event)
        # Reading a stored output is free: its call was counted.
        if isinstance(event, ToolStarted) and event.call.name != READER_NAME:
            context.budget.count_tool(event.call.name)
        if context.plan.handoffs and isinstance(event, ToolSettled):
            context.handoffs.note(event.record)


def restore_progress(context: RunContext) -> None:
    """Restore the budget and the tools to where earlier sessions left them."""
    plan, state, budget = context.plan, context.state, context.budget
    # The parent run may have counted the usage so far.
    budget.is_known = plan.is_known
    # The host got these reports in the earlier sessions.
    tell, budget.tell = budget.tell, None
    restore(budget, state)
    budget.is_known, budget.tell = False, tell
    context.recorder.attempt = state.attempt
    context.lost_before = state.lost_calls
    if state.records:
        tools = toolbox_of(context)
        if earlier := tuple(state.records[: state.before.records]):
            tools.restore(earlier)
        tools.new_turn()
        if later := tuple(state.records[state.before.records :]):
            tools.restore(later)
    # A scripted model has a position: move it past the logged replies.
    skip_played = getattr(plan.model, "skip_played", None)
    if callable(skip_played):
        skip_played(state.responses, conversation=state.board.messages())
