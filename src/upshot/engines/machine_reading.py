"""Reading an expression without evaluating it: which parts of which names it needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias, cast

from .machine_scope import Scope, is_free

__all__ = [
    "Path",
    "Tree",
    "bound_names",
    "fill",
    "only_path",
    "paths_of",
    "pick",
    "position",
    "tree_of",
    "with_calls",
]

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


def pick(scope: Scope, reads: Mapping[str, Tree]) -> dict[str, Any]:
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
