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
    """Asks a model to correct arguments, for tools with ``@tool(repair=True)``.

    Args:
        ask: Calls the model; if it raises, the call stays denied.
        secrets: Arguments that contain one are not sent anywhere; None for none.
    """

    def __init__(self, ask: AskModel, secrets: Secrets | None) -> None:
        self._ask = ask
        self._secrets = secrets

    def is_due(self, call: CallState) -> bool:
        """Whether to ask the model: once per call, and only about what it wrote itself."""
        wanted = call.known_tool.repair and not call.is_dry
        return wanted and call.source is call.call.arguments and call.refused is None

    async def mend(self, call: CallState, refused: Refused) -> Rewind | None:
        """Ask for better arguments.

        Args:
            call: The call.
            refused: The faults of its arguments.

        Returns:
            A rewind to the arguments gate, or None if the model has no answer.
        """
        if call.mended is None:
            answer = await self._answer(call, refused)
            if not answer:
                return None
            call.mended = answer
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
        except Exception:  # whatever the model does, the call still has its outcome: the denial
            return ""
        return _json_in(response.content or "") if response.success else ""


def coercion_of(call: CallState) -> Coercion:
    """Return the coercion that records the repair of a call's arguments."""
    before, _ = to_free_json(call.call.arguments)
    return Coercion(path="", rule=_RULE, before=before, after=call.given)


def _question(call: CallState, refused: Refused) -> str:
    tool = call.known_tool
    facts = {
        "tool": tool.name,
        "description": tool.description,
        "schema": tool.parameters,
        "arguments": to_free_json(call.call.arguments)[0],
        "faults": refused.details,
    }
    return msgspec.json.encode(facts).decode()


def _is_cut(arguments: str | JsonObject) -> bool:
    """Whether the text ends in the middle, so a model would have to invent the rest."""
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
    """Return the object in *text*, whatever surrounds it; "" if there is none."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else ""


_CUT_OFF = Refused("the reply was cut off before this call was whole, so it was not made", "")
# A type may refuse every item of a long list.
_MAX_CHARS = 4_000


class ArgumentsGate(StandardGate):
    """Denies arguments that do not match the tool's schema and types."""

    name = "arguments"

    def __init__(self, repair: Repair | None = None) -> None:
        """Create the gate.

        Args:
            repair: Corrects arguments for tools that want it; None for none.
        """
        self._repair = repair

    def check(self, call: CallState) -> Denial | Awaitable[Denial | Rewind] | None:
        """Parse, coerce and validate; a denial lists every fault with its path."""
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
        # A bad edit is the fault of a hook or the user, and must not count against the model.
        if call.source is call.call.arguments and not call.is_dry:
            call.turn.refuse_arguments(call.tool_name)
        if self._repair is not None and self._repair.is_due(call):
            return self._mend(call, self._repair, refused)
        # The repaired arguments failed too, and the caller's model knows only its own.
        return _denial(call.refused if call.refused and call.source is call.mended else refused)

    async def _mend(self, call: CallState, repair: Repair, refused: Refused) -> Denial | Rewind:
        return await repair.mend(call, refused) or _denial(refused)


def _denial(refused: Refused) -> Denial:
    return Denial(DeniedReason.VALIDATION, refused.details, refused.hint)


_WHY = "an earlier call failed for good"


class ConditionsGate(StandardGate):
    """Denies a call by the tool's ``deny=``, and asks the user by its ``approval=``.

    Both are evaluated, so that the log has the answer of each.
    """

    name = "conditions"

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool has conditions."""
        return tool.deny is not False or not isinstance(tool.approval, bool | None)

    def check(self, call: CallState) -> Denial | Pass:
        """Deny if ``deny=`` is true; ask if ``approval=`` is, or if either of them fails."""
        tool, answers = call.known_tool, list[str]()
        denied, failed = _is_true("deny", call, answers, condition=tool.deny)
        if denied:
            return Denial(DeniedReason.DENY_CONDITION, answers[0], "Do not call it like that.")
        asks = False
        if not isinstance(tool.approval, bool | None):
            asks, unclear = _is_true("approval", call, answers, condition=tool.approval)
            failed = failed or unclear
        if asks or failed:
            call.asks = call.asks or failed or predicate_text(cast("Predicate", tool.approval))
        return Pass("; ".join(answers))


def _is_true(
    option: str, call: CallState, answers: list[str], *, condition: bool | Predicate
) -> tuple[bool, str]:
    """Return whether a condition is true, and how it failed; adds its answer to *answers*."""
    if isinstance(condition, bool):
        if condition:
            answers.append(f"{option}: every call of {call.tool_name}")
        return condition, ""
    text, failed, answer = predicate_text(condition), "", False
    try:
        answer = ask_predicate(condition, call.arguments or {})
        answers.append(f"{option}: {text} is {str(answer).lower()}")
    except Exception as error:  # any exception asks the user, who can judge the call
        failed = f"{option}: {text} failed: {named(error)}"
        answers.append(failed)
    return answer, failed


class BlockGate(StandardGate):
    """Denies a tool that had a final failure earlier in the turn."""

    name = "blocked"

    def check(self, call: CallState) -> Denial | None:
        """Deny a blocked tool."""
        why = call.turn.blocked.get(call.tool_name)
        if why is None:
            return None
        return Denial(DeniedReason.BLOCKED, f"{call.tool_name} is blocked for this turn: {why}")


class BlockKeyGate(StandardGate):
    """Denies a call whose equal had a final failure earlier in the turn.

    For tools that declare it, and for writes that were interrupted when their process ended.
    """

    name = "blocked_key"

    def concerns(self, tool: Tool) -> bool:
        """Whether a failure of the tool may block only equal calls."""
        return tool.block_scope == "key" or tool.may_write

    def check(self, call: CallState) -> Denial | None:
        """Deny a call whose equal had a final failure."""
        blocked = call.turn.blocked_keys
        if not blocked or call.digest not in blocked:
            return None
        text = f"{call.tool_name} is blocked for these arguments for this turn: {_WHY}"
        return Denial(DeniedReason.BLOCKED, text, "Call it with other arguments, or do without.")


_SHOWN = 20
_NAME_CHARS = 100


class KnownGate(StandardGate):
    """Denies a tool that is unknown, or not offered in this step."""

    name = "known_tool"

    def check(self, call: CallState) -> Denial | None:
        """Find the tool, or deny with the most similar names."""
        call.take_tool(call.found)
        if call.tool is not None:
            return None
        # A confused model may write pages in place of a name.
        name = call.tool_name[:_NAME_CHARS]
        on_offer = call.names_on_offer
        near = nearest(name, on_offer, count=3)
        names = ", ".join(on_offer[:_SHOWN]) or "none"
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Tools: {names}."
        details = f"there is no tool {name!r}"
        return Denial(DeniedReason.UNKNOWN_TOOL, f"{details}. {hint}", hint)


class CancelledGate(StandardGate):
    """Denies everything after a cancel."""

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
        """Deny if no time is left, or less than the tool needs."""
        left = call.turn.remaining_s()
        if left is None:
            return None
        until = call.turn.waiting_s()
        if until is not None and until <= 0:
            return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        least = 0.0 if call.tool is None else call.tool.min_useful_s
        # Used-up working time is reported by the budget gate.
        if 0 < left < least:
            return Denial(DeniedReason.DEADLINE, f"{left:.3g} s are left, {least:g} are needed")
        return None

    def check_start(self, call: CallState) -> Denial | None:
        """Deny if time ran out while the call waited, however little the tool needs."""
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
        """Deny if all calls, calls of this tool, denials, tokens or money are used up."""
        spent = call.turn.spent(call.tool_name)
        return Denial(DeniedReason.BUDGET, spent) if spent else None

    # Earlier calls of the reply have been counted in between.
    check_count = check


class PolicyGate(StandardGate):
    """Denies what the policy forbids, and asks the user where a rule says so."""

    name = "policy"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def concerns(self, tool: Tool) -> bool:
        """Whether a rule denies the tool, or asks the user about it."""
        return bool(self._refusal(tool) or self._question(tool))

    def check(self, call: CallState) -> Denial | None:
        """Deny or ask by the rules."""
        if refusal := self._refusal(call.known_tool):
            return Denial(DeniedReason.POLICY, refusal)
        tool = call.known_tool
        call.asks = self._question(tool)
        call.approvals = self._policy.approvals_of(
            tool.name, effect=tool.declared_effect, network=tool.network
        )
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
    """Asks the user, once the context is tainted, about calls that write or use the network."""

    name = "taint"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool may write, or uses the network."""
        return tool.may_write or tool.network

    def check(self, call: CallState) -> None:
        """Ask the user if the context is tainted, unless every value is vouched for."""
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
    """Denies a call that gave the same result three times in a row."""

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
        """Check again if the call waited for equal calls of the same reply."""
        return self.check(call) if call.is_equal_of else None


class RateGate(StandardGate):
    """Enforces a tool's own rate limit and circuit."""

    name = "rate"

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool declares either of them."""
        return tool.rate is not None or tool.circuit is not None

    def check(self, call: CallState) -> Denial | None:
        """Deny while the rate is used up or the circuit is open."""
        refused = call.turn.rate_limiter.refusal(call.known_tool)
        return None if refused is None else Denial(*refused)

    # Earlier calls of the reply have been counted in between.
    check_count = check


# Returns why a body may not start after all, or None.
AtStart: TypeAlias = Callable[[CallState], Denial | None]


class StartGate(StandardGate):
    """Asks the run, just before a body starts, about limits that it shares with other runs."""

    name = "start"

    def __init__(self, at_start: AtStart) -> None:
        self._at_start = at_start

    def check_start(self, call: CallState) -> Denial | None:
        """Deny what the run denies."""
        return self._at_start(call)


# The tool, the arguments and the state of each call.
EarlierTurnCalls: TypeAlias = Sequence[tuple[str, JsonObject, str]]


class EarlierTurnsGate(StandardGate):
    """Denies a write that an earlier turn of the conversation made, or that is pending there."""

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
    """Denies the repetition of a successful call of an idempotent tool."""

    name = "replay"

    def concerns(self, tool: Tool) -> bool:
        """Whether the tool's repetitions are denied."""
        return tool.is_deduplicated

    def check(self, call: CallState) -> _Verdict | Awaitable[_Verdict]:
        """Deny a repetition; a call whose equal is running or parked waits for it."""
        if call.is_dry:
            done = call.turn.deduplication.done_by(call.digest)
            return None if done is None else _duplicate(done)
        found = self._enter(call)
        return self._wait(call, found) if isinstance(found, asyncio.Future) else found

    async def _wait(self, call: CallState, equal: asyncio.Future[None]) -> _Verdict:
        found: _Verdict | asyncio.Future[None] = equal
        while isinstance(found, asyncio.Future):
            # Shielded, because other calls wait for the same one.
            await asyncio.shield(found)
            found = self._enter(call)
        return found

    def _enter(self, call: CallState) -> _Verdict | asyncio.Future[None]:
        leader = call.turn.parked.get(call.digest)
        if leader is not None:
            # The user is asked once; the answer for the first call decides for its equals.
            return Follow(leader)
        found = call.turn.deduplication.enter(call)
        return _duplicate(found) if isinstance(found, str) else found


def _duplicate(call_id: str) -> Denial:
    return Denial(DeniedReason.DUPLICATE, f"it was done already, as call {call_id}")


class EffectGate(StandardGate):
    """Makes an effect once: not twice in a reply, while it is unknown, or under the same key."""

    name = "effect"

    def concerns(self, tool: Tool) -> bool:
        """Whether a second call could double the effect."""
        return tool.is_guarded

    def check(self, call: CallState) -> Verdict | Awaitable[Verdict]:
        """Repeat the outcome of an equal call, or deny; wait for one that is running."""
        if call.turn.identify is not None and call.known_tool.once is not None:
            call.claim = call.turn.identify(call)
        found = self._find_equal(call)
        if found is not None and (isinstance(found, CallState) or found is _RECHECK):
            return self._wait(call)
        return found

    def _find_equal(self, call: CallState) -> Verdict | CallState:
        """Return the verdict, or the equal call to wait for."""
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

    async def _wait(self, call: CallState) -> Verdict:
        while True:
            # Asked again at the start too: the equal call may have ended before this began.
            found = self._find_equal(call)
            if isinstance(found, CallState):
                if found.ended is None:
                    found.ended = asyncio.get_running_loop().create_future()
                # Shielded, because other calls wait for the same one.
                await asyncio.shield(found.ended)
            elif found is not _RECHECK:
                return found
            elif (verdict := await _recheck(call)) is not None:
                return verdict


_RECHECK = Denial(DeniedReason.EFFECT_UNKNOWN)


async def _recheck(call: CallState) -> Verdict:
    """Check the unknown effect of an earlier call again; None passes the call."""
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
    """Return what a call gets if another call of the run made its effect, or was going to."""
    record = first.record
    assert record is not None
    if first.claim is not None and call.claim is not None:
        if first.claim.others != call.claim.others:
            return denied_as_conflict(call.claim, first.claim.others, record.effect_ref)
        if call.known_tool.on_repeat == "deny" and record.effect is Effect.APPLIED:
            return _duplicate(first.call_id)
    return Repeat(repeated(record, call), f"it is the same call as {first.call_id}")


def denied_as_conflict(claim: EffectClaim, others: str, ref: EffectRef) -> Denial:
    """Return the denial of a call with the same effect key but other arguments."""
    details = (
        f"{claim.name} {claim.key} was asked for before with {others}, by call {ref.call_id} of "
        f"run {ref.run_id}, and now with {claim.others}: one of them is wrong"
    )
    hint = "Say so instead of calling it."
    return Denial(DeniedReason.CONFLICT, details, hint, repeats=ref)


def denied_as_unknown(record: ToolRecord) -> Denial:
    """Return the denial of a call whose effect an earlier call may have made already."""
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
    """Return the gates that are asked unless the user chooses others, in order.

    Args:
        hook: The user's own hook, None for none.
        approve: Approves immediately, None for none.
        policy: The user's rules, None for none.
        repair: Corrects arguments, None for none.
        earlier: Calls of earlier turns that must not be made again.
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


# Shared, because they have no state.
_CANCELLED, _DEADLINE, _BUDGET = CancelledGate(), DeadlineGate(), BudgetGate()
_RATE, _PROGRESS = RateGate(), ProgressGate()
_FIRST = (_CANCELLED, _DEADLINE, _BUDGET, KnownGate())
_ON_TOOL = (BlockGate(), _RATE)
_ARGUMENTS = ArgumentsGate()
_ON_ARGUMENTS = (ConditionsGate(), BlockKeyGate(), ReplayGate(), EffectGate(), _PROGRESS)
_DEADLINE_AGAIN = DeadlineGate("deadline_again")

# No choice of gates can remove a cancel or a limit.
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
    """Return a function from a tool (None if unknown) to its pipeline.

    Args:
        chosen: Gates to ask before approval, or a function that gets the standard gates and
            returns all gates; None is the standard ones.
        hook: See ``standard_gates``, as for the others.
        approve: See there.
        policy: See there.
        repair: See there.
        at_start: Called just before a body starts, None for none.
        earlier: See ``standard_gates``.

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
    # Weak, because the reader of stored outputs is a tool that belongs to one run.
    kept = WeakKeyDictionary[Tool, GatePipeline]()

    def find(tool: Tool | None) -> GatePipeline:
        if tool is None:
            return GatePipeline(gates, again, None)
        found = kept.get(tool)
        if found is None:
            found = kept[tool] = GatePipeline(gates, again, tool)
        return found

    return find


# Gates have no state, so one set of pipelines serves all runs without options of their own.
_find_plain = _finder(
    standard_gates(hook=None, approve=None, policy=None),
    (*_ALWAYS_AGAIN, _PROGRESS),
)


def _gates_of(chosen: GateChoice | None, standard: tuple[Gate, ...]) -> tuple[Gate, ...]:
    """Return the gates that the user wants, in order; raises Misuse."""
    if chosen is None:
        return standard
    if callable(chosen):
        found = cast("object", chosen(standard))
        if not isinstance(found, Iterable):
            raise Misuse(f"the function of gates must return all gates, got {found!r:.60}")
        gates = tuple(cast("Iterable[Gate]", found))
    else:
        place = [gate.name for gate in standard].index("approval")
        gates = (*standard[:place], *chosen, *standard[place:])
    for gate in gates:
        if not isinstance(getattr(gate, "name", None), str) or not callable(
            getattr(gate, "check", None)
        ):
            raise Misuse(f"{gate!r:.60} is not a gate: a gate has a name and check(call)")
    for name in _NEEDED:
        if name not in [gate.name for gate in gates]:
            raise Misuse(f"the gate {name} is missing: without it no call can be read")
    return gates
