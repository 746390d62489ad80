"""Options: what a caller gives to a Toolbox, looked over before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

import msgspec

from ..contract import Budget, Policy, RunInfo, ToolCall
from ..contract.number import is_amount, is_whole
from ..errors import Misuse
from .workers import Workers

__all__ = ["check_choices", "check_options", "read_calls", "read_list", "settle_policy"]

T = TypeVar("T")

_SCOPES = ("turn", "run", "context")
_KINDS: dict[str, tuple[type, str]] = {
    "budget": (Budget, "a Budget"),
    "policy": (Policy, "a Policy"),
    "identity": (RunInfo, "a RunInfo"),
    "workers": (Workers, "Workers"),
}
_CALLED = ("approve", "on_pre_tool_use", "repair", "emit", "barrier", "offered", "at_start")
# What a thing must be able to do, for protocols are played by anybody's classes.
_ROLES: dict[str, tuple[tuple[str, ...], str]] = {
    "artifacts": (("put", "read"), "an artifact store, such as InMemoryArtifacts()"),
    "journal": (("append", "claim", "durable", "events"), "a journal, such as open_journal(...)"),
    "clock": (("monotonic", "now", "sleep"), "a clock"),
}


def check_options(**options: object) -> None:
    """Find what a Toolbox cannot work with.

    Args:
        **options: By name; None stands for what was not given.

    Raises:
        Misuse: One is of the wrong kind; the message says what to give.
    """
    for name, option in options.items():
        if option is not None and (due := _due(name, option)):
            raise Misuse(f"{name} is {option!r:.60}: give {due}")


def check_choices(
    replay_scope: str, *, parallel: object, secrets: object, deadline: object
) -> None:
    """Find choices that there are not.

    Raises:
        Misuse: One is none; the message says which there are.
    """
    if replay_scope not in _SCOPES:
        raise Misuse(f"replay_scope is {replay_scope!r}: give {', '.join(_SCOPES)}")
    if not isinstance(parallel, bool) and not is_whole(parallel, 1):
        raise Misuse(f"parallel is {parallel!r}: give True, False, or how many at a time")
    if deadline is not None and not is_amount(deadline, above=-math.inf):
        raise Misuse(f"deadline is {deadline!r:.60}: give a moment of the clock, or None")
    if isinstance(secrets, str) or not isinstance(secrets, Iterable):
        raise Misuse("secrets are a list of strings: secrets=[...]")


def settle_policy(policy: Policy | None, *, web_mode: bool) -> Policy | None:
    """The rules, the older switch of the network among them.

    Raises:
        Misuse: The switch is neither True nor False.
    """
    if not isinstance(web_mode, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"web_mode is {web_mode!r}: give True or False")
    if web_mode:
        return policy
    return msgspec.structs.replace(policy or Policy(), network=False)


def read_calls(calls: Iterable[ToolCall], turn: int) -> Iterable[ToolCall]:
    """The calls of a reply.

    Raises:
        Misuse: They are no list, or the label of the turn is no number.
    """
    if isinstance(turn, bool) or not isinstance(turn, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"turn is {turn!r}: give a number")
    return read_list(calls, "calls are", "a list of ToolCalls: dispatch([call])")


def read_list(items: Iterable[T], what: str, due: str) -> Iterable[T]:
    """*items*, where they are some.

    Args:
        items: As given.
        what: They, for the message: "answers are".
        due: What has to be given.

    Raises:
        Misuse: They are one thing, or nothing.
    """
    # A list is the usual case, and this is asked at every reply.
    if isinstance(items, list | tuple):
        return cast("Iterable[T]", items)
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"{what} {items!r:.60}: give {due}")
    return items


def _due(name: str, option: object) -> str:
    """What has to be given in place of *option*, "" where it is right."""
    if name in _KINDS:
        kind, due = _KINDS[name]
        return "" if isinstance(option, kind) else due
    if name in _ROLES:
        deeds, due = _ROLES[name]
        is_right = all(callable(getattr(option, deed, None)) for deed in deeds)
        return "" if is_right and not isinstance(option, type) else due
    if name in _CALLED:
        return "" if callable(option) else "a function"
    if name == "gates":
        is_right = callable(option) or (
            isinstance(option, Iterable) and not isinstance(option, str)
        )
        return "" if is_right else "a list of gates, or a function of the standard ones"
    raise ValueError(f"{name} is no option that is looked over")
