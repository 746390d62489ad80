"""Keywords: what people write by hand, told at once where a name is misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ..errors import Misuse

__all__ = ["ArgumentsMeta", "KeywordMeta"]


class KeywordMeta(msgspec.StructMeta):
    """Makes a struct that names the nearest field where a keyword is unknown.

    Decoding does not come by here, and passes over fields that it does not know.
    """

    # A type checker reads the fields themselves, and knows misspelt ones already.
    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Make the struct, or raise ``Misuse``."""
            if args:
                raise Misuse(f"{cls.__name__} takes keywords only, such as {_first(cls)}=")
            for name in fields:
                if name not in cls.__struct_fields__:
                    raise Misuse(_no_field(cls, name, cls.__struct_fields__))
            return super().__call__(**fields)


class ArgumentsMeta(type):
    """Makes an object and says what is wrong with the arguments where they do not fit."""

    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Make the object, or raise ``Misuse``."""
            try:
                return super().__call__(*args, **fields)
            except TypeError as error:
                wrong = _misfit(cls, args, fields)
                if not wrong:
                    # It is not of the call.
                    raise
                raise Misuse(wrong) from error

        @property
        def __signature__(cls):
            """What the class takes, for help and editors: not what ``__call__`` above does."""
            from inspect import signature

            known = signature(cls.__init__)
            return known.replace(parameters=[*known.parameters.values()][1:])


def _misfit(kind: type, args: tuple[object, ...], fields: dict[str, object]) -> str:
    """What is wrong with the arguments of a call, "" where nothing is."""
    from inspect import signature

    known = signature(kind.__init__)
    names = [name for name in known.parameters if name != "self"]
    for name in fields:
        if name not in names:
            return _no_field(kind, name, names)
    try:
        known.bind(None, *args, **fields)
    except TypeError as error:
        return f"{kind.__name__}: {error}; it takes {', '.join(names)}"
    return ""


def _first(kind: type[msgspec.Struct]) -> str:
    return kind.__struct_fields__[0]


def _no_field(kind: type, name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    names = tuple(names)
    near = get_close_matches(name, names, n=1)
    hint = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}"
    return f"{kind.__name__} has no field {name!r}{hint}"
