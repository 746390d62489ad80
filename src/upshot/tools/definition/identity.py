"""The identity of an effect: which arguments make two calls the same effect."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.effects import EffectClaim
from upshot.errors import Misuse

if TYPE_CHECKING:
    from upshot.tools.definition.tool import Tool

Once: TypeAlias = str | tuple[str, ...] | Callable[[JsonObject], str | None]
"""The identity of an effect: arguments by name, or a pure function of all arguments."""

Scope: TypeAlias = Literal["journal", "tenant", "conversation", "run"]
"""Where an effect happens only once."""

OnRepeat: TypeAlias = Literal["repeat", "deny"]
OnUnknown: TypeAlias = Literal["tell", "ask", "stop"]

SCOPES: tuple[str, ...] = get_args(Scope)
ON_REPEAT: tuple[str, ...] = get_args(OnRepeat)
ON_UNKNOWN: tuple[str, ...] = get_args(OnUnknown)

# Longer texts are stored as a digest.
_MOST_CHARS = 120


def read_names(tool_name: str, option: str, given: object) -> tuple[str, ...]:
    """Return the argument names that a tool's option gives.

    Raises:
        Misuse: They are not names.
    """
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, tuple | list) or not all(
        isinstance(name, str) for name in cast("tuple[object, ...]", names)
    ):
        raise Misuse(
            f"tool {tool_name!r}: {option} is {given!r:.60}: give the name of an argument, a tuple "
            "of names" + (", or a function of the arguments" if option == "once" else "")
        )
    return tuple(cast("tuple[str, ...]", names))


def check_identity(tool: Tool) -> None:
    """Check the options that concern a tool's identity.

    Raises:
        Misuse: The tool only reads, a named argument does not exist, or an option needs
            ``once``.
    """
    if tool.once is None:
        for option in ("effect_name", "may_differ", "keep"):
            if getattr(tool, option):
                raise Misuse(f"tool {tool.name!r}: {option}= is only for a tool with once=")
        return
    if not tool.may_write:
        raise Misuse(
            f"tool {tool.name!r}: once= is only for tools that write, but its effect is read"
        )
    known = cast("Mapping[str, object]", tool.parameters.get("properties", {}))
    named = () if callable(tool.once) else tool.once
    for name in (*named, *tool.may_differ):
        if name not in known:
            have = ", ".join(known) or "none"
            raise Misuse(f"tool {tool.name!r}: it has no argument {name!r}: it has {have}")
    if not callable(tool.once) and not tool.once:
        raise Misuse(f"tool {tool.name!r}: once is empty: name an argument")


def claim_of(
    tool: Tool, arguments: JsonObject, whose: RunInfo, secrets: Secrets | None, scope: Scope
) -> EffectClaim | None:
    """Return the identity of a call's effect, or None if it has none.

    Args:
        tool: The tool.
        arguments: The arguments of the call, valid and with defaults.
        whose: The run that makes the call.
        secrets: Masked in the readable key; None without secrets.
        scope: Where the key is unique.

    Raises:
        Exception: Whatever the tool's own function of the arguments raises.
    """
    if tool.once is None:
        return None
    named: tuple[str, ...] = ()
    if callable(tool.once):
        given: object = tool.once(arguments)
        if given is None:
            return None
        if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # tools may be untyped
            raise TypeError(
                f"once of {tool.name} returned {given!r:.60}; it must return a text or None"
            )
        key = given
    else:
        named = cast("tuple[str, ...]", tool.once)
        key = canonical_json({name: arguments.get(name) for name in named}).decode()
    rest: dict[str, Json] = {
        name: value
        for name, value in arguments.items()
        if name not in named and name not in tool.may_differ
    }
    name, where = tool.effect_name or tool.name, _scope_of(scope, whose)
    identity = canonical_json([where, name, key])
    others = canonical_json(rest).decode() if rest and not callable(tool.once) else ""
    if len(others) > _MOST_CHARS:
        others = f"sha256:{hashlib.sha256(others.encode()).hexdigest()[:16]}"
    shown, others = (key, others) if secrets is None else secrets.mask((key, others))
    return EffectClaim(
        id=hashlib.sha256(identity).hexdigest()[:32],
        name=name,
        tool=tool.name if tool.effect_name else "",
        key=shown,
        scope=where,
        others=others,
        keep_s=None if tool.keep is None else tool.keep.total_seconds(),
    )


def _scope_of(scope: Scope, whose: RunInfo) -> str:
    match scope:
        case "journal":
            return ""
        case "tenant":
            return f"tenant {whose.attributes.get('tenant', '')}"
        case "conversation" if whose.context_id:
            return f"conversation {whose.context_id}"
        case _:
            return f"run {whose.run_id}"


def is_span(value: object) -> bool:
    """Whether *value* is a timedelta above zero."""
    return isinstance(value, timedelta) and value > timedelta(0)
