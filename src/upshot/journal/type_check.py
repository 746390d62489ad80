"""Whether an event's JSON could be read back, without making the event again.

Reading an event runs the checks of every value in it, which costs as much as all else that a
journal does for it. They ran when the values were made; what they leave open is types. So the JSON
is read as structs of the same fields and types that have no checks of their own.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec

from upshot.contract.base.structs import Local
from upshot.contract.events import Event

_bare: dict[Any, Any] = {}
# The structs take 15 ms to make. A process that logs no more than one short run does without.
_MIN_EVENTS = 100
_asked = count()


def is_surely_readable(line: bytes) -> bool:
    """Whether *line* has the types of an event."""
    if next(_asked) < _MIN_EVENTS:
        return False
    try:
        _decoder().decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, NotImplementedError):
        return False
    return True


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_bare_form(Event), dec_hook=_read_other)


def _bare_form(hint: Any) -> Any:
    """The same type with structs that have no checks."""
    origin, arguments = get_origin(hint), get_args(hint)
    struct = origin or hint
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
        if hint not in _bare:
            # A class within itself is not looked into again.
            _bare[hint] = Any
            _bare[hint] = _bare_struct(hint, struct)
        return _bare[hint]
    if isinstance(hint, UnionType) or origin is Union:
        return Union[tuple(map(_bare_form, arguments))]  # noqa: UP007  # made at run time
    if origin in (tuple, list, dict, frozenset):
        inner = tuple(one if one is ... else _bare_form(one) for one in arguments)
        return cast("Any", origin)[inner]
    return hint


def _bare_struct(hint: Any, struct: type[msgspec.Struct]) -> Any:
    config = cast("Any", struct).__struct_config__
    fields: list[Any] = []
    for field in msgspec.structs.fields(hint):
        kind = _bare_form(field.type)
        # Which value is the default does not matter here.
        fields.append((field.name, kind) if field.required else (field.name, kind, None))
    return msgspec.defstruct(
        struct.__name__, fields, kw_only=True, gc=False, tag=config.tag, tag_field=config.tag_field
    )


def _read_other(kind: Any, value: object) -> object:
    if kind is Local:
        return value
    raise NotImplementedError
