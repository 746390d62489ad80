"""The faults that a schema finds in a value, and JSON paths."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from upshot.contract.base.checks import nearest
from upshot.contract.base.json_values import (
    MAX_DEPTH,
    UnserializableError,
    pointer_step,
    to_free_json,
)
from upshot.contract.base.structs import Json, JsonObject
from upshot.tools.definition.annotations import copy_json

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError


# The steps from the root: property names and array indexes.
Place: TypeAlias = tuple[str | int, ...]


class Absent:
    """The new value of something that is removed."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


def found_at(value: Json, place: Sequence[str | int]) -> Json | Absent:
    """Return the value at *place* in *value*, or ``ABSENT`` if that does not exist."""
    for step in place:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[str(step)]
        else:
            return ABSENT
    return value


def changed(value: Json, changes: Iterable[tuple[Place, Json | Absent]]) -> Json:
    """Return a copy of *value* with *changes* applied; later ones win.

    Args:
        value: Any JSON; it shares no container with the copy.
        changes: Places with their new values. The last step may be new to its object; a place
            that cannot be reached is skipped.
    """
    root: list[Json] = [copy_json(value)]
    for place, new in changes:
        *way, last = (0, *place)
        holder = found_at(cast("Json", root), way)
        if isinstance(holder, list) and not isinstance(new, Absent):
            holder[int(last)] = new
        elif isinstance(holder, dict):
            _set(holder, str(last), new)
    return root[0]


def above(place: Sequence[str | int], known: Container[Place]) -> Place | None:
    """Return which of *known* is *place* itself or an ancestor of it, nearest to the root."""
    steps = tuple(place)
    return next((steps[:end] for end in range(len(steps) + 1) if steps[:end] in known), None)


def floats_in(value: Json, place: Place = ()) -> Iterator[tuple[Place, float]]:
    """Yield every float in *value*, with its place."""
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, float | dict | list):
                yield from floats_in(item, (*place, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, float | dict | list):
                yield from floats_in(item, (*place, index))


def is_too_deep(text: str, value: object) -> bool:
    """Whether *value*, read from *text*, is nested deeper than ``MAX_DEPTH``."""
    # Most texts have fewer brackets than that and need no closer look.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _children(one)]
        if not level:
            return False
    return True


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("JsonObject", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _set(holder: JsonObject, name: str, new: Json | Absent) -> None:
    if isinstance(new, Absent):
        holder.pop(name, None)
    else:
        holder[name] = new


_MAX_FAULTS = 20
_MAX_CHARS = 300
_MAX_STEP_CHARS = 80
_MAX_CHOICES = 12
_MAX_CHOICE_CHARS = 60
_MAX_TOTAL_CHARS = 4_000


def describe_faults(
    faults: Sequence[ValidationError], known: Sequence[str] = (), value: Json = None
) -> str:
    """Describe all *faults* with their paths, in one line of limited length.

    Args:
        faults: The faults that the validator found.
        known: Names of the properties at the root, to suggest one for a misspelt name.
        value: The validated value; used to name the keys of an object that allows none.
    """
    return join_faults(text for fault in faults for text in _describe(fault, known, value))


def join_faults(texts: Iterable[str]) -> str:
    """Join the first of *texts*, and say how many more there are."""
    parts: list[str] = []
    rest = size = 0
    for text in texts:
        if len(parts) < _MAX_FAULTS and size + len(text) <= _MAX_TOTAL_CHARS:
            parts.append(text)
            size += len(text)
        else:
            rest += 1
    return "; ".join([*parts, f"and {rest} more"] if rest else parts)


def pointer(path: Sequence[str | int]) -> str:
    """Return *path* as a JSON pointer; the root is "/", for readers."""
    return "/" + "/".join(pointer_step(str(step)) for step in path)


def wanted_types(fault: ValidationError) -> list[str]:
    """Return the types that are valid at the place of *fault*, from all branches of a union."""
    kind: Any = fault.kind
    if kind.name == "type":
        return list(kind.types)
    types: list[str] = []
    for branch in union_branches(fault):
        for inner in branch:
            if inner.instance_path == fault.instance_path:
                types += wanted_types(inner)
    return list(dict.fromkeys(types))


def union_branches(fault: ValidationError) -> Sequence[Sequence[ValidationError]]:
    """Return the faults of each branch of a union; nothing if *fault* is not from a union."""
    kind: Any = fault.kind
    return getattr(kind, "context", ()) if kind.name in ("anyOf", "oneOf") else ()


def format_json(value: object) -> str:
    """Return *value* as JSON of limited length, as the model wrote it."""
    try:
        text = msgspec.json.encode(to_free_json(value)[0]).decode()
    except (UnserializableError, ValueError, TypeError):
        text = str(value)
    return cut_text(text)


def cut_text(text: str, most: int = _MAX_CHARS) -> str:
    """Return *text*, cut to *most* characters with three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def describe_choices(choices: Sequence[object]) -> str:
    """Return the first of *choices* as JSON, and how many more there are."""
    listed = [cut_text(format_json(choice), _MAX_CHOICE_CHARS) for choice in choices[:_MAX_CHOICES]]
    more = len(choices) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


def _place(path: Sequence[str | int]) -> str:
    # A key may be as long as a model likes.
    return pointer(
        [cut_text(step, _MAX_STEP_CHARS) if isinstance(step, str) else step for step in path]
    )


def _describe(fault: ValidationError, known: Sequence[str], value: Json) -> Iterator[str]:
    path = fault.instance_path
    kind: Any = fault.kind
    match kind.name:
        case "required":
            yield f"{_place([*path, str(kind.property)])}: is required and missing"
        case "additionalProperties" | "unevaluatedProperties":
            names = known if not path else ()
            for place, name in enumerate(cast("list[str]", kind.unexpected)):
                # Similar names take time to find, and no more than these are shown.
                near = _unexpected(name, names if place < _MAX_FAULTS else ())
                yield f"{_place([*path, name])}: {near}"
        case "falseSchema":
            for name in _closed_keys(fault, value):
                yield f"{_place([*path, *name])}: is not expected"
        case "anyOf" | "oneOf":
            yield from _describe_union(fault, value)
        case _:
            yield f"{_place(path)}: {_fault_text(fault)}"


def _closed_keys(fault: ValidationError, value: Json) -> Iterator[tuple[str, ...]]:
    """Yield the keys of an object that allows none; the validator names only the object."""
    if fault.schema_path[-1:] == ["additionalProperties"]:
        held = found_at(value, fault.instance_path)
        if isinstance(held, dict):
            yield from ((name,) for name in held)
            return
    yield ()


def _unexpected(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return "is not expected" + (f"; did you mean {near[0]}?" if near else "")


def _fault_text(fault: ValidationError) -> str:
    """Return what is wrong, without the place."""
    kind: Any = fault.kind
    return _choice(fault.instance, kind.options) if kind.name == "enum" else cut_text(fault.message)


def _choice(given: object, options: Sequence[object]) -> str:
    texts = [option for option in options if isinstance(option, str)]
    near = nearest(given, texts) if isinstance(given, str) else []
    hint = f"; did you mean {cut_text(near[0], _MAX_CHOICE_CHARS)}?" if near else ""
    return f"{cut_text(format_json(given), 100)} is not one of {describe_choices(options)}{hint}"


def _describe_union(fault: ValidationError, value: Json) -> Iterator[str]:
    place = _place(fault.instance_path)
    branches = [
        list(filter(functools.partial(_is_inside, fault), one)) for one in _nested_branches(fault)
    ]
    if len(branches) == 1:
        # Only one branch comes close: its faults have their own paths.
        yield from (text for inner in branches[0] for text in _describe(inner, (), value))
    elif branches:
        described = describe_faults([inner for one in branches for inner in one], (), value)
        yield f"{place}: {described}"
    else:
        yield f"{place}: {_union_text(fault)}"


def _nested_branches(fault: ValidationError) -> list[Sequence[ValidationError]]:
    """Return the branches that have faults inside the value."""
    return [one for one in union_branches(fault) if any(_is_inside(fault, e) for e in one)]


def _is_inside(fault: ValidationError, inner: ValidationError) -> bool:
    deeper = len(inner.instance_path) > len(fault.instance_path)
    return deeper or inner.kind.name == "required"


def _union_text(fault: ValidationError) -> str:
    # The right type with a wrong value says more than the types of the other branches.
    near = [
        _fault_text(inner)
        for branch in union_branches(fault)
        for inner in branch
        if inner.kind.name not in ("type", "anyOf", "oneOf")
        and inner.instance_path == fault.instance_path
    ]
    if near:
        return cut_text(" or ".join(dict.fromkeys(near)), 2 * _MAX_CHARS)
    types = wanted_types(fault)
    if types:
        return f"{cut_text(format_json(fault.instance), 200)} is not of type {' or '.join(types)}"
    return cut_text(fault.message)
