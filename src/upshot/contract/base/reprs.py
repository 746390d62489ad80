"""The repr of values: one line, without fields that equal their default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from reprlib import Repr
from types import FunctionType
from typing import Any, cast

import msgspec

from upshot.contract.base.checks import has_own_output

_MAX_TEXT = 80
_MAX_ITEMS = 4


class _Probe(msgspec.Struct):
    any: int = msgspec.field(default_factory=int)


_FACTORY = type(cast("object", _Probe.__struct_defaults__[0]))


class _Brief(Repr):
    """Truncates long texts and collections, nested ones too."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _MAX_TEXT
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = _MAX_ITEMS

    def repr1(self, x: object, level: int) -> str:
        if isinstance(x, type | FunctionType):
            return x.__qualname__
        # A struct with its own repr keeps it.
        if isinstance(x, msgspec.Struct) and "__repr__" not in vars(type(x)):
            return self.draw(x, level)
        return repr(x) if isinstance(x, msgspec.Struct) else super().repr1(x, level)

    def draw(self, value: object, level: int, without: Iterable[str] = ()) -> str:
        """Return the repr of *value* without these fields."""
        if level <= 0:
            return f"{type(value).__name__}(...)"
        changed = _changed_fields(value)
        fields = [f"{n}={self.repr1(x, level - 1)}" for n, x in changed if n not in without]
        return f"{type(value).__name__}({', '.join(fields)})"


_BRIEF = _Brief()


def portray(value: msgspec.Struct) -> str:
    """Return the repr of *value* without fields that equal their default."""
    fields = ", ".join(f"{name}={field!r}" for name, field in _changed_fields(value))
    return f"{type(value).__name__}({fields})"


def portray_briefly(value: object, *, without: Iterable[str] = ()) -> str:
    """Return the repr of a struct or dataclass without these fields, with long values truncated."""
    return _BRIEF.draw(value, _BRIEF.maxlevel, frozenset(without))


def portray_result(result: Any) -> str:
    """Return the repr of an AgentResult: status, the start of the answer, and what the run used."""
    return f"{type(result).__name__}({', '.join(filter(None, _facts_of(result)))})"


def _facts_of(result: Any) -> Iterator[str]:
    yield _status_of(result)
    yield from (f"waits for {one.id!r}" for one in result.pending)
    if has_own_output(result.output, result.content):
        yield f"output={_cut(repr(result.output))}"
    elif result.content is not None:
        yield _BRIEF.repr(result.content)
    yield _count(len(result.messages), "message")
    yield _count(len(result.tool_outcomes), "tool call")
    yield _count(len(result.warnings), "warning")
    yield _count(result.usage.total_tokens or 0, "token")
    if result.cost is not None and result.cost.total is not None:
        yield f"{result.cost.total} {result.cost.currency}"
    yield f"{result.duration_ms} ms" if result.duration_ms else ""
    yield result.run_id


def _status_of(result: Any) -> str:
    status = str(result.status)
    if result.error is None:
        return status
    why = _cut(result.error)
    # Some errors have the same code as the status.
    return why if why.startswith(f"{status}:") else f"{status}: {why}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else ""


def _cut(shown: object) -> str:
    text = str(shown)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _changed_fields(value: object) -> Iterator[tuple[str, object]]:
    """Yield the fields that do not equal their default."""
    names, defaults = _fields_of(type(value))
    for name in names:
        field = cast("object", getattr(value, name))
        if name not in defaults or not _is_usual(field, defaults[name]):
            yield name, field


def _is_usual(field: object, usual: object) -> bool:
    if field is usual:
        return True
    # Types first: 0 == False.
    if type(field) is not type(usual):
        return False
    try:
        return bool(field == usual)
    # A repr must never raise, even if a foreign object in the value, such as an array, does not
    # compare to a truth value.
    except Exception:
        return False


@cache
def _fields_of(kind: type) -> tuple[tuple[str, ...], dict[str, object]]:
    """Return the names of all fields, and their defaults if any."""
    if is_dataclass(kind):
        known = {one.name: one.default for one in fields(kind) if one.default is not MISSING}
        return tuple(one.name for one in fields(kind)), known
    struct = cast("type[msgspec.Struct]", kind)
    return struct.__struct_fields__, _defaults_of(struct)


def _defaults_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    # Not with msgspec.structs.fields, which resolves annotations: a repr must not fail on one.
    defaults = kind.__struct_defaults__
    names = kind.__struct_fields__[len(kind.__struct_fields__) - len(defaults) :]
    return {
        name: cast("Any", default).factory() if isinstance(default, _FACTORY) else default
        for name, default in zip(names, defaults, strict=True)
        if default is not msgspec.NODEFAULT
    }
