"""Conditions and values in CEL, the Common Expression Language.

``compile_condition`` turns a text into a condition; machines evaluate the same programs.

The library has no cost limit: nested macros multiply and block the whole process while they run.
So the body of each macro is wrapped in a list of one element, and a counting function returns the
index into it. One item too many, or past the time limit, and the index does not exist. Functions
that the library implements wrongly are replaced by ones that follow the language definition.

Source:
    Language definition of the Common Expression Language, "List of Standard Definitions", read on
    2026-11-21: the size of a text is its number of code points, and ``string`` accepts truth
    values.
"""

from __future__ import annotations

import importlib
import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from functools import cache
from typing import Any, NamedTuple, TypeAlias, cast

from upshot.contract.base.checks import expected, kind_of, nearest
from upshot.contract.base.structs import JsonObject
from upshot.errors import Misuse, need_of_extra

# The parser recurses for each operator, and has no limit.
MAX_EXPRESSION_CHARS = 2_000
_MAX_SAID = 300
MAX_ITEMS = 50_000
# For each item the library copies the result of map and filter so far, so time is limited too.
MAX_S = 1.0
# The name of the counting function. No expression can use it, because it is not a known one.
COUNTER = "upshot_count_item"
_TOO_MUCH = f"it goes through more than {MAX_ITEMS} items in all, or computes for over {MAX_S:g} s"

_MARK = re.compile(
    r"//[^\n]*"
    r'|[rR][bB]?(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"[^"\n]*"|\'[^\'\n]*\')'
    r'|"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<macro>\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\()"
    r"|(?P<mark>[()\[\]{},])"
)

_AT = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")
# Names were checked before, so if one is not found, this form of the function does not exist.
_MISFIT = re.compile(r"Undefined variable or function: '(\w+)'")
# Messages of the generated parser, in plain words.
_PARSER_WORDS = (
    (re.compile(r"token recognition error at: '([\"'].*)'"), "a text is not closed"),
    (re.compile(r"token recognition error at: (.*)"), "{} means nothing here"),
    (re.compile(r"extraneous input (.*)"), "{} is too much"),
    (re.compile(r"mismatched input (.*)"), "{} cannot stand here"),
    (re.compile(r"no viable alternative at input (.*)"), "it cannot be read on from {}"),
    (re.compile(r"missing (.*) at (.*)"), "{} is missing before {}"),
)
# Names in other languages.
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
# Types are values that can be compared with the result of type().
TYPES = frozenset(
    ("bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint")
)
# Makes a list of any length from a number.
_LEFT_OUT = frozenset(("lists.range",))
LIBRARIES = frozenset(("math", "strings", "sets", "lists", "base64"))

Path: TypeAlias = tuple[str, ...]
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    r"//[^\n]*|"
    # In a raw text a backslash is a backslash, even before the closing quote.
    r"(?:[rR][bB]?|[bB][rR])(?!\"\"\"|''')(?:\"[^\"\n]*\"|'[^'\n]*')|"
    r'[rRbB]{0,2}(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    rf"|(?P<path>{NAME}(?:\s*\.\s*{NAME})*)(?P<call>\s*\()?"
    r"|[0-9][\w.]*|(?P<other>\S)"
)
_BOUND = re.compile(
    rf"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*({NAME})\s*,(?:\s*({NAME})\s*,)?"
)
# Values and operators, not names.
_WORDS = frozenset(("true", "false", "null", "in"))


class BadExpression(Exception):
    """A text is not a valid expression, or it reads a name that does not exist.

    Attributes:
        found: What is wrong with it.
        expected: What should be there instead.
        line: The line in the text, from 1.
        column: The column in the line, from 1.
    """

    def __init__(self, found: str, expected: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"{found}: expected {expected}")
        self.found = found
        self.expected = expected
        self.line = line
        self.column = column


class Program:
    """One expression, parsed, with its cost limited.

    Args:
        source: The text of the expression.
        needed_by: What needs the library, for the message if it is missing.
        extra: The extra that installs the library.

    Attributes:
        source: The text of the expression.
        is_counted: Whether it iterates over items.

    Raises:
        BadExpression: It cannot be parsed, or calls a function that does not exist.
        Misuse: The extra is not installed.
    """

    __slots__ = ("_functions", "_program", "is_counted", "source")

    def __init__(self, source: str, needed_by: str, extra: str) -> None:
        self.source: str = source
        if len(source) > MAX_EXPRESSION_CHARS:
            found = f"an expression of {len(source)} characters"
            raise BadExpression(found, f"at most {MAX_EXPRESSION_CHARS}: split it")
        _cel(needed_by, extra)
        self._program = _parse(source)
        self._functions = _check_functions(self._program, source)
        counted = guarded(source)
        self.is_counted: bool = counted != source
        mended = with_calls(counted, INSTEAD)
        if mended != source:
            self._program = _parse(mended)

    @property
    def calls_functions(self) -> bool:
        """Whether it calls functions that have to be passed to the library."""
        return bool(self._functions)

    def execute(self, names: JsonObject) -> Any:
        """Evaluate it. Raises what the library raises; ``plain_message`` puts that in words.

        Raises:
            KeyError: A name does not exist.
            OverflowError: It iterates over too many items, or takes too long.
        """
        if self.is_counted:
            return self._count(names)
        if not self._functions:
            return self._program.execute(names)
        return self._program.execute(_cel().Context(names, self._functions))

    def _count(self, names: JsonObject) -> Any:
        count = ItemCount()
        context = _cel().Context(names, {**self._functions, COUNTER: count})
        try:
            return self._program.execute(context)
        finally:
            if count.is_spent:
                # Replaces the library's own error, which "or" may have swallowed.
                raise OverflowError(_TOO_MUCH)


class ConditionError(Exception):
    """A condition cannot be evaluated on the given values, or its result is not a truth value."""


class Condition:
    """A condition in CEL, made by ``compile_condition``.

    Attributes:
        text: The expression.
        reads: The names that it uses.
    """

    __slots__ = ("_program", "reads", "text")

    def __init__(self, text: str, program: Program, reads: frozenset[str]) -> None:
        self.text: str = text
        self.reads: frozenset[str] = reads
        self._program = program

    def holds(self, values: JsonObject) -> bool:
        """Return whether the condition is true of *values*, which map each name to its value.

        Raises:
            ConditionError: A name has no value, types do not match, it costs too much, or the
                result is not true or false.
        """
        names = {name: values[name] for name in self.reads if name in values}
        try:
            value = self._program.execute(names)
        except Exception as error:
            # The boundary to the library: whatever it raises explains why there is no answer.
            raise self._error(plain_message(error)) from error
        if not isinstance(value, bool):
            raise self._error(f"it gives {describe_value(value)}, not true or false")
        return value

    def _error(self, why: str) -> ConditionError:
        return ConditionError(f"the condition {self.text.strip()!r:.200} has no answer: {why}")

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"


def compile_condition(text: str, *, names: Collection[str] | None = None) -> Condition:
    """Parse a condition in CEL, such as ``cents > 5000 && currency == "EUR"``.

    Args:
        text: The expression; it must evaluate to true or false.
        names: The names that it may use; None for any.

    Raises:
        Misuse: It cannot be parsed, calls an unknown function, uses a name that is not in
            *names*, or the extra ``cel`` is not installed.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"a condition must be a string in CEL, got {kind_of(text)}")
    try:
        program = Program(text, "a condition in CEL", "cel")
        reads: set[str] = set()
        for root, line, column in roots_of(text):
            if names is not None and root not in names:
                raise BadExpression(
                    f"the name {root!r}",
                    expected(root, names, "a known name"),
                    line,
                    column,
                )
            reads.add(root)
    except BadExpression as error:
        raise Misuse(f"the condition {text.strip()!r:.200} is broken: {error}") from error
    return Condition(text, program, frozenset(reads))


class ItemCount:
    """Counts the items of one evaluation and its computing time.

    Args:
        clock: Returns seconds; by default the CPU time of this thread.

    Attributes:
        is_spent: Whether a limit was exceeded.
    """

    __slots__ = ("_clock", "_end", "_left", "is_spent")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = MAX_ITEMS
        self._end = clock() + MAX_S
        self.is_spent: bool = False

    def __call__(self) -> int:
        """Count an item: return 0, or 1 once a limit is exceeded."""
        self._left -= 1
        if self._left < 0 or self._clock() > self._end:
            self.is_spent = True
        return int(self.is_spent)


class _Open(NamedTuple):
    """An open bracket: whether it belongs to a macro, and the commas in it so far."""

    is_macro: bool
    commas: int = 0


def guarded(source: str) -> str:
    """Return *source* with its items counted; unchanged if it has no macro.

    Args:
        source: An expression that can be parsed.
    """
    parts: list[str] = []
    done = 0
    for place, text in _insertions(source):
        parts += (source[done:place], text)
        done = place
    return "".join((*parts, source[done:]))


def _insertions(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts to insert with their positions, in order."""
    opened: list[_Open] = []
    for found in _MARK.finditer(source):
        mark = found["mark"]
        if found["macro"] is not None:
            opened.append(_Open(is_macro=True))
        elif mark is None:
            continue
        elif mark in "([{":
            opened.append(_Open(is_macro=False))
        elif opened:
            top = opened.pop()
            # The part after the first comma is evaluated for each item.
            if top.is_macro and top.commas == 1:
                yield found.start(), f"][{COUNTER}()]"
            if mark == ",":
                if top.is_macro and top.commas == 0:
                    yield found.end(), "["
                opened.append(_Open(top.is_macro, top.commas + 1))


INSTEAD: Mapping[str, str] = {"size": "upshot_size"}
"""Replacements for functions that the library has and that cannot be overridden by name.

No expression can use these names, because they are not known functions.
"""


def functions_for(called: Collection[str]) -> Mapping[str, Callable[[Any], Any]]:
    """Return our implementations of the functions *called*, by the name to pass them under."""
    return {
        INSTEAD.get(name, name): _REPLACEMENTS[name] for name in called if name in _REPLACEMENTS
    }


def _size(value: Any) -> int:
    """Replace the library's ``size``, which counts the bytes of a text."""
    if isinstance(value, str | bytes | list | dict):
        return len(cast(Sized, value))
    raise TypeError(f"size() takes a text, a list or a mapping, {_got(value)}")


def _string(value: Any) -> str:
    """Convert a value that the library's ``string`` does not accept; called only for those."""
    if isinstance(value, bool):
        return "true" if value else "false"
    raise TypeError(f"string() takes a number, a text, a truth value or a time, {_got(value)}")


def _got(value: object) -> str:
    return "not null" if value is None else f"not {kind_of(value)}"


_REPLACEMENTS: Mapping[str, Callable[[Any], Any]] = {"size": _size, "string": _string}


def paths_of(source: str) -> Iterator[tuple[Path, int, int]]:
    """Yield the dotted paths in *source* that start with a name, with their positions."""
    before = ""
    for token in _TOKEN.finditer(source):
        found = token["path"]
        if found is not None and before != ".":
            path = tuple(part.strip() for part in found.split("."))
            if token["call"] is not None:
                path = path[:-1]
            if path and path[0] not in _WORDS:
                yield path, *position(source, token.start())
        before = token["other"] or ""


def roots_of(source: str) -> Iterator[tuple[str, int, int]]:
    """Yield the names that *source* uses and does not bind itself, with their positions."""
    bound = bound_names(source)
    for path, line, column in paths_of(source):
        root = path[0]
        if root not in bound and root not in TYPES and root not in LIBRARIES:
            yield root, line, column


def position(source: str, at: int) -> tuple[int, int]:
    """Return line and column of the character *at*, both from 1."""
    line = source.count("\n", 0, at) + 1
    return line, at - (source.rfind("\n", 0, at) + 1) + 1


def with_calls(source: str, names: Mapping[str, str]) -> str:
    """Return *source* with some function names replaced.

    Args:
        source: An expression that can be parsed.
        names: The new name for each old one, by the last part of the old name.
    """
    parts: list[str] = []
    done = 0
    for token in _TOKEN.finditer(source):
        path = token["path"]
        called = re.split(r"[\s.]+", path)[-1] if path and token["call"] else ""
        if called in names:
            end = token.end("path")
            parts += (source[done : end - len(called)], names[called])
            done = end
    return "".join((*parts, source[done:]))


def bound_names(source: str) -> set[str]:
    """Return the names that macros such as ``map`` bind in *source*."""
    return {name for pair in _BOUND.findall(source) for name in pair if name}


@cache
def _cel(needed_by: str = "an expression in CEL", extra: str = "cel") -> Any:
    try:
        # Imported by name: the library is an extra, and slow to load.
        cel = importlib.import_module("cel")
    except ImportError as error:
        raise Misuse(need_of_extra(needed_by, extra)) from error
    # Failures of functions are in the error; they need not appear on the terminal too.
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
        line, column, message = faults[0] if faults else ("1", "1", str(error))
        raise BadExpression(
            f"the broken expression {source.strip()!r:.120} ({_shorten(message)})",
            "an expression in CEL, such as context.count < 3",
            int(line),
            int(column),
        ) from error


def _shorten(message: str) -> str:
    """Return the parser's message without the list of everything that was expected."""
    short = " ".join(message.partition(" expecting ")[0].split())[:_MAX_SAID]
    if "'<EOF>'" in short:
        return "it ends too soon"
    for form, words in _PARSER_WORDS:
        if found := form.fullmatch(short):
            return words.format(*found.groups())
    return short


def _check_functions(program: Any, source: str) -> Mapping[str, Any]:
    """Return the library functions that the program needs."""
    # The names of operators are enclosed in underscores or start with an @.
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
    """Return what to expect in place of the function *name*, which other languages may use."""
    meant = nearest(name, _MEANT, cutoff=0.8)
    if meant and _MEANT[meant[0]] in known:
        return f"a function of CEL; did you mean {_MEANT[meant[0]]!r}?"
    return expected(name, sorted(known), "a function of CEL")


def _of_library(called: Collection[str]) -> Mapping[str, Any]:
    library = _library().items()
    return {name: made for name, made in library if name.rpartition(".")[2] in called}


def _place_of(source: str, name: str) -> tuple[int, int]:
    found = re.search(rf"\b{re.escape(name)}\b", source)
    return (1, 1) if found is None else position(source, found.start())


def plain_message(error: Exception) -> str:
    """Return the library's message about a failed evaluation in plain words."""
    if isinstance(error, KeyError):
        return f"there is no {error.args[0] if error.args else 'such key'!r}"
    message = " ".join(str(error).split())
    if (misfit := _MISFIT.match(message)) is not None:
        return f"{misfit[1]}() does not take what it is given here"
    message = _RAISED.sub("", message)
    return message.partition(". CEL does not coerce")[0][:_MAX_SAID] or type(error).__name__


def describe_value(value: object) -> str:
    """Return the kind of *value* for a message, and a number itself."""
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
