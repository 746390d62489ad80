"""Places inside a JSON value: read, and changed in a copy."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from ..contract import Json, JsonObject
from ..contract.free_json import MAX_DEPTH
from .annotation import copy_json

__all__ = ["ABSENT", "Absent", "Place", "above", "changed", "floats_in", "found_at", "is_too_deep"]

# The steps from the root: names of properties, and places in arrays.
Place: TypeAlias = tuple[str | int, ...]


class Absent:
    """The new value of what shall be left out."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


def found_at(value: Json, place: Sequence[str | int]) -> Json | Absent:
    """What *value* holds at *place*, ``ABSENT`` where there is no such place."""
    for step in place:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[str(step)]
        else:
            return ABSENT
    return value


def changed(value: Json, changes: Iterable[tuple[Place, Json | Absent]]) -> Json:
    """A copy of *value* with what *changes* says at its places; the later ones win.

    Args:
        value: Any JSON; it shares no container with the copy.
        changes: Places with their new values. The last step may be new to its object; a place
            that cannot be reached is passed over.
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
    """Which of *known* is *place* itself or stands above it; the nearest to the root."""
    steps = tuple(place)
    return next((steps[:end] for end in range(len(steps) + 1) if steps[:end] in known), None)


def floats_in(value: Json, place: Place = ()) -> Iterator[tuple[Place, float]]:
    """Every float in *value*, with its place."""
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
    # Most texts have fewer brackets than that, and then nobody has to look.
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
