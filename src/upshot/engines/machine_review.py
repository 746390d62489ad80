"""Review: what is wrong with the ways between states, found without going them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .machine_document import Scalar, Table
from .machine_fault import Mark, nearest
from .machine_state import State
from .machine_table import TableReader

__all__ = ["find_initial", "review"]


def find_initial(states: Mapping[str, State], table: Table, reader: TableReader) -> str:
    """The name of the first state, "" where it is not plain."""
    firsts: list[tuple[str, Mark]] = []
    for name, piece in table.items.items():
        kind = piece.items.get("type") if isinstance(piece, Table) else None
        if isinstance(kind, Scalar) and kind.text == "initial":
            firsts.append((name, kind.mark))
    if not firsts and states:
        wanted = "one state with type: initial"
        reader.tell(table.mark, "states without an initial one", wanted, kind="no_initial")
    for _, mark in firsts[1:]:
        wanted = f"one initial state; {firsts[0][0]!r} is one"
        reader.tell(mark, "another initial state", wanted, kind="two_initial")
    return firsts[0][0] if firsts else ""


def review(states: Mapping[str, State], table: Table, initial: str, reader: TableReader) -> None:
    """Tell of ways that lead nowhere, states that no way leads to, and ways that are never taken.

    What only a hook could mend is a warning: where a hook leads is not known here.
    """
    for name, state in states.items():
        piece = table.items[name]
        if not isinstance(piece, Table):
            continue
        _check_targets(state, piece, states, reader)
        _check_order(state, reader)
        if not state.is_final and "transitions" not in piece.items:
            reader.warn(
                table.marks[name],
                f"the state {name!r}, which is not final, without transitions",
                "transitions; or [] where a hook says what comes next",
                kind="dead_end",
            )
    if initial:
        for name in _unreachable(states, initial):
            wanted = f"a way to it from {initial!r}, or a hook that names it"
            found = f"the state {name!r}, which nothing leads to"
            reader.warn(table.marks[name], found, wanted, kind="unreachable")
    if states and not any(state.is_final for state in states.values()):
        reader.warn(
            table.mark, "states without a final one", "one with type: final", kind="no_final"
        )


def _check_targets(
    state: State, piece: Table, states: Mapping[str, State], reader: TableReader
) -> None:
    ways = [(transition.to, transition.mark) for transition in state.transitions]
    routes = piece.items.get("on_error")
    if routes is not None:
        marks = (
            {code: inner.mark for code, inner in routes.items.items()}
            if isinstance(routes, Table)
            else {}
        )
        for code, to in state.on_error.items():
            ways.append((to, marks.get(code or "default", routes.mark)))
    for to, mark in ways:
        if to and to not in states:
            wanted = nearest(to, states, "the name of a state")
            reader.tell(mark, f"the state {to!r}", wanted, kind="unknown_state")


def _check_order(state: State, reader: TableReader) -> None:
    for place, transition in enumerate(state.transitions[:-1]):
        if transition.when is None and not transition.is_broken:
            after = state.transitions[place + 1]
            wanted = "the transition without a condition at the end"
            found = f"a transition to {after.to!r} that is never tried"
            reader.warn(after.mark, found, wanted, kind="never_tried")
            return


def _unreachable(states: Mapping[str, State], initial: str) -> Iterator[str]:
    seen, left = {initial}, [initial]
    while left:
        for target in states[left.pop()].targets():
            if target in states and target not in seen:
                seen.add(target)
                left.append(target)
    return (name for name in states if name not in seen)
