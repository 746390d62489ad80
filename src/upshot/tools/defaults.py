"""Defaults: what a schema says of what is absent, at the root and deep inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from ..contract import Json, JsonObject
from .place import ABSENT, Absent, Place, changed, found_at

if TYPE_CHECKING:
    from jsonschema_rs import Validator

__all__ = ["Defaults"]


class Defaults:
    """The defaults of one schema, read once.

    Args:
        schema: JSON Schema of an object.
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._own = dict(_defaults_of(schema))
        bare = {
            key: {word: one for word, one in item.items() if word != "default"}
            if isinstance(item, dict)
            else item
            for key, item in _properties(schema).items()
        }
        # Most schemas have none inside, and then nobody has to look for where they apply.
        self._inside = _has_defaults({**schema, "properties": bare}) or (
            bool(self._own) and _comes_back(schema)
        )

    def fill(self, value: JsonObject, validator: Validator) -> JsonObject:
        """*value* with the default of everything that is absent.

        Args:
            value: Arguments that fit the schema.
            validator: The schema; it knows which of its parts apply where.

        Returns:
            *value* itself where nothing is absent, else a copy.
        """
        missing = {key: one for key, one in self._own.items() if key not in value}
        filled = {**value, **missing} if missing else value
        if not self._inside:
            return filled
        changes = list(self._missing(value, validator))
        return cast("JsonObject", changed(filled, changes)) if changes else filled

    def _missing(self, value: JsonObject, validator: Validator) -> Iterator[tuple[Place, Json]]:
        for place, schema in self._applied(value, validator):
            holder = found_at(value, place)
            if isinstance(holder, dict):
                for name, default in _defaults_of(schema):
                    if name not in holder:
                        yield (*place, name), default

    def _applied(
        self, value: JsonObject, validator: Validator
    ) -> Iterator[tuple[Place, JsonObject]]:
        """Every part of the schema that holds somewhere in *value*, the weightiest last."""
        details = cast("list[dict[str, str]]", validator.evaluate(value).list()["details"])
        wrong = {one["evaluationPath"] for one in details if not one["valid"]}
        seen: set[tuple[str, str]] = set()
        for one in reversed(details):
            where = (one["schemaLocation"], one["instanceLocation"])
            # A branch that does not hold says nothing, whatever holds in parts of it.
            if where in seen or _stands_under(one["evaluationPath"], wrong):
                continue
            seen.add(where)
            part = found_at(self._schema, _steps(self._schema, _pointer_in(where[0])))
            if isinstance(part, dict) and "properties" in part:
                yield _steps(value, where[1]), part


def _pointer_in(location: str) -> str:
    """The pointer in a schema's location, whose base is of no interest."""
    base, mark, fragment = location.partition("#")
    return unquote(fragment) if mark else base


def _stands_under(path: str, wrong: set[str]) -> bool:
    if not wrong:
        return False
    while path not in wrong:
        if not path:
            return False
        path = path.rpartition("/")[0]
    return True


def _steps(value: Json, pointer: str) -> Place:
    """The steps of a JSON pointer into *value*; those that lead nowhere are kept as text."""
    steps: list[str | int] = []
    at: Json | Absent = value
    for text in pointer.split("/")[1:]:
        name = text.replace("~1", "/").replace("~0", "~")
        step = int(name) if isinstance(at, list) and name.isdecimal() else name
        steps.append(step)
        at = ABSENT if isinstance(at, Absent) else found_at(at, (step,))
    return tuple(steps)


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _defaults_of(schema: JsonObject) -> Iterator[tuple[str, Json]]:
    for name, one in _properties(schema).items():
        if isinstance(one, dict) and "default" in one:
            yield name, one["default"]


def _has_defaults(schema: Json) -> bool:
    if isinstance(schema, list):
        return any(map(_has_defaults, schema))
    if not isinstance(schema, dict):
        return False
    return "default" in schema or any(map(_has_defaults, schema.values()))


def _comes_back(schema: Json) -> bool:
    """Whether a reference may lead to the root, or to what stands right below it."""
    if isinstance(schema, list):
        return any(map(_comes_back, schema))
    if not isinstance(schema, dict):
        return False
    target = schema.get("$ref")
    if isinstance(target, str) and not target.startswith(("#/$defs/", "#/definitions/")):
        return True
    return "$dynamicRef" in schema or any(map(_comes_back, schema.values()))
