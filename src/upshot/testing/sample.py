"""Sample: arguments made up from a tool's schema, for suites that were given none."""

from __future__ import annotations

import math
from typing import cast

from ..contract import Json, JsonObject

__all__ = ["sample_of"]

# So deep a schema refers to itself.
_MAX_DEPTH = 20
_TEXTS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "somebody@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
}


def sample_of(schema: JsonObject) -> JsonObject:
    """An object that fits *schema* as far as its plain words say: what is required, small values.

    Patterns and conditions are not looked at.
    """
    made = _made(schema, schema, 0)
    return made if isinstance(made, dict) else {}


def _made(schema: Json, root: JsonObject, depth: int) -> Json:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    for word in ("enum", "examples"):
        if choices := _list(schema.get(word)):
            return choices[0]
    if isinstance(place := schema.get("$ref"), str):
        return _made(_found(place, root), root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if choices := _list(schema.get(word)):
            # Null says the least of what a tool takes.
            best = next((one for one in choices if one != {"type": "null"}), None)
            return _made({**schema, **cast("JsonObject", best or {}), word: []}, root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    kinds = _list(schema.get("type")) or [schema.get("type")]
    match next((kind for kind in kinds if kind != "null"), None):
        case "object":
            named = cast("JsonObject", schema.get("properties", {}))
            needed = (name for name in _list(schema.get("required")) if isinstance(name, str))
            return {name: _made(named.get(name), root, depth + 1) for name in needed}
        case "array":
            items = _list(schema.get("prefixItems"))
            if items:
                return [_made(one, root, depth + 1) for one in items]
            count = max(1, int(_number(schema, "minItems", 1)))
            return [_made(schema.get("items"), root, depth + 1)] * count
        case "string":
            text = _TEXTS.get(str(schema.get("format")), "1")
            return text.ljust(int(_number(schema, "minLength", 0)), "1")
        case "integer":
            return int(_within(schema))
        case "number":
            return _within(schema)
        case "boolean":
            return True
        case _:
            return None


def _within(schema: JsonObject) -> float:
    """One, or a number near the limits of *schema* that they let pass."""
    step = _number(schema, "multipleOf", 1)
    bounds = [
        _number(schema, word, math.nan)
        for word in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    ]
    low = next((one for one in bounds[:2] if not math.isnan(one)), math.nan)
    high = next((one for one in bounds[2:] if not math.isnan(one)), math.nan)
    near = (low, low + step, -(-low // step) * step, high, high - step, high // step * step)
    for one in (1, step, 2 * step, *near, (low + high) / 2):
        too_low, too_high = one < bounds[0] or one <= bounds[1], one > bounds[2] or one >= bounds[3]
        if not math.isnan(one) and not too_low and not too_high and not _has_rest(schema, one):
            return one
    return 1


def _has_rest(schema: JsonObject, number: float) -> bool:
    step = schema.get("multipleOf")
    return isinstance(step, int | float) and number % step != 0


def _number(schema: JsonObject, word: str, otherwise: float) -> float:
    found = schema.get(word)
    return found if isinstance(found, int | float) else otherwise


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _found(place: str, root: JsonObject) -> Json:
    """What a reference of the form ``#/$defs/Name`` names."""
    found: Json = root
    for step in place.lstrip("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) and name else found
    return found
