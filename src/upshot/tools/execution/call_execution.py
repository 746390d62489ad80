"""Runs one call, retries it, verifies its effect."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Awaitable
from dataclasses import replace
from typing import cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Effect, ErrorCode
from upshot.contract.base.structs import Json
from upshot.contract.events import ArtifactStored, ToolProgress, ToolStarted
from upshot.contract.settings import Retry
from upshot.contract.tool_calls import (
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    outcome_is_retryable,
)
from upshot.errors import JournalError
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState, running_case
from upshot.tools.definition.body import is_async
from upshot.tools.definition.tool_context import CancelToken, ToolContext, named
from upshot.tools.definition.tool_options import ProcessLimits, UnknownEffect, VerifyHook
from upshot.tools.execution.executor import Ending, Raised, Returned, Stopped, run_async, run_thread
from upshot.tools.execution.outcome_mapping import (
    CANCELLED,
    INTERRUPTED,
    Fitted,
    conclude,
    conclude_defect,
    cut_output,
    fit_output,
)
from upshot.tools.toolbox_state import ToolboxState

__all__ = ["VERIFY_TIMEOUT_S", "Work", "is_doubtful", "verify_effect"]

VERIFY_TIMEOUT_S = 5.0
# For a call that was cancelled, or whose turn is over.
_LEAST_TIMEOUT_S = 0.25
_CUT = (
    CANCELLED,
    INTERRUPTED,
    ErrorCode("memory_limit"),
    ErrorCode("cpu_limit"),
    ErrorCode("worker_failed"),
)


def is_doubtful(case: CallState) -> bool:
    """Whether the call has an outcome of unknown effect that a hook may know more about."""
    outcome, tool = case.outcome, case.tool
    if outcome is None or tool is None or tool.verify is None:
        return False
    return outcome.effect is Effect.UNKNOWN


async def verify_effect(desk: ToolboxState, case: CallState, outcome: ToolOutcome) -> ToolOutcome:
    """Ask the tool's hook about an outcome of unknown effect.

    Returns:
        The outcome with what is known now: what took effect is not to be repeated, what did
        not may be. Others come back as they are.
    """
    tool = case.tool
    if tool is None or tool.verify is None or outcome.effect is not Effect.UNKNOWN:
        return outcome
    if not isinstance(outcome, ToolTimeout | ToolFailure):
        return outcome
    asked = UnknownEffect(
        case.call_id,
        tool.name,
        case.arguments or {},
        desk.run_id,
        case.idempotency_key,
        outcome,
    )
    left = case.turn.remaining_s()
    timeout_s = VERIFY_TIMEOUT_S if left is None else min(VERIFY_TIMEOUT_S, left)
    if outcome.code == CANCELLED or timeout_s < _LEAST_TIMEOUT_S:
        timeout_s = _LEAST_TIMEOUT_S
    ending = await _ask(tool.verify, asked, desk, timeout_s=timeout_s)
    match ending:
        case Returned(value=True | "applied"):
            return msgspec.structs.replace(outcome, effect=Effect.APPLIED, retryable=False)
        case Returned(value=False | "none"):
            again = isinstance(outcome, ToolTimeout) or _is_cut(outcome) or outcome.retryable
            if isinstance(outcome, ToolTimeout) and tool.retry_on_timeout is False:
                again = False
            return msgspec.structs.replace(outcome, effect=Effect.NONE, retryable=again)
        case Returned(value=None | "unknown"):
            return outcome
        case _:
            desk.warn("verify_failed", f"verify of {tool.name} {_told(ending)}")
            return outcome


async def _ask(
    hook: VerifyHook, asked: UnknownEffect, desk: ToolboxState, *, timeout_s: float
) -> Ending:
    token = CancelToken()

    async def ask() -> object:
        answer = hook(asked)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer

    if is_async(hook):
        return await run_async(ask, timeout_s=timeout_s, token=token, grace_s=0.1)
    ending = await run_thread(
        lambda: hook(asked),
        timeout_s=timeout_s,
        token=token,
        workers=desk.workers,
        late=lambda: None,
    )
    if isinstance(ending, Returned) and inspect.isawaitable(ending.value):
        waiting = cast("Awaitable[object]", ending.value)
        return await run_async(lambda: waiting, timeout_s=timeout_s, token=token, grace_s=0.1)
    return ending


# What was cut off is final only because nobody knew what it had done; a tool's own word stays.
def _is_cut(outcome: ToolFailure) -> bool:
    return outcome.code in (
        "cancelled",
        "interrupted",
        "memory_limit",
        "cpu_limit",
        "worker_failed",
    )


def _told(ending: Ending) -> str:
    match ending:
        case Raised(error=error):
            return f"failed: {named(error)}"
        case Returned(value=value):
            return f"answered with {kind_of(value)}; applied, none or None is due"
        case _:
            return "took too long"


# Between two tries of one call: 0.2 s, doubled each time; never less than the tool asks for.
# Without jitter, since the calls of one run seldom come at the same moment.
_RETRY = Retry(base_s=0.2, max_wait_s=math.inf)
_STORE_TIMEOUT_S = 30.0


class Work:
    """Runs one body."""

    def __init__(self, desk: ToolboxState, case: CallState) -> None:
        self._desk = desk
        self._case = case
        self._tool = case.known_tool
        self._loop = asyncio.get_running_loop()

    async def run(self) -> ToolOutcome:
        """Log the intent, run the body, and again where it is safe and the tool wants it.

        Returns:
            The outcome, secrets masked, a large output stored. A cancel of the caller ends
            the body and is part of the outcome.

        Raises:
            JournalError: The intent could not be logged; the body did not start.
        """
        # The intent before the effect: after a crash the log knows what may have happened.
        await self._log_intent()
        began = self._desk.clock.monotonic()
        try:
            return await self._deliver(await self._run_on())
        except JournalError:
            raise
        except Exception as error:  # whatever goes wrong at a call, it has its one outcome
            elapsed_ms = round((self._desk.clock.monotonic() - began) * 1000)
            return self._desk.secrets.mask(
                conclude_defect(self._case, error, elapsed_ms=elapsed_ms)
            )

    async def _run_on(self) -> ToolOutcome:
        outcome = await self._run_once()
        while self._may_retry(outcome):
            floor_s = getattr(outcome, "retry_after_s", None)
            wait_s = _RETRY.wait_s(self._case.attempts, floor_s=floor_s, draw=lambda: 0.0)
            left = self._case.turn.remaining_s()
            if wait_s is None or (left is not None and wait_s >= left):
                break
            await self._desk.clock.sleep(wait_s)
            if self._case.turn.cancelled:
                # Nothing was under way: the wait is what the run was stopped in.
                break
            outcome = await self._run_once()
        if isinstance(outcome, ToolTimeout) and not outcome.stopped:
            self._desk.warn(
                "abandoned_tool",
                f"{self._tool.name} goes on after its {outcome.timeout_s:g} s were over; "
                "nobody waits for it any more",
            )
        return outcome

    async def _log_intent(self) -> None:
        case, desk, tool = self._case, self._desk, self._tool
        if not case.idempotency_key:
            case.idempotency_key = desk.key_of(case)
        desk.ledger.emit(
            desk.secrets.mask(
                ToolStarted(
                    call=case.call,
                    arguments=case.arguments or {},
                    turn=case.label,
                    effect=tool.declared_effect,
                    idempotent=tool.idempotent,
                    tool_version=tool.version,
                    idempotency_key=case.idempotency_key,
                )
            )
        )
        if tool.may_write:
            await desk.ledger.barrier()

    def _may_retry(self, outcome: ToolOutcome) -> bool:
        safe = outcome.effect is not Effect.UNKNOWN or self._tool.idempotent
        again = self._case.attempts <= self._tool.retries
        return again and safe and outcome_is_retryable(outcome) and not self._case.turn.cancelled

    async def _run_once(self) -> ToolOutcome:
        case, clock = self._case, self._desk.clock
        began = clock.monotonic()
        if case.started_at is None:
            case.started_at, case.run_started = clock.now(), began
        timeout_s = self._timeout_s()
        started_at = case.started_at if case.attempts == 0 else clock.now()
        deadline = None if timeout_s is None else started_at.timestamp() + timeout_s
        case.attempts += 1
        if timeout_s is not None and timeout_s <= 0:
            ending: Ending = Stopped(cancelled=False, started=False)
        else:
            outer = running_case.set(case)
            try:
                ending = await self._execute(timeout_s, deadline)
            finally:
                running_case.reset(outer)
        if isinstance(ending, Stopped) and ending.cancelled and case.turn.is_over:
            # Who is stopped at the turn's deadline has run past it, whoever noticed first.
            ending = replace(ending, cancelled=False)
        if isinstance(ending, Stopped) and not ending.ended:
            self._desk.leftover[self._tool.name] += 1
        outcome = conclude(
            case,
            ending,
            elapsed_ms=round((clock.monotonic() - began) * 1000),
            timeout_s=timeout_s,
            deadline_s=deadline or 0.0,
        )
        return await verify_effect(self._desk, case, outcome)

    def _timeout_s(self) -> float | None:
        own = self._tool.timeout_s
        own = self._case.turn.budget.tool_timeout_s if own is None else own
        limits = [limit for limit in (own, self._case.turn.remaining_s()) if limit is not None]
        return min(limits) if limits else None

    async def _execute(self, timeout_s: float | None, deadline: float | None) -> Ending:
        case, tool, token = self._case, self._tool, CancelToken()
        if tool.isolation is not None:
            case.mode = "process"
            return await self._execute_apart(timeout_s, deadline, token)
        if case.attempts > 1:
            # The body may have changed the first ones.
            case.values = tool.body.build(case.given)
        context = self._context(token, deadline) if tool.body.wants_context else None
        body = functools.partial(tool.body.start, case.values, context)
        if tool.body.is_async:
            case.mode = "async"
            return await run_async(body, timeout_s=timeout_s, token=token)
        case.mode = "thread"
        began = self._loop.time()
        ending = await run_thread(
            body,
            timeout_s=timeout_s,
            token=token,
            workers=self._desk.workers,
            late=self._tell_late,
        )
        if not isinstance(ending, Returned) or not inspect.isawaitable(ending.value):
            return ending
        # A plain function round an async one, as decorators make them: no signature tells.
        waiting = cast("Awaitable[object]", ending.value)
        left = None if timeout_s is None else max(0.0, began + timeout_s - self._loop.time())
        return await run_async(lambda: waiting, timeout_s=left, token=token)

    async def _execute_apart(
        self, timeout_s: float | None, deadline: float | None, token: CancelToken
    ) -> Ending:
        from upshot.tools.execution.process_protocol import Order
        from upshot.tools.execution.process_runner import run_process

        case, tool, desk = self._case, self._tool, self._desk
        address, limits = tool.address, tool.limits or ProcessLimits()
        order = Order(
            module=address.module,
            file=address.file,
            name=address.name,
            tool=tool.name,
            arguments=case.given,
            cpu_s=limits.cpu_s,
            memory_bytes=limits.memory_bytes,
            run_id=desk.run_id,
            call_id=case.call_id,
            turn=case.label,
            attempt=desk.attempt(),
            deadline=deadline,
            idempotency_key=case.idempotency_key,
        )
        return await run_process(
            order, timeout_s=timeout_s, token=token, slots=desk.processes, tell=self._tell
        )

    def _context(self, token: CancelToken, deadline: float | None) -> ToolContext[object]:
        case, desk = self._case, self._desk
        return ToolContext(
            run_id=desk.run_id,
            call_id=case.call_id,
            tool_name=self._tool.name,
            turn=case.label,
            attempt=desk.attempt(),
            deadline=deadline,
            idempotency_key=case.idempotency_key,
            cancelled=token,
            dependencies=desk.dependencies,
            _tell=self._tell if self._tool.body.is_async else self._tell_from_thread,
        )

    def _tell(self, text: str, data: Json) -> None:
        if self._case.outcome is None:
            event = ToolProgress(call_id=self._case.call_id, text=text, data=data)
            self._desk.ledger.emit(self._desk.secrets.mask(event))

    def _tell_from_thread(self, text: str, data: Json) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell, text, data)
        except RuntimeError:
            # The loop was closed while the body ran: nobody is left to be told.
            return

    def _tell_late(self) -> None:
        self._desk.leftover[self._tool.name] -= 1
        if self._desk.turn is self._case.turn and not self._case.turn.cancelled:
            self._desk.warn(
                "late_result",
                f"{self._tool.name} ended after its time was over; its result was dropped",
            )

    async def _deliver(self, outcome: ToolOutcome) -> ToolOutcome:
        case, desk = self._case, self._desk
        before = desk.secrets.masked
        outcome = desk.secrets.mask(outcome)
        case.redactions += desk.secrets.masked - before
        if not isinstance(outcome, ToolExecutionResult):
            return outcome
        if self._tool.name == READER_NAME:
            # Never stored again; a page is cut where a store gave more than it was asked for.
            return cut_output(outcome)
        # A store may hang as well as any tool.
        left = case.turn.remaining_s()
        timeout_s = _STORE_TIMEOUT_S if left is None else max(0.0, min(left, _STORE_TIMEOUT_S))
        try:
            fitted = await fit_output(outcome, desk.store, desk.run_id, timeout_s=timeout_s)
        except asyncio.CancelledError:
            # The body has ended, so the call has its outcome, cancelled or not.
            fitted = Fitted(cut_output(outcome))
        case.content = fitted.content
        if fitted.artifact is not None:
            desk.catalog.offers_reader = True
            desk.ledger.emit(ArtifactStored(call_id=case.call_id, artifact=fitted.artifact))
        if fitted.warning is not None:
            desk.warn(fitted.warning.code, fitted.warning.message)
        return fitted.outcome
