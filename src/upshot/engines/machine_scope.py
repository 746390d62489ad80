"""Scope: what the expressions of a machine can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec

from ..contract import AgentResult, JsonObject, RateLimitState, to_free_json

__all__ = ["RESULT_FIELDS", "ROOTS", "ResultFields", "Scope", "is_free"]

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


class Scope(dict[str, Any]):
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

    def but(self, name: str, value: object) -> Scope:
        """The same with one name more, which is among the context's too where that has no such."""
        context: object = self.get("context")
        names = {**self, name: value}
        if isinstance(context, Mapping) and name not in context:
            names["context"] = {**cast("Mapping[str, object]", context), name: value}
        return Scope(names, self._result)


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
