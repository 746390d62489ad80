"""Running one call: log its start, run its body, retry it, verify its effect."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Awaitable

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.events import ArtifactStored, ToolProgress, ToolStarted
from upshot.contract.settings import Retry
from upshot.contract.tool_calls import (
    TOOL_MESSAGE_MAX_CHARS,
    ToolExecutionResult,
    ToolOutcome,
    ToolTimeout,
    outcome_to_model_content,
)
from upshot.contract.tool_context import CancelToken, Progress, ToolContext, make_context
from upshot.errors import JournalError
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState, CallWaits, running_call
from upshot.tools.definition.tool_options import ProcessLimits
from upshot.tools.execution.effect_claim import refused_by_ledger, settlement_of
from upshot.tools.execution.executor import (
    BodyEnd,
    Raised,
    Stopped,
    run_body,
)
from upshot.tools.execution.outcome_mapping import (
    conclude,
    conclude_defect,
    cut_output,
    store_output,
)
from upshot.tools.repetition import (
    is_unknown,
    may_retry,
    not_retryable_if_unknown,
    verified,
)
from upshot.tools.toolbox_state import ToolboxState

# Between two tries of one call: 0.2 s, doubled each time; never less than the tool asks for.
# No jitter, because the calls of one run seldom come at the same moment.
_RETRY = Retry(base_s=0.2, max_wait_s=math.inf)
_STORE_TIMEOUT_S = 30.0


async def run_call(state: ToolboxState, call: CallState) -> ToolOutcome:
    """Log the intent, run the body, and retry if that is safe and the tool wants it.

    Returns:
        The outcome, with secrets masked and a large output stored. Cancelling the caller
        cancels the body and becomes part of the outcome.

    Raises:
        JournalError: The intent could not be logged; the body did not start.
        CallWaits: The body waits for answers, or the agent does that it ran.
    """
    if state.held is not None:
        # The run is being released to another session, which will make this call.
        await state.held.wait()
    # Intent before effect: after a crash the log shows what may have happened.
    started = await _log_intent(state, call)
    if started.claim and (refused := await refused_by_ledger(state, call, started)) is not None:
        # The ledger knows that the effect is another call's.
        call.give_up = None
        return call.pipeline.conclude(call, "effect", refused)
    began = state.clock.monotonic()
    try:
        return await _mask_and_store(state, call, await _outcome_of(state, call))
    except (JournalError, CallWaits):
        raise
    except Exception as error:  # whatever fails, the call gets its one outcome
        elapsed_ms = round((state.clock.monotonic() - began) * 1000)
        return state.mask(conclude_defect(call, error, elapsed_ms=elapsed_ms))


async def _log_intent(state: ToolboxState, call: CallState) -> ToolStarted:
    tool = call.known_tool
    if not call.idempotency_key:
        call.idempotency_key = state.key_of(call)
    started = state.mask(
        ToolStarted(
            call=call.call,
            arguments=call.arguments or {},
            turn=call.label,
            effect=tool.declared_effect,
            idempotent=tool.idempotent,
            tool_version=tool.version,
            idempotency_key=call.idempotency_key,
            step=call.step,
            claim=call.claim,
        )
    )
    if call.approval is not None and state.run_calls is not None:
        await state.run_calls.note_approval(call, started.arguments)
    state.emit(started)
    # A read may be repeated after a crash, so it need not wait for the disk.
    if tool.may_write and state.barrier is not None:
        await state.barrier()
    return started


async def _outcome_of(state: ToolboxState, call: CallState) -> ToolOutcome:
    """Ask the stand-in for the outcome; without one, or if it has none, run the body."""
    stand_in = None if state.run_calls is None else state.run_calls.stand_in
    known = None if stand_in is None else await stand_in(call)
    return await _run_on(state, call) if known is None else known


async def _run_on(state: ToolboxState, call: CallState) -> ToolOutcome:
    """Run the body until no retry is needed."""
    outcome = await _run_once(state, call)
    while may_retry(call, outcome):
        floor_s = getattr(outcome, "retry_after_s", None)
        wait_s = _RETRY.wait_s(call.attempts, floor_s=floor_s, draw=lambda: 0.0)
        left = call.turn.remaining_s()
        if wait_s is None or (left is not None and wait_s >= left):
            break
        await state.clock.sleep(wait_s)
        if call.turn.cancelled:
            # Nothing was running: the run was cancelled during the wait.
            break
        outcome = await _run_once(state, call)
    if isinstance(outcome, ToolTimeout) and not outcome.stopped:
        state.warn(
            "abandoned_tool",
            f"{call.tool_name} is still running after its timeout of {outcome.timeout_s:g} s; "
            "its result will be dropped",
        )
    return outcome


async def _run_once(state: ToolboxState, call: CallState) -> ToolOutcome:
    clock, began = state.clock, state.clock.monotonic()
    if call.started_at is None:
        call.started_at, call.run_started = clock.now(), began
    timeout_s = _timeout_s(call)
    started_at = call.started_at if call.attempts == 0 else clock.now()
    deadline = None if timeout_s is None else started_at.timestamp() + timeout_s
    call.attempts += 1
    if timeout_s is not None and timeout_s <= 0:
        # Not started at all, so that the effect is none; a body that is cut off has an unknown one.
        ending: BodyEnd = Stopped(cancelled=False, started=False)
    else:
        call.within = running_call.get()
        outer = running_call.set(call)
        try:
            ending = await _execute(state, call, timeout_s, deadline)
        finally:
            running_call.reset(outer)
    is_abandoned = False
    if isinstance(ending, Raised) and isinstance(ending.error, CallWaits):
        raise ending.error
    if isinstance(ending, Stopped):
        is_abandoned = not ending.ended
        # The run warns about bodies that are still running when it ends.
        state.leftover[call.tool_name] += is_abandoned
    outcome = conclude(
        call,
        ending,
        elapsed_ms=round((clock.monotonic() - began) * 1000),
        timeout_s=timeout_s,
        deadline_s=deadline or 0.0,
    )
    if not is_unknown(outcome):
        return outcome
    return await verify_effect(state, call, outcome, is_abandoned=is_abandoned)


def _timeout_s(call: CallState) -> float | None:
    own, left = call.known_tool.timeout_s, call.turn.remaining_s()
    if own is None and not call.known_tool.runs_agent:
        own = call.turn.budget.tool_timeout_s
    if own is None or left is None:
        return left if own is None else own
    return min(own, left)


# -- the body


def _execute(
    state: ToolboxState, call: CallState, timeout_s: float | None, deadline: float | None
) -> Awaitable[BodyEnd]:
    tool, token, context = call.known_tool, None, None
    if tool.isolation is not None:
        call.mode = "process"
        return _execute_in_process(state, call, timeout_s, deadline)
    if call.attempts > 1:
        # The body may have changed the values of the first attempt.
        call.values = tool.body.build(call.given)
    if tool.body.wants_context:
        token = CancelToken()
        context = _context_of(state, call, token, deadline)
    call.mode = "async" if tool.body.is_async else "thread"
    return run_body(
        functools.partial(tool.body.start, call.values, context),
        is_async=tool.body.is_async,
        timeout_s=timeout_s,
        workers=state.workers,
        late=functools.partial(_warn_late, state, call),
        token=token,
    )


async def _execute_in_process(
    state: ToolboxState, call: CallState, timeout_s: float | None, deadline: float | None
) -> BodyEnd:
    """Run the body in a separate process."""
    from upshot.tools.execution.child_main import Order
    from upshot.tools.execution.process_runner import run_process

    tool = call.known_tool
    address, limits = tool.address, tool.limits or ProcessLimits()
    order = Order(
        module=address.module,
        file=address.file,
        name=address.name,
        tool=tool.name,
        arguments=call.given,
        cpu_s=limits.cpu_s,
        memory_bytes=limits.memory_bytes,
        context=_facts_of(state, call, deadline),
    )
    return await run_process(
        order,
        env=tool.env or {},
        timeout_s=timeout_s,
        slots=state.processes(),
        tell=functools.partial(_emit_progress, state, call),
    )


def _context_of(
    state: ToolboxState, call: CallState, token: CancelToken, deadline: float | None
) -> ToolContext[object]:
    tell = functools.partial(_emit_progress, state, call)
    if not call.known_tool.body.is_async:
        tell = functools.partial(_emit_from_thread, asyncio.get_running_loop(), tell)
    facts = _facts_of(state, call, deadline)
    return make_context(facts, cancelled=token, tell=tell, dependencies=state.dependencies)


def _facts_of(state: ToolboxState, call: CallState, deadline: float | None) -> JsonObject:
    """Return the fields of a body's context, wherever it runs."""
    return {
        "run_id": state.identity.run_id,
        "call_id": call.call_id,
        "tool_name": call.known_tool.name,
        "turn": call.label,
        "attempt": state.attempt(),
        "deadline": deadline,
        "idempotency_key": call.idempotency_key,
        "task_id": state.identity.task_id,
        "context_id": state.identity.context_id,
        "attributes": state.identity.attributes,
    }


def _emit_progress(state: ToolboxState, call: CallState, text: str, data: Json) -> None:
    """Emit the progress that a body reports."""
    if call.outcome is None:
        event = ToolProgress(call_id=call.call_id, tool_name=call.tool_name, text=text, data=data)
        state.emit(state.mask(event))


def _emit_from_thread(
    loop: asyncio.AbstractEventLoop, tell: Progress, text: str, data: Json
) -> None:
    try:
        # Events belong to the loop's thread, because the recorder has no lock.
        loop.call_soon_threadsafe(tell, text, data)
    except RuntimeError:
        # The loop was closed while the body ran, so the progress is dropped.
        return


def _warn_late(state: ToolboxState, call: CallState) -> None:
    """Warn that an abandoned body has ended after all."""
    state.leftover[call.tool_name] -= 1
    if state.turn is call.turn and not call.turn.cancelled:
        state.warn(
            "late_result",
            f"{call.tool_name} ended after its timeout; its result was dropped",
        )


# -- the outcome


async def _mask_and_store(
    state: ToolboxState, call: CallState, outcome: ToolOutcome
) -> ToolOutcome:
    """Mask the outcome, and store an output that is too large for a message."""
    if state.secrets is not None:
        before = state.secrets.masked
        outcome = state.secrets.mask(outcome)
        call.redactions += state.secrets.masked - before
    if not isinstance(outcome, ToolExecutionResult):
        return outcome
    call.content = outcome_to_model_content(outcome)
    if len(call.content) <= TOOL_MESSAGE_MAX_CHARS or state.keeps_outputs:
        return outcome
    call.content = None
    if call.tool_name == READER_NAME:
        # Never stored again: the store returned more than was requested.
        return cut_output(outcome)
    # A store may hang like any tool.
    left = call.turn.remaining_s()
    timeout_s = _STORE_TIMEOUT_S if left is None else max(0.0, min(left, _STORE_TIMEOUT_S))
    store, run_id = state.artifact_store(), state.identity.run_id
    try:
        stored = await store_output(outcome, store, run_id, timeout_s=timeout_s)
    except asyncio.CancelledError:
        # The body has ended, so the call has its outcome, cancelled or not.
        return cut_output(outcome)
    if isinstance(stored, RunWarning):
        state.warn(stored.code, stored.message)
        return cut_output(outcome)
    reference, artifact = stored
    state.offers_reader = True
    state.emit(ArtifactStored(call_id=call.call_id, artifact=artifact))
    return reference


async def verify_effect(
    state: ToolboxState, call: CallState, outcome: ToolOutcome, *, is_abandoned: bool = False
) -> ToolOutcome:
    """Ask the ledger and the ``verify`` hook about an outcome of unknown effect.

    Args:
        state: The state of the Toolbox.
        call: The call.
        outcome: Its outcome.
        is_abandoned: Whether the body may still be running. A finding that nothing happened is
            then ignored, because it may still happen.

    Returns:
        The outcome with what is known now: an applied effect must not be repeated, one that did
        not happen may be. Other outcomes are returned unchanged.
    """
    if not is_unknown(outcome):
        return outcome
    settled = await settlement_of(state, call, outcome)
    if settled is None or (settled.effect is Effect.NONE and is_abandoned):
        return not_retryable_if_unknown(call.known_tool, outcome)
    return verified(call.known_tool, outcome, settled)
