"""Observers, deciders and committers, and how verdicts are applied."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, Literal, cast

import msgspec

from upshot.contract.agent_spec import HANDOFF_FINALIZE_REASON, RunInfo
from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import JsonObject, Local
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import Decided
from upshot.contract.model_calls import ModelRequest, Request
from upshot.contract.protocols import AnyResult, Decider
from upshot.contract.result import AgentResult
from upshot.contract.run_control import FinalizeDecision, Interrupt
from upshot.errors import Misuse
from upshot.runs.callbacks import (
    ask_elsewhere,
    attribute,
    blame,
    call,
    forget_way,
    kind_of,
    method,
    raised,
    trail_of,
)
from upshot.runs.ending import Ending
from upshot.runs.engine_api.exceptions import Failed
from upshot.runs.run_context import ParentLink, RunContext, stand_ins


class DiscardOnInterruptCauses(Decider):
    """Discards a run that was interrupted for a given cause, even if others would keep it.

    Args:
        reason: Stored as ``state["finalize_reason"]``.
        causes: Such as "user_cancel" or a text of your own; without any, nothing is discarded.

    Raises:
        Misuse: A cause is not a string.
    """

    def __init__(self, reason: str, *causes: str) -> None:
        for cause in causes:
            if not isinstance(cause, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise Misuse(
                    f"a cause of an interrupt is a word, not {cause!r:.60}: "
                    "DiscardOnInterruptCauses(reason, 'user_cancel', 'deadline')"
                )
        self._reason = reason
        self._causes = frozenset(str(Interrupt(cause).cause) for cause in causes)

    def before_finalize(
        self, info: RunInfo, request: Request, result: AnyResult
    ) -> FinalizeDecision | None:
        """Discard if the cause is one of those; otherwise decide nothing."""
        if result.status is not Status.INTERRUPTED:
            return None
        if str(result.cause) not in self._causes:
            return None
        return FinalizeDecision.discard(self._reason)


logger: logging.Logger = logging.getLogger("upshot.runs")

# Deciders whose before_model is running. They are not asked about the model calls they make
# themselves in child runs.
_busy_deciders: ContextVar[tuple[object, ...]] = ContextVar("upshot_asked", default=())


class Verdict:
    """The combined decision of all deciders.

    Attributes:
        word: accept, keep_partial, revise, discard or refuse; the last of them that was given wins.
        reason: The first reason that any decider gave; the run's state keeps it.
        why: The first reason given for *word*.
        feedback: The feedback of all deciders that want a revision, joined.
        state: Their facts, merged in order.
        refusal: The error of the first decider that refused the answer, None if none did.
        error: Set if a decider raised; the run then fails closed.
        exception: What it raised, for the result's ``raw``.
        was_cut: Whether it was cut off because the run was out of time.
    """

    word: str = "accept"
    reason: str = ""
    why: str = ""
    feedback: str = ""
    refusal: AgentError | None = None
    error: AgentError | None = None
    exception: Exception | None = None
    was_cut: bool = False

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def add(self, decision: FinalizeDecision, by: str = "") -> None:
        """Add the decision of the decider *by*."""
        rank = ("accept", "keep_partial", "revise", "discard", "refuse")
        if decision.verdict == "refuse":
            self.refusal = self.refusal or refusal_error(by, "answer", decision.reason)
        if rank.index(decision.verdict) > rank.index(self.word):
            self.word, self.why = decision.verdict, decision.reason
        elif decision.verdict == self.word:
            self.why = self.why or decision.reason
        self.reason = self.reason or decision.reason
        if decision.verdict == "revise":
            self.feedback = "\n".join(filter(None, (self.feedback, decision.feedback)))
        self.state.update(decision.state)


def verdict_of(decisions: Iterable[Decided]) -> Verdict:
    """Return the combined verdict of the logged decisions about an attempt."""
    verdict = Verdict()
    for one in decisions:
        if not one.stage:
            verdict.add(one.decision, one.decider)
    return verdict


# The verdict without deciders; never added to.
ACCEPTED = Verdict()


async def notify_observers(context: RunContext, name: str, *facts: object) -> None:
    """Call ``name(info, *facts)`` on every observer that has it; an exception is a warning."""
    for observer in () if stand_ins.get() else context.plan.observers:
        found = method(observer, name)
        if found is None:
            continue
        own = map(own_copy, (context.info, *facts))
        try:
            await call(found, *own, wait=context.supervisor.wait)
        except Exception as error:
            # An observer never changes the outcome of a run.
            _warn(context, "observer_failed", f"{type(observer).__name__}.{name}", error)


async def before_model(
    context: RunContext, request: ModelRequest, *, info: RunInfo | None = None
) -> ModelRequest:
    """Return the request after every decider of this run and its parents has seen it.

    A decider that several of these runs have is asked once, as part of the outermost run.

    Args:
        context: The run.
        request: The request to send.
        info: The child run that wants to send it; None for this run itself.

    Raises:
        Failed: A decider raised, or returned something else than a request.
    """
    asks, busy, outer = info or context.info, _busy_deciders.get(), context.parent
    outside = () if outer is None else _deciders_of(outer)
    for decider in context.plan.deciders:
        asked = method(decider, "before_model")
        if asked is None or _is_among(decider, busy) or _is_among(decider, outside):
            continue
        token = _busy_deciders.set((*busy, decider))
        try:
            changed = await call(asked, asks, request)
            if not isinstance(changed, ModelRequest | None):
                raise TypeError(f"it returned {_type_name(changed)}, not a ModelRequest")
        except Exception as error:
            # Fail closed: nothing is sent that a broken decider has not approved.
            failed = Failed(decider_error(context, f"{type(decider).__name__}.before_model", error))
            # Keep only the decider's own frames, as before_finalize does.
            forget_way(error, __file__, call.__code__.co_filename)
            failed.raised = error
            raise failed from error
        finally:
            _busy_deciders.reset(token)
        request = changed or request
    # The outermost run decides last about what is sent.
    return (
        request
        if outer is None or not outside
        else await _ask_parent(context, outer, asks, request)
    )


async def _ask_parent(
    context: RunContext, outer: ParentLink, info: RunInfo, request: ModelRequest
) -> ModelRequest:
    """Ask the deciders of the parent run, in its own event loop.

    Raises:
        Failed: A decider raised or returned something else, or that loop has ended or is blocked.
    """
    if outer.is_near:
        return await before_model(outer.context, request, info=info)
    try:
        return await call(
            ask_elsewhere, outer.loop, lambda: before_model(outer.context, request, info=info)
        )
    except RuntimeError as error:
        # Nothing is sent that they have not seen.
        raise Failed(decider_error(context, "the parent run", error)) from error


async def before_finalize(context: RunContext, request: Request, result: AnyResult) -> Verdict:
    """Ask every decider. If one raises, the verdict is an error."""
    verdict = Verdict()
    for decider in context.plan.deciders:
        asked = method(decider, "before_finalize")
        if asked is None:
            continue
        name = name_of_decider(decider)
        try:
            own = map(own_copy, (context.info, request, result))
            decision = await call(asked, *own, wait=context.supervisor.wait)
            if decision is None:
                continue
            if not isinstance(decision, FinalizeDecision):
                raise TypeError(f"it returned {_type_name(decision)}, not a FinalizeDecision")
            if decision.state:
                facts = cast("JsonObject", to_free_json(decision.state)[0])
                decision = msgspec.structs.replace(decision, state=facts)
        except Exception as error:
            # Fail closed: nothing is committed after a broken decider.
            verdict.error = decider_error(context, f"{name}.before_finalize", error)
            # Our frames refer to the run, which keeps the verdict; break the cycle.
            forget_way(error, __file__, call.__code__.co_filename)
            verdict.exception = error
            verdict.was_cut = isinstance(error, TimeoutError)
            return verdict
        verdict.add(decision, name)
        context.recorder.emit(Decided(decider=name, decision=decision))
    return verdict


async def commit(context: RunContext, request: Request, result: AnyResult) -> str:
    """Call all committers, also after one has raised.

    Returns:
        Why the run is not committed, "" if it is.
    """
    reason = ""
    # Committers store a result that says committed, unless one of them raises.
    result = msgspec.structs.replace(result, committed=True)
    for committer in () if stand_ins.get() else context.plan.committers:
        name = getattr(committer, "__name__", type(committer).__name__)
        try:
            own = map(own_copy, (context.info, request, result))
            await call(committer, *own, wait=context.supervisor.wait)
        except Exception as error:
            # The answer is valid, only storing it failed: report that.
            _warn(context, ErrorCode.HOOK_FAILED, f"committer {name}", error)
            reason = reason or f"committer {name} raised {kind_of(error)}"
    return reason


def name_of_decider(decider: object) -> str:
    """Return the ``name`` of a decider, or the name of its class."""
    name = attribute(decider, "name")
    return name if isinstance(name, str) and name else type(decider).__name__


def refusal_error(name: str, what: Literal["request", "answer"], reason: str) -> AgentError:
    """Return the error of a run whose request or answer the guardrail *name* refused."""
    return AgentError(
        ErrorCode.POLICY_DENIED,
        f"{name} refused the {what}: {reason}",
        origin=Origin.DECIDER,
        details={"guardrail": name, "refused": what, "reason": reason},
    )


def own_copy(fact: object) -> object:
    """Return a copy of *fact* for one hook, so that changing its JSON affects no one else."""
    match fact:
        case RunInfo() if fact.attributes:
            return msgspec.structs.replace(fact, attributes=deepcopy(fact.attributes))
        case Request() if fact.inputs or fact.metadata:
            inputs, metadata = deepcopy((fact.inputs, fact.metadata))
            return msgspec.structs.replace(fact, inputs=inputs, metadata=metadata)
        case AgentResult():
            state, metadata = deepcopy((fact.state, fact.metadata))
            return msgspec.structs.replace(
                cast("AgentResult[Any]", fact), state=state, metadata=metadata
            )
        case _:
            return fact


def decider_error(context: RunContext, who: str, error: Exception) -> AgentError:
    """Return the error of a run in which a decider raised."""
    blame(error, who, context.info.run_id)
    return AgentError(
        ErrorCode.HOOK_FAILED,
        raised(who, error),
        type=kind_of(error),
        origin=Origin.DECIDER,
        details=trail_of(error),
    )


def _warn(context: RunContext, code: str, who: str, error: Exception) -> None:
    warning = RunWarning(code=code, message=raised(who, error), origin=Origin.OBSERVER)
    context.recorder.warn(warning)
    redaction = context.redaction
    shown = warning if redaction is None else redaction.show(warning)
    logger.warning("run %s: %s", context.info.run_id, shown.message)


def _deciders_of(link: ParentLink | None) -> tuple[object, ...]:
    """Return all deciders of a run and its parents."""
    found: list[object] = []
    while link is not None:
        found += link.context.plan.deciders
        link = link.context.parent
    return tuple(found)


def _is_among(decider: object, deciders: Iterable[object]) -> bool:
    """Whether *decider* is one of them by identity; an equal object is another decider."""
    return any(decider is one for one in deciders)


def _type_name(given: object) -> str:
    return type(given).__name__


def wants_revision(verdict: Verdict, result: AgentResult[Any]) -> bool:
    """Whether the attempt must be revised; only a completed one can be.

    Args:
        verdict: The verdict of the deciders.
        result: The result of the attempt.
    """
    wanted = verdict.word == "revise" and verdict.error is None
    return wanted and result.status is Status.COMPLETED


def note_verdict(
    state: JsonObject, verdict: Verdict, result: AgentResult[Any], *, is_last: bool
) -> None:
    """Write the verdict into *state*. The reason is that of the last attempt."""
    state.pop("finalize_reason", None)
    reason = verdict.reason
    if result.handoff is not None and result.success and not (reason and _rejects(verdict)):
        reason = f"{HANDOFF_FINALIZE_REASON}{result.handoff.to_agent_id}"
    if reason:
        state["finalize_reason"] = reason
    state.update(verdict.state)
    if verdict.word == "revise" and result.success and is_last:
        state["revise_exhausted"] = True


def with_verdict(
    result: AgentResult[Any], verdict: Verdict, state: JsonObject, *, stopped: Ending | None
) -> AgentResult[Any]:
    """Return *result* with the verdict applied. If a decider raised, it fails but keeps its answer.

    Args:
        result: The result of the attempt.
        verdict: The verdict of the deciders.
        state: Their facts.
        stopped: How the run was stopped while it waited for a decider, None if it was not.
    """
    status, error = Status.FAILED, verdict.error
    if verdict.word == "refuse" and error is None and result.success:
        error = verdict.refusal
    if verdict.was_cut and stopped is not None:
        # The stop ended the run, not the decider that was running when it came.
        if not result.success:
            error = None
        else:
            status, error = stopped.status, stopped.error or error
    if error is not None:
        local = {} if result.local is None else result.local.values
        if verdict.exception is not None:
            local = {**local, "raw": verdict.exception}
        result = msgspec.structs.replace(result, status=status, error=error, local=Local.of(local))
    result = without_refused(result, verdict)
    return msgspec.structs.replace(result, state=dict(state)) if state != result.state else result


def without_refused(result: AgentResult[Any], verdict: Verdict) -> AgentResult[Any]:
    """Return *result* without its answer if a decider refused it."""
    if verdict.word != "refuse":
        return result
    return msgspec.structs.replace(result, content=None, output=None)


def _rejects(verdict: Verdict) -> bool:
    return verdict.word in ("discard", "refuse", "revise")
