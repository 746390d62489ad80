"""Claiming the effect of a call, and settling effects that are unknown."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from weakref import ref

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.effects import EffectClaim, EffectEntry, id_without_key
from upshot.contract.events import REDACTED, ToolStarted
from upshot.contract.tool_calls import (
    Settlement,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolTimeout,
)
from upshot.contract.tool_context import CancelToken, make_context
from upshot.errors import Misuse
from upshot.tools.arguments.argument_check import Checked
from upshot.tools.call_state import CallState, running_call
from upshot.tools.definition.body import is_async
from upshot.tools.definition.lookup import CallTool, Lookup
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import named
from upshot.tools.definition.tool_options import UnknownEffect
from upshot.tools.execution.executor import (
    WORKERS,
    BodyEnd,
    BodyValue,
    Raised,
    Workers,
    run_body,
)
from upshot.tools.gates.pipeline import Denial, Repeat
from upshot.tools.gates.standard_gates import denied_as_conflict
from upshot.tools.repetition import CANCELLED, INTERRUPTED, hides, may_still_run, repeated_output
from upshot.tools.toolbox_state import ToolboxState

VERIFY_TIMEOUT_S = 5.0
_VERIFY_GRACE_S = 0.1
# For a call that was cancelled, or whose turn is over.
_LEAST_TIMEOUT_S = 0.25
IN_PROGRESS = ErrorCode("in_progress")
_NO_CALL: JsonObject = {
    "turn": 0,
    "attempt": 0,
    "deadline": None,
    "idempotency_key": "",
    "task_id": "",
    "context_id": "",
    "attributes": {},
}


async def refused_by_ledger(
    state: ToolboxState, call: CallState, started: ToolStarted
) -> Denial | Repeat | None:
    """Return why a call whose start is logged is not made: its effect belongs to another call.

    Returns:
        None if the call has the claim on its effect, or needs none.
    """
    ledger, claim = state.ledger, started.claim
    if ledger is None or claim is None:
        return None
    entry = ledger.refused_claim(state.identity.run_id, call.call_id)
    until = state.clock.monotonic() + _wait_s(call)
    while entry is not None:
        if (verdict := await _judge(state, call, claim, entry)) is not None:
            return verdict
        if entry.state == "begun":
            left_s = until - state.clock.monotonic()
            if left_s <= 0 or _is_within(entry):
                return _in_progress(call, entry)
            await ledger.wait_for_effect(entry, timeout_s=left_s)
        entry = await ledger.claim_effect(started)
    return None


async def made_before(state: ToolboxState, call: CallState) -> Denial | Repeat | None:
    """Return why a call needs no approval: it would not be made, whatever the answer."""
    ledger, claim = state.ledger, call.claim
    entry = None if ledger is None or claim is None else await ledger.effect(claim.id)
    if claim is None or entry is None or entry.is_free(state.clock.now(), claim.keep_s):
        return None
    return await _judge(state, call, state.mask(claim), entry)


async def _judge(
    state: ToolboxState, call: CallState, claim: EffectClaim, entry: EffectEntry
) -> Denial | Repeat | None:
    """Return what a call gets if its effect is *entry*; None if that is still open."""
    # A redacted value cannot be compared; that the key is the same still counts.
    if entry.others not in (claim.others, REDACTED):
        return denied_as_conflict(claim, entry.others, entry.ref)
    if entry.state == "applied":
        return await _repeat(state, call, entry)
    if entry.state != "unknown":
        return None
    settled = await _settle(state, call, entry)
    if settled is None:
        return _denied_as_unknown(entry)
    return await _repeat(state, call, entry) if settled.effect is Effect.APPLIED else None


def _wait_s(call: CallState) -> float:
    tool, left = call.known_tool, call.turn.remaining_s()
    found = [tool.claim_wait_s, tool.timeout_s, call.turn.budget.tool_timeout_s]
    own = next((one for one in found if one is not None), math.inf)
    return own if left is None else max(0.0, min(own, left))


def _is_within(entry: EffectEntry) -> bool:
    """Whether the entry's call waits for the present call, which runs inside its body."""
    outer = running_call.get()
    while outer is not None and not entry.is_of(outer.run_id, outer.call_id):
        outer = outer.within
    return outer is not None


async def _repeat(state: ToolboxState, call: CallState, entry: EffectEntry) -> Denial | Repeat:
    place = _place_of(entry)
    if call.known_tool.on_repeat == "deny":
        text = f"{entry} was done already, by {place}"
        return Denial(DeniedReason.DUPLICATE, text, repeats=entry.ref)
    outcome = None if state.ledger is None else await state.ledger.effect_outcome(entry)
    return Repeat(repeated_output(outcome, entry.ref, call), f"{place} did it already")


def _denied_as_unknown(entry: EffectEntry) -> Denial:
    details = (
        f"{entry} may have been done, by {_place_of(entry)}; it is not made again until that is "
        f"known. Settle it: upshot effects settle {entry.id}"
    )
    hint = "Say that it is being checked."
    return Denial(DeniedReason.EFFECT_UNKNOWN, details, hint, repeats=entry.ref)


def _in_progress(call: CallState, entry: EffectEntry) -> Repeat:
    outcome = ToolFailure(
        call.call_id,
        call.tool_name,
        error=f"{entry} is under way, by {_place_of(entry)}; it was not called a second time",
        retryable=True,
        effect=Effect.NONE,
        code=IN_PROGRESS,
        repeats=entry.ref,
    )
    return Repeat(outcome, "it is under way")


def _place_of(entry: EffectEntry) -> str:
    when = "" if entry.started_at is None else f" at {entry.started_at.isoformat('T', 'seconds')}"
    return f"call {entry.call_id} of run {entry.run_id}{when}"


# -- settling


async def settlement_of(
    state: ToolboxState, call: CallState, outcome: ToolFailure | ToolTimeout
) -> Settlement | None:
    """Return how the unknown effect of an ended call was settled, or None."""
    if state.ledger is not None and call.claim is not None and call.run_started is None:
        # An earlier session made the call; it may have been settled while the run was parked.
        entry = await state.ledger.effect(call.claim.id)
        if entry is not None and entry.settled is not None:
            return entry.settled
    run_id, key = state.identity.run_id, call.idempotency_key
    tool, arguments = call.known_tool, call.arguments or {}
    asked = question_of(tool, arguments, call.call_id, run_id, key=key, outcome=outcome)
    effect = await ask_verify(state, call, asked)
    return None if effect is None else _found_by_verify(state, effect)


def connect(state: ToolboxState) -> None:
    """Connect the gates to the ledger of a Toolbox, without keeping the Toolbox alive."""
    known = ref(state)

    async def ask(call: CallState, record: ToolRecord) -> Settlement | None:
        found = known()
        return None if found is None else await recheck(found, call, record)

    async def look(call: CallState) -> Denial | Repeat | None:
        found = known()
        return None if found is None else await made_before(found, call)

    state.turn.recheck = ask
    if state.ledger is not None:
        state.turn.made_before = look


async def recheck(
    state: ToolboxState, call: CallState, record: ToolRecord, *, id: str = ""
) -> Settlement | None:
    """Return how the unknown effect of an earlier call of the run is settled now, or None."""
    id = id or record.effect_id or id_without_key(record.run_id, record.call_id)
    entry = None if state.ledger is None else await state.ledger.effect(id)
    if entry is not None and not _is_about(entry, record):
        # Another call has claimed the effect since, so this call was found not to have made it.
        return Settlement(effect=Effect.NONE, by="ledger", at=entry.started_at)
    if entry is not None:
        return entry.settled or await _settle(state, call, entry)
    key, outcome = record.idempotency_key, record.outcome
    tool, arguments = call.known_tool, call.arguments or {}
    asked = question_of(tool, arguments, record.call_id, record.run_id, key=key, outcome=outcome)
    effect = await _verify_earlier(state, call, asked)
    return None if effect is None else _found_by_verify(state, effect)


def _is_about(entry: EffectEntry, record: ToolRecord) -> bool:
    """Whether the effect's last call is the call of *record*; forks share the entry."""
    return entry.is_made_by(record.call_id, record.idempotency_key)


async def _settle(state: ToolboxState, call: CallState, entry: EffectEntry) -> Settlement | None:
    """Ask the tool's ``verify`` to settle an unknown effect of the ledger."""
    ledger = state.ledger
    if ledger is None or call.known_tool.verify is None or entry.state != "unknown":
        return None
    outcome = await ledger.effect_outcome(entry)
    tool, arguments, key = call.known_tool, call.arguments or {}, entry.idempotency_key
    asked = question_of(tool, arguments, entry.call_id, entry.run_id, key=key, outcome=outcome)
    effect = await _verify_earlier(state, call, asked)
    if effect is None:
        return None
    try:
        return (await ledger.settle_effect(entry.id, _found_by_verify(state, effect))).settled
    except Misuse:
        # Its call is being made again.
        return None


async def _verify_earlier(
    state: ToolboxState, call: CallState, asked: UnknownEffect
) -> Effect | None:
    """Return what ``verify`` says about an earlier call, if that can be believed."""
    effect = await ask_verify(state, call, asked)
    is_doubtful = may_still_run(asked.outcome) or hides(asked.arguments)
    return None if effect is Effect.NONE and is_doubtful else effect


def _found_by_verify(state: ToolboxState, effect: Effect) -> Settlement:
    return Settlement(effect=effect, by="verify", at=state.clock.now())


def question_of(
    tool: Tool,
    arguments: JsonObject,
    call_id: str,
    run_id: str,
    *,
    key: str,
    outcome: ToolOutcome | None,
) -> UnknownEffect:
    """Return what ``verify`` is asked about a call; *outcome* is None if it has none."""
    if not isinstance(outcome, ToolFailure | ToolTimeout):
        reason = "The process ended while this call ran."
        outcome = ToolFailure(call_id, tool.name, error=reason, code=INTERRUPTED)
    return UnknownEffect(call_id, tool.name, arguments, run_id, key, outcome)


async def ask_verify(state: ToolboxState, call: CallState, asked: UnknownEffect) -> Effect | None:
    """Ask the tool's ``verify`` hook; returns applied, none, or None if it is still unknown."""
    left = call.turn.remaining_s()
    timeout_s = VERIFY_TIMEOUT_S if left is None else min(VERIFY_TIMEOUT_S, left)
    if asked.outcome.code == CANCELLED or timeout_s < _LEAST_TIMEOUT_S:
        timeout_s = _LEAST_TIMEOUT_S
    return await call_verify(
        call.known_tool,
        asked,
        state.warn,
        find=state.known,
        timeout_s=timeout_s,
        workers=state.workers,
    )


def _ignore_value(seen: Json) -> None:
    pass


async def call_verify(
    tool: Tool,
    asked: UnknownEffect,
    warn: Callable[[str, str], None],
    *,
    find: Callable[[str], Tool | None],
    saw: Callable[[Json], None] = _ignore_value,
    timeout_s: float = VERIFY_TIMEOUT_S,
    workers: Workers = WORKERS,
) -> Effect | None:
    """Return what a tool's ``verify`` hook says: applied, none, or None if it is still unknown.

    Args:
        tool: The tool; None is returned if it has no hook.
        asked: The question.
        warn: Called with the code and text of a warning if the hook fails.
        find: Returns the tool with a name, for a ``Lookup``.
        saw: Called with the value that this tool returned.
        timeout_s: Seconds that the hook may take.
        workers: The threads for a plain function.
    """
    verify = tool.verify
    if verify is None:
        return None
    if isinstance(verify, Lookup):
        body = functools.partial(
            verify.ask, asked.arguments, _make_caller(asked, find, saw, workers)
        )
    else:
        body = functools.partial(verify, asked)
    ending = await run_body(
        body,
        is_async=is_async(body),
        timeout_s=timeout_s,
        workers=workers,
        late=lambda: None,
        grace_s=_VERIFY_GRACE_S,
    )
    match ending:
        case BodyValue(value=True | "applied"):
            return Effect.APPLIED
        case BodyValue(value=False | "none"):
            return Effect.NONE
        case BodyValue(value=None | "unknown"):
            return None
        case _:
            warn("verify_failed", f"verify of {tool.name} {_describe_ending(ending)}")
            return None


def _make_caller(
    asked: UnknownEffect,
    find: Callable[[str], Tool | None],
    saw: Callable[[Json], None],
    workers: Workers,
) -> CallTool:
    """Return a function that calls a tool for ``verify``, outside the run and unlogged."""

    async def call(name: str, arguments: JsonObject) -> Json:
        tool = find(name)
        if tool is None:
            raise Misuse(f"there is no tool {name!r}")
        checked = tool.check.read(arguments)
        if not isinstance(checked, Checked):
            raise Misuse(f"the arguments for {name} are invalid: {checked.details}")
        token = CancelToken()
        facts: JsonObject = {**_NO_CALL, "run_id": asked.run_id, "call_id": asked.call_id}
        facts["tool_name"] = name
        context = make_context(facts, cancelled=token, tell=lambda text, data: None)
        ending = await run_body(
            functools.partial(tool.body.start, tool.body.build(checked.given), context),
            is_async=tool.body.is_async,
            timeout_s=None,
            workers=workers,
            late=lambda: None,
            token=token,
            grace_s=_VERIFY_GRACE_S,
        )
        match ending:
            case BodyValue(value=value):
                seen, _ = to_free_json(value)
                saw(seen)
                if isinstance(seen, dict) and tool.error_key and seen.get(tool.error_key):
                    raise Misuse(f"{name} failed: {seen[tool.error_key]!s:.200}")
                return seen
            case Raised(error=error):
                raise error
            case _:
                raise Misuse(f"{name} did not finish")

    return call


def _describe_ending(ending: BodyEnd) -> str:
    match ending:
        case Raised(error=error):
            return f"failed: {named(error)}"
        case BodyValue(value=value):
            return f"returned {kind_of(value)}; it must return applied, none or None"
        case _:
            return "took too long"
