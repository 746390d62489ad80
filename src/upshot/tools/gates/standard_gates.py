"""The standard gates (approval has its own module), and their order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias, cast
from weakref import WeakKeyDictionary

import msgspec

from upshot.contract.base.checks import nearest
from upshot.contract.base.enums import DeniedReason, Effect, Role
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import JsonObject
from upshot.contract.effects import EffectClaim
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.settings import Policy
from upshot.contract.tool_calls import Coercion, EffectRef, ToolRecord
from upshot.errors import Misuse
from upshot.tools.arguments.argument_check import Refused
from upshot.tools.arguments.schema_faults import cut_text
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState, call_digest
from upshot.tools.definition.annotations import BuildError
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import named
from upshot.tools.definition.tool_options import Predicate, ask_predicate, predicate_text
from upshot.tools.gates.approval_gate import ApprovalGate, Approver, HookGate, PreToolHook
from upshot.tools.gates.pipeline import (
    Denial,
    Follow,
    Gate,
    GatePipeline,
    Pass,
    Repeat,
    Rewind,
    StandardGate,
    Verdict,
)
from upshot.tools.provenance.call_judge import act_of
from upshot.tools.provenance.judgement import goes_to_known_hosts
from upshot.tools.repetition import NO_PROGRESS, MadeCall, repeated, repeated_output

# ``Model.call`` is one.
AskModel: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse]]

_RULE = "model"

_SYSTEM = (
    "You correct the arguments of one tool call. Answer with the corrected arguments as one JSON "
    "object that fits the schema, and nothing else. Change only what is at fault; invent no values."
)
_MAX_REPAIR_CHARS = 20_000


class Repair:
    """Has a model correct arguments, for tools that want it (``@tool(repair=True)``).

    Args:
        ask: Calls the model; what it raises leaves the call denied.
        secrets: Arguments that hold one are not sent anywhere; None for none.
    """

    def __init__(self, ask: AskModel, secrets: Secrets | None) -> None:
        self._ask = ask
        self._secrets = secrets

    def is_due(self, call: CallState) -> bool:
        """Whether the model is to be asked: once a call, and only about its own words."""
        wanted = call.known_tool.repair and not call.is_dry
        return wanted and call.source is call.call.arguments and call.refused is None

    async def mend(self, call: CallState, refused: Refused) -> Rewind | None:
        """Ask for better arguments.

        Args:
            call: The call.
            refused: What is wrong with them.

        Returns:
            The way back to the gate on arguments; None where there are none.
        """
        if call.mended is None:
            said = await self._answer(call, refused)
            if not said:
                return None
            call.mended = said
        call.source, call.refused = call.mended, refused
        return Rewind("arguments")

    async def _answer(self, call: CallState, refused: Refused) -> str:
        asked, secrets = _question(call, refused), self._secrets
        if len(asked) > _MAX_REPAIR_CHARS or _is_cut(call.call.arguments):
            return ""
        if secrets is not None and secrets.mask_text(asked) != asked:
            return ""
        try:
            response = await self._ask(ModelRequest((Message(Role.USER, asked),), system=_SYSTEM))
        except Exception:  # whatever a model does, the call still has its outcome: the denial
            return ""
        return _json_in(response.content or "") if response.success else ""


def coercion_of(call: CallState) -> Coercion:
    """What the record of a call says of the repair that it went through."""
    before, _ = to_free_json(call.call.arguments)
    return Coercion(path="", rule=_RULE, before=before, after=call.given)


def _question(call: CallState, refused: Refused) -> str:
    tool = call.known_tool
    told = {
        "tool": tool.name,
        "description": tool.description,
        "schema": tool.parameters,
        "arguments": to_free_json(call.call.arguments)[0],
        "faults": refused.details,
    }
    return msgspec.json.encode(told).decode()


def _is_cut(arguments: str | JsonObject) -> bool:
    """Whether they end in the middle, so that a model would have to invent the rest."""
    if not isinstance(arguments, str):
        return False
    try:
        json.loads(arguments)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated") or error.pos >= len(arguments.rstrip())
    except RecursionError:
        return True
    return False


def _json_in(text: str) -> str:
    """The object in *text*, whatever stands before and after it; "" for none."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else ""


_CUT_OFF = Refused("the reply was cut off before this call was whole, so it was not made", "")
# A type may refuse every item of a long list.
_MAX_CHARS = 4_000


class ArgumentsGate(StandardGate):
    """Arguments have to fit the tool's schema and types."""

    name = "arguments"

    def __init__(self, repair: Repair | None = None) -> None:
        """Make the gate.

        Args:
            repair: Who corrects arguments where a tool wants it; None for none.
        """
        self._repair = repair

    def check(self, call: CallState) -> Denial | Awaitable[Denial | Rewind] | None:
        """Parse, coerce and validate; deny with every fault and its path."""
        if call.call.cut:
            return _denial(_CUT_OFF)
        tool = call.known_tool
        found = tool.check.read(call.source)
        if isinstance(found, Refused):
            return self._refuse(call, found)
        try:
            values = tool.body.build(found.given)
        except BuildError as error:
            return self._refuse(call, Refused(cut_text(str(error), _MAX_CHARS), tool.check.hint))
        call.given, call.values, call.coercions = found.given, values, found.coercions
        call.take_arguments(found.filled)
        if call.source is call.mended:
            call.coercions = (coercion_of(call), *call.coercions)
        call.resources = tool.resources_of(found.filled)
        if not call.is_dry:
            call.turn.refusals.pop(call.tool_name, None)
        return None

    def _refuse(self, call: CallState, refused: Refused) -> Denial | Awaitable[Denial | Rewind]:
        # An edit is a hook's or the user's fault, and must not count against the model.
        if call.source is call.call.arguments and not call.is_dry:
            call.turn.refuse_arguments(call.tool_name)
        if self._repair is not None and self._repair.is_due(call):
            return self._mend(call, self._repair, refused)
        # What a model made of them is no better, and the caller's model knows only its own.
        return _denial(call.refused if call.refused and call.source is call.mended else refused)

    async def _mend(self, call: CallState, repair: Repair, refused: Refused) -> Denial | Rewind:
        return await repair.mend(call, refused) or _denial(refused)


def _denial(refused: Refused) -> Denial:
    return Denial(DeniedReason.VALIDATION, refused.details, refused.hint)


_WHY = "an earlier call failed for good"


class ConditionsGate(StandardGate):
    """A tool's own ``deny=`` denies, and its ``approval=`` has the user asked.

    Both are asked, so that the log holds what each of them answered.
    """

    name = "conditions"

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool has conditions."""
        return tool.deny is not False or not isinstance(tool.approval, bool | None)

    def check(self, call: CallState) -> Denial | Pass:
        """Deny where ``deny=`` is true; ask where ``approval=`` is, or one of them fails."""
        tool, told = call.known_tool, list[str]()
        denied, failed = _is_true("deny", call, told, condition=tool.deny)
        if denied:
            return Denial(DeniedReason.DENY_CONDITION, told[0], "Do not call it like that.")
        asks = False
        if not isinstance(tool.approval, bool | None):
            asks, unclear = _is_true("approval", call, told, condition=tool.approval)
            failed = failed or unclear
        if asks or failed:
            call.asks = call.asks or failed or predicate_text(cast("Predicate", tool.approval))
        return Pass("; ".join(told))


def _is_true(
    option: str, call: CallState, told: list[str], *, condition: bool | Predicate
) -> tuple[bool, str]:
    """Whether a condition is true, and how it failed; notes its answer in *told*."""
    if isinstance(condition, bool):
        if condition:
            told.append(f"{option}: every call of {call.tool_name}")
        return condition, ""
    text, failed, answer = predicate_text(condition), "", False
    try:
        answer = ask_predicate(condition, call.arguments or {})
        told.append(f"{option}: {text} is {str(answer).lower()}")
    except Exception as error:  # whatever it raises has the user asked, who can judge the call
        failed = f"{option}: {text} failed: {named(error)}"
        told.append(failed)
    return answer, failed


class BlockGate(StandardGate):
    """A tool whose failure was final is not called again in the turn."""

    name = "blocked"

    def check(self, call: CallState) -> Denial | None:
        """Deny a blocked tool."""
        why = call.turn.blocked.get(call.tool_name)
        if why is None:
            return None
        return Denial(DeniedReason.BLOCKED, f"{call.tool_name} is blocked for this turn: {why}")


class BlockKeyGate(StandardGate):
    """A call whose failure was final is not made again in the turn.

    For tools that say so, and for calls that write and that the end of their process cut off.
    """

    name = "blocked_key"

    def concerns(self, tool: Tool) -> bool:
        """Whether a failure of the tool may block only equal calls."""
        return tool.block_scope == "key" or tool.may_write

    def check(self, call: CallState) -> Denial | None:
        """Deny what failed for good with the same arguments."""
        blocked = call.turn.blocked_keys
        if not blocked or call.digest not in blocked:
            return None
        text = f"{call.tool_name} is blocked for these arguments for this turn: {_WHY}"
        return Denial(DeniedReason.BLOCKED, text, "Call it with other arguments, or do without.")


_SHOWN = 20
_NAME_CHARS = 100


class KnownGate(StandardGate):
    """A tool has to be known, and on offer in this step."""

    name = "known_tool"

    def check(self, call: CallState) -> Denial | None:
        """Find the tool, or deny with the nearest names."""
        call.take_tool(call.found)
        if call.tool is not None:
            return None
        # A model gone astray may write pages where a name is due.
        name = call.tool_name[:_NAME_CHARS]
        on_offer = call.names_on_offer
        near = nearest(name, on_offer, count=3)
        names = ", ".join(on_offer[:_SHOWN]) or "none"
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Tools: {names}."
        details = f"there is no tool {name!r}"
        return Denial(DeniedReason.UNKNOWN_TOOL, f"{details}. {hint}", hint)


class CancelledGate(StandardGate):
    """Nothing starts after a cancel."""

    name = "cancelled"

    def check(self, call: CallState) -> Denial | None:
        """Deny once the turn is cancelled."""
        if call.turn.cancelled:
            return Denial(DeniedReason.CANCELLED, "the turn was cancelled before this call ran")
        return None

    # The cancel may have come while the call waited.
    check_start = check


class DeadlineGate(StandardGate):
    """Denies a call that has too little time left."""

    def __init__(self, name: str = "deadline") -> None:
        self.name = name

    def check(self, call: CallState) -> Denial | None:
        """Deny without time left, or with less than the tool can use."""
        left = call.turn.remaining_s()
        if left is None:
            return None
        until = call.turn.waiting_s()
        if until is not None and until <= 0:
            return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        least = 0.0 if call.tool is None else call.tool.min_useful_s
        # Spent working time is told by the budget.
        if 0 < left < least:
            return Denial(DeniedReason.DEADLINE, f"{left:.3g} s are left, {least:g} are needed")
        return None

    def check_start(self, call: CallState) -> Denial | None:
        """Deny where the time ran out while the call waited, whatever the tool can use."""
        if call.is_late:
            return Denial(DeniedReason.DEADLINE, "the deadline passed while it waited")
        left = call.turn.remaining_s()
        if left is None or left > 0:
            return None
        return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")


class BudgetGate(StandardGate):
    """Denies a call over the budget."""

    name = "budget"

    def check(self, call: CallState) -> Denial | None:
        """Deny when calls in all, of this tool, denials, tokens or money are used up."""
        spent = call.turn.spent(call.tool_name)
        return Denial(DeniedReason.BUDGET, spent) if spent else None

    # Calls before it in the reply have been counted meanwhile.
    check_count = check


class PolicyGate(StandardGate):
    """What the policy denies does not run, and the user is asked where it says so."""

    name = "policy"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def concerns(self, tool: Tool) -> bool:
        """Whether a rule denies the tool, or wants the user asked."""
        return bool(self._refusal(tool) or self._question(tool))

    def check(self, call: CallState) -> Denial | None:
        """Deny or ask by the rules."""
        if refusal := self._refusal(call.known_tool):
            return Denial(DeniedReason.POLICY, refusal)
        call.asks = self._question(call.known_tool)
        return None

    def _question(self, tool: Tool) -> str:
        if tool.name == READER_NAME:
            return ""
        policy = self._policy
        return policy.question(tool.name, effect=tool.declared_effect, network=tool.network)

    def _refusal(self, tool: Tool) -> str:
        return self._policy.refusal(
            tool.name,
            effect=tool.declared_effect,
            network=tool.network,
            own=tool.name == READER_NAME,
        )


class TaintGate(StandardGate):
    """What may change something or carry data out is put before the user after untrusted words."""

    name = "taint"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool may write, or reaches the network."""
        return tool.may_write or tool.network

    def check(self, call: CallState) -> None:
        """Have the user asked after untrusted words, unless all is vouched for."""
        tainted, judge, tool = call.turn.tainted, call.turn.call_judge, call.known_tool
        if tainted is None:
            return
        if judge is not None:
            call.verdict = judge.judge(call)
            is_vouched = not call.verdict.doubts
        else:
            act = act_of(tool, call.arguments or {})
            is_vouched = not tool.may_write and goes_to_known_hosts(act, self._policy)
        if is_vouched:
            return
        call.is_distrusted = True
        call.asks = call.asks or f"the context holds untrusted words: {tainted}"


class ProgressGate(StandardGate):
    """What gave the same result three times in a row is not done a fourth time."""

    name = "progress"

    def concerns(self, tool: Tool) -> bool:
        """Whether repetitions of the tool are counted."""
        return not tool.repeatable

    def check(self, call: CallState) -> Denial | None:
        """Deny the same call with the same arguments after three equal results."""
        detector = call.turn.loop_detector
        if not detector.is_fourth(call.digest):
            return None
        return Denial(
            NO_PROGRESS,
            f"{call.tool_name} gave the same result to these arguments three times in a row",
            "Use what it said, or do something else.",
        )

    def check_start(self, call: CallState) -> Denial | None:
        """Look again where the call has waited for its equals in the same reply."""
        return self.check(call) if call.is_equal_of else None


class RateGate(StandardGate):
    """A tool's own rate limit and circuit."""

    name = "rate"

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool declares one of them."""
        return tool.rate is not None or tool.circuit is not None

    def check(self, call: CallState) -> Denial | None:
        """Deny while the rate is used up or the circuit is open."""
        refused = call.turn.rate_limiter.refusal(call.known_tool)
        return None if refused is None else Denial(*refused)

    # Calls before it in the reply have been counted meanwhile.
    check_count = check


# Says why a body may not start after all, None where it may.
AtStart: TypeAlias = Callable[[CallState], Denial | None]


class StartGate(StandardGate):
    """Asks the run, at once before a body starts, about limits that it shares with other runs."""

    name = "start"

    def __init__(self, at_start: AtStart) -> None:
        self._at_start = at_start

    def check_start(self, call: CallState) -> Denial | None:
        """Deny what the run denies."""
        return self._at_start(call)


# A tool, the arguments that it was called with, and what became of that call.
EarlierTurnCalls: TypeAlias = Sequence[tuple[str, JsonObject, str]]


class EarlierTurnsGate(StandardGate):
    """A write that an earlier turn made, or that waits there, is not made again unseen."""

    name = "earlier_turns"

    def __init__(self, calls: EarlierTurnCalls) -> None:
        self._calls = calls

    def concerns(self, tool: Tool) -> bool:
        """Whether an earlier turn called the tool."""
        return any(name == tool.name for name, _, _ in self._calls)

    def check(self, call: CallState) -> Denial | None:
        """Deny the same call with the same arguments."""
        tool = call.known_tool
        for name, arguments, state in self._calls:
            if name == tool.name and call_digest(tool, arguments) == call.digest:
                details = f"an earlier turn made this call, which {state}"
                return Denial(DeniedReason.DUPLICATE, details, "Say so instead of calling it.")
        return None


_Verdict: TypeAlias = Denial | Follow | None


class ReplayGate(StandardGate):
    """A call of an idempotent tool that succeeded is not made again."""

    name = "replay"

    def concerns(self, tool: Tool) -> bool:
        """Whether its repetitions are held back."""
        return tool.is_deduplicated

    def check(self, call: CallState) -> _Verdict | Awaitable[_Verdict]:
        """Deny a repetition; a call whose equal is under way, or parked, waits for it."""
        if call.is_dry:
            done = call.turn.deduplication.done_by(call.digest)
            return None if done is None else _duplicate(done)
        found = self._enter(call)
        return self._wait(call, found) if isinstance(found, asyncio.Future) else found

    async def _wait(self, call: CallState, equal: asyncio.Future[None]) -> _Verdict:
        found: _Verdict | asyncio.Future[None] = equal
        while isinstance(found, asyncio.Future):
            # Shielded: other calls wait for the same one.
            await asyncio.shield(found)
            found = self._enter(call)
        return found

    def _enter(self, call: CallState) -> _Verdict | asyncio.Future[None]:
        leader = call.turn.parked.get(call.digest)
        if leader is not None:
            # The user is asked once; the answer about the first decides about the others.
            return Follow(leader)
        found = call.turn.deduplication.enter(call)
        return _duplicate(found) if isinstance(found, str) else found


def _duplicate(call_id: str) -> Denial:
    return Denial(DeniedReason.DUPLICATE, f"it was done already, as call {call_id}")


class EffectGate(StandardGate):
    """An effect is made once: not again in one reply, while it is unknown, or under its key."""

    name = "effect"

    def concerns(self, tool: Tool) -> bool:
        """Whether a second call could double the effect."""
        return tool.is_guarded

    def check(self, call: CallState) -> Verdict | Awaitable[Verdict]:
        """Repeat the outcome of an equal call, or deny; wait for one that is under way."""
        if call.turn.identify is not None and call.known_tool.once is not None:
            call.claim = call.turn.identify(call)
        found = self._look(call)
        if found is not None and (isinstance(found, CallState) or found is _RECHECK):
            return self._wait(call, found)
        return found

    def _look(self, call: CallState) -> Verdict | CallState:
        """The verdict, or the equal call to wait for."""
        calls = call.turn.equal_calls
        first = None if call.is_dry else calls.enter(call)
        if first is not None:
            if first.pending is not None:
                return Follow(first.call_id)
            if isinstance(first, CallState) and first.record is None:
                return first
            return repeat_or_deny(first, call)
        unknown = calls.unknown(call)
        if unknown is None:
            return None
        return denied_as_unknown(unknown) if call.turn.recheck is None else _RECHECK

    async def _wait(self, call: CallState, found: Verdict | CallState) -> Verdict:
        while True:
            if isinstance(found, CallState):
                if found.ended is None:
                    found.ended = asyncio.get_running_loop().create_future()
                # Shielded: other calls wait for the same one.
                await asyncio.shield(found.ended)
            elif found is not _RECHECK:
                return found
            elif (verdict := await _recheck(call)) is not None:
                return verdict
            found = self._look(call)


_RECHECK = Denial(DeniedReason.EFFECT_UNKNOWN)


async def _recheck(call: CallState) -> Verdict:
    """Ask once more about the unknown effect of an earlier call; None lets the call go on."""
    calls, recheck = call.turn.equal_calls, call.turn.recheck
    unknown = calls.unknown(call)
    if unknown is None or recheck is None:
        return None
    settled = await recheck(call, unknown)
    if settled is None:
        return denied_as_unknown(unknown)
    calls.forget_unknown(call)
    if settled.effect is not Effect.APPLIED:
        return None
    ref = unknown.effect_ref
    detail = f"call {unknown.call_id} made it, as was found out since"
    return Repeat(repeated_output(None, ref, call), detail)


def repeat_or_deny(first: CallState | MadeCall, call: CallState) -> Repeat | Denial:
    """What a call gets whose effect another call of the run made, or was to make."""
    record = first.record
    assert record is not None
    if first.claim is not None and call.claim is not None:
        if first.claim.others != call.claim.others:
            return denied_as_conflict(call.claim, first.claim.others, record.effect_ref)
        if call.known_tool.on_repeat == "deny" and record.effect is Effect.APPLIED:
            return _duplicate(first.call_id)
    return Repeat(repeated(record, call), f"it is the same call as {first.call_id}")


def denied_as_conflict(claim: EffectClaim, others: str, ref: EffectRef) -> Denial:
    """The denial of a call that asks for an effect of the same key with other arguments."""
    details = (
        f"{claim.name} {claim.key} was asked for before with {others}, by call {ref.call_id} of "
        f"run {ref.run_id}, and now with {claim.others}: one of them is wrong"
    )
    hint = "Say so instead of calling it."
    return Denial(DeniedReason.CONFLICT, details, hint, repeats=ref)


def denied_as_unknown(record: ToolRecord) -> Denial:
    """The denial of a call that an earlier call of unknown effect may have made already."""
    when = "" if record.started_at is None else f" at {record.started_at.isoformat()}"
    details = (
        f"call {record.call_id} of {record.tool_name} was made{when} for the same effect and may "
        "have made it; it is not made again until that is known"
    )
    hint = "Say that it is being checked."
    return Denial(DeniedReason.EFFECT_UNKNOWN, details, hint, repeats=record.effect_ref)


GateChoice: TypeAlias = Iterable[Gate] | Callable[[tuple[Gate, ...]], Iterable[Gate]]

_NEEDED = ("known_tool", "arguments")


def standard_gates(
    *,
    hook: PreToolHook | None,
    approve: Approver | None,
    policy: Policy | None,
    repair: Repair | None = None,
    earlier: EarlierTurnCalls = (),
) -> tuple[Gate, ...]:
    """The gates that are asked unless the user chooses others, in order.

    Args:
        hook: The user's own hook, None for none.
        approve: Who approves at once, None for none.
        policy: The user's rules, None for none.
        repair: Who corrects arguments, None for none.
        earlier: Calls of earlier turns that are not to be made again.
    """
    expires_s = None if policy is None else policy.approval_expires_s
    return (
        *_FIRST,
        *(() if policy is None else (PolicyGate(policy),)),
        *_ON_TOOL,
        _ARGUMENTS if repair is None else ArgumentsGate(repair),
        *((EarlierTurnsGate(earlier),) if earlier else ()),
        *_ON_ARGUMENTS,
        *(() if policy is None or policy.taint == "off" else (TaintGate(policy),)),
        *(() if hook is None else (HookGate(hook),)),
        ApprovalGate(approve, expires_s=expires_s),
        _DEADLINE_AGAIN,
    )


# Made once: they hold no state.
_CANCELLED, _DEADLINE, _BUDGET = CancelledGate(), DeadlineGate(), BudgetGate()
_RATE, _PROGRESS = RateGate(), ProgressGate()
_FIRST = (_CANCELLED, _DEADLINE, _BUDGET, KnownGate())
_ON_TOOL = (BlockGate(), _RATE)
_ARGUMENTS = ArgumentsGate()
_ON_ARGUMENTS = (ConditionsGate(), BlockKeyGate(), ReplayGate(), EffectGate(), _PROGRESS)
_DEADLINE_AGAIN = DeadlineGate("deadline_again")

# No choice of gates lifts a cancel or a limit.
_ALWAYS_AGAIN: tuple[StandardGate, ...] = (_CANCELLED, _DEADLINE, _BUDGET, _RATE)

FindPipeline: TypeAlias = Callable[[Tool | None], GatePipeline]


def pipelines(
    chosen: GateChoice | None,
    *,
    hook: PreToolHook | None,
    approve: Approver | None,
    policy: Policy | None,
    repair: Repair | None,
    at_start: AtStart | None,
    earlier: EarlierTurnCalls = (),
) -> FindPipeline:
    """What gives the pipeline of a tool, None for a tool that is not known.

    Args:
        chosen: Gates that are asked before the user is, or a function of the standard ones
            that gives all; None is the standard ones.
        hook: As for ``standard_gates``, like the others.
        approve: As there.
        policy: As there.
        repair: As there.
        at_start: Asked at once before a body starts, None for none.
        earlier: As for ``standard_gates``.

    Raises:
        Misuse: A gate is missing without which no call can be read.
    """
    options = (chosen, hook, approve, policy, repair, at_start)
    if options == _NO_OPTIONS and not earlier:
        return _find_plain
    standard = standard_gates(
        hook=hook, approve=approve, policy=policy, repair=repair, earlier=earlier
    )
    gates = _gates_of(chosen, standard)
    again = _ALWAYS_AGAIN
    if any(gate.name == _PROGRESS.name for gate in gates):
        again += (_PROGRESS,)
    if at_start is not None:
        again += (StartGate(at_start),)
    return _finder(gates, again)


_NO_OPTIONS = (None,) * 6


def _finder(gates: tuple[Gate, ...], again: tuple[StandardGate, ...]) -> FindPipeline:
    # Weak, for the reader of stored outputs is a tool that belongs to one run.
    kept = WeakKeyDictionary[Tool, GatePipeline]()

    def find(tool: Tool | None) -> GatePipeline:
        if tool is None:
            return GatePipeline(gates, again, None)
        found = kept.get(tool)
        if found is None:
            found = kept[tool] = GatePipeline(gates, again, tool)
        return found

    return find


# Gates hold no state, so that one set of pipelines serves all runs that bring nothing of their own.
_find_plain = _finder(
    standard_gates(hook=None, approve=None, policy=None),
    (*_ALWAYS_AGAIN, _PROGRESS),
)


def _gates_of(chosen: GateChoice | None, standard: tuple[Gate, ...]) -> tuple[Gate, ...]:
    """The gates that the user wants, in order; raises Misuse."""
    if chosen is None:
        return standard
    if callable(chosen):
        found = cast("object", chosen(standard))
        if not isinstance(found, Iterable):
            raise Misuse(f"the function of gates gave {found!r:.60}: give back all gates, in order")
        gates = tuple(cast("Iterable[Gate]", found))
    else:
        place = [gate.name for gate in standard].index("approval")
        gates = (*standard[:place], *chosen, *standard[place:])
    for gate in gates:
        if not isinstance(getattr(gate, "name", None), str) or not callable(
            getattr(gate, "check", None)
        ):
            raise Misuse(f"gates hold {gate!r:.60}: a gate has a name, and check(call)")
    for name in _NEEDED:
        if name not in [gate.name for gate in gates]:
            raise Misuse(f"the gate {name} is missing: without it no call can be read")
    return gates
