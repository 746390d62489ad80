"""What a schema says against a value, in words that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

__all__ = ["describe_faults", "nearest", "pointer", "wanted_types"]

_MAX_FAULTS = 20
_MAX_CHARS = 300


def describe_faults(faults: Sequence[ValidationError], known: Sequence[str] = ()) -> str:
    """All *faults* with their paths, in one line.

    Args:
        faults: What the validator found.
        known: Names of the properties at the root, to tell a misspelt one what is near.
    """
    told: list[str] = []
    for fault in faults[:_MAX_FAULTS]:
        told += _describe(fault, known)
    if len(faults) > _MAX_FAULTS:
        told.append(f"and {len(faults) - _MAX_FAULTS} more")
    return "; ".join(told)


def nearest(word: str, known: Iterable[str], *, count: int = 1) -> list[str]:
    """What of *known* looks like *word*, the nearest first, at most *count*."""
    from difflib import get_close_matches

    return get_close_matches(word, list(known), n=count)


def pointer(path: Sequence[str | int]) -> str:
    """*path* as a JSON pointer; the root is "/" for people's sake."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return "/" + "/".join(steps)


def wanted_types(fault: ValidationError) -> list[str]:
    """The types that would have been right at the place of *fault*, of all branches of a union."""
    kind: Any = fault.kind
    if kind.name == "type":
        return list(kind.types)
    types: list[str] = []
    for branch in getattr(kind, "context", ()):
        for inner in branch:
            if inner.instance_path == fault.instance_path:
                types += wanted_types(inner)
    return list(dict.fromkeys(types))


def _describe(fault: ValidationError, known: Sequence[str]) -> list[str]:
    path = fault.instance_path
    kind: Any = fault.kind
    match kind.name:
        case "required":
            return [f"{pointer([*path, str(kind.property)])}: is required and missing"]
        case "additionalProperties":
            names = known if not path else ()
            unexpected = cast("list[str]", kind.unexpected)
            return [f"{pointer([*path, name])}: {_unexpected(name, names)}" for name in unexpected]
        case "falseSchema":
            return [f"{pointer(path)}: is not expected"]
        case "anyOf" | "oneOf":
            return [f"{pointer(path)}: {_union(fault)}"]
        case _:
            return [f"{pointer(path)}: {_cut(fault.message)}"]


def _unexpected(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return "is not expected" + (f"; did you mean {near[0]}?" if near else "")


def _union(fault: ValidationError) -> str:
    kind: Any = fault.kind
    deeper = [
        inner
        for branch in getattr(kind, "context", ())
        for inner in branch
        if len(inner.instance_path) > len(fault.instance_path) or inner.kind.name == "required"
    ]
    if deeper:
        return describe_faults(deeper)
    # Of the right type and wrong all the same: that says more than the types of the others.
    near = [
        _cut(inner.message)
        for branch in getattr(kind, "context", ())
        for inner in branch
        if inner.kind.name not in ("type", "anyOf", "oneOf")
        and inner.instance_path == fault.instance_path
    ]
    if near:
        return " or ".join(dict.fromkeys(near))
    types = wanted_types(fault)
    if types:
        return f"{_cut(_shown(fault.instance))} is not of type {' or '.join(types)}"
    return _cut(fault.message)


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 3] + "..."
