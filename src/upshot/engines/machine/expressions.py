"""The conditions and values of a machine: CEL expressions, and mappings and lists of them.

Each is parsed once. What it reads is known from then on: an evaluation is given only these parts
of the context, so its cost does not grow with the rest, and an unknown name is a fault before
anything runs.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeAlias, cast

from upshot.contract.base.checks import nearest
from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.engines.machine.cel import (
    COUNTER,
    INSTEAD,
    MAX_ITEMS,
    MAX_S,
    RESULT_FIELDS,
    ItemCount,
    Path,
    Tree,
    Variables,
    bound_names,
    fill,
    functions_for,
    guarded,
    is_free,
    only_path,
    paths_of,
    pick,
    position,
    tree_of,
    with_calls,
)
from upshot.engines.machine.document import Mark, expected
from upshot.errors import Misuse, need_of_extra
from upshot.runs.engine_api.exceptions import Failed

# The parser calls itself for each operator, and has no limit of its own.
MAX_EXPRESSION_CHARS = 2_000
_MAX_SAID = 300
_BROKEN = " is broken: "
_TOO_MUCH = f"it goes through more than {MAX_ITEMS} items in all, or computes for over {MAX_S:g} s"

_AT = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")
# Names were looked at before, so what it does not find is a form of the function.
_MISFIT = re.compile(r"Undefined variable or function: '(\w+)'")
# What the parser's generator says, in plain words.
_PARSER_WORDS = (
    (re.compile(r"token recognition error at: '([\"'].*)'"), "a text is not closed"),
    (re.compile(r"token recognition error at: (.*)"), "{} means nothing here"),
    (re.compile(r"extraneous input (.*)"), "{} is too much"),
    (re.compile(r"mismatched input (.*)"), "{} cannot stand here"),
    (re.compile(r"no viable alternative at input (.*)"), "it cannot be read on from {}"),
    (re.compile(r"missing (.*) at (.*)"), "{} is missing before {}"),
)
# As other languages call them.
_MEANT = {
    "count": "size", "includes": "contains", "len": "size", "length": "size",
    "lower": "lowerAscii", "toLowerCase": "lowerAscii", "toUpperCase": "upperAscii",
    "upper": "upperAscii",
}  # fmt: skip
_RAISED = re.compile(
    r"^Function '\w+' error: Python function call failed: \w+: |"
    r" Check function arguments and their types\.$"
)
# fmt: off
_NATIVE = frozenset((
    "all", "bytes", "double", "duration", "dyn", "endsWith", "exists", "exists_one", "filter",
    "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
    "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "has", "int", "map", "matches",
    "size", "startsWith", "string", "timestamp", "type", "uint",
))
# fmt: on
# Types are values, and can be compared with what type() gives.
_TYPES = frozenset(
    ("bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint")
)
# It makes a list of any length out of a number.
_LEFT_OUT = frozenset(("lists.range",))
_LIBRARIES = frozenset(("math", "strings", "sets", "lists", "base64"))


class BadExpression(Exception):
    """A text is not a valid expression, or it reads a name that does not exist.

    Attributes:
        found: What is wrong with it.
        expected: What should stand there.
        line: In the text, from 1.
        column: In the line, from 1.
    """

    def __init__(self, found: str, expected: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"{found}: expected {expected}")
        self.found = found
        self.expected = expected
        self.line = line
        self.column = column


class Expression:
    """One expression, parsed.

    Args:
        source: Its text.
        mark: Where it stands.
        items: Names that it can read besides context, input, output and result.

    Attributes:
        source: Its text.
        mark: Where it stands.

    Raises:
        BadExpression: It cannot be parsed, or reads a name that does not exist.
        Misuse: The extra is not installed.
    """

    __slots__ = ("_functions", "_is_counted", "_path", "_program", "_reads", "mark", "source")

    def __init__(self, source: str, mark: Mark, items: Collection[str] = ()) -> None:
        self.source: str = source
        self.mark: Mark = mark
        if len(source) > MAX_EXPRESSION_CHARS:
            found = f"an expression of {len(source)} characters"
            raise BadExpression(found, f"at most {MAX_EXPRESSION_CHARS}: split it")
        self._program = _parse(source)
        self._functions = _check_functions(self._program, source)
        self._reads = _check_reads(source, items)
        counted = guarded(source)
        self._is_counted = counted != source
        mended = with_calls(counted, INSTEAD)
        if mended != source:
            self._program = _parse(mended)
        path = only_path(source)
        self._path: Path = path if path is not None and path[0] in self._reads else ()

    @property
    def reads_result(self) -> bool:
        """Whether it looks at the whole result, so that it can tell a failure."""
        return "result" in self._reads

    @property
    def reads(self) -> Collection[str]:
        """The names that it reads."""
        return self._reads.keys()

    def reads_of_result(self, name: str) -> bool:
        """Whether it looks at the field *name* of the result, or at the whole of it."""
        tree = self._reads.get("result", {})
        return tree is None or name in tree

    def misfit(self, kinds: type | UnionType) -> str:
        """Why it never gives one of *kinds*, "" where it may.

        Only what reads nothing, goes through no items and calls nothing but what CEL itself has,
        such as ``size``, is evaluated: it always gives the same, at once.
        """
        if self._reads or self._functions or self._is_counted:
            return ""
        try:
            value = self.value(Variables({}))
        except Failed as failure:
            return f"cannot be evaluated ({failure.error.message.partition(_BROKEN)[2]})"
        return "" if isinstance(value, kinds) else f"always gives {_shown(value)}"

    def holds(self, scope: Variables) -> bool:
        """Evaluate a condition.

        Raises:
            Failed: It cannot be evaluated or gives no truth value; code invalid_request.
        """
        value = self._evaluate(scope)
        if not isinstance(value, bool):
            raise self._broken(f"gives {_shown(value)}: a condition gives true or false")
        return value

    def value(self, scope: Variables) -> Json:
        """Evaluate it, to JSON of its own that may be changed.

        Raises:
            Failed: It cannot be evaluated; code invalid_request.
        """
        value = self._evaluate(scope)
        if value is None or isinstance(value, str | int):
            return value
        try:
            return to_free_json(value)[0]
        except UnserializableError as error:
            raise self._broken(str(error)) from error

    def _evaluate(self, scope: Variables) -> Any:
        if self._path:
            # A value that is only handed on keeps its form; CEL knows no integer over 64 bits.
            return self._look_up(scope)
        try:
            return self._execute(pick(scope, self._reads))
        except KeyError as error:
            if "result" in self._reads:
                again = self._with_nulls(scope)
                if again is not None:
                    return again[0]
            raise self._broken(_said(error)) from error
        except Exception as error:
            # The boundary to the library: whatever it raises is what is wrong with the expression.
            raise self._broken(_said(error)) from error

    def _execute(self, names: JsonObject) -> Any:
        if self._is_counted:
            return self._count(names)
        if not self._functions:
            return self._program.execute(names)
        context = _cel().Context(names, self._functions)
        return self._program.execute(context)

    def _count(self, names: JsonObject) -> Any:
        """Evaluate it, and the items that its macros go through are counted.

        Raises:
            OverflowError: There are too many, or it takes too long.
        """
        count = ItemCount()
        context = _cel().Context(names, {**self._functions, COUNTER: count})
        try:
            return self._program.execute(context)
        finally:
            if count.is_spent:
                # In place of what the library says of it, or does not say: "or" takes errors in.
                raise OverflowError(_TOO_MUCH)

    def _with_nulls(self, scope: Variables) -> tuple[Any] | None:
        """Evaluate it with null for what the result does not know; None where that is no help."""
        names = pick(scope, self._reads)
        names["result"] = fill(names["result"], self._reads["result"])
        try:
            return (self._execute(names),)
        except KeyError:
            return None
        except Exception as error:
            # The same edge as above.
            raise self._broken(_said(error)) from error

    def _look_up(self, scope: Variables) -> Any:
        root, *names = self._path
        value: Any = scope[root]
        if not names:
            return dict(value) if root == "result" else value
        for place, name in enumerate(names):
            if type(value) is not dict and not isinstance(value, Mapping):
                before = ".".join(self._path[: place + 1])
                raise self._broken(f"{before} is {_shown(value)}, which has no fields")
            if name not in value:
                if root == "result" and not is_free(tuple(names)):
                    return None
                raise self._broken(f"there is no {'.'.join(self._path[: place + 2])}")
            value = cast("Mapping[str, Any]", value)[name]
        return value

    def _broken(self, why: str) -> Failed:
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


@cache
def _cel() -> Any:
    try:
        # Not an import statement: it is an extra, and loading it takes its time.
        cel = importlib.import_module("cel")
    except ImportError as error:
        raise Misuse(need_of_extra("an expression of a machine", "machine")) from error
    # What it says of functions that fail stands in the error, and not on the terminal too.
    logging.getLogger("cel").addHandler(logging.NullHandler())
    return cel


@cache
def _library() -> Mapping[str, Any]:
    _cel()
    library: Mapping[str, Any] = importlib.import_module("cel.stdlib").STDLIB_FUNCTIONS
    return {name: made for name, made in library.items() if name not in _LEFT_OUT}


@cache
def _short_names() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in _library())


def _parse(source: str) -> Any:
    try:
        return _cel().compile(source)
    except ValueError as error:
        faults = _AT.findall(str(error))
        line, column, said = faults[0] if faults else ("1", "1", str(error))
        raise BadExpression(
            f"the broken expression {source.strip()!r:.120} ({_short(said)})",
            "an expression in CEL, such as context.count < 3",
            int(line),
            int(column),
        ) from error


def _short(said: str) -> str:
    """What the parser says without the list of all that could stand there."""
    short = " ".join(said.partition(" expecting ")[0].split())[:_MAX_SAID]
    if "'<EOF>'" in short:
        return "it ends too soon"
    for form, words in _PARSER_WORDS:
        if found := form.fullmatch(short):
            return words.format(*found.groups())
    return short


def _check_functions(program: Any, source: str) -> Mapping[str, Any]:
    """The functions of the library that it needs."""
    # Operators have names between underscores or after an @.
    named = [name for name in program.functions() if name.isidentifier() and name[0] != "_"]
    native = functions_for(named)
    called = [name for name in named if name not in _NATIVE]
    if not called:
        return native
    known = _short_names()
    for name in called:
        if name not in known:
            wanted = _nearest_function(name, _NATIVE | known)
            line, column = _place_of(source, name)
            raise BadExpression(f"the function {name!r}", wanted, line, column)
    return {**_of_library(called), **native}


def _nearest_function(name: str, known: frozenset[str]) -> str:
    """What is expected instead of the function *name*, also where it has another name elsewhere."""
    meant = nearest(name, _MEANT, cutoff=0.8)
    if meant and _MEANT[meant[0]] in known:
        return f"a function of CEL; did you mean {_MEANT[meant[0]]!r}?"
    return expected(name, sorted(known), "a function of CEL")


def _of_library(called: Collection[str]) -> Mapping[str, Any]:
    library = _library().items()
    return {name: made for name, made in library if name.rpartition(".")[2] in called}


def _check_reads(source: str, items: Collection[str]) -> dict[str, Tree]:
    """What is read of each name; an empty path is all of it."""
    bound = bound_names(source)
    known = ("context", "input", "output", "result", *items)
    reads: dict[str, set[Path]] = {}
    for path, line, column in paths_of(source):
        root, rest = path[0], path[1:]
        if root in known:
            reads.setdefault(root, set()).add(rest)
            if root == "result" and rest:
                _check_result(rest, line, column)
        elif root not in bound and root not in _TYPES and root not in _LIBRARIES:
            wanted = expected(root, known, "a name that is there")
            raise BadExpression(f"the name {root!r}", wanted, line, column)
    return {root: tree_of(paths) for root, paths in reads.items()}


def _check_result(path: Path, line: int, column: int) -> None:
    if path[0] not in RESULT_FIELDS:
        wanted = expected(path[0], RESULT_FIELDS, "a field of the result")
        raise BadExpression(f"result.{path[0]}", wanted, line, column)


def _place_of(source: str, name: str) -> tuple[int, int]:
    found = re.search(rf"\b{re.escape(name)}\b", source)
    return (1, 1) if found is None else position(source, found.start())


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0] if error.args else 'such key'!r}"
    said = " ".join(str(error).split())
    if (misfit := _MISFIT.match(said)) is not None:
        return f"{misfit[1]}() does not take what it is given here"
    said = _RAISED.sub("", said)
    return said.partition(". CEL does not coerce")[0][:_MAX_SAID] or type(error).__name__


def _shown(value: object) -> str:
    names: dict[type, str] = {
        bool: "a truth value",
        str: "a text",
        dict: "a mapping",
        list: "a list",
    }
    if value is None:
        return "null"
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return names.get(type(value), f"the {kind} {value!r:.40}")


@dataclass(frozen=True)
class Constant:
    """A value that is written down: a number, a truth value, null, or ``{text: ...}``."""

    constant: float | str | bool | None

    def value(self, scope: Variables) -> Json:
        """The value."""
        return self.constant


@dataclass(frozen=True)
class Fields:
    """A mapping whose values are formulas."""

    fields: Mapping[str, Formula]

    def value(self, scope: Variables) -> JsonObject:
        """The mapping of their values."""
        return {name: formula.value(scope) for name, formula in self.fields.items()}


@dataclass(frozen=True)
class Items:
    """A list of formulas."""

    items: Sequence[Formula]

    def value(self, scope: Variables) -> Json:
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
