"""The conditions and values of a machine: CEL expressions, and mappings and lists of them.

Each is parsed once, which also shows what it reads. An evaluation gets only these parts of the
context, so its cost does not grow with the rest, and an unknown name is a fault before anything
runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeAlias, cast

from upshot.contract.base.checks import expected
from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.engines.machine.document import Mark
from upshot.engines.machine.variables import (
    RESULT_FIELDS,
    Tree,
    Variables,
    fill,
    is_free,
    only_path,
    pick,
    tree_of,
)
from upshot.runs.engine_api.exceptions import Failed
from upshot.tools.definition.cel import (
    LIBRARIES,
    TYPES,
    BadExpression,
    Path,
    Program,
    bound_names,
    describe_value,
    paths_of,
    plain_message,
)

_BROKEN = " is broken: "


class Expression:
    """One parsed expression.

    Args:
        source: Its text.
        mark: Where it is.
        items: Names that it can read besides context, input, output and result.

    Attributes:
        source: Its text.
        mark: Where it is.

    Raises:
        BadExpression: It cannot be parsed, or reads a name that does not exist.
        Misuse: The extra is not installed.
    """

    __slots__ = ("_path", "_program", "_reads", "mark", "source")

    def __init__(self, source: str, mark: Mark, items: Collection[str] = ()) -> None:
        self.source: str = source
        self.mark: Mark = mark
        self._program = Program(source, "an expression of a machine", "machine")
        self._reads = _check_reads(source, items)
        path = only_path(source)
        self._path: Path = path if path is not None and path[0] in self._reads else ()

    @property
    def reads_result(self) -> bool:
        """Whether it reads the result, so that it can detect a failure."""
        return "result" in self._reads

    @property
    def reads(self) -> Collection[str]:
        """The names that it reads."""
        return self._reads.keys()

    def reads_of_result(self, name: str) -> bool:
        """Whether it reads the field *name* of the result, or the whole result."""
        tree = self._reads.get("result", {})
        return tree is None or name in tree

    def misfit(self, kinds: type | UnionType) -> str:
        """Return why it can never return one of *kinds*, "" if it may.

        It is evaluated only if it is constant and cheap: it reads nothing, loops over nothing, and
        calls only functions of CEL itself, such as ``size``.
        """
        if self._reads or self._program.calls_functions or self._program.is_counted:
            return ""
        try:
            value = self.value(Variables({}))
        except Failed as failure:
            return f"cannot be evaluated ({failure.error.message.partition(_BROKEN)[2]})"
        return "" if isinstance(value, kinds) else f"always gives {describe_value(value)}"

    def holds(self, scope: Variables) -> bool:
        """Evaluate a condition.

        Raises:
            Failed: It cannot be evaluated or returns no truth value; code invalid_request.
        """
        value = self._evaluate(scope)
        if not isinstance(value, bool):
            raise self._broken_error(
                f"gives {describe_value(value)}: a condition gives true or false"
            )
        return value

    def value(self, scope: Variables) -> Json:
        """Evaluate it; returns a JSON value that the caller may change.

        Raises:
            Failed: It cannot be evaluated; code invalid_request.
        """
        value = self._evaluate(scope)
        if value is None or isinstance(value, str | int):
            return value
        try:
            return to_free_json(value)[0]
        except UnserializableError as error:
            raise self._broken_error(str(error)) from error

    def _evaluate(self, scope: Variables) -> Any:
        if self._path:
            # A value that is only passed on keeps its form; CEL has no integers over 64 bits.
            return self._look_up(scope)
        try:
            return self._program.execute(pick(scope, self._reads))
        except KeyError as error:
            if "result" in self._reads:
                again = self._with_nulls(scope)
                if again is not None:
                    return again[0]
            raise self._broken_error(plain_message(error)) from error
        except Exception as error:
            # Boundary to the library: any exception means that the expression is wrong.
            raise self._broken_error(plain_message(error)) from error

    def _with_nulls(self, scope: Variables) -> tuple[Any] | None:
        """Evaluate it with null for missing fields of the result; None if that does not help."""
        names = pick(scope, self._reads)
        names["result"] = fill(names["result"], self._reads["result"])
        try:
            return (self._program.execute(names),)
        except KeyError:
            return None
        except Exception as error:
            # The same boundary.
            raise self._broken_error(plain_message(error)) from error

    def _look_up(self, scope: Variables) -> Any:
        root, *names = self._path
        value: Any = scope[root]
        if not names:
            return dict(value) if root == "result" else value
        for place, name in enumerate(names):
            if type(value) is not dict and not isinstance(value, Mapping):
                before = ".".join(self._path[: place + 1])
                raise self._broken_error(
                    f"{before} is {describe_value(value)}, which has no fields"
                )
            if name not in value:
                if root == "result" and not is_free(tuple(names)):
                    return None
                raise self._broken_error(f"there is no {'.'.join(self._path[: place + 2])}")
            value = cast("Mapping[str, Any]", value)[name]
        return value

    def _broken_error(self, why: str) -> Failed:
        mark = self.mark
        return Failed(
            ErrorCode.INVALID_REQUEST,
            f"{mark}: the expression {self.source.strip()!r:.200}{_BROKEN}{why}",
            details={
                "file": mark.file,
                "line": mark.line,
                "column": mark.column,
                "path": mark.path,
                "expression": self.source,
            },
        )

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def _check_reads(source: str, items: Collection[str]) -> dict[str, Tree]:
    """Return what is read of each name; an empty path means all of it."""
    bound = bound_names(source)
    known = ("context", "input", "output", "result", *items)
    reads: dict[str, set[Path]] = {}
    for path, line, column in paths_of(source):
        root, rest = path[0], path[1:]
        if root in known:
            reads.setdefault(root, set()).add(rest)
            if root == "result" and rest:
                _check_result(rest, line, column)
        elif root not in bound and root not in TYPES and root not in LIBRARIES:
            wanted = expected(root, known, "a known name")
            raise BadExpression(f"the name {root!r}", wanted, line, column)
    return {root: tree_of(paths) for root, paths in reads.items()}


def _check_result(path: Path, line: int, column: int) -> None:
    if path[0] not in RESULT_FIELDS:
        wanted = expected(path[0], RESULT_FIELDS, "a field of the result")
        raise BadExpression(f"result.{path[0]}", wanted, line, column)


@dataclass(frozen=True)
class Constant:
    """A literal value: a number, a truth value, null, or ``{text: ...}``."""

    constant: float | str | bool | None

    def value(self, scope: Variables) -> Json:
        """Return the value."""
        return self.constant


@dataclass(frozen=True)
class Fields:
    """A mapping whose values are formulas."""

    fields: Mapping[str, Formula]

    def value(self, scope: Variables) -> JsonObject:
        """Return the mapping of their values."""
        return {name: formula.value(scope) for name, formula in self.fields.items()}


@dataclass(frozen=True)
class Items:
    """A list of formulas."""

    items: Sequence[Formula]

    def value(self, scope: Variables) -> Json:
        """Return the list of their values."""
        return [formula.value(scope) for formula in self.items]


Formula: TypeAlias = Expression | Constant | Fields | Items


def expressions_of(formula: Formula | None) -> Iterator[Expression]:
    """Return all expressions in *formula*."""
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
