"""The gates that ship but for approval, and their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import TypeAlias, cast

import msgspec

from upshot.contract.base.enums import DeniedReason, Role
from upshot.contract.base.json_values import to_free_json
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.settings import Policy
from upshot.contract.tool_calls import Coercion
from upshot.errors import Misuse
from upshot.tools.arguments.argument_check import Refused
from upshot.tools.arguments.schema_faults import cut_text
from upshot.tools.artifacts import READER_NAME
from upshot.tools.call_state import CallState
from upshot.tools.definition.annotations import BuildError
from upshot.tools.gates.approval_gate import ApprovalGate, Approver, HookGate, PreToolHook
from upshot.tools.gates.pipeline import Denial, Following, Gate, GatePipeline, Rewind
from upshot.tools.repetition import NO_PROGRESS
from upshot.tools.secrets import Secrets

__all__ = [
    "ArgumentsGate",
    "AskModel",
    "BlockGate",
    "BlockKeyGate",
    "BudgetGate",
    "CancelledGate",
    "DeadlineGate",
    "GateChoice",
    "KnownGate",
    "PolicyGate",
    "ProgressGate",
    "RateGate",
    "Repair",
    "ReplayGate",
    "coercion_of",
    "passage_of",
    "standard_gates",
    "why_stuck",
]

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
        secrets: Arguments that hold one are not sent anywhere.
    """

    def __init__(self, ask: AskModel, secrets: Secrets) -> None:
        self._ask = ask
        self._secrets = secrets

    def is_due(self, case: CallState) -> bool:
        """Whether the model is to be asked: once a call, and only about its own words."""
        wanted = case.known_tool.repair and not case.dry
        return wanted and case.source is case.call.arguments and case.refused is None

    async def mend(self, case: CallState, refused: Refused) -> Rewind | None:
        """Ask for better arguments.

        Args:
            case: The call.
            refused: What is wrong with them.

        Returns:
            The way back to the gate on arguments; None where there are none.
        """
        if case.mended is None:
            said = await self._answer(case, refused)
            if not said:
                return None
            case.mended = said
        case.source, case.refused = case.mended, refused
        return Rewind("arguments")

    async def _answer(self, case: CallState, refused: Refused) -> str:
        asked = _question(case, refused)
        if len(asked) > _MAX_REPAIR_CHARS or self._secrets.mask_text(asked) != asked:
            return ""
        try:
            response = await self._ask(ModelRequest((Message(Role.USER, asked),), system=_SYSTEM))
        except Exception:  # whatever a model does, the call still has its outcome: the denial
            return ""
        return _json_in(response.content or "") if response.success else ""


def coercion_of(case: CallState) -> Coercion:
    """What the record of a call says of the repair that it went through."""
    before, _ = to_free_json(case.call.arguments)
    return Coercion(path="", rule=_RULE, before=before, after=case.given)


def _question(case: CallState, refused: Refused) -> str:
    tool = case.known_tool
    told = {
        "tool": tool.name,
        "description": tool.description,
        "schema": tool.parameters,
        "arguments": to_free_json(case.call.arguments)[0],
        "faults": refused.details,
    }
    return msgspec.json.encode(told).decode()


def _json_in(text: str) -> str:
    """The object in *text*, whatever words or fences stand round it; "" for none."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else ""


# A type may refuse every item of a long list.
_MAX_CHARS = 4_000


class ArgumentsGate:
    """Arguments have to fit the tool's schema and types."""

    name = "arguments"

    def __init__(self, repair: Repair | None = None) -> None:
        """Make the gate.

        Args:
            repair: Who corrects arguments where a tool wants it; None for nobody.
        """
        self._repair = repair

    def check(self, case: CallState) -> Denial | Awaitable[Denial | Rewind] | None:
        """Parse, coerce and validate; deny with every fault and its path."""
        tool = case.known_tool
        found = tool.check.read(case.source)
        if isinstance(found, Refused):
            return self._refuse(case, found)
        try:
            values = tool.body.build(found.given)
        except BuildError as error:
            return self._refuse(case, Refused(cut_text(str(error), _MAX_CHARS), tool.check.hint))
        case.settle_arguments(found.given, found.filled, values, found.coercions)
        if _is_mended(case):
            case.coercions = (coercion_of(case), *case.coercions)
        case.resources = tool.resources_of(found.filled)
        if not case.dry:
            case.turn.accept(case.tool_name)
        return None

    def _refuse(self, case: CallState, refused: Refused) -> Denial | Awaitable[Denial | Rewind]:
        # An edit is a hook's or a person's fault, and must not count against the model.
        if case.source is case.call.arguments and not case.dry:
            case.turn.refuse(case.tool_name)
        if self._repair is not None and self._repair.is_due(case):
            return self._mend(case, self._repair, refused)
        # What a model made of them is no better, and the caller's model knows only its own.
        return _denial(case.refused if case.refused and _is_mended(case) else refused)

    async def _mend(self, case: CallState, repair: Repair, refused: Refused) -> Denial | Rewind:
        return await repair.mend(case, refused) or _denial(refused)


def _is_mended(case: CallState) -> bool:
    return case.mended is not None and case.source is case.mended


def _denial(refused: Refused) -> Denial:
    return Denial(DeniedReason.VALIDATION, refused.details, refused.hint)


_WHY = "an earlier call failed for good"


class BlockGate:
    """A tool whose failure was final is not called again in the turn."""

    name = "blocked"

    def check(self, case: CallState) -> Denial | None:
        """Deny a blocked tool."""
        why = case.turn.blocked.get(case.tool_name)
        if why is None:
            return None
        return Denial(DeniedReason.BLOCKED, f"{case.tool_name} is blocked for this turn: {why}")


class BlockKeyGate:
    """A call whose failure was final is not made again in the turn, where its tool says so."""

    name = "blocked_key"

    def check(self, case: CallState) -> Denial | None:
        """Deny what failed for good with the same arguments."""
        blocked = case.turn.blocked_keys
        if not blocked or case.digest not in blocked:
            return None
        text = f"{case.tool_name} is blocked for these arguments for this turn: {_WHY}"
        return Denial(DeniedReason.BLOCKED, text, "Call it with other arguments, or do without.")


_SHOWN = 20
_NAME_CHARS = 100


class KnownGate:
    """A tool has to be known, and on offer in this step."""

    name = "known_tool"

    def check(self, case: CallState) -> Denial | None:
        """Find the tool, or deny with the nearest names."""
        case.tool = case.catalog.find(case.tool_name)
        if case.tool is not None:
            return None
        # A model gone astray may write pages where a name is due.
        name = case.tool_name[:_NAME_CHARS]
        near = case.catalog.nearest(name)
        names = ", ".join(case.catalog.names()[:_SHOWN]) or "none"
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Tools: {names}."
        details = f"there is no tool {name!r}"
        return Denial(DeniedReason.UNKNOWN_TOOL, f"{details}. {hint}", hint)


class CancelledGate:
    """Nothing starts after a cancel."""

    name = "cancelled"

    def check(self, case: CallState) -> Denial | None:
        """Deny once the turn is cancelled."""
        if case.turn.cancelled:
            return Denial(DeniedReason.CANCELLED, "the turn was cancelled before this call ran")
        return None


class DeadlineGate:
    """A call needs time."""

    def __init__(self, name: str = "deadline") -> None:
        self.name = name

    def check(self, case: CallState) -> Denial | None:
        """Deny without time left, or with less than the tool can use."""
        left = case.turn.remaining_s()
        if left is None:
            return None
        until = case.turn.waiting_s()
        if until is not None and until <= 0:
            return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        least = 0.0 if case.tool is None else case.tool.min_useful_s
        # Spent working time is told by the budget.
        if 0 < left < least:
            return Denial(DeniedReason.DEADLINE, f"{left:.3g} s are left, {least:g} are needed")
        return None


class BudgetGate:
    """A call counts."""

    name = "budget"

    def check(self, case: CallState) -> Denial | None:
        """Deny when calls in all, of this tool, denials, tokens or money are used up."""
        spent = case.turn.spent(case.tool_name)
        return Denial(DeniedReason.BUDGET, spent) if spent else None


class PolicyGate:
    """What the policy denies does not run; what it doubts is put before people."""

    name = "policy"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def check(self, case: CallState) -> Denial | None:
        """Deny by the rules, or have people asked once strangers' words are in the context."""
        tool, policy = case.known_tool, self._policy
        refusal = policy.refusal(
            tool.name,
            effect=tool.declared_effect,
            network=tool.network,
            own=tool.name == READER_NAME,
        )
        if refusal:
            return Denial(DeniedReason.POLICY, refusal)
        if policy.taint and case.turn.tainted and tool.may_write:
            case.distrusted = True
            case.asks = case.asks or (
                f"the context holds an untrusted result of {case.turn.tainted}"
            )
        return None


class ProgressGate:
    """What gave the same result three times in a row is not done a fourth time."""

    name = "progress"

    def check(self, case: CallState) -> Denial | None:
        """Deny the same call with the same arguments after three equal results."""
        return why_stuck(case)


def why_stuck(case: CallState) -> Denial | None:
    """Why a call leads nowhere, None where it may."""
    ladder = case.turn.ladder
    if not ladder.is_stuck() or case.known_tool.repeatable:
        return None
    if not ladder.is_fourth(case.digest):
        return None
    return Denial(
        NO_PROGRESS,
        f"{case.tool_name} gave the same result to these arguments three times in a row",
        "Use what it said, or do something else.",
    )


class RateGate:
    """A tool's own rate limit and circuit."""

    name = "rate"

    def check(self, case: CallState) -> Denial | None:
        """Deny while the rate is used up or the circuit is open."""
        refused = case.turn.meters.refusal(case.known_tool)
        return None if refused is None else Denial(*refused)


_Verdict: TypeAlias = Denial | Following | None


class ReplayGate:
    """A call of an idempotent tool that succeeded is not made again."""

    name = "replay"

    def check(self, case: CallState) -> _Verdict | Awaitable[_Verdict]:
        """Deny a repetition; a call whose twin is under way, or parked, waits for it."""
        tool = case.known_tool
        if not tool.idempotent or tool.repeatable:
            return None
        if case.dry:
            done = case.turn.replay.done_by(case.digest)
            return None if done is None else _duplicate(done)
        found = self._enter(case)
        return self._wait(case, found) if isinstance(found, asyncio.Future) else found

    async def _wait(self, case: CallState, twin: asyncio.Future[None]) -> _Verdict:
        found: _Verdict | asyncio.Future[None] = twin
        while isinstance(found, asyncio.Future):
            # Shielded: others wait for the same twin.
            await asyncio.shield(found)
            found = self._enter(case)
        return found

    def _enter(self, case: CallState) -> _Verdict | asyncio.Future[None]:
        key, turn = case.digest, case.turn
        leader = turn.parked.get(key)
        if leader is not None:
            # People are asked once; what they say of the first decides about the others.
            return Following(leader)
        found = turn.replay.enter(key, case.resources)
        if isinstance(found, str):
            return _duplicate(found)
        if isinstance(found, asyncio.Future):
            return found
        case.held = found
        return None


def _duplicate(call_id: str) -> Denial:
    return Denial(DeniedReason.DUPLICATE, f"it was done already, as call {call_id}")


GateChoice: TypeAlias = Iterable[Gate] | Callable[[tuple[Gate, ...]], Iterable[Gate]]

_NEEDED = ("known_tool", "arguments")


def standard_gates(
    *,
    hook: PreToolHook | None,
    approve: Approver | None,
    policy: Policy | None,
    repair: Repair | None = None,
) -> tuple[Gate, ...]:
    """The gates that are asked unless somebody chooses others, in order.

    Args:
        hook: The caller's own hook, None for none.
        approve: Who approves at once, None for nobody.
        policy: The caller's rules, None for none.
        repair: Who corrects arguments, None for nobody.
    """
    found: list[Gate | None] = [
        CancelledGate(),
        DeadlineGate(),
        BudgetGate(),
        KnownGate(),
        None if policy is None else PolicyGate(policy),
        BlockGate(),
        RateGate(),
        ArgumentsGate(repair),
        BlockKeyGate(),
        ReplayGate(),
        ProgressGate(),
        None if hook is None else HookGate(hook),
        ApprovalGate(approve, expires_s=None if policy is None else policy.approval_expires_s),
        DeadlineGate("deadline_again"),
    ]
    return tuple(gate for gate in found if gate is not None)


def passage_of(
    chosen: GateChoice | None,
    *,
    hook: PreToolHook | None,
    approve: Approver | None,
    policy: Policy | None,
    repair: Repair | None,
) -> GatePipeline:
    """The way through the gates that a caller wants.

    Args:
        chosen: Gates that are asked before people are, or a function of the standard ones
            that gives all; None is the standard ones.
        hook: As for ``standard_gates``, like the others.
        approve: As there.
        policy: As there.
        repair: As there.

    Raises:
        Misuse: A gate is missing without which no call can be read.
    """
    if all(one is None for one in (chosen, hook, approve, policy, repair)):
        return _standard_passage()
    standard = standard_gates(hook=hook, approve=approve, policy=policy, repair=repair)
    return GatePipeline(_choose(chosen, standard))


@cache
def _standard_passage() -> GatePipeline:
    # Gates hold no state, so that one way serves all who bring nothing of their own.
    return GatePipeline(standard_gates(hook=None, approve=None, policy=None))


def _choose(chosen: GateChoice | None, standard: tuple[Gate, ...]) -> tuple[Gate, ...]:
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
            raise Misuse(f"gates hold {gate!r:.60}: a gate has a name, and check(case)")
    for name in _NEEDED:
        if name not in [gate.name for gate in gates]:
            raise Misuse(f"the gate {name} is missing: without it no call can be read")
    return gates
