"""Formulas: the values of input, output and output_to_context, made of expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..contract import Json, JsonObject
from .machine_expression import Expression
from .machine_scope import Scope

__all__ = ["Constant", "Fields", "Formula", "Items", "expressions_of"]


@dataclass(frozen=True)
class Constant:
    """A value that is written down: a number, a truth value, null, or ``{text: ...}``."""

    constant: float | str | bool | None

    def value(self, scope: Scope) -> Json:
        """The value."""
        return self.constant


@dataclass(frozen=True)
class Fields:
    """A mapping whose values are formulas."""

    fields: Mapping[str, Formula]

    def value(self, scope: Scope) -> JsonObject:
        """The mapping of their values."""
        return {name: formula.value(scope) for name, formula in self.fields.items()}


@dataclass(frozen=True)
class Items:
    """A list of formulas."""

    items: Sequence[Formula]

    def value(self, scope: Scope) -> Json:
        """The list of their values."""
        return [formula.value(scope) for formula in self.items]


Formula: TypeAlias = Expression | Constant | Fields | Items


def expressions_of(formula: Formula | None) -> Iterator[Expression]:
    """All expressions in *formula*."""
    match formula:
        case Expression():
            yield formula
        case Fields(fields=fields):
            for inner in fields.values():
                yield from expressions_of(inner)
        case Items(items=items):
            for inner in items:
                yield from expressions_of(inner)
        case _:
            return
