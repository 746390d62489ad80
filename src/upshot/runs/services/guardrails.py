"""Guardrails: named deciders that refuse a request or an answer.

The checks of a request run beside the first model call, if that is what the engine starts with;
otherwise the engine starts after them. The reply is held until all have passed, so nothing that it
asks for is done before. If one refuses, the model call is cancelled, and what it used is counted.
Once all have passed, the log says so, and neither a resume nor a later attempt asks them again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn, TypeAlias

from upshot.contract.agent_spec import RunInfo
from upshot.contract.error import AgentError
from upshot.contract.events import Decided
from upshot.contract.model_calls import ModelResponse, Request
from upshot.contract.protocols import AnyResult, Decider
from upshot.contract.run_control import FinalizeDecision
from upshot.errors import Misuse
from upshot.runs.callbacks import call, method
from upshot.runs.engine_api.exceptions import Failed
from upshot.runs.run_context import RunContext, current_run
from upshot.runs.services.hooks import decider_error, name_of_decider, own_copy, refusal_error
from upshot.runs.services.model_caller import ModelCall, count_without_reply
from upshot.runs.task_supervisor import GRACE_S

RequestCheck: TypeAlias = Callable[[RunInfo, Request], Awaitable[str | None] | str | None]
"""Returns why a request is refused, None if it is not."""
AnswerCheck: TypeAlias = Callable[[RunInfo, AnyResult], Awaitable[str | None] | str | None]
"""Returns why the answer in a result is refused, None if it is not."""


def input_guardrail(check: RequestCheck) -> Decider:
    """Return a decider that refuses requests: ``Agent(deciders=[input_guardrail(check)])``.

    It is asked once a run, beside the first model call. If it refuses, that call is cancelled, and
    the run fails with code ``policy_denied``; the error names the function and its reason.

    Args:
        check: A sync or async function of the run's ``RunInfo`` and ``Request``. It returns the
            reason of a refusal, or None. If it raises, the run fails with ``hook_failed``.

    Raises:
        Misuse: It is no function.
    """
    return _InputGuardrail(_checked(check))


def output_guardrail(check: AnswerCheck) -> Decider:
    """Return a decider that refuses answers: ``Agent(deciders=[output_guardrail(check)])``.

    It is asked about each attempt that completed, before anything is committed. If it refuses, the
    run fails with code ``policy_denied``, and the result has neither content nor output.

    Args:
        check: A sync or async function of the run's ``RunInfo`` and the result. It returns the
            reason of a refusal, or None. If it raises, the run fails with ``hook_failed``.

    Raises:
        Misuse: It is no function.
    """
    return _OutputGuardrail(_checked(check))


def _checked(check: Any) -> Any:
    if not callable(check) or isinstance(check, type):
        raise Misuse(f"a guardrail is a function that returns None or a reason, not {check!r:.60}")
    return check


def _to_decision(reason: object) -> FinalizeDecision | None:
    if reason is None:
        return None
    if isinstance(reason, str) and reason:
        return FinalizeDecision.refuse(reason)
    raise TypeError(f"it returned {reason!r:.60}, neither None nor the text of a reason")


class _Named(Decider):
    """A decider with the name of its function."""

    def __init__(self, check: Callable[..., Any]) -> None:
        self.name: str = str(getattr(check, "__name__", type(check).__name__))
        self._check = check

    def __repr__(self) -> str:
        return f"<guardrail {self.name}>"


class _InputGuardrail(_Named):
    async def check_request(self, info: RunInfo, request: Request) -> FinalizeDecision | None:
        return _to_decision(await call(self._check, info, request))


class _OutputGuardrail(_Named):
    async def before_finalize(
        self, info: RunInfo, request: Request, result: AnyResult
    ) -> FinalizeDecision | None:
        if not result.success:
            return None
        return _to_decision(await call(self._check, info, result))


async def begin_guardrails(context: RunContext) -> None:
    """Check the request of a run, or prepare to do so beside its first model call.

    Args:
        context: The run. It has deciders.

    Raises:
        Failed: The request is refused, now or in an earlier session, or a check raised.
    """
    plan, recording, state = context.plan, context.recording, context.state
    decided = (state if recording is None else recording.past).decisions
    logged = [one for one in decided if one.stage == "request"]
    for one in logged:
        if one.decision.verdict == "refuse":
            guardrails = context.guardrails = Guardrails(context, ())
            guardrails.refuse(refusal_error(one.decider, "request", one.decision.reason))
    deciders = [one for one in plan.deciders if _checks_requests(one)]
    names = Counter(map(name_of_decider, deciders))
    if not deciders or recording is not None or names <= Counter(one.decider for one in logged):
        return
    context.guardrails = Guardrails(context, deciders)
    # Only then is a model call what the engine starts with.
    is_loop = bool(getattr(plan.engine, "goes_on_by_log", False))
    if not is_loop or state.board.last_produced() is not None:
        await context.guardrails.ask()


def _checks_requests(decider: object) -> bool:
    if getattr(type(decider), "check_request", None) is Decider.check_request:
        return False
    return method(decider, "check_request") is not None


class Guardrails:
    """The checks of a run's request, which have not passed yet.

    Args:
        context: The run.
        deciders: The deciders that check requests.

    Attributes:
        refused: Why the request was refused, None if it was not; then the run cannot continue.
    """

    def __init__(self, context: RunContext, deciders: Iterable[object]) -> None:
        self._context = context
        self._deciders = tuple(deciders)
        self.refused: AgentError | None = None

    def refuse(self, error: AgentError, cause: Failed | None = None) -> NoReturn:
        """End the run, also if its engine catches the exception.

        Raises:
            Failed: Always.
        """
        self.refused = error
        raise cause or Failed(error)

    async def ask(self) -> None:
        """Ask all at once. The first refusal ends the others.

        Raises:
            Failed: One refuses, or raised.
        """
        context = self._context
        asked = [asyncio.create_task(self._ask_one(one)) for one in self._deciders]
        open_ = set(asked)
        try:
            while open_:
                done, open_ = await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
                for decided in [one.result() for one in asked if one in done]:
                    if decided.decision.verdict == "refuse":
                        context.recorder.emit(decided)
                        reason = decided.decision.reason
                        raise Failed(refusal_error(decided.decider, "request", reason))
        except Failed as failed:
            self.refuse(failed.error, failed)
        finally:
            await _end(*asked)
        for one in asked:
            context.recorder.emit(one.result())
        context.guardrails = None

    async def _ask_one(self, decider: object) -> Decided:
        context, name = self._context, name_of_decider(decider)
        current_run.set(context.link(is_hooks=True))
        try:
            own = map(own_copy, (context.info, context.plan.request))
            asked: Any = method(decider, "check_request")
            decision = await call(asked, *own)
            if decision is None:
                decision = FinalizeDecision.accept()
            if not isinstance(decision, FinalizeDecision):
                raise TypeError(f"it returned {decision!r:.60}, not a FinalizeDecision")
            if decision.verdict not in ("accept", "refuse"):
                raise TypeError(f"it returned {decision.verdict!r}: accept or refuse a request")
        except Exception as error:
            # Fail closed: a request that a broken guardrail has seen is not worked on.
            raise Failed(decider_error(context, f"{name}.check_request", error)) from error
        return Decided(decider=name, decision=decision, stage="request")

    async def beside(self, model_call: ModelCall) -> ModelResponse:
        """Make the first model call of the run while the request is checked.

        Returns:
            The reply, once all have passed.

        Raises:
            Failed: One refuses, or raised. What the model call used is counted.
            Interrupted: The run was asked to stop.
        """
        if self.refused is not None:
            self.refuse(self.refused)
        reply: ModelResponse | None = None
        checking = asyncio.create_task(self.ask())
        asking = asyncio.create_task(model_call.ask())
        try:
            await asyncio.wait({checking, asking}, return_when=asyncio.FIRST_COMPLETED)
            if not (asking.done() and asking.exception() is not None):
                await checking
            reply = await asking
            return reply
        finally:
            await _end(checking, asking)
            if reply is None:
                self._count(asking)

    def _count(self, asking: asyncio.Task[ModelResponse]) -> None:
        """Count a reply that is not used; a cancelled call has counted itself."""
        if asking.done() and not asking.cancelled() and asking.exception() is None:
            reply = asking.result()
            if reply.error is None or not reply.error.was_free:
                used = ModelResponse(usage=reply.usage, cost=reply.cost)
                count_without_reply(self._context, used)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel *tasks*, and wait until they have ended or ignored it for the grace period."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=GRACE_S)
    for task in tasks:
        if task.done() and not task.cancelled():
            # Retrieved, so that nothing reports an exception that nobody awaits.
            task.exception()
