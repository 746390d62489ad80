"""What a run and its child runs did outside, read from their states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from upshot.contract.base.enums import Effect, worst_effect
from upshot.contract.events import ToolStarted
from upshot.contract.result import ChildRun, RunEffect
from upshot.state.child_runs import Spent, child_id, origins_of
from upshot.state.run_state import RunState

# Module constant: in Python 3.11, looking a member up on its enum class is slow.
_NONE, _UNKNOWN = Effect.NONE, Effect.UNKNOWN
_NONE_FOUND: Mapping[str, Spent] = {}


def effects_in(
    state: RunState,
    run_id: str,
    *,
    is_over: bool,
    found: Mapping[str, Spent] = _NONE_FOUND,
) -> tuple[RunEffect, ...]:
    """Return each call that changed something outside, or may have.

    Steps count only if they failed: the nodes of a graph declare writes by default.

    Args:
        state: The state of the run.
        run_id: The run.
        is_over: Whether nothing in it continues, so that a write without an outcome is unknown.
        found: What the logs of interrupted child runs say, by run id.
    """
    if not (state.records or state.children or state.steps_settled or (is_over and state.begun)):
        return ()
    inside = {**state.children, **found}
    own = _own_effects(state, run_id, is_over=is_over)
    return (*own, *_effects_inside(inside, run_id))


def _own_effects(state: RunState, run_id: str, *, is_over: bool) -> Iterator[RunEffect]:
    for record in state.records:
        if (effect := record.effect) is not _NONE:
            yield RunEffect(
                tool=record.tool_name,
                state=effect,
                run_id=record.run_id or run_id,
                call_id=record.call_id,
                step=record.step,
                key=record.effect_id or None,
            )
    for start in state.begun.values() if is_over else ():
        if start.effect is not Effect.READ:
            yield RunEffect(
                tool=start.call.name,
                state=Effect.UNKNOWN,
                run_id=run_id,
                call_id=start.call.id,
                step=start.step,
                key=None if start.claim is None else start.claim.id,
            )
    for step in state.steps_settled.values():
        if step.effect is Effect.UNKNOWN:
            yield RunEffect(state=Effect.UNKNOWN, run_id=run_id, step=step.key)


def _effects_inside(inside: Mapping[str, Spent | None], run_id: str) -> Iterator[RunEffect]:
    for spent in inside.values():
        for one in () if spent is None else spent.effects:
            yield replace(one, path=(run_id, *one.path))


def effect_in(state: RunState) -> Effect:
    """Return the worst effect of a run and its child runs so far."""
    effects = effects_in(state, "", is_over=state.ended)
    return worst_effect(one.state for one in effects)


def child_runs_in(state: RunState) -> tuple[ChildRun, ...]:
    """Return the child runs in the order they started, with what their logs say."""
    return tuple(
        ChildRun(run_id=one)
        if spent is None
        else ChildRun(
            run_id=one,
            tools=tuple(spent.tools),
            effect=worst_effect(one.state for one in spent.effects),
        )
        for one, spent in state.children.items()
    )


def effect_of_child(state: RunState, run_id: str, key: str) -> Effect | None:
    """Return the worst effect of the child run with *key*: None if it never started, unknown if it
    may have ended unseen.

    Args:
        state: The state of the parent run.
        run_id: The parent run.
        key: The key of the child run.
    """
    child = _child_with(state, run_id, key)
    if not child:
        return None
    spent = state.children[child] or state.children_found.get(child)
    return _UNKNOWN if spent is None else worst_effect(one.state for one in spent.effects)


def awaited_by(state: RunState, run_id: str, start: ToolStarted) -> str:
    """Return what a call waits for: the child run that it started, or answers; "" for nothing.

    Args:
        state: The state of the parent run.
        run_id: The parent run.
        start: The start of the call, which has no outcome.
    """
    if state.saved.get(start.idempotency_key) is not None:
        return "answers"
    child = _child_with(state, run_id, start.idempotency_key)
    spent = state.children.get(child)
    return child if spent is not None and spent.pending else ""


def _child_with(state: RunState, run_id: str, key: str) -> str:
    """Return the child run with *key*, "" if it never started."""
    origins = [] if state.started is None else origins_of(state.started.options)
    ids = (child_id(parent, key) for parent in (run_id, *origins))
    return next((child for child in ids if child in state.children), "")
