"""Keyword structs: what people write by hand, told at once where a name is misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..errors import Misuse

__all__ = ["KeywordMeta"]


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
                    raise Misuse(f"{cls.__name__} has no field {name!r}{_hint(cls, name)}")
            return super().__call__(**fields)


def _first(kind: type[msgspec.Struct]) -> str:
    return kind.__struct_fields__[0]


def _hint(kind: type[msgspec.Struct], name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, kind.__struct_fields__, n=1)
    return (
        f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(kind.__struct_fields__)}"
    )
