"""What the expressions of a machine can read, and the parts of it that each one reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.result import AgentResult
from upshot.contract.usage import RateLimitState
from upshot.tools.definition.cel import NAME, Path

ROOTS = ("context", "input", "output", "result")

# What a result has besides its fields.
_MORE = ("success", "tools_used")
# Process-local values, which are not JSON.
_LEFT_OUT = {"local"}

RESULT_FIELDS = (
    *(name for name in AgentResult.__struct_fields__ if name not in _LEFT_OUT),
    *_MORE,
)
_STRUCTS = ("error", "usage", "cost", "rate_limit", "handoff")
# Absent when empty, as in the flat contract.
_QUIET = ("usage", "metadata", "provider_data")


def is_free(path: tuple[str, ...]) -> bool:
    """Whether *path* of a result is below its known fields, where any name may occur."""
    return len(path) > (2 if path[0] in _STRUCTS else 1)


class ResultFields(Mapping[str, Any]):
    """A result as expressions see it: unknown fields are absent."""

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
        result: Returns the result.
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
        """Return a copy with one more name; the context gets it too, unless it has that name."""
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


# The names that are read from a mapping; None means all of it.
Tree: TypeAlias = "dict[str, Tree] | None"

_PLAIN_PATH = re.compile(rf"\s*{NAME}(\s*\.\s*{NAME})*\s*")


def tree_of(paths: Collection[Path]) -> Tree:
    """Return *paths* as one tree; None is everything."""
    if () in paths:
        return None
    below: dict[str, list[Path]] = {}
    for name, *rest in paths:
        below.setdefault(name, []).append(tuple(rest))
    return {name: tree_of(rest) for name, rest in below.items()}


def only_path(source: str) -> Path | None:
    """Return the path that is the whole of *source*, None if there is more to it."""
    if not _PLAIN_PATH.fullmatch(source):
        return None
    return tuple(part.strip() for part in source.split("."))


def pick(scope: Variables, reads: Mapping[str, Tree]) -> dict[str, Any]:
    """Return copies of only the parts of *scope* that *reads* names."""
    return {root: _part(scope[root], tree) for root, tree in reads.items()}


def _part(value: Any, tree: Tree) -> Any:
    # A dict is checked for first: nearly every value is one, and isinstance of a Mapping is slow.
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
    """Return *value*, a result, with null for the fields in *tree* that are unknown."""
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
