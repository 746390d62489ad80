"""Reading an expression without evaluating it: which parts of which names it needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias, cast

from .machine_scope import Scope, is_free

__all__ = ["Path", "bound_names", "fill", "only_path", "paths_of", "pick", "position", "shortest"]

Path: TypeAlias = tuple[str, ...]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PLAIN_PATH = re.compile(rf"\s*{_NAME}(\s*\.\s*{_NAME})*\s*")
_TOKEN = re.compile(
    r'[rRbB]{0,2}(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    rf"|(?P<path>{_NAME}(?:\s*\.\s*{_NAME})*)(?P<call>\s*\()?"
    r"|[0-9][\w.]*|(?P<other>\S)"
)
_BOUND = re.compile(
    rf"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*({_NAME})\s*,(?:\s*({_NAME})\s*,)?"
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


def bound_names(source: str) -> set[str]:
    """The names that macros such as ``map`` bind in *source*."""
    return {name for pair in _BOUND.findall(source) for name in pair if name}


def shortest(paths: Collection[Path]) -> tuple[Path, ...]:
    """The paths that no other is the beginning of."""
    return tuple(
        sorted(path for path in paths if not any(path[:n] in paths for n in range(len(path))))
    )


def only_path(source: str) -> Path | None:
    """The path that is the whole of *source*, None where there is more to it."""
    if not _PLAIN_PATH.fullmatch(source):
        return None
    return tuple(part.strip() for part in source.split("."))


def pick(scope: Scope, reads: Mapping[str, Collection[Path]]) -> dict[str, Any]:
    """The parts of *scope* that *reads* names, and nothing else of it."""
    return {root: _part(scope[root], paths) for root, paths in reads.items()}


def _part(value: Any, paths: Collection[Path]) -> Any:
    """What *paths* lead to in *value*, in mappings of their own."""
    if () in paths or not isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
    below: dict[str, list[Path]] = {}
    for name, *rest in paths:
        below.setdefault(name, []).append(tuple(rest))
    found = cast("Mapping[str, Any]", value)
    return {name: _part(found[name], rest) for name, rest in below.items() if name in found}


def fill(value: Any, paths: Collection[Path]) -> Any:
    """*value*, a result, with null where *paths* lead to nothing that is known of it."""
    filled = dict(value)
    for path in paths:
        holder: dict[str, Any] = filled
        for place, name in enumerate(path):
            is_last = place == len(path) - 1
            if is_free(path[: place + 1]):
                break
            if is_last:
                holder.setdefault(name, None)
            elif isinstance(holder.get(name, {}), dict):
                holder[name] = holder = dict(holder.get(name, {}))
            else:
                break
    return filled
