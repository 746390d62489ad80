"""Whether a call may be repeated: the only module that decides it.

First, calls that did not finish: if the body may write, its effect is then unknown, and running it
again is safe only if twice is as good as once (``idempotent``). Everything else follows: whether an
outcome tells the model that it may retry, whether a failed body is retried at once, whether a call
interrupted by a crash runs again, and what a ``verify`` hook can change.

Second, equal calls: ``Deduplication`` denies what has succeeded already, ``EqualCalls`` denies
equal writes of one reply and those with an unknown effect, and ``LoopDetector`` denies what gives
the same result again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeGuard, TypeVar

import msgspec

from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode
from upshot.contract.base.secrets import MASK
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.effects import EffectClaim
from upshot.contract.events import REDACTED
from upshot.contract.settings import OnUnknown, Policy
from upshot.contract.tool_calls import (
    EffectRef,
    Settlement,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolTimeout,
    once_known,
    outcome_is_retryable,
    outcome_to_object,
)
from upshot.tools.definition.tool import Tool

if TYPE_CHECKING:
    from upshot.tools.call_state import CallState

# Looked up once: enum members are slow to look up on Python 3.11.
_NONE = Effect.NONE
_APPLIED = Effect.APPLIED
_UNKNOWN = Effect.UNKNOWN
_RAN = (ToolExecutionResult, ToolArtifactReference)
CANCELLED = ErrorCode("cancelled")
INTERRUPTED = ErrorCode.INTERRUPTED
REFUSED = ErrorCode("request_refused")
"""The code of a write whose service refused the request, by a status such as 404 or 409."""


def effect_after(tool: Tool, *, done: bool) -> Effect:
    """Return the effect of a body that ran; *done* says whether it finished."""
    if not (tool.may_write and tool.reaches_outside) or tool.runs_agent:
        return _NONE
    return _APPLIED if done else _UNKNOWN


def may_repeat(tool: Tool, effect: Effect) -> bool:
    """Whether a call that did not finish may be made again after *effect*."""
    if tool.runs_agent:
        # A second call is another run of the agent.
        return effect is _NONE
    return effect is not _UNKNOWN or tool.idempotent


def may_repeat_timeout(tool: Tool, effect: Effect) -> bool:
    """The same after a timeout, where the tool's ``retry_on_timeout`` wins."""
    return may_repeat(tool, effect) if tool.retry_on_timeout is None else tool.retry_on_timeout


def may_repeat_interrupted(tool: Tool) -> bool:
    """Whether a call that had started when its process ended may run again."""
    return may_repeat(tool, effect_after(tool, done=False))


def may_retry(call: CallState, outcome: ToolOutcome) -> bool:
    """Whether the body is run again at once, by the tool's ``retries``."""
    tool = call.known_tool
    if call.attempts > tool.retries or call.turn.cancelled:
        return False
    return may_repeat(tool, outcome.effect) and outcome_is_retryable(outcome)


def is_unknown(outcome: ToolOutcome | None) -> TypeGuard[ToolTimeout | ToolFailure]:
    """Whether a call did not finish and its effect is unknown."""
    # Most effects are known, so that is checked first.
    is_known = outcome is None or outcome.effect is not _UNKNOWN
    return not is_known and isinstance(outcome, ToolTimeout | ToolFailure)


def is_in_doubt(call: CallState) -> bool:
    """Whether the call has an outcome of unknown effect that may be settled since."""
    if call.outcome is None or not is_unknown(call.outcome):
        return False
    tool = call.tool
    return tool is not None and (tool.verify is not None or call.claim is not None)


def verified(
    tool: Tool, outcome: ToolTimeout | ToolFailure, settled: Settlement
) -> ToolTimeout | ToolFailure:
    """Return the outcome with its settled effect."""
    return once_known(outcome, settled, retries_timeouts=tool.retry_on_timeout is not False)


def hides(arguments: JsonObject) -> bool:
    """Whether *arguments* have masked or redacted values, so nothing can be found by them."""
    text = encode(arguments)
    return MASK.encode() in text or REDACTED.encode() in text


def may_still_run(outcome: ToolOutcome | None) -> bool:
    """Whether the body of a call with an outcome may still be running.

    A finding that nothing happened so far then means nothing.
    """
    return isinstance(outcome, ToolTimeout | ToolFailure) and not outcome.stopped


def not_retryable_if_unknown(tool: Tool, outcome: ToolOutcome) -> ToolOutcome:
    """Return *outcome*, not retryable if its effect is unknown and a retry could double it."""
    if not is_unknown(outcome) or not outcome.retryable or not tool.is_guarded:
        return outcome
    if isinstance(outcome, ToolTimeout) and tool.retry_on_timeout:
        return outcome
    return msgspec.structs.replace(outcome, retryable=False)


def on_unknown_of(tool: Tool | None, outcome: ToolOutcome, policy: Policy | None) -> OnUnknown:
    """Return what a run does about a call with an unknown effect."""
    if tool is None or not is_unknown(outcome):
        return "tell"
    if tool.on_unknown is not None:
        return tool.on_unknown
    if outcome.retryable or tool.idempotent:
        # Twice is as good as once.
        return "tell"
    if policy is not None and policy.on_unknown is not None:
        return policy.on_unknown
    return "ask" if tool.declared_effect is Effect.DESTRUCTIVE else "tell"


class MadeCall(msgspec.Struct, frozen=True, eq=False):
    """The stored facts of a guarded call that has its outcome.

    Attributes:
        record: Its record.
        reply: Identifies its reply.
        claim: The identity of its effect, or None.
        pending: Always None, because it has ended.
    """

    record: ToolRecord
    reply: object
    claim: EffectClaim | None
    pending: None = None

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        return self.record.call_id


class EqualCalls:
    """The calls of guarded tools that a turn made, by identity.

    An equal call in the same reply, or one that comes while the first still runs, is the same
    call: it gets the outcome of the first. A call with an unknown effect is not repeated until it
    is settled, however long the run lives. If its tool declares an identity, it is not repeated
    after its effect was applied either; with a ledger, that is checked there.

    Args:
        before: The calls of the previous turn, or None.
        in_ledger: Whether a ledger keeps the calls that have an identity.
    """

    def __init__(self, before: EqualCalls | None = None, *, in_ledger: bool = False) -> None:
        self._in_ledger = in_ledger if before is None else before._in_ledger
        # For ended calls, the whole state is not kept, because it leads back here.
        self._firsts: dict[str, CallState | MadeCall] = {}
        self._made: dict[str, MadeCall] = {} if before is None else before._made
        self._unknown: dict[str, ToolRecord] = {} if before is None else before._unknown

    def following(self) -> EqualCalls:
        """Return the calls for the next turn: those that hold for the whole run."""
        return EqualCalls(self)

    def unknown(self, call: CallState) -> ToolRecord | None:
        """Return the earlier call whose effect is unknown, or None."""
        return self._unknown.get(call.identity) if self._unknown else None

    def forget_unknown(self, call: CallState) -> None:
        """Allow a call again whose earlier one certainly had no effect."""
        self._unknown.pop(call.identity, None)

    def enter(self, call: CallState) -> CallState | MadeCall | None:
        """Register a call that is about to run; returns the equal call that replaces it, if any."""
        identity = call.identity
        made = self._made.get(identity)
        if made is not None:
            return made
        first = self._firsts.get(identity)
        if first is not None and first is not call:
            is_over = first.record is not None or first.pending is not None
            if first.reply == call.reply:
                stands = not is_over or _is_equal(first, call)
            else:
                # The ledger waits for a running call, but only as long as the tool wants.
                stands = not is_over and not (self._in_ledger and call.claim is not None)
            if stands:
                return first
        self._firsts[identity] = call
        return None

    def leave(self, call: CallState) -> None:
        """Remove a call that did not run, and release its equals."""
        if self._firsts.get(call.identity) is call:
            del self._firsts[call.identity]
        call.wake()

    def settle(self, call: CallState, record: ToolRecord) -> None:
        """Store the outcome of a call, unless it did not run."""
        outcome = record.outcome
        if isinstance(outcome, ToolDenied) or outcome.repeats is not None:
            return
        made, identity = MadeCall(record, call.reply, call.claim), call.identity
        if outcome.effect is _UNKNOWN and not getattr(outcome, "retryable", False):
            self._unknown[identity] = record
        elif not self._in_ledger and call.claim is not None and outcome.effect is _APPLIED:
            self._made[identity] = made
        if self._firsts.get(identity) in (None, call):
            self._firsts[identity] = made
        call.wake()


def _is_equal(first: CallState | MadeCall, call: CallState) -> bool:
    """Whether a call asks for the same as the first; with an identity, arguments may differ."""
    same = first.claim is None or call.claim is None or first.claim.others == call.claim.others
    return same or (first.record is not None and first.record.effect is not Effect.NONE)


def repeated(first: ToolRecord, call: CallState) -> ToolOutcome:
    """Return the outcome of *call*, which is the same call as *first* and did not run."""
    ref, outcome = first.effect_ref, first.outcome
    if outcome.effect is Effect.APPLIED or not isinstance(outcome, ToolFailure | ToolTimeout):
        return repeated_output(outcome, ref, call)
    error = outcome_to_object(outcome).get("error")
    return ToolFailure(
        call.call_id,
        call.tool_name,
        error=f"It is the same call as {first.call_id}. {error}",
        retryable=outcome_is_retryable(outcome),
        effect=Effect.NONE,
        code=outcome.code,
        repeats=ref,
    )


def repeated_output(outcome: ToolOutcome | None, ref: EffectRef, call: CallState) -> ToolOutcome:
    """Return the outcome of *call*, whose effect *ref* made before, with that output."""
    if isinstance(outcome, ToolArtifactReference) and ref.run_id == call.run_id:
        return msgspec.structs.replace(
            outcome, call_id=call.call_id, effect=Effect.NONE, repeats=ref, elapsed_ms=0
        )
    output: JsonObject = {}
    if isinstance(outcome, ToolExecutionResult):
        output = outcome.output
    elif isinstance(outcome, ToolArtifactReference):
        # The stored output belongs to the other run.
        output = {"summary": outcome.summary}
    return ToolExecutionResult(
        call.call_id, call.tool_name, output=output, effect=Effect.NONE, repeats=ref
    )


NOT_RECORDED = DeniedReason("not_recorded")
"""The reason of a stand-in that has no outcome for a call. Outside, nothing would deny it."""


def is_counted_denial(outcome: ToolOutcome) -> bool:
    """Whether an outcome counts for ``max_denials``."""
    return isinstance(outcome, ToolDenied) and outcome.reason != NOT_RECORDED


NO_PROGRESS = DeniedReason("no_progress")
TOLD_AT = 3
"""After how many equal results the model gets a note; a further call is denied."""
_ENDS_AT = 6


@dataclass(slots=True)
class LoopDetector:
    """Counts how many times in a row a call gave the same result.

    The third result carries a note, the fourth call is denied, and at the sixth ``stalled``
    says why the run should end. Any other success resets the count. A failure is not a result:
    it may be retried. A duplicate counts, because it would have given a known result.

    Attributes:
        stalled: Why there is no progress, "" while there may be.
    """

    stalled: str = ""
    _key: str = ""
    _last: ToolOutcome | None = None
    _steps: int = 0
    _notes: dict[tuple[str, str], str] = field(init=False)

    def __post_init__(self) -> None:
        self._notes = {}

    def is_fourth(self, key: str) -> bool:
        """Whether one more call would be the fourth or later."""
        return self._steps >= TOLD_AT and key == self._key

    def count(self, outcome: ToolOutcome, *, key: str, tool: Tool, reply: set[str]) -> None:
        """Count the outcome of a call along with its equals in the same reply.

        Every read that ran counts. A write, a denial and the like count once per reply, because the
        model has not seen the first result yet, and may have meant the write several times.

        Args:
            outcome: The outcome.
            key: The digest of the call.
            tool: Its tool.
            reply: The digests that were counted for the reply; this one is added.
        """
        ran = isinstance(outcome, _RAN)
        if key in reply and (tool.may_write or not ran):
            return
        reply.add(key)
        if isinstance(outcome, ToolDenied):
            if outcome.reason in (NO_PROGRESS, DeniedReason.DUPLICATE) and key == self._key:
                self._step(outcome)
        elif ran:
            is_same = key == self._key and self._last is not None and _is_same(outcome, self._last)
            if not is_same:
                self._steps, self.stalled = 0, ""
            self._key, self._last = key, outcome
            if not tool.repeatable:
                self._step(outcome)

    def note_of(self, outcome: ToolOutcome) -> str:
        """Return the note for the model next to *outcome*, "" for none."""
        return self._notes.get((outcome.call_id, outcome.tool_name), "")

    def _step(self, outcome: ToolOutcome) -> None:
        self._steps += 1
        name = outcome.tool_name
        if self._steps == TOLD_AT and not isinstance(outcome, ToolDenied):
            self._notes[outcome.call_id, name] = (
                f"Note: {name} has now given this same result to the same arguments {TOLD_AT} "
                "times in a row. Calling it so again will be refused: use what it said, or do "
                "something else."
            )
        if self._steps >= _ENDS_AT:
            self.stalled = (
                f"{name} was called {self._steps} times in a row with the same arguments, and "
                "gave the same result each time that it ran"
            )


def _is_same(one: ToolOutcome, other: ToolOutcome) -> bool:
    match one, other:
        case ToolExecutionResult(output=output), ToolExecutionResult(output=earlier):
            return output == earlier
        case ToolArtifactReference(), ToolArtifactReference():
            # The output is not in memory any longer; size and beginning are nearly as good.
            return (one.size_bytes, one.summary) == (other.size_bytes, other.summary)
        case _:
            return False


class _Call(Protocol):
    """The part of a call that ``Deduplication`` needs.

    Attributes:
        digest: The same for equal calls.
        resources: What it touches, None for anything.
        is_deduplicated: Whether ``enter`` passed it and it has not ended.
        is_stale: Whether its resources were written to since its body started.
        is_overtaken: Whether a write that shares a resource is queued behind it.
        ended: Done when it has ended; None until an equal call waits for that.
    """

    digest: str
    resources: frozenset[str] | None
    is_deduplicated: bool
    is_stale: bool
    is_overtaken: bool
    ended: asyncio.Future[None] | None


K = TypeVar("K", bound=Hashable)


class _ByResource(Generic[K]):
    """Items by the resources they touch, so that a write finds those it shares one with."""

    def __init__(self) -> None:
        self._items: dict[K, frozenset[str] | None] = {}
        self._named: dict[str | None, dict[K, None]] = {}

    def add(self, item: K, resources: frozenset[str] | None) -> None:
        self._items[item] = resources
        for name in (None,) if resources is None else resources:
            self._named.setdefault(name, {})[item] = None

    def discard(self, item: K) -> None:
        if item in self._items:
            resources = self._items.pop(item)
            for name in (None,) if resources is None else resources:
                del self._named[name][item]

    def pop(self, resources: frozenset[str] | None) -> list[K]:
        """Remove the items that share a resource, and return them."""
        if resources is None:
            found = list(self._items)
        else:
            named = (self._named.get(name, ()) for name in (None, *resources))
            found = list(dict.fromkeys(item for items in named for item in items))
        for item in found:
            self.discard(item)
        return found


class Deduplication:
    """Tracks which calls have succeeded, and which are running.

    Calls are identified by the digest of their tool and validated arguments.
    """

    def __init__(self) -> None:
        # The ids of the calls that succeeded, by digest.
        self._done: dict[str, str] = {}
        self._under_way: dict[str, list[_Call]] = {}
        # Indexes, because thousands of calls in a reply must not be compared pairwise.
        self._done_by: _ByResource[str] = _ByResource()
        self._not_overtaken: _ByResource[_Call] = _ByResource()
        self._running: _ByResource[_Call] = _ByResource()

    def done_by(self, digest: str) -> str | None:
        """Return the id of the call that has succeeded, or None."""
        return self._done.get(digest)

    def enter(self, call: _Call) -> str | asyncio.Future[None] | None:
        """Ask to make a call.

        Returns:
            None: it may be made, and ``leave`` or ``record`` must follow. A string: it has
            succeeded, as the call with that id. A future: an equal call is running; ask again when
            it is done.
        """
        if call.digest in self._done:
            return self._done[call.digest]
        equals = self._under_way.setdefault(call.digest, [])
        # Behind a call that a write overtook, it is a separate call: it comes after the write.
        if equals and not equals[-1].is_overtaken:
            last = equals[-1]
            if last.ended is None:
                last.ended = asyncio.get_running_loop().create_future()
            return last.ended
        call.is_deduplicated, call.is_stale, call.is_overtaken = True, False, False
        equals.append(call)
        self._not_overtaken.add(call, call.resources)
        return None

    def begin(self, call: _Call) -> None:
        """Note that the body of a call starts: it sees everything written so far."""
        if call.is_deduplicated:
            self._running.add(call, call.resources)

    def leave(self, call: _Call) -> bool:
        """Undo ``enter``: the call is not made, or has ended.

        Returns:
            Whether it had entered, nothing has written to its resources since, and no such write
            is queued.
        """
        if not call.is_deduplicated:
            return False
        call.is_deduplicated = False
        equals = self._under_way[call.digest]
        equals.remove(call)
        if not equals:
            del self._under_way[call.digest]
        self._not_overtaken.discard(call)
        self._running.discard(call)
        if call.ended is not None and not call.ended.done():
            call.ended.set_result(None)
        call.ended = None
        return not call.is_stale and not call.is_overtaken

    def expect_write(self, call: _Call) -> None:
        """Note that *call*, which may write, is queued.

        Calls that come after it are ordered after it, and may give another result.
        """
        self._forget_done(call.resources)
        for other in self._not_overtaken.pop(call.resources):
            other.is_overtaken = other is not call
        if call.is_deduplicated and not call.is_overtaken:
            self._not_overtaken.add(call, call.resources)

    def record(self, call: _Call, outcome: ToolOutcome, *, may_write: bool) -> None:
        """Record the outcome of a call; *may_write* says whether its tool may write."""
        # The result of a read that a write overtook is outdated.
        fresh = self.leave(call)
        if may_write and outcome.effect in (_APPLIED, _UNKNOWN):
            self._forget_done(call.resources)
            # A body that has not started will see what was written.
            for other in self._running.pop(call.resources):
                other.is_stale = True
        if fresh and isinstance(outcome, _RAN):
            self._done[call.digest] = outcome.call_id
            self._done_by.add(call.digest, call.resources)

    def _forget_done(self, resources: frozenset[str] | None) -> None:
        """Forget results that share a resource with a write: they may be different now."""
        for digest in self._done_by.pop(resources):
            del self._done[digest]
