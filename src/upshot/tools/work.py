"""Work: running the body of a call that passed its gates, to its outcome."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable
from dataclasses import replace
from typing import cast

from ..contract import (
    ArtifactStored,
    Effect,
    Json,
    ToolExecutionResult,
    ToolOutcome,
    ToolProgress,
    ToolStarted,
    ToolTimeout,
    outcome_is_retryable,
)
from ..errors import JournalError
from .artifacts import READER_NAME
from .case import Case, running_case
from .conclusion import conclude, conclude_defect
from .context import CancelToken, ToolContext
from .desk import Desk
from .executor import Ending, Returned, Stopped, run_async, run_thread
from .isolation import ProcessLimits
from .output import Fitted, cut_output, fit_output
from .verification import verify_effect

__all__ = ["Work"]

_RETRY_WAIT_S = 0.1
_STORE_TIMEOUT_S = 30.0


class Work:
    """Runs one body."""

    def __init__(self, desk: Desk, case: Case) -> None:
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
            wait_s = getattr(outcome, "retry_after_s", None)
            wait_s = _RETRY_WAIT_S * 2**self._case.attempts if wait_s is None else wait_s
            left = self._case.turn.remaining_s()
            if left is not None and wait_s >= left:
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
        from .dialogue import Order
        from .process import run_process

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
