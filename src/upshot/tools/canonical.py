"""Canonical JSON: equal arguments give equal bytes, so that they can be compared by digest."""

from __future__ import annotations

import msgspec

from ..contract import Json

__all__ = ["canonical_json"]

_encode = msgspec.json.Encoder(order="sorted").encode


def canonical_json(value: Json) -> bytes:
    """Compact JSON of *value*, keys sorted, integral floats as integers."""
    return _encode(_with_integers(value))


def _with_integers(value: Json) -> Json:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        # Most arguments are texts, and a call for each of them would be most of the work.
        return {
            name: item if type(item) is str else _with_integers(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return value
