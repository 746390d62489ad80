"""What the log of a run says about its child runs: their ids, their usage, what they wait for."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import Effect, FinishReason, Status
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.events import StepSettled
from upshot.contract.pending import Pending, PendingApproval, PendingEffect, TaintOrigin
from upshot.contract.result import AgentResult, RunEffect
from upshot.contract.usage import Cost, RateLimitState, Usage

FORKED_FROM = "forked_from"
CHAIN_OPTION = "relay"
"""The option of run_started with the chain of handoffs that the run is in."""
TURN_OPTION = "turn"
"""The option of run_started with the run's turn in a conversation."""
_PREFIX = "child:"
_ID_CHARS = 16
_NO_ACTS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Spent(msgspec.Struct, frozen=True):
    """What all sessions of a run used so far, including its child runs.

    Attributes:
        usage: Tokens.
        cost: Cost, None if nothing had a price.
        tools: Started tool calls, by name.
        is_final: Whether the run has ended.
        taint: The untrusted content that it has read, None for none.
        pending: What it waits for, each with the run that asks.
        finish_reason: Why its last model call stopped.
        rate_limit: From its last reply that had one.
        provider_data: From its last model call.
        acts: The writes in it that a policy judged: for each act, the places where it was made.
        effects: Each call in it that changed something outside, or may have.
        unmeasured_answers: The number of replies without usage.
    """

    usage: Usage = Usage()
    cost: Cost | None = None
    tools: dict[str, int] = {}
    is_final: bool = False
    taint: TaintOrigin | None = None
    pending: tuple[Pending, ...] = ()
    finish_reason: FinishReason | None = None
    rate_limit: RateLimitState | None = None
    provider_data: JsonObject = {}
    acts: dict[str, tuple[str, ...]] = {}
    effects: tuple[RunEffect, ...] = ()
    unmeasured_answers: int = 0


def child_id(parent_run_id: str, key: str) -> str:
    """Return the id of the child run with *key*; it is the same in every session."""
    digest = hashlib.sha256(f"{parent_run_id}\n{key}".encode(errors="surrogatepass"))
    return f"run-{digest.hexdigest()[:_ID_CHARS]}"


def origins_of(options: JsonObject) -> list[str]:
    """Return the runs that a run was forked from, oldest first; the options of its start say so."""
    found = options.get(FORKED_FROM)
    items = found if isinstance(found, list) else []
    return [str(item["run_id"]) for item in items if isinstance(item, dict) and "run_id" in item]


def forked_at(options: JsonObject) -> int:
    """Return the seq of the last event that a fork copied, 0 for a run that is no fork."""
    found = options.get(FORKED_FROM)
    last = found[-1] if isinstance(found, list) and found else None
    seq = last.get("seq") if isinstance(last, dict) else None
    return seq if isinstance(seq, int) else 0


def step_of(run_id: str) -> str:
    """Return the step key of a child run in its parent's log."""
    return f"{_PREFIX}{run_id}"


def child_of(step: str) -> str | None:
    """Return the child run of a step; None if it is another kind of step."""
    return step.removeprefix(_PREFIX) if step.startswith(_PREFIX) else None


def settled_step(
    result: AgentResult[Any],
    tools: Mapping[str, int],
    taint: TaintOrigin | None = None,
    acts: Mapping[str, tuple[str, ...]] = _NO_ACTS,
    unmeasured_answers: int = 0,
) -> StepSettled:
    """Return the event for the parent's log about a session that ended with *result*."""
    is_final = result.status is not Status.INPUT_REQUIRED
    pending = pending_in(result.run_id, result.pending)
    spent = Spent(
        result.usage,
        result.cost,
        dict(tools),
        is_final,
        taint,
        pending,
        result.finish_reason,
        result.rate_limit,
        result.provider_data,
        dict(acts),
        result.effects,
        unmeasured_answers,
    )
    return end_step(result.run_id, spent, result.error if is_final else None)


def end_step(run_id: str, spent: Spent, error: AgentError | None) -> StepSettled:
    """Return the event for the parent's log about a session of the run *run_id*."""
    value = msgspec.to_builtins(spent)
    return StepSettled(key=step_of(run_id), effect=Effect.APPLIED, value=value, error=error)


def read_settled_usage(value: Json) -> Spent | None:
    """Read what ``settled_step`` wrote; None if it has another form."""
    try:
        return msgspec.convert(value, Spent)
    except msgspec.ValidationError:
        return None


def pending_in(run_id: str, pending: Iterable[Pending]) -> tuple[Pending, ...]:
    """Return the pending items of the run *run_id* for its parent: each says which run asks."""
    return tuple(one if one.run_id else replace(one, run_id=run_id) for one in pending)


def asked_inside(run_id: str, pending: Pending) -> Pending:
    """Return a pending item of the child run *run_id*, with that run's id in front of its id."""
    return _with_name(pending_in(run_id, [pending])[0], is_shared=True)


def bare_id(pending: Pending) -> str:
    """Return the id that the asking run uses for it."""
    return pending.id.removeprefix(f"{pending.run_id}/")


def unique_pending(pending: Iterable[Pending]) -> tuple[Pending, ...]:
    """Return the run's pending items, deduplicated, each with a unique id.

    If several runs use an id, the run's id is put in front, ``<run_id>/<id>``, except for the outer
    run's own.
    """
    by_id: defaultdict[str, list[Pending]] = defaultdict(list)
    kept = list({(one.run_id, bare_id(one)): one for one in pending}.values())
    for one in kept:
        by_id[bare_id(one)].append(one)
    return tuple(_with_name(one, is_shared=len(by_id[bare_id(one)]) > 1) for one in kept)


def _with_name(pending: Pending, *, is_shared: bool) -> Pending:
    id = bare_id(pending)
    # The id of an effect is unique in the whole journal.
    is_shared = is_shared and not isinstance(pending, PendingEffect)
    name = f"{pending.run_id}/{id}" if is_shared and pending.run_id else id
    if name == pending.id:
        return pending
    if isinstance(pending, PendingApproval):
        return replace(pending, call_id=name)
    return replace(pending, id=name)
