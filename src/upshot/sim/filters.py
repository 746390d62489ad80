"""Filters of the template language: they choose and lay out what is quoted, nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct

__all__ = ["FILTERS", "Filter", "Missing", "Unquotable", "shown"]


class Unquotable(LookupError):
    """A template does not fit the request; the message names the path or filter."""


class Missing(Struct, frozen=True):
    """What a path that leads nowhere gives, so that ``default`` can replace it.

    Attributes:
        message: Which path, and what was found in its place.
    """

    message: str


class Filter(Struct, frozen=True):
    """One filter.

    Attributes:
        function: Takes the value and the arguments; raises Unquotable where the value does not fit.
        usage: Its arguments in words, for messages.
        least: How many arguments it needs.
        most: How many it takes; None is any number.
        types: What every argument must be.
        takes_missing: It is also asked where there is no value.
    """

    function: Callable[..., object]
    usage: str
    least: int = 0
    most: int | None = 0
    types: tuple[type, ...] = (str,)
    takes_missing: bool = False

    def accepts(self, arguments: Sequence[object]) -> bool:
        """Whether it can be called with *arguments*."""
        enough = self.least <= len(arguments) and (self.most is None or len(arguments) <= self.most)
        return enough and all(isinstance(argument, self.types) for argument in arguments)

    def apply(self, value: object, arguments: Sequence[object]) -> object:
        """Filter *value*; a missing one passes unless the filter takes it. Raises Unquotable."""
        # It travels through the filters, so that a default may stand at the end of the pipe.
        if isinstance(value, Missing) and not self.takes_missing:
            return value
        return self.function(value, *arguments)


def shown(value: object) -> str:
    """A value as text: a string as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _items(value: object, filter_name: str) -> list[object]:
    if not isinstance(value, list):
        raise Unquotable(f"the filter {filter_name} wants a list, got {shown(value)[:60]}")
    return cast("list[object]", value)


def _as_object(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _default(value: object, otherwise: object) -> object:
    return otherwise if value is None or isinstance(value, Missing) else value


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _count(value: object) -> int:
    if isinstance(value, (list, Mapping, str)):
        return len(cast("list[object]", value))
    raise Unquotable(f"the filter count wants a list, an object or a text, got {shown(value)[:60]}")


def _first(value: object, number: int = 1) -> object:
    return (
        value[: max(0, number)]
        if isinstance(value, str)
        else _items(value, "first")[: max(0, number)]
    )


def _last(value: object, number: int = 1) -> object:
    sequence = value if isinstance(value, str) else _items(value, "last")
    return sequence[max(0, len(sequence) - max(0, number)) :]


def _join(value: object, separator: str = ", ") -> str:
    return separator.join(shown(item) for item in _items(value, "join"))


def _bullets(value: object) -> str:
    return "\n".join(f"- {shown(item)}" for item in _items(value, "bullets"))


def _each(value: object, name: str) -> list[object]:
    return [_field(item, name) for item in _items(value, "each")]


def _field(item: object, name: str) -> object:
    mapping = _as_object(item)
    if mapping is not None and name in mapping:
        return mapping[name]
    raise Unquotable(f"the filter each wants objects with {name!r}, got {shown(item)[:60]}")


def _table(value: object, *columns: str) -> str:
    rows = _rows(value, columns)
    # A dict keeps the order of first appearance, which a set would lose.
    names = list(columns) if columns else list({name: None for row in rows for name in row})
    if not names:
        return "(no rows)"
    lines = [
        names,
        ["---"] * len(names),
        *([_cell(row.get(name)) for name in names] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows(value: object, columns: Sequence[str]) -> list[Mapping[str, object]]:
    """Read a list, or an object, whose entries become rows of two columns."""
    mapping = _as_object(value)
    if mapping is not None:
        key, content = columns if len(columns) == 2 else ("name", "value")
        return [{key: name, content: item} for name, item in mapping.items()]
    single = columns[0] if columns else "value"
    return [_as_object(item) or {single: item} for item in _items(value, "table")]


def _cell(value: object) -> str:
    # A bar or a line break would end the cell.
    return "" if value is None else shown(value).replace("|", "\\|").replace("\n", " ")


FILTERS: Mapping[str, Filter] = {
    "default": Filter(
        _default, "one value", 1, 1, types=(str, int, float, bool, type(None)), takes_missing=True
    ),
    "json": Filter(_json, "no argument"),
    "count": Filter(_count, "no argument"),
    "first": Filter(_first, "at most one whole number", 0, 1, types=(int,)),
    "last": Filter(_last, "at most one whole number", 0, 1, types=(int,)),
    "join": Filter(_join, "at most one text", 0, 1),
    "each": Filter(_each, "one field name", 1, 1),
    "bullets": Filter(_bullets, "no argument"),
    "table": Filter(_table, "column names", 0, None),
}
"""Every filter by its name in templates."""
