"""Artifact: a named bundle of parts that a run produced."""

from __future__ import annotations

from .message import Part
from .value import JsonObject, Tagged, freeze

__all__ = ["Artifact"]


class _Bundle(Tagged, frozen=True, kw_only=False):
    name: str
    parts: tuple[Part, ...] = ()


class Artifact(_Bundle, frozen=True, kw_only=True):
    """What a run produced beside its answer.

    Attributes:
        name: The channel it was harvested from, or the tool that made it.
        parts: Its content; a stored large output is a ``File`` with id, media_type,
            size_bytes, sha256 and summary.
        metadata: Free JSON.
    """

    metadata: JsonObject = {}

    def __post_init__(self) -> None:
        freeze(self, "parts")
