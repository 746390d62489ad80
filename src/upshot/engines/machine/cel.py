"""CEL itself: the variables that can be read, a cost limit, and built-in functions.

The library has no cost limit: macros inside macros multiply, and hold up the whole process while
they run. So what a macro does for an item is written into a list of one, and a function that
counts is asked for its index. One item too many, or one too late, and there is nothing at that
index. Functions that the library gets wrong are replaced by ones as the language defines them.

Source:
    Language definition of the Common Expression Language, "List of Standard Definitions", read on
    2026-11-21: the size of a text is its number of code points, and ``string`` takes truth values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.result import AgentResult
from upshot.contract.usage import RateLimitState

MAX_ITEMS = 50_000
# The library copies what map and filter have so far for each item, so that time is counted too.
MAX_S = 1.0
# What the function is called; no expression can name it, since it is none of the known ones.
COUNTER = "upshot_count_item"

_MARK = re.compile(
    r"//[^\n]*"
    r'|[rR][bB]?(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"[^"\n]*"|\'[^\'\n]*\')'
    r'|"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<macro>\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\()"
    r"|(?P<mark>[()\[\]{},])"
)


class ItemCount:
    """Counts the items of one evaluation, and the time that it computes.

    Args:
        clock: Gives seconds; by default those that this thread has computed.

    Attributes:
        is_spent: Whether it was more than it may be.
    """

    __slots__ = ("_clock", "_end", "_left", "is_spent")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = MAX_ITEMS
        self._end = clock() + MAX_S
        self.is_spent: bool = False

    def __call__(self) -> int:
        """Count an item: 0, and 1 for one too many."""
        self._left -= 1
        if self._left < 0 or self._clock() > self._end:
            self.is_spent = True
        return int(self.is_spent)


class _Open(NamedTuple):
    """A bracket that is open: whether it is that of a macro, and the commas in it so far."""

    is_macro: bool
    commas: int = 0


def guarded(source: str) -> str:
    """*source* with its items counted; as it is where it has no macro.

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
    """What is written where, in order."""
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
            # After the first comma stands what is done for each item.
            if top.is_macro and top.commas == 1:
                yield found.start(), f"][{COUNTER}()]"
            if mark == ",":
                if top.is_macro and top.commas == 0:
                    yield found.end(), "["
                opened.append(_Open(top.is_macro, top.commas + 1))


INSTEAD: Mapping[str, str] = {"size": "upshot_size"}
"""What is called in place of a function that the library has, and that cannot be replaced by name.

No expression can name them, since they are none of the known ones.
"""


def functions_for(called: Collection[str]) -> Mapping[str, Callable[[Any], Any]]:
    """What an expression needs that calls the functions *called*, by the name that it calls."""
    return {INSTEAD.get(name, name): _MADE[name] for name in called if name in _MADE}


def _size(value: Any) -> int:
    """The library counts the bytes of a text."""
    if isinstance(value, str | bytes | list | dict):
        return len(cast(Sized, value))
    raise TypeError(f"size() takes a text, a list or a mapping, {_not(value)}")


def _string(value: Any) -> str:
    """Called only for values that the library does not take."""
    if isinstance(value, bool):
        return "true" if value else "false"
    raise TypeError(f"string() takes a number, a text, a truth value or a time, {_not(value)}")


def _not(value: object) -> str:
    return "not null" if value is None else f"not {kind_of(value)}"


_MADE: Mapping[str, Callable[[Any], Any]] = {"size": _size, "string": _string}

ROOTS = ("context", "input", "output", "result")

# What a result has besides its fields.
_MORE = ("success", "tools_used")
# What is in the process only, and no JSON.
_LEFT_OUT = {"local"}

RESULT_FIELDS = (
    *(name for name in AgentResult.__struct_fields__ if name not in _LEFT_OUT),
    *_MORE,
)
_STRUCTS = ("error", "usage", "cost", "rate_limit", "handoff")
# These say nothing when they are empty, as in the flat contract.
_QUIET = ("usage", "metadata", "provider_data")


def is_free(path: tuple[str, ...]) -> bool:
    """Whether what stands at *path* of a result has names of its own, so that none is known."""
    return len(path) > (2 if path[0] in _STRUCTS else 1)


class ResultFields(Mapping[str, Any]):
    """A result as expressions see it: a field is absent where nothing is known."""

    def __init__(self, result: AgentResult[Any]) -> None:
        self._result = result
        self._made: JsonObject = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in RESULT_FIELDS:
                raise KeyError(name)
            value: object = getattr(self._result, name)
            if value is None or (name in _QUIET and not value):
                raise KeyError(name)
            self._made[name] = _plain(value)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in RESULT_FIELDS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Variables(dict[str, Any]):
    """The names that an expression can read; ``result`` is made when one reads it.

    Args:
        names: context, input, output, and the item of a foreach.
        result: Gives the result.
    """

    __slots__ = ("_result",)

    def __init__(
        self, names: Mapping[str, object], result: Callable[[], AgentResult[Any]] | None = None
    ) -> None:
        super().__init__(names)
        self._result = result

    def __missing__(self, name: str) -> Any:
        if name != "result":
            raise KeyError(name)
        made: Mapping[str, Any] = {}
        if self._result is not None:
            made = ResultFields(self._result())
        self[name] = made
        return made

    def but(self, name: str, value: object) -> Variables:
        """The same with one name more, which is among the context's too where that has no such."""
        context: object = self.get("context")
        names = {**self, name: value}
        if isinstance(context, Mapping) and name not in context:
            names["context"] = {**cast("Mapping[str, object]", context), name: value}
        return Variables(names, self._result)


def _plain(value: object) -> Any:
    if isinstance(value, RateLimitState):
        windows: list[dict[str, object]] = [
            {**msgspec.structs.asdict(window), "exhausted": window.exhausted}
            for window in value.windows
        ]
        return cast("Any", {"limited": value.limited, **_known(value), "windows": windows})
    return to_free_json(value)[0]


def _known(state: RateLimitState) -> dict[str, object]:
    return {} if state.retry_after is None else {"retry_after": state.retry_after}


Path: TypeAlias = tuple[str, ...]
# The names that are read of a mapping; None is all of it.
Tree: TypeAlias = "dict[str, Tree] | None"

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PLAIN_PATH = re.compile(rf"\s*{_NAME}(\s*\.\s*{_NAME})*\s*")
_TOKEN = re.compile(
    r"//[^\n]*|"
    # In a raw text a backslash is one, also before its end.
    r"(?:[rR][bB]?|[bB][rR])(?!\"\"\"|''')(?:\"[^\"\n]*\"|'[^'\n]*')|"
    r'[rRbB]{0,2}(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    rf"|(?P<path>{_NAME}(?:\s*\.\s*{_NAME})*)(?P<call>\s*\()?"
    r"|[0-9][\w.]*|(?P<other>\S)"
)
_BOUND = re.compile(
    rf"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*({_NAME})\s*,(?:\s*({_NAME})\s*,)?"
)
# Not names but values and operators.
_WORDS = frozenset(("true", "false", "null", "in"))


def paths_of(source: str) -> Iterator[tuple[Path, int, int]]:
    """The chains of names in *source* that begin with a name, with their places."""
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


def position(source: str, at: int) -> tuple[int, int]:
    """Line and column of the character *at*, both from 1."""
    line = source.count("\n", 0, at) + 1
    return line, at - (source.rfind("\n", 0, at) + 1) + 1


def with_calls(source: str, names: Mapping[str, str]) -> str:
    """*source* with other functions called.

    Args:
        source: An expression that can be parsed.
        names: What to call in place of what, by the last part of its name.
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
    """The names that macros such as ``map`` bind in *source*."""
    return {name for pair in _BOUND.findall(source) for name in pair if name}


def tree_of(paths: Collection[Path]) -> Tree:
    """What *paths* lead to as one tree; None is all of it."""
    if () in paths:
        return None
    below: dict[str, list[Path]] = {}
    for name, *rest in paths:
        below.setdefault(name, []).append(tuple(rest))
    return {name: tree_of(rest) for name, rest in below.items()}


def only_path(source: str) -> Path | None:
    """The path that is the whole of *source*, None where there is more to it."""
    if not _PLAIN_PATH.fullmatch(source):
        return None
    return tuple(part.strip() for part in source.split("."))


def pick(scope: Variables, reads: Mapping[str, Tree]) -> dict[str, Any]:
    """The parts of *scope* that *reads* names, in mappings of their own, and nothing else of it."""
    return {root: _part(scope[root], tree) for root, tree in reads.items()}


def _part(value: Any, tree: Tree) -> Any:
    # A dict is looked for first: it is what a value nearly always is, and a role takes longer.
    if type(value) is not dict and not isinstance(value, Mapping):
        return value
    if tree is None:
        return dict(cast("Mapping[str, Any]", value))
    found = cast("Mapping[str, Any]", value)
    return {
        name: found[name] if below is None else _part(found[name], below)
        for name, below in tree.items()
        if name in found
    }


def fill(value: Mapping[str, Any], tree: Tree, above: Path = ()) -> dict[str, Any]:
    """*value*, a result, with null where *tree* leads to nothing that is known of it."""
    filled = dict(value)
    for name, below in (tree or {}).items():
        path = (*above, name)
        if is_free(path):
            continue
        if below is None:
            filled.setdefault(name, None)
        elif isinstance(filled.get(name, {}), dict):
            filled[name] = fill(filled.get(name, {}), below, path)
    return filled
