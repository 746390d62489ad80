"""Constraints of annotated-types, which pydantic's own types are made of, as msgspec has them.

Source:
    annotated-types 0.7 and 0.8 (README), read in 2026.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec

__all__ = ["holds_constraints", "to_fields", "with_constraints"]

_BOUNDS = {
    "Gt": "gt",
    "Ge": "ge",
    "Lt": "lt",
    "Le": "le",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
}
# They say something to readers, and limit nothing.
_WORDS = ("Unit", "DocInfo")
_OF_META = (*_BOUNDS.values(), "pattern", "title", "description")


def with_constraints(annotation: object) -> object:
    """*annotation* with what annotated-types say in it as ``msgspec.Meta``.

    Raises:
        TypeError: A constraint cannot be told to a model.
    """
    return annotation if _module() is None else _rewritten(annotation, _metas)


def to_fields(annotation: object) -> object:
    """*annotation* for pydantic, which reads no ``msgspec.Meta``: as its own ``Field``."""
    return _rewritten(annotation, _fields)


def holds_constraints(annotation: object) -> bool:
    """Whether annotated-types say something in *annotation* itself."""
    module = _module()
    if module is None:
        return False
    extras = getattr(annotation, "__metadata__", ())
    if any(_name_in(module, one) for one in extras):
        return True
    return any(map(holds_constraints, get_args(annotation)))


def _module() -> ModuleType | None:
    # Who annotates with them has loaded them; nobody else has to.
    return sys.modules.get("annotated_types")


def _rewritten(
    annotation: object, rewrite: Callable[[Iterable[object]], Iterable[object]]
) -> object:
    origin = get_origin(annotation)
    if origin is None or origin is Literal:
        return annotation
    if hasattr(annotation, "__metadata__"):
        base, *extras = get_args(annotation)
        return _annotated(_rewritten(base, rewrite), list(rewrite(extras)))
    old = get_args(annotation)
    new = tuple(_rewritten(one, rewrite) for one in old)
    if all(one is other for one, other in zip(new, old, strict=True)):
        return annotation
    if origin in (Union, UnionType):
        return _union(new)
    return origin[new]


def _annotated(base: object, extras: list[object]) -> object:
    if not extras:
        return base
    metas = [one for one in extras if isinstance(one, msgspec.Meta) and _limits(one)]
    if metas and get_origin(base) in (Union, UnionType):
        # msgspec takes limits only on what they limit, and null is never meant.
        members = [one if one is NoneType else _annotated(one, [*metas]) for one in get_args(base)]
        return _annotated(_union(members), [one for one in extras if one not in metas])
    return Annotated[(cast("Any", base), *extras)]


def _union(members: Iterable[object]) -> object:
    return Union[tuple(members)]  # noqa: UP007  # its members are known only at run time


def _limits(meta: msgspec.Meta) -> bool:
    return any(getattr(meta, name, None) is not None for name in (*_BOUNDS.values(), "pattern"))


def _name_in(module: ModuleType, item: object) -> str:
    """What *item* is called in annotated-types, "" if it is not of it."""
    kind = type(item)
    return kind.__name__ if getattr(module, kind.__name__, None) is kind else ""


def _metas(extras: Iterable[object]) -> Iterator[object]:
    module = cast("ModuleType", _module())
    for item in extras:
        name = _name_in(module, item)
        if not name:
            yield item
        elif name in _BOUNDS:
            word = _BOUNDS[name]
            yield msgspec.Meta(**{word: getattr(item, word)})
        elif hasattr(type(item), "__is_annotated_types_grouped_metadata__"):
            yield from _metas(cast("Iterable[object]", item))
        elif name == "Timezone" and (zone := cast("Any", item).tz) in (None, ...):
            yield msgspec.Meta(tz=zone is ...)
        elif name not in _WORDS:
            raise TypeError(f"{name} cannot be told to a model")


def _fields(extras: Iterable[object]) -> Iterator[object]:
    from pydantic import Field

    for item in extras:
        if not isinstance(item, msgspec.Meta):
            yield item
            continue
        said = {name: getattr(item, name) for name in _OF_META}
        more = cast("dict[str, Any]", item.extra_json_schema)
        yield Field(
            **{name: one for name, one in said.items() if one is not None},
            json_schema_extra=more or None,
        )
